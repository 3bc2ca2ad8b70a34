//! The logarithm of the gamma function and its derivatives: `lgamma`, its slope
//! `digamma`, and `polygamma(n, ·)`, the n-th derivative of `digamma`.
//!
//! The derivative of order n of a program that calls `lgamma` needs `polygamma` of order n - 1, so `polygamma`
//! accepts every order.
//!
//! * `lgamma` and `digamma` of positive numbers are in [`gamma_f64`](super::gamma_f64) and [`gamma_f32`](super::gamma_f32).
//! * `lgamma` of other numbers comes from the `libm` crate, a port of Sun's fdlibm, except near its negative roots.
//! * `digamma` of negative numbers is reflected, except near its roots.
//! * `polygamma` is `(-1)ⁿ⁺¹ n! ζ(n + 1, x)`, with the Hurwitz zeta function
//!   `ζ(s, x) = Σₖ (x + k)⁻ˢ` summed directly at first and by Euler–Maclaurin
//!   from there (NIST DLMF 25.11.28; Johansson, "Rigorous high-precision
//!   computation of the Hurwitz zeta function", 2015).

use super::vector_math::PartedIn;
use super::{Digamma, Lgamma, exp, log, log1p, pow, tan};
use std::f64::consts::{E, PI, TAU};

/// Returns the logarithm of the absolute value of the gamma function, `ln |Γ(x)|`.
///
/// Domain: all reals. +∞ at the poles 0, -1, -2, … and at ±∞; NaN for NaN.
/// Within 3 ulp for positive `x`, also next to the roots 1 and 2. For negative `x`, two roots lie between
/// neighbouring poles from -2 on; near a root the value comes from an expansion about it.
#[must_use]
pub fn lgamma(x: f64) -> f64 {
    Lgamma::here(x)
}

/// Returns `ln |Γ(x)|` for numbers outside of the interval of [`Lgamma`]: negative numbers, zeros, numbers next to zero or
/// infinity, infinities and NaN.
pub(super) fn lgamma_beyond(x: f64) -> f64 {
    match lgamma_root(x) {
        Some(root) => lgamma_from(root, x),
        None => libm::lgamma(x),
    }
}

/// Returns the root of `ln |Γ|` next to `x`, as a sum of two doubles. Returns `None` unless `x` is so close to a root
/// that the terms of the usual formula would cancel.
fn lgamma_root(x: f64) -> Option<(f64, f64)> {
    if !(-18.0 < x && x < -2.0) {
        return None;
    }
    // Each interval between poles has two roots: the first is nearer to its right end, the second to its left
    // end.
    let first = 2 * ((-x.ceil()) as usize - 2);
    let near = |root: &&(f64, f64)| (x - root.0).abs() <= (root.0 - root.0.round()).abs() / 3.0;
    LGAMMA_ROOTS.iter().skip(first).take(2).find(near).copied()
}

/// Returns `ln |Γ(x)|` for `x` next to a root r. With h = x - r, and the N unit steps from r to a number beyond
/// 10, `ln |Γ(r + h)| - ln |Γ(r)| = ln Γ(r + N + h) - ln Γ(r + N) - Σⱼ ln(1 + h / (r + j))` over j = 0 … N - 1.
/// Each term is proportional to h, so the sum is relatively accurate.
fn lgamma_from(root: (f64, f64), x: f64) -> f64 {
    let h = (x - root.0) - root.1;
    let (steps, top) = steps_up(root.0);
    let down: f64 = steps.map(|j| log1p(h / ((root.0 + j) + root.1))).sum();
    h * taylor(0, top, h) - down
}

/// Returns the offsets j = 0, 1, … of the unit steps from `x` up to a number beyond 10, and that number.
fn steps_up(x: f64) -> (impl Iterator<Item = f64>, f64) {
    let count = (11.0 - x).floor();
    ((0..count as u32).map(f64::from), x + count)
}

/// Returns `Σₖ polygamma(n + k, a) hᵏ / (k + 1)!`: the difference quotient over a step h, from a on, of the
/// function whose derivative is polygamma n. Requires h to be small compared with a.
fn taylor(n: u32, a: f64, h: f64) -> f64 {
    let (mut sum, mut weight) = (0.0, 1.0);
    for k in 0..16 {
        let term = weight * polygamma(n + k, a);
        sum += term;
        if term.abs() < sum.abs() * (f64::EPSILON / 16.0) {
            break;
        }
        weight *= h / f64::from(k + 2);
    }
    sum
}

/// The roots of `ln |Γ|` between the poles -2, -3, … -18, each an unevaluated sum of two doubles, bisected with
/// 60 digits. Below -18 every double is closer to a pole than to a root.
const LGAMMA_ROOTS: [(f64, f64); 31] = [
    (-2.457_024_738_220_800_6, -3.707_561_081_551_326_6e-17),
    (-2.747_682_646_727_412_7, 9.055_340_329_338_315e-17),
    (-3.143_580_888_349_98, -2.181_817_985_233_171_4e-16),
    (-3.955_294_284_858_598, -1.999_428_391_746_348e-17),
    (-4.039_361_839_740_537, 2.114_399_550_398_060_2e-16),
    (-4.991_544_640_560_048, 1.517_441_176_057_172_2e-16),
    (-5.008_218_168_322_593_5, -4.392_635_349_101_581_5e-17),
    (-5.998_607_480_080_875, -3.311_862_478_893_795e-16),
    (-6.001_385_294_453_155, 6.415_847_287_933_042e-17),
    (-6.999_801_507_890_638, 1.055_013_003_740_002_3e-17),
    (-7.000_198_333_407_325, 2.504_354_173_632_409e-16),
    (-7.999_975_197_095_821, -5.261_737_128_572_354e-17),
    (-8.000_024_800_270_682, -4.354_586_297_860_107e-16),
    (-8.999_997_244_250_977, -2.218_562_050_972_713_2e-16),
    (-9.000_002_755_714_823, -9.491_348_611_623_208e-17),
    (-9.999_999_724_426_63, 4.883_037_618_642_443e-16),
    (-10.000_000_275_573_013, -3.490_970_833_264_205_7e-16),
    (-10.999_999_974_947_89, 1.984_399_830_698_540_7e-16),
    (-11.000_000_025_052_106, -6.850_849_812_286_175e-16),
    (-11.999_999_997_912_324, -1.002_069_392_010_303_6e-16),
    (-12.000_000_002_087_676, 1.222_254_811_204_818_5e-16),
    (-12.999_999_999_839_41, 6.747_262_033_096_337e-16),
    (-13.000_000_000_160_59, -6.745_919_484_964_342e-16),
    (-13.999_999_999_988_53, 8.094_860_741_926_607e-16),
    (-14.000_000_000_011_47, -8.094_853_704_222_662e-16),
    (-14.999_999_999_999_236, 8.829_322_414_768_68e-16),
    (-15.000_000_000_000_764, -8.829_322_382_710_274e-16),
    (-15.999_999_999_999_952, -1.668_613_399_265_054e-16),
    (-16.000_000_000_000_046, -1.609_495_499_460_936_7e-15),
    (-16.999_999_999_999_996, -7.412_564_244_549_576e-16),
    (-17.000_000_000_000_004, 7.412_564_244_550_028e-16),
];

/// Returns the digamma function `ψ(x) = Γ'(x) / Γ(x)`, the derivative of [`lgamma`].
///
/// Domain: all reals but the poles. NaN at the poles 0, -1, -2, … (either zero included), at -∞ and for NaN;
/// `digamma(+∞) = +∞`. For positive `x` the relative error is below 1e-15, also near the root at 1.4616…. For
/// negative `x` this holds near the first thirty roots too; below -30 it holds away from the roots.
#[must_use]
pub fn digamma(x: f64) -> f64 {
    Digamma::here(x)
}

/// Returns `ψ(x)` for numbers outside of the interval of [`Digamma`]: negative numbers, zeros, subnormal numbers, infinities
/// and NaN.
pub(super) fn digamma_beyond(x: f64) -> f64 {
    if x.is_nan() || x == f64::INFINITY {
        return x;
    }
    if x > 0.0 {
        // The other terms of ψ are too small to change the result.
        return -1.0 / x;
    }
    // `offset` is the distance to the nearest pole, which is exact. For x = -∞ it is NaN, and so is the result.
    let offset = x - x.round();
    if offset == 0.0 {
        return f64::NAN;
    }
    // ψ has one root between neighbouring poles: take the root in the interval that contains x.
    match DIGAMMA_ROOTS.get((-x.ceil()) as usize) {
        Some(root) if (x - root.0).abs() < 0.25 => digamma_from(*root, x),
        _ => digamma(1.0 - x) - PI * cot_pi(offset),
    }
}

/// Returns `ψ(x)` for `x` next to a root r, where the terms of the reflection formula cancel. With h = x - r and
/// N unit steps as in [`lgamma_from`], `ψ(r + h) - ψ(r) = ψ(r + N + h) - ψ(r + N) + Σⱼ h / ((r + j) (x + j))`,
/// where all terms have one sign.
fn digamma_from(root: (f64, f64), x: f64) -> f64 {
    let h = (x - root.0) - root.1;
    let (steps, top) = steps_up(root.0);
    let down: f64 = steps.map(|j| 1.0 / (((root.0 + j) + root.1) * (x + j))).sum();
    h * (taylor(1, top, h) + down)
}

/// The first thirty negative roots of ψ, each an unevaluated sum of two doubles, bisected with 60 digits.
const DIGAMMA_ROOTS: [(f64, f64); 30] = [
    (-0.504_083_008_264_455_4, -8.154_282_062_438_13e-18),
    (-1.573_498_473_162_390_4, -1.574_185_691_077_347e-17),
    (-2.610_720_868_444_144_7, 9.881_960_746_978_353e-17),
    (-3.635_293_366_436_901, 5.454_396_163_173_039e-17),
    (-4.653_237_761_743_142, -2.549_268_620_146_819_3e-16),
    (-5.667_162_441_556_885_5, -3.215_305_107_494_833_5e-18),
    (-6.678_418_213_073_427, 3.470_798_723_495_241e-16),
    (-7.687_788_325_031_626, -1.351_562_494_643_672e-16),
    (-8.695_764_163_816_401, -3.285_990_371_628_944_7e-16),
    (-9.702_672_540_001_863, -3.256_317_840_540_147_7e-16),
    (-10.708_740_838_254_144, -6.287_211_750_540_301e-16),
    (-11.714_133_061_228_955, 8.598_250_154_343_834e-16),
    (-12.718_971_025_749_207, -4.752_312_432_106_917e-16),
    (-13.723_347_457_363_827, 4.528_278_691_518_058e-16),
    (-14.727_334_416_018_529, -3.661_839_996_313_978_6e-17),
    (-15.730_988_906_332_882, 1.055_195_637_336_584_2e-16),
    (-16.734_356_723_955_734, -1.203_950_163_180_014_4e-15),
    (-17.737_475_159_977_59, -5.125_776_230_727_235e-16),
    (-18.740_374_944_780_1, 7.757_330_874_026_816e-16),
    (-19.743_081_672_590_22, 6.505_672_516_695_227e-16),
    (-20.745_616_863_607_527, 9.370_177_952_348_924e-16),
    (-21.747_998_768_201_13, -1.224_623_399_093_181_7e-15),
    (-22.750_242_984_306_06, -1.126_860_026_605_416_3e-15),
    (-23.752_362_937_385_183, 8.157_017_519_280_734e-16),
    (-24.754_370_257_822_97, -1.316_906_917_865_066e-15),
    (-25.756_275_080_771_037, 1.307_797_968_318_093_8e-15),
    (-26.758_086_286_661_367, 1.133_433_713_172_583_5e-15),
    (-27.759_811_695_826_706, -1.120_148_225_799_811e-16),
    (-28.761_458_227_264_864, -1.540_571_108_688_748_8e-15),
    (-29.763_032_029_127_462, -4.657_204_559_411_395e-16),
];

/// Returns `ln x - ψ(x)` for `x ≥ 10`.
fn asymptotic_rest(x: f64) -> f64 {
    /// The numbers `B₂ₖ / 2k` for k = 1, 2, …; the first term left out is below 4e-18 at x = 10.
    const TERMS: [f64; 8] = [
        1.0 / 12.0,
        -1.0 / 120.0,
        1.0 / 252.0,
        -1.0 / 240.0,
        1.0 / 132.0,
        -691.0 / 32760.0,
        1.0 / 12.0,
        -3617.0 / 8160.0,
    ];
    let reciprocal = 1.0 / x;
    let square = reciprocal * reciprocal;
    0.5 * reciprocal + square * polynomial(&TERMS, square)
}

/// Returns `ln x - ψ(x)` for positive x, without cancellation for large x.
pub(super) fn ln_minus_digamma(x: f64) -> f64 {
    if x >= 10.0 { asymptotic_rest(x) } else { log(x) - digamma(x) }
}

/// Returns `polygamma(n, a + h) - polygamma(n, a)` for positive a and h, without cancellation for small h.
pub(super) fn polygamma_rise(n: u32, a: f64, h: f64) -> f64 {
    if h < a / 8.0 {
        h * taylor(n + 1, a, h)
    } else if n == 0 {
        log1p(h / a) + (ln_minus_digamma(a) - ln_minus_digamma(a + h))
    } else {
        polygamma(n, a + h) - polygamma(n, a)
    }
}

/// Returns the remainder of Stirling's formula: `ln Γ(a) - ((a - 1/2) ln a - a + ln √2π)`, for `a ≥ 10` (DLMF
/// 5.11.1).
pub(super) fn stirling(a: f64) -> f64 {
    /// The numbers `B₂ₖ / (2k (2k - 1))` for k = 1, 2, …
    const TERMS: [f64; 8] = [
        1.0 / 12.0,
        -1.0 / 360.0,
        1.0 / 1260.0,
        -1.0 / 1680.0,
        1.0 / 1188.0,
        -691.0 / 360_360.0,
        1.0 / 156.0,
        -3617.0 / 122_400.0,
    ];
    polynomial(&TERMS, 1.0 / (a * a)) / a
}

/// Returns `cot(π t)` for `0 < |t| ≤ 1/2`.
fn cot_pi(t: f64) -> f64 {
    if t.abs() <= 0.25 {
        1.0 / tan(PI * t)
    } else {
        // Near the root of the cotangent, at 1/2, the tangent of the complementary angle is relatively accurate.
        tan(PI * (0.5 - t.abs())).copysign(t)
    }
}

/// Evaluates a polynomial by Horner's rule; the constant coefficient comes first.
fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

/// Returns the polygamma function, the n-th derivative of [`digamma`].
///
/// Domain: every order `n`, all reals but the poles 0, -1, -2, …; order 0 is
/// `digamma` itself. For `n ≥ 1`:
///
/// * at a pole, +∞ for odd `n` (the limit from both sides), NaN for even `n`
///   (where the two sides differ in sign);
/// * at +∞, zero, with the sign of the values before it; NaN at -∞ and for NaN;
/// * overflow gives the infinity of the right sign.
///
/// The relative error is below 1e-15 for positive `x`, and for negative `x` when
/// `n` is odd. Even orders have a root between any two neighbouring poles; next to
/// it the error is that small only compared with the terms that cancel there.
#[must_use]
pub fn polygamma(n: u32, x: f64) -> f64 {
    if n == 0 {
        return digamma(x);
    }
    // The sign of polygamma on the positive axis is (-1)ⁿ⁺¹.
    let sign = if n % 2 == 1 { 1.0 } else { -1.0 };
    if x > 0.0 {
        return sign * polygamma_magnitude(n, x);
    }

    // `offset` is the distance to the nearest pole, which is exact; for x = -∞ it is NaN.
    let offset = x - x.round();
    if offset.is_nan() {
        return f64::NAN;
    }
    if offset == 0.0 {
        return if n % 2 == 1 { f64::INFINITY } else { f64::NAN };
    }

    // Reflection without derivatives of the cotangent. With s = n + 1, the sum
    // of (x + k)⁻ˢ over *all* integers k has period 1 in x; call it L. Its
    // k < 0 half is (-1)ˢ ζ(s, 1 - x), so
    //     ζ(s, x) = L - (-1)ˢ ζ(s, 1 - x),
    // and L itself is the same two halves at the fractional part of x, where
    // both arguments lie in (0, 1).
    let near = polygamma_magnitude(n, offset.abs());
    let far = polygamma_magnitude(n, 1.0 - offset.abs());
    let lattice = if offset.abs() == 0.5 && n.is_multiple_of(2) {
        0.0 // The two halves cancel, even where each of them overflows.
    } else if near.is_infinite() {
        return if offset > 0.0 { sign * near } else { near };
    } else if offset > 0.0 {
        sign * near + far
    } else {
        near + sign * far
    };
    lattice - polygamma_magnitude(n, 1.0 - x)
}

/// Returns `n! ζ(n + 1, x)`, the absolute value of `polygamma(n, x)`, for `n ≥ 1` and `x > 0`.
///
/// The common factor `n! / xⁿ` is taken out of the sum, which leaves terms that
/// neither overflow nor underflow before the result does.
fn polygamma_magnitude(n: u32, x: f64) -> f64 {
    if x == f64::INFINITY {
        return 0.0;
    }
    let order = f64::from(n);
    // Above this argument, the Euler–Maclaurin formula gains about a decimal digit per term.
    let threshold = 10.0 + 0.5 * order;

    let mut sum = 0.0;
    let mut k = 0.0;
    loop {
        let at = x + k;
        let weight = ratio_power(x, k, order);
        if at >= threshold {
            sum += weight * euler_maclaurin_tail(order, at);
            break;
        }
        let term = weight / at;
        sum += term;
        // The remaining terms sum to less than ∫ (x + t)⁻ⁿ⁻¹ dt, here term · at / n. Stop if that is negligible.
        if term * (at / order) <= sum * (f64::EPSILON / 16.0) {
            break;
        }
        k += 1.0;
    }

    let (root, front) = factorial_over_power(order, x);
    root * (front * sum) * root
}

/// The coefficients `B₂ₖ / (2k)!` of the Euler–Maclaurin formula, for k = 1, 2, …
pub(super) const EULER_MACLAURIN: [f64; 18] = [
    0.083_333_333_333_333_33,
    -0.001_388_888_888_888_889,
    3.306_878_306_878_307e-5,
    -8.267_195_767_195_768e-7,
    2.087_675_698_786_81e-8,
    -5.284_190_138_687_493e-10,
    1.338_253_653_068_467_9e-11,
    -3.389_680_296_322_582_7e-13,
    8.586_062_056_277_845e-15,
    -2.174_868_698_558_062e-16,
    5.509_002_828_360_229_5e-18,
    -1.395_446_468_581_252_2e-19,
    3.534_707_039_629_467e-21,
    -8.953_517_427_037_546e-23,
    2.267_952_452_337_683e-24,
    -5.744_790_668_872_202e-26,
    1.455_172_475_614_865e-27,
    -3.685_994_940_665_310_3e-29,
];

/// Returns `aⁿ ζ(n + 1, a)` for `a ≥ 10 + n/2`, by the Euler–Maclaurin formula `1/n + 1/(2a) + Σₖ B₂ₖ/(2k)! · s
/// (s + 1) … (s + 2k - 2) / a²ᵏ` with `s = n + 1`.
fn euler_maclaurin_tail(n: f64, a: f64) -> f64 {
    let per_square = 1.0 / (a * a);
    let mut sum = 0.0;
    let mut rising = (n + 1.0) * per_square;
    let mut next = n + 2.0;
    for coefficient in EULER_MACLAURIN {
        let term = coefficient * rising;
        sum += term;
        if term.abs() < sum * (f64::EPSILON / 16.0) {
            break;
        }
        rising *= next * (next + 1.0) * per_square;
        next += 2.0;
    }
    1.0 / n + (0.5 / a + sum)
}

/// Returns the power `(x / (x + k))ⁿ`.
///
/// A high power magnifies the rounding error of its base n times. So the relative error of the base is computed
/// exactly and corrected for.
fn ratio_power(x: f64, k: f64, n: f64) -> f64 {
    if k == 0.0 {
        return 1.0;
    }
    let at = x + k;
    // By Knuth's two-sum, x + k = at + at_error exactly.
    let k_part = at - x;
    let at_error = (x - (at - k_part)) + (k - k_part);
    let base = x / at;
    let residual = (-base).mul_add(at, x) - base * at_error;
    pow(base, n) * exp(n * (residual / x))
}

/// Returns `n! / xⁿ` as a pair `(root, front)` whose value is `root² · front`; neither number overflows or
/// underflows unless the product nearly does.
fn factorial_over_power(n: f64, x: f64) -> (f64, f64) {
    // For n up to 22, the factorial n! is exact in f64.
    if n <= 22.0 {
        let mut factorial = 1.0;
        let mut k = 2.0;
        while k <= n {
            factorial *= k;
            k += 1.0;
        }
        return (pow(x, -0.5 * n), factorial);
    }

    // Stirling: n! = √(2πn) (n/e)ⁿ exp(1/(12n) - …) (DLMF 5.11.1), so the quotient contains (n / (e x))ⁿ. As in
    // `ratio_power`, the rounding error of the base, including that of e, is computed and corrected for.
    /// The exact value of e minus the rounded constant.
    const E_LOW: f64 = 1.445_646_891_729_250_2e-16;
    // Outside this window the result is 0 or ∞ anyway; the clamp prevents an overflow of e·x.
    let x = x.clamp(1e-100, 1e100);
    let ex = E * x;
    let ex_error = E.mul_add(x, -ex) + E_LOW * x;
    let base = n / ex;
    let residual = (-base).mul_add(ex, n) - base * ex_error;
    let inverse = 1.0 / n;
    let stirling = inverse
        * polynomial(
            &[1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0],
            inverse * inverse,
        );
    // The relative error of the base is residual / n; its n-th power contributes n · (residual / n).
    let front = (TAU * n).sqrt() * exp(stirling + residual);
    (pow(base, 0.5 * n), front)
}
