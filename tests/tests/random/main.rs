//! Sweeps: random programs, and programs with loops under every transform, checked against laws.

mod fuzz;
mod implicit;
mod invariant_carries;
mod loops;
mod machine_models;
mod padded_windows;
mod places;
mod random_loops;
mod reads;
mod schedules;
mod small_gemm;
mod state;
mod unrolled;
