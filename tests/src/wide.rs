//! Programs with very many values: loops and branches that read, carry, stack or return them.
//!
//! The compiler handles each value of a loop, so its time should grow linearly with their number. If a rule searches
//! a list of all values for each of them, the time for these programs grows quadratically; the benchmarks measure it.

use tapeloom::Explanation;
use tapeloom::prelude::*;

/// A program whose number of values grows with the number of its arguments: a name, and a scalar function of many
/// arrays of one shape.
pub type Family = (&'static str, fn(Vec<Var>) -> Var);

/// The programs, each with many values of one kind: captured, carried, stacked, returned.
pub const FAMILIES: [Family; 11] = [
    ("captures", captures),
    ("captured_numbers", |x| captures(numbers(x))),
    ("carries", carries),
    ("carried_numbers", |x| carries(numbers(x))),
    ("elements", |x| {
        let iteration = |(s, x): (Var, Vec<Var>)| (blend(&x, s), ());
        scan(iteration, x[0].sum(), x).0
    }),
    ("stacks", |x| {
        let each = |i: Var| x.iter().map(|x| (i * x).sin()).collect::<Vec<Var>>();
        total(map(each, arange(5, Dtype::F64)))
    }),
    ("operands", |x| {
        let s = x[0];
        let (yes, no) = (|x: Vec<Var>| blend(&x, s), |x: Vec<Var>| blend(&x, s.sin()));
        cond(s.sum().gt(0.0), yes, no, x).sum()
    }),
    ("branches", |x| {
        let each =
            |f: fn(Var) -> Var| move |x: Vec<Var>| x.into_iter().map(f).collect::<Vec<Var>>();
        total(cond(x[0].sum().gt(0.0), each(Var::sin), each(Var::cos), x))
    }),
    ("refs", |x| {
        let refs: Vec<Ref> = x.iter().map(Ref::new).collect();
        let iteration = |(_, ()): (Var, ())| refs.iter().for_each(|r| r.update(Var::sin));
        fori_loop(5, iteration, ());
        total(refs.into_iter().map(Ref::get).collect())
    }),
    ("residuals", |x| {
        let iteration = |(_, s): (Var, Var)| (0..x.len()).fold(s, |s, _| s.sin());
        fori_loop(5, iteration, x[0]).sum()
    }),
    ("tapes", |x| {
        let more = |x: Vec<Var>| x[0].sum().lt(50.0);
        total(while_loop(more, |x: Vec<Var>| mixed(&x), x))
    }),
];

fn captures(x: Vec<Var>) -> Var {
    fori_loop(5, |(_, s): (Var, Var)| blend(&x, s), x[0]).sum()
}

fn carries(x: Vec<Var>) -> Var {
    total(fori_loop(5, |(_, x): (Var, Vec<Var>)| mixed(&x), x))
}

fn numbers(x: Vec<Var>) -> Vec<Var> {
    x.into_iter().map(Var::sum).collect()
}

/// Returns `s / 2 + cos x`, folded over the arrays x.
fn blend(x: &[Var], s: Var) -> Var {
    x.iter().fold(s, |s, x| s * 0.5 + x.cos())
}

/// Returns for each array its sine plus the next array.
fn mixed(x: &[Var]) -> Vec<Var> {
    (0..x.len()).map(|i| x[i].sin() + x[(i + 1) % x.len()]).collect()
}

fn total(x: Vec<Var>) -> Var {
    x.into_iter().map(Var::sum).fold(zeros([], Dtype::F64), |a, b| a + b)
}

/// A name, and a function that compiles a program of a family for these arguments.
pub type Compile = (&'static str, fn(Family, &[Tensor]) -> Result<Explanation, tapeloom::Error>);

/// The functions that are compiled for each family: the value, first and second derivatives, and many gradients at
/// once.
pub const FUNCTIONS: [Compile; 4] = [
    ("value", |(_, f), x| jit(f).explain(x.to_vec())),
    ("grad", |(_, f), x| jit(grad(f)).explain(x.to_vec())),
    ("grad_grad", |(_, f), x| {
        let slope = move |x: Vec<Var>| total(grad(f)(x));
        jit(grad(slope)).explain(x.to_vec())
    }),
    ("vmap_grad", |(_, f), x| {
        let one = |x: &Tensor| x.reshape(&[&[1], x.shape()].concat());
        jit(vmap(grad(f))).explain(x.iter().map(one).collect::<Result<Vec<Tensor>, _>>()?)
    }),
];

/// Returns `n` arguments: arrays of three numbers.
pub fn arguments(n: usize) -> Vec<Tensor> {
    (0..n).map(|i| [0.1, 0.2, 0.3].map(|a| a + 1.0 / (i + 2) as f64).into()).collect()
}
