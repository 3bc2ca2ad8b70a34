//! Costs of residuals: the cost to the linear half of reading a value of the forward half.

use crate::passes::op_class::{OpClass, gives_floats};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::{Amortization, Atom, Function, Memory, Module, PlanContext, Type, ValueId};

/// The cost to the linear half of each value of the forward half: nothing for arguments of the whole program;
/// for a read or a copy of elements of another value, that value's cost; for a computed value, all its bytes.
#[derive(Default)]
pub(crate) struct Readable {
    /// Per value: the iterations over which its cost is spread; free values have none. Empty for a function without
    /// regions, whose rules need no costs.
    shares: SecondaryMap<ValueId, Option<Amortization>>,
    /// The planning context of the function; its `memory` decides whether arrays that are overwritten can be read again.
    regime: PlanContext,
}

impl Readable {
    /// Computes the costs of the values of `f`, given the costs `shares` of its parameters. Computes nothing for a
    /// function that runs no other function.
    pub(crate) fn new(module: &Module, f: &Function, shares: &[Amortization]) -> Readable {
        let mut found = Readable::default();
        if f.equations.iter().all(|e| e.op.regions().is_empty()) {
            return found;
        }
        found.regime = shares.iter().map(|s| s.regime()).max().unwrap_or_default();
        for (p, share) in f.all_params().zip(shares) {
            found.shares[p] = Some(*share);
        }
        for e in &f.equations {
            let reads = match OpClass::of(&e.lower(module, f)) {
                // An element of an array that may be overwritten can be read again only if it was saved.
                OpClass::Moves => found.regime.memory != Memory::Written || !gives_floats(f, e),
                OpClass::Cheap => !gives_floats(f, e),
                OpClass::Writes | OpClass::Dear => false,
            };
            // If a part of an operand is read, the operand itself stays available, so its cost is spread over the part's
            // elements.
            let elements = |ty: &Type| ty.as_array().map_or(1, |ty| ty.shape.elements().max(1));
            let part = e.outputs.iter().map(|o| elements(&f.types[*o])).sum::<usize>().max(1);
            let share = |a: &Atom| found.share(*a).apart(elements(&f.type_of(*a)).div_ceil(part));
            let share = match reads {
                true => {
                    let all = e.operands.iter().map(share);
                    all.min().unwrap_or(Amortization::FREE.with(found.regime))
                }
                false => Amortization::OWN.with(found.regime),
            };
            for o in &e.outputs {
                found.shares[*o] = Some(share);
            }
        }
        found
    }

    /// Returns the cost to the linear half of reading the operand `a`.
    pub(crate) fn share(&self, a: Atom) -> Amortization {
        a.value().and_then(|v| self.shares[v]).unwrap_or(Amortization::FREE.with(self.regime))
    }
}
