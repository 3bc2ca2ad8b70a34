//! `bessel_j{n}`, `bessel_y{n}`, `bessel_i{n}`: Bessel functions of integer order.
//!
//! Their derivatives are sums of the neighbouring orders. Other formulas divide by x; these do not, so
//! derivatives of every order are right at 0 too.

use super::special_function::{SpecialFunction, beyond, indexed, samples_at};
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::Dtype;
use crate::math;
use crate::prim::rules::expr::Expr;
use crate::prim::syntax::{Notation, Word};
use crate::prim::{Code, Doc, Family, Sample, ScaledBessel, ScaledBesselKind, StableHlo};

/// The kind of a Bessel function: first, second, or modified first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum BesselKind {
    /// The Bessel function of the first kind.
    J,
    /// The Bessel function of the second kind.
    Y,
    /// The modified Bessel function of the first kind.
    I,
}

impl Word for BesselKind {
    const ALL: &'static [BesselKind] = &[BesselKind::J, BesselKind::Y, BesselKind::I];

    fn word(self) -> &'static str {
        match self {
            BesselKind::J => "bessel_j",
            BesselKind::Y => "bessel_y",
            BesselKind::I => "bessel_i",
        }
    }
}

/// A Bessel function of integer order n. Its text is `bessel_*{n}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Bessel {
    /// The kind of the Bessel function.
    pub kind: BesselKind,
    /// The order n, at most [`Bessel::HIGHEST`].
    pub n: u32,
}

notation!(Bessel = kind { n });

impl Bessel {
    /// The highest order n that type inference accepts: the time of a call is proportional to the order.
    pub const HIGHEST: u32 = 100_000;
}

/// Returns the form in StableHLO of the modified Bessel function of order `n`: `Iₙ(x) = e^|x| (e⁻|x| Iₙ(x))` for the
/// orders whose scaled function has a recording.
fn scaled_back(n: u32) -> StableHlo {
    // The exponential is too large for large x, so multiply twice by its square root: the product overflows only if the
    // function does.
    fn product<'b, 'm>(x: Expr<'b, 'm>, kind: ScaledBesselKind) -> Expr<'b, 'm> {
        let root = (0.5 * x.abs()).exp();
        let value = x.unary(ScaledBessel { kind, n: 0 }) * root * root;
        let is_infinite = x.abs().eq(x.number(f64::INFINITY));
        is_infinite.select(x.sign() * root, value)
    }
    match n {
        0 => StableHlo::Formula(|x| product(x[0], ScaledBesselKind::I0e).abs()),
        1 => StableHlo::Formula(|x| product(x[0], ScaledBesselKind::I1e)),
        _ => StableHlo::CustomCall,
    }
}

impl SpecialFunction for Bessel {
    const ARITY: usize = 1;

    fn docs() -> Vec<Doc> {
        let doc = |name: &str, math: &str, derivative: &str, edges: &str| Doc {
            family: Family::Special,
            name: format!("{name}{{n}}"),
            math: math.into(),
            types: "floats".into(),
            derivative: derivative.into(),
            edges: edges.into(),
        };
        vec![
            doc(
                "bessel_j",
                "Jₙ(x)",
                "∂x: t · (bessel_j{n-1}(x) - bessel_j{n+1}(x)) / 2; -t · bessel_j{n=1}(x) for n = 0",
                "0 at ±inf",
            ),
            doc(
                "bessel_y",
                "Yₙ(x)",
                "∂x: t · (bessel_y{n-1}(x) - bessel_y{n+1}(x)) / 2; -t · bessel_y{n=1}(x) for n = 0",
                "-inf at 0, nan below, 0 at inf",
            ),
            doc(
                "bessel_i",
                "Iₙ(x)",
                "∂x: t · (bessel_i{n-1}(x) + bessel_i{n+1}(x)) / 2; t · bessel_i{n=1}(x) for n = 0",
                "±inf at ±inf, by the parity of n",
            ),
        ]
    }

    fn code(self) -> Result<Code> {
        if self.n > Bessel::HIGHEST {
            let (name, n, highest) = (self.name(), self.n, Bessel::HIGHEST);
            return Err(Problem::new(
                Kind::Arguments,
                format!("`{name}` is defined for orders up to {highest}, got {n}"),
                "for an order that large the function is 0 or infinite at most arguments",
            ));
        }
        Ok(match self.kind {
            BesselKind::J => {
                indexed!("bessel_j", 40, self.n, StableHlo::CustomCall, math::bessel_j)
            }
            BesselKind::Y => {
                indexed!("bessel_y", 40, self.n, StableHlo::CustomCall, math::bessel_y)
            }
            BesselKind::I => indexed!(
                "bessel_i", 80, self.n, scaled_back(self.n), math::bessel_i,
                parted 0 => math::BesselI<0>, 1 => math::BesselI<1>
            ),
        })
    }

    fn partial<'b, 'm>(
        self,
        _: usize,
        t: Expr<'b, 'm>,
        x: &[Expr<'b, 'm>],
        _: Expr<'b, 'm>,
    ) -> Result<Expr<'b, 'm>> {
        if self.n == Bessel::HIGHEST {
            return Err(beyond("derivatives of Bessel functions".to_owned(), Bessel::HIGHEST));
        }
        let order = |n: u32| x[0].unary(Bessel { kind: self.kind, n });
        let alternates = matches!(self.kind, BesselKind::J | BesselKind::Y);
        let above = order(self.n + 1);
        let slope = match (self.n.checked_sub(1), alternates) {
            (None, true) => -above,
            (None, false) => above,
            (Some(n), true) if self.kind == BesselKind::Y => {
                // Near 0 the function of the higher order may be -∞; it then exceeds that of the lower order by
                // far, so the lower order is left out.
                let infinite = above.eq(above.number(f64::NEG_INFINITY));
                let inside = infinite.select(x[0].number(1.0), x[0]);
                let below = inside.unary(Bessel { kind: self.kind, n });
                0.5 * (infinite.select(above.number(0.0), below) - above)
            }
            (Some(n), true) => 0.5 * (order(n) - above),
            // Add the two halves: the sum of both functions would overflow before the derivative does.
            (Some(n), false) => 0.5 * order(n) + 0.5 * above,
        };
        Ok(t * slope)
    }

    fn samples() -> Vec<Sample> {
        let edge =
            [[0.0], [-0.0], [f64::INFINITY], [f64::NEG_INFINITY], [f64::NAN], [1e-300], [800.0]];
        let mut samples = Vec::new();
        for n in [0, 1, 2, 7] {
            for kind in [BesselKind::J, BesselKind::I] {
                let smooth = [[0.7], [-2.5], [25.0], [7.5]];
                samples.extend(samples_at(Bessel { kind, n }, &smooth, &edge));
            }
            let smooth = [[0.7], [2.5], [25.0]];
            samples.extend(samples_at(Bessel { kind: BesselKind::Y, n }, &smooth, &edge));
        }
        samples
    }
}
