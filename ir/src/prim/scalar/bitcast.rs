//! `bitcast{to}`: the same bits as a number of another dtype with the same width.
//!
//! The derivative is 0, because bit patterns have no tangents.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype};
use crate::prim::{
    Arg, ArrayPrimitive, Code, Cotangents, Doc, Effects, Family, Linearity, Lowering, Operand,
    Rewrite, Sample, Tangent, elementwise,
};
use crate::tensor::Tensor;

/// The same bits as a number of another dtype with the same width. Its text is `bitcast{to}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Bitcast {
    /// The dtype of the result: a numeric dtype of the operand's width, but not the operand's own dtype.
    pub to: Dtype,
}

notation!(Bitcast = "bitcast" { to });

impl ArrayPrimitive for Bitcast {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Logic,
            name: "bitcast{to}".into(),
            math: "the bits of x as a number of the dtype `to`".into(),
            types: "numbers to another dtype of the same width".into(),
            derivative: "∂x: 0, integers have no tangent".into(),
            edges: "every bit is kept, those of nan too".into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let (shape, dtypes) = elementwise::common_shape("bitcast", operands)?;
        match dtypes.as_slice() {
            [d] if Code::Bitcast(self.to).typed(&[*d]).is_some() => {
                Ok(ArrayType::new(self.to, shape))
            }
            [d] => Err(Problem::new(
                Kind::Dtype,
                format!(
                    "`bitcast` is between different dtypes of one width, got {d} to {}",
                    self.to
                ),
                "name a number of as many bits",
            )),
            _ => Err(Problem::new(Kind::Arguments, "`bitcast` takes one operand", "")),
        }
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        elementwise::eval(Code::Bitcast(self.to), operands)
    }

    fn jvp(&self, _: &Builder<'_>, _: &[Atom], _: Atom, _: &[Tangent]) -> Result<Tangent> {
        Ok(None)
    }

    fn is_linear(&self, _: &[Linearity]) -> bool {
        false
    }

    fn transpose(&self, _: &Builder<'_>, _: &[Arg], _: Atom, _: &mut Cotangents) -> Result<()> {
        Err(Problem::internal("`bitcast` is not linear"))
    }

    fn batch(&self, b: &Builder<'_>, size: usize, x: &[Atom], batched: &[bool]) -> Result<Atom> {
        elementwise::batch(b, (*self).into(), size, x, batched)
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        Lowering::Elementwise(Code::Bitcast(self.to))
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        let numbers = [0.0, -0.0, 1.5, -2.75, 3e9, 1e-310, f64::INFINITY, -f64::INFINITY];
        let mut samples = Vec::new();
        for from in Dtype::ALL {
            for to in Dtype::ALL {
                if Code::Bitcast(to).typed(&[from]).is_some() {
                    let x = Tensor::of(from, &numbers);
                    samples.push(Sample::edge(Bitcast { to }, vec![Tensor::from(x.at(2))]));
                    samples.push(Sample::edge(Bitcast { to }, vec![x]));
                }
            }
        }
        samples
    }
}
