//! Eigenvalues and right eigenvectors of a real matrix: back substitution in its Schur form (Golub
//! and Van Loan, section 7.6), with the normalisation of LAPACK's `geev`.

use faer::linalg::matmul::triangular::{BlockStructure, matmul};
use faer::{Accum, MatMut, MatRef, Par};

use crate::copies::transpose;
use crate::real::{Failed, Real, Scaling, all_finite, largest};
use crate::schur::{need_reduce, reduce};
use crate::scratch::{Need, Scratch};

pub(crate) fn need<T: Real>(n: usize, vectors: bool) -> Need {
    let square = Need::new().array::<T>(n * n);
    let vectors = if vectors { square } else { Need::new() };
    square.and(square).and(vectors).and(need_reduce::<T>(n))
}

/// The vectors of a decomposition, in columns.
pub(crate) struct Vectors<'a, T> {
    pub(crate) re: &'a mut [T],
    pub(crate) im: &'a mut [T],
}

/// `a[n, n] -> re[n], im[n]`, and `vectors` where asked for.
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

/// The eigenvalues on the diagonal of a Schur form; those of a block are conjugate, the positive
/// imaginary part first.
fn read_values<T: Real>(n: usize, form: &[T], re: &mut [T], im: &mut [T]) {
    for i in 0..n {
        re[i] = form[i * n + i];
        im[i] = T::zero();
    }
    for i in 1..n {
        let low = form[(i - 1) * n + i];
        if low != T::zero() {
            // The diagonal entries of a block are equal, `(t - re)^2 = low high < 0`.
            let root = low.abs().root() * form[i * n + i - 1].abs().root();
            im[i - 1] = root;
            im[i] = -root;
        }
    }
}

/// The eigenvectors of a Schur form, by columns: one column for a real eigenvalue, real and
/// imaginary parts in neighbouring columns for a conjugate pair.
fn solve_all<T: Real>(n: usize, form: &[T], im: &[T], vectors: &mut [T]) {
    let mut norm = T::zero();
    for &entry in form {
        norm = if entry.abs() > norm { entry.abs() } else { norm };
    }
    // Where two eigenvalues agree, their difference is taken as this small number instead of zero.
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
            // The block times (1, i im/high), or (-im/low, i).
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

/// `(t - value) x = right side` for the first `k` rows of a Schur form `t`, in place. `y` holds the
/// imaginary part, or is empty. Where they grow too far, both are divided by their largest entry, the
/// rows from `k` on with them: a multiple of an eigenvector is one.
fn back_substitute<T: Real>(
    form: &[T],
    n: usize,
    k: usize,
    [re, im]: [T; 2],
    least: T,
    x: &mut [T],
    y: &mut [T],
) {
    let large = T::power_of_two(T::SAFE_EXPONENT / 2);
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
            solve_block(diagonal, at(start, i), at(i, start), least, right)
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

/// Complex division, the divisor scaled against overflow.
fn divide<T: Real>([a, b]: [T; 2], [c, d]: [T; 2]) -> [T; 2] {
    let size = c.length(d);
    let (c, d) = (c / size, d / size);
    [(a * c + b * d) / size, (b * c - a * d) / size]
}

/// The solution of `[[p, high], [low, p]] x = right` for complex `p` by Cramer's rule.
fn solve_block<T: Real>(p: [T; 2], high: T, low: T, least: T, [r, s]: [[T; 2]; 2]) -> [[T; 2]; 2] {
    let times = |[a, b]: [T; 2], [c, d]: [T; 2]| [a * c - b * d, a * d + b * c];
    // In units of the largest entry the determinant neither overflows nor underflows.
    let mut size = p[0].length(p[1]);
    for entry in [high.abs(), low.abs()] {
        size = if entry > size { entry } else { size };
    }
    let (p, high, low) = ([p[0] / size, p[1] / size], high / size, low / size);
    let mut determinant = times(p, p);
    determinant[0] -= high * low;
    let bound = least / size;
    if determinant[0].length(determinant[1]) < bound {
        determinant = [bound, T::zero()];
    }
    let (pr, ps) = (times(p, r), times(p, s));
    let first = [pr[0] - high * s[0], pr[1] - high * s[1]];
    let second = [ps[0] - low * r[0], ps[1] - low * r[1]];
    [first, second].map(|top| divide(top, determinant).map(|entry| entry / size))
}

/// Scales every vector to norm 1 with its largest component real and positive; `re` holds packed
/// vectors as [`solve_all`] leaves them, and afterwards real parts beside the imaginary ones.
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

#[cfg(test)]
mod tests {
    use crate::checks::{Number, ORDERS, call, close, double, multiply, norm, random, stable};
    use crate::routine::Routine;

    #[track_caller]
    fn holds<T: Number>(n: usize, a: &[T]) {
        let found = call(&Routine::Eig { n, vectors: true }, &[a]);
        let [re, im, v_re, v_im] = [0, 1, 2, 3].map(|place| found.double(place));
        let what = format!("n = {n}");
        let alone = call(&Routine::Eig { n, vectors: false }, &[a]);
        assert_eq!([alone.double(0), alone.double(1)], [re.clone(), im.clone()]);
        // `a v = v w`, real and imaginary parts beside `|a| |v|`.
        let a = double(a);
        let scale = norm(&a).max(f64::MIN_POSITIVE);
        let (left_re, left_im) = (multiply(n, n, n, &a, &v_re), multiply(n, n, n, &a, &v_im));
        let product = |place: usize| {
            let j = place % n;
            [v_re[place] * re[j] - v_im[place] * im[j], v_re[place] * im[j] + v_im[place] * re[j]]
        };
        for place in 0..n * n {
            let [x, y] = product(place);
            let error = (left_re[place] - x).abs().max((left_im[place] - y).abs());
            assert!(error <= stable(n) * T::EPSILON * scale, "{what}: {error}");
        }
        for j in 0..n {
            let column: Vec<[f64; 2]> =
                (0..n).map(|i| [v_re[i * n + j], v_im[i * n + j]]).collect();
            let size = |entry: &[f64; 2]| entry[0].hypot(entry[1]);
            close::<T>(stable(n), &[norm(&column.concat())], &[1.0], &what);
            let most = column.iter().map(size).fold(0.0, f64::max);
            let real = |entry: &&[f64; 2]| entry[1] == 0.0 && entry[0] > 0.0;
            let found = column.iter().filter(real).map(size).fold(0.0, f64::max);
            close::<T>(8.0, &[found], &[most], &what);
            if im[j] > 0.0 {
                assert_eq!((re[j + 1], im[j + 1]), (re[j], -im[j]), "{what}");
                let conjugate = |i: usize| v_im[i * n + j] == -v_im[i * n + j + 1];
                assert!((0..n).all(conjugate), "{what}");
            }
        }
        close::<T>(
            stable(n),
            &[re.iter().sum::<f64>() + 4.0 * scale],
            &[(0..n).map(|i| a[i * n + i]).sum::<f64>() + 4.0 * scale],
            &what,
        );
    }

    fn decomposes<T: Number>() {
        for n in ORDERS {
            holds::<T>(n, &random(n * n, n as u64));
            holds(n, &vec![T::of(1.0); n * n]);
            holds(n, &vec![T::of(0.0); n * n]);
            // The roots of one; a Jordan block, whose vectors all point one way.
            let entry = |next: bool| T::of(f64::from(u8::from(next)));
            let cycle: Vec<T> =
                (0..n * n).map(|place| entry(place % n == (place / n + 1) % n)).collect();
            holds(n, &cycle);
            let jordan: Vec<T> =
                (0..n * n).map(|place| entry(place % n == place / n + 1)).collect();
            holds(n, &jordan);
        }
    }

    #[test]
    fn the_matrix_multiplies_its_vectors_by_their_values() {
        decomposes::<f32>();
        decomposes::<f64>();
    }
}
