//! Rewrites that reorder the memory accesses of a loop program before it runs on the simulated machine.
//!
//! Lowering leaves loop-invariant computations and loads in the loop body; `hoisted` moves them in front of the loop,
//! as other compilers do.
//!
//! `mirrored` reorders loads from the tape. The misses of a cache with few ways depend on the order in which an
//! iteration touches several arrays. A compiler that differentiates instruction by instruction loads from the tape in
//! the opposite order of the stores; programs here load each value where it is used. `RunConfig::mirrored` requests
//! the compiler's order; apart from that order the program is the same.
//!
//! ```text
//! store b8[i], %1             %1: f64 = load b8[i]             %4: f64 = load b9[i]
//! store b9[i], %2             %2: f64 = load b0[i]      ->     %1: f64 = load b8[i]
//!                             %4: f64 = load b9[i]             %2: f64 = load b0[i]
//! ```

use crate::layout::reverse_pass_start;
use crate::loop_ir::analysis::invariance::VaryingValues;
use crate::loop_ir::{BufferId, Expr, Extent, Kernel, Place, Program, Stmt, visit};
use cranelift_entity::SecondaryMap;

/// Returns the program with loop-invariant computations and loads of arguments moved in front of their loops. If
/// arrays may `overlap`, the loads of a loop that stores to memory stay in the loop.
pub(super) fn hoisted(program: &Program, overlap: bool) -> Program {
    let mut program = program.clone();
    let mut body = std::mem::take(&mut program.entry.body);
    for step in &mut body {
        let mut before = inside(&program.entry, overlap, step);
        if !before.is_empty() {
            let origins = step.own_origins();
            let empty = Stmt::Nest { body: Vec::new(), origins: origins.clone() };
            before.push(std::mem::replace(step, empty));
            *step = Stmt::Nest { body: before, origins };
        }
    }
    program.entry.body = body;
    program
}

/// Moves invariant statements out of the loop `stmt` and its inner loops. Returns the moved statements, which the
/// caller places before the loop.
fn inside(k: &Kernel, overlap: bool, stmt: &mut Stmt) -> Vec<Stmt> {
    for block in stmt.blocks_mut() {
        let all = std::mem::take(block);
        for mut stmt in all {
            block.extend(inside(k, overlap, &mut stmt));
            block.push(stmt);
        }
    }
    let mut varies = VaryingValues::of(std::slice::from_ref(stmt));
    // Hoist only from loops with a constant trip count of at least 1: in front of a loop without iterations, a hoisted
    // load would be an access that the program does not make.
    let Stmt::For { extent: Extent::Constant(1..), body, .. } = stmt else {
        return Vec::new();
    };
    let reads = !(overlap && varies.stores());
    let mut before = Vec::new();
    for stmt in std::mem::take(body) {
        let same = match &stmt {
            Stmt::Let { expr: Expr::Code(..), .. } => true,
            Stmt::Let { expr: Expr::Load { held, address, .. }, .. } => {
                // A load at a constant address reads a scalar argument: hoist it even if arrays overlap, since source
                // programs read scalars before the loop.
                let once = address.terms.is_empty() && address.dynamic.is_none();
                (reads || once) && matches!(k.buffers[held.buffer].place, Place::Input(_))
            }
            _ => false,
        };
        if same && varies.is_all_fixed(&stmt) {
            varies.fix(stmt.defined());
            before.push(stmt);
        } else {
            body.push(stmt);
        }
    }
    before
}

/// Returns the program with all loads from the tape at the start of each block of the reverse phase: the value that
/// the forward phase stored last is loaded first.
pub(super) fn mirrored(program: &Program) -> Program {
    let mut program = program.clone();
    let Some(reverse_start) = reverse_pass_start(&program) else { return program };
    let entry = &mut program.entry;
    let mut stored: SecondaryMap<BufferId, usize> = SecondaryMap::new();
    let mut last = 0;
    visit(&entry.body[..reverse_start], &mut |stmt| {
        stmt.accesses(&mut |a| {
            if a.write && entry.kept.keys().any(|held| held.buffer == a.held.buffer) {
                last += 1;
                stored[a.held.buffer] = last;
            }
        });
    });
    let mut body = std::mem::take(&mut entry.body);
    body[reverse_start..].iter_mut().for_each(|step| blocks(&stored, step));
    entry.body = body;
    program
}

fn blocks(stored: &SecondaryMap<BufferId, usize>, stmt: &mut Stmt) {
    for block in stmt.blocks_mut() {
        block.iter_mut().for_each(|stmt| blocks(stored, stmt));
        let written: Vec<BufferId> = {
            let mut written = Vec::new();
            visit(block, &mut |s| {
                s.accesses(&mut |a| written.extend(a.write.then_some(a.held.buffer)))
            });
            written
        };
        // Statements are sorted by descending rank. A load from the tape ranks higher if the forward phase stored its
        // array later. The rank is 0 for other statements, and for loads whose address or element another statement of
        // the block may compute.
        let rank = |stmt: &Stmt| match stmt {
            Stmt::Let { expr: Expr::Load { held, address, guard: None }, .. }
                if address.dynamic.is_none()
                    && !written.contains(&held.buffer)
                    && stored[held.buffer] > 0 =>
            {
                stored[held.buffer]
            }
            _ => 0,
        };
        block.sort_by_key(|stmt| std::cmp::Reverse(rank(stmt)));
    }
}
