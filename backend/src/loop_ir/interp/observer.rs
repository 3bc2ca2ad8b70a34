//! Observers of interpreter runs.
//!
//! The results of a program and its cost on some machine are computed in one run. An observer is called for every
//! operation, and returns a *mark* for its result (for a machine model, the time at which the result is available).
//! The interpreter passes the marks of the operands to each operation. Memory
//! carries no marks: an observer relates loads to stores by address.
//!
//! Addresses are chosen by the observer. It assigns an address to each buffer of the program and to each record of a
//! tape, and each access reports this address plus a byte offset. [`NoObserver`] ignores all calls, at no cost.

use crate::loop_ir::{
    Buffer, BufferId, BufferVersion, Call, ExternalSignature, Program, ScalarId, TapeId,
};
use tapeloom_ir::{Code, Dtype, Literal, Problem, Tensor};

/// A value and the observer's mark of it.
pub(super) type Marked<M> = (Literal, M);

/// The site of an operation: the part of the program of which the operation is an instance.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Site {
    /// The definition of the scalar with this number.
    Scalar(u32),
    /// A fold into the variable with this number.
    Var(u32),
    /// The counter of the loop with this index.
    Index(u32),
    /// The products (0), sums (1) or counters (2), by the second number, of a contraction into the buffer of the first
    /// number.
    Contract(u32, u32),
}

/// One memory access of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryAccess {
    /// The buffer version that is accessed.
    pub(crate) held: BufferVersion,
    /// The scalar that the access defines, if a load statement performs the access; otherwise `None`.
    pub(crate) value: Option<ScalarId>,
    /// The address of the element, as the observer assigned it.
    pub(crate) address: u64,
    /// Whether the access writes; otherwise it reads.
    pub(crate) write: bool,
    /// The value that is read or written, as bits.
    pub(crate) bits: u64,
}

/// Receives the operations of a run. Operations without a method are not reported.
pub(crate) trait Observer<'a> {
    /// The type of the marks that the observer attaches to values.
    type Mark: Copy + Default;

    /// Returns the address of the workspace, which has this number of bytes.
    fn workspace(&mut self, _bytes: usize) -> u64 {
        0
    }
    /// Returns the address of a buffer of the entry; `None` if the buffer lies in the workspace.
    fn place(&mut self, _id: BufferId, _buffer: &Buffer) -> Option<u64> {
        None
    }
    /// Returns the address of record `_index` of a tape.
    fn record(&mut self, _program: &Program, _tape: TapeId, _index: usize) -> u64 {
        0
    }
    /// Called when the next step of the program begins.
    fn step(&mut self) -> Result<(), Problem> {
        Ok(())
    }
    /// Called before a callee runs.
    fn enter(&mut self, _program: &'a Program, _call: &Call) {}
    /// Called after a callee has returned.
    fn leave(&mut self) {}
    /// Called when a scalar code is computed on elements of a dtype.
    fn code(
        &mut self,
        _site: Site,
        _code: Code,
        _dtype: Dtype,
        _operands: &[Self::Mark],
    ) -> Result<Self::Mark, Problem> {
        Ok(Self::Mark::default())
    }
    /// Called when memory is read or written; the address and the written value depend on the operands.
    fn touch(
        &mut self,
        _touch: MemoryAccess,
        _operands: &[Self::Mark],
    ) -> Result<Self::Mark, Problem> {
        Ok(Self::Mark::default())
    }
    /// Calls an external function and returns its results.
    fn external(
        &mut self,
        signature: &ExternalSignature,
        operands: &[Tensor],
    ) -> Result<Vec<Tensor>, Problem> {
        signature.run(operands)
    }
    /// Called when the control flow depends on the operands.
    fn branch(&mut self, _operands: &[Self::Mark]) -> Result<(), Problem> {
        Ok(())
    }
    /// Called when a loop begins.
    fn begin(&mut self) {}
    /// Called when an iteration of a loop ends. Maps the mark of the loop's index to the mark of the next index.
    fn iteration(&mut self, _site: Site, _index: Self::Mark) -> Result<Self::Mark, Problem> {
        Ok(Self::Mark::default())
    }
}

/// An observer that ignores all operations.
pub(crate) struct NoObserver;

impl Observer<'_> for NoObserver {
    type Mark = ();
}
