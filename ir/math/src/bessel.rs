//! Bessel functions of integer order: J and Y, and the modified ones of the first kind, I.
//!
//! J and Y come from the `libm` crate, a port of Sun's fdlibm.
//!
//! I of the orders 0 and 1 is `e^|x|` times a polynomial in `(|x| - k) / (|x| + k)`, divided by `√(|x| + c)`, which has the
//! growth of the function at infinity. The constants k and c need the fewest terms; the polynomial is the series of
//! Chebyshev polynomials, cut off where its terms are below a tenth of a rounding error. I of other orders is computed by
//!
//! * the power series for |x| ≤ 20, whose terms are all positive;
//! * Hankel's asymptotic series (DLMF 10.40.1) for |x| > 20 and n² ≤ |x|;
//! * elsewhere, the product of I₀ and the ratios of neighbouring orders, by the backward recurrence
//!   `Iₖ/Iₖ₋₁ = 1 / (2k/x + Iₖ₊₁/Iₖ)` (Gautschi, "Computational aspects of three-term recurrence relations",
//!   1967).

use super::exponential::{Exp, NORMAL};
use super::number::{Coefficients, Constant, Format, Number, series as polynomial};
use super::vector_math::Parted;
use super::{exp, hypot};
use std::f64::consts::TAU;

/// The constant k/2, where `(a - k) / (a + k)` is the variable of the polynomials [`SCALED_0`] and [`SCALED_1`].
const HALF_CENTER: Constant = Constant(4.0, 2.5);
/// The constant c in `√(a + c)`, a factor of the functions that [`SCALED_0`] and [`SCALED_1`] approximate.
const SHIFT: Constant = Constant(1.25, 1.25);
/// The coefficients of `e⁻ᵃ I₀(a) √(a + c)` in powers of `(a - k) / (a + k)`, for a ≥ 0.
const SCALED_0: Coefficients = Coefficients(
    &[
        0.436_230_734_166_378_53,
        -0.074_755_656_334_513_49,
        0.076_070_860_257_168_93,
        -0.079_798_487_479_781_79,
        0.087_420_485_435_438_33,
        -0.101_083_707_929_058_59,
        0.120_912_533_722_252_61,
        -0.137_446_538_263_404_78,
        0.124_630_820_096_292_98,
        -0.053_707_564_942_210_045,
        -0.059_810_054_757_321_45,
        0.126_692_781_213_050_83,
        -0.063_852_876_096_834_78,
        -0.062_572_230_248_807_58,
        0.076_563_777_118_636_49,
        0.037_506_823_225_152_96,
        -0.073_233_041_183_272_69,
        -0.032_630_611_715_587_26,
        0.060_465_327_403_279_72,
        0.043_681_704_718_846_73,
        -0.041_431_862_886_983_16,
        -0.058_546_580_987_591_17,
        0.010_868_661_072_412_699,
        0.068_846_980_897_511_37,
        0.028_923_397_408_422_754,
        -0.066_628_911_650_277_73,
        -0.068_157_910_320_788_02,
        0.050_969_636_071_899_124,
        0.092_011_381_501_409_06,
        -0.028_680_061_837_482_777,
        -0.091_150_543_696_486_85,
        0.009_828_812_569_950_062,
        0.069_213_694_792_036_97,
        -1.822_059_471_441_059e-5,
        -0.040_185_391_074_376_36,
        -0.002_155_429_613_322_268,
        0.017_351_587_694_466_31,
        0.001_260_989_040_475_739_2,
        -0.005_268_635_248_758_978_5,
        -0.000_351_475_540_382_829_9,
        0.001_006_663_934_900_785_3,
        4.189_522_601_682_054e-5,
        -9.147_476_261_011_395e-5,
    ],
    &[
        0.458_852_02,
        -0.122_131_95,
        0.132_493_5,
        -0.155_107_36,
        0.179_633_36,
        -0.163_762_2,
        0.058_658_868,
        0.090_507_6,
        -0.123_111_43,
        -0.007_897_238,
        0.091_738_89,
        -0.002_909_019_1,
        -0.064_912_04,
        0.001_972_164_3,
        0.035_986_844,
        -0.000_182_617_27,
        -0.013_028_831,
        -0.000_035_235_71,
        0.002_176_941_8,
    ],
);
/// The coefficients of `e⁻ᵃ I₁(a) (a + c) √(a + c) / a` in powers of `(a - k) / (a + k)`, for a ≥ 0.
const SCALED_1: Coefficients = Coefficients(
    &[
        0.471_725_101_267_177_76,
        -0.140_298_045_383_144_05,
        0.126_969_159_422_278_43,
        -0.107_057_571_961_713_16,
        0.077_704_028_491_109_05,
        -0.034_451_660_971_383_25,
        -0.025_810_608_778_713_6,
        0.094_686_797_154_551_99,
        -0.139_186_341_963_870_36,
        0.110_697_809_125_383_67,
        -0.000_545_211_595_533_132_7,
        -0.104_021_605_610_581_21,
        0.082_742_561_251_776_5,
        0.042_022_476_321_137_384,
        -0.086_157_854_865_636_51,
        -0.018_278_033_040_447_027,
        0.077_722_606_425_322_96,
        0.018_586_971_862_466_96,
        -0.066_574_431_474_718_02,
        -0.033_288_171_085_886_08,
        0.049_751_912_531_283_866,
        0.053_464_358_198_298_874,
        -0.021_647_870_523_499_573,
        -0.070_340_150_414_149_27,
        -0.017_148_014_874_918_124,
        0.075_468_486_672_873_62,
        0.056_969_455_233_835_87,
        -0.065_620_404_170_803_74,
        -0.082_629_782_975_908_7,
        0.045_457_010_784_317_68,
        0.083_940_964_224_229_54,
        -0.024_384_249_593_161_2,
        -0.064_090_700_491_710_95,
        0.009_674_910_388_661_053,
        0.036_946_484_054_281_706,
        -0.002_619_138_685_293_183_8,
        -0.015_678_805_548_598_292,
        0.000_403_934_239_443_505_06,
        0.004_632_881_231_908_937,
        -1.486_880_135_405_611_6e-5,
        -0.000_852_326_965_813_324_3,
        -3.336_312_844_277_889_6e-6,
        7.355_761_077_447_292e-5,
    ],
    &[
        0.512_413_3,
        -0.208_344_31,
        0.155_417_89,
        -0.065_713_905,
        -0.056_225_09,
        0.155_125_54,
        -0.133_863_52,
        -0.017_449_86,
        0.120_649_77,
        -0.029_900_065,
        -0.086_926_19,
        0.026_680_782,
        0.062_086_85,
        -0.014_243_357,
        -0.035_662_79,
        0.004_633_338,
        0.013_232_672,
        -0.000_702_652_03,
        -0.002_266_167_2,
    ],
);

/// The implementation of [`bessel_ie`] for the order `ORDER`, 0 or 1: for one argument, for eight at once, and as a recorded
/// list of operations.
pub struct BesselIe<const ORDER: u32>;

impl<const ORDER: u32> Parted for BesselIe<ORDER> {
    #[inline(always)]
    fn inside<N: Number>(_: N) -> N::Mask {
        N::always(true)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let [zero, half, one, infinity] =
            [N::Float::ZERO, N::Float::HALF, N::Float::ONE, N::Float::INFINITY].map(N::of);
        let a = x.abs();
        // The variable (a - k) / (a + k), written with a smaller rounding error near -1. The form 2 a / (a + k) - 1
        // could overflow.
        let s = a / a.fma(half, N::constant(HALF_CENTER)) - one;
        let shifted = a + N::constant(SHIFT);
        let root = shifted.sqrt();
        let y = if ORDER == 0 {
            polynomial(SCALED_0, s) / root
        } else {
            (a / shifted) * (polynomial(SCALED_1, s) / root)
        };
        let y = N::pick(a.same(infinity), zero, y);
        if ORDER == 0 { y } else { y.copysign(x) }
    }

    fn beyond(x: f64) -> f64 {
        Self::straight(x)
    }
}

/// The implementation of [`bessel_i`] for the order `ORDER`, 0 or 1: for one argument, for eight at once, and as a recorded
/// list of operations.
pub struct BesselI<const ORDER: u32>;

impl<const ORDER: u32> Parted for BesselI<ORDER> {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        x.abs().le(N::constant(NORMAL))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        Exp::straight(x.abs()) * BesselIe::<ORDER>::straight(x)
    }

    fn beyond(x: f64) -> f64 {
        // Multiply by √(e^|x|) twice, since e^|x| overflows before the function does.
        let root = exp(0.5 * x.abs());
        let value =
            if root == f64::INFINITY { root } else { BesselIe::<ORDER>::at(x.abs()) * root * root };
        with_parity(ORDER, x, value)
    }
}

/// Returns the Bessel function of the first kind, `Jₙ(x)`.
///
/// Domain: all reals; 0 at ±∞. The error is a few ulp of the amplitude, `√(2/(π|x|))` for |x| > n, also at the roots.
#[must_use]
pub fn bessel_j(n: u32, x: f64) -> f64 {
    match n {
        0 => libm::j0(x),
        1 => libm::j1(x),
        _ => libm::jn(n.min(i32::MAX as u32) as i32, x),
    }
}

/// Returns the Bessel function of the second kind, `Yₙ(x)`.
///
/// Domain: `x ≥ 0`; NaN below. -inf at 0, 0 at inf. The error is a few ulp of the amplitude, also at the roots.
#[must_use]
pub fn bessel_y(n: u32, x: f64) -> f64 {
    if x < 0.0 {
        return f64::NAN;
    }
    match n {
        0 => libm::y0(x),
        1 => libm::y1(x),
        _ => libm::yn(n.min(i32::MAX as u32) as i32, x),
    }
}

/// Returns the modified Bessel function of the first kind, `Iₙ(x)`; it overflows from |x| ≈ 714 on.
///
/// Domain: all reals; ±∞ at ±∞ by the parity of n, NaN for NaN. For the orders 0 and 1 within 5 ulp (in f32 6.5).
#[must_use]
pub fn bessel_i(n: u32, x: f64) -> f64 {
    match n {
        0 => return BesselI::<0>::here(x),
        1 => return BesselI::<1>::here(x),
        _ => {}
    }
    let size = x.abs();
    let value = if size <= SERIES {
        series(n, size)
    } else {
        let root = exp(0.5 * size);
        if root == f64::INFINITY { root } else { scaled(n, size) * root * root }
    };
    with_parity(n, x, value)
}

/// Returns the scaled modified Bessel function `e⁻|x| Iₙ(x)`, which does not overflow.
///
/// Domain: all reals; 0 at ±∞, NaN for NaN. For the orders 0 and 1 within 4 ulp (in f32 5.5).
#[must_use]
pub fn bessel_ie(n: u32, x: f64) -> f64 {
    match n {
        0 => return BesselIe::<0>::here(x),
        1 => return BesselIe::<1>::here(x),
        _ => {}
    }
    let size = x.abs();
    let value = if size <= SERIES { series(n, size) * exp(-size) } else { scaled(n, size) };
    with_parity(n, x, value)
}

/// The largest |x| at which the power series is used.
const SERIES: f64 = 20.0;

/// Returns `value` with the sign of `x` if the order `n` is odd, since functions of odd order are odd.
fn with_parity(n: u32, x: f64, value: f64) -> f64 {
    if n.is_multiple_of(2) { value } else { value.copysign(x) }
}

/// Returns `Iₙ(x)` by its power series `(x/2)ⁿ/n! Σ (x²/4)ᵏ / (k! (n + 1) … (n + k))`.
fn series(n: u32, x: f64) -> f64 {
    let (half, order) = (0.5 * x, f64::from(n));
    let mut front = 1.0;
    for i in 1..=n {
        front *= half / f64::from(i);
        if front == 0.0 {
            return 0.0;
        }
    }
    let (square, mut term, mut sum, mut k) = (half * half, 1.0, 1.0, 0.0);
    while term > sum * (f64::EPSILON / 64.0) {
        k += 1.0;
        term *= square / (k * (order + k));
        sum += term;
    }
    front * sum
}

/// Returns `e⁻ˣ Iₙ(x)` for `x > 20`, by Hankel's series or the backward recurrence.
fn scaled(n: u32, x: f64) -> f64 {
    let order = f64::from(n);
    if x == f64::INFINITY {
        return 0.0;
    }
    if x.is_nan() {
        return x;
    }
    if order * order <= x {
        return hankel(order, x);
    }
    // Start the recurrence at an order k so high that the ratio 0 assumed there does not matter: its effect
    // decays like Kₙ/Iₙ.
    let mut k = (hypot(order, (40.0 * x).sqrt()) + 10.0).floor();
    let (mut ratio, mut product) = (0.0, 1.0);
    while k > 0.0 {
        ratio = 1.0 / (2.0 * k / x + ratio);
        if k <= order {
            product *= ratio;
        }
        k -= 1.0;
    }
    product * hankel(0.0, x)
}

/// Returns `e⁻ˣ Iₙ(x)` by Hankel's asymptotic series `1/√(2πx) Σ (-1)ᵏ (4n² - 1) (4n² - 9) … (4n² - (2k - 1)²) /
/// (k! (8x)ᵏ)`.
fn hankel(order: f64, x: f64) -> f64 {
    let (mut term, mut sum, mut k): (f64, f64, f64) = (1.0, 1.0, 0.0);
    while term.abs() > f64::EPSILON / 64.0 * sum.abs() && k < 60.0 {
        k += 1.0;
        let odd = 2.0 * k - 1.0;
        term *= (odd - 2.0 * order) * (odd + 2.0 * order) / (8.0 * k * x);
        sum += term;
    }
    sum / (TAU * x).sqrt()
}
