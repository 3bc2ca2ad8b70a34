//! The loops that a schedule is made of: iterations from any one on, and carries kept on the way.
//!
//! A program of constant size follows a schedule of any length ([`crate::revolve`]), since where the
//! next carry is kept follows from two numbers. What it holds are *places*: for each carry an array of
//! so many, the number of the iteration that each begins, and how many are held:
//!
//! ```text
//! while held < places and end - at >= 3:              keep some on the way to the last iteration before end
//!   ahead = split(end - at, places - held + 1)
//!   run `ahead` iterations, at += ahead                   a loop whose number of iterations is known when it runs
//!   carries[held], iterations[held] = carry, at;  held += 1
//! ```
//!
//! LoopSpec are numbered here in the order in which they run, whatever their direction. An element of a
//! iteration is read where it lies, and what iterations stack is written where it is to lie.

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

/// Arithmetic on single numbers.
pub(super) fn calc(b: &Builder<'_>, op: Scalar, x: Atom, y: Atom) -> Atom {
    b.emit1(op, &[x, y])
}

/// A loop written as a closure: constants and carries to the next carries. What it is given before them
/// is the number of the iteration, unless a condition says when it ends.
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

/// Whether there is another iteration, given constants and carries.
pub(super) type Holds = fn(&Builder<'_>, &[Atom], &[Atom]) -> Atom;

/// How often a closure runs.
#[derive(Clone, Copy)]
pub(super) enum Times {
    Number(Atom),
    While(Holds),
}

/// The iterations of a loop, to be run from any one on.
#[derive(Clone)]
pub(super) struct Chain<'a> {
    /// What an iteration runs. Where the n-th result goes, the n-th value of a state is.
    pub(super) body: FuncId,
    pub(super) spec: &'a LoopSpec,
    /// What all iterations are given, for each parameter in a `const` or `xs` slot: constants, and arrays of
    /// all elements.
    pub(super) given: Vec<Atom>,
    /// How many iterations the loop has.
    pub(super) all: Atom,
}

impl Chain<'_> {
    /// The number of the element that belongs to the iteration that runs as the `k`-th.
    pub(super) fn index(direction: Direction, b: &Builder<'_>, k: Atom, all: Atom) -> Atom {
        match direction {
            Direction::Up => k,
            Direction::Down => calc(b, Scalar::Sub, calc(b, Scalar::Sub, all, number(1)), k),
        }
    }

    /// Runs so many iterations. A state is what an iteration left: a carry, or an array of all elements, of which
    /// some are written.
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

    /// The same iterations inside a loop that has all this among its constants: those from `first` on.
    fn inside(&self, constants: &[Atom]) -> Self {
        Chain { given: constants[1..].to_vec(), all: constants[0], ..self.clone() }
    }

    /// What it reads, as constants of a loop around it.
    fn constants(&self) -> Vec<Atom> {
        [&[self.all], &self.given[..]].concat()
    }

    /// Goes from a state at the iteration `from` to that at the iteration `to`, on the way to `end`, behind the
    /// last iteration that is to be undone; keeps what it meets where there are places.
    ///
    /// `kept` says which values of the state are kept.
    pub(super) fn go(
        &self,
        b: &Builder<'_>,
        [from, to, end]: [Atom; 3],
        state: &[Atom],
        kept: &[usize],
        places: Held,
    ) -> (Vec<Atom>, Held) {
        let constants = [&[end, number(places.number)], &self.constants()[..]].concat();
        let carries =
            [&[from, places.held, places.iterations], &places.carries[..], state].concat();
        let (first, all) = (3 + places.carries.len(), places.number);
        let more: Holds = |b, constants, carries| {
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
        (state, Held { held, iterations, carries: met[3..first].to_vec(), number: all })
    }
}

/// Where carries are kept.
#[derive(Clone)]
pub(super) struct Held {
    /// How many are held.
    pub(super) held: Atom,
    /// Which iteration each begins.
    pub(super) iterations: Atom,
    /// Those of each carry, as one array.
    pub(super) carries: Vec<Atom>,
    /// How many there are.
    pub(super) number: usize,
}

impl Held {
    /// So many, of which the first holds the carries that the first iteration begins with.
    pub(super) fn new(b: &Builder<'_>, number: usize, start: &[Atom]) -> Held {
        let place = |x: &Atom| {
            let all = ArrayType::new(b.dtype_of(*x), b.shape_of(*x).with_leading(number));
            with_element(b, zeros(b, &all), self::number(0), *x)
        };
        let iterations = zeros(b, &ArrayType::new(Dtype::I64, [number]));
        Held {
            held: self::number(1),
            iterations,
            carries: start.iter().map(place).collect(),
            number,
        }
    }

    /// The iteration that the last one held begins, and its carries.
    pub(super) fn last(&self, b: &Builder<'_>) -> (Atom, Vec<Atom>) {
        let at = calc(b, Scalar::Sub, self.held, number(1));
        let carries = self.carries.iter().map(|c| element(b, *c, at)).collect();
        (element(b, self.iterations, at), carries)
    }

    /// Without the last one held, if it begins that iteration.
    pub(super) fn without(mut self, b: &Builder<'_>, iteration: Atom) -> Held {
        let last = calc(b, Scalar::Sub, self.held, number(1));
        let done = calc(b, Scalar::Eq, element(b, self.iterations, last), iteration);
        self.held = b.emit1(Scalar::Select, &[done, last, self.held]);
        self
    }
}

/// [`crate::revolve::split`], as a program.
fn split(b: &Builder<'_>, iterations: Atom, carries: Atom) -> Atom {
    let more: Holds = |b, constants, carries| calc(b, Scalar::Lt, carries[2], constants[0]);
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

/// A number of carries as a loop says it.
pub(super) fn few(carries: usize) -> NonZeroU32 {
    let carries = u32::try_from(carries).unwrap_or(u32::MAX);
    NonZeroU32::new(carries).unwrap_or(NonZeroU32::MIN)
}
