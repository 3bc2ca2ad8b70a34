//! Tests of `elementary`.

use crate::test_support::{INFINITY, NAN, check, check_exact, grid};
use tapeloom_math::elementary::*;

// The expected values in the tables come from mpmath with 60 digits, rounded once.

#[test]
fn roots_match_high_precision_values() {
    check(
        cbrt,
        0.0,
        &[
            (5e-324, 1.7031839360032603e-108),
            (1e-310, 4.641588833612774e-104),
            (0.05, 0.36840314986403866),
            (-0.9, -0.9654893846056297),
            (2.5, 1.3572088082974534),
            (1e+300, 1e+100),
        ],
    );
    check(
        rsqrt,
        1.5,
        &[
            (5e-324, 4.4989137945431964e+161),
            (0.05, 4.47213595499958),
            (0.9, 1.0540925533894598),
            (2.5, 0.6324555320336759),
            (1e+308, 1e-154),
        ],
    );
}

#[test]
fn inverse_hyperbolics_match_high_precision_values() {
    check(
        asinh,
        2.0,
        &[
            (5e-324, 5e-324),
            (1e-20, 1e-20),
            (1e-08, 1e-08),
            (-0.1, -0.09983407889920756),
            (0.5, 0.48121182505960347),
            (1.0, 0.881373587019543),
            (-3.0, -1.8184464592320668),
            (100000.0, 12.206072645555174),
            (10000000000.0, 23.7189981105004),
            (1.7e+308, 710.4199840737882),
        ],
    );
    check(
        acosh,
        2.0,
        &[
            (1.0000000000000002, 2.1073424255447014e-08),
            (1.000001, 0.00141421344446382),
            (1.1, 0.4435682543851154),
            (1.5, 0.9624236501192069),
            (2.0, 1.3169578969248168),
            (3.0, 1.762747174039086),
            (100000.0, 12.206072645505174),
            (10000000000.0, 23.7189981105004),
            (1.7e+308, 710.4199840737882),
        ],
    );
    check(
        atanh,
        2.0,
        &[
            (5e-324, 5e-324),
            (1e-20, 1e-20),
            (1e-08, 1e-08),
            (0.1, 0.10033534773107558),
            (0.25, 0.25541281188299536),
            (-0.5, -0.5493061443340549),
            (0.9, 1.4722194895832204),
            (0.999999, 7.254328619247669),
            (0.9999999999999999, 18.714973875118524),
        ],
    );
}

#[test]
fn edge_values() {
    check_exact(
        cbrt,
        &[
            (0.0, 0.0),
            (-0.0, -0.0),
            (INFINITY, INFINITY),
            (-INFINITY, -INFINITY),
            (-27.0, -3.0),
            (NAN, NAN),
        ],
    );
    check_exact(
        rsqrt,
        &[
            (0.0, INFINITY),
            (-0.0, -INFINITY),
            (INFINITY, 0.0),
            (-1.0, NAN),
            (-INFINITY, NAN),
            (4.0, 0.5),
            (NAN, NAN),
        ],
    );
    check_exact(
        asinh,
        &[(0.0, 0.0), (-0.0, -0.0), (INFINITY, INFINITY), (-INFINITY, -INFINITY), (NAN, NAN)],
    );
    check_exact(
        acosh,
        &[
            (1.0, 0.0),
            (1.0_f64.next_down(), NAN),
            (-2.0, NAN),
            (-1e5, NAN),
            (-INFINITY, NAN),
            (INFINITY, INFINITY),
            (NAN, NAN),
        ],
    );
    check_exact(
        atanh,
        &[
            (0.0, 0.0),
            (-0.0, -0.0),
            (1.0, INFINITY),
            (-1.0, -INFINITY),
            (1.0_f64.next_up(), NAN),
            (-2.0, NAN),
            (INFINITY, NAN),
            (NAN, NAN),
        ],
    );
}

#[test]
fn inverse_hyperbolics_undo_their_functions() {
    for x in grid(-3.0, 3.0, 601) {
        assert!((asinh(x.sinh()) - x).abs() <= 1e-15 * (1.0 + x.abs()), "asinh at {x}");
        assert!((atanh(x.tanh()) - x).abs() <= 1e-13, "atanh at {x}");
        assert!((acosh(1.0 + x * x).cosh() / (1.0 + x * x) - 1.0).abs() < 4e-15, "acosh at {x}");
    }
}
