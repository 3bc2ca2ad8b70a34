//! The double-shift QR iteration of Francis on an upper Hessenberg matrix (Golub and Van Loan, section 7.5),
//! with the criteria of LAPACK's `lahqr` for small subdiagonal entries (Ahues and Tisseur, 1997) and its
//! exceptional shifts. faer's own iteration is not public, and its public functions do not report whether it
//! converged.

use crate::real::{Failed, Real};
use crate::schur_blocks::{Rotation, standardise};

/// The number of QR sweeps for one eigenvalue (or pair) after which the decomposition fails.
const ITERATIONS: usize = 300;

/// A square matrix, stored column by column.
pub(crate) struct Columns<'a, T> {
    pub(crate) n: usize,
    pub(crate) numbers: &'a mut [T],
}

impl<T: Real> Columns<'_, T> {
    pub(crate) fn at(&self, i: usize, j: usize) -> T {
        self.numbers[j * self.n + i]
    }

    pub(crate) fn set(&mut self, i: usize, j: usize, value: T) {
        self.numbers[j * self.n + i] = value;
    }

    fn size(&self, i: usize, j: usize) -> T {
        self.at(i, j).abs()
    }

    /// Applies a rotation to rows `i` and `i + 1`, in the columns from `first` on.
    fn rotate_rows(&mut self, i: usize, first: usize, rotation: Rotation<T>) {
        for column in self.numbers.chunks_exact_mut(self.n).skip(first) {
            [column[i], column[i + 1]] = rotation.apply(column[i], column[i + 1]);
        }
    }

    /// Applies a rotation to columns `j` and `j + 1`, in the first `rows` rows.
    fn rotate_columns(&mut self, j: usize, rows: usize, rotation: Rotation<T>) {
        let (left, right) = self.numbers[j * self.n..].split_at_mut(self.n);
        for (x, y) in left[..rows].iter_mut().zip(&mut right[..rows]) {
            [*x, *y] = rotation.apply(*x, *y);
        }
    }

    /// Applies a reflection from the left to the two or three rows from `k` on, in the columns from `first` on.
    fn reflect_rows(&mut self, k: usize, first: usize, reflector: &Reflector<T>) {
        let [v1, v2] = reflector.tail;
        let tau = reflector.tau;
        for column in self.numbers.chunks_exact_mut(self.n).skip(first) {
            if reflector.rows == 3 {
                let sum = tau * (column[k] + v1 * column[k + 1] + v2 * column[k + 2]);
                column[k] -= sum;
                column[k + 1] -= sum * v1;
                column[k + 2] -= sum * v2;
            } else {
                let sum = tau * (column[k] + v1 * column[k + 1]);
                column[k] -= sum;
                column[k + 1] -= sum * v1;
            }
        }
    }

    /// Applies a reflection from the right to the two or three columns from `k` on, in the first `rows` rows.
    fn reflect_columns(&mut self, k: usize, rows: usize, reflector: &Reflector<T>) {
        let n = self.n;
        let [v1, v2] = reflector.tail;
        let tau = reflector.tau;
        let (x, rest) = self.numbers[k * n..].split_at_mut(n);
        let (y, rest) = rest.split_at_mut(n);
        let (x, y) = (&mut x[..rows], &mut y[..rows]);
        if reflector.rows == 3 {
            for ((x, y), z) in x.iter_mut().zip(y).zip(&mut rest[..rows]) {
                let sum = tau * (*x + v1 * *y + v2 * *z);
                *x -= sum;
                *y -= sum * v1;
                *z -= sum * v2;
            }
        } else {
            for (x, y) in x.iter_mut().zip(y) {
                let sum = tau * (*x + v1 * *y);
                *x -= sum;
                *y -= sum * v1;
            }
        }
    }
}

/// The Householder reflection `I - tau v v^T` with `v = (1, tail)`, in two or three rows.
struct Reflector<T> {
    rows: usize,
    tail: [T; 2],
    tau: T,
    /// The first entry of the vector that was reflected; the other entries become zero.
    beta: T,
}

impl<T: Real> Reflector<T> {
    /// Returns the reflection that maps a vector to a multiple of the first unit vector. With two rows, the third
    /// entry of `vector` is zero.
    fn of(vector: [T; 3], rows: usize) -> Self {
        let [head, v1, v2] = vector;
        let rest = v1.length(v2);
        if rest == T::zero() {
            return Reflector { rows, tail: [T::zero(); 2], tau: T::zero(), beta: head };
        }
        let length = head.length(rest);
        let beta = if head < T::zero() { length } else { -length };
        Reflector {
            rows,
            tail: [v1 / (head - beta), v2 / (head - beta)],
            tau: (beta - head) / beta,
            beta,
        }
    }
}

/// Reduces an upper Hessenberg matrix `h` to real Schur form by orthogonal similarity, and multiplies `z` from
/// the right by the same transformation. Fails if it does not converge.
pub(crate) fn iterate<T: Real>(
    h: &mut Columns<'_, T>,
    z: &mut Columns<'_, T>,
) -> Result<(), Failed> {
    let mut end = h.n;
    let mut iteration = 0;
    // In each iteration of this loop, the eigenvalues in the rows from `end` on have been found.
    while end > 0 {
        let start = active_start(h, end);
        if start > 0 {
            h.set(start, start - 1, T::zero());
        }
        match end - start {
            1 => {
                end -= 1;
                iteration = 0;
            }
            2 => {
                split(h, z, start);
                end -= 2;
                iteration = 0;
            }
            _ if iteration == ITERATIONS => return Err(Failed),
            _ => {
                sweep(h, z, start, end, iteration);
                iteration += 1;
            }
        }
    }
    Ok(())
}

/// Returns the first row of the last diagonal block before row `end` whose subdiagonal entries are not
/// negligible.
fn active_start<T: Real>(h: &Columns<'_, T>, end: usize) -> usize {
    let smallest = T::TINY * (T::of_f64(h.n as f64) / T::ULP);
    for k in (1..end).rev() {
        let low = h.size(k, k - 1);
        if low <= smallest {
            return k;
        }
        let mut neighbours = h.size(k - 1, k - 1) + h.size(k, k);
        if neighbours == T::zero() {
            if k >= 2 {
                neighbours += h.size(k - 1, k - 2);
            }
            if k + 1 < h.n {
                neighbours += h.size(k + 1, k);
            }
        }
        if low <= T::ULP * neighbours {
            let high = h.size(k - 1, k);
            let (off_most, off_least) = ordered(low, high);
            let difference = (h.at(k - 1, k - 1) - h.at(k, k)).abs();
            let (most, least) = ordered(h.size(k, k), difference);
            let sum = most + off_most;
            let bound = T::ULP * (least * (most / sum));
            let bound = if bound > smallest { bound } else { smallest };
            if off_least * (off_most / sum) <= bound {
                return k;
            }
        }
    }
    0
}

fn ordered<T: Real>(a: T, b: T) -> (T, T) {
    if a > b { (a, b) } else { (b, a) }
}

/// Transforms the 2 x 2 diagonal block in rows `i` and `i + 1` to its standard form, by a rotation of `h` and
/// `z`.
fn split<T: Real>(h: &mut Columns<'_, T>, z: &mut Columns<'_, T>, i: usize) {
    let block = [[h.at(i, i), h.at(i, i + 1)], [h.at(i + 1, i), h.at(i + 1, i + 1)]];
    let ([[a, b], [c, d]], rotation) = standardise(block);
    h.rotate_rows(i, i + 2, rotation);
    h.rotate_columns(i, i, rotation);
    z.rotate_columns(i, z.n, rotation);
    h.set(i, i, a);
    h.set(i, i + 1, b);
    h.set(i + 1, i, c);
    h.set(i + 1, i + 1, d);
}

/// Returns the two shifts of a sweep, a conjugate pair or one real number twice, as `[real part, real part,
/// imaginary part of the first]`.
fn shifts<T: Real>(h: &Columns<'_, T>, start: usize, end: usize, iteration: usize) -> [T; 3] {
    let last = end - 1;
    // If an eigenvalue has not been found after ten iterations, twenty and so on, the iteration uses exceptional
    // shifts: the eigenvalues of a made-up block of the same magnitude.
    let exceptional = |diagonal: T, size: T| {
        let diagonal = T::of_f64(0.75) * size + diagonal;
        [[diagonal, T::of_f64(-0.4375) * size], [size, diagonal]]
    };
    let [[a, b], [c, d]] = match iteration % 20 {
        10 => {
            exceptional(h.at(start, start), h.size(start + 1, start) + h.size(start + 2, start + 1))
        }
        0 if iteration > 0 => {
            exceptional(h.at(last, last), h.size(last, last - 1) + h.size(last - 1, last - 2))
        }
        _ => [
            [h.at(last - 1, last - 1), h.at(last - 1, last)],
            [h.at(last, last - 1), h.at(last, last)],
        ],
    };
    let size = a.abs() + b.abs() + c.abs() + d.abs();
    if size == T::zero() {
        return [T::zero(); 3];
    }
    let [a, b, c, d] = [a / size, b / size, c / size, d / size];
    let half = (a + d) / T::of_f64(2.0);
    let determinant = (a - half) * (d - half) - b * c;
    let root = determinant.abs().root();
    if determinant >= T::zero() {
        [half * size, half * size, root * size]
    } else {
        let (upper, lower) = (half + root, half - root);
        let near = if (upper - d).abs() <= (lower - d).abs() { upper } else { lower };
        [near * size, near * size, T::zero()]
    }
}

/// Performs one double-shift sweep over the diagonal block of rows `start..end`, of which there are at least
/// three.
fn sweep<T: Real>(
    h: &mut Columns<'_, T>,
    z: &mut Columns<'_, T>,
    start: usize,
    end: usize,
    iteration: usize,
) {
    let [first, second, imaginary] = shifts(h, start, end, iteration);
    // The QR sweep may begin below two consecutive small subdiagonal entries instead of at `start`.
    let mut vector = [T::zero(); 3];
    let mut begin = end - 2;
    while begin > start {
        begin -= 1;
        let m = begin;
        let diagonal = h.at(m, m);
        let size = (diagonal - second).abs() + imaginary.abs() + h.size(m + 1, m);
        let low = h.at(m + 1, m) / size;
        vector = [
            low * h.at(m, m + 1)
                + (diagonal - first) * ((diagonal - second) / size)
                + imaginary * (imaginary / size),
            low * (diagonal + h.at(m + 1, m + 1) - first - second),
            low * h.at(m + 2, m + 1),
        ];
        let size = vector[0].abs() + vector[1].abs() + vector[2].abs();
        vector = vector.map(|entry| entry / size);
        if m > start {
            let small = h.size(m, m - 1) * (vector[1].abs() + vector[2].abs());
            let around = h.size(m - 1, m - 1) + diagonal.abs() + h.size(m + 1, m + 1);
            if small <= T::ULP * vector[0].abs() * around {
                break;
            }
        }
    }
    for k in begin..end - 1 {
        let rows = if k + 2 < end { 3 } else { 2 };
        if k > begin {
            let third = if rows == 3 { h.at(k + 2, k - 1) } else { T::zero() };
            vector = [h.at(k, k - 1), h.at(k + 1, k - 1), third];
        }
        let reflector = Reflector::of(vector, rows);
        if k > begin {
            h.set(k, k - 1, reflector.beta);
            h.set(k + 1, k - 1, T::zero());
            if rows == 3 {
                h.set(k + 2, k - 1, T::zero());
            }
        } else if begin > start {
            let low = h.at(k, k - 1) * (T::one() - reflector.tau);
            h.set(k, k - 1, low);
        }
        h.reflect_rows(k, k, &reflector);
        h.reflect_columns(k, end.min(k + 4), &reflector);
        z.reflect_columns(k, z.n, &reflector);
    }
}
