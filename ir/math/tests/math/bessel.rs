//! Tests of `bessel`.

use crate::test_support::{INFINITY, NAN, check_exact};
use tapeloom_math::bessel::*;

#[test]
fn edge_values() {
    check_exact(
        |x| bessel_i(0, x),
        &[(0.0, 1.0), (INFINITY, INFINITY), (-INFINITY, INFINITY), (NAN, NAN)],
    );
    check_exact(
        |x| bessel_i(1, x),
        &[(0.0, 0.0), (-0.0, -0.0), (-INFINITY, -INFINITY), (NAN, NAN)],
    );
    check_exact(|x| bessel_j(0, x), &[(0.0, 1.0), (INFINITY, 0.0), (-INFINITY, 0.0), (NAN, NAN)]);
    for n in [0, 1, 2, 7] {
        check_exact(
            |x| bessel_y(n, x),
            &[(0.0, -INFINITY), (-1.0, NAN), (INFINITY, 0.0), (NAN, NAN)],
        );
    }
}

#[test]
fn sums_of_tiny_and_huge_arguments_end() {
    for x in [5e-324, 1e-310, 1e-8, 1e3, 1e9, 1e300, f64::MAX] {
        for n in [0, 1, 7, 1000, 100_000] {
            for f in [bessel_j, bessel_y, bessel_i] {
                assert!(!f(n, x).is_nan(), "{n} {x}");
            }
        }
    }
}

#[test]
fn orders_obey_their_recurrence_across_every_seam() {
    // The recurrence `Iₙ₋₁ - Iₙ₊₁ = 2n/x Iₙ` must hold, also at x where the formulas change.
    for x in [0.5, 19.9, 20.1, 35.0, 100.0, 350.0, 700.0] {
        for n in 1..40 {
            let (below, here, above) = (bessel_i(n - 1, x), bessel_i(n, x), bessel_i(n + 1, x));
            let step = 2.0 * f64::from(n) / x * here;
            assert!(
                (below - above - step).abs() < 8e-15 * below,
                "{n} {x}: {below} {above} {step}"
            );
        }
    }
}
