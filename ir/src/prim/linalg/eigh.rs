//! `eigh{vectors} a`: eigenvalues and eigenvectors of a symmetric matrix.
//!
//! ```text
//! A V = V diag(w)        dw[j] = v[j]ᵀ dA v[j]        (w[j] - A) dv[j] = dA v[j] - dw[j] v[j]
//! ```
//!
//! Only the lower triangle of `a` is read. It represents a symmetric matrix. Eigenvalues ascend. In each eigenvector (a
//! column of `V`) the component of largest absolute value (the first of several) is positive. Eigenvalues alone are
//! cheaper. Eigenvectors of equal eigenvalues are an arbitrary basis of a space, so their derivative is NaN. All other
//! eigenvectors have a derivative (`vector_tangents.rs`).
//!
//! Source of the rule: Giles (2008), 2.3.3.

use super::decomposition::{Decomposition, Tangents, read_along};
use super::matrix::{columns, product, spread, symmetric_of_lower};
use super::vector_tangents::{Eigenvectors, dot_columns};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Problem, Result};
use crate::prim::{Doc, Family, Op, Ranges, Reads, Sample};
use crate::tensor::Tensor;
use tapeloom_routines::Routine;

/// The eigenvalues and eigenvectors of a symmetric matrix. Its text is `eigh{vectors}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Eigh {
    /// Whether eigenvectors are computed besides the eigenvalues.
    pub vectors: bool,
}

notation!(Eigh = "eigh" { vectors });

impl Decomposition for Eigh {
    const SQUARE: bool = true;

    fn doc() -> Doc {
        Doc {
            family: Family::Linear,
            name: "eigh{vectors}".into(),
            math:
                "ascending w, and orthonormal V, with A V = V diag(w), for a symmetric A given by \
                 its lower triangle"
                    .into(),
            types: "floats [.., n, n] to [.., n], and [.., n, n] with vectors".into(),
            derivative:
                "t_w = diag(P), t_V = V (F ∘ P) with P = Vᵀ t V, F[i, j] = 1 / (w[j] - w[i]), by \
                 one linear system per vector"
                    .into(),
            edges:
                "the largest component of a vector is positive; vectors of equal eigenvalues have \
                 no derivative (nan), the others have one; nan or inf in A: nan in that member"
                    .into(),
        }
    }

    fn routine(&self, rows: usize, _: usize) -> Routine {
        Routine::Eigh { n: rows, vectors: self.vectors }
    }

    fn jvp(&self, b: &Builder<'_>, a: Atom, da: Atom, reads: &[Option<Reads>]) -> Result<Tangents> {
        let y = b.emit(Eigh { vectors: true }, &[a]).to_vec();
        let [w, v] = y[..] else { return Err(Problem::internal("eigh has two outputs")) };
        let (n, da) = (b.shape_of(w)[b.shape_of(w).len() - 1], symmetric_of_lower(b, da));
        // Returns, for the columns `places`: the eigenvectors `V`, `dA V`, and the tangents of the eigenvalues.
        let of = |places: &Ranges| {
            let v = columns(b, v, places);
            let moved = product(b, da, v);
            (moved, dot_columns(b, v, moved))
        };
        let [values, vectors] = [0, 1].map(|output| read_along(reads, output, 0));
        let by_values = (!values.is_empty()).then(|| of(&values));
        let dw = by_values.map(|(_, dw)| spread(b, &[(values.clone(), dw)], n));
        if !self.vectors {
            return Ok((vec![w], vec![dw]));
        }
        if vectors.is_empty() {
            return Ok((y, vec![dw, None]));
        }
        let (moved, own_dw) =
            by_values.filter(|_| values == vectors).unwrap_or_else(|| of(&vectors));
        let all = Eigenvectors { a: symmetric_of_lower(b, a), w, v, read: &vectors };
        let dv = all.tangents(b, moved, own_dw)?;
        Ok((y, vec![dw, Some(spread(b, &[(vectors.clone(), dv)], n))]))
    }

    fn without(&self, used: &[bool]) -> Option<(Op, Vec<bool>)> {
        match *used {
            [true, false] => Some((Eigh { vectors: false }.into(), vec![true, false])),
            _ => None,
        }
    }

    fn samples() -> Vec<Sample> {
        // The sample matrices have an upper triangle that differs from the lower one, so that a read of the upper
        // triangle would give a wrong result.
        let a = Tensor::from([[1.0, 9.0, 9.0], [0.5, 3.0, 9.0], [-0.25, 0.75, -2.0]]);
        let two = Tensor::from([[[0.5, 0.0], [1.0, 2.0]], [[4.0, 0.0], [-1.0, -2.0]]]);
        let repeated = Tensor::from([[1.0f32, 0.0], [0.0, 1.0]]);
        let mut all = Vec::new();
        for vectors in [false, true] {
            for a in [a.clone(), two.clone(), Tensor::from([[-2.0]])] {
                all.push(Sample::smooth(Eigh { vectors }, vec![a]));
            }
            for a in [repeated.clone(), Tensor::from([[0.0f32; 0]; 0])] {
                all.push(Sample::edge(Eigh { vectors }, vec![a]));
            }
        }
        all
    }
}
