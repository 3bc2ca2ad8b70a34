//! Discrete Fourier transforms by rustfft and realfft, over separate arrays of real and imaginary
//! parts: `y[j] = sum_k x[k] exp(-2 pi i j k / n)` forward, `exp(+...)` backward, neither scaled.
//!
//! The transformed axis may have others after it. A sequence then has only one number in each cache line, and
//! neighbouring sequences share the lines. So a block of columns is copied to scratch, transformed and copied
//! back, and every cache line is read and written whole.

use std::array::from_fn;
use std::sync::Arc;

use bytemuck::Pod;
use num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftPlanner};

use crate::real::{Failed, Real, all_finite};
use crate::routine::{Routine, half};
use crate::scratch::{Scratch, ScratchSize};

/// The size of a cache line in bytes. Each row of a block covers at least one cache line.
const LINE: usize = 64;

/// The largest number of cache lines in a row of a block. A row covers several lines as long as the sequences of
/// the block take at most `BLOCK_BYTES`, a part of the second-level cache: each row of a large array is on its
/// own page, so wider rows access fewer pages.
const MOST_LINES: usize = 8;
const BLOCK_BYTES: usize = 1 << 19;

/// The number of rows of a block that are copied together. In scratch memory, this number of elements of one sequence
/// fills a cache line.
const TILE: usize = 4;

/// The number of complex numbers that are split into real and imaginary parts at a time, so that they stay in the
/// first-level cache.
const PIECE: usize = 512;

/// The transform of a routine, prepared for one length: its extents and its algorithm.
pub(crate) struct Tables<T> {
    /// The extents before (`rows`) and after (`columns`) the transformed axis. The sequences of one row are
    /// adjacent.
    rows: usize,
    columns: usize,
    algorithm: Algorithm<T>,
}

/// The algorithm of rustfft or realfft for one length, with its twiddle factors.
enum Algorithm<T> {
    /// The routine is not a Fourier transform, or its length is zero.
    None,
    Complex(Arc<dyn Fft<T>>),
    Forward(Arc<dyn RealToComplex<T>>),
    Backward(Arc<dyn ComplexToReal<T>>),
}

impl<T: Real> Tables<T> {
    /// Returns the length of a Fourier transform; `None` for other routines.
    pub(crate) fn points(routine: &Routine) -> Option<usize> {
        match *routine {
            Routine::Fft { rows: _, n, columns: _, inverse: _ }
            | Routine::RealFft { rows: _, n, columns: _ }
            | Routine::InverseRealFft { rows: _, n, columns: _ } => Some(n),
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
            Routine::Fft { rows, n, columns, inverse } if n > 0 => {
                let mut planner = FftPlanner::new();
                let algorithm = Algorithm::Complex(if inverse {
                    planner.plan_fft_inverse(n)
                } else {
                    planner.plan_fft_forward(n)
                });
                Tables { rows, columns, algorithm }
            }
            Routine::RealFft { rows, n, columns } if n > 0 => {
                let algorithm = Algorithm::Forward(RealFftPlanner::new().plan_fft_forward(n));
                Tables { rows, columns, algorithm }
            }
            Routine::InverseRealFft { rows, n, columns } if n > 0 => {
                let algorithm = Algorithm::Backward(RealFftPlanner::new().plan_fft_inverse(n));
                Tables { rows, columns, algorithm }
            }
            _ => Tables { rows: 0, columns: 0, algorithm: Algorithm::None },
        }
    }

    /// Returns the largest number of sequences that a block may hold.
    fn width(&self) -> usize {
        let n = match &self.algorithm {
            Algorithm::None => 0,
            Algorithm::Complex(fft) => fft.len(),
            Algorithm::Forward(fft) => fft.len(),
            Algorithm::Backward(fft) => fft.len(),
        };
        let line = LINE / size_of::<T>();
        let lines = BLOCK_BYTES / n.saturating_mul(size_of::<Complex<T>>() * line).max(1);
        self.columns.min(line * lines.clamp(1, MOST_LINES))
    }

    pub(crate) fn need(&self) -> ScratchSize {
        let width = self.width();
        let reals =
            |need: ScratchSize, n| need.array::<T>(width.saturating_mul(pitch::<T>(width, n)));
        let pairs = |need: ScratchSize, n| {
            need.array::<Complex<T>>(width.saturating_mul(pitch::<Complex<T>>(width, n)))
        };
        let work = |need: ScratchSize, length| need.array::<Complex<T>>(length);
        match &self.algorithm {
            Algorithm::None => ScratchSize::new(),
            Algorithm::Complex(fft) => {
                work(pairs(ScratchSize::new(), fft.len()), fft.get_inplace_scratch_len())
            }
            Algorithm::Forward(fft) => work(
                pairs(reals(ScratchSize::new(), fft.len()), half(fft.len())),
                fft.get_scratch_len(),
            ),
            Algorithm::Backward(fft) => {
                let own = if self.columns == 1 {
                    ScratchSize::new()
                } else {
                    reals(ScratchSize::new(), fft.len())
                };
                work(pairs(own, half(fft.len())), fft.get_scratch_len())
            }
        }
    }

    /// Runs the transform that the tables were made for, on all sequences of `x`. A sequence with a NaN or an
    /// infinity becomes NaN everywhere.
    pub(crate) fn run(&self, x: &[T], y: &mut [T], mut scratch: Scratch<'_>) -> Result<(), Failed> {
        let width = self.width();
        let blocks = || {
            let starts = move || (0..self.columns).step_by(width.max(1));
            (0..self.rows).flat_map(move |row| starts().map(move |column| (row, column)))
        };
        let block = |(row, column), n, pitch| Block {
            start: row * n * self.columns + column,
            part: self.rows * n * self.columns,
            columns: self.columns,
            width: width.min(self.columns - column),
            n,
            pitch,
        };
        match &self.algorithm {
            Algorithm::None => Ok(()),
            Algorithm::Complex(fft) => {
                let n = fft.len();
                let pitch = pitch::<Complex<T>>(width, n);
                let held = scratch.take::<Complex<T>>(width * pitch)?;
                let work = scratch.take::<Complex<T>>(fft.get_inplace_scratch_len())?;
                for place in blocks() {
                    let block = block(place, n, pitch);
                    block.gather::<T, 2>(x, bytemuck::cast_slice_mut(held));
                    for column in block.sequences(held) {
                        if all_finite::<T>(bytemuck::cast_slice(column)) {
                            fft.process_with_scratch(column, work);
                        } else {
                            column.fill(Complex { re: T::NAN, im: T::NAN });
                        }
                    }
                    block.scatter::<T, 2>(bytemuck::cast_slice(held), y);
                }
                Ok(())
            }
            Algorithm::Forward(fft) => {
                let n = fft.len();
                let (real, pair) = (pitch::<T>(width, n), pitch::<Complex<T>>(width, half(n)));
                let input = scratch.take::<T>(width * real)?;
                let held = scratch.take::<Complex<T>>(width * pair)?;
                let work = scratch.take::<Complex<T>>(fft.get_scratch_len())?;
                for place in blocks() {
                    let (from, to) = (block(place, n, real), block(place, half(n), pair));
                    from.gather::<T, 1>(x, bytemuck::cast_slice_mut(input));
                    for (input, held) in from.sequences(input).zip(to.sequences(held)) {
                        if all_finite(input) {
                            fft.process_with_scratch(input, held, work).map_err(|_| Failed)?;
                        } else {
                            held.fill(Complex { re: T::NAN, im: T::NAN });
                        }
                    }
                    to.scatter::<T, 2>(bytemuck::cast_slice(held), y);
                }
                Ok(())
            }
            Algorithm::Backward(fft) => {
                let n = fft.len();
                let (real, pair) = (pitch::<T>(width, n), pitch::<Complex<T>>(width, half(n)));
                let own = if self.columns == 1 { 0 } else { width * real };
                let output = scratch.take::<T>(own)?;
                let held = scratch.take::<Complex<T>>(width * pair)?;
                let work = scratch.take::<Complex<T>>(fft.get_scratch_len())?;
                let mut transform = |held: &mut [Complex<T>], output: &mut [T]| {
                    // The spectrum of a real sequence is real at 0 and, for even lengths, at n/2: clear the
                    // imaginary parts there, which are not inputs.
                    held[0].im = T::zero();
                    if n.is_multiple_of(2) {
                        held[n / 2].im = T::zero();
                    }
                    if !all_finite::<T>(bytemuck::cast_slice(held)) {
                        output.fill(T::NAN);
                        return Ok(());
                    }
                    fft.process_with_scratch(held, output, work).map_err(|_| Failed)
                };
                for place in blocks() {
                    let (from, to) = (block(place, half(n), pair), block(place, n, real));
                    from.gather::<T, 2>(x, bytemuck::cast_slice_mut(held));
                    if self.columns == 1 {
                        transform(held, &mut y[to.start..][..n])?;
                        continue;
                    }
                    for (held, output) in from.sequences(held).zip(to.sequences(output)) {
                        transform(held, output)?;
                    }
                    to.scatter::<T, 1>(bytemuck::cast_slice(output), y);
                }
                Ok(())
            }
        }
    }
}

/// Returns the distance between the starts of sequences in scratch, in numbers. For several sequences it is their
/// length plus one cache line: at a distance of a power of two, their numbers would compete for the few lines of
/// one cache set.
fn pitch<N>(width: usize, n: usize) -> usize {
    let line = LINE / size_of::<N>();
    if width <= 1 { n } else { n.next_multiple_of(line).saturating_add(line) }
}

/// A block of adjacent sequences in an array: number `k` of sequence `c` is element `start + k columns + c`, and
/// its imaginary part is `part` elements later. In scratch each sequence is contiguous.
struct Block {
    start: usize,
    part: usize,
    columns: usize,
    width: usize,
    n: usize,
    pitch: usize,
}

impl Block {
    /// Returns the sequences of the block in the scratch array `held`, as mutable slices.
    fn sequences<'a, N>(&self, held: &'a mut [N]) -> impl Iterator<Item = &'a mut [N]> {
        let (n, width) = (self.n, self.width);
        held.chunks_mut(self.pitch.max(1)).take(width).map(move |sequence| &mut sequence[..n])
    }

    /// Copies the block's sequences from the array to scratch, with the real and imaginary part of a number next
    /// to each other.
    fn gather<T: Pod, const PARTS: usize>(&self, from: &[T], held: &mut [[T; PARTS]]) {
        let parts: [&[T]; PARTS] = from_fn(|part| &from[self.start + part * self.part..]);
        if self.columns == 1 {
            let parts = parts.map(|part| &part[..self.n]);
            for (k, held) in held[..self.n].iter_mut().enumerate() {
                *held = from_fn(|part| parts[part][k]);
            }
            return;
        }
        let row = |k: usize| parts.map(|part| &part[k * self.columns..][..self.width]);
        let tiled = self.n - self.n % TILE;
        for k in (0..tiled).step_by(TILE) {
            let rows: [_; TILE] = from_fn(|r| row(k + r));
            for c in 0..self.width {
                let to = &mut held[c * self.pitch + k..][..TILE];
                for (to, row) in to.iter_mut().zip(&rows) {
                    *to = from_fn(|part| row[part][c]);
                }
            }
        }
        for k in tiled..self.n {
            let row = row(k);
            for c in 0..self.width {
                held[c * self.pitch + k] = from_fn(|part| row[part][c]);
            }
        }
    }

    /// Copies the block's sequences from scratch to the array.
    fn scatter<T: Pod, const PARTS: usize>(&self, held: &[[T; PARTS]], to: &mut [T]) {
        if self.columns == 1 {
            // Copy in pieces that stay in the first-level cache while the real parts and then the imaginary parts
            // are copied.
            for (piece, held) in held[..self.n].chunks(PIECE).enumerate() {
                for part in 0..PARTS {
                    let to = &mut to[self.start + part * self.part + piece * PIECE..];
                    for (to, number) in to.iter_mut().zip(held) {
                        *to = number[part];
                    }
                }
            }
            return;
        }
        for k in 0..self.n {
            for part in 0..PARTS {
                let start = self.start + part * self.part + k * self.columns;
                let line = &mut to[start..start + self.width];
                for (to, number) in line.iter_mut().zip(held[k..].iter().step_by(self.pitch)) {
                    *to = number[part];
                }
            }
        }
    }
}
