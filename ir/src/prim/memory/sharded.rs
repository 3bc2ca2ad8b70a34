//! `sharded{spec}`: the identity, whose result is divided among devices as the spec says.
//!
//! The spec names axes of a mesh that the function does not have: the mesh is an option of the compilation. Targets with
//! several devices check the spec against it, divide the array, and insert the communication that this needs; for all
//! other targets the equation is dropped. The derivative is divided like the value.
//!
//! Model: `with_sharding_constraint` of JAX, `sdy.sharding_constraint` of Shardy.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::Result;
use crate::lang::types::ArrayType;
use crate::prim::rules::view::one_array;
use crate::prim::{
    Arg, ArrayPrimitive, Cotangents, Doc, Effects, Family, Linearity, Lowering, Operand, Rewrite,
    Sample, Tangent,
};
use crate::sharding::PartitionSpec;
use crate::tensor::Tensor;

/// The identity, whose result is divided among devices. Its text is `sharded{spec}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Sharded {
    /// The mesh axes along which each axis of the array is divided.
    pub spec: PartitionSpec,
}

notation!(Sharded = "sharded" { spec });

impl ArrayPrimitive for Sharded {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Marks,
            name: "sharded{spec}".into(),
            math: "y = x".into(),
            types: "any array".into(),
            derivative: "∂x: t, sharded alike".into(),
            edges: "a batch has an open first axis; dropped where there is one device".into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let x = one_array("sharded", operands)?;
        self.spec.check(x.shape.len())?;
        Ok(x.clone())
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        Ok(operands[0].clone())
    }

    fn jvp(&self, b: &Builder<'_>, _: &[Atom], _: Atom, dx: &[Tangent]) -> Result<Tangent> {
        Ok(dx[0].map(|dx| b.emit1(self.clone(), &[dx])))
    }

    fn is_linear(&self, _: &[Linearity]) -> bool {
        true
    }

    fn transpose(&self, b: &Builder<'_>, _: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        into.add(b, 0, b.emit1(self.clone(), &[ct]));
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, _: usize, x: &[Atom], _: &[bool]) -> Result<Atom> {
        Ok(b.emit1(Sharded { spec: self.spec.batched() }, x))
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        Lowering::Alias { mark: None, sharding: Some(self.spec.clone()) }
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        let of = |words: &[&str]| Sharded { spec: PartitionSpec::new(words.iter().copied()) };
        vec![
            Sample::smooth(of(&["data"]), vec![Tensor::from([1.5, -2.0])]),
            Sample::smooth(of(&["_", "data.model"]), vec![Tensor::from([[1.5, -2.0]])]),
            Sample::smooth(of(&[]), vec![Tensor::from(2.5)]),
            Sample::edge(of(&["open", "model"]), vec![Tensor::from([[1i64], [2]])]),
            Sample::edge(of(&["data"]), vec![Tensor::from([true, false])]),
        ]
    }
}
