//! Functions that are called: what a machine has no instruction for.
//!
//! A [`Library`] entry is a pair of C-callable functions, one for each float; the interpreter and
//! generated code call the same one, so that both give the same bits. Loops in lanes call one of eight
//! arguments where there is one ([`crate::math::vector_math`]), which gives these bits, too.

use super::{Continuity, Parameter, Takes};
use crate::lang::types::Dtype;
use crate::math::{Eight, Recording};
use crate::prim::SignOf;
use std::hash::{Hash, Hasher};

/// A function that is called: its symbol and its two versions.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// Unique name; generated code links against it (with `_f64` or `_f32` appended).
    pub name: &'static str,
    /// What a call costs beside an addition, roughly: for the cost model.
    pub flops: u32,
    /// Whether it has steps, or a branch cut.
    pub continuity: Continuity,
    /// The sign of the result.
    pub sign: SignOf,
    /// What is called.
    pub function: LibraryFn,
}

/// A name is of one function, but for the number that it is given.
impl Hash for Library {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name, self.function.parameter()).hash(state);
    }
}

/// The versions of a library function.
#[derive(Clone, Copy, Debug)]
pub enum LibraryFn {
    /// Of one argument.
    Unary {
        /// On f64.
        f64: extern "C" fn(f64) -> f64,
        /// On f32.
        f32: extern "C" fn(f32) -> f32,
        /// Of eight arguments at once, for loops in lanes; with the same bits.
        eight: Option<Eight>,
        /// Its operations on that dtype.
        recording: Option<fn(Dtype) -> &'static Recording>,
    },
    /// Of two arguments.
    Binary {
        /// On f64.
        f64: extern "C" fn(f64, f64) -> f64,
        /// On f32.
        f32: extern "C" fn(f32, f32) -> f32,
    },
    /// Of three arguments.
    Ternary {
        /// On f64.
        f64: extern "C" fn(f64, f64, f64) -> f64,
        /// On f32.
        f32: extern "C" fn(f32, f32, f32) -> f32,
    },
    /// Of a constant natural number and one argument.
    Indexed {
        /// The number.
        n: u32,
        /// On f64.
        f64: extern "C" fn(u32, f64) -> f64,
        /// On f32.
        f32: extern "C" fn(u32, f32) -> f32,
    },
}

impl Library {
    /// Its operations on a float, if it is written down as such.
    pub fn recording(&self, dtype: Dtype) -> Option<&'static Recording> {
        match self.function {
            LibraryFn::Unary { recording, .. } => recording.map(|of| of(dtype)),
            LibraryFn::Binary { .. } | LibraryFn::Ternary { .. } | LibraryFn::Indexed { .. } => {
                None
            }
        }
    }
}

impl LibraryFn {
    pub(super) const fn takes(self) -> Takes {
        match self {
            LibraryFn::Unary { .. } | LibraryFn::Indexed { .. } => Takes::Equal(1),
            LibraryFn::Binary { .. } => Takes::Equal(2),
            LibraryFn::Ternary { .. } => Takes::Equal(3),
        }
    }

    pub(super) const fn parameter(self) -> Option<Parameter> {
        match self {
            LibraryFn::Unary { .. } | LibraryFn::Binary { .. } | LibraryFn::Ternary { .. } => None,
            LibraryFn::Indexed { n, .. } => Some(Parameter::N(n as i64)),
        }
    }
}

/// The remainder of floats, for which few machines have an instruction.
pub(super) const REM: Library = Library {
    name: "rem",
    flops: 8,
    continuity: Continuity::Jumps,
    sign: SignOf::Positive,
    function: LibraryFn::Binary { f64: rem, f32: rem_f32 },
};

extern "C" fn rem(x: f64, y: f64) -> f64 {
    x % y
}

extern "C" fn rem_f32(x: f32, y: f32) -> f32 {
    x % y
}
