//! Eigenvalues and right eigenvectors of a real matrix: back substitution in its Schur form (Golub
//! and Van Loan, section 7.6), with the normalisation of LAPACK's `geev`.

use faer::linalg::matmul::triangular::{BlockStructure, matmul};
use faer::{Accum, MatMut, MatRef, Par};

use crate::real::{Failed, Real, Scaling, all_finite, largest};
use crate::schur::{need_reduce, reduce};
use crate::scratch::{Scratch, ScratchSize};
use crate::transpose::transpose;

pub(crate) fn need<T: Real>(n: usize, vectors: bool) -> ScratchSize {
    let square = ScratchSize::new().array::<T>(n * n);
    let vectors = if vectors { square } else { ScratchSize::new() };
    square.and(square).and(vectors).and(need_reduce::<T>(n))
}

/// The buffers for the eigenvectors, one in each column, as real and imaginary parts.
pub(crate) struct Vectors<'a, T> {
    pub(crate) re: &'a mut [T],
    pub(crate) im: &'a mut [T],
}

/// Computes the eigenvalues `re[n], im[n]` of `a[n, n]`, and the eigenvectors if their buffers are given.
pub(crate) fn run<T: Real>(
    n: usize,
    a: &[T],
    [re, im]: [&mut [T]; 2],
    vectors: Option<Vectors<'_, T>>,
    mut scratch: Scratch<'_>,
) -> Result<(), Failed> {
    let scaling = Scaling::of(largest(a)?);
    let form = scratch.take::<T>(n * n)?;
    let basis = scratch.take::<T>(n * n)?;
    let triangle = scratch.take::<T>(if vectors.is_some() { n * n } else { 0 })?;
    transpose(n, n, scaling.factor, a, form);
    reduce(n, form, basis, scratch)?;
    read_values(n, form, re, im);
    if let Some(Vectors { re: v_re, im: v_im }) = vectors {
        triangle.fill(T::zero());
        solve_all(n, form, im, triangle);
        matmul(
            MatMut::from_column_major_slice_mut(form, n, n),
            BlockStructure::Rectangular,
            Accum::Replace,
            MatRef::from_column_major_slice(basis, n, n),
            BlockStructure::Rectangular,
            MatRef::from_column_major_slice(triangle, n, n),
            BlockStructure::TriangularUpper,
            T::one(),
            Par::Seq,
        );
        if !all_finite(form) {
            return Err(Failed);
        }
        normalise(n, im, form, basis);
        transpose(n, n, T::one(), form, v_re);
        transpose(n, n, T::one(), basis, v_im);
    }
    scaling.undo(re);
    scaling.undo(im);
    Ok(())
}

/// Writes the eigenvalues of a Schur form into `re` and `im`. The two eigenvalues of a 2 x 2 block are conjugate,
/// the positive imaginary part first.
fn read_values<T: Real>(n: usize, form: &[T], re: &mut [T], im: &mut [T]) {
    for i in 0..n {
        re[i] = form[i * n + i];
        im[i] = T::zero();
    }
    for i in 1..n {
        let low = form[(i - 1) * n + i];
        if low != T::zero() {
            // The diagonal entries of a block are equal to `re`, so an eigenvalue `t` of the block has
            // `(t - re)^2 = low high < 0`, with the off-diagonal entries `low` and `high`.
            let root = low.abs().root() * form[i * n + i - 1].abs().root();
            im[i - 1] = root;
            im[i] = -root;
        }
    }
}

/// Computes the eigenvectors of a Schur form, in packed form by columns: one column for a real eigenvalue;
/// neighbouring columns of real and imaginary parts for a conjugate pair.
fn solve_all<T: Real>(n: usize, form: &[T], im: &[T], vectors: &mut [T]) {
    let mut norm = T::zero();
    for &entry in form {
        norm = if entry.abs() > norm { entry.abs() } else { norm };
    }
    // If two eigenvalues are equal, this small number replaces their difference as a divisor.
    let least = if norm > T::zero() { T::ULP * norm } else { T::one() };
    let mut k = 0;
    while k < n {
        let size = if im[k] > T::zero() { 2 } else { 1 };
        let columns = &mut vectors[k * n..(k + size) * n];
        let (x, y) = columns.split_at_mut(n);
        let last = k + size - 1;
        if size == 1 {
            x[k] = T::one();
            for (x, &entry) in x[..k].iter_mut().zip(&form[k * n..]) {
                *x = -entry;
            }
        } else {
            // Back substitution starts with a null vector of the 2 x 2 block minus its eigenvalue. With the
            // off-diagonal entries `high` and `low` and the eigenvalue's imaginary part `im`, this vector is
            // `(1, i im/high)`, or `(-im/low, i)`.
            let (high, low) = (form[last * n + k], form[k * n + last]);
            let (first, second) = if high.abs() >= low.abs() {
                (T::one(), im[k] / high)
            } else {
                (-im[k] / low, T::one())
            };
            x[k] = first;
            y[last] = second;
            for i in 0..k {
                x[i] = -first * form[k * n + i];
                y[i] = -second * form[last * n + i];
            }
        }
        let value = [form[k * n + k], im[k]];
        back_substitute(form, n, k, value, least, x, y);
        k += size;
    }
}

/// Solves `(t - value) x = right side` for the first `k` rows of a Schur form `t`, in place in `x` (real parts)
/// and `y` (imaginary parts, or empty). If the entries grow too large, `x` and `y` are divided by their largest
/// entry, including the rows from `k` on: a multiple of an eigenvector is an eigenvector.
fn back_substitute<T: Real>(
    form: &[T],
    n: usize,
    k: usize,
    [re, im]: [T; 2],
    least: T,
    x: &mut [T],
    y: &mut [T],
) {
    let large = T::power_of_two(T::FACTOR_EXPONENT / 6);
    let at = |i: usize, j: usize| form[j * n + i];
    let mut end = k;
    while end > 0 {
        let i = end - 1;
        let part = |values: &[T], i: usize| values.get(i).copied().unwrap_or(T::zero());
        let pair = i > 0 && at(i, i - 1) != T::zero();
        let start = if pair { i - 1 } else { i };
        let solved = if pair {
            let (diagonal, right) =
                ([at(start, start) - re, -im], [[x[start], part(y, start)], [x[i], part(y, i)]]);
            solve_block(diagonal, [at(start, i), at(i, start)], least, right)
        } else {
            let denominator = [at(i, i) - re, -im];
            let size = denominator[0].length(denominator[1]);
            let denominator = if size < least { [least, T::zero()] } else { denominator };
            [divide([x[i], part(y, i)], denominator); 2]
        };
        for (j, [real, imaginary]) in (start..end).zip(solved) {
            let column = &form[j * n..j * n + start];
            x[j] = real;
            for (x, &entry) in x[..start].iter_mut().zip(column) {
                *x -= real * entry;
            }
            if let Some(y_j) = y.get_mut(j) {
                *y_j = imaginary;
                for (y, &entry) in y[..start].iter_mut().zip(column) {
                    *y -= imaginary * entry;
                }
            }
        }
        let most = |values: &[T]| {
            let larger = |most: T, value: &T| if value.abs() > most { value.abs() } else { most };
            values.iter().fold(T::zero(), larger)
        };
        let (most, most_im) = (most(&x[..end]), most(&y[..end.min(y.len())]));
        let most = if most_im > most { most_im } else { most };
        if most > large {
            let scale = T::power_of_two(-most.exponent());
            x.iter_mut().chain(y.iter_mut()).for_each(|entry| *entry *= scale);
        }
        end = start;
    }
}

/// Divides the complex number `a + ib` by `c + id`, which is scaled against overflow.
fn divide<T: Real>([a, b]: [T; 2], [c, d]: [T; 2]) -> [T; 2] {
    let size = c.length(d);
    let (c, d) = (c / size, d / size);
    [(a * c + b * d) / size, (b * c - a * d) / size]
}

/// Solves `[[p, high], [low, p]] x = right` for complex `p` by elimination with complete pivoting, as LAPACK's
/// `laln2`. A pivot smaller than `least` is replaced by `least`: the result then solves a system whose matrix
/// differs by `least`. (Cramer's rule with a replaced determinant would not have this property.)
fn solve_block<T: Real>(
    p: [T; 2],
    [high, low]: [T; 2],
    least: T,
    [r, s]: [[T; 2]; 2],
) -> [[T; 2]; 2] {
    let times = |[a, b]: [T; 2], [c, d]: [T; 2]| [a * c - b * d, a * d + b * c];
    let minus = |[a, b]: [T; 2], [c, d]: [T; 2]| [a - c, b - d];
    let real = |a: T| [a, T::zero()];
    let size = |[a, b]: [T; 2]| a.length(b);
    // Eliminates in the system with the rows `(pivot, across)` and `(below, last)`; the result has the unknown of
    // the pivot first.
    let eliminate = |pivot, across, below, last, [r, s]: [[T; 2]; 2]| {
        if size(pivot) < least {
            return [r, s].map(|part| part.map(|entry| entry / least));
        }
        let multiplier = divide(below, pivot);
        let mut second = minus(last, times(multiplier, across));
        if size(second) < least {
            second = real(least);
        }
        let y = divide(minus(s, times(multiplier, r)), second);
        [divide(minus(r, times(across, y)), pivot), y]
    };
    if size(p) >= high.abs() && size(p) >= low.abs() {
        eliminate(p, real(high), real(low), p, [r, s])
    } else if high.abs() >= low.abs() {
        // The pivot is `high`: exchange the columns, so that the pivot is in the first column.
        let [y, x] = eliminate(real(high), p, p, real(low), [r, s]);
        [x, y]
    } else {
        // The pivot is `low`: exchange the rows, so that the pivot is in the first row.
        eliminate(real(low), p, p, real(high), [s, r])
    }
}

/// Scales every eigenvector to norm 1 with its largest component real and positive. `re` holds the packed vectors
/// of [`solve_all`] before the call and the real parts after it; `im` receives the imaginary parts.
fn normalise<T: Real>(n: usize, values_im: &[T], re: &mut [T], im: &mut [T]) {
    let mut k = 0;
    while k < n {
        let size = if values_im[k] > T::zero() { 2 } else { 1 };
        let range = k * n..(k + size) * n;
        let (x, second_re) = re[range.clone()].split_at_mut(n);
        let (y, second_im) = im[range].split_at_mut(n);
        y.fill(T::zero());
        if size == 2 {
            y.copy_from_slice(second_re);
        }
        let (mut largest, mut most) = (0, T::zero());
        for i in 0..n {
            let component = x[i].length(y[i]);
            if component > most {
                (largest, most) = (i, component);
            }
        }
        let squares = |values: &[T]| {
            let square = |value: &T| (*value / most) * (*value / most);
            values.iter().map(square).fold(T::zero(), |sum, square| sum + square)
        };
        let length = most * (squares(x) + squares(y)).root();
        let turn = [x[largest] / most, -y[largest] / most];
        for (x, y) in x.iter_mut().zip(y.iter_mut()) {
            let (a, b) = (*x / length, *y / length);
            *x = a * turn[0] - b * turn[1];
            *y = a * turn[1] + b * turn[0];
        }
        y[largest] = T::zero();
        if size == 2 {
            second_re.copy_from_slice(x);
            for (second, &first) in second_im.iter_mut().zip(&*y) {
                *second = -first;
            }
        }
        k += size;
    }
}
