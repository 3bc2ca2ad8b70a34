//! Maps a `Routine` to its implementation: the size of its scratch memory, the tables of a Fourier transform,
//! and the call.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytemuck::Pod;

use crate::fourier::Tables;
use crate::plan::Unavailable;
use crate::real::{Failed, Real};
use crate::routine::{Float, QrBasis, Routine};
use crate::scratch::{Scratch, ScratchSize};
use crate::triangular::Triangle;
use crate::{cholesky, eig, eigh, lockstep, lu, qr, schur, svd, triangular, tridiagonal};

/// The largest length of a Fourier transform that gets a plan. rustfft allocates its tables at once (some 4 GB at
/// this length) and aborts the process if there is not enough memory.
const MOST_POINTS: usize = 1 << 28;

/// The prepared part of a routine's plan: the size of scratch memory, whether batch members run in lockstep, and the
/// tables of a Fourier transform.
pub(crate) struct Kernel {
    scratch_bytes: usize,
    in_lockstep: bool,
    typed: Typed,
}

/// The tables of a Fourier transform, for f32 or for f64.
enum Typed {
    F32(Tables<f32>),
    F64(Tables<f64>),
}

impl Kernel {
    pub(crate) fn new(routine: &Routine, float: Float) -> Result<Self, Unavailable> {
        let too_large = || Unavailable::TooLarge { routine: routine.clone() };
        if Tables::<f64>::points(routine).is_some_and(|n| n > MOST_POINTS) {
            return Err(too_large());
        }
        let (typed, need) = match float {
            Float::F32 => {
                let tables = Tables::of(routine);
                let need = need::<f32>(routine, &tables);
                (Typed::F32(tables), need)
            }
            Float::F64 => {
                let tables = Tables::of(routine);
                let need = need::<f64>(routine, &tables);
                (Typed::F64(tables), need)
            }
        };
        let small = lockstep::need(routine);
        let scratch_bytes = small.unwrap_or(need).bytes().ok_or_else(too_large)?;
        Ok(Kernel { scratch_bytes, in_lockstep: small.is_some(), typed })
    }

    pub(crate) fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }

    /// Runs the routine on the buffers of one batch member. Returns false if the routine fails; the results are
    /// then undefined.
    pub(crate) fn run(
        &self,
        routine: &Routine,
        operands: &[&[u8]],
        results: &mut [&mut [u8]],
        scratch: &mut [u8],
    ) -> bool {
        let scratch = Scratch::new(scratch);
        succeeded(|| match &self.typed {
            Typed::F32(tables) => call(routine, tables, operands, results, scratch),
            Typed::F64(tables) => call(routine, tables, operands, results, scratch),
        })
    }

    /// Runs the routine on all batch members at once, if it has a lockstep version (one member per vector lane)
    /// for this size. Returns false if no result is valid.
    pub(crate) fn run_in_lockstep(
        &self,
        routine: &Routine,
        members: usize,
        operands: &[&[u8]],
        results: &mut [&mut [u8]],
        scratch: &mut [u8],
    ) -> Option<bool> {
        let scratch = Scratch::new(scratch);
        self.in_lockstep.then(|| {
            succeeded(|| match &self.typed {
                Typed::F32(_) => lockstep::run::<f32>(routine, members, operands, results, scratch),
                Typed::F64(_) => lockstep::run::<f64>(routine, members, operands, results, scratch),
            })
        })
    }
}

/// Runs `call` and returns whether it succeeded; a panic inside counts as a failure.
///
/// Sizes and values that faer does not handle are never passed to it. If one of its assertions fails
/// nevertheless, only the batch member fails, not the program. The buffers hold plain numbers, so no invariant can be
/// broken.
fn succeeded(call: impl FnOnce() -> Result<(), Failed>) -> bool {
    matches!(catch_unwind(AssertUnwindSafe(call)), Ok(Ok(())))
}

fn need<T: Real>(routine: &Routine, tables: &Tables<T>) -> ScratchSize {
    match *routine {
        Routine::Cholesky { n } => cholesky::need::<T>(n),
        Routine::TriangularSolve { n, columns, lower: _, transposed: _, unit_diagonal: _ } => {
            triangular::need::<T>(n, columns)
        }
        Routine::TridiagonalSolve { n, columns: _ } => tridiagonal::need::<T>(n),
        Routine::Lu { m, n } => lu::need::<T>(m, n),
        Routine::Qr { m, n, basis } => qr::need::<T>(m, n, basis),
        Routine::Eigh { n, vectors } => eigh::need::<T>(n, vectors),
        Routine::Svd { m, n, vectors } => svd::need::<T>(m, n, vectors),
        Routine::Eig { n, vectors } => eig::need::<T>(n, vectors),
        Routine::Schur { n } => schur::need::<T>(n),
        Routine::Fft { rows: _, n: _, columns: _, inverse: _ }
        | Routine::RealFft { rows: _, n: _, columns: _ }
        | Routine::InverseRealFft { rows: _, n: _, columns: _ } => tables.need(),
    }
}

/// Runs the routine on one batch member. Fails if the numbers of buffers do not match the description, which the
/// plan has checked before.
fn call<T: Real>(
    routine: &Routine,
    tables: &Tables<T>,
    operands: &[&[u8]],
    results: &mut [&mut [u8]],
    scratch: Scratch<'_>,
) -> Result<(), Failed> {
    match (routine, operands, results) {
        (&Routine::Cholesky { n }, [a], [l]) => {
            cholesky::run::<T>(n, read(a)?, write(l)?, scratch);
            Ok(())
        }
        (
            &Routine::TriangularSolve { n, columns, lower, transposed, unit_diagonal },
            [t, b],
            [x],
        ) => {
            let triangle = Triangle { lower, transposed, unit_diagonal };
            let operands: [&[T]; 2] = [read(t)?, read(b)?];
            triangular::run(n, columns, triangle, operands, write(x)?, scratch)
        }
        (&Routine::TridiagonalSolve { n, columns }, [lower, diagonal, upper, b], [x]) => {
            let operands: [&[T]; 4] = [read(lower)?, read(diagonal)?, read(upper)?, read(b)?];
            tridiagonal::run(n, columns, operands, write(x)?, scratch)
        }
        (&Routine::Lu { m, n }, [a], [packed, pivots, permutation]) => {
            let results = lu::Results {
                packed: write(packed)?,
                pivots: write(pivots)?,
                permutation: write(permutation)?,
            };
            lu::run::<T>(m, n, read(a)?, results, scratch)
        }
        (&Routine::Qr { m, n, basis: QrBasis::None }, [a], [r]) => {
            qr::run::<T>([m, n], QrBasis::None, read(a)?, None, write(r)?, scratch)
        }
        (&Routine::Qr { m, n, basis }, [a], [q, r]) => {
            qr::run::<T>([m, n], basis, read(a)?, Some(write(q)?), write(r)?, scratch)
        }
        (&Routine::Eigh { n, vectors: false }, [a], [values]) => {
            eigh::run::<T>(n, read(a)?, write(values)?, None, scratch)
        }
        (&Routine::Eigh { n, vectors: true }, [a], [values, vectors]) => {
            let vectors = Some(write(vectors)?);
            eigh::run::<T>(n, read(a)?, write(values)?, vectors, scratch)
        }
        (&Routine::Svd { m, n, vectors }, [a], [s]) => {
            svd::run::<T>([m, n], vectors, read(a)?, write(s)?, None, scratch)
        }
        (&Routine::Svd { m, n, vectors }, [a], [u, s, vt]) => {
            let bases = svd::Bases { u: write(u)?, vt: write(vt)? };
            svd::run::<T>([m, n], vectors, read(a)?, write(s)?, Some(bases), scratch)
        }
        (&Routine::Eig { n, vectors: false }, [a], [re, im]) => {
            eig::run::<T>(n, read(a)?, [write(re)?, write(im)?], None, scratch)
        }
        (&Routine::Eig { n, vectors: true }, [a], [re, im, v_re, v_im]) => {
            let vectors = eig::Vectors { re: write(v_re)?, im: write(v_im)? };
            let values = [write(re)?, write(im)?];
            eig::run::<T>(n, read(a)?, values, Some(vectors), scratch)
        }
        (&Routine::Schur { n }, [a], [t, z]) => {
            schur::run::<T>(n, read(a)?, [write(t)?, write(z)?], scratch)
        }
        (
            Routine::Fft { .. } | Routine::RealFft { .. } | Routine::InverseRealFft { .. },
            [x],
            [y],
        ) => tables.run(read(x)?, write(y)?, scratch),
        _ => Err(Failed),
    }
}

/// Returns the bytes of a buffer as a slice of numbers. An empty buffer may have any address, so it is not cast.
pub(crate) fn read<T: Pod>(bytes: &[u8]) -> Result<&[T], Failed> {
    if bytes.is_empty() {
        return Ok(&[]);
    }
    bytemuck::try_cast_slice(bytes).map_err(|_| Failed)
}

pub(crate) fn write<T: Pod>(bytes: &mut [u8]) -> Result<&mut [T], Failed> {
    if bytes.is_empty() {
        return Ok(&mut []);
    }
    bytemuck::try_cast_slice_mut(bytes).map_err(|_| Failed)
}
