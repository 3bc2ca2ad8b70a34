//! The parameters of a machine's tape memory: a scratchpad, and the cache beside it.

/// The sizes of the scratchpad and of the cache of the machine for which a layout is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScratchpadModel {
    /// The size of the scratchpad in entries of 8 bytes.
    pub entries: u64,
    /// The number of equal parts of the scratchpad: one part is in use while the others are filled and drained.
    pub parts: u64,
    /// The maximal number of scratchpad entries of a layer (the records for which the scratchpad is allocated at one
    /// time).
    pub layer: u64,
    /// The least number of bytes that an element takes on the tape: 8 if the tape consists of 64-bit words whatever
    /// the dtype is, 1 if elements are packed.
    pub word: u64,
    /// The size of the cache in bytes.
    pub cache: u64,
    /// The size of a cache line in bytes.
    pub line: u64,
    /// The number of cache lines in a set of the cache.
    pub associativity: u64,
}

impl ScratchpadModel {
    /// Returns the number of entries in one part of the scratchpad.
    pub(super) fn part_entries(&self) -> u64 {
        self.entries / self.parts.max(1)
    }
}

impl Default for ScratchpadModel {
    /// Returns the parameters of the machine in the TapeFlow paper: a scratchpad of 64 entries in two halves, beside a
    /// two-way cache of 32 kB.
    fn default() -> ScratchpadModel {
        ScratchpadModel {
            entries: 64,
            parts: 2,
            layer: u64::MAX,
            word: 1,
            cache: 32 << 10,
            line: 64,
            associativity: 2,
        }
    }
}
