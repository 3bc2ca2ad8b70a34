//! Perfect nests over contiguous memory as one loop.
//!
//! `for i in 100 { for j in 3 { y[3i + j] = f(x[3i + j]) } }` is `for i in 300 { y[i] = f(x[i]) }`:
//! long loops suit machines better than short ones.

use crate::kernel::{Arg, Expr, IndexId, Stmt};

/// Merges loops where all addresses allow it.
pub(crate) fn collapse(code: Vec<Stmt>) -> Vec<Stmt> {
    code.into_iter().map(statement).collect()
}

fn statement(stmt: Stmt) -> Stmt {
    let Stmt::For { index: outer, extent: n, body } = stmt else { return stmt };
    let mut body = collapse(body);
    if let [Stmt::For { index: inner, extent: m, body: innermost }] = body.as_mut_slice()
        && innermost.iter().all(|s| mergeable(s, outer, *inner, *m))
        && let Some(extent) = n.checked_mul(*m)
    {
        for s in innermost.iter_mut() {
            merge(s, outer);
        }
        return Stmt::For { index: *inner, extent, body: std::mem::take(innermost) };
    }
    Stmt::For { index: outer, extent: n, body }
}

/// Whether a statement uses the two indices only as `outer * extent + inner`.
fn mergeable(stmt: &Stmt, outer: IndexId, inner: IndexId, extent: usize) -> bool {
    let free = |a: &Arg| *a != Arg::Index(outer) && *a != Arg::Index(inner);
    let address = |a: &crate::kernel::Address| {
        let stride = |i: IndexId| a.terms.iter().find(|(t, _)| *t == i).map_or(0, |(_, s)| *s);
        stride(outer) == stride(inner) * extent as i64 && a.dynamic.as_ref().is_none_or(free)
    };
    match stmt {
        Stmt::For { .. } => false,
        Stmt::Let { expr: Expr::Code(_, args), .. } => args.iter().all(free),
        Stmt::Let { expr: Expr::Load { address: a, guard, .. }, .. } => {
            address(a) && guard.as_ref().is_none_or(free)
        }
        Stmt::Var { .. } => false,
        Stmt::Set { value, .. } | Stmt::Fold { value, .. } => free(value),
        Stmt::Store { address: a, value, guard, .. } => {
            address(a) && free(value) && guard.as_ref().is_none_or(free)
        }
    }
}

/// Forgets the outer index: the inner one now counts through both.
fn merge(stmt: &mut Stmt, outer: IndexId) {
    if let Stmt::Let { expr: Expr::Load { address, .. }, .. } | Stmt::Store { address, .. } = stmt {
        address.terms.retain(|(i, _)| *i != outer);
    }
}
