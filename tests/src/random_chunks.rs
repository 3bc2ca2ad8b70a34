//! Random batches of programs with loops of different lengths.
//!
//! Such a batch runs in chunks of members, on several threads. In these programs the numbers of iterations differ between
//! members and depend on their values: loops in loops, in scans and in branches, one loop after the other, batches inside
//! of a member, numbers of iterations that all members share. [`chunks`] compares the values and gradients of batches in
//! chunks with those of whole batches, and all numbers of threads bit by bit.

use crate::fuzz::said;
use crate::{Agreement, Failure, Rng};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use tapeloom::MachineModel;
use tapeloom::prelude::*;

/// A random program over a batch of members.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// The number of members.
    pub members: usize,
    /// The length of a member's vector.
    pub width: usize,
    /// The steps of each member's program, as indices into the list of all steps.
    pub steps: Vec<usize>,
}

/// The values of one member: a number, a vector, and the number of iterations of some loops, an `i64`.
type Member = (Var, Var, Var);

/// A step: the new values of a member from its old ones, a matrix and a number that all members share.
type Step = fn(Member, (Var, Var)) -> Member;

/// Returns the state after `n` iterations of a `while_loop`.
fn repeat(n: Var, step: impl Fn((Var, Var)) -> (Var, Var), start: (Var, Var)) -> (Var, Var) {
    let zero = constant(0i64);
    let go_on = |(i, _, n): (Var, (Var, Var), Var)| i.lt(n);
    let next = |(i, s, n): (Var, (Var, Var), Var)| (i + 1, step(s), n);
    while_loop(go_on, next, (zero, start, n)).1
}

/// The number of the first steps whose values have the same bits in chunks of any size. Later steps have products of
/// matrices, whose sums depend on the number of rows.
const EXACT: usize = 11;

const STEPS: &[Step] = &[
    |(x, v, n), (_, c)| {
        let (x, v) = repeat(n, |(x, v)| ((x * 0.7 + c).sin(), (v * 0.5 + x).tanh()), (x, v));
        (x, v, n)
    },
    |(x, v, n), _| {
        // The number of iterations depends on the values.
        let far = |(x, k): (Var, Var)| x.abs().gt(0.05) & k.lt(20i64);
        let halve = |(x, k): (Var, Var)| (x * 0.5 + 0.01 * x.sin(), k + 1);
        let (x, k) = while_loop(far, halve, (x * 3.0, constant(0i64)));
        (x + k.convert(Dtype::F64) * 0.1, v, n)
    },
    |(x, v, n), (_, c)| {
        let each = move |x: Var, h: Var| (repeat(n, |(x, v)| ((x + h * c).cos(), v), (x, v)).0, x);
        let times = arange(3, Dtype::F64) * 0.1;
        let (x, all) = scan(move |(x, h): (Var, Var)| each(x, h), x, times);
        (x + all.sum(), v, n)
    },
    |(x, v, n), _| {
        // Each iteration searches a step size.
        let search = |(x, v): (Var, Var)| {
            let long = |h: Var| (h * x.square()).gt(0.2);
            let h = while_loop(long, |h: Var| h * 0.5, x.ones_like());
            (x - h * x * 0.5, (v + h).sin())
        };
        let (x, v) = repeat(n, search, (x, v));
        (x, v, n)
    },
    |(x, v, n), _| {
        let (x, v) = fori_loop(
            n,
            |(i, (x, v)): (Var, (Var, Var))| ((x + i.convert(Dtype::F64) * 0.1).sin(), v * x.cos()),
            (x, v),
        );
        (x, v, n)
    },
    |(x, v, n), (_, c)| ((-x.square()).exp() * c + v.index(0), v * 0.9, n),
    |(x, v, n), _| {
        let side = |x: Var| repeat(n, |(x, v)| ((x * 0.9).cos(), v), (x, v)).0;
        (cond(x.gt(0.1), side, |x: Var| x * 0.3, x), v, n)
    },
    |(x, v, n), _| {
        // A batch of loops inside of each member.
        let shrink = |e: Var| while_loop(|e: Var| e.abs().gt(0.1), |e: Var| e * 0.5, e);
        (x, vmap(shrink)(v), n)
    },
    |(x, v, n), (_, c)| {
        // All members have the same number of iterations.
        let many = |(_, k): (Var, Var)| k.lt(3i64) & c.lt(100.0);
        let (y, _) =
            while_loop(many, |(x, k): (Var, Var)| ((x * c).sin(), k + 1), (x, constant(0i64)));
        (y, v, n)
    },
    |(x, v, n), _| {
        // Rejection sampling.
        let draw = move |k: Var| {
            random::uniform(random::fold_in(random::fold_in(random::key(5), n), k), [], Dtype::F64)
        };
        let wrong = |(u, _): (Var, Var)| u.gt(0.4);
        let again = move |(_, k): (Var, Var)| (draw(k), k + 1);
        let (u, k) = while_loop(wrong, again, (x.ones_like(), constant(0i64)));
        (x + u, v, (k + n).rem(5))
    },
    |(x, v, n), _| (x, v, (n + 2).rem(7)),
    |(x, v, n), (m, _)| {
        let (x, v) = repeat(n, |(x, v)| (x * 0.8, (v.dot(m) + x).tanh()), (x, v));
        (x, v, n)
    },
    |(x, v, n), _| {
        let (x, v) = repeat(n, |(x, v)| (x * 0.5 + v.sum() * 0.1, (v * x).sin()), (x, v));
        (x, v, n)
    },
];

impl Batch {
    /// Draws a batch from a seed.
    pub fn draw(seed: u64) -> Batch {
        let mut rng = Rng::new(seed);
        let members = [32, 64, 65, 70, 96, 100, 127, 128, 150, 200][rng.index(10)];
        let width = [1, 2, 3, 4][rng.index(4)];
        let steps = (0..1 + rng.index(4)).map(|_| rng.index(STEPS.len())).collect();
        Batch { members, width, steps }
    }

    /// Returns the number of members of a chunk of the least size: at least 16, for a power of two of chunks.
    fn each(&self) -> usize {
        let chunks = 1 << (self.members / 16).ilog2();
        self.members.div_ceil(chunks).next_multiple_of(8)
    }

    /// Returns simpler batches: without a step, with fewer members.
    fn smaller(&self) -> Vec<Batch> {
        let mut all = Vec::new();
        for at in 0..self.steps.len() {
            let mut steps = self.steps.clone();
            steps.remove(at);
            all.push(Batch { steps, ..self.clone() });
        }
        let less =
            [32, 33, self.members / 2].into_iter().filter(|m| (32..self.members).contains(m));
        all.extend(less.map(|members| Batch { members, ..self.clone() }));
        all
    }

    /// Returns the arguments: numbers, vectors and numbers of iterations of all members, then the shared matrix and number.
    fn arguments(&self) -> Vec<Tensor> {
        let (n, d) = (self.members, self.width);
        let numbers = |shape: &[usize], phase: f64| {
            let x = |i: usize| 0.9 * (phase + 0.7 * i as f64).sin();
            let all: Tensor = (0..shape.iter().product()).map(x).collect();
            all.reshape(shape)
        };
        let counts: Vec<i64> = (0..n as i64).map(|i| (i * i + 3 * i) % 11 - 1).collect();
        let arrays = [numbers(&[n], 1.0), numbers(&[n, d], 2.0)].into_iter().flatten();
        let shared = [numbers(&[d, d], 3.0), numbers(&[], 4.0)].into_iter().flatten();
        arrays.chain([Tensor::from(counts)]).chain(shared).collect()
    }

    /// Returns a number for each member.
    fn values(&self, arguments: &[Var]) -> Var {
        let &[x, v, n, m, c] = arguments else { return constant(0.0) };
        let member = |(x, v, n): Member| {
            let step = |s, at: &usize| STEPS.get(*at).map_or(s, |step| step(s, (m, c)));
            let (x, v, _) = self.steps.iter().fold((x, v, n), step);
            x + v.sum()
        };
        vmap(member)((x, v, n))
    }

    /// Returns the derivatives of each member's number with respect to the member's own number and vector.
    fn derivatives(&self, arguments: &[Var]) -> Vec<Var> {
        let &[x, v, n, m, c] = arguments else { return Vec::new() };
        let member = |(x, v, n): Member| {
            let value = |(x, v): (Var, Var)| {
                let step = |s, at: &usize| STEPS.get(*at).map_or(s, |step| step(s, (m, c)));
                let (x, v, _) = self.steps.iter().fold((x, v, n), step);
                x + v.sum()
            };
            grad(value)((x, v))
        };
        let (dx, dv) = vmap(member)((x, v, n));
        vec![dx, dv]
    }

    /// Returns the gradient of the mean of all members' numbers, also with respect to the shared matrix and number.
    fn gradient(&self, arguments: &[Var]) -> Vec<Var> {
        let &[x, v, n, m, c] = arguments else { return Vec::new() };
        let mean = |(x, v, m, c): (Var, Var, Var, Var)| self.values(&[x, v, n, m, c]).mean();
        let (x, v, m, c) = grad(mean)((x, v, m, c));
        vec![x, v, m, c]
    }

    /// Returns the function that batches of this batch compute: each of two rows with its own numbers.
    fn twice(&self, arguments: &[Var]) -> Vec<Var> {
        let &[x, v, n, m, c] = arguments else { return Vec::new() };
        let row = |x: Var| self.values(&[x, v, n, m, c]);
        vec![vmap(row)(stack(&[x, x * 0.5], 0))]
    }
}

/// A function of the arguments, by its name in messages.
type Form = (&'static str, fn(&Batch, &[Var]) -> Vec<Var>);

const FORMS: [Form; 4] = [
    ("values", |of, v| vec![of.values(v)]),
    ("derivatives", Batch::derivatives),
    ("gradient", Batch::gradient),
    ("batches of batches", Batch::twice),
];

/// Checks that values and derivatives of a batch in chunks are those of the whole batch, and the same bits on one and on
/// several threads and by the interpreter. Returns whether chunks run in pieces, which threads run.
///
/// # Errors
/// The first difference.
pub fn chunks(of: &Batch) -> Result<bool, Failure> {
    let args = of.arguments();
    let mut found = false;
    for (name, form) in FORMS {
        let with = |chunk_operations: usize, threads: usize| {
            let of = of.clone();
            let measured = MachineModel::MEASURED;
            let machine =
                MachineModel { piece_operations: 1, pieces: 8, chunk_operations, ..measured };
            jit(move |v: Vec<Var>| form(&of, &v)).machine(machine).threads(threads)
        };
        let want = with(0, 1).call(args.clone())?;
        let code = with(1, 1);
        let one = code.call(args.clone())?;
        let exact = name == "values" && of.steps.iter().all(|at| *at < EXACT);
        let agreement = if exact { Agreement::Exact } else { Agreement::relative(1e-9) };
        agreement.check_all(&one, &want).map_err(|e| format!("{name} of chunks: {e}"))?;
        let interpreted = with(1, 1).interpreted().call(args.clone())?;
        agreement
            .check_all(&interpreted, &want)
            .map_err(|e| format!("{name}, interpreted: {e}"))?;
        for threads in [2, 3, 7] {
            let many = with(1, threads).call(args.clone())?;
            let wrong = |e| format!("{name} on {threads} threads: {e}");
            Agreement::Exact.check_all(&many, &one).map_err(wrong)?;
        }
        // Reports of divided loops are found by their first lines, which state the number of iterations.
        let text = |chunk_operations| -> Result<String, Failure> {
            Ok(with(chunk_operations, 1).explain(args.clone())?.kernels())
        };
        let count = of.members.div_ceil(of.each());
        let over =
            |line: &str| line.contains(&format!(" in {count}: ")) && line.contains(" pieces");
        let divisions = code.explain(args.clone())?.threads();
        found |= text(0)? != text(1)? && divisions.lines().any(over);
    }
    Ok(found)
}

/// Returns a report if the batch of a seed violates [`chunks`], with the smallest failing batch found.
pub fn failure(seed: u64) -> Option<String> {
    let broken = |of: &Batch| match catch_unwind(AssertUnwindSafe(|| chunks(of))) {
        Ok(outcome) => outcome.err().map(|e| e.to_string()),
        Err(panic) => Some(said(&*panic)),
    };
    let mut found = Batch::draw(seed);
    let mut wrong = broken(&found)?;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        let next = found.smaller().into_iter().find_map(|of| broken(&of).map(|e| (of, e)));
        let Some(next) = next else { break };
        (found, wrong) = next;
    }
    Some(format!("SWEEP_SEED={seed}: {wrong}\n\n{found:?}"))
}
