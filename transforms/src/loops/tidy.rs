//! What is done with loops before reverse mode.

use super::dedup_constants::shared;
use super::fold_ranges::ranges;
use super::last_rows::last_rows;
use super::narrow_carries::all_windows;
use tapeloom_ir::{FuncId, Module, Problem};

/// The same function, whose loops carry little.
pub(crate) fn tidy(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    let f = shared(module, f)?;
    let f = ranges(module, f)?;
    let f = all_windows(module, f)?;
    last_rows(module, f)
}
