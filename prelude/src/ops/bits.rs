//! The bits of numbers: casts that preserve them, and fraction and exponent of a float.

use super::composite::of_floats;
use super::{emit, select};
use crate::Var;
use crate::var::caller;
use tapeloom_ir::prim::Bitcast;
use tapeloom_ir::{Dtype, trace};

/// The bits of numbers.
impl Var {
    /// Returns the numbers of another dtype that have the same bits. Both dtypes must have the same width: f32, i32 and
    /// u32, or f64, i64 and u64.
    ///
    /// Bits have no tangents: the derivative is 0. Errors: `dtype` if the widths differ, or for bool.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let bits = run(|x: Var| x.bitcast(Dtype::U64), [1.0, -0.0])?;
    /// assert_eq!(bits.to_vec::<u64>()?, [1f64.to_bits(), 1 << 63]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "bitcast_convert_type")]
    #[doc(alias = "view")]
    #[track_caller]
    pub fn bitcast(self, dtype: Dtype) -> Var {
        let at = caller();
        if self.ty(at).dtype == dtype {
            return self;
        }
        trace::within("bitcast", || emit(Bitcast { to: dtype }, &[self], at))
    }

    /// Returns the fraction m and the exponent n of x = m·2ⁿ, with |m| in [1/2, 1) and n an i32. The result is
    /// exact; [`ldexp`](Var::ldexp) is the inverse. If x is 0, nan or infinite, m is x and n is 0.
    ///
    /// The derivative of m is 2⁻ⁿ, that of n is 0. Errors: `dtype` if x is not a float.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let (m, n) = run(|x: Var| x.frexp(), [8.0, -0.3, 0.0])?;
    /// assert_eq!(m.to_vec::<f64>()?, [0.5, -0.6, 0.0]);
    /// assert_eq!(n.to_vec::<i32>()?, [4, -1, 0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn frexp(self) -> (Var, Var) {
        let mut exponent = None;
        let fraction = of_floats("frexp", [self], caller(), |[x]| {
            let n = binary_exponent(x);
            exponent = Some(n.convert(Dtype::I32));
            x.ldexp(-n)
        });
        (fraction, exponent.unwrap_or(fraction))
    }
}

/// Returns the exponent n of a float m·2ⁿ with |m| in [1/2, 1), as an integer of the float's width. For 0, infinities
/// and nan, returns 0.
fn binary_exponent(x: Var) -> Var {
    // The integer dtype of this width, the number of fraction bits, the mask of the exponent field, and the value of
    // that field for numbers in [1/2, 1).
    let (dtype, fraction, field, half) = if x.dtype() == Dtype::F64 {
        (Dtype::I64, 52, 0x7ff, 1022)
    } else {
        (Dtype::I32, 23, 0xff, 126)
    };
    let ordinary = x.is_finite() & x.ne(0.0);
    let exponent = |x: Var| (x.bitcast(dtype) >> fraction) & field;
    // The exponent field of a subnormal number is 0. Multiply the number by a power of two that makes it normal, and
    // subtract the exponent of this power.
    let small = exponent(x).eq(0);
    let scaled = exponent(x.stop_gradient() * 2f64.powi(fraction + 2)) - (fraction + 2);
    let n = select(small, scaled, exponent(x)) - half;
    select(ordinary, n, n.zeros_like())
}
