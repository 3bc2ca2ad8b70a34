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

use crate::loop_ir::{Buffer, BufferId, BufferVersion, Call, Program, ScalarId, TapeId};
use tapeloom_ir::{Code, Dtype, HostCall, Literal, Problem, Tensor};

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

/// Hears what a run does.
pub(crate) trait Observer<'a> {
    /// What goes with a value.
    type Mark: Copy + Default;

    /// Where the workspace lies, of so many bytes.
    fn workspace(&mut self, bytes: usize) -> u64;
    /// Where a buffer of the program lies, if that does not follow from the workspace.
    fn place(&mut self, id: BufferId, buffer: &Buffer) -> Option<u64>;
    /// Where a record of a tape lies.
    fn record(&mut self, program: &Program, tape: TapeId, index: usize) -> u64;
    /// The next step of the program begins.
    fn step(&mut self) -> Result<(), Problem>;
    /// A kernel is called,
    fn enter(&mut self, program: &'a Program, call: &Call);
    /// and has returned.
    fn leave(&mut self);
    /// Something is computed of elements of that dtype.
    fn code(
        &mut self,
        site: Site,
        code: Code,
        dtype: Dtype,
        operands: &[Self::Mark],
    ) -> Result<Self::Mark, Problem>;
    /// Memory is read, or written; where that is and what is written depends on the operands.
    fn touch(&mut self, touch: Touch, operands: &[Self::Mark]) -> Result<Self::Mark, Problem>;
    /// A Rust function is called: its results.
    fn ask(&mut self, call: &HostCall, operands: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
        call.run(operands)
    }
    /// What follows depends on the operands.
    fn branch(&mut self, operands: &[Self::Mark]) -> Result<(), Problem>;
    /// A loop begins.
    fn begin(&mut self) {}
    /// A loop goes on to its next iteration, or ends: from the mark of its index to the next one.
    fn iteration(&mut self, site: Site, index: Self::Mark) -> Result<Self::Mark, Problem>;
}

/// Hears nothing.
pub(crate) struct Nobody;

impl Observer<'_> for Nobody {
    type Mark = ();

    fn workspace(&mut self, _: usize) -> u64 {
        0
    }

    fn place(&mut self, _: BufferId, _: &Buffer) -> Option<u64> {
        None
    }

    fn record(&mut self, _: &Program, _: TapeId, _: usize) -> u64 {
        0
    }

    fn step(&mut self) -> Result<(), Problem> {
        Ok(())
    }

    fn enter(&mut self, _: &Program, _: &Call) {}

    fn leave(&mut self) {}

    fn code(&mut self, _: Site, _: Code, _: Dtype, _: &[()]) -> Result<(), Problem> {
        Ok(())
    }

    fn touch(&mut self, _: Touch, _: &[()]) -> Result<(), Problem> {
        Ok(())
    }

    fn branch(&mut self, _: &[()]) -> Result<(), Problem> {
        Ok(())
    }

    fn iteration(&mut self, _: Site, _: ()) -> Result<(), Problem> {
        Ok(())
    }
}
