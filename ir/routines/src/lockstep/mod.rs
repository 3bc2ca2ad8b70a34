//! Routines for small matrices in *lockstep*: they process several members of a batch at the same time, one in
//! each lane of the vector registers.
//!
//! A single small matrix does not fill vector registers. So the members are read into [packs](pack), each with
//! element `[i, j]` of one member per lane, and the routine runs once for all of them.
//!
//! ```text
//! members   [a00 a01 a10 a11] [b00 b01 b10 b11] ..   ->   packs   [a00 b00 ..] [a01 b01 ..] [a10 b10 ..] [a11 b11 ..]
//! ```
//!
//! Operations are elementwise, and control flow is per lane: in place of a branch, both values are computed and
//! one is selected; an iteration continues until the last member has converged, and does not change the others.
//! So the bits of a member are the same alone, at any position of any batch, and on any machine.

pub(crate) mod pack;

mod cholesky;
mod eigh;
mod grid;
mod lu;
mod qr;
mod rotation;
mod svd;
mod triangular;

use pulp::{Arch, Scalar, Simd, WithSimd};
use std::marker::PhantomData;

use crate::dispatch::{read, write};
use crate::lockstep::pack::{Lanes, Packed};
use crate::lu::Results;
use crate::real::{Failed, Real};
use crate::routine::{QrBasis, Routine, SvdVectors};
use crate::scratch::{Scratch, ScratchSize};
use crate::svd::Bases;
use crate::triangular::Triangle;

/// The largest number of rows and of columns of a matrix for which a routine runs in lockstep.
///
/// With this limit, a batch is much faster per member than with faer, and a single matrix is not much slower. Measured
/// on eight lanes of double precision at order 16, in microseconds per member:
///
/// ```text
///                                among 1,000      faer       alone      faer
/// cholesky                             0.32       0.80        0.85      0.70
/// triangular solve, one column         0.14       0.26        0.19      0.24
/// lu                                   0.49        1.5         1.7       1.4
/// qr                                    1.3        6.8         5.2       6.3
/// eigh, with vectors                    5.3         31          26        22
/// svd, with vectors                      11         58          49        39
/// ```
const MOST: usize = 16;

/// Returns the scratch memory of a routine in lockstep (one batch member per vector lane); `None` if the routine does
/// not run in lockstep. The choice depends on the routine alone, never on the batch.
pub(crate) fn need(routine: &Routine) -> Option<ScratchSize> {
    let small = |m: usize, n: usize| 0 < m.min(n) && m.max(n) <= MOST;
    match *routine {
        Routine::Cholesky { n } if small(n, n) => Some(cholesky::need(n)),
        Routine::TriangularSolve { n, columns: 1, lower: _, transposed: _, unit_diagonal: _ }
            if small(n, n) =>
        {
            Some(triangular::need(n))
        }
        Routine::Lu { m, n } if small(m, n) => Some(lu::need([m, n])),
        Routine::Qr { m, n, basis } if small(m, n) => Some(qr::need([m, n], basis)),
        Routine::Eigh { n, vectors } if small(n, n) => Some(eigh::need(n, vectors)),
        Routine::Svd { m, n, vectors } if small(m, n) => {
            Some(svd::need([m, n], svd_width([m, n], vectors), vectors != SvdVectors::None))
        }
        Routine::Cholesky { .. }
        | Routine::TriangularSolve { .. }
        | Routine::TridiagonalSolve { .. }
        | Routine::Lu { .. }
        | Routine::Qr { .. }
        | Routine::Eigh { .. }
        | Routine::Svd { .. }
        | Routine::Eig { .. }
        | Routine::Schur { .. }
        | Routine::Fft { .. }
        | Routine::RealFft { .. }
        | Routine::InverseRealFft { .. } => None,
    }
}

/// Runs the routine in lockstep (one batch member per vector lane) on all batch members.
pub(crate) fn run<T: Real>(
    routine: &Routine,
    members: usize,
    operands: &[&[u8]],
    results: &mut [&mut [u8]],
    scratch: Scratch<'_>,
) -> Result<(), Failed> {
    let batch = Batch { members, scratch };
    match (routine, operands, results) {
        (&Routine::Cholesky { n }, [a], [l]) => {
            batch.run(cholesky::Cholesky::<T> { n, a: read(a)?, l: write(l)? })
        }
        (
            &Routine::TriangularSolve { n, columns: 1, lower, transposed, unit_diagonal },
            [t, b],
            [x],
        ) => {
            let triangle = Triangle { lower, transposed, unit_diagonal };
            let (t, b, x) = (read(t)?, read(b)?, write(x)?);
            batch.run(triangular::Solve::<T> { n, triangle, t, b, x })
        }
        (&Routine::Lu { m, n }, [a], [packed, pivots, permutation]) => batch.run(lu::Lu::<T> {
            shape: [m, n],
            a: read(a)?,
            results: Results {
                packed: write(packed)?,
                pivots: write(pivots)?,
                permutation: write(permutation)?,
            },
        }),
        (&Routine::Qr { m, n, basis: QrBasis::None }, [a], [r]) => {
            let (basis, a, r) = (QrBasis::None, read(a)?, write(r)?);
            batch.run(qr::Qr::<T> { shape: [m, n], basis, a, q: None, r })
        }
        (&Routine::Qr { m, n, basis }, [a], [q, r]) => {
            let (a, q, r) = (read(a)?, Some(write(q)?), write(r)?);
            batch.run(qr::Qr::<T> { shape: [m, n], basis, a, q, r })
        }
        (&Routine::Eigh { n, vectors: false }, [a], [values]) => {
            let (a, values) = (read(a)?, write(values)?);
            batch.run(eigh::Eigh::<T> { n, a, values, vectors: None })
        }
        (&Routine::Eigh { n, vectors: true }, [a], [values, vectors]) => {
            let (a, values, vectors) = (read(a)?, write(values)?, write(vectors)?);
            batch.run(eigh::Eigh::<T> { n, a, values, vectors: Some(vectors) })
        }
        (&Routine::Svd { m, n, vectors }, [a], [s]) => batch.run(svd::Svd::<T> {
            shape: [m, n],
            width: svd_width([m, n], vectors),
            a: read(a)?,
            s: write(s)?,
            bases: None,
        }),
        (&Routine::Svd { m, n, vectors }, [a], [u, s, vt]) => batch.run(svd::Svd::<T> {
            shape: [m, n],
            width: svd_width([m, n], vectors),
            a: read(a)?,
            s: write(s)?,
            bases: Some(Bases { u: write(u)?, vt: write(vt)? }),
        }),
        _ => Err(Failed),
    }
}

/// Returns the number of columns of the basis (`u` or `v`) that belongs to the longer side of the matrix.
fn svd_width([m, n]: [usize; 2], vectors: SvdVectors) -> usize {
    match vectors {
        SvdVectors::None => 0,
        SvdVectors::Thin => m.min(n),
        SvdVectors::Full => m.max(n),
    }
}

/// A routine in lockstep (one batch member per lane), written for vector registers with any number of lanes.
trait Lockstep<T: Real> {
    fn run<L: Lanes<Number = T>>(
        self,
        lanes: L,
        members: usize,
        scratch: Scratch<'_>,
    ) -> Result<(), Failed>;
}

struct Batch<'a> {
    members: usize,
    scratch: Scratch<'a>,
}

impl Batch<'_> {
    /// Runs the routine in the widest registers of the processor; a batch with a single member runs in scalar
    /// registers.
    fn run<T: Real, R: Lockstep<T>>(self, routine: R) -> Result<(), Failed> {
        let alone = self.members == 1;
        let call = Call { batch: self, routine, number: PhantomData };
        if alone { call.with_simd(Scalar::new()) } else { Arch::new().dispatch(call) }
    }
}

struct Call<'a, T, R> {
    batch: Batch<'a>,
    routine: R,
    number: PhantomData<T>,
}

impl<T: Real, R: Lockstep<T>> WithSimd for Call<'_, T, R> {
    type Output = Result<(), Failed>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let Batch { members, scratch } = self.batch;
        self.routine.run(<T as Packed>::lanes(simd), members, scratch)
    }
}
