//! The memory of a tensor.
//!
//! A buffer begins on a cache line, and a large one somewhere in a page. The system gives large memory in whole pages,
//! so without that all large arrays would begin at one place of a page, and their elements of one index would meet in
//! one set of a cache: where a loop walks over more arrays than a set has ways, every access would be a miss.

#![expect(unsafe_code, reason = "memory that is written once")]

use super::line::Line;
use crate::tensor::huge_pages::{LARGE_BYTES, large_pages};
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Words in a line.
const WORDS: usize = size_of::<Line>() / size_of::<u64>();

/// Lines in a page.
const PAGE: usize = 4096 / size_of::<Line>();

/// Lines in a page from one large buffer to the next. By it any few that follow each other are well apart.
const STEP: usize = 37;

/// From so many bytes on an allocation may well fail, and that of an `Arc` would end the process.
const HUGE: usize = 1 << 26;

/// Lines that are shared, and copied before they are written.
#[derive(Clone)]
pub struct Buffer {
    words: Arc<[u64]>,
    place: Place,
}

/// Lines that nobody has seen.
pub struct Fresh {
    words: Arc<[MaybeUninit<u64>]>,
    place: Place,
}

/// Where lines lie among words.
#[derive(Clone, Copy)]
struct Place {
    first: usize,
    lines: usize,
}

impl Fresh {
    /// So many lines, whatever is in them; `None` where there is no memory for them.
    pub fn new(lines: usize) -> Option<Fresh> {
        has_room(lines).then(|| Fresh::of(lines, Arc::new_uninit_slice))
    }

    /// So many lines of zeros; `None` where there is no memory for them.
    pub fn zeros(lines: usize) -> Option<Fresh> {
        has_room(lines).then(|| Fresh::known(lines))
    }

    /// So many lines of zeros, of which it is known that there is room.
    fn known(lines: usize) -> Fresh {
        if lines * size_of::<Line>() >= LARGE_BYTES {
            // The system gives zeros.
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
        // One line more, since memory may begin within one.
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

    /// The lines, to be written. Nobody shares them yet.
    pub fn lines(&mut self) -> &mut [MaybeUninit<Line>] {
        let Place { first, lines } = self.place;
        let Some(words) = Arc::get_mut(&mut self.words) else {
            unreachable!("fresh lines that are shared")
        };
        let words = &mut words[first..][..lines * WORDS];
        // SAFETY: `first` is where a line begins, and these words, borrowed alone, are so many lines.
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), lines) }
    }

    /// The buffer.
    ///
    /// # Safety
    /// All lines are zeros, or have been written.
    pub unsafe fn assume_init(self) -> Buffer {
        // SAFETY: the caller speaks for the lines, and what is around them has been zeroed.
        Buffer { words: unsafe { self.words.assume_init() }, place: self.place }
    }
}

impl Buffer {
    /// So many lines of zeros.
    pub(super) fn zeros(lines: usize) -> Buffer {
        // SAFETY: zeros.
        unsafe { Fresh::known(lines).assume_init() }
    }

    /// The same; `None` where there is no memory for them.
    pub(super) fn try_zeros(lines: usize) -> Option<Buffer> {
        // SAFETY: zeros.
        Fresh::zeros(lines).map(|fresh| unsafe { fresh.assume_init() })
    }

    /// Whether another buffer has the same lines.
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.words) > 1
    }

    /// The lines, for writing; copied first if they are shared.
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

/// Whether there is memory for so many lines, as far as can be told.
fn has_room(lines: usize) -> bool {
    lines * size_of::<Line>() < HUGE || Vec::<Line>::new().try_reserve_exact(lines + PAGE).is_ok()
}
