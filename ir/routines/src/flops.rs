//! The number of arithmetic operations of a routine, for cost models.
//!
//! The counts are from Golub and Van Loan, *Matrix Computations*, 4th edition: sections 3.2 (LU), 4.2
//! (Cholesky), 5.2 (QR), 7.5 (Schur), 8.3 (symmetric eigenvalues), 8.6 (SVD); and `5 n log2 n` for a transform,
//! as the FFTW benchmarks count.

use crate::routine::{QrBasis, Routine, SvdVectors};

impl Routine {
    /// Returns the number of arithmetic operations for one batch member, rounded down, at most `u64::MAX`.
    #[must_use]
    pub fn flops(&self) -> u64 {
        let real = |n: usize| n as f64;
        let transform = |sequences: [usize; 2], n: usize| {
            real(sequences[0]) * real(sequences[1]) * 5.0 * real(n) * real(n.max(1)).log2()
        };
        let count = match *self {
            Routine::Cholesky { n } => real(n).powi(3) / 3.0,
            Routine::TriangularSolve { n, columns, lower: _, transposed: _, unit_diagonal: _ } => {
                real(n).powi(2) * real(columns)
            }
            Routine::TridiagonalSolve { n, columns } => real(n) * (3.0 + 5.0 * real(columns)),
            Routine::Lu { m, n } => factor_flops(m, n),
            Routine::Qr { m, n, basis } => {
                let (long, short) = (real(m), real(m.min(n)));
                let form = match basis {
                    QrBasis::None => 0.0,
                    QrBasis::Thin => 2.0 * short * short * (long - short / 3.0),
                    QrBasis::Full => {
                        4.0 * short * (long * long - long * short + short * short / 3.0)
                    }
                };
                2.0 * factor_flops(m, n) + form
            }
            Routine::Eigh { n, vectors } => {
                let cube = real(n).powi(3);
                if vectors { 9.0 * cube } else { 4.0 / 3.0 * cube }
            }
            Routine::Svd { m, n, vectors } => {
                let (long, short) = (real(m.max(n)), real(m.min(n)));
                let (square, cube) = (short * short, short.powi(3));
                match vectors {
                    SvdVectors::None => 2.0 * long * square + 2.0 * cube,
                    SvdVectors::Thin => 6.0 * long * square + 11.0 * cube,
                    SvdVectors::Full => 4.0 * long * long * short + 13.0 * cube,
                }
            }
            Routine::Eig { n, vectors } => {
                let cube = real(n).powi(3);
                if vectors { 25.0 * cube } else { 10.0 * cube }
            }
            Routine::Schur { n } => 25.0 * real(n).powi(3),
            Routine::Fft { rows, n, columns, inverse: _ } => transform([rows, columns], n),
            Routine::RealFft { rows, n, columns }
            | Routine::InverseRealFft { rows, n, columns } => transform([rows, columns], n) / 2.0,
        };
        // A float that is cast to an integer saturates, so a huge count becomes `u64::MAX`.
        count as u64
    }
}

/// Returns the number of operations of an LU factorisation: `k^2 (l - k/3)`, where `k` is the shorter side and `l` the
/// longer side. A QR factorisation without `q` takes twice this number.
fn factor_flops(m: usize, n: usize) -> f64 {
    let (long, short) = (m.max(n) as f64, m.min(n) as f64);
    short * short * (long - short / 3.0)
}
