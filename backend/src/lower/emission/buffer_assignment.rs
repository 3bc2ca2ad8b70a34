//! Converts loop trees to a [`Kernel`]: removes dead code, assigns buffers to the nodes that need memory, allocates
//! the workspace, and fills the memory plan.

use super::buffer_liveness::Liveness;
use super::dynamic_tape::Tapes;
use super::emit::{Convert, Memory, versions};
use super::region::Frame;
use crate::loop_ir::{
    self, Buffer, BufferId, Kernel, KernelId, Place, ScalarId, infer_parallelism,
};
use crate::lower::fusion::FusedTrees;
use crate::lower::graph::region_node::RegionKind;
use crate::lower::graph::units::{CompiledUnits, Donation};
use crate::lower::graph::{Graph, NodeId, NodeKind};
use crate::lower::trees::dead_code::sweep;
use crate::lower::trees::loop_tree::Tree;
use crate::report::memory_plan::{Plan, Row, TapeInStep};
use crate::report::rematerialized::add_reader;
use crate::workspace;
use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap};
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Mark;
use tapeloom_ir::{ArrayType, OrderedMap, Origin, Problem};

/// Returns the kernel of a function (its loop program) and its memory plan. `params` are the types of the function's
/// parameters.
pub(crate) fn finish(
    name: &str,
    params: &[ArrayType],
    graph: &Graph,
    donation: &Donation,
    mut emitted: FusedTrees,
    CompiledUnits { callees, plans, .. }: CompiledUnits<'_>,
    tapes: &mut Tapes,
) -> Result<(Kernel, Plan), Problem> {
    let mut live: SecondaryMap<ScalarId, bool> = SecondaryMap::with_capacity(emitted.scalars.len());
    sweep(&mut emitted.body, &emitted.needs, &mut live);

    let liveness = Liveness::of(graph, donation, &emitted);
    let mut buffers: PrimaryMap<BufferId, Buffer> = PrimaryMap::new();
    let mut of_node: SecondaryMap<NodeId, Option<BufferId>> = SecondaryMap::new();
    for (i, ty) in params.iter().enumerate() {
        buffers.push(Buffer::new(ty.clone(), Place::Input(i)));
    }
    for (id, node) in graph.nodes.iter() {
        if let NodeKind::Input(i) = node.kind {
            of_node[id] = Some(BufferId::new(i));
            of_node[liveness.memory_owner(id)] = Some(BufferId::new(i));
        }
    }
    let mut rows = Vec::new();
    for (i, (r, ty)) in graph.results.iter().zip(&graph.result_types).enumerate() {
        let owner = liveness.memory_owner(*r);
        let buffer = match of_node[owner] {
            // The buffer of this result's memory owner is an argument, so the result lies in the memory of that donated
            // argument.
            Some(argument) => {
                buffers[argument].place = Place::Donated { input: argument.index(), output: i };
                argument
            }
            None => buffers.push(Buffer::new(ty.clone(), Place::Output(i))),
        };
        of_node[owner] = Some(buffer);
        rows.push((owner, buffer));
    }
    // Assign buffers to memory owners in node order, so that buffer numbers increase through the program. A node that
    // shares the memory of another node is not an owner.
    let mut wanting: Vec<(NodeId, BufferId)> = Vec::new();
    for id in graph.nodes.keys() {
        let owner = liveness.memory_owner(id);
        if emitted.needs[id] && owner == id && of_node[id].is_none() {
            if liveness.life[owner].is_none() {
                continue;
            }
            let ty =
                ArrayType { dtype: graph.nodes[id].ty.dtype, shape: liveness.shape(graph, id) };
            let buffer = buffers.push(Buffer::new(ty, Place::Workspace(0)));
            of_node[id] = Some(buffer);
            wanting.push((id, buffer));
        }
    }
    // No two buffers share bytes at this point, and neither do the frames (workspaces of called kernels), so passes may
    // reorder accesses to them. The pass `plan_memory` lets them share bytes afterwards.
    let mut kernel = Kernel { buffers, ..Kernel::new(name) };
    for (_, buffer) in &wanting {
        let offset = kernel.reserve(kernel.buffers[*buffer].ty.bytes());
        kernel.buffers[*buffer].place =
            Place::Workspace(offset.ok_or_else(|| workspace::too_large(name))?);
    }
    let mut frames: OrderedMap<NodeId, usize> = OrderedMap::default();
    for tree in &emitted.body {
        if let Tree::Region(r) = tree {
            let offset = kernel.reserve(Frame::of(graph, r, callees).bytes);
            frames.insert(r.first, offset.ok_or_else(|| workspace::too_large(name))?);
        }
    }
    rows.extend(wanting);
    for id in graph.nodes.keys() {
        let owner = liveness.memory_owner(id);
        of_node[id] = of_node[id].or(of_node[owner]);
    }

    let held = versions(graph, &emitted, &of_node, &mut kernel);
    let memory = Memory { liveness: &liveness, frames: &frames, callees };
    let mut convert = Convert::new(graph, &emitted, memory, kernel, held, tapes);
    let body = convert.block(&emitted.body)?;
    let Convert { mut kernel, held, .. } = convert;
    kernel.body = body;
    // Copy the marks of nodes (residual, tape, user's name) to their buffer versions. A marked node without
    // memory is not saved.
    let marked = graph.nodes.iter().filter(|(_, node)| !node.kept.is_empty());
    let marked = marked.filter_map(|(id, node)| Some((held[id]?, node.kept.clone())));
    kernel.kept = marked.collect();
    // A buffer may be written by several nodes: report the first node with a mark as the node that computes the buffer.
    let mut makers: SecondaryMap<BufferId, Option<NodeId>> = SecondaryMap::new();
    for (id, _) in graph.nodes.iter().filter(|(_, node)| !node.kept.is_empty()) {
        if let Some(buffer) = of_node[id] {
            makers[buffer].get_or_insert(id);
        }
    }
    let mut readers = Readers::of(graph, &emitted, &liveness);
    // In the body of a loop or branch, a value that one iteration of the reverse pass computes and reads is not tape. A
    // result of an inner loop is tape if a later pass reads it (`between`).
    let iteration = matches!(donation, Donation::LoopCarries(_) | Donation::BranchResults(_));
    let inside = inside(graph, &emitted.body, plans);
    let plan = Plan {
        rows: rows
            .iter()
            .map(|(id, buffer)| {
                let (first, last) = liveness.life[*id].unwrap_or((0, 0));
                let (node, kept) = (&graph.nodes[*id], marks(&kernel.kept, *buffer));
                let maker = makers[*buffer].map_or(node, |id| &graph.nodes[id]);
                let read = !readers.lines[*id].is_empty();
                let named = kept.iter().filter_map(Mark::name).cloned();
                // Nothing in the body reads the packed residual of one iteration: the reverse loop reads the
                // stack of all iterations' packed residuals. So the packed residual is tape without a reader.
                let packed = iteration && kept.iter().any(Mark::is_packed);
                let tape = is_held(&kept) || readers.between[*id] || read && !iteration || packed;
                Row {
                    tape,
                    names: node.label.iter().cloned().chain(named).collect(),
                    buffer: *buffer,
                    ty: kernel.buffers[*buffer].ty.clone(),
                    place: kernel.buffers[*buffer].place,
                    first,
                    last,
                    primitive: maker.name,
                    location: maker.origin.loc,
                    read_back: std::mem::take(&mut readers.lines[*id]),
                    kept: kept.into_iter().filter(|mark| mark.name().is_none()).collect(),
                }
            })
            .collect(),
        steps: kernel.body.len(),
        peak: kernel.workspace,
        calls: Vec::new(),
        tapes: PrimaryMap::new(),
        large_residuals: Vec::new(),
        rematerialized: Vec::new(),
        inside,
        workspaces: Vec::new(),
    };
    infer_parallelism(&mut kernel);
    Ok((kernel, plan))
}

/// The readers of each value in later passes, such as a reverse pass that reads a value of the forward pass.
struct Readers {
    /// For each memory owner, the origins (source line and phase) of the equations that read it in a later
    /// pass.
    lines: SecondaryMap<NodeId, Vec<Origin>>,
    /// For each memory owner that is a result of a region (a call, branch or loop), whether a region of a later pass
    /// reads it.
    between: SecondaryMap<NodeId, bool>,
}

impl Readers {
    /// Collects the readers. A node without memory is recomputed by its readers, so they count as readers of the node's
    /// operands.
    fn of(graph: &Graph, emitted: &FusedTrees, liveness: &Liveness) -> Readers {
        let n = graph.nodes.len();
        let add = |all: &mut Vec<Origin>, more: &[Origin]| {
            more.iter().for_each(|at| add_reader(all, *at))
        };
        let mut found = Readers {
            lines: SecondaryMap::with_capacity(n),
            between: SecondaryMap::with_capacity(n),
        };
        let mut readers: SecondaryMap<NodeId, Vec<Origin>> = SecondaryMap::with_capacity(n);
        // For each node: the last reverse pass in which a region reads the node, as (order of differentiation,
        // transposed), and the highest order of differentiation among these regions.
        let mut regions: SecondaryMap<NodeId, ((u8, bool), u8)> = SecondaryMap::with_capacity(n);
        for (id, node) in graph.nodes.iter().rev() {
            let (Origin { loc, phase }, owner) = (node.origin, liveness.memory_owner(id));
            let mut own = (phase.order, phase.transposed);
            // The number of barriers counts, too: a node after an `after_forward` barrier belongs to a later pass than
            // its phase says.
            own.0 = own.0.max(node.required_passes);
            // Library routines and external functions count as straight-line code, not as regions. If the reverse pass
            // recomputes a value inside of one, the planner does not count that value.
            let is_region = match node.kind {
                NodeKind::Result { of, .. } => match graph.regions[of].kind {
                    RegionKind::Call(_) | RegionKind::Branch(_) | RegionKind::Loop { .. } => true,
                    RegionKind::Routine(_) | RegionKind::CallExternal(_) => false,
                },
                _ => false,
            };
            let later = readers[id].iter().filter(|at| at.phase.order > own.0).copied();
            let later: Vec<Origin> = later.collect();
            // A node without source line and without operands (a constant) belongs to no pass, so none of its readers
            // counts as a reader in a later pass.
            if loc.is_some() || node.operands.iter().any(|s| s.node().is_some()) {
                add(&mut found.lines[owner], &later);
                // Whether later passes may read the region's result (`left`). A region without a source line computes
                // the initial state of a recomputed segment of a loop; this state is workspace of one iteration, and no
                // tape.
                let left = is_region && loc.is_some();
                let (pass, order) = regions[id];
                // A reverse pass may compute a cotangent and read it behind further `after_forward` barriers. The
                // reader then has a larger number of barriers, but belongs to the same pass. So for a node of a reverse
                // pass, only a reader of a higher order of differentiation counts as a later pass.
                let in_a_later_pass = if own.1 { order > phase.order } else { pass > own };
                found.between[owner] |= left && in_a_later_pass;
            }
            let mut here: Vec<Origin> =
                (phase.order > 0).then_some(node.origin).into_iter().collect();
            let mut last = if is_region && own.1 { (own, phase.order) } else { ((0, false), 0) };
            if !emitted.needs[id] {
                add(&mut here, &later);
                last = later_of(last, regions[id]);
            }
            for operand in node.operands.iter().filter_map(|s| s.node()) {
                add(&mut readers[operand], &here);
                regions[operand] = later_of(regions[operand], last);
            }
        }
        found
    }
}

/// Returns the componentwise maximum of two entries of `regions`: the later pass, and the higher order.
fn later_of(a: ((u8, bool), u8), b: ((u8, bool), u8)) -> ((u8, bool), u8) {
    (a.0.max(b.0), a.1.max(b.1))
}

/// Returns the tapes inside top-level statements that contain both a forward and a reverse pass, such as a loop whose
/// body computes a gradient.
fn inside(graph: &Graph, body: &[Tree], plans: &PrimaryMap<KernelId, Plan>) -> Vec<TapeInStep> {
    let mut found = Vec::new();
    for (step, tree) in body.iter().enumerate() {
        let Tree::Region(r) = tree else { continue };
        let kernels = graph.regions[r.region].kind.kernels();
        let plans = kernels.iter().filter_map(|k| plans.get(*k));
        let bytes = plans.clone().map(Plan::tape).max().unwrap_or(0);
        if bytes > 0 && !planted(Fault::Inside) {
            let own = |plan: &Plan| plan.rows.iter().filter(|row| row.is_tape()).cloned().collect();
            let deeper = |plan: &Plan| plan.inside.iter().flat_map(|i| i.rows.clone()).collect();
            let rows = plans.flat_map(|plan| {
                let (own, deeper): (Vec<Row>, Vec<Row>) = (own(plan), deeper(plan));
                own.into_iter().chain(deeper)
            });
            found.push(TapeInStep { step, bytes, rows: rows.collect() });
        }
    }
    found
}

/// Returns whether one of the marks says that a value is saved between passes.
fn is_held(marks: &[Mark]) -> bool {
    marks.iter().any(|mark| match mark {
        Mark::Residual | Mark::Tape => true,
        Mark::Rematerialize
        | Mark::AfterForward
        | Mark::Packed
        | Mark::Rounded
        | Mark::Draw(_)
        | Mark::Split(_)
        | Mark::Named(_) => false,
    })
}

/// Returns the marks of all versions of a buffer (the values that it holds one after the other), sorted and without
/// repetitions.
fn marks(kept: &OrderedMap<loop_ir::BufferVersion, Vec<Mark>>, buffer: BufferId) -> Vec<Mark> {
    let of = kept.iter().filter(|(held, _)| held.buffer == buffer);
    let mut marks: Vec<Mark> = of.flat_map(|(_, marks)| marks.iter().cloned()).collect();
    marks.sort_unstable();
    marks.dedup();
    marks
}
