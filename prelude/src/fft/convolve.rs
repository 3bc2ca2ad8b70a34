//! Convolution by Fourier transforms.

use super::complex::{irfft_along, rfft_along};
use crate::Var;
use crate::complex::Complex;
use crate::ops::{broadcast_shapes, broadcast_var, wrong};
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::{ArrayType, Kind, Loc, Problem, Shape};

/// The part of a convolution of `n` and `m` elements that is returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// All `n + m - 1` elements for which the operands overlap.
    #[default]
    Full,
    /// The central `n` elements, the extent of the first operand.
    Same,
    /// The `|n - m| + 1` elements for which one operand is completely inside the other.
    Valid,
}

/// Returns the smallest number that is at least `n` and has no prime factor above 5. Transforms of these lengths are
/// fastest.
///
/// ```
/// use tapeloom::prelude::*;
/// assert_eq!([0, 7, 17, 1021].map(fft::next_fast_len), [1, 8, 18, 1024]);
/// ```
#[must_use]
pub fn next_fast_len(n: usize) -> usize {
    let mut best = n.checked_next_power_of_two().unwrap_or(n);
    let mut fives = 1usize;
    while fives < best {
        let mut odd = fives;
        while odd < best {
            // The smallest power of two whose product with `odd` is at least `n`.
            let twos = n.div_ceil(odd).checked_next_power_of_two();
            if let Some(candidate) = twos.and_then(|twos| twos.checked_mul(odd)) {
                best = best.min(candidate);
            }
            let Some(next) = odd.checked_mul(3) else { break };
            odd = next;
        }
        let Some(next) = fives.checked_mul(5) else { break };
        fives = next;
    }
    best
}

/// Returns the convolution `z[k] = Σ_j x[j] y[k - j]` along the last axis, of real arrays of one float dtype. The other
/// axes are broadcast. It is computed by Fourier transforms, at a cost of order `(n + m) log(n + m)` for extents n and
/// m. The absolute error is of the order of the rounding errors of the largest elements.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |mode| move |(x, y): (Var, Var)| fft::fftconvolve(x, y, mode);
/// let data = ([1.0, 2.0, 3.0], [1.0, 1.0]);
/// let close = |z: Tensor, want: &[f64]| z.numbers().zip(want).all(|(z, w)| (z - w).abs() < 1e-14);
/// assert!(close(run(f(fft::Mode::Full), data)?, &[1.0, 3.0, 5.0, 3.0]));
/// assert!(close(run(f(fft::Mode::Same), data)?, &[1.0, 3.0, 5.0]));
/// assert!(close(run(f(fft::Mode::Valid), data)?, &[3.0, 5.0]));
/// check_grads(f(fft::Mode::Full), data, 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if the operands are not floats of one dtype; `shape` if one is a scalar or has no elements along
/// the last axis, or if the other axes do not broadcast.
#[track_caller]
pub fn fftconvolve(x: Var, y: impl IntoVar, mode: Mode) -> Var {
    let at = caller();
    let y = y.beside(x, at);
    on_behalf("fftconvolve", at, || match ready(x, y, at) {
        Ok((x, y)) => convolved(x, y, mode, at),
        Err(problem) => wrong(problem, &[x, y], x.ty(at), at),
    })
}

/// Checks the operands of a convolution, and broadcasts all their axes except the last one.
fn ready(x: Var, y: Var, at: Loc) -> Result<(Var, Var), Problem> {
    let (tx, ty) = (x.ty(at), y.ty(at));
    let problem = |kind, help: &str| {
        Problem::new(kind, format!("`fftconvolve` of {tx} and {ty}"), help.to_owned())
    };
    if !tx.dtype.is_float() {
        return Err(problem(Kind::Dtype, "convert first, as in `x.convert(Dtype::F64)`"));
    }
    if tx.dtype != ty.dtype {
        return Err(problem(Kind::Dtype, &crate::dtype::conversions(tx.dtype, ty.dtype)));
    }
    let parts = |t: &ArrayType| t.shape.split_last().map(|(n, lead)| (*n, lead.to_vec()));
    let (Some((n, front)), Some((m, other))) = (parts(&tx), parts(&ty)) else {
        return Err(problem(Kind::Shape, "the last axis is the one that is convolved"));
    };
    if n == 0 || m == 0 {
        return Err(problem(Kind::Shape, "the last axis needs an element at least"));
    }
    let lead = broadcast_shapes(&front, &other).ok_or_else(|| {
        problem(Kind::Shape, "the axes before the last must be equal or 1, aligned at the end")
    })?;
    let whole =
        |x: Var, n: usize| broadcast_var(x, &Shape::from(&[&lead[..], &[n]].concat()[..]), at);
    Ok((whole(x, n), whole(y, m)))
}

fn convolved(x: Var, y: Var, mode: Mode, at: Loc) -> Var {
    let (tx, ty) = (x.ty(at), y.ty(at));
    let last = tx.shape.len() - 1;
    let (n, m) = (tx.shape[last], ty.shape[last]);
    let full = n.saturating_add(m) - 1;
    let length = next_fast_len(full);
    let spectrum = |x: Var| rfft_along(super::along::resized(x, last, length, at), last, at);
    let z: Complex = spectrum(x) * spectrum(y);
    let z = irfft_along(z, last, length, at) * (1.0 / length as f64);
    let (start, count) = match mode {
        Mode::Full => (0, full),
        Mode::Same => ((m - 1) / 2, n),
        Mode::Valid => (n.min(m) - 1, n.abs_diff(m) + 1),
    };
    z.slice_axis(last, start..start + count)
}
