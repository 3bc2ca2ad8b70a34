//! Contractions by the `gemm` library, as functions that generated code calls.
//!
//! One call does one [`Contract`]: a product of matrices with arbitrary strides, repeated over
//! batches, on one thread (so that results do not depend on how many there are). A panic must not
//! unwind into generated code, which has no unwind tables: it is caught and becomes a status.

#![expect(unsafe_code, reason = "reads and writes buffers through pointers from generated code")]

use crate::kernel::Contract;
use smallvec::SmallVec;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The status of a call that did what it should.
pub(crate) const DONE: i32 = 0;
/// The status of a call that panicked.
pub(crate) const PANICKED: i32 = 1;

/// A contraction of f64.
///
/// # Safety
/// `contract` points to a verified contraction, and `lhs`, `rhs`, `out` to the first elements of its
/// buffers, which are valid for reads (`out` for writes) of every element that the strides reach;
/// `out` overlaps neither of the others.
pub(crate) unsafe extern "C" fn contract_f64(
    contract: *const Contract,
    lhs: *const f64,
    rhs: *const f64,
    out: *mut f64,
) -> i32 {
    // SAFETY: what the caller promises is what `run` needs.
    status(|| unsafe { run(&*contract, lhs, rhs, out, 0.0, 1.0) })
}

/// A contraction of f32.
///
/// # Safety
/// As for [`contract_f64`].
pub(crate) unsafe extern "C" fn contract_f32(
    contract: *const Contract,
    lhs: *const f32,
    rhs: *const f32,
    out: *mut f32,
) -> i32 {
    // SAFETY: what the caller promises is what `run` needs.
    status(|| unsafe { run(&*contract, lhs, rhs, out, 0.0, 1.0) })
}

/// The status of a callback that may panic.
pub(crate) fn status(callback: impl FnOnce()) -> i32 {
    match catch_unwind(AssertUnwindSafe(callback)) {
        Ok(()) => DONE,
        Err(_) => PANICKED,
    }
}

/// # Safety
/// As for [`contract_f64`], for elements of type `T`, which gemm knows (f32 or f64).
unsafe fn run<T: Copy + 'static>(
    c: &Contract,
    lhs: *const T,
    rhs: *const T,
    out: *mut T,
    zero: T,
    one: T,
) {
    #[cfg(test)]
    if tests::PANIC.get() {
        std::panic::resume_unwind(Box::new("a test"));
    }
    let count: usize = c.batch.iter().map(|b| b.0).product();
    let mut index: SmallVec<[usize; 4]> = SmallVec::from_elem(0, c.batch.len());
    for _ in 0..count {
        let (mut l, mut r, mut o) = (c.lhs.offset, c.rhs.offset, c.out.offset);
        for (i, (_, lhs, rhs, out)) in index.iter().zip(&c.batch) {
            let i = *i as i64;
            (l, r, o) = (l + i * lhs, r + i * rhs, o + i * out);
        }
        // SAFETY: by the contract of this function the strides stay within the buffers, and `out`
        // overlaps no operand. `wrapping_offset` because a matrix without elements may start
        // anywhere.
        unsafe {
            let (l, r) = (lhs.wrapping_offset(l as isize), rhs.wrapping_offset(r as isize));
            let o = out.wrapping_offset(o as isize);
            if c.k == 0 {
                for row in 0..c.m as i64 {
                    for column in 0..c.n as i64 {
                        *o.offset((row * c.out.row + column * c.out.column) as isize) = zero;
                    }
                }
            } else if c.m > 0 && c.n > 0 {
                gemm::gemm(
                    c.m,
                    c.n,
                    c.k,
                    o,
                    c.out.column as isize,
                    c.out.row as isize,
                    false,
                    l,
                    c.lhs.column as isize,
                    c.lhs.row as isize,
                    r,
                    c.rhs.column as isize,
                    c.rhs.row as isize,
                    zero,
                    one,
                    false,
                    false,
                    false,
                    gemm::Parallelism::None,
                );
            }
        }
        for (i, (extent, ..)) in index.iter_mut().zip(&c.batch).rev() {
            *i += 1;
            if *i < *extent {
                break;
            }
            *i = 0;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    thread_local! {
        /// Makes the next contractions of this thread panic.
        pub(crate) static PANIC: Cell<bool> = const { Cell::new(false) };
    }
}
