//! Memory of large buffers that were dropped, for the next buffers of the same sizes.
//!
//! The system maps new memory page by page at its first touch, which takes several times as long as writing numbers into
//! memory that was touched before (see `huge_pages`). A loop that calls a compiled program drops large results in each
//! iteration and allocates new ones of the same sizes. So the memory of a dropped large buffer is kept for the next one,
//! within [`KEPT_BYTES`] for the process. If more is dropped, the memory that was dropped first is freed.

use std::collections::{BTreeMap, VecDeque};
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The allocated words of a buffer.
pub(super) type Words = Arc<[MaybeUninit<u64>]>;

/// The largest number of bytes of dropped buffers that are kept. It is enough for two sets of parameters and optimiser
/// state of ten million numbers.
const KEPT_BYTES: usize = 1 << 28;

/// The size in bytes from which on the memory of dropped buffers is kept. Below it, the allocator of the C library keeps
/// freed memory itself; memory above it may go back to the system.
pub(super) const LEAST_BYTES: usize = 1 << 17;

/// The kept memory. Nothing else points to it.
struct Kept {
    /// For each number of words, the blocks of this size, in the order in which they were dropped.
    blocks: BTreeMap<usize, VecDeque<Block>>,
    bytes: usize,
    /// The number of blocks that were dropped so far.
    dropped: u64,
}

struct Block {
    words: Words,
    /// The index of the first word of the buffer.
    first: usize,
    /// The number of blocks that were dropped before this one.
    age: u64,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { blocks: BTreeMap::new(), bytes: 0, dropped: 0 });

impl Kept {
    /// Removes the block that was dropped last among those of `size` words.
    fn last(&mut self, size: usize) -> Option<Block> {
        self.remove(size, VecDeque::pop_back)
    }

    /// Removes the block that was dropped first.
    fn oldest(&mut self) -> Option<Block> {
        let age = |of: &VecDeque<Block>| of.front().map(|block| block.age);
        let (size, _) = self.blocks.iter().min_by_key(|(_, of)| age(of))?;
        self.remove(*size, VecDeque::pop_front)
    }

    fn remove(
        &mut self,
        size: usize,
        pop: impl FnOnce(&mut VecDeque<Block>) -> Option<Block>,
    ) -> Option<Block> {
        let of = self.blocks.get_mut(&size)?;
        let block = pop(of)?;
        if of.is_empty() {
            self.blocks.remove(&size);
        }
        self.bytes -= size_of_val(&*block.words);
        Some(block)
    }
}

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns memory of exactly `words` words, and the index of the first word of its buffer; `None` if none is kept. Among
/// several, this is the memory that was dropped last: it is most likely in the cache.
pub(super) fn take(words: usize) -> Option<(Words, usize)> {
    kept().last(words).map(|block| (block.words, block.first))
}

/// Keeps memory to which nothing else points, and frees the oldest kept memory if there are more than `KEPT_BYTES`.
/// `first` is the index of the first word of the memory's buffer.
pub(super) fn keep(words: Words, first: usize) {
    let (size, bytes) = (words.len(), size_of_val(&*words));
    if bytes > KEPT_BYTES {
        return;
    }
    let mut freed = Vec::new();
    let mut kept = kept();
    let age = kept.dropped;
    kept.blocks.entry(size).or_default().push_back(Block { words, first, age });
    kept.bytes += bytes;
    kept.dropped += 1;
    while kept.bytes > KEPT_BYTES
        && let Some(oldest) = kept.oldest()
    {
        freed.push(oldest);
    }
    // Release the lock before memory is freed, because unmapping takes long.
    drop(kept);
    drop(freed);
}

/// Frees all kept memory.
pub(super) fn free() {
    let mut kept = kept();
    let all = std::mem::take(&mut kept.blocks);
    kept.bytes = 0;
    drop(kept);
    drop(all);
}
