//! Methods of `Generator` that emit factorizations of matrices, solves, and Fourier transforms.

use super::{Gene, Generator, Value};
use tapeloom_ir::prim::{
    Broadcast, Cholesky, Eigh, Fft, Iota, Irfft, Lu, Qr, QrBasis, Rfft, Svd, SvdVectors,
    TriangularSolve,
};
use tapeloom_ir::{Atom, Dtype, Literal, Op, Scalar, Shape};

impl Generator<'_, '_> {
    /// Emits a decomposition of the matrix `x xᵀ / 4 + diag(2, 3, ..)`, whose eigenvalues are separate, with entries of
    /// x up to 1.
    pub(super) fn decomposed(&mut self, gene: Gene) {
        let Some((matrix, n)) = self.positive(gene.operands[0]) else { return };
        let bound = n as f64 + 2.0;
        let all: [Op; 5] = [
            Cholesky {}.into(),
            Lu {}.into(),
            Qr { basis: QrBasis::Thin }.into(),
            Eigh { vectors: false }.into(),
            Svd { vectors: SvdVectors::None }.into(),
        ];
        let op = all[self.rng.index(all.len())].clone();
        self.push(op, &[matrix], bound);
    }

    /// Emits a triangular solve. Its matrix is symmetric positive definite, and the solve reads one triangle of it.
    pub(super) fn solved(&mut self, gene: Gene) {
        let Some((matrix, n)) = self.positive(gene.operands[0]) else { return };
        let of = self.b.shape_of(matrix);
        let mut shape = of.to_vec();
        let last = shape.len() - 1;
        shape[last] = 1 + self.rng.index(3);
        let dtype = self.b.dtype_of(matrix);
        let right = self.pick(dtype, gene.operands[1]);
        let right = self.matching(&right, &Shape::from(&shape[..]));
        let bits = self.rng.index(8);
        let [lower, transposed, unit_diagonal] = [1, 2, 4].map(|bit| bits & bit != 0);
        let op = TriangularSolve { lower, transposed, unit_diagonal };
        let bound = right.bound.max(1.0) * 2f64.powi(n as i32);
        self.push(op, &[matrix, right.atom], bound);
    }

    /// Emits a Fourier transform along any axis: a real transform and its inverse, or a complex transform in either
    /// direction.
    pub(super) fn transformed(&mut self, gene: Gene) {
        let x: Value = self.float(gene.operands[0]);
        let all = x.ty.shape.len();
        if all == 0 {
            return;
        }
        let rank = 1 + self.rng.index(all);
        let axis = self.rng.index(rank);
        let n = x.ty.shape[all - rank + axis];
        let half = if n == 0 { 0 } else { n / 2 + 1 };
        let spectrum = [&x.ty.shape[..], &[2 * half]].concat();
        if !self.small(&spectrum) {
            return;
        }
        let bound = (n as f64 * x.bound).max(1.0);
        let Some(y) = self.push(Rfft { rank, axis }, &[x.atom], bound) else { return };
        match self.rng.index(3) {
            0 => {}
            1 => {
                let back = Irfft { n, rank, axis };
                self.push(back, &[y.atom], (n as f64 * y.bound).max(1.0));
            }
            _ => {
                let inverse = self.rng.index(2) == 0;
                let axis = self.rng.index(rank);
                let points = y.ty.shape[all - rank + 1 + axis];
                let bound = (2.0 * points as f64 * y.bound).max(1.0);
                self.push(Fft { inverse, rank, axis }, &[y.atom], bound);
            }
        }
    }

    /// Returns a batch of symmetric positive definite matrices, and their order.
    fn positive(&mut self, back: u8) -> Option<(Atom, usize)> {
        let x: Value = self.float(back);
        let n = *x.ty.shape.last()?;
        let mut shape = x.ty.shape.to_vec();
        shape.push(n);
        if n == 0 || n > 9 || !self.small(&shape) {
            return None;
        }
        let x = self.within(&x, 1.0);
        let rank = shape.len();
        let wide = Shape::from(&shape[..]);
        let spread =
            |dims: Vec<usize>| self.b.emit1(Broadcast { shape: wide.clone(), dims }, &[x.atom]);
        let by_row = spread((0..rank - 1).collect());
        let by_column = spread((0..rank - 2).chain([rank - 1]).collect());
        let number = |v: f64| Atom::from(Literal::of(x.ty.dtype, v));
        let outer = self.b.emit1(Scalar::Mul, &[by_row, by_column]);
        let outer = self.b.emit1(Scalar::Mul, &[outer, number(0.25)]);
        let count = |axis| self.b.emit1(Iota { shape: wide.clone(), axis, dtype: Dtype::I64 }, &[]);
        let diagonal = self.b.emit1(Scalar::Eq, &[count(rank - 2), count(rank - 1)]);
        let own = Iota { shape: wide.clone(), axis: rank - 1, dtype: x.ty.dtype };
        let own = self.b.emit1(Scalar::Add, &[self.b.emit1(own, &[]), number(2.0)]);
        let added = self.b.emit1(Scalar::Select, &[diagonal, own, number(0.0)]);
        Some((self.b.emit1(Scalar::Add, &[outer, added]), n))
    }
}
