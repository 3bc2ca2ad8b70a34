//! The stack frame of SIMD code.

use super::super::regalloc::Allocation;
use super::emit::{Machine, STREAMS};
use iced_x86::Register;

/// The caller-saved general registers in use: rdi (the row's pointer), rax (the counter of the loop with lanes), and
/// stream pointers.
pub(super) const CALLER_SAVED: [Register; 9] = [
    Register::RDI,
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

/// The layout of the frame: offsets from the stack pointer in bytes.
pub(super) struct Frame {
    pub(super) masks: usize,
    pub(super) counters: usize,
    pub(super) streams: usize,
    /// The offset of a call's arguments (three vectors).
    pub(super) arguments: usize,
    /// The offset of a call's result (one vector).
    pub(super) results: usize,
    /// The offset of the vector registers that are saved around a call.
    pub(super) saved: usize,
    /// The offset of the mask registers that are saved around a call.
    pub(super) saved_masks: usize,
    /// The offset of the general registers that are saved around a call.
    pub(super) saved_general: usize,
    /// The offset of three vectors whose elements are accessed one by one; used if masks are in vector registers.
    pub(super) elements: usize,
    /// The offset of the mask of elements for which a call still has to run, a word.
    pub(super) left: usize,
    /// The offset of the index of the element for which a call runs now, a word.
    pub(super) element: usize,
    pub(super) bytes: usize,
}

impl Frame {
    pub(super) fn of(
        all: &Allocation,
        m: &Machine,
        loops: usize,
        streams: usize,
        calls: bool,
    ) -> Frame {
        let vectors = |n: usize| n * m.bytes;
        let arguments = vectors(all.slots.0);
        let results = arguments + if calls { vectors(3) } else { 0 };
        let saved = results + if calls { vectors(1) } else { 0 };
        let elements = saved + if calls { vectors(m.vectors.len()) } else { 0 };
        let masks = elements + if m.masks.is_empty() { vectors(3) } else { 0 };
        let counters = masks + 8 * all.slots.1;
        let streams_at = counters + 8 * loops;
        let saved_masks = streams_at + 8 * streams.saturating_sub(STREAMS.len());
        let saved_general = saved_masks + 8 * 8;
        let left = saved_general + 8 * CALLER_SAVED.len();
        let element = left + 8;
        Frame {
            masks,
            counters,
            streams: streams_at,
            arguments,
            results,
            saved,
            saved_masks,
            saved_general,
            elements,
            left,
            element,
            bytes: (element + 8).next_multiple_of(64),
        }
    }
}
