//! Program transformations: functions to functions.
//!
//! | transform | type |
//! |---|---|
//! | [`jvp`] | `(x -> y)` to `(x, dx) -> (y, dy)` |
//! | [`linearize`] | `(x -> y)` to `x -> (y, kept)` and `(residuals; dx) -> dy` |
//! | [`unzip`] | `(x, u) -> (y, z)` to `x -> (y, kept)` and `(residuals, u) -> z` |
//! | [`transpose`] | `(k; dx) -> dy` to `(k; ct of dy) -> ct of dx` |
//! | [`vjp`] | `(x -> y)` to `(x, ct of y) -> (y, ct of x)`: linearize, then transpose |
//! | [`batch`] | `(x -> y)` to `([n, x]) -> [n, y]` |
//! | [`inline`], [`dce`], [`cse`], [`peephole`] | same function, tidier |
//! | [`simplify`] | same function, cheaper |
//! | [`activity`] | which values a derivative is about |
//!
//! Each takes a closed function and appends a new closed function to the module, so nesting is
//! composition and perturbation confusion cannot be expressed: there is no global tape and no tag.
//! What is specific to a primitive stands with it in `tapeloom_ir::prim`; the walkers here name none.
//! Models: JAX's autodidax; Radul et al., "You Only Linearize Once" (POPL 2023); Dex.

mod activity;
mod batch;
mod bodies;
mod cost;
mod cse;
mod dce;
mod inline;
mod jvp;
mod linearize;
mod pass;
mod peephole;
mod places;
mod prune;
mod regions;
mod simplify;
mod sweep;
mod tape;
mod transpose;
mod unzip;
mod vjp;

#[cfg(test)]
#[path = "../../tests/src/sweeps.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a module of the crate `tests`")]
mod sweeps;

pub use activity::{Activity, activity};
pub use cost::Cost;
pub use cse::cse;
pub use dce::dce;
pub use inline::{expand, inline};
pub use pass::{BEFORE_ACCELERATOR, BEFORE_CODE, BEFORE_RELAXED_CODE, PASSES, Pass, Pipeline};
pub use peephole::peephole;
pub use places::{last_rows, ranges, rows, windows};
pub use regions::{Transforms, as_linear, batch, jvp, linearize, prune, transpose, unzip};
pub use simplify::{
    Options as SimplifyOptions, Simplification, Simplified, simplify, simplify_relaxed,
    simplify_with,
};
pub use tape::{keep_carries, known_names};
pub use vjp::{VjpOf, vjp};
