//! Finds *decisions*: equations whose result changes completely if a float operand changes by a rounding error.
//!
//! Examples are a comparison, the index of a largest element, a sort order, a conversion to an integer, `floor`. If
//! float residuals are saved rounded ([`Policy::Rounded`](tapeloom_ir::Policy)), no decision is recomputed from rounded
//! values: at a threshold, or a tie, the result would differ from that of the forward pass, and the derivative would be
//! that of another function. So
//!
//! - a decision is not recomputed in the linear function, unless its operands are available unrounded: its result is
//!   saved, in as few bits as possible ([`Prices`](super::cost::Prices));
//! - if the linear function contains a decision all the same, such as one in a call with a policy of its own, the
//!   residuals that it depends on are not rounded ([`pack`](super::packing::pack)).
//!
//! ```text
//! %1: f64[9] = sin %0            saved: f32[9]
//! %2: bool[9] = gt %1, 0.3       saved: u32[1]; not recomputed from the f32[9]
//! ```

use cranelift_entity::SecondaryMap;
use tapeloom_ir::prim::{Binding, Continuity, LoopSpec, Lowering, Region, TripCount};
use tapeloom_ir::{Atom, Code, Equation, FuncId, Function, Module, ValueId, deeper};

/// Returns whether the equation `e`, or a function that it runs, contains a decision that depends on a float
/// operand of `e` that is not `exact` (available unrounded).
pub(super) fn decides(
    module: &Module,
    f: &Function,
    e: &Equation,
    exact: &dyn Fn(ValueId) -> bool,
) -> bool {
    let rounded = |a: &Atom| a.value().is_some_and(|v| is_float(f, v) && !exact(v));
    e.operands.iter().any(rounded) && (jumps(module, f, e) || e.runs().any(|g| within(module, g)))
}

/// Returns, per parameter of `f`, linear ones last, whether a decision (a comparison, a sort, another discontinuous
/// function) in `f` depends on it.
pub(super) fn decisive(module: &Module, f: FuncId) -> Vec<bool> {
    let f = module.function(f);
    followed(module, f, &vec![false; f.results.len()])
}

/// Returns, per parameter of `f`, whether the parameter affects a decision (a discontinuous function of floats) in `f`,
/// or a decision in the caller through one of the results marked in `results`.
fn followed(module: &Module, f: &Function, results: &[bool]) -> Vec<bool> {
    let mut by: SecondaryMap<ValueId, bool> = SecondaryMap::with_capacity(f.types.len());
    let decided = f.results.iter().zip(results).filter(|(_, on)| **on);
    decided.filter_map(|(a, _)| a.value()).for_each(|v| by[v] = true);
    for e in f.equations.iter().rev() {
        let outputs: Vec<bool> = e.outputs.iter().map(|o| by[*o]).collect();
        for (a, on) in e.operands.iter().zip(operands(module, f, e, &outputs)) {
            if let Some(v) = a.value().filter(|_| on) {
                by[v] = true;
            }
        }
    }
    f.all_params().map(|p| by[p]).collect()
}

/// Returns, per operand of `e`, whether a decision (a discontinuous function of floats) depends on the operand, in `e`
/// or later. `outputs` says, per output of `e`, whether a later decision depends on the output.
fn operands(module: &Module, f: &Function, e: &Equation, outputs: &[bool]) -> Vec<bool> {
    let all = |on: bool| vec![on; e.operands.len()];
    let any = outputs.contains(&true);
    let regions = e.op.regions();
    if regions.is_empty() {
        return all(any || jumps(module, f, e));
    }
    if let Some((body, spec)) = e.op.as_loop() {
        return deeper(|| of_iterations(module, body, &spec, outputs, e.operands.len()));
    }
    let called = |r: &Region| {
        let g = module.function(r.function);
        let alike = r.role.is_call() && g.all_params().count() == e.operands.len();
        alike.then_some(g)
    };
    match regions.as_slice() {
        [only] if called(only).is_some() => {
            let g = module.function(only.function);
            deeper(|| followed(module, g, outputs))
        }
        // The operands of branches, of calls with derivative rules, and of loops that recompute their carries are not
        // examined one by one. If a decision depends on an output of the equation, or is made in a function that the
        // equation runs, the decision is assumed to depend on every operand.
        all_of_them => all(any || all_of_them.iter().any(|r| within(module, r.function))),
    }
}

/// Returns, per operand of a loop, whether a decision (a discontinuous function of floats) in any of its iterations
/// depends on the operand.
fn of_iterations(
    module: &Module,
    body: FuncId,
    spec: &LoopSpec,
    outputs: &[bool],
    operands: usize,
) -> Vec<bool> {
    let f = module.function(body);
    let mut results: Vec<bool> = outputs.to_vec();
    results.resize(f.results.len(), false);
    loop {
        let mut params = followed(module, f, &results);
        if let TripCount::While { condition, reads } = &spec.trip {
            // The condition of a while loop may contain a decision (a discontinuous function of floats), which then
            // determines the trip count.
            if within(module, *condition) {
                reads.iter().for_each(|p| params[*p] = true);
            }
        }
        let mut settled = true;
        for (p, slot) in spec.takes.iter().enumerate() {
            if let Binding::Carry(r) = slot {
                // If the loop has no iteration, the output of a carry is its initial value. So a decision that depends
                // on the output also depends on the initial value.
                params[p] |= results[*r];
                settled &= results[*r] == params[p];
                results[*r] = params[p];
            }
        }
        if settled {
            let mut all = vec![false; operands];
            for (k, p) in spec.params().enumerate() {
                if let Some(on) = all.get_mut(spec.lead() + k) {
                    *on = params[p];
                }
            }
            return all;
        }
    }
}

/// Returns whether `f`, or a function that it runs, contains a decision (a discontinuous function of floats).
fn within(module: &Module, f: FuncId) -> bool {
    let f = module.function(f);
    let inside = |g| deeper(|| within(module, g));
    f.equations.iter().any(|e| jumps(module, f, e) || e.runs().any(inside))
}

/// Returns whether an equation without regions is a decision: discontinuous in a float operand.
fn jumps(module: &Module, f: &Function, e: &Equation) -> bool {
    let float = |a: &Atom| a.value().is_some_and(|v| is_float(f, v));
    if !e.op.regions().is_empty() || !e.operands.iter().any(float) {
        return false;
    }
    match e.lower(module, f) {
        // `select` is continuous in the two values between which it selects. Its condition is a truth value: if it
        // depends on floats, the equation that computes it from floats is the decision.
        Lowering::Elementwise(Code::Select) => false,
        Lowering::Elementwise(code) if code.row().continuity == Continuity::Jumps => true,
        _ => e.outputs.iter().any(|o| !is_float(f, *o)),
    }
}

fn is_float(f: &Function, v: ValueId) -> bool {
    f.types[v].as_array().is_some_and(|ty| ty.dtype.is_float())
}
