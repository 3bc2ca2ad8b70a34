//! Tridiagonal systems.

use super::matrices;
use crate::Var;
use crate::ops::{broadcast_shapes, broadcast_var, emit, reshape, wrong};
use crate::var::{IntoVar, caller};
use tapeloom_ir::prim::TridiagonalSolve;
use tapeloom_ir::{ArrayType, Kind, Loc, Problem, Shape};

/// Returns the solution `x` of `lower[i] x[i-1] + diagonal[i] x[i] + upper[i] x[i+1] = b[i]`: the diagonals of
/// shape `[.., n]`, `b` of shape `[n]` or `[.., n, columns]`, all of one float dtype; leading axes are broadcast.
/// `lower[0]` and `upper[n-1]` are not read. The result has the shape of `b`.
///
/// The cost is of order `n`; rows are exchanged as in LAPACK's `gtsv`. Derivatives are tridiagonal systems again. A
/// singular matrix causes a division by zero. If an element is nan or infinite, the solution is nan; other members
/// of a batch are not affected.
///
/// ```
/// use tapeloom::prelude::*;
/// // -u'' = 1 at three points between zeros, at distance 1.
/// let solve = |(l, d, u, b): (Var, Var, Var, Var)| linalg::tridiagonal_solve(l, d, u, b);
/// let system = ([-1.0; 3], [2.0; 3], [-1.0; 3], [1.0; 3]);
/// let u = run(solve, system)?.to_vec::<f64>()?;
/// assert!(u.iter().zip([1.5, 2.0, 1.5]).all(|(x, y)| (x - y).abs() < 1e-14));
/// check_grads(solve, system, 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if the diagonals differ or `b` does not fit, `dtype` if they are not floats of one dtype.
#[track_caller]
pub fn tridiagonal_solve(lower: Var, diagonal: Var, upper: Var, b: impl IntoVar) -> Var {
    let at = caller();
    let b = b.beside(diagonal, at);
    match system([lower, diagonal, upper], b, at) {
        Ok((operands, solution)) => reshape(emit(TridiagonalSolve {}, &operands, at), solution, at),
        Err(problem) => wrong(problem, &[lower, diagonal, upper, b], b.ty(at), at),
    }
}

/// Returns the three diagonals and the right-hand sides, broadcast to the same leading axes, and the shape of the
/// solution. A right-hand side of one axis becomes a matrix of one column.
fn system(diagonals: [Var; 3], b: Var, at: Loc) -> Result<([Var; 4], Shape), Problem> {
    let types = diagonals.map(|x| x.ty(at));
    let tb = b.ty(at);
    let said = || {
        let [lower, diagonal, upper]: &[ArrayType; 3] = &types;
        format!("`tridiagonal_solve` of {lower}, {diagonal}, {upper} and {tb}")
    };
    let misshapen = |help: &str| Problem::new(Kind::Shape, said(), help.to_owned());
    if !tb.dtype.is_float() || types.iter().any(|ty| ty.dtype != tb.dtype) {
        let help = "diagonals and right sides are floats of one dtype";
        return Err(Problem::new(Kind::Dtype, said(), help));
    }
    let lasts = [0, 1, 2].map(|i| types[i].shape.last().copied());
    let [Some(n), Some(above), Some(below)] = lasts else {
        return Err(misshapen("diagonals are [.., n]"));
    };
    let columns = match tb.shape[..] {
        _ if n != above || n != below => {
            return Err(misshapen("the three diagonals have one extent"));
        }
        [rows] if rows == n => reshape(b, [n, 1].into(), at),
        [.., rows, _] if rows == n => b,
        _ => return Err(misshapen(&format!("right sides are [{n}] or [.., {n}, columns]"))),
    };
    let [_, m] = matrices("tridiagonal_solve", columns, at)?;
    let right = columns.ty(at).shape;
    let mut lead = Shape::from(&right[..right.len() - 2]);
    for ty in &types {
        let own = &ty.shape[..ty.shape.len() - 1];
        let both = broadcast_shapes(&lead, own);
        lead = both.ok_or_else(|| misshapen("the axes in front do not broadcast"))?;
    }
    let all = |last: &[usize]| Shape::from(&[&lead[..], last].concat()[..]);
    let wide = |x: Var, last: &[usize]| broadcast_var(x, &all(last), at);
    let [lower, diagonal, upper] = diagonals.map(|x| wide(x, &[n]));
    let solution = if tb.shape.len() == 1 { all(&[n]) } else { all(&[n, m]) };
    Ok(([lower, diagonal, upper, wide(columns, &[n, m])], solution))
}
