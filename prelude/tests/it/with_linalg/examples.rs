//! The examples with decompositions and Fourier transforms run, and their assertions hold.
#![allow(clippy::unwrap_used, reason = "tests")]

crate::examples::examples! {
    fft_deconvolution = "../../../examples/fft_deconvolution.rs";
    gaussian_process = "../../../examples/gaussian_process.rs";
}
