//! What kind of work an equation is, for those who weigh repeating it.

use tapeloom_ir::analysis::placement::Placement;
use tapeloom_ir::prim::Lowering;
use tapeloom_ir::{Equation, Function, ValueId};

/// What is dearer than so many additions an element is not computed again by default.
const DEAR: u32 = 6;

/// What kind of work an equation is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpClass {
    /// Reads elements, or moves them.
    Moves,
    /// Writes elements among others.
    Writes,
    /// Arithmetic that costs little.
    Cheap,
    /// Everything else.
    Dear,
}

impl OpClass {
    /// That of an equation which lowers so.
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

/// Whether an equation gives an array of floats.
pub(crate) fn gives_floats(f: &Function, e: &Equation) -> bool {
    let float = |v: &ValueId| f.types[*v].as_array().is_some_and(|ty| ty.dtype.is_float());
    e.outputs.iter().any(float)
}
