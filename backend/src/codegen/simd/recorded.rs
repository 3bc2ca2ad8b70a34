//! Functions inline: the recording of a function, as instructions.

use super::form::{Reg, Ty};
use super::select::Select;
use tapeloom_ir::Dtype;
use tapeloom_ir::prim::Library;

/// The result, and the mask of elements for which it holds (`None` where it always does); nothing where the function has
/// no recording.
pub(super) fn of(
    _: &mut Select<'_>,
    _: Library,
    _: Dtype,
    _: Ty,
    _: &[Reg],
) -> Option<(Reg, Option<Reg>)> {
    None
}
