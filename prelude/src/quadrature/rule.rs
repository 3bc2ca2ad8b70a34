//! The Gauss–Kronrod rule of 21 points, ten of which are Gauss points.
//!
//! Source: Piessens, de Doncker-Kapenga, Überhuber and Kahaner, *QUADPACK* (1983), `qk21`, and its estimate of the
//! error.

use super::table::table;
use crate::Var;
use crate::ops::functions::{constant, select};

/// Returns the integral over an interval, given the values of the integrand at the 21 places of the rule, `[.., 21]`.
/// Each value must be multiplied by dx/dp, where p is the point of the rule in (-1, 1) and x the place.
pub(super) fn integral(values: Var) -> Var {
    let [_, kronrod, _] = table();
    values.dot(constant(kronrod.to_vec()).convert(values.dtype()))
}

/// Returns an estimate of the error of [`integral`], given the same values of the integrand, `[.., 21]`.
pub(super) fn error(values: Var) -> Var {
    let [_, kronrod, gauss] = table().map(|row| constant(row.to_vec()).convert(values.dtype()));
    let integral = values.dot(kronrod);
    let off = (integral - values.dot(gauss)).abs();
    let around = (values - 0.5 * integral.expand_dims(-1)).abs().dot(kronrod);
    let size = values.abs().dot(kronrod);
    let some = around.gt(0.0) & off.gt(0.0);
    let share = 200.0 * off / select(some, around, 1.0);
    let estimate = select(some, around * share.powf(1.5).minimum(1.0), off);
    estimate.maximum(super::ROUNDINGS * super::epsilon(values.dtype()) * size)
}
