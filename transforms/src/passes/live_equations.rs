//! Removes equations whose outputs are not read.
//!
//! One backward walk finds the values that are read. Equations with ordered effects stay. If only some outputs
//! of an equation are read, it is replaced by a smaller primitive, if there is one.

use cranelift_entity::SecondaryMap;
use tapeloom_ir::prim::{Effects, Op, Prune, Regions};
use tapeloom_ir::{Atom, Atoms, Draft, Function, Module, Operands, Problem, ValueId, rebuild};

/// A primitive that replaces an equation of which only some outputs are read, and for each operand and output of
/// the equation whether the primitive has it.
struct PrunedOp {
    op: Op,
    operands: Vec<bool>,
    outputs: Vec<bool>,
}

/// Removes from `f`, which is not in a module yet, the equations that no result and no ordered effect depends on.
pub(crate) fn sweep(
    regions: &mut dyn Regions,
    module: &mut Module,
    f: Function,
) -> Result<Function, Problem> {
    let mut live: SecondaryMap<ValueId, bool> = SecondaryMap::with_capacity(f.types.len());
    for v in f.results.iter().filter_map(|a| a.value()) {
        live[v] = true;
    }
    let mut keep = vec![false; f.equations.len()];
    let mut smaller: Vec<Option<PrunedOp>> = f.equations.iter().map(|_| None).collect();
    let mut changed = false;
    for (i, e) in f.equations.iter().enumerate().rev() {
        let used: Vec<bool> = e.outputs.iter().map(|o| live[*o]).collect();
        if !used.contains(&true) && e.op.effects(module) != Effects::Ordered {
            changed = true;
            continue;
        }
        keep[i] = true;
        if used.contains(&false)
            && let Prune::Smaller { op, operands, outputs } = e.op.prune(regions, module, &used)?
        {
            smaller[i] = Some(PrunedOp { op, operands, outputs });
            changed = true;
        }
        let read = |k: usize| smaller[i].as_ref().is_none_or(|s| s.operands[k]);
        for (k, a) in e.operands.iter().enumerate() {
            if let Atom::Value(v) = a
                && read(k)
            {
                live[*v] = true;
            }
        }
    }
    if !changed {
        return Ok(f);
    }
    rebuild(&f, |draft, i, operands| {
        Ok(match &smaller[i] {
            // The outputs of a dropped equation are not read, so no atom is needed.
            _ if !keep[i] => Atoms::new(),
            None => draft.copy(&f, i, operands),
            Some(part) => reduced(draft, &f, i, operands, part),
        })
    })
}

/// Emits the smaller primitive `part` for equation `i`; returns one atom per output of that equation.
fn reduced(
    draft: &mut Draft,
    f: &Function,
    i: usize,
    operands: Operands,
    part: &PrunedOp,
) -> Atoms {
    let old = &f.equations[i].outputs;
    let outputs = old.iter().zip(&part.outputs).filter(|(_, on)| **on).map(|(o, _)| *o);
    let types: Vec<_> = outputs.map(|o| f.types[o].clone()).collect();
    let operands = operands.into_iter().zip(&part.operands).filter(|(_, on)| **on).map(|(a, _)| a);
    let made = draft.push(part.op.clone(), operands.collect(), &types, f.origin(i));
    let mut made = made.into_iter();
    let output = |(old, on): (&ValueId, &bool)| {
        let new = if *on { made.next() } else { None };
        // An output that the smaller primitive does not have is not read, so any atom will do in its place.
        Atom::Value(new.unwrap_or(*old))
    };
    old.iter().zip(&part.outputs).map(output).collect()
}
