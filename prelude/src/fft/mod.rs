//! Discrete Fourier transforms of any length, along any axes, with derivatives of every order.
//!
//! ```text
//! fft:   y[j] = Σ_k x[k] exp(-2 π i j k / n)
//! ifft:  x[k] = Σ_j y[j] exp(+2 π i j k / n) / n
//! ```
//!
//! Names and conventions are those of `numpy.fft`. Complex arrays are [`Complex`](crate::Complex). `fft` and its
//! variants accept real arrays, too. The axis, the number of points and the normalization are given by an [`Along`]: an
//! axis as a number, or [`along`]`(axis)` with further options.
//!
//! ```
//! use tapeloom::prelude::*;
//! // Two periods of a cosine: half of its amplitude at the frequency 2.
//! let wave = Tensor::from([1.0, 0.0, -1.0, 0.0, 1.0, 0.0, -1.0, 0.0]);
//! let spectrum = run(|x: Var| fft::rfft(x, -1), &wave)?;
//! assert_eq!(spectrum.re.to_vec::<f64>()?, [0.0, 0.0, 4.0, 0.0, 0.0]);
//!
//! // The transform padded with zeros to 16 points, and scaled to be unitary.
//! let fine = |x: Var| fft::rfft(x, fft::along(-1).points(16).norm(fft::Norm::Ortho));
//! assert_eq!(run(fine, &wave)?.re.shape(), [9]);
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! The transforms are linear, so derivatives are transforms. Reverse mode of `fft` is the sum with the opposite
//! sign in the exponent; [`Complex`](crate::Complex) documents the convention for gradients. If an element of a
//! sequence is nan or infinite, the whole transform of the sequence is nan. Transforms are computed by a library
//! (Cargo feature `linalg`, on by default) at a cost of order `n log n` for every `n`, including primes.
//!
//! [`stft`] transforms the frames of a signal, under a [`Window`].
//!
//! The frequencies are [`fftfreq`](crate::fftfreq) and [`rfftfreq`]; [`Var::fftshift`](crate::Var::fftshift) moves
//! frequency 0 to the middle, for a `Complex` by `z.map(|x| x.fftshift(-1))`.

mod along;
mod complex;
mod convolve;
mod cosine;
mod real;
mod windows;

pub use along::{Along, Norm, along};
pub use complex::{fft, fft2, fftn, ifft, ifft2, ifftn};
pub use convolve::{Mode, fftconvolve, next_fast_len};
pub use cosine::{Cosine, dct, idct};
pub use real::{irfft, irfft2, irfftn, rfft, rfft2, rfftfreq, rfftn};
pub use windows::{Frames, Window, istft, stft};
