//! Tests of `spence`.

use crate::test_support::{INFINITY, NAN, check_exact};
use std::f64::consts::PI;
use tapeloom_math::spence::*;

#[test]
fn edge_values() {
    let end = PI * PI / 6.0;
    check_exact(
        |x| spence(0, x),
        &[(0.0, end), (1.0, 0.0), (INFINITY, -INFINITY), (-1e-300, NAN), (NAN, NAN)],
    );
    check_exact(
        |x| spence(1, x),
        &[(0.0, -INFINITY), (1.0, -1.0), (INFINITY, -0.0), (-1.0, NAN), (NAN, NAN)],
    );
}

#[test]
fn high_orders_match_high_precision_values() {
    let table = [
        (0.05, [-383.7194512869024, -944714.2752525681, 914068184869.1606]),
        (0.5, [-3.090354888959125, -84.337034670038, 85641.78175433616]),
        (1.25, [-0.40237456821884876, -1.8895170980189577, 128.62250137479165]),
        (2.5, [-0.08076487814764745, -0.10079046123189749, 0.8974544766513993]),
        (8.0, [-0.004790839893176886, -0.0006451259687371966, 0.00019084985370708461]),
    ];
    for (x, values) in table {
        for (n, want) in [3, 5, 8].into_iter().zip(values) {
            assert!((spence(n, x) / want - 1.0).abs() < 4e-15, "{n} {x}: {} {want}", spence(n, x));
        }
    }
}

#[test]
fn orders_agree_across_the_seams() {
    for n in 0..=SPENCE_ORDERS {
        for seam in [0.1, 0.5, 0.9, 1.1, 1.5, 2.0, 3.0f64] {
            let (low, high) = (spence(n, seam.next_down()), spence(n, seam.next_up()));
            assert!((low - high).abs() < 1e-14 * low.abs(), "order {n} at {seam}: {low} {high}");
        }
    }
}
