//! `erfcx{n}`, `dawsn{n}`: the n-th derivatives of the scaled complementary error function and of Dawson's integral.
//!
//! These are library functions because their first derivatives, `2 x f - 2/√π` and `1 - 2 x f`, cancel for
//! large x.

use super::special_function::{SpecialFunction, beyond, columns, indexed, samples_at};
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::Dtype;
use crate::math::{self, SCALED_ERF_ORDERS};
use crate::prim::rules::expr::Expr;
use crate::prim::syntax::Word;
use crate::prim::{Code, Doc, Family, Sample, StableHlo};

/// The function whose n-th derivative is computed: `erfcx` or `dawsn`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum ScaledErfKind {
    /// The scaled complementary error function `eˣ² erfc x`.
    Erfcx,
    /// Dawson's integral `e⁻ˣ² ∫₀ˣ eˢ² ds`.
    Dawsn,
}

impl Word for ScaledErfKind {
    const ALL: &'static [ScaledErfKind] = &[ScaledErfKind::Erfcx, ScaledErfKind::Dawsn];

    fn word(self) -> &'static str {
        match self {
            ScaledErfKind::Erfcx => "erfcx",
            ScaledErfKind::Dawsn => "dawsn",
        }
    }
}

/// The n-th derivative of the scaled complementary error function or of Dawson's integral. Its text is `erfcx{n}`,
/// `dawsn{n}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ScaledErf {
    /// The function that is differentiated n times.
    pub kind: ScaledErfKind,
    /// The order of the derivative, at most [`SCALED_ERF_ORDERS`].
    pub n: u32,
}

notation!(ScaledErf = kind { n });

impl SpecialFunction for ScaledErf {
    const ARITY: usize = 1;

    fn docs() -> Vec<Doc> {
        let doc = |name: &str, math: &str, edges: &str| Doc {
            family: Family::Special,
            name: format!("{name}{{n}}"),
            math: math.into(),
            types: "floats".into(),
            derivative: format!("∂x: t · {name}{{n+1}}(x), none for n = {SCALED_ERF_ORDERS}"),
            edges: edges.into(),
        };
        vec![
            doc("erfcx", "(d/dx)ⁿ exp(x²) erfc x", "±inf below -26.6, 0 at inf"),
            doc("dawsn", "(d/dx)ⁿ exp(-x²) ∫₀ˣ exp(s²) ds", "0 at ±inf"),
        ]
    }

    fn code(self) -> Result<Code> {
        if self.n > SCALED_ERF_ORDERS {
            let (name, n) = (self.kind.word(), self.n);
            let message =
                format!("`{name}` has derivatives up to order {SCALED_ERF_ORDERS}, got {n}");
            return Err(Problem::new(Kind::Arguments, message, ""));
        }
        Ok(match self.kind {
            ScaledErfKind::Erfcx => {
                indexed!("erfcx", 60, self.n, StableHlo::CustomCall, math::erfcx)
            }
            ScaledErfKind::Dawsn => {
                indexed!("dawsn", 200, self.n, StableHlo::CustomCall, math::dawsn)
            }
        })
    }

    fn partial<'b, 'm>(
        self,
        _: usize,
        t: Expr<'b, 'm>,
        x: &[Expr<'b, 'm>],
        _: Expr<'b, 'm>,
    ) -> Result<Expr<'b, 'm>> {
        if self.n == SCALED_ERF_ORDERS {
            let what = format!("derivatives of `{}`", self.kind.word());
            return Err(beyond(what, SCALED_ERF_ORDERS));
        }
        Ok(t * x[0].unary(ScaledErf { n: self.n + 1, ..self }))
    }

    fn samples() -> Vec<Sample> {
        let smooth = [[0.05], [-0.7], [1.3], [-2.5], [5.5], [12.0]];
        let edge =
            [[0.0], [-0.0], [-30.0], [f64::INFINITY], [f64::NEG_INFINITY], [f64::NAN], [1e300]];
        let mut samples = Vec::new();
        for kind in ScaledErfKind::ALL.iter().copied() {
            for n in [0, 1, 2, 5] {
                samples.extend(samples_at(ScaledErf { kind, n }, &smooth, &edge));
            }
            let last = ScaledErf { kind, n: SCALED_ERF_ORDERS };
            samples.push(Sample::edge(last, columns(&smooth)));
        }
        samples
    }
}
