//! `expn{n}`: the exponential integral of order n. Each derivative lowers the order. The derivative of order 0 is
//! elementary.

use super::special_function::{SpecialFunction, indexed, samples_at};
use crate::lang::problem::Result;
use crate::lang::types::Dtype;
use crate::math;
use crate::prim::rules::expr::Expr;
use crate::prim::{Code, Doc, Family, Sample, StableHlo};

/// The exponential integral of order n. Its text is `expn{n}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Expn {
    /// The order n of the exponential integral `Eₙ(x)`.
    pub n: u32,
}

notation!(Expn = "expn" { n });

impl SpecialFunction for Expn {
    const ARITY: usize = 1;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Special,
            name: "expn{n}".into(),
            math: "Eₙ(x) = ∫₁^∞ e⁻ˣˢ / sⁿ ds".into(),
            types: "floats".into(),
            derivative: "∂x: -t · expn{n-1}(x); -t · f · (1 + 1/x) for n = 0".into(),
            edges: "nan below 0; at 0 1/(n - 1), and inf for n < 2; 0 at inf".into(),
        }]
    }

    fn code(self) -> Result<Code> {
        Ok(indexed!("expn", 100, self.n, StableHlo::CustomCall, math::expn))
    }

    fn partial<'b, 'm>(
        self,
        _: usize,
        t: Expr<'b, 'm>,
        x: &[Expr<'b, 'm>],
        y: Expr<'b, 'm>,
    ) -> Result<Expr<'b, 'm>> {
        Ok(match self.n.checked_sub(1) {
            Some(n) => -(t * x[0].unary(Expn { n })),
            None => -(t * (y * (1.0 + 1.0 / x[0]))),
        })
    }

    fn samples() -> Vec<Sample> {
        let smooth = [[0.05], [0.9], [1.5], [12.0]];
        let edge = [[0.0], [-1.0], [1.0], [f64::INFINITY], [f64::NAN], [1e-300], [745.0]];
        [0, 1, 2, 5].into_iter().flat_map(|n| samples_at(Expn { n }, &smooth, &edge)).collect()
    }
}
