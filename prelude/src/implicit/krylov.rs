//! Linear systems that are solved by products with the matrix alone.
//!
//! [`cg`], [`gmres`] and [`bicgstab`] begin at 0 with the system as it is; [`cg_with`], [`gmres_with`] and
//! [`bicgstab_with`] take a [`Krylov`], which says where to begin and how to precondition.

use crate::Var;
use crate::control::{fori_loop, while_loop};
use crate::ops::functions::{eye, select, stack, zeros};

use crate::prng::unmarked;
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

/// Where a solver begins, what it is preconditioned by, and when it stops.
///
/// A preconditioner is a linear map near the inverse of `A`: a division by the diagonal, a solve with a
/// part of the matrix. That of [`cg_with`] is symmetric and positive. Residuals are those of `A x = b`
/// itself.
///
/// ```
/// use tapeloom::prelude::*;
/// let solve = |(d, b): (Var, Var)| {
///     // A diagonal of all sizes, and a little beside it.
///     let a = |x: Var| d * x + 0.1 * x.roll(1, 0) + 0.1 * x.roll(-1, 0);
///     cg_with(a, b, Krylov::new().precondition(|r: Var| r / d).start(b / d))
/// };
/// let (d, b) = ([1.0, 1e3, 1e6, 1e9], [1.0, 1.0, 1.0, 1.0]);
/// let x = run(solve, (d, b))?.to_vec::<f64>()?;
/// let rest: f64 = (0..4).map(|i| (d[i] * x[i] + 0.1 * (x[(i + 1) % 4] + x[(i + 3) % 4]) - 1.0).abs()).sum();
/// assert!(rest < 1e-9);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[must_use = "options do nothing until they are given to a solver"]
pub struct Krylov<'a, B> {
    until: Until,
    start: Option<B>,
    precondition: Option<Box<dyn Fn(B) -> B + 'a>>,
}

impl<B> std::fmt::Debug for Krylov<'_, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (start, precondition) = (self.start.is_some(), self.precondition.is_some());
        f.debug_struct("Krylov")
            .field("until", &self.until)
            .field("start", &start)
            .field("precondition", &precondition)
            .finish()
    }
}

impl<B> Default for Krylov<'_, B> {
    fn default() -> Self {
        Krylov { until: Until::default(), start: None, precondition: None }
    }
}

impl<'a, B> Krylov<'a, B> {
    /// From 0, without a preconditioner, until [`Until::default`].
    pub fn new() -> Self {
        Krylov::default()
    }

    /// Begins at `x`, of the form of b.
    pub fn start(self, x: B) -> Self {
        Krylov { start: Some(x), ..self }
    }

    /// With a linear map near the inverse of `A`, which keeps the form of b.
    #[doc(alias = "preconditioner")]
    pub fn precondition(self, map: impl Fn(B) -> B + 'a) -> Self {
        Krylov { precondition: Some(Box::new(map)), ..self }
    }

    /// Stops there.
    pub fn until(self, until: Until) -> Self {
        Krylov { until, ..self }
    }
}

/// A linear map of vectors.
type Map<'a> = dyn Fn(Var) -> Var + 'a;

/// A system of one vector: `A`, a map near its inverse, b, where to begin (0 if nowhere).
struct System<'a> {
    a: &'a Map<'a>,
    near: Option<&'a Map<'a>>,
    b: Var,
    start: Option<Var>,
    /// The share of the residual, and the products at most.
    bounds: (f64, i64),
    rounding: f64,
}

impl System<'_> {
    fn near(&self, r: Var) -> Var {
        self.near.map_or(r, |near| near(r))
    }

    /// b and the start, scaled so that the largest element of b is 1, and that scale; and what is left of
    /// b at the start.
    fn scaled(&self) -> (Var, Var, Var, Var) {
        let (b, size) = scaled(self.b);
        match self.start {
            None => (b, b.zeros_like(), b, size),
            Some(x) => {
                let x = x / select(size.eq(0.0), 1.0, size);
                (b, x, b - (self.a)(x), size)
            }
        }
    }
}

/// Solves for trees what a solver solves for vectors.
fn solved<B: Tree<Var>>(
    matvec: &dyn Fn(B) -> B,
    b: &B,
    how: Krylov<'_, B>,
    solver: fn(&System<'_>) -> Var,
) -> B {
    let Krylov { until, start, precondition } = how;
    let (bounds, rounding, (vector, tree)) = (until.bounds(b), epsilon(b), ravel(b));
    let of_vectors = |map: &dyn Fn(B) -> B, v: Var| unmarked(|| ravel(&map(tree(v))).0);
    let near = precondition.as_ref().map(|map| |r: Var| of_vectors(map, r));
    let near: Option<&Map<'_>> = near.as_ref().map(|near| near as &Map<'_>);
    let start = start.map(|x| ravel(&x).0);
    let a = |v: Var| of_vectors(matvec, v);
    tree(solver(&System { a: &a, near, b: vector, start, bounds, rounding }))
}

/// The rounding error of a tree's numbers.
pub(super) fn epsilon<B: Tree<Var>>(tree: &B) -> f64 {
    let at = caller();
    let (_, leaves) = flatten(tree);
    crate::dtype::epsilon(leaves.first().map_or(Dtype::F64, |v| v.ty(at).dtype))
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
    solved(&matvec, &b, Krylov::new().until(until), conjugate_gradients)
}

/// As [`cg`], from a start and with a preconditioner.
///
/// Errors: `dtype` if the leaves of `b` have different dtypes; `shape` or `dtype` if the start is of another
/// form than `b`.
#[track_caller]
pub fn cg_with<B: Tree<Var>>(matvec: impl Fn(B) -> B, b: B, how: Krylov<'_, B>) -> B {
    solved(&matvec, &b, how, conjugate_gradients)
}

#[track_caller]
fn conjugate_gradients(system: &System<'_>) -> Var {
    let at = caller();
    let (relative, most) = system.bounds;
    let (b, x, r, size) = system.scaled();
    let limit = b.dot(b) * (relative * relative);
    let z = system.near(r);
    let (x, ..) = while_loop(
        |(_, _, _, (rr, _), n): (Var, Var, Var, (Var, Var), Var)| rr.gt(limit) & n.lt(most),
        |(x, r, p, (_, rz), n): (Var, Var, Var, (Var, Var), Var)| {
            let ap = (system.a)(p);
            let alpha = rz / p.dot(ap);
            let (x, r) = (x + alpha * p, r - alpha * ap);
            let z = system.near(r);
            let next = r.dot(z);
            (x, r, z + (next / rz) * p, (r.dot(r), next), n + 1)
        },
        (x, r, z, (r.dot(r), r.dot(z)), Var::literal(Literal::i64(0), at)),
    );
    x * size
}

/// `x` with `A x = b` for any invertible `A`, by stabilized biconjugate gradients: two products an
/// iteration and a few vectors, whatever the number of iterations, where [`gmres`] keeps a vector for each.
/// Where it breaks down before the residual is small, `x` is nan. `x` has the form, shapes and dtype of
/// `b`, and `matvec` keeps them.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(a, b): (Var, Var)| bicgstab(|x: Var| a.dot(x), b, Until::default()));
/// let x = f.call(([[2.0, 1.0], [-1.0, 3.0]], [3.0, 2.0]))?.to_vec::<f64>()?;
/// assert!((x[0] - 1.0).abs() < 1e-12 && (x[1] - 1.0).abs() < 1e-12);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if the leaves of `b` have different dtypes.
///
/// Source: van der Vorst, 1992.
#[track_caller]
pub fn bicgstab<B: Tree<Var>>(matvec: impl Fn(B) -> B, b: B, until: Until) -> B {
    solved(&matvec, &b, Krylov::new().until(until), stabilized)
}

/// As [`bicgstab`], from a start and with a preconditioner.
///
/// Errors: as [`cg_with`].
#[track_caller]
pub fn bicgstab_with<B: Tree<Var>>(matvec: impl Fn(B) -> B, b: B, how: Krylov<'_, B>) -> B {
    solved(&matvec, &b, how, stabilized)
}

#[track_caller]
fn stabilized(system: &System<'_>) -> Var {
    let at = caller();
    let (relative, most) = system.bounds;
    let (b, x, r, size) = system.scaled();
    let limit = norm(b) * relative;
    let shadow = r;
    let one = || limit.ones_like();
    // x, r, p, v; rho, alpha, omega; products, and whether it broke down.
    type Iteration = ((Var, Var, Var, Var), (Var, Var, Var), (Var, Var));
    let going = |((_, r, ..), _, (n, broken)): Iteration| norm(r).gt(limit) & n.lt(most) & !broken;
    let step = |((x, r, p, v), (rho, alpha, omega), (n, _)): Iteration| {
        let next = shadow.dot(r);
        let beta = (next / rho) * (alpha / omega);
        let p = r + beta * (p - omega * v);
        let y = system.near(p);
        let v = (system.a)(y);
        let along = shadow.dot(v);
        let alpha = next / along;
        let s = r - alpha * v;
        let z = system.near(s);
        let t = (system.a)(z);
        let tt = t.dot(t);
        let omega = divided(t.dot(s), tt, tt.gt(0.0));
        let x = x + alpha * y + omega * z;
        let r = s - omega * t;
        // A direction that the shadow does not see, or a step of no length that leaves something.
        let broken = next.eq(0.0) | along.eq(0.0) | (omega.eq(0.0) & norm(s).gt(limit));
        ((x, r, p, v), (next, alpha, omega), (n + 2, broken))
    };
    let zero = b.zeros_like();
    let count = Var::literal(Literal::i64(0), at);
    let start = ((x, r, zero, zero), (one(), one(), one()), (count, count.ne(0)));
    let ((x, r, ..), _, (_, broken)) = while_loop(going, step, start);
    select(broken & !norm(r).le(limit), f64::NAN, x) * size
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
    solved(&matvec, &b, Krylov::new().until(until), minimal_residual)
}

/// As [`gmres`], from a start and with a preconditioner.
///
/// Errors: as [`cg_with`].
#[track_caller]
pub fn gmres_with<B: Tree<Var>>(matvec: impl Fn(B) -> B, b: B, how: Krylov<'_, B>) -> B {
    solved(&matvec, &b, how, minimal_residual)
}

#[track_caller]
fn minimal_residual(system: &System<'_>) -> Var {
    let at = caller();
    let ((relative, most), rounding) = (system.bounds, system.rounding);
    let (b, begun, rest, size) = system.scaled();
    // The unknown is u with A M u = b - A x', for a start x' and a map M near the inverse: x = x' + M u.
    let a = |u: Var| (system.a)(system.near(u));
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
        let r = rest - a(x);
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
        (b.zeros_like(), rest, none(), no()),
    );
    let x = match (system.start, system.near) {
        (None, None) => x,
        _ => begun + system.near(x),
    };
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
