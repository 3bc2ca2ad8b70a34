//! `lgamma` and `digamma` in f64, for positive numbers; other arguments are in [`gamma`](super::gamma).
//!
//! Both are Stirling's series from 3 on. Below, `ln Γ(t)` is `(t - 1) (t - 2)` times a function without roots on [1, 3], and
//! `ψ(t)` is `t - r` times such a function, where r is the positive root of ψ. The recurrences `ln Γ(x) = ln Γ(x + 1) - ln x`
//! and `ψ(x) = ψ(x + 1) - 1/x` extend them to numbers below 1.
//!
//! These functions, and the remainders of Stirling's series, are quotients of polynomials. The coefficients are
//! least-squares fits of `P - quotient · Q` on 80 Chebyshev nodes of the interval, repeated ten times with the weights
//! `1 / Q` of the previous iteration (Loeb's iteration), in arithmetic of 60 digits. The errors are below 3e-17 of the value
//! of the function. One division serves both intervals.

use super::logarithm::{log_with_correction, log_with_integer};
use super::number::{Format, Number, polynomial};
use super::vector_math::PartedIn;
use super::{digamma_beyond, lgamma_beyond};

/// The smallest argument from which on Stirling's series is used.
const STIRLING: f64 = 3.0;
/// The remainder of Stirling's series for `lgamma` is evaluated at most at this argument, so that no power of it
/// overflows. Here and beyond, the remainder is too small to change a result.
const LARGEST_IN_SERIES: f64 = (1u64 << 63) as f64;
/// A bound up to which `lgamma` is certain not to overflow.
const LGAMMA_IS_FINITE: f64 = 2.5e305;
/// A number in the middle of the values of `ln Γ(t) / ((t - 1) (t - 2))` for 1 ≤ t ≤ 3.
const LGAMMA_CENTER: f64 = 29.0 / 64.0;
/// The coefficients of P and Q in `ln Γ(1 + z) = z (z - 1) (center + P(z) / Q(z))`, for 0 ≤ z ≤ 2.
const LGAMMA_NEAR_ROOTS: [[f64; 8]; 2] = [
    [
        0.124_090_664_901_532_85,
        0.149_604_532_430_745_6,
        -0.134_588_848_702_504_23,
        -0.288_666_772_338_960_3,
        -0.159_357_042_722_967_86,
        -0.035_628_933_759_180_66,
        -0.003_042_324_495_763_491,
        -6.890_208_102_234_373e-5,
    ],
    [
        1.0,
        3.181_995_207_025_807_3,
        3.951_671_666_665_714,
        2.425_980_759_102_211_3,
        0.769_998_389_707_963_3,
        0.120_630_361_406_938_61,
        0.008_039_596_723_560_055,
        0.000_154_949_270_077_935_88,
    ],
];
/// The coefficients of P and Q in `ln Γ(x) = (x - 1/2) (ln x - 1) + (ln 2π - 1) / 2 + P(x²) / (x Q(x²))`, for x ≥ 3.
const LGAMMA_STIRLING: [[f64; 5]; 2] = [
    [
        0.042_002_933_424_754_314,
        0.666_651_132_337_640_4,
        1.345_663_023_487_839_5,
        0.673_749_866_699_301,
        0.083_333_333_333_330_84,
    ],
    [
        0.678_202_639_136_323_1,
        8.476_607_033_321_008,
        16.409_043_531_400_382,
        8.118_331_733_714_8,
        1.0,
    ],
];
/// The constant (ln 2π - 1) / 2.
const LGAMMA_OFFSET: f64 = 0.418_938_533_204_672_7;
/// The positive root r of ψ, the digamma function, rounded, and its rounding error.
const DIGAMMA_ROOT: [f64; 2] = [1.461_632_144_968_362_2, 9.549_995_429_965_697e-17];
/// The coefficients of P and Q in `ψ(1 + z) = (1 + z - r) (1 + P(z) / Q(z))`, for 0 ≤ z ≤ 2.
const DIGAMMA_NEAR_ROOT: [[f64; 7]; 2] = [
    [
        0.250_380_137_503_405_3,
        -0.315_397_654_838_850_5,
        -0.683_712_607_442_398_4,
        -0.340_139_857_785_392_5,
        -0.065_399_363_441_510_55,
        -0.004_774_104_201_852_463,
        -9.471_637_794_666_196e-5,
    ],
    [
        1.0,
        2.153_907_698_671_165,
        1.616_540_887_417_034_8,
        0.540_379_976_664_988,
        0.082_895_233_007_633_67,
        0.005_243_911_173_103_265,
        9.548_814_997_289_287e-5,
    ],
];
/// The coefficients of P and Q in `ψ(x) = ln x - 1/(2x) - P(w) / Q(w) w`, where w is 1/x², for x ≥ 3.
const DIGAMMA_STIRLING: [[f64; 5]; 2] = [
    [
        0.083_333_333_333_313_94,
        0.788_397_531_279_557_8,
        1.892_276_353_575_951_5,
        1.164_570_915_085_823_7,
        0.091_180_406_003_979_7,
    ],
    [
        1.0,
        9.560_770_375_266_346,
        23.615_774_245_040_974,
        15.931_152_750_494_226,
        1.949_886_900_514_553_8,
    ],
];

/// The implementation of [`lgamma`](super::lgamma) for each float type, which evaluates one argument, or lists its
/// operations for the code generator.
pub struct Lgamma;

impl PartedIn<f64> for Lgamma {
    #[inline(always)]
    fn inside<N: Number<Float = f64>>(x: N) -> N::Mask {
        N::of(f64::LEAST).le(x) & x.le(N::of(LGAMMA_IS_FINITE))
    }

    #[inline(always)]
    fn straight<N: Number<Float = f64>>(x: N) -> N {
        let [zero, half, one] = [0.0, 0.5, 1.0].map(N::of);
        let (below, large) = (x.lt(one), N::of(STIRLING).le(x));
        // The number t - 1, where t is x + 1 if x < 1, and x otherwise. It is exact near the roots 1 and 2 of ln Γ.
        let z = N::pick(below, x, x - one);
        let most = N::of(LARGEST_IN_SERIES);
        let bounded = N::pick(x.lt(most), x, most);
        let square = bounded * bounded;
        let [near_p, near_q] = LGAMMA_NEAR_ROOTS.map(|c| polynomial(&c, z));
        let [p, q] = LGAMMA_STIRLING.map(|c| polynomial(&c, square));
        let quotient = N::pick(large, p, near_p) / N::pick(large, q * bounded, near_q);
        // At a root of ln Γ the product is -0. The fused multiply-add adds +0 to it, so that the result is +0.
        let near = (z * (z - one)).fma(N::of(LGAMMA_CENTER) + quotient, zero);
        // This is ln x - 1 for a large x, and ln x - ln Γ(x + 1) for an x below 1.
        let log = log_with_integer(x, N::pick(large, -one, zero), N::pick(below, -near, zero));
        let above = (x - half).fma(log, N::of(LGAMMA_OFFSET) + quotient);
        N::pick(large, above, N::pick(below, -log, near))
    }

    fn beyond(x: f64) -> f64 {
        lgamma_beyond(x)
    }
}

/// The implementation of [`digamma`](super::digamma) for each float type, which evaluates one argument, or lists its
/// operations for the code generator.
pub struct Digamma;

impl PartedIn<f64> for Digamma {
    #[inline(always)]
    fn inside<N: Number<Float = f64>>(x: N) -> N::Mask {
        N::of(f64::LEAST).le(x) & x.le(N::of(f64::LARGEST))
    }

    #[inline(always)]
    fn straight<N: Number<Float = f64>>(x: N) -> N {
        let [zero, half, one] = [0.0, 0.5, 1.0].map(N::of);
        let (below, large) = (x.lt(one), N::of(STIRLING).le(x));
        // The numbers t - 1 and t - r, where t is x + 1 if x < 1, and x otherwise. The number r - 1 is exact, and so is
        // `high` for x ≥ 1.
        let z = N::pick(below, x, x - one);
        let [root, root_low] = DIGAMMA_ROOT;
        let high = x - N::pick(below, N::of(root - 1.0), N::of(root));
        let low = N::of(-root_low);
        let by = one / x;
        let square = by * by;
        let [near_p, near_q] = DIGAMMA_NEAR_ROOT.map(|c| polynomial(&c, z));
        let [p, q] = DIGAMMA_STIRLING.map(|c| polynomial(&c, square));
        let quotient = N::pick(large, p, near_p) / N::pick(large, q, near_q);
        let near = (high + (high + low).fma(quotient, low)) - N::pick(below, by, zero);
        let rest = square.fma(quotient, half * by);
        N::pick(large, log_with_correction(x, -rest), near)
    }

    fn beyond(x: f64) -> f64 {
        digamma_beyond(x)
    }
}
