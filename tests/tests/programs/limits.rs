//! Limits on iterations and time of calls, on every engine: a call beyond its limit must end with an error that names
//! the loop's line, and results of calls within the limit must not change.

use std::time::{Duration, Instant};
use tapeloom::prelude::*;
use tapeloom::{Error, Kind, Target};

type F = fn(Var) -> Var;

/// Returns functions of f64[] with at least one loop of run-time trip count: a name, the function, and the trip count
/// of its longest loop at the argument 10.0.
fn functions() -> Vec<(&'static str, F, u64)> {
    fn down(x: Var) -> Var {
        while_loop(
            |(x, _): (Var, Var)| x.gt(0.5),
            |(x, y): (Var, Var)| (x - 1.0, y * 1.5 + x.sin()),
            (x, x),
        )
        .1
    }
    fn counted(x: Var) -> Var {
        fori_loop(x.convert(Dtype::I64), |(i, y): (Var, Var)| y.sin() + i.convert(Dtype::F64), x)
    }
    vec![
        ("while", down, 10),
        ("counted", counted, 10),
        ("in a branch", |x| cond(x.gt(0.0), |x: Var| counted(x) + 1.0, |x| x, x), 10),
        ("nested", |x| fori_loop(30, |(_, y): (Var, Var)| down(x) + y, x), 10),
        ("gradient", |x| grad(down)(x), 10),
        ("second derivative", |x| grad(grad(counted))(x), 10),
        ("forward", |x| jvp(down)((x, x)).1, 10),
        ("batch", |x| vmap(down)(x * arange(3, Dtype::F64) / 2.0).sum(), 10),
        ("chunks", |x| vmap(down)(x * arange(300, Dtype::F64) / 299.0).sum(), 10),
        (
            "gradient of a batch",
            |x| grad(|x: Var| vmap(counted)(stack(&[x, x / 2], 0)).sum())(x),
            10,
        ),
        ("outlined", |x| outline(down)(x) + outline(down)(x / 2), 10),
        (
            "inside another",
            |x| {
                let inner = |y: Var| while_loop(|y: Var| y.lt(3.0), |y| y + 1.0, y * 0.0);
                while_loop(
                    |(x, _): (Var, Var)| x.gt(0.5),
                    |(x, y): (Var, Var)| (x - 1.0, inner(y)),
                    (x, x),
                )
                .1
            },
            10,
        ),
    ]
}

/// Calls a function on every engine with a limit of `most` iterations per loop, and returns each result with the
/// engine's name.
fn calls(f: F, x: f64, most: Option<u64>) -> Vec<(&'static str, Result<f64, Error>)> {
    let limited = || match most {
        Some(n) => jit(f).max_steps(n),
        None => jit(f),
    };
    let value = |y: Result<Tensor, Error>| y.map(|y| y.item::<f64>().unwrap());
    let compiled = limited().compile(x).and_then(|f| f.call(x));
    vec![
        ("native", value(limited().call(x))),
        ("compiled before", value(compiled)),
        ("interpreted", value(limited().interpreted().call(x))),
        ("looking at numbers", value(limited().nan_check().call(x))),
    ]
}

#[test]
fn a_loop_runs_as_many_iterations_as_it_may() {
    for (name, f, iterations) in functions() {
        let free = calls(f, 10.0, None);
        for ((engine, found), (_, free)) in calls(f, 10.0, Some(iterations)).iter().zip(&free) {
            let (found, free) = (found.as_ref().unwrap(), free.as_ref().unwrap());
            assert_eq!(found.to_bits(), free.to_bits(), "{name}, {engine}");
        }
        for (engine, found) in calls(f, 10.0, Some(iterations - 1)) {
            let error = found.expect_err(name);
            assert_eq!(error.kind(), Kind::Limit, "{name}, {engine}: {error}");
            let text = error.to_string();
            assert!(text.contains("limits.rs:"), "{name}, {engine}: {text}");
            let said = ["did not end after 9 iterations", "would run 10 iterations, and may run 9"];
            assert!(said.iter().any(|s| text.contains(s)), "{name}, {engine}: {text}");
        }
        // At the argument 0.0 the loops run no iteration, so a limit of 0 iterations must suffice. Only the program
        // with a nested loop needs a limit of 3, for its inner loop.
        for (engine, found) in calls(f, 0.0, Some(if name == "inside another" { 3 } else { 0 })) {
            found.unwrap_or_else(|e| panic!("{name}, {engine}: {e}"));
        }
    }
}

/// If a loop's trip count is a value that exceeds the limit, the loop must be refused before its first iteration, even
/// if that iteration would not end.
#[test]
fn known_counts_are_refused_before_the_first_iteration() {
    let f = |n: Var| fori_loop(n, |(_, x): (Var, Var)| x + 1.0, constant(0.5));
    for f in [jit(f).max_steps(1 << 20), jit(f).max_steps(1 << 20).interpreted()] {
        assert_eq!(f.call(7i64).unwrap().item::<f64>().unwrap(), 7.5);
        for n in [(1i64 << 20) + 1, i64::MAX] {
            let start = Instant::now();
            let error = f.call(n).unwrap_err();
            assert!(error.to_string().contains(&format!("would run {n} iterations")), "{error}");
            assert!(start.elapsed() < Duration::from_secs(5), "it ran");
        }
        // A negative trip count runs no iterations, which any limit must allow.
        assert_eq!(f.call(-1i64).unwrap().item::<f64>().unwrap(), 0.5);
    }
}

#[test]
fn the_largest_limit_is_none() {
    let f = |x: Var| while_loop(|x: Var| x.lt(5000.0), |x| x + 1.0, x);
    for f in [jit(f).max_steps(u64::MAX), jit(f).max_steps(u64::MAX).interpreted()] {
        assert_eq!(f.call(0.0).unwrap().item::<f64>().unwrap(), 5000.0);
    }
}

/// A limit does not apply to a static trip count, which the user has written: 5000 iterations under a limit of 3.
#[test]
fn loops_of_known_length_are_not_bounded() {
    let f = jit(|x: Var| fori_loop(5000, |(_, x): (Var, Var)| x * 0.5 + 1.0, x)).max_steps(3);
    assert_eq!(f.call(1.0).unwrap().item::<f64>().unwrap(), 2.0);
}

/// A cancelled handle must end a running call with an error, in every kind of loop that would not end by itself.
#[test]
fn running_calls_are_cancelled() {
    fn forever(x: Var) -> Var {
        while_loop(|x: Var| x.gt(0.0), |x| x + 1.0, x)
    }
    fn nest(depth: usize, x: Var) -> Var {
        match depth {
            0 => x.sin(),
            _ => fori_loop(900, |(_, x): (Var, Var)| nest(depth - 1, x), x),
        }
    }
    let all: [(&str, F); 6] = [
        ("while", forever),
        ("gradient's way forward", |x| {
            grad(|x: Var| {
                while_loop(
                    |(x, _): (Var, Var)| x.gt(0.0),
                    |(x, y): (Var, Var)| (x + 1.0, y * 0.0 + x),
                    (x, x),
                )
                .1 * 0.0
            })(x)
        }),
        ("counted", |x| {
            fori_loop(x.convert(Dtype::I64) + (i64::MAX - 1), |(_, x): (Var, Var)| x.sin(), x)
        }),
        ("static", |x| fori_loop(1 << 60, |(_, x): (Var, Var)| x.sin(), x)),
        ("short loops, nested", |x| nest(6, x)),
        ("a batch", |x| vmap(forever)(stack(&[x, x], 0)).sum()),
    ];
    for (name, f) in all {
        for interpreted in [false, true] {
            // Skip this case: the interpreter takes long to save the residuals of a loop that does not end.
            if interpreted && name.starts_with("gradient") {
                continue;
            }
            let cancel = Cancel::new();
            let f = jit(f).cancelled_by(&cancel);
            let f = if interpreted { f.interpreted() } else { f };
            let error = std::thread::scope(|s| {
                let call = s.spawn(|| f.call(1.0));
                std::thread::sleep(Duration::from_millis(30));
                cancel.cancel();
                call.join().unwrap().expect_err(name)
            });
            assert_eq!(error.kind(), Kind::Cancelled, "{name}: {error}");
            assert!(error.to_string().contains("limits.rs:"), "{name}: {error}");
            assert!(cancel.is_cancelled());
            assert_eq!(f.call(1.0).unwrap_err().kind(), Kind::Cancelled, "{name}: still so");
        }
    }
    let cancel = Cancel::new();
    let f = jit(|x: Var| while_loop(|x: Var| x.lt(9.0), |x| x + 1.0, x)).cancelled_by(&cancel);
    cancel.cancel();
    assert_eq!(f.call(0.0).unwrap_err().kind(), Kind::Cancelled);
    cancel.reset();
    assert_eq!(f.call(0.0).unwrap().item::<f64>().unwrap(), 9.0);
}

/// If a call is cancelled before it begins, it must not run, whether its loops are unrolled, absent or ordinary.
#[test]
fn calls_that_were_cancelled_do_not_begin() {
    let all: [(&str, F); 4] = [
        ("no loop", |x| x.sin()),
        ("two iterations", |x| fori_loop(2, |(_, x): (Var, Var)| x.sin(), x)),
        ("no iterations", |x| fori_loop(0, |(_, x): (Var, Var)| x.sin(), x)),
        ("a branch", |x| {
            cond(x.gt(0.0), |x: Var| x, |x| while_loop(|x: Var| x.lt(1.0), |x: Var| x + 1.0, x), x)
        }),
    ];
    for (name, f) in all {
        let cancel = Cancel::new();
        let on = |target: Target| jit(f).on(target).cancelled_by(&cancel);
        let machine = tapeloom::accelerator::Machine::cal();
        let native = jit(f).cancelled_by(&cancel);
        let compiled = jit(f).cancelled_by(&cancel).compile(1.0).unwrap();
        let interpreted = jit(f).cancelled_by(&cancel).interpreted();
        let finite = jit(f).cancelled_by(&cancel).nan_check();
        let [kernels, simulated] = [Target::Interpreter, Target::Accelerator(machine)].map(on);
        let all = || {
            [
                ("native", native.call(1.0)),
                ("compiled before", compiled.call(1.0)),
                ("interpreted", interpreted.call(1.0)),
                ("looking at numbers", finite.call(1.0)),
                ("kernels", kernels.call(1.0)),
                ("simulated", simulated.call(1.0)),
                ("counted", native.report(1.0).map(|(y, _)| y)),
            ]
        };
        for (engine, found) in all() {
            found.unwrap_or_else(|e| panic!("{name}, {engine}: {e}"));
        }
        cancel.cancel();
        for (engine, found) in all() {
            let error = found.expect_err(&format!("{name}, {engine}"));
            assert_eq!(error.kind(), Kind::Cancelled, "{name}, {engine}: {error}");
        }
        cancel.reset();
        for (engine, found) in all() {
            found.unwrap_or_else(|e| panic!("{name}, {engine}: {e}"));
        }
    }
}

#[test]
fn reports_count() {
    // `report` must count n iterations of the outer loop, and for outer iteration i another i iterations of the inner
    // loop.
    let zero = Tensor::from(0.0);
    let triangle = |n: Var| {
        fori_loop(
            n,
            |(i, s): (Var, Var)| fori_loop(i, |(_, s): (Var, Var)| s + 0.5, s),
            constant(&zero),
        )
    };
    let (sum, report) = jit(triangle).report(100i64).unwrap();
    assert_eq!(sum.item::<f64>().unwrap(), 2475.0);
    let counts: Vec<_> = report.loops.iter().map(|l| (l.entered, l.iterations, l.most)).collect();
    assert_eq!(counts, [(100, 4950, 99), (1, 100, 100)]);
    assert!(
        report.loops.iter().all(|l| l.location.is_some_and(|l| l.file().ends_with("limits.rs")))
    );
    assert_eq!(
        (report.arguments, report.results, report.records),
        (16, 8, 0),
        "captured arrays, too"
    );
    // `report` must not count loops in a branch that is not taken.
    let side =
        |n: Var| cond(n.gt(0), |n: Var| fori_loop(n, |(_, x): (Var, Var)| x + 1, n), |n| n, n);
    for (n, counts) in [(5i64, (1, 5, 5)), (-5, (0, 0, 0))] {
        let (_, report) = jit(side).report(n).unwrap();
        let l = &report.loops[0];
        assert_eq!((l.entered, l.iterations, l.most), counts);
    }
    // Only machine code counts iterations; other targets must refuse a report.
    let machine = tapeloom::accelerator::Machine::cal();
    for target in [Target::Interpreter, Target::Accelerator(machine)] {
        let error = jit(side).on(target).report(5i64).unwrap_err();
        assert_eq!(error.kind(), Kind::Target, "{error}");
    }
    // The reported bytes of residuals on dynamic tapes must be one f64 per iteration, plus the unused end of the tape's
    // last allocation.
    let f = |(x, n): (Var, Var)| fori_loop(n, |(_, x): (Var, Var)| x.sin(), x);
    let slope = jit(grad(move |x: Var| f((x, constant(100_000i64)))));
    let (_, report) = slope.report(0.5).unwrap();
    assert_eq!(report.loops.iter().map(|l| l.iterations).collect::<Vec<_>>(), [100_000; 2]);
    let least = 8 * 100_000;
    assert!((least..least + least / 2).contains(&report.records), "{report}");
    let text = report.to_string();
    assert!(
        text.contains(&format!("records of loops {}", report.records))
            && text.contains("limits.rs:"),
        "{text}"
    );
    // A limit must also hold for a call that reports its iterations.
    let error = jit(triangle).max_steps(50).report(100i64).unwrap_err();
    assert_eq!(error.kind(), Kind::Limit);
}

/// Sums of 2⁴⁰ equal elements must be computed at compile time: an array of equal elements takes no memory.
#[test]
fn folds_of_huge_arrays_of_one_number_are_known() {
    let n = 1usize << 40;
    let all = move |x: f64| full([n], x);
    type Made = Box<dyn Fn() -> Var>;
    let known: [(&str, Made, f64); 5] = [
        ("zeros", Box::new(move || zeros([n], Dtype::F64).sum()), 0.0),
        (
            "more axes",
            Box::new(move || zeros([1 << 20, 1 << 20], Dtype::F64).sum_axis(1).sum()),
            0.0,
        ),
        ("the largest", Box::new(move || all(3.0).max()), 3.0),
        ("a product of ones", Box::new(move || all(1.0).prod()), 1.0),
        ("a sum of ones", Box::new(move || all(1.0).sum()), n as f64),
    ];
    for (name, f, want) in known {
        let f = jit(move |x: Var| f() + x);
        let e = f.explain(0.5).unwrap();
        let left = e.stages().last().map(|s| s.equations);
        assert_eq!(left, Some(1), "{name}: {e}");
        assert_eq!(f.call(0.5).unwrap().item::<f64>().unwrap(), want + 0.5, "{name}");
    }
}
