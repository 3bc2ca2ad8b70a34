//! Dead code: equations whose outputs nobody reads are dropped.
//!
//! One walk backwards. Equations with effects stay. A call of which only some outputs are read is
//! replaced by a call of a function that computes only those ([`prune`]).

use crate::jvp::{read, same_signature};
use crate::regions::Transforms;
use cranelift_entity::SecondaryMap;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{Effects, Op, Prune};
use tapeloom_ir::{Atom, Derived, FuncId, Function, Key, Module, Operands, Problem, ValueId};

/// The same function without dead equations.
///
/// # Errors
/// None that a well-formed module can cause.
pub fn dce(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    let function = sweep(module, (*module.get(f)).clone())?;
    module.add(function)
}

/// `f` with only the results marked `used`, and which of its parameters are still read.
///
/// # Errors
/// None that a well-formed module can cause.
pub fn prune(
    module: &mut Module,
    f: FuncId,
    used: &[bool],
) -> Result<(FuncId, Vec<bool>), Problem> {
    let key = Key::masked("prune", f, used);
    if let Some(Derived { functions, mask }) = module.recall(&key) {
        return Ok((functions[0], mask.clone()));
    }
    let mut function = (*module.get(f)).clone();
    let mut keep = used.iter();
    function.results.retain(|_| keep.next() == Some(&true));
    let mut function = sweep(module, function)?;
    let uses = function.use_counts();
    let mut mask: Vec<bool> = function.all_params().map(|p| uses[p] > 0).collect();
    if planted(Fault::PruneMask) {
        let types = function.param_types();
        for i in 1..mask.len() {
            if mask[i] != mask[i - 1] && types[i] == types[i - 1] {
                mask.swap(i, i - 1);
                break;
            }
        }
    }
    function.params.retain(|p| uses[*p] > 0);
    function.linear_params.retain(|p| uses[*p] > 0);
    // Close the gaps that dropped parameters left in the numbering.
    let function = copy_live(function, |_| true, |_| None)?;
    let id = module.add(function)?;
    module.remember(key, Derived { functions: vec![id], mask: mask.clone() });
    Ok((id, mask))
}

/// A smaller primitive for an equation, with the operands and outputs that it keeps.
type Smaller = (Op, Vec<bool>, Vec<bool>);

/// Removes dead equations from a function that is not in a module yet.
pub(crate) fn sweep(module: &mut Module, f: Function) -> Result<Function, Problem> {
    let mut live: SecondaryMap<ValueId, bool> = SecondaryMap::with_capacity(f.types.len());
    for v in f.results.iter().filter_map(|a| a.value()) {
        live[v] = true;
    }
    let mut keep = vec![false; f.equations.len()];
    let mut smaller: Vec<Option<Smaller>> = vec![None; f.equations.len()];
    let mut changed = false;
    for (i, e) in f.equations.iter().enumerate().rev() {
        let used: Vec<bool> = e.outputs.iter().map(|o| live[*o]).collect();
        let wanted = used.contains(&true) || e.op.effects(module) == Effects::Ordered;
        if !wanted {
            changed = true;
            continue;
        }
        keep[i] = true;
        let mut operands = vec![true; e.operands.len()];
        if used.contains(&false)
            && let Prune::Smaller { op, operands: ins, outputs } =
                e.op.prune(&mut Transforms, module, &used)?
        {
            operands = ins.clone();
            smaller[i] = Some((op, ins, outputs));
            changed = true;
        }
        for (a, on) in e.operands.iter().zip(operands) {
            if let (Atom::Value(v), true) = (a, on) {
                live[*v] = true;
            }
        }
    }
    if !changed {
        return Ok(f);
    }
    copy_live(f, |i| keep[i], |i| smaller[i].clone())
}

/// The equations that are kept, some replaced, renumbered.
fn copy_live(
    f: Function,
    keep: impl Fn(usize) -> bool,
    smaller: impl Fn(usize) -> Option<Smaller>,
) -> Result<Function, Problem> {
    let (mut draft, mut map) = same_signature(&f);
    for (i, e) in f.equations.iter().enumerate().filter(|(i, _)| keep(*i)) {
        let (op, ins, outs) = smaller(i).unwrap_or_else(|| {
            (e.op.clone(), vec![true; e.operands.len()], vec![true; e.outputs.len()])
        });
        let operands: Operands = e
            .operands
            .iter()
            .zip(&ins)
            .filter(|(_, on)| **on)
            .map(|(a, _)| read(&map, *a))
            .collect();
        let outputs: Vec<ValueId> =
            e.outputs.iter().zip(&outs).filter(|(_, on)| **on).map(|(o, _)| *o).collect();
        let types: Vec<_> = outputs.iter().map(|o| f.types[*o].clone()).collect();
        let new = draft.push(op, operands, &types, f.location(i));
        for (new, old) in new.iter().zip(outputs) {
            map[old] = Some((*new).into());
        }
    }
    draft.close(f.results.iter().map(|r| read(&map, *r)).collect())
}
