//! Tests of `zeta`.

use crate::test_support::{INFINITY, NAN, check, check_exact};
use std::f64::consts::PI;
use tapeloom_math::polygamma;
use tapeloom_math::zeta::*;

#[test]
fn known_values() {
    check(
        |s| zeta(0, s, 1.0),
        3.0,
        &[(2.0, PI * PI / 6.0), (4.0, PI.powi(4) / 90.0), (60.0, 1.0), (1e6, 1.0)],
    );
    // The first call compares with the value of ζ'(2). The next one requires that ζ(2, q) equals the trigamma function
    // at q.
    check(|s| zeta(1, s, 1.0), 4.0, &[(2.0, -0.937_548_254_315_843_8)]);
    check(|q| zeta(0, 2.0, q), 4.0, &[(0.25, polygamma(1, 0.25)), (-1.5, polygamma(1, -1.5))]);
    check(|q| zeta(0, 3.0, q), 4.0, &[(-1.5, -0.5 * polygamma(2, -1.5))]);
}

/// Results must be accurate where a⁻ˢ underflows but a¹⁻ˢ is finite and nonzero, and for large s and negative q,
/// where only the terms next to 0 matter.
#[test]
fn values_beyond_the_range_of_their_terms() {
    check(|q| zeta(0, 2.0, q), 1.0, &[(1e200, 1e-200), (1e30, 1e-30), (1e308, 1e-308)]);
    check(|s| zeta(1, s, 1e200), 2.0, &[(1.5, -9.250_340_371_976_183e-98)]);
    check(|s| zeta(2, s, 1e200), 2.0, &[(1.5, 4.278_519_849_870_623e-95)]);
    check_exact(|s| zeta(0, s, -0.5), &[(1e5, INFINITY), (1e16, INFINITY)]);
    check(|s| zeta(0, s, -0.5), 4.0, &[(180.0, 2f64.powi(181)), (181.0, 0.0)]);
    check(|s| zeta(0, s, -2.25), 4.0, &[(172.0, 4f64.powi(172)), (173.0, -(4f64.powi(173)))]);
}

#[test]
fn high_orders_match_high_precision_values() {
    let table = [
        (3, 1.5, 1.0, -96.00099400673554),
        (3, 2.0, 0.25, 36.63100142884081),
        (3, 7.5, 3.0, -0.00047018260347923444),
        (4, 1.5, 1.0, 768.0019089432105),
        (4, 2.0, 0.25, 83.09273697150276),
        (4, 7.5, 3.0, 0.000564375706046843),
    ];
    for (n, s, q, want) in table {
        assert!((zeta(n, s, q) / want - 1.0).abs() < 4e-15, "{n} {s} {q}");
    }
}

#[test]
fn sums_of_tiny_and_huge_arguments_end() {
    for s in [1.0 + f64::EPSILON, 1.5, 1e3, 1e9, 1e16, 1e300] {
        for q in [5e-324, 1e-8, 1.0, 1.0 + f64::EPSILON, 1e9, 1e300] {
            assert!((0..=ZETA_ORDERS).all(|n| !zeta(n, s, q).is_nan()), "{s} {q}");
        }
    }
}

#[test]
fn edge_values() {
    check_exact(|s| zeta(0, s, 1.0), &[(1.0, INFINITY), (0.5, NAN), (NAN, NAN), (INFINITY, 1.0)]);
    check_exact(
        |q| zeta(0, 2.5, q),
        &[(0.0, INFINITY), (-2.0, INFINITY), (-0.5, NAN), (INFINITY, 0.0)],
    );
}
