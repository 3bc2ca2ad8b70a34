//! What a compiled gradient keeps: bytes that lie in memory between forward and backward.

use super::{Given, Gradient};
use crate::Failure;
use tapeloom::prelude::*;

/// Bytes alive between forward and backward, and the most that a call uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// What the forward pass leaves in the workspace, and the way back reads.
    pub planned: usize,
    /// What the iterations of loops kept at most whose number only the run knows, also of iterations that the
    /// backward pass ran again.
    pub records: usize,
    /// Arguments, results, workspace and records together.
    pub peak: usize,
}

impl Kept {
    /// All that is kept.
    pub fn bytes(self) -> usize {
        self.planned + self.records
    }

    /// Of a gradient, which is called once.
    ///
    /// # Errors
    /// What the compiler says.
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
