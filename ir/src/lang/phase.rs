//! Phases: the pass of differentiation to which an equation belongs.
//!
//! Reverse mode runs a program forward and then in reverse. The reverse of a reverse pass is of second order, and so
//! on. Each equation has three facts:
//!
//! | fact | meaning |
//! |---|---|
//! | `order` | how many transpositions made the equation: 0 in the forward pass, 1 in the reverse pass, 2 in its reverse pass |
//! | `transposed` | the equation computes cotangents; the other equations of a reverse pass compute primal values that these need |
//! | `rematerialized` | the forward pass has computed the same value, which was not saved |
//!
//! `transpose` and the checkpoint planner set these facts. The order of steps, fusion and the memory plan depend on
//! them: an equation of the reverse pass that must run after the forward pass is not fused into a loop of the forward
//! pass. So phases count in the equality of functions, as operands do. CSE ignores phases: of equal equations the first
//! one stays, with its phase.
//!
//! The text form has a line where the phase changes ([`crate::text`]):
//!
//! ```text
//! func @f.grad(%0: f64[], %1: f64[]) -> (f64[]) {
//!   %2: f64[] = cos %0
//! reverse transposed:
//!   %3: f64[] = mul %1, %2
//!   return %3
//! }
//! ```

use crate::lang::source_loc::Loc;
use std::fmt;

/// The pass of differentiation that an equation belongs to. The default is the forward pass.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug)]
pub struct Phase {
    /// The number of transpositions that made the equation: 0 in the forward pass, 1 in the reverse pass, 2 in the
    /// reverse pass of a reverse pass.
    pub order: u8,
    /// Whether the equation computes cotangents.
    pub transposed: bool,
    /// Whether the equation computes again a value that the forward pass has computed and not saved.
    pub rematerialized: bool,
}

impl Phase {
    /// The phase of the equations of a forward pass; it is the default.
    pub const FORWARD: Phase = Phase { order: 0, transposed: false, rematerialized: false };

    /// Returns the phase for an equation that transposition derives or copies from an equation of this phase; its order
    /// is one more. `transposed` says whether the new equation computes cotangents.
    #[must_use]
    pub fn reverse(self, transposed: bool) -> Phase {
        Phase { order: self.order.saturating_add(1), transposed, ..self }
    }

    /// Returns the phase that an equation gets when it is inlined in place of a call of phase `call`: a forward
    /// equation takes the phase of the call, any other keeps its own.
    #[must_use]
    pub fn within(self, call: Phase) -> Phase {
        if self == Phase::FORWARD { call } else { self }
    }

    /// Returns this phase, marked as recomputation of a value of the forward pass.
    #[must_use]
    pub fn rematerialized(self) -> Phase {
        Phase { rematerialized: true, ..self }
    }
}

/// Prints the text form, such as `reverse 2 transposed`.
impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Phase { order, transposed, rematerialized } = *self;
        match order {
            0 => f.write_str("forward")?,
            1 => f.write_str("reverse")?,
            n => write!(f, "reverse {n}")?,
        }
        f.write_str(if transposed { " transposed" } else { "" })?;
        f.write_str(if rematerialized { " rematerialized" } else { "" })
    }
}

/// The origin of an equation: a line of the user's source, and a phase of differentiation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Origin {
    /// The line of the user's source. It does not count in the equality of programs.
    pub loc: Loc,
    /// The phase of differentiation: forward or reverse pass, and of which order.
    pub phase: Phase,
}

impl Origin {
    /// Returns the origin of an equation of the forward pass at the source line `loc`.
    pub fn forward(loc: Loc) -> Origin {
        Origin { loc, phase: Phase::FORWARD }
    }

    /// Returns the origin that an equation gets when it is inlined in place of a call of origin `call`. An equation
    /// without a source line takes the line of the call.
    #[must_use]
    pub fn within(self, call: Origin) -> Origin {
        Origin { loc: self.loc.or(call.loc), phase: self.phase.within(call.phase) }
    }
}
