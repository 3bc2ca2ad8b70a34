//! What a machine has for a tape: its scratchpad, and the cache beside it.

/// What a layout is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Entries of 8 bytes of the scratchpad,
    pub entries: u64,
    /// in parts that are filled and drained while another one is in use.
    pub halves: u64,
    /// The most entries of a layer.
    pub layer: u64,
    /// The least bytes of an element: 8 where the tape is of words, whatever is kept.
    pub word: u64,
    /// Bytes of the cache beside it,
    pub cache: u64,
    /// of a line,
    pub line: u64,
    /// and lines of a set.
    pub ways: u64,
}

impl Room {
    /// Entries that are in use at the same time.
    pub(super) fn half(&self) -> u64 {
        self.entries / self.halves.max(1)
    }
}

impl Default for Room {
    /// That of the paper: 64 entries in two halves, beside a cache of 32 kB in two ways.
    fn default() -> Room {
        Room {
            entries: 64,
            halves: 2,
            layer: u64::MAX,
            word: 1,
            cache: 32 << 10,
            line: 64,
            ways: 2,
        }
    }
}
