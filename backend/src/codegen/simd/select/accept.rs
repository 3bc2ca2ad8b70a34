//! Checks whether a nest of loops can become SIMD code, before any instruction is selected for the nest.

use super::Refused;
use crate::loop_ir::{BufferId, Extent, Kernel, Stmt, visit};
use tapeloom_ir::Code;

/// The least [`work`] of a nest that becomes SIMD code. Filling the row (the nest's arguments) and the call cost about
/// as much as a dozen vectors (an estimate).
const LEAST_WORK: usize = 128;

/// Returns the work of one execution of a statement for one element. A statement counts 1. Without SIMD code, a library
/// function is called for each element, so it counts twice its flops; and a fold of integers
/// or bools runs one element at a time, so it counts 4.
fn work(k: &Kernel, stmt: &Stmt) -> usize {
    match (stmt.shape().code, stmt) {
        (Some(Code::Library(library)), _) => 2 * library.flops.max(1) as usize,
        (_, Stmt::Fold { var, .. }) if !k.vars[*var].is_float() => 4,
        _ => 1,
    }
}

/// Returns an error for a nest with an unsupported statement or trip count, with an array that is promoted to
/// registers, or with less work than `LEAST_WORK`.
pub(super) fn acceptable(
    k: &Kernel,
    stmt: &Stmt,
    in_memory: &dyn Fn(BufferId) -> bool,
) -> Result<(), Refused> {
    if !matches!(stmt, Stmt::For { .. }) {
        return Err(Refused("it is no loop"));
    }
    let mut refusal = None;
    let mut total = 0usize;
    visit(std::slice::from_ref(stmt), &mut |s| {
        let why = match s {
            Stmt::For { extent: Extent::Scalar(_), .. } => {
                Some("a trip count is known at run time only")
            }
            Stmt::For { carries, .. } if !carries.is_empty() => Some("a loop carries arrays"),
            Stmt::For { .. }
            | Stmt::Nest { .. }
            | Stmt::Let { .. }
            | Stmt::Var { .. }
            | Stmt::Set { .. }
            | Stmt::Fold { .. }
            | Stmt::Store { .. } => None,
            Stmt::While { .. } => Some("it contains a `while` loop"),
            Stmt::If { .. } => Some("it contains a branch"),
            Stmt::Contract(_) => Some("it contains a contraction"),
            Stmt::Call(_) | Stmt::CallExternal(_) => Some("it contains a call"),
            Stmt::Tape(_) | Stmt::Limit(_) | Stmt::Lap(_) => {
                Some("it uses a tape, a limit or a timer")
            }
        };
        refusal = refusal.or(why);
        s.accesses(&mut |a| {
            if !in_memory(a.held.buffer) {
                refusal = refusal.or(Some("an array is in registers"));
            }
        });
    });
    if let Some(why) = refusal {
        return Err(Refused(why));
    }
    if without_lanes(stmt) {
        return Err(Refused("a loop has no lanes"));
    }
    count(k, std::slice::from_ref(stmt), 1, false, &mut total);
    if total < LEAST_WORK {
        return Err(Refused("it is too short for a call to pay"));
    }
    Ok(())
}

/// Returns whether a statement contains a loop that is neither a loop with lanes, nor around one, nor inside one.
fn without_lanes(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::For { lanes: 2.., .. } => false,
        Stmt::For { body, .. } => {
            let mut found = false;
            visit(body, &mut |s| found |= matches!(s, Stmt::For { lanes: 2.., .. }));
            !found || body.iter().any(without_lanes)
        }
        _ => stmt.blocks().iter().any(|b| b.iter().any(without_lanes)),
    }
}

/// Adds to `total` the work that `body`, executed `times` times, does in loops with lanes.
fn count(k: &Kernel, body: &[Stmt], times: usize, in_lanes: bool, total: &mut usize) {
    for stmt in body {
        let (mut inner, mut in_lanes) = (times, in_lanes);
        match stmt {
            Stmt::For { extent: Extent::Constant(extent), lanes, .. } => {
                inner = times.saturating_mul(*extent);
                in_lanes |= *lanes > 1;
            }
            _ if in_lanes => *total = total.saturating_add(times.saturating_mul(work(k, stmt))),
            _ => {}
        }
        stmt.blocks().iter().for_each(|b| count(k, b, inner, in_lanes, total));
    }
}
