//! Tests of `elementary`.

use crate::test_support::{INFINITY, NAN, check, check_exact, grid, ulps};
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

/// Results at the ends of the range of floats, subnormal numbers among them, must match
/// values of high precision.
#[test]
fn the_ends_of_the_range_match_high_precision_values() {
    let pairs = |f: fn(f64, f64) -> f64, bound: f64, table: &[(f64, f64, f64)]| {
        for &(x, y, want) in table {
            let z = f(x, y);
            assert!(ulps(z, want) <= bound, "f({x:e}, {y:e}) = {z:e}, expected {want:e}");
        }
    };
    pairs(
        pow,
        1.0,
        &[
            (5e-324, 0.5, 2.2227587494850775e-162),
            (1e-310, 0.7, 1.0000000000000295e-217),
            (1e-310, -0.9, 1.0000000000000186e+279),
            (3e-320, 1.0, 3e-320),
            (10.0, -310.0, 1e-310),
            (10.0, -323.2, 5e-324),
            (0.5, 1074.0, 5e-324),
            (0.5, 1074.9, 5e-324),
            (2.0, 1023.9, 1.6773070034857416e+308),
            (2.0, -1074.0, 5e-324),
            (-3.0, -660.0, 1.258843915e-315),
            (-3.0, -661.0, -4.19614637e-316),
            (1.0000001, 7000000000.0, 1.0141969717459648e+304),
            (1.0000001, -7100000000.0, 4.47644328095571e-309),
            (0.9999999, 7200000000.0, 2.03215841355e-313),
            (-2.0, 1023.0, -8.98846567431158e+307),
            (5e-324, -0.9, 9.45352569147208e+290),
            (2.5e-308, 1.01, 2.0985504232835e-311),
            (7.0, 4503599627370497.0, INFINITY),
        ],
    );
    pairs(
        hypot,
        1.25,
        &[
            (3e-320, 4e-320, 5e-320),
            (5e-324, 5e-324, 5e-324),
            (1e-200, 1e-201, 1.004987562112089e-200),
            (1e+200, 1e+199, 1.004987562112089e+200),
            (1.2e+308, 1.2e+308, 1.697056274847714e+308),
            (1.7e+308, 1.7e+308, INFINITY),
            (1e-150, 1e-320, 1e-150),
            (1e+308, 1.0, 1e+308),
        ],
    );
    check(
        cbrt,
        1.0,
        &[
            (5e-324, 1.7031839360032603e-108),
            (1e-310, 4.641588833612774e-104),
            (-3e-320, -3.107220975160452e-107),
            (2.2e-308, 2.8020393306553873e-103),
        ],
    );
    let large = [
        (1.1e+150, 346.17622130947115),
        (1e+200, 461.2101657793691),
        (1e+308, 709.889355822726),
        (1.7976931348623157e+308, 710.475860073944),
        (-3e+250, -577.4380327177395),
    ];
    check(asinh, 1.0, &large);
    check(|x| acosh(x.abs()).copysign(x), 1.0, &large);
}

/// `pow` must return the values that IEEE 754 asks for, as the standard library's
/// function does.
#[test]
fn special_powers() {
    let special = [
        0.0,
        5e-324,
        0.5,
        1.0,
        1.5,
        2.0,
        3.0,
        1e16,
        4_503_599_627_370_497.0,
        9_007_199_254_740_991.0,
        9_007_199_254_740_993.0,
        1e300,
        INFINITY,
        NAN,
    ];
    let signed: Vec<f64> = special.iter().flat_map(|x| [*x, -x]).collect();
    for &x in &signed {
        for &y in &signed {
            let (z, want) = (pow(x, y), x.powf(y));
            assert!(ulps(z, want) <= 1.0, "pow({x:e}, {y:e}) = {z:e}, expected {want:e}");
            assert!(
                z.is_nan() || z.is_sign_negative() == want.is_sign_negative(),
                "pow({x:e}, {y:e})"
            );
        }
    }
}
