//! Triangular systems.

use super::System;
use crate::Var;
use crate::ops::{emit, wrong};
use crate::var::{IntoVar, caller};
use tapeloom_ir::prim::TriangularSolve;

/// The triangle of a matrix that defines a linear system, with two options: transposition, and a diagonal of ones. The
/// other triangle of the matrix is not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Triangle {
    lower: bool,
    transposed: bool,
    unit: bool,
}

impl Triangle {
    /// The triangle on and below the diagonal.
    pub const LOWER: Triangle = Triangle { lower: true, transposed: false, unit: false };
    /// The triangle on and above the diagonal.
    pub const UPPER: Triangle = Triangle { lower: false, transposed: false, unit: false };

    /// Selects the system `Tᵀ x = b` with the transposed triangle.
    #[must_use]
    pub const fn transposed(self) -> Triangle {
        Triangle { transposed: !self.transposed, ..self }
    }

    /// Selects the triangle with ones on its diagonal. The elements on the diagonal of the matrix are not read.
    #[must_use]
    pub const fn unit_diagonal(self) -> Triangle {
        Triangle { unit: true, ..self }
    }
}

/// Returns the solution `x` of `T x = b`, where `T` is a triangle of `t`: `t` of shape `[.., n, n]`, `b` of shape
/// `[n]` or `[.., n, columns]`, both of one float dtype; leading axes are broadcast. The result has the shape of
/// `b`.
///
/// The solution is linear in `b`. The derivative with respect to `t` is zero outside its triangle (Giles 2008,
/// 2.3.1). A zero on the diagonal causes a division by zero.
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
/// Errors: `shape` if `t` is not square or `b` does not fit, `dtype` if they are not floats of one dtype.
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
