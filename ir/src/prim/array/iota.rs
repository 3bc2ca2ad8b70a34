//! `iota{shape, axis, dtype}`: an array whose elements are their own index along an axis.
//!
//! `iota{shape=[2,3], axis=1, dtype=i64}` is `[[0 1 2] [0 1 2]]`. It is the only primitive without operands. Index
//! arithmetic, masks and ranges are built from it.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype, Shape};
use crate::prim::rules::lowering::INDEX_LIMIT;
use crate::prim::{
    Arg, ArrayPrimitive, Cotangents, Doc, Effects, Family, Linearity, Lowering, Operand, Rewrite,
    Sample, Tangent,
};
use crate::tensor::Tensor;

/// An array whose elements are their own index along an axis. Its text is `iota{shape, axis, dtype}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Iota {
    /// The extents of the result.
    pub shape: Shape,
    /// The axis along which each element holds its index.
    pub axis: usize,
    /// The dtype of the result.
    pub dtype: Dtype,
}

notation!(Iota = "iota" { shape, axis, dtype });

impl ArrayPrimitive for Iota {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Movement,
            name: "iota{shape, axis, dtype}".into(),
            math: "y[o] = o[axis]".into(),
            types: "to integers or floats".into(),
            derivative: "nothing to differentiate: it has no operands".into(),
            edges: "floats are rounded where they cannot hold the index; integers must hold it"
                .into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        if !operands.is_empty() {
            let message = format!("`iota` takes no operands, found {}", operands.len());
            return Err(Problem::new(Kind::Arguments, message, ""));
        }
        let Some(extent) = self.shape.get(self.axis) else {
            return Err(Problem::new(
                Kind::Shape,
                format!("`iota` of shape {} counts along axis {}", self.shape, self.axis),
                "the axis must be smaller than the rank",
            ));
        };
        let last = extent.saturating_sub(1);
        let holds = Literal::rounded_integer(self.dtype, last as i128).is_some();
        if self.dtype == Dtype::Bool || !holds || *extent > INDEX_LIMIT {
            return Err(Problem::new(
                Kind::Dtype,
                format!("`iota` counts to {last} in {}", self.dtype),
                "choose a dtype that holds the last index",
            ));
        }
        Ok(ArrayType::new(self.dtype, self.shape.clone()))
    }

    fn eval(&self, _: &[Tensor]) -> Result<Tensor> {
        let mut y = Tensor::zeros_of(&ArrayType::new(self.dtype, self.shape.clone()))?;
        let (extent, stride) = (self.shape[self.axis], self.shape.strides()[self.axis]);
        for flat in 0..y.elements() {
            let index = (flat / stride % extent) as i128;
            let element = Literal::rounded_integer(self.dtype, index);
            y.put(flat, element.unwrap_or(Literal::zero(self.dtype)));
        }
        Ok(y)
    }

    fn jvp(&self, _: &Builder<'_>, _: &[Atom], _: Atom, _: &[Tangent]) -> Result<Tangent> {
        Ok(None)
    }

    fn is_linear(&self, _: &[Linearity]) -> bool {
        false
    }

    fn transpose(&self, _: &Builder<'_>, _: &[Arg], _: Atom, _: &mut Cotangents) -> Result<()> {
        Err(Problem::internal("`iota` has no operands that could be linear"))
    }

    fn batch(&self, _: &Builder<'_>, _: usize, _: &[Atom], _: &[bool]) -> Result<Atom> {
        Err(Problem::internal("`iota` has no operands that could be batched"))
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        Lowering::Iota { axis: self.axis }
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        let op = |shape: &[usize], axis, dtype| {
            Sample::edge(Iota { shape: shape.into(), axis, dtype }, vec![])
        };
        vec![
            op(&[4], 0, Dtype::I64),
            op(&[2, 3], 0, Dtype::F64),
            op(&[2, 3, 2], 1, Dtype::I32),
            op(&[2, 3], 1, Dtype::F32),
            op(&[3, 1], 0, Dtype::U32),
            op(&[0, 3], 0, Dtype::U64),
        ]
    }
}
