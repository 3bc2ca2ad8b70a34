//! Exponential integrals, the dilogarithm, Hurwitz's zeta function, Kummer's function and relatives of erfc, element by element.
//!
//! Accuracies stand in the chapter *Special functions* of the book.

use super::composite::of_floats;
use super::emit;
use crate::Var;
use crate::var::{IntoVar, caller};
use tapeloom_ir::prim::{Expn, ScaledErf, ScaledErfKind, Spence, Zeta};
use tapeloom_ir::{Scalar, trace};

/// Functions that are integrals and sums. Errors: `dtype` if an operand is no float.
impl Var {
    /// E₁(x) = ∫ e⁻ᵗ/t dt from x to ∞, the exponential integral: inf at 0, nan below. Derivatives of every order.
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

    /// Eₙ(x) = ∫₁^∞ e⁻ˣᵗ/tⁿ dt, the exponential integral of order n: 1/(n - 1) at 0, and inf for n < 2; nan below.
    ///
    /// Its derivative is -Eₙ₋₁; there are those of every order.
    #[doc(alias = "expint")]
    #[track_caller]
    pub fn expn(self, n: u32) -> Var {
        let at = caller();
        trace::within("expn", || emit(Expn { n }, &[self], at))
    }

    /// Ei(x), the principal value of ∫ eᵗ/t dt from -∞ to x: -inf at 0, inf from 716.4 on. Derivatives of every order.
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

    /// ∫ ln t/(1 - t) dt from 1 to x, Spence's function with the sign of scipy and JAX: the dilogarithm Li₂(1 - x).
    ///
    /// π²/6 at 0, 0 at 1, nan below 0. Derivatives up to order 8, at 1, too. Errors: `not-differentiable` beyond.
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

    /// ζ(s, q) = Σₖ (q + k)⁻ˢ, Hurwitz's zeta function: `s.zeta(q)`, and Riemann's for q = 1.
    ///
    /// For s > 1 and q > 0; nan for s < 1, inf at s = 1 and at the poles q = 0, -1, …; at other negative q nan unless
    /// s is an integer. Derivatives in q of every order and in s up to order 4. Errors: `not-differentiable` beyond.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|s: Var| s.zeta(1.0), 2.0)?.item::<f64>()?;
    /// assert!((y - std::f64::consts::PI.powi(2) / 6.0).abs() < 1e-15);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Source: Johansson, *Rigorous high-precision computation of the Hurwitz zeta function and its derivatives* (2015).
    #[doc(alias = "hurwitz_zeta")]
    #[track_caller]
    pub fn zeta(self, q: impl IntoVar) -> Var {
        let at = caller();
        let q = q.beside(self, at);
        of_floats("zeta", [self, q], at, |operands| emit(Zeta { n: 0 }, &operands, at))
    }

    /// The inverse of [`erfc`](Var::erfc), exact for small x: inf at 0, -inf at 2, nan outside. Derivatives of every order.
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
    /// eˣ² erfc x, the scaled complementary error function, exact where erfc itself underflows: inf from -26.63 downwards, 0 at inf.
    /// Derivatives up to order 8, which do not cancel. Errors: `not-differentiable` beyond.
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

    /// e⁻ˣ² ∫ eᵗ² dt from 0 to x, Dawson's integral: 0 at ±inf. Derivatives up to order 8, exact for large x. Errors:
    /// `not-differentiable` beyond.
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

    /// ₁F₁(a; b; x) = Σₖ (a)ₖ xᵏ / ((b)ₖ k!), Kummer's confluent hypergeometric function: `a.hyp1f1(b, x)`, as scipy's
    /// `hyp1f1(a, b, x)`.
    ///
    /// The value is computed from the series, from Kummer's transformation or from the asymptotic form, whichever
    /// loses the fewest digits. It is nan at the poles b = 0, -1, -2, …, and where each of the three loses more than
    /// half of the digits, which happens only for negative a or b - a.
    ///
    /// Derivatives in x of every order. Errors: `not-differentiable` for derivatives in a and b.
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
    /// Source: Pearson, Olver and Porter, *Numerical methods for the computation of the confluent and Gauss hypergeometric
    /// functions* (2017).
    #[track_caller]
    pub fn hyp1f1(self, b: impl IntoVar, x: impl IntoVar) -> Var {
        let at = caller();
        let (b, x) = (b.beside(self, at), x.beside(self, at));
        of_floats("hyp1f1", [self, b, x], at, |operands| emit(Scalar::Hyp1f1, &operands, at))
    }
}
