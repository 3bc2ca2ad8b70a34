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

/// A value and its mark.
pub(super) type Marked<M> = (Literal, M);

/// The statement of the program of which an operation is an instance.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Site {
    /// The definition of this scalar.
    Scalar(u32),
    /// A fold into this variable.
    Var(u32),
    /// The counter of the loop with this index.
    Index(u32),
    /// The products (0), sums (1) and counters (2) of a contraction into this buffer.
    Contract(u32, u32),
}

/// A memory access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryAccess {
    /// The buffer version.
    pub(crate) held: BufferVersion,
    /// The scalar that the access defines, if a load statement performs it.
    pub(crate) value: Option<ScalarId>,
    /// The observer's address.
    pub(crate) address: u64,
    /// Whether the access is a write.
    pub(crate) write: bool,
    /// The bits that are read or written.
    pub(crate) bits: u64,
}

/// Receives the operations of a run. Operations without a method are not reported.
pub(crate) trait Observer<'a> {
    /// The type of marks.
    type Mark: Copy + Default;

    /// Returns the address of the workspace of this number of bytes.
    fn workspace(&mut self, _bytes: usize) -> u64 {
        0
    }
    /// Returns the address of a buffer of the program; `None` if it lies in the workspace.
    fn place(&mut self, _id: BufferId, _buffer: &Buffer) -> Option<u64> {
        None
    }
    /// Returns the address of a record of a tape.
    fn record(&mut self, _program: &Program, _tape: TapeId, _index: usize) -> u64 {
        0
    }
    /// The next step of the program begins.
    fn step(&mut self) -> Result<(), Problem> {
        Ok(())
    }
    /// A kernel is called.
    fn enter(&mut self, _program: &'a Program, _call: &Call) {}
    /// A kernel returns.
    fn leave(&mut self) {}
    /// A code is computed on elements of this dtype.
    fn code(
        &mut self,
        _site: Site,
        _code: Code,
        _dtype: Dtype,
        _operands: &[Self::Mark],
    ) -> Result<Self::Mark, Problem> {
        Ok(Self::Mark::default())
    }
    /// Memory is read or written; its address and the written value depend on the operands.
    fn touch(
        &mut self,
        _touch: MemoryAccess,
        _operands: &[Self::Mark],
    ) -> Result<Self::Mark, Problem> {
        Ok(Self::Mark::default())
    }
    /// An external function is called. Returns its results.
    fn external(
        &mut self,
        signature: &ExternalSignature,
        operands: &[Tensor],
    ) -> Result<Vec<Tensor>, Problem> {
        signature.run(operands)
    }
    /// The control flow depends on the operands.
    fn branch(&mut self, _operands: &[Self::Mark]) -> Result<(), Problem> {
        Ok(())
    }
    /// A loop begins.
    fn begin(&mut self) {}
    /// A loop continues with its next iteration, or ends. Maps the mark of its index to that of the next index.
    fn iteration(&mut self, _site: Site, _index: Self::Mark) -> Result<Self::Mark, Problem> {
        Ok(Self::Mark::default())
    }
}

/// Ignores all operations.
pub(crate) struct NoObserver;

impl Observer<'_> for NoObserver {
    type Mark = ();
}
