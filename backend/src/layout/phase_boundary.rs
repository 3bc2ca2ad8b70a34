//! Finds the step (top-level statement of a program) at which the reverse pass begins.

use crate::loop_ir::{BufferVersion, Place, Program, visit};
use tapeloom_ir::OrderedSet;

/// Returns the index of the first step (top-level statement) of the reverse pass: the first step that reads residuals
/// of an earlier step and saves none (a step that does both belongs to the forward pass). Returns `None` if the program
/// has no such step.
pub(crate) fn reverse_pass_start(program: &Program) -> Option<usize> {
    let entry = &program.entry;
    let mut kept: OrderedSet<Option<BufferVersion>> = OrderedSet::default();
    for (n, step) in entry.body.iter().enumerate() {
        let (mut keeps, mut reads) = (OrderedSet::default(), false);
        visit(std::slice::from_ref(step), &mut |stmt| {
            stmt.accesses(&mut |a| {
                let held = a.held;
                // The key `None` stands for all residuals on dynamic tapes, which count as one residual.
                let what = match entry.buffers[a.held.buffer].place {
                    Place::Record { .. } => None,
                    _ if entry.kept.contains_key(&held) => Some(held),
                    _ => return,
                };
                match a.write {
                    true => {
                        keeps.insert(what);
                    }
                    false => reads |= kept.contains(&what),
                }
            });
        });
        if reads && keeps.is_empty() {
            return Some(n);
        }
        kept.extend(keeps);
    }
    None
}
