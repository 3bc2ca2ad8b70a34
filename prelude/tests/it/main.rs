//! The public face: what users call, what it gives, and what it says when it is called wrongly.

mod absurd;
mod arguments;
mod captures;
mod complex;
mod control;
mod custom;
mod empty;
mod errors;
mod examples;
mod forms;
mod fourier;
mod jit;
mod keys;
mod krylov;
mod matrix_functions;
mod numbers;
mod ode;
mod ops;
mod optim;
mod places;
mod quadrature;
mod rng;
mod see;
mod signs;
mod tree_maps;
mod trees;

// A module of the library that the tests have, too, names it so.
use tapeloom::Var;
