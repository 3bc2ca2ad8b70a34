//! Dense linear algebra: primitives that library routines implement, one file each.
//!
//! Operands and results are matrices on the last two axes. All axes before them are a batch, whose members are computed
//! independently. So batching adds an axis in front, and a member that fails (a matrix that is not positive definite, a
//! NaN) gives NaN in that member alone.
//!
//! The rules are matrix identities in ordinary primitives (`matrix.rs`), so derivatives of every order
//! are programs like any other. Source of the identities: M. Giles, *An extended collection of matrix
//! derivative results for forward and reverse mode algorithmic differentiation* (2008); I. Murray,
//! *Differentiation of the Cholesky decomposition* (2016).

pub(crate) mod cholesky;
pub(crate) mod decomposition;
pub(crate) mod eig;
pub(crate) mod eigh;
pub(crate) mod lu;
mod matrix;
pub(crate) mod qr;
pub(crate) mod routine_call;
pub(crate) mod schur;
pub(crate) mod svd;
pub(crate) mod triangular_solve;
pub(crate) mod tridiagonal_solve;
mod unrolled;
mod vector_tangents;
