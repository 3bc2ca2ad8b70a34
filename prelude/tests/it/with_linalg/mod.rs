//! Tests of programs that call decompositions, solvers of tridiagonal systems or Fourier transforms.

mod examples;
mod fourier;
mod hermitian;
mod least_squares;
mod matrix_functions;
mod splines;
