//! Discrete Fourier transforms: primitives that a library routine runs, one file each.
//!
//! ```text
//! y[j] = Σ_k x[k] exp(-2 π i j k / n)     forward
//! y[j] = Σ_k x[k] exp(+2 π i j k / n)     inverse
//! ```
//!
//! No direction divides by `n`: the three conventions of scaling are products with a number, which users
//! choose. A complex array is two real arrays, its real and its imaginary parts, side by side on an axis before its own:
//! `[.., 2, d_1, .., d_rank]`; all axes before these are a batch. Which of its own axes is transformed is an attribute, so no
//! axis has to be brought to the end.
//!
//! The transforms are linear maps of real arrays, so the tangent of each is itself, and its transpose that of
//! its matrix: for `fft` the other direction, for `rfft` and `irfft` one another with weights
//! (`spectrum.rs`). Sources: J. Cooley, J. Tukey, *An algorithm for the machine calculation of complex
//! Fourier series* (1965); the book of Van Loan, *Computational Frameworks for the Fast Fourier Transform* (1992).

pub(crate) mod fft;
pub(crate) mod irfft;
pub(crate) mod rfft;
mod spectrum;
