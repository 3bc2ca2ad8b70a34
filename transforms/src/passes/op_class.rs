//! The kind of work of an equation, for decisions whether to repeat it.

use tapeloom_ir::analysis::placement::Placement;
use tapeloom_ir::prim::Lowering;
use tapeloom_ir::{Equation, Function, ValueId};

/// The largest cost per element, in additions, of an elementwise code that counts as cheap. Codes with a higher cost
/// are not recomputed by default.
const DEAR: u32 = 6;

/// The kind of work that an equation does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpClass {
    /// No arithmetic: reads or copies elements, or fills an array with their indices (views, slices, gathers, iota).
    Moves,
    /// Writes elements into an array whose other elements stay.
    Writes,
    /// Elementwise arithmetic of at most `DEAR` additions per element.
    Cheap,
    /// All other equations: expensive elementwise codes, reductions, contractions, calls, loops.
    Dear,
}

impl OpClass {
    /// Returns the kind of work of an equation with this lowering.
    pub(crate) fn of(lowering: &Lowering) -> OpClass {
        match lowering {
            Lowering::Elementwise(code)
                if code.row().library.is_none() && code.row().flops <= DEAR =>
            {
                OpClass::Cheap
            }
            Lowering::Iota { .. } => OpClass::Moves,
            Lowering::DynamicUpdateSlice => OpClass::Writes,
            other => match Placement::of(other) {
                Placement::View | Placement::Element => OpClass::Moves,
                Placement::Map | Placement::Reduction | Placement::Memory | Placement::Runs => {
                    OpClass::Dear
                }
            },
        }
    }
}

/// Returns whether some output of an equation is an array of floats.
pub(crate) fn gives_floats(f: &Function, e: &Equation) -> bool {
    let float = |v: &ValueId| f.types[*v].as_array().is_some_and(|ty| ty.dtype.is_float());
    e.outputs.iter().any(float)
}
