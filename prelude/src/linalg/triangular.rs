//! Triangular systems.

use super::System;
use crate::Var;
use crate::ops::{emit, wrong};
use crate::var::{IntoVar, caller};
use tapeloom_ir::prim::TriangularSolve;

/// Which triangle of a matrix a system is of, and how. Only that triangle is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Triangle {
    lower: bool,
    transposed: bool,
    unit: bool,
}

impl Triangle {
    /// The elements on and below the diagonal.
    pub const LOWER: Triangle = Triangle { lower: true, transposed: false, unit: false };
    /// The elements on and above the diagonal.
    pub const UPPER: Triangle = Triangle { lower: false, transposed: false, unit: false };

    /// The system of the transposed triangle: `Tᵀ x = b`.
    #[must_use]
    pub const fn transposed(self) -> Triangle {
        Triangle { transposed: !self.transposed, ..self }
    }

    /// The triangle with ones on its diagonal, whatever stands there.
    #[must_use]
    pub const fn unit_diagonal(self) -> Triangle {
        Triangle { unit: true, ..self }
    }
}

/// The solution `x` of `T x = b`, where `T` is a triangle of `t`: `t` of shape `[.., n, n]`, `b` of shape `[n]` or
/// `[.., n, columns]`, both of one float dtype; axes in front broadcast. The result has the shape of `b`.
///
/// Linear in `b`; the derivative in `t` is in its triangle only (Giles 2008, 2.3.1). A zero on the diagonal gives
/// what division by zero gives.
///
/// ```
/// use tapeloom::prelude::*;
/// let t = [[2.0, 0.0], [1.0, 4.0]];
/// let x = run(|(t, b): (Var, Var)| linalg::solve_triangular(t, b, Triangle::LOWER), (t, [2.0, 9.0]))?;
/// assert_eq!(x.to_vec::<f64>()?, [1.0, 2.0]);
/// let back = |(t, b): (Var, Var)| linalg::solve_triangular(t, b, Triangle::LOWER.transposed());
/// assert_eq!(run(back, (t, [4.0, 8.0]))?.to_vec::<f64>()?, [1.0, 2.0]);
/// check_grads(back, (t, [4.0, 8.0]), 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if `t` is not square or `b` does not fit, `dtype` if they are not floats of one type.
#[track_caller]
pub fn solve_triangular(t: Var, b: impl IntoVar, triangle: Triangle) -> Var {
    let at = caller();
    let b = b.beside(t, at);
    match System::of("solve_triangular", t, b, at) {
        Ok(system) => {
            let Triangle { lower, transposed, unit } = triangle;
            let op = TriangularSolve { lower, transposed, unit_diagonal: unit };
            system.solved(emit(op, &[system.matrix, system.right], at), at)
        }
        Err(problem) => wrong(problem, &[t, b], b.ty(at), at),
    }
}
