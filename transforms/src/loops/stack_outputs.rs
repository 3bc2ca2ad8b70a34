//! `stack_outputs`: if the iterations of a loop set all elements of a carried array, and do not read it, the
//! array becomes a stacked output.
//!
//! ```text
//! %3: f64[7] = loop{body=@f, trip=7, takes=[index,carry0]} %0
//!
//! func @f(%0: i64[], %1: f64[7]) -> (f64[7]) {      sets %1[%0] to sin %0
//! ```
//! becomes a loop without the array, each iteration of which returns an element.
//!
//! Loops that write an array row by row have this form: the previous contents of each row are overwritten.

use super::access::Access;
use super::drained_carries::covers;
use super::integer_facts::ValueFacts;
use super::loop_editor::Looped;
use super::region_rewriter::{RegionSite, Replacement, Rewrite, inside_out};
use crate::passes::pass::{Pass, Run};
use tapeloom_ir::prim::{Binding, Exactness, first_axis_to, reshaped};
use tapeloom_ir::{
    Atom, Builder, Draft, FuncId, Function, Module, Problem, Type, ValueId, ValueRemap,
};

/// The entry of the pass `stack_outputs` in the list `PASSES`.
pub(crate) const PASS: Pass = Pass {
    name: "stack_outputs",
    about: "an array that a loop fills element by element and does not read becomes a stacked result",
    exactness: Exactness::Exact,
    run: Run::Program(|_, module, f| inside_out(module, f, Rewrite::Loops(given))),
};

/// A carried array of which the iterations together set every element and read none.
struct Filled {
    /// The index of the body's parameter that is the array.
    param: usize,
    /// The index of the body's result that is the array after the write.
    result: usize,
    /// The axis of the array along which iteration i writes index i alone.
    axis: usize,
    /// The value of the body that an iteration writes into the array.
    element: Atom,
}

fn given(site: &RegionSite<'_>) -> Replacement {
    let (Some(mut at), b) = (site.looped(), site.b) else { return Ok(None) };
    let (types, mut left) = (at.body.result_types(), Vec::new());
    loop {
        let body = at.body.clone();
        let known = b.with_module(|m| ValueFacts::of(m, &body, &at.facts));
        let Some(filled) = (0..body.params.len()).find_map(|p| Filled::of(&at, &known, p)) else {
            break;
        };
        let function = b.with_module(|m| filled.body(m, &body))?;
        at.drop(filled.param);
        at.run(b, function);
        left.push(filled);
    }
    if left.is_empty() {
        return Ok(None);
    }
    let Some(mut outputs) = at.emit(b) else { return Ok(None) };
    for Filled { result, axis, .. } in left {
        if let Type::Array(ty) = &types[result] {
            let moved = first_axis_to(b, outputs[result], axis);
            outputs[result] = reshaped(b, moved, &ty.shape);
        }
    }
    Ok(Some(outputs))
}

impl Filled {
    fn of(at: &Looped, known: &ValueFacts<'_>, param: usize) -> Option<Filled> {
        let Binding::Carry(result) = at.spec.takes[param] else { return None };
        let body = &at.body;
        let (p, last) = (*body.params.get(param)?, body.results.get(result)?.value()?);
        let extents = &body.types[p].as_array()?.shape;
        let set = body.equations.iter().find(|e| e.outputs[..] == [last])?;
        let touch = Access::of(known, body, set)?;
        let write = touch.part.writes.filter(|w| !w.adds)?;
        let axis = covers(at, &touch, extents)?;
        let times = |v: ValueId| {
            let all = body.equations.iter().flat_map(|e| &e.operands).chain(&body.results);
            all.filter(|a| a.value() == Some(v)).count()
        };
        let alone = set.operands[0].value() == Some(p) && times(p) == 1 && times(last) == 1;
        alone.then_some(Filled { param, result, axis, element: set.operands[write.operand] })
    }

    /// Returns the body without the array as parameter; in place of the array, its result is the value that the
    /// iteration writes.
    fn body(&self, module: &mut Module, body: &Function) -> Result<FuncId, Problem> {
        let mut draft = Draft::new(body.name.clone());
        let mut copying = ValueRemap::new();
        let array = body.params[self.param];
        for (at, p) in body.all_params().enumerate().filter(|(_, p)| *p != array) {
            copying.bind(p, draft.param_of(at >= body.params.len(), body.types[p].clone()));
        }
        for (i, e) in body.equations.iter().enumerate() {
            if e.operands.first().and_then(|a| a.value()) != Some(array) {
                copying.define(e, draft.copy(body, i, copying.all(&e.operands)));
            }
        }
        let shape = match &body.types[array] {
            Type::Array(ty) => (0..ty.shape.len()).filter(|a| *a != self.axis).map(|a| ty.shape[a]),
            Type::Tape(_) => return Err(Problem::internal("a tape that a loop fills")),
        };
        let shape: Vec<usize> = shape.collect();
        let element = copying.read(self.element);
        let element = reshaped(&Builder::new(module, &mut draft), element, &shape);
        let result =
            |(i, a): (usize, &Atom)| if i == self.result { element } else { copying.read(*a) };
        let results = body.results.iter().enumerate().map(result).collect();
        draft.finish(module, results)
    }
}
