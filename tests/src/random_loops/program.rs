//! Random programs: what is done, drawn from a seed, and made smaller.

use super::meaning::{CHOICES, CODES, FACTORS, THRESHOLDS};
use crate::Rng;
use std::sync::Arc;
use tapeloom::prelude::*;

/// What is done to the state.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// One of the `CODES`, or of the `FACTORS` behind them.
    Code(usize),
    /// A mark on the first vector.
    Named(&'static str),
    /// What is told of the number.
    Told,
    /// Iterations of a loop.
    Iterations(Iterations, usize, Vec<Step>),
    /// Loops over the elements of arrays, of so many rows, places and taps.
    Nest(Nest, [usize; 3]),
    /// One of two lists, by the sign of a difference.
    Branch(Vec<Step>, Vec<Step>),
    /// A function that is called.
    Call(Vec<Step>),
    /// A function with a rule: that its derivative is its derivative.
    Rule(Vec<Step>),
    /// Two members of a batch.
    Batch(Vec<Step>),
    /// Under a policy.
    Under(Policy, Vec<Step>),
    /// With so many carries for blocks of so many iterations.
    Carries(usize, usize, Vec<Step>),
}

/// Which loop.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Iterations {
    /// `fori_loop` of a known number of iterations.
    Known,
    /// `fori_loop` of as many iterations as the program is told.
    Told,
    /// `scan` over numbers, with a stack of numbers.
    Scan,
    /// `scan_reverse` over vectors, with a stack of vectors.
    Reverse,
    /// `map`
    Map,
    /// `while_loop` until a counter is there.
    Counted,
    /// `while_loop` until what is differentiated is there.
    Until,
    /// `fori_loop` that writes rows of a `Ref`, and reads them.
    Table,
    /// The same, each row from some of the three before it.
    Series,
}

/// What the innermost of three loops does to an element of a matrix.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Nest {
    /// Adds a product, as a convolution does.
    Taps,
    /// Adds a function of a product.
    Sines,
    /// Replaces it by a function of itself.
    Within,
    /// Carries a number, which the element is in the end.
    Carried,
    /// Adds a product to one element after the other, as a product of matrices by rows does.
    Rows,
}

/// A program, and how long its vectors are.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// The extent of the vectors.
    pub extent: usize,
    /// What is done.
    pub steps: Vec<Step>,
}

/// How many iterations loops within loops have in all, at most.
const ITERATIONS: usize = 240;

const NAMES: [&str; 2] = ["a", "b.c"];

struct Draw {
    rng: Rng,
    /// Those of the codes that there are, if not all.
    only: Option<&'static [usize]>,
    /// Whether there are loops over elements.
    nests: bool,
    /// Whether matrices are factored.
    factors: bool,
    /// How many iterations there are inside those around.
    room: usize,
}

impl Program {
    /// The program of a seed.
    pub fn draw(seed: u64) -> Program {
        Program::drawn(seed, [false, false], None)
    }

    /// The program of a seed, in which matrices are factored.
    pub fn with_factors(seed: u64) -> Program {
        Program::drawn(seed, [false, true], None)
    }

    /// The program of a seed, of values that lie on thresholds and in ties.
    pub fn at_thresholds(seed: u64) -> Program {
        Program::drawn(seed, [false, false], Some(THRESHOLDS))
    }

    /// The program of a seed, with loops over elements of arrays. Plans within a budget take long on those, so laws of
    /// plans go without.
    pub fn with_nests(seed: u64) -> Program {
        Program::drawn(seed, [true, false], None)
    }

    fn drawn(seed: u64, [nests, factors]: [bool; 2], only: Option<&'static [usize]>) -> Program {
        let mut rng = Rng::new(seed);
        let mut rng = Rng::new(rng.bits() ^ seed.rotate_left(32));
        let extent = [1, 2, 3, 4, 7, 16, 33][rng.index(7)];
        let only = only.or((rng.index(3) == 0).then_some(CHOICES));
        let mut draw = Draw { rng, only, nests, factors, room: ITERATIONS };
        let mut steps = draw.list(3, 3);
        // There is always a loop.
        steps.push(if nests { draw.nest() } else { draw.iterations(2) });
        Program { extent, steps }
    }

    /// Programs that are smaller by one thing.
    pub fn smaller(&self) -> Vec<Program> {
        let mut all: Vec<Program> =
            smaller(&self.steps).into_iter().map(|steps| Program { steps, ..*self }).collect();
        let steps = || self.steps.clone();
        let less = [1, 2, 4].into_iter().filter(|n| *n < self.extent);
        all.extend(less.map(|extent| Program { extent, steps: steps() }));
        all
    }

    pub(super) fn has(&self, what: &dyn Fn(&Step) -> bool) -> bool {
        within(&self.steps, what)
    }

    /// Arguments.
    pub fn argument(&self) -> Tensor {
        let x = |i: usize| 0.9 * (1.0 + 0.7 * i as f64).sin();
        (0..self.extent).map(x).collect()
    }
}

/// Whether a list has such a step, however deep.
fn within(list: &[Step], what: &dyn Fn(&Step) -> bool) -> bool {
    list.iter().any(|s| what(s) || s.bodies().iter().any(|b| within(b, what)))
}

/// Changes every step.
pub(super) fn each(list: &mut [Step], change: &mut dyn FnMut(&mut Step)) {
    for step in list {
        change(step);
        for body in step.bodies_mut() {
            each(body, change);
        }
    }
}

/// The policy, of whose names are left those that a list has: others are refused.
pub(super) fn about(policy: &Policy, list: &[Step]) -> Policy {
    let there = |name: &&Arc<str>| within(list, &|s| matches!(s, Step::Named(n) if *n == &***name));
    let names: Vec<Arc<str>> = policy.names().iter().filter(there).cloned().collect();
    Policy::of(policy.word(), names).unwrap_or_else(|| policy.clone())
}

impl Step {
    fn bodies(&self) -> Vec<&[Step]> {
        match self {
            Step::Code(_) | Step::Named(_) | Step::Told | Step::Nest(..) => Vec::new(),
            Step::Branch(yes, no) => vec![yes, no],
            Step::Iterations(_, _, b)
            | Step::Call(b)
            | Step::Rule(b)
            | Step::Batch(b)
            | Step::Under(_, b)
            | Step::Carries(_, _, b) => vec![b],
        }
    }

    fn bodies_mut(&mut self) -> Vec<&mut Vec<Step>> {
        match self {
            Step::Code(_) | Step::Named(_) | Step::Told | Step::Nest(..) => Vec::new(),
            Step::Branch(yes, no) => vec![yes, no],
            Step::Iterations(_, _, b)
            | Step::Call(b)
            | Step::Rule(b)
            | Step::Batch(b)
            | Step::Under(_, b)
            | Step::Carries(_, _, b) => vec![b],
        }
    }
}

/// Lists that are smaller by one thing: without a step, with the body of one in its place, with fewer iterations.
fn smaller(list: &[Step]) -> Vec<Vec<Step>> {
    let mut all = Vec::new();
    for (i, step) in list.iter().enumerate() {
        let mut replace = |by: Vec<Step>| {
            let mut next = list.to_vec();
            next.splice(i..=i, by);
            all.push(next);
        };
        replace(Vec::new());
        let bodies = step.bodies();
        for b in &bodies {
            replace(b.to_vec());
        }
        if let Step::Iterations(kind, n, body) = step {
            for fewer in [1, 2, n / 2, n.saturating_sub(1)].into_iter().filter(|m| m < n) {
                replace(vec![Step::Iterations(*kind, fewer, body.clone())]);
            }
        }
        if let Step::Nest(kind, extents) = step {
            for (k, n) in extents.iter().enumerate() {
                for fewer in [1, 2, n - 1].into_iter().filter(|m| (1..*n).contains(m)) {
                    let mut extents = *extents;
                    extents[k] = fewer;
                    replace(vec![Step::Nest(*kind, extents)]);
                }
            }
        }
        for (k, body) in bodies.iter().enumerate() {
            for body in smaller(body) {
                let mut next = step.clone();
                if let Some(b) = next.bodies_mut().into_iter().nth(k) {
                    *b = body;
                }
                replace(vec![next]);
            }
        }
    }
    all
}

impl Draw {
    fn list(&mut self, depth: usize, most: usize) -> Vec<Step> {
        (0..=self.rng.index(most)).map(|_| self.step(depth)).collect()
    }

    fn iterations(&mut self, depth: usize) -> Step {
        const KINDS: [Iterations; 10] = [
            Iterations::Known,
            Iterations::Known,
            Iterations::Told,
            Iterations::Scan,
            Iterations::Reverse,
            Iterations::Map,
            Iterations::Counted,
            Iterations::Until,
            Iterations::Table,
            Iterations::Series,
        ];
        let kind = KINDS[self.rng.index(KINDS.len())];
        let n = [0, 1, 2, 3, 5, 12, 30, 61, 100, ITERATIONS][self.rng.index(10)].min(self.room);
        let before = self.room;
        self.room /= n.max(1);
        let body = self.list(depth - 1, 4);
        self.room = before;
        Step::Iterations(kind, n, body)
    }

    fn nest(&mut self) -> Step {
        const KINDS: [Nest; 6] =
            [Nest::Taps, Nest::Taps, Nest::Sines, Nest::Within, Nest::Carried, Nest::Rows];
        let kind = KINDS[self.rng.index(KINDS.len())];
        let mut left = self.room;
        let extents = [(); 3].map(|()| {
            let n = (1 + self.rng.index(9)).min(left.max(1));
            left /= n;
            n
        });
        Step::Nest(kind, extents)
    }

    fn step(&mut self, depth: usize) -> Step {
        match self.rng.index(if depth == 0 { 12 } else { 22 }) {
            0 => Step::Named(NAMES[self.rng.index(2)]),
            1 if self.rng.index(4) == 0 => Step::Told,
            2 if self.nests => self.nest(),
            12..=15 => self.iterations(depth),
            16 => Step::Branch(self.list(depth - 1, 2), self.list(depth - 1, 2)),
            17 => Step::Call(self.list(depth - 1, 3)),
            18 => Step::Rule(self.list(depth - 1, 2)),
            19 => Step::Batch(self.list(depth - 1, 2)),
            20 => Step::Under(policy(&mut self.rng), self.list(depth - 1, 3)),
            21 => {
                let (carries, block) = (1 + self.rng.index(4), [1, 1, 3, 8][self.rng.index(4)]);
                Step::Carries(carries, block, self.list(depth - 1, 3))
            }
            3 | 4 if self.factors => Step::Code(CODES.len() + self.rng.index(FACTORS.len())),
            _ => Step::Code(match self.only {
                Some(codes) => codes[self.rng.index(codes.len())],
                None => self.rng.index(CODES.len()),
            }),
        }
    }
}

/// A policy; budgets small and large.
pub(super) fn policy(rng: &mut Rng) -> Policy {
    match rng.index(8) {
        0 => Policy::Everything,
        1 => Policy::Nothing,
        2 => Policy::Dots,
        3 => Policy::Planned,
        4 => Policy::named(NAMES.into_iter().skip(rng.index(2))),
        5 => Policy::except(NAMES.into_iter().take(1 + rng.index(2))),
        n => {
            let bytes = [0, 300, 3_000, 100_000, u64::MAX][rng.index(5)];
            if n == 6 { Policy::About(bytes) } else { Policy::Bytes(bytes) }
        }
    }
}
