//! Windows of signals, and transforms of windowed frames.

use super::{along, irfft, rfft};
use crate::Var;
use crate::complex::{Complex, IntoComplex};
use crate::ops::functions::{arange, ones, select, zeros};
use crate::ops::{Padding, wrong};
use crate::var::{caller, on_behalf};
use std::f64::consts::TAU;
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem};

/// The shape of a window: a sum of cosines. In the formulas of the variants, cos is the cosine of an angle that runs
/// from 0 to 2π along the window.
///
/// ```
/// use tapeloom::prelude::*;
/// use fft::Window;
/// let w = run(|()| Window::Hann.symmetric(5, Dtype::F64), ())?.to_vec::<f64>()?;
/// assert!(w.iter().zip([0.0, 0.5, 1.0, 0.5, 0.0]).all(|(x, y)| (x - y).abs() < 1e-15));
/// let w = run(|()| Window::Hann.periodic(4, Dtype::F64), ())?.to_vec::<f64>()?;
/// assert!(w.iter().zip([0.0, 0.5, 1.0, 0.5]).all(|(x, y)| (x - y).abs() < 1e-15));
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "hann", alias = "hann_window", alias = "hanning", alias = "get_window")]
#[doc(alias = "hamming_window", alias = "hamming", alias = "blackman", alias = "blackman_window")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Window {
    /// 0.5 - 0.5 cos
    Hann,
    /// 0.54 - 0.46 cos
    Hamming,
    /// 0.42 - 0.5 cos + 0.08 cos₂, where cos₂ is the cosine of twice the angle
    Blackman,
}

impl Window {
    /// Returns the first period, of n numbers, of a periodic window; this is the form for Fourier transforms. It is
    /// SciPy's `sym=False` and the default in PyTorch.
    ///
    /// Errors: `dtype` if `dtype` is not a float.
    #[track_caller]
    pub fn periodic(self, n: usize, dtype: Dtype) -> Var {
        let at = caller();
        on_behalf("periodic", at, || self.sampled("periodic", n, n, dtype, at))
    }

    /// Returns a symmetric window of n numbers; this is the form for the design of filters. It is SciPy's `sym=True`,
    /// and numpy's `hanning`, `hamming` and `blackman`.
    ///
    /// Errors: `dtype` if `dtype` is not a float.
    #[track_caller]
    pub fn symmetric(self, n: usize, dtype: Dtype) -> Var {
        let at = caller();
        on_behalf("symmetric", at, || self.sampled("symmetric", n, n.saturating_sub(1), dtype, at))
    }

    fn sampled(self, name: &str, n: usize, period: usize, dtype: Dtype, at: Loc) -> Var {
        if !dtype.is_float() {
            let message = format!("`{name}` in {dtype}");
            let problem = Problem::new(Kind::Dtype, message, "windows are f32 or f64");
            return wrong(problem, &[], ArrayType::new(dtype, [n]), at);
        }
        if n == 1 {
            return ones([1], dtype);
        }
        let angle = arange(n, Dtype::F64) * (TAU / period.max(1) as f64);
        let window = match self {
            Window::Hann => 0.5 - 0.5 * angle.cos(),
            Window::Hamming => 0.54 - 0.46 * angle.cos(),
            Window::Blackman => 0.42 - 0.5 * angle.cos() + 0.08 * (2.0 * angle).cos(),
        };
        window.convert(dtype)
    }
}

/// The frames of a short-time Fourier transform. A frame begins at every `hop`-th sample and has as many samples as the
/// window.
#[derive(Clone, Copy, Debug)]
pub struct Frames {
    window: Var,
    hop: usize,
    centered: bool,
}

impl Frames {
    /// Returns frames that are multiplied by a window `[n]`, at a distance of `hop` samples. The first frame is
    /// centered at the first sample: the signal is continued by n/2 samples on both sides, mirrored at its ends, as
    /// with PyTorch's `center=True` and SciPy's `boundary='even'`.
    pub fn new(window: Var, hop: usize) -> Frames {
        Frames { window, hop, centered: true }
    }

    /// Lets the first frame begin at the first sample, so that the signal is not continued at its ends. This is
    /// PyTorch's `center=False` and SciPy's `boundary=None`.
    #[must_use]
    pub fn inside(self) -> Frames {
        Frames { centered: false, ..self }
    }

    /// Returns the number of samples of a frame and the number of samples by which each side of the signal is
    /// continued. Returns an error if the signal, the window or the hop is invalid.
    fn checked(&self, name: &str, ty: &ArrayType, at: Loc) -> Result<(usize, usize), Problem> {
        let window = self.window.ty(at);
        let message = format!("`{name}` of {ty} with a window {window} and a hop of {}", self.hop);
        if !ty.dtype.is_float() || ty.dtype != window.dtype {
            let help = "signal and window are floats of one dtype";
            return Err(Problem::new(Kind::Dtype, message, help));
        }
        match window.shape[..] {
            [n] if n > 0 && self.hop > 0 => Ok((n, if self.centered { n / 2 } else { 0 })),
            _ => {
                let help = "a window is a vector of at least one number, a hop at least 1";
                Err(Problem::new(Kind::Shape, message, help))
            }
        }
    }
}

/// Returns the short-time Fourier transform of a signal along its last axis: the half spectra of windowed frames, `[..,
/// frequencies, frames]` with n/2 + 1 frequencies for a window of n samples. The last samples are left out if they do
/// not fill a frame.
///
/// This is PyTorch's `stft` with these arguments. SciPy's `stft` divides by the sum of the window, and adds zeros to
/// fill the last frame unless `padded=False`.
///
/// Errors: `dtype` if signal and window are not floats of one dtype; `shape` if the window is not a vector, the hop is
/// 0, or the signal is shorter than a frame (or not longer than n/2, where it is mirrored).
///
/// ```
/// use tapeloom::prelude::*;
/// use fft::{Frames, Window};
/// let how = |dtype| Frames::new(Window::Hann.periodic(8, dtype), 2);
/// let there = |x: Var| fft::stft(x, how(x.dtype()));
/// let back = |x: Var| fft::istft(there(x), how(x.dtype()), x.len());
/// let x: Vec<f64> = (0..20).map(|i| f64::from(i * i % 7)).collect();
/// assert_eq!(run(there, x.clone())?.re.shape(), [5, 11]);
/// assert!(run(move |x: Var| back(x).all_close(x, 0.0, 1e-14), x)?.item::<bool>()?);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "ShortTimeFFT", alias = "spectrogram")]
#[track_caller]
pub fn stft(x: Var, frames: Frames) -> Complex {
    let at = caller();
    let ty = x.ty(at);
    let time = ty.shape.last().copied().unwrap_or(0);
    let problem = match frames.checked("stft", &ty, at) {
        Ok((n, side)) if time > side && time + 2 * side >= n => {
            return on_behalf("stft", at, || {
                let x = continued(x, side);
                let count = (time + 2 * side - n) / frames.hop + 1;
                let parts = x.take(places(count, n, frames.hop), -1) * frames.window;
                rfft(parts, -1).map(|y| y.swap_axes(-1, -2))
            });
        }
        Ok((n, _)) => {
            let message = format!("`stft` of {ty} in frames of {n} samples");
            Problem::new(Kind::Shape, message, "the signal is shorter than a frame")
        }
        Err(problem) => problem,
    };
    let y = wrong(problem, &[x, frames.window], ty, at);
    Complex { re: y, im: y }
}

/// Returns the signal of `length` samples whose [`stft`] is nearest to the given transform: the frames are multiplied
/// by the window again, added, and divided by the sum of squared windows. Samples that no window covers are 0.
///
/// Errors: as [`stft`]; `shape` if the number of frequencies is not that of the window, or the frames cover fewer than
/// `length` samples.
///
/// Source: Griffin and Lim, *Signal estimation from modified short-time Fourier transform* (1984).
#[track_caller]
pub fn istft(y: impl IntoComplex, frames: Frames, length: usize) -> Var {
    let at = caller();
    let y = Complex::of(y.into_parts(at));
    let ty = y.re.ty(at);
    let rank = ty.shape.len();
    let checked = frames.checked("istft", &ty, at).and_then(|(n, side)| {
        let message = || format!("`istft` of {ty} to {length} samples with a window of {n}");
        let [.., frequencies, count] = ty.shape[..] else {
            let help = "the spectrum is [.., frequencies, frames]";
            return Err(Problem::new(Kind::Shape, message(), help));
        };
        let last = count.checked_sub(1).and_then(|last| last.checked_mul(frames.hop));
        let covered = last.and_then(|last| last.checked_add(n)).unwrap_or(0);
        let whole = length.checked_add(side).is_some_and(|end| end <= covered);
        if frequencies != n / 2 + 1 || !whole {
            let help = "there are n/2 + 1 frequencies for a window of n samples, and the frames cover the signal";
            return Err(Problem::new(Kind::Shape, message(), help));
        }
        Ok((n, side, count, covered))
    });
    match checked {
        Ok((n, side, count, covered)) => on_behalf("istft", at, || {
            let parts = irfft(y.map(|y| y.swap_axes(-1, -2)), along(-1).points(n));
            let lead = ty.shape[..rank - 2].to_vec();
            // Move the axes of frames and samples to the front, because the indices `places` select elements along the
            // leading axis of the sum.
            let parts = (parts * frames.window).move_axis(-2, 0).move_axis(-1, 1);
            let places = places(count, n, frames.hop);
            let whole = [&[covered][..], &lead].concat();
            let sum = zeros(whole, ty.dtype).at(places).add(parts);
            let squares = frames.window.square().broadcast_to([count, n]);
            let weight = zeros([covered], ty.dtype).at(places).add(squares);
            let none = weight.eq(0.0);
            let sum = sum.move_axis(0, -1);
            let x = select(none, 0.0, sum / select(none, 1.0, weight));
            x.slice_axis(-1, side..side + length)
        }),
        Err(problem) => {
            let shape = [&ty.shape[..rank.saturating_sub(2)], &[length]].concat();
            let guess = ArrayType::new(ty.dtype, shape);
            wrong(problem, &[y.re, y.im, frames.window], guess, at)
        }
    }
}

/// Returns the indices `[frames, n]` of the samples of each frame.
fn places(count: usize, n: usize, hop: usize) -> Var {
    // A hop that does not fit in an i64 is longer than any signal. There is only one frame then, so the hop is not
    // used.
    let starts = arange(count, Dtype::I64) * i64::try_from(hop).unwrap_or(i64::MAX);
    starts.expand_dims(1) + arange(n, Dtype::I64)
}

/// Continues a signal by `side` mirrored samples at each end.
fn continued(x: Var, side: usize) -> Var {
    let mut widths = vec![(0, 0); x.rank()];
    if let Some(last) = widths.last_mut() {
        *last = (side, side);
    }
    if side == 0 { x } else { x.pad_like(&widths, Padding::Reflect) }
}
