//! `integer_pow{n}`: a power with a constant integer exponent.
//!
//! Unlike `pow` it is exact if the products are exact, accepts negative bases and integers, and its derivative
//! needs no logarithm. Generated code is a chain of products by repeated squaring, low bits of `n` first.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype};
use crate::prim::rules::expr::Expr;
use crate::prim::rules::rewrite::{Equality, Exactness, When};
use crate::prim::{
    Arg, ArrayPrimitive, Code, Cotangents, Doc, Effects, Family, Linearity, Lowering, Operand,
    Rewrite, Sample, Tangent, elementwise,
};
use crate::prim::{Op, Scalar};
use crate::tensor::Tensor;

/// A power with a constant integer exponent. Its text is `integer_pow{n}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct IntegerPow {
    /// The exponent n.
    pub n: i32,
}

notation!(IntegerPow = "integer_pow" { n });

impl ArrayPrimitive for IntegerPow {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Exponential,
            name: "integer_pow{n}".into(),
            math: "xⁿ".into(),
            types: "numbers".into(),
            derivative: "∂x: t · n · xⁿ⁻¹; t · n · f / x for n < 0; 0 for n = 0".into(),
            edges: "x⁰ = 1 for every x, nan included; a negative power is the reciprocal of the positive one; integers wrap".into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let (shape, dtypes) = elementwise::common_shape("integer_pow", operands)?;
        match dtypes.as_slice() {
            [d] if *d != Dtype::Bool => Ok(ArrayType::new(*d, shape)),
            _ => Err(Problem::new(Kind::Dtype, "`integer_pow` takes one operand, a number", "")),
        }
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        elementwise::eval(Code::IntegerPow(self.n), operands)
    }

    fn jvp(&self, b: &Builder<'_>, x: &[Atom], y: Atom, dx: &[Tangent]) -> Result<Tangent> {
        let (Some(t), true) = (dx[0], self.n != 0) else { return Ok(None) };
        let (t, x, y) = (Expr::new(b, t), Expr::new(b, x[0]), Expr::new(b, y));
        let n = f64::from(self.n);
        let dy = if self.n == 1 {
            t
        } else if self.n < 0 {
            // Divide the value y by x: the positive power in the denominator of x^(n - 1) would overflow or underflow
            // before this quotient does.
            t * (n * (y / x))
        } else {
            t * (n * x.powi(self.n - 1))
        };
        Ok(Some(dy.atom))
    }

    fn is_linear(&self, _: &[Linearity]) -> bool {
        self.n == 1
    }

    fn transpose(&self, b: &Builder<'_>, _: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        // The primitive is linear only for n = 1, so the cotangent passes unchanged.
        into.add(b, 0, ct);
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, size: usize, x: &[Atom], batched: &[bool]) -> Result<Atom> {
        elementwise::batch(b, (*self).into(), size, x, batched)
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        Lowering::Elementwise(Code::IntegerPow(self.n))
    }

    fn rewrites() -> Vec<Rewrite> {
        vec![
            Rewrite::exact(
                "integer-pow-one",
                Equality::Identity(|op, _| matches!(op, Op::IntegerPow(IntegerPow { n: 1 }))),
                "derivatives lower exponents",
            ),
            Rewrite::exact(
                "integer-pow-even",
                Equality::Compose(|outer, inner, _| match (outer, inner) {
                    (Op::IntegerPow(p), Op::Scalar(Scalar::Neg | Scalar::Abs)) if p.n % 2 == 0 => {
                        Some(vec![outer.clone()])
                    }
                    _ => None,
                }),
                "an even power does not depend on the sign",
            ),
            Rewrite {
                name: "integer-pow-power",
                rule: Equality::Compose(|outer, inner, _| match (outer, inner) {
                    (Op::IntegerPow(p), Op::IntegerPow(q)) => {
                        Some(vec![IntegerPow { n: p.n.checked_mul(q.n)? }.into()])
                    }
                    _ => None,
                }),
                when: When::Float,
                exactness: Exactness::Reassociates,
                why: "fewer products",
            },
        ]
    }

    fn samples() -> Vec<Sample> {
        let x = || Tensor::from([-3.0, -0.5, 0.1, 1.25]);
        let edge = || Tensor::from([0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e200]);
        let mut samples = Vec::new();
        for n in [-5, -2, -1, 0, 1, 2, 3, 7, 30] {
            samples.push(Sample::smooth(IntegerPow { n }, vec![x()]));
            samples.push(Sample::smooth(IntegerPow { n }, vec![Tensor::from(0.7)]));
            samples.push(Sample::edge(IntegerPow { n }, vec![edge()]));
            samples.push(Sample::edge(IntegerPow { n }, vec![Tensor::from([0.5f32, -2.0])]));
            samples.push(Sample::edge(IntegerPow { n }, vec![Tensor::from([-2i32, 0, 1, 70_000])]));
        }
        samples
    }
}
