//! Passes on the loop IR: each file holds one pass, which maps a program to an equivalent program.
//!
//! [`PASSES`] lists the passes; [`pipeline`] states in which order they run and why.
//!
//! # Adding a pass
//!
//! A pass returns whether it changed the program. A number that it reports is a field of [`Context`]. Before the step
//! `plan_memory`, a pass may add a buffer (`Kernel::scratch`), remove all accesses to
//! a buffer of the workspace (its declaration stays, and `plan_memory` makes it `unplaced`), or shorten a lifetime. No
//! table of memory has to be updated, because `plan_memory` and the reports read the statements. If a pass replaces a
//! buffer that `Kernel::kept` lists, it moves the entry to the new buffer. After removing stores, call
//! `dead_code::drop_dead`, which removes the values that are no longer read, and `infer_parallelism`.
//!
//! `elide_zero_fill.rs` is a short example, and `copy_elimination.rs` removes buffers. The chapter *The backend* of the
//! book has a table of the effects of all passes. An analysis that changes nothing belongs in `loop_ir/analysis`.

pub mod clamp_bounds;
pub mod copy_elimination;
pub mod cut_pieces;
pub mod elide_zero_fill;
pub mod expand_library_calls;
pub mod hoist_invariant;
pub mod index_set_split;
pub mod inline_bodies;
pub mod interchange_sums;
pub mod modulo_unroll;
mod pass;
pub mod pipeline;
pub mod plan_memory;
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

pub(crate) use pass::Hoisted;
pub use pass::{Choice, Context, Invariant, Pass, Step, WorkDivision};
pub use pipeline::{AS_WRITTEN, List, NATIVE, OBJECT, RUST_SOURCE, STUDY};

#[cfg(test)]
use crate::loop_ir::Program;
use tapeloom_ir::{Kind, Problem};

/// All passes, sorted by name.
pub const PASSES: &[&Pass] = &[
    &clamp_bounds::PASS,
    &copy_elimination::PASS,
    &cut_pieces::PASS,
    &elide_zero_fill::PASS,
    &expand_library_calls::PASS,
    &hoist_invariant::PASS,
    &index_set_split::PASS,
    &inline_bodies::PASS,
    &interchange_sums::PASS,
    &modulo_unroll::PASS,
    &plan_memory::PASS,
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

/// Returns the pass with a name.
///
/// # Errors
/// [`Kind::Parse`] if there is no such pass. The message lists the existing names.
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

/// Runs the pass with a name on a program.
///
/// # Errors
/// See [`by_name`] and [`Pass::apply`].
#[cfg(test)]
pub(crate) fn apply(name: &str, program: &mut Program) -> Result<(), Problem> {
    by_name(name)?.apply(program, &mut Context::default()).map(|_| ())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::{List, PASSES};
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Files of this folder that are not passes.
    const OTHERS: [&str; 3] = ["mod", "pass", "pipeline"];

    #[test]
    fn every_file_is_a_row_of_its_name_and_runs_somewhere() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/passes");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let names = files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned());
        let names: BTreeSet<String> =
            names.filter(|name| !OTHERS.contains(&name.as_str())).collect();
        let rows = PASSES.iter().map(|pass| pass.name);
        assert!(rows.eq(names.iter().map(String::as_str)), "{names:?}");
        let used = List::ALL.iter().flat_map(|list| list.steps).map(|step| step.pass.name);
        let used: BTreeSet<String> = used.map(str::to_owned).collect();
        assert_eq!(used, names);
    }
}
