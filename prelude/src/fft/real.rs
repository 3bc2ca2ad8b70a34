//! Transforms between real arrays and half spectra.

use super::along::{Along, Plan, resized, scaled};
use super::complex::{irfft_along, of_complex, rfft_along};
use crate::Var;
use crate::complex::{Complex, IntoComplex};
use crate::ops::spaced;
use crate::ops::{broadcast_together, wrong};
use crate::var::{caller, on_behalf};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem};

/// A function of the name of a transform, its options and the type of its operand that resolves the options, such as
/// [`Plan::of`].
type Planned = fn(&str, &Along, &ArrayType) -> Result<Plan, Problem>;

fn forward(name: &'static str, x: Var, along: &Along, plan: Planned, at: Loc) -> Complex {
    let ty = x.ty(at);
    on_behalf(name, at, || match plan(name, along, &ty) {
        Ok(plan) => {
            let x = plan.resized(x, at);
            let size = plan.size(x, at);
            let Some((last, rest)) = plan.axes.split_last() else {
                return Complex { re: x, im: x.zeros_like() };
            };
            let y = of_complex(rfft_along(x, *last, at), rest, false, at);
            let factor = plan.norm.of_forward(size);
            y.map(|y| scaled(y, factor, size))
        }
        Err(problem) => {
            let y = wrong(problem, &[x], ty, at);
            Complex { re: y, im: y }
        }
    })
}

fn backward(name: &'static str, y: impl IntoComplex, along: &Along, plan: Planned, at: Loc) -> Var {
    let (re, im) = y.into_parts(at);
    let im = im.unwrap_or_else(|| on_behalf(name, at, || re.zeros_like()));
    let inside = || -> Result<Var, Problem> {
        let (parts, shape) = broadcast_together(name, &[re, im], at)?;
        let z = Complex { re: parts[0], im: parts[1] }.map(|x| x.broadcast_to(&shape));
        let mut plan = plan(name, along, &z.re.ty(at))?;
        let Some((last, rest)) = plan.axes.clone().split_last().map(|(l, r)| (*l, r.to_vec()))
        else {
            return Ok(z.re);
        };
        let h = shape[last];
        let n = match plan.points.pop().flatten() {
            Some(n) => n,
            None if h <= 1 => {
                let help = "give the number of points of the result: `fft::along(axis).points(n)`";
                let message = format!("`{name}` of half a spectrum whose axis has the extent {h}");
                return Err(Problem::new(Kind::Shape, message, help));
            }
            None => h.saturating_mul(2) - 2,
        };
        plan.axes.pop();
        let half = if n == 0 { 0 } else { n / 2 + 1 };
        let z = z.map(|x| resized(plan.resized(x, at), last, half, at));
        let z = of_complex(z, &rest, true, at);
        let x = irfft_along(z, last, n, at);
        let size = plan.size(x, at) * n as f64;
        Ok(scaled(x, plan.norm.of_inverse(size), size))
    };
    on_behalf(name, at, || match inside() {
        Ok(x) => x,
        Err(problem) => wrong(problem, &[re], re.ty(at), at),
    })
}

/// Returns half of the discrete Fourier transform of a real array of floats along one axis: for `n` points, the
/// frequencies `0 ..= n/2`. They determine the remaining frequencies, because `y[n - j] = conj(y[j])`.
///
/// The imaginary parts at frequency 0 and, if `n` is even, at `n/2` are zero.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |x: Var| fft::rfft(x, -1);
/// let y = run(f, [1.0, 2.0, 4.0, 0.0])?;
/// assert_eq!(y.to_pairs::<f64>()?, [(7.0, 0.0), (-3.0, -2.0), (3.0, 0.0)]);
/// check_grads(f, [1.0, 2.0, 4.0, 0.0], 2)?;
/// check_grads(f, [1.0, 2.0, 4.0], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if `x` is not of floats, `shape` if the axis does not exist, or if there is not exactly one.
#[track_caller]
pub fn rfft(x: Var, along: impl Into<Along>) -> Complex {
    forward("rfft", x, &along.into(), Plan::of_one, caller())
}

/// Returns the inverse of [`rfft`] along one axis: the real array with the given half spectrum. For `h` frequencies
/// it has `2 (h - 1)` points; [`along`](super::along)`(axis).points(n)` sets another number, which may be odd.
///
/// The imaginary parts at frequency 0 and, if `n` is even, at `n/2` are ignored.
///
/// ```
/// use tapeloom::prelude::*;
/// let odd = |y: Complex| fft::irfft(y, fft::along(0).points(3));
/// let y = Complex::from([(6.0, 0.0), (-1.5, 0.75)]);
/// assert_eq!(run(|y: Complex| fft::irfft(y, 0), &y)?.to_vec::<f64>()?, [2.25, 3.75]);
/// assert_eq!(run(odd, &y)?.shape(), [3]);
/// check_grads(odd, &y, 2)?;
/// // The gradient with respect to the imaginary part of frequency 0 is zero.
/// assert_eq!(run(grad(|y: Complex| odd(y).square().sum()), &y)?.im.to_vec::<f64>()?[0], 0.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if `y` is not of floats, `shape` if the axis does not exist, or if there is not exactly one.
#[track_caller]
pub fn irfft(y: impl IntoComplex, along: impl Into<Along>) -> Var {
    backward("irfft", y, &along.into(), Plan::of_one, caller())
}

/// Returns the transform [`rfft`] along the last of the given axes, followed by [`fft`](fn@super::fft) along the other
/// given axes. `..` stands for all axes.
///
/// ```
/// use tapeloom::prelude::*;
/// let x = [[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]];
/// let f = |x: Var| fft::irfftn(fft::rfftn(x, ..), fft::along(..).points_each([2, 3]));
/// let close = |x: Var| f(x).is_close(x, 1e-14, 1e-14).all();
/// assert!(run(close, x)?.item::<bool>()?);
/// check_grads(|x: Var| fft::rfftn(x, ..), x, 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if `x` is not of floats, `shape` if an axis does not exist or is repeated, or if there are none.
#[track_caller]
pub fn rfftn(x: Var, along: impl Into<Along>) -> Complex {
    forward("rfftn", x, &along.into(), Plan::of_some, caller())
}

/// Returns the inverse of [`rfftn`]: [`ifft`](super::ifft) along all given axes except the last, then [`irfft`]
/// along the last.
///
/// Errors: `dtype` if `y` is not of floats, `shape` if an axis does not exist or is repeated, or if there are none.
#[track_caller]
pub fn irfftn(y: impl IntoComplex, along: impl Into<Along>) -> Var {
    backward("irfftn", y, &along.into(), Plan::of_some, caller())
}

/// Returns [`rfftn`] along the last two axes. For two other axes, call for example `rfftn(x, [0, 1])`.
///
/// ```
/// use tapeloom::prelude::*;
/// let power = |x: Var| fft::rfft2(x).abs2();
/// let x = [[1.0, 0.0, 2.0, 1.0], [0.0, 3.0, 0.0, 2.0]];
/// assert_eq!(run(power, x)?.to_vec::<f64>()?[0], 81.0);
/// check_grads(power, x, 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if `x` is not of floats, `shape` if it has fewer than two axes.
#[track_caller]
pub fn rfft2(x: Var) -> Complex {
    forward("rfft2", x, &[-2, -1].into(), Plan::of_some, caller())
}

/// Returns the inverse of [`rfft2`] for real arrays with an even extent of the last axis: [`irfftn`] along the last two
/// axes.
///
/// Errors: `dtype` if `y` is not of floats, `shape` if it has fewer than two axes.
#[track_caller]
pub fn irfft2(y: impl IntoComplex) -> Var {
    backward("irfft2", y, &[-2, -1].into(), Plan::of_some, caller())
}

/// Returns the frequencies of the half spectrum of `n` samples at distance `spacing`: `0 ..= n/2` in units of
/// `1 / (n spacing)`, computed in f64.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = run(|()| fft::rfftfreq(5, 0.5, Dtype::F64), ())?;
/// assert_eq!(f.to_vec::<f64>()?, [0.0, 0.4, 0.8]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if `dtype` is not a float.
#[track_caller]
pub fn rfftfreq(n: usize, spacing: f64, dtype: Dtype) -> Var {
    let half = if n == 0 { 0 } else { n / 2 + 1 };
    spaced("rfftfreq", half, dtype, caller(), |i| i / (n as f64 * spacing))
}
