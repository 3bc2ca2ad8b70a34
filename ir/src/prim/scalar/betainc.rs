//! `betainc{m, n}`: the derivative of the incomplete beta function `I(a, b, x)` of order m in a and n in b.
//!
//! Derivatives with respect to a and b raise m and n. The derivative with respect to x is the derivative of the density
//! in a and b. The logarithm of the density has the derivatives `u = ln x - ψ(a) + ψ(a + b)` in a,
//! `v = ln(1 - x) - ψ(b) + ψ(a + b)` in b, and higher ones that are differences of polygamma functions. So the result
//! is the density times the complete Bell polynomial in these derivatives.

use super::Scalar;
use super::special_function::{SpecialFunction, beyond, called, columns, samples_at};
use crate::lang::problem::{Kind, Problem, Result};
use crate::math::{self, BETAINC_ORDERS};
use crate::prim::rules::expr::Expr;
use crate::prim::{Code, Doc, Family, LibraryFn, Op, Polygamma, Sample, StableHlo};

/// The derivative of the incomplete beta function `I(a, b, x)` of order m in a and n in b. Its text is `betainc{m, n}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Betainc {
    /// The order m of the derivative in a.
    pub m: u32,
    /// The order n of the derivative in b; `m + n` is at most [`BETAINC_ORDERS`].
    pub n: u32,
}

notation!(Betainc = "betainc" { m, n });

/// Returns the code that calls the library function for the derivative of order `M` in a and `N` in b.
fn order<const M: u32, const N: u32>(name: &'static str) -> Code {
    extern "C" fn wide<const M: u32, const N: u32>(a: f64, b: f64, x: f64) -> f64 {
        math::betainc(M, N, a, b, x)
    }
    extern "C" fn narrow<const M: u32, const N: u32>(a: f32, b: f32, x: f32) -> f32 {
        math::betainc(M, N, a.into(), b.into(), x.into()) as f32
    }
    let function = LibraryFn::Ternary { f64: wide::<M, N>, f32: narrow::<M, N> };
    called(name, 1200, StableHlo::CustomCall, function)
}

impl SpecialFunction for Betainc {
    const ARITY: usize = 3;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Special,
            name: "betainc{m, n}".into(),
            math: "∂ᵐ⁺ⁿI/∂xᵐ∂yⁿ, I(x, y, z) = 1/B(x, y) ∫₀ᶻ sˣ⁻¹ (1 - s)ʸ⁻¹ ds".into(),
            types: "floats".into(),
            derivative: format!(
                "∂x: t · betainc{{m+1, n}}(x, y, z); ∂y: t · betainc{{m, n+1}}(x, y, z), none for m + n = {BETAINC_ORDERS}; ∂z: t · ∂ᵐ⁺ⁿbeta_density(x, y, z)/∂xᵐ∂yⁿ"
            ),
            edges: "nan for negative x or y and for z outside [0, 1]; between, 1 for x = 0 or y = inf and 0 for y = 0 or x = inf"
                .into(),
        }]
    }

    fn code(self) -> Result<Code> {
        Ok(match (self.m, self.n) {
            (0, 0) => order::<0, 0>("betainc"),
            (1, 0) => order::<1, 0>("betainc_1_0"),
            (0, 1) => order::<0, 1>("betainc_0_1"),
            (2, 0) => order::<2, 0>("betainc_2_0"),
            (1, 1) => order::<1, 1>("betainc_1_1"),
            (0, 2) => order::<0, 2>("betainc_0_2"),
            (3, 0) => order::<3, 0>("betainc_3_0"),
            (2, 1) => order::<2, 1>("betainc_2_1"),
            (1, 2) => order::<1, 2>("betainc_1_2"),
            (0, 3) => order::<0, 3>("betainc_0_3"),
            (4, 0) => order::<4, 0>("betainc_4_0"),
            (3, 1) => order::<3, 1>("betainc_3_1"),
            (2, 2) => order::<2, 2>("betainc_2_2"),
            (1, 3) => order::<1, 3>("betainc_1_3"),
            (0, 4) => order::<0, 4>("betainc_0_4"),
            (m, n) => {
                let message = format!(
                    "`betainc` has derivatives in its parameters up to order {BETAINC_ORDERS} together, got {m} and {n}"
                );
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
        let (a, b, x) = (x[0], x[1], x[2]);
        if i < 2 {
            if self.m + self.n == BETAINC_ORDERS {
                let what = "derivatives of `betainc` in its parameters".to_owned();
                return Err(beyond(what, BETAINC_ORDERS));
            }
            let next = Betainc { m: self.m + u32::from(i == 0), n: self.n + u32::from(i == 1) };
            return Ok(t * a.ternary(next, b, x));
        }
        let density = a.ternary(Scalar::BetaDensity, b, x);
        if (self.m, self.n) == (0, 0) {
            return Ok(t * density);
        }
        // Where the density is 0, it is 0 for neighbouring a and b too, so replace x, at which a logarithm may be
        // infinite.
        let x = density.eq(density.number(0.0)).select(x.number(0.5), x);
        Ok(t * (density * weight(self.m as usize, self.n as usize, a, b, x)))
    }

    fn samples() -> Vec<Sample> {
        let smooth = [
            [0.3, 0.6, 0.2],
            [1.0, 1.5, 0.7],
            [2.5, 4.0, 0.5],
            [40.0, 35.0, 0.6],
            [0.5, 0.5, 0.95],
        ];
        let edge = [
            [0.0, 1.0, 0.5],
            [1.0, 0.0, 0.5],
            [0.0, 0.0, 0.5],
            [1.0, 2.0, 0.0],
            [1.0, 2.0, 1.0],
            [0.5, 0.5, 0.0],
            [0.5, 0.5, 1.0],
            [-1.0, 1.0, 0.5],
            [1.0, 1.0, -0.5],
            [1.0, 1.0, 1.5],
            [f64::INFINITY, 1.0, 0.5],
            [1.0, f64::INFINITY, 0.5],
            [f64::NAN, 1.0, 0.5],
            [1.0, 1.0, f64::NAN],
            [1e-300, 1e-300, 1e-300],
            [1e300, 1e300, 0.5],
        ];
        // Orders for smooth samples: the tests over all primitives differentiate twice, and a derivative raises the
        // orders.
        let orders = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0)];
        let mut samples: Vec<Sample> = orders
            .into_iter()
            .flat_map(|(m, n)| samples_at(Betainc { m, n }, &smooth, &edge))
            .collect();
        samples.push(Sample::edge(Betainc { m: 1, n: 3 }, columns(&smooth)));
        samples
    }
}

/// Returns the factor `W(m, n) = ∂ᵐ⁺ⁿp/∂aᵐ∂bⁿ / p` of the beta density p with the parameters a and b at x, by `W(i + 1,
/// j) = Σ binom(i, k) binom(j, l) W(i - k, j - l) slope(k + 1, l)`, summed over k ≤ i and l ≤ j, with `slope(k, l) =
/// ∂ᵏ⁺ˡ ln p / ∂aᵏ∂bˡ`.
fn weight<'b, 'm>(
    m: usize,
    n: usize,
    a: Expr<'b, 'm>,
    b: Expr<'b, 'm>,
    x: Expr<'b, 'm>,
) -> Expr<'b, 'm> {
    let of = |n: usize, x: Expr<'b, 'm>| {
        let op: Op = if n == 0 { Scalar::Digamma.into() } else { Polygamma { n: n as u32 }.into() };
        x.unary(op)
    };
    // Returns `∂ᵏ⁺ˡ ln p / ∂aᵏ∂bˡ` for the density p: a difference of polygamma functions.
    let slope = |k: usize, l: usize| {
        let both = of(k + l - 1, a + b);
        match (k, l) {
            (1, 0) => x.log() - (of(0, a) - both),
            (0, 1) => (-x).log1p() - (of(0, b) - both),
            (k, 0) => both - of(k - 1, a),
            (0, l) => both - of(l - 1, b),
            _ => both,
        }
    };
    // The table of W(i, j), each computed from smaller indices; `None` stands for W(0, 0) = 1.
    let mut w: Vec<Vec<Option<Expr<'b, 'm>>>> = vec![vec![None; n + 1]; m + 1];
    for i in 0..=m {
        for j in 0..=n {
            // Apply the recurrence to i if i > 0, otherwise to j.
            let (ks, ls) = if i > 0 { (i, j + 1) } else { (1, j) };
            let mut sum: Option<Expr<'b, 'm>> = None;
            for k in 0..ks {
                for l in 0..ls {
                    let (factor, order, rest) = if i > 0 {
                        (choose(i - 1, k) * choose(j, l), (k + 1, l), (i - 1 - k, j - l))
                    } else {
                        (choose(j - 1, l), (0, l + 1), (0, j - 1 - l))
                    };
                    let mut term = slope(order.0, order.1);
                    if let Some(rest) = w[rest.0][rest.1] {
                        term = term * rest;
                    }
                    if factor != 1.0 {
                        term = factor * term;
                    }
                    sum = Some(sum.map_or(term, |sum| sum + term));
                }
            }
            w[i][j] = sum;
        }
    }
    w[m][n].unwrap_or(x.number(1.0))
}

/// Returns the binomial coefficient `binom(n, k)`.
fn choose(n: usize, k: usize) -> f64 {
    (0..k).fold(1.0, |c, i| c * (n - i) as f64 / (i + 1) as f64)
}
