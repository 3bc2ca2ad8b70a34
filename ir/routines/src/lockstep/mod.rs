//! Routines on small matrices, several members of a batch at a time: one in each lane of the vector registers.
//!
//! A small matrix alone keeps no vector unit busy. So the members are read into [packs](pack): element `[i, j]` of as
//! many members as a register has lanes, and the routine runs once for all of them.
//!
//! ```text
//! members   [a00 a01 a10 a11] [b00 b01 b10 b11] ..   ->   packs   [a00 b00 ..] [a01 b01 ..] [a10 b10 ..] [a11 b11 ..]
//! ```
//!
//! Operations are elementwise, and what depends on the data is chosen in each lane: where a branch would go, both
//! values are computed and one is selected; an iteration goes on until the last member has converged, and leaves the
//! others as they are. So the bits of a member are the same alone, in any place of any batch, and on any machine.

pub(crate) mod pack;

mod eigh;
mod grid;
mod qr;
mod rotation;
mod svd;

use pulp::{Arch, Scalar, Simd, WithSimd};
use std::marker::PhantomData;

use crate::dispatch::{read, write};
use crate::lockstep::pack::{Lanes, Packed};
use crate::real::{Failed, Real};
use crate::routine::{Routine, SvdVectors};
use crate::scratch::{Need, Scratch};
use crate::svd::Bases;

/// The largest number of rows and of columns of a matrix whose QR factors are computed in lockstep.
///
/// Chosen here and below so that a member among many is at least four times faster than by faer (eight lanes of double
/// precision: QR of order 16 in 1.3 us, by faer 6.8; eigenvectors 5.3 and 31; singular vectors 11 and 58), and one alone
/// not much slower (5.2 us and 6.3; 26 and 22; 49 and 39).
const QR: usize = 16;

/// The largest order of a matrix whose eigenvalues are computed in lockstep.
const EIGH: usize = 16;

/// The largest number of rows and of columns of a matrix whose singular values are computed in lockstep.
const SVD: usize = 16;

/// The scratch of a routine in lockstep; nothing where it is not one of these. The choice depends on the routine alone,
/// never on the batch.
pub(crate) fn need(routine: &Routine) -> Option<Need> {
    let small = |[m, n]: [usize; 2], most: usize| 0 < m.min(n) && m.max(n) <= most;
    match *routine {
        Routine::Qr { m, n, full } if small([m, n], QR) => {
            Some(qr::need([m, n], if full { m } else { m.min(n) }))
        }
        Routine::Eigh { n, vectors } if small([n, n], EIGH) => Some(eigh::need(n, vectors)),
        Routine::Svd { m, n, vectors } if small([m, n], SVD) => {
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

/// Executes the routine on all members.
pub(crate) fn run<T: Real>(
    routine: &Routine,
    members: usize,
    operands: &[&[u8]],
    results: &mut [&mut [u8]],
    scratch: Scratch<'_>,
) -> Result<(), Failed> {
    let batch = Batch { members, scratch };
    match (routine, operands, results) {
        (&Routine::Qr { m, n, full }, [a], [q, r]) => batch.run(qr::Qr::<T> {
            shape: [m, n],
            width: if full { m } else { m.min(n) },
            a: read(a)?,
            q: write(q)?,
            r: write(r)?,
        }),
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

/// The number of columns of the basis of the longer side.
fn svd_width([m, n]: [usize; 2], vectors: SvdVectors) -> usize {
    match vectors {
        SvdVectors::None => 0,
        SvdVectors::Thin => m.min(n),
        SvdVectors::Full => m.max(n),
    }
}

/// A routine on the members of a batch, as many at a time as there are lanes.
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
    /// Runs in the widest registers of the processor, for a single member in scalar ones.
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
