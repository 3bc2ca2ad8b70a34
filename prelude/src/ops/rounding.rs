//! Signs, truncation, scaling and bit counts, element by element.

use super::composite::{number, of_floats, of_integers, of_numbers};
use super::select;
use crate::Var;
use crate::dtype::largest;
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::Dtype;

/// Signs, truncation, scaling and bit counts.
impl Var {
    /// Returns x rounded towards zero, to an integer. The derivative is 0.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.trunc(), [1.7, -1.7])?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, -1.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "fix")]
    #[track_caller]
    pub fn trunc(self) -> Var {
        of_floats("trunc", [self], caller(), |[x]| select(x.lt(0.0), x.ceil(), x.floor()))
    }

    /// Returns whether the sign is negative (bool), including that of -0 (numpy's `signbit`). The sign of a nan is
    /// ignored: it counts as positive.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let minus = run(|x: Var| x.is_sign_negative(), [-1.0, -0.0, 0.0])?;
    /// assert_eq!(minus.to_vec::<bool>()?, [true, true, false]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "signbit")]
    #[track_caller]
    pub fn is_sign_negative(self) -> Var {
        of_numbers("is_sign_negative", [self], caller(), |[x]| {
            if !x.dtype().is_float() {
                return x.lt(0);
            }
            // For a zero, test the sign of its reciprocal, which is negative infinity for -0.
            select(x.eq(0.0), x.recip(), x).lt(0.0)
        })
    }

    /// Returns |x| with the sign of y. The derivative with respect to x is that of |x| times the sign of y; with
    /// respect to y it is 0.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|(x, y): (Var, Var)| x.copysign(y), ([3.0, -3.0], [-0.0, 1.0]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [-3.0, 3.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn copysign(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        of_floats("copysign", [self, y], at, |[x, y]| {
            let size = x.abs();
            select(y.is_sign_negative(), -size, size)
        })
    }

    /// Returns 0 for x < 0, 1 for x > 0, `at_zero` for x = 0, and nan for nan. The derivative with respect to x is 0.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.heaviside(0.5), [-2.0, 0.0, 2.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn heaviside(self, at_zero: impl IntoVar) -> Var {
        let at = caller();
        let at_zero = at_zero.beside(self, at);
        of_floats("heaviside", [self, at_zero], at, |[x, at_zero]| {
            let side = select(x.gt(0.0), x.ones_like(), x.zeros_like());
            let side = select(x.eq(0.0), at_zero, side);
            select(x.is_nan(), x.stop_gradient(), side)
        })
    }

    /// Returns x · 2ⁿ for integers n, with a single rounding, even if 2ⁿ is not representable in the dtype.
    ///
    /// The derivative with respect to x is 2ⁿ. Errors: `dtype` if x is not a float or n is not an integer.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.ldexp(-3), [8.0, 1.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 0.125]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn ldexp(self, n: impl IntoVar) -> Var {
        let at = caller();
        let n = n.into_var(Dtype::I64, at);
        let dtype = self.ty(at).dtype;
        if !n.ty(at).dtype.is_integer() {
            return of_integers("ldexp", [n], at, |[n]| n);
        }
        let n = on_behalf("ldexp", at, || n.convert(dtype));
        of_floats("ldexp", [self, n], at, |[x, n]| {
            // The smallest and the largest exponent for which a power of two is exact, and an exponent so large that x
            // · 2ⁿ is 0 or infinite for every x.
            let (least, most, all) = if dtype == Dtype::F64 {
                (-1021.0, 1023.0, 2100.0)
            } else {
                (-125.0, 127.0, 280.0)
            };
            let n = n.clamp(-all, all);
            let last = n.clamp(least, most);
            let middle = (n - last).clamp(least, most);
            let first = n - last - middle;
            // Multiply by the factor with the largest exponent last, so that only this product is rounded.
            x * first.exp2() * middle.exp2() * last.exp2()
        })
    }

    /// Returns x with nan replaced by 0, and infinities by the largest and smallest numbers of the dtype. The
    /// derivative is 1 where x is finite and 0 elsewhere. Integers are returned unchanged.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.nan_to_num(), [1.0, f64::NAN, f64::INFINITY])?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 0.0, f64::MAX]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn nan_to_num(self) -> Var {
        of_numbers("nan_to_num", [self], caller(), |[x]| {
            if !x.dtype().is_float() {
                return x;
            }
            let most = number(x, largest(x.dtype()));
            let bound = select(x.gt(0.0), most, -most);
            select(x.is_finite(), x, select(x.is_nan(), x.zeros_like(), bound))
        })
    }

    /// Returns the larger operand. If one operand is nan, returns the other one. If both are equal, the derivative is
    /// that of y, as in JAX. [`maximum`](Var::maximum) propagates nan and shares the derivative at ties.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.fmax(2.0), [1.0, 3.0, f64::NAN])?;
    /// assert_eq!(y.to_vec::<f64>()?, [2.0, 3.0, 2.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn fmax(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        of_numbers("fmax", [self, y], at, |[x, y]| select(x.gt(y) | y.ne(y), x, y))
    }

    /// Returns the smaller operand. If one operand is nan, returns the other one. If both are equal, the derivative is
    /// that of y, as in JAX. [`minimum`](Var::minimum) propagates nan and shares the derivative at ties.
    #[track_caller]
    pub fn fmin(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        of_numbers("fmin", [self, y], at, |[x, y]| select(x.lt(y) | y.ne(y), x, y))
    }

    /// Converts degrees to radians: x·π/180.
    #[doc(alias = "deg2rad")]
    #[doc(alias = "radians")]
    #[track_caller]
    pub fn to_radians(self) -> Var {
        of_floats("to_radians", [self], caller(), |[x]| x * (std::f64::consts::PI / 180.0))
    }

    /// Converts radians to degrees: x·180/π.
    #[doc(alias = "rad2deg")]
    #[doc(alias = "degrees")]
    #[track_caller]
    pub fn to_degrees(self) -> Var {
        of_floats("to_degrees", [self], caller(), |[x]| x * (180.0 / std::f64::consts::PI))
    }

    /// Returns the number of bits of x that are 1, in the dtype of x. The bits of a negative number are those of its
    /// two's complement.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let n = run(|x: Var| x.count_ones(), [0i64, 7, -1])?;
    /// assert_eq!(n.to_vec::<i64>()?, [0, 3, 64]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "population_count")]
    #[track_caller]
    pub fn count_ones(self) -> Var {
        of_integers("count_ones", [self], caller(), |[x]| ones_in(x))
    }

    /// Returns the number of zero bits above the highest 1, in the dtype of x. For 0, the result is the number of bits
    /// of the dtype.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let n = run(|x: Var| x.leading_zeros(), [0i64, 7, -1])?;
    /// assert_eq!(n.to_vec::<i64>()?, [64, 61, 0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "clz")]
    #[track_caller]
    pub fn leading_zeros(self) -> Var {
        of_integers("leading_zeros", [self], caller(), |[x]| {
            // Set every bit below the highest 1. Then the zeros that remain are the leading zeros.
            let (width, unsigned) = unsigned(x.dtype());
            let mut filled = x.convert(unsigned);
            let mut by = 1;
            while by < width {
                filled = filled | (filled >> by);
                by *= 2;
            }
            ones_in(!filled).convert(x.dtype())
        })
    }
}

/// Returns the number of bits of an integer dtype, and the unsigned dtype with the same number of bits.
fn unsigned(dtype: Dtype) -> (i32, Dtype) {
    if dtype.bytes() == 8 { (64, Dtype::U64) } else { (32, Dtype::U32) }
}

/// Returns the number of bits that are 1. Neighbouring counts are added: for pairs of bits, for groups of four, for
/// bytes, and for all bytes.
fn ones_in(x: Var) -> Var {
    let dtype = x.dtype();
    let (width, unsigned) = unsigned(dtype);
    let mask = |byte: u8| -> u64 {
        let all = u64::from_ne_bytes([byte; 8]);
        if width == 64 { all } else { all & u64::from(u32::MAX) }
    };
    let x = x.convert(unsigned);
    let pairs = x - ((x >> 1) & mask(0x55));
    let fours = (pairs & mask(0x33)) + ((pairs >> 2) & mask(0x33));
    let bytes = (fours + (fours >> 4)) & mask(0x0f);
    ((bytes * mask(0x01)) >> (width - 8)).convert(dtype)
}
