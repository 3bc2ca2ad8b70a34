//! Decisions: equations whose result is another one altogether where a float that they read is off by a rounding.
//!
//! A comparison, an index of a largest element, an order, a conversion to an integer, `floor`. Where floats are
//! kept rounded ([`Policy::Rounded`](tapeloom_ir::Policy)), none of these is made again from what was rounded: at a
//! threshold, or a tie, it would be another one than that of the forward pass, and the derivative that of another
//! function. So
//!
//! - what decides does not run again in the linear half, but for what it reads being there as it was: its result is
//!   kept, in as few bits as it has ([`Prices`](super::cost::Prices));
//! - what a decision that stands in the linear half all the same follows from, that of a call with a policy of its
//!   own, say, is not rounded ([`pack`](super::packing::pack)).
//!
//! ```text
//! %1: f64[9] = sin %0            kept: f32[9]
//! %2: bool[9] = gt %1, 0.3       kept: u32[1]; not made again from the f32[9]
//! ```

use cranelift_entity::SecondaryMap;
use tapeloom_ir::prim::{Binding, Continuity, LoopSpec, Lowering, Region, TripCount};
use tapeloom_ir::{Atom, Code, Equation, FuncId, Function, Module, ValueId, deeper};

/// Whether an equation decides by floats that are not `exact`, itself or in what it runs.
pub(super) fn decides(
    module: &Module,
    f: &Function,
    e: &Equation,
    exact: &dyn Fn(ValueId) -> bool,
) -> bool {
    let rounded = |a: &Atom| a.value().is_some_and(|v| is_float(f, v) && !exact(v));
    e.operands.iter().any(rounded) && (jumps(module, f, e) || e.runs().any(|g| within(module, g)))
}

/// Which parameters of a function, the linear ones last, some decision in it follows from.
pub(super) fn decisive(module: &Module, f: FuncId) -> Vec<bool> {
    let f = module.function(f);
    followed(module, f, &vec![false; f.results.len()])
}

/// The same, where some results are decided by, too.
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

/// Which operands of an equation are decided by, where those outputs are.
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
        // Which operand goes where is not asked of branches, rules, and loops that make their carries again.
        all_of_them => all(any || all_of_them.iter().any(|r| within(module, r.function))),
    }
}

/// Which operands of a loop are decided by, in any iteration.
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
            // How many iterations there are is a decision.
            if within(module, *condition) {
                reads.iter().for_each(|p| params[*p] = true);
            }
        }
        let mut settled = true;
        for (p, slot) in spec.takes.iter().enumerate() {
            if let Binding::Carry(r) = slot {
                // What the last iteration gives is what the first one takes, if there is none.
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

/// Whether something in a function decides by floats, in what it runs as well.
fn within(module: &Module, f: FuncId) -> bool {
    let f = module.function(f);
    let inside = |g| deeper(|| within(module, g));
    f.equations.iter().any(|e| jumps(module, f, e) || e.runs().any(inside))
}

/// Whether an equation that runs no function jumps where a float that it reads changes a little.
fn jumps(module: &Module, f: &Function, e: &Equation) -> bool {
    let float = |a: &Atom| a.value().is_some_and(|v| is_float(f, v));
    if !e.op.regions().is_empty() || !e.operands.iter().any(float) {
        return false;
    }
    match e.lower(module, f) {
        // What is selected follows the two that it is selected of; which one, a truth value says.
        Lowering::Elementwise(Code::Select) => false,
        Lowering::Elementwise(code) if code.row().continuity == Continuity::Jumps => true,
        _ => e.outputs.iter().any(|o| !is_float(f, *o)),
    }
}

fn is_float(f: &Function, v: ValueId) -> bool {
    f.types[v].as_array().is_some_and(|ty| ty.dtype.is_float())
}
