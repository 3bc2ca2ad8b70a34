//! Helpers for the tests of the routines: calls on vectors, random matrices, products and residuals in double
//! precision.

use std::fmt::Debug;

use tapeloom_routines::{Element, Float, Routine};

/// The orders of the matrices in the tests of residuals: all orders with their own methods, and orders below, at
/// and above the sizes of tiles and blocks.
pub(crate) const ORDERS: [usize; 20] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 33, 65, 100];

/// The shapes of rectangular matrices in these tests: wide, tall, and with one row or column.
pub(crate) const SHAPES: [(usize, usize); 12] = [
    (1, 5),
    (5, 1),
    (3, 8),
    (8, 3),
    (7, 8),
    (5, 16),
    (16, 15),
    (17, 2),
    (16, 33),
    (65, 16),
    (40, 100),
    (100, 65),
];

/// An element type, `f32` or `f64`, on which the tests run the routines.
pub(crate) trait Number: bytemuck::Pod + PartialEq + Debug {
    /// A NaN.
    const NAN: Self;
    const FLOAT: Float;
    /// The machine epsilon: twice the unit roundoff.
    const EPSILON: f64;
    fn of(value: f64) -> Self;
    fn double(self) -> f64;
}

impl Number for f32 {
    const NAN: Self = f32::NAN;
    const FLOAT: Float = Float::F32;
    const EPSILON: f64 = f32::EPSILON as f64;

    fn of(value: f64) -> Self {
        value as f32
    }

    fn double(self) -> f64 {
        f64::from(self)
    }
}

impl Number for f64 {
    const NAN: Self = f64::NAN;
    const FLOAT: Float = Float::F64;
    const EPSILON: f64 = f64::EPSILON;

    fn of(value: f64) -> Self {
        value
    }

    fn double(self) -> f64 {
        self
    }
}

/// The results of one call: the floating-point results in order, and the index results in order.
pub(crate) struct Results<T> {
    pub(crate) floats: Vec<Vec<T>>,
    pub(crate) indices: Vec<Vec<i32>>,
}

impl<T: Number> Results<T> {
    /// Returns the floating-point result with index `place`, converted to double precision.
    pub(crate) fn double(&self, place: usize) -> Vec<f64> {
        self.floats[place].iter().map(|x| x.double()).collect()
    }

    /// Returns whether the routine has failed: then every floating-point number is NaN, and every index equals its
    /// position.
    pub(crate) fn failed(&self) -> bool {
        let nan = |x: &T| x.double().is_nan();
        let counts = |xs: &Vec<i32>| xs.iter().zip(0..).all(|(&x, place)| x == place);
        self.floats.iter().flatten().all(nan) && self.indices.iter().all(counts)
    }

    /// Returns whether every number of every floating-point result is finite.
    pub(crate) fn finite(&self) -> bool {
        self.floats.iter().flatten().all(|x| x.double().is_finite())
    }
}

/// Calls a routine on one batch member; the result buffers and the scratch are filled with invalid bytes before.
pub(crate) fn call<T: Number>(routine: &Routine, operands: &[&[T]]) -> Results<T> {
    call_batch(routine, 1, operands)
}

/// Calls a routine on `members` batch members, as `call` does.
pub(crate) fn call_batch<T: Number>(
    routine: &Routine,
    members: usize,
    operands: &[&[T]],
) -> Results<T> {
    let plan = routine.plan(T::FLOAT).unwrap();
    let mut scratch = vec![0xa5; plan.scratch_bytes()];
    let operands: Vec<&[u8]> = operands.iter().map(|x| bytemuck::cast_slice(x)).collect();
    let mut floats = Vec::new();
    let mut indices = Vec::new();
    for array in plan.routine().results() {
        let length = members * array.shape.iter().product::<usize>();
        match array.element {
            Element::Float => floats.push(vec![T::of(-77.0); length]),
            Element::Index => indices.push(vec![-77; length]),
        }
    }
    // In every routine the floating-point results precede the indices.
    let mut results: Vec<&mut [u8]> = Vec::new();
    results.extend(floats.iter_mut().map(|x| bytemuck::cast_slice_mut(x)));
    results.extend(indices.iter_mut().map(|x| bytemuck::cast_slice_mut(x)));
    plan.run(members, &operands, &mut results, &mut scratch).unwrap();
    Results { floats, indices }
}

/// Returns `length` pseudo-random numbers between -1 and 1.
pub(crate) fn random<T: Number>(length: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let mixed = state ^ (state >> 29);
        T::of((mixed >> 11) as f64 / 2_f64.powi(52) - 1.0)
    };
    (0..length).map(|_| next()).collect()
}

/// Returns the matrix `a a^T + n I` for a random `a`, symmetric to the last bit and well conditioned.
pub(crate) fn positive<T: Number>(n: usize, seed: u64) -> Vec<T> {
    let a: Vec<f64> = random(n * n, seed);
    let mut product = multiply(n, n, n, &a, &transpose(n, n, &a));
    for i in 0..n {
        product[i * n + i] += n as f64;
        for j in 0..i {
            product[j * n + i] = product[i * n + j];
        }
    }
    product.into_iter().map(T::of).collect()
}

/// Converts numbers to double precision.
pub(crate) fn double<T: Number>(values: &[T]) -> Vec<f64> {
    values.iter().map(|x| x.double()).collect()
}

/// Returns the matrix product `a[m, k] b[k, n]`.
pub(crate) fn multiply(m: usize, k: usize, n: usize, a: &[f64], b: &[f64]) -> Vec<f64> {
    let entry = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum::<f64>();
    (0..m * n).map(|place| entry(place / n, place % n)).collect()
}

/// Returns the transpose of `a[m, n]`, row-major.
pub(crate) fn transpose(m: usize, n: usize, a: &[f64]) -> Vec<f64> {
    (0..m * n).map(|place| a[place % m * n + place / m]).collect()
}

/// Returns the identity matrix of order `n`, row-major.
pub(crate) fn identity(n: usize) -> Vec<f64> {
    (0..n * n).map(|place| f64::from(u8::from(place / n == place % n))).collect()
}

/// Returns the 2-norm of `a` (the root of the sum of squares), without overflow.
pub(crate) fn norm(a: &[f64]) -> f64 {
    let most = a.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    let scale = if most > 0.0 { most } else { 1.0 };
    scale * a.iter().map(|x| (x / scale).powi(2)).sum::<f64>().sqrt()
}

/// Returns the permitted error of a backward stable method of order `n`, in epsilons of the norm.
pub(crate) fn stable(n: usize) -> f64 {
    8.0 * (n as f64).sqrt().max(4.0)
}

/// Fails the test unless `|a - b| <= bound epsilon max(|a|, |b|)` in the 2-norm of the entries.
#[track_caller]
pub(crate) fn close<T: Number>(bound: f64, a: &[f64], b: &[f64], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    let difference: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    let scale = norm(a).max(norm(b));
    let error = norm(&difference);
    assert!(
        error <= bound * T::EPSILON * scale,
        "{what}: the error is {:.1} epsilon of the norm where {bound} are allowed",
        error / scale / T::EPSILON
    );
}

/// Returns matrices that are hard to factor: with rows or columns that become small; with columns that are equal,
/// zero or linearly dependent up to the last digit; and with a single nonzero entry.
pub(crate) fn difficult<T: Number>(m: usize, n: usize) -> Vec<Vec<T>> {
    let random: Vec<f64> = random(m * n, (5 * m + n) as u64);
    let of = |entry: &dyn Fn(usize, usize, f64) -> f64| -> Vec<T> {
        (0..m * n).map(|p| T::of(entry(p / n, p % n, random[p]))).collect()
    };
    let grade = |i: usize, length: usize| (T::EPSILON / 8.0).powf(i as f64 / length as f64);
    let first = |i: usize| random[i * n];
    vec![
        of(&|i, _, x| x * grade(i, m)),
        of(&|_, j, x| x * grade(j, n)),
        of(&|i, j, x| x * grade(m - 1 - i, m) * grade(j, n)),
        of(&|i, j, x| x * grade(i.abs_diff(j), m.max(n)).powi(3)),
        of(&|i, j, x| if j < 2 { x } else { first(i) }),
        of(&|i, j, x| if j % 3 == 1 || i % 4 == 3 { 0.0 } else { x }),
        of(&|i, j, x| first(i) * first(j % m) + 4.0 * T::EPSILON * x),
        of(&|i, j, _| f64::from(u8::from((i, j) == (m - 1, n - 1)))),
        of(&|i, j, _| f64::from(u8::from((i + 1) % m == j))),
        of(&|i, j, _| if i == j { 2.0 } else { T::EPSILON * T::EPSILON }),
    ]
}
