//! Division with remainder, rounded towards zero or down.
//!
//! As in Rust, `/` and `%` of integers round towards zero, and the remainder has the sign of the dividend. As in
//! Python's `//` and `%`, [`div_floor`](Var::div_floor) and [`mod_floor`](Var::mod_floor) round down, and the
//! remainder has the sign of the divisor. In both cases x = q·y + r.

use super::composite::of_numbers;
use super::{binary, select};
use crate::Var;
use crate::var::{IntoVar, caller};
use tapeloom_ir::Scalar;

/// Division with remainder.
#[allow(clippy::should_implement_trait, reason = "`x.rem(y)` without importing the trait of `%`")]
impl Var {
    /// Returns x - y·trunc(x / y), computed exactly: the remainder with the sign of x, as Rust's `%` (and C's
    /// `fmod`).
    ///
    /// For floats, the result is nan if y is 0 or x is infinite, and x if y is infinite. For integers, x modulo 0
    /// is x. The derivative is 1 with respect to x and -trunc(x / y) with respect to y.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let r = run(|x: Var| x.rem(3.0), [7.5, -7.5])?;
    /// assert_eq!(r.to_vec::<f64>()?, [1.5, -1.5]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "fmod")]
    #[track_caller]
    pub fn rem(self, y: impl IntoVar) -> Var {
        let at = caller();
        binary(Scalar::Rem, self, y.beside(self, at), at)
    }

    /// Returns ⌊x / y⌋, the quotient rounded down (numpy's `floor_divide`, Python's `//`).
    ///
    /// For floats, division by 0 returns x / y; for integers, it returns -1 (all bits set), as `/`. The derivative
    /// is 0.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let q = run(|x: Var| x.div_floor(2), [7i64, -7])?;
    /// assert_eq!(q.to_vec::<i64>()?, [3, -4]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "floor_divide")]
    #[track_caller]
    pub fn div_floor(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        of_numbers("div_floor", [self, y], at, |[x, y]| floored(x, y).0)
    }

    /// Returns x - y·⌊x / y⌋, the remainder with the sign of the divisor y (numpy's `mod`, `remainder` and `%`).
    ///
    /// For floats, the result is nan if y is 0 or x is infinite; for integers, x modulo 0 is x. The derivative is 1
    /// with respect to x and -⌊x / y⌋ with respect to y.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let angle = run(|x: Var| x.mod_floor(360.0), [370.0, -10.0])?;
    /// assert_eq!(angle.to_vec::<f64>()?, [10.0, 350.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "mod")]
    #[doc(alias = "remainder")]
    #[track_caller]
    pub fn mod_floor(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        of_numbers("mod_floor", [self, y], at, |[x, y]| floored(x, y).1)
    }

    /// Returns [`div_floor`](Var::div_floor) and [`mod_floor`](Var::mod_floor) of the same operands.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let (q, r) = run(|x: Var| x.div_mod(2), [7i64, -7])?;
    /// assert_eq!(q.to_vec::<i64>()?, [3, -4]);
    /// assert_eq!(r.to_vec::<i64>()?, [1, 1]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "divmod")]
    #[track_caller]
    pub fn div_mod(self, y: impl IntoVar) -> (Var, Var) {
        let at = caller();
        let y = y.beside(self, at);
        let mut rest = None;
        let quotient = of_numbers("div_mod", [self, y], at, |[x, y]| {
            let (q, r) = floored(x, y);
            rest = Some(r);
            q
        });
        (quotient, rest.unwrap_or(quotient))
    }
}

/// Returns the quotient rounded down, and the remainder with the sign of the divisor.
fn floored(x: Var, y: Var) -> (Var, Var) {
    let dtype = x.dtype();
    if !dtype.is_signed() {
        return (x / y, x.rem(y));
    }
    let rest = x.rem(y);
    // If the sign of the remainder differs from that of y, the truncated quotient is too large by one.
    let off = rest.ne(0) & y.ne(0) & rest.lt(0).ne(y.lt(0));
    let moved = select(off, rest + y, rest);
    if !dtype.is_float() {
        let quotient = x / y;
        return (select(off, quotient - 1, quotient), moved);
    }
    // x - rest is a multiple of y, so the exact quotient is an integer, and rounding removes the error of the division.
    // (Rounding has the derivative 0.)
    let quotient = (x - rest) / y;
    let quotient = select(off, quotient - 1.0, quotient);
    (select(y.eq(0.0), x / y, quotient).round_ties_even(), moved)
}
