//! Tests of `nextafter`.

use crate::test_support::{INFINITY, NAN, check_exact, grid};
use tapeloom_math::nextafter::*;

/// The smallest positive double.
const TINY: f64 = 5e-324;

#[test]
fn nextafter_edge_values() {
    for (x, y, expected) in [
        (1.0, 2.0, 1.0 + f64::EPSILON),
        (1.0, 0.0, 1.0 - f64::EPSILON / 2.0),
        (-1.0, -2.0, -1.0 - f64::EPSILON),
        (1.0, 1.0, 1.0),
        (0.0, -0.0, -0.0),
        (-0.0, 0.0, 0.0),
        (0.0, 1.0, TINY),
        (-0.0, 1.0, TINY),
        (0.0, -1.0, -TINY),
        (TINY, 0.0, 0.0),
        (-TINY, 0.0, -0.0),
        (f64::MAX, INFINITY, INFINITY),
        (INFINITY, 0.0, f64::MAX),
        (-INFINITY, 0.0, f64::MIN),
        (INFINITY, INFINITY, INFINITY),
        (f64::MIN_POSITIVE, 0.0, f64::MIN_POSITIVE - TINY),
        (NAN, 1.0, NAN),
        (1.0, NAN, NAN),
        (NAN, NAN, NAN),
    ] {
        check_exact(|x| nextafter(x, y), &[(x, expected)]);
    }
}

#[test]
fn nextafter_there_and_back() {
    for x in grid(-4.0, 4.0, 1000) {
        assert_eq!(nextafter(nextafter(x, INFINITY), -INFINITY), x);
    }
}

#[test]
fn the_f32_form_works_at_its_own_width() {
    assert_eq!(nextafter_f32(1.0, 2.0), 1.0 + f32::EPSILON);
    assert_eq!(nextafter_f32(0.0, -1.0), -1e-45);
    assert_eq!(nextafter_f32(f32::MAX, f32::INFINITY), f32::INFINITY);
    assert!(nextafter_f32(f32::NAN, 1.0).is_nan());
}
