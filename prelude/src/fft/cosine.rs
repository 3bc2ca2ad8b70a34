//! Cosine transforms, computed by the Fourier transform of a reordered sequence.

use super::along::{Along, Norm, Plan};
use super::complex::{irfft_along, rfft_along};
use crate::Var;
use crate::complex::Complex;
use crate::ops::functions::{arange, concat, select};
use crate::ops::{insert_axis, move_axis, wrong};
use crate::var::{caller, on_behalf};
use tapeloom_ir::{Dtype, Loc};

/// The kind of a cosine transform, with the numbers that are usual and that `scipy.fft` uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cosine {
    /// `y[k] = 2 Σ_j x[j] cos(π k (2 j + 1) / 2 n)`, the most common kind.
    #[default]
    II,
    /// `y[k] = x[0] + 2 Σ_{j > 0} x[j] cos(π j (2 k + 1) / 2 n)`, the inverse of the second kind times `2 n`.
    III,
}

/// Returns the cosine transform of a kind along one axis, of a real array of floats. `Norm::Ortho` divides by `√(2 n)`.
/// In addition, it divides the constant element by `√2` (in the third kind, it multiplies it by `√2`), so that the
/// transform is orthogonal. `Norm::Forward` divides by `2 n`.
///
/// Source of the algorithm: J. Makhoul, *A fast cosine transform in one and two dimensions* (1980).
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|x: Var| fft::dct(x, fft::Cosine::II, -1), [1.0, 1.0, 1.0])?;
/// assert_eq!(y.to_vec::<f64>()?[0], 6.0);
/// let ortho = |x: Var| fft::dct(x, fft::Cosine::II, fft::along(-1).norm(fft::Norm::Ortho));
/// let x = [1.0, -2.0, 0.5];
/// let size = run(|x: Var| ortho(x).square().sum(), x)?.item::<f64>()?;
/// assert!((size - 5.25).abs() < 1e-14);
/// check_grads(ortho, x, 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if `x` is not of floats, `shape` if the axis does not exist, or if there is not exactly one.
#[track_caller]
pub fn dct(x: Var, kind: Cosine, along: impl Into<Along>) -> Var {
    transform("dct", x, kind, &along.into(), caller())
}

/// Returns the inverse of [`dct`] of the same kind and norm, along one axis, of a real array of floats.
///
/// ```
/// use tapeloom::prelude::*;
/// for kind in [fft::Cosine::II, fft::Cosine::III] {
///     let close = |x: Var| fft::idct(fft::dct(x, kind, 0), kind, 0).is_close(x, 1e-14, 1e-14).all();
///     assert!(run(close, [1.0, -2.0, 0.5, 3.0])?.item::<bool>()?);
///     check_grads(|x: Var| fft::idct(x, kind, 0), [1.0, -2.0, 0.5, 3.0], 2)?;
/// }
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if `x` is not of floats, `shape` if the axis does not exist, or if there is not exactly one.
#[track_caller]
pub fn idct(y: Var, kind: Cosine, along: impl Into<Along>) -> Var {
    // Up to a factor, the cosine transforms of the second and of the third kind are inverses of each other.
    let other = match kind {
        Cosine::II => Cosine::III,
        Cosine::III => Cosine::II,
    };
    let along = along.into();
    let norm = along.own_norm().reversed();
    transform("idct", y, other, &along.norm(norm), caller())
}

fn transform(name: &'static str, x: Var, kind: Cosine, along: &Along, at: Loc) -> Var {
    let ty = x.ty(at);
    on_behalf(name, at, || match Plan::of_one(name, along, &ty) {
        Ok(plan) => {
            let x = plan.resized(x, at);
            let (axis, rank) = (plan.axes[0], ty.shape.len());
            let x = move_axis(x, axis, rank - 1, at);
            let y = match x.ty(at).shape.contains(&0) {
                true => x,
                false => scaled(x, kind, plan.norm, at),
            };
            move_axis(y, rank - 1, axis, at)
        }
        Err(problem) => wrong(problem, &[x], ty, at),
    })
}

/// Computes the cosine transform along the last axis, with the factors of `norm`.
fn scaled(x: Var, kind: Cosine, norm: Norm, at: Loc) -> Var {
    let shape = x.ty(at).shape;
    let n = shape[shape.len() - 1];
    let double = 2.0 * n as f64;
    // The factor of element 0, which is the coefficient of the constant term, and the factor of all other elements.
    let (first, others) = match norm {
        Norm::Backward => (1.0, 1.0),
        Norm::Ortho => ((0.5 / double).sqrt(), (1.0 / double).sqrt()),
        Norm::Forward => (1.0 / double, 1.0 / double),
    };
    // The unscaled third kind contains the constant term once and all other terms twice, so an orthogonal transform
    // needs twice the factor for element 0.
    let first = if kind == Cosine::III && norm == Norm::Ortho { 2.0 * first } else { first };
    let weighted = |x: Var| match first == others {
        true => x * others,
        false => {
            let factors = select(arange(n, Dtype::I64).eq(0), first, others);
            x * factors.convert(x.ty(at).dtype)
        }
    };
    match kind {
        Cosine::II => weighted(second(x, at)),
        Cosine::III => third(weighted(x), at),
    }
}

/// Returns `cos(π k / 2 n)` and `sin(π k / 2 n)` for the frequencies `k` of a half spectrum.
fn twiddles(n: usize, dtype: Dtype) -> Complex {
    let angle = arange(n / 2 + 1, Dtype::F64) * (std::f64::consts::PI / (2.0 * n as f64));
    Complex { re: angle.cos().convert(dtype), im: angle.sin().convert(dtype) }
}

/// Computes the transform of the second kind along the last axis, without a normalization factor.
///
/// ```text
/// v = x[0], x[2], x[4], .., x[5], x[3], x[1]       w[k] = exp(-i π k / 2 n) Σ_j v[j] exp(-2 π i j k / n)
/// y[k] = 2 Re w[k]                                  y[n - k] = -2 Im w[k]
/// ```
fn second(x: Var, at: Loc) -> Var {
    let ty = x.ty(at);
    let last = ty.shape.len() - 1;
    let n = ty.shape[last];
    let even = x.slice_step(last, 0..n, 2);
    let v = match n {
        1 => even,
        _ => concat(&[even, x.slice_step(last, 1..n, 2).flip(last)], last),
    };
    let w = rfft_along(v, last, at) * twiddles(n, ty.dtype).conj();
    let front = 2.0 * w.re;
    let back = n - (n / 2 + 1);
    match back {
        0 => front,
        _ => concat(&[front, -2.0 * w.im.slice_axis(last, 1..back + 1).flip(last)], last),
    }
}

/// Computes the transform of the third kind along the last axis, without a normalization factor. Its steps are the
/// inverse steps of [`second`] in reverse order.
///
/// ```text
/// w[k] = x[k] - i x[n - k], x[n] = 0      v = irfft(exp(i π k / 2 n) w)      y[0], y[2], .., y[3], y[1] = v
/// ```
fn third(x: Var, at: Loc) -> Var {
    let ty = x.ty(at);
    let last = ty.shape.len() - 1;
    let (n, half) = (ty.shape[last], ty.shape[last] / 2 + 1);
    if n == 1 {
        return x;
    }
    let zero = x.slice_axis(last, 0..1).zeros_like();
    let back = concat(&[zero, x.slice_axis(last, n + 1 - half..n).flip(last)], last);
    let w = Complex { re: x.slice_axis(last, 0..half), im: -back } * twiddles(n, ty.dtype);
    let v = irfft_along(w, last, n, at);
    // y[2 j] = v[j] and y[2 j + 1] = v[n - 1 - j]: stack both as columns and flatten them. If n is odd, cut off the
    // last element.
    let rows = n.div_ceil(2);
    let (even, odd) = (v.slice_axis(last, 0..rows), v.flip(last).slice_axis(last, 0..rows));
    let column = |x: Var| insert_axis(x, last + 1, at);
    let mut shape = ty.shape.to_vec();
    shape[last] = 2 * rows;
    concat(&[column(even), column(odd)], last + 1).reshape(shape).slice_axis(last, 0..n)
}
