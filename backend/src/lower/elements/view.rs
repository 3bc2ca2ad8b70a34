//! Lowers views (such as slices and concatenations): each piece of a view reads one operand, and an element that no
//! piece contains is the fill value.
//!
//! Conditions that the ranges of loop indices decide are evaluated here. Other conditions become guards:
//! a guarded load does not access memory if its guard is false.

use super::fusion_state::FusionState;
use crate::loop_ir::Arg;
use crate::lower::graph::{Movement, NodeId, NodeKind, Source};
use crate::lower::trees::affine::{Affine, Index, affine_index};
use smallvec::SmallVec;
use tapeloom_ir::analysis::interval::Interval;
use tapeloom_ir::prim::Piece;
use tapeloom_ir::{Code, Literal, Problem};

/// The index into one operand of a view for an element of the view, and the conditions under which the element comes
/// from this operand. Without conditions, it always does.
type Inside = (Index, SmallVec<[Condition; 2]>);

/// A condition that the ranges of loop indices do not decide.
pub(crate) enum Condition {
    /// `0 <= a`
    AtLeastZero(Affine),
    /// `a < bound`
    Below(Affine, i64),
    /// `a == 0`
    Zero(Affine),
}

impl FusionState<'_> {
    /// Emits the element that the view `source` has at an output index inside the box of piece number `piece`, by
    /// reading the operand of this piece.
    pub(crate) fn piece(
        &mut self,
        source: Source,
        piece: usize,
        index: &Index,
    ) -> Result<Arg, Problem> {
        let graph = self.graph;
        let of = source.node().map(|n| (&graph.nodes[n].operands, &graph.nodes[n].kind));
        let Some((operands, NodeKind::Movement(Movement::View { pieces, .. }))) = of else {
            return Err(Problem::internal("a piece of something that is not a view"));
        };
        let p = &pieces[piece];
        let operand = operands[p.operand];
        match self.piece_index(p, graph.shape(operand), index) {
            Some((at, conditions)) => {
                let inside = self.all(&conditions);
                self.element(operand, &at, inside)
            }
            None => Err(Problem::internal("a piece of a view is read outside its box")),
        }
    }

    pub(crate) fn view(
        &mut self,
        id: NodeId,
        pieces: &[Piece],
        fill: Option<usize>,
        index: &Index,
        guard: Option<Arg>,
    ) -> Result<Arg, Problem> {
        let graph = self.graph;
        let node = &graph.nodes[id];
        let mut found: SmallVec<[(Arg, Arg); 2]> = SmallVec::new();
        let mut rest = None;
        for p in pieces {
            let operand = node.operands[p.operand];
            let Some((at, conditions)) = self.piece_index(p, graph.shape(operand), index) else {
                continue;
            };
            let inside = self.all(&conditions);
            let guard = self.both(guard, inside);
            let value = self.element(operand, &at, guard)?;
            match inside {
                Some(inside) => found.push((inside, value)),
                None => {
                    rest = Some(value);
                    break;
                }
            }
        }
        let rest = match (rest, fill) {
            (Some(value), _) => value,
            (None, Some(f)) => self.element(node.operands[f], &Index::new(), None)?,
            // A view without a fill value reads every element from one of its operands. So the last operand provides
            // all elements that the others do not provide.
            (None, None) => match found.pop() {
                Some((_, value)) => value,
                // No operand provides the element, so the guard of this read is never true, and any value will do.
                None => Arg::Literal(Literal::zero(node.ty.dtype)),
            },
        };
        let mut value = rest;
        for (inside, piece) in found.into_iter().rev() {
            value = self.code(Code::Select, &[inside, piece, value]);
        }
        Ok(value)
    }

    /// Returns the index at which the operand of a view's piece is read for an output index; `None` if the output index
    /// is certainly outside the piece.
    fn piece_index(&mut self, piece: &Piece, operand: &[usize], index: &Index) -> Option<Inside> {
        let mut at = Index::new();
        let mut conditions = SmallVec::new();
        for (map, extent) in piece.axes.iter().zip(operand) {
            let mut i = affine_index(map, index);
            if map.divisor != 1 {
                let (quotient, remainder) = self.divided(&i, map.divisor);
                match remainder.value() {
                    Some(0) => {}
                    Some(_) => return None,
                    None => conditions.push(Condition::Zero(remainder)),
                }
                i = quotient;
            }
            let Interval { least, most } = self.range(&i);
            let extent = *extent as i64;
            if most < 0 || least >= extent.into() {
                return None;
            }
            if least < 0 {
                conditions.push(Condition::AtLeastZero(i.clone()));
            }
            if most >= extent.into() {
                conditions.push(Condition::Below(i.clone(), extent));
            }
            at.push(i);
        }
        Some((at, conditions))
    }

    /// Emits the conjunction of conditions; `None` if there are none.
    pub(crate) fn all(&mut self, conditions: &[Condition]) -> Option<Arg> {
        let mut all = None;
        for c in conditions {
            let (code, a, bound) = match c {
                Condition::AtLeastZero(a) => (Code::Ge, a, 0),
                Condition::Below(a, bound) => (Code::Lt, a, *bound),
                Condition::Zero(a) => (Code::Eq, a, 0),
            };
            // Write the condition `i - 1 >= 0` as `i >= 1`, which saves a subtraction.
            let offset = a.offset();
            let value = self.index_value(&a.clone().moved(offset.wrapping_neg()));
            let bound = Arg::Literal(Literal::i64(bound - offset));
            let one = self.code(code, &[value, bound]);
            all = self.both(all, Some(one));
        }
        all
    }

    /// Emits the conjunction of two guards; a guard of `None` is always true.
    pub(crate) fn both(&mut self, a: Option<Arg>, b: Option<Arg>) -> Option<Arg> {
        match (a, b) {
            (Some(a), Some(b)) if a == b => Some(a),
            (Some(a), Some(b)) => Some(self.code(Code::And, &[a, b])),
            (one, None) | (None, one) => one,
        }
    }
}
