//! Large pages for large arrays.
//!
//! A call allocates its results, and the system maps memory page by page as it is first touched. In pages of
//! 4 KiB that costs several times as much as writing the numbers: an array of 335 MB is filled in about 820 ms
//! where it is new, in 120 ms where it is new and in large pages, in 60 ms where it has been filled before.
//! Linux gives large pages where they are asked for, and NumPy asks from the same size on.
//!
//! Where the system has none, or no answer, nothing changes but time.

#![expect(unsafe_code, reason = "asks the system")]

use super::line::Line;
use bytemuck::Zeroable;

/// From so many bytes on memory is large: the system gives it new, in pages of its own.
pub const LARGE_BYTES: usize = 1 << 22;

/// So many lines of zeros; `None` where there is no memory for them.
pub fn try_zeros(lines: usize) -> Option<Vec<Line>> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(lines).ok()?;
    large_pages(zeros.spare_capacity_mut());
    zeros.resize(lines, Line::zeroed());
    Some(zeros)
}

/// Asks the system for large pages under memory that has not been touched yet, if it is large. What it holds
/// does not change.
pub(crate) fn large_pages<T>(memory: &mut [T]) {
    if size_of_val(memory) >= LARGE_BYTES {
        ask(memory);
    }
}

#[cfg(target_os = "linux")]
fn ask<T>(memory: &mut [T]) {
    use std::ffi::{c_int, c_void};
    unsafe extern "C" {
        fn madvise(start: *mut c_void, length: usize, advice: c_int) -> c_int;
    }
    const HUGEPAGE: c_int = 14;
    // Whole pages, whichever of its sizes the machine has.
    const PAGE: usize = 1 << 16;
    let start = memory.as_mut_ptr().cast::<u8>();
    let skipped = start.align_offset(PAGE);
    let length = size_of_val(memory).saturating_sub(skipped) / PAGE * PAGE;
    // SAFETY: these bytes are within `memory`, which is borrowed alone; the advice changes none of them and
    // unmaps nothing. The answer may be no, which is one.
    unsafe { madvise(start.wrapping_add(skipped).cast(), length, HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn ask<T>(_: &mut [T]) {}
