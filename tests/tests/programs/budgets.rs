//! Budgets of the tape: the tape must be within its budget, or the budget is refused with the smallest sufficient one,
//! which must then be obeyed. Values and gradients must equal those without a budget.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::rc::Rc;
use tapeloom::prelude::*;
use tapeloom::{Error, Kind, linalg};
use tapeloom_tests::{Agreement, Listener, Sweep};

type Program = fn(Var) -> Var;

fn swing(x: Var) -> Var {
    let iteration = |(_, (x, v)): (Var, (Var, Var))| (x + v * 0.01, v - x.sin() * 0.01);
    fori_loop(400, iteration, (x, x.zeros_like())).0.sum()
}

fn nest(x: Var) -> Var {
    let inner = |x: Var| fori_loop(40, |(_, x): (Var, Var)| x.sin() + x * 0.1, x);
    fori_loop(50, |(_, x): (Var, Var)| inner(x) + 0.5, x).sum()
}

fn until(x: Var) -> Var {
    let iteration = |x: Var| x + x.sin().square() * 0.1 + 0.01;
    while_loop(|x: Var| x.sum().lt(400.0), iteration, x).sum()
}

fn stacked(x: Var) -> Var {
    let iteration = |(h, t): (Var, Var)| {
        let h = (h * 0.9 + t * 0.01).tanh();
        (h, h * t)
    };
    scan(iteration, x, arange(300, Dtype::F64)).1.square().sum()
}

fn two_loops(x: Var) -> Var {
    let y = fori_loop(100, |(_, y): (Var, Var)| y.sin() * 1.1, x);
    let z =
        fori_loop(200, |(i, z): (Var, Var)| z + (z * y).cos() * 0.01 * i.convert(Dtype::F64), y);
    (z * y).sum()
}

fn branches(x: Var) -> Var {
    let iteration = |(i, x): (Var, Var)| {
        cond(
            i.rem(3).eq(0),
            |x: Var| x.sin().exp() * 0.3,
            |x: Var| fori_loop(5, |(_, x): (Var, Var)| x.cos(), x),
            x,
        )
    };
    fori_loop(120, iteration, x).sum()
}

fn layers(x: Var) -> Var {
    (0..12).fold(x, |x, _| (x.sin() * 1.3).tanh().exp() * 0.4).sum()
}

fn written(x: Var) -> Var {
    let rows = Ref::new(zeros([60, 32], Dtype::F64));
    rows.at(0).set(x);
    fori_loop(59, |(i, ()): (Var, ())| rows.at(i + 1).set(rows.at(i).get().sin() * 1.2), ());
    rows.get().square().sum()
}

const PROGRAMS: [(&str, Program); 8] = [
    ("swing", swing),
    ("nest", nest),
    ("until", until),
    ("stacked", stacked),
    ("two loops", two_loops),
    ("branches", branches),
    ("layers", layers),
    ("written", written),
];

/// Returns the smallest sufficient budget, in bytes, that the error message names, and checks that the message explains
/// the bytes.
fn least(error: &Error) -> u64 {
    assert_eq!(error.kind(), Kind::Budget, "{error}");
    let text = error.to_string();
    // The message must name the values that take the bytes, with the lines that compute them.
    assert!(text.contains(" bytes are ") && text.matches("budgets.rs:").count() > 1, "{text}");
    let (_, rest) = text.split_once("at least ").unwrap();
    rest.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn budgets_are_obeyed_or_refused_with_the_least_number() {
    let x = Tensor::new(&[32], (0..32).map(|i| 0.01 * f64::from(i)).collect::<Vec<_>>()).unwrap();
    for (name, f) in Sweep::TapeOfPrograms.all(PROGRAMS) {
        let want = jit(value_and_grad(f)).call(&x).unwrap();
        // The limit on the workspace besides the tape: twice the gradient's workspace without a budget, because loops
        // that recompute carries need their workspace a second time.
        let e = jit(value_and_grad(f)).explain(&x).unwrap();
        let work = 2 * (e.workspace_bytes() - e.tape().bytes()) as u64 + 8192;
        let mut refused = 0;
        for budget in [10_000_000, 100_000, 30_000, 10_000, 3_000, 1_000, 0] {
            let g = jit(value_and_grad(checkpoint(f, Policy::Bytes(budget))));
            let (budget, g) = match g.explain(&x) {
                Ok(_) => (budget, g),
                Err(error) => {
                    refused += 1;
                    let least = least(&error);
                    assert!(least > budget, "{name}: {error}");
                    (least, jit(value_and_grad(checkpoint(f, Policy::Bytes(least)))))
                }
            };
            let e = g.explain(&x).unwrap_or_else(|e| panic!("{name} in {budget}: {e}"));
            let (tape, all) = (e.tape().bytes(), e.workspace_bytes());
            // Results do not count as tape, even if the reverse pass reads them.
            assert!(tape as u64 <= budget + 64, "{name}: a tape of {tape} in {budget}\n{e}");
            assert!(all as u64 <= budget + work, "{name}: {all} bytes in {budget}\n{e}");
            let got = g.call(&x).unwrap();
            Agreement::CLOSE.check_all(&[got.0, got.1], &[want.0.clone(), want.1.clone()]).unwrap();
            let exact = jit(value_and_grad(checkpoint(f, Policy::Bytes(budget)))).interpreted();
            let plain = jit(value_and_grad(f)).interpreted();
            if budget == 10_000 {
                assert_eq!(exact.call(&x).unwrap(), plain.call(&x).unwrap(), "{name} in {budget}");
            }
        }
        // The program `layers` needs no tape, because its layers can be recomputed from the argument. Every other
        // program must refuse a budget of 0 bytes.
        assert!(refused > 0 || name == "layers", "{name} has a tape without bytes");
    }
}

/// Checks that the tape of a gradient is no larger than its budget in bytes. If a budget is refused, checks the least
/// budget that the error names instead.
#[track_caller]
fn obeyed(name: &str, f: impl Fn(Var) -> Var + Clone, x: &Tensor, budgets: &[u64]) {
    for budget in budgets {
        let under = |budget: u64| jit(grad(checkpoint(f.clone(), Policy::Bytes(budget))));
        let (e, budget) = match under(*budget).explain(x) {
            Ok(e) => (e, *budget),
            Err(error) => {
                let least = least(&error);
                (under(least).explain(x).unwrap(), least)
            }
        };
        let tape = e.tape().bytes() as u64;
        assert!(tape <= budget, "{name}: {tape} bytes in {budget}\n{}", e.tape());
    }
}

/// A matrix factorization that the reverse pass recomputes and reads within one iteration does not count as tape; a
/// factorization that is saved from the forward to the reverse pass does. Every tape must be within its budget.
#[test]
fn factors_of_matrices_are_within_budgets() {
    const N: usize = 60;
    let row: Tensor = (0..N).map(|i| (0.3 * i as f64).sin()).collect();
    let matrix = |x: Var| {
        x.reshape([N, 1]) * x.reshape([1, N]) * 0.1 + eye(N, Dtype::F64) * (x.square().sum() + 3.0)
    };
    type Iteration = fn(Var, Var) -> Var;
    let iterations: [(&str, Iteration); 4] = [
        ("solve", |m, x| linalg::solve(m, x).sin() * 4.0),
        ("inv", |m, x| linalg::inv(m).dot(x).sin() * 4.0),
        ("cholesky", |m, x| linalg::cholesky(m).dot(x).sin()),
        ("qr", |m, x| linalg::qr(m).1.dot(x).sin()),
    ];
    for (name, iteration) in iterations {
        let given = move |x: Var| {
            let m = matrix(x);
            fori_loop(50, move |(_, x): (Var, Var)| iteration(m, x), x).sum()
        };
        obeyed(name, given, &row, &[6_000]);
        let own =
            move |x: Var| fori_loop(50, move |(_, x): (Var, Var)| iteration(matrix(x), x), x).sum();
        obeyed(name, own, &row, &[6_000]);
        let straight = move |x: Var| (0..2).fold(x, |x, _| iteration(matrix(x), x)).sum();
        obeyed(name, straight, &row, &[500, 35_000]);
    }
}

/// The states that a loop saves for the loop of the reverse pass must count as tape, even if the reverse loop reads
/// only a part of them or reads them from a table.
#[test]
fn states_that_loops_hand_to_loops_are_within_budgets() {
    let handed = |x: Var| {
        let y = fori_loop(1, |(_, y): (Var, Var)| (y * 0.6 + x.cos() * 0.2).sin(), x);
        let rows = Ref::new(zeros([2, x.size()], Dtype::F64));
        rows.at(0).set(y);
        let iteration = |(i, ()): (Var, ())| {
            let x = rows.at(i).get();
            rows.at(i + 1).set((x * 0.9 + (-(x * x)).exp() * 0.1) * 0.9);
        };
        fori_loop(1, iteration, ());
        rows.get().sin().sum() + (y * x.sin()).sum()
    };
    for extent in [1, 8] {
        let x: Tensor = (0..extent).map(|i| 0.9 * (1.0 + 0.7 * f64::from(i)).sin()).collect();
        obeyed("handed", handed, &x, &[8, 64, 128, 192, 256]);
    }
}

#[test]
fn budgets_compose() {
    let x = Tensor::new(&[4], vec![0.1, 0.2, 0.3, 0.4]).unwrap();
    let rows =
        Tensor::new(&[3, 4], (0..12).map(|i| 0.05 * f64::from(i)).collect::<Vec<_>>()).unwrap();
    let same = |a: Tensor, b: Tensor| Agreement::CLOSE.check(&a, &b).unwrap();
    for (name, f) in PROGRAMS.into_iter().filter(|(name, _)| *name != "written") {
        println!("{name}");
        let c = move |x: Var| checkpoint(f, Policy::Bytes(16_000))(x);
        same(run(vmap(grad(c)), &rows).unwrap(), run(vmap(grad(f)), &rows).unwrap());
        let all = move |g: Program| grad(move |x: Var| vmap(g)(x).sum());
        let batched =
            move |x: Var| checkpoint(move |x: Var| vmap(f)(x).sum(), Policy::Bytes(60_000))(x);
        same(run(grad(batched), &rows).unwrap(), run(all(f), &rows).unwrap());
        // In a second derivative, the gradient is checkpointed as well. The gradient needs more residuals than the
        // function, so the budget is larger.
        let d = move |x: Var| checkpoint(f, Policy::Bytes(400_000))(x);
        same(run(hessian(d), &x).unwrap(), run(hessian(f), &x).unwrap());
        // A checkpoint with a budget must give the same gradients in each iteration of a loop, and in a branch.
        let iterations = |g: &dyn Fn(Var) -> Var, x: Var| {
            fori_loop(3, |(_, x): (Var, Var)| x * 0.5 + g(x) * 0.001, x).sum()
        };
        same(
            run(grad(move |x| iterations(&c, x)), &x).unwrap(),
            run(grad(move |x| iterations(&f, x)), &x).unwrap(),
        );
        let branch = |g: &dyn Fn(Var) -> Var, x: Var| {
            cond(x.sum().gt(0.0), |x: Var| g(x), |x: Var| x.sum(), x)
        };
        same(
            run(grad(move |x| branch(&c, x)), &x).unwrap(),
            run(grad(move |x| branch(&f, x)), &x).unwrap(),
        );
        let twice = move |x: Var| checkpoint(c, Policy::Bytes(20_000))(x);
        same(run(grad(twice), &x).unwrap(), run(grad(f), &x).unwrap());
    }
}

/// Results of host functions in a loop of unknown trip count must be saved, in a number of bytes known only at run
/// time: no budget is possible.
#[test]
fn residuals_that_cannot_be_recomputed_refuse_a_budget() {
    let f = |x: Var| {
        let ask = |x: Var| callback("ask", x, x.array_type(), |x: Tensor| Ok(x));
        while_loop(
            |x: Var| x.sum().lt(10.0),
            |x: Var| x * x.sin().square() + ask(x.stop_gradient()) + 0.5,
            x,
        )
        .sum()
    };
    let error = jit(grad(checkpoint(f, Policy::Bytes(1_000_000)))).call([0.1, 0.2]).unwrap_err();
    assert_eq!(error.kind(), Kind::Budget, "{error}");
    assert!(error.to_string().contains("trip count of this loop is not known"), "{error}");
    // In a loop of static trip count the number of bytes is known, and the error must name the line of the host
    // function.
    let asked = |x: Var| {
        let iteration = |(_, x): (Var, Var)| {
            x.sin() + callback("ask", x.stop_gradient(), x.array_type(), |x: Tensor| Ok(x))
        };
        fori_loop(200, iteration, x).sum()
    };
    let error = jit(grad(checkpoint(asked, Policy::Bytes(1_000)))).call([0.1, 0.2]).unwrap_err();
    let line = line!() - 5;
    let said = format!("as at tests/tests/programs/budgets.rs:{line}, are not recomputed");
    assert!(error.to_string().contains(&said), "{said}: {error}");
}

/// Recomputed iterations must not repeat ordered effects: gradients with and without a budget must log the same
/// effects.
#[test]
fn iterations_that_run_again_are_silent() {
    let log = Listener::default();
    let heard = log.clone();
    let tell = move |x: Var| {
        let heard = heard.clone();
        tap(x, move |x: Tensor| heard.hear("x", &[x]))
    };
    // The effect stands in a nested loop, on one side of a branch.
    let iteration = move |(i, x): (Var, Var)| {
        let inner = |(_, x): (Var, Var)| cond(i.rem(2).eq(0), &tell, |x: Var| x, x.sin());
        fori_loop(2, inner, x) * 1.1
    };
    let run = move |x: Var| fori_loop(200, |s: (Var, Var)| iteration(s), x).sum();
    let x = Tensor::from([0.1, 0.2]);
    let of = |f: &dyn Fn(Var) -> Var| (jit(|x| grad(f)(x)).call(&x).unwrap(), log.take());
    let (want, effects) = of(&run);
    assert_eq!(effects.len(), 200);
    let (few, some) = (checkpoint(&run, Policy::Bytes(1_000)), checkpoint_carries(4, 3, &run));
    for f in [&few as &dyn Fn(Var) -> Var, &some] {
        let (got, heard) = of(f);
        assert_eq!(heard, effects);
        Agreement::CLOSE.check(&got, &want).unwrap();
        let tape = jit(|x| grad(f)(x)).explain(&x).unwrap().tape().bytes();
        assert!(tape <= 1_000, "{tape}");
    }
    // Second derivatives must log the same effects with and without a budget.
    let along =
        |f: &dyn Fn(Var) -> Var| (jit(|x: Var| hvp(f)((x, x * 0.5))).call(&x).unwrap(), log.take());
    let ((want, effects), (got, heard)) = (along(&run), along(&few));
    assert_eq!(heard, effects);
    Agreement::CLOSE.check(&got, &want).unwrap();
}

/// The effects of functions with custom rules must be the same with and without a budget: the forward rule's effects
/// replace the effects of the function, and effects on a cotangent occur in the first derivative only.
#[test]
fn rules_of_iterations_that_run_again_tell_once() {
    let log = Listener::default();
    let tell = |name: &'static str| {
        let heard = log.clone();
        move |x: Var| {
            let heard = heard.clone();
            tap(x, move |x: Tensor| heard.hear(name, &[x]))
        }
    };
    let (inside, forward, back) = (tell("function"), tell("fwd"), tell("bwd"));
    let by_jvp =
        custom_jvp(move |x: Var| inside(x).sin(), |x: Var, dx: Var| (x.sin(), dx * x.cos()));
    let by_vjp = custom_vjp(
        |x: Var| x.sin(),
        |x: Var| (x.sin(), x),
        move |x: Var, ct: Var| back(ct) * x.cos(),
    );
    let ahead = custom_vjp(
        |x: Var| x.sin(),
        move |x: Var| (forward(x).sin(), x),
        |x: Var, ct: Var| ct * x.cos(),
    );
    let x = Tensor::from([0.1, 0.2]);
    let of = |f: &dyn Fn(Var) -> Var| {
        let once = jit(|x| grad(f)(x)).interpreted().call(&x).unwrap();
        let twice = jit(|x| grad(|x: Var| grad(f)(x).sum())(x)).interpreted().call(&x).unwrap();
        ([once, twice], log.take())
    };
    let rules: [(&dyn Fn(Var) -> Var, usize); 3] = [(&by_jvp, 0), (&by_vjp, 24), (&ahead, 24)];
    for (rule, number) in rules {
        let counted = |x: Var| fori_loop(12, |(_, x): (Var, Var)| rule(x) * 1.1, x).sum();
        let until = |x: Var| {
            let iteration = |(n, x): (Var, Var)| (n + 1, rule(x) * 1.1);
            while_loop(|(n, _): (Var, Var)| n.lt(12), iteration, (constant(0i64), x)).1.sum()
        };
        for f in [&counted as &dyn Fn(Var) -> Var, &until] {
            let (want, effects) = of(f);
            assert_eq!(effects.len(), number);
            let (few, some) = (checkpoint(f, Policy::About(100)), checkpoint_carries(2, 2, f));
            for f in [&few as &dyn Fn(Var) -> Var, &some] {
                let (got, heard) = of(f);
                assert_eq!(heard, effects);
                Agreement::CLOSE.check_all(&got, &want).unwrap();
            }
        }
    }
}

/// If the budget suffices for all residuals, the workspace must be no larger than without a budget.
#[test]
fn a_budget_with_room_for_all_costs_nothing() {
    let chain = |x: Var| (x * x.sin() + (x * 2.0).cos()).sin().sum();
    let iterations = |x: Var| fori_loop(20, |(_, x): (Var, Var)| (x * 1.1).sin(), x).cos().sum();
    let x = Tensor::full(&[10_000], 0.3).unwrap();
    for f in [chain, iterations] {
        let works =
            |f: &dyn Fn(Var) -> Var| jit(|x| grad(f)(x)).explain(&x).unwrap().workspace_bytes();
        let (all, few) = (works(&f), works(&checkpoint(f, Policy::Bytes(10_000_000))));
        assert!(few <= all, "{few} bytes within a budget, {all} without");
    }
}

/// Tapes must be within the budget. In these programs (regressions), some values live between the two passes and were
/// once not counted as tape.
#[test]
fn no_value_between_the_passes_is_left_out_of_the_tape() {
    let x = Tensor::full(&[1000], 0.3).unwrap();
    let tape = |f: Program, budget: u64| {
        let g = jit(grad(checkpoint(f, Policy::Bytes(budget))));
        let e = g.explain(&x).unwrap();
        assert!(e.tape().bytes() as u64 <= budget, "{}", e.tape());
        let (got, want) = (g.call(&x).unwrap(), run(grad(f), &x).unwrap());
        Agreement::CLOSE.check(&got, &want).unwrap();
        e.workspace_bytes()
    };
    // The reverse pass reads only a slice of the array z, so only the slice is saved; the weights are recomputed.
    let part = |x: Var| {
        let z = while_loop(|x: Var| x.sum().lt(100.0), |x: Var| x.sin(), x.stop_gradient());
        let weights = (arange(1000, Dtype::F64) * 0.7).cos();
        ((x * weights).sin().sum() * z.slice_axis(0, 0..10)).exp().sum()
    };
    tape(part, 100);
    // The forward pass of an inner loop must not allocate memory for carries that are not read.
    let inside = |x: Var| {
        let iteration = |(_, x): (Var, Var)| tap(x.sin() * 1.1, |_: Tensor| {});
        let iterations = |(_, x): (Var, Var)| {
            let n = (x.sum() * 0.0).convert(Dtype::I64) + 30;
            fori_loop(n, |(_, x): (Var, Var)| x.sin() * 1.1, iteration((x, x)))
        };
        fori_loop(2, iterations, x).sum()
    };
    assert!(tape(inside, 200_000) < 260_000);
}

/// The workspace of a loop of unknown trip count must stay small, however large the budget.
#[test]
fn generous_budgets_are_not_taken_whole() {
    let f = |x: Var| {
        let iteration = |x: Var| x + x.sin().square() * 0.1 + 0.01;
        while_loop(|x: Var| x.sum().lt(4000.0), iteration, x).sum()
    };
    let x = Tensor::full(&[1000], 0.1).unwrap();
    let g = jit(grad(checkpoint(f, Policy::Bytes(1 << 30))));
    let e = g.explain(&x).unwrap();
    assert!(e.workspace_bytes() < 5_000_000, "{}", e.workspace_bytes());
    Agreement::CLOSE.check(&g.call(&x).unwrap(), &run(grad(f), &x).unwrap()).unwrap();
}

#[test]
fn budgets_of_higher_order_and_in_rules() {
    let x = Tensor::from([0.3, 0.2]);
    let until: Program = |x: Var| {
        let iteration = |(z, s): (Var, Var)| (z + 1.0 + s.square().sum() * 0.1, s.sin() * z);
        while_loop(|(z, _): (Var, Var)| z.lt(9.0), iteration, (x.sum(), x)).1.sum()
    };
    let outer = |g: &dyn Fn(Var) -> Var, x: Var| (g(x) * x.sin()).sum();
    for f in [until, swing, stacked] {
        // The smallest budget that suffices for the gradient must also suffice for the derivative of the gradient.
        let first = |bytes| run(grad(checkpoint(f, Policy::Bytes(bytes))), &x);
        for budget in [least(&first(10).unwrap_err()), 10_000, u64::MAX] {
            let c = move |x: Var| checkpoint(f, Policy::Bytes(budget))(x);
            let got = run(grad(move |x: Var| outer(&grad(c), x)), &x).unwrap();
            let want = run(grad(move |x: Var| outer(&grad(f), x)), &x).unwrap();
            Agreement::CLOSE.check(&got, &want).unwrap();
        }
    }
    assert!(run(grad(checkpoint(swing, Policy::About(10))), &x).is_ok());
    let f = |x: Var| checkpoint(swing, Policy::Bytes(10))(x);
    let rule = move |x: Var| custom_jvp(f, move |x, dx| jvp(f)((x, dx)))(x);
    assert_eq!(run(grad(rule), &x).unwrap_err().kind(), Kind::Budget);
}

/// A byte budget for the tape splits a loop into blocks of iterations, of a size that does not divide the trip count;
/// the loop's initial carry is also a captured value. Gradients must have the same bits as without a budget, so
/// cotangents must be summed in the order of the iterations.
#[test]
fn cuts_of_a_loop_change_no_bit() {
    let x: Tensor = (0..16).map(|i| 0.9 * (1.0 + 0.7 * i as f64).sin()).collect();
    let f = |x: Var| {
        let iteration = |(x, y, s): (Var, Var, Var), c: Var| {
            let y = y * 0.5 + c.cumsum(0) * 0.05 * s;
            (x, y, (s * 0.5 + (x * y).mean()).tanh())
        };
        let start = (x, x.cos() * 0.5, x.sum() * 0.1);
        let (x, y, s) =
            fori_loop(29, |(_, state): (Var, (Var, Var, Var))| iteration(state, x), start);
        (x * y).sum() + (y * y).sum() * 0.5 + s
    };
    let gradient =
        |policy: Policy| jit(value_and_grad(checkpoint(f, policy))).interpreted().call(&x).unwrap();
    let want = gradient(Policy::Everything);
    for bytes in [4_000, 2_000, 1_500, 1_000] {
        assert_eq!(gradient(Policy::Bytes(bytes)), want, "{bytes} bytes");
    }
}

/// Regression: a captured value that iterations read is also an initial carry. Its cotangent must be summed in the same
/// order, to the bit, for every budget.
#[test]
fn cuts_of_a_loop_that_starts_from_its_operand_change_no_bit() {
    let x: Tensor = (0..3).map(|i| 0.9 * (1.0 + 0.7 * i as f64).sin()).collect();
    let f = |c: Var| {
        let iteration = |(_, (x, y)): (Var, (Var, Var))| (x * 0.9, (y * c).sin());
        let (x, y) = fori_loop(57, iteration, (c, c.cos() * 0.5));
        let iteration = |(_, s): (Var, Var)| (s * 0.5 + (x * y).mean()).tanh();
        (x * 0.7).sum() + fori_loop(240, iteration, c.sum())
    };
    let gradient =
        |policy: Policy| jit(value_and_grad(checkpoint(f, policy))).interpreted().call(&x).unwrap();
    let want = gradient(Policy::Everything);
    for bytes in [600, 1_000, 2_000, 3_000, 4_000, 4_500] {
        assert_eq!(gradient(Policy::Bytes(bytes)), want, "{bytes} bytes");
    }
}

/// If a budget exceeds the size of all carries, the rest must hold residuals of the last iterations, which then are not
/// recomputed: the tape must fill at least four fifths of the budget.
#[test]
fn spare_budget_holds_residuals_of_the_last_iterations() {
    let x: Tensor = (0..16).map(|i| (i as f64).sin()).collect();
    let f = |x: Var| {
        let iteration =
            |(_, (x, v)): (Var, (Var, Var))| (x + v * 0.01, v - (x.sin() * v.tanh()).exp() * 0.01);
        fori_loop(500, iteration, (x, x.zeros_like())).0.sum()
    };
    let plain = jit(value_and_grad(f));
    let all = plain.explain(&x).unwrap().tape().bytes();
    let want = plain.interpreted().call(&x).unwrap();
    for percent in [40, 60, 80, 95] {
        let budget = all * percent / 100;
        let g = jit(value_and_grad(checkpoint(f, Policy::Bytes(budget as u64))));
        let e = g.explain(&x).unwrap();
        let tape = e.tape().bytes();
        assert!(tape <= budget && 5 * tape >= 4 * budget, "{tape} of {budget}:\n{}", e.tape());
        assert_eq!(g.interpreted().call(&x).unwrap(), want, "{percent} %");
    }
}

/// An argument and a computed array are read in all layers, which budgets recompute in pieces. Their cotangents must be
/// summed in the same order, to the bit, for every budget.
#[test]
fn cuts_between_reads_of_an_array_change_no_bit() {
    let x = square();
    let array = x.bytes().len();
    let f = |x: Var| {
        let rows = |x: Var, step: usize| x.take(arange(24, Dtype::I64).rem(5) + step as i64, 0);
        let made = x.dot(x).tanh();
        (0..12)
            .fold(x, |y, step| {
                let z = (y.dot(x) + rows(x, step)).tanh();
                (z.dot(made) + rows(made, step) * 0.3).tanh()
            })
            .sum()
    };
    let gradient =
        |policy: Policy| jit(value_and_grad(checkpoint(f, policy))).interpreted().call(&x).unwrap();
    let want = gradient(Policy::Everything);
    for arrays in [40, 30, 20, 14, 7, 0] {
        let policy = Policy::About((arrays * array) as u64);
        assert_eq!(gradient(policy), want, "{arrays} arrays");
    }
}

/// Returns a matrix of 24 by 24 numbers.
fn square() -> Tensor {
    let numbers = |n: Var| (n.convert(Dtype::F64) * 0.7).sin().reshape([24, 24]) * 0.2;
    run(|()| numbers(arange(24 * 24, Dtype::I64)), ()).unwrap()
}

/// Straight-line programs of layers: a chain, layers with residual connections, layers that each read the results of
/// all earlier layers, and layers with custom rules.
const STRAIGHT: [(&str, Program); 4] = [
    ("row", |x| (0..40).fold(x, |y, _| y.dot(x).named("h").tanh()).sum()),
    ("around", |x| (0..40).fold(x, |y, _| y + (y.dot(x).named("h").tanh() * 0.3).dot(x)).sum()),
    ("dense", |x| {
        let mut all = vec![x];
        for _ in 0..12 {
            let sum = all.iter().skip(1).fold(x, |s, y| s + *y);
            all.push(sum.dot(x).named("h").tanh());
        }
        all[12].sum()
    }),
    ("rules", |x| {
        let tanh = |x: Var, dx: Var| (x.tanh(), dx * (1.0 - x.tanh().square()));
        let tanh = custom_jvp(|x: Var| x.tanh(), tanh);
        (0..40).fold(x, |y, _| tanh(y.dot(x).named("h"))).sum()
    }),
];

/// A recomputed value must be computed just before it is read: the workspace besides the tape must be about as large as
/// without a policy, so it cannot hold all recomputed values at once. Under `Rounded`, unrounded values are freed after
/// rounding.
#[test]
fn recomputed_values_are_short_lived() {
    let x = square();
    let array = x.bytes().len();
    // Functions with custom rules are left out, because the rules choose their residuals.
    for (name, f) in STRAIGHT.into_iter().filter(|(name, _)| *name != "rules") {
        let plain = jit(value_and_grad(f)).explain(&x).unwrap();
        let (beside, all) = (plain.workspace_bytes() - plain.tape().bytes(), plain.tape().bytes());
        for policy in [Policy::Dots, Policy::named(["h"]), Policy::Rounded] {
            let e = jit(value_and_grad(checkpoint(f, policy.clone()))).explain(&x).unwrap();
            let (tape, work) = (e.tape().bytes(), e.workspace_bytes());
            assert!(tape < all, "{name}, {policy}: {tape} of {all}");
            // If layers read all earlier results, all partial sums of a cotangent are in memory at the last read.
            let sums = if name == "row" || policy == Policy::Rounded { 0 } else { all };
            let room = tape + beside + 5 * array + sums;
            assert!(
                work <= room,
                "{name}, {policy}: {} arrays, {} of tape",
                work / array,
                tape / array
            );
        }
    }
}

/// Under a budget the reverse pass recomputes straight-line code in several parts, one after the other. The whole
/// workspace, not only the tape, must shrink to the given number of arrays, for every program in `STRAIGHT`.
#[test]
fn straight_code_is_undone_in_pieces() {
    let x = square();
    let array = x.bytes().len();
    for ((name, f), most) in STRAIGHT.into_iter().zip([20, 25, 17, 20]) {
        let plain = jit(value_and_grad(f));
        let (want, all) = (plain.call(&x).unwrap(), plain.explain(&x).unwrap().workspace_bytes());
        let mut least = all;
        for arrays in [60, 20, 14, 7, 3, 1, 0] {
            let policy = Policy::Bytes((arrays * array) as u64);
            let g = jit(value_and_grad(checkpoint(f, policy.clone())));
            let e = g.explain(&x).unwrap();
            assert!(e.tape().bytes() <= arrays * array, "{name}, {arrays}: {}", e.tape());
            least = least.min(e.workspace_bytes());
            let got = g.call(&x).unwrap();
            Agreement::CLOSE.check_all(&[got.0, got.1], &[want.0.clone(), want.1.clone()]).unwrap();
            let exact = |f: &dyn Fn(Var) -> Var| {
                let f = checkpoint(f, policy.clone());
                jit(value_and_grad(f)).interpreted().call(&x).unwrap()
            };
            assert_eq!(exact(&f), jit(value_and_grad(f)).interpreted().call(&x).unwrap());
        }
        println!("{name}: {} arrays, at least {}", all / array, least / array);
        // Arrays of a page or more may be padded by a cache line of 64 bytes.
        let room = most * (array + 64);
        assert!(least <= room, "{name} takes {} arrays of {}", least / array, all / array);
    }
}

/// Bools must be packed into bits directly from bytes, without an intermediate 64-bit word per bool: the workspace must
/// be at most twice the bools' bytes and a few rows.
#[test]
fn truth_values_are_packed_in_little_memory() {
    let f = |x: Var| {
        let iteration = |t: Var| {
            let x = ((x + t) * 0.9).maximum(x.cos());
            (x * 0.9).maximum(x.sin() * 0.7).sum()
        };
        map(iteration, arange(62, Dtype::F64) * 0.01).sum()
    };
    let x: Tensor = (0..33).map(|i| f64::from(i).sin()).collect();
    let e = jit(grad(checkpoint(f, Policy::Bytes(10_000)))).explain(&x).unwrap();
    let (masks, row) = (4 * 62 * 33, 33 * 8);
    assert!(e.workspace_bytes() < 2 * masks + 16 * row, "{}\n{}", e.memory_plan(), e.tape());
}

/// If a loop reads a value that is computed from an argument before the loop, the reverse pass must recompute the
/// value, so that the value is no tape.
#[test]
fn values_before_a_loop_are_recomputed_from_arguments() {
    let iterations = |w: Var| {
        let iteration = |(_, h): (Var, Var)| (h.dot(w) + 0.1).tanh();
        fori_loop(200, iteration, zeros([16], Dtype::F64)).sum()
    };
    let ways: [(&str, &[usize], Program); 4] = [
        ("as it is", &[16, 16], |w| w),
        ("flat", &[256], |w| w.reshape([16, 16])),
        ("a part", &[2, 16, 16], |w| w.index(1)),
        ("twice", &[16, 16], |w| w * 2.0),
    ];
    for (name, shape, made) in ways {
        let f = |w: Var| iterations(made(w));
        let w = Tensor::full(shape, 0.01).unwrap();
        let g = jit(grad(checkpoint(f, Policy::Bytes(1_000))));
        let e = g.explain(&w).unwrap();
        assert!(e.tape().bytes() <= 1_000, "{name}: {}", e.tape());
        let want = jit(grad(f)).call(&w).unwrap();
        Agreement::CLOSE.check(&g.call(&w).unwrap(), &want).unwrap();
    }
}

type Constant = fn(usize) -> Var;
type Use = fn(Var, Var) -> Var;
type Place = fn(Use, Var, Constant) -> Var;

/// Arrays that a program computes from literals alone, given the number of elements.
const CONSTANTS: [(&str, Constant); 10] = [
    ("numbers", |n| arange(n, Dtype::F64)),
    ("products", |n| arange(n, Dtype::F64) * 0.01),
    ("one number", |n| full([n], 0.3)),
    ("truth values", |n| arange(n, Dtype::I64).rem(3).eq(0)),
    ("indices", |n| (arange(n, Dtype::I64) * 7).rem(13)),
    ("converted", |n| (arange(n, Dtype::I64) * 7).rem(13).convert(Dtype::F64)),
    ("noise", |n| random::uniform(random::key(7), [n], Dtype::F64)),
    ("sums", |n| arange(n, Dtype::F64).cumsum(0)),
    ("parts", |n| concat(&[arange(n / 2, Dtype::F64), zeros([n - n / 2], Dtype::F64)], 0)),
    ("written", |n| zeros([n], Dtype::F64).at(arange(n, Dtype::I64).rem(7)).add(full([n], 1.0))),
];

/// Functions of an argument and a constant that read the constant in both passes.
const USES: [(&str, Use); 8] = [
    ("iterations", |x, c| map(|t: Var| (x + t.convert(Dtype::F64) * 0.001).sin().sum(), c).sum()),
    ("iterations that carry", |x, c| {
        let iteration = |(h, t): (Var, Var)| ((h + t.convert(Dtype::F64) * 0.001).sin(), ());
        scan(iteration, x, c).0.sum()
    }),
    ("elements in iterations", |x, c| {
        let iteration = |(i, h): (Var, Var)| (h * c.index(i).convert(Dtype::F64) * 0.001).sin();
        fori_loop(30, iteration, x).sum()
    }),
    ("all in iterations", |x, c| {
        let c = c.convert(Dtype::F64);
        fori_loop(30, |(_, h): (Var, Var)| (h * (c * h.sum()).sin().sum()).sin(), x).sum()
    }),
    ("iterations begin", |x, c| {
        let c = c.convert(Dtype::F64) * 0.001;
        fori_loop(30, |(_, h): (Var, Var)| (h * x.sum()).sin(), c).sum()
    }),
    ("branches", |x, c| {
        let yes = |x: Var| (x.sum() * c.convert(Dtype::F64)).sin().sum();
        cond(x.sum().gt(0.0), yes, |x: Var| x.sum(), x)
    }),
    ("contractions", |x, c| {
        let c = c.convert(Dtype::F64);
        (c * x.sum()).sin().dot(c)
    }),
    ("places", |x, c| {
        let (at, c) = (c.convert(Dtype::I64).rem(7), c.convert(Dtype::F64));
        let into = (x.index(2) * c).at(at).add(c);
        (x.take(at, 0).sin() * c).sin().sum() + into.sin().sum()
    }),
];

/// The number of elements of the array that a constant computes.
const MANY: usize = 1000;

/// Contexts of a function in a program: alone, in a call, in a loop.
const PLACES: [(&str, Place); 5] = [
    ("alone", |f, x, c| f(x, c(MANY))),
    ("in a call that is marked", |f, x, c| {
        checkpoint(|x: Var| f(x, c(MANY)), Policy::Everything)(x)
    }),
    ("given to a call that is marked", |f, x, c| {
        let c = c(MANY);
        checkpoint(|x: Var| f(x, c), Policy::Everything)(x)
    }),
    ("in a function that is called", |f, x, c| outline(|x: Var| f(x, c(MANY)))(x)),
    ("in iterations", |f, x, c| {
        fori_loop(3, |(_, x): (Var, Var)| x * 0.5 + f(x, c(MANY)) * 0.001, x).sum()
    }),
];

/// Arrays that depend on no argument must be recomputed for the reverse pass, for every way in which they are computed
/// and read. Otherwise they would occupy memory between the passes, and the tape does not count this memory.
#[test]
fn constants_do_not_lie_between_the_passes() {
    let x: Tensor = (0..7).map(|i| 0.9 * (1.0 + 0.7 * i as f64).sin()).collect();
    for (k, (place, at)) in PLACES.into_iter().enumerate() {
        for (i, (reader, f)) in USES.into_iter().enumerate() {
            // Test all pairs of a constant and a reader in the first context, and every sixth pair in the others.
            for (j, (made, c)) in CONSTANTS.into_iter().enumerate() {
                if k > 0 && (i + j + k) % 6 > 0 {
                    continue;
                }
                let within = |budget| {
                    let f = checkpoint(move |x: Var| at(f, x, c), Policy::Bytes(budget));
                    jit(value_and_grad(f))
                };
                let (budget, g) = match within(0).explain(&x) {
                    Ok(_) => (0, within(0)),
                    Err(error) => (least(&error), within(least(&error))),
                };
                let e = g.explain(&x).unwrap();
                let what = format!("{made}, read by {reader}, {place}");
                assert!(e.tape().bytes() as u64 <= budget, "{what} in {budget}\n{}", e.tape());
                if i == j {
                    let plain = jit(value_and_grad(move |x: Var| at(f, x, c)));
                    let (got, want) = (g.call(&x).unwrap(), plain.call(&x).unwrap());
                    let both = ([got.0, got.1], [want.0, want.1]);
                    // Half a million terms inside sines amplify the rounding error of the order of summation.
                    Agreement::relative(1e-8)
                        .check_all(&both.0, &both.1)
                        .unwrap_or_else(|e| panic!("{what}: {e}"));
                }
            }
        }
    }
}

/// If the rows of a mask do not fill whole words, the mask must be packed within the loop, not after it: for every trip
/// count, the workspace must exceed the tape by at most 8192 bytes.
#[test]
fn rows_of_a_few_bits_share_words() {
    let choices: [(&str, Program); 3] = [
        ("masks", |x| {
            let iteration = |x: Var, y: Var| (x * 0.9).maximum(y * 0.7);
            fori_loop(2000, |(_, (x, y)): (Var, (Var, Var))| (y, iteration(x, y)), (x, x.cos()))
                .0
                .sum()
        }),
        ("places", |x| {
            let iteration = |(t, x): (Var, Var)| {
                let three = stack(&[x, x.flip(0) * 0.9, x * t.convert(Dtype::F64).sin()], 0);
                let which = three.argmax(0).reshape([1, x.size()]);
                three.take_along_axis(which, 0).reshape([x.size()]) * 0.9
            };
            fori_loop(2001, iteration, x).sum()
        }),
        ("nested", |x| {
            let iteration = |x: Var| x.maximum(x.flip(0) * 0.7) * 0.9;
            let iterations = |x: Var| fori_loop(100, |(_, x): (Var, Var)| iteration(x), x);
            fori_loop(70, |(_, x): (Var, Var)| iterations(x), x).sum()
        }),
    ];
    let x: Tensor = (0..7).map(|i| 0.9 * (1.0 + 0.7 * i as f64).sin()).collect();
    for (name, f) in choices {
        let plain = jit(value_and_grad(f));
        let all = plain.explain(&x).unwrap().tape().bytes();
        let g = jit(value_and_grad(checkpoint(f, Policy::Bytes(all as u64 / 3))));
        let e = g.explain(&x).unwrap();
        let (tape, work) = (e.tape().bytes(), e.workspace_bytes());
        println!("{name}: {tape} of {all}, {work}");
        assert!(3 * tape <= all && work <= tape + 8192, "{name}: {work}, {}", e.tape());
        let ((y, dy), (z, dz)) = (plain.call(&x).unwrap(), g.call(&x).unwrap());
        Agreement::CLOSE.check_all(&[z, dz], &[y, dy]).unwrap();
    }
}

/// The indices and masks that iterations save are packed in a few bits each. If the budget has room for the packed
/// values only, the reverse pass must unpack the values of a few iterations at a time: the workspace beyond the budget
/// must not grow with the trip count.
#[test]
fn packed_residuals_are_unpacked_at_their_uses() {
    type Iterations = fn(usize, Var) -> Var;
    let all: [(&str, Iterations); 3] = [
        ("places", |n, x| {
            let (r, l) = (Ref::new(x), Ref::new(0.0));
            let iteration = |(i, ()): (Var, ())| {
                r.set(r.get() * 0.999);
                l.add(r.at(i % 7).get());
            };
            fori_loop(n, iteration, ());
            l.get()
        }),
        ("masks", |n, x| {
            let iteration = |(i, y): (Var, Var)| {
                select(y.gt(0.1), y * 0.999, y * 0.5 + 0.3) + x.index(i.rem(3)) * 1e-3
            };
            fori_loop(n, iteration, x.index(0))
        }),
        ("choices", |n, x| {
            let iteration = |(_, y): (Var, Var)| {
                let which = stack(&[y, y.sin() * 1.1, 1.0 - y], 0).argmax(0);
                x.index(which) * 0.1 + y * 0.9
            };
            fori_loop(n, iteration, x.index(0))
        }),
    ];
    let x: Tensor = (0..7).map(|i| 0.9 * (1.0 + 0.7 * i as f64).sin()).collect();
    for (name, f) in all {
        let beyond = |n: usize, budget: u64| {
            let g = jit(value_and_grad(checkpoint(move |x| f(n, x), Policy::Bytes(budget))));
            let e = g.explain(&x).unwrap();
            let (tape, work) = (e.tape().bytes(), e.workspace_bytes());
            println!("{name}: {n} iterations, {tape} in {budget}, {work}");
            if n < 10_000 {
                let (y, dy) = jit(value_and_grad(move |x| f(n, x))).call(&x).unwrap();
                let (z, dz) = g.call(&x).unwrap();
                Agreement::CLOSE.check_all(&[z, dz], &[y, dy]).unwrap();
            }
            work.saturating_sub(budget as usize)
        };
        // The budgets are 3, 4 and 16 bits per iteration; the last has room for the unpacked values of all iterations.
        for bits in [3, 4, 16] {
            let budget = |n: usize| (n * bits / 8 + 4000) as u64;
            let (few, many) = (beyond(2000, budget(2000)), beyond(64_000, budget(64_000)));
            assert!(many <= few + 8192, "{name}, {bits} bits: {few} beyond the budget, and {many}");
        }
    }
}

/// Straight-line code before and after a loop that saves some of its states must also be recomputed piece by piece: the
/// workspace may exceed the budget by 20 arrays.
#[test]
fn straight_code_beside_loops_is_undone_in_pieces() {
    let x = square();
    let array = x.bytes().len();
    let f: Program = |x| {
        let layers = |x: Var, w: Var| (0..24).fold(x, |y, _| y.dot(w).tanh());
        let iterations = fori_loop(60, |(_, z): (Var, Var)| z.dot(x).tanh(), layers(x, x));
        layers(iterations, x).sum()
    };
    let plain = jit(value_and_grad(f));
    let want = plain.call(&x).unwrap();
    for arrays in [60, 30, 20, 14] {
        let under = || checkpoint(f, Policy::Bytes((arrays * array) as u64));
        let g = jit(value_and_grad(under()));
        let e = g.explain(&x).unwrap();
        let (tape, work) = (e.tape().bytes(), e.workspace_bytes());
        println!("{arrays}: {} of tape in {}", tape / array, work / array);
        assert!(tape <= arrays * array && work <= (arrays + 20) * array, "{arrays}: {work}");
        let got = g.call(&x).unwrap();
        Agreement::CLOSE.check_all(&[got.0, got.1], &[want.0.clone(), want.1.clone()]).unwrap();
        let (got, want) = (jit(value_and_grad(under())), jit(value_and_grad(f)));
        let (got, want) = (got.interpreted().call(&x), want.interpreted().call(&x));
        assert_eq!(got.unwrap(), want.unwrap(), "{arrays}");
    }
}

/// Returns a function that computes the gradient of `f` with respect to the last two of its three arguments.
fn of_two(f: impl Fn((Var, Var, Var)) -> Var) -> impl Fn((Var, Var, Var)) -> (Var, Var) {
    move |(k, x, s)| grad(|(x, s): (Var, Var)| f((k, x, s)))((x, s))
}

/// Branches must share memory although their residuals have different shapes: the tape is as large as the largest
/// branch's, and with a budget of that size nothing is recomputed.
#[test]
fn branches_share_memory_of_their_residuals() {
    let turns = |n: usize| {
        move |(x, s): (Var, Var)| {
            fori_loop(n, move |(_, x): (Var, Var)| x + 0.001 * (s * x).sin(), x)
        }
    };
    let products = |(x, s): (Var, Var)| {
        let y = (s * x).expand_dims(0) + x.expand_dims(1);
        (0..12).fold(y, |y, _| (y * y).sin() + y).sum_axis(0)
    };
    // Returns a `switch` whose branches are the programs marked in `on`; its other branches return the argument.
    let some = move |on: [bool; 3]| {
        move |(k, x, s): (Var, Var, Var)| {
            let sides: [&dyn Fn((Var, Var)) -> Var; 3] = [&turns(400), &products, &turns(150)];
            let other = |(x, _): (Var, Var)| x;
            let side = |i: usize| if on[i] { sides[i] } else { &other };
            switch(k, [side(0), side(1), side(2)], (x, s)).sum()
        }
    };
    let which = some([true; 3]);
    let x = Tensor::full(&[100], 0.5).unwrap();
    let plain = jit(of_two(which));
    let kept =
        |on: [bool; 3]| jit(of_two(some(on))).explain((0i64, &x, 0.7)).unwrap().tape().bytes();
    let alone = [0, 1, 2].map(|i| kept([0, 1, 2].map(|k| k == i)));
    let all = kept([true; 3]);
    assert!(all <= alone.iter().max().unwrap() + 4096, "{alone:?}, together {all}");
    let enough = jit(of_two(checkpoint(which, Policy::Bytes(all as u64))));
    let e = enough.explain((0i64, &x, 0.7)).unwrap();
    assert!(e.tape().rematerialized().iter().all(|a| a.what != "sin"), "{}", e.tape());
    for side in 0..3i64 {
        let want = plain.call((side, &x, 0.7)).unwrap();
        let exactly = jit(of_two(which)).interpreted().call((side, &x, 0.7)).unwrap();
        for policy in [Policy::Bytes(all as u64), Policy::About(all as u64 / 20)] {
            let few = of_two(checkpoint(which, policy.clone()));
            let got = jit(&few).call((side, &x, 0.7)).unwrap();
            Agreement::CLOSE
                .check_all(&[got.0, got.1], &[&want.0, &want.1].map(Tensor::clone))
                .unwrap();
            let got = jit(&few).interpreted().call((side, &x, 0.7)).unwrap();
            assert_eq!(got, exactly, "side {side}, {policy}");
        }
    }
}

/// Calls, checkpointed or outlined, must not change the order in which cotangents are summed: gradients have the same
/// bits as without calls. The functions' results and arguments include one value twice.
#[test]
fn calls_change_no_order_of_sums() {
    let moved = |x: Var| x + 1.0;
    let both = |(x, y): (Var, Var)| (x.atan() * x).sum() + y.tanh().sum();
    let plain = move |x: Var| both((x, moved(x)));
    let [first, second] = [Policy::Nothing, Policy::About(0)];
    let cut = move |x: Var| {
        let y = checkpoint(moved, first.clone())(x);
        checkpoint(both, second.clone())((x, y))
    };
    let x: Tensor = (0..200).map(|i| (1.3 * i as f64).sin()).collect();
    let exact = |f: &dyn Fn(Var) -> Var| jit(grad(f)).interpreted().call(&x).unwrap();
    assert_eq!(exact(&cut), exact(&plain));
    let outlined = |x: Var| outline(both)((x, outline(moved)(x)));
    assert_eq!(exact(&outlined), exact(&plain));
}

/// A value is read by rows, read whole, and is the initial carry of a loop. Its gradient must have the same bits for
/// every number of pieces into which a budget splits the loop.
#[test]
fn cuts_of_a_loop_over_rows_of_its_operand_change_no_bit() {
    let programs: [Program; 5] = [
        // Each iteration reads a row t of the array x twice.
        |x| {
            let iteration = |(h, t): (Var, Var)| ((h * 0.9 + t).sin() + t * h * 0.1, ());
            scan(iteration, constant(0.3), x).0 + (x * x.exp()).sum()
        },
        |x| {
            let y = x.tile([3]).reshape([67, 3]);
            let iteration = |(h, t): (Var, Var)| ((h * 0.9 + t).sin() + t * h * 0.1, ());
            scan(iteration, y.index(3), y).0.sum() + (y * y.exp()).sum()
        },
        |x| {
            let y = x * 1.1;
            let iteration = |(h, t): (Var, Var)| {
                let h = (h * 0.9 + t * y.cos() * 0.1).sin();
                (h, h * t)
            };
            let (h, rows) = scan_reverse(iteration, y, y);
            h.sum() + rows.square().sum() + (y * y).sum()
        },
        |x| {
            let y = x * 1.1;
            let iteration = |(h, t): (Var, Var)| ((h * t + y * 0.3).sin(), ());
            scan(iteration, x.zeros_like(), y).0.sum() + y.exp().sum()
        },
        |x| {
            let y = x * 1.1;
            let iteration = |(h, t): (Var, Var)| ((h * 0.9 + t).cos(), ());
            scan(iteration, y, y).0.sum() + y.exp().sum()
        },
    ];
    let x: Tensor = (0..67).map(|i| (1.7 * i as f64).sin()).collect();
    for (i, f) in programs.into_iter().enumerate() {
        let exact = |f: &dyn Fn(Var) -> Var| jit(grad(f)).interpreted().call(&x).unwrap();
        let (want, all) = (exact(&f), jit(grad(f)).explain(&x).unwrap().tape().bytes() as u64);
        for part in 1..12 {
            let few = checkpoint(f, Policy::About(all * part / 12));
            assert_eq!(exact(&few), want, "{i}, {} bytes of {all}", all * part / 12);
        }
    }
}

/// Slices of an array are read before and after a recomputed part of straight-line code, which contains the first read
/// of the array. Its gradient must have the same bits for every budget.
#[test]
fn cuts_behind_the_first_read_of_an_array_change_no_bit() {
    let f = |x: Var| {
        let (p, o) = (x.argmax(0).rem(3), x.argmin(0).rem(1));
        let mut y = x.reshape([8, 8]);
        let (w, mut all) = (y, y.sum());
        for _ in 0..6 {
            let a = y.dot(w).tanh();
            let b = y.dynamic_slice(&[p, o], [5, 8]);
            let z = (a + b.exp().sum_axis(0) * 0.01).tanh();
            let c = y.take(z.argmax(0), 0);
            all = all + (b * b.sin()).sum() + (c * c.cos()).sum() + (a * y).sum();
            y = z + z.dot(c).tanh() * 0.1;
        }
        all + y.sum()
    };
    let x: Tensor = (0..64).map(|i| (1.7 * i as f64).sin()).collect();
    let exact = |f: &dyn Fn(Var) -> Var| jit(grad(f)).interpreted().call(&x).unwrap();
    let want = exact(&f);
    for budget in (20_000..34_000).step_by(1_600) {
        let few = checkpoint(f, Policy::About(budget));
        assert_eq!(exact(&few), want, "{budget} bytes");
    }
}

/// Regression: a loop that recomputes a value for the reverse pass must not be merged with the loop that computes the
/// value for the forward pass, because the value would stay in memory between the passes. So the workspace must be as
/// large as one pass needs.
#[test]
fn forward_and_recomputing_loops_are_not_merged() {
    const N: usize = 9973;
    fn along(h: Var, t: Var) -> Var {
        scan(|(h, t): (Var, Var)| ((h * t).sin() + h.square() * 0.1, ()), h, t).0.sum()
    }
    fn literal(x: Var) -> Var {
        along(x, arange(N, Dtype::F64) * 0.001) + x.sin().sum() + x.exp().sum() + x.cos().sum()
    }
    fn argument(x: Var) -> Var {
        let y = (x * 0.01).sin();
        along(x.index(0), y) + (x.sin() * y).sum().sin()
    }
    fn twice(x: Var) -> Var {
        let a = along(x.index(0), x.cumsum(0) * 1e-5);
        a * along(x.index(1), x.exp().cumsum(0) * 1e-5)
    }
    // This function is called after another checkpointed function, which has saved its argument h.
    fn second(x: Var) -> Var {
        let of = |x: Var| (x * 1e-4).sum().exp();
        let h = checkpoint(of, Policy::Bytes(1000))(x);
        let of = |(h, x): (Var, Var)| {
            along(h, (x * h).cos().stop_gradient()) * along(h, (x * 1.3).sin())
        };
        checkpoint(of, Policy::Bytes(2000))((h, x))
    }
    // This function is called before a sort. The sort needs four arrays of workspace.
    fn before(x: Var) -> Var {
        let of = |x: Var| (along(x.index(0), (x * 1.1).sin()) * x.index(1)).exp();
        let h = checkpoint(of, Policy::Bytes(2000))(x);
        let u = (h * arange(N, Dtype::F64) * 1e-4).cos().stop_gradient();
        h * u.sort(0).index(5)
    }
    let wave = |n: usize| Tensor::from((0..n).map(|i| (0.7 * i as f64).sin()).collect::<Vec<_>>());
    // Each program has the number of arrays of N elements that its workspace may hold. For `literal`, this is the array
    // that iterations read. The other programs also hold two arrays of sums, and the cotangents of rows.
    for (f, x, arrays) in
        [(literal as Program, wave(5), 1), (argument, wave(N), 4), (twice, wave(N), 4)]
    {
        let plain = run(value_and_grad(f), &x).unwrap();
        for (g, value) in [
            (jit(grad(checkpoint(f, Policy::Bytes(2000)))).explain(&x), false),
            (jit(value_and_grad(checkpoint(f, Policy::Bytes(2000)))).explain(&x), true),
        ] {
            let e = g.unwrap();
            assert!(e.tape().bytes() <= 2000, "value {value}:\n{}", e.tape());
            let most = arrays * 8 * N + 8192;
            assert!(e.workspace_bytes() <= most, "value {value}, {arrays}:\n{}", e.memory_plan());
        }
        let (y, g) = run(value_and_grad(checkpoint(f, Policy::Bytes(2000))), &x).unwrap();
        Agreement::CLOSE.check_all(&[y, g], &[plain.0, plain.1]).unwrap();
    }
    // Each program has the number of arrays that its workspace may hold. For `second`, these are two arrays of sums and
    // the arrays that iterations read. For `before`, they are the arrays of the sort (keys and positions, each twice,
    // and the table of digits), the cosine, and its positions.
    for (f, arrays) in [(second as Program, 4), (before, 7)] {
        let [one, both] = [jit(grad(f)).explain(wave(N)), jit(value_and_grad(f)).explain(wave(N))];
        for e in [one.unwrap(), both.unwrap()] {
            assert!(e.workspace_bytes() <= arrays * 8 * N + 8192, "{}", e.memory_plan());
        }
    }
}

/// Arithmetic on a residual must be fused into its reader, as arithmetic on an argument is: the workspace holds two
/// arrays of 8000 bytes.
#[test]
fn residuals_are_fused_into_their_readers() {
    let chain = |h: Var| (0..8).fold(constant(0.1), |t, _| (h * t + 0.3).square().mean().sin());
    let x = Tensor::full(&[1000], 0.3).unwrap();
    for policy in [Policy::named(["h"]), Policy::Nothing, Policy::Bytes(10_000)] {
        let f = move |x: Var| chain(checkpoint(|x: Var| x.exp().named("h"), policy.clone())(x));
        let e = jit(grad(f)).explain(&x).unwrap();
        assert!(e.workspace_bytes() <= 2 * 8000 + 2048, "{}", e.memory_plan());
    }
}

/// A table whose rows are computed from earlier rows becomes a loop that carries rows. The gradient must have the same
/// bits for every budget. So the cotangent of a row must be summed in a fixed order, first over reads after the loop,
/// then over the iterations that read the row, with one partial sum per read.
#[test]
fn tables_of_rows_change_no_bit() {
    fn table(x: Var, old: usize) -> Ref {
        let rows = Ref::new(zeros([40 + old, x.size()], Dtype::F64));
        (0..old).for_each(|k| rows.at(k).set(x * (0.5 + k as f64)));
        rows
    }
    fn read(rows: Ref) -> Var {
        let once = rows.at(3).get().sum() + rows.at(40).get().exp().sum();
        (rows.get().square() * 0.3).sin().sum() + once
    }
    let two: Program = |x| {
        let rows = table(x, 2);
        let iteration = |(i, ()): (Var, ())| {
            let (old, last) = (rows.at(i).get(), rows.at(i + 1).get());
            rows.at(i + 2).set((old * 1.1).sin() + last.cos() * x * 0.1);
        };
        fori_loop(40, iteration, ());
        read(rows)
    };
    // An iteration reads one row twice, and uses another row twice.
    let twice: Program = |x| {
        let rows = table(x, 3);
        let iteration = |(i, ()): (Var, ())| {
            let (old, last) = (rows.at(i).get(), rows.at(i + 2).get());
            let more = (rows.at(i).get() * rows.at(i + 1).get()).sin();
            rows.at(i + 3)
                .set((old * 1.1).sin() * old.square() * 0.1 + last.cos() * x * 0.1 + more);
        };
        fori_loop(40, iteration, ());
        read(rows)
    };
    // Each iteration reads the row that it has just written, and adds to this row.
    let own: Program = |x| {
        let rows = table(x, 3);
        let iteration = |(i, ()): (Var, ())| {
            let (old, last) = (rows.at(i).get(), rows.at(i + 2).get());
            rows.at(i + 3).set((old * 1.1).sin() + last.cos() * x * 0.1);
            rows.at(i + 3).add(rows.at(i + 3).get().square() * 0.1);
        };
        fori_loop(40, iteration, ());
        read(rows)
    };
    let down: Program = |x| {
        let rows = Ref::new(zeros([42, x.size()], Dtype::F64));
        (0..2).for_each(|k| rows.at(41 - k).set(x * (0.5 + k as f64)));
        let iteration = |(i, ()): (Var, ())| {
            let (j, step) = (39 - i, rows.at(41 - i).get());
            rows.at(j).set((step * 1.1).sin() + rows.at(j + 1).get().cos() * x * 0.1);
        };
        fori_loop(40, iteration, ());
        read(rows)
    };
    // Each row is computed from the previous row, which is read twice.
    let one: Program = |x| {
        let rows = table(x, 1);
        let iteration = |(i, ()): (Var, ())| {
            let (old, again) = (rows.at(i).get(), rows.at(i).get().square());
            rows.at(i + 1).set((old * 1.1).sin() + again.cos() * x * 0.1);
        };
        fori_loop(40, iteration, ());
        read(rows)
    };
    let x: Tensor = (0..5).map(|i| 0.9 * (1.0 + 0.7 * f64::from(i)).sin()).collect();
    for (name, f) in [("two", two), ("twice", twice), ("own", own), ("down", down), ("one", one)] {
        let want = jit(value_and_grad(f)).interpreted().call(&x).unwrap();
        let mut met = 0;
        for bytes in [500, 1000, 1800, 2500, 3500, 5000, 8000, 1 << 40] {
            let g = jit(value_and_grad(checkpoint(f, Policy::Bytes(bytes)))).interpreted();
            let Ok(got) = g.call(&x) else { continue };
            assert_eq!(got, want, "{name} in {bytes} bytes");
            met += 1;
        }
        assert!(met >= 4, "{name}: {met} budgets");
    }
}

/// The budget of a checkpoint around a gradient covers the residuals for the gradient's derivative. A budget inside the
/// gradient covers the residuals between its own passes; both are needed for a tape of 1752 bytes.
#[test]
fn gradients_inside_have_budgets_of_their_own() {
    fn inner(x: Var) -> Var {
        let iteration = |(i, h): (Var, Var)| (h * 1.1).sin() + x * i.convert(Dtype::F64) * 0.001;
        fori_loop(40, iteration, x).square().sum()
    }
    let of = |inner: Rc<dyn Fn(Var) -> Var>| {
        move |x: Var| {
            let inner = inner.clone();
            (grad(move |x: Var| inner(x))(x) * x).sum()
        }
    };
    let x: Tensor = (0..5).map(|i| 0.9 * (1.0 + 0.7 * f64::from(i)).sin()).collect();
    let plain = of(Rc::new(inner));
    let few: Rc<dyn Fn(Var) -> Var> = Rc::new(checkpoint(inner, Policy::Bytes(600)));
    let both = || checkpoint(of(few.clone()), Policy::Bytes(1752));
    let e = jit(grad(both())).explain(&x).unwrap();
    assert!(e.tape().bytes() <= 1752, "{}", e.tape());
    let outer = jit(grad(checkpoint(plain.clone(), Policy::Bytes(1752)))).explain(&x).unwrap();
    assert!(outer.tape().bytes() > 1752, "{}", outer.tape());
    let (f, g) = (jit(grad(plain)).interpreted(), jit(grad(both())).interpreted());
    Agreement::CLOSE.check(&g.call(&x).unwrap(), &f.call(&x).unwrap()).unwrap();
}

/// Returns three functions of a vector: the gradient of `f`, the gradient of a weighted sum of that gradient, and the
/// gradient of a weighted sum of the latter. These are derivatives of first, second and third order.
fn three_orders(f: impl Fn(Var) -> Var + 'static) -> [Rc<dyn Fn(Var) -> Var>; 3] {
    let next = |f: Rc<dyn Fn(Var) -> Var>, weigh: fn(Var) -> Var| -> Rc<dyn Fn(Var) -> Var> {
        Rc::new(grad(move |x: Var| (f(x) * weigh(x)).sum()))
    };
    let first: Rc<dyn Fn(Var) -> Var> = Rc::new(grad(f));
    let second = next(first.clone(), |x| x.cos());
    let third = next(second.clone(), |x| x.sin());
    [first, second, third]
}

/// If the budget has room for all residuals, the loop program must equal the one without a budget, for derivatives of
/// order 1 to 3.
#[test]
fn an_ample_budget_costs_nothing() {
    let x: Tensor = (0..8).map(|i| 0.1 * f64::from(i)).collect();
    let known: [(&str, Program); 5] = [
        ("a loop", |x| fori_loop(20, |(_, x): (Var, Var)| x.sin() * 1.1, x).sum()),
        ("layers", layers),
        ("two loops", two_loops),
        ("a scan", stacked),
        ("branches", branches),
    ];
    let unbounded: [(&str, Program); 1] = [("a loop of some iterations", until)];
    let cases = known.map(|(name, f)| (name, f, 1 << 40)).into_iter();
    for (name, f, bytes) in cases.chain(unbounded.map(|(name, f)| (name, f, u64::MAX))) {
        let ample = checkpoint(f, Policy::Bytes(bytes));
        let planned = checkpoint(f, Policy::Planned);
        for (i, (with, without)) in
            three_orders(ample).into_iter().zip(three_orders(planned)).enumerate()
        {
            let [with, without] =
                [with, without].map(|g| jit(move |x: Var| g(x)).explain(&x).unwrap());
            assert_eq!(with.kernels(), without.kernels(), "{name}, order {}", i + 1);
        }
    }
}

/// A loop of unknown trip count may need any number of bytes. Even so, a large budget must not be allocated as a whole
/// for the loop: the workspace of ten iterations must be small.
#[test]
fn a_large_budget_is_not_taken_for_iterations_that_may_not_come() {
    let ten = |x: Var| {
        let iteration = |(i, x): (Var, Var)| (i + 1, x.sin() * 1.1);
        while_loop(|(i, _): (Var, Var)| i.lt(10), iteration, (constant(0i64), x)).1.sum()
    };
    let x: Tensor = [0.3].into_iter().collect();
    let orders = || three_orders(checkpoint(ten, Policy::Bytes(1 << 30)));
    for (i, (g, most)) in orders().into_iter().zip([10_000, 500_000, 20_000_000]).enumerate() {
        let f = jit(move |x: Var| g(x));
        let bytes = f.explain(&x).unwrap().workspace_bytes();
        assert!(bytes <= most, "order {}: {bytes}", i + 1);
    }
}

/// If straight-line layers with custom rules are recomputed, a host function inside a rule must still be called once
/// per layer: its effect is not repeated.
#[test]
fn pieces_with_rules_call_the_host_once() {
    let log = Listener::default();
    let heard = log.clone();
    let x = square();
    let counted = move |x: Var| {
        let heard = heard.clone();
        let count = move |x: Tensor| heard.hear("call", &[x]);
        let inside = move |x: Var| tap(x, count.clone()).tanh();
        let value = inside.clone();
        let rule = move |x: Var, dx: Var| {
            let y = inside(x);
            (y, dx * (1.0 - y * y))
        };
        custom_jvp(value, rule)(x)
    };
    let layers = |x: Var| (0..20).fold(x, |y, _| counted(y.dot(x))).sum();
    let gradient = |policy: Policy| {
        let g = jit(value_and_grad(checkpoint(layers, policy))).interpreted().call(&x).unwrap();
        (g, log.take())
    };
    let (want, effects) = gradient(Policy::Planned);
    assert_eq!(effects.len(), 20);
    for arrays in [10, 3] {
        let policy = Policy::Bytes((arrays * x.bytes().len()) as u64);
        let (got, again) = gradient(policy);
        assert_eq!((got, again.len()), (want.clone(), 20), "{arrays} arrays");
    }
}

/// The gradient of a loop of unknown trip count is itself differentiated within a budget: values must equal those
/// without a budget, for small and unlimited budgets.
#[test]
fn a_gradient_of_a_loop_of_unknown_length_has_a_budget() {
    let inner = |x: Var| {
        let iteration = |x: Var| x + (x.sin() * x).square() * 0.1 + 0.02;
        while_loop(|x: Var| x.sum().lt(6.0), iteration, x).sum()
    };
    let x = Tensor::from([0.3, 0.4, 0.2]);
    let slope = |x: Var| grad(inner)(x);
    let pulled = |x: Var| vjp(inner)(x).1(constant(1.0));
    let want = run(grad(move |x: Var| slope(x).square().sum()), &x).unwrap();
    for bytes in [4_000, 1 << 20, u64::MAX] {
        for taken in [&slope as &dyn Fn(Var) -> Var, &pulled] {
            let f = checkpoint(taken, Policy::Bytes(bytes));
            let g = jit(grad(move |x: Var| f(x).square().sum()));
            Agreement::CLOSE.check(&g.call(&x).unwrap(), &want).unwrap();
        }
        // The gradient alone must equal, bit for bit, the gradient without a checkpoint.
        let first = run(checkpoint(slope, Policy::Bytes(bytes)), &x).unwrap();
        assert_eq!(first, run(slope, &x).unwrap());
    }
}

/// The carries saved by a gradient of a loop of unknown trip count and by the gradient's derivative share one budget:
/// the tape must fill more than half of it, and not exceed it.
#[test]
fn a_gradient_of_a_loop_of_unknown_length_and_its_derivative_share_a_budget() {
    let inner = |x: Var| {
        let go_on = |(i, _): (Var, Var)| i.lt(200);
        let iteration = |(i, x): (Var, Var)| (i + 1, x.sin() * 1.01);
        while_loop(go_on, iteration, (constant(0i64), x)).1.sum()
    };
    let x = Tensor::full(&[100], 0.5).unwrap();
    for bytes in [5_000, 20_000, 100_000, 400_000] {
        let f = checkpoint(move |x: Var| grad(inner)(x).square().sum(), Policy::Bytes(bytes));
        let tape = jit(grad(f)).explain(&x).unwrap().tape().bytes() as u64;
        assert!(bytes / 2 < tape && tape <= bytes, "{tape} of {bytes}");
    }
}
