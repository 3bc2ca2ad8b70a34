//! Tests of `incomplete_gamma`.

use tapeloom_math::incomplete_gamma::*;
use tapeloom_math::polygamma;

#[test]
fn both_sides_of_every_seam_agree() {
    for a in [0.3, 1.0, 1.45, 1.5, 2.0, 7.0, 24.9, 25.1, 1e3, 1e6] {
        for seam in [1.0, a - 0.5, polygamma(0, a).exp()] {
            if seam <= 0.0 {
                continue;
            }
            let (low, high) = (seam * (1.0 - 4e-16), seam * (1.0 + 4e-16));
            for n in 0..=GAMMAINC_ORDERS {
                let (p, q) = (gammainc(n, a, low), gammainc(n, a, high));
                let scale = p.abs() + a.powf(-0.5 * f64::from(n)).min(1.0);
                assert!((p - q).abs() < 1e-10 * scale, "order {n} at {a}, {seam}: {p} {q}");
            }
        }
    }
}

#[test]
fn high_orders_match_high_precision_values() {
    // The expected values come from mpmath, by finite differences of fourth order with 450 digits.
    let table = [
        (0.25, 0.5, 1.5077983936733093, -2.047008469031583),
        (0.5, 3.0, -0.06251605647052302, 0.06292312410034617),
        (2.5, 2.0, 0.09333374672837003, -0.12071356140071866),
        (2.5, 7.0, -0.014949920653531026, -0.0004660003892263425),
        (40.0, 30.0, -0.0009361438958511781, 2.7203951465683683e-05),
        (1000.0, 1050.0, -5.0700060627182915e-06, 1.0730025369782746e-07),
    ];
    for (a, x, third, fourth) in table {
        for (n, want) in [(3, third), (4, fourth)] {
            let found = gammainc(n, a, x);
            assert!(
                (found - want).abs() < 1e-14 * (want.abs() + third.abs()),
                "{n} {a} {x}: {found}"
            );
        }
    }
}

#[test]
fn edge_values() {
    use crate::test_support::same;
    const INFINITY: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    let table = [
        (0.0, 1.0, 1.0, NAN),
        (0.0, 0.0, NAN, NAN),
        (1.0, 0.0, 0.0, 0.0),
        (1.0, INFINITY, 1.0, 0.0),
        (0.0, INFINITY, 1.0, NAN),
        (INFINITY, 1.0, 0.0, 0.0),
        (INFINITY, INFINITY, NAN, NAN),
        (-1.0, 1.0, NAN, NAN),
        (1.0, -1e-300, NAN, NAN),
        (NAN, 0.0, NAN, NAN),
        (1.0, NAN, NAN, NAN),
    ];
    for (a, x, p, slope) in table {
        assert!(same(gammainc(0, a, x), p), "{a} {x}");
        assert!(same(gammaincc(a, x), 1.0 - p), "{a} {x}");
        assert!(same(gammainc(1, a, x), slope), "{a} {x}");
    }
    for (a, want) in [(0.5, INFINITY), (1.0, 1.0), (2.0, 0.0)] {
        assert_eq!(gamma_density(a, 0.0), want);
    }
    // At these x, xᵃ underflows and xᵃ⁻¹ does not. The expected values come from mpmath.
    let table = [
        (1.5, 1e-300, 1.128_379_167_095_512_6e-150),
        (2.0, 1e-300, 1e-300),
        (10.0, 1e-31, 2.755_731_922_398_591e-285),
        (1.0, 5e-324, 1.0),
    ];
    for (a, x, want) in table {
        let off = gamma_density(a, x) / want - 1.0;
        assert!(off.abs() < 1e-13, "{a} {x}: {off:e}");
    }
    // Results for tiny and huge arguments must be finite.
    for a in [5e-324, 1e-300, 1e-8, 1e8, 1e300] {
        for x in [5e-324, 1e-300, 1e-8, 0.999, 1.001, 1e8, 1e300] {
            let (p, q) = (gammainc(0, a, x), gammaincc(a, x));
            assert!((p + q - 1.0).abs() < 1e-15, "{a} {x}: {p} {q}");
            assert!(!gammainc(1, a, x).is_nan() && !gammainc(4, a, x).is_nan(), "{a} {x}");
        }
    }
}

#[test]
fn known_values() {
    // P(a, x) must equal the closed forms `1 - e⁻ˣ` for a = 1 and `1 - (1 + x) e⁻ˣ` for a = 2.
    for x in [1e-3f64, 0.5, 1.0, 1.5, 4.0, 50.0] {
        let [one, two] = [1.0, 2.0].map(|a| gammainc(0, a, x));
        assert!((one / -(-x).exp_m1() - 1.0).abs() < 1e-15, "at {x}");
        assert!((two - (1.0 - (1.0 + x) * (-x).exp())).abs() < 1e-15, "at {x}");
        assert!((gammaincc(1.0, x) / (-x).exp() - 1.0).abs() < 1e-14, "at {x}");
    }
}
