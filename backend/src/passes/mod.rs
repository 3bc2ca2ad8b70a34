//! Passes on the loop IR: each is a file, and maps a program to a program that computes the same.
//!
//! [`PASSES`] lists the rows, [`pipeline`] says in which order they run and why.

pub mod clamp_bounds;
pub mod copy_elimination;
pub mod elide_zero_fill;
mod fission;
pub mod hoist_invariant;
pub mod index_set_split;
pub mod inline_bodies;
mod pass;
pub mod pipeline;
pub mod privatize_scalars;
pub mod promote_memory;
pub mod recognize_contractions;
pub mod redundant_memory;
pub mod reverse_loops;
pub mod rotate_registers;
pub mod simplify_indices;
pub mod split_arrays;
pub mod unroll;
pub mod unroll_and_jam;
pub mod vectorize;

pub(crate) use hoist_invariant::Ahead;
pub use pass::{Choice, Context, Invariant, Pass};
pub use pipeline::{AS_WRITTEN, CODE, List, NATIVE, STUDY, Step};

#[cfg(test)]
use crate::loop_ir::Program;
use tapeloom_ir::{Kind, Problem};

/// Every pass, in the order of names.
pub const PASSES: &[&Pass] = &[
    &clamp_bounds::PASS,
    &copy_elimination::PASS,
    &elide_zero_fill::PASS,
    &hoist_invariant::PASS,
    &index_set_split::PASS,
    &inline_bodies::PASS,
    &privatize_scalars::PASS,
    &promote_memory::PASS,
    &recognize_contractions::PASS,
    &redundant_memory::PASS,
    &reverse_loops::PASS,
    &rotate_registers::PASS,
    &simplify_indices::PASS,
    &split_arrays::PASS,
    &unroll::PASS,
    &unroll_and_jam::PASS,
    &vectorize::PASS,
];

/// The pass of that name.
///
/// # Errors
/// [`Kind::Parse`] where there is none, with the names of those that there are.
pub fn by_name(name: &str) -> Result<&'static Pass, Problem> {
    let found = PASSES.iter().copied().find(|pass| pass.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = PASSES.iter().map(|pass| pass.name).collect();
        Problem::new(
            Kind::Parse,
            format!("there is no pass `{name}` on kernels"),
            format!("the passes are {}", names.join(", ")),
        )
    })
}

/// Runs the pass of that name on a program, for tests.
///
/// # Errors
/// Those of [`by_name`] and [`Pass::apply`].
#[cfg(test)]
pub(crate) fn apply(name: &str, program: &mut Program) -> Result<(), Problem> {
    by_name(name)?.apply(program, &mut Context::default())
}
