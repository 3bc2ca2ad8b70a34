//! Random programs with loops, and what must hold of them under every policy and every budget.
//!
//! A program is a list of [`Step`]s on a state of two vectors, a number and a counter. They contract, so
//! that rounding does not grow in them and derivatives are compared closely. Loops have rounds enough for a
//! tape to be larger than what a gradient works in beside it.
//!
//! | law | |
//! |---|---|
//! | [`policies`] | values, gradients and what is told are the same under every policy |
//! | [`budgets`] | a budget is obeyed, or refused with the least number, with which the plan is |
//! | [`figures`] | beside what is said to be tape a gradient works in no more than what a round takes |
//! | [`orders`] | derivatives of the gradient are the same, and those of batches |
//! | [`rounding`] | of what is rounded derivatives are near to those, and values are the same |

use crate::fuzz::said;
use crate::{Agreement, Failure, Heard, Listener, Rng};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tapeloom::prelude::*;
use tapeloom::{Error, Explanation, Jit, Kind};

/// What is done to the state.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// One of the [`CODES`].
    Code(usize),
    /// A mark on the first vector.
    Named(&'static str),
    /// What is told of the number.
    Told,
    /// Rounds of a loop.
    Rounds(Rounds, usize, Vec<Step>),
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
    /// With so many carries for blocks of so many rounds.
    Carries(usize, usize, Vec<Step>),
}

/// Which loop.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Rounds {
    /// `fori_loop` of a known number of rounds.
    Known,
    /// `fori_loop` of as many rounds as the program is told.
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
}

/// Two vectors, a number, a counter.
type State = (Var, Var, Var, Var);

/// Changes of the state that keep it small.
pub const CODES: &[fn(State, Var) -> State] = &[
    |(x, y, s, k), _| ((x * 0.6 + y * 0.4).sin(), y, s, k),
    |(x, y, s, k), _| (x, (y * 0.8 + x * 0.1).tanh(), s, k),
    |(x, y, s, k), _| (x * 0.9 + (-(x * x)).exp() * 0.1, y, s, k),
    |(x, y, s, k), _| (select(x.gt(y), x * 0.8, y.cos()), y, s, k),
    |(x, y, s, k), _| (x / (x * x * y * y * 0.1 + 1.0), x * 0.5 + y * 0.5, s, k),
    |(x, y, s, k), _| (x, y, (s * 0.5 + (x * y).mean()).tanh(), k),
    |(x, y, s, k), _| (x * 0.8 + s * 0.1, y, s, k),
    |(x, y, s, k), _| (x + k.convert(Dtype::F64).sin() * 0.01, y, s, k + 1),
    |(x, y, s, k), _| (x, y.at(k.rem(y.size() as i64)).set(s), s * 0.9, k),
    |(x, y, s, k), _| ((x * 0.9).maximum(y * 0.7), y, s, k),
    |(x, y, s, k), c| (x * 0.9, (y * c).sin(), s, k),
    |(x, y, s, k), _| (x, y, s * 0.5 + x.index(y.argmax(0)) * 0.3, k),
    |(x, y, s, k), _| {
        let noise = random::uniform(random::fold_in(random::key(7), k), x.shape(), Dtype::F64);
        (x * 0.9 + noise * 0.1 * y, y, s, k)
    },
    |(x, y, s, k), c| (x, y * 0.5 + c.cumsum(0) * 0.05 * s, s, k),
    |(x, y, s, k), _| (y, x, s, k),
    |(x, y, s, k), _| {
        let matrix = x.reshape([x.size(), 1]) * y.reshape([1, y.size()]) * 0.1;
        (matrix.tanh().dot(x), y, s, k)
    },
    |(x, y, s, k), _| {
        let narrow = x.convert(Dtype::F32).sin().convert(Dtype::F64);
        (narrow, y, s, k + x.gt(0.0).convert(Dtype::I64).sum())
    },
    |(x, y, s, k), _| {
        // Which of three is the largest, at each place.
        let three = stack(&[x, y * 0.9, x * s], 0);
        let which = three.argmax(0).reshape([1, x.size()]);
        (three.take_along_axis(which, 0).reshape([x.size()]) * 0.9, y, s, k)
    },
    |(x, y, s, k), _| (x.take(y.argsort(0), 0) * 0.9, y, s, k),
    |(x, y, s, k), _| {
        let places = (k + arange(x.size(), Dtype::I64) * 7 - 3).clamp(-2, x.size() as i64 - 1);
        (x, y * 0.8 + x.take(places.abs().minimum(x.size() as i64 - 1), 0) * 0.1, s, k)
    },
    |(x, y, s, k), _| {
        let flags = x.gt(0.0) | y.lt(s);
        (select(flags, x * 0.9, y * 0.5), select(flags, y * 0.9, x * -0.8), s, k)
    },
];

/// Those of [`CODES`] of which reverse mode keeps truth values and indices, and no floats.
const CHOICES: &[usize] = &[9, 11, 14, 17, 18, 19, 20, 20];

/// That of [`CODES`] which goes through `f32`.
const NARROW: usize = 16;

/// A program, and how long its vectors are.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// The extent of the vectors.
    pub extent: usize,
    /// What is done.
    pub steps: Vec<Step>,
}

// -- Programs ---------------------------------------------------------------------------------------

/// How many rounds loops within loops have in all, at most.
const ROUNDS: usize = 240;

const NAMES: [&str; 2] = ["a", "b.c"];

struct Draw {
    rng: Rng,
    /// Whether nothing is done but to choose.
    chooses: bool,
    /// How many rounds there are inside those around.
    room: usize,
}

impl Program {
    /// The program of a seed.
    pub fn draw(seed: u64) -> Program {
        let mut rng = Rng::new(seed);
        let mut rng = Rng::new(rng.bits() ^ seed.rotate_left(32));
        let extent = [1, 2, 3, 4, 7, 16, 33][rng.index(7)];
        let chooses = rng.index(3) == 0;
        let mut draw = Draw { rng, chooses, room: ROUNDS };
        let mut steps = draw.list(3, 3);
        // There is always a loop.
        steps.push(draw.rounds(2));
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

    fn has(&self, what: &dyn Fn(&Step) -> bool) -> bool {
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

/// The policy, of whose names are left those that a list has: others are refused.
fn about(policy: &Policy, list: &[Step]) -> Policy {
    let there = |name: &&Arc<str>| within(list, &|s| matches!(s, Step::Named(n) if *n == &***name));
    let names: Vec<Arc<str>> = policy.names().iter().filter(there).cloned().collect();
    Policy::of(policy.word(), names).unwrap_or_else(|| policy.clone())
}

impl Step {
    fn bodies(&self) -> Vec<&[Step]> {
        match self {
            Step::Code(_) | Step::Named(_) | Step::Told => Vec::new(),
            Step::Branch(yes, no) => vec![yes, no],
            Step::Rounds(_, _, b)
            | Step::Call(b)
            | Step::Rule(b)
            | Step::Batch(b)
            | Step::Under(_, b)
            | Step::Carries(_, _, b) => vec![b],
        }
    }

    fn bodies_mut(&mut self) -> Vec<&mut Vec<Step>> {
        match self {
            Step::Code(_) | Step::Named(_) | Step::Told => Vec::new(),
            Step::Branch(yes, no) => vec![yes, no],
            Step::Rounds(_, _, b)
            | Step::Call(b)
            | Step::Rule(b)
            | Step::Batch(b)
            | Step::Under(_, b)
            | Step::Carries(_, _, b) => vec![b],
        }
    }
}

/// Lists that are smaller by one thing: without a step, with the body of one in its place, with fewer rounds.
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
        if let Step::Rounds(kind, n, body) = step {
            for fewer in [1, 2, n / 2, n.saturating_sub(1)].into_iter().filter(|m| m < n) {
                replace(vec![Step::Rounds(*kind, fewer, body.clone())]);
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

    fn rounds(&mut self, depth: usize) -> Step {
        const KINDS: [Rounds; 9] = [
            Rounds::Known,
            Rounds::Known,
            Rounds::Told,
            Rounds::Scan,
            Rounds::Reverse,
            Rounds::Map,
            Rounds::Counted,
            Rounds::Until,
            Rounds::Table,
        ];
        let kind = KINDS[self.rng.index(KINDS.len())];
        let n = [0, 1, 2, 3, 5, 12, 30, 61, 100, ROUNDS][self.rng.index(10)].min(self.room);
        let before = self.room;
        self.room /= n.max(1);
        let body = self.list(depth - 1, 4);
        self.room = before;
        Step::Rounds(kind, n, body)
    }

    fn step(&mut self, depth: usize) -> Step {
        match self.rng.index(if depth == 0 { 12 } else { 22 }) {
            0 => Step::Named(NAMES[self.rng.index(2)]),
            1 if self.rng.index(4) == 0 => Step::Told,
            12..=15 => self.rounds(depth),
            16 => Step::Branch(self.list(depth - 1, 2), self.list(depth - 1, 2)),
            17 => Step::Call(self.list(depth - 1, 3)),
            18 => Step::Rule(self.list(depth - 1, 2)),
            19 => Step::Batch(self.list(depth - 1, 2)),
            20 => Step::Under(policy(&mut self.rng), self.list(depth - 1, 3)),
            21 => {
                let (carries, block) = (1 + self.rng.index(4), [1, 1, 3, 8][self.rng.index(4)]);
                Step::Carries(carries, block, self.list(depth - 1, 3))
            }
            _ if self.chooses => Step::Code(CHOICES[self.rng.index(CHOICES.len())]),
            _ => Step::Code(self.rng.index(CODES.len())),
        }
    }
}

/// A policy; budgets small and large.
pub fn policy(rng: &mut Rng) -> Policy {
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

// -- What a program means ---------------------------------------------------------------------------

/// What stands around.
#[derive(Clone)]
struct Around {
    /// The argument, which all functions capture.
    c: Var,
    /// 1, known when the program runs.
    one: Var,
    log: Listener,
    /// Whether everything is kept, whatever policies inside say.
    all: bool,
    /// Whether this is planned by bytes, where a call that says what loops carry is a part of its caller.
    counted: bool,
}

/// The program as a function of a vector.
fn meaning(program: Rc<Program>, log: Listener, all: bool) -> impl Fn(Var) -> Var + Clone {
    counted_by(program, log, all, false)
}

/// The program as a function of a vector, with the calls that there are where somebody counts bytes.
fn counted_by(
    program: Rc<Program>,
    log: Listener,
    all: bool,
    counted: bool,
) -> impl Fn(Var) -> Var + Clone {
    move |x| {
        let one = (x.sum() * 0.0).convert(Dtype::I64) + 1;
        let around = Around { c: x, one, log: log.clone(), all, counted };
        let start = (x, x.cos() * 0.5, x.sum() * 0.1, constant(0i64));
        let (x, y, s, k) = around.list(&program.steps, start);
        let weights = (arange(x.size(), Dtype::F64) * 0.7).cos();
        (x * weights).sum() + (y * y).sum() * 0.5 + s + k.convert(Dtype::F64) * 0.001
    }
}

/// Whether a policy counts bytes.
fn counts(policy: &Policy) -> bool {
    matches!(policy, Policy::Bytes(_) | Policy::About(_))
}

impl Around {
    fn list(&self, list: &[Step], s: State) -> State {
        list.iter().fold(s, |s, step| self.step(step, s))
    }

    fn step(&self, step: &Step, state: State) -> State {
        let (x, y, s, k) = state;
        match step {
            Step::Code(code) => CODES[*code](state, self.c),
            Step::Named(name) => (x.named(name), y, s, k),
            Step::Told => {
                let log = self.log.clone();
                (x, y, tap(s, move |s: Tensor| log.hear("s", &[s])), k)
            }
            Step::Rounds(kind, n, body) => self.rounds(*kind, *n, body, state),
            Step::Branch(yes, no) => {
                let which = (s - y.mean()).gt(0.0);
                cond(which, |s: State| self.list(yes, s), |s: State| self.list(no, s), state)
            }
            Step::Call(body) => outline(|s: State| self.list(body, s))(state),
            Step::Rule(body) => {
                // Rules are for floats, and closed in what they differentiate.
                let (of, k) = (self.clone(), k.stop_gradient());
                let around = |x: Var| Around { c: x, ..of.clone() };
                let f = |(x, y, s): (Var, Var, Var)| {
                    let (x, y, s, _) = around(x).list(body, (x, y, s, k));
                    (x, y, s)
                };
                let rule = custom_vjp(f, |x| (f(x), x), |x, ct| vjp(f)(x).1(ct));
                let (x, y, s) = rule((x, y, s));
                (x, y, s, k)
            }
            Step::Batch(body) => {
                let two = |x: Var| stack(&[x, x * 0.5], 0);
                let member = |(x, y, s, k): State| self.list(body, (x, y, s, k));
                let batch = (two(x), two(y), two(s), stack(&[k, k + 1], 0));
                let (x, y, s, k) = vmap(member)(batch);
                (x.sum_axis(0) * 0.6, y.mean_axis(0), s.mean_axis(0), k.index(1))
            }
            Step::Under(policy, body) if self.all => {
                let inside = Around { counted: counts(policy), ..self.clone() };
                checkpoint(|s: State| inside.list(body, s), Policy::Everything)(state)
            }
            Step::Carries(_, _, body) if self.all && self.counted => self.list(body, state),
            Step::Carries(_, _, body) if self.all => {
                checkpoint(|s: State| self.list(body, s), Policy::Everything)(state)
            }
            Step::Under(policy, body) => {
                checkpoint(|s: State| self.list(body, s), about(policy, body))(state)
            }
            Step::Carries(carries, block, body) => {
                checkpoint_carries(*carries, *block, |s: State| self.list(body, s))(state)
            }
        }
    }

    fn rounds(&self, kind: Rounds, n: usize, body: &[Step], state: State) -> State {
        let (x, y, s, k) = state;
        let list = |s: State| self.list(body, s);
        let times = arange(n, Dtype::F64) * 0.01;
        let end = |(x, y, s, k): State, told: Var| (x, y, (s + told).tanh(), k);
        match kind {
            Rounds::Known => fori_loop(n, |(_, s): (Var, State)| list(s), state),
            Rounds::Told => fori_loop(self.one * n as i64, |(_, s): (Var, State)| list(s), state),
            Rounds::Scan => {
                let round = |((x, y, s, k), t): (State, Var)| {
                    let (x, y, s, k) = list((x * 0.9 + t, y, s, k));
                    let told = s * x.sum();
                    ((x, y, s, k), told)
                };
                let (state, told) = scan(round, state, times);
                end(state, told.square().sum() * 0.01)
            }
            Rounds::Reverse => {
                let rows = times.reshape([n, 1]) * x.reshape([1, x.size()]);
                let round = |((x, y, s, k), row): (State, Var)| {
                    let (x, y, s, k) = list((x * 0.8 + row * 0.1, y, s, k));
                    ((x, y, s, k), x * y)
                };
                let (state, told) = scan_reverse(round, state, rows);
                end(state, told.sin().sum() * 0.01)
            }
            Rounds::Map => {
                let told = map(
                    |t: Var| {
                        let (x, _, s, _) = list((x + t, y, s, k));
                        x.sum() + s
                    },
                    times,
                );
                end(state, told.sin().sum() * 0.01)
            }
            Rounds::Counted => {
                let more = |(i, _): (Var, State)| i.lt(self.one * n as i64);
                while_loop(more, |(i, s): (Var, State)| (i + 1, list(s)), (self.one - 1, state)).1
            }
            Rounds::Until => {
                // Every round adds one at least.
                let more = |(z, _): (Var, State)| z.lt(n as f64);
                let round = |(z, s): (Var, State)| {
                    let s = list(s);
                    (z + 1.0 + s.2.square() * 0.1, s)
                };
                let (z, state) = while_loop(more, round, (s * 0.1, state));
                end(state, z * 0.01)
            }
            Rounds::Table => {
                let rows = Ref::new(zeros([n + 1, x.size()], Dtype::F64));
                rows.at(0).set(x);
                let round = |(i, (_, y, s, k)): (Var, State)| {
                    let (x, y, s, k) = list((rows.at(i).get(), y, s, k));
                    rows.at(i + 1).set(x * 0.9);
                    (x, y, s, k)
                };
                let state = fori_loop(n, round, state);
                end(state, rows.get().sin().sum() * 0.01)
            }
        }
    }
}

// -- Laws -------------------------------------------------------------------------------------------

/// What must hold for a program.
pub type Law = fn(&Program, &mut Rng) -> Result<(), Failure>;

type Gradient = (Var, Var);

/// A program to be run: its value and its gradient.
fn gradient(f: impl Fn(Var) -> Var) -> Jit<Var, Gradient, impl Fn(Var) -> Gradient> {
    jit(move |x: Var| value_and_grad(&f)(x))
}

/// What a program gives and tells: nothing if a budget inside is refused.
fn outcome<F: Fn(Var) -> Gradient>(
    f: &Jit<Var, Gradient, F>,
    x: &Tensor,
    log: &Listener,
) -> Result<Option<([Tensor; 2], Heard)>, Failure> {
    match f.call(x) {
        Ok((y, g)) => Ok(Some(([y, g], log.take()))),
        Err(e) if e.kind() == Kind::Budget => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Interpreted every bit is the same, and natively all but rounding, what is told as well.
pub fn policies(program: &Program, rng: &mut Rng) -> Result<(), Failure> {
    let (program, log, x) = (Rc::new(program.clone()), Listener::default(), program.argument());
    let policy = about(&policy(rng), &program.steps);
    // Cotangents are added in the order of the calls, whatever they keep.
    let all = counted_by(program.clone(), log.clone(), true, counts(&policy));
    let all = checkpoint(all, Policy::Everything);
    let under = checkpoint(meaning(program, log.clone(), false), policy.clone());
    let (all, under) = (Rc::new(all), Rc::new(under));
    for interpreted in [true, false] {
        let (f, g) = (all.clone(), under.clone());
        let (f, g) = (gradient(move |x| f(x)), gradient(move |x| g(x)));
        let (f, g) = if interpreted { (f.interpreted(), g.interpreted()) } else { (f, g) };
        let Some((want, heard)) = outcome(&f, &x, &log)? else {
            return Err("a budget where there is none".into());
        };
        let Some((got, told)) = outcome(&g, &x, &log)? else { return Ok(()) };
        let how = if interpreted { Agreement::Exact } else { Agreement::CLOSE };
        let engine = if interpreted { "interpreted" } else { "native" };
        how.check_all(&got, &want).map_err(|e| format!("{policy}, {engine}: {e}"))?;
        how.check_heard(&told, &heard).map_err(|e| format!("{policy}, {engine}: {e}"))?;
    }
    Ok(())
}

/// The least number that a refusal says; nothing if there is none, because what the run keeps has no bound.
fn least(error: &Error) -> Result<Option<u64>, Failure> {
    let text = error.to_string();
    if error.kind() != Kind::Budget || !text.contains("planned.rs:") {
        return Err(format!("a budget is refused with\n{text}").into());
    }
    match text.split_once("at least ") {
        Some((_, rest)) => Ok(Some(rest.split(' ').next().unwrap_or_default().parse()?)),
        None if text.contains("only the run knows") => Ok(None),
        None => Err(format!("no least number in\n{text}").into()),
    }
}

/// What a gradient takes: its tape, and beside it what it works in.
fn taken(e: &Explanation) -> (u64, u64) {
    let tape = e.tape().bytes();
    (tape as u64, (e.workspace_bytes() - tape) as u64)
}

/// What a gradient under a budget may work in: what it works in with one round in every loop, where what is
/// computed again is there at once, arrays of what all rounds are given and give, and matrices of a round that is
/// run again.
fn work(program: &Program) -> Result<u64, Failure> {
    let mut once = program.clone();
    let mut arrays = 0;
    each(&mut once.steps, &mut |step| {
        if let Step::Rounds(kind, n, _) = step {
            let width = match kind {
                Rounds::Known | Rounds::Told | Rounds::Counted | Rounds::Until => 0,
                Rounds::Scan => 1,
                // Each round gives a vector, or its row.
                Rounds::Map | Rounds::Reverse | Rounds::Table => program.extent,
            };
            arrays += 8 * 8 * *n * width;
            *n = 1;
        }
    });
    let log = Listener::default();
    let e = gradient(meaning(Rc::new(once), log, true)).explain(program.argument())?;
    let matrices = 4 * 8 * program.extent * program.extent;
    Ok((3 * e.workspace_bytes() + arrays + matrices + 8192) as u64)
}

/// Changes every step.
fn each(list: &mut [Step], change: &mut dyn FnMut(&mut Step)) {
    for step in list {
        change(step);
        for body in step.bodies_mut() {
            each(body, change);
        }
    }
}

/// A budget is obeyed, or it is refused with the least number; one less is refused with the same number,
/// and with that number the plan is obeyed.
pub fn budgets(program: &Program, rng: &mut Rng) -> Result<(), Failure> {
    let (program, log, x) = (Rc::new(program.clone()), Listener::default(), program.argument());
    let plain = gradient(meaning(program.clone(), log.clone(), true));
    let (all, _) = taken(&plain.explain(&x)?);
    let work = work(&program)?;
    let mut budget = match rng.index(6) {
        0 => [0, 1, u64::MAX][rng.index(3)],
        1 => all,
        _ => ((2 * all + 64) as f64).powf(rng.range(0.3, 1.0)) as u64,
    };
    let under = |budget: u64| {
        gradient(checkpoint(meaning(program.clone(), log.clone(), true), Policy::Bytes(budget)))
    };
    let (mut g, mut refused) = (under(budget), false);
    if let Err(error) = g.explain(&x) {
        refused = true;
        let Some(enough) = least(&error)? else { return Ok(()) };
        if enough <= budget {
            return Err(format!("{budget} bytes are refused: {error}").into());
        }
        match under(enough - 1).explain(&x) {
            Ok(_) => return Err(format!("{} bytes are enough, but {error}", enough - 1).into()),
            Err(e) if least(&e)? == Some(enough) => {}
            Err(e) => {
                return Err(format!("{budget} bytes: {error}\n{} bytes: {e}", enough - 1).into());
            }
        }
        (budget, g) = (enough, under(enough));
    }
    let e = g.explain(&x).map_err(|e| format!("in {budget} bytes: {e}"))?;
    let (tape, beside) = taken(&e);
    if budget < u64::MAX && e.tape().to_string().contains("more for each round") {
        return Err(format!("no bound in {budget} bytes:\n{}", e.tape()).into());
    }
    // The number that is said is that of the plan, before passes find that some of it is not read after all, as
    // in calls, which take the place of what they run later.
    let own = program.has(&|s| matches!(s, Step::Rule(_)));
    let called = program.has(&|s| matches!(s, Step::Call(_)));
    if refused && budget > 3 * tape + 512 && !own && !called {
        return Err(format!("{budget} bytes are said, and {tape} taken:\n{}", e.tape()).into());
    }
    // Numbers that the program begins with may lie among what is kept.
    let room = budget.saturating_add(64);
    // A rule differentiates on the way back what it likes.
    if tape > room && !own || tape.saturating_add(beside) > budget.saturating_add(work) {
        let text = format!("{tape} bytes of tape and {beside} beside in {budget}:\n{}", e.tape());
        return Err(text.into());
    }
    let Some((want, heard)) = outcome(&plain, &x, &log)? else { return Ok(()) };
    let Some((got, told)) = outcome(&g, &x, &log)? else { return Ok(()) };
    let failed = |e| format!("in {budget} bytes: {e}");
    Agreement::CLOSE.check_all(&got, &want).map_err(failed)?;
    Agreement::CLOSE.check_heard(&told, &heard).map_err(failed)?;
    let (plain, g) = (plain.interpreted(), g.interpreted());
    let Some((want, _)) = outcome(&plain, &x, &log)? else { return Ok(()) };
    let Some((got, _)) = outcome(&g, &x, &log)? else { return Ok(()) };
    Agreement::Exact
        .check_all(&got, &want)
        .map_err(|e| format!("interpreted, {}", failed(e)).into())
}

/// What is said of the tape is all of it: what a gradient works in beside it does not grow with rounds, whatever is
/// kept of them, and on the way back through a gradient there are the cotangents of what that one keeps.
pub fn figures(program: &Program, rng: &mut Rng) -> Result<(), Failure> {
    let (program, log, x) = (Rc::new(program.clone()), Listener::default(), program.argument());
    let policy = about(&policy(rng), &program.steps);
    // A rule differentiates on the way back what it likes.
    if program.has(&|s| matches!(s, Step::Rule(_))) {
        return Ok(());
    }
    let work = work(&program)?;
    let f = checkpoint(meaning(program, log, false), policy.clone());
    let twice = rng.index(2) == 1;
    let explained = if twice {
        gradient(move |x| (grad(&f)(x) * x.sin()).sum()).explain(&x)
    } else {
        gradient(f).explain(&x)
    };
    let e = match explained {
        Ok(e) => e,
        Err(e) if e.kind() == Kind::Budget => return Ok(()),
        Err(e) => return Err(e.into()),
    };
    let (tape, beside) = taken(&e);
    let room = if twice { tape + 3 * work } else { work };
    if beside > room {
        let order = if twice { "second" } else { "first" };
        let text = format!(
            "{policy}, {order} order: a tape of {tape} bytes, {beside} beside, and room for {room}"
        );
        return Err(format!("{text}\n{}\n{}", e.memory_plan(), e.tape()).into());
    }
    Ok(())
}

/// A transform of a function of a vector.
type Order = (&'static str, fn(Rc<dyn Fn(Var) -> Var>) -> Box<dyn Fn(Var) -> Var>);

const ORDERS: &[Order] = &[
    ("a derivative along a direction of the gradient", |f| {
        Box::new(move |x| hvp(|x| f(x))((x, x.cos())))
    }),
    ("a gradient of the gradient", |f| {
        Box::new(grad(move |x: Var| (grad(|x| f(x))(x) * x.sin()).sum()))
    }),
    ("a batch of gradients", |f| Box::new(move |x| vmap(grad(|x| f(x)))(stack(&[x, x * 0.5], 0)))),
    ("the gradient of a batch", |f| {
        Box::new(grad(move |x: Var| vmap(|x| f(x))(stack(&[x, x * 0.5, x.sin()], 0)).sum()))
    }),
    ("a gradient in a loop", |f| {
        Box::new(move |x| fori_loop(3, |(_, x): (Var, Var)| x * 0.9 + grad(|x| f(x))(x) * 0.01, x))
    }),
];

/// Derivatives of the gradient, and gradients over batches, under a policy and without it.
pub fn orders(program: &Program, rng: &mut Rng) -> Result<(), Failure> {
    // What is told is told in another order by a batch.
    let told = |s: &Step| matches!(s, Step::Told);
    if program.has(&told) {
        return policies(program, rng);
    }
    let (program, log, x) = (Rc::new(program.clone()), Listener::default(), program.argument());
    let policy = about(&policy(rng), &program.steps);
    let (name, order) = ORDERS[rng.index(ORDERS.len())];
    let f = meaning(program.clone(), log.clone(), true);
    let g = meaning(program.clone(), log, false);
    let g = checkpoint(g, policy.clone());
    let (f, g) = (order(Rc::new(f)), order(Rc::new(g)));
    let got = match jit(move |x: Var| g(x)).call(&x) {
        Ok(y) => y,
        Err(e) if e.kind() == Kind::Budget => return Ok(()),
        Err(e) => return Err(format!("{name}, {policy}: {e}").into()),
    };
    let want = jit(move |x: Var| f(x)).call(&x)?;
    let narrow = program.has(&|s| *s == Step::Code(NARROW));
    let near = if narrow { 1e-5 } else { 1e-11 };
    let close = Agreement::Within { relative: near, absolute: near };
    close.check(&got, &want).map_err(|e| format!("{name}, {policy}: {e}").into())
}

/// What is kept as f32 is near to what it was, and so are derivatives of a program that contracts.
pub fn rounding(program: &Program, _: &mut Rng) -> Result<(), Failure> {
    // A rule runs on the way back what it likes, on what was kept.
    let rule = program.has(&|s| matches!(s, Step::Rule(_)));
    let (program, log, x) = (Rc::new(program.clone()), Listener::default(), program.argument());
    let f = meaning(program.clone(), log.clone(), true);
    let g = checkpoint(meaning(program, log.clone(), true), Policy::Rounded);
    let (f, g) = (Rc::new(f), Rc::new(g));
    for interpreted in [true, false] {
        let (f, g) = (f.clone(), g.clone());
        let (f, g) = (gradient(move |x| f(x)), gradient(move |x| g(x)));
        let (f, g) = if interpreted { (f.interpreted(), g.interpreted()) } else { (f, g) };
        let Some(([y, dy], heard)) = outcome(&f, &x, &log)? else {
            return Err("a budget where there is none".into());
        };
        let Some(([z, dz], told)) = outcome(&g, &x, &log)? else {
            return Err("a budget where there is none".into());
        };
        Agreement::CLOSE.check(&z, &y)?;
        // f32 ends at 3.4e38, and what made so large a derivative may lie beyond.
        if dy.to_vec::<f64>()?.iter().any(|x| x.abs() > 1e30) {
            return Ok(());
        }
        let near = Agreement::Within { relative: 1e-4, absolute: 1e-4 };
        near.check(&dz, &dy).map_err(|e| format!("rounded: {e}"))?;
        let how = match (rule, interpreted) {
            (true, _) => near,
            (false, true) => Agreement::Exact,
            (false, false) => Agreement::CLOSE,
        };
        how.check_heard(&told, &heard).map_err(|e| format!("rounded: {e}"))?;
    }
    Ok(())
}

/// One of them, budgets most often.
pub fn in_turn(program: &Program, rng: &mut Rng) -> Result<(), Failure> {
    let laws: [Law; 6] = [policies, budgets, budgets, orders, rounding, figures];
    laws[rng.index(laws.len())](program, rng)
}

/// For how long smaller programs are tried.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is wrong with the program of a seed, shown on the smallest program that breaks the law.
pub fn failure(seed: u64, law: Law) -> Option<String> {
    let broken = |program: &Program| {
        let outcome = catch_unwind(AssertUnwindSafe(|| law(program, &mut Rng::new(seed))));
        match outcome {
            Ok(outcome) => outcome.err().map(|e| e.to_string()),
            Err(panic) => Some(said(&*panic)),
        }
    };
    let mut program = Program::draw(seed);
    let mut wrong = broken(&program)?;
    let start = Instant::now();
    'shrink: loop {
        for smaller in program.smaller() {
            if start.elapsed() > PATIENCE {
                break 'shrink;
            }
            if let Some(also) = broken(&smaller) {
                (program, wrong) = (smaller, also);
                continue 'shrink;
            }
        }
        break;
    }
    Some(format!("FUZZ_SEED={seed}: {wrong}\n\n{program:?}"))
}
