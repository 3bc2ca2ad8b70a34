//! `qr{full} a`: the orthogonal and the upper triangular factor of a matrix.
//!
//! ```text
//! A = Q R            C = Qᵀ dA R₁⁻¹        Ω = tril(C, -1) - tril(C, -1)ᵀ
//! dQ = dA R₁⁻¹ - Q (C - Ω)                 dR = triu(Qᵀ dA - Ω R)
//! ```
//!
//! `R₁` is the square left part of `R`. The diagonal of `R` is not negative, which makes the factors of a
//! matrix of full rank unique. With `full`, `Q` is square. If the matrix has more rows than columns, the last
//! columns of `Q` are then a basis of the complement, which is not unique and has no derivative.
//!
//! Source: S. Walter, L. Lehmann, *Algorithmic differentiation of linear algebra functions with application in
//! optimum experimental design* (2010); for wide matrices H. Liao, J. Liu, L. Wang, T. Xiang, *Differentiable
//! programming tensor networks* (2019).

use super::decomposition::{Decomposition, Tangents};
use super::matrix::{MatrixPart, corner, minus, over_upper, part, product, transposed};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::prim::{Doc, Family, Op, Reads, Sample};
use crate::tensor::Tensor;
use tapeloom_routines::Routine;

/// The orthogonal and the upper triangular factor of a matrix. Its text is `qr{full}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Qr {
    /// Whether Q is a square matrix even if there are more rows than columns.
    pub full: bool,
}

notation!(Qr = "qr" { full });

impl Decomposition for Qr {
    const SQUARE: bool = false;

    fn doc() -> Doc {
        Doc {
            family: Family::Linear,
            name: "qr{full}".into(),
            math: "Q with QᵀQ = 1 and an upper triangular R, diagonal >= 0, with A = Q R".into(),
            types: "floats [.., m, n] to [.., m, k] and [.., k, n], k = min(m, n), or m if full"
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
        Routine::Qr { m: rows, n: columns, full: self.full }
    }

    fn jvp(&self, b: &Builder<'_>, a: Atom, da: Atom, _: &[Option<Reads>]) -> Result<Tangents> {
        let shape = b.shape_of(a);
        let (m, n) = (shape[shape.len() - 2], shape[shape.len() - 1]);
        if self.full && m > n {
            return Err(Problem::new(
                Kind::NotDifferentiable,
                format!("`qr_full` of {m} by {n} matrices has no derivative"),
                "the last columns of Q are any basis of a complement; `qr` has the factors without them",
            ));
        }
        let y = b.emit(self.clone(), &[a]).to_vec();
        let [q, r] = y[..] else { return Err(Problem::internal("qr has two outputs")) };
        let k = m.min(n);
        let qt = transposed(b, q);
        let x = over_upper(b, corner(b, da, m, k), corner(b, r, k, k));
        let c = product(b, qt, x);
        let low = part(b, c, MatrixPart::StrictlyLower);
        let turn = minus(b, low, transposed(b, low));
        let dq = minus(b, x, product(b, q, minus(b, c, turn)));
        let dr = minus(b, product(b, qt, da), product(b, turn, r));
        Ok((y, vec![Some(dq), Some(part(b, dr, MatrixPart::Upper))]))
    }

    fn without(&self, _: &[bool]) -> Option<(Op, Vec<bool>)> {
        None
    }

    fn samples() -> Vec<Sample> {
        let square = Tensor::from([[1.0, 2.0, -0.5], [3.0, -1.0, 0.25], [0.5, 4.0, 2.0]]);
        let wide = Tensor::from([[1.0, 2.0, -0.5], [-3.0, -1.0, 0.25]]);
        let tall = Tensor::from([[1.0, 2.0], [-3.0, -1.0], [0.5, 4.0]]);
        let two = Tensor::from([[[0.5, 1.0], [2.0, 3.0]], [[4.0, 1.0], [1.0, -2.0]]]);
        let mut all = Vec::new();
        for a in [&square, &wide, &two] {
            all.push(Sample::smooth(Qr { full: true }, vec![a.clone()]));
        }
        for a in [square, wide, tall.clone(), two, Tensor::from([[-2.0]])] {
            all.push(Sample::smooth(Qr { full: false }, vec![a]));
        }
        let none = Tensor::from([[0.0f32; 0]; 2]);
        for a in [tall, Tensor::from([[1.0f32, 2.0], [2.0, 4.0]]), none] {
            all.push(Sample::edge(Qr { full: true }, vec![a.clone()]));
            all.push(Sample::edge(Qr { full: false }, vec![a]));
        }
        all
    }
}
