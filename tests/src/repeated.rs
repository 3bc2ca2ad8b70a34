//! Programs that run one piece of code many times through [`outline`], or write to an array in loops.
//!
//! The size of the compiled code must not depend on the number of runs. `rnn` repeats a step in sequence.
//! `determinant` calls a function of each smaller size from the next larger one. `doubling` calls the function one
//! level below twice, so inlining would give 2ⁿ copies. `sieve` and `prefix_sums` write to an array in loops.

use std::rc::Rc;
use tapeloom::prelude::*;

/// A function of one array; recursion over sizes builds closures of this type.
type Closure = Rc<dyn Fn(Var) -> Var>;

/// Returns a function that iterates `h ← tanh(h w + x u)` and returns the mean of squares of the last `h`.
///
/// `w: f64[n, n]`, `u: f64[n, n]`, `x: f64[b, n]`.
pub fn rnn(iterations: usize) -> impl Fn((Var, Var, Var)) -> Var {
    move |(w, u, x): (Var, Var, Var)| {
        let step = outline(|(h, x, w, u): (Var, Var, Var, Var)| (h.dot(w) + x.dot(u)).tanh());
        let h = (0..iterations).fold(x, |h, _| step((h, x, w, u)));
        (h * h).mean()
    }
}

/// Returns the function of [`rnn`] without the outlined call: every iteration is traced.
pub fn rnn_written_out(iterations: usize) -> impl Fn((Var, Var, Var)) -> Var {
    move |(w, u, x): (Var, Var, Var)| {
        let h = (0..iterations).fold(x, |h, _| (h.dot(w) + x.dot(u)).tanh());
        (h * h).mean()
    }
}

/// Returns for each number below n whether it is prime, by the sieve of Eratosthenes, which writes to one array.
pub fn sieve(n: usize) -> Var {
    let prime = Ref::new(full([n], true));
    prime.slice_axis(0, ..n.min(2)).set(false);
    let root = (n as f64).sqrt() as usize;
    let strike = |p: Var| {
        let multiples = (n as i64 - 1) / p - p + 1;
        fori_loop(multiples, |(k, ()): (Var, ())| prime.at(p * (p + k)).set(false), ());
    };
    let each = |(i, ()): (Var, ())| cond(prime.at(i + 2).get(), |()| strike(i + 2), |()| (), ());
    fori_loop(root.saturating_sub(1), each, ());
    prime.get()
}

/// Returns the prefix sums `x[0]`, `x[0] + x[1]`, .., computed in place by a loop.
pub fn prefix_sums(x: Var) -> Var {
    let s = Ref::new(x);
    fori_loop(x.len() - 1, |(i, ()): (Var, ())| s.at(i + 1).add(s.at(i).get()), ());
    s.get()
}

/// Returns arguments w, u and x of [`rnn`].
pub fn rnn_arguments(batch: usize, n: usize) -> Result<(Tensor, Tensor, Tensor), tapeloom::Error> {
    let numbers = |rows: usize, scale: f64| {
        let wave = |i: usize| scale * (1.0 + i as f64 * 0.7).sin();
        Tensor::new(&[rows, n], (0..rows * n).map(wave).collect::<Vec<f64>>())
    };
    Ok((numbers(n, 0.2)?, numbers(n, 0.1)?, numbers(batch, 1.0)?))
}

/// Returns the determinant of an `n` by `n` matrix by cofactors along the first row. Each size has one outlined
/// function, which calls the function of the next smaller size once per column.
pub fn determinant(n: usize) -> impl Fn(Var) -> Var {
    cofactors(n, |f| Rc::new(outline(move |a| f(a))))
}

/// Returns the function of [`determinant`] with every size under `checkpoint`: otherwise the residuals of all calls,
/// and with them the signatures of the functions, would grow as `n!`.
pub fn determinant_checkpointed(n: usize) -> impl Fn(Var) -> Var {
    cofactors(n, |f| Rc::new(outline(checkpoint(move |a| f(a), Policy::Nothing))))
}

fn cofactors(n: usize, once: fn(Closure) -> Closure) -> impl Fn(Var) -> Var {
    fn of(n: usize, once: fn(Closure) -> Closure) -> Closure {
        if n == 1 {
            return Rc::new(|a: Var| a.reshape([]));
        }
        let minor = of(n - 1, once);
        once(Rc::new(move |a: Var| {
            let term = |k: usize| {
                let rows = a.slice_axis(0, 1..);
                let minor_k = match k {
                    0 => rows.slice_axis(1, 1..),
                    _ if k == n - 1 => rows.slice_axis(1, ..k),
                    _ => concat(&[rows.slice_axis(1, ..k), rows.slice_axis(1, k + 1..)], 1),
                };
                let sign = if k.is_multiple_of(2) { 1.0 } else { -1.0 };
                sign * a.index((0, k as i64)) * minor(minor_k)
            };
            (1..n).fold(term(0), |sum, k| sum + term(k))
        }))
    }
    let f = of(n, once);
    move |a| f(a)
}

/// Returns the function `fₙ(x) = fₙ₋₁(sin fₙ₋₁(x))` for n levels; inlined, it has `2ⁿ` copies of the body.
pub fn doubling(levels: usize) -> impl Fn(Var) -> Var {
    let mut f: Closure = Rc::new(|x: Var| x.sin() + 0.1 * x);
    for _ in 0..levels {
        let below = f;
        f = Rc::new(outline(move |x: Var| below(below(x).sin())));
    }
    move |x| f(x)
}
