//! Solvers of linear systems: starts, preconditioners, derivatives of solutions.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use tapeloom::prelude::*;

const N: usize = 60;

/// Returns a matrix, as a map from vectors to products, whose diagonal elements differ widely in size and whose other
/// elements are small; symmetric if requested.
fn matrix(symmetric: bool) -> impl Fn(Var) -> Var + Copy {
    move |x: Var| {
        let d = (arange(N, Dtype::F64) * 0.2).exp();
        let side = if symmetric { 0.3 } else { -0.2 };
        d * x + 0.3 * x.roll(1, 0) + side * x.roll(-1, 0)
    }
}

fn near(r: Var) -> Var {
    r / (arange(N, Dtype::F64) * 0.2).exp()
}

type Solver = fn(&dyn Fn(Var) -> Var, Var, Krylov<'_, Var>) -> Var;

const SOLVERS: [(&str, bool, Solver); 3] = [
    ("cg", true, |a, b, how| cg_with(a, b, how)),
    ("gmres", false, |a, b, how| gmres_with(a, b, how)),
    ("bicgstab", false, |a, b, how| bicgstab_with(a, b, how)),
];

/// Returns the largest residual of a system with the matrix [`matrix`] and a fixed right side `b`, for the solver's
/// options `how(b)`.
fn residual(solver: Solver, symmetric: bool, how: impl Fn(Var) -> Krylov<'static, Var>) -> f64 {
    let f = move |b: Var| {
        let a = matrix(symmetric);
        let x = solver(&a, b, how(b));
        (a(x) - b).abs().max()
    };
    let b: Vec<f64> = (0..N).map(|i| (i as f64).sin() + 1.5).collect();
    run(f, b).unwrap().item().unwrap()
}

#[test]
fn a_preconditioner_saves_products() {
    for (name, symmetric, solver) in SOLVERS {
        let few = Until { relative: 1e-10, most: 24 };
        let without = residual(solver, symmetric, move |_| Krylov::new().until(few));
        let with =
            residual(solver, symmetric, move |_| Krylov::new().until(few).precondition(near));
        assert!(
            with < 1e-8 && (without >= 1e-3 || without.is_nan()),
            "{name}: {with} and {without}"
        );
        let started = residual(solver, symmetric, move |b| {
            Krylov::new().until(few).precondition(near).start(near(b))
        });
        assert!(started < 1e-8, "{name}: {started}");
    }
}

/// A solver that starts from the solution takes no iteration, also if b is 0.
#[test]
fn a_start_is_where_it_begins() {
    for (name, symmetric, solver) in SOLVERS {
        let f = move |x: Var| {
            let a = matrix(symmetric);
            let none = Until { relative: 1e-10, most: 0 };
            solver(&a, a(x), Krylov::new().until(none).start(x)) - x
        };
        let x: Vec<f64> = (0..N).map(|i| (i as f64).cos()).collect();
        let off = run(f, x).unwrap().to_vec::<f64>().unwrap();
        assert!(off.iter().all(|x| x.abs() < 1e-15), "{name}");
        let zero = move |b: Var| solver(&matrix(symmetric), b, Krylov::new().precondition(near));
        let x = run(zero, vec![0.0; N]).unwrap().to_vec::<f64>().unwrap();
        assert!(x.iter().all(|x| *x == 0.0), "{name}");
    }
}

/// Solutions must be differentiable to every order, the same in a batch as alone, and possible for trees of f32.
#[test]
fn preconditioned_systems_have_derivatives() {
    for (name, symmetric, solver) in SOLVERS {
        let solve = move |(s, b): (Var, Var)| {
            let a = move |x: Var| matrix(symmetric)(x) * s;
            let solve = |a: &dyn Fn(Var) -> Var, b: Var| {
                solver(
                    a,
                    b,
                    Krylov::new().until(Until { relative: 1e-13, most: 200 }).precondition(near),
                )
            };
            (custom_linear_solve(a, b, solve) * arange(N, Dtype::F64)).sum()
        };
        let b: Vec<f64> = (0..N).map(|i| (i as f64).sin() + 1.5).collect();
        check_grads(solve, (0.7, &b), 2).unwrap_or_else(|e| panic!("{name}: {e}"));
        let both = run(|s: Var| vmap(|s: Var| solve((s, constant(&b))))(s), [0.7, 3.0]).unwrap();
        let one = run(|s: Var| solve((s, constant(&b))), 3.0).unwrap();
        let (both, one) = (both.to_vec::<f64>().unwrap()[1], one.item::<f64>().unwrap());
        assert!((both - one).abs() <= 1e-12 * one.abs(), "{name}: {both} {one}");
    }
    let tree = |(x, y): (Var, Vec<Var>)| {
        let a = |(x, y): (Var, Vec<Var>)| (2.0 * x + y[0].sum(), vec![4.0 * y[0] + x]);
        let half = |(x, y): (Var, Vec<Var>)| (0.5 * x, vec![0.25 * y[0]]);
        bicgstab_with(a, (x, y), Krylov::new().precondition(half))
    };
    let (x, y) = run(tree, (5f32, vec![[9f32, 1.0]])).unwrap();
    let (x, y) = (x.item::<f32>().unwrap(), y[0].to_vec::<f32>().unwrap());
    assert!((2.0 * x + y[0] + y[1] - 5.0).abs() < 1e-5 && (4.0 * y[0] + x - 9.0).abs() < 1e-5);
}

#[test]
fn breakdowns_and_mistakes_are_seen() {
    let singular = |(a, b): (Var, Var)| bicgstab(|x: Var| a.dot(x), b, Until::default());
    let x = run(singular, ([[1.0, 2.0], [2.0, 4.0]], [1.0, 0.0])).unwrap().to_vec::<f64>().unwrap();
    assert!(x.iter().all(|x| x.is_nan()), "{x:?}");
    let wrong = |b: Var| cg_with(|x: Var| x, b, Krylov::new().start(zeros([3], Dtype::F64)));
    let message = run(wrong, [1.0, 2.0]).unwrap_err().to_string();
    assert!(message.contains("error[shape]") && message.contains("krylov.rs"), "{message}");
    let wrong = |b: Var| gmres_with(|x: Var| x, b, Krylov::new().precondition(|r: Var| r.sum()));
    let message = run(wrong, [1.0, 2.0]).unwrap_err().to_string();
    assert!(message.contains("krylov.rs"), "{message}");
}

/// A solver of `a x = b` for a dense matrix `a`, with the signature that all three solvers share in [`DENSE`].
type Dense = fn(Var, Var, Krylov<'_, Var>) -> Var;

const DENSE: [(&str, Dense); 3] = [
    ("cg", |a, b, how| cg_with(|x: Var| a.dot(x), b, how)),
    ("gmres", |a, b, how| gmres_with(|x: Var| a.dot(x), b, how)),
    ("bicgstab", |a, b, how| bicgstab_with(|x: Var| a.dot(x), b, how)),
];

const IDENTITY: [[f64; 2]; 2] = [[1.0, 0.0], [0.0, 1.0]];

/// For the identity matrix, one iteration finds the solution. That iteration does not read the matrix in all
/// directions, so its own derivative would be wrong: the derivative must come from the equation that the solution
/// satisfies.
#[test]
fn solutions_are_differentiated_through_their_equation() {
    for (name, solver) in DENSE {
        let sum = |a: Var, how| solver(a, constant([1.0, 3.0]), how).sum();
        let slope = |through: bool, order: usize| {
            let how = move || match through {
                true => Krylov::new().through_iterations(),
                false => Krylov::new(),
            };
            let slope = move |a: Var| grad(move |a: Var| sum(a, how()))(a);
            let slope = move |a: Var| match order {
                1 => slope(a),
                _ => grad(move |a: Var| (slope(a) * constant([[1.0, 2.0], [3.0, 4.0]])).sum())(a),
            };
            run(slope, IDENTITY).unwrap().to_vec::<f64>().unwrap()
        };
        let near = |x: &[f64], y: &[f64]| x.iter().zip(y).all(|(x, y)| (x - y).abs() < 1e-12);
        let found = slope(false, 1);
        assert!(near(&found, &[-1.0, -3.0, -1.0, -3.0]), "{name}: {found:?}");
        // The second derivative of 1ᵀ A⁻¹ b with respect to the matrix A, along G and H, is 1ᵀ (G H + H G) b at A = 1.
        // Here G = [[1, 2], [3, 4]], and H has a single 1 at (i, j).
        let second: Vec<f64> = [(0, 0), (0, 1), (1, 0), (1, 1)]
            .into_iter()
            .map(|(i, j)| {
                let (g, b) = ([[1.0, 2.0], [3.0, 4.0]], [1.0, 3.0]);
                let (left, right) = (g[0][i] + g[1][i], g[j][0] * b[0] + g[j][1] * b[1]);
                left * b[j] + right
            })
            .collect();
        let found = slope(false, 2);
        assert!(near(&found, &second), "{name}: {found:?} {second:?}");
        if name == "cg" {
            let found = slope(true, 1);
            assert!(near(&found, &[-0.4, -1.2, -1.2, -3.6]), "{name}: {found:?}");
        }
    }
}

/// Checks derivatives in all modes up to second order: with respect to captures of the map and to the right side,
/// with a start, with a preconditioner that is not symmetric, and over a batch.
#[test]
fn solutions_have_derivatives_in_every_mode() {
    type F<'a> = &'a dyn Fn((Var, Var)) -> Var;
    type Mode = (&'static str, fn(F<'_>, Var, Var) -> Var);
    let modes: [Mode; 4] = [
        ("forward", |f, p, b| jvp(f)(((p, b), (p.cos(), b.sin()))).1),
        ("reverse", |f, p, b| ravel(&grad(|x| f(x).sin().sum())((p, b))).0),
        ("forward over reverse", |f, p, b| {
            let g = |x| ravel(&grad(|x| f(x).sin().sum())(x)).0;
            jvp(g)(((p, b), (p.cos(), b.sin()))).1
        }),
        ("reverse over reverse", |f, p, b| {
            let g = |x| ravel(&grad(|x| f(x).sin().sum())(x)).0.square().sum();
            ravel(&grad(g)((p, b))).0
        }),
    ];
    let exact = || Krylov::new().until(Until { relative: 1e-14, most: 200 });
    let matrix = |name: &str, p: Var| match name {
        "cg" => p.dot(p.t()) + 3.0 * eye(3, Dtype::F64),
        _ => p + 4.0 * eye(3, Dtype::F64),
    };
    let p = Tensor::from([[0.3, -0.7, 0.2], [0.9, 0.1, -0.4], [-0.2, 0.6, 0.5]]);
    let b = Tensor::from([1.0, -2.0, 0.5]);
    for (name, solver) in DENSE {
        let plain = move |(p, b): (Var, Var)| solver(matrix(name, p), b, exact());
        let begun = move |(p, b): (Var, Var)| {
            solver(matrix(name, p), b, exact().start(b * p.index(0).sin() + 1.0))
        };
        let near = move |(p, b): (Var, Var)| {
            let a = matrix(name, p);
            let map = move |r: Var| match name {
                "cg" => r / (a * eye(3, Dtype::F64)).sum_axis(0),
                _ => linalg::solve_triangular(a, r, Triangle::LOWER),
            };
            solver(a, b, exact().precondition(map).start(b))
        };
        let closed = move |(p, b): (Var, Var)| linalg::solve(matrix(name, p), b);
        // Only `cg`, which compiles fastest, is tested in all ways. The other solvers are tested with a preconditioner,
        // to first order.
        let (first, orders) = if name == "cg" { (0, 4) } else { (2, 2) };
        let all: [(&str, F<'_>); 3] = [("plain", &plain), ("begun", &begun), ("near", &near)];
        for (mode, transform) in &modes[..orders] {
            let one = |f: F<'_>| {
                let of = |(p, b): (Var, Var)| transform(f, p, b);
                run(of, (&p, &b)).unwrap().to_vec::<f64>().unwrap()
            };
            let want = one(&closed);
            let near = |x: &[f64], what: &str| {
                let off = x.iter().zip(&want).map(|(x, y)| (x - y).abs() / (1.0 + y.abs()));
                let off = off.fold(0.0, f64::max);
                assert!(off < 1e-10, "{name}, {what}, {mode}: {x:?} {want:?}");
            };
            for (how, f) in &all[first..] {
                near(&one(*f), how);
                if name == "cg" && *mode == "reverse" {
                    let members = |(p, b): (Var, Var)| {
                        vmap(|s: Var| transform(*f, s * p, b))(constant([0.5, 1.0]))
                    };
                    let many = run(members, (&p, &b)).unwrap().to_vec::<f64>().unwrap();
                    near(&many[many.len() / 2..], &format!("{how}, a batch"));
                }
            }
        }
    }
}

/// A start has no derivative. The systems that are solved for derivatives must not start at it, and their residuals
/// must not be relative to the right side of the original system.
#[test]
fn a_start_does_not_reach_derivatives() {
    for (name, solver) in DENSE {
        let f = |(a, x0): (Var, Var)| {
            let b = constant([1e6, 2e6]);
            // The start is so close to the solution that the solver ends at once.
            let loose = Until { relative: 1e-3, most: 100 };
            solver(a, b, Krylov::new().until(loose).start(x0)).sum()
        };
        let (a, x0) = ([[2.0, 1.0], [1.0, 3.0]], [2e5 + 1.0, 6e5 - 1.0]);
        let (of_a, of_start) = run(|x| grad(f)(x), (a, x0)).unwrap();
        assert_eq!(of_start.to_vec::<f64>().unwrap(), [0.0, 0.0], "{name}");
        // The derivative with respect to A must be -u xᵀ, where x is the solution of A x = b, and u that of A u = (1,
        // 1).
        for (found, want) in of_a.to_vec::<f64>().unwrap().iter().zip([8e4, 2.4e5, 4e4, 1.2e5]) {
            assert!((found + want).abs() < 1e-2 * want, "{name}: {found} {want}");
        }
        let moved = run(|(a, x): (Var, Var)| jvp(|x: Var| f((a, x)))((x, x)).1, (a, x0)).unwrap();
        assert_eq!(moved.item::<f64>().unwrap(), 0.0, "{name}");
    }
}

/// For a right side of zeros the solution is zeros for every start, after at most one product (for the residual at
/// the start).
#[test]
fn no_right_side_is_solved_at_once() {
    for (name, solver) in SOLVERS.map(|(name, _, solver)| (name, solver)) {
        for start in [false, true] {
            let f = move |b: Var| {
                let count = Ref::new(0i64);
                let a = |x: Var| {
                    count.add(1);
                    2.0 * x + x.roll(1, 0) * 0.5
                };
                let how = Krylov::new().through_iterations();
                let how = if start { how.start(b + 1.0) } else { how };
                let x = solver(&a, b, how);
                (x, count.get())
            };
            let (x, products) = run(f, [0.0, 0.0, 0.0]).unwrap();
            assert_eq!(x.to_vec::<f64>().unwrap(), [0.0; 3], "{name}");
            assert!(products.item::<i64>().unwrap() <= i64::from(start), "{name}: {products}");
        }
        // For the derivative with respect to `s`, a factor in the matrix, the solver gets a right side of zeros, so it
        // is 0. The derivative of the sum with respect to each element of b is 1 / (s + 1).
        let f = |(s, b): (Var, Var)| {
            solver(&|x: Var| s * x + x.roll(1, 0) * 0.5 + x.roll(-1, 0) * 0.5, b, Krylov::new())
                .sum()
        };
        let (of_s, of_b) = run(|x| grad(f)(x), (3.0, [0.0, 0.0, 0.0])).unwrap();
        assert_eq!(of_s.item::<f64>().unwrap(), 0.0, "{name}");
        let of_b = of_b.to_vec::<f64>().unwrap();
        assert!(of_b.iter().all(|x| (x - 0.25).abs() < 1e-12), "{name}: {of_b:?}");
    }
}

/// A map that is linear in its values, but not in each of its equations, has no transpose. Values and forward mode do
/// not need one.
#[test]
fn maps_without_a_transpose_have_values_and_forward_mode() {
    for (name, _, solver) in SOLVERS {
        let f = move |s: Var| {
            let a = |x: Var| s * x.abs() * x.signum() + 0.5 * (x.roll(1, 0) + x.roll(-1, 0));
            solver(&a, constant([1.0, 1.0, 4.0]), Krylov::new()).sum()
        };
        // The sum of the solution is the sum of the right side, 6, divided by s + 1.
        let x = run(f, 3.0).unwrap().item::<f64>().unwrap();
        assert!((x - 1.5).abs() < 1e-9, "{name}: {x}");
        let moved = run(|s: Var| jvp(f)((s, s.ones_like())).1, 3.0).unwrap().item::<f64>().unwrap();
        assert!((moved + 0.375).abs() < 1e-9, "{name}: {moved}");
        let message = run(grad(f), 3.0).unwrap_err().to_string();
        assert!(
            message.contains("error[not-linear]") && message.contains("krylov.rs"),
            "{message}"
        );
        // A preconditioner without a transpose must also have forward mode, and an error in reverse mode.
        let f = move |s: Var| {
            let near = |r: Var| r.abs() * r.signum() / 3.0;
            let a = |x: Var| s * x + 0.5 * (x.roll(1, 0) + x.roll(-1, 0));
            solver(&a, constant([1.0, 1.0, 4.0]), Krylov::new().precondition(near)).sum()
        };
        let moved = run(|s: Var| jvp(f)((s, s.ones_like())).1, 3.0).unwrap().item::<f64>().unwrap();
        assert!((moved + 0.375).abs() < 1e-9, "{name}: {moved}");
        let message = run(grad(f), 3.0).unwrap_err().to_string();
        assert!(
            message.contains("error[not-linear]") && message.contains("krylov.rs"),
            "{message}"
        );
    }
}

/// With the inverse as a preconditioner, a system takes one or two products, and so does the system of a cotangent.
#[test]
fn the_preconditioner_of_a_transposed_system_is_the_transpose() {
    let a = Tensor::from([[1.0, 9.0, -3.0], [0.0, 1.0, 20.0], [0.5, 0.0, 1.0]]);
    let b = [1.0, -2.0, 0.5];
    for (name, solver) in DENSE.into_iter().skip(1) {
        let f = move |(a, b): (Var, Var)| {
            let inverse = linalg::inv(a.stop_gradient());
            let two = Krylov::new().until(Until { relative: 1e-8, most: 2 });
            solver(a, b, two.precondition(move |r: Var| inverse.dot(r)))
        };
        let loss = |f: &dyn Fn((Var, Var)) -> Var, x| f(x).square().sum();
        let found = run(|x| ravel(&grad(|x| loss(&f, x))(x)).0, (&a, b)).unwrap();
        let solve = |(a, b): (Var, Var)| linalg::solve(a, b);
        let want = run(|x| ravel(&grad(|x| loss(&solve, x))(x)).0, (&a, b)).unwrap();
        let (found, want) = (found.to_vec::<f64>().unwrap(), want.to_vec::<f64>().unwrap());
        let near = |(x, y): (&f64, &f64)| (x - y).abs() < 1e-8 * (1.0 + y.abs());
        assert!(found.iter().zip(&want).all(near), "{name}: {found:?} {want:?}");
    }
}

/// A solution is linear in its right side. So a solver may occur in the map of another solver and in loops, and may be
/// transposed.
#[test]
fn solutions_are_linear_in_their_right_side() {
    let a = [[4.0, 1.0], [1.0, 3.0]];
    let back = |(a, c): (Var, Var)| {
        linear_transpose(|b: Var| gmres(|x: Var| a.dot(x), b, Until::default()), c)(c)
    };
    let u = run(back, ([[4.0, 2.0], [1.0, 3.0]], [1.0, 2.0])).unwrap().to_vec::<f64>().unwrap();
    assert!((u[0] - 0.1).abs() < 1e-12 && (u[1] - 0.6).abs() < 1e-12, "{u:?}");
    let nested = |(a, b): (Var, Var)| {
        let inner = |x: Var| x + cg(|x: Var| a.dot(x), x, Until::default());
        cg(inner, b, Until { relative: 1e-13, most: 50 })
    };
    check_grads(nested, (a, [1.0, 2.0]), 2).unwrap();
    let in_a_loop = |(a, b): (Var, Var)| {
        let step = |(_, x): (Var, Var)| cg(|x: Var| a.dot(x) + 0.1 * x, x, Until::default());
        fori_loop(3, step, b)
    };
    check_grads(in_a_loop, (a, [1.0, 2.0]), 2).unwrap();
}

#[test]
fn mistakes_in_maps_are_said_at_the_users_line() {
    type Wrong = (&'static str, fn(Var) -> Var);
    let until = Until::default;
    let wrong: [Wrong; 6] = [
        ("the linear map returns f64[1], and", |b| {
            gmres(|x: Var| x.slice([..1]), b, Until::default())
        }),
        ("the linear map returns f64[1], and", |b| {
            let how = Krylov::new().through_iterations();
            bicgstab_with(|x: Var| x.slice([..1]), b, how)
        }),
        ("the preconditioner returns f64[], and", |b| {
            cg_with(|x: Var| x, b, Krylov::new().precondition(|r: Var| r.sum()))
        }),
        ("`cg` solves for floats: `b` is i64[2]", |b| {
            cg(|x: Var| x, b.convert(Dtype::I64), Until::default())
        }),
        ("the start of `cg` has f32[2]", |b| {
            cg_with(|x: Var| x, b, Krylov::new().start(b.convert(Dtype::F32)))
        }),
        ("error[state]", |b| {
            let count = Ref::new(0i64);
            let a = |x: Var| {
                count.add(1);
                x
            };
            cg(a, b, Until::default())
        }),
    ];
    for (want, f) in wrong {
        let errors = run(f, [1.0, 2.0]).unwrap_err().to_string();
        assert!(errors.contains(want) && errors.contains("krylov.rs"), "{want}: {errors}");
        assert!(!errors.contains("src/implicit"), "{errors}");
        assert_eq!(errors.matches("error[").count(), 1, "{errors}");
    }
    let tree = |(x, y): (Var, Vec<Var>)| {
        cg(|(x, y): (Var, Vec<Var>)| (x, vec![y[0], y[0]]), (x, y), until())
    };
    let errors = run(tree, (1.0, vec![[1.0, 2.0]])).unwrap_err().to_string();
    assert!(errors.contains("the linear map returns a tree of another form"), "{errors}");
}
