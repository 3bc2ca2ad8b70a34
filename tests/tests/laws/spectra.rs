//! Decompositions of matrices whose eigenvalues or singular values are repeated, zero, padded, or equal up to
//! rounding, in functions that do not depend on the choice of vectors.
//!
//! In every mode, a derivative must be right or nan. It must be right if the eigenvalues or singular values that the
//! function reads are apart from all others. The expected derivative is the formula of Daletskii and Krein, applied to
//! the eigenvalues and eigenvectors from which the matrix was made. For singular values, the formula is applied to
//! `[[0, A], [Aᵀ, 0]]`, whose eigenvalues are `±s` and zeros.
//!
//! The formula gives the derivative along H of the function f of a symmetric matrix A with eigenvalues λ and
//! eigenvectors Q. `f[x, y]` is the divided difference `(f(x) - f(y)) / (x - y)`, and ∘ the elementwise product:
//!
//! ```text
//! f(A) = Q f(λ) Qᵀ      D f(A)[H] = Q (f[λi, λj] ∘ QᵀHQ) Qᵀ
//! ```

use tapeloom::prelude::*;

type Matrix = Vec<Vec<f64>>;

fn matrix(rows: usize, columns: usize, element: impl Fn(usize, usize) -> f64) -> Matrix {
    (0..rows).map(|i| (0..columns).map(|j| element(i, j)).collect()).collect()
}

fn product(x: &Matrix, y: &Matrix) -> Matrix {
    matrix(x.len(), y[0].len(), |i, j| (0..y.len()).map(|k| x[i][k] * y[k][j]).sum())
}

fn transposed(x: &Matrix) -> Matrix {
    matrix(x[0].len(), x.len(), |i, j| x[j][i])
}

/// Returns a matrix of irregular numbers between -1 and 1.
fn noise(rows: usize, columns: usize, seed: usize) -> Matrix {
    matrix(rows, columns, |i, j| ((1 + seed + 7 * i * i + 3 * j + 5 * i * j) as f64 * 1.7).sin())
}

/// Returns an orthogonal matrix, by the Gram-Schmidt process performed twice, for full accuracy.
fn orthogonal(n: usize, seed: usize) -> Matrix {
    let mut rows = noise(n, n, seed);
    for _ in 0..2 {
        for i in 0..n {
            for j in 0..i {
                let along: f64 = (0..n).map(|k| rows[i][k] * rows[j][k]).sum();
                (0..n).for_each(|k| rows[i][k] -= along * rows[j][k]);
            }
            let norm = rows[i].iter().map(|x| x * x).sum::<f64>().sqrt();
            rows[i].iter_mut().for_each(|x| *x /= norm);
        }
    }
    rows
}

/// A function of one number, with its first two derivatives.
#[derive(Clone, Copy)]
struct Scalar([fn(f64) -> f64; 3]);

const SAME: Scalar = Scalar([|x| x, |_| 1.0, |_| 0.0]);
const SQUARE: Scalar = Scalar([|x| x * x, |x| 2.0 * x, |_| 2.0]);
const CUBE: Scalar = Scalar([|x| x * x * x, |x| 3.0 * x * x, |x| 6.0 * x]);
const FOURTH: Scalar = Scalar([|x| x.powi(4), |x| 4.0 * x.powi(3), |x| 12.0 * x * x]);
const EXP: Scalar = Scalar([f64::exp, f64::exp, f64::exp]);
const ONE: Scalar = Scalar([|_| 1.0, |_| 0.0, |_| 0.0]);
const SIGN: Scalar = Scalar([|x| if x == 0.0 { 0.0 } else { x.signum() }, |_| 0.0, |_| 0.0]);
const SIZE: Scalar = Scalar([f64::abs, |x| SIGN.at(x), |_| 0.0]);
/// The function that is 1 at the largest value and 0 at all others: the largest value of every spectrum here is 3, and
/// all others are at most 2.
const TOP: Scalar = Scalar([|x| f64::from(x.abs() > 2.0), |_| 0.0, |_| 0.0]);
const TOP_ITSELF: Scalar = Scalar([|x| x * TOP.at(x), |x| TOP.at(x), |_| 0.0]);
const TOP_SIZE: Scalar = Scalar([|x| x.abs() * TOP.at(x), |x| x.signum() * TOP.at(x), |_| 0.0]);
/// The function that is 1 at the smallest value and 0 at all others, for spectra with exactly one value below 0.2.
const LEAST: Scalar = Scalar([|x| f64::from(x.abs() < 0.2), |_| 0.0, |_| 0.0]);

impl Scalar {
    fn at(self, x: f64) -> f64 {
        self.0[0](x)
    }

    /// Returns the divided difference `f[x, y]`; for x = y, the derivative of f.
    fn first(self, x: f64, y: f64) -> f64 {
        if x == y { self.0[1](x) } else { (self.at(x) - self.at(y)) / (x - y) }
    }

    /// Returns the second divided difference `f[x, y, z]`, also for equal arguments.
    fn second(self, x: f64, y: f64, z: f64) -> f64 {
        match (x == y, y == z) {
            (true, true) => 0.5 * self.0[2](x),
            (false, _) => (self.first(x, z) - self.first(y, z)) / (x - y),
            (_, false) => (self.first(y, x) - self.first(z, x)) / (y - z),
        }
    }
}

/// A symmetric matrix, given by its eigenvectors (in columns) and eigenvalues.
struct Spectral<'a> {
    vectors: &'a Matrix,
    values: &'a [f64],
}

impl Spectral<'_> {
    /// Returns `Qᵀ x Q`, in the basis of the eigenvectors Q, of the symmetric part of `x`.
    fn inside(&self, x: &Matrix) -> Matrix {
        let n = x.len();
        let symmetric = matrix(n, n, |i, j| 0.5 * (x[i][j] + x[j][i]));
        product(&product(&transposed(self.vectors), &symmetric), self.vectors)
    }

    fn outside(&self, x: &Matrix) -> Matrix {
        product(&product(self.vectors, x), &transposed(self.vectors))
    }

    /// Returns the expected gradient of `tr(Wᵀ f(A))` with respect to the matrix A.
    fn gradient(&self, f: Scalar, w: &Matrix) -> Matrix {
        let (w, l) = (self.inside(w), self.values);
        self.outside(&matrix(l.len(), l.len(), |i, j| w[i][j] * f.first(l[i], l[j])))
    }

    /// Returns the derivative of [`Spectral::gradient`] along `d`.
    fn curvature(&self, f: Scalar, w: &Matrix, d: &Matrix) -> Matrix {
        let (w, d, l) = (self.inside(w), self.inside(d), self.values);
        let n = l.len();
        let term = |i: usize, j: usize, k: usize| {
            (w[i][k] * d[k][j] + d[i][k] * w[k][j]) * f.second(l[i], l[k], l[j])
        };
        self.outside(&matrix(n, n, |i, j| (0..n).map(|k| term(i, j, k)).sum()))
    }
}

/// The eigenvectors or singular vectors that the derivatives of a function read; at spectra where these vectors are not
/// unique, the derivative need not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Needs {
    /// The first derivative of the function reads no vectors, its second derivative reads all vectors.
    Values,
    /// The derivatives of the function read all vectors.
    Vectors,
    /// The derivatives read the vector of the largest value. If that value is repeated, its derivative is not unique.
    Top,
    /// The derivatives read the vector of the smallest value, at the shorter side of the matrix.
    Least,
    /// The derivatives read no vectors, but the inverse of the matrix.
    Inverse,
    /// The derivatives read no eigenvectors or singular vectors, so they are right for every spectrum.
    Nothing,
}

/// A function of a decomposition, to be differentiated, with its expected derivatives.
struct Case {
    name: &'static str,
    /// Maps the matrix and weights to a number; the weights have the shape of the matrix or of the result.
    loss: fn(Var, Var) -> Var,
    f: Scalar,
    /// The block of `[[0, A], [Aᵀ, 0]]` that contains the result; `None` for the trace.
    block: Option<[usize; 2]>,
    needs: Needs,
}

/// One matrix of a batch.
struct Member {
    about: String,
    a: Matrix,
    /// The eigenvectors and eigenvalues from which the matrix was made. Values that count as equal are exactly equal
    /// here.
    vectors: Matrix,
    values: Vec<f64>,
    /// The values that the decomposition returns, in the order of the spectrum.
    spectrum: Vec<f64>,
}

/// Returns symmetric matrices of order `n` with these eigenvalues: for each spectrum a diagonal matrix and a rotated
/// one.
fn symmetric(n: usize, spectra: &[&[f64]]) -> Vec<Member> {
    let mut all = Vec::new();
    for spectrum in spectra {
        let k = spectrum.len();
        for turned in [false, true] {
            let q = if turned { orthogonal(k, 3) } else { matrix(k, k, |i, j| f64::from(i == j)) };
            // If the spectrum has fewer than n values, the others are zero.
            let vectors = matrix(n, n, |i, j| match (i < k, j < k) {
                (true, true) => q[i][j],
                _ => f64::from(i == j),
            });
            let value = |i: usize| spectrum.get(i).copied().unwrap_or(0.0);
            let a =
                matrix(n, n, |i, j| (0..n).map(|l| vectors[i][l] * value(l) * vectors[j][l]).sum());
            let values: Vec<f64> = (0..n).map(|i| snapped(value(i))).collect();
            let about = format!("{spectrum:?}, turned: {turned}");
            all.push(Member { about, a, vectors, spectrum: values.clone(), values });
        }
    }
    all
}

/// Returns m by n matrices with these singular values. The vectors and values of each member are those of `[[0, A],
/// [Aᵀ, 0]]`.
fn general(m: usize, n: usize, spectra: &[&[f64]]) -> Vec<Member> {
    let mut all = Vec::new();
    for spectrum in spectra {
        for turned in [false, true] {
            let base = |n: usize, seed: usize| match turned {
                true => orthogonal(n, seed),
                false => matrix(n, n, |i, j| f64::from(i == j)),
            };
            let (u, v, k) = (base(m, 1), base(n, 2), m.min(n));
            let a = matrix(m, n, |i, j| (0..k).map(|l| u[i][l] * spectrum[l] * v[j][l]).sum());
            let half = 0.5f64.sqrt();
            // The columns are eigenvectors: (u, v) / √2 for s, (u, -v) / √2 for -s, and vectors of the longer side that
            // belong to no singular value.
            let vectors = matrix(m + n, m + n, |i, j| {
                let (l, sign) = (j % k, if j < k { 1.0 } else { -1.0 });
                match (j < 2 * k, i < m) {
                    (true, true) => half * u[i][l],
                    (true, false) => half * sign * v[i - m][l],
                    (false, true) if m > n => u[i][j - k],
                    (false, false) if n > m => v[i - m][j - k],
                    (false, _) => 0.0,
                }
            });
            let spectrum: Vec<f64> = spectrum[..k].iter().map(|s| snapped(*s)).collect();
            let value = |j: usize| match j {
                j if j < k => spectrum[j],
                j if j < 2 * k => -spectrum[j - k],
                _ => 0.0,
            };
            let about = format!("{m} by {n}, {spectrum:?}, turned: {turned}");
            let values = (0..m + n).map(value).collect();
            all.push(Member { about, a, vectors, values, spectrum });
        }
    }
    all
}

/// Rounds a value to six decimals, so that values that differ only by rounding become equal.
fn snapped(x: f64) -> f64 {
    (x * 1e6).round() / 1e6 + 0.0
}

/// A combination of transforms: its name, its order, and a function of (f, a, d) that returns the first derivative of f
/// at a (along d, or the gradient) or the second derivative along d.
type Mode = (&'static str, usize, fn(&dyn Fn(Var) -> Var, Var, Var) -> Var);

const MODES: &[Mode] = &[
    ("jvp", 1, |f, a, d| jvp(|a: Var| f(a))((a, d)).1.reshape([1, 1])),
    ("vjp", 1, |f, a, _| grad(|a: Var| f(a))(a)),
    ("jvp of jvp", 2, |f, a, d| {
        let slope = |a: Var| jvp(|a: Var| f(a))((a, d)).1;
        jvp(slope)((a, d)).1.reshape([1, 1])
    }),
    ("jvp of vjp", 2, |f, a, d| jvp(grad(|a: Var| f(a)))((a, d)).1),
    ("vjp of jvp", 2, |f, a, d| grad(|a: Var| jvp(|a: Var| f(a))((a, d)).1)(a)),
    ("vjp of vjp", 2, |f, a, d| grad(|a: Var| (grad(|a: Var| f(a))(a) * d).sum())(a)),
];

fn tensor(x: &Matrix) -> Tensor {
    Tensor::from_rows(x).unwrap()
}

/// Returns whether the derivative of this order exists at the matrix, given the vectors that the function reads.
fn exists(case: &Case, member: &Member, order: usize) -> bool {
    let s = &member.spectrum;
    let size = s.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let apart = |i: usize| (0..s.len()).all(|j| i == j || (s[i] - s[j]).abs() > 1e-6 * size);
    let of = |x: f64| s.iter().position(|y| *y == x);
    // If the matrix is not square, vectors for its singular value 0 exist that the thin decomposition does not contain.
    let beyond = member.a.len() != member.a[0].len();
    let all = (0..s.len()).all(|i| apart(i) && !(beyond && s[i].abs() < 1e-6));
    match case.needs {
        Needs::Nothing => true,
        Needs::Values => order == 1 || all,
        Needs::Inverse => s.iter().all(|x| x.abs() > 1e-6),
        Needs::Vectors => all,
        Needs::Top => of(3.0).is_some_and(apart),
        Needs::Least => of(0.0).is_some_and(apart),
    }
}

/// Compares the derivatives of every case at every matrix, in every mode of this order, with the expected ones. They
/// must be right or, if the derivative does not exist, nan.
#[track_caller]
fn check(order: usize, cases: &[Case], members: &[Member], dtype: Dtype) {
    let within = if dtype == Dtype::F32 { 1e-3 } else { 1e-8 };
    check_within(order, cases, members, dtype, within);
}

/// Checks derivatives like [`check`], with a tolerance relative to the largest element of the expected derivative.
#[track_caller]
fn check_within(order: usize, cases: &[Case], members: &[Member], dtype: Dtype, tolerance: f64) {
    let [m, n] = [members[0].a.len(), members[0].a[0].len()];
    let direction = noise(m, n, 11);
    let stacked: Vec<Tensor> = members.iter().map(|member| tensor(&member.a)).collect();
    let all = run(move |x: Vec<Var>| stack(&x, 0).convert(dtype), stacked).unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        let block = case.block.unwrap_or([0, 1]);
        let sizes = [m, n];
        let symmetric = members[0].values.len() == m;
        let [rows, columns] = if symmetric { [m, n] } else { block.map(|b| sizes[b]) };
        let weights = noise(rows, columns, 5);
        for (mode, _, derivative) in MODES.iter().filter(|mode| mode.1 == order) {
            let loss = case.loss;
            let of = move |(a, d, w): (Var, Var, Var)| {
                vmap(|a: Var| derivative(&|a| loss(a, w), a, d))(a)
            };
            let cast = |x: &Matrix| run(move |x: Var| x.convert(dtype), tensor(x)).unwrap();
            let got = jit(of).interpreted().call((all.clone(), cast(&direction), cast(&weights)));
            let got = match got {
                Ok(got) => run(|x: Var| x.convert(Dtype::F64), got).unwrap(),
                Err(e) => panic!("{} under {mode}: {e}", case.name),
            };
            for (member, got) in members.iter().zip(got.rows()) {
                let want = truth(case, member, order, &weights, &direction);
                let along = |x: &Matrix| -> f64 {
                    x.iter().flatten().zip(direction.iter().flatten()).map(|(x, d)| x * d).sum()
                };
                let want = if mode.starts_with("jvp") && !mode.contains("vjp") {
                    vec![along(&want)]
                } else {
                    want.concat()
                };
                let exists = exists(case, member, order);
                let several = case.block.is_none() && order == 1;
                // At matrices that are singular up to rounding, second derivatives through a factorization divide by
                // pivots that are rounding errors.
                let pivots = case.needs == Needs::Inverse && order == 2;
                if !exists && (several || pivots) {
                    continue;
                }
                let size = want.iter().fold(1.0f64, |most, x| most.max(x.abs()));
                let within = tolerance * size;
                let got = got.to_vec::<f64>().unwrap();
                assert_eq!(got.len(), want.len());
                let bad = got
                    .iter()
                    .zip(&want)
                    .any(|(got, want)| !(got.is_nan() && !exists || (got - want).abs() <= within));
                if bad {
                    let text = format!(
                        "{} at {}, {mode}, exists: {exists}\n  got  {got:.5?}\n  want {want:.5?}",
                        case.name, member.about
                    );
                    wrong.push(text);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns the expected derivative of the loss of a case.
fn truth(case: &Case, member: &Member, order: usize, w: &Matrix, d: &Matrix) -> Matrix {
    let of = Spectral { vectors: &member.vectors, values: &member.values };
    let (m, n) = (member.a.len(), member.a[0].len());
    let whole = member.values.len();
    if whole == m {
        let w = match case.block {
            Some(_) => w.clone(),
            None => matrix(m, m, |i, j| f64::from(i == j)),
        };
        return match order {
            1 => of.gradient(case.f, &w),
            _ => of.curvature(case.f, &w, d),
        };
    }
    // In `[[0, A], [Aᵀ, 0]]` the weights W of the result fill one block, and the direction fills both blocks beside the
    // diagonal.
    let start = [0, m];
    let inner = |x: &Matrix, [p, q]: [usize; 2], i: usize, j: usize| {
        let (i, j) = (i.wrapping_sub(start[p]), j.wrapping_sub(start[q]));
        x.get(i).and_then(|row| row.get(j)).copied().unwrap_or(0.0)
    };
    let weights = matrix(whole, whole, |i, j| match case.block {
        Some(block) => inner(w, block, i, j),
        // For the trace: every singular value occurs twice, as s and -s, so each counts half.
        None => f64::from(i == j) * 0.5,
    });
    let direction = matrix(whole, whole, |i, j| inner(d, [0, 1], i, j) + inner(d, [0, 1], j, i));
    let found = match order {
        1 => of.gradient(case.f, &weights),
        _ => of.curvature(case.f, &weights, &direction),
    };
    // The matrix occurs twice, as A and as Aᵀ, so the gradient is twice the gradient of one block.
    matrix(m, n, |i, j| 2.0 * found[i][m + j])
}

fn weighed(x: Var, w: Var) -> Var {
    (x * w).sum()
}

/// Returns `V diag(f) Vᵀ`: the function of a matrix with eigenvectors `v` whose values are mapped to `f`.
fn of_values(v: Var, f: Var) -> Var {
    (v * f).matmul(v.t())
}

const SYMMETRIC: &[Case] = &[
    Case {
        name: "V diag(w) Vᵀ",
        loss: |a, x| {
            let (w, v) = linalg::eigh(a);
            weighed(of_values(v, w), x)
        },
        f: SAME,
        block: Some([0, 0]),
        needs: Needs::Vectors,
    },
    Case {
        name: "V exp(w) Vᵀ",
        loss: |a, x| {
            let (w, v) = linalg::eigh(a);
            weighed(of_values(v, w.exp()), x)
        },
        f: EXP,
        block: Some([0, 0]),
        needs: Needs::Vectors,
    },
    Case {
        name: "V Vᵀ",
        loss: |a, x| {
            let v = linalg::eigh(a).1;
            weighed(v.matmul(v.t()), x)
        },
        f: ONE,
        block: Some([0, 0]),
        needs: Needs::Vectors,
    },
    Case {
        name: "Σ w²",
        loss: |a, _| linalg::eigvalsh(a).square().sum(),
        f: SQUARE,
        block: None,
        needs: Needs::Values,
    },
    Case {
        name: "Σ exp w",
        loss: |a, _| linalg::eigh(a).0.exp().sum(),
        f: EXP,
        block: None,
        needs: Needs::Values,
    },
    Case {
        name: "projector of the largest",
        loss: |a, x| {
            let n = a.shape()[0];
            let v = linalg::eigh(a).1.slice_axis(-1, n - 1..);
            weighed(v.matmul(v.t()), x)
        },
        f: TOP,
        block: Some([0, 0]),
        needs: Needs::Top,
    },
    Case {
        name: "eigh_range",
        loss: |a, x| {
            let (w, v) = linalg::eigh_range(a, a.shape()[0] - 1..);
            weighed(of_values(v, w), x)
        },
        f: TOP_ITSELF,
        block: Some([0, 0]),
        needs: Needs::Top,
    },
    Case {
        name: "the largest",
        loss: |a, _| linalg::eigvalsh(a).index(a.shape()[0] - 1),
        f: TOP_ITSELF,
        block: None,
        needs: Needs::Top,
    },
];

/// Functions of decompositions that have derivative rules of their own.
const FUNCTIONS: &[Case] = &[
    Case {
        name: "matrix_function of exp",
        loss: |a, x| weighed(linalg::matrix_function(a, |w: Var| w.exp()), x),
        f: EXP,
        block: Some([0, 0]),
        needs: Needs::Nothing,
    },
    Case {
        name: "matrix_function of a square",
        loss: |a, x| weighed(linalg::matrix_function(a, |w: Var| w * w), x),
        f: SQUARE,
        block: Some([0, 0]),
        needs: Needs::Nothing,
    },
    Case {
        name: "spectral_sum",
        loss: |a, _| linalg::spectral_sum(a, |w: Var| w * w),
        f: SQUARE,
        block: None,
        needs: Needs::Nothing,
    },
    Case {
        name: "spectral_projector",
        loss: |a, x| weighed(linalg::spectral_projector(-a, 1), x),
        f: TOP,
        block: Some([0, 0]),
        needs: Needs::Top,
    },
];

/// Eigenvalues of the tested matrices of order 5; shorter lists are padded with zeros.
const EIGENVALUES: &[&[f64]] = &[
    &[-1.0, 0.25, 3.0, 1.25, -0.5],
    &[-1.0, 0.5, 3.0, 0.5, 1.25],
    &[1.0, 1.0, 1.0, 1.0, 3.0],
    &[-1.0, 0.5, 3.0, 0.5, -1.0],
    &[3.0, 0.0, 0.0, 0.0, 0.0],
    &[-1.0, 0.5, 0.5 + f64::EPSILON, 1.25, 3.0],
    &[1.0, 1.0 + f64::EPSILON, 1.0 + 2.0 * f64::EPSILON, 1.0 + 4.0 * f64::EPSILON, 3.0],
    &[3.0, 3.0, 0.5, -1.0, 1.0],
    &[3.0, 3.0 + 4.0 * f64::EPSILON, 0.5, 0.5, 1.0],
    &[1.0; 5],
    &[0.0; 5],
    &[3.0, 1.0, -1.0],
    &[3.0, 1.0],
    &[3.0],
];

/// Functions of symmetric matrices by decompositions that are not symmetric (QR, LU, singular values, ..).
const OTHERS: &[Case] = &[
    Case {
        name: "Q R",
        loss: |a, x| {
            let (q, r) = linalg::qr(halves(a));
            weighed(q.matmul(r), x)
        },
        f: SAME,
        block: Some([0, 0]),
        needs: Needs::Inverse,
    },
    Case {
        name: "Rᵀ R",
        loss: |a, x| {
            let r = linalg::qr(halves(a)).1;
            weighed(r.t().matmul(r), x)
        },
        f: SQUARE,
        block: Some([0, 0]),
        needs: Needs::Inverse,
    },
    Case {
        name: "P L U",
        loss: |a, x| {
            let (p, l, u) = linalg::lu(halves(a));
            weighed(p.matmul(l).matmul(u), x)
        },
        f: SAME,
        block: Some([0, 0]),
        needs: Needs::Inverse,
    },
    Case {
        name: "L Lᵀ",
        loss: |a, x| {
            let a = halves(a);
            let l = linalg::cholesky(a.matmul(a));
            weighed(l.matmul(l.t()), x)
        },
        f: SQUARE,
        block: Some([0, 0]),
        needs: Needs::Inverse,
    },
    Case {
        name: "V diag(w) V⁻¹",
        loss: |a, x| {
            let ((w, _), (v, _)) = linalg::eig(halves(a));
            weighed(linalg::solve(v.t(), (v * w).t()).t(), x)
        },
        f: SAME,
        block: Some([0, 0]),
        needs: Needs::Vectors,
    },
    Case {
        name: "Σ Re w²",
        loss: |a, _| {
            let (re, im) = linalg::eigvals(halves(a));
            (re * re - im * im).sum()
        },
        f: SQUARE,
        block: None,
        needs: Needs::Vectors,
    },
];

fn halves(a: Var) -> Var {
    (a + a.t()) * 0.5
}

const GENERAL: &[Case] = &[
    Case {
        name: "U diag(s) Vᵀ",
        loss: |a, x| {
            let (u, s, vt) = linalg::svd(a);
            weighed((u * s).matmul(vt), x)
        },
        f: SAME,
        block: Some([0, 1]),
        needs: Needs::Vectors,
    },
    Case {
        name: "U diag(s³) Vᵀ",
        loss: |a, x| {
            let (u, s, vt) = linalg::svd(a);
            weighed((u * (s * s * s)).matmul(vt), x)
        },
        f: CUBE,
        block: Some([0, 1]),
        needs: Needs::Vectors,
    },
    Case {
        name: "U diag(s²) Uᵀ",
        loss: |a, x| {
            let (u, s, _) = linalg::svd(a);
            weighed(of_values(u, s * s), x)
        },
        f: SQUARE,
        block: Some([0, 0]),
        needs: Needs::Vectors,
    },
    Case {
        name: "V diag(s²) Vᵀ",
        loss: |a, x| {
            let (_, s, vt) = linalg::svd(a);
            weighed(of_values(vt.t(), s * s), x)
        },
        f: SQUARE,
        block: Some([1, 1]),
        needs: Needs::Vectors,
    },
    Case {
        name: "Σ s⁴",
        loss: |a, _| linalg::svdvals(a).square().square().sum(),
        f: FOURTH,
        block: None,
        needs: Needs::Values,
    },
    Case {
        name: "svd_truncated",
        loss: |a, x| {
            let (u, s, vt) = linalg::svd_truncated(a, 1);
            weighed((u * s).matmul(vt), x)
        },
        f: TOP_ITSELF,
        block: Some([0, 1]),
        needs: Needs::Top,
    },
    Case {
        name: "left projector",
        loss: |a, x| {
            let u = linalg::svd(a).0.slice_axis(-1, 0..1);
            weighed(u.matmul(u.t()), x)
        },
        f: TOP,
        block: Some([0, 0]),
        needs: Needs::Top,
    },
    Case {
        name: "right projector",
        loss: |a, x| {
            let v = linalg::svd(a).2.index(0);
            weighed(v.outer(v), x)
        },
        f: TOP,
        block: Some([1, 1]),
        needs: Needs::Top,
    },
    Case {
        name: "the largest",
        loss: |a, _| linalg::svdvals(a).index(0),
        f: TOP_SIZE,
        block: None,
        needs: Needs::Top,
    },
];

/// Functions that have no derivative at singular matrices, because derivatives read the inverse.
const REGULAR: &[Case] = &[
    Case {
        name: "U Vᵀ",
        loss: |a, x| {
            let (u, _, vt) = linalg::svd(a);
            weighed(u.matmul(vt), x)
        },
        f: SIGN,
        block: Some([0, 1]),
        needs: Needs::Vectors,
    },
    Case {
        name: "Σ s",
        loss: |a, _| linalg::svdvals(a).sum(),
        f: SIZE,
        block: None,
        needs: Needs::Values,
    },
];

/// Functions with derivative rules of their own that have no derivative at singular matrices.
const POLAR: &[Case] = &[
    Case {
        name: "polar",
        loss: |a, x| weighed(linalg::polar(a).0, x),
        f: SIGN,
        block: Some([0, 1]),
        needs: Needs::Nothing,
    },
    Case {
        name: "the nuclear norm",
        loss: |a, _| linalg::matrix_norm(a, MatrixNorm::Nuclear),
        f: SIZE,
        block: None,
        needs: Needs::Nothing,
    },
];

const SINGULAR_VALUES: &[&[f64]] = &[
    &[3.0, 1.25, 0.5],
    &[3.0, 1.0, 1.0],
    &[3.0, 1.0 + f64::EPSILON, 1.0],
    &[3.0, 3.0, 1.0],
    &[1.0, 1.0, 1.0],
    &[3.0, 1.0, 0.0],
    &[3.0, 0.0, 0.0],
    &[3.0, 1e-16, 0.0],
    &[0.0, 0.0, 0.0],
];

/// Shapes of square, tall and wide matrices. The last ones have fewer singular values than the spectra have entries;
/// their singular values are the first entries.
const SHAPES: [(usize, usize); 7] = [(3, 3), (4, 3), (3, 5), (7, 3), (2, 6), (5, 1), (1, 4)];

/// Returns matrices of one of [`SHAPES`]. If a matrix has one singular value only, it is 3 or 0, because the functions
/// of the largest value assume a largest value of 3.
fn shaped((m, n): (usize, usize), spectra: &[&[f64]]) -> Vec<Member> {
    let is_usable = |s: &&&[f64]| m.min(n) > 1 || s[0] != 1.0;
    let usable: Vec<&[f64]> = spectra.iter().filter(is_usable).copied().collect();
    general(m, n, &usable)
}

#[test]
fn slopes_of_eigenvalues_and_vectors_are_right_or_nan() {
    check(1, SYMMETRIC, &symmetric(5, EIGENVALUES), Dtype::F64);
}

#[test]
fn curvatures_of_eigenvalues_and_vectors_are_right_or_nan() {
    check(2, SYMMETRIC, &symmetric(5, EIGENVALUES), Dtype::F64);
}

#[test]
fn functions_with_rules_of_their_own_are_right() {
    for order in [1, 2] {
        check(order, FUNCTIONS, &symmetric(5, EIGENVALUES), Dtype::F64);
        for shape in SHAPES {
            check(order, POLAR, &shaped(shape, &SINGULAR_VALUES[..5]), Dtype::F64);
        }
    }
}

#[test]
fn other_decompositions_are_right_or_nan() {
    for order in [1, 2] {
        check(order, OTHERS, &symmetric(5, EIGENVALUES), Dtype::F64);
    }
}

#[test]
fn single_precision_is_right_or_nan() {
    let near = f64::from(f32::EPSILON);
    let spectra: &[&[f64]] = &[
        &[-1.0, 0.25, 3.0, 1.25, -0.5],
        &[-1.0, 0.5, 3.0, 0.5, -1.0],
        &[-1.0, 0.5, 0.5 + near, 1.25, 3.0],
        &[1.0, 1.0 + near, 1.0 + 2.0 * near, 1.0, 3.0],
        &[3.0, 3.0 + 4.0 * near, 0.5, -1.0, 0.5],
        &[3.0, 1.0],
    ];
    check(1, SYMMETRIC, &symmetric(5, spectra), Dtype::F32);
    let spectra: Vec<&[f64]> = SINGULAR_VALUES.iter().copied().filter(|s| s[0] > 0.0).collect();
    for shape in SHAPES {
        check(1, GENERAL, &shaped(shape, &spectra), Dtype::F32);
        check(1, REGULAR, &shaped(shape, &spectra[..5]), Dtype::F32);
        check(1, POLAR, &shaped(shape, &spectra[..5]), Dtype::F32);
    }
}

#[test]
fn slopes_of_singular_values_and_vectors_are_right_or_nan() {
    for shape in SHAPES {
        check(1, GENERAL, &shaped(shape, SINGULAR_VALUES), Dtype::F64);
        check(1, REGULAR, &shaped(shape, &SINGULAR_VALUES[..5]), Dtype::F64);
    }
}

#[test]
fn curvatures_of_singular_values_and_vectors_are_right_or_nan() {
    for shape in SHAPES {
        check(2, GENERAL, &shaped(shape, SINGULAR_VALUES), Dtype::F64);
        check(2, REGULAR, &shaped(shape, &SINGULAR_VALUES[..5]), Dtype::F64);
    }
}

/// The projector onto the vectors of two nearly equal values is smooth: divisions by the gap between these values
/// cancel, except for rounding errors. In a second derivative, the remaining error is the rounding error over the
/// square of the gap, not over its cube.
#[test]
fn curvatures_beside_a_small_gap_lose_digits_as_its_square() {
    let pair = |name, loss, block| Case {
        name,
        loss,
        f: TOP,
        block: Some([block, block]),
        needs: Needs::Nothing,
    };
    let symmetric_case = pair(
        "eigenvectors of two values",
        |a, x| {
            let v = linalg::eigh_range(a, 3..5).1;
            weighed(v.matmul(v.t()), x)
        },
        0,
    );
    let left = pair(
        "left vectors of two values",
        |a, x| {
            let u = linalg::svd_truncated(a, 2).0;
            weighed(u.matmul(u.t()), x)
        },
        0,
    );
    let right = pair(
        "right vectors of two values",
        |a, x| {
            let v = linalg::svd(a).2.slice_axis(0, ..2);
            weighed(v.t().matmul(v), x)
        },
        1,
    );
    for gap in [1e-3, 1e-4, 1e-5] {
        let within = 100.0 * f64::EPSILON / (gap * gap);
        // Functions of the vectors of the shorter side alone are left out. Their derivatives come from another linear
        // system, with errors proportional to the inverse cube of the gap.
        for (m, n, case) in [(3, 3, &left), (3, 3, &right), (4, 3, &left), (3, 5, &right)] {
            let all = general(m, n, &[&[3.0 + gap, 3.0, 1.0]]);
            check_within(2, &[case.copy()], &all, Dtype::F64, within);
        }
        let all = symmetric(5, &[&[-1.0, 0.25, 3.0, 3.0 + gap, -0.5]]);
        check_within(2, &[symmetric_case.copy()], &all, Dtype::F64, within);
    }
}

/// The singular vector of a single value 0, at the shorter side of the matrix, must have derivatives, for matrices with
/// more rows than columns and for matrices with fewer.
#[test]
fn null_vectors_of_the_shorter_side_have_derivatives() {
    let spectra = &[&[3.0, 1.0, 0.0][..], &[3.0, 0.0, 0.0], &[1.0, 1.0, 0.0]];
    let right = Case {
        name: "right null vector",
        loss: |a, x| {
            let v = linalg::svd(a).2.slice_axis(0, 2..);
            weighed(v.t().matmul(v), x)
        },
        f: LEAST,
        block: Some([1, 1]),
        needs: Needs::Least,
    };
    let left = Case {
        name: "left null vector",
        loss: |a, x| {
            let u = linalg::svd(a).0.slice_axis(1, 2..);
            weighed(u.matmul(u.t()), x)
        },
        f: LEAST,
        block: Some([0, 0]),
        needs: Needs::Least,
    };
    for order in [1, 2] {
        check(order, &[right.copy()], &general(5, 3, spectra), Dtype::F64);
        check(order, &[left.copy()], &general(3, 5, spectra), Dtype::F64);
    }
}

impl Case {
    fn copy(&self) -> Case {
        Case { ..*self }
    }
}
