//! A loop over a batch whose members need different numbers of iterations.
//!
//! The loop runs as long as any member needs an iteration. A member that needs no more iterations retains its
//! carries, and is masked in the body ([`Lanes`]).
//!
//! ```text
//! trip=runtime:  the largest trip count; iteration i runs the members whose trip count is more than i
//! trip=while:    carries the mask of members that continue, and the trip count of each member
//! ```
//!
//! If an iteration has effects that a user can observe, members run it one after the other.
//!
//! In either direction, iteration i of the batched loop is iteration i of every member. So a loop that runs
//! another loop's iterations in reverse meets each member at the iteration where it stopped.

use super::{Binding, Direction, Loop, LoopSpec, TripCount, repeated};
use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId};
use crate::lang::literal::Literal;
use crate::lang::problem::Problem;
use crate::lang::query::BatchRequest;
use crate::lang::types::{Dtype, Type};
use crate::prim::elementwise::full;
use crate::prim::rules::batch_mask::{Lanes, one_by_one, skipped};
use crate::prim::rules::region_helpers::function;
use crate::prim::{Batched, Broadcast, Cond, Convert, Reduce, Reducer, RuleCx, Scalar};

pub(super) fn batch(
    of: &Loop,
    cx: &mut RuleCx<'_, '_>,
    size: usize,
    x: &[Atom],
    batched: &[bool],
) -> Result<Batched, Problem> {
    let (b, spec) = (cx.b, &of.spec);
    // Every carry becomes batched, because batch members stop at different iterations.
    let mut on = of.of_params(batched.iter().copied());
    for (on, slot) in on.iter_mut().zip(&spec.takes) {
        *on |= matches!(slot, Binding::Carry(_));
    }
    let mut seen = false;
    let derived = cx.derive(|regions, m| {
        seen = m.is_seen(of.body);
        let wanted = |r: usize| match spec.carrier(r) {
            None if !seen => BatchRequest::AsIs,
            Some(_) | None => BatchRequest::Batched,
        };
        let wanted: Vec<BatchRequest> =
            (0..m.function(of.body).results.len()).map(wanted).collect();
        regions.batch(m, of.body, size, &on, &wanted)
    })?;
    let results = derived.batched_out.len();
    let lead = spec.lead();
    let mut args = Vec::new();
    for ((p, x), lifted) in spec.params().zip(&x[lead..]).zip(&batched[lead..]) {
        args.push(if on[p] && !lifted { repeated(b, size, *x) } else { *x });
    }
    let number = Literal::i64(0);
    let none = full(b, &[size].into(), number);
    let mut masked = Masked { of, function: derived.function, size, on: &on, goes_on: None, seen };
    let op = match &spec.trip {
        TripCount::Static(_) => {
            return Err(Problem::internal("all batch members have the trip count of the loop"));
        }
        TripCount::Runtime => {
            let needed = x[0];
            let most = match size {
                0 => number.into(),
                _ => b.emit1(Reduce { reducer: Reducer::Max, axes: vec![0] }, &[needed]),
            };
            let (body, takes) = masked.body(cx, &[Binding::Index, Binding::Const])?;
            let place =
                spec.takes.iter().zip(0..masked.known(cx)).filter(|(s, _)| **s != Binding::Index);
            args.insert(place.count(), needed);
            args.insert(0, most);
            let direction = spec.direction;
            Loop {
                body,
                spec: LoopSpec { trip: TripCount::Runtime, direction, takes },
                carries: of.carries,
            }
        }
        TripCount::While { condition, reads } => {
            let lifted: Vec<bool> = reads.iter().map(|p| on[*p]).collect();
            let goes_on = cx.derive(|regions, m| {
                regions.batch(m, *condition, size, &lifted, &[BatchRequest::Batched])
            })?;
            masked.goes_on = Some((goes_on.function, reads));
            let operand = |p: &usize| spec.params().position(|q| q == *p).map(|i| args[i]);
            let read: Vec<Atom> = reads.iter().filter_map(operand).collect();
            args.extend(b.inline(goes_on.function, &read));
            args.push(none);
            let (body, takes) =
                masked.body(cx, &[Binding::Carry(results), Binding::Carry(results + 1)])?;
            let condition = b.with_module(|m| {
                let live = Type::array(Dtype::Bool, &[size]);
                function(m, "any", [&[live], &[]], |b, p, _| {
                    vec![b.emit1(Reduce { reducer: Reducer::Or, axes: vec![0] }, p)]
                })
            })?;
            let trip = TripCount::While { condition, reads: vec![spec.takes.len()] };
            Loop {
                body,
                spec: LoopSpec { trip, direction: Direction::Up, takes },
                carries: of.carries,
            }
        }
    };
    let mut y = b.emit(op, &args).to_vec();
    let mut batched = derived.batched_out;
    if let TripCount::While { .. } = spec.trip {
        // Drop the common trip count and the mask from the outputs; return the trip count of each member.
        y.truncate(results + 2);
        y.remove(results);
        batched.push(true);
    }
    Ok(Batched { y: y.into(), batched: batched.into() })
}

/// The body of a loop over a batch, to be masked so that members that have stopped do not take part.
struct Masked<'a> {
    of: &'a Loop,
    /// The body batched over all members, without a mask.
    function: FuncId,
    size: usize,
    /// Per parameter of the body: whether it is batched.
    on: &'a [bool],
    /// For a loop with a condition: the batched condition, and the parameters of the body that it reads.
    goes_on: Option<(FuncId, &'a [usize])>,
    /// Whether the body has effects that a user can observe.
    seen: bool,
}

impl Masked<'_> {
    /// Returns the number of parameters of the batched body that are not linear.
    fn known(&self, cx: &RuleCx<'_, '_>) -> usize {
        cx.b.with_module(|m| m.function(self.function).params.len())
    }

    /// Returns the masked body and the slots (sources) of its parameters. Two additional parameters with the slots
    /// `more`, after the ordinary ones, determine the members that take part.
    fn body(
        &self,
        cx: &RuleCx<'_, '_>,
        more: &[Binding; 2],
    ) -> Result<(FuncId, Vec<Binding>), Problem> {
        let known = self.known(cx);
        let takes = &self.of.spec.takes;
        let slots = [&takes[..known], more, &takes[known..]].concat();
        cx.b.with_module(|m| {
            let f = m.get(self.function);
            let types = f.param_types();
            let (first, linear) = types.split_at(known);
            let index = Type::scalar(Dtype::I64);
            let of_all = |dtype| Type::array(dtype, &[self.size]);
            let more = match self.goes_on {
                None => [index, of_all(Dtype::I64)],
                Some(_) => [of_all(Dtype::Bool), of_all(Dtype::I64)],
            };
            let types = [first, &more].concat();
            let body = function(m, &f.name, [&types, linear], |b, p, linear| {
                self.iteration(b, &p[..known], &p[known..], linear).unwrap_or_else(|problem| {
                    b.fail(problem);
                    Vec::new()
                })
            })?;
            Ok((body, slots))
        })
    }

    fn iteration(
        &self,
        b: &Builder<'_>,
        p: &[Atom],
        more: &[Atom],
        linear: &[Atom],
    ) -> Result<Vec<Atom>, Problem> {
        if self.size == 0 {
            return Ok(self.ended(b, p, more, linear));
        }
        let spread = Broadcast { shape: [self.size].into(), dims: vec![] };
        let alive = match self.goes_on {
            None => b.emit1(Scalar::Lt, &[b.emit1(spread, &more[..1]), more[1]]),
            Some(_) => more[0],
        };
        let lanes = Lanes::new(b, alive);
        let before = [p, linear].concat();
        let safe = |(i, x): (usize, &Atom)| match self.on[i] {
            true if i < p.len() => lanes.safe(*x),
            true => lanes.zero(*x),
            false => *x,
        };
        let args: Vec<Atom> = before.iter().enumerate().map(safe).collect();
        let mut y = match self.seen {
            false => b.inline(self.function, &args),
            true => {
                let skipped = b.with_module(|m| skipped(m, self.of.body, &[]))?;
                let op = Cond { branches: vec![skipped, self.of.body] }.into();
                let args = [&[alive], &before[..]].concat();
                let on = [&[true], self.on].concat();
                one_by_one(b, self.size, &op, &args, &on, p.len() + 1)?
            }
        };
        for (r, y) in y.iter_mut().enumerate() {
            if let Some(p) = self.of.spec.carrier(r) {
                *y = lanes.choose(*y, before[p]);
            }
        }
        if let Some((condition, reads)) = self.goes_on {
            let after = |p: &usize| match self.of.spec.takes[*p] {
                Binding::Carry(r) => y[r],
                Binding::Index | Binding::Const | Binding::Xs => before[*p],
            };
            let read: Vec<Atom> = reads.iter().map(after).collect();
            let goes_on = b.inline(condition, &read);
            let one = b.emit1(Convert { to: Dtype::I64 }, &[alive]);
            y.extend(goes_on);
            y.push(b.emit1(Scalar::Add, &[more[1], one]));
        }
        Ok(y)
    }

    /// Emits the body of a loop over a batch without members; the loop never runs it.
    fn ended(&self, b: &Builder<'_>, p: &[Atom], more: &[Atom], linear: &[Atom]) -> Vec<Atom> {
        let mut y = b.inline(self.function, &[p, linear].concat());
        if self.goes_on.is_some() {
            y.extend(more);
        }
        y
    }
}
