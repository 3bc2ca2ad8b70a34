//! An edge-preserving smoothing filter learns its widths.
//!
//! Each pixel becomes a weighted mean of the pixels around it; pixels that are near and of similar brightness have
//! larger weights. Two widths, of distance and of brightness, are fitted on one image whose noise-free version is
//! known. Then another image is filtered with these widths.
//!
//! ```text
//! cargo run --release --example image_filter -- image_filter.pgm
//! ```
//!
//! After Tomasi and Manduchi, "Bilateral filtering for gray and color images" (1998).

#![expect(clippy::print_stdout, reason = "an example speaks to its user")]

use tapeloom::prelude::*;

/// The number of pixels on a side, and the radius of the filter in pixels.
const SIDE: usize = 64;
const REACH: usize = 3;

/// Applies the filter; its widths, in pixels and in brightness, are given as logarithms.
fn smooth(image: Var, (pixels, brightness): (Var, Var)) -> Var {
    let size = 2 * REACH + 1;
    let padded = image.pad_like(&[(REACH, REACH); 2], Padding::Edge);
    let around = conv::patches(padded, conv::windows([size, size]));
    let squares = linspace(-(REACH as f64), REACH as f64, size, Dtype::F64).square();
    let distance = (squares.expand_dims(1) + squares) / pixels.exp().square();
    let difference = (around - image.expand_dims(2).expand_dims(3)) / brightness.exp();
    let weight = (-0.5 * (distance + difference.square())).exp();
    (weight * around).sum_axis([2, 3]) / weight.sum_axis([2, 3])
}

/// Returns an image of a disc and a bar on a background that becomes brighter; `x` is the position of the disc.
fn picture(x: f64) -> Tensor {
    let pixel = |i: usize| {
        let [u, v] = [i % SIDE, i / SIDE].map(|k| k as f64 / SIDE as f64);
        match () {
            () if (u - x).hypot(v - 0.4) < 0.22 => 0.9,
            () if (u - v).abs() < 0.06 => 0.1,
            () => 0.3 + 0.3 * v,
        }
    };
    (0..SIDE * SIDE).map(pixel).collect()
}

/// Returns the root mean square of the differences between two images.
fn error(x: Var, y: Var) -> Var {
    (x - y).square().mean().sqrt()
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let square = |x: Var| x.reshape([SIDE, SIDE]);
    let noisy = jit(move |(image, seed): (Var, Var)| {
        let noise = random::normal(random::key(seed), [SIDE, SIDE], Dtype::F64);
        (square(image), square(image) + 0.1 * noise)
    });
    let (clean, seen) = noisy.call((picture(0.3), 1i64))?;
    let fit = jit(|(start, seen, clean): ((Var, Var), Var, Var)| {
        optim::bfgs().minimize(|k| error(smooth(seen, k), clean), start)
    });
    let (widths, outcome) = fit.call(((0.0, -1.0), &seen, &clean))?;
    let [pixels, brightness] = [&widths.0, &widths.1].map(|k| k.item::<f64>().map(f64::exp));
    println!("widths: {:.2} pixels, {:.3} of brightness", pixels?, brightness?);
    println!("found in {} iterations", outcome.iterations);

    let (clean, seen) = noisy.call((picture(0.6), 2i64))?;
    let filter = jit(|(seen, clean, widths): (Var, Var, (Var, Var))| {
        let filtered = smooth(seen, widths);
        (error(seen, clean), error(filtered, clean), filtered)
    });
    let (before, after, filtered) = filter.call((&seen, &clean, &widths))?;
    println!("error of another image: {before:.4} before, {after:.4} after");
    assert!(after.item::<f64>()? < 0.5 * before.item::<f64>()?);

    if let Some(file) = std::env::args().nth(1).filter(|name| name.ends_with(".pgm")) {
        // Write both images side by side.
        let (left, right) = (seen.to_vec::<f64>()?, filtered.to_vec::<f64>()?);
        let rows = left.chunks(SIDE).zip(right.chunks(SIDE)).flat_map(|(a, b)| [a, b].concat());
        let mut image = format!("P5 {} {SIDE} 255\n", 2 * SIDE).into_bytes();
        image.extend(rows.map(|x| (255.0 * x.clamp(0.0, 1.0)) as u8));
        std::fs::write(file, image)?;
    }
    Ok(())
}
