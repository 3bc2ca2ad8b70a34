//! Tests of `erfcx` and `dawsn`.

use crate::test_support::{INFINITY, NAN, check, check_exact};
use tapeloom_math::scaled_erf::*;

#[test]
fn known_values() {
    let values = [
        (-26.0, 7.657_724_931_490_568e293),
        (-1.0, 5.008_980_080_762_283),
        (0.0, 1.0),
        (0.5, 0.615_690_344_192_925_9),
        (11.99, 0.046_893_031_655_408_32),
        (12.01, 0.046_815_474_348_053_92),
        (1e200, 5.641_895_835_477_563e-201),
    ];
    check(|x| erfcx(0, x), 4.0, &values);
    let slopes = [
        (-1.0, -11.146_339_328_620_08),
        (2.0, -0.106_796_461_853_489_6),
        (1e8, -5.641_895_835_477_562e-17),
    ];
    check(|x| erfcx(1, x), 8.0, &slopes);
    let values = [
        (0.5, 0.424_436_383_502_022_3),
        (1.99, 0.303_404_951_227_332_75),
        (2.01, 0.299_297_702_249_612_8),
        (6.0, 0.084_542_688_974_543_85),
        (1e200, 5e-201),
    ];
    check(|x| dawsn(0, x), 8.0, &values);
    check(|x| dawsn(0, -x), 8.0, &values.map(|(x, y)| (x, -y)));
    check(|x| dawsn(1, x), 4.0, &[(0.0, 1.0), (1e8, -5e-17), (-1e8, -5e-17)]);
}

#[test]
fn edge_values() {
    check_exact(|x| erfcx(0, x), &[(-INFINITY, INFINITY), (INFINITY, 0.0), (NAN, NAN)]);
    check_exact(|x| erfcx(1, x), &[(-INFINITY, -INFINITY), (INFINITY, -0.0), (NAN, NAN)]);
    check_exact(|x| erfcx(2, x), &[(-30.0, INFINITY), (INFINITY, 0.0), (0.0, 2.0)]);
    check_exact(|x| dawsn(0, x), &[(0.0, 0.0), (-0.0, -0.0), (INFINITY, 0.0), (-INFINITY, -0.0)]);
    check_exact(|x| dawsn(2, x), &[(0.0, -0.0), (NAN, NAN)]);
    assert!(
        erfcx(SCALED_ERF_ORDERS + 1, 1.0).is_nan() && dawsn(SCALED_ERF_ORDERS + 1, 1.0).is_nan()
    );
}
