//! Random programs traced as functions of a vector.

use super::program::{Iterations, Nest, Program, Step, about};
use crate::Listener;
use std::rc::Rc;
use tapeloom::linalg;
use tapeloom::prelude::*;

/// The state that a program's steps change: two vectors, a number, and a counter.
type State = (Var, Var, Var, Var);

/// A number of saved carries, larger than any trip count in these programs: all carries are saved.
const ALL: usize = 1000;

pub(super) const CODES: &[fn(State, Var) -> State] = &[
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
        // Selects, at each position, the largest of three values.
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
    // Steps that put values exactly on thresholds and at ties, and then branch or select by a comparison with the
    // threshold. No threshold is representable in f32.
    |(x, y, s, k), _| ((x * 1.3).clamp(-0.3, 0.3), select(x.gt(0.3), y * 0.9, y * -0.6), s, k),
    |(x, y, s, k), _| (select(y.gt(0.7), x * -0.8, x * 0.9), (y * 1.3).clamp(-0.7, 0.7), s, k),
    |(x, y, s, k), c| (x.minimum(c), (y * 1.1).minimum(c), s, k),
    |(x, y, s, k), c| (x.maximum(c), y * 0.9, s, k + x.gt(c).convert(Dtype::I64).sum()),
    |(x, y, s, k), _| {
        let stairs = (x * 10.0).floor() * 0.09;
        (x.clamp(-0.3, 0.3), select(s.gt(0.1), y * 0.9, stairs * y), s.minimum(0.1), k)
    },
];

/// The indices of the [`CODES`] whose residuals are bools and indices, not floats.
pub(super) const CHOICES: &[usize] = &[9, 11, 14, 17, 18, 19, 20, 20, 21, 22, 23, 24, 25];

/// The indices of those [`CODES`] that put values on thresholds and at ties and then select by a comparison, and of
/// some that only compute.
pub(super) const THRESHOLDS: &[usize] = &[0, 2, 14, 21, 21, 22, 22, 23, 24, 24, 25, 25];

/// The index of the entry of [`CODES`] that converts to `f32`.
pub(super) const NARROW: usize = 16;

/// Steps that factor matrices, either computed from the state or loop-invariant. Their indices follow those of
/// [`CODES`].
pub(super) const FACTORS: &[fn(State, Var) -> State] = &[
    |(x, y, s, k), _| (linalg::solve(regular(x, y), x).sin(), y, s, k),
    |(x, y, s, k), c| (linalg::solve(regular(c, c), x).sin() * 1.5, y * 0.9, s, k),
    |(x, y, s, k), _| (linalg::inv(regular(y, y)).dot(x).tanh(), y, s, k),
    |(x, y, s, k), _| (x, (linalg::cholesky(regular(x, x)).dot(y) * 0.3).sin(), s, k),
    |(x, y, s, k), c| (x * 0.5 + linalg::cholesky(regular(c, c)).dot(y) * 0.2, y, s, k),
    |(x, y, s, k), _| ((linalg::qr(regular(x, y)).1.dot(x) * 0.4).sin(), y, s, k),
];

/// Returns a regular matrix computed from two vectors; if the vectors are equal, it is symmetric positive definite.
fn regular(x: Var, y: Var) -> Var {
    let n = x.size();
    x.reshape([n, 1]) * y.reshape([1, n]) * 0.1 + eye(n, Dtype::F64) * 2.0
}

/// The environment in which a step is traced.
#[derive(Clone)]
struct Around {
    /// The argument of the program, which all functions capture.
    c: Var,
    /// The number 1 as a run-time value.
    one: Var,
    log: Listener,
    /// Whether every checkpoint policy and every `checkpoint_carries` in the program is replaced by a variant that
    /// saves everything.
    all: bool,
}

/// Returns the program as a scalar function of a vector; effects go to the log.
pub(super) fn meaning(
    program: Rc<Program>,
    log: Listener,
    all: bool,
) -> impl Fn(Var) -> Var + Clone {
    move |x| {
        let one = (x.sum() * 0.0).convert(Dtype::I64) + 1;
        let around = Around { c: x, one, log: log.clone(), all };
        let start = (x, x.cos() * 0.5, x.sum() * 0.1, constant(0i64));
        let (x, y, s, k) = around.list(&program.steps, start);
        let weights = (arange(x.size(), Dtype::F64) * 0.7).cos();
        (x * weights).sum() + (y * y).sum() * 0.5 + s + k.convert(Dtype::F64) * 0.001
    }
}

impl Around {
    fn list(&self, list: &[Step], s: State) -> State {
        list.iter().fold(s, |s, step| self.step(step, s))
    }

    fn step(&self, step: &Step, state: State) -> State {
        let (x, y, s, k) = state;
        match step {
            Step::Code(code) => match CODES.get(*code) {
                Some(change) => change(state, self.c),
                None => FACTORS[*code - CODES.len()](state, self.c),
            },
            Step::Named(name) => (x.named(name), y, s, k),
            Step::Effect => {
                let log = self.log.clone();
                (x, y, tap(s, move |s: Tensor| log.hear("s", &[s])), k)
            }
            Step::Iterations(kind, n, body) => self.iterations(*kind, *n, body, state),
            Step::Nest(kind, extents) => nest(*kind, *extents, state),
            Step::Branch(yes, no) => {
                let which = (s - y.mean()).gt(0.0);
                cond(which, |s: State| self.list(yes, s), |s: State| self.list(no, s), state)
            }
            Step::Call(body) => outline(|s: State| self.list(body, s))(state),
            Step::Rule(body) => {
                // A custom rule takes floats only, and must not capture a differentiated value.
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
            Step::Under(_, body) if self.all => {
                checkpoint(|s: State| self.list(body, s), Policy::Everything)(state)
            }
            // Save more carries than any loop has iterations, that is, all. The call of `checkpoint_carries` remains,
            // because loop-invariant equations are hoisted out of loops but not out of calls.
            Step::Carries(_, _, body) if self.all => {
                checkpoint_carries(ALL, 1, |s: State| self.list(body, s))(state)
            }
            Step::Under(policy, body) => {
                checkpoint(|s: State| self.list(body, s), about(policy, body))(state)
            }
            Step::Carries(carries, block, body) => {
                checkpoint_carries(*carries, *block, |s: State| self.list(body, s))(state)
            }
        }
    }

    fn iterations(&self, kind: Iterations, n: usize, body: &[Step], state: State) -> State {
        let (x, y, s, k) = state;
        let list = |s: State| self.list(body, s);
        let times = arange(n, Dtype::F64) * 0.01;
        let end = |(x, y, s, k): State, outputs: Var| (x, y, (s + outputs).tanh(), k);
        match kind {
            Iterations::Known => fori_loop(n, |(_, s): (Var, State)| list(s), state),
            Iterations::Runtime => {
                fori_loop(self.one * n as i64, |(_, s): (Var, State)| list(s), state)
            }
            Iterations::Scan => {
                let iteration = |((x, y, s, k), t): (State, Var)| {
                    let (x, y, s, k) = list((x * 0.9 + t, y, s, k));
                    let outputs = s * x.sum();
                    ((x, y, s, k), outputs)
                };
                let (state, outputs) = scan(iteration, state, times);
                end(state, outputs.square().sum() * 0.01)
            }
            Iterations::Reverse => {
                let rows = times.reshape([n, 1]) * x.reshape([1, x.size()]);
                let iteration = |((x, y, s, k), row): (State, Var)| {
                    let (x, y, s, k) = list((x * 0.8 + row * 0.1, y, s, k));
                    ((x, y, s, k), x * y)
                };
                let (state, outputs) = scan_reverse(iteration, state, rows);
                end(state, outputs.sin().sum() * 0.01)
            }
            Iterations::Map => {
                let outputs = map(
                    |t: Var| {
                        let (x, _, s, _) = list((x + t, y, s, k));
                        x.sum() + s
                    },
                    times,
                );
                end(state, outputs.sin().sum() * 0.01)
            }
            Iterations::Counted => {
                let more = |(i, _): (Var, State)| i.lt(self.one * n as i64);
                while_loop(more, |(i, s): (Var, State)| (i + 1, list(s)), (self.one - 1, state)).1
            }
            Iterations::Until => {
                // Every iteration adds at least 1 to z, so the loop ends.
                let more = |(z, _): (Var, State)| z.lt(n as f64);
                let iteration = |(z, s): (Var, State)| {
                    let s = list(s);
                    (z + 1.0 + s.2.square() * 0.1, s)
                };
                let (z, state) = while_loop(more, iteration, (s * 0.1, state));
                end(state, z * 0.01)
            }
            Iterations::Table => {
                let rows = Ref::new(zeros([n + 1, x.size()], Dtype::F64));
                rows.at(0).set(x);
                let iteration = |(i, (_, y, s, k)): (Var, State)| {
                    let (x, y, s, k) = list((rows.at(i).get(), y, s, k));
                    rows.at(i + 1).set(x * 0.9);
                    (x, y, s, k)
                };
                let state = fori_loop(n, iteration, state);
                end(state, rows.get().sin().sum() * 0.01)
            }
            Iterations::Series => {
                let rows = Ref::new(zeros([n + 3, x.size()], Dtype::F64));
                (0..3).for_each(|i| rows.at(i).set(if i == 1 { x } else { y * 0.5 }));
                let iteration = |(i, (_, y, s, k)): (Var, State)| {
                    let (old, last) = (rows.at(i).get(), rows.at(i + 2).get());
                    let (x, y, s, k) = list((old.sin() + last * 0.4, y, s, k));
                    rows.at(i + 3).set(x * 0.9 + rows.at(i).get() * rows.at(i + 1).get() * 0.1);
                    rows.at(i + 3).add(rows.at(i + 3).get().tanh() * old * 0.1);
                    (x, y, s, k)
                };
                let state = fori_loop(n, iteration, state);
                end(state, rows.get().sin().sum() * 0.01)
            }
        }
    }
}

/// Runs three nested loops over elements of matrices. A vector with too few elements is repeated.
fn nest(kind: Nest, [rows, places, taps]: [usize; 3], (x, y, s, k): State) -> State {
    let spread = |v: Var, n: usize| v.take(arange(n, Dtype::I64).rem(v.size() as i64), 0);
    let v = spread(x, rows * (places + taps)).reshape([rows, places + taps]);
    let w = spread(y, taps * places).reshape([taps, places]);
    let of = |t: Var, i: Var, j: Var| (w.index((t, 0)), v.index((i, j + t)));
    let each = |n: usize, f: &dyn Fn(Var, Var) -> Var, a: Var| {
        fori_loop(n, |(i, a): (Var, Var)| f(i, a), a)
    };
    let place = |i: Var, j: Var, a: Var| match kind {
        Nest::Taps => each(
            taps,
            &|t, a| {
                let (w, v) = of(t, i, j);
                a.at((i, j)).add(w * v)
            },
            a,
        ),
        Nest::Sines => each(
            taps,
            &|t, a| {
                let (w, v) = of(t, i, j);
                a.at((i, j)).add((w * v + s).sin())
            },
            a,
        ),
        Nest::Within => each(
            taps,
            &|t, a| {
                let (w, v) = of(t, i, j);
                a.at((i, j)).set((a.index((i, j)) * w + v).tanh())
            },
            a,
        ),
        Nest::Carried => {
            let iteration = |t: Var, c: Var| {
                let (w, v) = of(t, i, j);
                (c * w + v).sin()
            };
            a.at((i, j)).set(each(taps, &iteration, s))
        }
        Nest::Rows => each(taps, &|t, a| a.at((i, t)).add(v.index((i, j)) * w.index((t, j))), a),
    };
    let row = |i: Var, a: Var| each(places, &|j, a| place(i, j, a), a);
    let width = if kind == Nest::Rows { taps } else { places };
    let a = each(rows, &row, zeros([rows, width], Dtype::F64));
    let outputs = spread((a.reshape([rows * width]) * 0.1).tanh(), x.size());
    (x * 0.8 + outputs * 0.1, y, (s * 0.5 + outputs.mean()).tanh(), k)
}
