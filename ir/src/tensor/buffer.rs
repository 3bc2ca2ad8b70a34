//! The memory of a tensor.
//!
//! A buffer begins at a cache line. A large buffer begins at a varying offset in its page, because the system allocates
//! large memory in whole pages, so all large arrays would otherwise begin at the same offset, and their elements of
//! equal index would fall into the same cache set. If a loop reads more arrays than a set has ways, every access would
//! be a miss.

#![expect(unsafe_code, reason = "memory that is written once")]

use super::line::Line;
use crate::tensor::huge_pages::{LARGE_BYTES, large_pages};
use crate::tensor::recycled::{self, Words};
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

/// From this size in bytes on, a constructor that returns `None` if memory is short tries the allocation first, because
/// `Arc` aborts the process if its own allocation fails.
const HUGE: usize = 1 << 26;

/// The memory of a tensor: cache lines that clones share; a clone copies them before it writes, if they are shared.
#[derive(Clone)]
pub struct Buffer {
    /// The memory of the buffer. The words of its cache lines are initialized; the words before and behind the lines
    /// may not be.
    words: Words,
    place: Place,
}

/// Newly allocated cache lines, which nothing shares yet and which may be uninitialized.
pub struct Fresh {
    /// The memory of the buffer. No other `Arc` refers to it: a `Fresh` is not cloned, and its memory is new or
    /// recycled.
    words: Words,
    place: Place,
}

/// The place of a buffer's cache lines within the allocated 64-bit words: the index of the first word, and the
/// number of lines.
#[derive(Clone, Copy)]
struct Place {
    first: usize,
    lines: usize,
}

impl Place {
    /// Returns whether the memory is kept when the buffer is dropped.
    fn is_recycled(self) -> bool {
        self.lines * size_of::<Line>() >= recycled::LEAST_BYTES
    }
}

impl Fresh {
    /// Allocates `lines` uninitialized cache lines; returns `None` if there is no memory.
    pub fn new(lines: usize) -> Option<Fresh> {
        Fresh::recycled(lines)
            .or_else(|| has_room(lines).then(|| Fresh::of(lines, Arc::new_uninit_slice)))
    }

    /// Allocates `lines` cache lines of zeros; returns `None` if there is no memory.
    pub fn zeros(lines: usize) -> Option<Fresh> {
        Fresh::cleared(lines).or_else(|| has_room(lines).then(|| Fresh::known(lines)))
    }

    /// Returns the memory of a dropped buffer, if some of this size was kept.
    #[inline]
    fn recycled(lines: usize) -> Option<Fresh> {
        if lines * size_of::<Line>() < recycled::LEAST_BYTES {
            return None;
        }
        let (words, first) = recycled::take(words_of(lines))?;
        Some(Fresh { words, place: Place { first, lines } })
    }

    /// Returns the memory of a dropped buffer as [`Fresh::recycled`] does, filled with zeros.
    fn cleared(lines: usize) -> Option<Fresh> {
        let mut fresh = Fresh::recycled(lines)?;
        fresh.lines().fill(MaybeUninit::zeroed());
        Some(fresh)
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

    fn of(lines: usize, allocate: impl FnOnce(usize) -> Words) -> Fresh {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let large = lines * size_of::<Line>() >= LARGE_BYTES;
        let skipped = if large { NEXT.fetch_add(STEP, Ordering::Relaxed) % PAGE } else { 0 };
        let words = allocate(words_of(lines));
        let before = words.as_ptr().addr() / size_of::<u64>() % WORDS;
        let first = skipped * WORDS + (WORDS - before) % WORDS;
        debug_assert!(first + lines * WORDS <= words.len());
        let mut fresh = Fresh { words, place: Place { first, lines } };
        if large {
            large_pages(fresh.lines());
        }
        fresh
    }

    /// Returns the cache lines for writing; nothing shares them yet.
    pub fn lines(&mut self) -> &mut [MaybeUninit<Line>] {
        let Place { first, lines } = self.place;
        let words = Arc::as_ptr(&self.words).cast::<MaybeUninit<u64>>().cast_mut();
        // SAFETY: `of` chose `first` as the start of a line, with `lines` lines behind it within the allocation. Nothing
        // else refers to these words, and `self` is borrowed exclusively. (`Arc::get_mut` would prove this by an atomic
        // operation, which takes longer than the allocation of a scalar.)
        unsafe { std::slice::from_raw_parts_mut(words.add(first).cast(), lines) }
    }

    /// Turns the cache lines into a buffer.
    ///
    /// # Safety
    /// Each cache line must be zeroed or have been written.
    pub unsafe fn assume_init(self) -> Buffer {
        Buffer { words: self.words, place: self.place }
    }
}

impl Buffer {
    /// Allocates a buffer of `lines` cache lines of zeros; aborts if there is no memory.
    pub(super) fn zeros(lines: usize) -> Buffer {
        let fresh = Fresh::cleared(lines).unwrap_or_else(|| Fresh::known(lines));
        // SAFETY: `Fresh::cleared` and `Fresh::known` both fill the lines with zeros.
        unsafe { fresh.assume_init() }
    }

    /// Allocates a buffer of `lines` cache lines of zeros; returns `None` if there is no memory.
    pub(super) fn try_zeros(lines: usize) -> Option<Buffer> {
        // SAFETY: `Fresh::zeros` fills the lines with zeros.
        Fresh::zeros(lines).map(|fresh| unsafe { fresh.assume_init() })
    }

    /// Allocates a buffer of one cache line.
    pub(super) fn of(line: Line) -> Buffer {
        let mut fresh = Fresh::of(1, Arc::new_uninit_slice);
        fresh.lines().fill(MaybeUninit::new(line));
        // SAFETY: the call of `fill` above has written the only line.
        unsafe { fresh.assume_init() }
    }

    /// Returns a pointer to the first cache line. The pointer is derived from that of the `Arc`, so the lines may be written
    /// through it while no other buffer shares them.
    #[inline]
    pub(super) fn first(&self) -> *const Line {
        Arc::as_ptr(&self.words).cast::<u64>().wrapping_add(self.place.first).cast()
    }

    /// Returns whether another buffer shares these cache lines.
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.words) > 1
    }

    /// Returns the cache lines for writing; `None` if another buffer shares them.
    pub(super) fn unshared(&mut self) -> Option<&mut [Line]> {
        let Place { first, lines } = self.place;
        let words = &mut Arc::get_mut(&mut self.words)?[first..][..lines * WORDS];
        // SAFETY: these words are the `lines` cache lines of the buffer: `Fresh::of` chose `first` as the start of a
        // line, and all lines of a `Buffer` are initialized. `Arc::get_mut` borrows the words exclusively.
        Some(unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), lines) })
    }

    /// Returns the cache lines for writing; first copies them if another buffer shares them.
    pub(super) fn make_mut(&mut self) -> &mut [Line] {
        if Arc::get_mut(&mut self.words).is_none() {
            let lines = self.place.lines;
            let recycled = Fresh::recycled(lines);
            let mut own = recycled.unwrap_or_else(|| Fresh::of(lines, Arc::new_uninit_slice));
            own.lines().write_copy_of_slice(self);
            // SAFETY: `write_copy_of_slice` has written all lines.
            *self = unsafe { own.assume_init() };
        }
        self.unshared().unwrap_or_default()
    }
}

/// Keeps memory for the next buffer of the same size, instead of freeing it, unless it is small.
impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        if self.place.is_recycled() && Arc::get_mut(&mut self.words).is_some() {
            recycled::keep(std::mem::take(&mut self.words), self.place.first);
        }
    }
}

impl Deref for Buffer {
    type Target = [Line];

    #[inline]
    fn deref(&self) -> &[Line] {
        let Place { first, lines } = self.place;
        let words = &self.words[first..][..lines * WORDS];
        // SAFETY: these words are the `lines` cache lines of the buffer: `Fresh::of` chose `first` as the start of a
        // line, and all lines of a `Buffer` are initialized.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), lines) }
    }
}

/// Returns the number of words that are allocated for `lines` cache lines: a line more, as the memory may begin in the
/// middle of one. A large buffer has a page more, in which it begins at a varying offset. So buffers of equal size have
/// equal numbers of words, and can take each other's memory.
fn words_of(lines: usize) -> usize {
    let page = if lines * size_of::<Line>() >= LARGE_BYTES { PAGE } else { 0 };
    (lines + page + 1) * WORDS
}

/// Returns whether an allocation of `lines` cache lines would succeed. Tries it only from `HUGE` bytes on; below,
/// the answer is yes.
fn has_room(lines: usize) -> bool {
    let fits = || Vec::<Line>::new().try_reserve_exact(lines + PAGE + 1).is_ok();
    lines * size_of::<Line>() < HUGE || fits() || {
        recycled::free();
        fits()
    }
}
