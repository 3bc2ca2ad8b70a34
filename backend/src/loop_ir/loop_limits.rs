//! Loops whose iterations are counted, so that a call can be limited, ended from outside, and asked what it
//! did:
//!
//! ```text
//! watch w0: runtime
//! program @f {
//!   nest {
//!     enter w0 for %0                 the loop begins; it will run %0 rounds
//!     serial i0 in (%0) {
//!       count w0                      a round begins
//!       ..
//! ```
//!
//! Programs have such statements only if they were asked for. They keep iterations in order, so a loop of known
//! length whose iterations have no order is not watched ([`unwatch`]): it ends as soon as it can.

use super::analysis::dependence::strongest;
use super::{Arg, Extent, Kernel, Parallelism, Stmt};
use cranelift_entity::entity_impl;
use tapeloom_ir::Loc;

/// The words for both kinds of loops.
pub(super) const RUNTIME: &str = "runtime";
pub(super) const STATIC: &str = "static";

/// A loop that is watched. Displays as `w3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchId(u32);
entity_impl!(WatchId, "w");

/// A loop that is watched.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Whether only the run knows how many iterations there are.
    pub runtime: bool,
    /// The user's line.
    pub loc: Loc,
}

/// What happens to a loop that is watched.
#[derive(Clone, PartialEq, Hash, Debug)]
pub enum Watch {
    /// `enter w0`, `enter w0 for %3`: it begins.
    Enter {
        /// Which.
        watch: WatchId,
        /// How many iterations there will be, an i64, where that is known.
        trip: Option<Arg>,
    },
    /// `count w0`: an iteration begins. The call ends where it is one too many.
    Count(WatchId),
}

impl Watch {
    /// Which loop.
    pub fn watch(&self) -> WatchId {
        match self {
            Watch::Enter { watch, .. } | Watch::Count(watch) => *watch,
        }
    }

    /// The scalar operands.
    pub fn args(&self, f: &mut dyn FnMut(Arg)) {
        match self {
            Watch::Enter { trip, .. } => trip.iter().for_each(|n| f(*n)),
            Watch::Count(_) => {}
        }
    }
}

/// Takes the watch from loops of known length whose iterations may run in any order.
pub(crate) fn unwatch(kernel: &mut Kernel) {
    let mut body = std::mem::take(&mut kernel.body);
    unwatch_block(kernel, &mut body);
    kernel.body = body;
}

fn unwatch_block(kernel: &Kernel, block: &mut Vec<Stmt>) {
    let mut free = Vec::new();
    for stmt in &mut *block {
        stmt.blocks_mut().into_iter().for_each(|b| unwatch_block(kernel, b));
        free.extend(freed(kernel, stmt));
    }
    block.retain(
        |stmt| !matches!(stmt, Stmt::Watch(Watch::Enter { watch, .. }) if free.contains(watch)),
    );
}

/// The watch that a loop need not have, and now has not.
fn freed(kernel: &Kernel, stmt: &mut Stmt) -> Option<WatchId> {
    let Stmt::For { extent: Extent::Constant(_), body, .. } = stmt else { return None };
    let Some(Stmt::Watch(Watch::Count(watch))) = body.first() else { return None };
    let (watch, count) = (*watch, body.remove(0));
    if strongest(kernel, stmt) != Parallelism::Serial {
        return Some(watch);
    }
    if let Stmt::For { body, .. } = stmt {
        body.insert(0, count);
    }
    None
}
