//! The Gauss–Kronrod rule of 21 points, of which ten are Gauss's.
//!
//! Source: Piessens, de Doncker-Kapenga, Überhuber and Kahaner, *QUADPACK* (1983), `qk21`, and its estimate of the error.

use crate::Var;
use crate::ops::functions::{constant, select};

/// Points on one side of the middle, outermost first, and the middle.
const POINTS: [f64; 11] = [
    0.995657163025808080735527280689003,
    0.973906528517171720077964012084452,
    0.930157491355708226001207180059508,
    0.865063366688984510732096688423493,
    0.780817726586416897063717578345042,
    0.679409568299024406234327365114874,
    0.562757134668604683339000099272694,
    0.433395394129247190799265943165784,
    0.294392862701460198131126603103866,
    0.148874338981631210884826001129720,
    0.0,
];

/// Their weights.
const KRONROD: [f64; 11] = [
    0.011694638867371874278064396062192,
    0.032558162307964727478818972459390,
    0.054755896574351996031381300244580,
    0.075039674810919952767043140916190,
    0.093125454583697605535065465083366,
    0.109387158802297641899210590325805,
    0.123491976262065851077958109585166,
    0.134709217311473325928054001771707,
    0.142775938577060080797094273138717,
    0.147739104901338491374841515972068,
    0.149445554002916905664936468389821,
];

/// Weights of Gauss's rule, which has every second point.
const GAUSS: [f64; 5] = [
    0.066671344308688137593568809893332,
    0.149451349150580593145863396957736,
    0.219086362515982043995534934228163,
    0.269266719309996355091226921569469,
    0.295524224714752870173815619188769,
];

/// How many points there are.
pub(super) const SIZE: usize = 21;

/// The points, ascending, Kronrod's weights and Gauss's, on [-1, 1].
pub(super) fn table() -> [[f64; SIZE]; 3] {
    let mut all = [[0.0; SIZE]; 3];
    for i in 0..SIZE {
        let (outer, sign) = if i <= 10 { (i, -1.0) } else { (SIZE - 1 - i, 1.0) };
        let gauss = if outer % 2 == 1 { GAUSS[outer / 2] } else { 0.0 };
        (all[0][i], all[1][i], all[2][i]) = (sign * POINTS[outer], KRONROD[outer], gauss);
    }
    all
}

/// The integral, from the values of the integrand at all points, `[.., 21]`, each with the stretch of its place.
pub(super) fn integral(values: Var) -> Var {
    let [_, kronrod, _] = table();
    values.dot(constant(kronrod.to_vec()).convert(values.dtype()))
}

/// An estimate of the error of an integral, from the values of the integrand at all points, `[.., 21]`, each with the
/// stretch of its place.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Kronrod's rule is exact up to degree 31, Gauss's up to 19.
    #[test]
    fn powers_are_integrated() {
        let [points, kronrod, gauss] = table();
        let sum = |weights: &[f64], n: i32| -> f64 {
            points.iter().zip(weights).map(|(x, w)| w * x.powi(n)).sum()
        };
        let exact = |n: i32| if n % 2 == 0 { 2.0 / f64::from(n + 1) } else { 0.0 };
        for n in 0..=31 {
            assert!((sum(&kronrod, n) - exact(n)).abs() < 1e-15, "{n}");
            assert_eq!((sum(&gauss, n) - exact(n)).abs() < 1e-15, n < 20 || n % 2 == 1, "{n}");
        }
    }
}
