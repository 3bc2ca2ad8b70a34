//! `cholesky a`: the lower triangular factor of a symmetric positive definite matrix.
//!
//! ```text
//! A = L Lᵀ
//! dL = L Φ(L⁻¹ dA L⁻ᵀ)        Φ: the lower triangle, its diagonal halved
//! ```
//!
//! Only the lower triangle of `a` is read. It represents a symmetric matrix. The elements above the diagonal influence
//! no value and no derivative. The result is zero above its diagonal. A matrix that is not positive definite gives NaN
//! in its lower triangle, for that batch member alone.
//!
//! Source of the rule: Murray (2016), equation 8.

use super::matrix::{batch_axes, half_of_lower, product, square, symmetric_of_lower, transposed};
use super::routine_call::RoutineCall;
use super::triangular_solve::TriangularSolve;
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::ArrayType;
use crate::prim::{
    Arg, ArrayPrimitive, Cotangents, Doc, Effects, Family, Linearity, Lowering, Operand, Rewrite,
    Sample, Tangent,
};
use crate::tensor::Tensor;
use tapeloom_routines::Routine;

/// The lower triangular factor of a symmetric positive definite matrix. Its text is `cholesky`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Cholesky {}

notation!(Cholesky = "cholesky" {});

impl Cholesky {
    /// Returns the call of the library routine for matrices of the type `a`.
    fn call(a: &ArrayType) -> RoutineCall {
        let n = a.shape[a.shape.len() - 1];
        RoutineCall::new(Routine::Cholesky { n }, a.dtype, batch_axes(&a.shape))
    }
}

impl ArrayPrimitive for Cholesky {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Linear,
            name: "cholesky".into(),
            math: "the lower triangular L with L Lᵀ = A, for a symmetric A given by its lower \
                   triangle"
                .into(),
            types: "floats [.., n, n] to the same".into(),
            derivative: "L Φ(L⁻¹ t L⁻ᵀ), for a symmetric t given by its lower triangle; Φ is the \
                         lower triangle with half its diagonal"
                .into(),
            edges: "not positive definite, or nan: nan in the lower triangle of that member; zero \
                    above the diagonal"
                .into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let [a] = operands else {
            return Err(Problem::new(Kind::Arguments, "`cholesky` takes one array", ""));
        };
        Ok(square("cholesky", a)?.0.clone())
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let a = &operands[0];
        Cholesky::call(a.ty()).run_one(operands, a.shape())
    }

    fn jvp(&self, b: &Builder<'_>, _: &[Atom], l: Atom, da: &[Tangent]) -> Result<Tangent> {
        let Some(da) = da[0] else { return Ok(None) };
        let solve = |x: Atom| b.emit1(TriangularSolve::LOWER, &[l, x]);
        // The tangent is dL = L Φ(L⁻¹ dA L⁻ᵀ), where Φ halves the diagonal of the lower triangle. dA is symmetric, so
        // two solves give the inner matrix: L⁻¹ (L⁻¹ dA)ᵀ = L⁻¹ dA L⁻ᵀ.
        let left = solve(symmetric_of_lower(b, da));
        let both = solve(transposed(b, left));
        Ok(Some(product(b, l, half_of_lower(b, both))))
    }

    fn is_linear(&self, _: &[Linearity]) -> bool {
        false
    }

    fn transpose(&self, _: &Builder<'_>, _: &[Arg], _: Atom, _: &mut Cotangents) -> Result<()> {
        Err(Problem::internal("`cholesky` is not linear"))
    }

    fn batch(&self, b: &Builder<'_>, _: usize, x: &[Atom], _: &[bool]) -> Result<Atom> {
        Ok(b.emit1(self.clone(), x))
    }

    fn lower(&self, operands: &[Operand<'_>]) -> Lowering {
        RoutineCall::lowering(operands[0].ty.as_array().map(Cholesky::call))
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        // The sample matrices have an upper triangle that differs from the lower one, so that a read of the upper
        // triangle would give a wrong result.
        let a = Tensor::from([[4.0, 9.0, 9.0], [1.0, 3.0, 9.0], [-0.5, 0.75, 2.0]]);
        let two = Tensor::from([[[2.0, 0.5], [0.5, 1.0]], [[1.0, -0.25], [-0.25, 3.0]]]);
        let mixed = Tensor::from([[[1.0f32, 2.0], [2.0, 1.0]], [[4.0, 0.0], [2.0, 5.0]]]);
        vec![
            Sample::smooth(Cholesky {}, vec![a]),
            Sample::smooth(Cholesky {}, vec![two]),
            Sample::smooth(Cholesky {}, vec![Tensor::from([[9.0]])]),
            Sample::edge(Cholesky {}, vec![mixed]),
            Sample::edge(Cholesky {}, vec![Tensor::from([[0.0; 0]; 0])]),
        ]
    }
}
