//! Removes arrays without elements, so that no later step sees them.
//!
//! A node without elements needs no computation: it stays in the graph as [`Movement::Empty`], because its type is
//! still needed, and gets no loop. A node with elements that reads an array without elements is replaced by a simpler
//! node, whatever the other extents are:
//!
//! ```text
//! reduce_sum{axes=[1]} of f64[3,0]       the identity everywhere
//! dot of f64[3,0] and f64[0,4]           zeros
//! concatenate of f64[0] and f64[3]       a view of the second alone
//! gather of f64[0,4], dropping           zeros: every index is out of range
//! update of f64[3] by f64[0]             its base
//! ```

use super::{Movement, NodeKind, Source, Update};
use smallvec::SmallVec;
use tapeloom_ir::prim::Piece;
use tapeloom_ir::{ArrayType, Literal};

/// The simpler node that replaces a node with empty operands (arrays without elements).
pub(crate) enum EmptyReplacement {
    /// A new node, possibly of another kind than the old one, with its operands.
    Node(NodeKind, SmallVec<[Source; 2]>),
    /// One operand of the old node: the node computes nothing else.
    Same(Source),
}

/// Returns the replacement for a node of type `ty`. `empty` says which operands have no elements; none of these is an
/// operand of the replacement.
pub(crate) fn simplify(
    kind: NodeKind,
    operands: SmallVec<[Source; 2]>,
    ty: &ArrayType,
    empty: impl Fn(Source) -> bool,
) -> EmptyReplacement {
    if ty.shape.elements() == 0 {
        return EmptyReplacement::Node(NodeKind::Movement(Movement::Empty), SmallVec::new());
    }
    let everywhere = |value: Literal| {
        let piece = Piece { operand: 0, axes: Vec::new() };
        let view = Movement::View { pieces: vec![piece], fill: None };
        EmptyReplacement::Node(
            NodeKind::Movement(view),
            SmallVec::from_slice(&[Source::Literal(value)]),
        )
    };
    match kind {
        NodeKind::Reduce { identity, .. } if empty(operands[0]) => everywhere(identity),
        NodeKind::Contract { .. } | NodeKind::Movement(Movement::Gather { .. })
            if empty(operands[0]) =>
        {
            everywhere(Literal::zero(ty.dtype))
        }
        NodeKind::Update(Update::Slice) if empty(operands[1]) => {
            EmptyReplacement::Same(operands[0])
        }
        NodeKind::Update(Update::Scatter { .. }) if empty(operands[2]) => {
            EmptyReplacement::Same(operands[0])
        }
        NodeKind::Movement(Movement::View { mut pieces, fill }) => {
            pieces.retain(|p| !empty(operands[p.operand]));
            EmptyReplacement::Node(NodeKind::Movement(Movement::View { pieces, fill }), operands)
        }
        NodeKind::Input(_)
        | NodeKind::Map(_)
        | NodeKind::Reduce { .. }
        | NodeKind::ArgReduce { .. }
        | NodeKind::Contract { .. }
        | NodeKind::Update(_)
        | NodeKind::Result { .. }
        | NodeKind::Copy
        | NodeKind::Movement(_) => EmptyReplacement::Node(kind, operands),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crate::loop_ir::{self, Extent, Stmt, visit};
    use crate::lower::lower_to_loops;
    use tapeloom_ir::parse_module;

    /// Returns the number of statements in the kernels of a function. In its text, `N`, `M` and `NM` stand for the
    /// extents `n`, `m` and `n * m`.
    fn size(text: &str, n: usize, m: usize) -> usize {
        let text = text
            .replace("NM", &(n * m).to_string())
            .replace('N', &n.to_string())
            .replace('M', &m.to_string());
        let module = parse_module(&text).unwrap();
        let program = lower_to_loops(&module, module.iter().last().unwrap().0).unwrap();
        assert_eq!(loop_ir::verify(&program), []);
        let mut statements = 0;
        visit(&program.entry.body, &mut |s| {
            // A block itself is not counted, only the statements in it.
            statements += usize::from(!matches!(s, Stmt::Nest { .. }));
            assert!(!matches!(s, Stmt::For { extent: Extent::Constant(0), .. }));
        });
        statements
    }

    /// If an array has an extent of 0, the number of statements must not depend on its other extents.
    #[test]
    fn the_other_extents_do_not_count() {
        for text in [
            "func @f(%0: f64[N,M,0]) -> (f64[N,M,0]) {
               %1: f64[N,M,0] = exp %0
               return %1
             }",
            "func @f(%0: f64[N,M,0]) -> (f64[0,N,M], f64[0]) {
               %1: f64[0,N,M] = permute{permutation=[2,0,1]} %0
               %2: f64[0] = reshape{shape=[0]} %1
               %3: f64[0] = neg %2
               return %1, %3
             }",
            "func @f(%0: f64[N,M,0]) -> (f64[]) {
               %1: f64[] = reduce_sum{axes=[0,1,2]} %0
               return %1
             }",
            "func @f(%0: f64[N,0]) -> (f64[0], f64[N,M,0]) {
               %1: f64[0] = reduce_max{axes=[0]} %0
               %2: f64[N,M,0] = broadcast{shape=[N,M,0], dims=[0,2]} %0
               return %1, %2
             }",
            "func @f(%0: f64[N,0], %1: f64[M,0,3]) -> (f64[NM,0,3]) {
               %2: f64[N,0,M,0,3] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[], \
               rhs_contract=[]} %0, %1
               %3: f64[NM,0,3] = reshape{shape=[NM,0,3]} %2
               return %3
             }",
            "func @f(%0: f64[N,M,0], %1: f64[3], %2: i64[0,1], %3: f64[0]) -> (f64[N,M,0], f64[3]) {
               %4: f64[N,M,0] = concatenate{axis=2} %0, %0
               %5: f64[3] = scatter_add{batch=0, axes=[0], bounds=drop} %1, %2, %3
               return %4, %5
             }",
        ] {
            // The smaller extents are 2, not 1, since axes of extent 1 have no loop.
            assert_eq!(size(text, 4000, 5000), size(text, 2, 2), "{text}");
        }
        // Loops fill the identities, the results of the sums over no elements. The two loops stay separate, because
        // arrays that are too large for the cache share no loop.
        let sums = "func @f(%0: f64[N,M,0], %1: f64[N,0], %2: f64[0,M]) -> (f64[N,M], f64[N,M]) {
            %3: f64[N,M] = reduce_sum{axes=[2]} %0
            %4: f64[N,M] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} %1, %2
            return %3, %4
          }";
        assert_eq!(size(sums, 4000, 5000), size(sums, 400, 500));
        assert_eq!(size(sums, 200, 300), size(sums, 20, 30));
    }
}
