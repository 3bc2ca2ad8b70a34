//! Tests of `gamma`.

use crate::test_support::{INFINITY, NAN, check, check_exact, grid, ulps};
use std::f64::consts::{LN_2, PI};
use tapeloom_math::gamma::*;

// The expected values in the tables come from mpmath with 60 digits, rounded once.

#[test]
fn lgamma_matches_high_precision_values() {
    check(
        lgamma,
        3.0,
        &[
            (1e-300, 690.7755278982137),
            (0.05, 2.9688792010517306),
            (0.5, 0.5723649429247001),
            (0.9, 0.06637623973474295),
            (1.0000001, -5.772155829918507e-08),
            (1.5, -0.12078223763524522),
            (1.9999999, -4.2278430309861296e-08),
            (2.5, 0.2846828704729192),
            (4.0, 1.791759469228055),
            (10.0, 12.801827480081469),
            (100.0, 359.1342053695754),
            (-0.5, 1.2655121234846454),
            (-1.5, 0.860047015376481),
            (-3.75, -1.3172679424463636),
            (10000000000.0, 220258509288.81058),
            (1e+305, 7.012884533631839e+307),
        ],
    );
}

/// Compares values at the ends of the intervals on which a formula is used, at the floats next to the roots, and at the
/// arguments with the largest errors of 900,000 random ones.
#[test]
fn positive_arguments_at_ends_and_with_large_errors() {
    check(
        lgamma,
        3.0,
        &[
            (5e-324, 744.4400719213812),
            (f64::MIN_POSITIVE, 708.3964185322641),
            (0.34416214128749606, 0.9520849818244569),
            (0.7562884987721177, 0.19650255771583416),
            (0.99992696762835, 4.2159815932265865e-5),
            (0.9999999999999999, 6.408381213480008e-17),
            (1.0000000000000002, -1.2816762426960008e-16),
            (1.0001009958740552, -5.8288011707093074e-5),
            (1.3885512499016266, -0.11884269043139402),
            (1.9999999999999998, -9.387698065543117e-17),
            (2.0000000000000004, 1.8775396131086244e-16),
            (2.009031865818077, 0.0038447870172085667),
            (2.7703382811669255, 0.4919599424739937),
            (2.9999999999999996, LN_2 - 1.5 * f64::EPSILON),
            (3.0, LN_2),
            (3.0589941420912576, 0.7482680825078442),
            (27.748594920892543, 63.725474147256875),
            (2.5e305, 1.7555118602376452e308),
            (2.5000000000000004e305, 1.7555118602376456e308),
        ],
    );
    check(
        digamma,
        3.0,
        &[
            (1e-308, -1e308),
            (f64::MIN_POSITIVE, -4.49423283715579e307),
            (0.49291254198961937, -1.998913764141958),
            (0.789493708116775, -0.9894150254410445),
            (0.8963111500746969, -0.7620407775426421),
            (0.9229409937821053, -0.7116453810809773),
            (0.9999999999999999, -0.5772156649015331),
            (1.0000000000000002, -0.5772156649015325),
            (1.0539858588825535, -0.49175392074195895),
            (1.461632144968362, -3.072790566546293e-16),
            (1.7481410756695945, 0.24605107429458514),
            (2.9999999999894738, 0.92278433509431),
            (2.9999999999999996, 0.9227843350984669),
            (3.0, 0.9227843350984671),
            (3.0866669363564965, 0.9564458663372556),
            (1e19, 43.74911676688687),
            (f64::MAX, 709.782712893384),
        ],
    );
}

#[test]
fn digamma_matches_high_precision_values() {
    check(
        digamma,
        3.0,
        &[
            (1e-300, -9.999999999999999e+299),
            (1e-10, -10000000000.577215),
            (0.05, -20.497844991299868),
            (0.5, -1.9635100260214235),
            (0.9, -0.7549269499470513),
            (1.0, -0.5772156649015329),
            (1.25, -0.22745353337626542),
            (1.46163, -2.0756283887224574e-06),
            (1.4616321449683622, -9.241265521729427e-17),
            (1.4616321449683625, 1.2245374622004068e-16),
            (1.47, 0.008066489011364869),
            (1.75, 0.24747245354686118),
            (2.0, 0.42278433509846713),
            (2.5, 0.7031566406452432),
            (5.0, 1.5061176684318005),
            (9.999, 2.2516474172057355),
            (10.0, 2.251752589066721),
            (25.0, 3.198742512851974),
            (100000.0, 11.512920464961896),
            (1e+300, 690.7755278982137),
        ],
    );
    check(
        digamma,
        8.0,
        &[
            (-1e-300, 9.999999999999999e+299),
            (-1e-10, 9999999999.422785),
            (-0.1, 9.245073050052948),
            (-0.25, 2.9141391202135276),
            (-0.75, -2.894120200042932),
            (-1.25, 3.714139120213528),
            (-2.5, 1.103156640645243),
            (-10.75, -0.7208957601671612),
            (-100.125, 12.195880442483347),
        ],
    );
}

#[test]
fn polygamma_matches_high_precision_values() {
    check(
        |x| polygamma(1, x),
        6.0,
        &[
            (1e-300, INFINITY),
            (1e-08, 1.0000000000000002e+16),
            (0.05, 401.53235734211506),
            (0.5, 4.934802200544679),
            (1.0, 1.6449340668482264),
            (2.5, 0.49035775610023485),
            (9.5, 0.11099728846909904),
            (11.0, 0.09516633568168574),
            (1000000.0, 1.0000005000001667e-06),
            (1e+300, 1e-300),
            (-0.25, 18.541879647671607),
            (-0.5, 8.934802200544679),
            (-3.875, 67.16628061966446),
        ],
    );
    check(
        |x| polygamma(2, x),
        6.0,
        &[
            (1e-100, -1.9999999999999998e+300),
            (0.05, -16002.108158021943),
            (0.9, -3.20179704379472),
            (1.0, -2.4041138063191885),
            (2.5, -0.2362040516417274),
            (30.0, -0.0011487652037286),
            (1e+150, -1e-300),
            (-0.25, 122.69736678366236),
            (-3.875, -1022.3459730952987),
        ],
    );
    check(
        |x| polygamma(3, x),
        6.0,
        &[
            (0.05, 960005.388322313),
            (0.9, 9.739014093776728),
            (2.5, 0.22390584881725206),
            (11.4, 0.0015379149282580024),
            (1e+100, 2e-300),
            (-0.5, 193.40909103400244),
            (-2.75, 1558.4897512832936),
        ],
    );
    check(
        |x| polygamma(4, x),
        6.0,
        &[
            (0.05, -76800019.59394214),
            (0.9, -41.77244617253412),
            (2.5, -0.3137559995067314),
            (12.5, -0.00028769142258538706),
            (-0.25, 24473.199394184583),
            (-1.125, 786397.3253708257),
        ],
    );
    check(
        |x| polygamma(22, x),
        6.0,
        &[
            (0.5, -9.428801497141217e+27),
            (3.0, -11955337672.465448),
            (20.0, -2.0133854801807145e-09),
            (1000.0, -5.16550968487835e-47),
        ],
    );
    check(
        |x| polygamma(23, x),
        6.0,
        &[
            (0.5, 4.3372486886542454e+29),
            (3.0, 91626679088.85553),
            (20.0, 2.2604583583998758e-09),
            (1000.0, 1.136978439620411e-48),
        ],
    );
    check(
        |x| polygamma(171, x),
        6.0,
        &[
            (1.5, 6.398549700193178e+278),
            (40.0, 3.513395552857754e+33),
            (100.0, 1.5158124172677882e-35),
            (1000.0, 7.895703658426907e-207),
        ],
    );
}

#[test]
fn edge_values() {
    check_exact(
        lgamma,
        &[
            (1.0, 0.0),
            (2.0, 0.0),
            (0.0, INFINITY),
            (-0.0, INFINITY),
            (-3.0, INFINITY),
            (INFINITY, INFINITY),
            (-INFINITY, INFINITY),
            (NAN, NAN),
        ],
    );
    check_exact(
        digamma,
        &[
            (0.0, NAN),
            (-0.0, NAN),
            (-1.0, NAN),
            (-1e300, NAN),
            (-INFINITY, NAN),
            (NAN, NAN),
            (INFINITY, INFINITY),
            (5e-324, -INFINITY),
            (-5e-324, INFINITY),
        ],
    );
    check_exact(
        |x| polygamma(1, x),
        &[
            (0.0, INFINITY),
            (-0.0, INFINITY),
            (-7.0, INFINITY),
            (-INFINITY, NAN),
            (NAN, NAN),
            (INFINITY, 0.0),
            (5e-324, INFINITY),
            (-5e-324, INFINITY),
        ],
    );
    check_exact(
        |x| polygamma(2, x),
        &[
            (0.0, NAN),
            (-0.0, NAN),
            (-7.0, NAN),
            (-INFINITY, NAN),
            (NAN, NAN),
            (INFINITY, -0.0),
            (5e-324, -INFINITY),
            (-5e-324, INFINITY),
        ],
    );
}

#[test]
fn order_zero_is_digamma() {
    check_exact(|x| polygamma(0, x), &[(1.5, digamma(1.5)), (-0.75, digamma(-0.75)), (0.0, NAN)]);
}

#[test]
fn digamma_obeys_its_recurrence() {
    // `ψ(x + 1) = ψ(x) + 1/x` must hold across every boundary between formulas. The points are multiples of 1/64,
    // so that x + 1 is exact.
    for x in grid(-12.0 + 1.0 / 64.0, 20.0 - 1.0 / 64.0, 2047) {
        if x == x.round() {
            continue;
        }
        let (left, right) = (digamma(x + 1.0), digamma(x) + 1.0 / x);
        let scale = left.abs() + digamma(x).abs() + 1.0;
        assert!((left - right).abs() <= 2e-15 * scale, "at {x}: {left} {right}");
    }
}

#[test]
fn digamma_duplicates() {
    // The duplication formula `ψ(2x) = ln 2 + (ψ(x) + ψ(x + 1/2)) / 2` must hold.
    for x in grid(0.5, 30.0, 473) {
        let right = LN_2 + 0.5 * (digamma(x) + digamma(x + 0.5));
        assert!((digamma(2.0 * x) - right).abs() <= 1e-15 * (1.0 + right.abs()), "at {x}");
    }
}

#[test]
fn polygamma_obeys_its_recurrence() {
    // The recurrence `|ψₙ(x)| = |ψₙ(x + 1)| + n! / xⁿ⁺¹` must hold for positive x.
    let mut factorial = 1.0;
    for n in 1..=40_u32 {
        factorial *= f64::from(n);
        for x in grid(0.25, 40.0, 160) {
            let step = factorial / x.powf(f64::from(n) + 1.0);
            let right = polygamma(n, x + 1.0).abs() + step;
            assert!(ulps(polygamma(n, x).abs(), right) <= 14.0, "order {n} at {x}");
        }
    }
}

#[test]
fn polygamma_reflects() {
    // ψ₁(x) + ψ₁(1 - x) must equal π² / sin²(πx), and ψ₂(1 - x) - ψ₂(x) must equal 2π³ cos(πx) / sin³(πx). The
    // points x are multiples of 1/64, so that x - m below is exact.
    for x in grid(1.0 / 64.0, 63.0 / 64.0, 63) {
        // Evaluate the sine at the end nearer to x, where the rounding error of π·x does not matter.
        let sin = (PI * x.min(1.0 - x)).sin();
        let first = PI * PI / (sin * sin);
        // cos(πx) is written as a sine, which is accurate also at its root 1/2.
        let second = 2.0 * PI.powi(3) * (PI * (0.5 - x)).sin() / sin.powi(3);
        for m in [0.0, 1.0, 5.0, 20.0] {
            let one = polygamma(1, x - m) + polygamma(1, 1.0 - x + m);
            assert!((one / first - 1.0).abs() < 3e-15, "order 1 at {x} - {m}");
            let two = polygamma(2, 1.0 - x + m) - polygamma(2, x - m);
            let scale = polygamma(2, x).abs() + polygamma(2, 1.0 - x).abs();
            assert!((two - second).abs() < 3e-15 * scale, "order 2 at {x} - {m}");
        }
    }
}

#[test]
fn very_high_orders() {
    // n! overflows a double from 171 on and n⁻ˢ underflows, but the results must be accurate.
    check(|x| polygamma(1_000_000, x), 4.0, &[(367877.2380155124, -2.9103430935848316)]);
    check(|x| polygamma(u32::MAX, x), 4.0, &[(1580030164.5923662, 2.910329343902581)]);
    assert_eq!(polygamma(u32::MAX, 1.0), INFINITY);
    assert_eq!(polygamma(u32::MAX - 1, 1.0), -INFINITY);
    assert_eq!(polygamma(u32::MAX, 1e10), 0.0);
    // Here the reflection formula subtracts two sums over x + k that both overflow. The values at these points must
    // still agree.
    assert!(ulps(polygamma(200, -1000.5), polygamma(200, 1001.5)) < 1.0);
    assert_eq!(polygamma(201, -1000.5), INFINITY);
    assert_eq!(polygamma(400, -0.25), INFINITY);
    assert_eq!(polygamma(400, -0.75), -INFINITY);
}

#[test]
fn each_order_is_the_slope_of_the_one_below() {
    const STEP: f64 = 1e-5;
    for x in [-2.3, -0.4, 0.3, 1.46, 3.7, 9.9, 14.0] {
        for n in 0..6 {
            let slope = (polygamma(n, x + STEP) - polygamma(n, x - STEP)) / (2.0 * STEP);
            let exact = polygamma(n + 1, x);
            // The bound covers the error of a central difference: STEP² / 6 times the third derivative.
            let bound =
                STEP * STEP * polygamma(n + 3, x).abs() + 1e-9 * (1.0 + polygamma(n, x).abs());
            assert!((slope - exact).abs() < bound, "order {n} at {x}: {slope} {exact}");
        }
        let slope = (lgamma(x + STEP) - lgamma(x - STEP)) / (2.0 * STEP);
        assert!((slope - digamma(x)).abs() < 1e-8, "lgamma at {x}");
    }
}
