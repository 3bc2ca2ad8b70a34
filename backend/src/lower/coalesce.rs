//! Perfect nests over contiguous memory as one loop.
//!
//! `for i in 100 { for j in 3 { y[3i + j] = f(x[3i + j]) } }` is `for i in 300 { y[i] = f(x[i]) }`:
//! long loops suit machines better than short ones.

use crate::loop_ir::{Address, Arg, Expr, Extent, IndexId, Stmt};

/// Merges loops where all addresses allow it.
pub(crate) fn collapse(code: Vec<Stmt>) -> Vec<Stmt> {
    code.into_iter().map(statement).collect()
}

fn statement(mut stmt: Stmt) -> Stmt {
    for inside in stmt.blocks_mut() {
        *inside = collapse(std::mem::take(inside));
    }
    let Stmt::For { index: outer, extent: Extent::Constant(n), carries, body, .. } = &mut stmt
    else {
        return stmt;
    };
    if let [Stmt::For { index: inner, extent: Extent::Constant(m), body: innermost, .. }] =
        body.as_mut_slice()
        && carries.is_empty()
        && innermost.iter().all(|s| mergeable(s, *outer, *inner, *m))
        && let Some(extent) = n.checked_mul(*m)
    {
        innermost.iter_mut().for_each(|s| merge(s, *outer));
        (*outer, *n) = (*inner, extent);
        *body = std::mem::take(innermost);
    }
    stmt
}

/// Whether a statement uses the two indices only as `outer * extent + inner`.
fn mergeable(stmt: &Stmt, outer: IndexId, inner: IndexId, extent: usize) -> bool {
    let free = |a: Arg| a != Arg::Index(outer) && a != Arg::Index(inner);
    let together = |a: &Address| a.stride(outer) == a.stride(inner) * extent as i64;
    let mut args = true;
    match stmt {
        Stmt::Nest { .. }
        | Stmt::For { .. }
        | Stmt::While { .. }
        | Stmt::If { .. }
        | Stmt::Var { .. }
        | Stmt::Contract(_)
        | Stmt::Call(_)
        | Stmt::Tape(_)
        | Stmt::Limit(_)
        | Stmt::CallHost(_) => false,
        Stmt::Let { expr: Expr::Load { address, guard, .. }, .. }
        | Stmt::Store { address, guard, .. } => {
            let value = if let Stmt::Store { value, .. } = stmt { Some(*value) } else { None };
            let others = [address.dynamic, *guard, value];
            together(address) && others.into_iter().flatten().all(free)
        }
        Stmt::Let { expr: Expr::Code(..), .. } | Stmt::Set { .. } | Stmt::Fold { .. } => {
            stmt.args(&mut |a| args &= free(a));
            args
        }
    }
}

/// Forgets the outer index: the inner one now counts through both.
fn merge(stmt: &mut Stmt, outer: IndexId) {
    if let Stmt::Let { expr: Expr::Load { address, .. }, .. } | Stmt::Store { address, .. } = stmt {
        address.terms.retain(|(i, _)| *i != outer);
    }
}
