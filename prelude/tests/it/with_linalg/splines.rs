//! Cubic splines, whose coefficients solve a tridiagonal system: special values of points and coordinates.

use crate::arguments::points_must_ascend;
use crate::ops::infinite_coordinates_reach_the_border;
use tapeloom::interpolate::{Ends, Order, cubic_spline};
use tapeloom::prelude::*;

#[test]
fn points_of_a_spline_ascend() {
    points_must_ascend(|x, y, p| cubic_spline(x, y, Ends::NotAKnot).at(p));
    points_must_ascend(|x, y, p| cubic_spline(x, y, Ends::Natural).at(p));
    points_must_ascend(|x, y, p| {
        cubic_spline(x, y, Ends::Clamped(constant(0.0), constant(1.0))).at(p)
    });
}

#[test]
fn coordinates_of_a_spline_may_be_infinite() {
    infinite_coordinates_reach_the_border(&[Order::Cubic]);
}
