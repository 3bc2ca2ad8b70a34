//! Loops whose iterations are counted, so that a call can be limited, ended from outside, and asked what it
//! did:
//!
//! ```text
//! limit l0: runtime
//! program @f {
//!   nest {
//!     enter l0 for %0                 the loop begins; it will run %0 iterations
//!     serial i0 in (%0) {
//!       count l0                      an iteration begins
//!       ..
//! ```
//!
//! Programs have such statements only if they were asked for. They keep iterations in order, so a loop of known
//! length whose iterations have no order is not limited ([`unlimit`]): it ends as soon as it can.

use super::analysis::dependence::strongest;
use super::{Arg, Extent, Kernel, Parallelism, Stmt};
use cranelift_entity::entity_impl;
use tapeloom_ir::Loc;

/// The words for both kinds of loops.
pub(super) const RUNTIME: &str = "runtime";
pub(super) const STATIC: &str = "static";

/// A loop that is limited. Displays as `l3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LoopLimitId(u32);
entity_impl!(LoopLimitId, "l");

/// A loop that is limited.
#[derive(Clone, Debug)]
pub struct LoopLimit {
    /// Whether only the run knows how many iterations there are.
    pub runtime: bool,
    /// The user's line.
    pub loc: Loc,
}

/// What happens to a loop that is limited.
#[derive(Clone, PartialEq, Hash, Debug)]
pub enum LimitStmt {
    /// `enter l0`, `enter l0 for %3`: it begins.
    Enter {
        /// Which.
        limit: LoopLimitId,
        /// How many iterations there will be, an i64, where that is known.
        trip: Option<Arg>,
    },
    /// `count l0`: an iteration begins. The call ends where it is one too many.
    Count(LoopLimitId),
}

impl LimitStmt {
    /// Which loop.
    pub fn limit(&self) -> LoopLimitId {
        match self {
            LimitStmt::Enter { limit, .. } | LimitStmt::Count(limit) => *limit,
        }
    }

    /// The scalar operands.
    pub fn args(&self, f: &mut dyn FnMut(Arg)) {
        match self {
            LimitStmt::Enter { trip, .. } => trip.iter().for_each(|n| f(*n)),
            LimitStmt::Count(_) => {}
        }
    }
}

/// Takes the limit from loops of known length whose iterations may run in any order.
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

/// The limit that a loop need not have, and now has not.
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
