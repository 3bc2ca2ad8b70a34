//! Kernels: loop nests over strided views with scalar bodies.
//!
//! A [`Program`] is what a function becomes for a machine: buffers with a place in memory and
//! statements that run in order. Shapes, views and broadcasting are gone: they have become index
//! arithmetic. What is left is loops, scalar values ([`Code`] on single elements), loads, stores,
//! scalar variables that accumulate, and contractions that a library does:
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
//! Loops say how their iterations depend on each other ([`Parallelism`]) and how many of them go side by side
//! ([`vectorize`](crate::passes::vectorize)), may have an extent that is known at run time only, and may carry arrays from one
//! iteration to the next ([`Carry`]). Branches, `while` and calls of other kernels of the program complete
//! the language.
//!
//! The text form prints, parses and verifies; an interpreter defines the meaning, and every
//! generator of machine code is tested against it. All addresses count elements, not bytes.

pub(crate) mod analysis;
pub(crate) mod dead_code;
mod dynamic_tape;
mod external;
pub(crate) mod fingerprint;
pub(crate) mod interp;
pub(crate) mod legal_lanes;
pub(crate) mod loop_counters;
pub(crate) mod loop_limits;
pub(crate) mod shape;
#[cfg(test)]
mod tests;
pub(crate) mod text;
#[cfg(test)]
mod text_tests;
pub(crate) mod verify;
pub(crate) mod visit;

pub(crate) use analysis::definite_write::filled;
pub use analysis::dependence::claim;
pub(crate) use dynamic_tape::opened;
pub use dynamic_tape::{Cursor, CursorId, CursorTarget, Tape, TapeId, TapeStmt, handle};
pub use external::{External, ExternalSignature, PlannedRoutine};
pub use interp::eval::{eval, shadow};
pub(crate) use interp::eval::{observed, shadow_within};
pub(crate) use legal_lanes::{MOST_LANES, combine};
pub use loop_limits::{LimitStmt, LoopLimit, LoopLimitId};
pub use shape::{Access, Assign, Effect, ElementMut, Flow, Shape, ShapeMut};
pub use text::parse::parse;
pub(crate) use verify::shallow;
pub use verify::{VerifyError, check, check_form, verify};
pub use visit::{Rewriter, visit};

use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap, entity_impl};
use std::sync::Arc;
use tapeloom_ir::prim::Mark;
use tapeloom_ir::{ArrayType, Code, Dtype, Literal, OrderedMap};
use tapeloom_routines::Argsort;

/// A kernel that others call. Displays as `k3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelId(u32);
entity_impl!(KernelId, "k");

/// A buffer of a kernel. Displays as `b3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(u32);
entity_impl!(BufferId, "b");

/// A loop index, i64. Displays as `i3`. Unique within a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexId(u32);
entity_impl!(IndexId, "i");

/// A scalar value, assigned once, visible to the end of its block. Displays as `%3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScalarId(u32);
entity_impl!(ScalarId, "%");

/// A scalar variable, an accumulator, visible to the end of its block. Displays as `v3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(u32);
entity_impl!(VarId, "v");

/// A function as loop nests over buffers, with the functions that it calls.
#[derive(Clone, Debug)]
pub struct Program {
    /// What iterations write of which only the run knows how many there are.
    pub tapes: PrimaryMap<TapeId, Tape>,
    /// The loops whose iterations are counted: none, unless somebody asked for it.
    pub limited: PrimaryMap<LoopLimitId, LoopLimit>,
    /// What is called, each compiled once. A kernel calls only those before it, so that no call
    /// recurses.
    pub callees: PrimaryMap<KernelId, Kernel>,
    /// What runs.
    pub entry: Kernel,
}

impl Program {
    /// A program that does nothing yet.
    pub fn new(name: impl Into<String>) -> Program {
        Program {
            tapes: PrimaryMap::new(),
            limited: PrimaryMap::new(),
            callees: PrimaryMap::new(),
            entry: Kernel::new(name),
        }
    }

    /// All kernels, callees before those that call them.
    pub fn kernels(&self) -> impl Iterator<Item = (Option<KernelId>, &Kernel)> {
        let callees = self.callees.iter().map(|(id, k)| (Some(id), k));
        callees.chain([(None, &self.entry)])
    }

    /// All kernels, to be changed.
    pub fn kernels_mut(&mut self) -> impl Iterator<Item = &mut Kernel> {
        self.callees.values_mut().chain([&mut self.entry])
    }

    /// Whether the matrix library contracts, in an order of its own. Everything else is the same in every bit
    /// whatever runs the kernels on one machine; library routines choose instructions by the processor.
    pub fn contracts(&self) -> bool {
        let mut found = false;
        for (_, kernel) in self.kernels() {
            visit(&kernel.body, &mut |s| {
                found |= matches!(s, Stmt::Contract(c) if c.sums == Sums::Library);
            });
        }
        found
    }

    /// The external functions that it calls, each once; they go by number.
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

    /// The counted work of a run, in additions. A scalar operation counts the flops of its row in the table of codes. A
    /// load, a store, a product in a contraction and an element that the caller clears count one each; of branches, the one
    /// with the most work counts. The result is
    /// `u64::MAX` if it is larger, if a trip count is known only in the run, or if a Rust function is called.
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

/// One function of a program.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Name, without `@`.
    pub name: String,
    /// Whether its body takes the place of its calls ([`inline_bodies`](crate::passes::inline_bodies)): it is the body of a loop or a
    /// branch, which was made as a kernel to be one.
    pub inline: bool,
    /// A function that machine code calls in place of the body. It computes the same: it reads input 0, writes output 0
    /// and uses the workspace as scratch memory.
    pub argsort: Option<Argsort>,
    /// Memory.
    pub buffers: PrimaryMap<BufferId, Buffer>,
    /// What to do, in order. The statements of the outermost block are the *steps*.
    pub body: Vec<Stmt>,
    /// The dtype of every scalar value.
    pub scalars: PrimaryMap<ScalarId, Dtype>,
    /// The dtype of every variable.
    pub vars: PrimaryMap<VarId, Dtype>,
    /// Number of loop indices.
    pub indices: u32,
    /// What each cursor does.
    pub cursors: PrimaryMap<CursorId, Cursor>,
    /// The values that buffers hold after their first ones, in order: version 1, 2, ..
    pub versions: SecondaryMap<BufferId, Vec<Version>>,
    /// The values that are kept, and why: the tape.
    pub kept: OrderedMap<BufferVersion, Vec<Mark>>,
    /// Bytes of workspace that a call needs, the frames of its callees included: the exact peak beside
    /// arguments and results.
    pub workspace: usize,
}

impl Kernel {
    /// A kernel that does nothing yet.
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
        }
    }

    /// Changes the body, with the rest of the kernel at hand.
    pub(crate) fn rewrite<T>(&mut self, f: impl FnOnce(&mut Kernel, &mut Vec<Stmt>) -> T) -> T {
        let mut body = std::mem::take(&mut self.body);
        let made = f(self, &mut body);
        self.body = body;
        made
    }

    /// The index of a new loop.
    pub(crate) fn fresh_index(&mut self) -> IndexId {
        let index = IndexId::new(self.indices as usize);
        self.indices += 1;
        index
    }

    /// Marks a value as kept.
    pub fn keep(&mut self, held: BufferVersion, mark: Mark) {
        let marks = self.kept.entry(held).or_default();
        if !marks.contains(&mark) {
            marks.push(mark);
        }
    }

    /// The dtype of an operand that is in scope.
    pub fn dtype(&self, arg: Arg) -> Dtype {
        match arg {
            Arg::Scalar(s) => self.scalars[s],
            Arg::Var(v) => self.vars[v],
            Arg::Index(_) => Dtype::I64,
            Arg::Literal(l) => l.dtype,
        }
    }

    /// The dtype of an operand, if the kernel says one.
    fn declared(&self, arg: Arg) -> Option<Dtype> {
        match arg {
            Arg::Scalar(s) => self.scalars.get(s).copied(),
            Arg::Var(v) => self.vars.get(v).copied(),
            Arg::Index(_) | Arg::Literal(_) => Some(self.dtype(arg)),
        }
    }

    /// The type of each argument; `None` where no buffer mentions it. Numbers that are too large for any program have
    /// none, and are refused.
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

    /// The arguments that callers give up, with the results in whose places they lie.
    pub fn given(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.buffers.values().filter_map(|b| Some((b.place.input()?, b.place.output()?)))
    }

    /// How many bytes of a record are touched where a cursor stands, and how they are aligned.
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

    /// The buffer of each result, in order.
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

/// Every buffer of a workspace begins at a multiple of this: a line of a cache, which is what memory is allocated in.
pub(crate) const BUFFER_ALIGNMENT_BYTES: usize = size_of::<tapeloom_ir::Line>();

/// A larger number of an input would take memory, whatever it means.
const MOST_INPUTS: usize = 1 << 24;

/// The counted work of a block: see [`Program::work`].
fn work(body: &[Stmt], callees: &PrimaryMap<KernelId, u64>) -> u64 {
    let of_code =
        |shape: &Shape<'_>| shape.code.map_or(1, |code| u64::from(code.row().flops.max(1)));
    let alone = |shape: &Shape<'_>| match shape.effect {
        Effect::Call(call) => callees.get(call.callee).copied().unwrap_or(u64::MAX),
        // Of a Rust function nobody knows, and it is not to be done twice.
        Effect::External(c) => c.signature.flops().unwrap_or(u64::MAX),
        Effect::None | Effect::Tape(_) | Effect::Limit(_) => {
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

/// A piece of memory that holds an array in row-major order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// What it holds.
    pub ty: ArrayType,
    /// Where it is.
    pub place: Place,
    /// Whether its first value is zeros until something is stored: of a result, whose memory the caller clears.
    pub zeroed: bool,
}

impl Buffer {
    /// A buffer that holds nothing at first.
    pub fn new(ty: ArrayType, place: Place) -> Buffer {
        Buffer { ty, place, zeroed: false }
    }
}

/// A value that a buffer holds after another one.
///
/// Memory is written over while values in it may still be wanted: by updates in place, and by values
/// that begin where another one ends. So every access says which of the buffer's values it means,
/// `b3` the first and `b3.1`, `b3.2` those after it. Machine code does not ask; [`shadow`] checks that
/// each load finds what it means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Version {
    /// The version that this one updates in place: where it has written nothing, it has that one's
    /// elements, and from its first store on nobody means the other. `None` where the two have
    /// nothing to do with each other.
    pub continues: Option<u32>,
}

/// One of the values that a buffer holds. Displays as `b3`, `b3.1`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BufferVersion {
    /// The buffer.
    pub buffer: BufferId,
    /// Which of its values.
    pub version: u32,
}

impl BufferVersion {
    /// The value that a buffer holds first.
    pub fn first(buffer: BufferId) -> BufferVersion {
        BufferVersion { buffer, version: 0 }
    }
}

/// Where a buffer is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Place {
    /// The n-th argument; read only.
    Input(usize),
    /// The n-th result; written, may be read back.
    Output(usize),
    /// An argument that the caller has given up, in the place of a result: at first it holds the one,
    /// in the end the other. Only callees have such buffers, since a program's arguments stay as they
    /// are.
    Given {
        /// Which argument.
        input: usize,
        /// Which result.
        output: usize,
    },
    /// At that offset (bytes, a multiple of 64) in the workspace. Buffers whose lives do not meet
    /// may share bytes.
    Workspace(usize),
    /// In the record where a cursor stands.
    Record {
        /// Which cursor.
        cursor: CursorId,
        /// Bytes from the field that it was turned to, a multiple of those of an element.
        offset: usize,
    },
}

impl Place {
    /// The argument that is there when the kernel begins.
    pub fn input(self) -> Option<usize> {
        match self {
            Place::Input(n) | Place::Given { input: n, .. } => Some(n),
            Place::Output(_) | Place::Workspace(_) | Place::Record { .. } => None,
        }
    }

    /// The result that is there when the kernel ends.
    pub fn output(self) -> Option<usize> {
        match self {
            Place::Output(n) | Place::Given { output: n, .. } => Some(n),
            Place::Input(_) | Place::Workspace(_) | Place::Record { .. } => None,
        }
    }
}

/// A statement.
#[derive(Clone, Hash, Debug)]
pub enum Stmt {
    /// A block of its own: what is defined in it ends with it.
    Nest {
        /// What.
        body: Vec<Stmt>,
    },
    /// `for index in extent { body }`
    For {
        /// The index, counting from 0.
        index: IndexId,
        /// How often.
        extent: Extent,
        /// How its iterations depend on each other.
        parallelism: Parallelism,
        /// How many iterations go side by side, see [`vectorize`](crate::passes::vectorize): 1, or a power of two.
        lanes: usize,
        /// Arrays that iterations hand on; only where iterations run in order.
        carries: Vec<Carry>,
        /// What.
        body: Vec<Stmt>,
    },
    /// `while { head } condition { body }`: the head runs before each iteration and once more.
    While {
        /// Finds out whether there is another iteration. What it defines is visible in the body.
        head: Vec<Stmt>,
        /// A bool of the head: goes on if true.
        condition: Arg,
        /// Arrays that iterations hand on.
        carries: Vec<Carry>,
        /// What.
        body: Vec<Stmt>,
    },
    /// `if condition { then } else { otherwise }`
    If {
        /// A bool.
        condition: Arg,
        /// What, if true.
        then: Vec<Stmt>,
        /// What, if false.
        otherwise: Vec<Stmt>,
    },
    /// `value = expr`
    Let {
        /// The value defined.
        value: ScalarId,
        /// What it is.
        expr: Expr,
    },
    /// `var v = init`
    Var {
        /// The variable declared.
        var: VarId,
        /// Its first value.
        init: Arg,
    },
    /// `v = value`
    Set {
        /// The variable.
        var: VarId,
        /// Its new value.
        value: Arg,
    },
    /// `v = code v, value`: one step of a reduction.
    Fold {
        /// The variable.
        var: VarId,
        /// The combining code.
        code: Code,
        /// What is folded in.
        value: Arg,
    },
    /// Writes an element, if the guard (a bool) holds.
    Store {
        /// Where to.
        held: BufferVersion,
        /// Which element.
        address: Address,
        /// What.
        value: Arg,
        /// Written only if true.
        guard: Option<Arg>,
    },
    /// A contraction by a library function.
    Contract(Contract),
    /// A call of another kernel.
    Call(Call),
    /// What happens to a tape.
    Tape(TapeStmt),
    /// What happens to a loop that is limited.
    Limit(LimitStmt),
    /// A call of a Rust function or of a library routine.
    CallExternal(CallExternal),
}

/// A call of a Rust function or of a library routine.
#[derive(Clone, Hash, Debug)]
pub struct CallExternal {
    /// What is called, and of what types its operands are.
    pub signature: Arc<ExternalSignature>,
    /// Where the operands are, each in one piece.
    pub operands: Vec<View>,
    /// Where the results go. A Rust function has read before it writes; what a routine writes overlaps nothing else.
    pub outputs: Vec<View>,
}

impl Stmt {
    /// The statements as one: what is alone and has a block of its own needs none around it.
    pub fn nest(mut body: Vec<Stmt>) -> Stmt {
        let alone = |s: &Stmt| matches!(s, Stmt::Contract(_) | Stmt::Call(_));
        let nested = |s: &Stmt| !s.blocks().is_empty() || alone(s);
        match body.pop() {
            Some(only) if body.is_empty() && nested(&only) => only,
            last => {
                body.extend(last);
                Stmt::Nest { body }
            }
        }
    }
}

/// How often a loop runs.
#[derive(Clone, Copy, PartialEq, Hash, Debug)]
pub enum Extent {
    /// So often; may be 0.
    Constant(usize),
    /// As an i64 says when the loop is reached; not at all where that is negative.
    Scalar(Arg),
}

/// How the iterations of a loop depend on each other: a claim by whoever made the loop, from the
/// strongest to the weakest.
///
/// The verifier refuses claims that it sees to be wrong, and [`shadow`] those that a run breaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Parallelism {
    /// Independent: no iteration touches what another one writes. Text: `for`.
    Parallel,
    /// They meet only in folds of variables. Text: `fold`.
    Fold,
    /// In order. Text: `serial`.
    Serial,
}

/// An array that the iterations of a loop hand on: at the end of an iteration what `next` holds becomes what
/// `now` holds, for the next iteration and behind the loop.
///
/// In one buffer (`b3 = b3.1`) iterations update it in place. Of two (`b3 = b4`) an iteration reads one and
/// writes the other, and then they exchange places; behind the loop `now` is at its own place again,
/// and `next` holds nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Carry {
    /// What an iteration begins with.
    pub now: BufferVersion,
    /// What it ends with.
    pub next: BufferVersion,
}

/// `call callee(operands) to (outputs) frame f`: runs another kernel of the program.
#[derive(Clone, PartialEq, Hash, Debug)]
pub struct Call {
    /// Which.
    pub callee: KernelId,
    /// What it reads, one for each input.
    pub operands: Vec<View>,
    /// Where it writes its results, one for each output; overlapping nothing else of the call, but
    /// the operand that is given up for it, which lies in the same place.
    pub outputs: Vec<View>,
    /// Where its workspace lies in that of the caller: bytes, a multiple of 64.
    pub frame: usize,
}

/// Consecutive elements of a buffer, from an address on: an operand of a call.
#[derive(Clone, PartialEq, Hash, Debug)]
pub struct View {
    /// Of which value.
    pub held: BufferVersion,
    /// The first element.
    pub at: Address,
    /// How many.
    pub elements: usize,
}

/// A scalar operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Arg {
    /// A value.
    Scalar(ScalarId),
    /// The present value of a variable.
    Var(VarId),
    /// A loop index, as i64.
    Index(IndexId),
    /// A constant.
    Literal(Literal),
}

/// What a scalar value is.
#[derive(Clone, Hash, Debug)]
pub enum Expr {
    /// Scalar code.
    Code(Code, Vec<Arg>),
    /// An element. Where the guard is false nothing is read and the value is zero.
    Load {
        /// Where from.
        held: BufferVersion,
        /// Which element.
        address: Address,
        /// Read only if true.
        guard: Option<Arg>,
    },
}

/// Which element of a buffer: `offset + Σ index * stride + dynamic`, in elements.
///
/// The sum wraps, as integers of programs do: one that a guard keeps from being used, and a stride of an index that is
/// always 0, may be any numbers.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Address {
    /// The constant part.
    pub offset: i64,
    /// Loop indices and their strides.
    pub terms: Vec<(IndexId, i64)>,
    /// An i64 scalar added to it.
    pub dynamic: Option<Arg>,
}

/// A matrix operand of a contraction: strides in elements.
#[derive(Clone, PartialEq, Hash, Debug)]
pub struct Matrix {
    /// Of which value.
    pub held: BufferVersion,
    /// The first element.
    pub at: Address,
    /// Step along rows.
    pub row: i64,
    /// Step along columns.
    pub column: i64,
}

/// In which order a contraction adds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sums {
    /// As the matrix library likes.
    Library,
    /// In so many lanes, a power of two: term `k` is added to sum `k % lanes`, and these are combined as those
    /// of [a loop in lanes](crate::passes::vectorize). One after the other where that is 1.
    Lanes(usize),
}

/// `out[m, n] = sum_k lhs[m, k] rhs[k, n]`, repeated over batches.
#[derive(Clone, PartialEq, Hash, Debug)]
pub struct Contract {
    /// `f64` or `f32`.
    pub dtype: Dtype,
    /// In which order terms are added, from 0.
    pub sums: Sums,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Terms of each sum.
    pub k: usize,
    /// Whether the sums are added to what `out` holds; otherwise they overwrite it.
    pub accumulate: bool,
    /// Rows by terms.
    pub lhs: Matrix,
    /// Terms by columns.
    pub rhs: Matrix,
    /// Rows by columns.
    pub out: Matrix,
    /// Loops around it, the last one innermost: extent and the steps of lhs, rhs and out. Where the step of out is 0
    /// every iteration adds to what the one before it left, and the first one alone overwrites.
    pub batch: Vec<(usize, i64, i64, i64)>,
}
