//! Coalesces perfect nests over contiguous memory into one loop.
//!
//! `for i in 100 { for j in 3 { y[3i + j] = f(x[3i + j]) } }` becomes `for i in 300 { y[i] = f(x[i]) }`, because one
//! long loop has less overhead than many short ones.

use crate::loop_ir::{Address, Arg, Assign, Extent, IndexId, Stmt};

/// Merges each perfect nest of two loops with constant trip counts into one loop, if all addresses allow it.
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

/// Returns whether a statement uses the two loop indices only in addresses, as a multiple of `outer * extent + inner`.
fn mergeable(stmt: &Stmt, outer: IndexId, inner: IndexId, extent: usize) -> bool {
    let free = |a: Arg| a != Arg::Index(outer) && a != Arg::Index(inner);
    let together = |a: &Address| a.stride(outer) == a.stride(inner) * extent as i64;
    let shape = stmt.shape();
    let declares = matches!(shape.assigns, Some((_, Assign::Declare)));
    let element = shape.element.as_ref().is_none_or(|e| {
        together(e.address) && e.address.dynamic.into_iter().chain(e.guard).all(free)
    });
    shape.is_scalar() && !declares && element && shape.operands.iter().copied().all(free)
}

/// Removes the outer index from the statement's addresses: the inner index now counts through both loops.
fn merge(stmt: &mut Stmt, outer: IndexId) {
    if let Some(element) = stmt.shape_mut().element {
        element.address.terms.retain(|(i, _)| *i != outer);
    }
}
