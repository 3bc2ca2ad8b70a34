//! Tests of the modules of `fourier`.

mod fft;
mod irfft;
mod rfft;
