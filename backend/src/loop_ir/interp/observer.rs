//! Observers of interpreter runs, such as the simulated accelerator.
//!
//! The results of a program and its cost on some machine are computed in one run. An observer is called for every
//! operation, and returns a *mark* for the operation's result (for a machine model, the time at which the result is
//! available). The interpreter passes the marks of the operands to each operation. Memory carries no marks: an
//! observer relates loads to stores by address.
//!
//! An observer chooses the addresses. It assigns an address to each buffer of the program and to each record of a
//! dynamic tape, and each access reports this address plus a byte offset. [`NoObserver`] ignores all calls, at no
//! cost.

use crate::loop_ir::{
    Buffer, BufferId, BufferVersion, Call, ExternalSignature, Program, ScalarId, TapeId,
};
use tapeloom_ir::{Code, Dtype, Literal, Problem, Tensor};

/// A value, and the mark that the observer attached to it.
pub(super) type Marked<M> = (Literal, M);

/// The site of an operation: the definition, fold, loop or contraction in the program of which it is an instance.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Site {
    /// The definition of the scalar with this number.
    Scalar(u32),
    /// A fold into the variable with this number.
    Var(u32),
    /// The counter of the loop with this index.
    Index(u32),
    /// An operation of the contraction into the buffer with the first number. The second number says which: 0 for its
    /// products, 1 for its sums, 2 for its loop counters.
    Contract(u32, u32),
}

/// One memory access of a run, as reported to the observer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryAccess {
    /// The version of the accessed buffer, as the statement names it.
    pub(crate) held: BufferVersion,
    /// The scalar that a load statement defines by this access; `None` for accesses of other statements.
    pub(crate) value: Option<ScalarId>,
    /// The address of the element, as the observer assigned it.
    pub(crate) address: u64,
    /// Whether the access writes; otherwise it reads.
    pub(crate) write: bool,
    /// The value that is read or written, as bits.
    pub(crate) bits: u64,
}

/// Receives the operations of an interpreter run. The default methods ignore them; operations without a method are
/// not reported.
pub(crate) trait Observer<'a> {
    /// The type of the marks that the observer attaches to values.
    type Mark: Copy + Default;

    /// Returns the address that the observer assigns to the workspace, which has this number of bytes.
    fn workspace(&mut self, _bytes: usize) -> u64 {
        0
    }
    /// Returns the address that the observer assigns to a buffer of the entry; `None` if the buffer lies in the
    /// workspace.
    fn place(&mut self, _id: BufferId, _buffer: &Buffer) -> Option<u64> {
        None
    }
    /// Returns the address that the observer assigns to record `_index` of a dynamic tape.
    fn record(&mut self, _program: &Program, _tape: TapeId, _index: usize) -> u64 {
        0
    }
    /// Called when the next step (statement of the entry's outermost block) begins.
    fn step(&mut self) -> Result<(), Problem> {
        Ok(())
    }
    /// Called before the body of a called kernel runs.
    fn enter(&mut self, _program: &'a Program, _call: &Call) {}
    /// Called after a called kernel has returned.
    fn leave(&mut self) {}
    /// Called when a scalar code is computed. `_dtype` is the dtype of its last operand. Returns the mark of the
    /// result.
    fn code(
        &mut self,
        _site: Site,
        _code: Code,
        _dtype: Dtype,
        _operands: &[Self::Mark],
    ) -> Result<Self::Mark, Problem> {
        Ok(Self::Mark::default())
    }
    /// Called when memory is read or written; the address and the written value depend on the operands. Returns the
    /// mark of the access.
    fn touch(
        &mut self,
        _touch: MemoryAccess,
        _operands: &[Self::Mark],
    ) -> Result<Self::Mark, Problem> {
        Ok(Self::Mark::default())
    }
    /// Calls an external function and returns its results. By default, runs the function.
    fn external(
        &mut self,
        signature: &ExternalSignature,
        operands: &[Tensor],
    ) -> Result<Vec<Tensor>, Problem> {
        signature.run(operands)
    }
    /// Called where operands with these marks decide which operations follow: at branches, trip counts and calls.
    fn branch(&mut self, _operands: &[Self::Mark]) -> Result<(), Problem> {
        Ok(())
    }
    /// Called before the first iteration of a loop.
    fn begin(&mut self) {}
    /// Called when an iteration of a loop ends. From the mark of the loop's index, returns the mark of the next
    /// index.
    fn iteration(&mut self, _site: Site, _index: Self::Mark) -> Result<Self::Mark, Problem> {
        Ok(Self::Mark::default())
    }
}

/// An observer that ignores all operations, for runs in which only the results matter.
pub(crate) struct NoObserver;

impl Observer<'_> for NoObserver {
    type Mark = ();
}
