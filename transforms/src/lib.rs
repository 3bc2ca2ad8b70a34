//! Program transformations: functions to functions.
//!
//! | transform | type |
//! |---|---|
//! | [`jvp`] | `(x -> y)` to `(x, dx) -> (y, dy)` |
//! | [`linearize`] | `(x -> y)` to `x -> (y, saved)` and `(residuals; dx) -> dy` |
//! | [`unzip`] | `(x, u) -> (y, z)` to `x -> (y, saved)` and `(residuals, u) -> z` |
//! | [`transpose`] | `(k; dx) -> dy` to `(k; ct of dy) -> ct of dx` |
//! | [`vjp`] | `(x -> y)` to `(x, ct of y) -> (y, ct of x)`: linearize, then transpose |
//! | [`batch`] | `(x -> y)` to `([n, x]) -> [n, y]` |
//! | [`PASSES`] | a function to an equivalent one, simpler or cheaper |
//! | [`activity`] | the values that need a tangent |
//!
//! Each transform takes a closed function and appends a new closed function to the module, so nesting is composition
//! and perturbation confusion cannot be expressed: there is no global tape and no tag. The rules of each primitive are
//! in `tapeloom_ir::prim`; the walks here name no primitive. Models: JAX's autodidax; Radul et al., "You Only Linearize
//! Once" (POPL 2023); Dex.

#![cfg_attr(
    not(feature = "relaxed"),
    allow(dead_code, reason = "some costs are for equality saturation alone")
)]

pub(crate) mod ad;
mod api;
mod checkpoint;
mod dispatch;
mod loops;
pub(crate) mod passes;
mod pipeline;
mod vjp;

pub use ad::activity::{Activity, activity};
pub use api::{as_linear, batch, jvp, linearize, prune, simplify_with, transpose, unzip};
pub use checkpoint::{keep_carries, known_names};
pub use dispatch::Transforms;
pub use passes::cost::Cost;
pub use passes::egraph::Options as SimplifyOptions;
pub use passes::egraph::rules::unusable;
pub use passes::pass::Pass;
pub use passes::simplification::{Simplification, Simplified};
pub use pipeline::{
    BEFORE_ACCELERATOR, BEFORE_BUDGET, BEFORE_CODE, BEFORE_RELAXED_CODE, BEFORE_REVERSE,
    BEFORE_STABLEHLO, FLUSHED, List, Observed, PASSES, Step, by_name, changes,
};
pub use vjp::{VjpOf, vjp, vjp_within};
