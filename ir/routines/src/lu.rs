//! LU factorisation with partial pivoting (Golub and Van Loan, section 3.4), packed as in LAPACK's
//! `getrf` and JAX's `lax.linalg.lu`.

use faer::linalg::lu::partial_pivoting::factor::{lu_in_place, lu_in_place_scratch};
use faer::{MatMut, Par, Spec};

use crate::copies::transpose;
use crate::real::{Failed, Real, all_finite};
use crate::scratch::{Need, Scratch};

pub(crate) fn need<T: Real>(m: usize, n: usize) -> Need {
    let stack = lu_in_place_scratch::<u32, T>(m, n, Par::Seq, Spec::default());
    Need::new().array::<T>(m * n).array::<u32>(m).array::<u32>(m).stack(stack)
}

/// What a factorisation writes.
pub(crate) struct Results<'a, T> {
    pub(crate) packed: &'a mut [T],
    pub(crate) pivots: &'a mut [i32],
    pub(crate) permutation: &'a mut [i32],
}

/// `a[m, n] -> packed[m, n], pivots[k], permutation[m]`.
pub(crate) fn run<T: Real>(
    m: usize,
    n: usize,
    a: &[T],
    results: Results<'_, T>,
    mut scratch: Scratch<'_>,
) -> Result<(), Failed> {
    let Results { packed, pivots, permutation } = results;
    count_up(permutation);
    if m == 0 || n == 0 {
        return Ok(());
    }
    if !all_finite(a) {
        return Err(Failed);
    }
    let columns = scratch.take::<T>(m * n)?;
    let order = scratch.take::<u32>(m)?;
    let places = scratch.take::<u32>(m)?;
    transpose(m, n, T::one(), a, columns);
    lu_in_place(
        MatMut::from_column_major_slice_mut(columns, m, n),
        order,
        places,
        Par::Seq,
        scratch.stack(),
        Spec::default(),
    );
    transpose(n, m, T::one(), columns, packed);
    let regular = |i: usize| packed[i * n + i].abs() >= T::RECIPROCAL;
    if all_finite(packed) && (0..m.min(n)).all(regular) {
        // The exchanges follow from the order: step `i` fetched the row that stands there at last.
        // `permutation` holds the rows in their order so far, `places` where each row stands.
        for (place, row) in (0..).zip(places.iter_mut()) {
            *row = place;
        }
        for (i, pivot) in pivots.iter_mut().enumerate() {
            let place = places[order[i] as usize];
            *pivot = place as i32;
            let moved = permutation[i];
            permutation.swap(i, place as usize);
            places[moved as usize] = place;
        }
    } else {
        // faer multiplies by the reciprocal of a pivot, which for a zero makes nan of zeros.
        packed.copy_from_slice(a);
        count_up(permutation);
        eliminate(n, packed, pivots, permutation);
    }
    Ok(())
}

fn count_up(permutation: &mut [i32]) {
    for (place, row) in (0..).zip(permutation) {
        *row = place;
    }
}

/// Elimination row by row, with true divisions. A column of zeros below the diagonal stays as it
/// is, with a zero pivot in the place where it stands.
fn eliminate<T: Real>(n: usize, a: &mut [T], pivots: &mut [i32], permutation: &mut [i32]) {
    let m = permutation.len();
    for (j, exchanged) in pivots.iter_mut().enumerate() {
        let mut pivot = j;
        for i in j..m {
            if a[i * n + j].abs() > a[pivot * n + j].abs() {
                pivot = i;
            }
        }
        *exchanged = pivot as i32;
        if pivot != j {
            permutation.swap(j, pivot);
            let (above, below) = a.split_at_mut(pivot * n);
            above[j * n..(j + 1) * n].swap_with_slice(&mut below[..n]);
        }
        let (above, below) = a.split_at_mut((j + 1) * n);
        let upper = &above[j * n..];
        if upper[j] == T::zero() {
            continue;
        }
        for row in below.chunks_exact_mut(n) {
            let multiplier = row[j] / upper[j];
            row[j] = multiplier;
            if multiplier != T::zero() {
                for (entry, &upper) in row[j + 1..].iter_mut().zip(&upper[j + 1..]) {
                    *entry -= multiplier * upper;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checks::{Number, ORDERS, Results, SHAPES, call, close, double, multiply, random};
    use crate::routine::Routine;

    /// `a[permutation] = l u`, and the exchanges give the permutation.
    #[track_caller]
    fn holds<T: Number>(m: usize, n: usize, a: &[T], found: &Results<T>) {
        let k = m.min(n);
        let packed = found.double(0);
        let [pivots, permutation] = &found.indices[..] else {
            panic!("two index results");
        };
        let mut rows: Vec<i32> = (0..m as i32).collect();
        for (i, &pivot) in pivots.iter().enumerate() {
            assert!(pivot >= i as i32 && pivot < m as i32, "{pivots:?}");
            rows.swap(i, pivot as usize);
        }
        assert_eq!(&rows, permutation);
        let l = |i: usize, j: usize| match i.cmp(&j) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => 1.0,
            std::cmp::Ordering::Greater => packed[i * n + j],
        };
        let u = |i: usize, j: usize| if i <= j { packed[i * n + j] } else { 0.0 };
        let l: Vec<f64> = (0..m * k).map(|place| l(place / k, place % k)).collect();
        let u: Vec<f64> = (0..k * n).map(|place| u(place / n, place % n)).collect();
        assert!(l.iter().all(|entry| entry.abs() <= 1.0 + 1e-6));
        let a = double(a);
        let moved: Vec<f64> =
            permutation.iter().flat_map(|&row| a[row as usize * n..][..n].to_vec()).collect();
        close::<T>(16.0, &multiply(m, k, n, &l, &u), &moved, &format!("l u, {m} x {n}"));
    }

    fn factors<T: Number>() {
        let squares = ORDERS.iter().map(|&n| (n, n));
        for (m, n) in squares.chain(SHAPES) {
            let a: Vec<T> = random(m * n, (m + 7 * n) as u64);
            holds(m, n, &a, &call(&Routine::Lu { m, n }, &[&a]));
        }
    }

    #[test]
    fn the_product_of_the_factors_is_the_matrix_with_its_rows_exchanged() {
        factors::<f32>();
        factors::<f64>();
    }

    fn singular<T: Number>() {
        for (m, n) in [(2, 2), (5, 5), (40, 40), (65, 65), (40, 60), (60, 40)] {
            // Integers: a column of zeros, a doubled row, and rank one, each factored exactly.
            let mut columns: Vec<T> = random(m * n, 9);
            columns.iter_mut().skip(n / 2).step_by(n).for_each(|x| *x = T::of(0.0));
            let found = call(&Routine::Lu { m, n }, &[&columns]);
            assert!(found.finite(), "{m} x {n}");
            holds(m, n, &columns, &found);
            let product: Vec<T> = (0..m * n)
                .map(|place| T::of(((place / n % 5 + 1) * (place % n % 7 + 1)) as f64))
                .collect();
            let found = call(&Routine::Lu { m, n }, &[&product]);
            holds(m, n, &product, &found);
            let packed = found.double(0);
            let diagonal: Vec<f64> = (1..m.min(n)).map(|i| packed[i * n + i]).collect();
            assert!(diagonal.iter().all(|x| x.abs() < 1e-5), "{diagonal:?}");
        }
    }

    #[test]
    fn a_singular_matrix_has_its_factors() {
        singular::<f32>();
        singular::<f64>();
    }
}
