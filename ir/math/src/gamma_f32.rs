//! `lgamma` and `digamma` in f32, for positive numbers. f64 is in [`gamma_f64`](super::gamma_f64), other arguments are in
//! [`gamma`](super::gamma).
//!
//! From 3 on, both are Stirling's series, whose terms in 1/x² are fitted. Below, both are polynomials on an interval that
//! contains the positive roots, `(t - 1) (t - 2) P(t)` on [1, 3] and `(t - r) Q(t)` on [1, 2], which the recurrences
//! `ln Γ(x) = ln Γ(x + 1) - ln x` and `ψ(x + 1) = ψ(x) + 1/x` extend. The polynomials are series of Chebyshev polynomials,
//! cut off where their terms are below a tenth of a rounding error.

use super::logarithm::Log;
use super::number::{Format, Number, polynomial};
use super::vector_math::{Parted, PartedIn};
use super::{Digamma, Lgamma, digamma, lgamma};

/// The smallest argument from which on Stirling's series is used.
const STIRLING: f32 = 3.0;
/// A bound up to which `lgamma` is certain not to overflow.
const LGAMMA_IS_FINITE: f32 = 4e36;
/// The coefficients of `ln Γ(t) / ((t - 1) (t - 2))` in powers of t - 2, for 1 ≤ t ≤ 3.
const LGAMMA_NEAR_ROOTS: &[f32] = &[
    0.422_784_33,
    -0.100_317_27,
    0.032_964_95,
    -0.012_384_975,
    0.004_999_480_7,
    -0.002_102_061_6,
    0.000_910_506_3,
    -0.000_425_571_37,
    0.000_195_799_47,
    -0.000_052_419_444,
    0.000_020_249_377,
    -0.000_038_734_208,
    0.000_019_308_75,
];
/// The coefficients of `x (ln Γ(x) - (x - 1/2) (ln x - 1) - (ln 2π - 1) / 2)` in powers of 1/x², for x ≥ 3.
const LGAMMA_STIRLING: &[f32] =
    &[0.083_333_336, -0.002_777_590_9, 0.000_784_825_77, -0.000_455_066_15];
/// The constant (ln 2π - 1) / 2.
const LGAMMA_OFFSET: f32 = 0.418_938_53;
/// The positive root r of ψ, the digamma function, in two pieces. The first has few bits, so that r - 1 and r + 1 are
/// exact.
const DIGAMMA_ROOT: [f32; 2] = [1.461_632_3, -1.067_711_4e-7];
/// The coefficients of `ψ(r + d) / d` in powers of d, for 1 ≤ r + d ≤ 2.
const DIGAMMA_NEAR_ROOT: &[f32] = &[
    0.967_672_2,
    -0.442_763_24,
    0.258_499_23,
    -0.163_937_36,
    0.107_842_48,
    -0.072_326_876,
    0.048_598_293,
    -0.031_913_7,
    0.023_312_157,
    -0.020_697_597,
    0.011_232_875,
];
/// The coefficients of `x² (ln x - 1/(2x) - ψ(x))` in powers of 1/x², for x ≥ 3.
const DIGAMMA_STIRLING: &[f32] = &[0.083_333_33, -0.008_331_787, 0.003_894_552_4, -0.002_972_512];

impl PartedIn<f32> for Lgamma {
    #[inline(always)]
    fn inside<N: Number<Float = f32>>(x: N) -> N::Mask {
        N::of(f32::LEAST).le(x) & x.le(N::of(LGAMMA_IS_FINITE))
    }

    #[inline(always)]
    fn straight<N: Number<Float = f32>>(x: N) -> N {
        let [zero, half, one, two] = [0.0, 0.5, 1.0, 2.0].map(N::of);
        let log = Log::straight(x);
        let by = one / x;
        let rest = by.fma(polynomial(LGAMMA_STIRLING, by * by), N::of(LGAMMA_OFFSET));
        let large = (x - half).fma(log - one, rest);
        let below = x.lt(one);
        // The numbers t - 1 and t - 2, where t is x + 1 if x < 1, and x otherwise. Both are exact near the roots 1 and
        // 2 of ln Γ.
        let [from_one, from_two] = [N::pick(below, x, x - one), N::pick(below, x - one, x - two)];
        // At a root of ln Γ the product is -0. The fused multiply-add adds +0 to it, so that the result is +0.
        let near = (from_one * from_two).fma(polynomial(LGAMMA_NEAR_ROOTS, from_two), zero);
        let small = near - N::pick(below, log, zero);
        N::pick(x.lt(N::of(STIRLING)), small, large)
    }

    fn beyond(x: f32) -> f32 {
        lgamma(x.into()) as f32
    }
}

impl PartedIn<f32> for Digamma {
    #[inline(always)]
    fn inside<N: Number<Float = f32>>(x: N) -> N::Mask {
        N::of(f32::LEAST).le(x) & x.le(N::of(f32::LARGEST))
    }

    #[inline(always)]
    fn straight<N: Number<Float = f32>>(x: N) -> N {
        let [zero, half, one, two] = [0.0, 0.5, 1.0, 2.0].map(N::of);
        let (below, above, is_large) = (x.lt(one), two.le(x), N::of(STIRLING).le(x));
        // All cases share one division: its divisor is x - 1 for 2 ≤ x < 3, and x otherwise.
        let by = one / N::pick(above & !is_large, x - one, x);
        let [root, root_low] = DIGAMMA_ROOT;
        let [before, here, after] = [root - 1.0, root, root + 1.0].map(N::of);
        let d = (x - N::pick(below, before, N::pick(above, after, here))) - N::of(root_low);
        let near = d * polynomial(DIGAMMA_NEAR_ROOT, d);
        let small = near + N::pick(below, -by, N::pick(above, by, zero));
        let square = by * by;
        let rest = by.fma(half, square * polynomial(DIGAMMA_STIRLING, square));
        N::pick(is_large, Log::straight(x) - rest, small)
    }

    fn beyond(x: f32) -> f32 {
        digamma(x.into()) as f32
    }
}
