//! The incomplete gamma and beta functions, element by element, with derivatives with respect to every argument.
//!
//! Derivatives with respect to the parameters `a` and `b` are computed as integrals of their own, with small
//! relative error, up to order four in total. Derivatives with respect to x have every order. The chapter *Special
//! functions* of the book lists accuracies.

use super::composite::of_floats;
use super::emit;
use crate::Var;
use crate::var::{IntoVar, caller};
use tapeloom_ir::Scalar;
use tapeloom_ir::prim::{Betainc, Gammainc};

/// The distribution functions of the gamma and beta distributions. Operands are floats of one dtype, broadcast
/// together.
impl Var {
    /// Returns P(a, x) = 1/Γ(a) ∫₀ˣ tᵃ⁻¹ e⁻ᵗ dt, the regularised lower incomplete gamma function: `a.gammainc(x)`,
    /// as scipy's `gammainc(a, x)`.
    ///
    /// The result is nan for negative operands; 0 at x = 0 and 1 at x = inf; 1 for a = 0 and 0 for a = inf; nan
    /// where two of these limits conflict. Derivatives with respect to x have every order, including at the ends of
    /// the domain, where they may be infinite. Errors: `not-differentiable` for derivatives of order five with
    /// respect to a.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |(a, x): (Var, Var)| a.gammainc(x);
    /// let (a, x) = run(grad(f), (2.0, 3.0))?;
    /// assert!((a.item::<f64>()? + 0.19742541957920247).abs() < 1e-15);
    /// assert!((x.item::<f64>()? - 3.0 * (-3.0f64).exp()).abs() < 1e-15);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Source: Temme, *The asymptotic expansion of the incomplete gamma functions* (1979), for the form of the
    /// density; Takahasi and Mori, *Double exponential formulas for numerical integration* (1974), for the
    /// integrals.
    #[doc(alias = "igamma")]
    #[track_caller]
    pub fn gammainc(self, x: impl IntoVar) -> Var {
        let at = caller();
        let x = x.beside(self, at);
        of_floats("gammainc", [self, x], at, |operands| emit(Gammainc { n: 0 }, &operands, at))
    }

    /// Returns Q(a, x) = 1 - P(a, x), the regularised upper incomplete gamma function, accurate if it is small:
    /// `a.gammaincc(x)`.
    ///
    /// Edge cases and derivatives are those of [`gammainc`](Var::gammainc).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let q = run(|x: Var| constant(1.0).gammaincc(x), 100.0)?.item::<f64>()?;
    /// assert!((q / (-100.0f64).exp() - 1.0).abs() < 1e-14);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "igammac")]
    #[track_caller]
    pub fn gammaincc(self, x: impl IntoVar) -> Var {
        let at = caller();
        let x = x.beside(self, at);
        of_floats("gammaincc", [self, x], at, |operands| emit(Scalar::Gammaincc, &operands, at))
    }

    /// Returns I(a, b, x) = 1/B(a, b) ∫₀ˣ tᵃ⁻¹ (1 - t)ᵇ⁻¹ dt, the regularised incomplete beta function:
    /// `a.betainc(b, x)`, as scipy's `betainc(a, b, x)`.
    ///
    /// The result is nan for negative a or b and for x outside [0, 1]. Inside, it is 1 for a = 0 or b = inf, 0 for
    /// b = 0 or a = inf, and nan where two of these limits conflict. Errors: `not-differentiable` for derivatives
    /// of total order five with respect to a and b.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// // The distribution function at a fixed x decreases as a grows.
    /// let f = |(a, b): (Var, Var)| a.betainc(b, 0.5);
    /// let (a, b) = run(grad(f), (3.0, 3.0))?;
    /// assert!(a.item::<f64>()? < 0.0 && (a.item::<f64>()? + b.item::<f64>()?).abs() < 1e-15);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Source: as of [`gammainc`](Var::gammainc).
    #[doc(alias = "btdtr")]
    #[track_caller]
    pub fn betainc(self, b: impl IntoVar, x: impl IntoVar) -> Var {
        let at = caller();
        let (b, x) = (b.beside(self, at), x.beside(self, at));
        of_floats("betainc", [self, b, x], at, |operands| {
            emit(Betainc { m: 0, n: 0 }, &operands, at)
        })
    }
}
