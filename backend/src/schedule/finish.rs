//! From loop trees to a [`Kernel`]: what nobody needs goes, buffers for the nodes that need memory, their
//! places, and the table of them.

use super::calls::Gives;
use super::control::Frame;
use super::convert::{Convert, Held, Memory};
use super::emit::Emitted;
use super::graph::{Graph, NodeId, NodeKind};
use super::memory::{self, Life};
use super::storage::Storage;
use super::sweep::sweep;
use super::tapes::Tapes;
use super::tree::Tree;
use crate::kernel::{self, Buffer, BufferId, Kernel, KernelId, Place, ScalarId, claim};
use crate::plan::{Plan, Row};
use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap};
use std::sync::Arc;
use tapeloom_ir::{ArrayType, Kind, Loc, OrderedMap, Problem};

/// The kernel and its memory plan. `params` are the types of the function's parameters.
pub(crate) fn finish(
    name: &str,
    params: &[ArrayType],
    graph: &Graph,
    gives: &Gives,
    mut emitted: Emitted,
    callees: &PrimaryMap<KernelId, Kernel>,
    tapes: &mut Tapes,
) -> Result<(Kernel, Plan), Problem> {
    let mut live: SecondaryMap<ScalarId, bool> = SecondaryMap::with_capacity(emitted.scalars.len());
    sweep(&mut emitted.body, &emitted.needs, &mut live);

    let storage = Storage::of(graph, gives, &emitted);
    let mut buffers: PrimaryMap<BufferId, Buffer> = PrimaryMap::new();
    let mut of_node: SecondaryMap<NodeId, Option<BufferId>> = SecondaryMap::new();
    for (i, ty) in params.iter().enumerate() {
        buffers.push(Buffer { ty: ty.clone(), place: Place::Input(i) });
    }
    for (id, node) in graph.nodes.iter() {
        if let NodeKind::Input(i) = node.kind {
            of_node[id] = Some(BufferId::new(i));
            of_node[storage.root(id)] = Some(BufferId::new(i));
        }
    }
    let mut rows = Vec::new();
    for (i, r) in graph.results.iter().enumerate() {
        let root = storage.root(*r);
        let buffer = match of_node[root] {
            // An argument that was given up lies there.
            Some(argument) => {
                buffers[argument].place = Place::Given { input: argument.index(), output: i };
                argument
            }
            None => {
                let ty = graph.nodes[*r].ty.clone();
                buffers.push(Buffer { ty, place: Place::Output(i) })
            }
        };
        of_node[root] = Some(buffer);
        rows.push((root, buffer));
    }
    // Roots in the order of nodes, so that the numbers of buffers rise through the program.
    let mut wanting: Vec<(NodeId, BufferId)> = Vec::new();
    for id in graph.nodes.keys() {
        let root = storage.root(id);
        if emitted.needs[id] && root == id && of_node[id].is_none() {
            if storage.life[root].is_none() {
                continue;
            }
            let ty = ArrayType { dtype: graph.nodes[id].ty.dtype, shape: storage.shape(graph, id) };
            let buffer = buffers.push(Buffer { ty, place: Place::Workspace(0) });
            of_node[id] = Some(buffer);
            wanting.push((id, buffer));
        }
    }
    let mut lives: Vec<Life> = wanting
        .iter()
        .map(|(id, buffer)| {
            let (first, last) = storage.life[*id].unwrap_or((0, 0));
            Life { first, last, bytes: buffers[*buffer].ty.bytes() }
        })
        .collect();
    // What a region works in is memory that lives while it runs.
    let mut framed = Vec::new();
    for (step, tree) in emitted.body.iter().enumerate() {
        if let Tree::Region(r) = tree {
            let frame = Frame::of(graph, r, callees);
            framed.push(r.first);
            lives.push(Life { first: step, last: step, bytes: frame.bytes });
        }
    }
    let (offsets, peak) = memory::plan(&lives).ok_or_else(|| {
        Problem::new(
            Kind::TooLarge,
            format!("the intermediate results of @{name} are larger than memory can be"),
            "reduce an extent, or process the data in parts",
        )
    })?;
    for ((_, buffer), offset) in wanting.iter().zip(&offsets) {
        buffers[*buffer].place = Place::Workspace(*offset);
    }
    let frames = framed.into_iter().zip(offsets[wanting.len()..].iter().copied()).collect();
    rows.extend(wanting);
    for id in graph.nodes.keys() {
        let root = storage.root(id);
        of_node[id] = of_node[id].or(of_node[root]);
    }

    let held = Held::of(graph, &emitted, &of_node);
    let memory = Memory { of_node: &of_node, storage: &storage, frames: &frames, callees };
    let mut convert = Convert::new(graph, &emitted, memory, buffers, held, tapes);
    let body = convert.block(&emitted.body)?;
    let Convert { scalars, vars, indices, cursors, buffers, held, .. } = convert;
    // The marks are on what is in memory; what is not, is not kept.
    let marked = graph.nodes.iter().filter(|(_, node)| !node.kept.is_empty());
    let marked =
        marked.filter_map(|(id, node)| Some((held.at(id, of_node[id]?), node.kept.clone())));
    let kept: OrderedMap<kernel::Held, Vec<Arc<str>>> = marked.collect();
    let back = read_back(graph, &emitted, &storage);
    let plan = Plan {
        rows: rows
            .iter()
            .map(|(id, buffer)| {
                let (first, last) = storage.life[*id].unwrap_or((0, 0));
                Row {
                    buffer: *buffer,
                    ty: buffers[*buffer].ty.clone(),
                    place: buffers[*buffer].place,
                    first,
                    last,
                    primitive: graph.nodes[*id].name,
                    location: graph.nodes[*id].loc,
                    read_back: back[*id],
                    kept: names(&kept, *buffer),
                }
            })
            .collect(),
        steps: body.len(),
        peak,
        calls: Vec::new(),
        tapes: PrimaryMap::new(),
        keeping: Vec::new(),
        again: Vec::new(),
    };
    let mut kernel = Kernel {
        name: name.to_owned(),
        inline: false,
        buffers,
        body,
        scalars,
        vars,
        indices,
        cursors,
        versions: held.versions,
        kept,
        workspace: peak,
    };
    claim(&mut kernel);
    Ok((kernel, plan))
}

/// For the roots of what the forward pass makes, the first line that reads them on the way back. What is
/// computed where it is read reads there.
fn read_back(graph: &Graph, emitted: &Emitted, storage: &Storage) -> SecondaryMap<NodeId, Loc> {
    let is_back = |loc: Loc| loc.is_some_and(|at| at.back);
    let mut reader: SecondaryMap<NodeId, Loc> = SecondaryMap::with_capacity(graph.nodes.len());
    let mut roots: SecondaryMap<NodeId, Loc> = SecondaryMap::with_capacity(graph.nodes.len());
    for (id, node) in graph.nodes.iter().rev() {
        let here = match is_back(node.loc) {
            true => node.loc,
            false => {
                // A literal is of no pass.
                if node.loc.is_some() || node.operands.iter().any(|s| s.node().is_some()) {
                    let root = storage.root(id);
                    roots[root] = reader[id].or(roots[root]);
                }
                reader[id].filter(|_| !emitted.needs[id])
            }
        };
        if here.is_some() {
            for operand in node.operands.iter().filter_map(|s| s.node()) {
                reader[operand] = here;
            }
        }
    }
    roots
}

/// The names under which a buffer keeps any of its values.
fn names(kept: &OrderedMap<kernel::Held, Vec<Arc<str>>>, buffer: BufferId) -> Vec<Arc<str>> {
    let of = kept.iter().filter(|(held, _)| held.buffer == buffer);
    let mut names: Vec<Arc<str>> = of.flat_map(|(_, names)| names.iter().cloned()).collect();
    names.sort_unstable();
    names.dedup();
    names
}
