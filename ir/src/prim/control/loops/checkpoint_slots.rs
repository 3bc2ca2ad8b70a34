//! The loops that implement a checkpointing schedule: they run iterations from any start, and save carries on
//! the way.
//!
//! A program of constant size follows a schedule of any length ([`crate::revolve`]), because two numbers determine
//! where the next carry is saved. The program's state is the *slots*: for each carry an array with one element per
//! slot, an array with the number of the iteration that starts from each slot, and the number `held` of slots in use.
//! The reverse pass has processed the iterations from `end` on, and `at` is the iteration reached so far:
//!
//! ```text
//! while held < slots and end - at >= 3:               save carries on the way to the last iteration before end
//!   ahead = split(end - at, slots - held + 1)
//!   run `ahead` iterations, at += ahead                   a loop with a run-time trip count
//!   carries[held], iterations[held] = carry, at;  held += 1
//! ```
//!
//! Iterations are numbered in the order in which they run, whatever the direction. The element of an iteration
//! is read from the whole array, and stacked results are written directly into the whole array.

use super::{Binding, Direction, Loop, LoopSpec, TripCount};
use crate::fault::{Fault, planted};
use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId};
use crate::lang::literal::Literal;
use crate::lang::types::{ArrayType, Dtype, Type};
use crate::prim::Scalar;
use crate::prim::elementwise::zeros;
use crate::prim::rules::region_helpers::function;
use crate::prim::rules::slice_helpers::{element, with_element};
use std::num::NonZeroU32;

pub(super) fn number(n: usize) -> Atom {
    Literal::i64(n as i64).into()
}

/// Emits the elementwise primitive `op` on two scalars `x` and `y`.
pub(super) fn calc(b: &Builder<'_>, op: Scalar, x: Atom, y: Atom) -> Atom {
    b.emit1(op, &[x, y])
}

/// Emits a loop whose body is a closure from constants and carries to the next carries. The closure's first argument is
/// the iteration number.
pub(super) fn looped(
    b: &Builder<'_>,
    name: &str,
    times: Times,
    constants: &[Atom],
    carries: &[Atom],
    iteration: impl FnOnce(&Builder<'_>, Atom, &[Atom], &[Atom]) -> Vec<Atom>,
) -> Vec<Atom> {
    let types = |atoms: &[Atom]| -> Vec<Type> { atoms.iter().map(|a| b.type_of(*a)).collect() };
    let of_values = [types(constants), types(carries)].concat();
    let (n, at) = (constants.len(), b.origin());
    let made = b.with_module(|m| {
        let with_number = [&[Type::scalar(Dtype::I64)], &of_values[..]].concat();
        let body = function(m, name, [&with_number, &[]], |b, p, _| {
            b.at(at);
            iteration(b, p[0], &p[1..=n], &p[n + 1..])
        })?;
        let trip = match times {
            Times::Number(_) => TripCount::Runtime,
            Times::While(holds) => {
                let condition = function(m, "more", [&of_values, &[]], |b, p, _| {
                    b.at(at);
                    vec![holds(b, &p[..n], &p[n..])]
                })?;
                TripCount::While { condition, reads: (1..=of_values.len()).collect() }
            }
        };
        Ok((body, trip))
    });
    let (body, trip) = match made {
        Ok(made) => made,
        Err(problem) => {
            b.fail(problem);
            return carries.to_vec();
        }
    };
    let constant = constants.iter().map(|_| Binding::Const);
    let takes = [Binding::Index].into_iter().chain(constant);
    let takes = takes.chain((0..carries.len()).map(Binding::Carry)).collect();
    let lead = match times {
        Times::Number(n) => vec![n],
        Times::While(_) => Vec::new(),
    };
    let op = Loop::new(body, LoopSpec { trip, direction: Direction::Up, takes });
    let mut y = b.emit(op, &[&lead, constants, carries].concat()).to_vec();
    y.truncate(carries.len());
    y
}

/// A function that emits the condition of a loop, given constants and carries: whether there is another
/// iteration.
pub(super) type Condition = fn(&Builder<'_>, &[Atom], &[Atom]) -> Atom;

/// The number of iterations of a loop whose body is a closure: given as a value, or decided by a condition.
#[derive(Clone, Copy)]
pub(super) enum Times {
    Number(Atom),
    While(Condition),
}

/// The iterations of a loop to be recomputed, which can be run from any saved state. A *state* is the value of
/// each result of the body after some iterations.
#[derive(Clone)]
pub(super) struct Chain<'a> {
    /// The body of an iteration. The n-th value of a state is the body's n-th result.
    pub(super) body: FuncId,
    pub(super) spec: &'a LoopSpec,
    /// The operands of the loop in `const` slots, which every iteration reads whole, and in `xs` slots, arrays of which
    /// each iteration reads one element.
    pub(super) given: Vec<Atom>,
    /// The trip count of the whole loop, an `i64[]`.
    pub(super) all: Atom,
}

impl Chain<'_> {
    /// Emits the index of the element that belongs to the `k`-th of `all` iterations in execution order.
    pub(super) fn index(direction: Direction, b: &Builder<'_>, k: Atom, all: Atom) -> Atom {
        match direction {
            Direction::Up => k,
            Direction::Down => calc(b, Scalar::Sub, calc(b, Scalar::Sub, all, number(1)), k),
        }
    }

    /// Emits `count` iterations, starting with iteration `from`. `state` is the state before that iteration; the
    /// value for a stacked result is the array of all its elements, some of which have been written.
    fn run(&self, b: &Builder<'_>, from: Atom, count: Atom, state: &[Atom]) -> Vec<Atom> {
        let constants = [&[from, self.all], &self.given[..]].concat();
        looped(
            b,
            "iterations",
            Times::Number(count),
            &constants,
            state,
            |b, j, constants, state| {
                let k = calc(b, Scalar::Add, constants[0], j);
                let i = Chain::index(self.spec.direction, b, k, constants[1]);
                let mut given = constants[2..].iter();
                let mut next = || given.next().copied().unwrap_or(i);
                let arg = |slot: &Binding| match slot {
                    Binding::Index => i,
                    Binding::Const => next(),
                    Binding::Xs => element(b, next(), i),
                    Binding::Carry(r) => state[*r],
                };
                let args: Vec<Atom> = self.spec.takes.iter().map(arg).collect();
                let mut y = b.inline(self.body, &args);
                for (r, y) in y.iter_mut().enumerate() {
                    if self.spec.carrier(r).is_none() {
                        *y = with_element(b, state[r], i, *y);
                    }
                }
                y
            },
        )
    }

    /// Returns the same iterations for use inside a surrounding loop. `constants` are that loop's constants, which
    /// begin with the values of `Chain::constants`.
    fn inside(&self, constants: &[Atom]) -> Self {
        Chain { given: constants[1..].to_vec(), all: constants[0], ..self.clone() }
    }

    /// Returns the values other than the loop's state that each iteration reads. A surrounding loop takes them as
    /// constants.
    fn constants(&self) -> Vec<Atom> {
        [&[self.all], &self.given[..]].concat()
    }

    /// Emits the iterations from the state before iteration `from` to the state before iteration `to`, and
    /// saves carries in free slots on the way. `end` is the end of the iterations that the reverse pass still
    /// has to process.
    ///
    /// `kept` holds the indices of those values of the state that are saved.
    pub(super) fn run_iterations(
        &self,
        b: &Builder<'_>,
        [from, to, end]: [Atom; 3],
        state: &[Atom],
        kept: &[usize],
        places: CheckpointSlots,
    ) -> (Vec<Atom>, CheckpointSlots) {
        let constants = [&[end, number(places.number)], &self.constants()[..]].concat();
        let carries =
            [&[from, places.held, places.iterations], &places.carries[..], state].concat();
        let (first, all) = (3 + places.carries.len(), places.number);
        let more: Condition = |b, constants, carries| {
            let left = calc(b, Scalar::Sub, constants[0], carries[0]);
            let several = calc(b, Scalar::Ge, left, number(3));
            let room = calc(b, Scalar::Lt, carries[1], constants[1]);
            calc(b, Scalar::And, several, room)
        };
        let met = looped(b, "keep", Times::While(more), &constants, &carries, |b, _, x, y| {
            let (end, from, held) = (x[0], y[0], y[1]);
            let left = calc(b, Scalar::Sub, end, from);
            let free = calc(b, Scalar::Sub, number(all + 1), held);
            let ahead = split(b, left, free);
            let state = self.inside(&x[2..]).run(b, from, ahead, &y[first..]);
            let at = calc(b, Scalar::Add, from, ahead);
            let at = if planted(Fault::Segment) { calc(b, Scalar::Add, at, number(1)) } else { at };
            let iterations = with_element(b, y[2], held, at);
            let carries = y[3..first].iter().zip(kept);
            let carries = carries.map(|(c, r)| with_element(b, *c, held, state[*r]));
            let held = calc(b, Scalar::Add, held, number(1));
            [at, held, iterations]
                .into_iter()
                .chain(carries.collect::<Vec<_>>())
                .chain(state)
                .collect()
        });
        let left = calc(b, Scalar::Sub, to, met[0]);
        let state = self.run(b, met[0], left, &met[first..]);
        let (held, iterations) = (met[1], met[2]);
        (state, CheckpointSlots { held, iterations, carries: met[3..first].to_vec(), number: all })
    }
}

/// The checkpoint slots: each slot holds one saved value of every carry.
#[derive(Clone)]
pub(super) struct CheckpointSlots {
    /// The number of slots in use, an `i64[]`.
    pub(super) held: Atom,
    /// For each slot, the number of the iteration that starts with the slot's carries.
    pub(super) iterations: Atom,
    /// For each carry, an array whose element `s` is the carry's value in slot `s`.
    pub(super) carries: Vec<Atom>,
    /// The number of all slots, in use or free.
    pub(super) number: usize,
}

impl CheckpointSlots {
    /// Creates `number` slots, of which only the first is in use: it holds the carries at the start of the loop.
    pub(super) fn new(b: &Builder<'_>, number: usize, start: &[Atom]) -> CheckpointSlots {
        let place = |x: &Atom| {
            let all = ArrayType::new(b.dtype_of(*x), b.shape_of(*x).with_leading(number));
            with_element(b, zeros(b, &all), self::number(0), *x)
        };
        let iterations = zeros(b, &ArrayType::new(Dtype::I64, [number]));
        CheckpointSlots {
            held: self::number(1),
            iterations,
            carries: start.iter().map(place).collect(),
            number,
        }
    }

    /// Emits the iteration number and the carries that were saved last, that is, those in the last checkpoint slot in
    /// use.
    pub(super) fn last(&self, b: &Builder<'_>) -> (Atom, Vec<Atom>) {
        let at = calc(b, Scalar::Sub, self.held, number(1));
        let carries = self.carries.iter().map(|c| element(b, *c, at)).collect();
        (element(b, self.iterations, at), carries)
    }

    /// Frees the last slot in use if iteration `iteration` starts with the carries that the slot holds.
    pub(super) fn without(mut self, b: &Builder<'_>, iteration: Atom) -> CheckpointSlots {
        let last = calc(b, Scalar::Sub, self.held, number(1));
        let done = calc(b, Scalar::Eq, element(b, self.iterations, last), iteration);
        self.held = b.emit1(Scalar::Select, &[done, last, self.held]);
        self
    }
}

/// Emits the computation of [`crate::revolve::split`]: the number of iterations to run before the next carry is
/// saved.
fn split(b: &Builder<'_>, iterations: Atom, carries: Atom) -> Atom {
    let more: Condition = |b, constants, carries| calc(b, Scalar::Lt, carries[2], constants[0]);
    let start = [number(0), number(0), number(1)];
    let found =
        looped(b, "reach", Times::While(more), &[iterations, carries], &start, |b, _, x, y| {
            let times = calc(b, Scalar::Add, y[0], number(1));
            let factor = calc(b, Scalar::Add, x[1], times);
            let now = calc(b, Scalar::Div, calc(b, Scalar::Mul, y[2], factor), times);
            vec![times, y[2], now]
        });
    let (times, before) = (found[0], found[1]);
    let others = calc(b, Scalar::Sub, calc(b, Scalar::Add, carries, times), number(1));
    let least = calc(b, Scalar::Max, others, number(1));
    let behind = calc(b, Scalar::Div, calc(b, Scalar::Mul, before, carries), least);
    calc(b, Scalar::Min, before, calc(b, Scalar::Sub, iterations, behind))
}

/// Converts a number of checkpoint slots to the type of `Loop::carries`; 0 becomes 1.
pub(super) fn slot_count(carries: usize) -> NonZeroU32 {
    let carries = u32::try_from(carries).unwrap_or(u32::MAX);
    NonZeroU32::new(carries).unwrap_or(NonZeroU32::MIN)
}
