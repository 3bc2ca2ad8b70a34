//! Discrete Fourier transforms: primitives that library routines implement, one file each.
//!
//! ```text
//! y[j] = Σ_k x[k] exp(-2 π i j k / n)     forward
//! y[j] = Σ_k x[k] exp(+2 π i j k / n)     inverse
//! ```
//!
//! No direction divides by `n`. Users choose one of the three scaling conventions by multiplying with a number. A
//! complex array is two real arrays, its real and imaginary parts, side by side on an axis before its own axes:
//! `[.., 2, d_1, .., d_rank]`; all axes before these are a batch. The transformed axis is an attribute, so that no axis
//! has to be moved to the end.
//!
//! The transforms are linear maps of real arrays, so each is its own tangent, and its transpose is that of its
//! matrix: for `fft` the other direction; `rfft` and `irfft` are each other's transposes up to weights
//! (`spectrum.rs`). Sources: J. Cooley, J. Tukey, *An algorithm for the machine calculation of complex Fourier
//! series* (1965); the book of Van Loan, *Computational Frameworks for the Fast Fourier Transform* (1992).

pub(crate) mod fft;
pub(crate) mod irfft;
pub(crate) mod rfft;
mod spectrum;
