//! `dropped`: the identity, for values of batch members whose results are dropped.
//!
//! If only some members of a batch take a branch or an iteration, it runs on the whole batch. The other members get
//! the values of one that takes it ([`Lanes`](crate::prim::rules::batch_mask::Lanes)). This primitive marks those
//! values:
//!
//! ```text
//! y = where(alive, f(where(alive, x, dropped(x[first]))), otherwise)
//! ```
//!
//! Nothing reads the results of `f` for those members. So the marked values have no derivative, and their cotangents
//! are zero: the primitive is linear, and its transpose adds nothing. [`StopGradient`](crate::prim::StopGradient)
//! computes the same values but is not linear, because its results are read.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::Result;
use crate::lang::types::ArrayType;
use crate::prim::rules::view::one_array;
use crate::prim::{
    Arg, ArrayPrimitive, Cotangents, Doc, Effects, Family, Linearity, Lowering, Operand, Rewrite,
    Sample, Tangent,
};
use crate::tensor::Tensor;

/// The identity, for values of batch members whose results are dropped. Its text is `dropped`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Dropped;

notation!(Dropped = "dropped" {});

impl ArrayPrimitive for Dropped {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Marks,
            name: "dropped".into(),
            math: "y = x".into(),
            types: "any array".into(),
            derivative: "zero: only batch members with dropped results read it".into(),
            edges: "linear; its transpose adds nothing".into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let x = one_array("dropped", operands)?;
        Ok(ArrayType::new(x.dtype, x.shape.clone()))
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        Ok(operands[0].clone())
    }

    fn jvp(&self, _: &Builder<'_>, _: &[Atom], _: Atom, _: &[Tangent]) -> Result<Tangent> {
        Ok(None)
    }

    fn is_linear(&self, _: &[Linearity]) -> bool {
        true
    }

    fn transpose(&self, _: &Builder<'_>, _: &[Arg], _: Atom, _: &mut Cotangents) -> Result<()> {
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, _: usize, x: &[Atom], _: &[bool]) -> Result<Atom> {
        Ok(b.emit1(Dropped, x))
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        Lowering::Alias { mark: None, sharding: None }
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    /// Every sample is an edge case: the derivative is defined as zero, so finite differences of the identity
    /// would contradict it.
    fn samples() -> Vec<Sample> {
        vec![
            Sample::edge(Dropped, vec![Tensor::from([1.5, -2.0])]),
            Sample::edge(Dropped, vec![Tensor::from(2.5)]),
            Sample::edge(Dropped, vec![Tensor::from([[1i64], [2]])]),
            Sample::edge(Dropped, vec![Tensor::from([true, false])]),
        ]
    }
}
