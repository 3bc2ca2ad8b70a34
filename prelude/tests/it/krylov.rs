//! Solvers of linear systems from a start and with a preconditioner.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use tapeloom::prelude::*;

const N: usize = 60;

/// A diagonal of all sizes with something beside it; symmetric if asked.
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

/// The largest residual, of a system with that right-hand side.
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

/// From the solution nothing is left to do, also where b is 0.
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

/// Inside an equation they have derivatives of every order; a member of a batch is solved as alone; trees of f32.
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
