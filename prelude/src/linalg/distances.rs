//! Distances between all pairs of vectors.

use crate::Var;
use crate::ops::{broadcast_shapes, select, wrong};
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::{ArrayType, Kind, Problem};

/// Returns the distances `[.., n, m]` between the rows of `x` `[.., n, d]` and the rows of `y` `[.., m, d]`, in the
/// norm with p = 1, 2 or inf. Leading axes are broadcast. This is the `cdist` of PyTorch and SciPy.
///
/// Distances are computed from differences, so they do not cancel for close vectors. For p = 2, the derivative at equal
/// vectors is 0, and the second derivative is nan, as for [`hypot`](Var::hypot). For p = inf, if several coordinates
/// have the largest difference, they share the derivative equally.
///
/// Errors: `shape` if the vectors differ in length or the leading axes do not broadcast; `dtype` if both are not floats
/// of one dtype; `arguments` for another p.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |(x, y): (Var, Var)| linalg::cdist(x, y, 2.0);
/// let d = run(f, ([[0.0, 0.0], [3.0, 0.0]], [[3.0, 4.0], [3.0, 0.0]]))?;
/// assert_eq!(d.to_vec::<f64>()?, [5.0, 3.0, 4.0, 0.0]);
/// let slope = run(grad(|x: Var| f((x, x)).sum()), [[1.0, 2.0]])?;
/// assert_eq!(slope.to_vec::<f64>()?, [0.0, 0.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "pairwise_distance", alias = "pdist", alias = "distance_matrix")]
#[track_caller]
pub fn cdist(x: Var, y: impl IntoVar, p: f64) -> Var {
    let at = caller();
    let y = y.beside(x, at);
    let (tx, ty) = (x.ty(at), y.ty(at));
    let message = format!("`cdist` of {tx} and {ty} with p = {p}");
    let refuse = |kind, help: &str| {
        let guess = ArrayType::new(tx.dtype, &tx.shape[..]);
        wrong(Problem::new(kind, message.clone(), help), &[x, y], guess, at)
    };
    if !tx.dtype.is_float() || tx.dtype != ty.dtype {
        return refuse(Kind::Dtype, "both are floats of one dtype");
    }
    let ([lead @ .., _, d], [others @ .., _, e]) = (&tx.shape[..], &ty.shape[..]) else {
        return refuse(Kind::Shape, "give matrices, whose rows are vectors");
    };
    if d != e || broadcast_shapes(lead, others).is_none() {
        return refuse(Kind::Shape, "the vectors have one length, and the axes in front broadcast");
    }
    if ![1.0, 2.0, f64::INFINITY].contains(&p) {
        return refuse(Kind::Arguments, "p is 1, 2 or inf");
    }
    let empty = *d == 0;
    on_behalf("cdist", at, || {
        let off = x.expand_dims(-2) - y.expand_dims(-3);
        if p == 1.0 || empty {
            return off.abs().sum_axis(-1);
        }
        if p == f64::INFINITY {
            return off.abs().max_axis(-1);
        }
        let square = off.square().sum_axis(-1);
        // √ has no derivative at 0. For equal vectors, the distance is therefore computed as a sum of `hypot(x, 0)`.
        let apart = square.ne(0.0);
        let zeros = select(apart.expand_dims(-1), 1.0, off).hypot(0.0).sum_axis(-1);
        select(apart, select(apart, square, 1.0).sqrt(), zeros)
    })
}
