//! The stand-in for `regions.rs` in a build without the feature `relaxed`.

use super::Options;
use crate::passes::simplification::Simplification;
use tapeloom_ir::{Function, Kind, Module, Problem};

/// Returns the error that this build has no e-graphs.
pub(super) fn cheaper(
    _: &Module,
    _: &Function,
    _: &Options,
    _: &mut Simplification,
) -> Result<Function, Problem> {
    Err(Problem::new(
        Kind::Target,
        "equality saturation is not in this build: the feature `relaxed` is off",
        "build tapeloom with its default features, or with `relaxed` among them",
    ))
}
