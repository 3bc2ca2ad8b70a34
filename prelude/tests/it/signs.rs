//! Signs of zeros: compiled programs preserve them, because a quotient or an arc tangent depends on them.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::prelude::*;

/// Compares the compiled and the interpreted result at a number with `want`, bit by bit.
#[track_caller]
fn check(f: impl Fn(Var) -> Var, x: f64, want: f64) {
    let of = |y: Tensor| y.item::<f64>().unwrap();
    let native = of(jit(&f).call(x).unwrap());
    let interpreted = of(jit(&f).interpreted().call(x).unwrap());
    assert_eq!(native.to_bits(), interpreted.to_bits(), "{native} against {interpreted}");
    assert_eq!(native.to_bits(), want.to_bits(), "{native} instead of {want}");
}

#[test]
fn a_negated_difference_is_no_difference_the_other_way_round() {
    check(|a| (1.0 / (-(a - 2.0))).exp(), 2.0, 0.0);
    check(|a| (1.0 / (2.0 - a)).exp(), 2.0, f64::INFINITY);
}

#[test]
fn a_zero_that_is_added_takes_a_sign_away() {
    check(|x| x.zeros_like().atan2(x + 0.0), -0.0, 0.0);
    check(|x| x.zeros_like().atan2(x), -0.0, std::f64::consts::PI);
}

#[test]
fn zero_minus_x_is_no_negation() {
    check(|x| (1.0 / (0.0 - x)).sigmoid(), 0.0, 1.0);
    check(|x| (1.0 / -x).sigmoid(), 0.0, 0.0);
}

#[test]
fn the_gradient_of_a_root_of_a_negated_difference() {
    // The derivative of √y is 0.5 / √y. At y = -0 this is -∞. Here y = -(x - 1) is -0 at x = 1, so the gradient with
    // respect to x must be +∞.
    check(grad(|x: Var| (-(x - 1.0)).sqrt()), 1.0, f64::INFINITY);
}

#[test]
fn sums_start_at_zero() {
    check(|x| x.reshape([1]).sum(), -0.0, 0.0);
    check(|x| stack(&[x, x, x], 0).sum(), -0.0, 0.0);
    check(|x| stack(&[x, x], 0).dot(stack(&[-x, -x], 0)), -0.0, 0.0);
}
