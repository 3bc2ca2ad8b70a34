//! Random recurrences over a batch: loops whose carried arrays have a row for each member.
//!
//! Such a loop runs in pieces of members if no member uses another member's values. In these programs members compute
//! alone (elementwise steps, products with shared matrices, matrices of their own, loops inside), exchange values (sums,
//! maxima and scans over members, rotations, permutations, the row of one member), and are computed in other shapes (two
//! rows a member, transposed). [`pieces`] compares the values and gradients of loops in pieces with those of whole loops,
//! and all numbers of threads bit by bit.

use crate::fuzz::said;
use crate::{Agreement, Failure, Rng};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use tapeloom::MachineModel;
use tapeloom::prelude::*;

/// A random recurrence over a batch.
#[derive(Clone, PartialEq, Debug)]
pub struct Recurrence {
    /// The number of members.
    pub members: usize,
    /// The length of a member's row, an even number.
    pub width: usize,
    /// The trip count of the loop.
    pub times: usize,
    /// The kind of loop.
    pub form: Form,
    /// The steps of an iteration, as indices into the list of all steps.
    pub steps: Vec<usize>,
}

/// The kind of a loop over a batch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Form {
    /// `fori_loop` of the whole batch.
    Whole,
    /// `scan` of the whole batch, over an array for each iteration, with a stack of numbers for each member.
    Scan,
    /// `scan_reverse` of the whole batch, with a stack of the carried arrays.
    Reverse,
    /// A `fori_loop` of two iterations inside a `fori_loop`, both of the whole batch.
    Nested,
}

/// The carried arrays: two arrays `members x width`, one number for each member, and one matrix for all members.
type State = (Var, Var, Var, Var);

/// A step: the new state from the state, the number of the iteration, and a captured array of members x width.
type Step = fn(State, Var, Var) -> State;

/// The steps that compute each member from the member's own values and the shared matrix.
const ALONE: &[Step] = &[
    |(x, z, y, w), i, _| ((x * 0.6 + i.convert(Dtype::F64) * 0.1).sin(), z, y, w),
    |(x, z, y, w), _, _| (x.dot(w).tanh(), z, y, w),
    |(x, z, y, w), _, c| ((x * 0.5 + c * 0.3).tanh(), z * 0.9 + x * 0.1, y, w),
    |(x, z, y, w), _, _| (z, x, y, w),
    |(x, z, y, w), _, _| (x, z, (y * 0.5 + x.sum_axis(1)).sin(), w),
    |(x, z, y, w), _, _| (x * (y * 0.3).cos().reshape([y.size(), 1]), z, y, w),
    |(x, z, y, w), _, _| {
        // This step computes each member in another shape: two rows of half the width.
        let [n, d] = [0, 1].map(|axis| x.shape()[axis]);
        let rows = x.reshape([2 * n, d / 2]);
        let half = w.slice((0..d / 2, 0..d / 2));
        ((rows.dot(half) + rows.max_axis(1).reshape([2 * n, 1])).tanh().reshape([n, d]), z, y, w)
    },
    |(x, z, y, w), _, _| {
        // This step multiplies each member by a matrix of its own.
        let member = |(x, z): (Var, Var)| {
            let d = x.size();
            (x.reshape([d, 1]) * z.reshape([1, d])).tanh().dot(x) * 0.3
        };
        (vmap(member)((x, z)), z, y, w)
    },
    |(x, z, y, w), _, c| {
        let inside = |(j, x): (Var, Var)| (x * 0.7 + c * j.convert(Dtype::F64) * 0.1).sin();
        (fori_loop(3, inside, x), z, y, w)
    },
    |(x, z, y, w), _, _| (fori_loop(2, |(_, x): (Var, Var)| (x.dot(w) + z).tanh(), x), z, y, w),
    |(x, z, y, w), i, _| {
        let noise = random::uniform(random::fold_in(random::key(3), i), x.shape(), Dtype::F64);
        (x * 0.9 + noise * 0.1, z, y, w)
    },
    |(x, z, y, w), _, _| ((x.cumsum(1) * 0.3).sin(), z, y, w),
    |(x, z, y, w), _, _| (select(x.gt(z), x * 0.8, z * 0.9), z, y, w),
    |(x, z, y, w), _, _| {
        // In the transposed product, the last axis is the axis of members.
        let t = w.dot(x.t()).tanh();
        (t.t(), z, y + t.index(0) * 0.1, w)
    },
    |(x, z, y, w), _, _| {
        let best = x.argmax(1).convert(Dtype::F64);
        (x, z + (best * 0.1).reshape([best.size(), 1]), y, w)
    },
    |(x, z, y, w), _, _| {
        let own = arange(y.size(), Dtype::F64) * 0.01;
        (x, z, (y + own).cos(), w)
    },
];

/// The steps in which a member uses values of other members.
const TOGETHER: &[Step] = &[
    |(x, z, y, w), _, _| (x - x.mean_axis(0).reshape([1, x.shape()[1]]), z, y, w),
    |(x, z, y, w), _, _| (x, z, y * 0.5 - y.max_axis(0) * 0.1, w),
    |(x, z, y, w), _, _| {
        let n = x.shape()[0] as f64;
        (x, z, y, w * 0.5 + x.t().dot(z) * (0.3 / n))
    },
    |(x, z, y, w), _, _| {
        let n = x.shape()[0] as f64;
        ((x + x.cumsum(0) / n).tanh(), z, y, w)
    },
    |(x, z, y, w), _, _| {
        let n = x.shape()[0];
        (x, concat(&[z.slice((1..n,)), z.slice((0..1,))], 0) * 0.9, y, w)
    },
    |(x, z, y, w), _, _| (x.flip([0]) * 0.9, z, y, w),
    |(x, z, y, w), i, _| {
        let n = y.size() as i64;
        let places = (arange(y.size(), Dtype::I64) * 7 + i).rem(n);
        (x.take(places, 0) * 0.9, z, y, w)
    },
    |(x, z, y, w), _, _| (x * 0.9 + x.index(0).reshape([1, x.shape()[1]]) * 0.1, z, y, w),
    |(x, z, y, w), _, _| (x, z, y * 0.9 + y.index(y.size() - 1) * 0.1, w),
    |(x, z, y, w), i, _| {
        let row = i.rem(y.size() as i64);
        (x, z.at(row).set(x.index(0).sin()), y.at(row).add(0.5), w)
    },
    |(x, z, y, w), i, _| {
        let n = y.size() as i64;
        let places = (arange(y.size(), Dtype::I64) * 3 + i).rem((n + 1) / 2);
        (x, z, (y * 0.3).at(places).add(y * 0.2).sin(), w)
    },
    |(x, z, y, w), _, _| {
        // Attention: each member reads a weighted sum over all members.
        let scores = x.dot(z.t()) * 0.3;
        let weights = (scores - scores.max_axis(1).reshape([y.size(), 1])).exp();
        let sums = weights.sum_axis(1).reshape([y.size(), 1]);
        ((weights / sums).dot(x), z, y, w)
    },
    |(x, z, y, w), _, _| (x + x.index(y.argmax(0)).reshape([1, x.shape()[1]]) * 0.1, z, y, w),
    |(x, z, y, w), _, _| {
        let inside = |(_, x): (Var, Var)| x * 0.9 + x.mean_axis(0).reshape([1, x.shape()[1]]) * 0.1;
        (fori_loop(2, inside, x), z, y, w)
    },
    |(x, z, y, w), _, _| (x, z, (y.cumsum(0) * 0.1).sin(), w),
    |(x, z, y, w), _, _| (x, z, y.take(y.argsort(0), 0), w),
    |(x, z, y, w), _, _| (x * 0.8 - x.mean(), z, y, w),
    |(x, z, y, w), _, _| (x, z, y / (y.square().sum() + 1.0).sqrt(), w),
    |(x, z, y, w), _, _| {
        // Batch normalization: each member reads means and variances over all members.
        let wide = [1, x.shape()[1]];
        let h = x.dot(w);
        let centred = h - h.mean_axis(0).reshape(wide);
        let spread = (centred.square().mean_axis(0) + 0.1).sqrt();
        ((centred / spread.reshape(wide)).tanh(), z, y, w)
    },
    |(x, z, y, w), _, _| {
        let all = x.reshape([x.size()]).cumsum(0) * 0.01;
        (x + all.reshape(x.shape()).sin(), z, y, w)
    },
];

impl Recurrence {
    /// Draws a recurrence from a seed. In a third of all recurrences, no member uses values of other members.
    pub fn draw(seed: u64) -> Recurrence {
        let mut rng = Rng::new(seed);
        let members = [1, 2, 3, 8, 33, 64, 64, 96, 100, 128][rng.index(10)];
        let width = [2, 4, 6][rng.index(3)];
        let times = [5, 7, 9][rng.index(3)];
        let form = [Form::Whole, Form::Scan, Form::Reverse, Form::Nested][rng.index(4)];
        let alone = rng.index(3) == 0;
        let steps = (0..1 + rng.index(5))
            .map(|_| match alone || rng.index(3) > 0 {
                true => rng.index(ALONE.len()),
                false => ALONE.len() + rng.index(TOGETHER.len()),
            })
            .collect();
        Recurrence { members, width, times, form, steps }
    }

    /// Returns simpler recurrences: without a step, with fewer iterations or members.
    fn smaller(&self) -> Vec<Recurrence> {
        let mut all = Vec::new();
        for at in 0..self.steps.len() {
            let mut steps = self.steps.clone();
            steps.remove(at);
            all.push(Recurrence { steps, ..self.clone() });
        }
        let less = |n: usize| [1, 2, 64, n / 2].into_iter().filter(move |m| (1..n).contains(m));
        all.extend(less(self.times).map(|times| Recurrence { times, ..self.clone() }));
        all.extend(less(self.members).map(|members| Recurrence { members, ..self.clone() }));
        if self.form != Form::Whole {
            all.push(Recurrence { form: Form::Whole, ..self.clone() });
        }
        all
    }

    /// Returns the arguments: the first state, and the captured array.
    fn arguments(&self) -> Vec<Tensor> {
        let (n, d) = (self.members, self.width);
        let numbers = |shape: &[usize], phase: f64| {
            let x = |i: usize| 0.9 * (phase + 0.7 * i as f64).sin();
            let all: Tensor = (0..shape.iter().product()).map(x).collect();
            all.reshape(shape)
        };
        [&[n, d][..], &[n, d], &[n], &[d, d], &[n, d]]
            .into_iter()
            .zip(1..)
            .filter_map(|(shape, k)| numbers(shape, f64::from(k)).ok())
            .collect()
    }

    /// Returns a weighted sum of the final state and the stacked values.
    fn value(&self, arguments: &[Var]) -> Var {
        let &[x, z, y, w, c] = arguments else { return constant(0.0) };
        let body = |i: Var, s: State| {
            let step = |s, at: &usize| {
                let all = ALONE.iter().chain(TOGETHER);
                all.copied().nth(*at).map_or(s, |step| step(s, i, c))
            };
            self.steps.iter().fold(s, step)
        };
        let (n, start) = (self.times, (x, z, y, w));
        let weighted = |v: Var| {
            let weights = (arange(v.size(), Dtype::F64) * 0.7).cos().reshape(v.shape());
            (v * weights).sum()
        };
        let rows = (arange(n, Dtype::F64) * 0.3).sin().reshape([n, 1, 1])
            * c.reshape([1, self.members, self.width]);
        let (end, stack) = match self.form {
            Form::Whole => (fori_loop(n, |(i, s): (Var, State)| body(i, s), start), None),
            Form::Nested => {
                let inner = |(i, s): (Var, State)| {
                    fori_loop(2, move |(j, s): (Var, State)| body(i * 2 + j, s), s)
                };
                (fori_loop(n, inner, start), None)
            }
            Form::Scan => {
                let each = |((i, s), row): ((Var, State), Var)| {
                    let (x, z, y, w) = body(i, s);
                    let x = x + row * 0.1;
                    ((i + 1, (x, z, y, w)), y * x.sum_axis(1))
                };
                let ((_, end), stack) = scan(each, (constant(0i64), start), rows);
                (end, Some(stack))
            }
            Form::Reverse => {
                let each = |((i, s), row): ((Var, State), Var)| {
                    let (x, z, y, w) = body(i, s);
                    ((i + 1, (x * 0.9 + row, z, y, w)), z)
                };
                let ((_, end), stack) = scan_reverse(each, (constant(0i64), start), rows);
                (end, Some(stack))
            }
        };
        let (x, z, y, w) = end;
        [x, z, y, w].into_iter().chain(stack).map(weighted).fold(constant(0.0), |a, b| a + b)
    }
}

/// Checks that the value and the gradient of a recurrence in pieces are those of the whole loops, and the same bits on one
/// and on several threads. Returns whether the loop over the iterations runs in pieces.
///
/// # Errors
/// The first difference.
pub fn pieces(of: &Recurrence) -> Result<bool, Failure> {
    let with = |pieces: usize, gradient: bool| {
        let of = of.clone();
        let machine = MachineModel { piece_operations: 1, pieces, ..MachineModel::MEASURED };
        let value = move |v: Vec<Var>| {
            let value = |v: Vec<Var>| of.value(&v);
            match gradient {
                false => vec![value(v)],
                true => grad(value)(v),
            }
        };
        jit(value).machine(machine)
    };
    let args = of.arguments();
    let mut found = false;
    for gradient in [false, true] {
        let want = with(1, gradient).threads(1).call(args.clone())?;
        for pieces in [2, 3, 64] {
            let code = with(pieces, gradient).threads(1);
            let one = code.call(args.clone())?;
            let wrong = |e| format!("in {pieces} pieces, gradient {gradient}: {e}");
            Agreement::relative(1e-9).check_all(&one, &want).map_err(wrong)?;
            for threads in [2, 7] {
                let many = with(pieces, gradient).threads(threads).call(args.clone())?;
                let wrong = |e| wrong(format!("on {threads} threads: {e}"));
                Agreement::Exact.check_all(&many, &one).map_err(wrong)?;
            }
            // Reports of divided loops are found by the first line of their text. No other loop of these programs has
            // this number of iterations.
            let divisions = code.explain(args.clone())?.threads();
            let outer = format!(" in {}: ", of.times);
            found |=
                divisions.lines().any(|line| line.contains(&outer) && line.contains(" pieces"));
        }
    }
    Ok(found)
}

/// Returns a report if the recurrence of a seed violates [`pieces`], with the smallest failing recurrence found.
pub fn failure(seed: u64) -> Option<String> {
    let broken = |of: &Recurrence| match catch_unwind(AssertUnwindSafe(|| pieces(of))) {
        Ok(outcome) => outcome.err().map(|e| e.to_string()),
        Err(panic) => Some(said(&*panic)),
    };
    let mut found = Recurrence::draw(seed);
    let mut wrong = broken(&found)?;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        let next = found.smaller().into_iter().find_map(|of| broken(&of).map(|e| (of, e)));
        let Some(next) = next else { break };
        (found, wrong) = next;
    }
    Some(format!("SWEEP_SEED={seed}: {wrong}\n\n{found:?}"))
}
