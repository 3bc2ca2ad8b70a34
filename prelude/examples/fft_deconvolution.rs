//! Deblurs a piecewise constant signal.
//!
//! The blur is a convolution with a Gaussian, which is a product of spectra. The result is the signal with small
//! total variation whose blurred form is close to the measurement. The gradient goes through the Fourier
//! transforms, and accelerated descent (Nesterov 1983) runs in one compiled loop.
//!
//! ```text
//! cargo run --release --example fft_deconvolution
//! ```
//!
//! After Rudin, Osher, Fatemi, "Nonlinear total variation based noise removal algorithms" (1992).

#![expect(clippy::print_stdout, reason = "an example speaks to its user")]

use std::f64::consts::PI;
use tapeloom::prelude::*;

const N: usize = 256;
/// The width of the Gaussian, in samples.
const WIDTH: f64 = 4.0;

/// Returns the signal convolved with the Gaussian, whose spectrum is again a Gaussian.
fn blur(x: Var) -> Var {
    let gain = (-0.5 * (2.0 * PI * WIDTH * fft::rfftfreq(N, 1.0, Dtype::F64)).square()).exp();
    fft::irfft(fft::rfft(x, -1) * gain, fft::along(-1).points(N))
}

/// Returns the distance of the blurred signal from the measurement plus a multiple of the variation of the signal.
fn loss(x: Var, seen: Var) -> Var {
    let variation = (x.diff(0).square() + 1e-4).sqrt().sum();
    0.5 * (blur(x) - seen).square().sum() + 0.01 * variation
}

fn sharpen(seen: Var) -> Var {
    let step = |(_, (x, v)): (Var, (Var, Var))| {
        let v = 0.95 * v - 0.2 * grad(|x| loss(x, seen))(x + 0.95 * v);
        (x + v, v)
    };
    fori_loop(400, step, (seen, seen.zeros_like())).0
}

/// Returns the root mean square of the differences between two signals.
fn distance(x: &Tensor, y: &Tensor) -> f64 {
    let squares: f64 = x.numbers().zip(y.numbers()).map(|(x, y)| (x - y).powi(2)).sum();
    (squares / N as f64).sqrt()
}

pub(crate) fn main() -> Result<(), tapeloom::Error> {
    let height = |i| match i {
        40..80 => 1.0,
        110..118 => 2.0,
        150..220 => 0.5,
        _ => 0.0,
    };
    let truth: Tensor = (0..N).map(height).collect();
    let see = |x: Var| blur(x) + 0.01 * random::normal(random::key(1), [N], Dtype::F64);
    let seen = run(see, &truth)?;
    let sharp = jit(sharpen).call(&seen)?;

    let (before, after) = (distance(&seen, &truth), distance(&sharp, &truth));
    println!("distance to the signal: blurred {before:.3}, sharpened {after:.3}");
    assert!(after < 0.35 * before);
    Ok(())
}
