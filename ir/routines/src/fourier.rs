//! Discrete Fourier transforms by rustfft and realfft, over separate arrays of real and imaginary
//! parts: `y[j] = sum_k x[k] exp(-2 pi i j k / n)` forward, `exp(+...)` backward, neither scaled.

use std::sync::Arc;

use num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftPlanner};

use crate::real::{Failed, Real, all_finite};
use crate::routine::{Routine, half};
use crate::scratch::{Need, Scratch};

/// The twiddle factors of one length and the algorithm for it.
pub(crate) enum Tables<T> {
    /// The routine is no transform, or its length is zero.
    None,
    Complex(Arc<dyn Fft<T>>),
    Forward(Arc<dyn RealToComplex<T>>),
    Backward(Arc<dyn ComplexToReal<T>>),
}

impl<T: Real> Tables<T> {
    /// The length of a transform.
    pub(crate) fn points(routine: &Routine) -> Option<usize> {
        match *routine {
            Routine::Fft { n, inverse: _ }
            | Routine::RealFft { n }
            | Routine::InverseRealFft { n } => Some(n),
            Routine::Cholesky { .. }
            | Routine::TriangularSolve { .. }
            | Routine::TridiagonalSolve { .. }
            | Routine::Lu { .. }
            | Routine::Qr { .. }
            | Routine::Eigh { .. }
            | Routine::Svd { .. }
            | Routine::Eig { .. }
            | Routine::Schur { .. } => None,
        }
    }

    pub(crate) fn of(routine: &Routine) -> Self {
        match *routine {
            Routine::Fft { n, inverse } if n > 0 => {
                let mut planner = FftPlanner::new();
                Tables::Complex(if inverse {
                    planner.plan_fft_inverse(n)
                } else {
                    planner.plan_fft_forward(n)
                })
            }
            Routine::RealFft { n } if n > 0 => {
                Tables::Forward(RealFftPlanner::new().plan_fft_forward(n))
            }
            Routine::InverseRealFft { n } if n > 0 => {
                Tables::Backward(RealFftPlanner::new().plan_fft_inverse(n))
            }
            _ => Tables::None,
        }
    }

    pub(crate) fn need(&self) -> Need {
        let complex = |need: Need, length| need.array::<Complex<T>>(length);
        match self {
            Tables::None => Need::new(),
            Tables::Complex(fft) => {
                complex(complex(Need::new(), fft.len()), fft.get_inplace_scratch_len())
            }
            Tables::Forward(fft) => complex(
                complex(Need::new().array::<T>(fft.len()), half(fft.len())),
                fft.get_scratch_len(),
            ),
            Tables::Backward(fft) => {
                complex(complex(Need::new(), half(fft.len())), fft.get_scratch_len())
            }
        }
    }

    /// Executes the transform that the tables were made for.
    pub(crate) fn run(&self, x: &[T], y: &mut [T], mut scratch: Scratch<'_>) -> Result<(), Failed> {
        match self {
            Tables::None => Ok(()),
            Tables::Complex(fft) => {
                if !all_finite(x) {
                    return Err(Failed);
                }
                let held = scratch.take::<Complex<T>>(fft.len())?;
                let work = scratch.take::<Complex<T>>(fft.get_inplace_scratch_len())?;
                join(x, held);
                fft.process_with_scratch(held, work);
                separate(held, y);
                Ok(())
            }
            Tables::Forward(fft) => {
                if !all_finite(x) {
                    return Err(Failed);
                }
                let input = scratch.take::<T>(fft.len())?;
                let held = scratch.take::<Complex<T>>(half(fft.len()))?;
                let work = scratch.take::<Complex<T>>(fft.get_scratch_len())?;
                input.copy_from_slice(x);
                fft.process_with_scratch(input, held, work).map_err(|_| Failed)?;
                separate(held, y);
                Ok(())
            }
            Tables::Backward(fft) => {
                let length = half(fft.len());
                let (re, im) = x.split_at(length);
                // The spectrum of a real sequence is real at 0 and, for even lengths, in the middle.
                let even = fft.len().is_multiple_of(2);
                let read = if even { 1..length - 1 } else { 1..length };
                if !all_finite(re) || !all_finite(im.get(read).unwrap_or(&[])) {
                    return Err(Failed);
                }
                let held = scratch.take::<Complex<T>>(length)?;
                let work = scratch.take::<Complex<T>>(fft.get_scratch_len())?;
                join(x, held);
                held[0].im = T::zero();
                if even {
                    held[length - 1].im = T::zero();
                }
                fft.process_with_scratch(held, y, work).map_err(|_| Failed)
            }
        }
    }
}

/// Real parts, then imaginary parts, to pairs.
fn join<T: Real>(parts: &[T], pairs: &mut [Complex<T>]) {
    let (re, im) = parts.split_at(pairs.len());
    for ((pair, &re), &im) in pairs.iter_mut().zip(re).zip(im) {
        *pair = Complex { re, im };
    }
}

/// Pairs to real parts, then imaginary parts.
fn separate<T: Real>(pairs: &[Complex<T>], parts: &mut [T]) {
    let (re, im) = parts.split_at_mut(pairs.len());
    for ((pair, re), im) in pairs.iter().zip(re).zip(im) {
        *re = pair.re;
        *im = pair.im;
    }
}
