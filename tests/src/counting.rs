//! An allocator that counts, for tests of what is said of memory. A test of its own process declares it:
//!
//! ```
//! use tapeloom_tests::Counting;
//! #[global_allocator]
//! static COUNTING: Counting = Counting::new();
//! let before = COUNTING.held();
//! let bytes = vec![0u8; 1000];
//! assert!(COUNTING.held() >= before + bytes.len());
//! ```
#![allow(
    unsafe_code,
    reason = "an allocator that counts hands everything on to that of the system"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, with a count of bytes and the most that there were.
#[derive(Debug, Default)]
pub struct Counting {
    held: AtomicUsize,
    most: AtomicUsize,
}

impl Counting {
    /// Nothing is held.
    pub const fn new() -> Counting {
        Counting { held: AtomicUsize::new(0), most: AtomicUsize::new(0) }
    }

    /// How many bytes are held.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// What a closure gives, and how many bytes more than before there were meanwhile at most.
    pub fn most<T>(&self, f: impl FnOnce() -> T) -> (T, usize) {
        let before = self.held();
        self.most.store(before, Ordering::Relaxed);
        let made = f();
        (made, self.most.load(Ordering::Relaxed) - before)
    }
}

// SAFETY: every call is handed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = self.held.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        self.most.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller's promises are those of this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        self.held.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are those of this call.
        unsafe { System.dealloc(at, layout) }
    }
}
