//! `spence{n}`: the n-th derivative of the dilogarithm `Li₂(1 - x)`.
//!
//! The first derivative, `ln x / (1 - x)`, has a removable singularity at 1, where a formula of primitives
//! would return NaN.

use super::special_function::{SpecialFunction, beyond, columns, indexed, samples_at};
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::Dtype;
use crate::math::{self, SPENCE_ORDERS};
use crate::prim::rules::expr::Expr;
use crate::prim::{Code, Doc, Family, Sample, StableHlo};

/// The n-th derivative of the dilogarithm `Li₂(1 - x)`. Its text is `spence{n}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Spence {
    /// The order of the derivative, at most [`SPENCE_ORDERS`].
    pub n: u32,
}

notation!(Spence = "spence" { n });

impl SpecialFunction for Spence {
    const ARITY: usize = 1;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Special,
            name: "spence{n}".into(),
            math: "(d/dx)ⁿ ∫₁ˣ ln s / (1 - s) ds".into(),
            types: "floats".into(),
            derivative: format!("∂x: t · spence{{n+1}}(x), none for n = {SPENCE_ORDERS}"),
            edges: "nan below 0; π²/6 at 0, where derivatives are infinite; -inf at inf".into(),
        }]
    }

    fn code(self) -> Result<Code> {
        if self.n > SPENCE_ORDERS {
            return Err(Problem::new(
                Kind::Arguments,
                format!("`spence` has derivatives up to order {SPENCE_ORDERS}, got {}", self.n),
                "",
            ));
        }
        Ok(indexed!("spence", 40, self.n, StableHlo::CustomCall, math::spence))
    }

    fn partial<'b, 'm>(
        self,
        _: usize,
        t: Expr<'b, 'm>,
        x: &[Expr<'b, 'm>],
        _: Expr<'b, 'm>,
    ) -> Result<Expr<'b, 'm>> {
        if self.n == SPENCE_ORDERS {
            return Err(beyond("derivatives of `spence`".to_owned(), SPENCE_ORDERS));
        }
        Ok(t * x[0].unary(Spence { n: self.n + 1 }))
    }

    fn samples() -> Vec<Sample> {
        let smooth = [[0.05], [0.7], [1.0], [1.3], [2.5], [12.0]];
        let edge = [[0.0], [-1.0], [f64::INFINITY], [f64::NAN], [1e-300], [1e300]];
        let mut samples: Vec<Sample> = [0, 1, 2, 5]
            .into_iter()
            .flat_map(|n| samples_at(Spence { n }, &smooth, &edge))
            .collect();
        samples.push(Sample::edge(Spence { n: SPENCE_ORDERS }, columns(&smooth)));
        samples
    }
}
