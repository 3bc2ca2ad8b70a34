//! Tests of `erf`.

use crate::test_support::{INFINITY, NAN, check, check_exact, grid, ulps};
use tapeloom_math::erf::*;

// The expected values in the tables come from mpmath with 60 digits, rounded once.

#[test]
fn erf_matches_high_precision_values() {
    check(
        erf,
        1.0,
        &[
            (5e-324, 5e-324),
            (1e-310, 1.1283791670955e-310),
            (1e-10, 1.1283791670955126e-10),
            (0.5, 0.5204998778130465),
            (0.84375, 0.7672256612323416),
            (1.0, 0.8427007929497149),
            (-1.25, -0.9229001282564583),
            (2.0, 0.9953222650189527),
            (3.5, 0.9999992569016276),
            (5.9, 0.9999999999999999),
        ],
    );
}

#[test]
fn erfc_matches_high_precision_values() {
    check(
        erfc,
        2.0,
        &[
            (-3.0, 1.9999779095030015),
            (-0.5, 1.5204998778130465),
            (1e-20, 1.0),
            (0.25, 0.7236736098317631),
            (1.0, 0.15729920705028513),
            (2.0, 0.004677734981047266),
            (5.0, 1.537459794428035e-12),
            (10.0, 2.088487583762545e-45),
            (20.0, 5.395865611607901e-176),
            (26.0, 5.663192408856143e-296),
        ],
    );
}

#[test]
fn erf_inv_matches_high_precision_values() {
    check(
        erf_inv,
        2.0,
        &[
            (5e-324, 5e-324),
            (1e-300, 8.86226925452758e-301),
            (9.9e-09, 8.773646561982304e-09),
            (1.01e-08, 8.950891947072856e-09),
            (1e-05, 8.862269254759594e-06),
            (0.1, 0.08885599049425769),
            (0.258, 0.23278378390759671),
            (0.49, 0.46586860023505733),
            (0.5, 0.4769362762044699),
            (-0.7, -0.7328690779592167),
            (0.9, 1.1630871536766743),
            (0.99, 1.8213863677184494),
            (0.999999, 3.458910737275499),
            (0.9999999990686774, 4.328028275800946),
            (0.9999999999999999, 5.8635847487551676),
        ],
    );
}

#[test]
fn erfc_inv_matches_high_precision_values() {
    check(
        erfc_inv,
        2.0,
        &[
            (1e-300, 26.209469960516124),
            (1e-100, 15.065574702592645),
            (0.25, 0.8134198475976185),
            (1.5, -0.4769362762044699),
        ],
    );
    check_exact(
        erfc_inv,
        &[(0.0, INFINITY), (1.0, 0.0), (2.0, -INFINITY), (-1e-300, NAN), (2.5, NAN), (NAN, NAN)],
    );
    assert!(erfc_inv(5e-324) > 27.0);
}

#[test]
fn edge_values() {
    check_exact(erf, &[(0.0, 0.0), (-0.0, -0.0), (INFINITY, 1.0), (-INFINITY, -1.0), (NAN, NAN)]);
    check_exact(
        erfc,
        &[(0.0, 1.0), (-0.0, 1.0), (INFINITY, 0.0), (-INFINITY, 2.0), (NAN, NAN), (30.0, 0.0)],
    );
    check_exact(
        erf_inv,
        &[
            (0.0, 0.0),
            (-0.0, -0.0),
            (1.0, INFINITY),
            (-1.0, -INFINITY),
            (1.0_f64.next_up(), NAN),
            (-1.5, NAN),
            (INFINITY, NAN),
            (-INFINITY, NAN),
            (NAN, NAN),
        ],
    );
}

#[test]
fn erf_is_the_complement_of_erfc() {
    for x in grid(-4.0, 4.0, 1001) {
        assert!((erf(x) + erfc(x) - 1.0).abs() < 3e-16, "at {x}");
    }
}

#[test]
fn erf_inv_undoes_erf() {
    // Up to 0.5 the inverse does not magnify the rounding error of erf, so erf(erf_inv(x)) must be within 4 ulp
    // of x.
    for x in grid(-0.5, 0.5, 1001) {
        assert!(ulps(erf(erf_inv(x)), x) <= 4.0, "at {x}");
    }
}

#[test]
fn erf_inv_is_odd_and_increasing() {
    let mut previous = -INFINITY;
    for x in grid(-0.9999, 0.9999, 10_001) {
        let w = erf_inv(x);
        assert!(w > previous, "at {x}");
        assert_eq!(w, -erf_inv(-x), "at {x}");
        previous = w;
    }
}

/// Results down to the smallest subnormal numbers must match values of high precision.
#[test]
fn least_tails_match_high_precision_values() {
    check(
        erfc,
        2.0,
        &[
            (26.0, 5.663192408856143e-296),
            (26.2, 1.643250792438946e-300),
            (26.4, 4.4017768588035426e-305),
            (26.53, 4.499464548630624e-308),
            (26.55, 1.5552026941135507e-308),
            (26.6, 1.088512588544227e-309),
            (26.8, 2.484962157e-314),
            (27.0, 5.23705e-319),
            (27.1, 2.33e-321),
            (27.2, 1e-323),
            (27.22, 5e-324),
            (27.3, 0.0),
        ],
    );
    check(
        ndtr,
        2.0,
        &[
            (-37.0, 5.725571222524577e-300),
            (-37.2, 3.412054343470239e-303),
            (-37.4, 1.9536815616489922e-306),
            (-37.51, 3.1642088986155016e-308),
            (-37.52, 2.173821956758206e-308),
            (-37.6, 1.074811249587044e-309),
            (-38.0, 2.88542835e-316),
            (-38.3, 3.063e-321),
            (-38.4, 6.4e-323),
            (-38.46, 5e-324),
            (-38.5, 0.0),
        ],
    );
}
