//! Recordings through the public API: values, first and second pullbacks, control flow that depends on values, hooks,
//! tape size, text, compiled paths.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Mutex};
use tapeloom::prelude::*;
use tapeloom::{ArrayType, Error};
use tapeloom_ir::Module;
use tapeloom_tests::{Agreement, cases, recorded};

const CLOSE: Agreement = Agreement::Within { relative: 1e-10, absolute: 1e-12 };

#[track_caller]
fn close(got: &Tensor, want: &Tensor) {
    CLOSE.check(got, want).unwrap();
}

fn number(x: &Tensor) -> f64 {
    x.item().unwrap()
}

// -- Laws -------------------------------------------------------------------------------------------

#[test]
fn every_primitive_is_recorded_and_pulled_back_twice() {
    let mut m = Module::new();
    let mut failures = Vec::new();
    for case in cases(&mut m) {
        for law in [recorded::first_order, recorded::second_order] {
            let outcome = law(&mut m, &case);
            failures.extend(outcome.err().map(|e| format!("{}: {e}", case.name)));
        }
    }
    assert!(failures.is_empty(), "{} fail\n{}", failures.len(), failures.join("\n\n"));
}

/// Returns the derivative of a recorded function at `x` by central differences; each evaluation may take another path
/// of branches.
fn difference(f: impl Fn(Var) -> Var, x: f64) -> f64 {
    let h = 1e-5;
    let at = |x: f64| number(&record(&f, x).unwrap().value());
    (at(x + h) - at(x - h)) / (2.0 * h)
}

/// Returns the derivative of a scalar function, computed by pulling back a recording inside a recording.
fn slope(f: impl Fn(Var) -> Var) -> impl Fn(Var) -> Var {
    move |x| {
        let (y, pull) = recorded_vjp(&f)(x);
        pull(ones(y.shape(), y.dtype()))
    }
}

/// Checks the first, second and third derivative of a recorded function, whose control flow reads values, against
/// central differences, and the compiled recording against the tape.
#[track_caller]
fn derivatives(f: impl Fn(Var) -> Var + Clone, x: f64) {
    let tape = record(f.clone(), x).unwrap();
    let by_tape = number(&tape.pull(1.0).unwrap());
    let want = difference(f.clone(), x);
    assert!((by_tape - want).abs() < 1e-6 * (1.0 + want.abs()), "{by_tape} is no {want}");

    let once = slope(f.clone());
    let tape_of_slope = record(&once, x).unwrap();
    let same = number(&tape_of_slope.value());
    assert!((same - by_tape).abs() <= 1e-12 * (1.0 + same.abs()), "{same} is no {by_tape}");
    let bend = number(&tape_of_slope.pull(1.0).unwrap());
    let want = difference(&once, x);
    assert!((bend - want).abs() < 1e-5 * (1.0 + want.abs()), "second: {bend} is no {want}");

    let twice = slope(slope(f));
    let third = number(&record(&twice, x).unwrap().pull(1.0).unwrap());
    let want = difference(&twice, x);
    assert!((third - want).abs() < 1e-4 * (1.0 + want.abs()), "third: {third} is no {want}");

    let y = tape.compile().unwrap().call(x).unwrap();
    close(&y, &tape.value());
    let applied = jit(grad(|x| tape.apply(x))).call(x).unwrap();
    close(&applied, &Tensor::from(by_tape));
    let bent = jit(grad(grad(|x| tape.apply(x)))).call(x).unwrap();
    assert!((number(&bent) - bend).abs() < 1e-9 * (1.0 + bend.abs()));
}

#[test]
fn newton_takes_the_steps_that_it_takes() {
    derivatives(
        |a: Var| {
            let mut x = a;
            while (x * x - a).abs().item::<f64>() > 1e-13 {
                x = 0.5 * (x + a / x);
            }
            x
        },
        2.0,
    );
}

#[test]
fn adaptive_quadrature_recurs_where_it_must() {
    fn integral(p: Var, a: f64, b: f64) -> Var {
        let f = |x: f64| (p * x).exp() / (x + 0.05);
        let simpson = |a: f64, b: f64| (b - a) / 6.0 * (f(a) + 4.0 * f((a + b) / 2.0) + f(b));
        let middle = (a + b) / 2.0;
        let (whole, halves) = (simpson(a, b), simpson(a, middle) + simpson(middle, b));
        if (whole - halves).abs().item::<f64>() < 1e-7 {
            return halves;
        }
        integral(p, a, middle) + integral(p, middle, b)
    }
    derivatives(|p: Var| integral(p, 0.0, 1.0), 0.7);
}

#[test]
fn trees_are_built_and_walked() {
    enum Tree {
        Leaf(Var),
        Node(Box<Tree>, Box<Tree>),
    }
    fn grow(x: Var, depth: usize) -> Tree {
        if depth == 0 || x.item::<f64>() < 0.3 {
            return Tree::Leaf(x);
        }
        let child = |x: Var| Box::new(grow(x, depth - 1));
        Tree::Node(child(x * 0.7), child(x.sin()))
    }
    fn sum(tree: &Tree) -> Var {
        match tree {
            Tree::Leaf(x) => x.exp(),
            Tree::Node(a, b) => sum(a) * sum(b).tanh(),
        }
    }
    derivatives(|x: Var| sum(&grow(x, 6)), 1.3);
}

#[test]
fn branches_and_lists() {
    derivatives(
        |x: Var| {
            let mut all = vec![x];
            while all.len() < 12 {
                let last = all[all.len() - 1];
                let next = if last.item::<f64>() > 1.0 { last * 0.5 } else { last * last + 0.9 };
                all.push(next);
            }
            all.iter().map(|x| x.sin()).sum::<Var>()
        },
        0.6,
    );
}

#[test]
fn collatz_by_integers() {
    let steps = |n: Var| {
        let (mut n, mut steps) = (n, 0);
        while n.item::<i64>() != 1 {
            n = if n.rem(2).item::<i64>() == 0 { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
        (n, steps as f64 + zeros([], Dtype::F64))
    };
    let tape = record(steps, 27i64).unwrap();
    assert_eq!(tape.value().1, Tensor::from(111.0));
    assert_eq!(tape.value().0, Tensor::from(1i64));
}

/// Programs that read no values in their control flow must give the same values and pullbacks when recorded and under
/// `jit`.
#[test]
fn recording_without_reads_equals_jit() {
    type F = Box<dyn Fn(Var) -> Var>;
    let w = Tensor::from([[0.5, -1.0, 0.25], [2.0, 0.1, -0.3], [0.7, 0.2, 1.1]]);
    let data = w.clone();
    let programs: Vec<(&str, F)> = vec![
        ("elementwise", Box::new(|x| (x.sin() * x + 2.0 * x.exp()).sum())),
        ("captured data", Box::new(move |x| x.dot(&data).tanh().sum())),
        ("constants among arrays", Box::new(|x| (0..5).fold(x, |x, i| x * (i as f64 + 0.5)).sum())),
        ("read twice", Box::new(|x| (x * x).dot(x + x))),
        ("places", Box::new(|x| x.at(1).set(x.index(0) * x.index(2)).dot(x) + x.index(1))),
        ("grad inside", Box::new(|x| grad(|x: Var| (x.sin() * x).sum())(x).dot(x))),
        ("hessian inside", Box::new(|x| hessian(|x: Var| (x * x * x).sum())(x).sum())),
        ("vmap inside", Box::new(|x| vmap(|x: Var| x.sin() * x)(x).sum())),
        ("scan", Box::new(|x| scan(|(c, x): (Var, Var)| ((c * x).sin(), c), x.sum(), x).1.sum())),
        (
            "while",
            Box::new(|x| {
                while_loop(|x: Var| x.sum().lt(50.0), |x: Var| x * 1.5 + x.sin(), x + 2.0).sum()
            }),
        ),
        ("cond", Box::new(|x| cond(x.sum().gt(0.0), |x: Var| x.sin(), |x: Var| x * x, x).sum())),
        ("outline", Box::new(|x| (0..4).fold(x, |x, _| outline(|x: Var| x.sin() + x)(x)).sum())),
        (
            "checkpoint",
            Box::new(|x| checkpoint(|x: Var| (x.sin() * x).exp(), Policy::Nothing)(x).sum()),
        ),
        (
            "custom_vjp",
            Box::new(|x| {
                let f =
                    custom_vjp(|x: Var| x.sin(), |x: Var| (x.sin(), x), |x, ct: Var| ct * 3.0 * x);
                f(f(x)).sum()
            }),
        ),
        (
            "custom_vjp that gives its argument",
            Box::new(|x| {
                let f = custom_vjp(|x: Var| x, |x: Var| (x, ()), |(), ct: Var| ct * 3.0);
                (f(x) * x + x).sum()
            }),
        ),
        (
            "state",
            Box::new(|x| {
                let r = Ref::new(x);
                fori_loop(3, |(i, ()): (Var, ())| r.at(i).add(r.get().sum()), ());
                r.at(0).mul(2.0);
                r.get().sum()
            }),
        ),
        (
            "random",
            Box::new(|x| {
                let rng = random::Rng::new(3);
                let noise = rng.normal([3], Dtype::F64);
                (x * noise).exp().sum()
            }),
        ),
        ("sorts", Box::new(|x| x.sort(0).cumsum(0).dot(x))),
        (
            "linear solve",
            Box::new(move |x| {
                let a = constant(&w) + eye(3, Dtype::F64) * 3.0;
                cg(|v: Var| a.t().dot(a.dot(v)), x, Until::default()).dot(x)
            }),
        ),
        ("stopped", Box::new(|x| (x.stop_gradient() * x).sum())),
        ("no path", Box::new(|x| x.stop_gradient().sum() + x.floor().sum())),
    ];
    let x = Tensor::from([0.4, 1.2, -0.7]);
    for (name, f) in programs {
        let want = jit(value_and_grad(&f)).interpreted().call(&x).unwrap();
        let tape = record(&f, &x).unwrap_or_else(|e| panic!("{name}: {e}"));
        let back = tape.pull(1.0).unwrap_or_else(|e| panic!("{name}: {e}"));
        let check = |what: &str, got: &Tensor, want: &Tensor| {
            CLOSE.check(got, want).unwrap_or_else(|e| panic!("{name}, {what}: {e}\n{tape}"));
        };
        check("value", &tape.value(), &want.0);
        check("slope", &back, &want.1);
        check("compiled", &tape.compile().unwrap().call(&x).unwrap(), &want.0);
        let again = |x: Var| grad(|x| tape.apply(x))(x);
        check("applied", &jit(again).call(&x).unwrap(), &want.1);

        let slope = |x: Var| recorded_vjp(&f)(x).1(ones([], Dtype::F64));
        let tape = record(slope, &x).unwrap_or_else(|e| panic!("{name}, recorded: {e}"));
        check("slope recorded", &tape.value(), &want.1);
        let ct = [1.0, -0.5, 2.0];
        let bent = |x: Var| vjp(grad(&f))(x).1(constant(Tensor::from(ct)));
        let want = jit(bent).interpreted().call(&x).unwrap();
        let got = tape.pull(ct).unwrap_or_else(|e| panic!("{name}, second order: {e}"));
        check("second order", &got, &want);
        // In a closure that is traced and not recorded, `recorded_vjp` must act as `vjp`.
        let traced = jit(|x: Var| recorded_vjp(&f)(x).1(ones([], Dtype::F64))).call(&x).unwrap();
        check("not recorded", &traced, &back);
    }
}

// -- Perturbations ----------------------------------------------------------------------------------

#[test]
fn perturbations_are_kept_apart() {
    // Perturbations must not be confused: d/dx (x · d/dy (x + y)) is 1.
    let f = |x: Var| {
        let inner = |y: Var| x + y;
        x * slope(inner)(x)
    };
    assert_eq!(record(f, 3.0).unwrap().pull(1.0).unwrap(), Tensor::from(1.0));
    // Inside the inner derivative, the outer argument x is a constant, although y has the same value.
    let f = |x: Var| slope(|y: Var| y * x)(x);
    let tape = record(f, 3.0).unwrap();
    assert_eq!((tape.value(), tape.pull(1.0).unwrap()), (Tensor::from(3.0), Tensor::from(1.0)));
    // Derivatives must be right if a closure uses `grad`, is differentiated by `recorded_vjp`, and is part of another
    // recording.
    let f = |x: Var| slope(|y: Var| grad(|z: Var| z * z * y * x)(y))(x);
    let tape = record(f, 2.0).unwrap();
    assert_eq!((tape.value(), tape.pull(1.0).unwrap()), (Tensor::from(16.0), Tensor::from(16.0)));
}

#[test]
fn a_pullback_is_used_as_often_as_one_likes() {
    let f = |x: Var| {
        let (y, pull) = recorded_vjp(|x: Var| x.sin() * x)(x);
        pull(y) + pull(x) * pull(ones([], Dtype::F64))
    };
    let plain = |x: Var| {
        let (y, pull) = vjp(|x: Var| x.sin() * x)(x);
        pull(y) + pull(x) * pull(ones([], Dtype::F64))
    };
    let tape = record(f, 0.8).unwrap();
    let (y, slope) = jit(value_and_grad(plain)).call(0.8).unwrap();
    close(&tape.value(), &y);
    close(&tape.pull(1.0).unwrap(), &slope);
    // Derivatives must be right if `recorded_vjp` occurs in a closure that `grad` or another transform traces.
    let f = |x: Var| {
        let (_, pull) = recorded_vjp(|x: Var| x.sin() * x)(x);
        grad(|ct: Var| pull(ct) * ct)(x)
    };
    let plain = |x: Var| {
        let (_, pull) = vjp(|x: Var| x.sin() * x)(x);
        grad(|ct: Var| pull(ct) * ct)(x)
    };
    let tape = record(f, 0.8).unwrap();
    let (y, slope) = jit(value_and_grad(plain)).call(0.8).unwrap();
    close(&tape.value(), &y);
    close(&tape.pull(1.0).unwrap(), &slope);
}

#[test]
fn recordings_in_recordings_are_data() {
    let f = |x: Var| {
        let inner = record(|y: Var| y * y, x.value()).unwrap();
        x * number(&inner.pull(1.0).unwrap())
    };
    let tape = record(f, 3.0).unwrap();
    assert_eq!(tape.value(), Tensor::from(18.0));
    assert_eq!(tape.pull(1.0).unwrap(), Tensor::from(6.0));
    // A recording may be made inside a closure that `jit` traces.
    let f = jit(|x: Var| x * number(&record(|y: Var| y * 2.0, 4.0).unwrap().value()));
    assert_eq!(f.call(1.0).unwrap(), Tensor::from(8.0));
    // The program of a recording may be applied inside another recording.
    let cube = record(|x: Var| x * x * x, 1.0).unwrap();
    let tape = record(|x: Var| cube.apply(x) + x, 2.0).unwrap();
    assert_eq!(tape.pull(1.0).unwrap(), Tensor::from(13.0));
}

// -- The tape ---------------------------------------------------------------------------------------

#[test]
fn trees_come_and_go() {
    #[derive(Tree, Clone)]
    struct Params<T> {
        w: Vec<T>,
        b: Option<T>,
    }
    let f = |(p, x): (Params<Var>, Var)| {
        let layers =
            p.w.iter().fold(x, |x, w| if x.sum().item::<f64>() > 0.0 { x * *w } else { -x });
        (p.b.map(|b| layers + b), layers.sum())
    };
    let p = Params {
        w: vec![Tensor::from(2.0), Tensor::from(-3.0), Tensor::from(5.0)],
        b: Some(Tensor::from(1.0)),
    };
    let tape = record(f, (&p, [1.0, 2.0])).unwrap();
    let (y, total) = tape.value();
    assert_eq!((y.unwrap(), total), (Tensor::from([7.0, 13.0]), Tensor::from(18.0)));
    let (p, x) = tape.pull((Some([1.0, 0.0]), 0.5)).unwrap();
    assert_eq!(p.b.unwrap(), Tensor::from(1.0));
    assert_eq!(p.w[0], Tensor::from(1.5 * 3.0 + 0.5 * 6.0));
    assert_eq!(p.w[2], Tensor::from(0.0));
    assert_eq!(x, Tensor::from([9.0, 3.0]));
}

#[test]
fn results_that_are_no_new_values() {
    let tape = record(|(x, y): (Var, Var)| (x, x, y * 0.0 + 1.0, x - x), (2.0, 3.0)).unwrap();
    let (x, y) = tape.pull((1.0, 10.0, 100.0, 1000.0)).unwrap();
    assert_eq!((x, y), (Tensor::from(11.0), Tensor::from(0.0)));
    let tape = record(|x: Var| (x.sin(), x).1, 2.0).unwrap();
    assert_eq!(tape.pull(4.0).unwrap(), Tensor::from(4.0));
}

#[test]
fn a_tape_is_shared_by_threads() {
    let tape = record(|x: Var| (x.sin() * x).sum(), [0.5, 1.5]).unwrap();
    let want = tape.pull(1.0).unwrap();
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| assert_eq!(tape.pull(1.0).unwrap(), want));
        }
    });
}

#[test]
fn a_recording_saves_only_operands_of_the_reverse_pass() {
    let n = 10_000;
    let x = Tensor::full(&[n], 0.5).unwrap();
    let size = |f: fn(Var) -> Var| record(f, &x).unwrap().bytes();
    let array = n * 8;
    // The tape's size in arrays: the reverse pass of a sum reads nothing, the reverse pass of a sine reads the operand,
    // and the reverse pass of an exponential reads the result.
    let sums = |k: usize, bytes: usize| {
        assert!((k * array..k * array + 20_000).contains(&bytes), "{bytes} for {k} arrays");
    };
    sums(0, size(|x| (x + x + 1.0).sum()));
    sums(1, size(|x| x.sin().sum()));
    sums(1, size(|x| (x + 1.0).exp().sum()));
    sums(2, size(|x| (x * (x + 1.0)).sum()));
    // One buffer read by two operations under two shapes is stored once.
    sums(1, size(|x| x.reshape([100, 100]).sin().sum() + x.cos().sum()));
}

#[test]
fn text() {
    let f = |x: Var| {
        let y = x.sin();
        if y.sum().item::<f64>() > 0.0 { (x * y).sum() } else { y.sum() }
    };
    let tape = record(f, [0.5, 1.5]).unwrap();
    let text = tape.to_string();
    let line = line!() - 5;
    let file = file!();
    assert!(
        text.starts_with(&format!(
            "tape of 4 operations, {} bytes, recorded at {file}:",
            tape.bytes()
        )),
        "{text}"
    );
    for want in [
        "%0: f64[2]                           16 bytes  argument".to_owned(),
        format!("%1: f64[2] = sin %0                  16 bytes  {file}:{}:19", line),
        "return %4".to_owned(),
    ] {
        assert!(text.contains(&want), "{text}\nhas no\n{want}");
    }
    let long = record(|x: Var| (0..1000).fold(x, |x, _| x.sin()), 0.5).unwrap().to_string();
    assert!(long.contains(".. 970 more .."), "{long}");
    assert_eq!(long.lines().count(), 1 + 1 + 20 + 1 + 10 + 1, "{long}");
    assert!(long.contains("%20: f64[] = sin %19") && long.contains("%991: f64[] = sin %990"));
    assert_eq!(format!("{tape:?}"), text);
}

// -- The world outside ------------------------------------------------------------------------------

#[test]
fn hooks_see_cotangents_at_every_pull() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let f = move |x: Var| {
        let log = log.clone();
        let y = tap_cotangent(x.sin(), move |ct: Tensor| log.lock().unwrap().push(number(&ct)));
        if y.item::<f64>() > -2.0 { 3.0 * y + x } else { y }
    };
    let tape = record(f, 0.0).unwrap();
    assert_eq!(*seen.lock().unwrap(), [0.0; 0]);
    assert_eq!(tape.pull(1.0).unwrap(), Tensor::from(4.0));
    assert_eq!(tape.pull(2.0).unwrap(), Tensor::from(8.0));
    assert_eq!(*seen.lock().unwrap(), [3.0, 6.0]);
    assert_eq!(tape.once().pull(0.5).unwrap(), Tensor::from(2.0));
    assert_eq!(*seen.lock().unwrap(), [3.0, 6.0, 1.5]);
}

#[test]
fn effects_happen_when_they_are_reached_and_once() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let f = move |x: Var| {
        let see = |x: Var| {
            let log = log.clone();
            tap(x, move |x: Tensor| log.lock().unwrap().push(number(&x)))
        };
        let y = see(x * 2.0);
        let z = fori_loop(3, |(_, x): (Var, Var)| see(x + 1.0), y);
        let slope = grad(|x: Var| see(x * x))(z);
        let (_, pull) = recorded_vjp(|x: Var| see(x * 10.0))(slope);
        pull(z)
    };
    let tape = record(f, 1.0).unwrap();
    assert_eq!(*seen.lock().unwrap(), [2.0, 3.0, 4.0, 5.0, 25.0, 100.0]);
    tape.pull(1.0).unwrap();
    assert_eq!(seen.lock().unwrap().len(), 6, "the reverse pass has no values");
    tape.compile().unwrap().call(2.0).unwrap();
    assert_eq!(seen.lock().unwrap().len(), 12, "the compiled path is run once more");
}

#[test]
fn callbacks_may_trace_and_record() {
    let f = |x: Var| {
        let ty = ArrayType::new(Dtype::F64, []);
        let cube = |x: Tensor| {
            let y = jit(|x: Var| x * x * x).call(&x)?;
            let slope = record(|x: Var| x * x * x, &x)?.pull(1.0)?;
            Ok((y, slope))
        };
        let call = move |x: Var| callback("cube", x, (ty.clone(), ty.clone()), cube);
        let plain = call.clone();
        let f = custom_vjp(
            move |x: Var| plain(x).0,
            move |x: Var| call(x),
            |slope, ct: Var| slope * ct,
        );
        if x.item::<f64>() > 0.0 { f(x) } else { x }
    };
    let tape = record(f, 2.0).unwrap();
    assert_eq!((tape.value(), tape.pull(1.0).unwrap()), (Tensor::from(8.0), Tensor::from(12.0)));
}

#[test]
fn a_panic_leaves_nothing_behind() {
    let f = |x: Var| {
        let inner = |x: Var| if x.item::<f64>() > 0.0 { panic!("the user's own") } else { x };
        recorded_vjp(inner)(x).0
    };
    let caught = std::panic::catch_unwind(|| record(f, 1.0).map(|_| ()));
    assert!(caught.is_err());
    assert_eq!(record(|x: Var| x * x, 3.0).unwrap().pull(1.0).unwrap(), Tensor::from(6.0));
    let outcome: Result<Tensor, Error> = run(|x: Var| x + 1.0, 1.0);
    assert_eq!(outcome.unwrap(), Tensor::from(2.0));
}

#[test]
fn two_hundred_thousand_operations() {
    let n = 100_000;
    let tape = record(|x: Var| (0..n).fold(x, |y, _| y * 0.5 + x), 1.0).unwrap();
    assert_eq!(tape.operations(), 2 * n);
    assert_eq!((tape.value(), tape.pull(1.0).unwrap()), (Tensor::from(2.0), Tensor::from(2.0)));
    assert!(tape.bytes() < 300 * tape.operations(), "{} bytes", tape.bytes());
}
