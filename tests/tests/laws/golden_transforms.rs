//! Programs of nested transforms, compared with numbers of JAX (`data/golden/transforms.json`), natively and by the
//! interpreter.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use tapeloom::Kind;
use tapeloom::prelude::*;

/// Recorded cases that are not compared: they need features that the language does not have, or are about errors of
/// JAX.
const LATER: &[(&str, &str)] = &[
    ("while_rev_jax_error", "an error of JAX, which reverses no loop on a condition"),
    ("complex_abs2", "complex numbers"),
];

fn golden() -> Value {
    let path = format!("{}/data/golden/transforms.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn flat(value: &Value, into: &mut Vec<f64>) {
    match value {
        Value::Array(items) => items.iter().for_each(|v| flat(v, into)),
        Value::Object(fields) => fields.values().for_each(|v| flat(v, into)),
        Value::String(s) => into.push(s.parse().unwrap()),
        number => into.push(number.as_f64().unwrap()),
    }
}

/// The names of the recorded cases compared so far, and the failures.
#[derive(Default)]
struct Seen {
    names: BTreeSet<String>,
    failures: Vec<String>,
}

/// Runs a function natively and by the interpreter, and compares every leaf of its result with the numbers recorded for
/// the case `name`.
fn check<A: Tree<Var>>(
    seen: &mut Seen,
    name: &str,
    f: impl Fn(A) -> Vec<Var> + Clone,
    args: impl Args<A>,
) {
    let file = golden();
    let cases = file["cases"].as_array().unwrap();
    let case = cases.iter().find(|c| c["name"] == name).unwrap_or_else(|| panic!("no case {name}"));
    let mut expected = Vec::new();
    flat(&case["expect"], &mut expected);
    seen.failures.extend(disagreement(name, f, args, &expected));
    seen.names.insert(name.to_owned());
}

fn agree<A: Tree<Var>>(
    name: &str,
    f: impl Fn(A) -> Vec<Var> + Clone,
    args: impl Args<A>,
    expected: &[f64],
) {
    assert_eq!(disagreement(name, f, args, expected), None);
}

/// Returns the first difference between the recorded numbers and the results, natively or by the interpreter.
fn disagreement<A: Tree<Var>>(
    name: &str,
    f: impl Fn(A) -> Vec<Var> + Clone,
    args: impl Args<A>,
    expected: &[f64],
) -> Option<String> {
    let results = [jit(f.clone()).call(&args), jit(f.clone()).interpreted().call(&args)];
    results.into_iter().find_map(|result| {
        let leaves: Vec<Tensor> = match result {
            Ok(leaves) => leaves,
            Err(e) => return Some(format!("{name}: {e}")),
        };
        let got: Vec<f64> = leaves.iter().flat_map(|t| t.to_vec::<f64>().unwrap()).collect();
        let largest =
            expected.iter().filter(|x| x.is_finite()).fold(0.0, |m: f64, x| m.max(x.abs()));
        let close = |(x, y): (&f64, &f64)| {
            (x - y).abs() <= 1e-10 * largest + 1e-12 || (x.is_nan() && y.is_nan())
        };
        let same = got.len() == expected.len() && got.iter().zip(expected).all(close);
        (!same).then(|| format!("{name}: {got:?}, expected {expected:?}"))
    })
}

/// Returns the derivative of a scalar function, computed in forward mode.
fn forward(f: impl Fn(Var) -> Var) -> impl Fn(Var) -> Var {
    let df = jvp(f);
    move |x| df((x, x.ones_like())).1
}

fn exp_sin(x: Var) -> Var {
    x.sin().exp()
}

fn a() -> Tensor {
    Tensor::from([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 3.0]])
}

const X3: [f64; 3] = [0.3, -0.7, 1.1];
const V3: [f64; 3] = [1.0, 2.0, -1.0];

/// Returns `Σ sin(A x)² + Π x`, a function with recorded derivatives, for a matrix A and a vector x.
fn g(a: Var, x: Var) -> Var {
    a.dot(x).sin().square().sum() + x.prod()
}

/// Returns the last carry of the scan `c <- sin(c) a + c` over four numbers a, and the stacked `c²`.
fn recurrence(x: Var) -> (Var, Var) {
    scan(|(c, a): (Var, Var)| (c.sin() * a + c, c * c), x, constant([0.1, 0.2, 0.3, 0.4]))
}

/// Returns the results of `recurrence`, with checkpointed iterations: each saves only its carry and its element a.
fn checkpointed(x: Var) -> (Var, Var) {
    let iteration = checkpoint(|(c, a): (Var, Var)| (c.sin() * a + c, c * c), Policy::Nothing);
    scan(iteration, x, constant([0.1, 0.2, 0.3, 0.4]))
}

fn log1pexp(x: Var) -> Var {
    let rule = |x: Var, dx: Var| {
        let y = (1.0 + x.exp()).ln();
        (y, (1.0 - 1.0 / (1.0 + x.exp())) * dx)
    };
    custom_jvp(|x: Var| (1.0 + x.exp()).ln(), rule)(x)
}

#[test]
fn every_case_is_compared_or_said_to_be_later() {
    let seen = &mut Seen::default();

    check(
        seen,
        "perturbation_rr",
        |x: Var| vec![grad(|x: Var| x * grad(|y: Var| x + y)(x.ones_like()))(x)],
        1.0,
    );
    check(
        seen,
        "perturbation_ff",
        |x: Var| vec![forward(|x: Var| x * forward(move |y: Var| x + y)(x.ones_like()))(x)],
        1.0,
    );
    check(
        seen,
        "perturbation_rf",
        |x: Var| vec![grad(|x: Var| x * forward(move |y: Var| x * y)(2.0 * x.ones_like()))(x)],
        3.0,
    );
    // Forward mode of a reverse-mode derivative, the last of the four combinations: d/dx of x · d/dy (x y) is 2x.
    agree(
        "perturbation_fr",
        |x: Var| vec![forward(|x: Var| x * grad(|y: Var| x * y)(2.0 * x.ones_like()))(x)],
        3.0,
        &[6.0],
    );

    check(seen, "grad^1_exp_sin", |x: Var| vec![grad(exp_sin)(x)], 0.7);
    check(seen, "grad^2_exp_sin", |x: Var| vec![grad(grad(exp_sin))(x)], 0.7);
    check(seen, "grad^3_exp_sin", |x: Var| vec![grad(grad(grad(exp_sin)))(x)], 0.7);
    check(seen, "grad^4_exp_sin", |x: Var| vec![grad(grad(grad(grad(exp_sin))))(x)], 0.7);
    check(seen, "grad^5_exp_sin", |x: Var| vec![grad(grad(grad(grad(grad(exp_sin)))))(x)], 0.7);

    check(seen, "hessian", |(a, x): (Var, Var)| vec![hessian(|x| g(a, x))(x)], (a(), X3));
    let product = |(a, x, v): (Var, Var, Var)| vec![jvp(grad(|x| g(a, x)))((x, v)).1];
    check(seen, "hvp_fr", product, (a(), X3, V3));
    let scaled = |a: Var| move |x: Var| a.dot(x).sin() * x;
    check(seen, "jacfwd", move |(a, x): (Var, Var)| vec![jacfwd(scaled(a))(x)], (a(), X3));
    check(seen, "jacrev", move |(a, x): (Var, Var)| vec![jacrev(scaled(a))(x)], (a(), X3));
    let transposed =
        |(a, x, ct): (Var, Var, Var)| vec![linear_transpose(|x: Var| a.dot(x.flip(0)), x)(ct)];
    check(seen, "linear_transpose", transposed, (a(), X3, V3));
    check(
        seen,
        "vmap_grad",
        |(w, rows): (Var, Var)| vec![vmap(|x: Var| grad(|w: Var| w.dot(x).square())(w))(rows)],
        (X3, a()),
    );

    check(
        seen,
        "scan_jvp",
        |x: Var| {
            let (y, dy) = jvp(recurrence)((x, x.ones_like()));
            vec![y.0, y.1, dy.0, dy.1]
        },
        0.5,
    );
    let total = |(c, ys): (Var, Var)| ys.sum() + c;
    check(seen, "scan_grad", move |x: Var| vec![grad(|x| total(recurrence(x)))(x)], 0.5);
    // The recorded number is the gradient of the stacked results only, not of the last carry.
    check(seen, "scan_checkpoint", |x: Var| vec![grad(|x| checkpointed(x).1.sum())(x)], 0.5);
    check(
        seen,
        "fori_static",
        |x: Var| vec![grad(|x: Var| fori_loop(5, |(_, c): (Var, Var)| c * c.sin(), x))(x)],
        1.2,
    );
    let sides = |x: Var| cond(x.gt(0.0), |x: Var| x * x, |x: Var| -3.0 * x, x);
    let value = move |x: Var| {
        let (y, dy) = value_and_grad(sides)(x);
        vec![y, dy]
    };
    check(seen, "cond_-1.0", value, -1.0);
    let chosen = |i: Var| {
        move |x: Var| switch(i, [&|x: Var| x.sin(), &|x: Var| x.cos(), &|x: Var| x.exp()], x)
    };
    check(seen, "switch", move |(i, x): (Var, Var)| vec![grad(chosen(i))(x)], (1i64, 0.3));
    let grown = |x: Var| while_loop(|x: Var| x.lt(10.0), |x: Var| x * x + 1.0, x);
    let tangent = move |x: Var| {
        let (y, dy) = jvp(grown)((x, x.ones_like()));
        vec![y, dy]
    };
    check(seen, "while_fwd", tangent, 1.1);
    check(seen, "while_rev_expected", move |x: Var| vec![grad(grown)(x)], 1.1);

    let guarded = |x: Var| select(x.gt(0.0), x.ln(), 0.0);
    check(seen, "where_nan", move |x: Var| vec![grad(guarded)(x)], 0.0);
    let safe = |x: Var| select(x.gt(0.0), select(x.gt(0.0), x, 1.0).ln(), 0.0);
    check(seen, "double_where", move |x: Var| vec![grad(safe)(x)], 0.0);
    check(seen, "stop_gradient", |x: Var| vec![grad(|x: Var| x * x.stop_gradient())(x)], 3.0);
    let straight_through = |x: Var| (x + (x.round() - x).stop_gradient()).square();
    check(seen, "ste_round", move |x: Var| vec![grad(straight_through)(x)], 2.3);
    let set = |x: Var| x.at(1).set(x.index(0) * x.index(1)).prod();
    check(seen, "at_set_functional", move |x: Var| vec![grad(set)(x)], X3);
    let twice = Tensor::from([0i64, 0, 2]);
    let gathered = move |x: Var| vec![grad(|x: Var| x.take(constant(&twice), 0).square().sum())(x)];
    check(seen, "gather_dup", gathered, X3);

    check(
        seen,
        "custom_jvp_log1pexp_100",
        |x: Var| vec![grad(log1pexp)(x), grad(grad(log1pexp))(x)],
        100.0,
    );
    forward_mode_of_a_reverse_rule();
    seen.names.insert("custom_vjp_jvp_error".to_owned());

    let tree = |(w, (b, s)): (Var, (Var, Var))| {
        // The recorded list has the gradients in the order b, s, w, so return them in this order.
        let (dw, (db, ds)) = grad(|(w, (b, s)): (Var, (Var, Var))| w.dot(b).sum() * s)((w, (b, s)));
        vec![db, ds, dw]
    };
    check(seen, "tree", tree, (a(), (X3, 2.0)));
    let rosenbrock = |x: Var| {
        let (x, y) = (x.index(0), x.index(1));
        (1.0 - x).square() + 100.0 * (y - x.square()).square()
    };
    let both = move |x: Var| vec![grad(rosenbrock)(x), hessian(rosenbrock)(x)];
    check(seen, "rosenbrock", both, [-1.2, 1.0]);
    let descent = |lr: Var| {
        let x = (0..5).fold(lr.zeros_like(), |x, _| x - lr * 2.0 * (x - 3.0));
        (x - 3.0).square()
    };
    check(seen, "sgd_hypergrad", move |lr: Var| vec![grad(descent)(lr)], 0.1);

    assert!(seen.failures.is_empty(), "{}", seen.failures.join("\n"));
    let later: BTreeSet<String> = LATER.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(seen.names.intersection(&later).count(), 0);
    let all: BTreeSet<String> = golden()["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(seen.names.union(&later).cloned().collect::<BTreeSet<String>>(), all);
}

/// JAX refuses forward mode of any function with a reverse rule. This library derives the forward mode if the rule is
/// linear in the cotangent, and otherwise refuses it with the reason.
#[test]
fn forward_mode_of_a_reverse_rule() {
    let double =
        |x: Var| custom_vjp(|x: Var| x * 2.0, |x: Var| (x * 2.0, ()), |(), ct: Var| ct * 2.0)(x);
    agree("derived", move |x: Var| vec![forward(double)(x)], 1.0, &[2.0]);
    let clip =
        |x: Var| custom_vjp(|x: Var| x, |x: Var| (x, ()), |(), ct: Var| ct.clamp(-1.0, 1.0))(x);
    let error = run(forward(clip), 1.0).unwrap_err();
    assert_eq!(error.kind(), Kind::NotDifferentiable, "{error}");
    assert!(error.to_string().contains("clamp"), "{error}");
}

/// Derivatives of `exp(sin x)` up to order 8, compared with Taylor coefficients from the recurrences of sin, cos and
/// exp: with `u = sin x` and `v = cos x`, `u' = v`, `v' = -u`, and `y = exp u` has `y' = y u'`.
#[test]
fn eighth_order() {
    const N: usize = 8;
    let x = 0.7_f64;
    let (mut u, mut v, mut y) = ([0.0; N + 1], [0.0; N + 1], [0.0; N + 1]);
    (u[0], v[0]) = x.sin_cos();
    y[0] = u[0].exp();
    for k in 0..N {
        let n = (k + 1) as f64;
        u[k + 1] = v[k] / n;
        v[k + 1] = -u[k] / n;
        y[k + 1] = (0..=k).map(|j| (j + 1) as f64 * u[j + 1] * y[k - j]).sum::<f64>() / n;
    }
    let factorial = |n: usize| (1..=n).map(|i| i as f64).product::<f64>();
    let sixth = |x: Var| grad(grad(grad(grad(grad(grad(exp_sin))))))(x);
    agree("order 6", move |x: Var| vec![sixth(x)], x, &[y[6] * factorial(6)]);
    agree("order 7", move |x: Var| vec![grad(sixth)(x)], x, &[y[7] * factorial(7)]);
    agree("order 8", move |x: Var| vec![grad(grad(sixth))(x)], x, &[y[8] * factorial(8)]);
    // Forward mode nested eight times must give the same eighth derivative.
    let d2 = |x: Var| forward(forward(exp_sin))(x);
    let d4 = move |x: Var| forward(forward(d2))(x);
    let d8 = move |x: Var| forward(forward(forward(forward(d4))))(x);
    agree("order 8, forward", move |x: Var| vec![d8(x)], x, &[y[8] * factorial(8)]);
}
