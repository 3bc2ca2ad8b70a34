//! `eig{vectors} a`: eigenvalues and eigenvectors of a general matrix, complex numbers as pairs of real arrays.
//!
//! ```text
//! A V = V diag(w)        X = V⁻¹ dA V        dw = diag(X)
//! dV = V (F ∘ X) + V diag(c)        F[i, j] = 1 / (w[j] - w[i]), 0 on the diagonal
//! ```
//!
//! The outputs are the real and the imaginary parts of the eigenvalues, then those of the eigenvectors. An
//! eigenvector (a column) has norm 1, and its component of largest absolute value (the first of several) is
//! real and positive. `c` in `dV` preserves this normalisation: with `W = V (F ∘ X)` and `k` the row of that
//! component, `Re c[j] = -Re(v[j]ᴴ W[j])` and `Im c[j] = -Im(W[k, j]) / v[k, j]`. Eigenvalues alone are
//! cheaper.
//!
//! A system of complex numbers is solved as one of real numbers, `[[Re V, -Im V], [Im V, Re V]]`. Equal
//! eigenvalues have no derivative: `V` is singular, or `F` is NaN. Eigenvectors that are not read have no
//! column in `F`. Source of the rule: C. Boeddeker, P. Hanebrink, L. Drude, J. Heymann, R. Haeb-Umbach, *On the
//! computation of complex-valued gradients with application to statistically optimum beamforming* (2017).

use super::decomposition::{Decomposition, Tangents, read_along};
use super::lu::general_solve;
use super::matrix::{
    MatrixPart, by_column, columns, diagonal, gaps, minus, plus, product, spread, times, unless,
};
use super::vector_tangents::{scale, unless_close};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Problem, Result};
use crate::lang::types::Dtype;
use crate::prim::{
    ArgReduce, Broadcast, Concatenate, Doc, Extremum, Family, Iota, Op, Reads, Reduce, Reducer,
    Sample, Scalar, Slice, StopGradient,
};
use crate::tensor::Tensor;
use tapeloom_routines::Routine;

/// The eigenvalues and eigenvectors of a general matrix. Its text is `eig{vectors}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Eig {
    /// Whether eigenvectors are computed besides the eigenvalues.
    pub vectors: bool,
}

notation!(Eig = "eig" { vectors });

/// An array of complex numbers, as an array of real parts and one of imaginary parts.
#[derive(Clone, Copy)]
struct Pair(Atom, Atom);

impl Pair {
    /// Applies a linear map `f` of real arrays to the real part and to the imaginary part.
    fn each(self, f: impl Fn(Atom) -> Atom) -> Pair {
        Pair(f(self.0), f(self.1))
    }

    /// Emits the complex product of `self` and `y`, where `of` emits the product of two real arrays.
    fn by(self, b: &Builder<'_>, y: Pair, of: fn(&Builder<'_>, Atom, Atom) -> Atom) -> Pair {
        let real = minus(b, of(b, self.0, y.0), of(b, self.1, y.1));
        Pair(real, plus(b, of(b, self.0, y.1), of(b, self.1, y.0)))
    }
}

/// Emits `V⁻¹ y` for complex matrices, by solving a real system of twice the size.
fn over(b: &Builder<'_>, v: Pair, y: Pair) -> Pair {
    let shape = b.shape_of(v.0);
    let (rank, n) = (shape.len(), shape[shape.len() - 1]);
    let join = |axis: usize, x: Atom, y: Atom| b.emit1(Concatenate { axis }, &[x, y]);
    let negative = b.emit1(Scalar::Neg, &[v.1]);
    let (above, below) = (join(rank - 1, v.0, negative), join(rank - 1, v.1, v.0));
    let x = general_solve(b, join(rank - 2, above, below), join(rank - 2, y.0, y.1));
    let half = |from: usize| {
        let (mut start, mut limit) = (vec![0; rank], b.shape_of(x).to_vec());
        (start[rank - 2], limit[rank - 2]) = (from, from + n);
        b.emit1(Slice::dense(start, limit), &[x])
    };
    Pair(half(0), half(n))
}

/// Emits `1 / (w[j] - w[i])` in row i and column j; 0 on the diagonal, and nan where the two eigenvalues count as
/// equal. It is computed as the conjugate of the difference, divided twice by the absolute value, whose square
/// may overflow or underflow.
fn inverse_gaps(b: &Builder<'_>, w: Pair) -> Pair {
    let n = b.shape_of(w.0)[b.shape_of(w.0).len() - 1];
    let hypot = |x: Pair| b.emit1(Scalar::Hypot, &[x.0, x.1]);
    let gap = w.each(|w| gaps(b, w));
    let size = unless(b, MatrixPart::Diagonal, hypot(gap), 1.0);
    let constant = w.each(|w| b.emit1(StopGradient, &[w]));
    let largest = by_column(b, scale(b, hypot(constant)), n);
    // Divide by 1 on the diagonal: if nan were computed there and replaced afterwards, the next derivative would
    // multiply it by 0.
    let size = unless(b, MatrixPart::Diagonal, unless_close(b, size, largest, size), 1.0);
    let by_size = |x: Atom| b.emit1(Scalar::Div, &[x, size]);
    let over = |x: Atom| unless(b, MatrixPart::Diagonal, by_size(by_size(x)), 0.0);
    Pair(over(gap.0), over(b.emit1(Scalar::Neg, &[gap.1])))
}

/// Emits the sum of each column of a matrix (over its rows), with the columns' axis kept.
fn sum_of_rows(b: &Builder<'_>, x: Atom) -> Atom {
    let axes = vec![b.shape_of(x).len() - 2];
    b.emit1(Reduce { reducer: Reducer::Sum, axes }, &[x])
}

/// Emits a mask of the component of largest absolute value in each column of `v`, the first of several.
fn largest(b: &Builder<'_>, v: Pair) -> Atom {
    let size = plus(b, times(b, v.0, v.0), times(b, v.1, v.1));
    let shape = b.shape_of(size);
    let rank = shape.len();
    let row = b.emit1(ArgReduce { extremum: Extremum::Max, axis: rank - 2 }, &[size]);
    let dims = (0..rank).filter(|axis| *axis != rank - 2).collect();
    let row = b.emit1(Broadcast { shape: shape.clone(), dims }, &[row]);
    let own = b.emit1(Iota { shape, axis: rank - 2, dtype: Dtype::I64 }, &[]);
    b.emit1(Scalar::Eq, &[own, row])
}

impl Decomposition for Eig {
    const SQUARE: bool = true;

    fn doc() -> Doc {
        Doc {
            family: Family::Linear,
            name: "eig{vectors}".into(),
            math: "w and V, complex, with A V = V diag(w): real parts, imaginary parts of w, then of V"
                .into(),
            types: "floats [.., n, n] to two [.., n], and two [.., n, n] with vectors".into(),
            derivative: "t_w = diag(X), t_V = V (F ∘ X + diag(c)) with X = V⁻¹ t V, \
                         F[i, j] = 1 / (w[j] - w[i]), c such that vectors stay normal"
                .into(),
            edges: "vectors have norm 1 and a real positive largest component; equal eigenvalues \
                    have no derivative (inf or nan), the others have one; nan or inf in A: nan in \
                    that member"
                .into(),
        }
    }

    fn routine(&self, rows: usize, _: usize) -> Routine {
        Routine::Eig { n: rows, vectors: self.vectors }
    }

    fn jvp(&self, b: &Builder<'_>, a: Atom, da: Atom, reads: &[Option<Reads>]) -> Result<Tangents> {
        let y = b.emit(Eig { vectors: true }, &[a]).to_vec();
        let [re, im, v_re, v_im] = y[..] else {
            return Err(Problem::internal("eig has four outputs"));
        };
        let (w, v) = (Pair(re, im), Pair(v_re, v_im));
        let x = over(b, v, v.each(|v| product(b, da, v)));
        let dw = x.each(|x| diagonal(b, x));
        let values = vec![Some(dw.0), Some(dw.1)];
        if !self.vectors {
            return Ok((vec![re, im], values));
        }
        let read = read_along(reads, 2, 0).or(&read_along(reads, 3, 0));
        if read.is_empty() {
            return Ok((y, [values, vec![None; 2]].concat()));
        }
        // `moved` holds `F ∘ X`, as in the module's formula for `dV`, in the columns that are read; each gives one
        // column of `dV`.
        let own = |x: Pair| x.each(|x| columns(b, x, &read));
        let moved = own(inverse_gaps(b, w)).by(b, own(x), times);
        let (turned, own_v) = (v.by(b, moved, product), own(v));
        // `along` is the real part of `v[j]ᴴ W[j]` in the module's formula; `W` is in `turned`.
        let along = plus(b, times(b, own_v.0, turned.0), times(b, own_v.1, turned.1));
        let first = largest(b, own_v);
        let zero = Atom::from(Literal::zero(b.dtype_of(re)));
        let at_first = |x: Atom| sum_of_rows(b, b.emit1(Scalar::Select, &[first, x, zero]));
        let phase = b.emit1(Scalar::Div, &[at_first(turned.1), at_first(own_v.0)]);
        let n = b.shape_of(a)[b.shape_of(a).len() - 1];
        let c = Pair(sum_of_rows(b, along), phase);
        let back = own_v.by(b, c.each(|c| by_column(b, c, n)), times);
        let dv = Pair(minus(b, turned.0, back.0), minus(b, turned.1, back.1));
        let dv = dv.each(|dv| spread(b, &[(read.clone(), dv)], n));
        Ok((y, [values, vec![Some(dv.0), Some(dv.1)]].concat()))
    }

    fn without(&self, used: &[bool]) -> Option<(Op, Vec<bool>)> {
        match *used {
            [_, _, false, false] => {
                Some((Eig { vectors: false }.into(), vec![true, true, false, false]))
            }
            _ => None,
        }
    }

    fn samples() -> Vec<Sample> {
        // Sample matrices with real eigenvalues; with one complex pair and a real eigenvalue; with two complex
        // pairs.
        let real = Tensor::from([[1.0, 2.0, 0.5], [0.25, -3.0, 1.0], [0.5, 0.75, 4.0]]);
        let turn = Tensor::from([[0.5, -2.0, 0.25], [1.5, 0.25, 1.0], [0.5, -0.75, 3.0]]);
        let two = Tensor::from([[[0.5, 1.0], [-2.0, 3.0]], [[4.0, 1.0], [1.0, -2.0]]]);
        let repeated = Tensor::from([[1.0f32, 1.0], [0.0, 1.0]]);
        let mut all = Vec::new();
        for vectors in [false, true] {
            for a in [real.clone(), turn.clone(), two.clone(), Tensor::from([[-2.0]])] {
                all.push(Sample::smooth(Eig { vectors }, vec![a]));
            }
            for a in [repeated.clone(), Tensor::from([[0.0f32; 0]; 0])] {
                all.push(Sample::edge(Eig { vectors }, vec![a]));
            }
        }
        all
    }
}
