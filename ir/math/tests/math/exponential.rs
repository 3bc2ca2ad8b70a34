//! Tests of `exponential`.

use crate::test_support::{INFINITY, NAN, check, check_exact, check_sharply, grid};
use tapeloom_math::exponential::*;

// The expected values in the table come from mpmath with 90 digits, rounded once.

#[test]
fn values_match_high_precision_ones() {
    check(
        exp,
        1.0,
        &[
            (-745.0, 5e-324),
            (-710.0, 4.47628622567513e-309),
            (-708.0, 3.307553003638408e-308),
            (-40.5, 2.576757109154981e-18),
            (-1.0, 0.36787944117144233),
            (-0.3466, 0.7070881069410189),
            (-1e-09, 0.999999999),
            (1e-20, 1.0),
            (0.25, 1.2840254166877414),
            (0.3466, 1.4142509118505286),
            (1.0, std::f64::consts::E),
            (5.3, 200.33680997479166),
            (88.7, 3.325986980250579e+38),
            (700.25, 1.3022997366991783e+304),
            (709.7, 1.6549840276802644e+308),
        ],
    );
    check(
        expm1,
        1.0,
        &[
            (-50.0, -1.0),
            (-1.0, -0.6321205588285577),
            (-0.3, -0.2591817793182821),
            (-1e-08, -9.999999950000001e-09),
            (1e-300, 1e-300),
            (5e-324, 5e-324),
            (0.2, 0.22140275816016985),
            (0.3608566044770827, 0.4345577369721166),
            (0.36, 0.43332941456034024),
            (1.0, 1.7182818284590453),
            (10.5, 36314.502674246636),
            (600.0, 3.7730203009299397e+260),
            (709.5, 1.3549863193146328e+308),
        ],
    );
    check(
        logistic,
        1.0,
        &[
            (-745.0, 5e-324),
            (-710.0, 4.47628622567513e-309),
            (-40.0, 4.248354255291589e-18),
            (-3.0, 0.04742587317756678),
            (-1e-20, 0.5),
            (0.1, 0.52497918747894),
            (1.25, 0.7772998611746912),
            (36.0, 0.9999999999999998),
            (40.0, 1.0),
            (1000.0, 1.0),
        ],
    );
}

#[test]
fn edge_values() {
    check_exact(
        exp,
        &[
            (0.0, 1.0),
            (-0.0, 1.0),
            (-INFINITY, 0.0),
            (INFINITY, INFINITY),
            (710.0, INFINITY),
            (1e300, INFINITY),
            (-746.0, 0.0),
            (-1e300, 0.0),
            (NAN, NAN),
        ],
    );
    check_exact(
        expm1,
        &[
            (0.0, 0.0),
            (-0.0, -0.0),
            (-INFINITY, -1.0),
            (INFINITY, INFINITY),
            (710.0, INFINITY),
            (-1e300, -1.0),
            (NAN, NAN),
        ],
    );
    check_exact(
        logistic,
        &[
            (0.0, 0.5),
            (-0.0, 0.5),
            (-INFINITY, 0.0),
            (INFINITY, 1.0),
            (-1e300, 0.0),
            (1e300, 1.0),
            (NAN, NAN),
        ],
    );
}

/// At these x the rounding error of `x - k ln 2` has the largest effect; the results must still be within the
/// documented bound.
#[test]
fn between_multiples_of_ln_2() {
    check_sharply(expm1, 1.1, &[(0.3473841434997022, 0.4153603224217018, 0.2577)]);
}

#[test]
fn logistic_sides_add_up_to_one() {
    for x in grid(-40.0, 40.0, 801) {
        assert!((logistic(x) + logistic(-x) - 1.0).abs() < 3e-16, "at {x}");
    }
}

#[test]
fn logistic_is_the_shifted_tanh() {
    for x in grid(-5.0, 5.0, 101) {
        assert!((logistic(x) - 0.5 * (1.0 + (0.5 * x).tanh())).abs() < 3e-16, "at {x}");
    }
}
