//! The iterations of loops, and the rows, columns or terms of contractions, that one piece (a thread's share) computes.

use crate::loop_ir::{Address, BufferId, Contract, Extent, IndexId, Kernel, Stmt, visit};
use std::slice::from_ref;
use tapeloom_ir::OrderedMap;

/// The first iteration of the iterations that a piece (a thread's share of a loop) computes.
#[derive(Clone, Copy)]
pub(super) enum Start {
    /// This iteration.
    Constant(i64),
    /// `each` times the number of the piece, which is the value of the loop index `piece`.
    Piece { piece: IndexId, each: i64 },
}

impl Start {
    /// Moves an address from iteration 0 to the first iteration of the part. The address advances by `step` elements in
    /// each iteration.
    pub(super) fn shift(self, address: &mut Address, step: i64) {
        match self {
            Start::Constant(from) => {
                address.offset = address.offset.wrapping_add(from.wrapping_mul(step));
            }
            Start::Piece { piece, each } if step != 0 => {
                address.terms.push((piece, each.wrapping_mul(step)));
            }
            Start::Piece { .. } => {}
        }
    }
}

/// The members of a batch, and the loops and contractions that run along the members. A piece computes the values of
/// some members.
pub(super) struct Members {
    /// For each loop over batch members: the number of its iterations for each member.
    pub(super) loops: OrderedMap<IndexId, usize>,
    /// The number of batch members, if contractions along the members are cut, too; otherwise `None`.
    pub(super) contracted: Option<usize>,
}

impl Members {
    /// Returns the members for a batch in which each iteration of a loop counts as one member.
    pub(super) fn iterations_of(index: IndexId) -> Members {
        Members { loops: [(index, 1)].into_iter().collect(), contracted: None }
    }

    /// Returns the axis of a contraction that runs along the batch members; `None` if it has no such axis.
    pub(super) fn axis(&self, c: &Contract) -> Option<Axis> {
        Axis::of_extent(c, self.contracted?)
    }

    /// Returns the number of elements of a buffer for each member. Each member must have one row, all `all` members
    /// together must have the whole buffer, and each access in the statement must lie in the row of its own member;
    /// otherwise `None`:
    ///
    /// ```text
    /// serial i0 in 9 { for i1 in 64 { %0: f64 = load b4[i1*50 + 7] .. } }           a row of 50 elements
    /// serial i0 in 9 { for i1 in 3200 { %0: f64 = load b4[i1] .. } }                the same, 50 iterations a member
    /// ```
    pub(super) fn own_rows(
        &self,
        kernel: &Kernel,
        stmt: &Stmt,
        all: usize,
        buffer: BufferId,
    ) -> Option<usize> {
        let elements = kernel.buffers[buffer].ty.shape.elements();
        let row = (elements > 0 && elements.is_multiple_of(all)).then_some(elements / all)?;
        let mut extents: OrderedMap<IndexId, usize> = OrderedMap::default();
        // Collect the contractions inside of loops over batch members: each of them computes values of one member.
        let mut of_one: Vec<*const Contract> = Vec::new();
        visit(from_ref(stmt), &mut |stmt| {
            let Stmt::For { index, extent: Extent::Constant(n), body, .. } = stmt else { return };
            extents.insert(*index, *n);
            if self.loops.contains_key(index) {
                visit(body, &mut |stmt| {
                    if let Stmt::Contract(c) = stmt {
                        of_one.push(c);
                    }
                });
            }
        });
        let inside = |address: &Address, reach: &[(usize, i64)], mut step: i64| {
            let mut range = (address.offset, address.offset);
            let mut reached = |extent: usize, stride: i64| {
                let last = stride.saturating_mul(extent as i64 - 1);
                range = (range.0.saturating_add(last.min(0)), range.1.saturating_add(last.max(0)));
            };
            for (index, stride) in address.terms.iter().filter(|(_, stride)| *stride != 0) {
                let extent = match self.loops.get(index) {
                    Some(iterations) => {
                        step = step.saturating_add(stride.saturating_mul(*iterations as i64));
                        *iterations
                    }
                    None => match extents.get(index) {
                        Some(extent) => *extent,
                        None => return false,
                    },
                };
                reached(extent, *stride);
            }
            reach.iter().for_each(|(extent, stride)| reached(*extent, *stride));
            address.dynamic.is_none() && step == row as i64 && range.0 >= 0 && range.1 < step
        };
        let mut own = true;
        visit(from_ref(stmt), &mut |stmt| {
            if let Stmt::Contract(c) = stmt {
                let nested = of_one.iter().any(|of| std::ptr::eq(*of, c));
                let axis = self.axis(c).filter(|_| !nested);
                let steps = axis.map_or([0; 3], |axis| axis.steps(c));
                for (access, step) in c.accesses().into_iter().zip(steps) {
                    if access.held.buffer == buffer {
                        let mut reach = access.reach.to_vec();
                        if axis.is_some()
                            && let Some(at) = reach.iter().position(|of| *of == (all, step))
                        {
                            reach.remove(at);
                        }
                        own &= inside(access.address, &reach, step);
                    }
                }
                return;
            }
            stmt.accesses(&mut |access| {
                if access.held.buffer == buffer {
                    own &= inside(access.address, &access.reach, 0);
                }
            });
        });
        own.then_some(row)
    }
}

/// The axis along which a contraction is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Axis {
    Rows,
    Columns,
    Terms,
    /// The batch loop at this position in the list of the contraction.
    Batch(usize),
}

impl Axis {
    /// Returns an axis of the result that has this extent; `None` if there is none.
    pub(super) fn of_extent(c: &Contract, extent: usize) -> Option<Axis> {
        let batch = c.batch.iter().position(|(n, .., out)| *n == extent && *out != 0);
        let rows = (c.m == extent).then_some(Axis::Rows);
        let columns = (c.n == extent).then_some(Axis::Columns);
        batch.map(Axis::Batch).or(rows).or(columns)
    }

    /// Returns the distance in elements between neighbours along the axis (rows, columns, terms, or iterations of a
    /// batch loop) in each of the three matrices: left operand, right operand, result.
    pub(super) fn steps(self, c: &Contract) -> [i64; 3] {
        match self {
            Axis::Rows => [c.lhs.row, 0, c.out.row],
            Axis::Columns => [0, c.rhs.column, c.out.column],
            Axis::Terms => [c.lhs.column, c.rhs.row, 0],
            Axis::Batch(at) => {
                let (_, lhs, rhs, out) = c.batch[at];
                [lhs, rhs, out]
            }
        }
    }

    /// Returns the part of a contraction that has `extent` rows (columns, terms, or iterations of a batch loop) from
    /// `start` on. A buffer for which `relative` holds contains only the elements of this part, so its addresses are
    /// not moved.
    pub(super) fn range(
        self,
        c: &Contract,
        start: Start,
        extent: usize,
        relative: impl Fn(BufferId) -> bool,
    ) -> Contract {
        let mut part = c.clone();
        match self {
            Axis::Rows => part.m = extent,
            Axis::Columns => part.n = extent,
            Axis::Terms => part.k = extent,
            Axis::Batch(at) => part.batch[at].0 = extent,
        }
        let matrices = [&mut part.lhs, &mut part.rhs, &mut part.out];
        for (matrix, step) in matrices.into_iter().zip(self.steps(c)) {
            if !relative(matrix.held.buffer) {
                start.shift(&mut matrix.at, step);
            }
        }
        part
    }
}
