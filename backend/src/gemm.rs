//! Contractions by the `gemm` library, as functions that generated code calls.
//!
//! One call does one [`Contract`], described by numbers that lie in memory beside the code: a product of matrices with arbitrary strides, repeated over
//! batches, on one thread (so that results do not depend on how many there are). A panic must not
//! unwind into generated code, which has no unwind tables: it is caught and becomes a status.

#![expect(unsafe_code, reason = "reads and writes buffers through pointers from generated code")]

use crate::kernel::{Contract, Sums};
use smallvec::SmallVec;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The status of a call that did what it should.
pub(crate) const DONE: i32 = 0;
/// The status of a call that panicked.
pub(crate) const PANICKED: i32 = 1;

/// A contraction as a function reads it from memory: sizes and strides. Numbers of batches follow.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Matrices {
    /// Rows, columns, terms.
    pub(crate) sizes: [i64; 3],
    /// Rows and columns of lhs, rhs, out.
    pub(crate) strides: [[i64; 2]; 3],
    /// Whether the sums are added to what is there: 1 or 0.
    pub(crate) accumulate: i64,
    /// How many lanes sums have; 0 for the library.
    pub(crate) lanes: i64,
    /// How many batches follow.
    batches: i64,
}

impl Matrices {
    /// Those that numbers say, and the batches.
    ///
    /// # Safety
    /// `numbers` points to what [`describe`] says, as long as the batches are used.
    pub(crate) unsafe fn read<'a>(numbers: *const i64) -> (Matrices, &'a [Batch]) {
        // SAFETY: `describe` writes a `Matrices`, and that many batches behind it.
        unsafe {
            let shape = *numbers.cast::<Matrices>();
            let behind = numbers.cast::<Matrices>().add(1).cast::<Batch>();
            (shape, std::slice::from_raw_parts(behind, shape.batches as usize))
        }
    }
}

/// The extent of a loop around, and the steps of lhs, rhs, out.
pub(crate) type Batch = [i64; 4];

/// How far lhs, rhs and out move for each item of the batches, in order.
pub(crate) struct Steps<'a> {
    batches: &'a [Batch],
    index: SmallVec<[i64; 4]>,
    left: i64,
}

impl Steps<'_> {
    pub(crate) fn of(batches: &[Batch]) -> Steps<'_> {
        let index = batches.iter().map(|_| 0).collect();
        Steps { batches, index, left: batches.iter().map(|b| b[0]).product() }
    }
}

impl Iterator for Steps<'_> {
    type Item = [isize; 3];

    fn next(&mut self) -> Option<[isize; 3]> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let mut at = [0; 3];
        for (i, [_, steps @ ..]) in self.index.iter().zip(self.batches) {
            at.iter_mut().zip(steps).for_each(|(at, step)| *at += (i * step) as isize);
        }
        for (i, batch) in self.index.iter_mut().zip(self.batches).rev() {
            *i += 1;
            if *i < batch[0] {
                break;
            }
            *i = 0;
        }
        Some(at)
    }
}

/// The numbers that a function takes for a contraction: [`contract_f64`], [`contract_f32`] and those of
/// [`thin`](crate::thin).
pub(crate) fn describe(c: &Contract) -> Vec<i64> {
    let mut numbers: Vec<i64> = [c.m, c.n, c.k].map(|n| n as i64).to_vec();
    numbers.extend([&c.lhs, &c.rhs, &c.out].into_iter().flat_map(|m| [m.row, m.column]));
    let lanes = match c.sums {
        Sums::Library => 0,
        Sums::Lanes(lanes) => lanes as i64,
    };
    numbers.extend([i64::from(c.accumulate), lanes, c.batch.len() as i64]);
    let batches = c.batch.iter().map(|(extent, lhs, rhs, out)| [*extent as i64, *lhs, *rhs, *out]);
    numbers.extend(batches.flatten());
    numbers
}

/// A contraction of f64.
///
/// # Safety
/// `numbers` points to what [`describe`] says of a verified contraction, and `lhs`, `rhs`, `out` to
/// its first elements, in buffers that are valid for reads (`out` for writes) of every element that
/// the strides reach; `out` overlaps neither of the others.
pub(crate) unsafe extern "C" fn contract_f64(
    numbers: *const i64,
    lhs: *const f64,
    rhs: *const f64,
    out: *mut f64,
) -> i32 {
    // SAFETY: what the caller promises is what `run` needs.
    status(|| unsafe { run(numbers, lhs, rhs, out, 0.0, 1.0) })
}

/// A contraction of f32.
///
/// # Safety
/// As for [`contract_f64`].
pub(crate) unsafe extern "C" fn contract_f32(
    numbers: *const i64,
    lhs: *const f32,
    rhs: *const f32,
    out: *mut f32,
) -> i32 {
    // SAFETY: what the caller promises is what `run` needs.
    status(|| unsafe { run(numbers, lhs, rhs, out, 0.0, 1.0) })
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
    numbers: *const i64,
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
    // SAFETY: by the contract of this function.
    let (shape, batches) = unsafe { Matrices::read(numbers) };
    let [m, n, k] = shape.sizes;
    let accumulate = shape.accumulate != 0;
    let before = if accumulate { one } else { zero };
    let [[l_row, l_column], [r_row, r_column], [o_row, o_column]] =
        shape.strides.map(|s| s.map(|s| s as isize));
    for at in Steps::of(batches) {
        // SAFETY: by the contract of this function the strides stay within the buffers, and `out`
        // overlaps no operand. `wrapping_offset` because a matrix without elements may start
        // anywhere.
        unsafe {
            let (l, r) = (lhs.wrapping_offset(at[0]), rhs.wrapping_offset(at[1]));
            let o = out.wrapping_offset(at[2]);
            if k == 0 && accumulate {
                // Sums of nothing.
            } else if k == 0 {
                for row in 0..m as isize {
                    for column in 0..n as isize {
                        *o.offset(row * o_row + column * o_column) = zero;
                    }
                }
            } else if m > 0 && n > 0 {
                gemm::gemm(
                    m as usize,
                    n as usize,
                    k as usize,
                    o,
                    o_column,
                    o_row,
                    accumulate,
                    l,
                    l_column,
                    l_row,
                    r,
                    r_column,
                    r_row,
                    before,
                    one,
                    false,
                    false,
                    false,
                    gemm::Parallelism::None,
                );
            }
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
