//! Observers of a run of the interpreter: a walk with values, and with what goes beside them.
//!
//! What a program computes and what it costs on some machine are one walk. An observer hears of every
//! operation as it happens, and answers with a *mark*, which goes with the result wherever that goes (for
//! a machine, when it will be there); so each operation comes with the marks of what it takes. Memory
//! carries no marks: who reads what somebody wrote is known by addresses.
//!
//! An address is the observer's own. It says where each buffer of the program and each record of a tape
//! lies, and hears that place again, moved on by bytes, with each access. [`Nobody`] hears nothing, and
//! costs nothing.

use crate::loop_ir::{
    Buffer, BufferId, BufferVersion, Call, ExternalSignature, Program, ScalarId, TapeId,
};
use tapeloom_ir::{Code, Dtype, Literal, Problem, Tensor};

/// A value, and what goes with it.
pub(super) type Marked<M> = (Literal, M);

/// Which statement of a program's text an operation is an instance of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Site {
    /// The one that defines that value.
    Scalar(u32),
    /// A fold of that variable.
    Var(u32),
    /// The count of a loop with that index.
    Index(u32),
    /// The products, sums (0, 1) and counts (2) of a contraction into that buffer.
    Contract(u32, u32),
}

/// An access to memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    /// Of which value of which buffer.
    pub(crate) held: BufferVersion,
    /// The value that it gives, where a statement of its own reads it.
    pub(crate) value: Option<ScalarId>,
    /// Where, in the observer's words.
    pub(crate) address: u64,
    /// Whether it is written.
    pub(crate) write: bool,
    /// What is read or written.
    pub(crate) bits: u64,
}

/// Hears what a run does; what is not said here it does not hear.
pub(crate) trait Observer<'a> {
    /// What goes with a value.
    type Mark: Copy + Default;

    /// Where the workspace lies, of so many bytes.
    fn workspace(&mut self, _bytes: usize) -> u64 {
        0
    }
    /// Where a buffer of the program lies, if that does not follow from the workspace.
    fn place(&mut self, _id: BufferId, _buffer: &Buffer) -> Option<u64> {
        None
    }
    /// Where a record of a tape lies.
    fn record(&mut self, _program: &Program, _tape: TapeId, _index: usize) -> u64 {
        0
    }
    /// The next step of the program begins.
    fn step(&mut self) -> Result<(), Problem> {
        Ok(())
    }
    /// A kernel is called,
    fn enter(&mut self, _program: &'a Program, _call: &Call) {}
    /// and has returned.
    fn leave(&mut self) {}
    /// Something is computed of elements of that dtype.
    fn code(
        &mut self,
        _site: Site,
        _code: Code,
        _dtype: Dtype,
        _operands: &[Self::Mark],
    ) -> Result<Self::Mark, Problem> {
        Ok(Self::Mark::default())
    }
    /// Memory is read, or written; where that is and what is written depends on the operands.
    fn touch(&mut self, _touch: Touch, _operands: &[Self::Mark]) -> Result<Self::Mark, Problem> {
        Ok(Self::Mark::default())
    }
    /// An external function is called: its results.
    fn external(
        &mut self,
        signature: &ExternalSignature,
        operands: &[Tensor],
    ) -> Result<Vec<Tensor>, Problem> {
        signature.run(operands)
    }
    /// What follows depends on the operands.
    fn branch(&mut self, _operands: &[Self::Mark]) -> Result<(), Problem> {
        Ok(())
    }
    /// A loop begins.
    fn begin(&mut self) {}
    /// A loop goes on to its next iteration, or ends: from the mark of its index to the next one.
    fn iteration(&mut self, _site: Site, _index: Self::Mark) -> Result<Self::Mark, Problem> {
        Ok(Self::Mark::default())
    }
}

/// Hears nothing.
pub(crate) struct Nobody;

impl Observer<'_> for Nobody {
    type Mark = ();
}
