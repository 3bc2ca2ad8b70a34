//! Derivatives of a loop that run in its direction: the tangents of an iteration together with its values, or
//! in a separate loop after it.
//!
//! ```text
//! jvp:        (x.., dx..) -> (y.., dy..)       the iterations of the body's jvp
//! linearize:  x.. -> (y.., residuals..)        the iterations of its forward function, which stack the residuals
//!             (residuals..; dx..) -> dy..      the iterations of its linear function
//! ```
//!
//! A carry has a tangent if its start has one or if an iteration creates one. These carries are found by iteration to a
//! fixed point, with at most one step per carry.
//!
//! A residual takes memory for every iteration only if necessary. A constant, an element and a stacked result are read
//! again; the iteration number is available; an array that depends on constants alone is computed once, outside the
//! loop. All others are stacked: per value, one array with an element for each iteration, or a tape if the trip count
//! is not static. The carry at the start of an iteration is a result of the preceding iteration. If that result is
//! stacked, the linear iterations read the carry from its array.
//!
//! A tape is never computed outside the loop, even if the iterations that wrote it read constants alone: it
//! would become a constant of the linear iterations, and the cotangent of a constant is a sum, which tapes do
//! not have. If the loop may have no iterations, no computation that may not terminate is moved outside.

use super::{Binding, Direction, Loop, TripCount};
use crate::lang::function::{Atom, FuncId};
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::problem::Problem;
use crate::lang::query::{LinearizeOf, Residual};
use crate::lang::types::{Dtype, Type};
use crate::map::OrderedSet;
use crate::policy::{Amortization, Memory, PlanRequest, Price};
use crate::policy_table::Policy;
use crate::prim::rules::region_helpers::{function, scatter_tangents};
use crate::prim::rules::slice_helpers::element;
use crate::prim::{Broadcast, Dual, Effects, Op, RuleCx, Scalar};
use std::sync::Arc;

pub(super) fn jvp(
    of: &Loop,
    cx: &mut RuleCx<'_, '_>,
    x: &[Atom],
    dx: &[Option<Atom>],
) -> Result<Dual, Problem> {
    let (derived, active) = of.fixed_point(
        of.of_params(dx.iter().map(Option::is_some)),
        |active, forced| cx.derive(|regions, m| regions.jvp(m, of.body, active, forced)),
        |derived| &derived.active_out,
    )?;
    let results = derived.active_out.len();
    let mut op = Loop { body: derived.function, ..of.clone() };
    op.spec.takes.extend(of.tangent_slots(&active, &derived.active_out, results));
    let args = [x, &of.tangents(cx, x, dx, &active)].concat();
    let mut y = op.emit(cx.b, &args)?;
    let dy: Vec<Atom> = y.drain(results..y.len() - of.trips()).collect();
    Ok(of.dual(y, &derived.active_out, &dy))
}

pub(super) fn linearize(
    of: &Loop,
    cx: &mut RuleCx<'_, '_>,
    x: &[Atom],
    dx: &[Option<Atom>],
) -> Result<Dual, Problem> {
    if let Some(dual) = super::checkpointed::linearize(of, cx, x, dx)? {
        return Ok(dual);
    }
    let shares = of.shares(cx);
    let (derived, active) = of.fixed_point(
        of.of_params(dx.iter().map(Option::is_some)),
        |active, forced| {
            cx.derive(|regions, m| regions.linearize(m, of.body, active, forced, &shares))
        },
        |derived| &derived.active_out,
    )?;
    let derived = cx.derive(|regions, m| {
        let mut terms = of.terms(m, &derived, &shares);
        if of.carries.is_some() {
            // The trip count is at most the number of saved carries, so every iteration saves its carries. Save no
            // other residuals.
            terms.policy = Policy::Nothing;
        }
        regions.plan(m, derived, terms)
    })?;
    let (y, read) = ResidualSources::new(of, cx, &derived, x)?.run()?;
    let mut takes: Vec<Binding> = read.iter().flat_map(Reading::slots).copied().collect();
    takes.extend(of.tangent_slots(&active, &derived.active_out, 0));
    let lin = of.reading(cx, derived.lin, &read)?;
    let mut op = Loop::new(lin, of.spec.clone());
    op.spec.takes = takes;
    // The forward loop returns the number of iterations that its condition allowed; loops derived from it take this
    // number as their trip count.
    let mut args = x[..of.spec.lead()].to_vec();
    if let TripCount::While { .. } = of.spec.trip {
        op.spec.trip = TripCount::Runtime;
        args.extend(y.last());
    }
    args.extend(read.iter().flat_map(|r| r.operands.iter().copied()));
    args.extend(of.tangents(cx, x, dx, &active));
    let dy = match derived.active_out.contains(&true) {
        true => op.emit(cx.b, &args)?,
        false => Vec::new(),
    };
    Ok(of.dual(y, &derived.active_out, &dy))
}

impl Loop {
    /// Converts a mask over the loop's operands to a mask over the parameters of the body.
    pub(super) fn of_params(&self, operands: impl Iterator<Item = bool>) -> Vec<bool> {
        let mut mask = vec![false; self.spec.takes.len()];
        for (p, on) in self.spec.params().zip(operands.skip(self.spec.lead())) {
            mask[p] = on;
        }
        mask
    }

    /// Derives the body, by `derive`, for the parameters marked in `on`. If a carry's result has a derivative, marks
    /// the carry too, and repeats until no mark is added. Then derives once more with the results of marked
    /// carries forced to have one. Returns the derived body and the marks.
    pub(super) fn fixed_point<T>(
        &self,
        mut on: Vec<bool>,
        mut derive: impl FnMut(&[bool], &[bool]) -> Result<T, Problem>,
        out: impl Fn(&T) -> &Vec<bool>,
    ) -> Result<(T, Vec<bool>), Problem> {
        loop {
            let answer = derive(&on, &[])?;
            let mut forced = vec![false; out(&answer).len()];
            let mut settled = true;
            for (p, slot) in self.spec.takes.iter().enumerate() {
                if let Binding::Carry(r) = slot {
                    settled &= on[p] || !out(&answer)[*r];
                    on[p] |= out(&answer)[*r];
                    forced[*r] = on[p];
                }
            }
            if settled {
                return Ok((derive(&on, &forced)?, on));
            }
        }
    }

    /// Returns the costs of residuals for the planner. A carry that changes costs memory for every iteration if it is a
    /// residual, unless the loop stacks it anyway.
    fn terms(&self, m: &Module, of: &LinearizeOf, shares: &[Amortization]) -> PlanRequest {
        let hoists = self.hoists(m, of.fwd);
        let fwd = m.function(of.fwd);
        let values = shares.iter().all(|s| s.context().memory == Memory::Values);
        let own = &fwd.results[..of.active_out.len()];
        let price = |p: usize| match self.spec.takes[p] {
            Binding::Carry(r) if values && self.stacks(own, r).is_some() => Price::THERE,
            Binding::Carry(r) if fwd.results[r] != fwd.params[p].into() => {
                // If a carry that changes is a residual, every iteration needs memory for it, because the next
                // iteration may not overwrite a residual. Charge this memory.
                Price::Bytes(Amortization::OWN.in_bits(shares[p].context().bits))
            }
            Binding::Carry(_) | Binding::Const if hoists || !shares[p].is_free() => {
                Price::Constant(shares[p])
            }
            Binding::Carry(_) | Binding::Const | Binding::Index | Binding::Xs => {
                Price::Bytes(shares[p])
            }
        };
        let params = (0..self.spec.takes.len()).map(price).collect();
        let result = |r: usize| match self.spec.carrier(r) {
            Some(_) => Price::OWN,
            None => Price::THERE,
        };
        let results = (0..of.active_out.len()).map(result).collect();
        PlanRequest::apart(params, results, self.spec.some_iterations())
    }

    /// Returns the stacked result that equals the carried result `carried`, if there is one and the trip count is
    /// static and positive.
    fn stacks(&self, results: &[Atom], carried: usize) -> Option<usize> {
        let known = matches!(self.spec.trip, TripCount::Static(1..));
        let same = |r: &usize| results[*r] == results[carried] && self.spec.carrier(*r).is_none();
        (0..results.len()).find(same).filter(|_| known)
    }

    /// Returns the linear function of an iteration with some residuals read from elsewhere: a carry `x` at the start of
    /// iteration i is read from the stacked results `y`, or, in the first iteration, is the operand `start`.
    ///
    /// ```text
    /// x = select (i == 0) start y[i - 1]
    /// ```
    fn reading(
        &self,
        cx: &mut RuleCx<'_, '_>,
        lin: FuncId,
        read: &[Reading],
    ) -> Result<FuncId, Problem> {
        if read.iter().all(|r| !r.before) {
            return Ok(lin);
        }
        let TripCount::Static(n) = self.spec.trip else { return Ok(lin) };
        let (first, step) = match self.spec.direction {
            Direction::Up => (0, Scalar::Sub),
            Direction::Down => (n - 1, Scalar::Add),
        };
        let operands = |r: &Reading| r.operands.iter().map(|a| cx.b.type_of(*a)).collect();
        let given: Vec<Vec<Type>> = read.iter().map(operands).collect();
        cx.derive(|_, m| {
            let f = m.get(lin);
            // A residual that is a carry at the start of an iteration has these parameters: the iteration number,
            // the carry's value before the first iteration, and the stacked results.
            let types =
                read.iter().zip(&f.params).zip(given).flat_map(|((r, p), given)| match r.before {
                    true => [vec![Type::scalar(Dtype::I64)], given].concat(),
                    false => vec![f.types[*p].clone()],
                });
            let types: Vec<Type> = types.collect();
            let linear: Vec<Type> = f.linear_params.iter().map(|p| f.types[*p].clone()).collect();
            function(m, &f.name, [&types, &linear], |b, given, linear| {
                let (mut given, mut args) = (given, Vec::with_capacity(read.len()));
                for r in read {
                    let (own, rest) = given.split_at(r.slots().len());
                    given = rest;
                    args.push(match *own {
                        [i, start, ends] => {
                            let number = |n: usize| Atom::from(Literal::i64(n as i64));
                            let before = element(b, ends, b.emit1(step, &[i, number(1)]));
                            let begins = b.emit1(Scalar::Eq, &[i, number(first)]);
                            let (shape, dims) = (b.shape_of(before), [].into());
                            let begins = b.emit1(Broadcast { shape, dims }, &[begins]);
                            b.emit1(Scalar::Select, &[begins, start, before])
                        }
                        _ => own[0],
                    });
                }
                args.extend(linear);
                b.inline(lin, &args)
            })
        })
    }

    /// Returns, per parameter of the body, the cost for the linear iterations to read it again: nothing for the
    /// iteration number; for a value that does not change, its cost divided among all iterations.
    fn shares(&self, cx: &RuleCx<'_, '_>) -> Vec<Amortization> {
        let lead = self.spec.lead();
        let context = cx.context();
        let mut shares = vec![Amortization::FREE.with(context); self.spec.takes.len()];
        for (i, p) in self.spec.params().enumerate() {
            shares[p] = cx.share(lead + i);
        }
        cx.b.with_module(|m| {
            let body = m.function(self.body);
            for (p, slot) in self.spec.takes.iter().enumerate() {
                let same =
                    |r: usize| body.params.get(p).is_some_and(|p| body.results[r] == (*p).into());
                shares[p] = match slot {
                    Binding::Carry(r) if !same(*r) => Amortization::OWN.with(context),
                    Binding::Carry(_) | Binding::Const => {
                        shares[p].among(self.spec.some_iterations())
                    }
                    Binding::Index | Binding::Xs => shares[p],
                };
            }
        });
        shares.into_iter().map(|share| share.inside(self.spec.some_iterations())).collect()
    }

    /// Returns whether values that `f` computes from constants alone may be computed outside the loop: not if `f`
    /// has ordered effects, nor if `f` may not terminate and the loop may have no iterations.
    fn hoists(&self, m: &Module, f: FuncId) -> bool {
        let runs = matches!(self.spec.trip, TripCount::Static(1..));
        m.effects(f) != Effects::Ordered && (runs || !has_while(m, f))
    }

    /// Returns the slots (sources) of the tangent parameters. The tangent of a parameter has the slot of the parameter,
    /// except that the tangent of a carry refers to the tangent of the carried result. The tangents of results start at
    /// position `first`.
    pub(super) fn tangent_slots(
        &self,
        active: &[bool],
        active_out: &[bool],
        first: usize,
    ) -> Vec<Binding> {
        let rank = |r: usize| active_out[..r].iter().filter(|on| **on).count();
        let slots = self.spec.takes.iter().zip(active).filter(|(_, on)| **on);
        let tangent = |slot: &Binding| match *slot {
            Binding::Carry(r) => Binding::Carry(first + rank(r)),
            Binding::Index | Binding::Const | Binding::Xs => *slot,
        };
        slots.map(|(slot, _)| tangent(slot)).collect()
    }

    /// Returns a tangent for each operand whose parameter is marked as having one; zeros stand for absent tangents.
    pub(super) fn tangents(
        &self,
        cx: &RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
        active: &[bool],
    ) -> Vec<Atom> {
        let lead = self.spec.lead();
        let operands = self.spec.params().zip(x[lead..].iter().zip(&dx[lead..]));
        let operands = operands.filter(|(p, _)| active[*p]);
        operands.map(|(_, (x, dx))| dx.unwrap_or_else(|| super::zero_tangent(cx.b, *x))).collect()
    }

    /// Pairs the outputs with their tangents. `dy` holds the tangents of the outputs that have one; the trip count, if
    /// it is an output, has none.
    pub(super) fn dual(&self, y: Vec<Atom>, active_out: &[bool], dy: &[Atom]) -> Dual {
        let trips = (0..self.trips()).map(|_| None);
        let dy = scatter_tangents(active_out, dy).into_iter().chain(trips).collect();
        Dual { y: y.into(), dy }
    }
}

/// The way in which the linear iterations read one residual: the slot of the residual's parameter, and the operands of
/// the linear loop.
struct Reading {
    slot: Binding,
    /// The operands of the linear loop from which the residual is read; none for the iteration number.
    operands: Vec<Atom>,
    /// Whether the residual is a carry at the start of an iteration. The operands are then the carry's value
    /// before the first iteration and the array of its values at the end of the iterations.
    before: bool,
}

impl Reading {
    fn of(slot: Binding, operand: Option<Atom>) -> Reading {
        Reading { slot, operands: operand.into_iter().collect(), before: false }
    }

    /// Returns the slots (sources) of the parameters through which the linear iterations read the residual.
    fn slots(&self) -> &[Binding] {
        match self.before {
            true => &[Binding::Index, Binding::Const, Binding::Const],
            false => std::slice::from_ref(&self.slot),
        }
    }
}

/// The source of one residual of the linear iterations.
enum Origin {
    /// The residual takes no memory. The linear iterations read it from an operand of the loop, or it is the iteration
    /// number.
    There(Reading),
    /// A value that depends on constants alone and is computed outside the loop; its index in `hoisted`.
    Hoisted(usize),
    /// A stacked result of the forward iterations; its index in `results`.
    Stacked(usize),
    /// A carry at the start of an iteration. In the first iteration it is the operand of the parameter with the first
    /// index; in every other iteration it is the entry of the preceding iteration in the stacked result with the second
    /// index.
    Before(usize, usize),
}

/// The state of `linearize` while it chooses the sources of residuals: the forward iterations and the residuals
/// of the linear ones.
struct ResidualSources<'a, 'b, 'm> {
    of: &'a Loop,
    cx: &'a mut RuleCx<'b, 'm>,
    x: &'a [Atom],
    residuals: &'a [Residual],
    /// The forward function of the body. Its first `own` results are the results of the body, the others are residuals.
    fwd: Arc<crate::Function>,
    fwd_id: FuncId,
    own: usize,
    /// Per result of `fwd`: whether it may be computed outside the loop, because it is an array that depends on
    /// constants alone.
    known: Vec<bool>,
    /// The results of the new forward body, as values of `fwd`: first the results of the body, then the residuals to
    /// stack.
    results: Vec<Atom>,
    /// The results of `fwd`, by index, that are computed outside the loop.
    hoisted: Vec<usize>,
}

impl<'a, 'b, 'm> ResidualSources<'a, 'b, 'm> {
    fn new(
        of: &'a Loop,
        cx: &'a mut RuleCx<'b, 'm>,
        derived: &'a LinearizeOf,
        x: &'a [Atom],
    ) -> Result<ResidualSources<'a, 'b, 'm>, Problem> {
        let constant: Vec<bool> = of.spec.takes.iter().map(|s| *s == Binding::Const).collect();
        let memory = cx.context().memory;
        let (fwd, known) = cx.derive(|regions, m| {
            let fwd = m.get(derived.fwd);
            // If the forward function has ordered effects, all its values are computed inside the loop.
            let mut known = vec![false; fwd.results.len()];
            // The planner may treat arrays as memory that may overlap. If the iterations then write arrays, an array
            // may change between iterations, so no value is computed outside the loop.
            let written = memory == Memory::Written && m.writes(derived.fwd);
            if m.effects(derived.fwd) != Effects::Ordered && !written {
                let parts = regions.unzip(m, derived.fwd, &constant)?;
                if m.effects(parts.known) == Effects::Pure && of.hoists(m, parts.known) {
                    known = parts.known_out;
                }
            }
            for (known, ty) in known.iter_mut().zip(fwd.result_types()) {
                *known &= ty.as_array().is_some();
            }
            Ok((fwd, known))
        })?;
        let own = derived.active_out.len();
        let results = fwd.results[..own].to_vec();
        let (residuals, hoisted) = (&derived.residuals, Vec::new());
        Ok(ResidualSources {
            of,
            cx,
            x,
            residuals,
            fwd,
            fwd_id: derived.fwd,
            own,
            known,
            results,
            hoisted,
        })
    }

    /// Emits the forward loop. Returns its outputs, and for every residual how the linear iterations read it.
    fn run(mut self) -> Result<(Vec<Atom>, Vec<Reading>), Problem> {
        let origins: Vec<Origin> = self.residuals.iter().map(|r| self.origin(*r)).collect();
        let mut used = vec![false; self.fwd.results.len()];
        self.hoisted.iter().for_each(|r| used[*r] = true);
        let hoisted = match self.hoisted.is_empty() {
            true => Vec::new(),
            false => {
                let fwd = self.fwd_id;
                let part = self.cx.derive(|regions, m| regions.prune(m, fwd, &used, &[]))?;
                let params = part.params.iter().enumerate().filter(|(_, on)| **on);
                let args: Vec<Atom> = params.filter_map(|(p, _)| self.operand(p)).collect();
                self.cx.b.inline(part.function, &args)
            }
        };
        // The pruned function returns hoisted results in the order of `fwd`.
        let place = |n: usize| self.hoisted.iter().filter(|r| **r < self.hoisted[n]).count();
        let forward = self.cx.b.with_module(|m| {
            let mut forward = (*self.fwd).clone();
            forward.results.clone_from(&self.results);
            m.add(forward)
        })?;
        let op = Loop { body: forward, ..self.of.clone() };
        let y = self.cx.b.emit(op, self.x).to_vec();
        let reading = |origin| match origin {
            Origin::There(reading) => reading,
            Origin::Hoisted(n) => Reading::of(Binding::Const, Some(hoisted[place(n)])),
            Origin::Stacked(n) => Reading::of(Binding::Xs, Some(y[n])),
            Origin::Before(p, n) => {
                let operands = self.operand(p).into_iter().chain([y[n]]).collect();
                Reading { slot: Binding::Const, operands, before: true }
            }
        };
        let read = origins.into_iter().map(reading).collect();
        let mut outputs = y[..self.own].to_vec();
        outputs.extend(&y[y.len() - self.of.trips()..]);
        Ok((outputs, read))
    }

    /// Returns the loop's operand for parameter `p`; `None` for the iteration number.
    fn operand(&self, p: usize) -> Option<Atom> {
        let spec = &self.of.spec;
        let place = spec.params().position(|q| q == p)?;
        self.x.get(spec.lead() + place).copied()
    }

    /// Returns the stacked result that equals the result `carried` of an iteration; `None` if there is none, or
    /// if arrays may be overwritten.
    fn before(&self, carried: usize) -> Option<usize> {
        let values = self.cx.context().memory == Memory::Values;
        self.of.stacks(&self.results, carried).filter(|_| values)
    }

    fn origin(&mut self, residual: Residual) -> Origin {
        let there = |slot, operand| Origin::There(Reading::of(slot, operand));
        match residual {
            Residual::Parameter(p) => match self.of.spec.takes[p] {
                slot @ (Binding::Index | Binding::Const | Binding::Xs) => {
                    there(slot, self.operand(p))
                }
                // A carry that no iteration changes equals its value before the first iteration.
                Binding::Carry(r) if self.fwd.results[r] == self.fwd.params[p].into() => {
                    there(Binding::Const, self.operand(p))
                }
                Binding::Carry(r) => match self.before(r) {
                    Some(n) => Origin::Before(p, n),
                    None => self.stacked(self.fwd.params[p].into()),
                },
            },
            Residual::Result(r) | Residual::Kept(r) if self.known[r] => {
                let seen = self.hoisted.iter().position(|h| *h == r);
                Origin::Hoisted(seen.unwrap_or_else(|| {
                    self.hoisted.push(r);
                    self.hoisted.len() - 1
                }))
            }
            Residual::Result(r) | Residual::Kept(r) => self.stacked(self.fwd.results[r]),
        }
    }

    /// Returns the stacked result of the forward iterations that has the value `value`. If there is no such result,
    /// adds one.
    fn stacked(&mut self, value: Atom) -> Origin {
        let of = self.of;
        let free = |r: &usize| of.spec.carrier(*r).is_none();
        let found = (0..self.results.len()).find(|r| self.results[*r] == value && free(r));
        Origin::Stacked(found.unwrap_or_else(|| {
            self.results.push(value);
            self.results.len() - 1
        }))
    }
}

/// Returns whether an equation with `op` runs a loop with a condition (which may not terminate), itself or in a
/// function that it runs.
pub fn may_not_end(m: &Module, op: &Op) -> bool {
    is_while(op) || op.regions().iter().any(|r| r.role.runs() && has_while(m, r.function))
}

fn is_while(op: &Op) -> bool {
    let Op::Loop(of) = op else { return false };
    matches!(of.spec.trip, TripCount::While { .. })
}

/// Returns whether the function `f`, or a function that it runs, contains a loop with a condition.
fn has_while(m: &Module, f: FuncId) -> bool {
    let mut seen = OrderedSet::default();
    let mut open = vec![f];
    while let Some(f) = open.pop() {
        if !seen.insert(f) {
            continue;
        }
        for e in &m.function(f).equations {
            if is_while(&e.op) {
                return true;
            }
            open.extend(e.op.regions().iter().filter(|r| r.role.runs()).map(|r| r.function));
        }
    }
    false
}
