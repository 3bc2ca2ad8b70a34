//! What it costs the linear half of a function to have values of the forward half again.

use crate::passes::op_class::{OpClass, gives_floats};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::{Amortization, Atom, Function, Memory, Module, PlanContext, Type, ValueId};

/// What it costs the linear half of a function to have its values again: nothing for arguments of the whole,
/// and for what reads or moves elements of something what that costs; all of its bytes for what is computed.
#[derive(Default)]
pub(crate) struct Readable {
    /// Of those that are not free; empty where nobody asks.
    shares: SecondaryMap<ValueId, Option<Amortization>>,
    /// What holds of all that is kept.
    regime: PlanContext,
}

impl Readable {
    /// Nothing is looked at in a function that runs no other.
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
                // What is read of an array that may be overwritten is had again if it is kept.
                OpClass::Moves => found.regime.memory != Memory::Written || !gives_floats(f, e),
                OpClass::Cheap => !gives_floats(f, e),
                OpClass::Writes | OpClass::Dear => false,
            };
            // Who has a part again has all of it.
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

    /// What it costs to have an operand again.
    pub(crate) fn share(&self, a: Atom) -> Amortization {
        a.value().and_then(|v| self.shares[v]).unwrap_or(Amortization::FREE.with(self.regime))
    }
}
