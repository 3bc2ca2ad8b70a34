//! The results of a call, and the resources (iterations, memory) that the call used.

use crate::loop_ir::Timed;
use smallvec::SmallVec;
use tapeloom_ir::{Kind, LoopCount, Problem, Tensor};

/// The results of a call. Up to four results are stored inline, without an allocation for the list.
pub type Results = SmallVec<[Tensor; 4]>;

/// The resources that a call used: iterations and memory, besides arguments and results.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CallResources {
    /// For each loop that counts its iterations: the count, in the order in which the loops are compiled.
    pub loops: Vec<LoopCount>,
    /// The bytes of workspace that the call used.
    pub workspace: usize,
    /// The peak bytes of the dynamic tapes: residuals of loops whose trip count is known only at run time.
    pub records: usize,
    /// The times that the program's timers measured; `None` if it has no timers.
    pub timed: Option<Timed>,
}

/// Returns the error that the caller gave memory for `got` results, while the program `name` has `want`.
#[cold]
pub(crate) fn wrong_results(name: &str, want: usize, got: usize) -> Problem {
    let message = format!("@{name} has {want} results, and there is memory for {got}");
    Problem::new(Kind::Arguments, message, "give one tensor for each result")
}
