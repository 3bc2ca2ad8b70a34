//! `associative_scan`: all prefixes of a sequence under an associative function, in a logarithmic number of steps.

use super::loops::common_extent;
use crate::Var;
use crate::function::{Function, one};
use crate::ops::{concat, stack};
use crate::staging::rebuild;
use crate::transform::vectorize;
use crate::tree::{Flat, Tree, flatten};
use crate::var::{caller, on_behalf};
use std::ops::Range;
use tapeloom_ir::trace;
use tapeloom_ir::{ArrayType, Kind, Loc, Problem};

/// Returns all prefixes of `xs` under an associative function of two elements: `(x, x) -> x`.
///
/// Axis 0 of every leaf is the sequence: `y[0] = x[0]`, `y[i] = f((y[i-1], x[i]))`. Because `f` is associative,
/// neighbours are combined in pairs, the prefixes of the pairs are computed recursively, and each remaining prefix
/// takes one more use of `f`. For n elements, that is at most 2 n uses of `f` in 2 log2 n batches. The program
/// contains `f` once for each batch. If `f` is not associative (up to rounding), the result is meaningless.
///
/// [`scan`](crate::scan), in contrast, runs one step after the other, allows a carry of another type than the
/// elements, and does not need an associative function. Sums and products of numbers have their own functions
/// ([`Var::cumsum`], [`Var::linear_recurrence`]).
///
/// Errors: `shape` if a leaf is a scalar or leaves differ in length; `shape` or `dtype` if the result of `f` has
/// another type than its arguments.
///
/// ```
/// use tapeloom::prelude::*;
/// let products = jit(|x: Var| associative_scan(|(a, b): (Var, Var)| a.dot(b), x));
/// let quarter = [[0.0, -1.0], [1.0, 0.0]];
/// let turns = Tensor::from([quarter, quarter, quarter]);
/// let y = products.call(&turns)?;
/// assert_eq!(y.slice_axis(0, 2..3)?.to_vec::<f64>()?, [0.0, 1.0, -1.0, 0.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Source: Blelloch, "Prefix Sums and Their Applications" (1990); JAX's `associative_scan`.
#[doc(alias = "prefix_sum", alias = "accumulate")]
#[track_caller]
pub fn associative_scan<A: Tree<Var>, F: Function<(A, A), A, M>, M>(f: F, xs: A) -> A {
    prefixes(&one(f), caller(), &xs)
}

fn prefixes<A: Tree<Var>>(f: &dyn Fn((A, A)) -> A, at: Loc, xs: &A) -> A {
    let (structure, leaves) = flatten(xs);
    let tree = |leaves: &[Var]| rebuild::<A>(&structure, leaves.to_vec(), at);
    let Some(n) = common_extent("associative_scan", &leaves, at) else {
        let poison = leaves.iter().map(|v| Var::poison(v.ty(at), at));
        return tree(&poison.collect::<Vec<_>>());
    };
    let combine = |a: &[Var], b: &[Var]| {
        combined(Flat::of(&vectorize(f, &0i32, &0i32, at, (tree(a), tree(b)))), a, at)
    };
    tree(&scan(&combine, &leaves, n, at))
}

/// Returns the combined elements, whose types must be those of `before`.
fn combined(given: Flat, before: &[Var], at: Loc) -> Vec<Var> {
    let paths = given.form.paths("result");
    let mut y = given.leaves;
    for (i, (y, before)) in y.iter_mut().zip(before).enumerate() {
        let (found, expected) = (y.ty(at), before.ty(at));
        if found != expected {
            let same = found.dtype == expected.dtype;
            let problem = Problem::new(
                if same { Kind::Shape } else { Kind::Dtype },
                format!(
                    "`{}` of the function given to `associative_scan` is {}, and its arguments \
                     have {} there",
                    paths[i],
                    element(&found),
                    element(&expected)
                ),
                "return values of the types of the arguments: the function is applied to its own results",
            );
            trace::record(problem, &[y.handle], at);
            *y = Var::poison(expected, at);
        }
    }
    y
}

/// Returns the type of one element of a sequence.
fn element(ty: &ArrayType) -> ArrayType {
    ArrayType::new(ty.dtype, ty.shape.without(&[0]))
}

/// The associative function on batches of elements, as leaves.
type Combine<'a> = dyn Fn(&[Var], &[Var]) -> Vec<Var> + 'a;

/// ```text
/// x:        x0  x1  x2  x3  x4
/// pairs:      x01     x23
/// prefixes:   y1      y3            of the pairs
/// y:        x0  y1  y1∘x2  y3  y3∘x4
/// ```
fn scan(combine: &Combine<'_>, x: &[Var], n: usize, at: Loc) -> Vec<Var> {
    if n < 2 {
        return x.to_vec();
    }
    let each = |x: &[Var], part: &dyn Fn(Var) -> Var| -> Vec<Var> {
        on_behalf("associative_scan", at, || x.iter().map(|v| part(*v)).collect())
    };
    let both = |x: &[Var], y: &[Var], join: &dyn Fn(Var, Var) -> Var| -> Vec<Var> {
        on_behalf("associative_scan", at, || x.iter().zip(y).map(|(x, y)| join(*x, *y)).collect())
    };
    let every_other = |range: Range<usize>| each(x, &|v| v.slice_step(0, range.clone(), 2));
    let pairs = combine(&every_other(0..n / 2 * 2), &every_other(1..n));
    let odd = scan(combine, &pairs, n / 2, at);
    let mut even = each(x, &|v| v.slice_axis(0, 0..1));
    if n > 2 {
        // The prefixes that end at 2, 4, ..: each is the prefix that ends one element earlier, combined with that
        // element.
        let before = each(&odd, &|v| v.slice_axis(0, 0..(n - 1) / 2));
        let behind = combine(&before, &every_other(2..n));
        even = both(&even, &behind, &|x, y| concat(&[x, y], 0));
    }
    both(&even, &odd, &|even, odd| interleave(even, odd, n))
}

/// Returns the first n of `even[0], odd[0], even[1], odd[1], ..`.
fn interleave(even: Var, odd: Var, n: usize) -> Var {
    let half = n / 2;
    let mut shape = even.shape();
    shape[0] = 2 * half;
    let pairs = stack(&[even.slice_axis(0, 0..half), odd], 1).reshape(shape);
    match n % 2 {
        0 => pairs,
        _ => concat(&[pairs, even.slice_axis(0, half..half + 1)], 0),
    }
}
