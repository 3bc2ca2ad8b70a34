//! Contractions by the `gemm` library, as functions that generated code calls.
//!
//! One call does one [`Contract`], described by numbers that lie in memory beside the code: a product of matrices with arbitrary strides, repeated over
//! batches, on one thread (so that results do not depend on how many there are). A panic must not
//! unwind into generated code, which has no unwind tables: it is caught and becomes a status.

#![expect(unsafe_code, reason = "reads and writes buffers through pointers from generated code")]

use crate::loop_ir::{Contract, Sums};
use gemm_common::Parallelism;
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

/// How far lhs, rhs and out move for each item of the batches, in order, and whether the item is the first at its place of
/// out, which does not move with every batch.
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

/// The numbers that a function takes for a contraction: [`contract_f64`], [`contract_f32`] and those of
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
    status(|| unsafe {
        run(numbers, lhs, rhs, out, [0.0, 1.0], gemm_f64::gemm::f64::get_gemm_fn())
    })
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
    status(|| unsafe {
        run(numbers, lhs, rhs, out, [0.0, 1.0], gemm_f32::gemm::f32::get_gemm_fn())
    })
}

/// The status of a callback that may panic. The vector registers are left as generated code wants them.
pub(crate) fn status(callback: impl FnOnce()) -> i32 {
    let status = match catch_unwind(AssertUnwindSafe(callback)) {
        Ok(()) => DONE,
        Err(_) => PANICKED,
    };
    zero_upper_halves();
    status
}

/// Clears the upper halves of the vector registers, which libraries in AVX leave as they are. Spills of generated code are
/// SSE instructions (`movdqu`), of which each would wait for a change of state: without this the gradient of `eigh` at order 64
/// took 714 us, 328 of them so.
fn zero_upper_halves() {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx")]
        fn vzeroupper() {
            std::arch::x86_64::_mm256_zeroupper();
        }
        if std::arch::is_x86_feature_detected!("avx") {
            // SAFETY: the machine has AVX; the instruction changes no register that a caller expects to be kept.
            unsafe { vzeroupper() };
        }
    }
}

/// What the library calls for a type of elements: sizes; the destination, its strides of columns and
/// rows, whether it is added to; both operands with theirs; two factors; what is conjugated; threads.
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
    // SAFETY: by the contract of this function.
    let (shape, batches) = unsafe { Matrices::read(numbers) };
    let [m, n, k] = shape.sizes;
    let accumulate = shape.accumulate != 0;
    let [[l_row, l_column], [r_row, r_column], [o_row, o_column]] =
        shape.strides.map(|s| s.map(|s| s as isize));
    for (at, first) in Steps::of(batches) {
        let accumulate = accumulate || !first;
        let before = if accumulate { one } else { zero };
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
                let out = Matrix { start: o, row: o_row, column: o_column };
                let lhs = Matrix { start: l.cast_mut(), row: l_row, column: l_column };
                let rhs = Matrix { start: r.cast_mut(), row: r_row, column: r_column };
                let sizes = [m, n, k].map(|n| n as usize);
                product(library, sizes, out, accumulate, lhs, rhs, [before, one]);
            }
        }
    }
}

/// Where a matrix begins, and its strides.
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

    /// The same with its rows in the opposite order.
    fn upside_down(self, rows: usize) -> Matrix<T> {
        let start = self.start.wrapping_offset((rows as isize - 1) * self.row);
        Matrix { start, row: -self.row, ..self }
    }

    /// The same with its columns in the opposite order.
    fn mirrored(self, columns: usize) -> Matrix<T> {
        self.transposed().upside_down(columns).transposed()
    }
}

/// Calls the library as its crate `gemm` does, which has complex numbers and half precision as well
/// and takes long to compile: the destination by columns, and no stride of the destination or of the
/// terms negative.
///
/// # Safety
/// The matrices lie within buffers that are valid for reads, and the destination for writes, and the
/// destination overlaps neither operand; none of the sizes is 0.
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
    // SAFETY: the same elements as those of the caller, in another order.
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
        /// Makes the next contractions of this thread panic.
        pub(crate) static PANIC: Cell<bool> = const { Cell::new(false) };
    }

    /// Strides of rows and columns of a matrix of that many, by rows or by columns, each forward or
    /// backward, and where its first element lies.
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
        // Numbers whose sums are exact in any order.
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
