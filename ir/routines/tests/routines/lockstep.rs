//! Small matrices: the bits of a batch member must be the same alone and at every position of every batch, for any
//! neighbours, and the method for small orders must agree with the method for larger ones.

use crate::checks::{Number, Results, call, call_batch, close, random, stable};
use crate::hostile::{benign, routines};
use tapeloom_routines::{QrBasis, Routine, SvdVectors};

/// A number of batch members that is larger than the number of lanes of the widest registers.
const MANY: usize = 33;

/// Returns operands of a neighbouring batch member, chosen by `seed`: NaN, infinity, zeros, numbers near the ends of
/// the range, repeated numbers, graded numbers or random numbers.
fn neighbour<T: Number>(routine: &Routine, seed: usize) -> Vec<Vec<T>> {
    let mut operands = benign::<T>(routine);
    for (place, operand) in operands.iter_mut().enumerate() {
        let length = operand.len();
        let columns = routine.operands()[place].shape.last().copied().unwrap_or(1);
        for (at, x) in operand.iter_mut().enumerate() {
            let y = x.double();
            let end = if T::EPSILON < 1e-10 { 300.0 } else { 35.0 };
            *x = T::of(match seed % 11 {
                0 if at == seed / 11 % length => f64::NAN,
                1 if at == length - 1 => f64::INFINITY,
                2 => 0.0,
                3 => y * 10_f64.powf(end),
                4 => y * 10_f64.powf(-end),
                5 => 1.0,
                6 => f64::from(u8::from(at / columns == at % columns)),
                7 => y * 10_f64.powf(-end * (at / columns) as f64 / length as f64),
                8 => y * 10_f64.powf(-end * 1.5 * (at % columns) as f64 / columns as f64),
                _ => y + ((seed * 7 + at * 3) % 13) as f64 / 40.0,
            });
        }
    }
    operands
}

/// Returns the bits of all results, with all NaNs replaced by one: it is not specified which NaN of two operands
/// an operation returns.
fn bits<T: Number>(mut results: Results<T>) -> Vec<Vec<u8>> {
    for x in results.floats.iter_mut().flatten() {
        if x.double().is_nan() {
            *x = T::NAN;
        }
    }
    let floats = results.floats.iter().map(|x| bytemuck::cast_slice(x).to_vec());
    floats.chain(results.indices.iter().map(|x| bytemuck::cast_slice(x).to_vec())).collect()
}

fn alone_and_in_batches<T: Number>(orders: &[usize], counts: &[usize]) {
    for routine in orders.iter().copied().flat_map(routines) {
        let members: Vec<Vec<Vec<T>>> = (0..MANY).map(|seed| neighbour(&routine, seed)).collect();
        let one = |member: &Vec<Vec<T>>| {
            let operands: Vec<&[T]> = member.iter().map(|x| &x[..]).collect();
            bits(call(&routine, &operands))
        };
        let alone: Vec<Vec<Vec<u8>>> = members.iter().map(one).collect();
        for &count in counts {
            // Every member must be at every position of some batch.
            for start in (0..MANY).step_by(if count < MANY { 5 } else { 7 }) {
                let who: Vec<usize> = (0..count).map(|place| (start + place) % MANY).collect();
                let operands: Vec<Vec<T>> = (0..members[0].len())
                    .map(|x| who.iter().flat_map(|&m| members[m][x].clone()).collect())
                    .collect();
                let operands: Vec<&[T]> = operands.iter().map(|x| &x[..]).collect();
                let found = bits(call_batch(&routine, count, &operands));
                for (place, &member) in who.iter().enumerate() {
                    for (found, alone) in found.iter().zip(&alone[member]) {
                        let found = &found[place * alone.len()..(place + 1) * alone.len()];
                        assert!(
                            found == alone,
                            "{routine:?}: member {member} at {place} of {count}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn the_bits_of_a_member_are_the_same_alone_and_at_every_place_of_every_batch() {
    let counts: Vec<usize> = (1..=MANY).collect();
    alone_and_in_batches::<f32>(&[1, 2, 3, 4], &counts);
    alone_and_in_batches::<f64>(&[1, 2, 3, 4], &counts);
    alone_and_in_batches::<f32>(&[7, 8, 9, 16, 17], &[2, 7, 17, MANY]);
    alone_and_in_batches::<f64>(&[7, 8, 9, 16, 17], &[2, 7, 17, MANY]);
}

/// Returns a larger matrix with `a[m, n]` in the upper left corner, `corner` on the rest of its diagonal, and
/// zeros elsewhere.
fn bordered<T: Number>([m, n]: [usize; 2], a: &[T], border: usize, corner: f64) -> Vec<T> {
    let columns = n + border;
    let entry = |p: usize| match (p / columns, p % columns) {
        (i, j) if i < m && j < n => a[i * n + j],
        (i, j) if i >= m && i - m == j.wrapping_sub(n) => T::of(corner),
        _ => T::of(0.0),
    };
    (0..(m + border) * columns).map(entry).collect()
}

/// Returns the first `m` rows and `n` columns of the matrix `a`, which has `columns` columns.
fn corner(a: &[f64], columns: usize, [m, n]: [usize; 2]) -> Vec<f64> {
    (0..m * n).map(|p| a[p / n * columns + p % n]).collect()
}

/// Checks that the method for small matrices and the method for larger ones return the same results, in results that
/// are unique.
fn agrees<T: Number>() {
    for n in 1..=16 {
        // Matrices of order 24 are too large for lockstep, so the bordered matrix uses the other method.
        let (border, bound) = (24 - n, 16.0 * stable(n));
        let mut a: Vec<T> = random(n * n, n as u64 + 40);
        for i in 0..n {
            a[i * n + i] = T::of(a[i * n + i].double() + 3.0);
            for j in 0..i {
                a[j * n + i] = a[i * n + j];
            }
        }
        let small = |routine: Routine, what: usize| call(&routine, &[&a[..]]).double(what);
        let large = |routine: Routine, corner: f64, what: usize| {
            call(&routine, &[&bordered([n, n], &a, border, corner)]).double(what)
        };
        for what in 0..2 {
            let of = |n: usize| Routine::Qr { m: n, n, basis: QrBasis::Thin };
            let found = corner(&large(of(24), 1.0, what), 24, [n, n]);
            close::<T>(bound, &small(of(n), what), &found, &format!("qr of order {n}"));
        }
        let of = |n: usize| Routine::Eigh { n, vectors: false };
        let found = large(of(24), 1e3, 0);
        close::<T>(1e3 * bound, &small(of(n), 0), &found[..n], &format!("eigh of order {n}"));
        let of = |n: usize| Routine::Svd { m: n, n, vectors: SvdVectors::None };
        let found = large(of(24), 1e3, 0);
        close::<T>(1e3 * bound, &small(of(n), 0), &found[border..], &format!("svd of order {n}"));
        let found = large(Routine::Lu { m: 24, n: 24 }, 1.0, 0);
        let found = corner(&found, 24, [n, n]);
        close::<T>(bound, &small(Routine::Lu { m: n, n }, 0), &found, &format!("lu of order {n}"));
    }
}

#[test]
fn small_matrices_have_the_factors_that_they_have_in_larger_ones() {
    agrees::<f32>();
    agrees::<f64>();
}
