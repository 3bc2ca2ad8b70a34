//! What can be seen of a nest before anything is made for it.

use super::Refused;
use crate::loop_ir::{BufferId, Extent, Stmt, visit};

/// A nest of fewer elements is not worth a call.
const LEAST_ELEMENTS: usize = 32;

/// Refuses a nest that has a statement or an extent of another kind, an array in registers, or few elements.
pub(super) fn acceptable(stmt: &Stmt, in_memory: &dyn Fn(BufferId) -> bool) -> Result<(), Refused> {
    if !matches!(stmt, Stmt::For { .. }) {
        return Err(Refused("it is no loop"));
    }
    let mut refusal = None;
    let mut elements = 0usize;
    visit(std::slice::from_ref(stmt), &mut |s| {
        let why = match s {
            Stmt::For { extent: Extent::Scalar(_), .. } => {
                Some("an extent is known at run time only")
            }
            Stmt::For { carries, .. } if !carries.is_empty() => Some("a loop hands arrays on"),
            Stmt::For { lanes: 1, body, .. } if !has_lanes(body) => Some("a loop has no lanes"),
            Stmt::For { .. }
            | Stmt::Nest { .. }
            | Stmt::Let { .. }
            | Stmt::Var { .. }
            | Stmt::Set { .. }
            | Stmt::Fold { .. }
            | Stmt::Store { .. } => None,
            Stmt::While { .. } => Some("there is a `while`"),
            Stmt::If { .. } => Some("there is a branch"),
            Stmt::Contract(_) => Some("there is a contraction"),
            Stmt::Call(_) | Stmt::CallExternal(_) => Some("there is a call"),
            Stmt::Tape(_) | Stmt::Limit(_) => Some("a tape or a limit is there"),
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
    count(std::slice::from_ref(stmt), 1, &mut elements);
    if elements < LEAST_ELEMENTS {
        return Err(Refused("it has few elements"));
    }
    Ok(())
}

fn has_lanes(body: &[Stmt]) -> bool {
    let mut found = false;
    visit(body, &mut |s| found |= matches!(s, Stmt::For { lanes: 2.., .. }));
    found
}

/// The elements of all loops in lanes.
fn count(body: &[Stmt], times: usize, elements: &mut usize) {
    for stmt in body {
        let mut inner = times;
        if let Stmt::For { extent: Extent::Constant(extent), lanes, .. } = stmt {
            inner = times.saturating_mul(*extent);
            if *lanes > 1 {
                *elements = elements.saturating_add(inner);
                continue;
            }
        }
        stmt.blocks().iter().for_each(|b| count(b, inner, elements));
    }
}
