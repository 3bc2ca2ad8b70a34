//! The size of the residuals of a compiled gradient: the bytes that are in memory between the forward and the reverse
//! pass.

use super::{Given, Gradient};
use crate::Failure;
use tapeloom::prelude::*;

/// The bytes of a gradient's residuals, and the peak memory of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// The bytes of the workspace that the forward pass writes and the reverse pass reads.
    pub planned: usize,
    /// The peak bytes of the dynamic tapes of loops with unknown trip count, including iterations that the reverse pass
    /// recomputes.
    pub records: usize,
    /// The peak bytes of arguments, results, workspace and dynamic tapes together.
    pub peak: usize,
}

impl Kept {
    /// Returns the bytes of all residuals.
    pub fn bytes(self) -> usize {
        self.planned + self.records
    }

    /// Calls a gradient once, and returns the size of its residuals.
    ///
    /// # Errors
    /// The errors of the compiler.
    pub fn of(
        gradient: Gradient,
        (variables, data, seed): &Given<Tensor>,
    ) -> Result<Kept, Failure> {
        let f = jit(gradient);
        let arguments = (variables, data, seed);
        let explained = f.explain(arguments)?;
        let planned = explained.tape().bytes();
        let report = f.report(arguments)?.1;
        Ok(Kept { planned, records: report.records, peak: report.peak_bytes() })
    }
}
