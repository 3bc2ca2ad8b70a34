//! Finds the arrays in memory that a fusion candidate reads (a candidate is a computed node, or one part of it). From
//! each operand, the search passes through movement nodes (views, reshapes, slices, gathers) until it finds an argument
//! or a computed node.
//!
//! For each axis of a read array, a map (`CandidateAxes`) names the candidate's axis whose loop index equals the
//! array's index along that axis, if there is one. This decides whether two candidates can share a loop.

use super::iteration_domain::{CandidateAxes, Read};
use crate::lower::graph::{Graph, Movement, NodeId, NodeKind, Source};
use smallvec::SmallVec;
use tapeloom_ir::OrderedSet;
use tapeloom_ir::prim::Piece;

/// Collects the reads of one fusion candidate, by following movement nodes to arguments and computed nodes.
pub(crate) struct Reader<'a> {
    graph: &'a Graph,
    pub(crate) reads: Vec<Read>,
    seen: OrderedSet<(NodeId, CandidateAxes)>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(graph: &'a Graph) -> Reader<'a> {
        Reader { graph, reads: Vec::new(), seen: OrderedSet::default() }
    }

    /// Adds the array reads that a load of `source` causes. For each axis of `source`, `at` holds the fusion
    /// candidate's axis with the same index. The recursion is as deep as the chain of movement nodes, and `build`
    /// bounds the length of such chains.
    pub(crate) fn visit(&mut self, source: Source, at: &[Option<usize>]) {
        let Some(id) = source.node() else { return };
        let node = &self.graph.nodes[id];
        let NodeKind::Movement(movement) = &node.kind else {
            let read = Read { node: id, at: SmallVec::from_slice(at) };
            if !self.reads.iter().take(8).any(|r| r.node == id && r.at == read.at) {
                self.reads.push(read);
            }
            return;
        };
        if !self.seen.insert((id, SmallVec::from_slice(at))) {
            return;
        }
        let shape = |s: Source| self.graph.shape(s);
        match movement {
            Movement::View { pieces, fill } => {
                for p in pieces {
                    self.piece(&node.operands, p, at);
                }
                if let Some(f) = fill {
                    self.visit(node.operands[*f], &[]);
                }
            }
            Movement::Reshape => {
                let from = shape(node.operands[0]);
                let same = equal_axes(from, &node.ty.shape);
                let at: CandidateAxes = same.iter().map(|s| s.and_then(|axis| at[axis])).collect();
                self.visit(node.operands[0], &at);
            }
            Movement::Slice => {
                let from = shape(node.operands[0]);
                let at: CandidateAxes = from
                    .iter()
                    .zip(node.ty.shape.iter())
                    .zip(at)
                    .map(|((whole, part), at)| if whole == part { *at } else { None })
                    .collect();
                self.visit(node.operands[0], &at);
                for start in &node.operands[1..] {
                    self.visit(*start, &[]);
                }
            }
            Movement::Gather { batch, axes, .. } => {
                let (from, indices) = (shape(node.operands[0]), shape(node.operands[1]));
                let lead = indices.len() - 1;
                let mut rest = at[lead..].iter();
                let mut array: CandidateAxes = SmallVec::new();
                for axis in 0..from.len() {
                    let shared = at.get(axis).copied().flatten();
                    array.push(if axis < *batch {
                        shared
                    } else if axes.contains(&axis) {
                        None
                    } else {
                        rest.next().copied().flatten()
                    });
                }
                let mut at: CandidateAxes = SmallVec::from_slice(&at[..lead]);
                at.push(None);
                self.visit(node.operands[0], &array);
                self.visit(node.operands[1], &at);
            }
            Movement::Iota { .. } | Movement::Empty => {}
        }
    }

    pub(crate) fn piece(&mut self, operands: &[Source], piece: &Piece, at: &[Option<usize>]) {
        let at: CandidateAxes = piece
            .axes
            .iter()
            .map(|m| match m.terms[..] {
                [(axis, 1)] if m.offset == 0 && m.divisor == 1 => at[axis],
                _ => None,
            })
            .collect();
        self.visit(operands[piece.operand], &at);
    }
}

/// Returns, for each axis of `from`, the axis of `to` with the same index under a row-major reshape, if there is such
/// an axis. For example, axis 2 of `[2,3,4]` has the same index as axis 1 of `[6,4]`, and axes 0 and 1 of `[2,3,4]`
/// have no counterpart.
pub(crate) fn equal_axes(from: &[usize], to: &[usize]) -> CandidateAxes {
    let mut same: CandidateAxes = SmallVec::from_elem(None, from.len());
    let (mut i, mut j) = (0, 0);
    loop {
        // Skip axes of extent 1, which have no counterpart.
        while i < from.len() && from[i] == 1 {
            i += 1;
        }
        while j < to.len() && to[j] == 1 {
            j += 1;
        }
        if i >= from.len() || j >= to.len() {
            return same;
        }
        if from[i] == to[j] {
            same[i] = Some(j);
            (i, j) = (i + 1, j + 1);
            continue;
        }
        // Skip a whole group of axes that the reshape splits or merges, such as `[2,3]` and `[6]`.
        let (mut a, mut b) = (from[i], to[j]);
        (i, j) = (i + 1, j + 1);
        while a != b {
            if a < b {
                if i >= from.len() {
                    return same;
                }
                a = a.saturating_mul(from[i]);
                i += 1;
            } else {
                if j >= to.len() {
                    return same;
                }
                b = b.saturating_mul(to[j]);
                j += 1;
            }
        }
    }
}
