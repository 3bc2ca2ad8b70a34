//! Measurements of a call.

use std::fmt;
use tapeloom_backend::CallResources;
use tapeloom_ir::LoopCount;

/// Measurements of a call: iterations of loops, and memory in bytes. Returned by [`Jit::report`](super::Jit::report).
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(grad(|x: Var| while_loop(|x: Var| x.lt(100.0), |x: Var| x * x.exp(), x)));
/// let (_, report) = f.report(0.5)?;
/// // The loops of forward and reverse pass, with four iterations each.
/// assert_eq!(report.loops.iter().map(|l| l.iterations).collect::<Vec<_>>(), [4, 4]);
/// // Each of the four iterations saves at least 16 bytes.
/// assert!(report.records >= 4 * 16);
/// println!("{report}");
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CallReport {
    /// The loops whose trip count is known only at run time, including loops of derivatives. An inner loop precedes its
    /// outer loop.
    pub loops: Vec<LoopCount>,
    /// The bytes of arguments, captured data included.
    pub arguments: usize,
    /// The bytes of results.
    pub results: usize,
    /// The bytes of workspace, as [`explain`](super::Jit::explain) reports it before the call.
    pub workspace: usize,
    /// The peak bytes of residuals that loops with a run-time trip count saved for the reverse pass.
    pub records: usize,
}

impl CallReport {
    pub(super) fn of(taken: CallResources, arguments: usize, results: usize) -> CallReport {
        let CallResources { mut loops, workspace, records, timed: _ } = taken;
        loops.retain(|l| l.runtime);
        CallReport { loops, arguments, results, workspace, records }
    }

    /// Returns the sum of all bytes: the most memory that the call used.
    pub fn peak_bytes(&self) -> usize {
        self.arguments + self.results + self.workspace + self.records
    }
}

impl fmt::Display for CallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.loops.is_empty() {
            writeln!(f, "{:>10} {:>12} {:>12}  loop", "entered", "iterations", "most")?;
        }
        for LoopCount { location, entered, iterations, most, .. } in &self.loops {
            let line = location.map_or(String::new(), |l| format!("{}:{}", l.file(), l.line()));
            writeln!(f, "{entered:>10} {iterations:>12} {most:>12}  {line}")?;
        }
        let CallReport { arguments, results, workspace, records, .. } = self;
        writeln!(
            f,
            "{} bytes: arguments {arguments}, results {results}, workspace {workspace}, records of \
             loops {records}",
            self.peak_bytes()
        )
    }
}
