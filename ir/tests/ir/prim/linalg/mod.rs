//! Tests of the modules of `linalg`.

mod cholesky;
mod eig;
mod eigh;
mod lu;
mod qr;
mod routine_call;
mod schur;
mod svd;
mod triangular_solve;
mod tridiagonal_solve;
