//! `svd{vectors} a`: singular values and singular vectors.
//!
//! ```text
//! A = U diag(s) Vᵀ                      s[j] du[j] - A  dv[j] = dA  v[j] - ds[j] u[j]
//! ds[j] = u[j]ᵀ dA v[j]                 s[j] dv[j] - Aᵀ du[j] = dAᵀ u[j] - ds[j] v[j]
//! ```
//!
//! Singular values descend. In each column of `U` the component of largest absolute value (the first of several) is
//! positive. The outputs are `s`, or `U`, `s`, `Vᵀ`: thin factors have min(m, n) vectors, full ones are square.
//! Singular values alone are cheaper. The additional vectors of a full factor are an arbitrary basis of a complement
//! and have no derivative. Vectors of equal singular values, or of the singular value 0 of a matrix that is not square,
//! have no derivative either. All other vectors have a derivative (`vector_tangents.rs`).
//!
//! Source of the rule: J. Townsend, *Differentiating the singular value decomposition* (2016).

use super::decomposition::{Decomposition, Tangents, read_along};
use super::matrix::{columns, product, spread, transposed};
use super::vector_tangents::{SingularVectors, dot_columns};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::prim::syntax::Word;
use crate::prim::{Doc, Family, Op, Reads, Sample};
use crate::tensor::Tensor;
use tapeloom_routines::{Routine, SvdVectors};

/// The singular values and singular vectors of a matrix. Its text is `svd{vectors}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Svd {
    /// The singular vectors that are computed: none, thin factors or full factors.
    pub vectors: SvdVectors,
}

notation!(Svd = "svd" { vectors });

impl Word for SvdVectors {
    const ALL: &'static [SvdVectors] = &SvdVectors::ALL;

    fn word(self) -> &'static str {
        SvdVectors::word(self)
    }
}

impl Decomposition for Svd {
    const SQUARE: bool = false;

    fn doc() -> Doc {
        Doc {
            family: Family::Linear,
            name: "svd{vectors}".into(),
            math: "descending s, and orthonormal U and V, with A = U diag(s) Vᵀ".into(),
            types: "floats [.., m, n] to s [.., k], k = min(m, n), or to U [.., m, k], s, Vᵀ [.., k, n] \
                    (thin), with squares of m and of n (full)"
                .into(),
            derivative: "t_s = diag(P), P = Uᵀ t V; t_U = U (F ∘ (P S + S Pᵀ)) + (1 - U Uᵀ) t V \
                         S⁻¹, F[i, j] = 1 / (s[j]² - s[i]²), t_V alike with tᵀ, by one linear \
                         system per pair of vectors; none for the complements of full vectors"
                .into(),
            edges: "the largest component of a column of U is positive; vectors of equal values \
                    have no derivative (nan), the others have one; nan or inf in A: nan in that \
                    member"
                .into(),
        }
    }

    fn routine(&self, rows: usize, columns: usize) -> Routine {
        Routine::Svd { m: rows, n: columns, vectors: self.vectors }
    }

    fn jvp(&self, b: &Builder<'_>, a: Atom, da: Atom, reads: &[Option<Reads>]) -> Result<Tangents> {
        let shape = b.shape_of(a);
        let (m, n) = (shape[shape.len() - 2], shape[shape.len() - 1]);
        if self.vectors == SvdVectors::Full && m != n {
            return Err(Problem::new(
                Kind::NotDifferentiable,
                format!("`svd_full` of {m} by {n} matrices has no derivative"),
                "its additional vectors are an arbitrary basis of a complement; `svd` returns the \
                 others, and `svdvals` the values",
            ));
        }
        let y = b.emit(Svd { vectors: SvdVectors::Thin }, &[a]).to_vec();
        let [u, s, vt] = y[..] else { return Err(Problem::internal("svd has three outputs")) };
        let v = transposed(b, vt);
        let k = b.shape_of(s)[b.shape_of(s).len() - 1];
        let alone = self.vectors == SvdVectors::None;
        let read = read_along(reads, if alone { 0 } else { 1 }, 0);
        let values = (!read.is_empty()).then(|| {
            let [u, v] = [u, v].map(|x| columns(b, x, &read));
            let image = product(b, da, v);
            (&read, [image, dot_columns(b, u, image)])
        });
        let ds = values.map(|(read, [_, ds])| spread(b, &[(read.clone(), ds)], k));
        if alone {
            return Ok((vec![s], vec![ds]));
        }
        let (left, right) = (read_along(reads, 0, 0), read_along(reads, 2, 1));
        let all = SingularVectors { a, usv: [u, s, v], read: [&left, &right], values };
        let [du, dv] = all.tangents(b, da)?;
        Ok((y, vec![du, ds, dv.map(|dv| transposed(b, dv))]))
    }

    fn without(&self, used: &[bool]) -> Option<(Op, Vec<bool>)> {
        match *used {
            [false, true, false] => {
                let op = Svd { vectors: SvdVectors::None };
                Some((op.into(), vec![false, true, false]))
            }
            _ => None,
        }
    }

    fn samples() -> Vec<Sample> {
        let square = Tensor::from([[1.0, 2.0, -0.5], [3.0, -1.0, 0.25], [0.5, 4.0, 2.0]]);
        let wide = Tensor::from([[1.0, 2.0, -0.5], [-3.0, -1.0, 0.25]]);
        let tall = Tensor::from([[1.0, 2.0], [-3.0, -1.0], [0.5, 4.0]]);
        let two = Tensor::from([[[0.5, 1.0], [2.0, 3.0]], [[4.0, 1.0], [1.0, -2.0]]]);
        let repeated = Tensor::from([[1.0f32, 0.0], [0.0, 1.0]]);
        let mut all = Vec::new();
        for vectors in SvdVectors::ALL {
            for a in [&square, &wide, &tall, &two] {
                let whole = vectors == SvdVectors::Full && a.shape().len() == 2;
                let smooth = !whole || a.shape()[0] == a.shape()[1];
                all.push(Sample { op: Svd { vectors }.into(), operands: vec![a.clone()], smooth });
            }
            for a in [repeated.clone(), Tensor::from([[0.0f32; 0]; 2])] {
                all.push(Sample::edge(Svd { vectors }, vec![a]));
            }
        }
        all
    }
}
