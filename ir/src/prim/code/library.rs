//! Library functions: operations for which a machine has no instruction.
//!
//! A [`Library`] entry has two C-callable functions, one for each float dtype. The interpreter and generated
//! code call the same function, so that both return the same bits. Vectorised loops call a version for eight
//! arguments if there is one ([`crate::math::vector_math`]), which returns the same bits too.

use super::{Continuity, OperandDtypes, Parameter, StableHlo};
use crate::lang::types::Dtype;
use crate::math::{Eight, Recording};
use crate::prim::SignOf;
use std::hash::{Hash, Hasher};

/// A library function: its name, its properties, and its f64 and f32 versions.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// The unique name; generated code links against the symbol with `_f64` or `_f32` appended.
    pub name: &'static str,
    /// The approximate cost of a call, relative to an addition, for the cost model.
    pub flops: u32,
    /// Whether the function is continuous. A branch cut counts as a discontinuity.
    pub continuity: Continuity,
    /// The rule for the sign of the result.
    pub sign: SignOf,
    /// The form of the function in StableHLO.
    pub stablehlo: StableHlo,
    /// The functions to call, one per float dtype.
    pub function: LibraryFn,
}

/// Hashes the name and the number `n` of an indexed function, which together identify the function.
impl Hash for Library {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name, self.function.parameter()).hash(state);
    }
}

/// The versions of a library function, by its arguments.
#[derive(Clone, Copy, Debug)]
pub enum LibraryFn {
    /// A function of one float argument.
    Unary {
        /// The version for f64.
        f64: extern "C" fn(f64) -> f64,
        /// The version for f32.
        f32: extern "C" fn(f32) -> f32,
        /// The version for eight arguments at once, for vectorised loops; returns the same bits.
        eight: Option<Eight>,
        /// A function that returns the recorded operations for a float dtype; `None` if the function has no
        /// recording for this dtype.
        recording: fn(Dtype) -> Option<&'static Recording>,
    },
    /// A function of two float arguments.
    Binary {
        /// The version for f64.
        f64: extern "C" fn(f64, f64) -> f64,
        /// The version for f32.
        f32: extern "C" fn(f32, f32) -> f32,
        /// A function that returns the recorded operations for a float dtype; `None` if the function has no
        /// recording for this dtype.
        recording: fn(Dtype) -> Option<&'static Recording>,
    },
    /// A function of three float arguments.
    Ternary {
        /// The version for f64.
        f64: extern "C" fn(f64, f64, f64) -> f64,
        /// The version for f32.
        f32: extern "C" fn(f32, f32, f32) -> f32,
    },
    /// A function of a constant whole number `n` and one float argument.
    Indexed {
        /// The constant first argument, which is fixed when the code is built.
        n: i64,
        /// The version for f64.
        f64: extern "C" fn(i64, f64) -> f64,
        /// The version for f32.
        f32: extern "C" fn(i64, f32) -> f32,
        /// A function that returns the recorded operations for a number `n` and a float dtype; `None` if the function
        /// has no recording for this number.
        recording: fn(i64, Dtype) -> Option<&'static Recording>,
    },
}

impl Library {
    /// Returns the recorded operations of the function for a float dtype, so that vector code can emit them
    /// inline; `None` if there is no recording.
    pub fn recording(&self, dtype: Dtype) -> Option<&'static Recording> {
        match self.function {
            LibraryFn::Unary { recording, .. } | LibraryFn::Binary { recording, .. } => {
                recording(dtype)
            }
            LibraryFn::Indexed { n, recording, .. } => recording(n, dtype),
            LibraryFn::Ternary { .. } => None,
        }
    }

    /// Returns the recorded operations of the f64 function for all arguments; `None` if there are none, because its source
    /// branches.
    pub fn whole(&self) -> Option<&'static Recording> {
        self.recording(Dtype::F64)?.whole.as_deref()
    }

    /// Returns the constant first argument of an indexed function; `None` for other functions.
    pub fn number(&self) -> Option<i64> {
        match self.function {
            LibraryFn::Indexed { n, .. } => Some(n),
            LibraryFn::Unary { .. } | LibraryFn::Binary { .. } | LibraryFn::Ternary { .. } => None,
        }
    }
}

impl LibraryFn {
    pub(super) const fn takes(self) -> OperandDtypes {
        match self {
            LibraryFn::Unary { .. } | LibraryFn::Indexed { .. } => OperandDtypes::Equal(1),
            LibraryFn::Binary { .. } => OperandDtypes::Equal(2),
            LibraryFn::Ternary { .. } => OperandDtypes::Equal(3),
        }
    }

    pub(super) const fn parameter(self) -> Option<Parameter> {
        match self {
            LibraryFn::Unary { .. } | LibraryFn::Binary { .. } | LibraryFn::Ternary { .. } => None,
            LibraryFn::Indexed { n, .. } => Some(Parameter::N(n)),
        }
    }
}

/// The remainder of floats; few machines have an instruction for it.
pub(super) const REM: Library = Library {
    name: "rem",
    flops: 8,
    continuity: Continuity::Jumps,
    sign: SignOf::Positive,
    stablehlo: StableHlo::Operation("stablehlo.remainder"),
    function: LibraryFn::Binary { f64: rem, f32: rem_f32, recording: |_| None },
};

extern "C" fn rem(x: f64, y: f64) -> f64 {
    x % y
}

extern "C" fn rem_f32(x: f32, y: f32) -> f32 {
    x % y
}
