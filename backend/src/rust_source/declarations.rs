//! The declarations of a kernel's buffers in Rust: whether a buffer is a number or an array, and in front of which
//! statement it is declared.

use crate::loop_ir::{Arg, BufferId, Extent, Kernel, Place, Stmt, visit};
use std::collections::{BTreeMap, BTreeSet};

/// The way in which a local buffer is declared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Declaration {
    /// `let x = value;`, which replaces the first store of a number.
    AtStore,
    /// `let x: f64;`, in front of a statement that stores the number before it reads it.
    Deferred,
    /// `let x = 0.0;`, or the same with an array of zeros.
    Zeros,
}

/// The declarations of a kernel's local buffers.
#[derive(Default)]
pub(super) struct Declarations {
    /// The declared buffers, keyed by the statement in front of which the declarations are printed.
    places: BTreeMap<*const Stmt, Vec<(BufferId, Declaration)>>,
}

impl Declarations {
    /// Finds the place of each declaration: in the innermost block that contains all accesses to the buffer. If a
    /// buffer may keep a value from one iteration of a loop to the next, it is declared outside of the loop. Arrays of
    /// zeros are also declared outside of loops, so that they are allocated only once.
    pub(super) fn of(kernel: &Kernel) -> Declarations {
        let local = |id: &BufferId| is_local(kernel, *id);
        let all: BTreeSet<BufferId> = kernel.buffers.keys().filter(local).collect();
        let mut found = Declarations::default();
        let left = found.block(kernel, &kernel.body, &[], &all, false);
        debug_assert!(left.is_empty(), "outside of loops, every buffer is declared");
        found
    }

    /// Returns the buffers to declare in front of a statement.
    pub(super) fn at(&self, stmt: &Stmt) -> &[(BufferId, Declaration)] {
        self.places.get(&std::ptr::from_ref(stmt)).map_or(&[], Vec::as_slice)
    }

    /// Returns whether a statement only fills arrays with zeros directly after their declaration, which has already
    /// initialized them with zeros. Such a statement is not printed.
    pub(super) fn fills_zeros(&self, stmt: &Stmt) -> bool {
        let declared = self.at(stmt);
        match stmt {
            Stmt::For { carries, body, .. } if carries.is_empty() && !declared.is_empty() => {
                let mut only_zeros = true;
                visit(body, &mut |stmt| {
                    only_zeros &= match stmt {
                        Stmt::For { extent: Extent::Constant(_), .. } | Stmt::Nest { .. } => true,
                        Stmt::Store { held, value: Arg::Literal(x), .. } => {
                            x.bits == 0 && declared.iter().any(|(b, _)| *b == held.buffer)
                        }
                        _ => false,
                    };
                });
                only_zeros
            }
            _ => false,
        }
    }

    /// Places the declarations of the buffers of `wanted` that the block accesses. `end` has the buffers that are read
    /// after the block's last statement, by the head of a `while`. Returns the buffers that must be declared outside of
    /// the loop around the block.
    fn block(
        &mut self,
        kernel: &Kernel,
        block: &[Stmt],
        end: &[BufferId],
        wanted: &BTreeSet<BufferId>,
        inside_of_loop: bool,
    ) -> BTreeSet<BufferId> {
        let mut stmts = Vec::new();
        flatten(block, &mut stmts);
        // For each buffer, the positions in `stmts` of the statements that access it.
        let mut accesses: BTreeMap<BufferId, Vec<usize>> = BTreeMap::new();
        for (i, stmt) in stmts.iter().enumerate() {
            for buffer in accessed(stmt).into_iter().filter(|b| wanted.contains(b)) {
                accesses.entry(buffer).or_default().push(i);
            }
        }
        let mut outside: BTreeSet<BufferId> = end
            .iter()
            .copied()
            .filter(|b| wanted.contains(b) && !accesses.contains_key(b))
            .collect();
        let mut within: BTreeMap<usize, BTreeSet<BufferId>> = BTreeMap::new();
        let mut here: Vec<(BufferId, usize)> = Vec::new();
        for (buffer, at) in accesses {
            let first = at[0];
            let only = at.len() == 1 && !end.contains(&buffer);
            if only && may_contain(kernel, stmts[first], buffer) {
                within.entry(first).or_default().insert(buffer);
            } else {
                here.push((buffer, first));
            }
        }
        for (i, buffers) in within {
            let is_loop = matches!(stmts[i], Stmt::For { .. } | Stmt::While { .. });
            for (inner, end) in inner_blocks(stmts[i]) {
                let of_block: BTreeSet<BufferId> = buffers
                    .iter()
                    .copied()
                    .filter(|b| inner.iter().any(|stmt| accessed(stmt).contains(b)))
                    .collect();
                let left = self.block(kernel, inner, &end, &of_block, inside_of_loop || is_loop);
                here.extend(left.into_iter().map(|buffer| (buffer, i)));
            }
        }
        here.sort_unstable();
        here.dedup();
        for (buffer, first) in here {
            let declaration = declaration(kernel, stmts[first], buffer);
            if declaration == Declaration::Zeros && inside_of_loop {
                outside.insert(buffer);
            } else {
                let key = std::ptr::from_ref(stmts[first]);
                self.places.entry(key).or_default().push((buffer, declaration));
            }
        }
        outside
    }
}

/// Appends the statements of a block to `out`. A nest is replaced by the statements in it, because a nest is no scope
/// in Rust.
fn flatten<'a>(block: &'a [Stmt], out: &mut Vec<&'a Stmt>) {
    for stmt in block {
        match stmt {
            Stmt::Nest { body, .. } => flatten(body, out),
            _ => out.push(stmt),
        }
    }
}

/// Returns whether a buffer is a local variable: it is no argument, no result and no field of a tape record.
pub(super) fn is_local(kernel: &Kernel, buffer: BufferId) -> bool {
    match kernel.buffers[buffer].place {
        Place::Workspace(_) | Place::Private(_) | Place::Unplaced => true,
        Place::Input(_) | Place::Output(_) | Place::Donated { .. } | Place::Record { .. } => false,
    }
}

/// Returns whether a buffer is a single number in Rust, not an array.
pub(super) fn is_number(kernel: &Kernel, buffer: BufferId) -> bool {
    kernel.buffers[buffer].ty.shape.elements() == 1
}

/// Returns the buffers that a statement, or any statement inside it, accesses.
fn accessed(stmt: &Stmt) -> BTreeSet<BufferId> {
    let mut buffers = BTreeSet::new();
    visit(std::slice::from_ref(stmt), &mut |stmt| stmt.buffers(&mut |b| _ = buffers.insert(b)));
    buffers
}

/// Returns whether a buffer that only `stmt` accesses may be declared in one of the statement's blocks.
fn may_contain(kernel: &Kernel, stmt: &Stmt, buffer: BufferId) -> bool {
    let touches = |block: &[Stmt]| block.iter().any(|stmt| accessed(stmt).contains(&buffer));
    match stmt {
        Stmt::If { then, otherwise, .. } => touches(then) != touches(otherwise),
        Stmt::For { .. } => is_number(kernel, buffer),
        Stmt::While { head, carries, body, .. } => {
            let carried =
                carries.iter().any(|c| [c.input.buffer, c.output.buffer].contains(&buffer));
            let in_head = touches(head);
            is_number(kernel, buffer) && in_head != touches(body) && !(in_head && carried)
        }
        _ => false,
    }
}

/// Returns the blocks of a statement in which a buffer may be declared, each with the buffers that are accessed after
/// the block's last statement.
fn inner_blocks(stmt: &Stmt) -> Vec<(&[Stmt], Vec<BufferId>)> {
    let carries = stmt.carries().iter().flat_map(|c| [c.input.buffer, c.output.buffer]);
    let carried: Vec<BufferId> = carries.collect();
    stmt.blocks().into_iter().map(|block| (block, carried.clone())).collect()
}

fn declaration(kernel: &Kernel, first: &Stmt, buffer: BufferId) -> Declaration {
    if !is_number(kernel, buffer) {
        return Declaration::Zeros;
    }
    match (first, stores_first(first, buffer)) {
        (Stmt::Store { .. }, true) => Declaration::AtStore,
        (_, true) => Declaration::Deferred,
        (_, false) => Declaration::Zeros,
    }
}

/// Returns whether a statement, on every path through it, stores a number before it reads it.
fn stores_first(stmt: &Stmt, buffer: BufferId) -> bool {
    let first = |block: &[Stmt]| {
        let first = block.iter().find(|stmt| accessed(stmt).contains(&buffer));
        first.is_some_and(|first| stores_first(first, buffer))
    };
    match stmt {
        Stmt::Store { guard: None, held, .. } => held.buffer == buffer,
        Stmt::Nest { body, .. } => first(body),
        Stmt::If { then, otherwise, .. } => first(then) && first(otherwise),
        // A `while` evaluates its head at least once, but may skip its body.
        Stmt::While { head, .. } => first(head),
        _ => false,
    }
}
