//! Tests over many random programs, and over programs with loops under every transform, for properties that must hold
//! for all of them.

mod fuzz;
mod implicit;
mod invariant_carries;
mod loops;
mod machine_models;
mod narrowed_loops;
mod padded_windows;
mod random_batches;
mod random_chunks;
mod random_loops;
mod reads;
mod schedules;
mod small_gemm;
mod state;
mod unrolled;
