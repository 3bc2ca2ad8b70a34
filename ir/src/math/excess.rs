//! What is left of the exponential and the logarithm beside their tangents, without cancellation.

use super::number::polynomial;
use super::series::over_factorials;
use super::{expm1, log1p};

/// `z - ln(1 + z)`, which is not negative, for `z > -1`.
pub(super) fn log_excess(z: f64) -> f64 {
    if z.abs() > 0.4 {
        return z - log1p(z);
    }
    // With r = z / (2 + z), ln(1 + z) = 2 (r + r³/3 + r⁵/5 + …) and z - 2r = z r.
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

/// `e⁻ˢ - 1 + s`, which is not negative, for `s ≥ 0`.
pub(super) fn exp_excess(s: f64) -> f64 {
    if s > 0.7 {
        return s + expm1(-s);
    }
    const EXP: [f64; 16] = over_factorials::<16>(2, 1, -1.0);
    s * s * polynomial(&EXP, s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::test_support::check;

    #[test]
    fn excesses_match_high_precision_values() {
        check(
            log_excess,
            4.0,
            &[
                (1e-9, 4.999999996666667e-19),
                (-0.3, 0.056674943938732375),
                (0.3, 0.03763573553250894),
                (0.5, 0.09453489189183562),
                (-0.9, 1.402585092994046),
                (100.0, 95.38487948315874),
            ],
        );
        check(
            exp_excess,
            4.0,
            &[
                (1e-9, 4.999999998333334e-19),
                (0.5, 0.10653065971263342),
                (0.8, 0.2493289641172216),
                (30.0, 29.000000000000092),
            ],
        );
    }
}
