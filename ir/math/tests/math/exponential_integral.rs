//! Tests of `exponential_integral`.

use crate::test_support::{INFINITY, NAN, check_exact};
use tapeloom_math::exponential_integral::*;

#[test]
fn edge_values() {
    check_exact(|x| expn(1, x), &[(0.0, INFINITY), (INFINITY, 0.0), (-1.0, NAN), (NAN, NAN)]);
    check_exact(|x| expn(3, x), &[(0.0, 0.5), (-0.0, 0.5)]);
    check_exact(
        expi,
        &[(0.0, -INFINITY), (INFINITY, INFINITY), (-INFINITY, -0.0), (NAN, NAN), (720.0, INFINITY)],
    );
}

#[test]
fn sums_of_tiny_and_huge_arguments_end() {
    for x in [5e-324, 1e-310, 1e-300, 1e-8, 1e3, 1e300, f64::MAX] {
        for n in [0, 1, 2, 40, u32::MAX] {
            assert!(expn(n, x) >= 0.0, "{n} {x}");
        }
        assert!(!expi(x).is_nan() && !expi(-x).is_nan(), "{x}");
    }
}

#[test]
fn orders_obey_their_recurrence() {
    // The recurrence `n Eₙ₊₁ = e⁻ˣ - x Eₙ` must hold.
    for x in [0.01, 0.5, 1.0, 1.01, 3.0, 30.0] {
        for n in 1..30 {
            let (left, right) = (f64::from(n) * expn(n + 1, x), (-x).exp() - x * expn(n, x));
            assert!((left - right).abs() < 1e-15 * (-x).exp() * (1.0 + x), "{n} {x}");
        }
    }
}
