//! `zeta{n}`: the n-th derivative of Hurwitz's zeta function `ζ(s, q)` in s.

use super::special_function::{SpecialFunction, beyond, called, columns, samples_at};
use crate::lang::problem::{Kind, Problem, Result};
use crate::math::{self, ZETA_ORDERS};
use crate::prim::rules::expr::Expr;
use crate::prim::{Code, Doc, Family, LibraryFn, Sample, StableHlo};

/// The n-th derivative of Hurwitz's zeta function in s. Its text is `zeta{n}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Zeta {
    /// The order of the derivative in s, at most [`ZETA_ORDERS`].
    pub n: u32,
}

notation!(Zeta = "zeta" { n });

/// Returns the code that calls the library function for the derivative of order `N` in s.
fn order<const N: u32>(name: &'static str) -> Code {
    extern "C" fn wide<const N: u32>(s: f64, q: f64) -> f64 {
        math::zeta(N, s, q)
    }
    extern "C" fn narrow<const N: u32>(s: f32, q: f32) -> f32 {
        math::zeta(N, s.into(), q.into()) as f32
    }
    let stablehlo = match N {
        0 => StableHlo::Operation("chlo.zeta"),
        _ => StableHlo::CustomCall,
    };
    let function = LibraryFn::Binary { f64: wide::<N>, f32: narrow::<N>, recording: |_| None };
    called(name, 200, stablehlo, function)
}

impl SpecialFunction for Zeta {
    const ARITY: usize = 2;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Special,
            name: "zeta{n}".into(),
            math: "∂ⁿζ(x, y)/∂xⁿ, ζ(x, y) = Σₖ (y + k)⁻ˣ".into(),
            types: "floats".into(),
            derivative: format!(
                "∂x: t · zeta{{n+1}}(x, y), none for n = {ZETA_ORDERS}; ∂y: -t · (x · zeta{{n}}(x + 1, y) + n · zeta{{n-1}}(x + 1, y))"
            ),
            edges: "nan for x < 1; inf at x = 1 and at the poles y = 0, -1, …; for other y < 0 nan unless x is an integer and n = 0"
                .into(),
        }]
    }

    fn code(self) -> Result<Code> {
        Ok(match self.n {
            0 => order::<0>("zeta"),
            1 => order::<1>("zeta_1"),
            2 => order::<2>("zeta_2"),
            3 => order::<3>("zeta_3"),
            4 => order::<4>("zeta_4"),
            n => {
                let message = format!("`zeta` has derivatives up to order {ZETA_ORDERS}, got {n}");
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
        let (s, q) = (x[0], x[1]);
        if i == 0 {
            if self.n == ZETA_ORDERS {
                return Err(beyond("derivatives of `zeta` in s".to_owned(), ZETA_ORDERS));
            }
            return Ok(t * s.binary(Zeta { n: self.n + 1 }, q));
        }
        let above = s + 1.0;
        let slope = s * above.binary(self, q);
        Ok(match self.n.checked_sub(1) {
            Some(n) => -(t * (slope + f64::from(self.n) * above.binary(Zeta { n }, q))),
            None => -(t * slope),
        })
    }

    fn samples() -> Vec<Sample> {
        let smooth = [[1.5, 0.3], [2.0, 1.0], [3.5, 12.0], [7.0, 0.9]];
        let edge = [
            [1.0, 2.0],
            [0.5, 1.0],
            [2.0, 0.0],
            [2.0, -1.0],
            [2.0, -0.5],
            [2.5, -0.5],
            [f64::INFINITY, 1.0],
            [2.0, f64::INFINITY],
            [f64::NAN, 1.0],
            [2.0, f64::NAN],
        ];
        let mut samples: Vec<Sample> =
            (0..=2).flat_map(|n| samples_at(Zeta { n }, &smooth, &edge)).collect();
        samples.push(Sample::edge(Zeta { n: ZETA_ORDERS }, columns(&smooth)));
        samples
    }
}
