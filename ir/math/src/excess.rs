//! The exponential and the logarithm minus the first terms of their Taylor series, without cancellation.

use super::number::polynomial;
use super::series::over_factorials;
use super::{expm1, log1p};

/// Returns `z - ln(1 + z)` for `z > -1`, relatively accurate near 0; the result is not negative.
pub fn log_excess(z: f64) -> f64 {
    if z.abs() > 0.4 {
        return z - log1p(z);
    }
    // By the series with r = z / (2 + z): ln(1 + z) = 2 (r + r³/3 + r⁵/5 + …) and z - 2r = z r.
    const ODD: [f64; 12] = {
        let mut c = [0.0; 12];
        let mut k = 0;
        while k < c.len() {
            c[k] = 1.0 / (2 * k + 3) as f64;
            k += 1;
        }
        c
    };
    let r = z / (2.0 + z);
    let square = r * r;
    r * (z - 2.0 * square * polynomial(&ODD, square))
}

/// Returns `e⁻ˢ - 1 + s` for `s ≥ 0`, relatively accurate near 0; the result is not negative.
pub fn exp_excess(s: f64) -> f64 {
    if s > 0.7 {
        return s + expm1(-s);
    }
    const EXP: [f64; 16] = over_factorials::<16>(2, 1, -1.0);
    s * s * polynomial(&EXP, s)
}
