//! Phases: to which pass of differentiation an equation belongs.
//!
//! Reverse mode runs a program forward and then in reverse; the reverse of a reverse pass is of second order, and so on.
//! Three facts are kept of each equation:
//!
//! | fact | meaning |
//! |---|---|
//! | `order` | how many transpositions made the equation: 0 in the forward pass, 1 in the reverse pass, 2 in its reverse pass |
//! | `transposed` | the equation computes cotangents; the others of a reverse pass compute what these need of the primal |
//! | `rematerialized` | the forward pass has computed the same value, which was not kept |
//!
//! `transpose` and the planner of checkpoints set them. Step order, fusion and the memory plan read them: an equation of
//! the reverse pass that waits for the end of the forward pass is in no loop of the forward pass. So two functions that
//! differ in phases are two functions: phases count in equality, as operands do. They never keep two equations apart
//! that compute the same: of equal equations the first one stays, with its phase.
//!
//! The text form has a line where phases begin to differ from the line before ([`crate::text`]):
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
    /// How many transpositions made the equation.
    pub order: u8,
    /// Whether it computes cotangents.
    pub transposed: bool,
    /// Whether the forward pass has computed the same value, which was not kept.
    pub rematerialized: bool,
}

impl Phase {
    /// The forward pass.
    pub const FORWARD: Phase = Phase { order: 0, transposed: false, rematerialized: false };

    /// The phase of what transposition makes of an equation of this one.
    #[must_use]
    pub fn reverse(self, transposed: bool) -> Phase {
        Phase { order: self.order.saturating_add(1), transposed, ..self }
    }

    /// The phase of an equation whose function is called by one of phase `call`: what runs forward in the function
    /// runs when the function does.
    #[must_use]
    pub fn within(self, call: Phase) -> Phase {
        if self == Phase::FORWARD { call } else { self }
    }

    /// The same phase, computed again.
    #[must_use]
    pub fn rematerialized(self) -> Phase {
        Phase { rematerialized: true, ..self }
    }
}

/// As the text form has it: `reverse 2 transposed`.
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

/// Where an equation comes from: a line of the user's source, and a phase of differentiation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Origin {
    /// The line, which counts in no equality of programs.
    pub loc: Loc,
    /// The phase.
    pub phase: Phase,
}

impl Origin {
    /// What a user's line does when the program runs forward.
    pub fn forward(loc: Loc) -> Origin {
        Origin { loc, phase: Phase::FORWARD }
    }

    /// The origin of an equation whose function is called by one of origin `call`: an equation without a line has that
    /// of the call.
    #[must_use]
    pub fn within(self, call: Origin) -> Origin {
        Origin { loc: self.loc.or(call.loc), phase: self.phase.within(call.phase) }
    }
}
