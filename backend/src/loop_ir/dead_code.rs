//! Dead code: values and variables that nobody reads go.
//!
//! Stores stay; those that are stored over go in [`redundant_memory`](crate::passes::redundant_memory).

use super::{Arg, Assign, ScalarId, Stmt, VarId, visit};
use cranelift_entity::EntitySet;

/// Drops values and variables that nobody reads.
pub(crate) fn drop_dead(body: &mut Vec<Stmt>) {
    loop {
        drop_unread(body, &|_| true);
        let (mut read, mut all) = (EntitySet::new(), EntitySet::new());
        visit(body, &mut |stmt| {
            // A fold reads what it folds into, for itself.
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

/// Drops those of some values that nobody reads.
pub(crate) fn drop_unread(body: &mut Vec<Stmt>, among: &dyn Fn(ScalarId) -> bool) {
    sweep(body, among, &mut EntitySet::new());
}

/// Drops all values but some and those that they are computed of.
pub(crate) fn slice(body: &mut Vec<Stmt>, wanted: &[ScalarId]) {
    let mut live = EntitySet::new();
    live.extend(wanted.iter().copied());
    sweep(body, &|_| true, &mut live);
}

/// One walk backwards, from the stores and what is `live` behind them to what they need.
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
        // The last block first: the body of a `while` reads what its head defines.
        for inside in stmt.blocks_mut().into_iter().rev() {
            sweep(inside, among, live);
        }
        body.push(stmt);
    }
    body.reverse();
}
