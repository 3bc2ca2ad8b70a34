//! Values defined by equations (`custom_linear_solve`, roots, fixed points): the derivatives must be those of the
//! equation, for every solver that computes the value.

use std::rc::Rc;
use tapeloom::prelude::*;
use tapeloom_tests::{Agreement, Sweep};

/// The tolerance of comparisons with values that iterative solvers compute.
const SOLVED: Agreement = Agreement::Within { relative: 1e-7, absolute: 1e-7 };

type F = Rc<dyn Fn((Var, Var)) -> Var>;

/// A name, and a transform of a function of `(a, b)`.
type Transform = (&'static str, fn(F) -> F);

/// A part of the expected error message, a wrong program, and its argument.
type Bad = (&'static str, Box<dyn Fn(Var) -> Var>, Tensor);

/// Returns the matrix `a` plus 3 on the diagonal, so that it is well conditioned.
fn matrix(a: Var) -> Var {
    a + 3.0 * eye(3, Dtype::F64)
}

/// Returns triples: a name, a function of `a: f64[3,3]` and `b: f64[3]` whose value a solver computes, and the same
/// function as an explicit formula.
fn pairs() -> Vec<(&'static str, F, F)> {
    // Solves `m x = b` by Cramer's rule: the explicit formula.
    fn solution(m: Var, b: Var) -> Var {
        let det = |m: Var| {
            let e = |i: i64, j: i64| m.index((i, j));
            let minor = |j: i64, k: i64| e(1, j) * e(2, k) - e(1, k) * e(2, j);
            e(0, 0) * minor(1, 2) - e(0, 1) * minor(0, 2) + e(0, 2) * minor(0, 1)
        };
        let column = |j: i64| det(m.t().at(j).set(b).t()) / det(m);
        stack(&[column(0), column(1), column(2)], 0)
    }
    let with = |solve: fn(&dyn Fn(Var) -> Var, Var) -> Var| -> F {
        Rc::new(move |(a, b): (Var, Var)| {
            let m = matrix(a);
            custom_linear_solve(|x: Var| m.dot(x), b, solve)
        })
    };
    let exact = Until { relative: 1e-13, most: 100 };
    let plain: F = Rc::new(|(a, b)| solution(matrix(a), b));
    vec![
        ("gmres", with(|a, b| gmres(a, b, Until { relative: 1e-13, most: 100 })), plain.clone()),
        // The solver iterates x + (b - A x) / 4, with a static trip count.
        (
            "richardson",
            with(|a, b| fori_loop(80, |(_, x): (Var, Var)| x + (b - a(x)) * 0.25, b)),
            plain.clone(),
        ),
        (
            "normal equations by conjugate gradients",
            Rc::new(move |(a, b)| {
                let m = matrix(a);
                custom_linear_solve(
                    |x: Var| m.t().dot(m.dot(x)),
                    m.t().dot(b),
                    |a, b| cg(a, b, exact),
                )
            }),
            plain.clone(),
        ),
        (
            "a system of a tree",
            Rc::new(move |(a, b)| {
                let (m, s) = (matrix(a), b.sum());
                let map = |(x, y): (Var, Var)| (m.dot(x) + 0.5 * y, y * 2.0 + s * x.index(0));
                let (x, y) = custom_linear_solve(map, (b, s), |a, b| gmres(a, b, exact));
                x + y
            }),
            Rc::new(|(a, b)| {
                // The explicit formula: y = (s - s x0) / 2, inserted into the first rows.
                let (m, s) = (matrix(a), b.sum());
                let m = m - concat(&[full([3, 1], 0.25) * s, zeros([3, 2], Dtype::F64)], 1);
                let x = solution(m, b - 0.25 * s);
                x + (s - s * x.index(0)) / 2.0
            }),
        ),
        (
            "a root by Newton's method",
            Rc::new(|(a, b)| {
                let c = b.square() + a.sum().square() + 1.0;
                custom_root(
                    |x: Var| x * x - c,
                    c,
                    |f, x| {
                        let step = |(_, x): (Var, Var)| {
                            let (y, slope) = jvp(f)((x, x.ones_like()));
                            x - y / slope
                        };
                        fori_loop(40, step, x)
                    },
                    |a, b| b / a(b.ones_like()),
                )
            }),
            Rc::new(|(a, b)| (b.square() + a.sum().square() + 1.0).sqrt()),
        ),
        (
            "a fixed point",
            // The solver iterates x = (x + c / x) / 2, whose limit is √c.
            Rc::new(|(a, b)| {
                let c = b.square() + a.sum().square() + 1.0;
                fixed_point(|x: Var| 0.5 * (x + c / x), c.ones_like())
            }),
            Rc::new(|(a, b)| (b.square() + a.sum().square() + 1.0).sqrt()),
        ),
        (
            "in a loop",
            Rc::new(|(a, b)| {
                let m = matrix(a);
                let step = |(_, x): (Var, Var)| {
                    custom_linear_solve(
                        |v: Var| m.dot(v) * x.square().sum().cos().exp(),
                        x,
                        |a, b| gmres(a, b, Until { relative: 1e-13, most: 100 }),
                    )
                };
                fori_loop(3, step, b)
            }),
            Rc::new(|(a, b)| {
                let m = matrix(a);
                let step = |x: Var| solution(m, x) / x.square().sum().cos().exp();
                step(step(step(b)))
            }),
        ),
    ]
}

fn arguments(shape: &[usize]) -> (Tensor, Tensor) {
    let numbers = |shape: &[usize], k: f64| {
        let n: usize = shape.iter().product();
        Tensor::new(shape, (0..n).map(|i| (k * (1 + i) as f64).sin()).collect::<Vec<f64>>())
            .unwrap()
    };
    (numbers(&[shape, &[3, 3]].concat(), 0.7), numbers(&[shape, &[3]].concat(), 1.3))
}

#[test]
fn equations_have_the_derivatives_of_their_solutions() {
    solutions(&[
        ("value", |f| f),
        ("gradient", |f| Rc::new(move |x| ravel(&grad(|x| f(x).sin().sum())(x)).0)),
        ("forward", |f| Rc::new(move |(a, b)| jvp(|b: Var| f((a, b)))((b, b.cos())).1)),
        ("forward in a", |f| Rc::new(move |(a, b)| jvp(|a: Var| f((a, b)))((a, a.cos())).1)),
    ]);
}

#[test]
fn equations_have_the_second_derivatives_of_their_solutions() {
    solutions(&[
        ("hessian", |f| Rc::new(move |(a, b)| hessian(|b: Var| f((a, b)).sin().sum())(b))),
        ("reverse of reverse", |f| {
            Rc::new(move |x| {
                let g = |x: (Var, Var)| ravel(&grad(|x| f(x).sin().sum())(x)).0.square().sum();
                ravel(&grad(g)(x)).0
            })
        }),
    ]);
}

#[test]
fn outlined_and_checkpointed_equations_have_the_derivatives_of_their_solutions() {
    solutions(&[
        ("outlined", |f| {
            Rc::new(move |x| {
                let once = outline(|x: (Var, Var)| f(x));
                ravel(&grad(|(a, b): (Var, Var)| once((a, once((a, b)))).sum())(x)).0
            })
        }),
        ("checkpointed", |f| {
            Rc::new(move |x| {
                ravel(&grad(|x| checkpoint(|x: (Var, Var)| f(x), Policy::Nothing)(x).sum())(x)).0
            })
        }),
    ]);
}

#[track_caller]
fn solutions(transforms: &[Transform]) {
    let (a, b) = arguments(&[]);
    let (many_a, many_b) = arguments(&[4]);
    for (name, equation, formula) in Sweep::Solutions.all(pairs()) {
        for (transform, of) in transforms {
            let (f, g) = (of(equation.clone()), of(formula.clone()));
            let want = jit(|x| g(x)).call((&a, &b)).unwrap();
            let check = |what: &str, got: Tensor, want: &Tensor| {
                let same = SOLVED.check(&got, want);
                assert!(same.is_ok(), "{name}, {transform}, {what}: {}", same.unwrap_err());
            };
            check("native", jit(|x| f(x)).call((&a, &b)).unwrap(), &want);
            check("interpreted", jit(|x| f(x)).interpreted().call((&a, &b)).unwrap(), &want);
            // To save time, only these transforms are also tried on a batch.
            if !matches!(*transform, "value" | "gradient" | "forward in a") {
                continue;
            }
            let want = jit(vmap(|x| g(x))).call((&many_a, &many_b)).unwrap();
            check("a batch", jit(vmap(|x| f(x))).call((&many_a, &many_b)).unwrap(), &want);
        }
    }
}

/// Returns the linear map of `n` equations with a growing diagonal and the factors `left` and `right` beside it; for
/// equal factors it is symmetric positive definite.
fn chain(n: usize, left: f64, right: f64) -> impl Fn(Var) -> Var + Copy {
    move |x: Var| {
        let of = x.dtype();
        let diagonal = 2.5 + iota([n], 0, Dtype::I64).convert(of) / n as f64;
        diagonal * x + left * x.pad(&[(1, -1)], 0.0) + right * x.pad(&[(-1, 1)], 0.0)
    }
}

#[test]
fn solvers_meet_their_equations_at_every_size_and_dtype() {
    let residual = |a: &dyn Fn(Var) -> Var, x: Var, b: Var| (a(x) - b).abs().max();
    let worst = |dtype, n: usize| {
        jit(move |b: Var| {
            let b = b.convert(dtype);
            let (even, odd) = (chain(n, -1.0, -1.0), chain(n, -1.5, 0.5));
            let x = cg(even, b, Until::default());
            let y = gmres(odd, b, Until::default());
            residual(&even, x, b).maximum(residual(&odd, y, b)).convert(Dtype::F64)
        })
    };
    // Numbers of equations below, at and beyond the number of directions (30) that gmres saves before it restarts.
    for n in [1, 30, 31, 95] {
        let b: Vec<f64> = (0..n).map(|i| (i as f64 * 1.3).sin() + 0.2).collect();
        let zero = vec![0.0; n];
        for (dtype, far) in [(Dtype::F64, 1e-8), (Dtype::F32, 1e-4)] {
            let found = worst(dtype, n).call(b.clone()).unwrap().item::<f64>().unwrap();
            assert!(found < far, "{n} {dtype}: {found:e}");
            let found = worst(dtype, n).call(zero.clone()).unwrap().item::<f64>().unwrap();
            assert_eq!(found, 0.0, "{n} {dtype}: nothing is the solution for nothing");
        }
        // In a batch, the member with a right-hand side of zero is solved before its first iteration. The results must
        // equal those of each member alone.
        let rows = Tensor::from([b.clone(), zero, b].concat()).reshape(&[3, n]).unwrap();
        let many = jit(vmap(move |b: Var| gmres(chain(n, -1.5, 0.5), b, Until::default())));
        let one = jit(move |b: Var| gmres(chain(n, -1.5, 0.5), b, Until::default()));
        let many = many.call(rows.clone()).unwrap().to_vec::<f64>().unwrap();
        let each: Vec<f64> = rows
            .to_vec::<f64>()
            .unwrap()
            .chunks(n)
            .flat_map(|b| one.call(b.to_vec()).unwrap().to_vec::<f64>().unwrap())
            .collect();
        assert!(many.iter().zip(&each).all(|(a, b)| (a - b).abs() < 1e-12), "{n}");
    }
}

/// `cg` and `gmres` must solve for right-hand sides of magnitudes 1e-300 to 1e300; a nan or infinity in a right-hand
/// side must give a result that is not finite.
#[test]
fn solvers_take_right_hand_sides_of_every_size() {
    type Solver = fn(Var) -> Var;
    let solvers: [Solver; 2] = [
        |b| cg(|x: Var| x * 2.0, b, Until::default()),
        |b| gmres(|x: Var| x * 2.0, b, Until::default()),
    ];
    for solve in solvers {
        for size in [1e-300, 1e-200, 1e-10, 1.0, 1e200, 1e300] {
            let x = jit(solve).call([size, 2.0 * size]).unwrap().to_vec::<f64>().unwrap();
            let far = (x[0] / size - 0.5).abs() + (x[1] / size - 1.0).abs();
            assert!(far < 1e-9, "{size:e}: {x:?}");
        }
        let x = jit(solve).call([1e-25f32, 2e-25]).unwrap().to_vec::<f32>().unwrap();
        assert!((x[0] * 1e25 - 0.5).abs() < 1e-4, "{x:?}");
        for bad in [f64::NAN, f64::INFINITY] {
            let x = jit(solve).call([bad, 2.0]).unwrap().to_vec::<f64>().unwrap();
            assert!(x.iter().any(|x| !x.is_finite()), "{bad}: {x:?}");
            let rows = jit(vmap(solve)).call([[bad, 2.0], [2.0, 4.0]]).unwrap();
            let rows = rows.to_vec::<f64>().unwrap();
            assert!(rows[..2].iter().any(|x| !x.is_finite()), "{bad}: {rows:?}");
            assert!((rows[2] - 1.0).abs() + (rows[3] - 2.0).abs() < 1e-9, "{rows:?}");
        }
        assert!(jit(solve).call(Vec::<f64>::new()).unwrap().to_vec::<f64>().unwrap().is_empty());
        // `gmres` must solve systems whose matrix has a magnitude of 1e-200 or 1e200, and must return nan for a matrix
        // with a nan.
        for by in [1e-200, 1e200] {
            let f = |b: Var| gmres(|x: Var| x * by, b, Until::default()) * by;
            let x = jit(f).call([2.0, 1.0]).unwrap().to_vec::<f64>().unwrap();
            assert!((x[0] - 2.0).abs() + (x[1] - 1.0).abs() < 1e-9, "{by:e}: {x:?}");
        }
        let bad = |b: Var| gmres(|x: Var| x * constant([1.0, f64::NAN]), b, Until::default());
        let x = jit(bad).call([2.0, 1.0]).unwrap().to_vec::<f64>().unwrap();
        assert!(x.iter().any(|x| x.is_nan()), "{x:?}");
        // The reverse pass must solve its system for small cotangents, here of magnitude 1e-200.
        let back = jit(grad(move |b: Var| {
            (custom_linear_solve(|x: Var| x * 2.0, b, |_, b| solve(b)) * 1e-200).sum()
        }));
        let slope = back.call([1.0, 2.0]).unwrap().to_vec::<f64>().unwrap();
        assert!(slope.iter().all(|s| (s * 1e200 - 0.5).abs() < 1e-9), "{slope:?}");
    }
}

/// `fixed_point` must converge for values of magnitudes 1e-300 to 1e300.
#[test]
fn fixed_points_are_found_at_every_size() {
    let f = |a: Var| fixed_point(|x: Var| x * 0.5 + a, a);
    for a in [1e-300, 1e-200, 1.0, 1e200, 1e300] {
        let x = jit(f).call(a).unwrap().item::<f64>().unwrap();
        assert!((x / a - 2.0).abs() < 1e-9, "{a:e}: {x:e}");
        let slope = jit(grad(move |x: Var| f(x) * a)).call(1.0).unwrap().item::<f64>().unwrap();
        assert!((slope / a - 2.0).abs() < 1e-9, "{a:e}: {slope:e}");
    }
    let x = jit(f).call(1e-25f32).unwrap().item::<f32>().unwrap();
    assert!((x * 1e25 - 2.0).abs() < 1e-4, "{x:e}");
    let none = jit(|()| custom_linear_solve(|()| (), (), |_, ()| ()));
    assert!(none.call(()).is_ok());
    let bad = jit(f).call(f64::NAN).unwrap().item::<f64>().unwrap();
    assert!(bad.is_nan());
}

#[test]
fn solvers_stop_at_the_number_of_products_they_are_given() {
    type Solver = fn(&dyn Fn(Var) -> Var, Var, Krylov<'_, Var>) -> Var;
    let products = |most: usize, with: Solver| {
        let until = Until { relative: 1e-14, most };
        let f = jit(move |b: Var| {
            let a = chain(64, -1.2, -1.2);
            let count = Ref::new(0i64);
            let counted = |x: Var| {
                count.add(1);
                a(x)
            };
            // The map of an equation may not write to state unless the solver is differentiated through its iterations.
            let how = Krylov::new().until(until).through_iterations();
            (with(&counted, b, how), count.get())
        });
        f.call(vec![1.0; 64]).unwrap().1.item::<i64>().unwrap()
    };
    assert_eq!(products(0, |a, b, how| cg_with(a, b, how)), 0);
    assert_eq!(products(5, |a, b, how| cg_with(a, b, how)), 5);
    // `gmres` computes one more product per cycle (30 products), for the residual of the equation.
    for (most, found) in [(0, 0), (1, 2), (5, 6), (30, 31), (31, 31), (32, 33)] {
        assert_eq!(products(most, |a, b, how| gmres_with(a, b, how)), found, "{most}");
    }
}

/// The iterations of a solver must leave no residuals: the gradient solves two equations, and its workspace is the same
/// for any number of iterations.
#[test]
fn solvers_are_not_differentiated() {
    let bytes = |iterations: usize| {
        let f = move |(a, b): (Var, Var)| {
            let solve = |a: &dyn Fn(Var) -> Var, b: Var| {
                fori_loop(iterations, |(_, x): (Var, Var)| x + (b - a(x)) * 0.25, b)
            };
            custom_linear_solve(|x: Var| matrix(a).dot(x), b, solve).sum()
        };
        jit(grad(f)).explain((&arguments(&[]).0, &arguments(&[]).1)).unwrap().workspace_bytes()
    };
    assert_eq!(bytes(10), bytes(1000));
}

#[test]
fn invalid_equations_are_errors_with_the_line() {
    let message = |f: &dyn Fn(Var) -> Var, x: Tensor| {
        let error = jit(f).interpreted().call(&x).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("implicit.rs"), "{text}");
        text
    };
    let x = || Tensor::from([1.0, 2.0]);
    let until = Until::default;
    let cases: Vec<Bad> = vec![
        (
            "error[not-linear]",
            Box::new(move |b| custom_linear_solve(|x: Var| x * x, b, |a, b| gmres(a, b, until()))),
            x(),
        ),
        (
            "the linear map returns f64[], and the unknown is f64[2]",
            Box::new(|b| custom_linear_solve(|x: Var| x.sum(), b, |_, b| b)),
            x(),
        ),
        (
            "the solver returns f64[], and the unknown is f64[2]",
            Box::new(|b| custom_linear_solve_with(|x: Var| x, b, |b| b.sum(), |b| b)),
            x(),
        ),
        (
            "the solver of the transpose returns f64[], and the unknown is f64[2]",
            Box::new(|b| custom_linear_solve_with(|x: Var| x, b, |b| b, |b| b.sum())),
            x(),
        ),
        (
            "the equation returns f64[1], and the unknown is f64[2]",
            Box::new(|b| custom_root(|x: Var| x.slice([..1]), b, |_, b| b, |_, b| b)),
            x(),
        ),
        (
            "the solver of tangents returns f64[1], and the unknown is f64[2]",
            Box::new(|b| custom_root(|x: Var| x, b, |_, b| b, |_, b| b.slice([..1]))),
            x(),
        ),
        (
            "error[not-differentiable]",
            Box::new(|b| custom_root(|x: Var| x, b, |_, b| b, |_, b| b)),
            Tensor::from([1i64, 2]),
        ),
        (
            "the equation returns a tree of another form than the unknown",
            Box::new(|b| {
                custom_root(|x: Vec<Var>| x[1..].to_vec(), vec![b, b], |_, b| b, |_, b| b)[0]
            }),
            x(),
        ),
        // An error inside the map of an equation must be reported once, at its line.
        (
            "`dot` of f64[2] and f64[3,3] sums over axis 0 with axis 0",
            Box::new(|b| fixed_point(|x: Var| x.dot(zeros([3, 3], Dtype::F64)), b)),
            x(),
        ),
    ];
    for (want, f, x) in cases {
        let text = message(&f, x);
        assert!(text.contains(want), "{want}:\n{text}");
    }
}

/// For a singular matrix, `gmres` must give nan if its Krylov space contains no solution. It must give numbers if the
/// space contains one, if the matrix is only badly conditioned, and if the limit on the number of products is too low.
#[test]
fn gmres_gives_nan_where_a_singular_matrix_has_no_solution() {
    let solve = |a: &Tensor, b: &Tensor, until: Until| {
        let x = run(move |(a, b): (Var, Var)| gmres(|x: Var| a.dot(x), b, until), (a, b)).unwrap();
        let y = run(|(a, x): (Var, Var)| a.dot(x), (a, &x)).unwrap();
        let off = run(|(y, b): (Var, Var)| (y - b).norm(), (y, b)).unwrap();
        (x.to_vec::<f64>().unwrap(), off.item::<f64>().unwrap())
    };
    let matrix = |n: usize, a: &dyn Fn(usize, usize) -> f64| {
        let numbers: Vec<f64> = (0..n * n).map(|k| a(k / n, k % n)).collect();
        Tensor::new(&[n, n], numbers).unwrap()
    };
    let vector = |n: usize| -> Tensor { (0..n).map(|i| (i as f64 + 1.0).sin()).collect() };
    let singular: [(&str, Tensor); 6] = [
        ("of rank one", matrix(2, &|i, j| ((i + 1) * (j + 1)) as f64)),
        ("a projection", matrix(5, &|i, j| f64::from(u8::from(i == j && i < 4)))),
        ("zeros", matrix(4, &|_, _| 0.0)),
        (
            "differences around a circle",
            matrix(9, &|i, j| f64::from(u8::from(i == j)) - f64::from(u8::from((i + 1) % 9 == j))),
        ),
        (
            "of rank two",
            matrix(40, &|i, j| (i as f64).sin() * (j as f64).cos() + (i * j % 2) as f64),
        ),
        ("nearly nothing", matrix(3, &|i, j| 1e-200 * (i + j) as f64 * f64::from(u8::from(i < 2)))),
    ];
    for (name, a) in &singular {
        let (x, _) = solve(a, &vector(a.shape()[0]), Until::default());
        assert!(x.iter().all(|x| x.is_nan()), "{name}: {x:?}");
    }
    // In these cases the result must be finite: the Krylov space contains a solution, b is zero, or the limit on
    // products is too low.
    let (x, off) = solve(&singular[0].1, &Tensor::from([1.0, 2.0]), Until::default());
    assert!(off < 1e-12, "{x:?} is off by {off}");
    let (x, _) = solve(&singular[0].1, &Tensor::from([0.0, 0.0]), Until::default());
    assert_eq!(x, [0.0, 0.0]);
    let far = matrix(9, &|i, j| if i == j { i as f64 + 1.0 } else { 0.1 });
    let few = Until { most: 3, ..Until::default() };
    let (x, off) = solve(&far, &vector(9), few);
    assert!(x.iter().all(|x| x.is_finite()) && off > 1e-9, "{x:?} is off by {off}");
    for n in [4, 8, 10] {
        let hilbert = matrix(n, &|i, j| 1.0 / (i + j + 1) as f64);
        let (x, off) = solve(&hilbert, &vector(n), Until::default());
        let size = x.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        assert!(off <= 1e-12 * size.max(1.0), "{n}: {x:?} is off by {off}");
    }
}
