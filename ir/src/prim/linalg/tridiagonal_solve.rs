//! `tridiagonal_solve lower, diagonal, upper, b`: the solution of a tridiagonal system.
//!
//! ```text
//! (A x)[i] = lower[i] x[i-1] + diagonal[i] x[i] + upper[i] x[i+1] = b[i]
//! dx = A⁻¹ (db - dA x)
//! ct_b = A⁻ᵀ ct        Aᵀ: lower'[i] = upper[i-1], upper'[i] = lower[i+1], the same diagonal
//! ```
//!
//! `lower[0]` and `upper[n-1]` lie outside the matrix. They are not read and influence no derivative. Rows are
//! exchanged for stability, so a zero on the diagonal is allowed; a singular matrix has the effect of a division by
//! zero.
//!
//! The solution is linear in `b`. Source of the rule: Giles (2008), 2.3.1, for a solve with any matrix. Model: `gtsv`
//! of LAPACK.

use super::matrix::{by_columns, by_row};
use super::routine_call::RoutineCall;
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::ArrayType;
use crate::prim::{
    Arg, ArrayPrimitive, Cotangents, Doc, Effects, Family, Linearity, Lowering, Operand, Pad,
    Rewrite, Sample, Scalar, Tangent, elementwise,
};
use crate::tensor::Tensor;
use tapeloom_routines::Routine;

/// The solution of a tridiagonal system. Its text is `tridiagonal_solve`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct TridiagonalSolve {}

notation!(TridiagonalSolve = "tridiagonal_solve" {});

impl TridiagonalSolve {
    /// Returns the call of the library routine for right-hand sides of the type `b`.
    fn call(b: &ArrayType) -> RoutineCall {
        let rank = b.shape.len();
        let routine =
            Routine::TridiagonalSolve { n: b.shape[rank - 2], columns: b.shape[rank - 1] };
        RoutineCall::new(routine, b.dtype, &b.shape[..rank - 2])
    }
}

/// Emits the elements of `x` shifted along an axis by `by` positions, with zeros at the positions that become
/// free.
fn shifted(b: &Builder<'_>, x: Atom, axis: usize, by: i64) -> Atom {
    let shape = b.shape_of(x);
    if shape[axis] == 0 {
        return x;
    }
    let [mut low, mut high] = [vec![0; shape.len()], vec![0; shape.len()]];
    (low[axis], high[axis]) = (by, -by);
    let zero = Literal::zero(b.dtype_of(x)).into();
    b.emit1(Pad { low, high, interior: vec![0; shape.len()] }, &[x, zero])
}

impl ArrayPrimitive for TridiagonalSolve {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Linear,
            name: "tridiagonal_solve".into(),
            math: "x with lower[i] x[i-1] + diagonal[i] x[i] + upper[i] x[i+1] = b[i]".into(),
            types: "floats [.., n] three times and [.., n, m] to [.., n, m]".into(),
            derivative: "A⁻¹ (t_b - t_A x); its transpose in b is the solve with Aᵀ".into(),
            edges:
                "lower[0] and upper[n-1] are not read; a singular matrix divides by zero; nan or \
                    inf: nan in that member"
                    .into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let name = "tridiagonal_solve";
        let [lower, diagonal, upper, b] = operands else {
            let help = "the diagonals, then the right sides";
            return Err(Problem::new(Kind::Arguments, format!("`{name}` takes four arrays"), help));
        };
        let message = || {
            let [lower, diagonal, upper, b] = [lower, diagonal, upper, b].map(|x| x.ty);
            format!("`{name}` of {lower}, {diagonal}, {upper} and {b}")
        };
        let wrong = |kind, help: &str| Err(Problem::new(kind, message(), help.to_owned()));
        let all = [lower, diagonal, upper, b].map(|x| x.ty.as_array());
        let [Some(lower), Some(diagonal), Some(upper), Some(b)] = all else {
            return wrong(Kind::Dtype, "diagonals and right sides are arrays of floats");
        };
        if !b.dtype.is_float() || [lower, diagonal, upper].iter().any(|x| x.dtype != b.dtype) {
            return wrong(Kind::Dtype, "diagonals and right sides are floats of one dtype");
        }
        let alike = lower.shape == diagonal.shape && upper.shape == diagonal.shape;
        match b.shape.split_last() {
            Some((_, rest)) if alike && !rest.is_empty() && *rest == diagonal.shape[..] => {
                Ok(b.clone())
            }
            _ => wrong(Kind::Shape, "diagonals are [.., n], right sides [.., n, columns]"),
        }
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let b = operands[3].ty();
        TridiagonalSolve::call(b).run_one(operands, &b.shape)
    }

    fn jvp(&self, b: &Builder<'_>, x: &[Atom], y: Atom, dx: &[Tangent]) -> Result<Tangent> {
        let shape = b.shape_of(y);
        let (rows, columns) = (shape.len() - 2, shape[shape.len() - 1]);
        let mut right = dx[3];
        // Each diagonal of dA adds to (dA x)[i]: its elements multiply the elements of x at i - 1, i and i + 1.
        for (diagonal, by) in [(dx[0], 1), (dx[1], 0), (dx[2], -1)] {
            let Some(diagonal) = diagonal else { continue };
            let y = if by == 0 { y } else { shifted(b, y, rows, by) };
            let moved = b.emit1(Scalar::Mul, &[by_row(b, diagonal, columns), y]);
            right = elementwise::add_tangents(b, right, Some(b.emit1(Scalar::Neg, &[moved])));
        }
        Ok(right.map(|right| b.emit1(self.clone(), &[x[0], x[1], x[2], right])))
    }

    fn is_linear(&self, operands: &[Linearity]) -> bool {
        let [diagonals @ .., _] = operands else { return false };
        diagonals.iter().all(|x| *x != Linearity::Linear)
    }

    fn transpose(&self, b: &Builder<'_>, x: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        let known = [x[0].known(), x[1].known(), x[2].known()];
        let [Some(lower), Some(diagonal), Some(upper)] = known else { return Ok(()) };
        let axis = b.shape_of(diagonal).len() - 1;
        let (below, above) = (shifted(b, upper, axis, 1), shifted(b, lower, axis, -1));
        into.add(b, 3, b.emit1(self.clone(), &[below, diagonal, above, ct]));
        Ok(())
    }

    /// Emits the solver over a batch. If all right-hand sides share one matrix, the members become additional
    /// columns.
    fn batch(&self, b: &Builder<'_>, size: usize, x: &[Atom], batched: &[bool]) -> Result<Atom> {
        if batched[..3].contains(&true) {
            let lifted = |i: usize| match batched[i] {
                true => x[i],
                false => elementwise::materialize_lead(b, size, x[i]),
            };
            return Ok(b.emit1(self.clone(), &[lifted(0), lifted(1), lifted(2), lifted(3)]));
        }
        Ok(by_columns(b, x[3], |right| b.emit1(self.clone(), &[x[0], x[1], x[2], right])))
    }

    fn lower(&self, operands: &[Operand<'_>]) -> Lowering {
        RoutineCall::lowering(operands[3].ty.as_array().map(TridiagonalSolve::call))
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        let op = TridiagonalSolve {};
        let [lower, diagonal, upper] =
            [[7.0, 1.0, -0.5, 2.0], [3.0, -2.5, 4.0, 3.5], [0.5, 1.0, -1.5, 9.0]].map(Tensor::from);
        let b = Tensor::from([[1.0, 2.0], [-3.0, 0.5], [0.25, 4.0], [2.0, -1.0]]);
        let four = vec![lower, diagonal, upper, b];
        // A sample of two batch members with two rows each; solving the second needs an exchange of rows.
        let [below, middle, above] =
            [[[0.0, 1.0], [0.0, 2.0]], [[3.0, 2.0], [0.25, 1.0]], [[-1.0, 0.0], [1.5, 0.0]]]
                .map(Tensor::from);
        let sides = Tensor::from([[[1.0], [2.0]], [[-0.5], [3.0]]]);
        let two = vec![below, middle, above, sides];
        let one = vec![[9.0], [2.0], [9.0]].into_iter().map(Tensor::from);
        let one = one.chain([Tensor::from([[3.0, -1.0]])]).collect();
        let zeros = Tensor::from([0.0f32; 2]);
        let singular = vec![zeros.clone(), zeros.clone(), zeros, Tensor::from([[1.0f32], [0.0]])];
        let unread = vec![
            Tensor::from([f64::NAN, 1.0]),
            Tensor::from([2.0, 2.0]),
            Tensor::from([1.0, f64::INFINITY]),
            Tensor::from([[1.0], [f64::NAN]]),
        ];
        let none = Tensor::from([0.0; 0]);
        let none = vec![none.clone(), none.clone(), none, Tensor::from([[0.0; 2]; 0])];
        vec![
            Sample::smooth(op.clone(), four),
            Sample::smooth(op.clone(), two),
            Sample::smooth(op.clone(), one),
            Sample::edge(op.clone(), singular),
            Sample::edge(op.clone(), unread),
            Sample::edge(op, none),
        ]
    }
}
