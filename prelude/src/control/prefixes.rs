//! `associative_scan`: all prefixes of a sequence under an associative function, in blocks.

use super::loops::{common_extent, over};
use crate::Var;
use crate::function::{Function, one};
use crate::ops::concat;
use crate::staging::rebuild;
use crate::transform::vectorize;
use crate::tree::{Flat, Tree, flatten};
use crate::var::{caller, on_behalf};
use std::ops::Range;
use tapeloom_ir::prim::Direction;
use tapeloom_ir::trace;
use tapeloom_ir::{ArrayType, Kind, Loc, Problem};

/// Returns all prefixes of `xs` under an associative function of two elements: `(x, x) -> x`.
///
/// Axis 0 of every leaf is the sequence: `y[0] = x[0]`, `y[i] = f((y[i-1], x[i]))`. Because `f` is associative,
/// the sequence is divided into blocks of about `sqrt(n)` elements; each block is scanned alone, and then all its
/// elements are combined with the prefix before it. Sequences of up to 64 elements have no blocks. For n elements, that
/// is at most 2 n uses of `f`, and a prefix has the rounding errors of about `2 sqrt(n)` uses in a row. The program
/// contains `f` at most three times. If `f` is not associative (up to rounding), the result is meaningless.
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
/// Source: Blelloch, "Prefix Sums and Their Applications" (1990), for the blocks; JAX's `associative_scan`.
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

/// Returns the leaves of a result of the associative function. If the type of a leaf differs from that in `before`, the
/// function's argument, reports an error and returns a placeholder for this leaf.
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

/// The associative function, applied to two batches of elements. The batches are lists of leaves, with the elements
/// along axis 0.
type Combine<'a> = dyn Fn(&[Var], &[Var]) -> Vec<Var> + 'a;

/// The number of elements of a block is a multiple of this number, so that operations on a block fill vector registers
/// of every width.
const LANES: usize = 16;

/// Sequences of at most this many elements are not divided into blocks.
const SHORT: usize = 64;

/// Computes the prefixes `y` of the sequence `x` in blocks of about `sqrt(n)` elements, after a head of at most one
/// block's length.
///
/// ```text
/// x:       x0  x1    | x2     x3      x4       | x5 ..        a head and blocks
/// alone:   x0  x01   | x2     x23     x234     | x5 ..        one element after the other
/// y:       x0  x01   | y1∘x2  y1∘x23  y1∘x234  | y4∘x5 ..     all elements of a block at once
/// ```
///
/// A single loop over all elements would call the function `n` times instead of `2 n` times, but a sum of `n` numbers
/// would have the rounding errors of `n` successive additions; in blocks it has those of `2 sqrt(n)`. JAX combines
/// pairs of neighbours: that has the rounding errors of `2 log2(n)` additions, but reads and writes with strides, and
/// sums took 14 to 30 times as long. Only functions that cost far more than memory accesses, such as `logaddexp`, are
/// slower in blocks (up to 1.5 times), because half of their calls depend on the previous call.
fn scan(combine: &Combine<'_>, x: &[Var], n: usize, at: Loc) -> Vec<Var> {
    if n <= SHORT {
        return one_by_one(combine, x, n, at);
    }
    let m = n.isqrt().next_multiple_of(LANES);
    let blocks = (n - 1) / m;
    let head = n - blocks * m;
    let first = one_by_one(combine, &each(x, at, &|v| v.slice_axis(0, 0..head)), head, at);
    let last = |y: &[Var], n: usize| each(y, at, &|v| v.slice_axis(0, n - 1..n));
    let step = |(before, x): (Vec<Var>, Vec<Var>)| {
        let alone = one_by_one(combine, &x, m, at);
        let y = combine(&each(&before, at, &|v| repeated(v, m)), &alone);
        (last(&y, m), y)
    };
    let rest = each(x, at, &|v| leading(v.slice_axis(0, head..n), 1, &[blocks, m]));
    let (_, later): (Vec<Var>, Vec<Var>) =
        over("associative_scan", at, Direction::Up, &step, &last(&first, head), &rest);
    joined(&first, &each(&later, at, &|v| leading(v, 2, &[n - head])), at)
}

/// Computes the prefixes of `n` elements by a loop over the elements.
fn one_by_one(combine: &Combine<'_>, x: &[Var], n: usize, at: Loc) -> Vec<Var> {
    if n < 2 {
        return x.to_vec();
    }
    // The function is always applied to batches, here of one element, so that the same closures are accepted for every
    // length of a sequence.
    let step = |(y, x): (Vec<Var>, Vec<Var>)| {
        let y = combine(&y, &each(&x, at, &|v| v.expand_dims(0)));
        let element = each(&y, at, &|v| v.squeeze(0));
        (y, element)
    };
    let part = |range: Range<usize>| each(x, at, &|v| v.slice_axis(0, range.clone()));
    let first = part(0..1);
    let (_, later): (Vec<Var>, Vec<Var>) =
        over("associative_scan", at, Direction::Up, &step, &first, &part(1..n));
    joined(&first, &later, at)
}

/// Applies an operation of the library to each leaf.
fn each(x: &[Var], at: Loc, operation: &dyn Fn(Var) -> Var) -> Vec<Var> {
    on_behalf("associative_scan", at, || x.iter().map(|v| operation(*v)).collect())
}

/// Joins two sequences, leaf by leaf.
fn joined(x: &[Var], y: &[Var], at: Loc) -> Vec<Var> {
    let join = |(x, y): (&Var, &Var)| concat(&[*x, *y], 0);
    on_behalf("associative_scan", at, || x.iter().zip(y).map(join).collect())
}

/// Returns a sequence of `m` copies of the only element of `v`.
fn repeated(v: Var, m: usize) -> Var {
    let mut shape = v.shape();
    shape[0] = m;
    v.broadcast_to(shape)
}

/// Reshapes an array: its first `axes` axes are replaced by axes of the given extents.
fn leading(v: Var, axes: usize, extents: &[usize]) -> Var {
    let shape: Vec<usize> = extents.iter().chain(&v.shape()[axes..]).copied().collect();
    v.reshape(shape)
}
