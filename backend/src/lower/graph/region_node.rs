//! Regions: nodes with several results or with effects (calls, branches, loops, external functions).
//!
//! Calls of functions that are compiled once, loops and branches are regions. The functions that they run are lowered
//! separately, to kernels. The workspace of such a kernel is a frame: a part of the workspace of the caller, whose
//! lifetime is the top-level statement (step) of the region. So the lifetime of an array that a loop reads lasts to the
//! end of the loop, and that of an array that an iteration computes lies within this iteration, without further
//! analysis.
//!
//! In the graph a region is represented by its results (`NodeKind::Result`), in loop trees by a top-level statement
//! (step).
//!
//! A region with an ordered effect runs even if its results have no readers. Such regions run in program order: the
//! step of a region is placed after all earlier steps (`Timeline::insert`), and `verify_tree` checks the resulting
//! order.

use crate::loop_ir::{ExternalSignature, KernelId};
use cranelift_entity::entity_impl;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use tapeloom_ir::prim::LoopSpec;

/// A region of a graph: a call, branch, loop or external function. Displays as `r3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RegionId(u32);
entity_impl!(RegionId, "r");

/// A node that runs kernels or an external function.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) kind: RegionKind,
    pub(crate) results: usize,
    /// Results whose initial value is an operand, as (operand number, result number). If the operand has no
    /// later reader, the result takes over its memory; otherwise the operand is copied first.
    pub(crate) initial_values: Vec<(usize, usize)>,
    /// For a loop: the indices of carried results that iterations cannot compute in place. Each of these results has
    /// two buffers, which are swapped after each iteration. For a branch: the indices of results that some of the
    /// branches compute in other memory and then copy.
    pub(crate) double_buffered: Vec<usize>,
    /// The indices of the results that are tapes. Each iteration of the loop writes a record (its residuals) to each of
    /// these tapes.
    pub(crate) written: Vec<usize>,
    /// The indices of the operands that are tapes. Each iteration of the loop reads a record (residuals of one
    /// iteration) from each of these tapes.
    pub(crate) read: Vec<usize>,
    /// Whether the region has an ordered effect, such as a print.
    pub(crate) ordered: bool,
}

/// The kinds of regions: nodes that run kernels or an external function.
#[derive(Clone, Debug)]
pub(crate) enum RegionKind {
    /// Calls a function that is compiled separately.
    Call(KernelId),
    /// Calls the built-in kernel of a primitive.
    Routine(KernelId),
    /// Runs one of several kernels, selected by the first operand.
    Branch(Vec<KernelId>),
    /// Runs kernel `body` in each iteration.
    Loop {
        body: KernelId,
        /// For a while loop: the kernel that decides whether another iteration runs.
        condition: Option<KernelId>,
        spec: LoopSpec,
    },
    /// Calls a Rust function or a library routine.
    CallExternal(Arc<ExternalSignature>),
}

impl RegionKind {
    /// Returns the kernels that the call, branch or loop runs; none for an external function.
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
    /// Returns whether the last iteration of a loop may leave a result in the second of the result's two buffers, which
    /// are exchanged after each iteration.
    pub(crate) fn ends_elsewhere(&self, result: usize) -> bool {
        matches!(self.kind, RegionKind::Loop { .. }) && self.double_buffered.contains(&result)
    }

    /// Returns a region whose results take over no memory, without tapes and without an effect.
    pub(crate) fn new(kind: RegionKind, results: usize) -> Region {
        let (initial_values, double_buffered, written, read) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Region { kind, results, initial_values, double_buffered, written, read, ordered: false }
    }
}
