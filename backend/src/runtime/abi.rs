//! The call record: what a compiled kernel gets.
//!
//! Every kernel becomes `fn(record) -> status`, and so does every part of a long one. A record is a
//! row of words, made by whoever calls:
//!
//! ```text
//! word 0        the context: what is the same for the whole call of a program
//! word 1        the frame: where the kernel's workspace begins
//! word 2 + n    the n-th operand, then the results
//! ```
//!
//! Invariants, which generated code relies on and nobody checks when it runs: a record does not change
//! while the kernel runs, and lives as long; operands and results point to as many elements as the
//! kernel's buffers say, aligned to their dtype, and no result has a byte in common with an operand
//! (but for one that is given up for it, which lies there), another result or the frame; the frame is aligned to 64 bytes and as long as the kernel's
//! workspace. The status is 0, or what a library function answered first.
//!
//! The context is one for all kernels of a call. Its layout is [`Context`]; what is to come
//! (threads) are words behind those that are there. The records of tapes are reached through it
//! ([`crate::runtime::tape_memory`]).

use crate::loop_ir::loop_counters::Row;
use crate::loop_ir::{Kernel, Place};

/// Bytes of a word.
pub(crate) const WORD: usize = 8;
/// Where the pointer to the context is.
pub(crate) const CONTEXT: usize = 0;
/// Where the pointer to the frame is.
pub(crate) const FRAME: usize = WORD;

/// What is the same for the whole call of a program.
#[repr(C)]
pub(crate) struct Context {
    /// Read where a guard is false, instead of an element.
    pub(crate) zeros: [u64; 2],
    /// Where the entry's frame begins, and with it the workspace.
    pub(crate) workspace: *mut u8,
    /// Points to the [`Outside`](crate::runtime::external_calls::Outside) of the call.
    pub(crate) outside: *const u8,
    /// Points to the first [`State`] of the call's tapes, in order.
    pub(crate) tapes: *mut State,
    /// Points to the [`Records`](crate::runtime::tape_memory::Records) that the states belong to.
    pub(crate) records: *mut u8,
    /// Points to the first [`Row`](crate::loop_ir::loop_counters::Row) of the call's loops that are limited, in order.
    pub(crate) rows: *mut Row,
    /// Points to a byte that says whether the call is to end.
    pub(crate) flag: *const u8,
    /// Points to the [`LoopLimits`](crate::loop_ir::loop_counters::LoopLimits) that the rows belong to.
    pub(crate) loop_limits: *mut u8,
}

/// What machine code knows of a tape.
#[repr(C)]
pub(crate) struct State {
    /// How many records there are.
    pub(crate) length: u64,
    /// For how many there are chunks.
    pub(crate) capacity: u64,
    /// Points to the table of chunks.
    pub(crate) chunks: *const *mut u8,
    /// Bytes of a record.
    pub(crate) record: u64,
}

/// Where the workspace is in the context.
pub(crate) const WORKSPACE: usize = std::mem::offset_of!(Context, workspace);
/// Where the pointer to the states of tapes is in the context.
pub(crate) const TAPES: usize = std::mem::offset_of!(Context, tapes);
/// Where the pointer to the rows of loops that are limited is in the context.
pub(crate) const ROWS: usize = std::mem::offset_of!(Context, rows);
/// Where the pointer to what ends the call is in the context.
pub(crate) const FLAG: usize = std::mem::offset_of!(Context, flag);
/// Where the zeros are in the context.
pub(crate) const ZEROS: usize = std::mem::offset_of!(Context, zeros);

/// Where the records of a kernel have their operands and results.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    inputs: usize,
    outputs: usize,
}

impl Layout {
    /// That of a kernel's records.
    pub(crate) fn of(kernel: &Kernel) -> Layout {
        Layout { inputs: kernel.inputs().len(), outputs: kernel.outputs().len() }
    }

    /// The byte at which the pointer to a buffer is; `None` for those in the frame.
    pub(crate) fn pointer(self, place: Place) -> Option<usize> {
        match place {
            Place::Input(n) => Some((2 + n) * WORD),
            Place::Output(n) | Place::Given { output: n, .. } => Some((2 + self.inputs + n) * WORD),
            Place::Workspace(_) | Place::Record { .. } => None,
        }
    }

    /// Bytes of a record.
    pub(crate) fn bytes(self) -> usize {
        (2 + self.inputs + self.outputs) * WORD
    }
}
