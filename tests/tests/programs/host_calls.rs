//! Host calls through the public API: compiled and interpreted programs, and programs of XLA where a plugin is set, must make the
//! same calls in the same order with the same operands, and a failure of the host function must be an error at the user's line.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use tapeloom::prelude::*;
use tapeloom::xla::Client;
use tapeloom::{ArrayType, Error, Kind, Target};
use tapeloom_tests::xla::client_or_skip;
use tapeloom_tests::{Agreement, Heard, Listener};

/// An engine on which a test runs a program.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Engine {
    Native,
    Interpreter,
    Xla,
}

/// A client of XLA with one device, if a plugin is set.
static CLIENT: LazyLock<Option<Client>> = LazyLock::new(client_or_skip);

impl Engine {
    /// Returns the engines of this process, [`Engine::Native`] first.
    fn all() -> Vec<Engine> {
        let xla = CLIENT.is_some().then_some(Engine::Xla);
        [Engine::Native, Engine::Interpreter].into_iter().chain(xla).collect()
    }

    /// Compiles a closure for the engine. On XLA, loops that save residuals have room for 40 iterations.
    fn jit<A: Tree<Var>, B: Tree<Var>, F: Fn(A) -> B>(self, f: F) -> Jit<A, B, F> {
        match (self, &*CLIENT) {
            (Engine::Interpreter, _) => jit(f).interpreted(),
            (Engine::Xla, Some(client)) => jit(f).on(Target::Xla(client.clone())).max_steps(40),
            (Engine::Native, _) | (Engine::Xla, None) => jit(f),
        }
    }
}

/// Runs a program on all engines, checks that their logs are equal, on XLA to rounding, and returns the log as text.
#[track_caller]
fn heard(f: impl Fn(&Listener, Var) -> Var + Copy, x: &Tensor) -> String {
    let effects_on = |engine: Engine| -> Heard {
        let log = Listener::default();
        let inside = log.clone();
        let g = engine.jit(move |x: Var| f(&inside, x));
        g.call(x).unwrap();
        let once = log.take();
        // A second call of the same program must make the same entries in the log.
        g.call(x).unwrap();
        assert_eq!(log.take(), once);
        once
    };
    let native = effects_on(Engine::Native);
    assert_eq!(native, effects_on(Engine::Interpreter));
    if CLIENT.is_some() {
        Agreement::CLOSE.check_heard(&effects_on(Engine::Xla), &native).unwrap();
    }
    let words = native.iter().map(|(name, x)| {
        let x: Vec<String> = x.iter().map(f64::to_string).collect();
        format!("{name} {}", x.join(" "))
    });
    words.collect::<Vec<String>>().join(", ")
}

/// Returns the sum of `f` over the elements of `x` as a batch, a scalar to be differentiated.
fn total(f: impl Fn(Var) -> Var, x: Var) -> Var {
    vmap(f)(x).sum()
}

#[test]
fn in_the_order_of_the_program() {
    let f = |log: &Listener, x: Var| {
        let y = log.see("y", x * 2.0);
        log.see("unread", y + 1.0);
        log.see("y", x * 2.0);
        log.see("constant", zeros([], Dtype::F64) + 4.0);
        log.see("z", y.sin() * 0.0)
    };
    assert_eq!(heard(f, &Tensor::from(1.5)), "y 3, unread 4, y 3, constant 4, z 0");
}

#[test]
fn in_loops_step_by_step() {
    let up = |log: &Listener, x: Var| {
        let iteration = |(c, x): (Var, Var)| (log.see("c", c + x), log.see("x", x));
        scan(iteration, zeros([], Dtype::F64), x).0
    };
    let x = Tensor::from([1.0, 2.0, 3.0]);
    assert_eq!(heard(up, &x), "c 1, x 1, c 3, x 2, c 6, x 3");
    let down = |log: &Listener, x: Var| {
        let iteration = |(c, x): (Var, Var)| (log.see("c", c + x), x);
        scan_reverse(iteration, zeros([], Dtype::F64), x).0
    };
    assert_eq!(heard(down, &x), "c 3, c 5, c 6");
    let none =
        |log: &Listener, x: Var| fori_loop(0, |(_, c): (Var, Var)| log.see("never", c), x.sum());
    assert_eq!(heard(none, &x), "");
    let until = |log: &Listener, x: Var| {
        while_loop(|c: Var| c.lt(20.0), |c: Var| log.see("c", c * 2.0), x.sum())
    };
    assert_eq!(heard(until, &x), "c 12, c 24");
    let nested = |log: &Listener, x: Var| {
        let inner = |c: Var| fori_loop(2, |(_, c): (Var, Var)| log.see("in", c + 1.0), c);
        fori_loop(2, |(_, c): (Var, Var)| log.see("out", inner(c)), x.sum())
    };
    assert_eq!(heard(nested, &x), "in 7, in 8, out 8, in 9, in 10, out 10");
}

#[test]
fn in_the_branch_that_is_taken() {
    let f = |log: &Listener, x: Var| {
        let side = |name| move |x: Var| log.see(name, x);
        let y = cond(x.gt(0.0), side("yes"), side("no"), x);
        let [zero, one, more] = [side("zero"), side("one"), side("more")];
        switch(y.convert(Dtype::I64), [&zero, &one, &more], y)
    };
    assert_eq!(heard(f, &Tensor::from(1.5)), "yes 1.5, one 1.5");
    assert_eq!(heard(f, &Tensor::from(-2.5)), "no -2.5, zero -2.5");
    assert_eq!(heard(f, &Tensor::from(9.0)), "yes 9, more 9");
}

#[test]
fn for_each_member_that_takes_part_in_their_order() {
    let x = Tensor::from([3.0, -1.0, 2.0]);
    let straight = |log: &Listener, x: Var| total(|x| log.see("b", log.see("a", x) * 2.0), x);
    assert_eq!(heard(straight, &x), "a 3, a -1, a 2, b 6, b -2, b 4");
    // A value that all batch members share must be logged once for each member.
    let shared = |log: &Listener, x: Var| {
        let whole = x.sum();
        total(|x| x + log.see("s", whole), x)
    };
    assert_eq!(heard(shared, &x), "s 4, s 4, s 4");
    let branches = |log: &Listener, x: Var| {
        let side = |name| move |x: Var| log.see(name, x * 2.0);
        total(|x| cond(x.gt(0.0), side("yes"), side("no"), x), x)
    };
    assert_eq!(heard(branches, &x), "yes 6, no -2, yes 4");
    // In each iteration, an entry is logged only for members whose loops have not ended.
    let iterations = |log: &Listener, x: Var| {
        total(|x| while_loop(|c: Var| c.lt(4.0), |c: Var| log.see("c", c + 1.0), x), x)
    };
    assert_eq!(heard(iterations, &x), "c 4, c 0, c 3, c 1, c 4, c 2, c 3, c 4");
    let counted = |log: &Listener, x: Var| {
        let iteration = |(_, c): (Var, Var)| log.see("c", c + 1.0);
        total(|x| fori_loop(x.convert(Dtype::I64), iteration, x), x)
    };
    assert_eq!(heard(counted, &x), "c 4, c 3, c 5, c 4, c 6");
    let steps = |log: &Listener, x: Var| {
        let iteration = |(_, c): (Var, Var)| log.see("c", c + 1.0);
        total(|x| fori_loop(2, iteration, x), x)
    };
    assert_eq!(heard(steps, &x), "c 4, c 0, c 3, c 5, c 1, c 4");
    let pairs = |log: &Listener, x: Var| {
        let x = stack(&[x, x * 10.0], 1);
        vmap(|row: Var| total(|x| log.see("x", x), row))(x).sum()
    };
    assert_eq!(heard(pairs, &x), "x 3, x 30, x -1, x -10, x 2, x 20");
    let nobody = |log: &Listener, x: Var| total(|x| log.see("x", x), x);
    assert_eq!(heard(nobody, &Tensor::vector(&[0.0; 0])), "");
}

#[test]
fn once_under_every_derivative() {
    let x = Tensor::from(0.5);
    let f = |log: &Listener, x: Var| {
        let y = log.see("y", x * 2.0).named("a");
        let z = fori_loop(2, |(_, c): (Var, Var)| log.see("c", c * y), y).named("b.c");
        cond(z.gt(0.0), |z: Var| log.see("z", z * z), |z: Var| z, z)
    };
    let want = "y 1, c 1, c 1, z 1";
    assert_eq!(heard(f, &x), want);
    let forward = |log: &Listener, x: Var| jvp(|x: Var| f(log, x))((x, ones_like(&x))).1;
    assert_eq!(heard(forward, &x), want);
    assert_eq!(heard(|log, x| grad(|x: Var| f(log, x))(x), &x), want);
    assert_eq!(heard(|log, x| grad(grad(|x: Var| f(log, x)))(x), &x), want);
    assert_eq!(heard(|log, x| hessian(|x: Var| f(log, x))(x), &x), want);
    let third = |log: &Listener, x: Var| grad(grad(grad(|x: Var| f(log, x))))(x);
    assert_eq!(heard(third, &x), want);
    let both = |log: &Listener, x: Var| linearize(|x: Var| f(log, x))(x).1(x);
    assert_eq!(heard(both, &x), want);
    // Each effect must be logged once, for an outlined call whose body is moved, and for recomputation under any
    // policy.
    assert_eq!(heard(|log, x| grad(outline(|x: Var| f(log, x)))(x), &x), want);
    for policy in Policy::samples() {
        let once = |log: &Listener, x: Var| grad(checkpoint(|x: Var| f(log, x), policy.clone()))(x);
        assert_eq!(heard(once, &x), want, "{policy}");
        let again =
            |log: &Listener, x: Var| grad(grad(checkpoint(|x: Var| f(log, x), policy.clone())))(x);
        assert_eq!(heard(again, &x), want, "{policy}");
    }
    let twice = |log: &Listener, x: Var| {
        let f = outline(|x: Var| log.see("x", x).sin());
        grad(|x: Var| f(x) + f(f(x)))(x)
    };
    let at = |x: f64| format!("x {x}");
    assert_eq!(heard(twice, &x), [at(0.5), at(0.5), at(0.5f64.sin())].join(", "));
}

#[test]
fn reverse_mode_over_batches_and_batches_of_reverse_mode() {
    let x = Tensor::from([3.0, -1.0, 2.0]);
    let f = |log: &Listener, x: Var| {
        let side = |name| move |x: Var| log.see(name, x * 2.0);
        let y = cond(x.gt(0.0), side("yes"), side("no"), x);
        while_loop(|y: Var| y.lt(6.0), |y: Var| log.see("up", y + 3.0), y)
    };
    // The branch logs one entry for each member in turn; then each iteration logs one entry for each member in turn.
    let want = "yes 6, no -2, yes 4, up 1, up 7, up 4, up 7";
    assert_eq!(heard(|log, x| total(|x| f(log, x), x), &x), want);
    assert_eq!(heard(|log, x| grad(|x: Var| total(|x| f(log, x), x))(x), &x), want);
    assert_eq!(heard(|log, x| vmap(grad(|x: Var| f(log, x)))(x), &x), want);
    assert_eq!(heard(|log, x| vmap(grad(grad(|x: Var| f(log, x))))(x), &x), want);
}

#[test]
fn cotangents_on_their_way_back() {
    let x = Tensor::from(0.5);
    let f = |log: &Listener, x: Var| {
        let y = log.see_back("y", x * 2.0);
        let z = log.see_back("z", y * y * 3.0);
        log.see_back("unread", x);
        z * 5.0
    };
    assert_eq!(heard(f, &x), "");
    assert_eq!(heard(|log, x| grad(|x: Var| f(log, x))(x), &x), "z 5, y 30");
    // Forward mode has no cotangents, so no cotangents are logged. In a second derivative, the first reverse pass is
    // part of the function, so its cotangents are logged first.
    assert_eq!(heard(|log, x| jvp(|x: Var| f(log, x))((x, x)).1, &x), "");
    assert_eq!(
        heard(|log, x| grad(grad(|x: Var| f(log, x)))(x), &x)
            .split(", ")
            .take(2)
            .collect::<Vec<_>>(),
        ["z 5", "y 30"]
    );
    let iterations = |log: &Listener, x: Var| {
        grad(|x: Var| fori_loop(3, |(_, c): (Var, Var)| log.see_back("c", c * 2.0), x))(x)
    };
    assert_eq!(heard(iterations, &x), "c 1, c 2, c 4");
    let branch = |log: &Listener, x: Var| {
        let side = |name| move |x: Var| log.see_back(name, x) * 3.0;
        grad(|x: Var| cond(x.gt(0.0), side("yes"), side("no"), x))(x)
    };
    assert_eq!(heard(branch, &x), "yes 3");
    // Cotangents of batch members are logged only for the iterations that each member ran.
    let x = Tensor::from([3.0, -1.0, 2.0]);
    let members = |log: &Listener, x: Var| {
        let up = |c: Var| log.see_back("c", c + 1.0);
        vmap(grad(|x: Var| 2.0 * while_loop(|c: Var| c.lt(3.0), up, x)))(x)
    };
    assert_eq!(heard(members, &x), "c 2, c 2, c 2, c 2, c 2");
    let sum = |log: &Listener, x: Var| {
        let side = |name| move |x: Var| log.see_back(name, x) * 3.0;
        grad(|x: Var| total(|x| cond(x.gt(0.0), side("yes"), side("no"), x), x))(x)
    };
    let mut seen: Vec<String> = heard(sum, &x).split(", ").map(str::to_owned).collect();
    seen.sort();
    assert_eq!(seen, ["no 3", "yes 3", "yes 3"]);
}

#[test]
fn rules_are_seen_where_they_run() {
    let x = Tensor::from(0.5);
    let f = |log: &Listener, x: Var| {
        let rule =
            |x: Var, dx: Var| (log.see("in the rule", x).sin(), log.see("tangent", dx) * x.cos());
        custom_jvp(|x: Var| log.see("in the function", x).sin(), rule)(x)
    };
    assert_eq!(heard(f, &x), "in the function 0.5");
    let forward = |log: &Listener, x: Var| jvp(|x: Var| f(log, x))((x, x * 4.0)).1;
    assert_eq!(heard(forward, &x), "in the rule 0.5, tangent 2");
    // For reverse mode the rule is linearized and transposed, so it is called without a tangent: only the value is
    // logged.
    assert_eq!(heard(|log, x| grad(|x: Var| f(log, x))(x), &x), "in the rule 0.5");
    let halves = |log: &Listener, x: Var| {
        let fwd = |x: Var| (log.see("fwd", x).sin(), x.cos());
        let bwd = |c: Var, ct: Var| log.see("bwd", ct) * c;
        grad(custom_vjp(|x: Var| x.sin(), fwd, bwd))(x)
    };
    assert_eq!(heard(halves, &x), "fwd 0.5, bwd 1");
}

/// Returns ln x, computed by a host function, with derivatives up to this order. The function's rule calls `ln_to`
/// again, for one order less.
fn ln_to(order: usize, x: Var) -> Var {
    let by_rust =
        |x: Var| callback("ln", x, x.array_type(), |x: Tensor| Ok(x.map_numbers(f64::ln)));
    match order {
        0 => by_rust(x),
        _ => custom_jvp(by_rust, move |x: Var, dx: Var| (ln_to(order - 1, x), dx / x))(x),
    }
}

fn ln(x: Var) -> Var {
    ln_to(3, x)
}

#[test]
fn callbacks_are_functions_like_others() {
    let same = |f: &dyn Fn(Var) -> Var, g: &dyn Fn(Var) -> Var, x: &Tensor| {
        for engine in Engine::all() {
            let (got, want) = (engine.jit(f).call(x).unwrap(), engine.jit(g).call(x).unwrap());
            for (got, want) in got.numbers().zip(want.numbers()) {
                assert!((got - want).abs() <= 1e-14 * want.abs(), "{got} {want}");
            }
        }
    };
    let x = Tensor::from([0.5, 2.0, 3.0]);
    same(&ln, &Var::ln, &x);
    same(&|x| grad(|x: Var| (ln(x) * x).sum())(x), &|x| grad(|x: Var| (x.ln() * x).sum())(x), &x);
    same(&vmap(grad(grad(ln))), &vmap(grad(grad(Var::ln))), &x);
    let folded = |f: fn(Var) -> Var| {
        move |x: Var| grad(|x: Var| scan(|(c, x): (Var, Var)| (c * f(x), c), x.sum(), x).0)(x)
    };
    same(&folded(ln), &folded(Var::ln), &x);
    let branch = |f: fn(Var) -> Var| {
        let each = move |x: Var| cond(x.gt(1.0), |x: Var| f(x), |x: Var| x * x, x);
        move |x: Var| grad(|x: Var| vmap(each)(x).sum())(x)
    };
    same(&branch(ln), &branch(Var::ln), &x);
    let pairs =
        |f: fn(Var) -> Var| move |x: Var| vmap(|a: Var| vmap(|b: Var| f(a) * f(b + a))(x))(x);
    same(&pairs(ln), &pairs(Var::ln), &x);
}

#[test]
fn callbacks_take_and_give_trees() {
    let f = |(x, n): (Var, [Var; 2])| {
        let types = (x.array_type(), vec![ArrayType::new(Dtype::I64, [2]), n[0].array_type()]);
        callback("trees", (x, n), types, |(x, n): (Tensor, [Tensor; 2])| {
            let sum = n[0].item::<f64>()? + n[1].item::<f64>()?;
            Ok((x.map_numbers(|x| x + sum), vec![Tensor::from([1i64, 2]), Tensor::from(sum)]))
        })
    };
    for engine in Engine::all() {
        let (x, rest) = engine.jit(f).call(([1.0, 2.0], [10.0, 20.0])).unwrap();
        assert_eq!(
            (x, rest),
            (Tensor::from([31.0, 32.0]), vec![Tensor::from([1i64, 2]), Tensor::from(30.0)])
        );
    }
}

#[test]
fn a_rule_for_batches_is_asked_once() {
    let log = Listener::default();
    let inside = log.clone();
    let f = move |(x, y): (Var, Var)| {
        let (one, all) = (inside.clone(), inside.clone());
        let alone = move |(x, y): (Tensor, Tensor)| {
            one.hear("alone", std::slice::from_ref(&x));
            Ok(Tensor::from(x.item::<f64>()? * y.item::<f64>()?))
        };
        let many = move |n, (x, y): (Tensor, Tensor)| {
            all.hear("all", &[x.clone(), y.clone()]);
            assert_eq!((x.shape()[0], y.shape()[0]), (n, n));
            let product: Vec<f64> = x.numbers().zip(y.numbers()).map(|(x, y)| x * y).collect();
            Ok(Tensor::vector(&product))
        };
        callback_batched("mul", (x, y), x.array_type(), alone, many)
    };
    for engine in Engine::all() {
        let f = f.clone();
        let g = engine.jit(move |(x, y): (Var, Var)| vmap(|x: Var| f((x, y)))(x));
        assert_eq!(g.call(([1.0, 2.0], 3.0)).unwrap(), Tensor::from([3.0, 6.0]));
        assert_eq!(log.take(), [("all".to_owned(), vec![1.0, 2.0, 3.0, 3.0])]);
    }
    let nested = jit(move |(x, y): (Var, Var)| vmap(|x: Var| vmap(|y: Var| f((x, y)))(y))(x));
    let got = nested.call(([1.0, 2.0], [3.0, 5.0, 7.0])).unwrap();
    assert_eq!(got, Tensor::from([[3.0, 5.0, 7.0], [6.0, 10.0, 14.0]]));
    assert_eq!(log.take().len(), 1);
}

/// Returns the error of a call, which must be the same on all engines, contain the texts `want`, and name the line of the
/// closure's first statement.
#[track_caller]
fn error(f: impl Fn(Var) -> Var + Copy, x: &Tensor, want: &[&str]) -> Error {
    let errors = Engine::all().into_iter().map(|engine| engine.jit(f).call(x).unwrap_err());
    let mut errors: Vec<Error> = errors.collect();
    for error in &errors {
        let text = error.to_string();
        assert_eq!(text.lines().next(), errors[0].to_string().lines().next());
        assert!(text.contains("host_calls.rs"), "{text}");
        for want in want {
            assert!(text.contains(want), "{want}:\n{text}");
        }
    }
    errors.swap_remove(0)
}

#[test]
fn faults_of_host_functions_are_errors_with_the_line() {
    let x = Tensor::from([1.0, 2.0]);
    let here = line!();
    let panics = |x: Var| callback("f", x, x.array_type(), |_: Tensor| panic!("no {}", "answer"));
    let e = error(panics, &x, &["`f` panicked: no answer", &format!("host_calls.rs:{}", here + 1)]);
    assert_eq!(e.kind(), Kind::Callback);
    let says_nothing =
        |x: Var| callback("f", x, x.array_type(), |_: Tensor| std::panic::panic_any(7));
    error(says_nothing, &x, &["a panic without a message"]);
    let fails = |x: Var| callback("f", x, x.array_type(), |_: Tensor| Err("out of range".into()));
    error(fails, &x, &["`f` failed: out of range"]);
    let asks =
        |x: Var| callback("f", x, x.array_type(), |x: Tensor| Ok(Tensor::from(x.item::<f64>()?)));
    error(asks, &x, &["`f` failed: "]);
    let shape = |x: Var| callback("f", x, x.array_type(), |_: Tensor| Ok(Tensor::from(1.0)));
    error(shape, &x, &["`f` was declared to return (f64[2]) and returned (f64[])"]);
    let dtype = |x: Var| callback("f", x, x.array_type(), |_: Tensor| Ok(Tensor::from([1i64, 2])));
    error(dtype, &x, &["to return (f64[2]) and returned (i64[2])"]);
    let count =
        |x: Var| callback("f", x, vec![x.array_type()], |x: Tensor| Ok(vec![x.clone(), x]))[0];
    error(count, &x, &["to return (f64[2]) and returned (f64[2], f64[2])"]);
    let member = |x: Var| {
        vmap(|x: Var| callback("f", x, x.array_type(), |_: Tensor| Ok(Tensor::from([1.0]))))(x)
    };
    error(member, &x, &["to return (f64[]) and returned (f64[1])"]);
    let batch = |x: Var| {
        let all = |_, _: Tensor| Ok(Tensor::from(1.0));
        vmap(|x: Var| callback_batched("f", x, x.array_type(), Ok, all))(x)
    };
    error(batch, &x, &["to return (f64[2]) and returned (f64[])"]);
    error(|x: Var| tap(x, |_: Tensor| panic!("seen")), &x, &["`tap` panicked: seen"]);
    let back = |x: Var| grad(|x: Var| tap_cotangent(x, |_: Tensor| panic!("seen")).sum())(x);
    error(back, &x, &["`tap` panicked: seen"]);
    let deep = |x: Var| {
        let f = |x: Var| callback("f", x, x.array_type(), |_: Tensor| panic!("deep"));
        fori_loop(2, |(_, x): (Var, Var)| outline(f)(x) + x, x)
    };
    error(deep, &x, &["`f` panicked: deep"]);
    // After an error, the same program must run again.
    for engine in Engine::all() {
        let f = engine.jit(|x: Var| {
            callback("positive", x, x.array_type(), |x: Tensor| {
                if x.item::<f64>()? > 0.0 { Ok(x) } else { Err("not positive".into()) }
            })
        });
        assert!(f.call(-1.0).is_err());
        assert_eq!(f.call(1.0).unwrap(), Tensor::from(1.0));
    }
}

#[test]
fn misuse_of_host_functions_is_an_error_of_the_trace() {
    let x = Tensor::from([1.0, 2.0]);
    let f = |x: Var| callback("f", x, x.array_type(), |x: Tensor| Ok(x));
    let e = error(
        |x: Var| grad(|x: Var| f(x).sum())(x),
        &x,
        &["`f` is a Rust function without a derivative rule"],
    );
    assert_eq!(e.kind(), Kind::NotDifferentiable);
    error(|x: Var| jvp(|x: Var| f(x))((x, x)).1, &x, &["without a derivative rule"]);
    error(|x: Var| vmap(grad(f))(x), &x, &["without a derivative rule"]);
    // An integer result of a host function has no derivative and needs no rule.
    let place = |x: Var| {
        let at = |x: Tensor| Ok(Tensor::from(i64::from(x.to_vec::<f64>()?[0] > 1.0)));
        x.at(callback("place", x, ArrayType::new(Dtype::I64, []), at)).get()
    };
    let g = jit(grad(move |x: Var| place(x) * 2.0));
    assert_eq!(g.call([1.5, 2.0]).unwrap(), Tensor::from([0.0, 2.0]));
    let stopped = |x: Var| grad(|x: Var| (f(x.stop_gradient()) * x).sum())(x);
    assert_eq!(jit(stopped).call(&x).unwrap(), x);
    let condition = |x: Var| {
        let asks = |x: Var| tap(x, |_: Tensor| {}).sum().lt(9.0);
        while_loop(asks, |x: Var| x * 2.0, x)
    };
    error(condition, &x, &["condition", "effect"]);
    let escaped = jit(|x: Var| x).call(&x).unwrap();
    assert_eq!(escaped, x);
    let large = |x: Var| {
        callback("f", x, ArrayType::new(Dtype::F64, [1 << 40, 1 << 40]), |x: Tensor| Ok(x))
    };
    error(large, &x, &["larger than memory can be"]);
    let wrong =
        |x: Var| callback("f", x + ones([3], Dtype::F64), x.array_type(), |x: Tensor| Ok(x));
    error(wrong, &x, &["cannot broadcast shapes [2] and [3]"]);
}

/// Returns the first line of the error that `nan_check` gives, or "finite" if there is none.
#[track_caller]
fn checked(f: impl Fn(Var) -> Var, x: &Tensor) -> String {
    match jit(f).nan_check().call(x) {
        Ok(_) => "finite".to_owned(),
        Err(e) => {
            assert_eq!(e.kind(), Kind::NotFinite, "{e}");
            assert!(e.to_string().contains("host_calls.rs"), "{e}");
            let text = e.to_string();
            text.lines().next().unwrap().split(": ").skip(1).collect::<Vec<_>>().join(": ")
        }
    }
}

const FIRST: &str = "a value that is not finite first appeared";

#[test]
fn the_first_nonfinite_value_is_located() {
    let x = Tensor::from([1.0, 0.0, -1.0]);
    let here = |what: &str| format!("{FIRST}: {what}");
    assert_eq!(checked(|x: Var| x.sin(), &x), "finite");
    assert_eq!(checked(|x: Var| x.ln().sin(), &x), here("`log` gave nan at [2], from -1.0"));
    assert_eq!(
        checked(|x: Var| (1.0 / x).sum(), &x),
        here("`div` gave inf at [1], from 1.0 and 0.0")
    );
    assert_eq!(
        checked(|x: Var| (x * 1e200).exp().sum(), &x),
        here("`exp` gave inf at [0], from 1e200")
    );
    // An infinity that does not appear in the results must be found.
    assert_eq!(
        checked(|x: Var| (1.0 / x).atan(), &x),
        here("`div` gave inf at [1], from 1.0 and 0.0")
    );
    // A nan that is computed from infinities, of the program or of an argument, must be found.
    let y = Tensor::from([f64::INFINITY, 1.0]);
    assert_eq!(checked(|x: Var| x - x, &y), here("`sub` gave nan at [0], from inf and inf"));
    assert_eq!(checked(|x: Var| x * 2.0, &y), "result 0 is not finite, and neither is argument 0");
    assert_eq!(checked(|x: Var| x.atan(), &y), "finite");
    assert_eq!(checked(|x: Var| x.minimum(f64::INFINITY), &x), "finite");
    // The first nan or infinity must be found inside loops, branches and calls.
    let iterations = |x: Var| fori_loop(2000, |(_, c): (Var, Var)| c * 2.0, x);
    assert_eq!(
        checked(iterations, &Tensor::from(1.0)),
        here("`mul` gave inf, from 8.98846567431158e307 and 2.0")
    );
    let inside =
        |x: Var| scan(|(c, x): (Var, Var)| (c + outline(|x: Var| x.sqrt())(x), c), x.sum(), x).0;
    assert_eq!(checked(inside, &x), here("`sqrt` gave nan, from -1.0"));
    let swallowed = |x: Var| {
        let y = x.ln();
        map(|y: Var| y.exp(), y)
    };
    let zero = Tensor::from([1.0, 0.0]);
    assert_eq!(checked(swallowed, &zero), here("`log` gave -inf at [1], from 0.0"));
    // The first nan or infinity that occurs only in the reverse pass must be found.
    let norm = |x: Var| grad(|x: Var| (x * x).sum().sqrt())(x);
    let text = checked(norm, &Tensor::from([0.0, 0.0]));
    assert!(text.starts_with(FIRST) && text.contains("`div` gave inf, from 0.5 and 0.0"), "{text}");
    let back = |x: Var| {
        grad(|x: Var| custom_vjp(|x: Var| x, |x: Var| (x, x), |x: Var, ct: Var| ct / x)(x).sum())(x)
    };
    assert_eq!(checked(back, &zero), here("`div` gave inf at [1], from 1.0 and 0.0"));
}

#[test]
fn nonfinite_values_that_are_not_selected_are_ignored() {
    let x = Tensor::from([1.0, 0.0, -1.0]);
    assert_eq!(checked(|x: Var| select(x.gt(0.0), x.ln(), x), &x), "finite");
    assert_eq!(
        checked(
            |x: Var| {
                x.ln();
                x
            },
            &x
        ),
        "finite"
    );
    assert_eq!(checked(|x: Var| x.ln().index(0), &x), "finite");
    assert_eq!(checked(|x: Var| select(x.ln().is_finite(), x.ln(), 0.0), &x), "finite");
    let sides = |x: Var| cond(x.gt(0.0), |x: Var| x.ln(), |x: Var| x, x);
    assert_eq!(checked(move |x: Var| vmap(sides)(x), &x), "finite");
    assert_eq!(checked(move |x: Var| vmap(grad(sides))(x), &x), "finite");
    assert_eq!(checked(move |x: Var| grad(move |x: Var| vmap(sides)(x).sum())(x), &x), "finite");
    // Batch members that have finished would reach a pole in further iterations: no error may be reported for them.
    let iterations = |x: Var| while_loop(|x: Var| x.lt(0.5), |x: Var| 1.0 / (1.0 - x), x);
    assert_eq!(checked(move |x: Var| vmap(iterations)(x), &x), "finite");
    assert_eq!(checked(move |x: Var| vmap(grad(iterations))(x), &x), "finite");
    // In the gradient of a `select`, zero is multiplied by the infinite slope of the other side: this nan must be
    // reported.
    let trap = |x: Var| grad(|x: Var| select(x.gt(0.0), x.sqrt(), x).sum())(x);
    assert!(checked(trap, &x).starts_with(FIRST));
    // Numbers that a host function computes, and programs that it runs, are not checked.
    let own = |x: Var| {
        callback("own", x, x.array_type(), |x: Tensor| {
            let g = jit(|x: Var| select(x.gt(2.0), 1.0 / (x - x), 1.0)).interpreted();
            Ok(g.call(&x)?)
        })
    };
    assert_eq!(checked(own, &x), "finite");
}

#[test]
fn programs_show_names() {
    let f = |x: Var| {
        callback("my spline!", x, x.array_type(), |x: Tensor| Ok(x))
            + callback("my spline!", x, x.array_type(), |x: Tensor| Ok(x))
    };
    let text = jit(f).explain(1.0).unwrap().to_string();
    assert!(text.contains("callback{host=&my_spline_, results=[f64[]]}"), "{text}");
    assert!(text.contains("callback{host=&my_spline_.2, results=[f64[]]}"), "{text}");
    assert!(text.contains("ask &my_spline_ (b0[0; 1]: f64[]) to"), "{text}");
}

/// A host function must be called once per iteration under every policy: its results are saved, even if a loop saves
/// only some carries.
#[test]
fn callbacks_in_loops_are_asked_once_under_every_policy() {
    let x = Tensor::from([0.5, 0.25]);
    let program = |asked: &Arc<AtomicUsize>, x: Var| {
        let iteration = |(_, x): (Var, Var)| {
            let asked = asked.clone();
            let half = callback("half", x.stop_gradient(), x.array_type(), move |x: Tensor| {
                asked.fetch_add(1, Ordering::Relaxed);
                Ok(x)
            });
            (x * half).sin() + 0.1
        };
        fori_loop(20, iteration, x.named("a")).named("b.c").sum()
    };
    let gradient = |f: &dyn Fn(Var) -> Var| run(grad(f), &x).unwrap();
    let plain = Arc::new(AtomicUsize::new(0));
    let want = gradient(&|x| program(&plain, x));
    let iterations = plain.load(Ordering::Relaxed);
    assert_eq!(iterations, 20);
    let once = |what: &str, f: &dyn Fn(&Arc<AtomicUsize>, Var) -> Var| {
        let asked = Arc::new(AtomicUsize::new(0));
        let got = gradient(&|x| f(&asked, x));
        // Residuals rounded under `Policy::Rounded` give gradients that are right to six digits.
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-6 * b.abs();
        let rounded = got.to_vec::<f64>().unwrap().iter().zip(&want.to_vec().unwrap()).all(near);
        assert!(got == want || what == "rounded" && rounded, "{what}: {got} {want}");
        assert_eq!(asked.load(Ordering::Relaxed), iterations, "{what}");
    };
    for policy in Policy::samples() {
        let f = |asked: &Arc<AtomicUsize>, x: Var| {
            checkpoint(|x: Var| program(asked, x), policy.clone())(x)
        };
        once(&policy.to_string(), &f);
    }
    once("carries", &|asked, x| checkpoint_carries(3, 1, |x: Var| program(asked, x))(x));
}

/// `debug_print` in a branch must print the whole array, also if the branch reads only single elements of the array.
#[test]
fn branches_show_the_arrays_of_which_they_read_elements() {
    let shown = |(x, i): (Var, Var)| {
        debug_print("x", x);
        x.index(i)
    };
    let f =
        move |x: Var, i: Var| cond(x.sum().gt(0.0), shown, |(x, i): (Var, Var)| x.index(i), (x, i));
    let g = jit(move |(x, i): (Var, Var)| value_and_grad(|x| f(x, i))(x));
    let (y, slope) = g.call((Tensor::full(&[200], 0.5).unwrap(), 3i64)).unwrap();
    assert_eq!(y, Tensor::from(0.5));
    assert_eq!(slope.to_vec::<f64>().unwrap().iter().sum::<f64>(), 1.0);
}
