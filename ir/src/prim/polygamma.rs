//! `polygamma{n}`: the n-th derivative of `digamma`.
//!
//! It exists so that `lgamma` has derivatives of every order: each raises `n` by one.

use super::{
    Arg, Attr, Attributes, Batched, Code, Cotangents, Discharge, Doc, Dual, Effects, Family,
    Library, LibraryFn, Linearity, Lowering, Operand, Primitive, Prune, Regions, Rewrite, RuleCx,
    Sample, SignOf, Types, elementwise,
};
use crate::function::Atom;
use crate::math;
use crate::module::Module;
use crate::prim::expr::Expr;
use crate::problem::{Kind, Problem};
use crate::tensor::Tensor;

/// `polygamma{n}`
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Polygamma {
    /// The order of the derivative; 0 is `digamma` itself.
    pub n: u32,
}

impl Polygamma {
    fn code(self) -> Code {
        extern "C" fn wide(n: u32, x: f64) -> f64 {
            math::polygamma(n, x)
        }
        extern "C" fn narrow(n: u32, x: f32) -> f32 {
            math::polygamma(n, f64::from(x)) as f32
        }
        let function = LibraryFn::Indexed { n: self.n, f64: wide, f32: narrow };
        Code::Library(Library { name: "polygamma", flops: 32, sign: SignOf::Unknown, function })
    }
}

impl Primitive for Polygamma {
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

    fn name(&self) -> &'static str {
        "polygamma"
    }

    fn attributes(&self) -> Vec<(&'static str, Attr)> {
        vec![("n", Attr::Int(i64::from(self.n)))]
    }

    fn parse(name: &str, attributes: &mut Attributes) -> Option<Result<Polygamma, Problem>> {
        (name == "polygamma").then(|| {
            let n = attributes.int("n")?;
            let n = u32::try_from(n).map_err(|_| {
                Problem::new(Kind::Parse, format!("the order {n} is not a natural number"), "")
            })?;
            Ok(Polygamma { n })
        })
    }

    fn outputs(&self, _: &Module) -> usize {
        1
    }

    fn infer(&self, _: &Module, operands: &[Operand<'_>]) -> Result<Types, Problem> {
        let (shape, dtypes) = elementwise::common_shape("polygamma", operands)?;
        match dtypes.as_slice() {
            [d] if d.is_float() => Ok(elementwise::one_type(*d, shape)),
            _ => Err(Problem::new(Kind::Dtype, "`polygamma` takes one operand, a float", "")),
        }
    }

    fn eval(&self, _: &Module, operands: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
        elementwise::eval(self.code(), operands)
    }

    fn jvp(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        let y = cx.b.emit1(*self, x);
        let Some(t) = dx[0] else { return Ok(Dual::one(y, None)) };
        let next = Polygamma { n: self.n.saturating_add(1) };
        let dy = Expr::new(cx.b, t) * Expr::new(cx.b, x[0]).unary(next);
        Ok(Dual::one(y, Some(dy.atom)))
    }

    fn is_linear(&self, _: &Module, _: &[Linearity]) -> bool {
        false
    }

    fn transpose(
        &self,
        _: &mut RuleCx<'_, '_>,
        _: &[Arg],
        _: &[Option<Atom>],
        _: &mut Cotangents,
    ) -> Result<(), Problem> {
        Err(Problem::internal("`polygamma` is not linear"))
    }

    fn batch(
        &self,
        cx: &mut RuleCx<'_, '_>,
        size: usize,
        x: &[Atom],
        batched: &[bool],
    ) -> Result<Batched, Problem> {
        elementwise::batch(cx, (*self).into(), size, x, batched)
    }

    fn discharge(&self) -> Discharge {
        Discharge::Stateless
    }

    fn body(&self) -> super::Body {
        super::Body::None
    }

    fn prune(&self, _: &mut dyn Regions, _: &mut Module, _: &[bool]) -> Result<Prune, Problem> {
        Ok(Prune::Whole)
    }

    fn lower(&self, _: &Module, _: &[Operand<'_>]) -> Lowering {
        Lowering::Elementwise(self.code())
    }

    fn effects(&self, _: &Module) -> Effects {
        Effects::Pure
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples(_: &mut Module) -> Vec<Sample> {
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
