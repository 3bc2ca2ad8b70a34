//! Copies operands of products in the order of their rows and terms.
//!
//! The matrix library computes one product of two matrices per call. The free axes of an operand must merge into one
//! axis of a matrix, and so must its contracted axes. Otherwise the product takes one call for each iteration over the
//! remaining axes. A copy of the operand in which these axes merge costs one load and one store for each element, and
//! leaves one large call. Windows of a strided convolution are the main case: neither rows nor terms of the windows
//! merge in the array itself. In this example, `y` is the convolution of images `x` with kernels `w`; `o` and `c` are
//! channels, `b` is the image, `i` and `j` are the position in it, and `k` and `l` the position in the kernel:
//!
//! ```text
//! y[o,b,i,j] = Σ_c,k,l w[o,c,k,l] x[b, c, 2 i + k, 2 j + l]      in place: for each b, i, k, l: rows j, terms c
//!
//! x'[(c,k,l), (b,i,j)] = x[b, c, 2 i + k, 2 j + l]              copied: one call
//! ```
//!
//! The pass makes a copy only if this reduces the estimated work to the fraction `LESS`. The number of elements of a
//! copy is at most `COPIED` times that of the product's arrays, or `SMALL`.
//!
//! An elementwise operand whose batch axis is not outermost has the rows of one product far apart in memory. If the rows
//! are short, such an operand is copied, too. The loop that computes the elements also stores the copy. If no other node
//! reads the elements, and the operands of the elementwise node are in memory, there is no copy: the node itself gets
//! the new order of axes.
//!
//! ```text
//! x[n,k,j] = a[n,j] - b[k,j],    y[k,i,n] = Σ_j w[k,i,j] x[n,k,j]
//!
//! x'[k,n,j] = a[n,j] - b[k,j]
//! ```

use crate::lower::graph::{Graph, Movement, Node, NodeId, NodeKind, Source};
use crate::lower::operands::blas_select::{plan, product, worthwhile};
use crate::lower::operands::contraction::{Extents, contract_outputs};
use crate::lower::operands::strided_layout::{Strided, strided};
use crate::lower::trees::loop_tree::{NodeMatrix, Product};
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{AxisMap, Piece};
use tapeloom_ir::{ArrayType, Dtype, OrderedMap, OrderedSet};

/// A copy of operand `slot` of `node`. Axis i of the copy is axis `order[i]` of the operand.
struct Arranged {
    node: NodeId,
    slot: usize,
    order: Vec<usize>,
}

/// The largest allowed number of elements of a copy, divided by the elements of the product's operands and result
/// together.
const COPIED: usize = 4;

/// Copies of at most this number of elements are always allowed.
const SMALL: usize = 1 << 16;

/// A copy is made only if the estimated work of the copy and the calls on it is at most this fraction of the work
/// without the copy.
const LESS: f64 = 0.75;

// Estimated work of a library call, in multiply-adds of f32. The library packs each element of an operand into a
// buffer: this costs `PACKED` if elements are adjacent, and `PACKED_AT_STRIDES` otherwise. It loads and stores each
// element of the result (`RESULT`). `CALL` is the fixed work of a call, and `COPY` the work of copying one element. The
// estimates come from measurements of convolutions of 1 to 128 channels with kernels of 1 to 32 rows.
const PACKED: f64 = 16.0;
const PACKED_AT_STRIDES: f64 = 128.0;
const RESULT: f64 = 16.0;
const CALL: f64 = 2000.0;
const COPY: f64 = 32.0;

/// In an operand whose batch axis is not the outermost axis, the rows of one product are apart in memory. If a row has at
/// most this number of bytes, and the distance between rows is at least `APART` rows, packing is as slow as at strides.
const SHORT_ROW: usize = 128;
const APART: i64 = 4;
/// The smallest number of elements of a row that is written in another order than it would be without the product. The
/// loop over fewer elements has no vector lanes.
const LEAST_ROW: usize = 8;

// Estimated work of one multiply-add in a loop nest, in the same unit. A sum of at most `FEW_TERMS` terms accumulates
// in a register (`SHORT_NEST`). A longer sum may accumulate in memory (`NEST`).
const FEW_TERMS: usize = 64;
const SHORT_NEST: f64 = 4.0;
const NEST: f64 = 16.0;

/// Inserts the copies that save work. A product reads its copy through a view with the inverse order of axes. Equal
/// copies of one node are shared. Returns whether there are any; the graph may then have dead nodes.
pub(crate) fn insert(graph: &mut Graph) -> bool {
    let copies: Vec<Arranged> =
        graph.nodes.keys().filter_map(|id| profitable_copies(graph, id)).flatten().collect();
    if copies.is_empty() {
        return false;
    }
    let in_order = computed_in_order(graph, &copies);
    // Copies must precede the nodes that read them, so rebuild the list of nodes in order.
    let old = std::mem::take(&mut graph.nodes);
    let mut new: SecondaryMap<NodeId, Option<NodeId>> = SecondaryMap::new();
    let mut next = copies.iter().peekable();
    let mut moved_in_order = OrderedSet::default();
    let mut known: OrderedMap<(NodeId, &[usize]), NodeId> = OrderedMap::default();
    for (id, mut node) in old {
        for s in &mut node.operands {
            if let Source::Node(n) = s {
                *n = new[*n].unwrap_or(*n);
            }
        }
        while let Some(Arranged { slot, order, .. }) = next.next_if(|a| a.node == id) {
            let Some(source) = node.operands[*slot].node() else { continue };
            let shared = known.get(&(source, &order[..])).copied();
            let read = shared.unwrap_or_else(|| {
                let mut inverse = vec![0; order.len()];
                for (at, axis) in order.iter().enumerate() {
                    inverse[*axis] = at;
                }
                if planted(Fault::ArrangedAxes) {
                    inverse.clone_from(order);
                }
                let copy = match moved_in_order.contains(&source) {
                    true => reordered(graph, source, order),
                    false => {
                        let ordered = permuted(graph, source, order);
                        graph.copy(Source::Node(ordered))
                    }
                };
                permuted(graph, copy, &inverse)
            });
            known.insert((source, order), read);
            node.operands[*slot] = Source::Node(read);
        }
        let moved = graph.nodes.push(node);
        new[id] = Some(moved);
        if in_order.contains(&id) {
            moved_in_order.insert(moved);
        }
    }
    for r in &mut graph.results {
        *r = new[*r].unwrap_or(*r);
    }
    true
}

/// Returns the elementwise nodes that are computed in the order of a copy instead of being copied. All readers of such a
/// node read the same copy, and all its operands are in memory, so that the node shares its loops with none of them.
fn computed_in_order(graph: &Graph, copies: &[Arranged]) -> OrderedSet<NodeId> {
    let read: OrderedMap<(NodeId, usize), &Vec<usize>> =
        copies.iter().map(|copy| ((copy.node, copy.slot), &copy.order)).collect();
    let mut orders: SecondaryMap<NodeId, Option<&Vec<usize>>> = SecondaryMap::new();
    let mut others: SecondaryMap<NodeId, bool> = SecondaryMap::new();
    for r in &graph.results {
        others[*r] = true;
    }
    for (id, node) in &graph.nodes {
        for (slot, source) in node.operands.iter().enumerate() {
            let Some(source) = source.node() else { continue };
            match (read.get(&(id, slot)).copied(), orders[source]) {
                (Some(new), None) => orders[source] = Some(new),
                (Some(new), Some(old)) if new == old => {}
                _ => others[source] = true,
            }
        }
    }
    let in_memory = |source: &Source| {
        let Some(mut id) = source.node() else { return true };
        while graph.nodes[id].kind.is_movement() {
            match graph.nodes[id].operands[..] {
                [Source::Node(from)] => id = from,
                _ => return false,
            }
        }
        let fuses = |kind: &NodeKind| matches!(kind, NodeKind::Map(_) | NodeKind::Reduce { .. });
        !fuses(&graph.nodes[id].kind)
    };
    let alone = |id: NodeId| {
        let Node { kind, operands, ty, .. } = &graph.nodes[id];
        let alike =
            operands.iter().all(|s| s.node().is_none_or(|n| graph.nodes[n].ty.shape == ty.shape));
        matches!(kind, NodeKind::Map(_)) && alike && operands.iter().all(in_memory)
    };
    graph.nodes.keys().filter(|id| orders[*id].is_some() && !others[*id] && alone(*id)).collect()
}

/// Adds an elementwise node whose axis i is axis `order[i]` of the elementwise node `of`.
fn reordered(graph: &mut Graph, of: NodeId, order: &[usize]) -> NodeId {
    let mut node = graph.nodes[of].clone();
    for s in &mut node.operands {
        if let Source::Node(n) = s {
            *n = permuted(graph, *n, order);
        }
    }
    node.ty.shape = order.iter().map(|axis| node.ty.shape[*axis]).collect();
    graph.nodes.push(node)
}

/// Adds a view of a node whose axis i is the node's axis `order[i]`.
fn permuted(graph: &mut Graph, source: NodeId, order: &[usize]) -> NodeId {
    let Node { ty, origin, required_passes, .. } = graph.nodes[source].clone();
    let mut axes = vec![AxisMap::zero(); order.len()];
    for (at, axis) in order.iter().enumerate() {
        axes[*axis] = AxisMap::same(at);
    }
    let shape: Vec<usize> = order.iter().map(|axis| ty.shape[*axis]).collect();
    let kind =
        NodeKind::Movement(Movement::View { pieces: vec![Piece { operand: 0, axes }], fill: None });
    let operands = SmallVec::from_slice(&[Source::Node(source)]);
    let view = Node::new(kind, operands, ArrayType::new(ty.dtype, shape), "permute", origin);
    graph.nodes.push(Node { required_passes, ..view })
}

/// Returns the copies of a node's operands that save work, at most one for each operand: first the copy that saves
/// most, then the copy of the other operand, if it saves work, too. Returns `None` if the node is not a contraction
/// that is large enough for the library, or an operand is not at constant strides in memory.
fn profitable_copies(graph: &Graph, id: NodeId) -> Option<Vec<Arranged>> {
    let extents = Extents::of(graph, id).filter(|e| worthwhile(e, graph.machine))?;
    let node = &graph.nodes[id];
    let mut both = [strided(graph, node.operands[0])?, strided(graph, node.operands[1])?];
    let size = |n: NodeId| graph.nodes[n].ty.shape.elements();
    let arrays = both.iter().map(|x| size(x.node)).chain([size(id)]).fold(0, usize::saturating_add);
    let most = COPIED.saturating_mul(arrays).max(SMALL);
    let doubled = scale(node.ty.dtype);
    let nest = if extents.k <= FEW_TERMS { SHORT_NEST } else { NEST };
    let mut now = match plan(graph, id) {
        Some(in_place) => work(graph, &in_place),
        None => nest * doubled * size(id) as f64 * extents.k as f64,
    };
    let mut copies: Vec<Arranged> = Vec::new();
    loop {
        let arranged = |slot: usize| {
            let (order, copy) = arrangement(graph, id, slot, &both)?;
            let elements = copy.shape.elements();
            let pair = if slot == 0 { [&copy, &both[1]] } else { [&both[0], &copy] };
            let calls = work(graph, &product(graph, id, pair)?);
            let total = calls + COPY * doubled * elements as f64;
            let pays = elements <= most && total <= LESS * now;
            pays.then_some((total, calls, copy, Arranged { node: id, slot, order }))
        };
        let left = (0..2).filter(|slot| copies.iter().all(|made| made.slot != *slot));
        let found = left.filter_map(arranged).min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, calls, copy, made)) = found else { return Some(copies) };
        (both[made.slot], now) = (copy, calls);
        copies.push(made);
    }
}

/// Returns the work on one element of a dtype relative to f32: 2 for f64, because a vector holds half as many elements,
/// and otherwise 1.
fn scale(dtype: Dtype) -> f64 {
    if dtype == Dtype::F64 { 2.0 } else { 1.0 }
}

fn work(graph: &Graph, p: &Product) -> f64 {
    let calls: f64 = p.batch.iter().map(|axis| axis.0 as f64).product();
    let packed = |x: &NodeMatrix, rows: usize, columns: usize| {
        let (row, step) = match (x.row.abs(), x.column.abs()) {
            (1, step) => (rows, step),
            (step, 1) => (columns, step),
            _ => return PACKED_AT_STRIDES,
        };
        let short = row >= LEAST_ROW && row * p.dtype.bytes() <= SHORT_ROW;
        let apart = short && step >= APART * row as i64;
        // The nest that computes an array can as well write it in another order; any other array needs a copy.
        let computed = matches!(graph.nodes[x.node].kind, NodeKind::Map(_));
        if apart && computed { PACKED_AT_STRIDES } else { PACKED }
    };
    let (lhs, rhs) = (packed(&p.lhs, p.m, p.k), packed(&p.rhs, p.k, p.n));
    let [m, n, k] = [p.m, p.n, p.k].map(|extent| extent as f64);
    let elements = m * n * k + lhs * m * k + rhs * k * n + RESULT * m * n;
    calls * (CALL + scale(p.dtype) * elements)
}

/// Returns the order of axes for a copy of operand `slot`, and the layout of the operand in that copy. From outside to
/// inside, the copy has the batch axes, the contracted axes that do not merge, and two groups of axes: the rows (free
/// axes) and the terms (merged contracted axes). The inner group is the group with the longer last axis; in this
/// comparison, a length above 16 counts as 16, and counts twice if elements along the axis are adjacent in the
/// operand's memory.
fn arrangement(
    graph: &Graph,
    id: NodeId,
    slot: usize,
    both: &[Strided; 2],
) -> Option<(Vec<usize>, Strided)> {
    let NodeKind::Contract { batch, contract, order } = &graph.nodes[id].kind else { return None };
    let own = |pair: &(usize, usize)| if slot == 0 { *pair } else { (pair.1, pair.0) };
    let (x, other) = (&both[slot], &both[1 - slot]);
    let outer: Vec<usize> = batch.iter().map(|pair| own(pair).0).collect();
    // Sort the contracted axes in the order of the other operand's memory, outermost first.
    let mut pairs: Vec<(usize, usize)> = contract.iter().map(own).collect();
    pairs.sort_by_key(|(_, theirs)| std::cmp::Reverse(other.strides[*theirs]));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut last: Option<usize> = None;
    for (mine, theirs) in pairs {
        let merges = |outer: usize| {
            let step = other.strides[theirs] * other.shape[theirs] as i64;
            other.strides[outer] == step
        };
        match (last, groups.last_mut()) {
            (Some(outer), Some(group)) if merges(outer) => group.push(mine),
            _ => groups.push(vec![mine]),
        }
        last = Some(theirs);
    }
    let extent = |group: &Vec<usize>| group.iter().map(|axis| x.shape[*axis]).product::<usize>();
    let longest = (0..groups.len()).max_by_key(|i| extent(&groups[*i]))?;
    let terms = groups.remove(longest);
    let outputs =
        contract_outputs(batch, contract, order, both[0].shape.len(), both[1].shape.len());
    // The free axes of the operand, in the order of the result's memory.
    let rows: Vec<usize> = outputs
        .into_iter()
        .filter_map(|(_, axes)| match axes[..] {
            [(right, axis)] if right == (slot == 1) => Some(axis),
            _ => None,
        })
        .collect();
    let run = |axes: &[usize]| {
        let long = axes.iter().rev().find(|axis| x.shape[**axis] != 1);
        long.map_or(0, |axis| {
            let in_a_vector = x.shape[*axis].min(16);
            if x.strides[*axis].abs() == 1 { 2 * in_a_vector } else { in_a_vector }
        })
    };
    let mut order = outer;
    order.extend(groups.into_iter().flatten());
    let inner = if run(&terms) >= run(&rows) { [rows, terms] } else { [terms, rows] };
    order.extend(inner.into_iter().flatten());
    let mut strides = x.strides.clone();
    let mut step = 1;
    for axis in order.iter().rev() {
        strides[*axis] = step;
        step *= x.shape[*axis] as i64;
    }
    let copy = Strided { node: x.node, offset: 0, strides, shape: x.shape.clone() };
    Some((order, copy))
}
