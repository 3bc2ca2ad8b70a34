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
    /// The offsets of a call's arguments (three vectors) and of its result (`results`, one vector).
    pub(super) arguments: usize,
    pub(super) results: usize,
    /// The offsets of the registers saved around a call: vector registers (`saved`), then mask registers, then general
    /// registers.
    pub(super) saved: usize,
    pub(super) saved_masks: usize,
    pub(super) saved_general: usize,
    /// The offset of three vectors whose elements are accessed one by one; used if masks are in vector registers.
    pub(super) elements: usize,
    /// The offsets of two words of a call: the mask of remaining elements (`left`), and the current element's index
    /// (`element`).
    pub(super) left: usize,
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
