//! The order of accesses, before a program runs on the machine.
//!
//! What is the same in all iterations of a loop is computed and read once, in front of it, as any compiler does;
//! the scheduler leaves it where it stands.
//!
//! What a cache of few ways misses depends on the order in which an iteration touches several arrays. Code that
//! is made by turning every instruction iteration loads from the tape in the opposite order of its stores;
//! programs here load when a value is wanted. So a run may ask for the other order, and the program knows
//! nothing of it.
//!
//! ```text
//! store b8[i], %1             %1: f64 = load b8[i]             %4: f64 = load b9[i]
//! store b9[i], %2             %2: f64 = load b0[i]      ->     %1: f64 = load b8[i]
//!                             %4: f64 = load b9[i]             %2: f64 = load b0[i]
//! ```

use crate::layout::turn;
use crate::loop_ir::analysis::invariance::Variant;
use crate::loop_ir::{BufferId, Expr, Extent, Kernel, Place, Program, Stmt, visit};
use cranelift_entity::SecondaryMap;

/// The same program, in which loops do not compute, or read of arguments, in each iteration what is the same in
/// all. Where arrays may `overlap`, a loop that stores to one reads again.
pub(super) fn hoisted(program: &Program, overlap: bool) -> Program {
    let mut program = program.clone();
    let mut body = std::mem::take(&mut program.entry.body);
    for step in &mut body {
        let mut before = inside(&program.entry, overlap, step);
        if !before.is_empty() {
            before.push(std::mem::replace(step, Stmt::Nest { body: Vec::new() }));
            *step = Stmt::Nest { body: before };
        }
    }
    program.entry.body = body;
    program
}

/// Takes from a loop, and from those in it, what stands in front of it now.
fn inside(k: &Kernel, overlap: bool, stmt: &mut Stmt) -> Vec<Stmt> {
    for block in stmt.blocks_mut() {
        let all = std::mem::take(block);
        for mut stmt in all {
            block.extend(inside(k, overlap, &mut stmt));
            block.push(stmt);
        }
    }
    let mut varies = Variant::of(stmt);
    // One that may not run reads nothing.
    let Stmt::For { extent: Extent::Constant(1..), body, .. } = stmt else {
        return Vec::new();
    };
    let reads = !(overlap && varies.stores());
    let mut before = Vec::new();
    for stmt in std::mem::take(body) {
        let same = match &stmt {
            Stmt::Let { expr: Expr::Code(..), .. } => true,
            Stmt::Let { expr: Expr::Load { held, address, .. }, .. } => {
                // What no index decides was read before there was a loop.
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

/// The same program, in which each block of the reverse phase begins with its loads from the tape, those that
/// the forward phase stored last first.
pub(super) fn mirrored(program: &Program) -> Program {
    let mut program = program.clone();
    let Some(turn) = turn(&program) else { return program };
    let entry = &mut program.entry;
    let mut stored: SecondaryMap<BufferId, usize> = SecondaryMap::new();
    let mut last = 0;
    visit(&entry.body[..turn], &mut |stmt| {
        stmt.accesses(&mut |a| {
            if a.write && entry.kept.keys().any(|held| held.buffer == a.held.buffer) {
                last += 1;
                stored[a.held.buffer] = last;
            }
        });
    });
    let mut body = std::mem::take(&mut entry.body);
    body[turn..].iter_mut().for_each(|step| blocks(&stored, step));
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
        // Which load from the tape it is, where nothing before it in the block decides where it loads.
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
