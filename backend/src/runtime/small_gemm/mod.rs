//! Contractions with a fixed order of summation, as functions that generated code calls: thin matrices.
//!
//! In a matrix-vector product, or in an outer product that is added to a matrix, every element is read once or twice,
//! so the packing that a matrix library does costs more than it saves. The speed depends on the vector width, so each
//! function has one version for each instruction set. All versions add the same terms in the same order, which the
//! [`Contract`](crate::loop_ir::Contract) states ([`Sums::Lanes`](crate::loop_ir::Sums)). No operation is fused or
//! regrouped, and each product and each sum is rounded separately (IEEE 754). So the results have the same bits as
//! those of the interpreter on every machine.
//!
//! ```text
//! one accumulator        y[j .. j+8] += x[k] w[k, j .. j+8]           columns in vector lanes    `columns`
//! accumulators in lanes  p[..] += x[i, k .. k+8] w[k .. k+8, j]       terms in vector lanes      `dots`
//! ```
//!
//! A *line* is a vector of 64 bytes, in one, two or four registers. Elements after the last whole line are loaded and
//! stored under a mask.

#![expect(unsafe_code, reason = "reads and writes buffers through pointers from generated code")]

#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::loop_ir::MOST_LANES;
use crate::runtime::gemm::{Matrices, Steps};
use std::array;
use std::ops::{Add, Mul};
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::{Dtype, Isa};

/// A function that computes a contraction of matrices. Arguments: the words that describe the contraction, and the
/// first elements of lhs, rhs and out.
pub(crate) type Function<T> = unsafe extern "C" fn(*const i64, *const T, *const T, *mut T);

/// Returns the function that computes contractions of a dtype, in the version for an instruction set. The machine that
/// calls the function must have this instruction set.
pub(crate) fn version(dtype: Dtype, isa: Isa) -> *const u8 {
    let of = |both: (Function<f64>, Function<f32>)| match dtype {
        Dtype::F64 => both.0 as *const u8,
        _ => both.1 as *const u8,
    };
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => of((avx512::wide, avx512::narrow)),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => of((avx2::wide, avx2::narrow)),
        _ => of((plain::wide, plain::narrow)),
    }
}

/// Defines the contraction functions for f64 and f32, compiled for one instruction set.
///
/// # Safety
/// `numbers` points to the output of [`describe`](crate::runtime::gemm::describe) for a verified contraction whose sums
/// have lanes, and `lhs`, `rhs`, `out` to its first elements, in buffers that are valid for reads (`out` for
/// writes) of every element that the strides reach. `out` overlaps neither of the others. The machine has the
/// instructions.
macro_rules! versions {
    ($name:ident, $wide:ty, $narrow:ty $(, $enable:literal)?) => {
        mod $name {
            $(#[target_feature(enable = $enable)])?
            pub(super) unsafe extern "C" fn wide(n: *const i64, l: *const f64, r: *const f64, o: *mut f64) {
                // SAFETY: `run` has the contract of this function, which the caller upholds.
                unsafe { super::run::<$wide>(n, l, r, o) }
            }

            $(#[target_feature(enable = $enable)])?
            pub(super) unsafe extern "C" fn narrow(n: *const i64, l: *const f32, r: *const f32, o: *mut f32) {
                // SAFETY: `run` has the contract of this function, which the caller upholds.
                unsafe { super::run::<$narrow>(n, l, r, o) }
            }
        }
    };
}

versions!(plain, super::Plain<f64, 8>, super::Plain<f32, 16>);
#[cfg(target_arch = "x86_64")]
versions!(avx2, super::x86::F64x4, super::x86::F32x8, "avx2");
#[cfg(target_arch = "x86_64")]
versions!(avx512, super::x86::F64x8, super::x86::F32x16, "avx512f");

/// The number of rows of a tile (a part of the result that is computed at once) that is one line (a vector of 64 bytes)
/// wide. The sums of a tile are independent, which hides the latency of additions.
const ROWS: usize = 4;
/// The number of lines (vectors of 64 bytes) of a tile (a part of the result that is computed at once) that has one
/// row.
const LINES: usize = 4;

/// The most elements of a line: a line has 64 bytes, and an f32 has 4.
const MOST_OF_A_LINE: usize = 16;

/// A matrix in memory: the pointer to its first element, and its row and column strides in elements.
#[derive(Clone, Copy)]
struct Matrix<P> {
    at: P,
    row: isize,
    column: isize,
}

impl<P> Matrix<P> {
    fn new(at: P, [row, column]: [i64; 2]) -> Matrix<P> {
        Matrix { at, row: row as isize, column: column as isize }
    }

    fn transposed(self) -> Matrix<P> {
        Matrix { at: self.at, row: self.column, column: self.row }
    }

    fn step(&self, row: usize, column: usize) -> isize {
        row as isize * self.row + column as isize * self.column
    }
}

/// A matrix product with `m` rows, `n` columns and `k` terms in each sum.
#[derive(Clone, Copy)]
struct Product<T> {
    m: usize,
    n: usize,
    k: usize,
    lanes: usize,
    accumulate: bool,
    lhs: Matrix<*const T>,
    rhs: Matrix<*const T>,
    out: Matrix<*mut T>,
}

/// Computes a contraction with the vectors of `V`, batch by batch.
///
/// # Safety
/// As for the functions of [`versions`], and the machine has the instructions of `V`.
#[inline(always)]
unsafe fn run<V: Line>(numbers: *const i64, lhs: *const V::T, rhs: *const V::T, out: *mut V::T) {
    // SAFETY: by the contract of this function, `numbers` points to the description of a contraction.
    let (c, batches) = unsafe { Matrices::read(numbers) };
    let [m, n, k] = c.sizes.map(|size| size as usize);
    let (lanes, accumulate) = (c.lanes as usize, c.accumulate != 0);
    for ([l, r, o], first) in Steps::of(batches) {
        let accumulate = accumulate || !first;
        let (lhs, rhs) = (lhs.wrapping_offset(l), rhs.wrapping_offset(r));
        let lhs = Matrix::new(lhs, c.strides[0]);
        let rhs = Matrix::new(rhs, c.strides[1]);
        let out = Matrix::new(out.wrapping_offset(o), c.strides[2]);
        let product = Product { m, n, k, lanes, accumulate, lhs, rhs, out };
        // SAFETY: the offsets of a batch, `l`, `r` and `o`, stay within the buffers by the contract of this function.
        unsafe { product.run::<V>() }
    }
}

#[expect(
    clippy::needless_range_loop,
    reason = "iterators are functions, which have these vectors only if they become part of this one"
)]
impl<T: Element> Product<T> {
    /// Returns the transposed product `outᵀ = rhsᵀ lhsᵀ`, which computes each element of `out` by the same products
    /// and sums as `out = lhs rhs`.
    #[inline(always)]
    fn transposed(self) -> Product<T> {
        let (lhs, rhs, out) = (self.rhs.transposed(), self.lhs.transposed(), self.out.transposed());
        Product { m: self.n, n: self.m, lhs, rhs, out, ..self }
    }

    /// Returns whether the elements of each row are adjacent in memory (or there is one column), in `rhs` and in `out`.
    fn lined(&self) -> bool {
        self.n == 1 || (self.rhs.column == 1 && self.out.column == 1)
    }

    /// Computes the product: by columns in vectors, by terms in vectors, or element by element.
    ///
    /// # Safety
    /// All elements of the matrices lie in buffers, and `out` overlaps no other matrix. The machine has the
    /// instructions of `V`.
    #[inline(always)]
    unsafe fn run<V: Line<T = T>>(self) {
        let transposed = self.transposed();
        let turn = if self.lanes == 1 {
            transposed.lined() && (transposed.n > self.n || !self.lined())
        } else {
            self.m < self.n
        };
        let p = if turn { transposed } else { self };
        // SAFETY: `p` has the matrices of `self`, possibly transposed, which lie in buffers by the contract of this
        // function.
        unsafe {
            if p.lanes == 1 && p.lined() {
                p.columns::<V>();
            } else if p.lanes == V::N && p.lhs.column == 1 && p.rhs.row == 1 {
                p.dots::<V>();
            } else {
                p.one_by_one();
            }
        }
    }

    /// Computes adjacent columns of `out` in the lanes of vectors, with one accumulator for each sum.
    ///
    /// # Safety
    /// As for [`Product::run`]; columns are adjacent in memory.
    #[inline(always)]
    unsafe fn columns<V: Line<T = T>>(&self) {
        let mut row = 0;
        // SAFETY: each strip has only rows below `self.m`, because the loops check `row`.
        unsafe {
            while row + ROWS <= self.m {
                self.strip::<V, ROWS, 1>(row);
                row += ROWS;
            }
            while row < self.m {
                self.strip::<V, 1, LINES>(row);
                row += 1;
            }
        }
    }

    /// Computes `R` rows of `out`, by tiles of `C` lines (vectors of 64 bytes).
    ///
    /// # Safety
    /// As for [`Product::columns`], and there are `R` rows from `row` on.
    #[inline(always)]
    unsafe fn strip<V: Line<T = T>, const R: usize, const C: usize>(&self, row: usize) {
        let mut column = 0;
        // SAFETY: each tile has only columns below `self.n`, because the loops check `column`; the partial line has
        // exactly the remaining columns.
        unsafe {
            while column + C * V::N <= self.n {
                self.tile::<V, R, C, false>(row, column, V::part(0));
                column += C * V::N;
            }
            while column + V::N <= self.n {
                self.tile::<V, R, 1, false>(row, column, V::part(0));
                column += V::N;
            }
            if column < self.n && !planted(Fault::ThinRest) {
                self.tile::<V, R, 1, true>(row, column, V::part(self.n - column));
            }
        }
    }

    /// Computes a tile of `out`: `R` rows of `C` lines (vectors of 64 bytes), or of one partial line.
    ///
    /// # Safety
    /// As for [`Product::strip`], and the columns of the tile exist from `column` on.
    #[inline(always)]
    unsafe fn tile<V: Line<T = T>, const R: usize, const C: usize, const PART: bool>(
        &self,
        row: usize,
        column: usize,
        part: V::Part,
    ) {
        // SAFETY: by the contract of this function, the machine has the instructions of `V`.
        let zero = unsafe { V::splat(T::default()) };
        let mut sums = [[zero; C]; R];
        let mut x = self.lhs.at.wrapping_offset(self.lhs.step(row, 0));
        let mut y = self.rhs.at.wrapping_add(column);
        // SAFETY: by the contract of this function, the rows and columns of the tile exist, and columns are adjacent in
        // memory.
        unsafe {
            for _ in 0..self.k {
                let mut lines = [zero; C];
                for c in 0..C {
                    let y = y.add(c * V::N);
                    lines[c] = if PART { V::load_part(y, part) } else { V::load(y) };
                }
                for r in 0..R {
                    let x = V::splat(*x.offset(r as isize * self.lhs.row));
                    for c in 0..C {
                        sums[r][c] = sums[r][c].add(x.mul(lines[c]));
                    }
                }
                x = x.wrapping_offset(self.lhs.column);
                y = y.wrapping_offset(self.rhs.row);
            }
            for r in 0..R {
                let out = self.out.at.offset(self.out.step(row + r, 0) + column as isize);
                for c in 0..C {
                    let (out, mut sum) = (out.add(c * V::N), sums[r][c]);
                    if PART {
                        if self.accumulate {
                            sum = V::load_part(out, part).add(sum);
                        }
                        sum.store_part(out, part);
                    } else {
                        if self.accumulate {
                            sum = V::load(out).add(sum);
                        }
                        sum.store(out);
                    }
                }
            }
        }
    }

    /// Computes each element of `out` with the terms of its sum in the lanes of vectors, one accumulator for each lane.
    ///
    /// # Safety
    /// As for [`Product::run`]; terms are adjacent in memory, and sums have one accumulator for each element of a line.
    #[inline(always)]
    unsafe fn dots<V: Line<T = T>>(&self) {
        for column in 0..self.n {
            let mut row = 0;
            // SAFETY: rows are below `self.m`, and the column is below `self.n`.
            unsafe {
                while row + ROWS <= self.m {
                    let sums = V::halves_of_four(self.partial::<V, ROWS>(row, column));
                    for r in 0..ROWS {
                        self.put(row + r, column, sums[r]);
                    }
                    row += ROWS;
                }
                while row < self.m {
                    let [sum] = self.partial::<V, 1>(row, column);
                    self.put(row, column, sum.halves());
                    row += 1;
                }
            }
        }
    }

    /// Computes the per-lane accumulators of `R` elements of `out`, in `R` rows of one column.
    ///
    /// # Safety
    /// As for [`Product::dots`], and there are `R` rows from `row` on.
    #[inline(always)]
    unsafe fn partial<V: Line<T = T>, const R: usize>(&self, row: usize, column: usize) -> [V; R] {
        // SAFETY: by the contract of this function, the machine has the instructions of `V`.
        let mut sums = unsafe { [V::splat(T::default()); R] };
        let x = self.lhs.at.wrapping_offset(self.lhs.step(row, 0));
        let y = self.rhs.at.wrapping_offset(self.rhs.step(0, column));
        let whole = self.k / V::N * V::N;
        let mut k = 0;
        // SAFETY: by the contract of this function, the `R` rows of `lhs` and the column of `rhs` exist, and terms are
        // adjacent in memory.
        unsafe {
            while k < whole {
                let y = V::load(y.add(k));
                for r in 0..R {
                    let x = V::load(x.offset(r as isize * self.lhs.row).add(k));
                    sums[r] = sums[r].add(x.mul(y));
                }
                k += V::N;
            }
            if k < self.k {
                // The missing terms are 0, which changes no sum: no sum is -0, because sums start at +0.
                let part = V::part(self.k - k);
                let y = V::load_part(y.add(k), part);
                for r in 0..R {
                    let x = V::load_part(x.offset(r as isize * self.lhs.row).add(k), part);
                    sums[r] = sums[r].add(x.mul(y));
                }
            }
        }
        sums
    }

    /// Computes a matrix product with any strides and any number of accumulators, element by element.
    ///
    /// # Safety
    /// As for [`Product::run`].
    unsafe fn one_by_one(&self) {
        for row in 0..self.m {
            for column in 0..self.n {
                let mut sums = [T::default(); MOST_LANES];
                let lanes = self.lanes.clamp(1, MOST_LANES);
                for k in 0..self.k {
                    // SAFETY: `row`, `column` and `k` are below the sizes of the product, so both elements exist.
                    let (x, y) = unsafe {
                        let x = self.lhs.at.offset(self.lhs.step(row, k));
                        (*x, *self.rhs.at.offset(self.rhs.step(k, column)))
                    };
                    sums[k % lanes] = sums[k % lanes] + x * y;
                }
                // SAFETY: `row` and `column` are below the sizes of `out`, so the element exists.
                unsafe { self.put(row, column, halves(&mut sums[..lanes])) }
            }
        }
    }

    /// Stores a sum in an element of `out`, or adds the sum to the element if the contraction accumulates.
    ///
    /// # Safety
    /// As for [`Product::run`], and the element exists.
    #[inline(always)]
    unsafe fn put(&self, row: usize, column: usize, sum: T) {
        // SAFETY: by the contract of this function, `out` has an element at `row` and `column`.
        unsafe {
            let out = self.out.at.offset(self.out.step(row, column));
            *out = if self.accumulate { *out + sum } else { sum };
        }
    }
}

/// Adds up the accumulators of one sum: adds the upper half to the lower half, until one number is left.
#[inline(always)]
fn halves<T: Element>(mut sums: &mut [T]) -> T {
    while sums.len() > 1 {
        let (low, high) = sums.split_at_mut(sums.len() / 2);
        for (x, y) in low.iter_mut().zip(high) {
            *x = *x + *y;
        }
        sums = low;
    }
    sums.first().copied().unwrap_or_default()
}

/// A float type, f32 or f64, whose default is 0.
trait Element: Copy + Default + Add<Output = Self> + Mul<Output = Self> {}
impl Element for f64 {}
impl Element for f32 {}

/// A line: a vector of 64 bytes, in one machine register or several.
///
/// # Safety
/// The methods are called only if the machine has their instructions. Elements that are loaded or stored lie
/// in a buffer. Of a partial line, only its own elements are accessed; the others are 0.
trait Line: Copy {
    type T: Element;
    /// The description of a partial line (fewer elements than 64 bytes hold): their number, or a mask.
    type Part: Copy;
    const N: usize;
    unsafe fn splat(x: Self::T) -> Self;
    unsafe fn load(at: *const Self::T) -> Self;
    unsafe fn store(self, at: *mut Self::T);
    unsafe fn part(n: usize) -> Self::Part;
    unsafe fn load_part(at: *const Self::T, part: Self::Part) -> Self;
    unsafe fn store_part(self, at: *mut Self::T, part: Self::Part);
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    /// Adds up the elements of the line in the order of the function [`halves`].
    #[inline(always)]
    unsafe fn halves(self) -> Self::T {
        let mut sums = [Self::T::default(); MOST_OF_A_LINE];
        // SAFETY: the array has room for all elements of a line.
        unsafe { self.store(sums.as_mut_ptr()) };
        halves(&mut sums[..Self::N])
    }
    unsafe fn halves_of_four(lines: [Self; ROWS]) -> [Self::T; ROWS];
}

/// A line (64 bytes) as an array of `N` elements, which the compiler maps to the vectors of the instruction set.
#[derive(Clone, Copy)]
struct Plain<T, const N: usize>([T; N]);

impl<T: Element, const N: usize> Line for Plain<T, N> {
    type T = T;
    type Part = usize;
    const N: usize = N;

    #[inline(always)]
    unsafe fn splat(x: T) -> Self {
        Plain([x; N])
    }

    #[inline(always)]
    unsafe fn load(at: *const T) -> Self {
        // SAFETY: by the contract of [`Line`], the whole line is within a buffer.
        unsafe { Plain(at.cast::<[T; N]>().read()) }
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut T) {
        // SAFETY: by the contract of [`Line`], the whole line is within a buffer.
        unsafe { at.cast::<[T; N]>().write(self.0) }
    }

    #[inline(always)]
    unsafe fn part(n: usize) -> usize {
        n
    }

    #[inline(always)]
    unsafe fn load_part(at: *const T, part: usize) -> Self {
        // SAFETY: by the contract of [`Line`], the first `part` elements are within a buffer.
        Plain(array::from_fn(|i| if i < part { unsafe { *at.add(i) } } else { T::default() }))
    }

    #[inline(always)]
    unsafe fn store_part(self, at: *mut T, part: usize) {
        for (i, x) in self.0.iter().take(part).enumerate() {
            // SAFETY: by the contract of [`Line`], the first `part` elements are within a buffer.
            unsafe { *at.add(i) = *x }
        }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Plain(array::from_fn(|i| self.0[i] + other.0[i]))
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        Plain(array::from_fn(|i| self.0[i] * other.0[i]))
    }

    #[inline(always)]
    unsafe fn halves_of_four(lines: [Self; ROWS]) -> [T; ROWS] {
        lines.map(|mut line| halves(&mut line.0))
    }
}
