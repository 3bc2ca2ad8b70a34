//! Linear functions called in loops: the pullbacks and tangent maps of a loop whose trip count is unknown before the
//! run. That loop leaves a dynamic tape, which every iteration of the calling loop reads.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::prelude::*;
use tapeloom_tests::Agreement;

type Two = (Var, Var);
type Linear = Box<dyn Fn(Var) -> Var>;

/// Returns the tangent map (if `forward`) or the pullback at `x` of a loop with three iterations; the trip count is
/// static (if `known`) or a run-time value.
fn linear(x: Var, forward: bool, known: bool) -> Linear {
    let step = |(_, x): Two| x + x.sin() * 0.1;
    let number = (x.sum().stop_gradient() * 0.0 + 3.0).convert(Dtype::I64);
    let run = move |x: Var| if known { fori_loop(3, step, x) } else { fori_loop(number, step, x) };
    if forward { Box::new(linearize(run)(x).1) } else { Box::new(vjp(run)(x).1) }
}

/// A program that applies a linear function in loops, to an array.
type Calls = fn(&dyn Fn(Var) -> Var, Var) -> Var;

/// Returns names and programs whose loops call a linear function in every iteration.
fn loops() -> [(&'static str, Calls); 5] {
    [
        ("a loop", |f, x| fori_loop(2, |(_, y): Two| f(y).sin(), x)),
        ("a loop in a loop", |f, x| {
            let inner = |x: Var| fori_loop(2, |(_, y): Two| f(y).sin(), x);
            fori_loop(2, |(_, y): Two| inner(y) + 0.1 * y, x)
        }),
        ("elements", |f, x| map(|y: Var| f(y).sin(), stack(&[x, 2.0 * x], 0)).sum_axis(0)),
        ("a loop on a condition", |f, x| {
            let go_on = |(i, _): Two| i.lt(2);
            while_loop(go_on, |(i, y): Two| (i + 1, f(y).sin()), (constant(0i64), x)).1
        }),
        ("no iteration", |f, x| {
            let none = (x.sum().stop_gradient() * 0.0).convert(Dtype::I64);
            f(fori_loop(none, |(_, y): Two| f(y).sin(), x))
        }),
    ]
}

#[test]
fn functions_called_in_loops_have_derivatives() {
    type Mode = fn(&dyn Fn(Var) -> Var, Var) -> Var;
    let modes: [(&str, Mode); 5] = [
        ("reverse", |f, x| grad(|x: Var| f(x).sum())(x)),
        ("forward", |f, x| jvp(f)((x, x.cos())).1),
        ("forward of reverse", |f, x| jvp(grad(|x: Var| f(x).sum()))((x, x.cos())).1),
        ("reverse of reverse", |f, x| {
            grad(|x: Var| grad(|x: Var| f(x).sum())(x).square().sum())(x)
        }),
        ("a batch", |f, x| vmap(grad(|x: Var| f(x).sum()))(stack(&[x, 0.5 * x], 0))),
    ];
    let x = Tensor::from([0.7, -0.3]);
    for (name, repeat) in loops() {
        for (mode, derived) in modes {
            // In a batch, members with different trip counts cannot carry a dynamic tape, and a tape carried by an
            // outer loop has no known number of iterations per member: both must be refused with an error.
            let refused = mode == "a batch" && !["a loop", "elements"].contains(&name);
            for forward in [false, true] {
                let f = |known: bool| {
                    let of = move |x: Var| repeat(&*linear(x, forward, known), x);
                    move |x: Var| derived(&of, x)
                };
                let want = run(f(true), &x).unwrap();
                let message = |e| format!("{name}, {mode}, {forward}: {e}");
                for got in [jit(f(false)).call(&x), jit(f(false)).interpreted().call(&x)] {
                    if refused {
                        assert_eq!(got.unwrap_err().kind(), tapeloom::Kind::Target, "{name}");
                        continue;
                    }
                    let got = got.map_err(message).unwrap();
                    Agreement::CLOSE.check(&got, &want).unwrap();
                }
            }
        }
    }
}
