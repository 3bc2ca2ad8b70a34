//! Exchanged buffers: each piece has buffers of its own for the members that it computes.
//!
//! A loop that carries an array in two buffers exchanges their memory as a whole, so pieces cannot share them:
//!
//! ```text
//! serial i0 in 9 carry b1 = b2 {          concurrent i3 in 4 {
//!   for i1 in 64 {                          for i4 in 16 { %1: f64 = load b1[i3*16 + i4]; store b5[i4], %1 }
//!     %0: f64 = load b1[i1]                 serial i0 in 9 carry b5 = b6 {
//!     ..                                      for i1 in 16 { %0: f64 = load b5[i1]; .. store b6[i1], %2 }
//!     store b2[i1], %2                      }
//!   }                                       for i7 in 16 { %3: f64 = load b5[i7]; store b1[i3*16 + i7], %3 }
//! }                                       }
//! ```

use super::copy::{Copy, Replaced};
use super::looped;
use super::parts::{Members, Start};
use crate::loop_ir::{
    Address, Arg, BufferId, BufferVersion, Expr, Kernel, Origins, Parallelism, Stmt, visit,
};
use cranelift_entity::SecondaryMap;
use std::slice::from_ref;
use tapeloom_ir::{ArrayType, OrderedMap, Shape};

/// One of the buffers that a loop exchanges, in which each member of a batch has a row of elements.
pub(super) struct OwnRows {
    pub(super) buffer: BufferId,
    /// The number of elements of a row.
    row: usize,
    /// If the buffer holds the carried array before and after the statement: the buffer version that holds it (a
    /// version is one of the values that a buffer holds one after the other).
    carried: Option<BufferVersion>,
}

/// Returns the buffers that a loop over batch members, or a loop inside it, exchanges; `None` if an access lies outside
/// of the row of its member, or if another statement names a buffer that a loop inside exchanges. `named` has the
/// number of times that statements of the kernel name each buffer.
pub(super) fn exchanged(
    kernel: &Kernel,
    stmt: &Stmt,
    members: &Members,
    all: usize,
    named: &SecondaryMap<BufferId, usize>,
) -> Option<Vec<OwnRows>> {
    let mut here: OrderedMap<BufferId, usize> = OrderedMap::default();
    let mut pairs = Vec::new();
    visit(from_ref(stmt), &mut |stmt| {
        stmt.buffers(&mut |b| *here.entry(b).or_default() += 1);
        pairs.extend(stmt.carries().iter().copied());
    });
    pairs.retain(|c| c.input.buffer != c.output.buffer);
    let mut rows = Vec::new();
    for carry in pairs {
        let own = stmt.carries().contains(&carry);
        for held in [carry.input, carry.output] {
            if !own && here.get(&held.buffer) != Some(&named[held.buffer]) {
                return None;
            }
            let row = members.own_rows(kernel, stmt, all, held.buffer)?;
            let carried = (own && held == carry.input).then_some(held);
            rows.push(OwnRows { buffer: held.buffer, row, carried });
        }
    }
    Some(rows)
}

/// Adds buffers to a kernel for the rows of the `extent` members that begin with member `start`, and makes a copy of a
/// statement use them instead of the exchanged buffers. Returns the loops that copy carried arrays to the new buffers,
/// and the loops that copy them back.
pub(super) fn copies(
    copy: &mut Copy<'_>,
    rows: &[OwnRows],
    start: Start,
    extent: usize,
    origins: &Origins,
) -> [Vec<Stmt>; 2] {
    let mut loops = [Vec::new(), Vec::new()];
    for OwnRows { buffer, row, carried } in rows {
        let kernel = &mut *copy.kernel;
        let dtype = kernel.buffers[*buffer].ty.dtype;
        let own = kernel.scratch(ArrayType::new(dtype, Shape::from([extent * row])));
        kernel.versions[own] = kernel.versions[*buffer].clone();
        copy.buffers[*buffer] = Some(Replaced { buffer: own, row: None, relative: true });
        let Some(held) = carried else { continue };
        let kernel = &mut *copy.kernel;
        let inside = BufferVersion { buffer: own, ..*held };
        for (at, (from, to)) in [(*held, inside), (inside, *held)].into_iter().enumerate() {
            let (index, value) = (kernel.fresh_index(), kernel.scalars.push(dtype));
            let address = |of: BufferVersion| {
                let mut address = Address { terms: vec![(index, 1)], ..Address::default() };
                if of == *held {
                    start.shift(&mut address, *row as i64);
                }
                address
            };
            let expr = Expr::Load { held: from, address: address(from), guard: None };
            let value_of = Stmt::Let { value, expr };
            let (address, value) = (address(to), Arg::Scalar(value));
            let body = vec![value_of, Stmt::Store { held: to, address, value, guard: None }];
            loops[at].push(looped(index, extent * row, Parallelism::Parallel, body, origins));
        }
    }
    loops
}
