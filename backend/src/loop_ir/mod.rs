//! The loop IR: loop nests over strided views with scalar bodies.
//!
//! A [`Program`] is a lowered function: buffers with a place in memory, and statements that run in order. Shapes,
//! views and broadcasting have become index arithmetic. The language has loops, scalar values ([`Code`] on single
//! elements), loads, stores, scalar variables that accumulate, and contractions by a library:
//!
//! ```text
//! program @softmax_sum {
//!   buffer b0: f64[8,100] input 0
//!   buffer b1: f64[8] output 0
//!   for i0 in 8 {
//!     var v0: f64 = 0.0
//!     fold i1 in 100 {
//!       %0: f64 = load b0[i0*100 + i1]
//!       %1: f64 = exp %0
//!       v0 = add v0, %1
//!     }
//!     store b1[i0], v0
//!   }
//! }
//! ```
//!
//! Loops state how their iterations depend on each other ([`Parallelism`]) and how many of them run in vector lanes
//! ([`vectorize`](crate::passes::vectorize)). A loop may have an extent that is known only at run time, and may carry
//! arrays from one iteration to the next ([`Carry`]). Branches, `while` and calls of other kernels of the program
//! complete the language.
//!
//! The text form prints and parses, and a verifier checks programs. An interpreter defines their meaning, and every
//! generator of machine code is tested against it. All addresses count elements, not bytes.

pub(crate) mod analysis;
pub(crate) mod concurrency;
pub(crate) mod dead_code;
mod dynamic_tape;
mod external;
pub(crate) mod fingerprint;
pub(crate) mod interp;
pub(crate) mod legal_lanes;
pub(crate) mod loop_counters;
pub(crate) mod loop_limits;
pub(crate) mod origins;
pub(crate) mod shape;
pub(crate) mod tape_chunks;
#[cfg(test)]
mod tests;
pub(crate) mod text;
#[cfg(test)]
mod text_tests;
pub(crate) mod timers;
pub(crate) mod verify;
pub(crate) mod visit;

#[cfg(feature = "native")]
pub(crate) use analysis::definite_write::filled;
pub use analysis::dependence::infer_parallelism;
pub(crate) use dynamic_tape::opened;
pub use dynamic_tape::{Cursor, CursorId, CursorTarget, Tape, TapeId, TapeStmt, handle};
pub use external::{External, ExternalSignature, PlannedRoutine};
pub use interp::eval::{eval, shadow};
pub(crate) use interp::eval::{observed, shadow_within};
pub(crate) use legal_lanes::{MOST_LANES, combine};
pub use loop_limits::{LimitStmt, LoopLimit, LoopLimitId};
pub use origins::{Computed, Origins};
pub use shape::{Access, Assign, Effect, ElementMut, Flow, Shape, ShapeMut};
pub use text::parse::parse;
pub use timers::{Timed, TimerId, TimerTotals};
pub(crate) use verify::check_depth;
pub use verify::{VerifyError, check, check_form, verify};
pub use visit::{Rewriter, visit};

use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap, entity_impl};
use std::sync::Arc;
use tapeloom_ir::prim::Mark;
use tapeloom_ir::{ArrayType, Code, Dtype, Literal, OrderedMap};
use tapeloom_routines::Argsort;

/// The id of a kernel that other kernels call (a callee of a program). Displays as `k3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelId(u32);
entity_impl!(KernelId, "k");

/// The id of a buffer of a kernel. Displays as `b3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(u32);
entity_impl!(BufferId, "b");

/// The id of a loop counter, an i64 that starts at 0. Displays as `i3`. Unique within a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexId(u32);
entity_impl!(IndexId, "i");

/// The id of a scalar value, which is assigned once and visible to the end of its block. Displays as `%3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScalarId(u32);
entity_impl!(ScalarId, "%");

/// The id of a scalar variable (an accumulator), which is visible to the end of its block. Displays as `v3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(u32);
entity_impl!(VarId, "v");

/// A program: a lowered function as loop nests over buffers, with the kernels that it calls.
#[derive(Clone, Debug)]
pub struct Program {
    /// The dynamic tapes, which the kernels share: sequences of records whose number is known only at run time.
    pub tapes: PrimaryMap<TapeId, Tape>,
    /// The loops whose iterations are counted; empty unless the user requested limits of calls.
    pub limited: PrimaryMap<LoopLimitId, LoopLimit>,
    /// The number of timers: 0, unless a profile was requested.
    pub timers: usize,
    /// The callees, in an order in which a kernel calls only kernels before it, so that no call recurses. Each callee
    /// is compiled once.
    pub callees: PrimaryMap<KernelId, Kernel>,
    /// The entry: the kernel that runs when the program is called.
    pub entry: Kernel,
}

impl Program {
    /// Returns a program whose entry has no buffers and no statements.
    pub fn new(name: impl Into<String>) -> Program {
        Program {
            tapes: PrimaryMap::new(),
            limited: PrimaryMap::new(),
            timers: 0,
            callees: PrimaryMap::new(),
            entry: Kernel::new(name),
        }
    }

    /// Returns all kernels of the program: the callees, each before its callers, and then the entry (with the id
    /// `None`).
    pub fn kernels(&self) -> impl Iterator<Item = (Option<KernelId>, &Kernel)> {
        let callees = self.callees.iter().map(|(id, k)| (Some(id), k));
        callees.chain([(None, &self.entry)])
    }

    /// Returns all kernels of the program as mutable references: the callees, each before its callers, and then the
    /// entry.
    pub fn kernels_mut(&mut self) -> impl Iterator<Item = &mut Kernel> {
        self.callees.values_mut().chain([&mut self.entry])
    }

    /// Gives each call a new frame (the callee's workspace inside the caller's) at the end of the caller's workspace.
    /// Called after the workspaces of callees have grown.
    pub(crate) fn renew_frames(&mut self) {
        let mut sizes: PrimaryMap<KernelId, usize> = PrimaryMap::new();
        for kernel in self.kernels_mut() {
            kernel.rewrite(|kernel, body| frames(kernel, &sizes, body));
            sizes.push(kernel.workspace);
        }
    }

    /// Returns whether the program has contractions that the matrix library computes, in a summation order of its own.
    /// All other results have the same bits in every engine (interpreter, machine code) on one machine. On another
    /// machine, results of library routines may differ, since the routines choose instructions by the processor.
    pub fn contracts(&self) -> bool {
        let mut found = false;
        for (_, kernel) in self.kernels() {
            visit(&kernel.body, &mut |s| {
                found |= matches!(s, Stmt::Contract(c) if c.sums == Sums::Library);
            });
        }
        found
    }

    /// Returns the external functions that the program calls, without repetition. The index of a function in this
    /// list is the number by which generated code calls it.
    pub fn externals(&self) -> Vec<Arc<ExternalSignature>> {
        let mut all: Vec<Arc<ExternalSignature>> = Vec::new();
        for (_, kernel) in self.kernels() {
            visit(&kernel.body, &mut |s| match s {
                Stmt::CallExternal(c) if !all.contains(&c.signature) => {
                    all.push(c.signature.clone())
                }
                _ => {}
            });
        }
        all
    }

    /// Returns the work of a run, in units of one addition. A scalar operation counts the flops of its row in the
    /// table of codes. A load, a store, a product in a contraction and an element that the caller clears count one
    /// each; of the two blocks of a branch, the one with more work counts. The result is `u64::MAX` if it is larger,
    /// if a trip count is known only at run time, or if a Rust function is called.
    pub fn work(&self) -> u64 {
        let mut callees = PrimaryMap::new();
        for kernel in self.callees.values() {
            let work = work(&kernel.body, &callees);
            callees.push(work);
        }
        let cleared = self.entry.buffers.values().filter(|b| b.zeroed);
        let cleared = cleared.map(|b| b.ty.shape.elements() as u64).fold(0, u64::saturating_add);
        work(&self.entry.body, &callees).saturating_add(cleared)
    }
}

/// A kernel: a function of a program, with buffers and statements. The entry and the callees are kernels.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The name of the kernel, without `@`.
    pub name: String,
    /// Whether the body replaces calls of this kernel ([`inline_bodies`](crate::passes::inline_bodies)): such a kernel
    /// is the body of a loop or branch, lowered as a kernel in order to be inlined.
    pub inline: bool,
    /// A function that machine code calls instead of the body. The function computes the same results: it reads input
    /// 0, writes output 0 and uses the workspace as scratch memory.
    pub argsort: Option<Argsort>,
    /// The buffers of the kernel: arguments, results, workspace and records of dynamic tapes.
    pub buffers: PrimaryMap<BufferId, Buffer>,
    /// The statements of the kernel, in program order. The statements of this outermost block are the *steps*.
    pub body: Vec<Stmt>,
    /// The dtype of every scalar value of the kernel.
    pub scalars: PrimaryMap<ScalarId, Dtype>,
    /// The dtype of every scalar variable of the kernel.
    pub vars: PrimaryMap<VarId, Dtype>,
    /// The number of loop counters of the kernel, whose ids are below this number.
    pub indices: u32,
    /// For each cursor, whether it reads or writes its record.
    pub cursors: PrimaryMap<CursorId, Cursor>,
    /// For each buffer, the versions after version 0, in order: version 1, 2, ..
    pub versions: SecondaryMap<BufferId, Vec<Version>>,
    /// The buffer versions that are saved for the reverse pass, each with its marks, which state why it is saved or how
    /// it is stored. Values on dynamic tapes are not included.
    pub kept: OrderedMap<BufferVersion, Vec<Mark>>,
    /// The workspace that a call needs, in bytes, including the frames of its callees: the exact peak, without
    /// arguments and results.
    pub workspace: usize,
    /// The memory that one iteration of a concurrent loop needs for its private buffers, in bytes. Each thread of a call
    /// has memory of this size, in addition to the workspace.
    pub private: usize,
}

impl Kernel {
    /// Returns a kernel with this name, without buffers and statements.
    pub fn new(name: impl Into<String>) -> Kernel {
        Kernel {
            name: name.into(),
            inline: false,
            argsort: None,
            buffers: PrimaryMap::new(),
            body: Vec::new(),
            scalars: PrimaryMap::new(),
            vars: PrimaryMap::new(),
            indices: 0,
            cursors: PrimaryMap::new(),
            versions: SecondaryMap::new(),
            kept: OrderedMap::default(),
            workspace: 0,
            private: 0,
        }
    }

    /// Returns the equations that the kernel computes.
    pub fn origins(&self) -> Origins {
        Origins::of(self.body.iter().filter_map(Stmt::origins).flat_map(Origins::iter).copied())
    }

    /// Rewrites the body with the function `f`, which also has access to the rest of the kernel.
    pub(crate) fn rewrite<T>(&mut self, f: impl FnOnce(&mut Kernel, &mut Vec<Stmt>) -> T) -> T {
        let mut body = std::mem::take(&mut self.body);
        let made = f(self, &mut body);
        self.body = body;
        made
    }

    /// Returns a new loop counter for the kernel.
    pub(crate) fn fresh_index(&mut self) -> IndexId {
        let index = IndexId::new(self.indices as usize);
        self.indices += 1;
        index
    }

    /// Adds a buffer to the workspace that shares memory with no other buffer and no frame, and returns it.
    pub(crate) fn scratch(&mut self, ty: ArrayType) -> BufferId {
        let offset = self.reserve(ty.bytes()).unwrap_or(NOWHERE);
        self.buffers.push(Buffer::new(ty, Place::Workspace(offset)))
    }

    /// Extends the workspace by a number of bytes, and returns the offset of these bytes; `None` if they exceed the
    /// address space.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Option<usize> {
        extend(&mut self.workspace, bytes)
    }

    /// Moves a buffer of the workspace to private memory, where it shares bytes with no other buffer.
    pub(crate) fn make_private(&mut self, buffer: BufferId) {
        let bytes = self.buffers[buffer].ty.bytes();
        let offset = extend(&mut self.private, bytes).unwrap_or(NOWHERE);
        self.buffers[buffer].place = Place::Private(offset);
    }

    /// Records that a buffer version is saved for the reverse pass, with this mark. A mark that the version already has
    /// is not added again.
    pub fn keep(&mut self, held: BufferVersion, mark: Mark) {
        let marks = self.kept.entry(held).or_default();
        if !marks.contains(&mark) {
            marks.push(mark);
        }
    }

    /// Returns the dtype of an operand; panics if the operand is not declared in the kernel.
    pub fn dtype(&self, arg: Arg) -> Dtype {
        match arg {
            Arg::Scalar(s) => self.scalars[s],
            Arg::Var(v) => self.vars[v],
            Arg::Index(_) => Dtype::I64,
            Arg::Literal(l) => l.dtype,
        }
    }

    /// Returns the dtype of an operand; `None` if the operand is not declared in the kernel.
    fn declared(&self, arg: Arg) -> Option<Dtype> {
        match arg {
            Arg::Scalar(s) => self.scalars.get(s).copied(),
            Arg::Var(v) => self.vars.get(v).copied(),
            Arg::Index(_) | Arg::Literal(_) => Some(self.dtype(arg)),
        }
    }

    /// Returns the type of each argument; `None` for an argument that no buffer holds. Buffers whose argument number
    /// is `MOST_INPUTS` or more are ignored; the verifier refuses them.
    pub fn inputs(&self) -> Vec<Option<&ArrayType>> {
        let mut inputs = Vec::new();
        for b in self.buffers.values() {
            if let Some(n) = b.place.input().filter(|n| *n < MOST_INPUTS) {
                if inputs.len() <= n {
                    inputs.resize(n + 1, None);
                }
                inputs[n] = Some(&b.ty);
            }
        }
        inputs
    }

    /// Returns, for each donated argument, its number and the number of the result that takes over its memory.
    pub fn donated(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.buffers.values().filter_map(|b| Some((b.place.input()?, b.place.output()?)))
    }

    /// Returns the number of bytes that a record of a dynamic tape needs to hold the buffers at this cursor (a pointer
    /// to a record), and the alignment in bytes that these buffers need.
    pub(crate) fn needs(&self, cursor: CursorId) -> (usize, usize) {
        let mut needs = (0, 1);
        for b in self.buffers.values() {
            if let Place::Record { cursor: of, offset } = b.place
                && of == cursor
            {
                needs.0 = needs.0.max(offset + b.ty.bytes());
                needs.1 = needs.1.max(b.ty.dtype.bytes());
            }
        }
        needs
    }

    /// Returns the buffer of each result and its type, in the order of the results.
    pub fn outputs(&self) -> Vec<(BufferId, &ArrayType)> {
        let mut outputs: Vec<(usize, BufferId, &ArrayType)> = Vec::new();
        for (id, b) in &self.buffers {
            if let Some(n) = b.place.output() {
                outputs.push((n, id, &b.ty));
            }
        }
        outputs.sort_by_key(|(n, ..)| *n);
        outputs.into_iter().map(|(_, id, ty)| (id, ty)).collect()
    }
}

/// Places the frames of calls (the callees' workspaces) at the end of the workspace of the kernel that calls, for the
/// calls in `body` and in its inner blocks. `sizes` has the bytes of workspace of each callee.
fn frames(kernel: &mut Kernel, sizes: &PrimaryMap<KernelId, usize>, body: &mut [Stmt]) {
    for stmt in body {
        if let Stmt::Call(call) = stmt {
            call.frame = kernel.reserve(sizes[call.callee]).unwrap_or(NOWHERE);
        }
        stmt.blocks_mut().into_iter().for_each(|inside| frames(kernel, sizes, inside));
    }
}

/// The alignment in bytes of buffers in the workspace: a cache line, the unit in which memory is allocated.
pub(crate) const BUFFER_ALIGNMENT_BYTES: usize = size_of::<tapeloom_ir::Line>();

/// The maximal bytes of a workspace: the addressable memory (`isize::MAX`), less two cache lines, so that a size can be
/// rounded up to a cache line.
pub(crate) const MOST_BYTES: usize = isize::MAX as usize - 2 * BUFFER_ALIGNMENT_BYTES;

/// Extends memory of `size` bytes by a number of bytes that begin at a cache line. Returns the offset of these bytes;
/// `None` if they exceed the address space.
fn extend(size: &mut usize, bytes: usize) -> Option<usize> {
    let offset = size.checked_next_multiple_of(BUFFER_ALIGNMENT_BYTES)?;
    *size = offset.checked_add(bytes).filter(|end| *end <= MOST_BYTES)?;
    Some(offset)
}

/// An offset beyond every workspace, which the verifier refuses. It stands for memory that exceeds the address space.
const NOWHERE: usize = usize::MAX / BUFFER_ALIGNMENT_BYTES * BUFFER_ALIGNMENT_BYTES;

/// The upper bound of argument numbers (2^24): a larger number would allocate memory for all numbers below it.
const MOST_INPUTS: usize = 1 << 24;

/// Returns the work of a block in units of one addition; `callees` has the work of each callee. See [`Program::work`].
pub(crate) fn work(body: &[Stmt], callees: &PrimaryMap<KernelId, u64>) -> u64 {
    let of_code =
        |shape: &Shape<'_>| shape.code.map_or(1, |code| u64::from(code.row().flops.max(1)));
    let alone = |shape: &Shape<'_>| match shape.effect {
        Effect::Call(call) => callees.get(call.callee).copied().unwrap_or(u64::MAX),
        // The work of a Rust function is unknown, and the function must not be called twice: return the maximum.
        Effect::External(c) => c.signature.flops().unwrap_or(u64::MAX),
        Effect::None | Effect::Tape(_) | Effect::Limit(_) | Effect::Lap(_) => {
            shape.contract.map_or(of_code(shape), |c| {
                let sizes = c.batch.iter().map(|b| b.0).chain([c.m, c.n, c.k]);
                sizes.fold(1u64, |n, extent| n.saturating_mul(extent as u64))
            })
        }
    };
    let of = |stmt: &Stmt| {
        let shape = stmt.shape();
        let blocks = shape.blocks.iter().map(|b| work(b, callees));
        let inside = match shape.flow {
            Flow::If => blocks.max().unwrap_or(0),
            _ => blocks.fold(0, u64::saturating_add),
        };
        match shape.flow {
            Flow::For { extent: Extent::Constant(n), .. } => inside.saturating_mul(n as u64),
            Flow::For { extent: Extent::Scalar(_), .. } | Flow::While => u64::MAX,
            Flow::Nest | Flow::If => inside,
            Flow::Straight => alone(&shape),
        }
    };
    body.iter().map(of).fold(0, u64::saturating_add)
}

/// A buffer: memory that holds an array in row-major order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// The type of the array in the buffer.
    pub ty: ArrayType,
    /// The memory in which the buffer lies: argument, result, workspace or record.
    pub place: Place,
    /// Whether the caller fills the buffer with zeros before the kernel runs, so that elements without a store are 0.
    /// Only results may be cleared.
    pub zeroed: bool,
}

impl Buffer {
    /// Returns a buffer that has only version 0, and that the caller does not clear before the kernel runs.
    pub fn new(ty: ArrayType, place: Place) -> Buffer {
        Buffer { ty, place, zeroed: false }
    }
}

/// A version of a buffer after version 0: a further value that the buffer's memory holds.
///
/// Memory is overwritten while a program still uses names for its earlier values: by updates in place, and by values
/// whose lifetime begins where that of another value ends. So every access names a version of its buffer: `b3` is the
/// first value, and `b3.1`, `b3.2` are the values after it. Machine code ignores versions; [`shadow`] checks that
/// each load finds the version that it names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Version {
    /// The version that this version updates in place. Elements that this version has not stored are the elements of
    /// the continued version. After this version's first store, the continued version must not be accessed. `None` if
    /// this version keeps no element of another version.
    pub continues: Option<u32>,
}

/// One version of a buffer: one of the values that the buffer holds, one after the other. Displays as `b3`, `b3.1`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BufferVersion {
    /// The buffer that holds the value.
    pub buffer: BufferId,
    /// The number of the version; 0 is the first value.
    pub version: u32,
}

impl BufferVersion {
    /// Returns version 0 of a buffer.
    pub fn first(buffer: BufferId) -> BufferVersion {
        BufferVersion { buffer, version: 0 }
    }
}

/// The memory in which a buffer lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Place {
    /// In the memory of the n-th argument, which the kernel only reads.
    Input(usize),
    /// In the memory of the n-th result, which the kernel writes and may read back.
    Output(usize),
    /// An argument that the caller has donated, in the memory of a result: the buffer holds the argument when the
    /// kernel begins, and the result when it ends. The entry of a program has such buffers only if the program was
    /// compiled for donated arguments ([`Options::donated`](crate::Options::donated)).
    Donated {
        /// The number of the donated argument.
        input: usize,
        /// The number of the result that takes over the argument's memory.
        output: usize,
    },
    /// At this offset in the workspace (in bytes, a multiple of 64). Buffers with disjoint lifetimes may share bytes.
    Workspace(usize),
    /// In the private memory of an iteration of a concurrent loop, at this offset in bytes (a multiple of 64). Private
    /// memory is undefined when an iteration begins. Only the entry has such buffers, and each is named in a single
    /// concurrent loop.
    Private(usize),
    /// Without memory, because no statement accesses the buffer
    /// ([`plan_memory`](crate::passes::plan_memory)).
    Unplaced,
    /// In the record of a dynamic tape to which a cursor points at the time of an access.
    Record {
        /// The cursor that points to the record.
        cursor: CursorId,
        /// The offset in bytes from the field that the cursor points to, a multiple of the element size.
        offset: usize,
    },
}

impl Place {
    /// Returns the number of the argument that the buffer holds when the kernel begins; `None` if it holds no
    /// argument.
    pub fn input(self) -> Option<usize> {
        match self {
            Place::Input(n) | Place::Donated { input: n, .. } => Some(n),
            Place::Output(_)
            | Place::Workspace(_)
            | Place::Private(_)
            | Place::Unplaced
            | Place::Record { .. } => None,
        }
    }

    /// Returns the number of the result that the buffer holds when the kernel ends; `None` if it holds no result.
    pub fn output(self) -> Option<usize> {
        match self {
            Place::Output(n) | Place::Donated { output: n, .. } => Some(n),
            Place::Input(_)
            | Place::Workspace(_)
            | Place::Private(_)
            | Place::Unplaced
            | Place::Record { .. } => None,
        }
    }
}

/// A statement of the loop IR. Statements with inner blocks are loops, branches and scopes.
#[derive(Clone, Hash, Debug)]
pub enum Stmt {
    /// `nest { body }`: a scope; scalars and variables that are defined in it are not visible after it.
    Nest {
        /// The statements of the scope.
        body: Vec<Stmt>,
        /// The equations that the statements compute.
        origins: Origins,
    },
    /// `for index in extent { body }`: a counted loop.
    For {
        /// The loop counter, which counts from 0.
        index: IndexId,
        /// The trip count of the loop.
        extent: Extent,
        /// The claimed dependence between the iterations of the loop.
        parallelism: Parallelism,
        /// The number of vector lanes (iterations that execute side by side): 1, or a power of two. See
        /// [`vectorize`](crate::passes::vectorize).
        lanes: usize,
        /// The arrays that each iteration passes to the next; empty unless the loop is serial.
        carries: Vec<Carry>,
        /// The statements of one iteration.
        body: Vec<Stmt>,
        /// The equations that the loop computes.
        origins: Origins,
    },
    /// `while { head } condition { body }`: the head runs before each iteration and once more, after the last one.
    While {
        /// The statements that compute the condition. Their definitions are visible in the body.
        head: Vec<Stmt>,
        /// A bool that the head defines: if it is true, another iteration runs.
        condition: Arg,
        /// The arrays that each iteration passes to the next.
        carries: Vec<Carry>,
        /// The statements of one iteration.
        body: Vec<Stmt>,
        /// The equations that the loop computes.
        origins: Origins,
    },
    /// `if condition { then } else { otherwise }`: a branch.
    If {
        /// The condition that selects the block to run, a bool scalar.
        condition: Arg,
        /// The statements that run if the condition is true.
        then: Vec<Stmt>,
        /// The statements that run if the condition is false.
        otherwise: Vec<Stmt>,
        /// The equations that the branch computes.
        origins: Origins,
    },
    /// `value = expr`: defines a scalar.
    Let {
        /// The scalar that the statement defines.
        value: ScalarId,
        /// The expression that defines the scalar.
        expr: Expr,
    },
    /// `var v = init`: declares a variable.
    Var {
        /// The variable that the statement declares.
        var: VarId,
        /// The initial value of the variable.
        init: Arg,
    },
    /// `v = value`: assigns a variable.
    Set {
        /// The variable that gets another value.
        var: VarId,
        /// The new value of the variable.
        value: Arg,
    },
    /// `v = code v, value`: combines a variable with a value, as one step of a reduction.
    Fold {
        /// The variable that is combined with the value, and that is set to the result.
        var: VarId,
        /// The operation (scalar code) that combines the variable with the value.
        code: Code,
        /// The operand that is combined with the variable.
        value: Arg,
    },
    /// `store b3[address], value`: stores a scalar in an element of a buffer; if there is a guard, only if the guard
    /// is true.
    Store {
        /// The version of the buffer that receives the element.
        held: BufferVersion,
        /// The address of the stored element in the buffer.
        address: Address,
        /// The scalar that is stored.
        value: Arg,
        /// A bool: the store happens only if it is true.
        guard: Option<Arg>,
    },
    /// A contraction (batched matrix product), in the summation order that `Contract::sums` states.
    Contract(Contract),
    /// A call of another kernel of the program.
    Call(Call),
    /// A statement on dynamic tapes, such as moving a cursor.
    Tape(TapeStmt),
    /// A statement that counts runs or iterations of a limited loop.
    Limit(LimitStmt),
    /// A call of a Rust function or of a library routine.
    CallExternal(CallExternal),
    /// `lap timer3`: adds the time since the last lap of the call, and one run, to a timer.
    Lap(TimerId),
}

/// A call of a Rust function or of a library routine, on views of buffers.
#[derive(Clone, Hash, Debug)]
pub struct CallExternal {
    /// The external function, with the types of its operands.
    pub signature: Arc<ExternalSignature>,
    /// The operands, each a contiguous part of a buffer.
    pub operands: Vec<View>,
    /// The results, each a contiguous part of a buffer. A Rust function reads its operands before it writes; the
    /// results of a routine overlap no operand and no other result.
    pub outputs: Vec<View>,
    /// The equations that the function computes.
    pub origins: Origins,
}

impl Stmt {
    /// Joins statements into one statement: a `Nest` with these origins. A single contraction, call or statement with
    /// blocks is returned unchanged.
    pub fn nest(mut body: Vec<Stmt>, origins: Origins) -> Stmt {
        match body.pop() {
            Some(only) if body.is_empty() && only.is_nested() => only,
            last => {
                body.extend(last);
                Stmt::Nest { body, origins }
            }
        }
    }

    /// Returns whether [`Stmt::nest`] leaves the statement alone unchanged: it is a contraction, a call or a statement
    /// with blocks.
    pub(crate) fn is_nested(&self) -> bool {
        !self.blocks().is_empty() || matches!(self, Stmt::Contract(_) | Stmt::Call(_))
    }
}

/// The trip count of a loop, static or known only at run time.
#[derive(Clone, Copy, PartialEq, Hash, Debug)]
pub enum Extent {
    /// A static trip count; may be 0.
    Constant(usize),
    /// The trip count is the value that an i64 scalar has when the loop is reached; a negative value means 0.
    Scalar(Arg),
}

/// The dependence between the iterations of a loop, from the strongest claim to the weakest. The pass that creates
/// the loop makes the claim.
///
/// The verifier refuses claims that it can refute, and [`shadow`] reports claims that a run violates. The verifier
/// refuses a `concurrent` loop unless it can prove the claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Parallelism {
    /// Text `concurrent`: as `for`, but several threads may run iterations at the same time. Buffers in private memory
    /// ([`Place::Private`]) have a separate value in each iteration.
    Concurrent,
    /// Text `for`: the iterations are independent; none accesses elements that another iteration writes.
    Parallel,
    /// Text `fold`: the iterations are independent, except that they fold into common variables.
    Fold,
    /// Text `serial`: the iterations may depend on each other, and run in order.
    Serial,
}

impl Parallelism {
    /// All claims, from the strongest to the weakest.
    pub const ALL: [Parallelism; 4] =
        [Parallelism::Concurrent, Parallelism::Parallel, Parallelism::Fold, Parallelism::Serial];
}

/// An array that a loop carries: the value of `output` at the end of an iteration becomes the value of `input` in the
/// next iteration and after the loop.
///
/// With one buffer (`b3 = b3.1`), iterations update the array in place. With two buffers (`b3 = b4`), an iteration
/// reads one and writes the other, and then the two exchange their memory. After the loop, `input` lies in its own
/// buffer again, and `output` holds no value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Carry {
    /// The buffer version that an iteration reads at its start.
    pub input: BufferVersion,
    /// The buffer version that an iteration has written at its end.
    pub output: BufferVersion,
}

/// `call callee(operands) to (outputs) frame f`: runs another kernel of the program.
#[derive(Clone, PartialEq, Hash, Debug)]
pub struct Call {
    /// The kernel that is called, which comes before the caller in the program.
    pub callee: KernelId,
    /// The operands, one for each input of the callee.
    pub operands: Vec<View>,
    /// The results, one for each output of the callee. A result overlaps no other view of the call, except that a
    /// donated operand has the address of the result for which it is donated.
    pub outputs: Vec<View>,
    /// The offset in bytes, a multiple of 64, of the callee's workspace in the workspace of the caller.
    pub frame: usize,
    /// The equations that the callee computes.
    pub origins: Origins,
}

/// A view: consecutive elements of a buffer, from an address on. Operands and results of calls are views.
#[derive(Clone, PartialEq, Hash, Debug)]
pub struct View {
    /// The version of the buffer of which the view shows elements.
    pub held: BufferVersion,
    /// The address of the view's first element in the buffer.
    pub at: Address,
    /// The number of consecutive elements in the view.
    pub elements: usize,
}

/// A scalar operand of a statement or address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Arg {
    /// The value of a scalar that an earlier statement defines.
    Scalar(ScalarId),
    /// The value that a variable has where the operand is read.
    Var(VarId),
    /// The current value of a loop counter, an i64.
    Index(IndexId),
    /// A constant, with its dtype.
    Literal(Literal),
}

/// The expression that defines a scalar value: a computation or a load.
#[derive(Clone, Hash, Debug)]
pub enum Expr {
    /// A scalar code (an operation on single elements, such as `add`) with its operands.
    Code(Code, Vec<Arg>),
    /// A load of an element of a buffer. If the guard is false, nothing is read and the value is zero.
    Load {
        /// The version of the buffer from which the element is loaded.
        held: BufferVersion,
        /// The address of the loaded element in the buffer.
        address: Address,
        /// A bool: the load happens only if it is true.
        guard: Option<Arg>,
    },
}

/// The address of an element of a buffer: `offset + Σ index * stride + dynamic`, in elements from the start of the
/// buffer.
///
/// The sum wraps around, as integer sums of programs do. So an address may be any number if a guard prevents the
/// access, and a stride may be any number if its index is always 0.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Address {
    /// The constant part of the address, in elements.
    pub offset: i64,
    /// The loop indices with their strides in elements.
    pub terms: Vec<(IndexId, i64)>,
    /// An i64 scalar that is added to the address, such as a loaded index; `None` if there is none.
    pub dynamic: Option<Arg>,
}

/// A matrix operand of a contraction: the address of its first element, and its strides in elements.
#[derive(Clone, PartialEq, Hash, Debug)]
pub struct Matrix {
    /// The version of the buffer that holds the matrix.
    pub held: BufferVersion,
    /// The address of the matrix's element (0, 0).
    pub at: Address,
    /// The distance from one row to the next, in elements.
    pub row: i64,
    /// The distance from one column to the next, in elements.
    pub column: i64,
}

/// The order in which the terms of a contraction's sums are added.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sums {
    /// An order that the matrix library chooses.
    Library,
    /// A fixed order with this number of lanes, a power of two: term `k` is added to accumulator `k % lanes`, and the
    /// accumulators are combined as those of [a loop with lanes](crate::passes::vectorize). With one lane, terms are
    /// added one after the other.
    Lanes(usize),
}

/// A contraction: `out[m, n] = sum_k lhs[m, k] rhs[k, n]`, a product of matrices, repeated for each batch.
#[derive(Clone, PartialEq, Hash, Debug)]
pub struct Contract {
    /// The dtype of all three matrices: `f64` or `f32`.
    pub dtype: Dtype,
    /// The order in which the terms of each sum are added, starting from 0.
    pub sums: Sums,
    /// The number of rows of the result.
    pub m: usize,
    /// The number of columns of the result.
    pub n: usize,
    /// The number of terms of each sum.
    pub k: usize,
    /// Whether the sums are added to the old values of `out`; otherwise they overwrite these values.
    pub accumulate: bool,
    /// The left operand of the product: `m` rows by `k` terms.
    pub lhs: Matrix,
    /// The right operand of the product: `k` terms by `n` columns.
    pub rhs: Matrix,
    /// The result of the product: `m` rows by `n` columns.
    pub out: Matrix,
    /// The batch loops around the product, the last one innermost: the trip count, and the distances in elements by
    /// which lhs, rhs and out move from one iteration to the next. If the distance of out is 0, all iterations write
    /// the same elements: the first one writes them as `accumulate` states, and each later one adds to them.
    pub batch: Vec<(usize, i64, i64, i64)>,
    /// The equations that the contraction computes.
    pub origins: Origins,
}
