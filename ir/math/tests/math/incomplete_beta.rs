//! Tests of `incomplete_beta`.

use tapeloom_math::incomplete_beta::*;

#[test]
fn high_orders_match_high_precision_values() {
    // The expected values come from mpmath, by finite differences with 450 digits.
    let table = [
        ((3, 0), [-10.435789230815738, 0.01438514499608562, -0.0002472660963097415]),
        ((2, 1), [-5.823711077340456, -0.039080704551327, 0.00018848673851132368]),
        ((1, 2), [1.0779965032226484, 0.03127751667004095, -0.0001112394356361812]),
        ((0, 3), [3.6653738153265873, 0.05696688798020363, 1.7496928348297283e-05]),
        ((4, 0), [51.84525828778004, -0.010711462739238632, -3.977520727807855e-05]),
        ((3, 1), [39.72070577303832, 0.007560973202784458, 5.8814092379644824e-05]),
        ((2, 2), [11.587415480975828, 0.036888243214316684, -7.74107425136959e-05]),
        ((1, 3), [-10.137870168723435, -0.09149038521116352, 9.403908080683613e-05]),
        ((0, 4), [-18.846747356333278, 0.053350684967271, -0.0001071235427478939]),
    ];
    for ((m, n), values) in table {
        let points = [(0.25, 0.5, 0.3), (2.5, 2.0, 0.7), (40.0, 30.0, 0.5)];
        for ((a, b, x), want) in points.into_iter().zip(values) {
            let found = betainc(m, n, a, b, x);
            assert!((found / want - 1.0).abs() < 1e-13, "{m} {n} {a} {b} {x}: {found} {want}");
        }
    }
}

#[test]
fn edge_values() {
    use crate::test_support::same;
    const INFINITY: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    let table = [
        (0.0, 1.0, 0.5, 1.0, NAN),
        (1.0, 0.0, 0.5, 0.0, NAN),
        (0.0, 0.0, 0.5, NAN, NAN),
        (INFINITY, 1.0, 0.5, 0.0, NAN),
        (1.0, INFINITY, 0.5, 1.0, NAN),
        (INFINITY, INFINITY, 0.5, NAN, NAN),
        (2.0, 3.0, 0.0, 0.0, 0.0),
        (2.0, 3.0, 1.0, 1.0, 0.0),
        (-1.0, 1.0, 0.5, NAN, NAN),
        (1.0, 1.0, -0.5, NAN, NAN),
        (1.0, 1.0, 1.5, NAN, NAN),
        (NAN, 1.0, 0.5, NAN, NAN),
        (1.0, NAN, 0.5, NAN, NAN),
        (1.0, 1.0, NAN, NAN, NAN),
    ];
    for (a, b, x, value, slope) in table {
        assert!(same(betainc(0, 0, a, b, x), value), "{a} {b} {x}");
        assert!(same(betainc(1, 0, a, b, x), slope), "{a} {b} {x}");
        assert!(same(betainc(0, 1, a, b, x), slope), "{a} {b} {x}");
    }
    for (a, b, x, want) in [(0.5, 1.0, 0.0, INFINITY), (1.0, 3.0, 0.0, 3.0), (2.0, 1.0, 1.0, 2.0)] {
        assert_eq!(beta_density(a, b, x), want);
    }
    // At these x, xᵃ underflows and xᵃ⁻¹ does not. The expected values come from mpmath.
    let table = [
        (2.0, 2.0, 1e-300, 6e-300),
        (1.5, 0.3, 1e-300, 3.513_053_010_210_958e-151),
        (2.0, 1000.0, 1e-300, 1.001e-294),
        (10.0, 3.0, 1e-31, 6.6e-277),
        (2.0, 20.0, 1.0 - f64::EPSILON / 2.0, 3.062_271_248_213_687e-301),
    ];
    for (a, b, x, want) in table {
        let off = beta_density(a, b, x) / want - 1.0;
        assert!(off.abs() < 1e-12, "{a} {b} {x}: {off:e}");
    }
    // Results for tiny and huge a and b must be finite.
    for a in [1e-100, 1e-8, 1.0, 1e8, 1e150] {
        for b in [1e-100, 1e-8, 1.0, 1e8, 1e150] {
            for x in [5e-324, 1e-20, 0.25, 1.0 - f64::EPSILON] {
                for (m, n) in [(0, 0), (1, 0), (0, 1)] {
                    assert!(betainc(m, n, a, b, x).is_finite(), "{m} {n} {a} {b} {x}");
                }
            }
        }
    }
}

#[test]
fn tiny_parameters_match_high_precision_values() {
    let near_one = 1.0 - 1e-15;
    let table = [
        (1e-300, 1e-300, 1e-300, 0.5),
        (1e-5, 1e-20, near_one, 1.000_345_395_595_43e-15),
        (2e-3, 1e-20, near_one, 5.345_362_909_237_927e-18),
        (5e-2, 1e-20, near_one, 5.446_020_531_873_921e-19),
        (0.5, 1e-20, near_one, 3.592_587_035_346_077e-19),
        (1e-4, 1e-10, 0.3, 9.999_142_699_925_646e-7),
        (1e-10, 1e-12, 0.7, 0.009_900_990_099_848_81),
        (1e-5, 3.0, 0.2, 0.999_995_105_602_133_4),
        (1e-4, 0.5, 1e-8, 0.998_021_279_191_24),
        (1e-5, 1e-3, 1.0 - 1e-9, 0.990_302_079_193_246_9),
        (1e-20, 1e-5, 1e-15, 1.0),
    ];
    for (a, b, x, want) in table {
        let found = betainc(0, 0, a, b, x);
        assert!((found / want - 1.0).abs() < 3e-15, "{a} {b} {x}: {found:e} {want:e}");
    }
    assert_eq!(beta_density(1e-300, 1e-300, 1e-300), 0.5);
}

#[test]
fn known_values() {
    // The results must satisfy I(1, 1, x) = x, I(2, 1, x) = x² and I(a, b, x) = 1 - I(b, a, 1 - x).
    for x in [1e-30, 1e-5, 0.125, 0.5, 0.875] {
        assert!((betainc(0, 0, 1.0, 1.0, x) / x - 1.0).abs() < 2e-15, "at {x}");
        assert!((betainc(0, 0, 2.0, 1.0, x) / (x * x) - 1.0).abs() < 2e-15, "at {x}");
    }
    for (a, b) in [(0.5, 0.5), (3.0, 0.25), (100.0, 70.0)] {
        for x in [0.125, 0.5, 0.75] {
            let sum = betainc(0, 0, a, b, x) + betainc(0, 0, b, a, 1.0 - x);
            assert!((sum - 1.0).abs() < 1e-15, "{a} {b} {x}");
        }
    }
}
