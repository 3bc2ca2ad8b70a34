//! Exponential integrals, the dilogarithm, Hurwitz's zeta function, Kummer's function and variants of erfc, element
//! by element.
//!
//! The chapter *Special functions* of the book lists accuracies.

use super::composite::of_floats;
use super::emit;
use crate::Var;
use crate::var::{IntoVar, caller};
use tapeloom_ir::prim::{Expn, ScaledErf, ScaledErfKind, Spence, Zeta};
use tapeloom_ir::{Scalar, trace};

/// Functions that are integrals and sums. Errors: `dtype` if an operand is not a float.
impl Var {
    /// Returns E₁(x) = ∫ e⁻ᵗ/t dt from x to ∞, the exponential integral: inf at 0, nan for x < 0. It has
    /// derivatives of every order.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let (y, slope) = run(value_and_grad(|x: Var| x.exp1()), 1.0)?;
    /// assert!((y.item::<f64>()? - 0.219383934395520).abs() < 1e-15);
    /// assert_eq!(slope.item::<f64>()?, -(-1.0f64).exp());
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn exp1(self) -> Var {
        let at = caller();
        trace::within("exp1", || emit(Expn { n: 1 }, &[self], at))
    }

    /// Returns Eₙ(x) = ∫₁^∞ e⁻ˣᵗ/tⁿ dt, the exponential integral of order n. At 0 it is 1/(n - 1), or inf for n <
    /// 2; it is nan for x < 0.
    ///
    /// The derivative is -Eₙ₋₁; there are derivatives of every order.
    #[doc(alias = "expint")]
    #[track_caller]
    pub fn expn(self, n: u32) -> Var {
        let at = caller();
        trace::within("expn", || emit(Expn { n }, &[self], at))
    }

    /// Returns Ei(x), the principal value of ∫ eᵗ/t dt from -∞ to x: -inf at 0, inf from 716.4 on. It has
    /// derivatives of every order.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let root = run(|x: Var| x.expi(), 0.3725074107813666)?.item::<f64>()?;
    /// assert!(root.abs() < 1e-15);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn expi(self) -> Var {
        let at = caller();
        trace::within("expi", || emit(Scalar::Expi, &[self], at))
    }

    /// Returns ∫ ln t/(1 - t) dt from 1 to x, Spence's function with the sign of scipy and JAX: the dilogarithm
    /// Li₂(1 - x).
    ///
    /// It is π²/6 at 0, 0 at 1, and nan for x < 0. It has derivatives up to order 8, including at 1. Errors:
    /// `not-differentiable` beyond order 8.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let slope = run(grad(|x: Var| x.spence()), 1.0)?.item::<f64>()?;
    /// assert_eq!(slope, -1.0);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "dilogarithm")]
    #[track_caller]
    pub fn spence(self) -> Var {
        let at = caller();
        trace::within("spence", || emit(Spence { n: 0 }, &[self], at))
    }

    /// Returns ζ(s, q) = Σₖ (q + k)⁻ˢ, Hurwitz's zeta function: `s.zeta(q)`. For q = 1 it is Riemann's zeta function.
    ///
    /// It is defined for s > 1 and q > 0. It is nan for s < 1, and inf at s = 1 and at the poles q = 0, -1, …; at
    /// other negative q it is nan unless s is an integer. It has derivatives of every order with respect to q, and
    /// up to order 4 with respect to s. Errors: `not-differentiable` beyond order 4.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|s: Var| s.zeta(1.0), 2.0)?.item::<f64>()?;
    /// assert!((y - std::f64::consts::PI.powi(2) / 6.0).abs() < 1e-15);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Source: Johansson, *Rigorous high-precision computation of the Hurwitz zeta function and its derivatives*
    /// (2015).
    #[doc(alias = "hurwitz_zeta")]
    #[track_caller]
    pub fn zeta(self, q: impl IntoVar) -> Var {
        let at = caller();
        let q = q.beside(self, at);
        of_floats("zeta", [self, q], at, |operands| emit(Zeta { n: 0 }, &operands, at))
    }

    /// Returns the inverse of [`erfc`](Var::erfc), accurate for small x: inf at 0, -inf at 2, nan outside [0, 2].
    /// It has derivatives of every order.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.erfc_inv().erfc(), 1e-200)?.item::<f64>()?;
    /// assert!((y / 1e-200 - 1.0).abs() < 1e-12);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "erfcinv")]
    #[track_caller]
    pub fn erfc_inv(self) -> Var {
        let at = caller();
        trace::within("erfc_inv", || emit(Scalar::ErfcInv, &[self], at))
    }
    /// Returns eˣ² erfc x, the scaled complementary error function, accurate where erfc itself underflows: inf for
    /// x below -26.63, 0 at inf. It has derivatives up to order 8, without cancellation. Errors:
    /// `not-differentiable` beyond order 8.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let (y, slope) = run(value_and_grad(|x: Var| x.erfcx()), 1e8)?;
    /// let root = std::f64::consts::PI.sqrt();
    /// assert!((y.item::<f64>()? * root / 1e-8 - 1.0).abs() < 1e-15);
    /// assert!((slope.item::<f64>()? * root / -1e-16 - 1.0).abs() < 1e-14);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn erfcx(self) -> Var {
        let at = caller();
        trace::within("erfcx", || emit(ScaledErf { kind: ScaledErfKind::Erfcx, n: 0 }, &[self], at))
    }

    /// Returns e⁻ˣ² ∫ eᵗ² dt from 0 to x, Dawson's integral: 0 at ±inf. It has derivatives up to order 8, accurate
    /// for large x. Errors: `not-differentiable` beyond order 8.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let (y, slope) = run(value_and_grad(|x: Var| x.dawsn()), 1.0)?;
    /// assert!((y.item::<f64>()? - 0.5380795069127684).abs() < 1e-15);
    /// assert!((slope.item::<f64>()? - (1.0 - 2.0 * 0.5380795069127684)).abs() < 1e-15);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Source: Rybicki, *Dawson's integral and the sampling theorem* (1989).
    #[doc(alias = "dawson")]
    #[track_caller]
    pub fn dawsn(self) -> Var {
        let at = caller();
        trace::within("dawsn", || emit(ScaledErf { kind: ScaledErfKind::Dawsn, n: 0 }, &[self], at))
    }

    /// Returns ₁F₁(a; b; x) = Σₖ (a)ₖ xᵏ / ((b)ₖ k!), Kummer's confluent hypergeometric function: `a.hyp1f1(b, x)`,
    /// as scipy's `hyp1f1(a, b, x)`.
    ///
    /// The value is computed from the series, from Kummer's transformation or from the asymptotic form, whichever
    /// loses the fewest digits. It is nan at the poles b = 0, -1, -2, …, and where each of the three loses more than
    /// half of the digits, which happens only for negative a or b - a.
    ///
    /// Derivatives with respect to x have every order. Errors: `not-differentiable` for derivatives with respect to
    /// a and b.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// // ₁F₁(1; 2; x) = (eˣ - 1) / x
    /// let f = |x: Var| constant(1.0).hyp1f1(2.0, x);
    /// let (y, slope) = run(value_and_grad(f), -2.0)?;
    /// assert!((y.item::<f64>()? - (-2f64).exp_m1() / -2.0).abs() < 1e-15);
    /// assert!((slope.item::<f64>()? - (1.0 - 3.0 * (-2f64).exp()) / 4.0).abs() < 1e-15);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Source: Pearson, Olver and Porter, *Numerical methods for the computation of the confluent and Gauss
    /// hypergeometric functions* (2017).
    #[track_caller]
    pub fn hyp1f1(self, b: impl IntoVar, x: impl IntoVar) -> Var {
        let at = caller();
        let (b, x) = (b.beside(self, at), x.beside(self, at));
        of_floats("hyp1f1", [self, b, x], at, |operands| emit(Scalar::Hyp1f1, &operands, at))
    }
}
