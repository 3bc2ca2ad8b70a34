//! `lu a`: the triangular factors of a matrix with partial pivoting.
//!
//! ```text
//! A[p] = L U
//! X = L⁻¹ dA[p] U⁻¹        dL = L tril(X, -1)        dU = triu(X) U
//! ```
//!
//! The outputs are the factors in one matrix (`L` below the diagonal, with an implicit unit diagonal, and `U` on and
//! above it), the exchanges (step i exchanged row i with row `pivots[i]`), and the permutation `p` that results from
//! them. The pivot is the element of largest absolute value in its column.
//!
//! If there are more rows than columns, `L` is extended by columns of the identity; if there are fewer, `U` is
//! extended by rows of it. Then both have inverses and the formula holds unchanged. Source: S. de Hoog, B.
//! Anderssen, M. Lukas, *Differentiation of matrix functionals using triangular factorization* (2011). The
//! permutation is locally constant.

use super::decomposition::{Decomposition, Tangents};
use super::matrix::{MatrixPart, corner, over_upper, part, plus, product, solved};
use super::triangular_solve::TriangularSolve;
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Problem, Result};
use crate::lang::types::{Dtype, Shape};
use crate::prim::{
    Bounds, Convert, Doc, Family, Gather, Iota, Op, Reads, Sample, Scalar, reshaped,
};
use crate::tensor::Tensor;
use tapeloom_routines::Routine;

/// The triangular factors of a matrix, with partial pivoting. Its text is `lu`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Lu {}

notation!(Lu = "lu" {});

/// Emits the rows of the matrices `x` in the order of the indices `order`, per batch member.
fn rows_of(b: &Builder<'_>, x: Atom, order: Atom) -> Atom {
    let batch = b.shape_of(x).len() - 2;
    let mut indices = b.shape_of(order).to_vec();
    indices.push(1);
    let indices = reshaped(b, order, &indices);
    b.emit1(Gather { batch, axes: vec![batch], bounds: Bounds::Clip }, &[x, indices])
}

/// Emits `A⁻¹ x` for square matrices `a`, by their LU factors.
pub(super) fn general_solve(b: &Builder<'_>, a: Atom, x: Atom) -> Atom {
    let factors = b.emit(Lu {}, &[a]);
    let unit = TriangularSolve { unit_diagonal: true, ..TriangularSolve::LOWER };
    let upper = TriangularSolve { lower: false, ..TriangularSolve::LOWER };
    let y = solved(b, unit, factors[0], rows_of(b, x, factors[2]));
    solved(b, upper, factors[0], y)
}

/// Emits `n` by `n` matrices with `u` in the upper left corner and zeros elsewhere, but with 1 on the diagonal
/// from row `have` on.
fn with_ones(b: &Builder<'_>, u: Atom, have: usize, n: usize) -> Atom {
    let u = corner(b, u, n, n);
    if have == n {
        return u;
    }
    let shape: Shape = b.shape_of(u);
    let rank = shape.len();
    let count = |axis| b.emit1(Iota { shape: shape.clone(), axis, dtype: Dtype::I64 }, &[]);
    let (row, column) = (count(rank - 2), count(rank - 1));
    let diagonal = b.emit1(Scalar::Eq, &[row, column]);
    let beyond = b.emit1(Scalar::Ge, &[row, Literal::i64(have as i64).into()]);
    let ones = b.emit1(Scalar::And, &[diagonal, beyond]);
    plus(b, u, b.emit1(Convert { to: b.dtype_of(u) }, &[ones]))
}

impl Decomposition for Lu {
    const SQUARE: bool = false;

    fn doc() -> Doc {
        Doc {
            family: Family::Linear,
            name: "lu".into(),
            math: "packed factors, exchanges and permutation p, with A[p] = L U".into(),
            types: "floats [.., m, n] to the same, i32 [.., min(m, n)] and i32 [.., m]".into(),
            derivative: "L tril(X, -1) + triu(X) U with X = L⁻¹ t[p] U⁻¹; the permutation is \
                         locally constant"
                .into(),
            edges: "a singular matrix has zeros on the diagonal of U, and no derivative there \
                    (inf or nan); nan or inf in A: nan in that member"
                .into(),
        }
    }

    fn routine(&self, rows: usize, columns: usize) -> Routine {
        Routine::Lu { m: rows, n: columns }
    }

    fn jvp(&self, b: &Builder<'_>, a: Atom, da: Atom, _: &[Option<Reads>]) -> Result<Tangents> {
        let y = b.emit(self.clone(), &[a]).to_vec();
        let [packed, _, order] = y[..] else {
            return Err(Problem::internal("lu has three outputs"));
        };
        let shape = b.shape_of(a);
        let (m, n) = (shape[shape.len() - 2], shape[shape.len() - 1]);
        let k = m.min(n);
        let below = corner(b, part(b, packed, MatrixPart::StrictlyLower), m, m);
        let above = with_ones(b, corner(b, part(b, packed, MatrixPart::Upper), k, n), k, n);
        let unit = TriangularSolve { unit_diagonal: true, ..TriangularSolve::LOWER };
        let x = over_upper(b, solved(b, unit, below, rows_of(b, da, order)), above);
        let (left, right) = (part(b, x, MatrixPart::StrictlyLower), part(b, x, MatrixPart::Upper));
        let dl = plus(b, left, product(b, below, left));
        Ok((y, vec![Some(plus(b, dl, product(b, right, above))), None, None]))
    }

    fn without(&self, _: &[bool]) -> Option<(Op, Vec<bool>)> {
        None
    }

    fn samples() -> Vec<Sample> {
        let square = Tensor::from([[1.0, 2.0, -0.5], [3.0, -1.0, 0.25], [0.5, 4.0, 2.0]]);
        let wide = Tensor::from([[1.0, 2.0, -0.5], [-3.0, -1.0, 0.25]]);
        let tall = Tensor::from([[1.0, 2.0], [-3.0, -1.0], [0.5, 4.0]]);
        let two = Tensor::from([[[0.5, 1.0], [2.0, 3.0]], [[4.0, 1.0], [1.0, -2.0]]]);
        let singular = Tensor::from([[1.0f32, 2.0], [2.0, 4.0]]);
        let smooth = [square, wide, tall, two, Tensor::from([[2.0]])];
        let edge =
            [singular, Tensor::from([[0.0; 0]; 0]), Tensor::from([[f64::NAN, 1.0], [1.0, 2.0]])];
        let of = |a: Tensor| vec![a];
        let smooth = smooth.into_iter().map(|a| Sample::smooth(Lu {}, of(a)));
        smooth.chain(edge.into_iter().map(|a| Sample::edge(Lu {}, of(a)))).collect()
    }
}
