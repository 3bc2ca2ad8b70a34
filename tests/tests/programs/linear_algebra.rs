//! Linear algebra under every transform: second derivatives, batches of gradients, loops, budgets, both engines. If the
//! factorization of a batch member fails, the other members must not be affected.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::prelude::*;
use tapeloom::{Error, Kind};

/// A function of a square matrix that does not depend on the free choices of a factorization, such as signs of vectors.
type Of = fn(Var) -> Var;

/// The tested functions, each with a name. Their arguments are symmetric positive definite matrices with distinct
/// eigenvalues.
const ALL: &[(&str, Of)] = &[
    ("cholesky", linalg::cholesky),
    ("cho_solve", |a| linalg::cho_solve(linalg::cholesky(a), a.slice_axis(-1, 0..2))),
    ("solve", |a| linalg::solve(a, a.slice_axis(-1, 0..2) + 1.0)),
    ("lu", |a| {
        let (p, l, u) = linalg::lu(a);
        p.matmul(l).matmul(u) + linalg::lu_factor(a).packed
    }),
    ("lu_solve", |a| linalg::lu_solve(linalg::lu_factor(a), a.slice_axis(-1, 0..2).sin())),
    ("inv", linalg::inv),
    ("det", linalg::det),
    ("slogdet", |a| linalg::slogdet(a).1),
    ("qr", |a| {
        let (q, r) = linalg::qr(a);
        q.sin() + r
    }),
    ("wide qr", |a| {
        let (q, r) = linalg::qr(a.slice_axis(-2, 0..2));
        q.matmul(r.cos())
    }),
    ("tall qr", |a| linalg::qr(a.slice_axis(-1, 0..2)).0),
    ("eigh", |a| {
        let (w, v) = linalg::eigh(a);
        v * w.expand_dims(-2)
    }),
    ("eigvalsh", linalg::eigvalsh),
    ("svd", |a| {
        let (u, s, vt) = linalg::svd(a.slice_axis(-1, 0..2));
        u.matmul(vt) + s.sum_axis(-1).expand_dims(-1).expand_dims(-1)
    }),
    ("svdvals", linalg::svdvals),
    ("polar", |a| {
        let (u, _, vt) = linalg::svd(a);
        u.matmul(vt)
    }),
    ("eigh vectors", |a| linalg::eigh(a).1),
    ("eig vectors", |a| linalg::eig(a + a.triu(1)).1.0),
    ("eig", |a| {
        let ((re, im), (v, _)) = linalg::eig(a + a.triu(1));
        v * (re + im).expand_dims(-2)
    }),
    ("eigvals", |a| linalg::eigvals(a + a.triu(1)).0),
    ("pinv", |a| linalg::pinv(a.slice_axis(-1, 0..2))),
    ("expm", |a| linalg::expm(a * 0.5)),
    ("sqrtm", linalg::sqrtm),
    ("matrix_function", |a| linalg::matrix_function(a, |x: Var| x.sin())),
    ("spectral_sum", |a| linalg::spectral_sum(a, |x: Var| x.exp())),
    ("sqrtm_psd", linalg::sqrtm_psd),
    ("spectral_projector", |a| linalg::spectral_projector(a, 1)),
    ("polar factors", |a| {
        let (q, h) = linalg::polar(a.slice_axis(-1, 0..2));
        q.matmul(h.sin())
    }),
    ("nuclear norm", |a| linalg::matrix_norm(a, MatrixNorm::Nuclear)),
    ("condition", linalg::cond_number),
];

/// Returns a batch of n by n matrices with elements `1 / (1 + i + j + b)`, b the batch index, and 2, 3, .. added to the
/// diagonal.
fn matrices(batch: &[usize], n: usize, dtype: Dtype) -> Tensor {
    let shape = [batch, &[n, n]].concat();
    let rank = shape.len();
    let make = move |()| {
        let count = |axis| iota(&shape[..], axis, dtype);
        let (i, j) = (count(rank - 2), count(rank - 1));
        let member = if rank == 3 { count(0) } else { zeros(&shape[..], dtype) };
        1.0 / (1.0 + i + j + member) + i.eq(j).convert(dtype) * (i + 2.0)
    };
    run(make, ()).unwrap()
}

/// Returns the sum of all elements of `x` with weights cos 0, cos 1, ..: a scalar to be differentiated.
fn weighed(x: Var) -> Var {
    let all = x.reshape([x.size()]);
    (all * arange(x.size(), x.dtype()).cos()).sum()
}

fn bits(x: &Tensor) -> Vec<u64> {
    x.to_vec::<f64>().unwrap().into_iter().map(f64::to_bits).collect()
}

#[track_caller]
fn close(name: &str, x: &Tensor, y: &Tensor, within: f64) {
    let (x, y) = (x.to_vec::<f64>().unwrap(), y.to_vec::<f64>().unwrap());
    let size = y.iter().fold(1.0f64, |m, y| m.max(y.abs()));
    for (x, y) in x.iter().zip(&y) {
        assert!((x - y).abs() <= within * size, "{name}: {x} and {y}");
    }
}

#[test]
fn derivatives_of_second_order_are_those_of_differences() {
    for (name, f) in ALL {
        for (n, order) in [(3, 2), (5, 1)] {
            let a = matrices(&[], n, Dtype::F64);
            check_grads(|a: Var| weighed(f(a)), &a, order)
                .unwrap_or_else(|e| panic!("{name} of {n}: {e}"));
        }
    }
}

#[test]
fn a_batch_of_gradients_is_each_gradient() {
    for (name, f) in ALL {
        let loss = |a: Var| weighed(f(a));
        for n in [3, 9] {
            let batch = matrices(&[4], n, Dtype::F64);
            let all = run(vmap(grad(loss)), &batch).unwrap();
            let each = jit(grad(loss));
            for (member, got) in batch.rows().zip(all.rows()) {
                close(name, &got, &each.call(&member).unwrap(), 1e-11);
            }
        }
    }
}

#[test]
fn both_engines_have_the_same_bits() {
    for (name, f) in ALL {
        for n in [3, 9] {
            let a = matrices(&[2], n, Dtype::F64);
            let (native, interpreted) = (jit(*f), jit(*f).interpreted());
            let (x, y) = (native.call(&a).unwrap(), interpreted.call(&a).unwrap());
            // Compare these functions exactly: they contain no matrix product, which the matrix library would sum in
            // another order than the interpreter.
            if ["cholesky", "lu_solve", "qr", "eigvalsh", "svdvals", "eigvals"].contains(name) {
                assert_eq!(bits(&x), bits(&y), "{name} of {n}");
            }
            close(name, &x, &y, 1e-12);
        }
    }
}

#[test]
fn gradients_through_loops_obey_every_policy() {
    for (name, f) in ALL {
        let step = move |x: Var| x + 0.01 * weighed(f(x)).tanh();
        let walk = move |a: Var| fori_loop(4, |(_, x): (Var, Var)| step(x), a).sum();
        let a = matrices(&[], 3, Dtype::F64);
        check_grads(walk, &a, 1).unwrap_or_else(|e| panic!("{name}: {e}"));
        let want = run(grad(walk), &a).unwrap();
        for policy in [Policy::Everything, Policy::Nothing, Policy::Bytes(600)] {
            let kept = checkpoint(walk, policy.clone());
            let got = run(grad(kept), &a).unwrap();
            close(&format!("{name} under {policy:?}"), &got, &want, 1e-12);
        }
    }
}

#[test]
fn single_precision_is_near_double() {
    // General eigenvalues are left out, because their order may differ between f32 and f64.
    for (name, f) in ALL.iter().filter(|(name, _)| !name.starts_with("eig") || name.contains('h')) {
        let gradient = grad(|a: Var| weighed(f(a)));
        let wide = run(&gradient, matrices(&[], 4, Dtype::F64)).unwrap();
        let narrow = run(&gradient, matrices(&[], 4, Dtype::F32)).unwrap();
        assert_eq!(narrow.dtype(), Dtype::F32);
        let narrow = run(|x: Var| x.convert(Dtype::F64), &narrow).unwrap();
        close(name, &narrow, &wide, 2e-4);
    }
}

/// If one batch member has a nan, and another is not positive definite, the remaining members must have the same bits
/// as when computed alone.
#[test]
fn a_member_that_fails_is_alone() {
    for (name, f) in ALL {
        for n in [4, 80] {
            let good = matrices(&[3], n, Dtype::F64);
            let mut bad = good.clone();
            bad.set(&[1, 0, 0], f64::NAN).unwrap();
            let f = jit(*f);
            let (want, got) = (f.call(&good).unwrap(), f.call(&bad).unwrap());
            for member in [0, 2] {
                let [want, got] = [&want, &got].map(|y| bits(&y.row(member).unwrap()));
                assert_eq!(want, got, "{name} of {n}, member {member}");
            }
            let failed = got.row(1).unwrap().to_vec::<f64>().unwrap();
            assert!(failed.iter().any(|x| x.is_nan()), "{name} of {n}");
        }
    }
}

#[test]
fn missing_derivatives_are_errors_with_the_line() {
    let tall = [[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]];
    let square = [[1.0, 2.0], [3.0, 4.0]];
    let assert_refused = |error: Error, what: &str| {
        assert_eq!(error.kind(), Kind::NotDifferentiable);
        let text = error.to_string();
        assert!(text.contains(what) && text.contains("linear_algebra.rs"), "{text}");
    };
    assert_refused(run(grad(|a: Var| linalg::qr_full(a).0.sum()), tall).unwrap_err(), "`qr_full`");
    assert_refused(
        run(grad(|a: Var| linalg::svd_full(a).0.sum()), tall).unwrap_err(),
        "`svd_full`",
    );
    assert_refused(
        run(grad(|a: Var| linalg::schur(a).0.sum()), square).unwrap_err(),
        "`schur` has no derivative",
    );
}

#[test]
fn mistakes_are_errors_with_a_remedy() {
    let wide = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
    let text = |error: Error| error.to_string();
    let found = text(run(linalg::cholesky, wide).unwrap_err());
    assert!(found.contains("`cholesky` needs square matrices, got f64[2,3]"), "{found}");
    let found = text(run(linalg::svdvals, [1.0, 2.0]).unwrap_err());
    assert!(found.contains("`svdvals` needs a matrix, got f64[2]"), "{found}");
    let found = text(run(linalg::inv, [[1i64, 2], [3, 4]]).unwrap_err());
    assert!(found.contains("`inv` needs floats, got i64[2,2]"), "{found}");
    let solve = |(a, b): (Var, Var)| linalg::solve(a, b);
    let found = text(run(solve, ([[1.0, 2.0], [3.0, 4.0]], [1.0, 2.0, 3.0])).unwrap_err());
    assert!(found.contains("right sides are [2] or [.., 2, columns]"), "{found}");
    let found = text(run(solve, ([[1.0, 2.0], [3.0, 4.0]], [1f32, 2.0])).unwrap_err());
    assert!(found.contains("one dtype"), "{found}");
}

#[test]
fn an_accelerator_refuses_a_library_routine() {
    let a = matrices(&[], 9, Dtype::F64);
    let error = jit(|a: Var| linalg::cholesky(a))
        .simulate(&a, tapeloom::accelerator::Machine::cal())
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Target);
    let text = error.to_string();
    assert!(
        text.contains("`cholesky` is a library routine") && text.contains("linear_algebra.rs"),
        "{text}"
    );
}

/// If eigenvalues are equal, as those of the unit matrix here, functions that do not depend on the order of the
/// eigenvalues must still have finite derivatives.
#[test]
fn symmetric_functions_of_equal_eigenvalues_have_their_derivative() {
    let unit = [[1.0, 0.0], [0.0, 1.0]];
    let trace = |a: Var| linalg::eigvalsh(a).sum();
    assert_eq!(run(grad(trace), unit).unwrap(), Tensor::from(unit));
    let log = |a: Var| linalg::eigvalsh(a).ln().sum();
    assert_eq!(run(grad(log), unit).unwrap(), Tensor::from(unit));
    let nuclear = |a: Var| linalg::svdvals(a).sum();
    close("nuclear", &run(grad(nuclear), unit).unwrap(), &Tensor::from(unit), 1e-14);
}

/// If a matrix has no real square root, the root and its derivatives must be nan.
#[test]
fn a_root_that_does_not_exist_has_derivatives_of_nan() {
    let a = [[1.0, 0.3], [0.3, -1.0]];
    let sum = |a: Var| linalg::sqrtm(a).sum();
    let (root, slope) = run(|a: Var| (linalg::sqrtm(a), grad(sum)(a)), a).unwrap();
    let moved = run(|a: Var| jvp(linalg::sqrtm)((a, a)).1, a).unwrap();
    for x in [root, slope, moved] {
        assert!(x.to_vec::<f64>().unwrap().iter().all(|x| x.is_nan()), "{x}");
    }
}

#[test]
fn deficient_matrices_have_the_values_and_derivatives_that_exist() {
    let singular = [[1.0, 2.0], [2.0, 4.0]];
    let (sign, log) = run(|a: Var| linalg::slogdet(a), singular).unwrap();
    assert_eq!((sign.item::<f64>().unwrap(), log.item::<f64>().unwrap()), (0.0, f64::NEG_INFINITY));
    assert_eq!(run(linalg::det, [[0.0; 3]; 3]).unwrap().item::<f64>().unwrap(), 0.0);
    // The gradient of the determinant is the adjugate, which is zero for a matrix of rank n - 2 or less.
    let zero = run(grad(linalg::det), [[0.0; 3]; 3]).unwrap();
    assert_eq!(zero, Tensor::from([[0.0; 3]; 3]));
    let x = run(|(a, b): (Var, Var)| linalg::solve(a, b), (singular, [1.0, 1.0])).unwrap();
    assert!(x.to_vec::<f64>().unwrap().iter().all(|x| !x.is_finite()));
    // Least squares with matrices t A of rank one: along t the rank does not change, so derivatives exist.
    let along = |t: Var| {
        let a = stack(&[stack(&[t, 2.0 * t], 0), stack(&[2.0 * t, 4.0 * t], 0)], 0);
        linalg::lstsq(a, t.ones_like().broadcast_to([2])).sum()
    };
    check_grads(along, 1.5, 2).unwrap();
}

/// Multiples of a matrix have the same eigenvectors, so derivatives of functions of the vectors must be the same for
/// scales of 2^-900 to 2^900, although squares of the eigenvalues overflow or underflow.
#[test]
fn derivatives_of_vectors_far_from_one_are_kept() {
    for (name, f) in
        ALL.iter().filter(|(name, _)| ["polar", "eigh vectors", "eig vectors"].contains(name))
    {
        let a = matrices(&[], 4, Dtype::F64);
        let near = run(grad(|a: Var| weighed(f(a))), &a).unwrap();
        for exponent in [-900, -600, 600, 900] {
            let times = 2f64.powi(exponent);
            let far = run(grad(|a: Var| weighed(f(a * times))), &a).unwrap();
            close(&format!("{name}, 2^{exponent}"), &far, &near, 1e-9);
        }
    }
}

/// Norms of matrices whose squared elements overflow or underflow, and norms and condition numbers of singular
/// matrices: values and derivatives must be right.
#[test]
fn measures_are_right_at_the_ends_of_the_range() {
    let norm = |a: Var| linalg::matrix_norm(a, MatrixNorm::Frobenius);
    for size in [1e-200, 1.0, 1e200] {
        let a = Tensor::from([[3.0 * size, 4.0 * size]]);
        let (value, slope) = run(value_and_grad(norm), &a).unwrap();
        assert!((value.item::<f64>().unwrap() / size - 5.0).abs() < 1e-14);
        close("slope", &slope, &Tensor::from([[0.6, 0.8]]), 1e-14);
    }
    assert_eq!(run(norm, [[0.0, 0.0]]).unwrap().item::<f64>().unwrap(), 0.0);
    assert_eq!(run(norm, [[f64::INFINITY, 0.0]]).unwrap().item::<f64>().unwrap(), f64::INFINITY);
    let (value, slope) = run(value_and_grad(norm), [[f64::NAN, 2.0]]).unwrap();
    assert!(value.numbers().chain(slope.numbers()).all(|x| x.is_nan()), "{slope:?}");
    // The square of the Frobenius norm has a second derivative of 2 everywhere. Here the square is computed from the
    // norm, which has no derivative at 0.
    let square = |a: Var| norm(a) * norm(a);
    let slope = run(grad(square), [[0.0, 0.0]]).unwrap();
    assert_eq!(slope, Tensor::from([[0.0, 0.0]]));
    let along = |a: Var| jvp(square)((a, a.ones_like())).1;
    for bend in
        [run(grad(along), [[0.0, 0.0]]), run(grad(|a: Var| grad(square)(a).sum()), [[0.0, 0.0]])]
    {
        assert!(bend.unwrap().numbers().all(f64::is_nan));
    }
    // A zero element beside other elements, and a zero matrix beside another batch member, must have this second
    // derivative too.
    let batch = [[[0.0, 2.0]], [[0.0, 0.0]]];
    let bend = run(grad(|a: Var| grad(|a: Var| square(a).sum())(a).sum()), batch).unwrap();
    assert_eq!(bend.numbers().take(2).collect::<Vec<_>>(), [2.0, 2.0]);
    for a in [[[0.0, 0.0], [0.0, 0.0]], [[2.0, 0.0], [0.0, 0.0]]] {
        let cond = run(linalg::cond_number, a).unwrap();
        assert_eq!(cond.item::<f64>().unwrap(), f64::INFINITY);
    }
    let fit = |(x, y): (Var, Var)| linalg::polyfit(x, y, usize::MAX);
    let error = run(fit, ([0.0, 1.0], [1.0, 2.0])).unwrap_err();
    assert!(error.to_string().contains("linear_algebra.rs"), "{error}");
}

/// Functions of the leading vector alone, the projector `[.., n, n]` or `[.., m, m]` onto it: right singular, left
/// singular, eigenvector of the symmetric part, and principal component of the rows.
const LEADING: &[(&str, Of)] = &[
    ("right", |a| {
        let v = linalg::svd(a).2.slice_axis(-2, 0..1);
        v.swap_axes(-2, -1).matmul(v)
    }),
    ("left", |a| {
        let u = linalg::svd(a).0.slice_axis(-1, 0..1);
        u.matmul(u.swap_axes(-2, -1))
    }),
    ("component", |a| {
        let centered = a - a.mean_axis(-2).expand_dims(-2);
        let (w, v) = linalg::eigh(centered.swap_axes(-2, -1).matmul(centered));
        let last = a.shape()[a.rank() - 1] - 1;
        let (w, v) = (w.slice_axis(-1, last..), v.slice_axis(-1, last..));
        v.matmul(v.swap_axes(-2, -1)) * w.ln().expand_dims(-1)
    }),
];

/// Regressions: derivatives that were wrong at eigenvalues that are equal, or equal up to rounding.
#[test]
fn no_derivative_is_wrong_where_values_are_equal() {
    let numbers = |x: Tensor| x.to_vec::<f64>().unwrap();
    let right_or_nan = |got: Tensor, want: &[f64], what: &str| {
        let got = numbers(got);
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(want) {
            assert!(got.is_nan() || (got - want).abs() < 1e-9, "{what}: {got:?}, right {want:?}");
        }
    };
    let w = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]];
    let symmetric = [1.0, 3.0, 5.0, 3.0, 5.0, 7.0, 5.0, 7.0, 9.0];
    let diagonal = [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]];
    let by_eigh = |(a, w): (Var, Var)| {
        let (l, v) = linalg::eigh(a);
        (w * (v * l).matmul(v.t())).sum()
    };
    let slope = |f: fn((Var, Var)) -> Var| {
        run(move |(a, w): (Var, Var)| grad(move |a: Var| f((a, w)))(a), (diagonal, w))
    };
    right_or_nan(slope(by_eigh).unwrap(), &symmetric, "eigh");
    let by_svd = |(a, w): (Var, Var)| {
        let (u, s, vt) = linalg::svd(a);
        (w * (u * s).matmul(vt)).sum()
    };
    right_or_nan(slope(by_svd).unwrap(), &w.concat(), "svd");
    // The projector onto one eigenvector of a repeated eigenvalue has no derivative, so the gradient must not be
    // finite.
    let projector = |(a, w): (Var, Var)| {
        let v = linalg::eigh(a).1.slice_axis(-1, 0..1);
        (w * v.matmul(v.t())).sum()
    };
    assert!(numbers(slope(projector).unwrap()).iter().any(|x| x.is_nan()));
    // x' exp(A) x for a matrix with two pairs of eigenvalues that are equal up to rounding; expected is the gradient of
    // the series of the exponential.
    let turned = |a: Var| {
        let q = linalg::qr(a).0;
        (q * constant([1.0, 1.0, 2.0, 2.0])).matmul(q.t())
    };
    let a = run(turned, matrices(&[], 4, Dtype::F64)).unwrap();
    let x = || constant([0.5, -1.0, 0.25, 2.0]);
    let by_eigh = move |a: Var| {
        let (l, v) = linalg::eigh(a);
        (x().dot(v).square() * l.exp()).sum()
    };
    let by_series = move |a: Var| x().dot(linalg::expm((a + a.t()) * 0.5).dot(x()));
    let want = numbers(run(grad(by_series), &a).unwrap());
    right_or_nan(run(grad(by_eigh), &a).unwrap(), &want, "exp");
    let curvature = |f: fn(Var) -> Var| move |a: Var| hvp(f)((a, a));
    let want = numbers(
        run(
            curvature(|a| {
                let x = constant([0.5, -1.0, 0.25, 2.0]);
                x.dot(linalg::expm((a + a.t()) * 0.5).dot(x))
            }),
            &a,
        )
        .unwrap(),
    );
    let got = run(
        curvature(|a| {
            let (l, v) = linalg::eigh(a);
            (constant([0.5, -1.0, 0.25, 2.0]).dot(v).square() * l.exp()).sum()
        }),
        &a,
    );
    right_or_nan(got.unwrap(), &want, "curvature of exp");
    // The eigenvalues of this matrix are t and -t, so the sum of their squares is 2 t², with a second derivative of 4
    // even at t = 0, where they are equal.
    let squares = |t: Var| {
        let zero = t.zeros_like();
        let a = stack(&[stack(&[zero, t], 0), stack(&[t, zero], 0)], 0);
        linalg::eigvalsh(a).square().sum()
    };
    right_or_nan(run(grad(grad(squares)), 0.0).unwrap(), &[4.0], "reverse over reverse");
    right_or_nan(run(jvp(grad(squares)), (0.0, 1.0)).unwrap().1, &[4.0], "forward over reverse");
}

/// The projector onto the eigenvector of the largest of four eigenvalues; each function slices the vector from the
/// result in another way.
const WAYS: &[(&str, Of)] = &[
    ("slice", |a| onto(linalg::eigh(a).1.slice_axis(-1, 3..))),
    ("eigh_range", |a| onto(linalg::eigh_range(a, 3..).1)),
    ("index of the transpose", |a| {
        let v = linalg::eigh(a).1.t().index(3);
        v.outer(v)
    }),
    ("index_axis", |a| {
        let v = linalg::eigh(a).1.index_axis(-1, 3);
        v.outer(v)
    }),
    ("flipped", |a| onto(linalg::eigh(a).1.flip(-1).slice_axis(-1, 0..1))),
    ("unstacked", |a| {
        let v = linalg::eigh(a).1.unstack(-1)[3];
        v.outer(v)
    }),
    ("scaled before", |a| {
        let (w, v) = linalg::eigh(a);
        let u = (v * w).slice_axis(-1, 3..);
        onto(u) / w.slice_axis(-1, 3..).square()
    }),
    ("taken", |a| onto(linalg::eigh(a).1.take(arange(1, Dtype::I64) + 3, -1))),
    ("reshaped", |a| {
        onto(linalg::eigh(a).1.reshape([2, 2, 4]).slice_axis(-1, 3..).reshape([4, 1]))
    }),
    ("in a loop", |a| {
        let step = |(_, a): (Var, Var)| a * 1.0 + 0.0 * onto(linalg::eigh(a).1.slice_axis(-1, 3..));
        onto(linalg::eigh(fori_loop(2, step, a)).1.slice_axis(-1, 3..))
    }),
    ("in a branch", |a| {
        let of = |a: Var| onto(linalg::eigh(a).1.slice_axis(-1, 3..));
        cond(a.index((0, 0)).gt(-1e9), of, |a: Var| a, a)
    }),
    ("checkpointed", |a| {
        checkpoint(|a: Var| onto(linalg::eigh(a).1.slice_axis(-1, 3..)), Policy::Nothing)(a)
    }),
    ("outlined", |a| outline(|a: Var| onto(linalg::eigh(a).1.slice_axis(-1, 3..)))(a)),
];

fn onto(v: Var) -> Var {
    v.matmul(v.t())
}

/// For slices of every form, the compiler must find the eigenvectors that a program reads. The derivative must then be
/// right although the unread vectors belong to equal eigenvalues.
#[test]
fn vectors_that_are_read_are_seen_through_slices_of_every_form() {
    let turned = |a: Var| {
        let q = linalg::qr(a).0;
        (q * constant([1.0, 1.0, 1.0, 3.0])).matmul(q.t())
    };
    let a = run(turned, matrices(&[], 4, Dtype::F64)).unwrap();
    let want = run(grad(|a: Var| weighed(WAYS[0].1(a))), &a).unwrap();
    let curvature = |f: Of| {
        move |a: Var| grad(move |a: Var| grad(move |a: Var| weighed(f(a)))(a).square().sum())(a)
    };
    let second = run(curvature(WAYS[0].1), &a).unwrap();
    assert!(second.to_vec::<f64>().unwrap().iter().all(|x| x.is_finite()));
    for (name, f) in WAYS {
        close(name, &run(grad(|a: Var| weighed(f(a))), &a).unwrap(), &want, 1e-12);
        close(name, &run(curvature(*f), &a).unwrap(), &second, 1e-10);
    }
    // In a recording, `eigh_range` must be one equation, which reads only the slice.
    let recorded = record(|a: Var| weighed(onto(linalg::eigh_range(a, 3..).1)), &a).unwrap();
    close("recorded", &recorded.pull(1.0).unwrap(), &want, 1e-12);
    // Returns a third derivative of `f` along the direction sin a.
    let third = |f: Of| {
        let slope = move |a: Var| (grad(move |a: Var| weighed(f(a)))(a) * a.sin()).sum();
        move |a: Var| grad(move |a: Var| (grad(slope)(a) * a.cos()).sum())(a)
    };
    let got = run(third(WAYS[0].1), &a).unwrap();
    assert!(got.to_vec::<f64>().unwrap().iter().all(|x| x.is_finite()), "{got}");
}

/// The derivative of a vector whose eigenvalue or singular value is separate must be right, although other values are
/// equal, or equal up to rounding.
#[test]
fn leading_vectors_have_derivatives_beside_equal_values() {
    let twice = [[1.0, 2.0, 0.5, -1.0], [0.3, -0.7, 1.0, 0.4]];
    let twice = Tensor::from([twice[0], twice[0], twice[1], twice[1]]);
    let one = |i: usize, j: usize| (1.0 + i as f64) * (0.5 + j as f64 * j as f64);
    let rank_one = Tensor::from([0, 1, 2].map(|i| [0, 1, 2, 3, 4].map(|j| one(i, j))));
    let scale = Tensor::from([3.0, 2.0, 0.0, 0.0]);
    let diagonal = run(|s: Var| s.diag(0), &scale).unwrap();
    let turned = |s: [f64; 4]| {
        let turn = |(a, s): (Var, Var)| {
            let q = linalg::qr(a).0;
            (q * s).matmul(q.swap_axes(-2, -1))
        };
        run(turn, (&matrices(&[], 4, Dtype::F64), &s)).unwrap()
    };
    let near = turned([3.0, 1.0 + f64::EPSILON, 1.0, 0.5]);
    let transposed = run(|a: Var| a.swap_axes(-2, -1), &rank_one).unwrap();
    for a in [&twice, &rank_one, &transposed, &diagonal, &near, &turned([5.0, 1.0, 1.0, 1.0])] {
        for (name, f) in LEADING {
            let loss = |a: Var| weighed(f(a));
            check_grads(loss, a, 2).unwrap_or_else(|e| panic!("{name} of {a}: {e}"));
            let batch = stack_of(a);
            let all = run(vmap(grad(loss)), &batch).unwrap();
            let each = jit(grad(loss));
            for (member, got) in batch.rows().zip(all.rows()) {
                close(name, &got, &each.call(&member).unwrap(), 1e-11);
            }
        }
    }
    // A vector of two equal eigenvalues has no derivative: the result must not be finite.
    let last = |a: Var| weighed(linalg::eigh(a).1.slice_axis(-1, 0..1));
    let lost = run(grad(last), &diagonal).unwrap().to_vec::<f64>().unwrap();
    assert!(lost.iter().any(|x| !x.is_finite()), "{lost:?}");
}

/// Returns the batch of a matrix and its double.
fn stack_of(a: &Tensor) -> Tensor {
    run(|a: Var| stack(&[a, a * 2.0], 0), a).unwrap()
}

/// If matrix and right-hand sides are scaled alike, solutions and derivatives of `lstsq` must not change, also if
/// squares of the scale overflow or underflow.
#[test]
fn least_squares_far_from_one_keep_their_derivatives() {
    let (a, b) = (matrices(&[], 3, Dtype::F64), Tensor::from([1.0, -2.0, 0.5]));
    let tall = |a: Var| a.slice_axis(-1, 0..2);
    let loss = |scale: f64, dtype: Dtype| {
        move |(a, b): (Var, Var)| {
            let (a, b) = (a.convert(dtype) * scale, b.convert(dtype) * scale);
            weighed(linalg::lstsq(tall(a), b)).convert(Dtype::F64)
        }
    };
    for (dtype, exponents, within) in
        [(Dtype::F64, [-900, -400, 400, 900], 1e-12), (Dtype::F32, [-100, -60, 60, 100], 1e-4)]
    {
        let near = run(grad(loss(1.0, dtype)), (&a, &b)).unwrap();
        for exponent in exponents {
            let far = run(grad(loss(2f64.powi(exponent), dtype)), (&a, &b)).unwrap();
            close(&format!("{dtype} 2^{exponent}"), &far.0, &near.0, within);
            close(&format!("{dtype} 2^{exponent}"), &far.1, &near.1, within);
        }
    }
}

/// The symmetric part of a symmetric matrix must be the matrix itself, at the largest and smallest magnitudes; norms of
/// empty arrays are errors or 0.
#[test]
fn symmetric_parts_and_norms_have_no_edges() {
    let large = [[f64::MAX, 0.0], [0.0, f64::MAX / 4.0]];
    let w = run(linalg::eigvalsh, large).unwrap().to_vec::<f64>().unwrap();
    assert!(w.iter().all(|w| w.is_finite()), "{w:?}");
    let l = run(linalg::cholesky, large).unwrap().to_vec::<f64>().unwrap();
    assert_eq!(l, [f64::MAX.sqrt(), 0.0, 0.0, f64::MAX.sqrt() / 2.0]);
    let tiny = run(linalg::cholesky, [[f64::from_bits(1)]]).unwrap().item::<f64>().unwrap();
    assert_eq!(tiny, f64::from_bits(1).sqrt());
    let nothing = Tensor::from([[0.0; 3]; 0]);
    let norm = |of: MatrixNorm| run(|a: Var| linalg::matrix_norm(a, of), &nothing);
    for of in [MatrixNorm::Frobenius, MatrixNorm::Nuclear] {
        assert_eq!(norm(of).unwrap().item::<f64>().unwrap(), 0.0);
    }
    for of in [MatrixNorm::Spectral, MatrixNorm::SmallestValue, MatrixNorm::Rows] {
        assert_eq!(norm(of).unwrap_err().kind(), Kind::Shape);
    }
}
