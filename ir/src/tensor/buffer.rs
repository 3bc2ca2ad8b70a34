//! The memory of a tensor.
//!
//! A buffer begins at a cache line. A large buffer begins at a varying offset in its page, because the system allocates
//! large memory in whole pages, so all large arrays would otherwise begin at the same offset, and their elements of
//! equal index would fall into the same cache set. If a loop reads more arrays than a set has ways, every access would
//! be a miss.

#![expect(unsafe_code, reason = "memory that is written once")]

use super::line::Line;
use crate::tensor::huge_pages::{LARGE_BYTES, large_pages};
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of 64-bit words per cache line.
const WORDS: usize = size_of::<Line>() / size_of::<u64>();

/// The number of cache lines in a page of 4096 bytes.
const PAGE: usize = 4096 / size_of::<Line>();

/// The distance, in cache lines modulo a page, between the offsets of successive large buffers. With this number, the
/// offsets of a few successive buffers are far apart.
const STEP: usize = 37;

/// The size in bytes from which an allocation that can fail tests first whether there is memory: `Arc` aborts the
/// process if its own allocation fails.
const HUGE: usize = 1 << 26;

/// The memory of a tensor: cache lines that clones share; a clone copies them before it writes, if they are shared.
#[derive(Clone)]
pub struct Buffer {
    words: Arc<[u64]>,
    place: Place,
}

/// Newly allocated cache lines, which nothing shares yet and which may be uninitialized.
pub struct Fresh {
    words: Arc<[MaybeUninit<u64>]>,
    place: Place,
}

/// The place of a buffer's cache lines within the allocated 64-bit words: the index of the first word, and the
/// number of lines.
#[derive(Clone, Copy)]
struct Place {
    first: usize,
    lines: usize,
}

impl Fresh {
    /// Allocates `lines` uninitialized cache lines; returns `None` if there is no memory.
    pub fn new(lines: usize) -> Option<Fresh> {
        has_room(lines).then(|| Fresh::of(lines, Arc::new_uninit_slice))
    }

    /// Allocates `lines` cache lines of zeros; returns `None` if there is no memory.
    pub fn zeros(lines: usize) -> Option<Fresh> {
        has_room(lines).then(|| Fresh::known(lines))
    }

    /// Allocates `lines` cache lines of zeros; the caller has checked that there is memory.
    fn known(lines: usize) -> Fresh {
        if lines * size_of::<Line>() >= LARGE_BYTES {
            // Zeros of that size need no writes: the system maps them as new pages, which it zeroes.
            return Fresh::of(lines, Arc::new_zeroed_slice);
        }
        let mut fresh = Fresh::of(lines, Arc::new_uninit_slice);
        fresh.lines().fill(MaybeUninit::zeroed());
        fresh
    }

    fn of(lines: usize, allocate: impl FnOnce(usize) -> Arc<[MaybeUninit<u64>]>) -> Fresh {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let large = lines * size_of::<Line>() >= LARGE_BYTES;
        let skipped = if large { NEXT.fetch_add(STEP, Ordering::Relaxed) % PAGE } else { 0 };
        // Allocate one more line, since the memory may begin in the middle of a cache line.
        let words = allocate((lines + skipped + 1) * WORDS);
        let before = words.as_ptr().addr() / size_of::<u64>() % WORDS;
        let first = skipped * WORDS + (WORDS - before) % WORDS;
        let mut fresh = Fresh { words, place: Place { first, lines } };
        if large {
            large_pages(fresh.lines());
        }
        if let Some(words) = Arc::get_mut(&mut fresh.words) {
            words[..first].fill(MaybeUninit::zeroed());
            words[first + lines * WORDS..].fill(MaybeUninit::zeroed());
        }
        fresh
    }

    /// Returns the cache lines for writing; nothing shares them yet.
    pub fn lines(&mut self) -> &mut [MaybeUninit<Line>] {
        let Place { first, lines } = self.place;
        let Some(words) = Arc::get_mut(&mut self.words) else {
            unreachable!("fresh lines that are shared")
        };
        let words = &mut words[first..][..lines * WORDS];
        // SAFETY: `first` is the start of a line, and these words, borrowed exclusively, hold `lines` lines.
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), lines) }
    }

    /// Turns the cache lines into a buffer.
    ///
    /// # Safety
    /// Each cache line must be zeroed or have been written.
    pub unsafe fn assume_init(self) -> Buffer {
        // SAFETY: the caller guarantees that the lines are initialized; the words around them were zeroed in
        // `of`.
        Buffer { words: unsafe { self.words.assume_init() }, place: self.place }
    }
}

impl Buffer {
    /// Allocates a buffer of `lines` cache lines of zeros; aborts if there is no memory.
    pub(super) fn zeros(lines: usize) -> Buffer {
        // SAFETY: the lines are zeroed.
        unsafe { Fresh::known(lines).assume_init() }
    }

    /// Allocates a buffer of `lines` cache lines of zeros; returns `None` if there is no memory.
    pub(super) fn try_zeros(lines: usize) -> Option<Buffer> {
        // SAFETY: the lines are zeroed.
        Fresh::zeros(lines).map(|fresh| unsafe { fresh.assume_init() })
    }

    /// Returns whether another buffer shares these cache lines.
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.words) > 1
    }

    /// Returns the cache lines for writing; first copies them if another buffer shares them.
    pub(super) fn make_mut(&mut self) -> &mut [Line] {
        if Arc::get_mut(&mut self.words).is_none() {
            let mut own = Fresh::of(self.place.lines, Arc::new_uninit_slice);
            own.lines().write_copy_of_slice(self);
            // SAFETY: all lines have been written.
            *self = unsafe { own.assume_init() };
        }
        let Place { first, lines } = self.place;
        let words = Arc::get_mut(&mut self.words).unwrap_or_default();
        bytemuck::cast_slice_mut(&mut words[first..][..lines * WORDS])
    }
}

impl Deref for Buffer {
    type Target = [Line];

    fn deref(&self) -> &[Line] {
        let Place { first, lines } = self.place;
        bytemuck::cast_slice(&self.words[first..][..lines * WORDS])
    }
}

/// Returns whether an allocation of `lines` cache lines would succeed. Tries it only from `HUGE` bytes on; below,
/// the answer is yes.
fn has_room(lines: usize) -> bool {
    lines * size_of::<Line>() < HUGE || Vec::<Line>::new().try_reserve_exact(lines + PAGE).is_ok()
}
