//! Regions: what gives several results at once, or has an effect, or both.
//!
//! A call of a function that is compiled once is one, and so are loops and branches. What they run is a
//! kernel each, scheduled by itself like any function; its workspace is a frame in the memory of the
//! graph, alive for the one step that the region is. So whatever is read in a loop lives to its end,
//! what an iteration works out lives in that iteration, and nothing else need be known of what is inside.
//!
//! In the graph a region is its results
//! (`NodeKind::Result`), in the trees a step of its own.
//!
//! A region with an ordered effect runs though nobody reads its results, and such regions run in the
//! order of the program: steps of their own are placed behind what is there (`Timeline::insert`), and
//! `check` looks at the order in the end.

use crate::loop_ir::{ExternalSignature, KernelId};
use cranelift_entity::entity_impl;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use tapeloom_ir::prim::LoopSpec;

/// A region of a graph. Displays as `r3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RegionId(u32);
entity_impl!(RegionId, "r");

/// A region.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) kind: RegionKind,
    /// Number of its results.
    pub(crate) results: usize,
    /// Results that begin as operands: which operand, which result. What nobody reads any more the
    /// result takes over, with its memory; anything else is copied there before.
    pub(crate) begins: Vec<(usize, usize)>,
    /// Results that an iteration does not make where it finds what it carries: two places take turns. Of
    /// branches: results that some make elsewhere, from where they are copied.
    pub(crate) exchanged: Vec<usize>,
    /// Results that are tapes, which the iterations of a loop write, a record each.
    pub(crate) written: Vec<usize>,
    /// Operands that are tapes, of which the iterations of a loop read a record each.
    pub(crate) read: Vec<usize>,
    /// Whether it has an ordered effect.
    pub(crate) ordered: bool,
}

/// What a region does.
#[derive(Clone, Debug)]
pub(crate) enum RegionKind {
    /// Calls a function that is compiled once.
    Call(KernelId),
    /// Calls what stands for a primitive.
    Routine(KernelId),
    /// Runs one of several kernels: the first operand says which.
    Branch(Vec<KernelId>),
    /// Runs a kernel iteration after iteration.
    Loop {
        body: KernelId,
        /// Whether there is another iteration, of a loop that asks.
        condition: Option<KernelId>,
        spec: LoopSpec,
    },
    /// Calls a Rust function or a library routine.
    CallExternal(Arc<ExternalSignature>),
}

impl RegionKind {
    /// The kernels that it runs.
    pub(crate) fn kernels(&self) -> SmallVec<[KernelId; 2]> {
        match self {
            RegionKind::Call(callee) | RegionKind::Routine(callee) => smallvec![*callee],
            RegionKind::Branch(branches) => branches.iter().copied().collect(),
            RegionKind::Loop { body, condition, .. } => {
                condition.iter().chain([body]).copied().collect()
            }
            RegionKind::CallExternal(_) => SmallVec::new(),
        }
    }
}

impl Region {
    /// Whether a result may be left in another place than its own: after an odd number of turns.
    pub(crate) fn ends_elsewhere(&self, result: usize) -> bool {
        matches!(self.kind, RegionKind::Loop { .. }) && self.exchanged.contains(&result)
    }

    /// One that takes nothing over and has no effect.
    pub(crate) fn new(kind: RegionKind, results: usize) -> Region {
        let (begins, exchanged, written, read) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Region { kind, results, begins, exchanged, written, read, ordered: false }
    }
}
