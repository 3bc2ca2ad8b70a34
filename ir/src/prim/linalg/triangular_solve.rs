//! `triangular_solve{lower, transposed, unit_diagonal} t, b`: the solution of a triangular system.
//!
//! ```text
//! op(T) x = b        op(T) = T, or Tᵀ if `transposed`
//! dx = op(T)⁻¹ (db - op(dT) x)
//! ct_b = op(T)⁻ᵀ ct
//! ```
//!
//! Only the lower or only the upper triangle of `t` is read, without the diagonal if that is defined as ones. Elements
//! that are not read influence no derivative. A zero on the diagonal has the effect of a division by zero.
//!
//! The primitive is linear in `b` with itself as its exact transpose, so its derivatives contain no other
//! solver. Source of the rule: Giles (2008), 2.3.1. Model: XLA's `TriangularSolve`, with the matrix on the
//! left.

use super::matrix::{MatrixPart, batch_axes, by_columns, part, product, square, transposed};
use super::routine_call::RoutineCall;
use crate::fault::{Fault, planted};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::ArrayType;
use crate::prim::{
    Arg, ArrayPrimitive, Cotangents, Doc, Effects, Family, Linearity, Lowering, Operand, Rewrite,
    Sample, Scalar, Tangent, elementwise,
};
use crate::tensor::Tensor;
use tapeloom_routines::Routine;

/// The solution of a triangular system. Its text is `triangular_solve{lower, transposed, unit_diagonal}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct TriangularSolve {
    /// Whether the lower triangle is read instead of the upper one.
    pub lower: bool,
    /// Whether the system is `Tᵀ x = b` instead of `T x = b`.
    pub transposed: bool,
    /// Whether the diagonal is taken to be ones instead of being read.
    pub unit_diagonal: bool,
}

notation!(TriangularSolve = "triangular_solve" { lower, transposed, unit_diagonal });

impl TriangularSolve {
    /// The solver of `T x = b` with the lower triangle of `t`, including its diagonal.
    pub const LOWER: TriangularSolve =
        TriangularSolve { lower: true, transposed: false, unit_diagonal: false };

    /// Returns the part of the matrix `t` that is read.
    fn read(&self) -> MatrixPart {
        match (self.lower, self.unit_diagonal) {
            (true, false) => MatrixPart::Lower,
            (true, true) => MatrixPart::StrictlyLower,
            (false, false) => MatrixPart::Upper,
            (false, true) => MatrixPart::StrictlyUpper,
        }
    }

    /// Returns the call of the library routine for operands of these types.
    fn call(&self, t: &ArrayType, b: &ArrayType) -> RoutineCall {
        let rank = b.shape.len();
        let routine = Routine::TriangularSolve {
            n: b.shape[rank - 2],
            columns: b.shape[rank - 1],
            lower: self.lower,
            transposed: self.transposed,
            unit_diagonal: self.unit_diagonal,
        };
        RoutineCall::new(routine, t.dtype, batch_axes(&t.shape))
    }
}

impl ArrayPrimitive for TriangularSolve {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Linear,
            name: "triangular_solve{lower, transposed, unit_diagonal}".into(),
            math: "x with op(T) x = b, op(T) = T or Tᵀ, of one triangle of T".into(),
            types: "floats [.., n, n] and [.., n, m] to [.., n, m]".into(),
            derivative: "op(T)⁻¹ (t_b - op(t_T) x); its transpose in b is the solve with op(T)ᵀ"
                .into(),
            edges: "the other triangle and a unit diagonal are not read; a zero on the diagonal \
                    divides; nan and infinity spread as far as substitution carries them"
                .into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let [t, b] = operands else {
            let message = "`triangular_solve` takes two arrays";
            return Err(Problem::new(Kind::Arguments, message, "the matrix, then the right sides"));
        };
        let (t, n) = square("triangular_solve", t)?;
        let wrong = |kind, help: &str| {
            let message = format!("`triangular_solve` of {t} and {}", b.ty);
            Err(Problem::new(kind, message, help.to_owned()))
        };
        let Some(b) = b.ty.as_array() else {
            return wrong(Kind::Dtype, "right sides are columns of matrices of floats");
        };
        if b.dtype != t.dtype {
            return wrong(Kind::Dtype, "convert one of them");
        }
        match b.shape.split_last() {
            Some((_, rest)) if *rest == t.shape[..t.shape.len() - 1] => Ok(b.clone()),
            _ => wrong(
                Kind::Shape,
                &format!("right sides are [.., {n}, columns] with the same axes in front"),
            ),
        }
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let (t, b) = (&operands[0], &operands[1]);
        self.call(t.ty(), b.ty()).run_one(operands, b.shape())
    }

    fn jvp(&self, b: &Builder<'_>, x: &[Atom], y: Atom, dx: &[Tangent]) -> Result<Tangent> {
        let moved = dx[0].map(|dt| {
            let dt = part(b, dt, self.read());
            let dt = if self.transposed { transposed(b, dt) } else { dt };
            b.emit1(Scalar::Neg, &[product(b, dt, y)])
        });
        let right = elementwise::add_tangents(b, dx[1], moved);
        Ok(right.map(|right| b.emit1(self.clone(), &[x[0], right])))
    }

    fn is_linear(&self, operands: &[Linearity]) -> bool {
        operands.len() == 2 && operands[0] != Linearity::Linear
    }

    fn transpose(&self, b: &Builder<'_>, x: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        let Some(t) = x[0].known() else { return Ok(()) };
        let transposed = self.transposed == planted(Fault::SolveSides);
        let back = TriangularSolve { transposed, ..self.clone() };
        into.add(b, 1, b.emit1(back, &[t, ct]));
        Ok(())
    }

    /// Emits the solver over a batch. If all right-hand sides share one matrix, the members become additional
    /// columns.
    fn batch(&self, b: &Builder<'_>, size: usize, x: &[Atom], batched: &[bool]) -> Result<Atom> {
        let lifted = |i: usize| match batched[i] {
            true => x[i],
            false => elementwise::materialize_lead(b, size, x[i]),
        };
        if batched[0] {
            return Ok(b.emit1(self.clone(), &[lifted(0), lifted(1)]));
        }
        Ok(by_columns(b, x[1], |right| b.emit1(self.clone(), &[x[0], right])))
    }

    fn lower(&self, operands: &[Operand<'_>]) -> Lowering {
        let both = operands[0].ty.as_array().zip(operands[1].ty.as_array());
        RoutineCall::lowering(both.map(|(t, b)| self.call(t, b)))
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        // A sample matrix whose lower and upper triangles both give solvable systems.
        let t = Tensor::from([[2.0, 0.5, -0.75], [1.0, -1.5, 0.25], [-0.5, 3.0, 1.25]]);
        let b = Tensor::from([[1.0, 2.0], [-3.0, 0.5], [0.25, 4.0]]);
        let mut all = Vec::new();
        for bits in 0..8 {
            let [lower, transposed, unit_diagonal] = [1, 2, 4].map(|bit| bits & bit != 0);
            let op = TriangularSolve { lower, transposed, unit_diagonal };
            all.push(Sample::smooth(op, vec![t.clone(), b.clone()]));
        }
        let two = Tensor::from([[[2.0, 0.0], [1.0, -1.5]], [[0.5, 0.0], [3.0, 4.0]]]);
        let sides = Tensor::from([[[1.0], [2.0]], [[-0.5], [3.0]]]);
        let singular = Tensor::from([[0.0f32, 0.0], [1.0, 2.0]]);
        let side = Tensor::from([[1.0f32], [f32::INFINITY]]);
        let none = Tensor::from([[0.0; 0]; 0]);
        all.extend([
            Sample::smooth(TriangularSolve::LOWER, vec![two, sides]),
            Sample::edge(TriangularSolve::LOWER, vec![singular, side]),
            Sample::edge(TriangularSolve::LOWER, vec![none.clone(), none]),
            Sample::edge(TriangularSolve::LOWER, vec![t, Tensor::from([[0.0; 0]; 3])]),
        ]);
        all
    }
}
