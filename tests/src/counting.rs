//! An allocator that counts, for tests of what is said of memory. A test binary declares it:
//!
//! ```
//! use tapeloom_tests::Counting;
//! #[global_allocator]
//! static COUNTING: Counting = Counting;
//! let before = Counting::held();
//! let bytes = vec![0u8; 1000];
//! assert!(Counting::held() >= before + bytes.len());
//! ```
//!
//! Each thread counts what it takes and gives back itself, so tests run beside one another.
#![allow(
    unsafe_code,
    reason = "an allocator that counts hands everything on to that of the system"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Where counts begin: a thread may give back what another one took.
const BEGIN: usize = usize::MAX / 2;

thread_local! {
    // Constants without destructors: they take no memory, and are there until the thread has ended.
    static HELD: Cell<usize> = const { Cell::new(BEGIN) };
    static MOST: Cell<usize> = const { Cell::new(BEGIN) };
}

/// The system's allocator, with a count of bytes and the most that there were, for each thread.
#[derive(Debug, Default)]
pub struct Counting;

impl Counting {
    /// How many bytes this thread holds, from a large number on: differences are what is told.
    pub fn held() -> usize {
        HELD.get()
    }

    /// What a closure gives, and how many bytes more than before this thread held meanwhile at most.
    pub fn most<T>(f: impl FnOnce() -> T) -> (T, usize) {
        let before = Counting::held();
        MOST.set(before);
        let made = f();
        (made, MOST.get() - before)
    }
}

// SAFETY: every call is handed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.get().wrapping_add(layout.size());
        HELD.set(held);
        MOST.set(MOST.get().max(held));
        // SAFETY: the caller's promises are those of this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.set(HELD.get().wrapping_sub(layout.size()));
        // SAFETY: the caller's promises are those of this call.
        unsafe { System.dealloc(at, layout) }
    }
}
