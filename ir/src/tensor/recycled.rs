//! Memory of large buffers that were dropped, for the next buffers of the same sizes.
//!
//! The system maps new memory page by page at its first touch, which takes several times as long as writing numbers into
//! memory that was touched before (see `huge_pages`). A loop that calls a compiled program drops large results in each
//! iteration and allocates new ones of the same sizes. So the memory of a dropped large buffer is kept for the next one,
//! within [`KEPT_BYTES`] for the process. If more is dropped, the memory that was dropped first is freed.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The allocated words of a buffer.
pub(super) type Words = Arc<[MaybeUninit<u64>]>;

/// The largest number of bytes of dropped buffers that are kept. It is enough for two sets of parameters and optimiser
/// state of ten million numbers.
const KEPT_BYTES: usize = 1 << 28;

/// The kept memory, in the order in which it was dropped. Nothing else points to it.
#[derive(Default)]
struct Kept {
    blocks: VecDeque<(Words, usize)>,
    bytes: usize,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { blocks: VecDeque::new(), bytes: 0 });

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns memory of exactly `words` words, and the index of the first word of its buffer; `None` if none is kept.
pub(super) fn take(words: usize) -> Option<(Words, usize)> {
    let mut kept = kept();
    // The memory that was dropped last is most likely in the cache.
    let at = kept.blocks.iter().rposition(|(block, _)| block.len() == words)?;
    let block = kept.blocks.remove(at)?;
    kept.bytes -= size_of_val(&*block.0);
    Some(block)
}

/// Keeps memory to which nothing else points, and frees the oldest kept memory if there are more than `KEPT_BYTES`.
/// `first` is the index of the first word of the memory's buffer.
pub(super) fn keep(words: Words, first: usize) {
    let bytes = size_of_val(&*words);
    if bytes > KEPT_BYTES {
        return;
    }
    let mut freed = Vec::new();
    let mut kept = kept();
    kept.blocks.push_back((words, first));
    kept.bytes += bytes;
    while kept.bytes > KEPT_BYTES
        && let Some(oldest) = kept.blocks.pop_front()
    {
        kept.bytes -= size_of_val(&*oldest.0);
        freed.push(oldest);
    }
    // Release the lock before memory is freed, because unmapping takes long.
    drop(kept);
    drop(freed);
}

/// Frees all kept memory.
pub(super) fn free() {
    let all = std::mem::take(&mut *kept());
    drop(all);
}
