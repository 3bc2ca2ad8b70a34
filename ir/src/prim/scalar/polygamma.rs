//! `polygamma{n}`: the n-th derivative of `digamma`.
//!
//! It exists so that `lgamma` has derivatives of every order: each raises `n` by one.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::ArrayType;
use crate::math;
use crate::prim::rules::expr::Expr;
use crate::prim::{
    Arg, ArrayPrimitive, Code, Continuity, Cotangents, Doc, Effects, Family, Library, LibraryFn,
    Linearity, Lowering, Operand, Rewrite, Sample, SignOf, Tangent, elementwise,
};
use crate::tensor::Tensor;

/// `polygamma{n}`
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Polygamma {
    /// The order of the derivative; 0 is `digamma` itself.
    pub n: u32,
}

notation!(Polygamma = "polygamma" { n });

impl Polygamma {
    fn code(self) -> Code {
        extern "C" fn wide(n: u32, x: f64) -> f64 {
            math::polygamma(n, x)
        }
        extern "C" fn narrow(n: u32, x: f32) -> f32 {
            math::polygamma(n, f64::from(x)) as f32
        }
        let function = LibraryFn::Indexed { n: self.n, f64: wide, f32: narrow };
        let (flops, continuity) = (32, Continuity::Continuous);
        Code::Library(Library {
            name: "polygamma",
            flops,
            continuity,
            sign: SignOf::Unknown,
            function,
        })
    }
}

impl ArrayPrimitive for Polygamma {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Special,
            name: "polygamma{n}".into(),
            math: "ψ⁽ⁿ⁾(x)".into(),
            types: "floats".into(),
            derivative: "∂x: t · polygamma{n+1}(x)".into(),
            edges: "at the poles 0, -1, -2, … inf for odd n, nan for even n; 0 at inf, nan at -inf"
                .into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let (shape, dtypes) = elementwise::common_shape("polygamma", operands)?;
        match dtypes.as_slice() {
            [d] if d.is_float() => Ok(ArrayType::new(*d, shape)),
            _ => Err(Problem::new(Kind::Dtype, "`polygamma` takes one operand, a float", "")),
        }
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        elementwise::eval(self.code(), operands)
    }

    fn jvp(&self, b: &Builder<'_>, x: &[Atom], _: Atom, dx: &[Tangent]) -> Result<Tangent> {
        let Some(t) = dx[0] else { return Ok(None) };
        let next = Polygamma { n: self.n.saturating_add(1) };
        let dy = Expr::new(b, t) * Expr::new(b, x[0]).unary(next);
        Ok(Some(dy.atom))
    }

    fn is_linear(&self, _: &[Linearity]) -> bool {
        false
    }

    fn transpose(&self, _: &Builder<'_>, _: &[Arg], _: Atom, _: &mut Cotangents) -> Result<()> {
        Err(Problem::internal("`polygamma` is not linear"))
    }

    fn batch(&self, b: &Builder<'_>, size: usize, x: &[Atom], batched: &[bool]) -> Result<Atom> {
        elementwise::batch(b, (*self).into(), size, x, batched)
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        Lowering::Elementwise(self.code())
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        let x = || Tensor::from([0.05, 0.9, 2.5, 12.0]);
        let edge = || Tensor::from([0.0, -1.0, -0.5, f64::INFINITY, f64::NAN, 1e-300]);
        let mut samples = Vec::new();
        for n in [0, 1, 2, 5] {
            samples.push(Sample::smooth(Polygamma { n }, vec![x()]));
            samples.push(Sample::smooth(Polygamma { n }, vec![Tensor::from(1.5)]));
            samples.push(Sample::edge(Polygamma { n }, vec![edge()]));
            samples.push(Sample::edge(Polygamma { n }, vec![Tensor::from([0.5f32, -2.5])]));
        }
        samples
    }
}
