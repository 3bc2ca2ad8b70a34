//! The von Mises distribution of angles.
//!
//! A sample x is differentiable with respect to its concentration κ: when κ changes by dκ, the sample changes such that
//! it is a sample for κ + dκ. The distribution function is 1/2 at 0 for every κ, so with the density p:
//!
//! ```text
//! ∫ p(t, κ) dt from 0 to x = const
//! ```
//!
//! The integral is computed by a Gauss-Legendre rule of 32 points. It is differentiated and never evaluated, as in the
//! implicit reparameterisation of gamma numbers (`gamma.rs`).

use super::sampled;
use crate::Var;
use crate::control::{map, while_loop};
use crate::implicit::custom_root;
use crate::ops::functions::constant;
use crate::ops::select;
use crate::prng::{split, split_n, uniform};
use crate::var::{IntoVar, caller};
use std::f64::consts::{PI, TAU};
use tapeloom_ir::Shape;

/// Returns samples of the von Mises distribution around the angle 0, with density proportional to exp(κ cos x) on [-π,
/// π] for κ = `concentration`, and differentiable with respect to κ. If κ is negative or not finite, the result is nan.
/// For a mean direction other than 0, add the direction to the samples. The concentration is broadcast to the shape.
///
/// Errors: `dtype` if the concentration is not a float; `shape` if it does not broadcast; `dtype` or `shape` if `key`
/// is not a single key.
///
/// Source: Best and Fisher, *Efficient simulation of the von Mises distribution* (1979).
///
/// ```
/// use tapeloom::prelude::*;
/// let mean = |k: Var| random::von_mises(random::key(0), k, [4000]).cos().mean();
/// let (y, slope) = run(|k: Var| jvp(mean)((k, k.ones_like())), 2.0)?;
/// // The mean of cos x is A = I₁(κ) / I₀(κ), with the derivative 1 - A / κ - A².
/// assert!((y.item::<f64>()? - 0.697775).abs() < 0.03);
/// assert!((slope.item::<f64>()? - 0.164223).abs() < 0.02);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "vonmises", alias = "VonMises")]
#[track_caller]
pub fn von_mises(key: Var, concentration: impl IntoVar, shape: impl Into<Shape>) -> Var {
    let (at, shape) = (caller(), shape.into());
    let dtype = concentration.default_dtype();
    sampled("von_mises", key, &shape, [concentration.into_var(dtype, at)], at, |key, [k]| {
        let sound = k.ge(0.0) & k.is_finite();
        let k = select(sound, k, 1.0);
        let each = (split_n(key, k.size()), k.stop_gradient().flatten());
        let x = map(one, each).reshape(k.shape());
        select(sound, moving(k, x), f64::NAN)
    })
}

/// Draws one angle x, by rejection, for the concentration k (κ below).
///
/// Proposals have the wrapped Cauchy distribution, whose density is proportional to 1 / (1 + a - cos x) with a computed
/// from κ. With d = 1 - cos x, the quotient of the angle's density by that of the proposal is proportional to
/// exp(-κ d) (a + d). Its maximum is at d = 1/κ - a.
fn one((key, k): (Var, Var)) -> Var {
    let dtype = k.dtype();
    // For concentrations below 1e-3, use the proposals for 1e-3, which are nearly uniform, too: the formula divides by
    // the concentration.
    let used = k.maximum(1e-3);
    let root = (2.0 * used).hypot(1.0);
    let short = ((2.0 * (1.0 + root)).sqrt() - 1.0 - (root + 2.0 * used).recip()) / (2.0 * used);
    let a = short * short / (2.0 * (1.0 - short));
    let best = (k.recip() - a).clamp(0.0, 2.0);
    let refused = |(_, _, refused): (Var, Var, Var)| refused;
    let next = |(key, ..): (Var, Var, Var)| {
        let [key, for_angle, for_level] = split(key);
        let half = (0.5 * PI) * uniform(for_angle, [], dtype);
        let (sin, cos) = (half.sin().square(), half.cos().square());
        let d = 2.0 * a * sin / (a + 2.0 * cos);
        let level = k * (best - d) + ((a + d) / (a + best)).ln();
        (key, d, uniform(for_level, [], dtype).ln().gt(level))
    };
    let [key, for_sign] = split(key);
    let (_, d, _) = while_loop(refused, next, (key, k.zeros_like(), k.ge(0.0)));
    let x = 2.0 * (0.5 * d).minimum(1.0).sqrt().asin();
    select(uniform(for_sign, [], dtype).lt(0.5), -x, x)
}

/// Returns the angle `x`. Its derivative with respect to the concentration `k` is the one for which the distribution
/// function at `x` stays constant.
fn moving(k: Var, x: Var) -> Var {
    let [nodes, weights] = GAUSS_LEGENDRE.map(|row| constant(row.to_vec()).convert(k.dtype()));
    let level = |x: Var| {
        let half = (0.5 * x.expand_dims(-1) * nodes).sin();
        let density = (-2.0 * k.expand_dims(-1) * half.square()).exp();
        x * (density * weights).sum_axis(-1) / (TAU * scaled_bessel(k))
    };
    custom_root(level, x.stop_gradient(), |_, x| x, |slope, b| b / slope(b.ones_like()))
}

/// Returns e⁻ᵏ I₀(k) for k ≥ 0. At 0, where [`i0e`](Var::i0e) has a kink, the derivatives are those from the right.
pub(crate) fn scaled_bessel(k: Var) -> Var {
    let near = k.lt(1.0);
    let (low, high) = (select(near, k, 0.0), select(near, 1.0, k));
    select(near, low.i0() * (-low).exp(), high.i0e())
}

/// The points and the weights of the Gauss-Legendre rule of 32 points on [0, 1]. For angles of up to nine standard
/// deviations, this rule computes the integral of the density up to a few rounding errors.
const GAUSS_LEGENDRE: [[f64; 32]; 2] = [
    [
        0.001368069075259215,
        0.007194244227365809,
        0.017618872206246805,
        0.03254696203113017,
        0.051839422116973954,
        0.07531619313371501,
        0.10275810201602881,
        0.13390894062985514,
        0.16847786653489238,
        0.20614212137961885,
        0.24655004553388532,
        0.28932436193468236,
        0.33406569885893617,
        0.38035631887393145,
        0.42776401920860174,
        0.4758461671561308,
        0.5241538328438692,
        0.5722359807913983,
        0.6196436811260685,
        0.6659343011410639,
        0.7106756380653176,
        0.7534499544661146,
        0.7938578786203812,
        0.8315221334651076,
        0.8660910593701449,
        0.8972418979839711,
        0.924683806866285,
        0.948160577883026,
        0.9674530379688698,
        0.9823811277937532,
        0.9928057557726342,
        0.9986319309247408,
    ],
    [
        0.003509305004735253,
        0.008137197365452872,
        0.012696032654631012,
        0.017136931456510882,
        0.021417949011113418,
        0.025499029631188046,
        0.029342046739267783,
        0.03291111138818084,
        0.03617289705442417,
        0.039096947893535114,
        0.041655962113473353,
        0.04382604650220189,
        0.04558693934788189,
        0.046922199540402255,
        0.047819360039637354,
        0.04827004425736383,
        0.04827004425736383,
        0.047819360039637354,
        0.046922199540402255,
        0.04558693934788189,
        0.04382604650220189,
        0.041655962113473353,
        0.039096947893535114,
        0.03617289705442417,
        0.03291111138818084,
        0.029342046739267783,
        0.025499029631188046,
        0.021417949011113418,
        0.017136931456510882,
        0.012696032654631012,
        0.008137197365452872,
        0.003509305004735253,
    ],
];
