//! Derivatives of determinants at matrices of every rank, in every mode, compared with the derivatives of the
//! determinant as a polynomial.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::prelude::*;

type Rows = Vec<Vec<f64>>;

/// Returns the determinant by expansion along rows, as sums over subsets of columns, without divisions, so that it is
/// also right for singular matrices.
fn expanded(a: &Rows) -> f64 {
    let n = a.len();
    let mut minors = vec![0.0; 1 << n];
    minors[0] = 1.0;
    for columns in 1usize..1 << n {
        let row = &a[columns.count_ones() as usize - 1];
        let mut total = 0.0;
        for j in (0..n).filter(|j| (columns >> j) & 1 == 1) {
            let after = (columns >> (j + 1)).count_ones();
            let sign = if after % 2 == 0 { 1.0 } else { -1.0 };
            total += sign * row[j] * minors[columns & !(1 << j)];
        }
        minors[columns] = total;
    }
    minors[(1 << n) - 1]
}

/// Returns the expected derivative of the determinant along all `directions`: the sum of the determinants in which
/// distinct rows of `a` are replaced by rows of the directions, in every way.
fn derivative(a: &Rows, directions: &[Rows]) -> f64 {
    fn replaced(a: &Rows, taken: &mut Vec<usize>, directions: &[Rows]) -> f64 {
        let Some((first, others)) = directions.split_first() else { return expanded(a) };
        let mut total = 0.0;
        for row in 0..a.len() {
            if taken.contains(&row) {
                continue;
            }
            let mut with = a.clone();
            with[row] = first[row].clone();
            taken.push(row);
            total += replaced(&with, taken, others);
            taken.pop();
        }
        total
    }
    replaced(a, &mut Vec::new(), directions)
}

/// Returns the largest singular value of `a`, by power iteration.
fn norm(a: &Rows) -> f64 {
    let n = a.len();
    let largest = a.iter().flatten().fold(0.0f64, |m, x| m.max(x.abs()));
    if largest == 0.0 {
        return 0.0;
    }
    let mut x: Vec<f64> = (0..n).map(|i| 1.0 + 0.1 * i as f64).collect();
    let mut size = 0.0;
    for _ in 0..200 {
        let y: Vec<f64> =
            a.iter().map(|r| r.iter().zip(&x).map(|(a, x)| a / largest * x).sum()).collect();
        let z: Vec<f64> = (0..n).map(|j| (0..n).map(|i| a[i][j] / largest * y[i]).sum()).collect();
        size = z.iter().map(|z| z * z).sum::<f64>().sqrt();
        x = z.iter().map(|z| z / size).collect();
    }
    size.sqrt() * largest
}

fn diagonal(d: &[f64]) -> Rows {
    (0..d.len()).map(|i| (0..d.len()).map(|j| if i == j { d[i] } else { 0.0 }).collect()).collect()
}

fn product(a: &Rows, b: &Rows) -> Rows {
    let n = a.len();
    let element = |i: usize, j: usize| (0..n).map(|k| a[i][k] * b[k][j]).sum();
    (0..n).map(|i| (0..n).map(|j| element(i, j)).collect()).collect()
}

/// Returns an orthogonal matrix: a product of rotations of neighbouring axes by `angle`.
fn rotation(n: usize, angle: f64) -> Rows {
    let mut q = diagonal(&vec![1.0; n]);
    for i in 0..n - 1 {
        let (s, c) = (angle * (i + 1) as f64).sin_cos();
        let mut turn = diagonal(&vec![1.0; n]);
        (turn[i][i], turn[i][i + 1], turn[i + 1][i], turn[i + 1][i + 1]) = (c, -s, s, c);
        q = product(&q, &turn);
    }
    q
}

/// Returns an ill-conditioned matrix without small pivots (Kahan 1966).
fn kahan(n: usize, s: f64) -> Rows {
    let c = (1.0 - s * s).sqrt();
    let element = |i: usize, j: usize| match i.cmp(&j) {
        std::cmp::Ordering::Equal => 1.0,
        std::cmp::Ordering::Less => -c,
        std::cmp::Ordering::Greater => 0.0,
    };
    (0..n).map(|i| (0..n).map(|j| s.powi(i as i32) * element(i, j)).collect()).collect()
}

/// Returns, for each list of numbers, the diagonal matrix with this diagonal, and that matrix multiplied by a rotation
/// on either side.
fn with_rotated(diagonals: &[&[f64]]) -> Vec<Rows> {
    let turned = |a: &Rows| product(&product(&rotation(a.len(), 0.7), a), &rotation(a.len(), 1.9));
    diagonals.iter().flat_map(|d| [diagonal(d), turned(&diagonal(d))]).collect()
}

fn of_order_three() -> Vec<Rows> {
    let mut all = with_rotated(&[
        &[0.0, 0.0, 3.0],
        &[0.0, 0.0, 0.0],
        &[1.0, 1.0, 1e-9],
        &[2.0, 2.0, 0.0],
        &[1.0, 1e-5, 1e-10],
        &[1e100, 0.0, 0.0],
        &[1e-100, 1e-100, 0.0],
        &[1.0, 2.0, 4.0],
        &[1.0, 1e-2, 2e-4],
    ]);
    all.push(vec![vec![1.0; 3]; 3]);
    all.push(vec![vec![1.0, 2.0, 3.0], vec![4.0, 5.0, 6.0], vec![7.0, 8.0, 9.0]]);
    all
}

fn of_order_five() -> Vec<Rows> {
    with_rotated(&[
        &[1.0, 1.0, 1.0, 1.0, 0.0],
        &[1.0, 0.3, 0.09, 0.027, 1e-9],
        &[2.0, 2.0, 1e-9, 1e-9, 1e-9],
        &[1.0, 0.12, 0.12, 0.0, 0.0],
        &[3.0, 3.0, 2.0, 2.0, 1.0],
        &[1.0, 1.0, 0.05, 1e-3, 3e-4],
    ])
}

/// Returns `count` matrices with elements between -1 and 1, as directions of derivatives.
fn directions(n: usize, count: usize) -> Vec<Rows> {
    let element = |k: usize, i: usize, j: usize| ((3 * k + 5 * i + 7 * j + 1) as f64 * 0.9).sin();
    let one = |k: usize| (0..n).map(|i| (0..n).map(|j| element(k, i, j)).collect()).collect();
    (0..count).map(one).collect()
}

fn tensor(matrices: &[Rows], dtype: Dtype) -> Tensor {
    let n = matrices[0].len();
    let flat: Vec<f64> = matrices.iter().flatten().flatten().copied().collect();
    let wide = Tensor::new(&[matrices.len(), n, n], flat).unwrap();
    run(|x: Var| x.convert(dtype), &wide).unwrap()
}

/// Returns the derivative of `f` at `a` along the directions `d`, one mode per direction: `f` for forward, `r` for
/// reverse mode, the innermost first.
fn along(f: &dyn Fn(Var) -> Var, modes: &str, d: &[Var], a: Var) -> Var {
    let Some(mode) = modes.chars().last() else { return f(a) };
    let (inner, last) = (&modes[..modes.len() - 1], d[modes.len() - 1]);
    let of = |a: Var| along(f, inner, d, a);
    match mode {
        'r' => (grad(|a: Var| of(a).sum())(a) * last).sum_axis([-2, -1]),
        _ => jvp(of)((a, last.broadcast_to(a.shape()))).1,
    }
}

/// Checks that the errors of derivatives of order k are a few rounding errors of the larger of two numbers: the
/// derivative, and `|A|^(n - k)` for a matrix of order n with the largest singular value |A|.
fn check(matrices: &[Rows], modes: &str, how: fn(Var) -> Var, dtype: Dtype) {
    check_scaled(matrices, &[0], modes, how, dtype);
}

/// Checks the derivatives of determinants like `check`, with matrix i multiplied by 2 to the power of `exponents[i %
/// len]`. For matrices of order n and derivatives of order k, the expected derivative is the unscaled one times the (n
/// - k)th power of the scale, which must be in range.
fn check_scaled(
    matrices: &[Rows],
    exponents: &[i32],
    modes: &str,
    how: fn(Var) -> Var,
    dtype: Dtype,
) {
    let (n, k) = (matrices[0].len(), modes.len());
    let d = directions(n, k);
    let call = |(a, d): (Var, Var)| {
        let d: Vec<Var> = (0..k as i64).map(|i| d.index_axis(0, i)).collect();
        along(&how, modes, &d, a).convert(Dtype::F64)
    };
    let exponents = || exponents.iter().cycle();
    let scaled: Vec<Rows> = (matrices.iter().zip(exponents()))
        .map(|(a, e)| a.iter().map(|r| r.iter().map(|x| x * 2f64.powi(*e)).collect()).collect())
        .collect();
    let args = (tensor(&scaled, dtype), tensor(&directions(n, k.max(1)), dtype));
    let got = run(call, args).unwrap().to_vec::<f64>().unwrap();
    let within = if dtype == Dtype::F32 { 2e-5 } else { 2e-14 };
    for ((a, e), got) in matrices.iter().zip(exponents()).zip(got) {
        let power = n as i32 - k as i32;
        let factor = 2f64.powi(e * power);
        let want = derivative(a, &d) * factor;
        let size = want.abs().max(norm(a).powi(power) * factor);
        assert!(
            (got - want).abs() <= within * size,
            "order {k} ({modes}) at 2^{e} {a:?} is {got:e}, right {want:e}: off by {:e} of {size:e}",
            (got - want).abs() / size
        );
    }
}

/// Computes the determinants of a batch in a loop, one matrix after the other.
fn one_by_one(a: Var) -> Var {
    let count = a.shape()[0] as i64;
    let all: Vec<Var> = (0..count).map(|i| linalg::det(a.index_axis(0, i))).collect();
    stack(&all, 0)
}

#[test]
fn determinants_have_derivatives_of_the_first_two_orders_at_every_rank() {
    for modes in ["", "f", "r", "ff", "fr", "rf", "rr"] {
        check(&of_order_three(), modes, linalg::det, Dtype::F64);
    }
    for modes in ["r", "rr"] {
        check(&of_order_five(), modes, linalg::det, Dtype::F64);
    }
}

#[test]
fn determinants_have_third_derivatives_at_every_rank() {
    check(&of_order_three(), "rfr", linalg::det, Dtype::F64);
    check(&of_order_five(), "fff", linalg::det, Dtype::F64);
}

#[test]
fn determinants_have_fourth_derivatives_at_every_rank() {
    check(&of_order_five(), "ffff", linalg::det, Dtype::F64);
}

#[test]
fn determinants_of_single_matrices_and_under_vmap_have_the_same_derivatives() {
    let some = &of_order_three()[..8];
    check(&some[..3], "rr", one_by_one, Dtype::F64);
    check(some, "rr", |a| vmap(linalg::det)(a), Dtype::F64);
}

#[test]
fn determinants_of_order_one_and_two_have_derivatives_beyond_their_degree() {
    let of_order_two = with_rotated(&[&[1.0, 2.0], &[3.0, 0.0], &[1.0, 1e-9]]);
    for matrices in [vec![vec![vec![3.0]], vec![vec![-2.0]]], of_order_two] {
        for modes in ["r", "fr", "rr", "fff", "rrr", "ffff"] {
            check_scaled(&matrices, &[0, 100, -100], modes, linalg::det, Dtype::F64);
        }
    }
    for modes in ["r", "rr", "rrr"] {
        check(&[diagonal(&[0.0, 0.0])], modes, linalg::det, Dtype::F64);
    }
}

#[test]
fn pivots_do_not_decide_about_the_rank() {
    let matrix = kahan(10, 0.3);
    for modes in ["r", "rr", "fr"] {
        check(std::slice::from_ref(&matrix), modes, linalg::det, Dtype::F64);
    }
}

#[test]
fn determinants_in_f32_have_derivatives_at_every_rank() {
    let matrices =
        with_rotated(&[&[1.0, 1.0, 1e-4], &[2.0, 2.0, 0.0], &[0.0; 3], &[1.0, 2.0, 4.0]]);
    // The expected derivatives are computed from elements rounded to f32, as the library sees them.
    let rounded = |a: &Rows| -> Rows {
        a.iter().map(|r| r.iter().map(|x| f64::from(*x as f32)).collect()).collect()
    };
    let matrices: Vec<Rows> = matrices.iter().map(rounded).collect();
    for modes in ["r", "rr", "fr"] {
        check(&matrices, modes, linalg::det, Dtype::F32);
    }
}

/// Returns matrices of order three, of every rank, whose largest singular values are near one, to be scaled.
fn of_any_scale() -> Vec<Rows> {
    let diagonals: [&[f64]; 5] = [
        &[1.0, 2.0, 4.0],
        &[2.0, 2.0, 0.0],
        &[1.0, 1.0, 1e-9],
        &[0.0, 0.0, 3.0],
        &[1.0, 1e-5, 1e-10],
    ];
    with_rotated(&diagonals)
}

#[test]
fn derivatives_of_determinants_are_right_where_the_determinant_is_out_of_range() {
    // For the scaled matrices of order 3, |A|² is in range, |A|³ is not. There are seven exponents for ten matrices, so
    // the scales of neighbours in the batch differ by up to 2¹⁰⁰⁰.
    let exponents = [-500, 500, 0, 400, -400, 20, -499];
    for modes in ["f", "r", "ff", "fr", "rf", "rr", "rfr", "fff"] {
        check_scaled(&of_any_scale(), &exponents, modes, linalg::det, Dtype::F64);
    }
    check_scaled(&of_any_scale(), &exponents, "rr", |a| vmap(linalg::det)(a), Dtype::F64);
    check_scaled(&of_any_scale()[..4], &exponents, "rr", one_by_one, Dtype::F64);
    // For the scaled matrices of order 5, |A|⁴ is in range, |A|⁵ is not.
    for modes in ["r", "rr", "ffr"] {
        check_scaled(&of_order_five(), &[-240, 240, 3], modes, linalg::det, Dtype::F64);
    }
    let second = [-1000, 1000];
    check_scaled(&of_any_scale(), &second, "rr", linalg::det, Dtype::F64);
    check_scaled(&of_any_scale(), &second, "fr", linalg::det, Dtype::F64);
}

#[test]
fn derivatives_of_determinants_in_f32_are_right_where_the_determinant_is_out_of_range() {
    let matrices = with_rotated(&[&[1.0, 2.0, 4.0], &[2.0, 2.0, 0.0], &[1.0, 1.0, 1e-4]]);
    let rounded = |a: &Rows| -> Rows {
        a.iter().map(|r| r.iter().map(|x| f64::from(*x as f32)).collect()).collect()
    };
    let matrices: Vec<Rows> = matrices.iter().map(rounded).collect();
    for modes in ["r", "rr", "fr", "rfr"] {
        check_scaled(&matrices, &[-50, 50, 7, -45], modes, linalg::det, Dtype::F32);
    }
    let eight = [diagonal(&[1.5; 8])];
    for modes in ["r", "rr"] {
        check_scaled(&eight, &[17], modes, linalg::det, Dtype::F32);
    }
}
