//! Comparison of the results of two engines.
//!
//! In every mode, a nan agrees with any nan, an infinity agrees only with itself, and types must be equal.
//!
//! Passes and engines agree in every bit, signs of zeros included, with one exception. The terms of a float sum,
//! product, contraction or scatter-add may be combined in another order. [`rounded`] finds the results that depend on
//! such an operation, and [`Agreement::check_promised`] requires equal bits of all others.

use crate::exactness::{Trust, trusts};
use crate::{Elements, show_tensor};
use tapeloom_ir::{Dtype, FuncId, Literal, Module, Tensor};

/// The largest difference at which two numbers still agree.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Agreement {
    /// Equal bits.
    Exact,
    /// Equal numbers: zeros may differ in sign.
    Equal,
    /// The two numbers are at most this number of floats of the dtype apart.
    Ulps(u64),
    /// `|got - want| <= relative * (largest finite |want| of the array) + absolute`; integers and
    /// bools exactly.
    Within {
        /// The bound relative to the largest finite magnitude among the expected elements.
        relative: f64,
        /// The absolute bound.
        absolute: f64,
    },
}

impl Agreement {
    /// Agreement up to the order of summation in f64: relative and absolute 1e-12.
    pub const CLOSE: Agreement = Agreement::Within { relative: 1e-12, absolute: 1e-12 };

    /// Returns the tolerance with this relative bound, and a hundredth of it as absolute bound.
    pub fn relative(relative: f64) -> Agreement {
        Agreement::Within { relative, absolute: relative / 100.0 }
    }

    /// Compares a tensor `got` with the expected tensor `want`.
    ///
    /// # Errors
    /// Names the first element that disagrees, and prints both tensors.
    pub fn check(self, got: &Tensor, want: &Tensor) -> Result<(), String> {
        if got.ty() != want.ty() {
            return Err(format!("got a tensor of type {}, want {}", got.ty(), want.ty()));
        }
        let scale = (0..want.elements())
            .map(|i| want.at(i).to_f64().abs())
            .filter(|x| x.is_finite())
            .fold(0.0, f64::max);
        for i in 0..want.elements() {
            let (g, w) = (got.at(i), want.at(i));
            if !self.holds(g, w, scale) {
                return Err(format!(
                    "element {i}: got {g}, want {w}\n got {}\nwant {}",
                    show_tensor(got),
                    show_tensor(want)
                ));
            }
        }
        Ok(())
    }

    /// Compares two lists of tensors, one by one; `want` is expected.
    ///
    /// # Errors
    /// Names the first disagreement and the index of its tensor.
    pub fn check_all(self, got: &[Tensor], want: &[Tensor]) -> Result<(), String> {
        if got.len() != want.len() {
            return Err(format!("got {} tensors, want {}", got.len(), want.len()));
        }
        for (i, (g, w)) in got.iter().zip(want).enumerate() {
            self.check(g, w).map_err(|e| format!("output {i}, {e}"))?;
        }
        Ok(())
    }

    /// Compares the results `got` of `f`, computed by another engine or after a pass, with the expected results.
    /// Results that do not depend on an order of summation must have equal bits. Other results are compared with this
    /// tolerance.
    ///
    /// # Errors
    /// Names the first disagreement and the index of its result.
    pub fn check_promised(
        self,
        m: &Module,
        f: FuncId,
        got: &[Tensor],
        want: &[Tensor],
    ) -> Result<(), String> {
        if got.len() != want.len() {
            return Err(format!("got {} tensors, want {}", got.len(), want.len()));
        }
        for (i, iterations) in rounded(m, f).into_iter().enumerate() {
            let mode = if iterations { self } else { Agreement::Exact };
            mode.check(&got[i], &want[i]).map_err(|e| format!("output {i} ({mode:?}), {e}"))?;
        }
        Ok(())
    }

    fn holds(self, got: Literal, want: Literal, scale: f64) -> bool {
        let (g, w) = (got.to_f64(), want.to_f64());
        if got == want || (g.is_nan() && w.is_nan()) {
            return true;
        }
        if !got.dtype.is_float() || !g.is_finite() || !w.is_finite() {
            return false;
        }
        match self {
            Agreement::Exact => false,
            Agreement::Equal => g == w,
            Agreement::Ulps(n) => ulps(got).abs_diff(ulps(want)) <= n,
            Agreement::Within { relative, absolute } => {
                (g - w).abs() <= relative * scale + absolute
            }
        }
    }
}

/// Returns, for each result of a function, whether it depends on a float sum, product, contraction or scatter-add. The
/// order in which such an operation rounds is unspecified.
pub fn rounded(m: &Module, f: FuncId) -> Vec<bool> {
    trusts(m, f, false).into_iter().map(|t| t != Trust::Exact).collect()
}

/// Returns the number of floats of the dtype between 0 and `x`, negative below 0; both zeros are at 0.
fn ulps(x: Literal) -> i64 {
    let sign_bit = match x.dtype {
        Dtype::F32 => 1 << 31,
        Dtype::Bool | Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64 | Dtype::F64 => 1 << 63,
    };
    let magnitude = (x.bits & !sign_bit) as i64;
    if x.bits & sign_bit == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_in_calls_and_their_readers() {
        let text = "
func @g(%0: f64[2]) -> (f64[2], f64[]) {
  %1: f64[2] = neg %0
  %2: f64[] = reduce_sum{axes=[0]} %0
  return %1, %2
}
func @f(%0: f64[2]) -> (f64[2], f64[], f64[], f64[]) {
  %1: f64[2], %2: f64[] = call{function=@g, outline=true} %0
  %3: f64[] = neg %2
  %4: f64[] = reduce_max{axes=[0]} %1
  return %1, %2, %3, %4
}";
        let m = tapeloom_ir::parse_module(text).unwrap();
        let (f, _) = m.iter().last().unwrap();
        assert_eq!(rounded(&m, f), [false, true, true, false]);
        let tensors = |x: [f64; 4]| {
            let [a, b, c, d] = x.map(Tensor::from);
            [Tensor::from([a.at(0).to_f64(), 1.0]), b, c, d]
        };
        let relative = Agreement::relative(1e-12);
        let near = 1.0 + 1e-15;
        let agree = |x, y| relative.check_promised(&m, f, &tensors(x), &tensors(y)).is_ok();
        assert!(agree([0.0, 1.0, 0.0, 1.0], [0.0, near, -0.0, 1.0]));
        assert!(!agree([0.0, 1.0, 1.0, 1.0], [-0.0, 1.0, 1.0, 1.0]));
        assert!(!agree([0.0, 1.0, 1.0, near], [0.0, 1.0, 1.0, 1.0]));
    }

    #[test]
    fn modes() {
        let t = |x: f64| Tensor::from([x, 100.0]);
        let next = f64::from_bits(1.0f64.to_bits() + 1);
        let agree = |a: Agreement, x: f64, y: f64| a.check(&t(x), &t(y)).is_ok();
        assert!(agree(Agreement::Exact, f64::NAN, -f64::NAN));
        assert!(!agree(Agreement::Exact, 0.0, -0.0));
        assert!(agree(Agreement::Equal, 0.0, -0.0));
        assert!(!agree(Agreement::Equal, 1.0, next));
        assert!(agree(Agreement::Ulps(1), 1.0, next));
        assert!(agree(Agreement::Ulps(2), 5e-324, -5e-324));
        assert!(!agree(Agreement::Ulps(1), 5e-324, -5e-324));
        assert!(agree(Agreement::relative(1e-3), 1.0, 1.05));
        assert!(!agree(Agreement::relative(1e-3), 1.0, 1.2));
        assert!(!agree(Agreement::relative(1e-3), 1.0, f64::INFINITY));
        assert!(
            Agreement::Exact.check(&Tensor::from(1.0), &Tensor::from(1.0f64 as i64 as f64)).is_ok()
        );
        assert!(Agreement::Exact.check(&Tensor::from([1.0]), &Tensor::from(1.0)).is_err());
    }
}
