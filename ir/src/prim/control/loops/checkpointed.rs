//! `replay{ahead, step, lin, trip, direction, takes}`: the tangents of a loop that saves only some of its
//! carries.
//!
//! ```text
//! slots.., x.., dx.. -> dy..         forward: run the iterations again from the start, with their tangents
//! slots.., x.., ct of y.. -> ct..    reverse: for each iteration, take its carry from a slot, or recompute it
//!                                    from an earlier carry in a slot
//! ```
//!
//! This is the linear function of a [`Loop`] with `carries`. Evaluated forward it is an ordinary loop (`ahead`). Its
//! transpose is a loop over the iterations, last to first, which carries the slots with the saved carries. Every
//! iteration takes the last slot in use, runs `step` from there to the carry that it needs (and saves some of the
//! intermediate carries in free slots), and then runs the transpose of `lin`, which computes from that carry alone. So
//! the memory between the forward and the reverse pass is one carry per slot. An iteration of the reverse pass also
//! needs memory for its own residuals.
//!
//! The operands are the trip count, if it is an operand; the constants and elements of the iterations; the
//! slots (for each carry an array, then their iteration numbers and the number of slots in use); and the
//! tangents. Carries on which `lin` does not depend, directly or through later carries, are neither saved nor
//! recomputed.

use super::checkpoint_slots::{Chain, CheckpointSlots, calc, number, slot_count};
use super::invariant_carries::with_constant_tangents;
use super::prune::IterationSlice;
use super::strip_effects::{rules_have_effects, without_effects};
use super::transpose::TransposedBody;
use super::{Binding, Direction, Loop, LoopSpec, TripCount};
use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId};
use crate::lang::module::Module;
use crate::lang::problem::Problem;
use crate::lang::query::{LinearizeOf, Residual};
use crate::lang::types::{ArrayType, Dtype, Type};
use crate::lang::value::Value;
use crate::policy::{Amortization, PlanContext, PlanRequest};
use crate::policy_table::Policy;
use crate::prim::elementwise::zeros;
use crate::prim::facet::Facet;
use crate::prim::rules::region_helpers::{fits, function, instantiate};
use crate::prim::rules::slice_helpers::element;
use crate::prim::{
    Arg, Batched, Call, Cotangents, Doc, Dual, Effects, Family, LinearCall, Linearity, Lowering,
    Op, Operand, Primitive, Prune, RegionList, Regions, Rewrite, Role, RuleCx, Sample, Scalar,
    Types,
};
use crate::tensor::Tensor;
use std::ops::Range;

/// The tangents of a loop that saves only some of its carries and recomputes the others. Its text is
/// `replay{ahead, step, lin, trip, direction, takes}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Replay {
    /// The map in forward evaluation: a function from all operands to the tangents.
    pub ahead: FuncId,
    /// The function that recomputes an iteration: from constants, elements and saved carries to the saved carries of
    /// the next iteration.
    pub step: FuncId,
    /// The derivative of an iteration: a function of the parameters of `step`, then the tangents.
    pub lin: FuncId,
    /// The trip count, the direction, and the source (slot) of each parameter of `lin`: parameters of `step`
    /// carry results of `step`, and tangents carry results of `lin`.
    pub spec: Box<LoopSpec>,
}

notation!(Replay = "replay" { ahead, step, lin, spec(trip, condition, reads, direction, takes) });

/// The attributes of a `Replay`, a loop that recomputes its iterations from checkpoint slots, with the sources of
/// values and the sources of tangents in separate lists.
struct ReplayParts {
    ahead: FuncId,
    step: FuncId,
    lin: FuncId,
    /// The trip count, the direction, and the sources of the parameters of `step`.
    spec: LoopSpec,
    /// The source (slot) of each tangent among the parameters of `lin`.
    tangents: Vec<Binding>,
}

/// Emits the outputs of a loop with checkpoint slots (`carries`), and their tangents. Returns `None` if the loop
/// is to be linearized like one without slots: its trip count is not larger than the number of slots, or its
/// iterations cannot be recomputed.
///
/// A carry that no iteration changes is not saved: it is a constant.
pub(super) fn linearize(
    of: &Loop,
    cx: &mut RuleCx<'_, '_>,
    x: &[Atom],
    dx: &[Option<Atom>],
) -> Result<Option<Dual>, Problem> {
    let Some(carries) = of.carries.map(|s| s.get() as usize) else { return Ok(None) };
    let (of, outputs) = cx.b.with_module(|m| of.clone().with_constant_carries(m))?;
    let Some(Dual { y, dy }) = linearize_varying(&of, carries, cx, x, dx)? else { return Ok(None) };
    let (y, dy) = outputs.iter().map(|of| (of.of(&y, x), of.of(&dy, dx))).unzip();
    Ok(Some(Dual { y, dy }))
}

/// Emits the outputs and tangents of a loop with checkpoint slots in which every carry changes; `None` as for
/// `linearize`.
fn linearize_varying(
    of: &Loop,
    carries: usize,
    cx: &mut RuleCx<'_, '_>,
    x: &[Atom],
    dx: &[Option<Atom>],
) -> Result<Option<Dual>, Problem> {
    if matches!(of.spec.trip, TripCount::Static(n) if n <= carries) {
        return Ok(None);
    }
    let on = of.of_params(dx.iter().map(Option::is_some));
    let context = cx.context();
    let Some(recomputation) =
        cx.derive(|regions, m| Recomputation::of(of, regions, m, on, context))?
    else {
        return Ok(None);
    };
    let Recomputation { body, derived, active, part, kept } = recomputation;

    let spec = Loop { body, ..of.clone() };
    let (y, all, places) = forward(&spec, cx.b, x, &kept, carries);
    if !derived.active_out.contains(&true) {
        return Ok(Some(of.dual(y, &derived.active_out, &[])));
    }
    let rank = |mask: &[bool], i: usize| mask[..i].iter().filter(|on| **on).count();
    let step = |slot: &Binding| match *slot {
        Binding::Carry(r) => Binding::Carry(rank(&part.needed, r)),
        Binding::Index | Binding::Const | Binding::Xs => *slot,
    };
    let taken = of.spec.takes.iter().zip(&part.read).filter(|(_, on)| **on);
    let takes = taken.map(|(slot, _)| step(slot)).collect();
    let trip = match of.spec.trip {
        TripCount::Static(n) => TripCount::Static(n),
        TripCount::Runtime | TripCount::While { .. } => TripCount::Runtime,
    };
    let mut args: Vec<Atom> = match trip {
        TripCount::Static(_) => Vec::new(),
        TripCount::Runtime | TripCount::While { .. } => vec![all],
    };
    for (p, x) in of.spec.params().zip(&x[of.spec.lead()..]) {
        if part.read[p] && matches!(of.spec.takes[p], Binding::Const | Binding::Xs) {
            args.push(*x);
        }
    }
    args.extend(&places.carries);
    args.extend([places.iterations, places.held]);
    let known: Vec<Type> = args.iter().map(|a| cx.b.type_of(*a)).collect();
    let tangents = of.tangents(cx, x, dx, &active);
    let types: Vec<Type> = tangents.iter().map(|a| cx.b.type_of(*a)).collect();
    let (op, sources) = cx.b.with_module(|m| {
        let slots = of.tangent_slots(&active, &derived.active_out, 0);
        let lin = of_all(m, &derived, part.function, &part.read)?;
        // Tangents that no iteration changes become constants, so that cotangents are added in the same order as for a
        // loop without checkpoint slots.
        let (lin, tangents, sources) = with_constant_tangents(m, lin, slots)?;
        let spec = LoopSpec { trip, direction: of.spec.direction, takes };
        let mut of = ReplayParts { ahead: derived.lin, step: part.function, lin, spec, tangents };
        of.ahead = of.ahead(m, known, types, carries)?;
        Ok((of.op(), sources))
    })?;
    args.extend(&tangents);
    let made = cx.b.emit(op, &args);
    let dy: Vec<Atom> = sources.iter().map(|of| of.of(&made, &tangents)).collect();
    Ok(Some(of.dual(y, &derived.active_out, &dy)))
}

/// The functions from which the reverse pass of a loop recomputes its iterations.
struct Recomputation {
    /// The body that the forward pass runs, with its ordered effects.
    body: FuncId,
    /// The derivative of the body without effects; its residuals are parameters of the body.
    derived: LinearizeOf,
    /// Per parameter of the body: whether it has a tangent.
    active: Vec<bool>,
    /// The part of an iteration that computes the saved carries of the next iteration.
    part: IterationSlice,
    /// The indices of the body's results that are saved carries.
    kept: Vec<usize>,
}

impl Recomputation {
    /// Derives the functions for the loop `of`. Returns `None` if the reverse pass needs no carries, or if the
    /// iterations cannot be recomputed.
    fn of(
        of: &Loop,
        regions: &mut dyn Regions,
        m: &mut Module,
        on: Vec<bool>,
        context: PlanContext,
    ) -> Result<Option<Recomputation>, Problem> {
        // The forward pass runs `with_effects`, which performs the ordered effects of an iteration; recomputation must
        // not repeat them.
        let with_effects = of.body;
        let of = &Loop { body: without_effects(m, with_effects)?, ..of.clone() };
        let shares = vec![Amortization::FREE.with(context); of.spec.takes.len()];
        let (derived, active) = of.fixed_point(
            on,
            |active, forced| {
                // Plan that no intermediate value is saved: all residuals must be recomputed from the parameters.
                let derived = regions.linearize(m, of.body, active, forced, &shares)?;
                let mut terms = PlanRequest::apart(Vec::new(), Vec::new(), 1);
                terms.policy = Policy::Nothing;
                regions.plan(m, derived, terms)
            },
            |derived| &derived.active_out,
        )?;
        // If a derivative rule performs effects that the iteration itself does not perform, do not recompute the
        // iteration.
        if m.effects(derived.fwd) == Effects::Ordered {
            return Ok(None);
        }
        let mut read = vec![false; of.spec.takes.len()];
        for residual in &derived.residuals {
            match residual {
                Residual::Parameter(p) => read[*p] = true,
                // A residual that must exist only once, like the result of a Rust function, cannot be recomputed.
                Residual::Result(_) | Residual::Kept(_) => return Ok(None),
            }
        }
        let f = m.get(of.body);
        let arrays = |types: &[Type]| types.iter().all(|ty| ty.as_array().is_some());
        let stacks = (0..f.results.len()).any(|r| of.spec.carrier(r).is_none());
        let known = matches!(of.spec.trip, TripCount::Static(_));
        let fits = arrays(&f.param_types())
            && arrays(&f.result_types())
            && (known || !(stacks || of.spec.takes.contains(&Binding::Xs)))
            && !m.runs_outside(of.body);
        let (body, recomputed) = match rules_have_effects(m, with_effects) {
            false => (with_effects, of.body),
            // A custom rule in the body performs effects. The loop of the forward pass runs the rule's forward function
            // in place of the function that the rule differentiates, and so performs these effects; the recomputed body
            // performs none.
            true => {
                let all = regions.linearize(m, with_effects, &active, &[], &shares)?;
                let fwd = m.function(all.fwd);
                let used: Vec<bool> = (0..fwd.results.len()).map(|r| r < f.results.len()).collect();
                let taken = vec![true; fwd.params.len()];
                let opened = regions.prune(m, all.fwd, &used, &taken)?.function;
                (opened, without_effects(m, opened)?)
            }
        };
        let again = Loop { body: recomputed, ..of.clone() };
        let mut part = IterationSlice::of(&again, regions, m, vec![false; f.results.len()], read)?;
        // If the body is linear, its carries are linear parameters; the recomputation takes them as ordinary
        // ones.
        let step = m.get(part.function);
        if !step.linear_params.is_empty() {
            part.function = function(m, &step.name, [&step.param_types(), &[]], |b, p, _| {
                b.inline(part.function, p)
            })?;
        }
        let kept: Vec<usize> = (0..part.needed.len()).filter(|r| part.needed[*r]).collect();
        // A carry that depends on a call of a Rust function cannot be recomputed, because the function must not be
        // called again.
        let calls = m.function(part.function).equations.iter().any(|e| m.calls_out(&e.op));
        let fits = fits && !calls && !kept.is_empty();
        Ok(fits.then_some(Recomputation { body, derived, active, part, kept }))
    }
}

/// The trip count of a loop and the size of one of its checkpoint slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotSize {
    /// The trip count, if it is static; otherwise `None`.
    pub iterations: Option<usize>,
    /// The bytes of one slot: the saved carries and the iteration number.
    pub bytes: usize,
}

impl SlotSize {
    /// Returns the bytes of `carries` slots and of the counter of used slots: all memory between the forward and
    /// the reverse pass, except for values that all iterations read.
    pub fn bytes(&self, carries: usize) -> usize {
        carries.saturating_mul(self.bytes).saturating_add(8)
    }

    /// Returns the largest number of slots that fit in `bytes`; `None` if not even one fits.
    pub fn within(&self, bytes: usize) -> Option<usize> {
        let carries = bytes.checked_sub(8)? / self.bytes.max(1);
        let useful = self.iterations.map_or(carries, |n| carries.min(n));
        (carries > 0).then_some(useful.max(1))
    }
}

impl Op {
    /// Returns the size of a checkpoint slot of this loop if the operands marked in `active` have tangents.
    /// Returns `None` if the primitive is not a loop, if its reverse pass needs no carries, or if its iterations
    /// cannot be recomputed.
    ///
    /// # Errors
    /// Fails if a derivative does not exist.
    pub fn places(
        &self,
        regions: &mut dyn Regions,
        module: &mut Module,
        active: &[bool],
    ) -> Result<Option<SlotSize>, Problem> {
        let Facet::Loop(of) = self.facet() else { return Ok(None) };
        let of = &of.clone().with_constant_carries(module)?.0;
        let on = of.of_params(active.iter().copied());
        let Some(recomputation) = Recomputation::of(of, regions, module, on, PlanContext::PLAIN)?
        else {
            return Ok(None);
        };
        let results = module.function(of.body).result_types();
        let carry = recomputation.kept.iter().filter_map(|r| results[*r].as_array());
        let iterations = match of.spec.trip {
            TripCount::Static(n) => Some(n),
            TripCount::Runtime | TripCount::While { .. } => None,
        };
        Ok(Some(SlotSize { iterations, bytes: carry.map(ArrayType::bytes).sum::<usize>() + 8 }))
    }
}

/// Returns the linear function of an iteration with all parameters of `step`, the function that recomputes an
/// iteration. Parameters that the linear function does not read are included.
fn of_all(
    m: &mut Module,
    derived: &LinearizeOf,
    step: FuncId,
    read: &[bool],
) -> Result<FuncId, Problem> {
    let (step, lin) = (m.get(step), m.get(derived.lin));
    let linear = lin.param_types().split_off(lin.params.len());
    function(m, &lin.name, [&step.param_types(), &linear], |b, p, dp| {
        let place = |q: usize| read[..q].iter().filter(|on| **on).count();
        let residuals = derived.residuals.iter().filter_map(|r| match r {
            Residual::Parameter(q) => Some(p[place(*q)]),
            Residual::Result(_) | Residual::Kept(_) => None,
        });
        b.inline(derived.lin, &residuals.chain(dp.iter().copied()).collect::<Vec<_>>())
    })
}

/// Emits the loop of the forward pass; returns its outputs, the trip count, and the checkpoint slots.
fn forward(
    of: &Loop,
    b: &Builder<'_>,
    x: &[Atom],
    kept: &[usize],
    carries: usize,
) -> (Vec<Atom>, Atom, CheckpointSlots) {
    let spec = &of.spec;
    let operands = || spec.params().zip(x[spec.lead()..].iter().copied());
    let start = |r: usize| operands().find(|(p, _)| spec.takes[*p] == Binding::Carry(r));
    let starts: Vec<Atom> = kept.iter().filter_map(|r| start(*r)).map(|(_, x)| x).collect();
    let places = CheckpointSlots::new(b, carries, &starts);
    let all = match &spec.trip {
        TripCount::Static(n) => number(*n),
        // A negative trip count means no iterations, so it is replaced by 0.
        TripCount::Runtime => calc(b, Scalar::Max, x[0], number(0)),
        TripCount::While { .. } => {
            // The checkpointing schedule needs the trip count, so run the loop with its condition first, without
            // saving carries; the trip count is its last output.
            let y = b.emit(of.clone(), x).to_vec();
            let all = y.last().copied().unwrap_or(number(0));
            return (y, all, places);
        }
    };
    let given = operands().filter(|(p, _)| matches!(spec.takes[*p], Binding::Const | Binding::Xs));
    let given = given.map(|(_, x)| x).collect();
    let results = b.with_module(|m| m.function(of.body).result_types());
    let stack = |ty: &Type| match (ty, &spec.trip) {
        (Type::Array(ty), TripCount::Static(n)) => {
            zeros(b, &ArrayType::new(ty.dtype, ty.shape.with_leading(*n)))
        }
        (ty, _) => instantiate(b, None, ty),
    };
    let state: Vec<Atom> = results
        .iter()
        .enumerate()
        .map(|(r, ty)| start(r).map_or_else(|| stack(ty), |(_, x)| x))
        .collect();
    let chain = Chain { body: of.body, spec, given, all };
    let (y, places) = chain.run_iterations(b, [number(0), all, all], &state, kept, places);
    (y, all, places)
}

impl Replay {
    fn parts(&self, m: &Module) -> ReplayParts {
        let mut spec = (*self.spec).clone();
        let tangents = spec.takes.split_off(m.function(self.step).params.len());
        let Replay { ahead, step, lin, .. } = *self;
        ReplayParts { ahead, step, lin, spec, tangents }
    }

    /// Returns the number of operands before the tangents.
    fn known(&self, m: &Module) -> usize {
        self.parts(m).known(m)
    }

    /// Returns the source (slot) of the tangent at this position of the operands; `None` if the operand there is not a
    /// tangent.
    pub(super) fn takes(&self, m: &Module, operand: usize) -> Option<Binding> {
        let of = self.parts(m);
        operand.checked_sub(of.known(m)).and_then(|k| of.tangents.get(k).copied())
    }

    /// Returns the range of positions of the operands that hold the checkpoint slots.
    fn places(&self, m: &Module) -> Range<usize> {
        let of = self.parts(m);
        let first = of.spec.lead() + of.given().count();
        first..of.known(m)
    }

    /// Emits forward mode for a replayed loop, which is a linear map of the initial tangents: its outputs, and as their
    /// tangents the same loop at `dx`. Returns `None` if an operand that is not a tangent has a derivative.
    fn itself(&self, cx: &RuleCx<'_, '_>, x: &[Atom], dx: &[Option<Atom>]) -> Option<Dual> {
        let b = cx.b;
        let known = b.with_module(|m| self.known(m));
        if dx[..known].iter().any(Option::is_some) {
            return None;
        }
        let y = b.emit(self.clone(), x);
        let mut args = x[..known].to_vec();
        args.extend((known..x.len()).map(|i| instantiate(b, dx[i], &b.type_of(x[i]))));
        let dy = b.emit(self.clone(), &args).into_iter().map(Some).collect();
        Some(Dual { y, dy })
    }
}

impl Op {
    /// Returns the range of positions of a `replay`'s operands that hold the checkpoint slots; an empty range for
    /// other primitives.
    pub fn kept_carries(&self, module: &Module) -> Range<usize> {
        let Facet::Replay(of) = self.facet() else { return 0..0 };
        of.places(module)
    }
}

impl ReplayParts {
    fn op(mut self) -> Replay {
        self.spec.takes.extend(self.tangents);
        Replay { ahead: self.ahead, step: self.step, lin: self.lin, spec: Box::new(self.spec) }
    }

    /// Returns the number of operands before the tangents.
    fn known(&self, m: &Module) -> usize {
        self.spec.lead() + self.given().count() + m.function(self.step).results.len() + 2
    }

    /// Returns the parameters of `step` that are constants or elements, not carries.
    fn given(&self) -> impl Iterator<Item = usize> + '_ {
        self.spec.params().filter(|p| !matches!(self.spec.takes[*p], Binding::Carry(_)))
    }

    /// Splits the operands before the tangents into the trip count, the constants and elements, and the
    /// checkpoint slots.
    fn parts(&self, b: &Builder<'_>, x: &[Atom]) -> (Atom, Vec<Atom>, CheckpointSlots) {
        let lead = self.spec.lead();
        let all = match self.spec.trip {
            TripCount::Static(n) => number(n),
            TripCount::Runtime | TripCount::While { .. } => x[0],
        };
        let (given, places) = x[lead..].split_at(self.given().count());
        let carries = b.with_module(|m| m.function(self.step).results.len());
        let iterations = places[carries];
        let places = CheckpointSlots {
            carries: places[..carries].to_vec(),
            iterations,
            held: places[carries + 1],
            number: b.shape_of(iterations).first().copied().unwrap_or(1),
        };
        (all, given.to_vec(), places)
    }

    /// Returns the function `ahead`, from all operands to the tangents: a loop whose iterations compute values
    /// and tangents together.
    fn ahead(
        &self,
        m: &mut Module,
        known: Vec<Type>,
        tangents: Vec<Type>,
        carries: usize,
    ) -> Result<FuncId, Problem> {
        let name = m.function(self.lin).name.clone();
        let n = known.len();
        let (step, lin) = (m.get(self.step), m.get(self.lin));
        let own = step.params.len();
        let both = function(m, &name, [&lin.param_types(), &[]], |b, p, _| {
            let mut y = b.inline(self.step, &p[..own]);
            y.extend(b.inline(self.lin, p));
            y
        })?;
        function(m, &name, [&[known, tangents].concat(), &[]], |b, p, _| {
            let (_, given, places) = self.parts(b, &p[..n]);
            let first = step.results.len();
            let mut given = given.into_iter();
            let mut args = p[..self.spec.lead()].to_vec();
            args.extend(self.spec.params().filter_map(|q| match self.spec.takes[q] {
                Binding::Carry(r) => Some(element(b, places.carries[r], number(0))),
                Binding::Index | Binding::Const | Binding::Xs => given.next(),
            }));
            args.extend(&p[n..]);
            let mut spec = self.spec.clone();
            spec.takes.extend(self.tangents.iter().map(|slot| match *slot {
                Binding::Carry(r) => Binding::Carry(first + r),
                Binding::Index | Binding::Const | Binding::Xs => *slot,
            }));
            let op = Loop { body: both, spec, carries: Some(slot_count(carries)) };
            b.emit(op, &args)[first..].to_vec()
        })
    }

    /// Returns the function of the transpose. It maps the known operands, the cotangents of the outputs, and the
    /// totals, to which cotangents of linear operands are added, to the cotangents of the linear operands.
    fn back(
        &self,
        m: &mut Module,
        transposed: &TransposedBody,
        known: &[Type],
        linear: &[Type],
    ) -> Result<FuncId, Problem> {
        let name = m.function(transposed.back.function).name.clone();
        let types = [known, linear].concat();
        let (n, step) = (known.len(), m.get(self.step));
        function(m, &name, [&types, &[]], |b, p, _| {
            let (all, given, places) = self.parts(b, &p[..n]);
            // An iteration of the reverse pass reads its own elements, besides the whole arrays that
            // recomputation reads.
            let of_iteration = |q: &usize| self.spec.takes[*q] == Binding::Xs;
            let elements: Vec<usize> = (0..step.params.len()).filter(of_iteration).collect();
            let whole = |q: &usize| self.given().position(|g| g == *q).map(|i| given[i]);
            let whole: Vec<Atom> = elements.iter().filter_map(whole).collect();
            let held = places.carries.len();

            let mut takes = vec![Binding::Index];
            takes.extend((0..=given.len()).map(|_| Binding::Const));
            takes.extend(elements.iter().map(|_| Binding::Xs));
            takes.extend((0..held + 2).map(Binding::Carry));
            takes.extend(transposed.takes(held + 2));
            let mut args = p[..self.spec.lead()].to_vec();
            args.push(all);
            args.extend(&given);
            args.extend(&whole);
            args.extend(&places.carries);
            args.extend([places.iterations, places.held]);
            args.extend(&p[n..]);

            let back = b.with_module(|m| {
                let f = m.get(transposed.back.function);
                let mut types = vec![Type::scalar(Dtype::I64); 2];
                types.extend(known[self.spec.lead()..][..given.len()].iter().cloned());
                types.extend(elements.iter().map(|q| step.types[step.params[*q]].clone()));
                types.extend(known[known.len() - held - 2..].iter().cloned());
                types.extend(f.param_types().split_off(f.params.len()));
                function(m, &name, [&types, &[]], |b, p, _| {
                    self.recomputation(b, transposed, p, [given.len(), elements.len(), held])
                })
            });
            let spec = LoopSpec {
                trip: self.spec.trip.clone(),
                direction: self.spec.direction.flipped(),
                takes,
            };
            match back {
                Ok(back) => b.emit(Loop::new(back, spec), &args)[held + 2..].to_vec(),
                Err(problem) => {
                    b.fail(problem);
                    Vec::new()
                }
            }
        })
    }

    /// Emits one iteration of the reverse pass: recomputes the carries at its start from the last checkpoint
    /// slot, then computes its cotangents.
    fn recomputation(
        &self,
        b: &Builder<'_>,
        transposed: &TransposedBody,
        p: &[Atom],
        [given, elements, held]: [usize; 3],
    ) -> Vec<Atom> {
        let (i, all) = (p[0], p[1]);
        let (given, p) = p[2..].split_at(given);
        let (elements, p) = p.split_at(elements);
        let places = CheckpointSlots {
            carries: p[..held].to_vec(),
            iterations: p[held],
            held: p[held + 1],
            number: b.shape_of(p[held]).first().copied().unwrap_or(1),
        };
        let linear = &p[held + 2..];

        let chain = Chain { body: self.step, spec: &self.spec, given: given.to_vec(), all };
        let iteration = Chain::index(self.spec.direction, b, i, all);
        let (at, state) = places.last(b);
        let end = calc(b, Scalar::Add, iteration, number(1));
        let kept: Vec<usize> = (0..held).collect();
        let (state, places) = chain.run_iterations(b, [at, iteration, end], &state, &kept, places);
        let places = places.without(b, iteration);

        let mut elements = elements.iter();
        let taken = |q: usize| match self.spec.takes[q] {
            Binding::Index => Some(i),
            Binding::Const => self.given().position(|g| g == q).map(|g| given[g]),
            Binding::Xs => elements.next().copied(),
            Binding::Carry(r) => Some(state[r]),
        };
        let mut args: Vec<Atom> = (0..self.spec.takes.len()).filter_map(taken).collect();
        args.extend(linear);
        let mut y = places.carries.clone();
        y.extend([places.iterations, places.held]);
        y.extend(b.inline(transposed.back.function, &args));
        y
    }

    /// Returns the reverse pass of the loop as a primitive whose transpose is the forward pass: a `linear_call` of
    /// [`back`](Self::back) and of a function that runs `ahead`. Both functions take the known operands, then the
    /// operands in which they are linear.
    fn both_ways(
        &self,
        cx: &mut RuleCx<'_, '_>,
        transposed: &TransposedBody,
        known: &[Type],
        linear: &[Type],
    ) -> Result<LinearCall, Problem> {
        let (back, forth) = cx.b.with_module(|m| {
            let back = self.back(m, transposed, known, linear)?;
            let f = m.get(self.ahead);
            let (n, tangents) = (known.len(), f.param_types().split_off(known.len()));
            let found = transposed.back.nonzero.iter().zip(&tangents).filter(|(on, _)| **on);
            let types = known.iter().chain(found.map(|(_, ty)| ty)).cloned().collect::<Vec<_>>();
            let forth = function(m, &f.name, [&types, &[]], |b, p, _| {
                let mut given = p[n..].iter().copied();
                let dx = transposed.back.nonzero.iter().zip(&tangents);
                let dx: Vec<Atom> = dx
                    .map(|(on, ty)| instantiate(b, if *on { given.next() } else { None }, ty))
                    .collect();
                let y = b.inline(self.ahead, &[&p[..n], &dx].concat());
                let ct = y.iter().zip(&transposed.nonzero).filter(|(_, on)| **on).map(|(y, _)| *y);
                ct.chain(transposed.totals().map(|q| dx[q])).collect()
            })?;
            Ok((back, forth))
        })?;
        Ok(LinearCall { apply: Some(back), transpose: Some(forth), residuals: known.len() })
    }
}

impl Primitive for Replay {
    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Control,
            name: "replay{ahead, step, lin, trip, direction, takes}".into(),
            math: "dy.. = ∂loop(x..) dx..".into(),
            types: "those of ahead".into(),
            derivative:
                "∂dx: itself; its transpose runs the reverse pass of each iteration from saved or \
                 recomputed carries; ∂x: that of ahead"
                    .into(),
            edges: "the linear half of a loop with `carries`; only reverse mode makes it".into(),
        }]
    }

    fn outputs(&self, module: &Module) -> usize {
        module.function(self.ahead).results.len()
    }

    fn infer(&self, module: &Module, operands: &[Operand<'_>]) -> Result<Types, Problem> {
        Call::inline(self.ahead).infer(module, operands)
    }

    fn run(&self, module: &Module, operands: &[Value]) -> Result<Vec<Value>, Problem> {
        Call::inline(self.ahead).run(module, operands)
    }

    fn jvp(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        match self.itself(cx, x, dx) {
            Some(dual) => Ok(dual),
            None => Call::inline(self.ahead).jvp(cx, x, dx),
        }
    }

    fn linearize(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        match self.itself(cx, x, dx) {
            Some(dual) => Ok(dual),
            None => Call::inline(self.ahead).linearize(cx, x, dx),
        }
    }

    fn is_linear(&self, module: &Module, operands: &[Linearity]) -> bool {
        fits(self.known(module), operands.iter().copied().enumerate())
    }

    fn transpose(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Arg],
        ct: &[Option<Atom>],
        into: &mut Cotangents,
    ) -> Result<(), Problem> {
        let b = cx.b;
        let known = b.with_module(|m| self.known(m));
        let nonzero: Vec<bool> = ct.iter().map(Option::is_some).collect();
        let of = b.with_module(|m| self.parts(m));
        let transposed =
            TransposedBody::new(cx, of.lin, &of.tangents, nonzero, &into.total[known..])?;
        let mut args: Vec<Atom> = x[..known].iter().filter_map(Arg::known).collect();
        let linear = transposed.operands(b, ct, x, into, known);
        let types = |atoms: &[Atom]| -> Vec<Type> { atoms.iter().map(|a| b.type_of(*a)).collect() };
        let op = of.both_ways(cx, &transposed, &types(&args), &types(&linear))?;
        args.extend(linear);
        let found = b.emit(op, &args);
        transposed.add(b, x, known, &found, into);
        Ok(())
    }

    fn batch(
        &self,
        cx: &mut RuleCx<'_, '_>,
        size: usize,
        x: &[Atom],
        batched: &[bool],
    ) -> Result<Batched, Problem> {
        // The batched loop is no `replay`, which has a single chain of iterations. Emit it as a linear call of two
        // batched functions: the map and its transpose.
        let (b, ahead) = (cx.b, cx.b.with_module(|m| m.get(self.ahead)));
        let known = b.with_module(|m| self.known(m));
        let every = vec![true; ahead.results.len()];
        let of = b.with_module(|m| self.parts(m));
        let none = vec![None; of.tangents.len()];
        let transposed = TransposedBody::new(cx, of.lin, &of.tangents, every, &none)?;
        let (known, tangents) = {
            let mut types = ahead.param_types();
            let tangents = types.split_off(known);
            (types, tangents)
        };
        let results = ahead.result_types();
        let totals: Vec<Type> = transposed.totals().map(|q| tangents[q].clone()).collect();
        let linear = [&results[..], &totals].concat();
        let transpose = b.with_module(|m| {
            let back = of.back(m, &transposed, &known, &linear)?;
            let types = [&known[..], &results].concat();
            function(m, &ahead.name, [&types, &[]], |b, p, _| {
                let totals = totals.iter().map(|ty| instantiate(b, None, ty));
                let args: Vec<Atom> = p.iter().copied().chain(totals).collect();
                let mut found = b.inline(back, &args).into_iter();
                let ct = transposed.back.nonzero.iter().zip(&tangents);
                ct.map(|(on, ty)| instantiate(b, if *on { found.next() } else { None }, ty))
                    .collect()
            })
        })?;
        let op = LinearCall {
            apply: Some(self.ahead),
            transpose: Some(transpose),
            residuals: known.len(),
        };
        op.batch(cx, size, x, batched)
    }

    fn regions(&self) -> RegionList {
        let rules = [self.step, self.lin].map(|f| Role::Rule.of(f));
        [Role::Ruled.of(self.ahead)].into_iter().chain(rules).collect()
    }

    fn with_regions(&self, functions: &[FuncId]) -> Op {
        let mut next = functions.iter().copied();
        let mut of = self.clone();
        for f in [&mut of.ahead, &mut of.step, &mut of.lin] {
            *f = next.next().unwrap_or(*f);
        }
        of.into()
    }

    fn prune(&self, _: &mut dyn Regions, _: &mut Module, _: &[bool]) -> Result<Prune, Problem> {
        // Forward evaluation computes all results, and the transpose already omits absent cotangents, so pruning
        // gains nothing.
        Ok(Prune::Whole)
    }

    fn lower(&self, _: &Module, _: &[Operand<'_>]) -> Lowering {
        Lowering::Call(self.ahead)
    }

    fn effects(&self, module: &Module) -> Effects {
        module.effects(self.ahead)
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples(module: &mut Module) -> Vec<Sample> {
        // This sample tests a `replay` by itself. Other `replay`s occur in derivatives of the sample loops.
        sample(module).into_iter().collect()
    }
}

/// A sample of three iterations with two checkpoint slots. Each iteration replaces the carry c by k c², for a constant
/// k.
fn sample(m: &mut Module) -> Result<Sample, Problem> {
    let v = Type::array(Dtype::F64, &[2]);
    let pair = [v.clone(), v.clone()];
    let mul = |b: &Builder<'_>, x: Atom, y: Atom| calc(b, Scalar::Mul, x, y);
    let step =
        function(m, "square", [&pair, &[]], |b, p, _| vec![mul(b, mul(b, p[0], p[1]), p[1])])?;
    let lin = function(m, "square.lin", [&pair, &pair], |b, p, d| {
        let by_k = mul(b, mul(b, d[0], p[1]), p[1]);
        let once = mul(b, mul(b, p[0], p[1]), d[1]);
        let by_c = calc(b, Scalar::Add, once, once);
        vec![calc(b, Scalar::Add, by_k, by_c)]
    })?;
    let takes = vec![Binding::Const, Binding::Carry(0)];
    let spec =
        LoopSpec { trip: TripCount::Static(3), direction: Direction::Up, takes: takes.clone() };
    let mut of = ReplayParts { ahead: lin, step, lin, spec, tangents: takes };
    let operands = vec![
        Tensor::from([0.75, -0.5]),
        Tensor::from([[1.5, 0.5], [0.0, 0.0]]),
        Tensor::from([0i64, 0]),
        Tensor::scalar(1i64),
        Tensor::from([0.25, -1.0]),
        Tensor::from([2.0, 0.5]),
    ];
    let types: Vec<Type> = operands.iter().map(|x| x.ty().clone().into()).collect();
    of.ahead = of.ahead(m, types[..4].to_vec(), types[4..].to_vec(), 2)?;
    Ok(Sample::smooth(of.op(), operands))
}
