//! The price of residuals: the cost, for the linear function of a derivative, of reading a value of the forward
//! function.

use crate::passes::op_class::{OpClass, gives_floats};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::{Amortization, Atom, Function, Memory, Module, PlanContext, Type, ValueId};

/// The cost, for the linear function, of reading each value of the forward function. An argument of the whole program
/// costs nothing. A read or a copy of elements of another value costs as much as that value, and a computed value costs
/// all its bytes, since it has to be saved.
#[derive(Default)]
pub(crate) struct ReadCosts {
    /// Per value: the number of iterations over which the cost of saving the value's bytes is spread (its *share*).
    /// `None` for a value that is free to read. Empty for a function without regions, since only the rules of equations
    /// with regions ask for costs.
    shares: SecondaryMap<ValueId, Option<Amortization>>,
    /// The planning context of the function. Its field `memory` says whether overwritten arrays count as memory, whose
    /// old elements cannot be read again.
    context: PlanContext,
}

impl ReadCosts {
    /// Computes the cost of reading each value of `f`, given the costs `shares` of reading its parameters. If no
    /// equation of `f` runs another function, the result is empty.
    pub(crate) fn new(module: &Module, f: &Function, shares: &[Amortization]) -> ReadCosts {
        let mut found = ReadCosts::default();
        if f.equations.iter().all(|e| e.op.regions().is_empty()) {
            return found;
        }
        found.context = shares.iter().map(|s| s.context()).max().unwrap_or_default();
        for (p, share) in f.all_params().zip(shares) {
            found.shares[p] = Some(*share);
        }
        for e in &f.equations {
            let reads = match OpClass::of(&e.lower(module, f)) {
                // An element of an array that may be overwritten can be read again only if it was saved.
                OpClass::Moves => found.context.memory != Memory::Written || !gives_floats(f, e),
                OpClass::Cheap => !gives_floats(f, e),
                OpClass::Writes | OpClass::Dear => false,
            };
            // If an equation reads a part of an operand, the whole operand stays available, so the operand's cost is
            // spread over the parts that it contains.
            let elements = |ty: &Type| ty.as_array().map_or(1, |ty| ty.shape.elements().max(1));
            let part = e.outputs.iter().map(|o| elements(&f.types[*o])).sum::<usize>().max(1);
            let share = |a: &Atom| found.share(*a).apart(elements(&f.type_of(*a)).div_ceil(part));
            let share = match reads {
                true => {
                    let all = e.operands.iter().map(share);
                    all.min().unwrap_or(Amortization::FREE.with(found.context))
                }
                false => Amortization::OWN.with(found.context),
            };
            for o in &e.outputs {
                found.shares[*o] = Some(share);
            }
        }
        found
    }

    /// Returns the cost, for the linear function, of reading the value of the atom `a`.
    pub(crate) fn share(&self, a: Atom) -> Amortization {
        a.value().and_then(|v| self.shares[v]).unwrap_or(Amortization::FREE.with(self.context))
    }
}
