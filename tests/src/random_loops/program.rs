//! Random programs with loops: steps drawn from a seed, and their shrinking.

use super::meaning::{CHOICES, CODES, FACTORS, THRESHOLDS};
use crate::Rng;
use std::sync::Arc;
use tapeloom::prelude::*;

/// A step of a random program, which changes the state of two vectors, a number and a counter.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// An elementary step: an index into the `CODES` followed by the `FACTORS`.
    Code(usize),
    /// Gives the first vector a checkpoint name.
    Named(&'static str),
    /// An ordered effect that logs the number in the state.
    Effect,
    /// A loop of this kind and trip count, with this body.
    Iterations(Iterations, usize, Vec<Step>),
    /// Three nested loops over the elements of matrices. The numbers are the trip counts, outermost loop first: rows,
    /// places, taps.
    Nest(Nest, [usize; 3]),
    /// A branch that runs one of two lists of steps, selected by the sign of a difference.
    Branch(Vec<Step>, Vec<Step>),
    /// A call of an outlined function with these steps.
    Call(Vec<Step>),
    /// A function with these steps and a custom rule, which computes the true derivative.
    Rule(Vec<Step>),
    /// A batch of two members that run these steps.
    Batch(Vec<Step>),
    /// Steps in a checkpoint with this policy.
    Under(Policy, Vec<Step>),
    /// Steps under `checkpoint_carries`: the number of saved carries, the number of iterations in a block, the steps.
    Carries(usize, usize, Vec<Step>),
}

/// The kind of a loop in a random program.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Iterations {
    /// `fori_loop` with a static trip count.
    Known,
    /// `fori_loop` with a trip count known only at run time.
    Runtime,
    /// `scan` over numbers, with a stack of numbers.
    Scan,
    /// `scan_reverse` over vectors, with a stack of vectors.
    Reverse,
    /// `map` over numbers, with a number as the result of each iteration.
    Map,
    /// `while_loop` until a counter reaches a limit.
    Counted,
    /// `while_loop` until a differentiated value reaches a limit.
    Until,
    /// A `fori_loop` that writes rows of a `Ref`, and reads them.
    Table,
    /// A `fori_loop` that computes each row of a `Ref` from some of the three rows before it.
    Series,
}

/// The statement in the innermost of three nested loops, on an element of a matrix.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Nest {
    /// Adds a product, as a convolution does.
    Taps,
    /// Adds a function of a product.
    Sines,
    /// Replaces the element by a function of the element.
    Within,
    /// Carries a number through the innermost loop; its last value becomes the element.
    Carried,
    /// Adds a product to one element after the other, as a matrix product by rows does.
    Rows,
}

/// A random program with loops.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// The extent of the two vectors of the state.
    pub extent: usize,
    /// The steps of the program.
    pub steps: Vec<Step>,
}

/// The largest product of the trip counts of loops that are nested in each other.
pub(super) const ITERATIONS: usize = 240;

const NAMES: [&str; 2] = ["a", "b.c"];

struct Draw {
    rng: Rng,
    /// The indices of the elementary steps to draw from; all, if `None`.
    only: Option<&'static [usize]>,
    /// Whether to draw loops over elements (`Step::Nest`).
    nests: bool,
    /// Whether to draw steps that factor matrices.
    factors: bool,
    /// The largest trip count of a loop drawn here: `ITERATIONS` over the product of the enclosing loops' trip counts.
    room: usize,
}

impl Program {
    /// Draws the program of a seed.
    pub fn draw(seed: u64) -> Program {
        Program::drawn(seed, [false, false], None)
    }

    /// Draws the program of a seed, which may contain factorizations of matrices.
    pub fn with_factors(seed: u64) -> Program {
        Program::drawn(seed, [false, true], None)
    }

    /// Draws the program of a seed, with values on thresholds and at ties.
    pub fn at_thresholds(seed: u64) -> Program {
        Program::drawn(seed, [false, false], Some(THRESHOLDS))
    }

    /// Draws the program of a seed, which may contain loops over elements of matrices. Planning such loops within a
    /// byte budget takes long, so tests of budgets do not use these programs.
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
        // Every program ends with a loop, so append one.
        steps.push(if nests { draw.nest() } else { draw.iterations(2) });
        Program { extent, steps }
    }

    /// Returns simpler programs, each with one step left out or one number reduced, to shrink a failing program.
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

    /// Returns the argument at which the program is run: a vector of `extent` numbers.
    pub fn argument(&self) -> Tensor {
        let x = |i: usize| 0.9 * (1.0 + 0.7 * i as f64).sin();
        (0..self.extent).map(x).collect()
    }
}

/// Returns whether a list of steps contains, at any depth, a step for which `what` is true.
pub(super) fn within(list: &[Step], what: &dyn Fn(&Step) -> bool) -> bool {
    list.iter().any(|s| what(s) || s.bodies().iter().any(|b| within(b, what)))
}

/// Calls `change` on every step of a list, at any depth.
pub(super) fn each(list: &mut [Step], change: &mut dyn FnMut(&mut Step)) {
    for step in list {
        change(step);
        for body in step.bodies_mut() {
            each(body, change);
        }
    }
}

/// Returns the policy without the checkpoint names that do not occur in the steps, since a policy with unknown names is
/// refused.
pub(super) fn about(policy: &Policy, list: &[Step]) -> Policy {
    let there = |name: &&Arc<str>| within(list, &|s| matches!(s, Step::Named(n) if *n == &***name));
    let names: Vec<Arc<str>> = policy.names().iter().filter(there).cloned().collect();
    Policy::of(policy.word(), names).unwrap_or_else(|| policy.clone())
}

impl Step {
    fn bodies(&self) -> Vec<&[Step]> {
        match self {
            Step::Code(_) | Step::Named(_) | Step::Effect | Step::Nest(..) => Vec::new(),
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
            Step::Code(_) | Step::Named(_) | Step::Effect | Step::Nest(..) => Vec::new(),
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

/// Returns simpler lists of steps: without one of the steps, with a step replaced by its body, or with fewer iterations
/// of a loop.
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
            Iterations::Runtime,
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
            1 if self.rng.index(4) == 0 => Step::Effect,
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

/// Draws a policy; byte budgets are small or large.
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
