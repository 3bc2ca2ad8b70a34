//! Linear systems that are solved by products with the matrix alone.

use super::copy;
use crate::Var;
use crate::control::{fori_loop, while_loop};
use crate::ops::functions::{select, zeros};
use crate::tree::{Tree, flatten, ravel};
use crate::var::caller;
use tapeloom_ir::{Dtype, Literal};

/// When a solver stops.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Until {
    /// The residual `|A x - b|` has come down to this share of `|b|`, or to the rounding errors of
    /// the dtype.
    pub relative: f64,
    /// So many products with the matrix were taken.
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

/// `x` with `A x = b` for a symmetric positive `A`, by conjugate gradients.
///
/// Differentiated as it stands, its rounds are; inside
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
    let at = caller();
    let (relative, most) = until.bounds(&b);
    let (b, tree) = ravel(&b);
    let a = |v: Var| ravel(&matvec(tree(v))).0;
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
    tree(x)
}

/// How many directions [`gmres`] keeps before it starts anew.
const RESTART: usize = 30;

/// `x` with `A x = b` for any invertible `A`: the `x` of the Krylov space with the smallest residual,
/// begun anew every 30 products.
///
/// The directions are kept with their products, both made orthogonal as the products are (the form
/// known as ORTHODIR), so that nothing has to be solved in between.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(a, b): (Var, Var)| gmres(|x: Var| a.dot(x), b, Until::default()));
/// let x = f.call(([[0.0, 1.0], [-1.0, 0.0]], [1.0, 2.0]))?.to_vec::<f64>()?;
/// assert!((x[0] + 2.0).abs() < 1e-12 && (x[1] - 1.0).abs() < 1e-12);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if the leaves of `b` have different dtypes.
///
/// Source: Saad and Schultz, 1986; Young and Jea, 1980.
#[track_caller]
pub fn gmres<B: Tree<Var>>(matvec: impl Fn(B) -> B, b: B, until: Until) -> B {
    let at = caller();
    let ((relative, most), like) = (until.bounds(&b), copy(&b, at));
    let rounding = epsilon(&like);
    let (b, tree) = ravel(&b);
    let a = |v: Var| ravel(&matvec(tree(v))).0;
    let ty = b.ty(at);
    let n = ty.shape.elements();
    let m = n.clamp(1, RESTART);
    let limit = b.dot(b).sqrt() * relative;
    let nothing = || zeros([m, n], ty.dtype);
    let round = |(k, (x, r, p, ps, qs)): (Var, (Var, Var, Var, Var, Var))| {
        let (mut p, mut q) = (p, a(p));
        let before = q.dot(q).sqrt();
        // Once is not enough where little is left.
        for _ in 0..2 {
            let along = qs.dot(q);
            (q, p) = (q - along.dot(qs), p - along.dot(ps));
        }
        let length = q.dot(q).sqrt();
        // Nothing new: the space is all that there is.
        let new = length.gt(before * (4.0 * rounding));
        let scale = select(new, 1.0 / select(new, length, 1.0), 0.0);
        let (p, q) = (p * scale, q * scale);
        let step = q.dot(r);
        (x + step * p, r - step * q, q, ps.at(k).set(p), qs.at(k).set(q))
    };
    let cycle = |(x, r, count): (Var, Var, Var)| {
        let size = r.dot(r).sqrt();
        let (x, ..) = fori_loop(m, round, (x, r, r / size, nothing(), nothing()));
        (x, b - a(x), count + i64::try_from(m).unwrap_or(i64::MAX))
    };
    let (x, ..) = while_loop(
        |(_, r, count): (Var, Var, Var)| r.dot(r).sqrt().gt(limit) & count.lt(most),
        cycle,
        (b.zeros_like(), b, Var::literal(Literal::i64(0), at)),
    );
    tree(x)
}
