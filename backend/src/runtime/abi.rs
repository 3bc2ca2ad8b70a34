//! The calling convention of compiled kernels: a kernel's only argument is its call record.
//!
//! Every kernel, and every part of a kernel that is compiled in parts, becomes `fn(record) -> status`. A record is a
//! row of words that the caller fills:
//! ```text
//! word 0        the pointer to the context, which is the same during one call of a program
//! word 1        the pointer to the frame: the kernel's workspace
//! word 2 + n    the pointers to the operands, then to the results
//! ```
//!
//! Generated code relies on these invariants, which are not checked at run time. A record does not change
//! while the kernel runs, and stays alive. Operands and results point to the number of elements that the kernel's
//! buffers declare, aligned to their dtype. A result overlaps no operand (except the operand that was donated
//! for it), no other result and not the frame. The frame is aligned to 64 bytes and as long as the kernel's
//! workspace. The status is 0, or the status of the first library function that failed.
//!
//! All kernels of a call share one context with the layout [`Context`], on all threads of the call. The records of
//! dynamic tapes are reached through the context ([`crate::runtime::tape_memory`]).

use crate::loop_ir::loop_counters::Row;
use crate::loop_ir::{Kernel, Place};
use crate::runtime::threads::Threads;

/// The size of a word of a call record in bytes.
pub(crate) const WORD: usize = 8;
/// The offset in bytes of the pointer to the context in a call record.
pub(crate) const CONTEXT: usize = 0;
/// The offset in bytes of the pointer to the frame (the kernel's workspace) in a call record.
pub(crate) const FRAME: usize = WORD;

/// The data that all kernels of one call of a program share.
#[repr(C)]
pub(crate) struct Context {
    /// Zeros that a guarded load reads instead of an element if its guard is false.
    pub(crate) zeros: [u64; 2],
    /// Points to the first byte of the entry kernel's frame, which is the workspace of the call.
    pub(crate) workspace: *mut u8,
    /// Points to the [`ExternalCalls`](crate::runtime::external_calls::ExternalCalls) of the call.
    pub(crate) external_calls: *const u8,
    /// Points to the array of [`State`], one for each dynamic tape of the program.
    pub(crate) tapes: *mut State,
    /// Points to the [`Records`](crate::runtime::tape_memory::Records), the memory of the tapes in `tapes`.
    pub(crate) records: *mut u8,
    /// Points to the array of [`Row`](crate::loop_ir::loop_counters::Row), the counters of the program's limited loops
    /// (loops with a limit on their iterations).
    pub(crate) rows: *mut Row,
    /// Points to a byte that another thread sets to nonzero to cancel the call.
    pub(crate) flag: *const u8,
    /// Points to the [`LoopLimits`](crate::loop_ir::loop_counters::LoopLimits) of the loops in `rows`.
    pub(crate) loop_limits: *mut u8,
    /// Points to the [`Timers`](crate::loop_ir::timers::Timers) of the call; null if the program has none.
    pub(crate) timers: *mut u8,
    /// Points to the threads that run the pieces (iterations) of concurrent loops.
    pub(crate) threads: *const Threads,
}

/// The state of a dynamic tape, as machine code reads and writes it.
#[repr(C)]
pub(crate) struct State {
    /// The number of records (each with one iteration's residuals) on the tape.
    pub(crate) length: u64,
    /// The number of records (one iteration's residuals each) for which memory is allocated.
    pub(crate) capacity: u64,
    /// Points to the array of pointers to the tape's chunks (blocks of records; `runtime/tape_memory.rs`).
    pub(crate) chunks: *const *mut u8,
    /// The size in bytes of one record (one iteration's residuals).
    pub(crate) record: u64,
}

/// The offset in bytes of the workspace pointer in the context.
pub(crate) const WORKSPACE: usize = std::mem::offset_of!(Context, workspace);
/// The offset in bytes of the pointer to the states of dynamic tapes in the context.
pub(crate) const TAPES: usize = std::mem::offset_of!(Context, tapes);
/// The offset in bytes of the pointer to the rows (counters) of limited loops in the context.
pub(crate) const ROWS: usize = std::mem::offset_of!(Context, rows);
/// The offset in bytes of the pointer to the cancellation flag in the context.
pub(crate) const FLAG: usize = std::mem::offset_of!(Context, flag);
/// The offset in bytes of the pointer to the memory of dynamic tapes in the context. In compiled object files, the
/// field points to the caller's arena, from which tape memory is taken.
pub(crate) const RECORDS: usize = std::mem::offset_of!(Context, records);
/// The offset in bytes of the pointer to the threads in the context. Compiled object files have no threads; there, the
/// field points to the private memory of pieces (iterations of concurrent loops).
pub(crate) const THREADS: usize = std::mem::offset_of!(Context, threads);
/// The offset in bytes of the zeros for guarded loads in the context.
pub(crate) const ZEROS: usize = std::mem::offset_of!(Context, zeros);

/// The layout of a kernel's call record: context, frame, operands, results.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    inputs: usize,
    outputs: usize,
}

impl Layout {
    /// Returns the layout of the call records of `kernel`.
    pub(crate) fn of(kernel: &Kernel) -> Layout {
        Layout { inputs: kernel.inputs().len(), outputs: kernel.outputs().len() }
    }

    /// Returns the offset in bytes of the pointer to a buffer in the call record; `None` for a buffer in the frame or
    /// on a dynamic tape, which has no pointer in the call record.
    pub(crate) fn pointer(self, place: Place) -> Option<usize> {
        match place {
            Place::Input(n) => Some((2 + n) * WORD),
            Place::Output(n) | Place::Donated { output: n, .. } => {
                Some((2 + self.inputs + n) * WORD)
            }
            Place::Workspace(_) | Place::Private(_) | Place::Unplaced | Place::Record { .. } => {
                None
            }
        }
    }

    /// Returns the size of the call record in bytes.
    pub(crate) fn bytes(self) -> usize {
        (2 + self.inputs + self.outputs) * WORD
    }
}
