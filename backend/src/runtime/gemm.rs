//! Contractions by the matrix library `gemm`, as functions that generated code calls.
//!
//! One call performs one [`Contract`]: a product of matrices with arbitrary strides, repeated over
//! batches, described by numbers that lie in memory beside the code. It runs on one thread, so that results do not
//! depend on the number of threads. A panic must not unwind into generated code, which has no unwind tables; it is
//! caught and becomes a status.

#![expect(unsafe_code, reason = "reads and writes buffers through pointers from generated code")]

use crate::loop_ir::{Contract, Sums};
use gemm_common::Parallelism;
use smallvec::SmallVec;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The status of a call that succeeded.
pub(crate) const DONE: i32 = 0;
/// The status of a call that panicked.
pub(crate) const PANICKED: i32 = 1;

/// The sizes and strides of a contraction, in the form in which generated code stores them in memory. The contraction's
/// `Batch` loops follow directly after these numbers.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Matrices {
    /// The number of the result's rows, of its columns, and of the terms of each sum.
    pub(crate) sizes: [i64; 3],
    /// The row and column strides of lhs, rhs and out, in elements: `[[row, column] of lhs, of rhs, of out]`.
    pub(crate) strides: [[i64; 2]; 3],
    /// 1 if the contraction adds to the values in `out`, 0 if it overwrites them.
    pub(crate) accumulate: i64,
    /// The number of partial sums of each element; 0 if the library chooses the order of summation.
    pub(crate) lanes: i64,
    /// The number of `Batch` loops that lie in memory directly after this struct.
    batches: i64,
}

impl Matrices {
    /// Reads the description of a contraction, and of its batch loops.
    ///
    /// # Safety
    /// `numbers` points to the output of [`describe`], which lives as long as the returned batches.
    pub(crate) unsafe fn read<'a>(numbers: *const i64) -> (Matrices, &'a [Batch]) {
        // SAFETY: by the contract of this function, `numbers` points to the output of `describe`, which writes a
        // `Matrices` and then `batches` batches.
        unsafe {
            let shape = *numbers.cast::<Matrices>();
            let behind = numbers.cast::<Matrices>().add(1).cast::<Batch>();
            (shape, std::slice::from_raw_parts(behind, shape.batches as usize))
        }
    }
}

/// A loop around a contraction: its trip count, and the distances in elements by which lhs, rhs and out move in each
/// iteration.
pub(crate) type Batch = [i64; 4];

/// An iterator over all iterations of the batch loops. Yields the offsets of lhs, rhs and out in elements, and whether
/// the iteration is the first that writes its matrix `out`. (Batch loops that do not move `out` write one matrix
/// several times; the later iterations add to the matrix.)
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
    type Item = ([isize; 3], bool);

    fn next(&mut self) -> Option<([isize; 3], bool)> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let (mut at, mut first) = ([0; 3], true);
        for (i, [_, steps @ ..]) in self.index.iter().zip(self.batches) {
            at.iter_mut().zip(steps).for_each(|(at, step)| *at += (i * step) as isize);
            first &= *i == 0 || steps[2] != 0;
        }
        for (i, batch) in self.index.iter_mut().zip(self.batches).rev() {
            *i += 1;
            if *i < batch[0] {
                break;
            }
            *i = 0;
        }
        Some((at, first))
    }
}

/// Returns the words that describe a contraction to [`contract_f64`], [`contract_f32`] and the functions of
/// [`thin`](crate::runtime::small_gemm).
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

/// Computes a contraction of f64 and returns a status (`DONE` or `PANICKED`).
///
/// # Safety
/// `numbers` points to the output of [`describe`] for a verified contraction, and `lhs`, `rhs`, `out` to
/// its first elements, in buffers that are valid for reads (`out` for writes) of every element that
/// the strides reach. `out` overlaps neither `lhs` nor `rhs`.
pub(crate) unsafe extern "C" fn contract_f64(
    numbers: *const i64,
    lhs: *const f64,
    rhs: *const f64,
    out: *mut f64,
) -> i32 {
    // SAFETY: `run` has the contract of this function, which the caller upholds.
    status(|| unsafe {
        run(numbers, lhs, rhs, out, [0.0, 1.0], gemm_f64::gemm::f64::get_gemm_fn())
    })
}

/// Computes a contraction of f32 and returns a status (`DONE` or `PANICKED`).
///
/// # Safety
/// As for [`contract_f64`].
pub(crate) unsafe extern "C" fn contract_f32(
    numbers: *const i64,
    lhs: *const f32,
    rhs: *const f32,
    out: *mut f32,
) -> i32 {
    // SAFETY: `run` has the contract of this function, which the caller upholds.
    status(|| unsafe {
        run(numbers, lhs, rhs, out, [0.0, 1.0], gemm_f32::gemm::f32::get_gemm_fn())
    })
}

/// Calls `callback` and returns `DONE`, or `PANICKED` if the callback panics. Clears the upper halves of the vector
/// registers.
pub(crate) fn status(callback: impl FnOnce()) -> i32 {
    let status = match catch_unwind(AssertUnwindSafe(callback)) {
        Ok(()) => DONE,
        Err(_) => PANICKED,
    };
    zero_upper_halves();
    status
}

/// Clears the upper halves of the vector registers, which AVX code in libraries leaves dirty. While they are dirty,
/// each SSE instruction of generated code (`movdqu` for spills) waits for a state transition. Without this function,
/// the gradient of `eigh` of order 64 took 714 us, of which 328 us were such waits.
fn zero_upper_halves() {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx")]
        fn vzeroupper() {
            std::arch::x86_64::_mm256_zeroupper();
        }
        if std::arch::is_x86_feature_detected!("avx") {
            // SAFETY: the condition above checks that the machine has AVX; the instruction changes no register that the
            // caller expects to be preserved.
            unsafe { vzeroupper() };
        }
    }
}

/// The type of the matrix library's function for one element type. The parameters are the sizes, the destination with
/// its column and row stride, the flag to accumulate, both operands with their strides, two factors, the conjugation
/// flags, and the number of threads.
type Library<T> = unsafe fn(
    usize,
    usize,
    usize,
    *mut T,
    isize,
    isize,
    bool,
    *const T,
    isize,
    isize,
    *const T,
    isize,
    isize,
    T,
    T,
    bool,
    bool,
    bool,
    Parallelism,
);

/// Computes a contraction by the function `library`, batch by batch; `zero` and `one` are the numbers 0 and 1.
///
/// # Safety
/// As for [`contract_f64`], for elements of type `T`.
unsafe fn run<T: Copy>(
    numbers: *const i64,
    lhs: *const T,
    rhs: *const T,
    out: *mut T,
    [zero, one]: [T; 2],
    library: Library<T>,
) {
    #[cfg(test)]
    if tests::PANIC.get() {
        std::panic::resume_unwind(Box::new("a test"));
    }
    // SAFETY: by the contract of this function, `numbers` points to the output of `describe`.
    let (shape, batches) = unsafe { Matrices::read(numbers) };
    let [m, n, k] = shape.sizes;
    let accumulate = shape.accumulate != 0;
    let [[l_row, l_column], [r_row, r_column], [o_row, o_column]] =
        shape.strides.map(|s| s.map(|s| s as isize));
    for (at, first) in Steps::of(batches) {
        let accumulate = accumulate || !first;
        let before = if accumulate { one } else { zero };
        // SAFETY: by the contract of this function the strides stay within the buffers, and `out` overlaps no operand.
        // Offsets are computed by `wrapping_offset`, because the offset of a matrix without elements may be out of
        // bounds.
        unsafe {
            let (l, r) = (lhs.wrapping_offset(at[0]), rhs.wrapping_offset(at[1]));
            let o = out.wrapping_offset(at[2]);
            if k == 0 && accumulate {
                // A sum without terms is 0; if the contraction accumulates, `out` stays unchanged.
            } else if k == 0 {
                for row in 0..m as isize {
                    for column in 0..n as isize {
                        *o.offset(row * o_row + column * o_column) = zero;
                    }
                }
            } else if m > 0 && n > 0 {
                let out = Matrix { start: o, row: o_row, column: o_column };
                let lhs = Matrix { start: l.cast_mut(), row: l_row, column: l_column };
                let rhs = Matrix { start: r.cast_mut(), row: r_row, column: r_column };
                let sizes = [m, n, k].map(|n| n as usize);
                product(library, sizes, out, accumulate, lhs, rhs, [before, one]);
            }
        }
    }
}

/// A matrix in memory: the pointer to its first element, and its strides in elements.
#[derive(Clone, Copy)]
struct Matrix<T> {
    start: *mut T,
    row: isize,
    column: isize,
}

impl<T> Matrix<T> {
    fn transposed(self) -> Matrix<T> {
        Matrix { row: self.column, column: self.row, ..self }
    }

    /// Returns the matrix with its rows in reverse order.
    fn upside_down(self, rows: usize) -> Matrix<T> {
        let start = self.start.wrapping_offset((rows as isize - 1) * self.row);
        Matrix { start, row: -self.row, ..self }
    }

    /// Returns the matrix with its columns in reverse order.
    fn mirrored(self, columns: usize) -> Matrix<T> {
        self.transposed().upside_down(columns).transposed()
    }
}

/// Computes a matrix product by the library, in the same way as the front-end crate `gemm`. That crate is not used
/// because it takes long to compile: it also has complex numbers and half precision. The destination is made
/// column-major, and negative strides of the destination and along the terms are made positive.
///
/// # Safety
/// The matrices lie in buffers that are valid for reads, and the destination for writes. The
/// destination overlaps neither operand. No size is 0.
unsafe fn product<T: Copy>(
    library: Library<T>,
    [mut m, mut n, k]: [usize; 3],
    mut out: Matrix<T>,
    accumulate: bool,
    mut lhs: Matrix<T>,
    mut rhs: Matrix<T>,
    [before, one]: [T; 2],
) {
    if out.column.abs() < out.row.abs() {
        (m, n) = (n, m);
        (out, lhs, rhs) = (out.transposed(), rhs.transposed(), lhs.transposed());
    }
    if out.row < 0 {
        (out, lhs) = (out.upside_down(m), lhs.upside_down(m));
    }
    if out.column < 0 {
        (out, rhs) = (out.mirrored(n), rhs.mirrored(n));
    }
    if lhs.column < 0 {
        (lhs, rhs) = (lhs.mirrored(k), rhs.upside_down(k));
    }
    // SAFETY: the transposed and mirrored matrices have the elements of the caller's matrices, so every access is
    // valid.
    unsafe {
        library(
            m,
            n,
            k,
            out.start,
            out.column,
            out.row,
            accumulate,
            lhs.start,
            lhs.column,
            lhs.row,
            rhs.start,
            rhs.column,
            rhs.row,
            before,
            one,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        /// A switch for tests: if true, the contractions of this thread panic.
        pub(crate) static PANIC: Cell<bool> = const { Cell::new(false) };
    }

    /// Returns strides of a matrix to test: row-major and column-major, with each axis forward or backward, each with
    /// the index of element (0, 0) in the array.
    fn layouts([rows, columns]: [i64; 2]) -> Vec<([i64; 2], usize)> {
        let mut all = Vec::new();
        for by_rows in [false, true] {
            let [row, column] = if by_rows { [columns, 1] } else { [1, rows] };
            for (up, left) in [(false, false), (false, true), (true, false), (true, true)] {
                let first = if up { (rows - 1) * row } else { 0 };
                let first = first + if left { (columns - 1) * column } else { 0 };
                let signed = |stride: i64, back: bool| if back { -stride } else { stride };
                all.push(([signed(row, up), signed(column, left)], first as usize));
            }
        }
        all
    }

    #[test]
    fn strides_of_every_sign() {
        let [m, n, k] = [3i64, 4, 5];
        // The elements are small integers, so that sums are exact in any order and the results must be equal.
        let numbers = |count: i64, factor: i64| -> Vec<f64> {
            (0..count).map(|i| (i * factor % 11 - 5) as f64).collect()
        };
        let (lhs, rhs, before) = (numbers(m * k, 7), numbers(k * n, 4), numbers(m * n, 3));
        let place = |first: usize, [row, column]: [i64; 2], i: i64, j: i64| {
            (first as i64 + i * row + j * column) as usize
        };
        for (l, l_first) in layouts([m, k]) {
            for (r, r_first) in layouts([k, n]) {
                for (o, o_first) in layouts([m, n]) {
                    for accumulate in [0, 1] {
                        let described =
                            [m, n, k, l[0], l[1], r[0], r[1], o[0], o[1], accumulate, 0, 0];
                        let mut out = before.clone();
                        let out_at = out.as_mut_ptr().wrapping_add(o_first);
                        // SAFETY: the strides reach every element of these arrays and no other.
                        let status = unsafe {
                            contract_f64(
                                described.as_ptr(),
                                lhs.as_ptr().add(l_first),
                                rhs.as_ptr().add(r_first),
                                out_at,
                            )
                        };
                        assert_eq!(status, DONE);
                        let mut want = before.clone();
                        for i in 0..m {
                            for j in 0..n {
                                let term =
                                    |t| lhs[place(l_first, l, i, t)] * rhs[place(r_first, r, t, j)];
                                let at = place(o_first, o, i, j);
                                let sum: f64 = (0..k).map(term).sum();
                                want[at] = sum + accumulate as f64 * before[at];
                            }
                        }
                        assert_eq!(out, want, "{described:?}");
                    }
                }
            }
        }
    }
}
