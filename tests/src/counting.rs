//! An allocator that counts bytes, for tests that compare memory use. A test binary declares it:
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
//! Each thread counts only its own allocations and deallocations, so tests can run in parallel.
#![allow(unsafe_code, reason = "a counting allocator calls the system's allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The initial value of the counters. It lies far above zero, because a thread may free memory that another thread
/// allocated.
const BEGIN: usize = usize::MAX / 2;

thread_local! {
    // The initial values are constants and cells have no destructors. So an access allocates nothing, and is possible
    // until the thread has ended.
    static HELD: Cell<usize> = const { Cell::new(BEGIN) };
    static MOST: Cell<usize> = const { Cell::new(BEGIN) };
    static BLOCKS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with three counters per thread: the bytes that the thread holds now, their maximum, and the
/// number of allocations.
#[derive(Debug, Default)]
pub struct Counting;

impl Counting {
    /// Returns the number of bytes that this thread holds, plus a large constant: only differences of results are
    /// meaningful.
    pub fn held() -> usize {
        HELD.get()
    }

    /// Returns the result of `f`, and the largest number of bytes that this thread held during the call, beyond the
    /// bytes held before the call.
    pub fn most<T>(f: impl FnOnce() -> T) -> (T, usize) {
        let before = Counting::held();
        MOST.set(before);
        let made = f();
        (made, MOST.get() - before)
    }

    /// Returns the result of `f`, and the number of allocations that this thread makes during `f`.
    pub fn blocks<T>(f: impl FnOnce() -> T) -> (T, usize) {
        let before = BLOCKS.get();
        let made = f();
        (made, BLOCKS.get() - before)
    }
}

// SAFETY: every call is forwarded unchanged to the system's allocator, which fulfils the contract of `GlobalAlloc`; the
// counters do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.get().wrapping_add(layout.size());
        HELD.set(held);
        MOST.set(MOST.get().max(held));
        BLOCKS.set(BLOCKS.get() + 1);
        // SAFETY: the caller of this function promises that `layout` is not empty, as `System.alloc` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.set(HELD.get().wrapping_sub(layout.size()));
        // SAFETY: the caller of this function promises that `at` was allocated here with `layout`, that is, by
        // `System.alloc`.
        unsafe { System.dealloc(at, layout) }
    }
}
