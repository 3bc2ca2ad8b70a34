//! Tests of the scaled Bessel functions `i0e` and `i1e`.

use crate::test_support::{INFINITY, NAN, check, check_exact, ulps};
use tapeloom_math::scaled_bessel::*;
use tapeloom_math::{Parted, Recording};

#[test]
fn derivatives_keep_their_digits_on_both_sides_of_every_seam() {
    let slopes = [
        (1e-9, -0.999_999_998_5),
        (0.5, -0.488_614_467_264_278_4),
        (5.99, -0.014_644_760_236_541_727),
        (6.01, -0.014_567_359_136_743_733),
        (300.0, -3.843_637_481_651_089e-5),
        (1e5, -6.307_854_959_639_557e-9),
        (1e12, -1.994_711_402_007_911_4e-19),
    ];
    check(|x| i0e(1, x), 3.0, &slopes);
    check(|x| i0e(1, -x), 3.0, &slopes.map(|(x, y)| (x, -y)));
    let slopes = [
        (1e-9, 0.499_999_999_000_000_03),
        (0.5, 0.175_772_860_894_534_98),
        (5.99, -0.010_757_397_681_109_816),
        (6.01, -0.010_714_538_863_955_656),
        (300.0, -3.824_403_198_438_561e-5),
        (1e5, -6.307_760_341_578_615e-9),
        (1e12, -1.994_711_402_004_919_2e-19),
    ];
    check(|x| i1e(1, x), 4.0, &slopes);
    check(|x| i1e(1, -x), 4.0, &slopes);
    let curvatures = [
        (0.5, 0.664_387_328_158_813_3),
        (23.99, 1.090_738_555_991_539_5e-4),
        (24.01, 1.088_442_706_995_494_5e-4),
        (1e5, 9.461_806_094_270_26e-14),
        (1e12, 2.992_067_103_012_615e-31),
    ];
    check(|x| i0e(2, x), 12.0, &curvatures);
    check(|x| i0e(2, -x), 12.0, &curvatures);
    let curvatures = [
        (1e-9, -0.999_999_998_125),
        (0.5, -0.390_249_837_208_396_5),
        (24.01, 9.738_195_099_032_929e-5),
        (1e12, 2.992_067_103_005_135e-31),
    ];
    check(|x| i1e(2, x), 12.0, &curvatures);
    check(|x| i1e(2, -x), 12.0, &curvatures.map(|(x, y)| (x, -y)));
    let last = [(0.5, 41_188_400.945_928_745), (79.9, 1.133_025_345_813_957_5e-27)];
    check(|x| i0e(SCALED_BESSEL_ORDERS, x), 40.0, &last);
    check(|x| i1e(30, x), 40.0, &[(1000.0, 3.353_572_730_506_986e-61)]);
}

#[test]
fn edge_values() {
    check_exact(|x| i0e(0, x), &[(0.0, 1.0), (INFINITY, 0.0), (-INFINITY, 0.0), (NAN, NAN)]);
    check_exact(|x| i0e(1, x), &[(0.0, 0.0), (INFINITY, 0.0), (-INFINITY, 0.0), (NAN, NAN)]);
    check_exact(|x| i1e(1, x), &[(0.0, 0.5), (-0.0, 0.5), (INFINITY, 0.0), (NAN, NAN)]);
    // The derivatives of e⁻|x| at 0 count as 0, so the expected values are derivatives of I₀ and I₁.
    for (n, (of_i0, of_i1)) in [(0.5, 0.0), (0.0, 0.375), (0.375, 0.0)].into_iter().enumerate() {
        let n = n as u32 + 2;
        check_exact(|x| i0e(n, x), &[(0.0, of_i0), (NAN, NAN)]);
        check_exact(|x| i1e(n, x), &[(0.0, of_i1), (NAN, NAN)]);
    }
    assert!(i0e(SCALED_BESSEL_ORDERS + 1, 1.0).is_nan());
    // No intermediate result may overflow for tiny and huge arguments.
    for x in [5e-324, 1e-310, 1e250, f64::MAX] {
        for n in 0..=SCALED_BESSEL_ORDERS {
            assert!(i0e(n, x).is_finite() && i1e(n, x).is_finite(), "{n} {x}");
        }
    }
    check(|x| i0e(1, x), 3.0, &[(1e200, -1.994_711_402_007_163_6e-301)]);
}

/// The derivative of `e⁻ᵃ I₁(a)` must be accurate near its root, where the difference of Bessel functions
/// has lost all digits.
#[test]
fn the_slope_keeps_its_digits_at_its_root() {
    let root = 1.545_127_257_992_542_6_f64;
    let slopes = [(root, 5.318_143_190_471_513e-18), (root.next_up(), -5.789_862_308_988_234e-18)];
    check(|x| i1e(1, x), 3.0, &slopes);
}

#[test]
fn recordings_have_the_same_bits() {
    let recording = Recording::of::<ScaledBesselSlope<1>>(false);
    for x in [-7.0, 0.0, 0.3, 5.99, 6.0, 1e9] {
        let y = f64::from_bits(recording.evaluate(&[f64::to_bits(x)]).1);
        assert_eq!(ulps(y, ScaledBesselSlope::<1>::here(x)), 0.0);
    }
}
