//! `stop_gradient`: the identity, with a derivative defined as zero.
//!
//! The user marks a value as constant under differentiation, for example targets of a moving average or the
//! weights of an estimator. Only the transforms read the mark; the lowered program computes nothing for it.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Problem, Result};
use crate::lang::types::ArrayType;
use crate::prim::rules::view::one_array;
use crate::prim::{
    Arg, ArrayPrimitive, Cotangents, Doc, Effects, Equality, Exactness, Family, Linearity,
    Lowering, Op, Operand, Rewrite, Sample, Tangent, When,
};
use crate::tensor::Tensor;

/// The identity with a derivative of zero. Its text is `stop_gradient`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct StopGradient;

notation!(StopGradient = "stop_gradient" {});

impl ArrayPrimitive for StopGradient {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Marks,
            name: "stop_gradient".into(),
            math: "y = x".into(),
            types: "any array".into(),
            derivative: "zero by definition".into(),
            edges: String::new(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let x = one_array("stop_gradient", operands)?;
        Ok(ArrayType::new(x.dtype, x.shape.clone()))
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        Ok(operands[0].clone())
    }

    fn jvp(&self, _: &Builder<'_>, _: &[Atom], _: Atom, _: &[Tangent]) -> Result<Tangent> {
        Ok(None)
    }

    /// Returns false: a linear map with a derivative of zero would be the zero map, not the identity.
    fn is_linear(&self, _: &[Linearity]) -> bool {
        false
    }

    fn transpose(&self, _: &Builder<'_>, _: &[Arg], _: Atom, _: &mut Cotangents) -> Result<()> {
        Err(Problem::internal("`stop_gradient` is not linear and is never transposed"))
    }

    fn batch(&self, b: &Builder<'_>, _: usize, x: &[Atom], _: &[bool]) -> Result<Atom> {
        Ok(b.emit1(StopGradient, x))
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        Lowering::Alias { mark: None, sharding: None }
    }

    fn rewrites() -> Vec<Rewrite> {
        vec![
            Rewrite::exact(
                "stop_gradient-stop_gradient",
                Equality::Compose(|outer, inner, _| match (outer, inner) {
                    (Op::StopGradient(_), Op::StopGradient(_)) => Some(vec![StopGradient.into()]),
                    _ => None,
                }),
                "the second one changes nothing",
            ),
            Rewrite {
                name: "zero-of-its-derivative",
                rule: Equality::Pattern {
                    lhs: "(select (eq ?x 0) (sub ?x (stop_gradient ?x)) 0)",
                    rhs: "0",
                },
                when: When::Float,
                exactness: Exactness::Exact,
                why: "the term is zero, and only derivatives need it",
            },
        ]
    }

    /// Every sample is an edge case: the derivative is defined as zero, so finite differences of the identity
    /// would contradict it.
    fn samples() -> Vec<Sample> {
        vec![
            Sample::edge(StopGradient, vec![Tensor::from([1.5, -2.0])]),
            Sample::edge(StopGradient, vec![Tensor::from(2.5)]),
            Sample::edge(StopGradient, vec![Tensor::from([[1i64], [2]])]),
            Sample::edge(StopGradient, vec![Tensor::from([true, false])]),
        ]
    }
}
