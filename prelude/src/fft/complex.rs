//! Transforms of complex arrays, and of real arrays to full spectra.

use super::along::{Along, Plan, scaled};
use crate::Var;
use crate::complex::{Complex, IntoComplex};
use crate::ops::functions::concat;
use crate::ops::{broadcast_together, emit, insert_axis, wrong};
use crate::var::{caller, on_behalf};
use tapeloom_ir::prim::{Fft, Irfft, Rfft};
use tapeloom_ir::{ArrayType, Loc, Problem};

/// A function of the name of a transform, its options and the type of its operand that resolves the options, such as
/// [`Plan::of`].
type Planned = fn(&str, &Along, &ArrayType) -> Result<Plan, Problem>;

/// An operand that is ready to be transformed: its real part, its imaginary part of the same shape if there is one, and
/// the resolved options.
type Ready = (Var, Option<Var>, Plan);

/// Prepares the parts of an operand for a transform: broadcasts them together, resolves the options and resizes the
/// axes. Returns an error if the operand or the options are invalid.
fn ready(
    name: &str,
    (re, im): (Var, Option<Var>),
    along: &Along,
    plan: Planned,
    at: Loc,
) -> Result<Ready, Problem> {
    let (re, im) = match im {
        Some(im) => {
            let (parts, shape) = broadcast_together(name, &[re, im], at)?;
            let whole = |x: Var| x.broadcast_to(&shape);
            (whole(parts[0]), Some(whole(parts[1])))
        }
        None => (re, None),
    };
    let plan = plan(name, along, &re.ty(at))?;
    Ok((plan.resized(re, at), im.map(|im| plan.resized(im, at)), plan))
}

/// Computes the scaled transform of a complex or real array: the inverse transform if `inverse`, else the forward one.
fn transform(
    name: &'static str,
    x: impl IntoComplex,
    along: &Along,
    inverse: bool,
    plan: Planned,
    at: Loc,
) -> Complex {
    let parts = x.into_parts(at);
    let given = parts.0;
    on_behalf(name, at, || match ready(name, parts, along, plan, at) {
        Ok((re, im, plan)) => {
            let size = plan.size(re, at);
            let factor = match inverse {
                false => plan.norm.of_forward(size),
                true => plan.norm.of_inverse(size),
            };
            let (axes, first) = (&plan.axes, plan.axes.split_last());
            let y = match (im, first) {
                (None, None) => Complex { re, im: re.zeros_like() },
                (None, Some((last, rest))) => {
                    let y = of_real(re, *last, inverse, at);
                    of_complex(y, rest, inverse, at)
                }
                (Some(im), _) => of_complex(Complex { re, im }, axes, inverse, at),
            };
            y.map(|y| scaled(y, factor, size))
        }
        Err(problem) => {
            let y = wrong(problem, &[given], given.ty(at), at);
            Complex { re: y, im: y }
        }
    })
}

/// Computes the transform along `axes`, without a normalization factor, beginning with the last axis.
pub(super) fn of_complex(z: Complex, axes: &[usize], inverse: bool, at: Loc) -> Complex {
    if axes.is_empty() {
        return z;
    }
    let rank = z.re.ty(at).shape.len();
    let part = |x: Var| insert_axis(x, 0, at);
    let mut y = concat(&[part(z.re), part(z.im)], 0);
    for axis in axes.iter().rev() {
        y = emit(Fft { inverse, rank, axis: *axis }, &[y], at);
    }
    Complex { re: y.index(0), im: y.index(1) }
}

/// Computes the half spectrum of a real array along an axis, without a normalization factor.
pub(super) fn rfft_along(x: Var, axis: usize, at: Loc) -> Complex {
    let rank = x.ty(at).shape.len();
    let y = emit(Rfft { rank, axis }, &[x], at);
    Complex { re: y.index(0), im: y.index(1) }
}

/// Computes `n` real numbers along an axis from their half spectrum, without a normalization factor.
pub(super) fn irfft_along(y: Complex, axis: usize, n: usize, at: Loc) -> Var {
    let rank = y.re.ty(at).shape.len();
    let part = |x: Var| insert_axis(x, 0, at);
    emit(Irfft { n, rank, axis }, &[concat(&[part(y.re), part(y.im)], 0)], at)
}

/// Computes the full spectrum of a real array along an axis, without a normalization factor: the half spectrum,
/// continued by `y[n - j] = conj(y[j])`.
fn of_real(x: Var, axis: usize, inverse: bool, at: Loc) -> Complex {
    let n = x.ty(at).shape[axis];
    let half = rfft_along(x, axis, at);
    // The half spectrum contains the frequencies 0 ..= n/2. The remaining frequencies are n - j for j in 1 .. (n +
    // 1)/2, in descending order of j.
    let mirrored = |x: Var| x.slice_axis(axis, 1..n.div_ceil(2).max(1)).flip(axis);
    let with = |x: Var, y: Var| concat(&[x, y], axis);
    let (re, im) = match n {
        0..=2 => (half.re, half.im),
        _ => (with(half.re, mirrored(half.re)), with(half.im, -mirrored(half.im))),
    };
    Complex { re, im: if inverse { -im } else { im } }
}

/// Returns the discrete Fourier transform `y[j] = Σ_k x[k] exp(-2 π i j k / n)` along one axis, of a complex or
/// real array of floats. `y` has the shape of `x`, unless [`along`](super::along) sets the number of points.
///
/// For a real array, half of the spectrum is computed and mirrored; [`rfft`](super::rfft) returns that half.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |z: Complex| fft::fft(z, -1);
/// let z = Complex::from([(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)]);
/// assert_eq!(run(f, &z)?.to_pairs::<f64>()?, [(0.0, 0.0), (4.0, 0.0), (0.0, 0.0), (0.0, 0.0)]);
/// assert_eq!(run(|x: Var| fft::fft(x, 0), [1.0, 2.0, 4.0, 0.0])?.im.to_vec::<f64>()?, [0.0, -2.0, 0.0, 2.0]);
/// check_grads(f, &z, 2)?;
/// check_grads(|x: Var| fft::fft(x, 0), [1.0, 2.0, 4.0], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if `x` is not of floats, `shape` if the axis does not exist, or if there is not exactly one.
#[track_caller]
pub fn fft(x: impl IntoComplex, along: impl Into<Along>) -> Complex {
    transform("fft", x, &along.into(), false, Plan::of_one, caller())
}

/// Returns the inverse of [`fft`](fn@fft): `x[k] = Σ_j y[j] exp(2 π i j k / n) / n` along one axis, of a complex or
/// real array of floats.
///
/// ```
/// use tapeloom::prelude::*;
/// let z = Complex::from([(1.0, 0.0), (2.0, 1.0), (-1.0, 0.0)]);
/// let same = run(|z: Complex| fft::ifft(fft::fft(z, 0), 0).is_close(z, 1e-15, 1e-15).all(), &z)?;
/// assert!(same.item::<bool>()?);
/// check_grads(|z: Complex| fft::ifft(z, 0), &z, 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if `x` is not of floats, `shape` if the axis does not exist, or if there is not exactly one.
#[track_caller]
pub fn ifft(x: impl IntoComplex, along: impl Into<Along>) -> Complex {
    transform("ifft", x, &along.into(), true, Plan::of_one, caller())
}

/// Returns [`fft`](fn@fft) along several axes, of which the last one is transformed first; `..` stands for all axes.
///
/// ```
/// use tapeloom::prelude::*;
/// // The spectrum of an impulse is constant.
/// let x = [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]];
/// let y = run(|x: Var| fft::fftn(x, ..), x)?;
/// assert_eq!(y.re, Tensor::from([[1.0; 2]; 3]));
/// check_grads(|x: Var| fft::fftn(x, [1, 0]), x, 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if `x` is not of floats, `shape` if an axis does not exist or is repeated.
#[track_caller]
pub fn fftn(x: impl IntoComplex, along: impl Into<Along>) -> Complex {
    transform("fftn", x, &along.into(), false, Plan::of, caller())
}

/// Returns the inverse of [`fftn`]: the transform [`ifft`] along several axes.
///
/// Errors: `dtype` if `x` is not of floats, `shape` if an axis does not exist or is repeated.
#[track_caller]
pub fn ifftn(x: impl IntoComplex, along: impl Into<Along>) -> Complex {
    transform("ifftn", x, &along.into(), true, Plan::of, caller())
}

/// Returns [`fftn`] along the last two axes. For two other axes, call for example `fftn(x, [0, 1])`.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |x: Var| fft::ifft2(fft::fft2(x));
/// let x = [[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]];
/// let close = |x: Var| f(x).is_close(x, 1e-14, 1e-14).all();
/// assert!(run(close, x)?.item::<bool>()?);
/// check_grads(|x: Var| fft::fft2(x), x, 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if `x` is not of floats, `shape` if it has fewer than two axes.
#[track_caller]
pub fn fft2(x: impl IntoComplex) -> Complex {
    transform("fft2", x, &[-2, -1].into(), false, Plan::of, caller())
}

/// Returns the inverse of [`fft2`]: the transform [`ifftn`] along the last two axes.
///
/// Errors: `dtype` if `x` is not of floats, `shape` if it has fewer than two axes.
#[track_caller]
pub fn ifft2(x: impl IntoComplex) -> Complex {
    transform("ifft2", x, &[-2, -1].into(), true, Plan::of, caller())
}
