//! The public face: what users call, what it gives, and what it says when it is called wrongly.

mod absurd;
mod captures;
mod complex;
mod control;
mod custom;
mod empty;
mod errors;
mod examples;
mod fourier;
mod jit;
mod keys;
mod krylov;
mod numbers;
mod ops;
mod optim;
mod rng;
mod signs;
mod tree_maps;
mod trees;
