//! `qr{basis} a`: the orthogonal and the upper triangular factor of a matrix.
//!
//! ```text
//! A = Q R            C = Qᵀ dA R₁⁻¹        Ω = tril(C, -1) - tril(C, -1)ᵀ
//! dQ = dA R₁⁻¹ - Q (C - Ω)                 dR = triu(Qᵀ dA - Ω R)
//! ```
//!
//! `R₁` is the square left part of `R`. The diagonal of `R` is not negative, which makes the factors of a
//! matrix of full rank unique. With a full basis, `Q` is square. If the matrix has more rows than columns, the last
//! columns of `Q` are then a basis of the complement, which is not unique and has no derivative. Without a basis,
//! only `R` is computed, with half the operations.
//!
//! Source: S. Walter, L. Lehmann, *Algorithmic differentiation of linear algebra functions with application in
//! optimum experimental design* (2010); for wide matrices H. Liao, J. Liu, L. Wang, T. Xiang, *Differentiable
//! programming tensor networks* (2019).

use super::decomposition::{Decomposition, Tangents};
use super::matrix::{MatrixPart, corner, minus, over_upper, part, product, transposed};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::prim::syntax::Word;
use crate::prim::{Doc, Family, Op, Reads, Sample};
use crate::tensor::Tensor;
use tapeloom_routines::{QrBasis, Routine};

/// The orthogonal and the upper triangular factor of a matrix. Its text is `qr{basis}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Qr {
    /// The columns of Q that are computed.
    pub basis: QrBasis,
}

notation!(Qr = "qr" { basis });

impl Word for QrBasis {
    const ALL: &'static [QrBasis] = &QrBasis::ALL;

    fn word(self) -> &'static str {
        QrBasis::word(self)
    }
}

impl Decomposition for Qr {
    const SQUARE: bool = false;

    fn doc() -> Doc {
        Doc {
            family: Family::Linear,
            name: "qr{basis}".into(),
            math: "Q with QᵀQ = 1 and an upper triangular R, diagonal >= 0, with A = Q R".into(),
            types: "floats [.., m, n] to [.., m, k], absent without a basis, and [.., k, n], k = min(m, n), or m \
                    with a full one"
                .into(),
            derivative: "t_Q = t R₁⁻¹ - Q (C - Ω), t_R = triu(Qᵀ t - Ω R), C = Qᵀ t R₁⁻¹, Ω \
                         antisymmetric with the lower triangle of C; none of full factors where m > n"
                .into(),
            edges: "a matrix without full rank has zeros on the diagonal of R, and no derivative \
                    there (inf or nan); nan or inf in A: nan in that member"
                .into(),
        }
    }

    fn routine(&self, rows: usize, columns: usize) -> Routine {
        Routine::Qr { m: rows, n: columns, basis: self.basis }
    }

    fn jvp(&self, b: &Builder<'_>, a: Atom, da: Atom, _: &[Option<Reads>]) -> Result<Tangents> {
        let shape = b.shape_of(a);
        let (m, n) = (shape[shape.len() - 2], shape[shape.len() - 1]);
        if self.basis == QrBasis::Full && m > n {
            return Err(Problem::new(
                Kind::NotDifferentiable,
                format!("`qr_full` of {m} by {n} matrices has no derivative"),
                "the last columns of Q are an arbitrary basis of a complement; `qr` returns the \
                 factors without them",
            ));
        }
        let alone = self.basis == QrBasis::None;
        let basis = if alone { QrBasis::Thin } else { self.basis };
        let y = b.emit(Qr { basis }, &[a]).to_vec();
        let [q, r] = y[..] else { return Err(Problem::internal("qr has two outputs")) };
        let k = m.min(n);
        let qt = transposed(b, q);
        let x = over_upper(b, corner(b, da, m, k), corner(b, r, k, k));
        let c = product(b, qt, x);
        let low = part(b, c, MatrixPart::StrictlyLower);
        let turn = minus(b, low, transposed(b, low));
        let dq = (!alone).then(|| minus(b, x, product(b, q, minus(b, c, turn))));
        let dr = minus(b, product(b, qt, da), product(b, turn, r));
        let dr = Some(part(b, dr, MatrixPart::Upper));
        Ok(if alone { (vec![r], vec![dr]) } else { (y, vec![dq, dr]) })
    }

    /// A full basis is kept, because its R has rows of zeros that the R without a basis lacks.
    fn without(&self, used: &[bool]) -> Option<(Op, Vec<bool>)> {
        match (self.basis, used) {
            (QrBasis::Thin, [false, true]) => {
                Some((Qr { basis: QrBasis::None }.into(), vec![false, true]))
            }
            _ => None,
        }
    }

    fn samples() -> Vec<Sample> {
        let square = Tensor::from([[1.0, 2.0, -0.5], [3.0, -1.0, 0.25], [0.5, 4.0, 2.0]]);
        let wide = Tensor::from([[1.0, 2.0, -0.5], [-3.0, -1.0, 0.25]]);
        let tall = Tensor::from([[1.0, 2.0], [-3.0, -1.0], [0.5, 4.0]]);
        let two = Tensor::from([[[0.5, 1.0], [2.0, 3.0]], [[4.0, 1.0], [1.0, -2.0]]]);
        let mut all = Vec::new();
        for a in [&square, &wide, &two] {
            all.push(Sample::smooth(Qr { basis: QrBasis::Full }, vec![a.clone()]));
        }
        for a in [square, wide, tall.clone(), two, Tensor::from([[-2.0]])] {
            for basis in [QrBasis::None, QrBasis::Thin] {
                all.push(Sample::smooth(Qr { basis }, vec![a.clone()]));
            }
        }
        let none = Tensor::from([[0.0f32; 0]; 2]);
        for a in [tall, Tensor::from([[1.0f32, 2.0], [2.0, 4.0]]), none] {
            for basis in QrBasis::ALL {
                all.push(Sample::edge(Qr { basis }, vec![a.clone()]));
            }
        }
        all
    }
}
