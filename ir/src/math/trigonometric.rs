//! Sine and cosine.
//!
//! `x = k π/2 + r + t` with `|r| ≤ π/4` and `t` what rounding `r` lost; then a series of one or the other, by
//! the last two bits of `k`. π/2 comes in three pieces, of which the first two have 33 bits, so that products
//! with `k < 2²⁰` are exact (Cody and Waite, 1980). Angles beyond a million need π to more digits: that is
//! done by the `libm` crate (Payne and Hanek, 1983).

use super::exact::{ROUND, two_sum};
use super::series::{over_factorials, series};
use super::vector_math::Parted;
use std::f64::consts::FRAC_2_PI;

/// π/2 in three pieces.
const HALF_PI: [f64; 3] = [
    f64::from_bits(0x3ff9_21fb_5440_0000),
    f64::from_bits(0x3dd0_b461_1a60_0000),
    f64::from_bits(0x3ba3_198a_2e03_7073),
];

/// Where three pieces are enough.
const NEAR: f64 = 1e6;

/// `(sin r - r) / r³` and `(cos r - 1 + r²/2) / r⁴` in `r²`, with the signs of their first terms.
const SINE: [f64; 8] = over_factorials(3, 2, -1.0);
const COSINE: [f64; 8] = over_factorials(4, 2, -1.0);

/// The sine of `x + quarters π/2`, near.
#[inline(always)]
fn turned(x: f64, quarters: u64) -> f64 {
    let rounded = x * FRAC_2_PI + ROUND;
    let k = rounded - ROUND;
    // x - k π/2: exact; then with what is lost; then the last piece.
    let (sum, lost) = two_sum(x - k * HALF_PI[0], -(k * HALF_PI[1]));
    let lost = lost - k * HALF_PI[2];
    let r = sum + lost;
    let t = lost - (r - sum);
    let square = r * r;
    let sine = r + (t * (1.0 - 0.5 * square) - r * square * series(&SINE, square));
    let half = 0.5 * square;
    let head = 1.0 - half;
    let cosine =
        head + (((1.0 - head) - half) + (square * square * series(&COSINE, square) - r * t));
    let k = rounded.to_bits().wrapping_add(quarters);
    let y = if k & 1 == 1 { cosine } else { sine };
    // The second bit of k is the sign.
    f64::from_bits(y.to_bits() ^ ((k & 2) << 62))
}

/// [`sin`]
pub struct Sin;

impl Parted for Sin {
    #[inline(always)]
    fn inside(x: f64) -> bool {
        x.abs() <= NEAR
    }

    #[inline(always)]
    fn straight(x: f64) -> f64 {
        // -0 stays what it is.
        if x == 0.0 { x } else { turned(x, 0) }
    }

    fn beyond(x: f64) -> f64 {
        libm::sin(x)
    }
}

/// The sine, within 1 ulp.
///
/// Domain: all reals, odd. `sin(±0) = ±0`, NaN at ±∞ and for NaN.
#[must_use]
pub fn sin(x: f64) -> f64 {
    Sin::at(x)
}

/// [`cos`]
pub struct Cos;

impl Parted for Cos {
    #[inline(always)]
    fn inside(x: f64) -> bool {
        x.abs() <= NEAR
    }

    #[inline(always)]
    fn straight(x: f64) -> f64 {
        turned(x, 1)
    }

    fn beyond(x: f64) -> f64 {
        libm::cos(x)
    }
}

/// The cosine, within 1 ulp.
///
/// Domain: all reals, even. 1 at 0, NaN at ±∞ and for NaN.
#[must_use]
pub fn cos(x: f64) -> f64 {
    Cos::at(x)
}

#[cfg(test)]
#[expect(clippy::approx_constant, reason = "arguments in tables")]
mod tests {
    use super::*;
    use crate::math::test_support::{INFINITY, NAN, check, check_exact};

    // Literals in the table: mpmath with 90 digits, rounded once.

    #[test]
    fn values_match_high_precision_ones() {
        check(
            sin,
            1.0,
            &[
                (5e-324, 5e-324),
                (1e-08, 1e-08),
                (0.5, 0.479425538604203),
                (0.7853981633974483, 0.7071067811865475),
                (1.0, 0.8414709848078965),
                (3.141592653589793, 1.2246467991473532e-16),
                (-2.0, -0.9092974268256817),
                (10.0, -0.5440211108893698),
                (355.0, -3.014435335948845e-05),
                (710.0, 6.0288706691585265e-05),
                (103993.0, -1.9129335778423752e-05),
                (999999.5, -0.756251087561678),
                (1000000.0, -0.34999350217129294),
                (10000000000.0, -0.4875060250875107),
                (1e+22, -0.8522008497671888),
            ],
        );
        check(
            cos,
            1.0,
            &[
                (0.0, 1.0),
                (1e-08, 1.0),
                (0.5, 0.8775825618903728),
                (0.7853981633974483, 0.7071067811865476),
                (1.5707963267948966, 6.123233995736766e-17),
                (-2.0, -0.4161468365471424),
                (4.71238898038469, -1.8369701987210297e-16),
                (11.0, 0.004425697988050785),
                (1000.0, 0.5623790762907029),
                (573204.5, -0.47942579651690953),
                (999999.5, 0.654281508650351),
                (10000000000.0, 0.873119622676856),
                (1e+22, 0.523214785395139),
            ],
        );
    }

    #[test]
    fn edge_values() {
        check_exact(
            sin,
            &[(0.0, 0.0), (-0.0, -0.0), (-INFINITY, NAN), (INFINITY, NAN), (NAN, NAN)],
        );
        check_exact(cos, &[(0.0, 1.0), (-0.0, 1.0), (-INFINITY, NAN), (INFINITY, NAN), (NAN, NAN)]);
    }
}
