//! The size of the residuals of a compiled gradient: bytes in memory between the forward and the reverse pass.

use super::{Given, Gradient};
use crate::Failure;
use tapeloom::prelude::*;

/// Bytes of residuals, and the peak memory of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// The bytes of the workspace that the forward pass writes and the reverse pass reads.
    pub planned: usize,
    /// The peak bytes of recordings of loops of unknown trip count, including iterations that the reverse pass
    /// recomputes.
    pub records: usize,
    /// The bytes of arguments, results, workspace and recordings together.
    pub peak: usize,
}

impl Kept {
    /// Returns the bytes of all residuals.
    pub fn bytes(self) -> usize {
        self.planned + self.records
    }

    /// Measures a gradient, which is called once.
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
