//! `dedup_constants`: merges parameters of a loop's body that are constants with the same operand.
//!
//! ```text
//! loop{body=@f, trip=9, takes=[const,carry0,const]} %0, %1, %0      @f(a, c, b) = a c + b
//! loop{body=@g, trip=9, takes=[const,carry0]} %0, %1                @g(a, c) = a c + a
//! ```
//!
//! Such loops come from closures that also capture a value that is passed as an argument. After the pass, the value's
//! cotangent is one running total, summed in the order of iterations, however a checkpoint plan splits the iterations
//! into loops.

use super::loop_editor::Looped;
use super::region_rewriter::{RegionSite, Replacement, Rewrite, inside_out};
use crate::passes::pass::{Pass, Run};
use tapeloom_ir::prim::{Binding, Exactness, TripCount};
use tapeloom_ir::{Atom, Draft, FuncId, Module, OrderedMap, Problem, ValueRemap};

/// The entry of the pass `dedup_constants` in the list `PASSES`.
pub(crate) const PASS: Pass = Pass {
    name: "dedup_constants",
    about: "constants of a loop with equal operands become one parameter",
    exactness: Exactness::Exact,
    run: Run::Program(|_, module, f| inside_out(module, f, Rewrite::Loops(deduplicated))),
};

fn deduplicated(site: &RegionSite<'_>) -> Replacement {
    let (Some(mut at), b) = (site.looped(), site.b) else { return Ok(None) };
    let mut changed = false;
    while let Some(pair) = twice(&at) {
        let body = b.with_module(|m| merged(m, &at, pair))?;
        at.drop(pair.1);
        if let TripCount::While { reads, .. } = &mut at.spec.trip {
            reads.iter_mut().for_each(|p| *p = after(*p, pair));
        }
        at.run(b, body);
        changed = true;
    }
    Ok(if changed { at.emit(b) } else { None })
}

/// Returns the new index of the body's parameter `param` after parameter `again` has been merged into parameter
/// `first`.
fn after(param: usize, (first, again): (usize, usize)) -> usize {
    match param {
        p if p == again => first,
        p if p > again => p - 1,
        p => p,
    }
}

/// Returns the body of the loop without parameter `again`: parameter `first` is read in its place.
fn merged(
    module: &mut Module,
    at: &Looped,
    (first, again): (usize, usize),
) -> Result<FuncId, Problem> {
    let f = &at.body;
    let mut draft = Draft::new(f.name.clone());
    let mut copying = ValueRemap::new();
    for (at, p) in f.all_params().enumerate() {
        let made = match at == again {
            true => copying.read(f.params[first].into()),
            false => draft.param_of(at >= f.params.len(), f.types[p].clone()),
        };
        copying.bind(p, made);
    }
    for (i, e) in f.equations.iter().enumerate() {
        copying.define(e, draft.copy(f, i, copying.all(&e.operands)));
    }
    draft.finish(module, copying.results(f))
}

/// Returns the indices of two parameters of the body, not linear, that are constants of the loop with the same operand;
/// `None` if there are no such parameters.
fn twice(at: &Looped) -> Option<(usize, usize)> {
    let mut seen: OrderedMap<Atom, usize> = OrderedMap::default();
    for (p, operand) in at.spec.params().zip(&at.operands[at.spec.lead()..]) {
        if p < at.body.params.len() && at.spec.takes[p] == Binding::Const {
            if let Some(first) = seen.get(operand) {
                return Some((*first, p));
            }
            seen.insert(*operand, p);
        }
    }
    None
}
