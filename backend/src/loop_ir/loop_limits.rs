//! Limited loops: their iterations are counted, so that a call can be limited, cancelled, and asked for its
//! counts:
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
//! Programs have such statements only on request. The statements force iterations to run in order. So a loop of static
//! trip count with parallel iterations is not limited ([`unlimit`]); it ends in bounded time anyway.

use super::analysis::dependence::strongest;
use super::{Arg, Extent, Kernel, Parallelism, Stmt};
use cranelift_entity::entity_impl;
use tapeloom_ir::Loc;

/// The words of the text form for loops with a trip count that is known only at run time, and for loops with a static
/// one.
pub(super) const RUNTIME: &str = "runtime";
pub(super) const STATIC: &str = "static";

/// The id of a limited loop, whose iterations are counted. Displays as `l3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LoopLimitId(u32);
entity_impl!(LoopLimitId, "l");

/// A limited loop: its iterations are counted and may be limited.
#[derive(Clone, Debug)]
pub struct LoopLimit {
    /// Whether the trip count is known only at run time.
    pub runtime: bool,
    /// The user's source line of the loop.
    pub loc: Loc,
}

/// A statement on a limited loop.
#[derive(Clone, PartialEq, Hash, Debug)]
pub enum LimitStmt {
    /// `enter l0`, `enter l0 for %3`: the loop begins.
    Enter {
        /// The loop that begins.
        limit: LoopLimitId,
        /// The trip count, an i64, if it is known.
        trip: Option<Arg>,
    },
    /// `count l0`: an iteration begins. The call ends with an error if a limit of the call (iterations or
    /// cancellation) is reached.
    Count(LoopLimitId),
}

impl LimitStmt {
    /// Returns the limited loop to which the statement belongs.
    pub fn limit(&self) -> LoopLimitId {
        match self {
            LimitStmt::Enter { limit, .. } | LimitStmt::Count(limit) => *limit,
        }
    }

    /// Calls `f` with the scalar operands of the statement.
    pub fn args(&self, f: &mut dyn FnMut(Arg)) {
        match self {
            LimitStmt::Enter { trip, .. } => trip.iter().for_each(|n| f(*n)),
            LimitStmt::Count(_) => {}
        }
    }
}

/// Removes the limits of loops with static trip count whose iterations may run in any order.
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

/// Removes the `count` statement of a loop that needs no limit, and returns the id of the loop's limit.
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
