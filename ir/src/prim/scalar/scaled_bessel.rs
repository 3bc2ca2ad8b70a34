//! `i0e{n}`, `i1e{n}`: the n-th derivatives of the scaled modified Bessel functions `e⁻|x| I₀(x)` and `e⁻|x| I₁(x)`.
//!
//! These are library functions because the first derivative, `e⁻ˣ (I₁(x) - I₀(x))` for x > 0, cancels for large x.

use super::special_function::{SpecialFunction, beyond, columns, indexed, samples_at};
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::Dtype;
use crate::math::{self, SCALED_BESSEL_ORDERS, ScaledBesselSlope};
use crate::prim::rules::expr::Expr;
use crate::prim::syntax::Word;
use crate::prim::{Code, Continuity, Doc, Family, Library, Sample, StableHlo};

/// The function whose n-th derivative is computed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum ScaledBesselKind {
    /// The function `e⁻|x| I₀(x)`.
    I0e,
    /// The function `e⁻|x| I₁(x)`.
    I1e,
}

impl Word for ScaledBesselKind {
    const ALL: &'static [ScaledBesselKind] = &[ScaledBesselKind::I0e, ScaledBesselKind::I1e];

    fn word(self) -> &'static str {
        match self {
            ScaledBesselKind::I0e => "i0e",
            ScaledBesselKind::I1e => "i1e",
        }
    }
}

/// The n-th derivative of a scaled modified Bessel function. In text: `i0e{n}`, `i1e{n}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ScaledBessel {
    /// The function that is differentiated n times.
    pub kind: ScaledBesselKind,
    /// The order of the derivative, at most [`SCALED_BESSEL_ORDERS`].
    pub n: u32,
}

notation!(ScaledBessel = kind { n });

impl SpecialFunction for ScaledBessel {
    const ARITY: usize = 1;

    fn docs() -> Vec<Doc> {
        let doc = |name: &str, math: &str, edges: &str| Doc {
            family: Family::Special,
            name: format!("{name}{{n}}"),
            math: math.into(),
            types: "floats".into(),
            derivative: format!("∂x: t · {name}{{n+1}}(x), none for n = {SCALED_BESSEL_ORDERS}"),
            edges: edges.into(),
        };
        let edges = "0 at ±inf; at the kink at 0, derivatives of e⁻|x| count as 0";
        vec![doc("i0e", "(d/dx)ⁿ e⁻|x| I₀(x)", edges), doc("i1e", "(d/dx)ⁿ e⁻|x| I₁(x)", edges)]
    }

    fn code(self) -> Result<Code> {
        if self.n > SCALED_BESSEL_ORDERS {
            let (name, n) = (self.kind.word(), self.n);
            let message =
                format!("`{name}` has derivatives up to order {SCALED_BESSEL_ORDERS}, got {n}");
            return Err(Problem::new(Kind::Arguments, message, ""));
        }
        let stablehlo = match self.n {
            0 | 1 => StableHlo::Recording,
            _ => StableHlo::CustomCall,
        };
        let code = match self.kind {
            ScaledBesselKind::I0e => indexed!(
                "i0e", 60, self.n, stablehlo, math::i0e,
                parted 0 => math::ScaledBessel<0>, 1 => ScaledBesselSlope<0>
            ),
            ScaledBesselKind::I1e => indexed!(
                "i1e", 60, self.n, stablehlo, math::i1e,
                parted 0 => math::ScaledBessel<1>, 1 => ScaledBesselSlope<1>
            ),
        };
        Ok(match code {
            // The derivatives (n > 0) have a jump at 0.
            Code::Library(library) if self.n > 0 => {
                Code::Library(Library { continuity: Continuity::Jumps, ..library })
            }
            code => code,
        })
    }

    fn partial<'b, 'm>(
        self,
        _: usize,
        t: Expr<'b, 'm>,
        x: &[Expr<'b, 'm>],
        _: Expr<'b, 'm>,
    ) -> Result<Expr<'b, 'm>> {
        if self.n == SCALED_BESSEL_ORDERS {
            let what = format!("derivatives of `{}`", self.kind.word());
            return Err(beyond(what, SCALED_BESSEL_ORDERS));
        }
        Ok(t * x[0].unary(ScaledBessel { n: self.n + 1, ..self }))
    }

    fn samples() -> Vec<Sample> {
        let smooth = [[0.7], [-2.5], [25.0], [7.5]];
        let edge =
            [[0.0], [-0.0], [f64::INFINITY], [f64::NEG_INFINITY], [f64::NAN], [1e-300], [800.0]];
        let mut samples = Vec::new();
        for kind in ScaledBesselKind::ALL.iter().copied() {
            for n in [0, 1, 2, 5] {
                samples.extend(samples_at(ScaledBessel { kind, n }, &smooth, &edge));
            }
            let last = ScaledBessel { kind, n: SCALED_BESSEL_ORDERS };
            samples.push(Sample::edge(last, columns(&smooth)));
        }
        samples
    }
}
