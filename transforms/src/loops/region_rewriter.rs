//! The walk of loop passes over regions: innermost bodies first, each with the facts about its parameters.
//!
//! The facts about a body's parameters depend on its caller, so a body with two callers may become two
//! functions.

use super::forward_stores::BoxWrites;
use super::integer_facts::{Fact, ValueFacts};
use super::loop_editor::Looped;
use super::uses::{OneBox, SoleReads};
use smallvec::smallvec;
use tapeloom_ir::prim::{Role, reshaped};
use tapeloom_ir::{
    Atom, Builder, Equation, FuncId, Module, Op, OrderedMap, OrderedSet, Planner, Problem, Type,
    ValueId, deeper, rebuild,
};

/// The rewrite that a loop pass applies to each equation of one kind.
#[derive(Clone, Copy)]
pub(super) enum Rewrite {
    /// For equations that run no function: given the new operands, returns an atom that equals the output, if there is
    /// one.
    Leaves(fn(&Module, &ValueFacts<'_>, &Equation, &[Atom]) -> Option<Atom>),
    /// For loops and branches: returns the outputs of an equivalent, better equation if there is one. Not called for
    /// equations with a policy that requires loops to stay as they are written ([`Planner::Memory`]).
    ///
    /// If readers use only one box of an output, the rewrite may return that box in place of the output; its
    /// readers then read the box.
    Loops(fn(&RegionSite<'_>) -> Replacement),
    /// Replaces reads of a part of an array by the value that an earlier equation has just written there, and removes
    /// writes that a later write covers: see [`BoxWrites`].
    Stores,
}

/// A loop or a `cond` equation, with the facts about its operands and the reads of its outputs.
pub(super) struct RegionSite<'a> {
    pub(super) b: &'a Builder<'a>,
    pub(super) op: &'a Op,
    pub(super) operands: &'a [Atom],
    /// The facts about the parameters of the first function that the equation runs.
    facts: &'a [Fact],
    /// For an output's index: the one box that later equations read of that output, if they read only one.
    pub(super) behind: &'a SoleReads<'a>,
    /// Whether the equation is in the body of a loop, or in a function that such a body runs.
    pub(super) in_loop: bool,
}

impl RegionSite<'_> {
    /// Returns the equation as a loop for editing; `None` if it is not a loop.
    pub(super) fn looped(&self) -> Option<Looped> {
        Looped::of(self.b, self.op, self.operands, self.facts)
    }
}

/// The result of a rewrite: the outputs of a better equation, or `None` if the equation stays as it is.
pub(super) type Replacement = Result<Option<Vec<Atom>>, Problem>;

/// Applies the rewrite `pass` to the equations of `f` and of all functions that it runs, innermost functions first.
pub(super) fn inside_out(module: &mut Module, f: FuncId, pass: Rewrite) -> Result<FuncId, Problem> {
    visit(module, f, (&[], false), pass, &mut OrderedMap::default())
}

/// Memo of rewritten functions. The key is the old function, the facts about its parameters, and whether it runs inside
/// a loop.
type RewriteMemo = OrderedMap<(FuncId, Vec<Fact>, bool), FuncId>;

fn visit(
    module: &mut Module,
    id: FuncId,
    (facts, in_loop): (&[Fact], bool),
    pass: Rewrite,
    seen: &mut RewriteMemo,
) -> Result<FuncId, Problem> {
    let key = (id, facts.to_vec(), in_loop);
    if let Some(done) = seen.get(&key) {
        return Ok(*done);
    }
    let f = module.get(id);
    let leaf = |e: &Equation| e.op.regions().is_empty();
    if matches!(pass, Rewrite::Loops(_)) && f.equations.iter().all(leaf) {
        return Ok(id);
    }
    let known = ValueFacts::of(module, &f, facts);
    let mut written = matches!(pass, Rewrite::Stores).then(|| BoxWrites::of(&known, &f));
    let mut changed = false;
    // The old function's values that the new function replaces by one box (a range of indices per axis) of their
    // elements; the box has another type.
    let mut boxes: OrderedSet<ValueId> = OrderedSet::default();
    let new = rebuild(&f, |draft, i, mut operands| {
        let e = &f.equations[i];
        let regions = e.op.regions();
        let Some(first) = regions.first() else {
            let found = match pass {
                Rewrite::Leaves(known_of) => known_of(module, &known, e, &operands),
                Rewrite::Loops(_) => {
                    let read = e.operands.first().and_then(|a| a.value());
                    read.filter(|v| boxes.contains(v)).map(|_| match &f.types[e.outputs[0]] {
                        Type::Array(ty) => {
                            reshaped(&Builder::new(module, draft), operands[0], &ty.shape)
                        }
                        Type::Tape(_) => operands[0],
                    })
                }
                Rewrite::Stores => {
                    let before = operands.clone();
                    let found = written.as_mut().and_then(|w| w.forwarded(i, &mut operands));
                    changed |= before != operands;
                    found
                }
            };
            changed |= found.is_some();
            return Ok(found.map_or_else(|| draft.copy(&f, i, operands), |x| smallvec![x]));
        };
        let as_written = e.op.policy().is_some_and(|p| p.row().planner == Planner::Memory);
        if as_written && matches!(pass, Rewrite::Loops(_) | Rewrite::Stores) {
            return Ok(draft.copy(&f, i, operands));
        }
        let mut functions = Vec::with_capacity(regions.len());
        for region in &regions {
            functions.push(match region.role.runs() {
                true => {
                    let facts = known.facts(module, e, region);
                    let in_loop = in_loop || region.role == Role::Iteration;
                    deeper(|| visit(module, region.function, (&facts, in_loop), pass, seen))?
                }
                false => region.function,
            });
        }
        changed |= regions.iter().zip(&functions).any(|(r, f)| r.function != *f);
        let op = e.op.with_regions(&functions);
        let better = match pass {
            Rewrite::Leaves(_) | Rewrite::Stores => None,
            Rewrite::Loops(better) => {
                let inside = known.facts(module, e, first);
                let b = Builder::new(module, draft);
                b.at(f.origin(i));
                let read = |output: usize| OneBox::of(&known, &f, e.outputs[output]);
                let (op, operands, facts) = (&op, &operands[..], &inside[..]);
                let site = RegionSite { b: &b, op, operands, facts, behind: &read, in_loop };
                let better = better(&site)?;
                for (output, made) in e.outputs.iter().zip(better.iter().flatten()) {
                    if b.type_of(*made) != f.types[*output] {
                        boxes.insert(*output);
                    }
                }
                better
            }
        };
        changed |= better.is_some();
        Ok(match better {
            Some(outputs) => outputs.into(),
            None => draft.copy_as(op, &f, i, operands),
        })
    })?;
    let done = if changed { module.add(new)? } else { id };
    seen.insert(key, done);
    Ok(done)
}
