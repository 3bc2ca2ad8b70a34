//! Linear systems that are solved by products with the matrix alone.

use crate::Var;
use crate::control::{fori_loop, while_loop};
use crate::ops::functions::{eye, select, stack, zeros};

use crate::random::unmarked;
use crate::tree::{Tree, flatten, ravel};
use crate::var::caller;
use tapeloom_ir::{Dtype, Literal};

/// When a solver stops.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Until {
    /// The residual `|A x - b|` has come down to this share of `|b|`, or to the rounding errors of
    /// the dtype.
    pub relative: f64,
    /// So many products with the matrix were taken; [`gmres`] takes one more to see where it stands.
    pub most: usize,
}

impl Default for Until {
    /// A share of 10⁻¹⁰, and a thousand products.
    fn default() -> Until {
        Until { relative: 1e-10, most: 1000 }
    }
}

impl Until {
    /// The share, and the products as a number of the program.
    fn bounds<B: Tree<Var>>(self, b: &B) -> (f64, i64) {
        let most = i64::try_from(self.most).unwrap_or(i64::MAX);
        (self.relative.max(8.0 * epsilon(b)), most)
    }
}

/// The rounding error of a tree's numbers.
pub(super) fn epsilon<B: Tree<Var>>(tree: &B) -> f64 {
    let at = caller();
    let (_, leaves) = flatten(tree);
    match leaves.first().map(|v| v.ty(at).dtype) {
        Some(Dtype::F32) => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    }
}

/// `x` with `A x = b` for a symmetric positive `A`, by conjugate gradients: `x` has the form, shapes and
/// dtype of `b`, and `matvec` keeps them.
///
/// Differentiated as it stands, its iterations are; inside
/// [`custom_linear_solve`](crate::custom_linear_solve) they are not.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(a, b): (Var, Var)| cg(|x: Var| a.dot(x), b, Until::default()));
/// let x = f.call(([[4.0, 1.0], [1.0, 3.0]], [1.0, 2.0]))?.to_vec::<f64>()?;
/// assert!((x[0] - 1.0 / 11.0).abs() < 1e-12 && (x[1] - 7.0 / 11.0).abs() < 1e-12);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if the leaves of `b` have different dtypes.
///
/// Source: Hestenes and Stiefel, 1952.
#[doc(alias = "conjugate_gradient")]
#[track_caller]
pub fn cg<B: Tree<Var>>(matvec: impl Fn(B) -> B, b: B, until: Until) -> B {
    let (bounds, (b, tree)) = (until.bounds(&b), ravel(&b));
    tree(conjugate_gradients(&|v| unmarked(|| ravel(&matvec(tree(v))).0), b, bounds))
}

#[track_caller]
fn conjugate_gradients(a: &dyn Fn(Var) -> Var, b: Var, (relative, most): (f64, i64)) -> Var {
    let at = caller();
    let (b, size) = scaled(b);
    let limit = b.dot(b) * (relative * relative);
    let (x, ..) = while_loop(
        |(_, _, _, rr, n): (Var, Var, Var, Var, Var)| rr.gt(limit) & n.lt(most),
        |(x, r, p, rr, n): (Var, Var, Var, Var, Var)| {
            let ap = a(p);
            let alpha = rr / p.dot(ap);
            let (x, r) = (x + alpha * p, r - alpha * ap);
            let next = r.dot(r);
            (x, r, r + (next / rr) * p, next, n + 1)
        },
        (b.zeros_like(), b, b, b.dot(b), Var::literal(Literal::i64(0), at)),
    );
    x * size
}

/// So many rounding errors of `A x` an `x` is off that nothing better is known of.
const SLACK: f64 = 100.0;

/// How many directions [`gmres`] keeps before it starts anew.
const RESTART: usize = 30;

/// `x` with `A x = b` for any invertible `A`: the `x` of the Krylov space with the smallest residual,
/// begun anew every 30 products. That need not come closer where more directions are needed at once (a
/// permutation of 31 elements or more, for one): the best `x` so far is given then. Of a singular `A`, whose Krylov
/// space is all tried and has no solution, `x` is nan, as that of other solvers: there is a solution of some singular
/// systems, and `x` is one where the space has one. `x` has the form, shapes and dtype of `b`, and `matvec` keeps them.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(a, b): (Var, Var)| gmres(|x: Var| a.dot(x), b, Until::default()));
/// let x = f.call(([[0.0, 1.0], [-1.0, 0.0]], [1.0, 2.0]))?.to_vec::<f64>()?;
/// assert!((x[0] + 2.0).abs() < 1e-12 && (x[1] - 1.0).abs() < 1e-12);
/// let none = f.call(([[1.0, 2.0], [2.0, 4.0]], [1.0, 0.0]))?.to_vec::<f64>()?;
/// assert!(none[0].is_nan() && none[1].is_nan());
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if the leaves of `b` have different dtypes.
///
/// Source: Saad and Schultz, 1986.
#[track_caller]
pub fn gmres<B: Tree<Var>>(matvec: impl Fn(B) -> B, b: B, until: Until) -> B {
    let (bounds, rounding, (b, tree)) = (until.bounds(&b), epsilon(&b), ravel(&b));
    tree(minimal_residual(&|v| unmarked(|| ravel(&matvec(tree(v))).0), b, bounds, rounding))
}

#[track_caller]
fn minimal_residual(
    a: &dyn Fn(Var) -> Var,
    b: Var,
    (relative, most): (f64, i64),
    rounding: f64,
) -> Var {
    let at = caller();
    let (b, size) = scaled(b);
    let ty = b.ty(at);
    let n = ty.shape.elements();
    let m = n.clamp(1, RESTART);
    let limit = norm(b) * relative;
    let none = || Var::literal(Literal::i64(0), at);
    let no = || Var::literal(Literal::bool(false), at);

    // A V = V' H for orthonormal directions V, and one more in V'. Rotations Q bring H to a triangle,
    // Q H = R, so |b - A x| = |Q[k, 0]| |r| for the best x of k directions. R is kept by columns. Beside them, whether
    // the space is all that there is, and the largest |A v|.
    type Iteration = (Var, Var, Var, Var, (Var, Var));
    let iteration = |(k, directions, rotations, columns, (_, scale)): Iteration| {
        let mut w = a(directions.index(k));
        let before = norm(w);
        // No more than the rounding errors of a sum over the directions.
        let little = before * ((m + 1) as f64 * rounding);
        let mut h = zeros([m + 1], ty.dtype);
        // Once is not enough where little is left.
        for _ in 0..2 {
            let along = directions.dot(w);
            (w, h) = (w - along.dot(directions), h + along);
        }
        let length = norm(w);
        // Nothing new: the space is all that there is.
        let new = !length.le(little);
        let directions = directions.at(k + 1).set(divided(w, length, new));
        let h = h.at(k + 1).set(select(new, length, 0.0));
        let column = rotations.dot(h);
        let (c, s) = (column.index(k), column.index(k + 1));
        let rho = norm(stack(&[c, s], 0));
        let some = rho.gt(little);
        let rho = select(some, rho, 0.0);
        let (c, s) = (select(some, divided(c, rho, some), 1.0), divided(s, rho, some));
        let (upper, lower) = (rotations.index(k), rotations.index(k + 1));
        let rotations = rotations.at(k).set(c * upper + s * lower);
        let rotations = rotations.at(k + 1).set(c * lower - s * upper);
        let columns = columns.at(k).set(column.at(k).set(rho));
        (k + 1, directions, rotations, columns, (!new, scale.maximum(before.stop_gradient())))
    };
    let cycle = |(x, r, count, _): (Var, Var, Var, Var)| {
        let size = norm(r);
        let start = (
            none(),
            zeros([m + 1, n], ty.dtype).at(0).set(r / size),
            eye(m + 1, ty.dtype),
            zeros([m, m + 1], ty.dtype),
            (no(), zeros([], ty.dtype)),
        );
        let more = |(k, _, rotations, _, (whole, _)): Iteration| {
            let left = rotations.index((k, 0)).abs() * size;
            k.lt(m as i64) & left.gt(limit) & (count + k).lt(most) & !whole
        };
        let (k, directions, rotations, columns, (whole, scale)) =
            while_loop(more, iteration, start);
        // R y = Q[.., 0] |r|, from the last row.
        let back = |(i, y): (Var, Var)| {
            let i = k - 1 - i;
            let rho = columns.index((i, i));
            let rest = rotations.index((i, 0)) * size - y.dot(columns.t().index(i));
            y.at(i).set(divided(rest, rho, !rho.eq(0.0)))
        };
        let y = fori_loop(k, back, zeros([m], ty.dtype));
        let x = x + y.dot(directions.slice_axis(0, ..m));
        let r = b - a(x);
        // As many directions as there are numbers are all, too.
        let whole = whole | (k.ge(n as i64));
        let off = norm(r).gt(limit) & norm(r).gt(scale * norm(x) * (SLACK * rounding));
        (x, r, count + k + 1, whole & off)
    };
    let (x, _, _, singular) = while_loop(
        |(_, r, count, singular): (Var, Var, Var, Var)| {
            norm(r).gt(limit) & count.lt(most) & !singular
        },
        cycle,
        (b.zeros_like(), b, none(), no()),
    );
    select(singular, f64::NAN, x) * size
}

/// A vector whose largest element is of size 1, and that size. Of what is not finite no iteration is made, and
/// the solution is not a number.
fn scaled(b: Var) -> (Var, Var) {
    let size = largest(b);
    (b / select(size.eq(0.0), 1.0, size), size)
}

/// The length of a vector whose squares need not be numbers.
pub(super) fn norm(v: Var) -> Var {
    let (unit, size) = scaled(v);
    size * unit.dot(unit).sqrt()
}

/// The size of the largest element, as a constant of derivatives: whoever divides by it multiplies again.
fn largest(v: Var) -> Var {
    let none = v.shape().elements() == 0;
    let size = if none { v.sum() } else { v.abs().max() };
    size.stop_gradient()
}

/// `x / y` where there is something to divide by, and 0 elsewhere.
fn divided(x: Var, y: Var, some: Var) -> Var {
    select(some, x / select(some, y, 1.0), 0.0)
}
