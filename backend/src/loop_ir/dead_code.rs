//! Dead-code elimination in loop programs: removes scalar values and variables without readers.
//!
//! Stores are never removed here. The pass [`redundant_memory`](crate::passes::redundant_memory) removes overwritten
//! stores.

use super::{Arg, Assign, ScalarId, Stmt, VarId, visit};
use cranelift_entity::EntitySet;

/// Removes the scalar values and variables that no statement reads.
pub(crate) fn drop_dead(body: &mut Vec<Stmt>) {
    loop {
        drop_unread(body, &|_| true);
        let (mut read, mut all) = (EntitySet::new(), EntitySet::new());
        visit(body, &mut |stmt| {
            // A fold reads the variable that it assigns; this read alone does not make the variable live.
            let mut own = stmt.assigned().and_then(|(var, how)| {
                all.insert(var);
                matches!(how, Assign::Fold(_)).then_some(var)
            });
            stmt.args(&mut |a| {
                if let Arg::Var(v) = a
                    && own.take_if(|own| *own == v).is_none()
                {
                    read.insert(v);
                }
            });
        });
        if all.iter().all(|v: VarId| read.contains(v)) {
            return;
        }
        drop_assigned(body, &|v| !read.contains(v));
    }
}

fn drop_assigned(body: &mut Vec<Stmt>, unread: &dyn Fn(VarId) -> bool) {
    body.retain(|stmt| !stmt.assigned().is_some_and(|(var, _)| unread(var)));
    for stmt in body {
        stmt.blocks_mut().into_iter().for_each(|inside| drop_assigned(inside, unread));
    }
}

/// Removes the scalar values that no statement reads, among those for which `among` returns true.
pub(crate) fn drop_unread(body: &mut Vec<Stmt>, among: &dyn Fn(ScalarId) -> bool) {
    sweep(body, among, &mut EntitySet::new());
}

/// Removes all scalar values except those in `wanted` and the values from which they are computed.
pub(crate) fn slice(body: &mut Vec<Stmt>, wanted: &[ScalarId]) {
    let mut live = EntitySet::new();
    live.extend(wanted.iter().copied());
    sweep(body, &|_| true, &mut live);
}

/// Walks backward once over a block and removes the scalars for which `among` is true and that are not live: neither
/// needed by a store nor in `live`, the scalars that are read after the block.
fn sweep(body: &mut Vec<Stmt>, among: &dyn Fn(ScalarId) -> bool, live: &mut EntitySet<ScalarId>) {
    for mut stmt in std::mem::take(body).into_iter().rev() {
        if matches!(&stmt, Stmt::Let { value, .. } if among(*value) && !live.contains(*value)) {
            continue;
        }
        stmt.args(&mut |a| {
            if let Arg::Scalar(s) = a {
                live.insert(s);
            }
        });
        // Visit the last inner block first: the body of a `while` reads values that its head defines.
        for inside in stmt.blocks_mut().into_iter().rev() {
            sweep(inside, among, live);
        }
        body.push(stmt);
    }
    body.reverse();
}
