//! Matrix functions that do not depend on the choice of vectors, compared with formulas without eigenvalues and
//! singular values: all modes up to third order, for spectra with repeated, zero, padded and nearly equal values.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use tapeloom::Kind;
use tapeloom::prelude::*;

type Of = fn(Var) -> Var;

/// Returns a number that depends on all elements and is not a function of eigenvalues.
fn weighed(x: Var) -> Var {
    let all = x.reshape([x.size()]);
    (all * (arange(x.size(), x.dtype()) + 0.5).cos()).sum()
}

/// Returns the value of `f` at a matrix, and derivatives along three directions: in forward and in reverse mode,
/// and in all nestings of both.
fn all_orders(f: Of) -> impl Fn((Var, [Var; 3])) -> Vec<Var> {
    move |(a, [d, e, h])| {
        let y = move |a: Var| weighed(f(a));
        let slope = move |a: Var| grad(y)(a);
        let along = move |g: Var, d: Var| (g * d).sum();
        let first = move |a: Var| jvp(y)((a, d)).1;
        let back = move |a: Var| along(slope(a), d);
        let second = move |a: Var| jvp(first)((a, e)).1;
        vec![
            f(a),
            slope(a),
            jvp(f)((a, d)).1,
            jvp(slope)((a, d)).1,
            grad(back)(a),
            grad(first)(a),
            second(a),
            grad(second)(a),
            grad(move |a: Var| along(grad(back)(a), e))(a),
            jvp(move |a: Var| jvp(slope)((a, d)).1)((a, e)).1,
            jvp(move |a: Var| second(a))((a, h)).1,
        ]
    }
}

/// Returns the values and derivatives of [`all_orders`] in one mode for each order, because the reference formulas
/// have long programs.
fn each_order(f: Of) -> impl Fn((Var, [Var; 3])) -> Vec<Var> {
    move |(a, [d, e, _])| {
        let slope = move |a: Var| grad(move |a: Var| weighed(f(a)))(a);
        let ((first, second), (_, third)) = jvp(move |a: Var| jvp(slope)((a, d)))((a, e));
        vec![f(a), first, second, third]
    }
}

/// The order of derivative of each result of [`all_orders`].
const ALL: [usize; 11] = [0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3];

/// Returns `V diag(w) Vᵀ` for fixed orthonormal vectors that are not the coordinate axes.
fn rotated(w: &[f64]) -> Tensor {
    let n = w.len();
    let count: Vec<f64> = (0..n * n).map(|i| ((i * i + 1) as f64).sin()).collect();
    let make = move |(w, x): (Var, Var)| {
        let (v, _) = linalg::qr(x.reshape([n, n]));
        (v * w).matmul(v.t())
    };
    run(make, (w.to_vec(), count)).unwrap()
}

fn directions(n: usize) -> [Tensor; 3] {
    [1.0, 2.0, 3.0].map(|k| {
        let x = (0..n * n).map(|i| (k * i as f64 + 0.3 * k * k).cos()).collect::<Vec<f64>>();
        run(move |x: Var| x.reshape([n, n]), x).unwrap()
    })
}

/// Positive eigenvalues of similar sizes.
const POSITIVE: [[f64; 4]; 6] = [
    [0.5, 1.0, 1.75, 2.5],
    [1.0, 1.0, 2.0, 2.0],
    [1.5, 1.5, 1.5, 1.5],
    [1.0, 1.0 + 4e-16, 2.0, 2.0 - 4e-16],
    [1.0, 1.0 + 1e-9, 1.0 + 3e-5, 1.01],
    [0.7, 0.9, 0.9 + 1e-3, 0.9 + 2e-3],
];

/// Eigenvalues of both signs, some of them zero.
const ANY: [[f64; 4]; 5] = [
    [-1.0, -1.0, 0.5, 0.5],
    [0.0, 0.0, 0.0, 1.0],
    [0.0; 4],
    [-1e-9, 0.0, 1e-12, 0.5],
    [-2.0, 0.25, 0.3, 1.0],
];

/// Compares two functions at matrices with the given eigenvalues, rotated and diagonal.
#[track_caller]
fn same(name: &str, [of, want]: [Of; 2], spectra: &[[f64; 4]], within: [f64; 4]) {
    let (of, want) = (jit(each_order(of)), jit(each_order(want)));
    let all = |x: &(Tensor, [Tensor; 3])| (of.call(x).unwrap(), want.call(x).unwrap());
    hold(name, &all, &[0, 1, 2, 3], spectra, within);
}

/// Two lists of arrays, one array for each of the tested orders.
type Both<'a> = dyn Fn(&(Tensor, [Tensor; 3])) -> (Vec<Tensor>, Vec<Tensor>) + 'a;

#[track_caller]
fn hold(name: &str, both: &Both<'_>, orders: &[usize], spectra: &[[f64; 4]], within: [f64; 4]) {
    for w in spectra {
        let diagonal = run(|w: Var| eye(4, Dtype::F64) * w, w).unwrap();
        for a in [rotated(w), diagonal] {
            let (got, want) = both(&(a, directions(4)));
            for (mode, (got, want)) in got.iter().zip(&want).enumerate() {
                let order = orders[mode];
                let (got, want) = (got.to_vec::<f64>().unwrap(), want.to_vec::<f64>().unwrap());
                let size = want.iter().fold(1.0f64, |m, x| m.max(x.abs()));
                for (got, want) in got.iter().zip(&want) {
                    let off = (got - want).abs() / size;
                    assert!(
                        off <= within[order],
                        "{name} at {w:?}, mode {mode}: {got} for {want}, off {off:e}"
                    );
                }
            }
        }
    }
}

fn part(a: Var) -> Var {
    (a + a.t()) * 0.5
}

const EXACT: [f64; 4] = [1e-13, 1e-13, 1e-12, 1e-11];

#[test]
fn the_exponential_is_that_of_pade() {
    let both: [Of; 2] =
        [|a| linalg::matrix_function(a, |x: Var| x.exp()), |a| linalg::expm(part(a))];
    same("exp", both, &[&POSITIVE[..], &ANY].concat(), EXACT);
}

/// The functions multiply to known matrices, `a` or the identity, so their derivatives must be those of `a` and of the
/// identity.
#[test]
fn roots_and_inverses_solve_their_equations() {
    let root: [Of; 2] = [
        |a| {
            let root = linalg::sqrtm_psd(a);
            root.matmul(root)
        },
        part,
    ];
    same("sqrt", root, &POSITIVE, EXACT);
    let inverse: [Of; 2] =
        [|a| linalg::matrix_function(a, |x: Var| 1.0 / x), |a| linalg::inv(part(a))];
    same("inverse", inverse, &POSITIVE, EXACT);
    let white: [Of; 2] = [
        |a| {
            let root = linalg::inv_sqrtm_psd(a);
            root.matmul(part(a)).matmul(root)
        },
        unit,
    ];
    same("inverse root", white, &POSITIVE, EXACT);
}

#[test]
fn the_logarithm_is_the_inverse_of_the_exponential() {
    let log: [Of; 2] = [|a| linalg::matrix_function(linalg::logm_psd(a), |x: Var| x.exp()), part];
    same("log", log, &POSITIVE, EXACT);
}

/// Returns the identity matrix for every `a`, as the expected value of a function whose derivatives are zero.
fn unit(a: Var) -> Var {
    a * 0.0 + eye(4, Dtype::F64)
}

#[test]
fn the_root_is_that_of_the_iteration_for_general_matrices() {
    let slope = |f: Of| jit(move |a: Var| (f(a), grad(move |a: Var| weighed(f(a)))(a)));
    let (of, want) = (slope(linalg::sqrtm_psd), slope(|a| linalg::sqrtm(part(a))));
    let both = |(a, _): &(Tensor, [Tensor; 3])| {
        let list = |(x, y): (Tensor, Tensor)| vec![x, y];
        (list(of.call(a).unwrap()), list(want.call(a).unwrap()))
    };
    hold("sqrt", &both, &[0, 1], &POSITIVE, EXACT);
}

/// The expected derivatives are those of matrix products, which need no divisions by differences of eigenvalues. The
/// test covers every mode, and points where the function and an eigenvalue are 0.
#[test]
fn a_polynomial_is_that_of_products() {
    let of = jit(all_orders(|a| linalg::matrix_function(a, |x: Var| x * x * x - 2.0 * x)));
    let want = jit(all_orders(|a| {
        let a = part(a);
        a.matmul(a).matmul(a) - 2.0 * a
    }));
    let all = |x: &(Tensor, [Tensor; 3])| (of.call(x).unwrap(), want.call(x).unwrap());
    hold("polynomial", &all, &ALL, &[&POSITIVE[..], &ANY].concat(), EXACT);
}

/// A projector is idempotent and commutes with the matrix. Both equations together determine its derivatives.
#[test]
fn a_projector_commutes_with_its_matrix() {
    let spectra = [
        [-1.0, -1.0, 0.5, 0.5],
        [0.0, 0.0, 1.0, 1.0 + 4e-16],
        [-1e-9, 0.0, 0.5, 0.75],
        [-2.0, 0.0, 0.5, 0.5 + 1e-7],
    ];
    let lowest: Of = |a| linalg::spectral_projector(a, 2);
    let square: [Of; 2] = [
        |a| {
            let p = linalg::spectral_projector(a, 2);
            p.matmul(p)
        },
        lowest,
    ];
    same("square", square, &spectra, EXACT);
    let product: [Of; 2] = [
        |a| linalg::spectral_projector(a, 2).matmul(part(a)),
        |a| part(a).matmul(linalg::spectral_projector(a, 2)),
    ];
    same("product", product, &spectra, EXACT);
    let trace = |a: Var| lowest(a).diagonal().sum();
    for w in spectra {
        let two = run(trace, rotated(&w)).unwrap().item::<f64>().unwrap();
        assert!((two - 2.0).abs() < 1e-13);
    }
}

/// Tests the positive part of a matrix, which is the nearest matrix without negative eigenvalues. The function of its
/// eigenvalues, max(x, 0), has a kink at 0, between eigenvalues.
#[test]
fn the_positive_part_is_that_of_the_matrix_and_of_its_negative() {
    fn positive(a: Var) -> Var {
        linalg::matrix_function(a, |x: Var| x.maximum(0.0))
    }
    let spectra = [[-1.0, -1.0, 0.5, 0.5], [-1e-3, 1e-3, 1.0, 1.0], [-0.25, 1.0, 1.0, 1.0 + 4e-16]];
    // Second and third divided differences are as large as inverse powers of the distance between eigenvalues.
    let within = [1e-13, 1e-12, 1e-9, 1e-6];
    same("difference", [|a| positive(a) - positive(-a), part], &spectra, within);
    same("product", [|a| positive(a).matmul(positive(-a)), |a| a * 0.0], &spectra, within);
}

/// Eigenvalues of both signs, none of them zero; their absolute values are the singular values.
const REGULAR: [[f64; 4]; 5] = [
    [0.5, 1.0, 1.75, 2.5],
    [-1.0, 1.0, 0.5, 0.5],
    [1.0, 1.0, 1.0, 1.0],
    [1.0, 1.0 + 4e-16, -1.0, 2.0 - 4e-16],
    [-1.0, 1.0 + 1e-9, 1.0 + 3e-5, 1.01],
];

/// `Q H = A` with a symmetric `H` and orthonormal columns of `Q`: these equations determine the derivatives.
#[test]
fn polar_factors_solve_their_equations() {
    let whole: [Of; 2] = [
        |a| {
            let (q, h) = linalg::polar(a);
            q.matmul(h)
        },
        |a| a,
    ];
    same("polar", whole, &REGULAR, EXACT);
    let gram: Of = |a| {
        let q = linalg::polar(a).0;
        q.t().matmul(q)
    };
    same("columns", [gram, unit], &REGULAR, EXACT);
    let tall: Of = |a| a.slice_axis(1, 0..2);
    let halves: [Of; 2] = [
        |a| {
            let (q, h) = linalg::polar(a.slice_axis(1, 0..2));
            q.matmul(h)
        },
        tall,
    ];
    same("tall", halves, &REGULAR, EXACT);
    // The symmetric factor of a matrix with more columns than rows is singular; its rows are orthonormal.
    let rows: [Of; 2] = [
        |a| {
            let q = linalg::polar(a.slice_axis(1, 0..2).t()).0;
            q.matmul(q.t())
        },
        |a| unit(a).slice_axis(0, 0..2).slice_axis(1, 0..2),
    ];
    same("rows", rows, &REGULAR, EXACT);
    let wide: [Of; 2] = [
        |a| linalg::polar(a.slice_axis(1, 0..2).t()).0.t(),
        |a| linalg::polar(a.slice_axis(1, 0..2)).0,
    ];
    same("wide", wide, &REGULAR, EXACT);
}

#[test]
fn sums_over_eigenvalues_and_singular_values_are_traces() {
    fn trace(a: Var) -> Var {
        a.diagonal().sum()
    }
    let cubes: [Of; 2] = [
        |a| linalg::spectral_sum(a, |x: Var| x * x * x),
        |a| trace(part(a).matmul(part(a)).matmul(part(a))),
    ];
    same("sum of cubes", cubes, &[&POSITIVE[..], &ANY].concat(), EXACT);
    let logs: [Of; 2] =
        [|a| linalg::spectral_sum(a, |x: Var| x.ln()), |a| linalg::slogdet(part(a)).1];
    same("sum of logarithms", logs, &POSITIVE, EXACT);
    let squares: [Of; 2] =
        [|a| linalg::spectral_sum(a, |x: Var| x * x), |a| part(a).square().sum()];
    same("sum of squares", squares, &[&POSITIVE[..], &ANY].concat(), EXACT);
    let nuclear: [Of; 2] = [
        |a| linalg::matrix_norm(a, MatrixNorm::Nuclear),
        |a| trace(linalg::sqrtm_psd(a.t().matmul(a))),
    ];
    same("nuclear", nuclear, &REGULAR, [1e-12, 1e-12, 1e-11, 1e-10]);
    // The sum of squares of the eigenvalues, on a line of matrices through zero.
    let line = |t: Var| {
        let a = constant([[0.0, 1.0], [1.0, 0.0]]);
        linalg::spectral_sum(a * t, |x: Var| x * x)
    };
    assert_eq!(run(grad(grad(line)), 0.0).unwrap().item::<f64>().unwrap(), 4.0);
}

/// The function is differentiable with respect to a parameter, alone and together with the matrix: `t² A³`.
#[test]
fn captured_parameters_have_derivatives() {
    type Pair = fn((Var, Var)) -> Var;
    let of: Pair = |(a, t)| weighed(linalg::matrix_function(a, |x: Var| (x * t) * (x * t) * x));
    let want: Pair = |(a, t)| {
        let a = part(a);
        weighed(a.matmul(a).matmul(a) * t * t)
    };
    let all = |f: Pair| {
        let first = move |x: (Var, Var)| {
            let (da, dt) = grad(f)(x);
            weighed(da) + dt.sin()
        };
        let second = move |x: (Var, Var)| {
            let (da, dt) = grad(first)(x);
            weighed(da) * dt
        };
        jit(move |x: (Var, Var)| {
            (grad(f)(x), grad(first)(x), jvp(first)((x, x)).1, grad(second)(x))
        })
    };
    let (of, want) = (all(of), all(want));
    for w in [[0.5, 1.0, 1.75, 2.5], [1.0, 1.0, 2.0, 2.0], [0.0; 4]] {
        let args = (rotated(&w), 0.75);
        let (got, want) = (of.call(&args).unwrap(), want.call(&args).unwrap());
        let flat = |((a, b), (c, d), e, (f, g)): (TensorPair, TensorPair, Tensor, TensorPair)| {
            [a, b, c, d, e, f, g].iter().flat_map(numbers).collect::<Vec<_>>()
        };
        for (i, (got, want)) in flat(got).iter().zip(flat(want)).enumerate() {
            let off = (got - want).abs() / want.abs().max(1.0);
            assert!(off <= 1e-11, "{i} at {w:?}: {got} for {want}");
        }
    }
}

type TensorPair = (Tensor, Tensor);

/// One matrix alone, in a batch, in a loop, in a checkpoint and in the interpreter gives the same result.
#[test]
fn batches_loops_checkpoints_and_both_engines_agree() {
    let exp = |a: Var| linalg::matrix_function(a, |x: Var| x.exp());
    let loss = move |a: Var| weighed(exp(a));
    let a = rotated(&[1.0, 1.0, 2.0, 2.0 + 1e-12]);
    let slope = run(grad(loss), &a).unwrap();
    let batch = run(|a: Var| stack(&[a, a * 0.5, a], 0), &a).unwrap();
    let near = |x: &Tensor, y: &Tensor, within: f64| {
        let (x, y) = (x.to_vec::<f64>().unwrap(), y.to_vec::<f64>().unwrap());
        assert_eq!(x.len(), y.len());
        for (x, y) in x.iter().zip(&y) {
            assert!((x - y).abs() <= within * y.abs().max(1.0), "{x} for {y}");
        }
    };
    let all = run(vmap(grad(loss)), &batch).unwrap();
    let rows: Vec<Tensor> = all.rows().collect();
    near(&rows[0], &slope, 1e-13);
    near(&rows[2], &slope, 1e-13);
    // `matrix_function` of a batch along the leading axis must equal a batch of calls.
    near(&run(grad(|a: Var| vmap(weighed)(exp(a)).sum()), &batch).unwrap(), &all, 1e-13);
    // The function of the eigenvalues may capture a parameter that differs between batch members.
    let each = |(a, t): (Var, Var)| {
        vmap(move |t: Var| weighed(linalg::matrix_function(a, |x: Var| x * x * t)))(t).sum()
    };
    let times = [1.0, 0.5, 1.0];
    let (da, dt) = run(grad(each), (&a, times)).unwrap();
    let plain = |(a, t): (Var, Var)| weighed(part(a).matmul(part(a))) * t.sum();
    let (want_a, want_t) = run(grad(plain), (&a, times)).unwrap();
    near(&da, &want_a, 1e-12);
    near(&dt, &want_t, 1e-12);
    // A loop of three steps must give the results of the unrolled steps.
    let step = move |a: Var| exp(a * 0.25) * 0.5;
    let looped = move |a: Var| weighed(fori_loop(3, move |(_, a): (Var, Var)| step(a), a));
    let unrolled = move |a: Var| weighed(step(step(step(a))));
    let want = run(hvp_along(unrolled), &a).unwrap();
    near(&run(hvp_along(looped), &a).unwrap(), &want, 1e-12);
    near(&jit(hvp_along(looped)).interpreted().call(&a).unwrap(), &want, 1e-12);
    near(
        &run(hvp_along(move |a: Var| checkpoint(unrolled, Policy::Bytes(2000))(a)), &a).unwrap(),
        &want,
        1e-12,
    );
}

/// Returns the product of the Hessian of `f` with a fixed direction, by reverse mode over reverse mode.
fn hvp_along(f: impl Fn(Var) -> Var + Copy) -> impl Fn(Var) -> Var {
    grad(move |a: Var| weighed(grad(f)(a)))
}

#[test]
fn single_precision_is_near_double() {
    let loss = |a: Var| weighed(linalg::matrix_function(a, |x: Var| x.exp()));
    let f = move |a: Var| (grad(loss)(a), hvp_along(loss)(a));
    let a = rotated(&[1.0, 1.0, 1.0 + 1e-3, 2.0]);
    let single = run(|a: Var| a.convert(Dtype::F32), &a).unwrap();
    let (got, want) = (run(f, &single).unwrap(), run(f, &a).unwrap());
    for (got, want, within) in [(got.0, want.0, 1e-5), (got.1, want.1, 1e-4)] {
        let got: Vec<f32> = got.to_vec().unwrap();
        for (got, want) in got.iter().zip(want.to_vec::<f64>().unwrap()) {
            assert!(
                (f64::from(*got) - want).abs() <= within * want.abs().max(1.0),
                "{got} for {want}"
            );
        }
    }
}

fn numbers(x: &Tensor) -> Vec<f64> {
    x.to_vec().unwrap()
}

/// If the derivative does not exist, or the value is not unique, the result is nan.
#[test]
fn undefined_derivatives_are_nan_or_infinite() {
    let none = |x: &Tensor| numbers(x).iter().all(|x| x.is_nan());
    let diagonal = |w: [f64; 4]| run(|w: Var| eye(4, Dtype::F64) * w, w).unwrap();
    let closed = diagonal([1.0, 1.0 + 2e-16, 2.0, 3.0]);
    let lowest = |a: Var| linalg::spectral_projector(a, 1);
    assert!(none(&run(lowest, &closed).unwrap()));
    assert!(none(&run(grad(|a: Var| weighed(lowest(a))), &closed).unwrap()));
    let deficient = diagonal([1.0, 2.0, 3.0, 1e-17]);
    let q = |a: Var| linalg::polar(a).0;
    assert!(numbers(&run(q, &deficient).unwrap()).iter().all(|x| x.is_finite()));
    assert!(none(&run(grad(|a: Var| weighed(q(a))), &deficient).unwrap()));
    let singular = diagonal([0.0, 0.0, 1.0, 4.0]);
    let root = run(linalg::sqrtm_psd, &singular).unwrap();
    assert_eq!(root, diagonal([0.0, 0.0, 1.0, 2.0]));
    let slope = run(grad(|a: Var| weighed(linalg::sqrtm_psd(a))), &singular).unwrap();
    assert!(numbers(&slope).iter().all(|x| !x.is_finite()), "{slope}");
    let negative = diagonal([-1.0, 0.0, 1.0, 4.0]);
    assert!(none(&run(linalg::sqrtm_psd, &negative).unwrap()));
    assert!(none(&run(grad(|a: Var| weighed(linalg::sqrtm_psd(a))), &negative).unwrap()));
}

#[test]
fn a_fourth_derivative_is_an_error_that_says_so() {
    let a = [[1.0, 0.5], [0.5, 1.0]];
    for (name, f) in [
        ("matrix_function", (|a| linalg::matrix_function(a, |x: Var| x.sin())) as Of),
        ("spectral_projector", |a| linalg::spectral_projector(a, 1)),
        ("polar", |a| linalg::polar(a).0),
    ] {
        let first = move |a: Var| grad(move |a: Var| weighed(f(a)))(a);
        let second = move |a: Var| grad(move |a: Var| weighed(first(a)))(a);
        let third = move |a: Var| grad(move |a: Var| weighed(second(a)))(a);
        run(third, a).unwrap_or_else(|e| panic!("{name}: {e}"));
        let error = run(grad(move |a: Var| weighed(third(a))), a).unwrap_err();
        let text = error.to_string();
        assert!(error.kind() == Kind::NotDifferentiable && text.contains(name), "{text}");
        assert!(text.contains("rules") && text.contains("matrix_functions.rs"), "{text}");
    }
}

#[test]
fn mistakes_are_errors_with_a_remedy() {
    let unit = [[1.0, 0.0], [0.0, 1.0]];
    let error = run(|a: Var| linalg::matrix_function(a, |x: Var| x.sum()), unit).unwrap_err();
    assert_eq!(error.kind(), Kind::Rule);
    assert!(
        error.to_string().contains("the function of `matrix_function` gives f64[] for f64[2]"),
        "{error}"
    );
    let error = run(|a: Var| linalg::spectral_sum(a, |x: Var| x.gt(0.0)), unit).unwrap_err();
    assert_eq!(error.kind(), Kind::Rule);
    let error = run(|a: Var| linalg::spectral_projector(a, 3), unit).unwrap_err();
    assert_eq!(error.kind(), Kind::Shape);
    let wide = [[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]];
    for f in [linalg::sqrtm_psd, linalg::logm_psd, linalg::inv_sqrtm_psd] {
        assert_eq!(run(f, wide).unwrap_err().kind(), Kind::Shape);
        assert_eq!(run(f, [[1i64, 0], [0, 1]]).unwrap_err().kind(), Kind::Dtype);
    }
    assert_eq!(run(|a: Var| linalg::polar(a).0, [1.0]).unwrap_err().kind(), Kind::Shape);
}

/// A divided difference has samples between eigenvalues, where a function that combines elements has other values.
/// Its derivative would be wrong, although its value at the eigenvalues is right.
#[test]
fn functions_that_combine_eigenvalues_are_nan_or_errors() {
    let a = [[1.0, 0.0], [0.0, 2.0]];
    let share: Of = |a| linalg::matrix_function(a, |x: Var| x / x.sum());
    let total: Of = |a| linalg::spectral_sum(a, |x: Var| x * x.max());
    for f in [share, total] {
        let (y, slope) =
            run(move |a: Var| (f(a), grad(move |a: Var| weighed(f(a)))(a)), a).unwrap();
        assert!(y.numbers().chain(slope.numbers()).all(|x| x.is_nan()), "{y:?} {slope:?}");
    }
    // The function of a single number must not refer to axis 0, which does not exist.
    let softmax = |a: Var| linalg::matrix_function(a, |x: Var| x.softmax(0));
    assert_eq!(run(softmax, a).unwrap_err().kind(), Kind::Shape);
    let weights = |(a, c): (Var, Var)| linalg::matrix_function(a, move |x: Var| x * c);
    assert_eq!(run(weights, (a, [1.0, 2.0])).unwrap_err().kind(), Kind::Rule);
    // The sum runs over terms of one element, not over elements, so the closure is elementwise and is accepted.
    let series: Of = |a| {
        let terms = |x: Var| (x.expand_dims(-1) * constant([0.5, 0.1, 0.01])).sin().sum_axis(-1);
        linalg::matrix_function(a, terms)
    };
    check_grads(series, [[1.0, 0.0], [0.0, 1.0]], 2).unwrap();
}

#[test]
fn empty_matrices_have_empty_functions() {
    for shape in [[0, 0], [0, 0]] {
        let f = move |()| {
            let a = zeros(shape, Dtype::F64);
            let sum = linalg::spectral_sum(a, |x: Var| x.exp());
            (linalg::matrix_function(a, |x: Var| x.exp()), sum, linalg::polar(a))
        };
        let (x, sum, (q, h)) = run(f, ()).unwrap();
        assert_eq!(sum.item::<f64>().unwrap(), 0.0);
        assert!([x, q, h].iter().all(|x| x.shape() == shape));
    }
    let none = run(|()| linalg::sqrtm_psd(zeros([0, 2, 2], Dtype::F64)), ()).unwrap();
    assert_eq!(none.shape(), [0, 2, 2]);
}
