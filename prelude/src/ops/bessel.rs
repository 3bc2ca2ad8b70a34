//! Bessel functions of integer order, element by element.
//!
//! All have derivatives of every order, including at 0: the derivatives are sums of the functions of neighbouring
//! orders. The scaled functions `i0e` and `i1e` have derivatives up to order 30, which do not cancel for large x. The chapter *Special functions* of the book lists accuracies.

use super::emit;
use crate::Var;
use crate::var::{caller, on_behalf};
use tapeloom_ir::prim::{Bessel, BesselKind, ScaledBessel, ScaledBesselKind};
use tapeloom_ir::{Loc, trace};

/// Bessel functions. The result has the shape and dtype of x. Errors: `dtype` if x is not a float.
impl Var {
    /// Returns I₀(x), the modified Bessel function of the first kind. It overflows to inf at |x| ≈ 714; use
    /// [`i0e`](Var::i0e) there.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let (y, slope) = run(value_and_grad(|x: Var| x.i0()), 0.0)?;
    /// assert_eq!((y.item::<f64>()?, slope.item::<f64>()?), (1.0, 0.0));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "modified_bessel_i0")]
    #[track_caller]
    pub fn i0(self) -> Var {
        bessel("i0", BesselKind::I, 0, self, caller())
    }

    /// Returns e⁻|x| I₀(x), which does not overflow. The derivative of e⁻|x| at 0 is defined as 0.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.i0e(), [0.0, 1e6])?.to_vec::<f64>()?;
    /// assert!(y[0] == 1.0 && (y[1] - 3.989423302693e-4).abs() < 1e-15);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "scaled_modified_bessel_i0")]
    #[track_caller]
    pub fn i0e(self) -> Var {
        scaled("i0e", ScaledBesselKind::I0e, 0, self, caller())
    }

    /// Returns I₁(x), the modified Bessel function of the first kind of order 1. It is odd, and the derivative of
    /// [`i0`](Var::i0).
    #[doc(alias = "modified_bessel_i1")]
    #[track_caller]
    pub fn i1(self) -> Var {
        bessel("i1", BesselKind::I, 1, self, caller())
    }

    /// Returns e⁻|x| I₁(x), which does not overflow.
    #[doc(alias = "scaled_modified_bessel_i1")]
    #[track_caller]
    pub fn i1e(self) -> Var {
        scaled("i1e", ScaledBesselKind::I1e, 0, self, caller())
    }

    /// Returns J₀(x), the Bessel function of the first kind of order 0. It is 0 at ±∞.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let root = 2.404825557695773;
    /// assert!(run(|x: Var| x.bessel_j0(), root)?.item::<f64>()?.abs() < 1e-15);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "j0")]
    #[track_caller]
    pub fn bessel_j0(self) -> Var {
        bessel("bessel_j0", BesselKind::J, 0, self, caller())
    }

    /// Returns J₁(x), the Bessel function of the first kind of order 1. It is an odd function, and 0 at ±∞.
    #[doc(alias = "j1")]
    #[track_caller]
    pub fn bessel_j1(self) -> Var {
        bessel("bessel_j1", BesselKind::J, 1, self, caller())
    }

    /// Returns Jₙ(x) for an integer n; J₋ₙ = (-1)ⁿ Jₙ. (JAX's `bessel_jn` returns all orders up to n.)
    ///
    /// Errors: `arguments` if |n| is above 100,000. The time of a call is proportional to n.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.bessel_jn(3) + x.bessel_jn(-3), [0.5, 20.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [0.0, 0.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "jv")]
    #[doc(alias = "jn")]
    #[track_caller]
    pub fn bessel_jn(self, n: i32) -> Var {
        signed("bessel_jn", BesselKind::J, n, self, caller())
    }

    /// Returns Y₀(x), the Bessel function of the second kind of order 0. It is -inf at 0, nan for x < 0, and 0 at ∞.
    #[doc(alias = "y0")]
    #[track_caller]
    pub fn bessel_y0(self) -> Var {
        bessel("bessel_y0", BesselKind::Y, 0, self, caller())
    }

    /// Returns Y₁(x), the Bessel function of the second kind of order 1. It is -inf at 0, nan for x < 0, and 0 at ∞.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// // The Wronskian J₁ Y₀ - J₀ Y₁ is 2 / (πx).
    /// let f = |x: Var| x.bessel_j1() * x.bessel_y0() - x.bessel_j0() * x.bessel_y1();
    /// let w = run(f, 4.0)?.item::<f64>()?;
    /// assert!((w - 0.5 / std::f64::consts::PI).abs() < 1e-15);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "y1")]
    #[track_caller]
    pub fn bessel_y1(self) -> Var {
        bessel("bessel_y1", BesselKind::Y, 1, self, caller())
    }

    /// Returns Yₙ(x) for an integer n; Y₋ₙ = (-1)ⁿ Yₙ. For n ≥ 0 it is -inf at 0, nan for x < 0, and 0 at ∞.
    ///
    /// Errors: `arguments` if |n| is above 100,000. The time of a call is proportional to n.
    #[doc(alias = "yv")]
    #[doc(alias = "yn")]
    #[track_caller]
    pub fn bessel_yn(self, n: i32) -> Var {
        signed("bessel_yn", BesselKind::Y, n, self, caller())
    }
}

fn bessel(name: &'static str, kind: BesselKind, n: u32, x: Var, at: Loc) -> Var {
    trace::within(name, || emit(Bessel { kind, n }, &[x], at))
}

/// Returns the derivative of [`i0e`](Var::i0e), which is e⁻ˣ (I₁(x) - I₀(x)) for x > 0, without its cancellation.
pub(crate) fn scaled_bessel_slope(x: Var, at: Loc) -> Var {
    scaled("i0e", ScaledBesselKind::I0e, 1, x, at)
}

fn scaled(name: &'static str, kind: ScaledBesselKind, n: u32, x: Var, at: Loc) -> Var {
    trace::within(name, || emit(ScaledBessel { kind, n }, &[x], at))
}

fn signed(name: &'static str, kind: BesselKind, n: i32, x: Var, at: Loc) -> Var {
    let y = bessel(name, kind, n.unsigned_abs(), x, at);
    if n < 0 && n % 2 != 0 { on_behalf(name, at, || -y) } else { y }
}
