//! Convolutions and correlations of two sequences.

use super::geometry::{Steps, view};
use crate::Var;
use crate::fft::Mode;
use crate::ops::wrong;
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::{Kind, Literal, Loc, Problem};

/// Computes `y[k] = Σ_j a[k + j - low] v[j]` for a sequence `a` that is not shorter than `v`. `mode` determines `low`
/// and the length of the result.
fn slid(name: &'static str, a: Var, v: Var, mode: Mode, at: Loc) -> Result<Var, Problem> {
    let m = v.ty(at).shape[0];
    let (low, high) = match mode {
        Mode::Full => (m - 1, m - 1),
        Mode::Same => (m / 2, (m - 1) / 2),
        Mode::Valid => (0, 0),
    };
    let steps = Steps::default().padding(vec![(low as i64, high as i64)]);
    let along = steps.along(name, &a.ty(at).shape, &[m])?;
    Ok(view(a, &[0], &along, 1, Literal::zero(a.dtype()), at).dot(v))
}

/// Checks that both operands are nonempty sequences of numbers of one dtype. Returns their lengths or an error.
fn checked(name: &str, a: Var, v: Var, at: Loc) -> Result<[usize; 2], Problem> {
    let (ta, tv) = (a.ty(at), v.ty(at));
    let message = format!("`{name}` of {ta} and {tv}");
    if ta.dtype != tv.dtype {
        return Err(Problem::new(
            Kind::Dtype,
            message,
            crate::dtype::conversions(ta.dtype, tv.dtype),
        ));
    }
    match (&ta.shape[..], &tv.shape[..]) {
        ([n], [m]) if *n > 0 && *m > 0 => Ok([*n, *m]),
        _ => Err(Problem::new(
            Kind::Shape,
            message,
            "both are sequences of one axis, not empty; `vmap` over more",
        )),
    }
}

/// Returns the convolution `y[k] = Σ_j a[k - j] v[j]` of two sequences (arrays of numbers with one axis and one
/// dtype) by direct summation; for long sequences use [`fftconvolve`](crate::fft::fftconvolve). `mode` selects the
/// part that is returned.
///
/// ```
/// use tapeloom::prelude::*;
/// use tapeloom::fft::Mode;
/// let product = |(a, v): (Var, Var)| conv::convolve(a, v, Mode::Full);
/// // (1 + 2x + 3x²) (1 - x)
/// let (a, v) = ([1.0, 2.0, 3.0], [1.0, -1.0]);
/// assert_eq!(run(product, (a, v))?.to_vec::<f64>()?, [1.0, 1.0, 1.0, -3.0]);
/// check_grads(product, (a, v), 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if an operand is not a sequence or is empty, `dtype` if the dtypes differ.
#[track_caller]
pub fn convolve(a: Var, v: impl IntoVar, mode: Mode) -> Var {
    let at = caller();
    let v = v.beside(a, at);
    let of = || {
        let [n, m] = checked("convolve", a, v, at)?;
        let (long, short) = if n < m { (v, a) } else { (a, v) };
        on_behalf("convolve", at, || slid("convolve", long, short.flip(0), mode, at))
    };
    of().unwrap_or_else(|problem| wrong(problem, &[a, v], a.ty(at), at))
}

/// Returns the correlation `y[k] = Σ_j a[k + j] v[j]` of two sequences, as in numpy; see [`convolve`]. Element 0 of
/// the full correlation contains only `a[0]`.
///
/// ```
/// use tapeloom::prelude::*;
/// use tapeloom::fft::Mode;
/// let y = run(|(a, v): (Var, Var)| conv::correlate(a, v, Mode::Valid), ([1.0, 2.0, 4.0], [1.0, -1.0]))?;
/// assert_eq!(y.to_vec::<f64>()?, [-1.0, -2.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: those of [`convolve`].
#[track_caller]
pub fn correlate(a: Var, v: impl IntoVar, mode: Mode) -> Var {
    let at = caller();
    let v = v.beside(a, at);
    let of = || {
        let [n, m] = checked("correlate", a, v, at)?;
        on_behalf("correlate", at, || match n < m {
            // `slid` requires that its first sequence is not the shorter one. If the operands are exchanged, the result
            // is in reverse order, so flip it.
            true => Ok(slid("correlate", v, a, mode, at)?.flip(0)),
            false => slid("correlate", a, v, mode, at),
        })
    };
    of().unwrap_or_else(|problem| wrong(problem, &[a, v], a.ty(at), at))
}
