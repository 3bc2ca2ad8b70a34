//! `gammainc{n}`: the n-th derivative of the incomplete gamma function `P(a, x)` in a.
//!
//! Each derivative in a raises n by one. The derivative with respect to x is the derivative of the density in a. The
//! logarithm of the density has the derivatives `u = ln x - ψ(a)`, `-ψ'(a)`, `-ψ''(a)`, … in a, so the result is the
//! density times a polynomial in these derivatives.

use super::Scalar;
use super::special_function::{SpecialFunction, beyond, called, columns, samples_at};
use crate::lang::problem::{Kind, Problem, Result};
use crate::math::{self, GAMMAINC_ORDERS};
use crate::prim::rules::expr::Expr;
use crate::prim::{Code, Doc, Family, LibraryFn, Polygamma, Sample, StableHlo};

/// The n-th derivative in a of the incomplete gamma function `P(a, x)`. Its text is `gammainc{n}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Gammainc {
    /// The order of the derivative in a, at most [`GAMMAINC_ORDERS`].
    pub n: u32,
}

notation!(Gammainc = "gammainc" { n });

/// Returns the code that calls the library function for the derivative of order `N` in a.
fn order<const N: u32>(name: &'static str) -> Code {
    extern "C" fn wide<const N: u32>(a: f64, x: f64) -> f64 {
        math::gammainc(N, a, x)
    }
    extern "C" fn narrow<const N: u32>(a: f32, x: f32) -> f32 {
        math::gammainc(N, a.into(), x.into()) as f32
    }
    let function = LibraryFn::Binary { f64: wide::<N>, f32: narrow::<N>, recording: |_| None };
    called(name, 800, StableHlo::CustomCall, function)
}

impl SpecialFunction for Gammainc {
    const ARITY: usize = 2;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Special,
            name: "gammainc{n}".into(),
            math: "∂ⁿP(x, y)/∂xⁿ, P(x, y) = 1/Γ(x) ∫₀ʸ sˣ⁻¹ e⁻ˢ ds".into(),
            types: "floats".into(),
            derivative: format!(
                "∂x: t · gammainc{{n+1}}(x, y), none for n = {GAMMAINC_ORDERS}; ∂y: t · ∂ⁿgamma_density(x, y)/∂xⁿ"
            ),
            edges: "nan for negative operands; at x = 0 and y = inf 1, at y = 0 and x = inf 0, nan where both meet"
                .into(),
        }]
    }

    fn code(self) -> Result<Code> {
        Ok(match self.n {
            0 => order::<0>("gammainc"),
            1 => order::<1>("gammainc_1"),
            2 => order::<2>("gammainc_2"),
            3 => order::<3>("gammainc_3"),
            4 => order::<4>("gammainc_4"),
            n => {
                let message =
                    format!("`gammainc` has derivatives up to order {GAMMAINC_ORDERS}, got {n}");
                return Err(Problem::new(Kind::Arguments, message, ""));
            }
        })
    }

    fn partial<'b, 'm>(
        self,
        i: usize,
        t: Expr<'b, 'm>,
        x: &[Expr<'b, 'm>],
        _: Expr<'b, 'm>,
    ) -> Result<Expr<'b, 'm>> {
        let (a, x) = (x[0], x[1]);
        if i == 0 {
            if self.n == GAMMAINC_ORDERS {
                let what = "derivatives of `gammainc` in its parameter".to_owned();
                return Err(beyond(what, GAMMAINC_ORDERS));
            }
            return Ok(t * a.binary(Gammainc { n: self.n + 1 }, x));
        }
        let density = a.binary(Scalar::GammaDensity, x);
        if self.n == 0 {
            return Ok(t * density);
        }
        // If the density is 0 at a, it is also 0 for neighbouring a, so the derivative is 0. Replace x there, because
        // its logarithm may be infinite.
        let inside = density.eq(density.number(0.0)).select(x.number(1.0), x);
        let u = inside.log() - a.digamma();
        let slope = |k: u32| -a.unary(Polygamma { n: k });
        let weight = match self.n {
            1 => u,
            2 => u * u + slope(1),
            3 => u * (u * u + 3.0 * slope(1)) + slope(2),
            _ => {
                let s = slope(1);
                u * (u * (u * u + 6.0 * s) + 4.0 * slope(2)) + (3.0 * (s * s) + slope(3))
            }
        };
        Ok(t * (density * weight))
    }

    fn samples() -> Vec<Sample> {
        let smooth = [[0.3, 0.2], [1.0, 1.5], [2.5, 0.7], [2.5, 6.0], [40.0, 35.0]];
        let edge = [
            [0.0, 1.0],
            [0.0, 0.0],
            [1.0, 0.0],
            [0.5, 0.0],
            [-1.0, 1.0],
            [1.0, -1.0],
            [2.0, f64::INFINITY],
            [f64::INFINITY, 2.0],
            [f64::INFINITY, f64::INFINITY],
            [f64::NAN, 1.0],
            [1.0, f64::NAN],
            [1e-300, 1e-300],
            [1e300, 1e300],
        ];
        // Orders for smooth samples: the tests over all primitives differentiate twice, and a derivative raises the
        // order.
        let mut samples: Vec<Sample> =
            (0..=2).flat_map(|n| samples_at(Gammainc { n }, &smooth, &edge)).collect();
        samples.push(Sample::edge(Gammainc { n: GAMMAINC_ORDERS }, columns(&smooth)));
        samples
    }
}
