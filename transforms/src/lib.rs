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

pub(crate) mod ad;
mod api;
mod checkpoint;
mod dispatch;
mod loops;
pub(crate) mod passes;
mod pipeline;

#[cfg(test)]
#[path = "../../tests/src/sweeps.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a module of the crate `tests`")]
mod sweeps;

pub use ad::activity::{Activity, activity};
pub use ad::vjp::{VjpOf, vjp};
pub use api::{as_linear, batch, jvp, linearize, prune, transpose, unzip};
pub use checkpoint::{keep_carries, known_names};
pub use dispatch::Transforms;
pub use loops::{last_rows, ranges, rows, windows};
pub use passes::cost::Cost;
pub use passes::cse::cse;
pub use passes::dce::dce;
pub use passes::egraph::{
    Options as SimplifyOptions, Simplification, Simplified, simplify, simplify_relaxed,
    simplify_with,
};
pub use passes::inline::{expand, inline};
pub use passes::peephole::peephole;
pub use pipeline::{BEFORE_ACCELERATOR, BEFORE_CODE, BEFORE_RELAXED_CODE, PASSES, Pass, Pipeline};
