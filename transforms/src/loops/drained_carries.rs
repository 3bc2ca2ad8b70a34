//! `drained_carries`: if each iteration of a loop accesses only one element of a carried array, a different element in
//! each iteration, and overwrites it by a constant, the loop takes the array as a constant.
//!
//! ```text
//! %3: f64[7] = loop{body=@f, trip=7, takes=[index,carry0]} %0
//!
//! func @f(%0: i64[], %1: f64[7]) -> (f64[7]) {      reads %1[%0], and sets %1[%0] to 0
//! ```
//! becomes a loop that takes `%0` as a constant. Its result is an array of zeros.
//!
//! The reverse of a loop that fills an array has this form: it reads the cotangent of each element and sets it
//! to zero. Each element belongs to one iteration, so all iterations read the values from before the loop.

use super::access::Access;
use super::integer_facts::ValueFacts;
use super::loop_editor::Looped;
use super::region_rewriter::{RegionSite, Replacement, Rewrite, inside_out};
use crate::passes::pass::{Pass, Run};
use tapeloom_ir::analysis::affine::Affine;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{Binding, Exactness, TripCount};
use tapeloom_ir::{
    Atom, Draft, Equation, FuncId, Function, Literal, Module, Op, Problem, Type, ValueId,
    ValueRemap,
};

/// The entry of the pass `drained_carries` in the list `PASSES`.
pub(crate) const PASS: Pass = Pass {
    name: "drained_carries",
    about: "a carry whose elements a loop reads once each and replaces by a constant becomes a constant operand",
    exactness: Exactness::Exact,
    run: Run::Program(|_, module, f| inside_out(module, f, Rewrite::Loops(drained))),
};

fn drained(site: &RegionSite<'_>) -> Replacement {
    let (Some(mut at), b) = (site.looped(), site.b) else { return Ok(None) };
    let mut left = Vec::new();
    for param in 0..at.spec.takes.len() {
        let (Binding::Carry(result), Some(operand)) = (at.spec.takes[param], at.operand(param))
        else {
            continue;
        };
        let body = at.body.clone();
        let known = b.with_module(|m| ValueFacts::of(m, &body, &at.facts));
        let Some(constant) = constant(&at, &known, param, result) else { continue };
        let function = b.with_module(|m| reading(m, &body, param))?;
        let given = at.operands[operand];
        at.take(param >= body.params.len(), &[(Binding::Const, given)]);
        at.run(b, function);
        left.push((result, constant));
    }
    if left.is_empty() {
        return Ok(None);
    }
    let types: Vec<Type> = at.body.result_types();
    let Some(mut outputs) = at.emit(b) else { return Ok(None) };
    for (result, constant) in left {
        let Type::Array(ty) = &types[result] else { continue };
        outputs[result] = b.emit1(Op::fill(&ty.shape), &[constant.into()]);
    }
    Ok(Some(outputs))
}

/// Returns the number to which a loop sets all elements of a carried array; `None` unless each iteration sets a
/// different element to this number, and accesses no other element of the array.
fn constant(at: &Looped, known: &ValueFacts<'_>, param: usize, result: usize) -> Option<Literal> {
    let body = &at.body;
    let (p, last) = (body.all_params().nth(param)?, body.results[result].value()?);
    let extents = &body.types[p].as_array()?.shape;
    let is = |v: ValueId| move |a: &Atom| a.value() == Some(v);
    let set = body.equations.iter().find(|e| e.outputs.contains(&last))?;
    let touch = Access::of(known, body, set)?;
    let write = touch.part.writes.filter(|w| !w.adds)?;
    covers(at, &touch, extents)?;
    for e in &body.equations {
        if e.operands.iter().any(is(last)) {
            return None;
        }
        if !e.operands.iter().any(is(p)) {
            continue;
        }
        let here = Access::of(known, body, e)?;
        let own = here.starts == touch.starts && here.part.sizes == touch.part.sizes;
        let other = e.operands[1..].iter().any(is(p));
        let writes = here.part.writes.is_some() && e.outputs[..] != [last];
        if other || writes || !(own || planted(Fault::EmptiedElsewhere)) {
            return None;
        }
    }
    let given = body.results.iter().filter(|a| is(last)(a) || is(p)(a)).count();
    (given == 1 && is(p)(&set.operands[0])).then(|| uniform(body, set.operands[write.operand]))?
}

/// Returns the axis along which iteration i accesses exactly the slice at index i, so that the iterations together
/// access the whole array; `None` if there is no such axis.
pub(super) fn covers(at: &Looped, touch: &Access, extents: &[usize]) -> Option<usize> {
    let TripCount::Static(iterations) = at.spec.trip else { return None };
    let counter = at.body.all_params().zip(&at.spec.takes).find(|(_, s)| **s == Binding::Index);
    let (counter, _) = counter?;
    let size = |axis: usize| touch.part.sizes[axis];
    let along = |axis: &usize| {
        size(*axis) == 1
            && extents[*axis] == iterations
            && touch.starts[*axis] == Affine::atom((counter, 0))
    };
    let axis = (0..extents.len()).find(along)?;
    let whole = |a: usize| size(a) == extents[a] && touch.starts[a] == Affine::constant(0);
    (0..extents.len()).all(|a| a == axis || whole(a)).then_some(axis)
}

/// Returns the number that all elements of the atom `a` equal, if `a` is a literal or an array filled with a
/// literal.
fn uniform(body: &Function, a: Atom) -> Option<Literal> {
    let v = match a {
        Atom::Literal(x) => return Some(x),
        Atom::Value(v) => v,
    };
    let made = body.equations.iter().find(|e| e.outputs[..] == [v])?;
    let Type::Array(ty) = &body.types[v] else { return None };
    (made.op == Op::fill(&ty.shape)).then(|| made.operands[0].literal())?
}

/// Returns the body with one more parameter, a constant of the loop: the array as it was before the loop. The body
/// reads the new parameter in place of the carry `param`. The new parameter is the last linear one if `param` is
/// linear, else the last of the others.
fn reading(module: &mut Module, body: &Function, param: usize) -> Result<FuncId, Problem> {
    let mut draft = Draft::new(body.name.clone());
    let mut copying = ValueRemap::new();
    let first = body.params.len();
    let all: Vec<ValueId> = body.all_params().collect();
    let linear = param >= first;
    let mut given = None;
    for (at, p) in all.iter().enumerate() {
        let mut take = |ty: Type| draft.param_of(at >= first, ty);
        copying.bind(*p, take(body.types[*p].clone()));
        if at + 1 == if linear { all.len() } else { first } {
            given = Some(take(body.types[all[param]].clone()));
        }
    }
    let reads = |e: &Equation| e.operands[0].value() == Some(all[param]);
    for (i, e) in body.equations.iter().enumerate() {
        let mut operands = copying.all(&e.operands);
        let sets = body.results.iter().any(|r| r.value().is_some_and(|v| e.outputs.contains(&v)));
        if let (true, false, Some(given)) = (!operands.is_empty() && reads(e), sets, given) {
            operands[0] = given;
        }
        copying.define(e, draft.copy(body, i, operands));
    }
    draft.finish(module, copying.results(body))
}
