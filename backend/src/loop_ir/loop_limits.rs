//! Limited loops: loops whose iterations are counted, so that a call can be limited or cancelled, and its counts can
//! be read:
//!
//! ```text
//! limit l0: runtime
//! program @f {
//!   nest {
//!     enter l0 for %0                 the loop begins, with trip count %0
//!     serial i0 in (%0) {
//!       count l0                      an iteration begins
//!       ..
//! ```
//!
//! Programs have `enter` and `count` statements only on request. They force iterations to run in order. So a loop of
//! static trip count with parallel iterations is not limited ([`unlimit`]); it ends in bounded time anyway.

use super::analysis::dependence::strongest;
use super::{Arg, Extent, Kernel, Parallelism, Stmt};
use cranelift_entity::entity_impl;
use tapeloom_ir::Loc;

/// The words for limited loops in the text form: `runtime` for a trip count that is known only at run time, `static`
/// for a static one.
pub(super) const RUNTIME: &str = "runtime";
pub(super) const STATIC: &str = "static";

/// The id of a limited loop, whose iterations are counted. Displays as `l3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LoopLimitId(u32);
entity_impl!(LoopLimitId, "l");

/// A limited loop: its iterations are counted, and a call may limit their number.
#[derive(Clone, Debug)]
pub struct LoopLimit {
    /// Whether the trip count is known only at run time.
    pub runtime: bool,
    /// The user's source line of the loop.
    pub loc: Loc,
}

/// A statement that counts the runs or iterations of a limited loop.
#[derive(Clone, PartialEq, Hash, Debug)]
pub enum LimitStmt {
    /// `enter l0`, `enter l0 for %3`: a run of the loop begins.
    Enter {
        /// The limited loop of which a run begins.
        limit: LoopLimitId,
        /// The trip count of this run, an i64, if it is known before the first iteration.
        trip: Option<Arg>,
    },
    /// `count l0`: an iteration of the loop begins. If the limit of iterations is reached or the call has been
    /// cancelled, the call ends with an error.
    Count(LoopLimitId),
}

impl LimitStmt {
    /// Returns the limited loop to which the statement belongs.
    pub fn limit(&self) -> LoopLimitId {
        match self {
            LimitStmt::Enter { limit, .. } | LimitStmt::Count(limit) => *limit,
        }
    }

    /// Calls `f` with each scalar operand of the statement: the trip count, if there is one.
    pub fn args(&self, f: &mut dyn FnMut(Arg)) {
        match self {
            LimitStmt::Enter { trip, .. } => trip.iter().for_each(|n| f(*n)),
            LimitStmt::Count(_) => {}
        }
    }
}

/// Removes the limits of loops with static trip count whose iterations may run in any order, so that they stay
/// parallel.
pub(crate) fn unlimit(kernel: &mut Kernel) {
    kernel.rewrite(|kernel, body| unlimit_block(kernel, body));
}

fn unlimit_block(kernel: &Kernel, block: &mut Vec<Stmt>) {
    let mut free = Vec::new();
    for stmt in &mut *block {
        stmt.blocks_mut().into_iter().for_each(|b| unlimit_block(kernel, b));
        free.extend(freed(kernel, stmt));
    }
    block.retain(
        |stmt| !matches!(stmt, Stmt::Limit(LimitStmt::Enter { limit, .. }) if free.contains(limit)),
    );
}

/// If the loop `stmt` needs no limit, removes its `count` statement and returns the id of its limit.
fn freed(kernel: &Kernel, stmt: &mut Stmt) -> Option<LoopLimitId> {
    let Stmt::For { extent: Extent::Constant(_), body, .. } = stmt else { return None };
    let Some(Stmt::Limit(LimitStmt::Count(limit))) = body.first() else { return None };
    let (limit, count) = (*limit, body.remove(0));
    if strongest(kernel, stmt) != Parallelism::Serial {
        return Some(limit);
    }
    if let Stmt::For { body, .. } = stmt {
        body.insert(0, count);
    }
    None
}
