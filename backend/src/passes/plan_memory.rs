//! Memory planning: gives every buffer of the workspace its offset. It runs after other passes have removed statements.
//!
//! ```text
//! workspace 192                                      workspace 64
//! buffer b2: f64[8] workspace 0                      buffer b2: f64[8] workspace 0
//! buffer b3: f64[8] workspace 64                     buffer b3: f64[8] unplaced
//! buffer b4: f64[8] workspace 128                    buffer b4: f64[8] workspace 0
//! for i0 in 8 { .. store b2[i0], %0 }           ->   for i0 in 8 { .. store b2[i0], %0 }
//! for i1 in 8 { %1: f64 = load b2[i1] .. }           for i1 in 8 { %1: f64 = load b2[i1] .. }
//! for i2 in 8 { .. store b4[i2], %2 }                for i2 in 8 { .. store b4[i2], %2 }
//! ```
//!
//! Passes remove buffers, and shorten the lifetimes of others. A buffer that no statement names gets no memory. The
//! lifetime of another buffer is a range of statements of its *scope*: the innermost block that holds all statements that
//! name the buffer, if this block runs at most once in a run of the kernel. The body of a serial loop is a scope, too, if
//! no iteration reads elements of the buffer from an earlier iteration (`loop_ir/analysis/block_local.rs`); otherwise the
//! scope is the innermost block around it that runs at most once.
//!
//! The offsets of all buffers with the same scope are chosen together (`workspace.rs`). The blocks inside a statement
//! share one range of bytes, which is as large as the largest of these blocks needs. The frame (workspace) of a called
//! kernel is placed like a buffer whose lifetime is the call.
//!
//! The bodies of loops with independent iterations, or with vector lanes, are no scopes: these iterations may not access
//! memory of one another.

use super::pass::{Invariant, Pass, Run};
use crate::loop_ir::analysis::block_local::block_local;
use crate::loop_ir::analysis::definite_write::filled_by_callees;
use crate::loop_ir::{
    BufferId, Effect, Flow, Kernel, KernelId, Parallelism, Place, Program, Stmt, visit,
};
use crate::workspace::{self, Lifetime};
use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap, entity_impl};
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{OrderedMap, Problem};

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(crate) const PASS: Pass = Pass {
    name: "plan_memory",
    about: "buffers of the workspace share memory if their lifetimes are disjoint; unused ones have none",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Program(|program, context| plan_memory(program, context.machine.page_bytes)),
};

/// Plans the memory of every kernel, callees first. Returns whether an offset or the size of a workspace changed.
///
/// # Errors
/// [`tapeloom_ir::Kind::TooLarge`] if the buffers of a kernel are larger than memory can be.
fn plan_memory(program: &mut Program, page_bytes: usize) -> Result<bool, Problem> {
    let filled = filled_by_callees(program);
    let mut frames: PrimaryMap<KernelId, usize> = PrimaryMap::new();
    let mut changed = false;
    for kernel in program.kernels_mut() {
        // A kernel with `argsort` uses the workspace as scratch memory of that function, so its buffers keep their
        // offsets.
        if kernel.argsort.is_none() {
            changed |= plan_kernel(kernel, &filled, &frames, page_bytes)?;
        }
        // No kernel calls the entry kernel, which is the last one, so nothing reads the value pushed for it.
        frames.push(kernel.workspace);
    }
    Ok(changed)
}

/// Plans the memory of a kernel; `frames` has the size in bytes of each callee's workspace. Returns whether an offset
/// or the size of the workspace changed.
fn plan_kernel(
    kernel: &mut Kernel,
    filled: &PrimaryMap<KernelId, Vec<bool>>,
    frames: &PrimaryMap<KernelId, usize>,
    page_bytes: usize,
) -> Result<bool, Problem> {
    let plan = |region, body| {
        let found = Blocks::of(region, body);
        let scopes = found.scopes(kernel, filled);
        found.plan(kernel, &scopes, frames, page_bytes)
    };
    let mut plans = vec![plan(Region::Workspace, &kernel.body)];
    visit(&kernel.body, &mut |stmt| {
        if let Stmt::For { parallelism: Parallelism::Concurrent, body, .. } = stmt {
            plans.push(plan(Region::Private, body));
        }
    });
    let plans: Option<Vec<Placed>> = plans.into_iter().collect();
    let mut plans = plans.ok_or_else(|| workspace::too_large(&kernel.name))?.into_iter();
    let Some(Placed { mut places, frames, peak }) = plans.next() else { return Ok(false) };
    let mut private = 0;
    for of_pieces in plans {
        // Concurrent loops run one after the other, so they share private memory.
        private = private.max(of_pieces.peak);
        places.extend(of_pieces.places);
    }
    let mut changed = (peak, private) != (kernel.workspace, kernel.private);
    (kernel.workspace, kernel.private) = (peak, private);
    for (buffer, place) in places {
        changed |= kernel.buffers[buffer].place != place;
        kernel.buffers[buffer].place = place;
    }
    place_frames(&mut kernel.body, &mut frames.into_iter(), &mut changed);
    Ok(changed)
}

/// The kind of memory that is planned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Region {
    /// The workspace of the kernel.
    Workspace,
    /// The private memory of an iteration of a concurrent loop.
    Private,
}

impl Region {
    const ALL: [Region; 2] = [Region::Workspace, Region::Private];

    fn holds(self, kernel: &Kernel, buffer: BufferId) -> bool {
        match kernel.buffers[buffer].place {
            Place::Workspace(_) => self == Region::Workspace,
            Place::Private(_) => self == Region::Private,
            Place::Input(_)
            | Place::Output(_)
            | Place::Donated { .. }
            | Place::Unplaced
            | Place::Record { .. } => false,
        }
    }

    fn place(self, offset: usize) -> Place {
        match self {
            Region::Workspace => Place::Workspace(offset),
            Region::Private => Place::Private(offset),
        }
    }
}

/// Sets the frame offsets of the calls in a block: `frames` yields one offset for each call, in the order of the
/// statements. Sets `changed` if an offset changed.
fn place_frames(body: &mut [Stmt], frames: &mut impl Iterator<Item = usize>, changed: &mut bool) {
    for stmt in body {
        if let Stmt::Call(call) = stmt
            && let Some(frame) = frames.next()
        {
            *changed |= call.frame != frame;
            call.frame = frame;
        }
        stmt.blocks_mut().into_iter().for_each(|inside| place_frames(inside, frames, changed));
    }
}

/// A block of statements of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct BlockId(u32);
entity_impl!(BlockId, "block");

/// A statement, by its block and its position there.
type Position = (BlockId, usize);

struct Block<'a> {
    body: &'a [Stmt],
    /// The position of the statement that contains the block; `None` for the body of the kernel.
    parent: Option<Position>,
    depth: usize,
    /// The innermost block, among this block and the blocks around it, that runs at most once per run of the kernel.
    once: BlockId,
    /// The innermost block, among this block and the blocks around it, that is in no loop with independent iterations
    /// or lanes.
    serial: BlockId,
}

/// The blocks of a kernel, each block after the block around it, and the statements that need memory.
struct Blocks<'a> {
    region: Region,
    blocks: PrimaryMap<BlockId, Block<'a>>,
    /// The statements that name each buffer.
    named: SecondaryMap<BufferId, Vec<Position>>,
    /// The calls of kernels, in the order of the statements.
    calls: Vec<(Position, KernelId)>,
}

/// The planned memory of a kernel; all offsets are in bytes from the beginning of its workspace.
struct Placed {
    places: Vec<(BufferId, Place)>,
    /// The offset of the frame (the callee's workspace) of each call, in the order of the statements.
    frames: Vec<usize>,
    peak: usize,
}

/// A part of the memory of a block, which gets an offset of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Buffer(BufferId),
    /// The frame (the callee's workspace) of a call, by the call's position in `Blocks::calls`.
    Frame(usize),
    /// The memory of the blocks inside the statement at this position.
    Inside(usize),
}

impl<'a> Blocks<'a> {
    fn of(region: Region, body: &'a [Stmt]) -> Blocks<'a> {
        let (blocks, named) = (PrimaryMap::new(), SecondaryMap::new());
        let mut all = Blocks { region, blocks, named, calls: Vec::new() };
        let root = BlockId::new(0);
        all.add(Block { body, parent: None, depth: 0, once: root, serial: root });
        all
    }

    fn add(&mut self, block: Block<'a>) {
        let (body, depth) = (block.body, block.depth + 1);
        let (once, serial) = (block.once, block.serial);
        let here = self.blocks.push(block);
        for (at, stmt) in body.iter().enumerate() {
            let shape = stmt.shape();
            if !(shape.flow.is_loop() && planted(Fault::ExchangesMeet)) {
                stmt.buffers(&mut |buffer| self.named[buffer].push((here, at)));
            }
            if let Effect::Call(call) = shape.effect {
                self.calls.push(((here, at), call.callee));
            }
            let independent = match shape.flow {
                // A loop with lanes runs several iterations at once, so its memory is separate for each, as in a loop
                // with independent iterations.
                Flow::For { parallelism, lanes, .. } => {
                    (parallelism != Parallelism::Serial || lanes > 1)
                        && !planted(Fault::ScopeInParallel)
                }
                Flow::Straight | Flow::Nest | Flow::While | Flow::If => false,
            };
            for body in shape.blocks {
                let next = self.blocks.next_key();
                let once = if once == here && !shape.flow.is_loop() { next } else { once };
                let serial = if serial == here && !independent { next } else { serial };
                self.add(Block { body, parent: Some((here, at)), depth, once, serial });
            }
        }
    }

    /// Returns the innermost block that contains both blocks.
    fn common(&self, a: BlockId, b: BlockId) -> BlockId {
        let (mut a, mut b) = (a, b);
        while a != b {
            let deeper = if self.blocks[a].depth >= self.blocks[b].depth { &mut a } else { &mut b };
            match self.blocks[*deeper].parent {
                Some((parent, _)) => *deeper = parent,
                None => return BlockId::new(0),
            }
        }
        a
    }

    /// Returns the position in `block` of the statement that is at `at`, or that contains the statement at `at`.
    fn within(&self, block: BlockId, at: Position) -> usize {
        let (mut here, mut position) = at;
        while here != block
            && let Some(parent) = self.blocks[here].parent
        {
            (here, position) = parent;
        }
        position
    }

    /// Returns the scope of each buffer in the workspace that a statement names: the block for whose run the buffer
    /// needs memory.
    fn scopes(
        &self,
        kernel: &Kernel,
        filled: &PrimaryMap<KernelId, Vec<bool>>,
    ) -> SecondaryMap<BufferId, Option<BlockId>> {
        let mut scopes = SecondaryMap::new();
        let mut local: OrderedMap<BlockId, Vec<BufferId>> = OrderedMap::default();
        for buffer in kernel.buffers.keys().filter(|buffer| self.region.holds(kernel, *buffer)) {
            let blocks = self.named[buffer].iter().map(|(block, _)| *block);
            let Some(innermost) = blocks.reduce(|a, b| self.common(a, b)) else { continue };
            let scope = self.blocks[innermost].serial;
            scopes[buffer] = Some(scope);
            if self.blocks[scope].once != scope {
                local.entry(scope).or_default().push(buffer);
            }
        }
        for (scope, buffers) in local {
            let answers = block_local(kernel, filled, self.blocks[scope].body, &buffers);
            for (buffer, is_local) in buffers.into_iter().zip(answers) {
                if !is_local && !planted(Fault::BackEdge) {
                    scopes[buffer] = Some(self.blocks[scope].once);
                }
            }
        }
        scopes
    }

    /// Chooses the offsets of all buffers and frames of a kernel; returns `None` if the memory exceeds the address
    /// space.
    fn plan(
        &self,
        kernel: &Kernel,
        scopes: &SecondaryMap<BufferId, Option<BlockId>>,
        frames: &PrimaryMap<KernelId, usize>,
        page_bytes: usize,
    ) -> Option<Placed> {
        let mut parts: SecondaryMap<BlockId, Vec<(Part, Lifetime)>> = SecondaryMap::new();
        for buffer in kernel.buffers.keys() {
            let Some(scope) = scopes[buffer] else { continue };
            let at = || self.named[buffer].iter().map(|at| self.within(scope, *at));
            let (first, last) = (at().min().unwrap_or(0), at().max().unwrap_or(0));
            let life = Lifetime { first, last, bytes: kernel.buffers[buffer].ty.bytes() };
            parts[scope].push((Part::Buffer(buffer), life));
        }
        for (n, (at, callee)) in self.calls.iter().enumerate() {
            let scope = self.blocks[at.0].serial;
            let first = self.within(scope, *at);
            let bytes = frames[*callee] / if planted(Fault::Frame) { 2 } else { 1 };
            let life = Lifetime { first, last: first, bytes };
            parts[scope].push((Part::Frame(n), life));
        }
        // Inner blocks come after the blocks around them. Go backwards, so that the memory of inner blocks is planned
        // first.
        let mut offsets: SecondaryMap<BlockId, Vec<usize>> = SecondaryMap::new();
        let mut peak = 0;
        for id in self.blocks.keys().rev() {
            let lives: Vec<Lifetime> = parts[id].iter().map(|(_, life)| *life).collect();
            (offsets[id], peak) = workspace::plan(&lives, page_bytes)?;
            if let (Some((parent, at)), true) = (self.blocks[id].parent, peak > 0) {
                // Blocks inside one statement are visited one after the other, so only the last part can belong to the
                // same statement.
                match parts[parent].last_mut().filter(|(part, _)| *part == Part::Inside(at)) {
                    Some((_, life)) => life.bytes = life.bytes.max(peak),
                    None => {
                        let life = Lifetime { first: at, last: at, bytes: peak };
                        parts[parent].push((Part::Inside(at), life));
                    }
                }
            }
        }
        let mut inside: OrderedMap<Position, usize> = OrderedMap::default();
        let unused = kernel.buffers.keys().filter(|b| {
            Region::ALL.iter().any(|of| of.holds(kernel, *b)) && self.named[*b].is_empty()
        });
        let places = match self.region {
            Region::Workspace => unused.map(|buffer| (buffer, Place::Unplaced)).collect(),
            Region::Private => Vec::new(),
        };
        let mut placed = Placed { places, frames: vec![0; self.calls.len()], peak };
        for (id, block) in &self.blocks {
            let base = block.parent.and_then(|at| inside.get(&at)).copied().unwrap_or(0);
            for ((part, _), offset) in parts[id].iter().zip(&offsets[id]) {
                let offset = base + offset;
                match part {
                    Part::Buffer(buffer) => {
                        placed.places.push((*buffer, self.region.place(offset)))
                    }
                    Part::Frame(n) => placed.frames[*n] = offset,
                    Part::Inside(at) => _ = inside.insert((id, *at), offset),
                }
            }
        }
        Some(placed)
    }
}
