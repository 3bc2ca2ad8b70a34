//! Tests of the public interface: results, and errors for invalid use.

mod absurd;
mod arguments;
mod call_into;
mod captures;
mod complex;
mod control;
mod custom;
mod empty;
mod errors;
mod examples;
mod forms;
mod jit;
mod keys;
mod krylov;
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
#[cfg(feature = "linalg")]
mod with_linalg;

// Modules of the library that are included in the tests refer to the crate by this name.
use tapeloom::Var;
