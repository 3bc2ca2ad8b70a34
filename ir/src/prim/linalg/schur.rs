//! `schur a`: the real Schur form of a square matrix, `A = Z T Zᵀ`.
//!
//! `Z` is orthogonal. `T` is upper triangular, except for 2 by 2 blocks on its diagonal, one for each pair of
//! conjugate eigenvalues, with equal diagonal elements. In each column of `Z` the component of largest absolute
//! value (the first of several) is positive.
//!
//! The order of the eigenvalues and the blocks are choices of the algorithm, so the factors have no derivative.
//! Results that do not depend on these choices can be differentiated in another way: eigenvalues by
//! [`eig`](super::eig), functions of matrices by series or products.

use super::decomposition::{Decomposition, Tangents};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::prim::{Doc, Family, Op, Reads, Sample};
use crate::tensor::Tensor;
use tapeloom_routines::Routine;

/// The real Schur form of a square matrix. Its text is `schur`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Schur {}

notation!(Schur = "schur" {});

impl Decomposition for Schur {
    const SQUARE: bool = true;

    fn doc() -> Doc {
        Doc {
            family: Family::Linear,
            name: "schur".into(),
            math: "T, triangular with blocks of 2 by 2, and an orthogonal Z, with A = Z T Zᵀ"
                .into(),
            types: "floats [.., n, n] to two of the same".into(),
            derivative: "none: the order of eigenvalues and the blocks are choices".into(),
            edges:
                "the largest component of a column of Z is positive; nan or inf in A: nan in that \
                    member"
                    .into(),
        }
    }

    fn routine(&self, rows: usize, _: usize) -> Routine {
        Routine::Schur { n: rows }
    }

    fn jvp(&self, _: &Builder<'_>, _: Atom, _: Atom, _: &[Option<Reads>]) -> Result<Tangents> {
        Err(Problem::new(
            Kind::NotDifferentiable,
            "`schur` has no derivative: the order of eigenvalues and the blocks are choices",
            "differentiate `eig` for eigenvalues, or stop the gradient of the matrix",
        ))
    }

    fn without(&self, _: &[bool]) -> Option<(Op, Vec<bool>)> {
        None
    }

    fn samples() -> Vec<Sample> {
        let turn = Tensor::from([[0.5, -2.0, 0.25], [1.5, 0.25, 1.0], [0.5, -0.75, 3.0]]);
        let two = Tensor::from([[[0.5f32, 1.0], [-2.0, 3.0]], [[4.0, 1.0], [1.0, -2.0]]]);
        let none = Tensor::from([[0.0; 0]; 0]);
        [turn, two, none].into_iter().map(|a| Sample::edge(Schur {}, vec![a])).collect()
    }
}
