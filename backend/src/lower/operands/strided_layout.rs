//! Arrays whose elements lie at constant strides in the memory of a node: a library or a called
//! kernel can read them without a copy.

use crate::loop_ir::IndexId;
use crate::lower::graph::{Graph, Movement, NodeId, NodeKind, Source};
use crate::lower::trees::affine::{Affine, Index, Term, affine_index};
use cranelift_entity::EntityRef;
use smallvec::SmallVec;
use tapeloom_ir::analysis::affine::flatten;
use tapeloom_ir::analysis::interval::Interval;
use tapeloom_ir::{Dtype, Shape};

/// An array whose elements are at constant strides in the memory of `node`, from element `offset` of that memory on.
/// The offset and the strides are in elements.
pub(crate) struct Strided {
    pub(crate) node: NodeId,
    pub(crate) offset: i64,
    pub(crate) strides: SmallVec<[i64; 4]>,
    pub(crate) shape: Shape,
}

/// Returns the strided layout of a source; `None` if it has none. The search goes through views: index `j` stands for
/// the position along axis `j`.
pub(crate) fn strided(graph: &Graph, source: Source) -> Option<Strided> {
    strided_within(graph, source, None)
}

/// Returns the strided layout of a source; `None` if it has none. The node `copied` counts as an array in memory, even
/// if it is a view.
pub(crate) fn strided_within(
    graph: &Graph,
    source: Source,
    copied: Option<NodeId>,
) -> Option<Strided> {
    let mut id = source.node()?;
    let shape = graph.nodes[id].ty.shape.clone();
    if shape.elements() == 0 {
        return None;
    }
    let range = |t: Term| match t {
        Term::Index(i) => Interval::below(shape[i.index()]),
        Term::Scalar(_) => Interval::of(Dtype::I64),
    };
    let mut index: Index = (0..shape.len())
        .map(|j| match shape[j] {
            1 => Affine::default(),
            _ => Affine::atom(Term::Index(IndexId::new(j))),
        })
        .collect();
    let flat = loop {
        let node = &graph.nodes[id];
        let moves = Some(id) != copied;
        let (NodeKind::Movement(movement), true) = (&node.kind, moves) else {
            break flatten(&index, &node.ty.shape);
        };
        match movement {
            Movement::View { pieces, .. } => {
                let [piece] = pieces.as_slice() else { return None };
                let operand = node.operands[piece.operand].node()?;
                let extents = &graph.nodes[operand].ty.shape;
                let mut next = Index::new();
                for (map, extent) in piece.axes.iter().zip(extents.iter()) {
                    let (i, rest) = affine_index(map, &index).divide(map.divisor, range).exact()?;
                    let inside = i.interval(range).within(Interval::below(*extent));
                    if rest != Affine::default() || !inside {
                        return None;
                    }
                    next.push(i);
                }
                (id, index) = (operand, next);
            }
            Movement::Reshape => {
                let root = node.operands[0].node()?;
                let flat = flatten(&index, &node.ty.shape);
                let mut next = Index::new();
                let mut left = flat.clone();
                for stride in graph.nodes[root].ty.shape.strides() {
                    let Some((quotient, rest)) = left.divide(stride as i64, range).exact() else {
                        break;
                    };
                    next.push(quotient);
                    left = rest;
                }
                if next.len() == graph.nodes[root].ty.shape.len() {
                    (id, index) = (root, next);
                    continue;
                }
                if graph.nodes[root].kind.is_movement() && Some(root) != copied {
                    return None;
                }
                id = root;
                break flat;
            }
            Movement::Empty | Movement::Iota { .. } | Movement::Slice | Movement::Gather { .. } => {
                return None;
            }
        }
    };
    let stride = |j: usize| flat.factor(Term::Index(IndexId::new(j)));
    let strides = (0..shape.len()).map(stride).collect();
    Some(Strided { node: id, offset: flat.offset(), strides, shape })
}

/// Returns the node in whose memory an array lies in row-major order without gaps, and the offset in elements
/// of the array's first element.
pub(crate) fn contiguous(graph: &Graph, source: Source) -> Option<(NodeId, i64)> {
    if graph.array(source).shape.elements() == 0 {
        return source.node().map(|n| (n, 0));
    }
    let Strided { node, offset, strides, shape } = strided(graph, source)?;
    let want = shape.strides();
    let fits = |a: usize| shape[a] == 1 || strides[a] == want[a] as i64;
    (0..shape.len()).all(fits).then_some((node, offset))
}
