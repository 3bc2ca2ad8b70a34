//! Tests of `hyp1f1`.

use crate::test_support::{INFINITY, NAN, check, check_exact};
use tapeloom_math::hypergeometric::*;

#[test]
fn known_values() {
    // `₁F₁(1; 2; x)` must equal `(eˣ - 1) / x`.
    let quotient = |x: f64| (x, x.exp_m1() / x);
    check(|x| hyp1f1(1.0, 2.0, x), 32.0, &[-700.0, -30.0, -1e-5, 0.5, 20.0, 600.0].map(quotient));
    check(|x| hyp1f1(1.0, 2.0, x), 4.0, &[(-1e6, 1e-6), (-1e300, 1e-300)]);
    // `₁F₁(-2; 1/2; x)` must equal the polynomial 1 - 4 x + 4/3 x².
    check(|x| hyp1f1(-2.0, 0.5, x), 16.0, &[(1.5, -2.0), (-3.0, 25.0)]);
    check(|x| hyp1f1(2.5, 2.5, x), 1.0, &[(1.0, 1f64.exp())]);
}

/// Results for large x must equal values from mpmath: polynomials, and values whose factors leave the range of
/// floats.
#[test]
fn values_far_away() {
    let table = [
        (-3.0, 2.5, 1000.0, -25_055_167.253968254),
        (-3.0, 2.5, -1e10, 2.539_682_543_111_111e28),
        (-20.0, 30.5, 1000.0, 4.029_438_941_828_663_4e27),
        (5.5, 2.5, -720.0, -1.890_470_539_602_252_8e-306),
        (100.0, 200.0, -1e5, 3.827_008_441_516_84e-284),
    ];
    for (a, b, x, want) in table {
        assert!((hyp1f1(a, b, x) / want - 1.0).abs() < 1e-12, "{a} {b} {x}: {}", hyp1f1(a, b, x));
    }
    assert_eq!(hyp1f1(2.0, 1.0, -1000.0), 0.0);
    assert_eq!(hyp1f1(3.0, 1.0, 705.0), INFINITY);
}

#[test]
fn edge_values() {
    let table = [
        (0.0, 1.0, 2.0, 1.0),
        (1.0, 2.0, 0.0, 1.0),
        (1.0, 0.0, 1.0, NAN),
        (1.0, -3.0, 1.0, NAN),
        (1.0, 2.0, INFINITY, INFINITY),
        (1.0, 2.0, -INFINITY, 0.0),
        (2.0, 1.0, -INFINITY, NAN),
        (NAN, 1.0, 1.0, NAN),
        (1.0, NAN, 1.0, NAN),
        (1.0, 1.0, NAN, NAN),
        (1.0, 2.0, 800.0, INFINITY),
    ];
    for (a, b, x, want) in table {
        check_exact(|x| hyp1f1(a, b, x), &[(x, want)]);
    }
    // Every result must have at least half of the digits, or be NaN.
    for a in [-40.5, -10.25, 0.5, 30.0] {
        for b in [0.75, 15.5] {
            for x in [-100.0, -20.0, 20.0, 100.0] {
                let (y, slope) = (hyp1f1(a, b, x), hyp1f1(a + 1.0, b + 1.0, x));
                let bend = hyp1f1(a + 2.0, b + 2.0, x);
                // Kummer's equation `x y'' + (b - x) y' = a y` must hold.
                let terms =
                    [x * a * (a + 1.0) / (b * (b + 1.0)) * bend, (b - x) * a / b * slope, -a * y];
                let size = terms.iter().fold(0f64, |m, t| m.max(t.abs()));
                let left: f64 = terms.iter().sum();
                assert!(left.is_nan() || left.abs() <= 1e-6 * size, "{a} {b} {x}: {terms:?}");
            }
        }
    }
}
