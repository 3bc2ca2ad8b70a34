//! `polygamma{n}`: the n-th derivative of `digamma`.
//!
//! With this primitive, `lgamma` has derivatives of every order: each derivative raises `n` by one.

use super::special_function::{SpecialFunction, indexed, samples_at};
use crate::lang::problem::Result;
use crate::lang::types::Dtype;
use crate::math;
use crate::prim::rules::expr::Expr;
use crate::prim::{Code, Doc, Family, Sample, StableHlo};

/// The n-th derivative of `digamma`. Its text is `polygamma{n}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Polygamma {
    /// The order of the derivative; 0 is `digamma` itself.
    pub n: u32,
}

notation!(Polygamma = "polygamma" { n });

impl SpecialFunction for Polygamma {
    const ARITY: usize = 1;

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

    fn code(self) -> Result<Code> {
        let stablehlo = StableHlo::Operation("chlo.polygamma");
        Ok(indexed!("polygamma", 32, self.n, stablehlo, math::polygamma))
    }

    fn partial<'b, 'm>(
        self,
        _: usize,
        t: Expr<'b, 'm>,
        x: &[Expr<'b, 'm>],
        _: Expr<'b, 'm>,
    ) -> Result<Expr<'b, 'm>> {
        Ok(t * x[0].unary(Polygamma { n: self.n.saturating_add(1) }))
    }

    fn samples() -> Vec<Sample> {
        let smooth = [[0.05], [0.9], [2.5], [12.0]];
        let edge = [[0.0], [-1.0], [-0.5], [f64::INFINITY], [f64::NAN], [1e-300]];
        [0, 1, 2, 5].into_iter().flat_map(|n| samples_at(Polygamma { n }, &smooth, &edge)).collect()
    }
}
