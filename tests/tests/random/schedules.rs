//! Loops under `checkpoint_carries`: the number of saved carries, the number of iterations that run, and values and
//! derivatives equal to the plain loop's.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tapeloom::CallReport;
use tapeloom::prelude::*;
use tapeloom_ir::revolve::steps;
use tapeloom_ir::{LoopCount, Schedule};
use tapeloom_tests::equivalences::{
    F, FIRST, HIGHER, Transform, differences, recorded_differences,
};
use tapeloom_tests::{Agreement, Sweep};
use tapeloom_transforms::Transforms;

/// Moves a pendulum by one time step. The step is the body of an inner loop with one iteration (`one` is 1). `report`
/// counts the iterations of this loop by its line, the next line.
fn counted(one: Var, (x, v): (Var, Var)) -> (Var, Var) {
    fori_loop(one, |(_, (x, v)): (Var, (Var, Var))| (x + v * 0.01, v - x.sin() * 0.01), (x, v))
}

/// Returns the number of times that `report` counts a forward iteration in a gradient of `n` iterations. In the reverse
/// pass each iteration also runs forward once to save its residuals, and once in reverse; these 2 n are subtracted.
fn runs(report: &CallReport, n: usize) -> usize {
    let line = include_str!("schedules.rs").lines().position(|l| l.contains("fori_loop(one,"));
    let here = |l: &&LoopCount| l.location.map(|at| at.line() as usize) == line.map(|l| l + 1);
    let all: u64 = report.loops.iter().filter(here).map(|l| l.iterations).sum();
    all as usize - 2 * n
}

/// The number of iterations must be that of the binomial schedule (Revolve): in the forward pass every iteration runs
/// once, and the reverse pass recomputes as the schedule says, except the advance to the last carry that the forward
/// pass saved. If the trip count is unknown, the forward pass saves only the initial carry, and the reverse pass runs
/// the whole schedule.
#[test]
fn iterations_run_as_often_as_the_schedule_says() {
    for (n, s) in [(2, 1), (3, 2), (7, 1), (10, 2), (40, 3), (57, 5), (130, 8), (12, 11)] {
        let schedule = Schedule::binomial(n, s);
        let f = move |(x, one): (Var, Var)| fori_loop(n, |(_, c)| counted(one, c), (x, x * 0.5)).0;
        let pull = move |x: Var, one: Var| checkpoint_carries(s, 1, f)((x, one));
        let g = jit(move |(x, one): (Var, Var)| value_and_grad(|x| pull(x, one))(x));
        let (_, report) = g.report((0.3, 1i64)).unwrap();
        let want = n + schedule.steps() as usize - last_kept(&schedule);
        assert_eq!(runs(&report, n), want, "{n} iterations, {s} carries\n{report}");

        let f = move |(x, one, n): (Var, Var, Var)| {
            let iteration = |(i, c): (Var, (Var, Var))| (i + 1, counted(one, c));
            let start = (constant(0i64), (x, x * 0.5));
            while_loop(|(i, _): (Var, (Var, Var))| i.lt(n), iteration, start).1.0
        };
        let pull = move |x: Var, one: Var, n: Var| checkpoint_carries(s, 1, f)((x, one, n));
        let g = jit(move |(x, one, n): (Var, Var, Var)| value_and_grad(|x| pull(x, one, n))(x));
        let (_, report) = g.report((0.3, 1i64, n as i64)).unwrap();
        let want = n + steps(n, s) as usize;
        assert_eq!(runs(&report, n), want, "{n} iterations, not known, {s} carries\n{report}");
    }
}

/// Returns the number of the iteration that starts from the last carry saved in the forward pass.
fn last_kept(schedule: &Schedule) -> usize {
    use tapeloom_ir::revolve::Action;
    let (mut at, mut last) = (0, 0);
    for action in &schedule.actions {
        match action {
            Action::Keep(_) => last = at,
            Action::Ahead(n) => at += n,
            Action::Take(_) | Action::Back(_) => break,
        }
    }
    last
}

/// For every trip count n, the workspace must hold the requested number s of saved carries, and the residuals of one
/// iteration only.
#[test]
fn memory_is_that_of_the_carries() {
    const WIDE: usize = 500;
    let x = Tensor::full(&[WIDE], 0.5).unwrap();
    let carry = 2 * 8 * WIDE;
    let swing = |(x, v): (Var, Var)| (x + v * 0.01, v - x.sin() * 0.01);
    let mut bytes = Vec::new();
    for (n, s) in [(100, 3), (1000, 3), (1000, 20), (1000, 44), (100_000, 3)] {
        let f =
            move |x: Var| fori_loop(n, |(_, c): (Var, (Var, Var))| swing(c), (x, x * 0.5)).0.sum();
        let few = jit(grad(checkpoint_carries(s, 1, f)));
        let found = few.explain(&x).unwrap().workspace_bytes();
        // The limit in bytes is the size of the saved carries, with an iteration number each, of the current carry and
        // its cotangent, and 4096 bytes for scalars.
        let most = s * (carry + 8) + 2 * carry + 4096;
        assert!(found <= most, "{n} iterations, {s} carries: {found} bytes, at most {most}");
        bytes.push(found);
        if n == 1000 {
            let all = jit(grad(f)).call(&x).unwrap();
            assert_eq!(few.call(&x).unwrap(), all, "{n} iterations, {s} carries");
        }
    }
    assert_eq!(
        (bytes[0], bytes[1]),
        (bytes[4], bytes[4]),
        "it depends on the number of iterations"
    );
}

/// A second derivative along a direction, forward over reverse or reverse over forward, must save the same number of
/// carries, each with its tangent.
#[test]
fn second_derivatives_along_a_direction_keep_pairs() {
    const WIDE: usize = 500;
    let x = Tensor::full(&[WIDE], 0.5).unwrap();
    let swing = |(x, v): (Var, Var)| (x + v * 0.01, v - x.sin() * 0.01);
    for n in [100, 1000] {
        let f =
            move |x: Var| fori_loop(n, |(_, c): (Var, (Var, Var))| swing(c), (x, x * 0.5)).0.sum();
        let c = move |x: Var| checkpoint_carries(10, 1, f)(x);
        let most = 10 * (4 * 8 * WIDE + 8) + 12 * 8 * WIDE + 4096;
        let forward = jit(move |x: Var| jvp(grad(c))((x, x)).1);
        let reverse = jit(grad(move |x: Var| jvp(c)((x, x)).1));
        let plain = [
            jit(move |x: Var| jvp(grad(f))((x, x)).1).call(&x).unwrap(),
            jit(grad(move |x: Var| jvp(f)((x, x)).1)).call(&x).unwrap(),
        ];
        let kept = [forward.report(&x).unwrap(), reverse.report(&x).unwrap()];
        for ((found, report), want) in kept.iter().zip(&plain) {
            Agreement::CLOSE.check(found, want).unwrap();
            assert!(report.peak_bytes() <= most, "{n} iterations, at most {most}: {report}");
        }
    }
}

/// With blocks of iterations, the workspace must hold the saved carries, one per block, and the residuals of one block:
/// x of each iteration, which the derivative of `sin x` reads.
#[test]
fn memory_of_blocks_is_that_of_carries_and_one_block() {
    const WIDE: usize = 500;
    let x = Tensor::full(&[WIDE], 0.5).unwrap();
    let (carry, tape) = (2 * 8 * WIDE, 8 * WIDE);
    let swing = |(x, v): (Var, Var)| (x + v * 0.01, v - x.sin() * 0.01);
    let f =
        move |x: Var| fori_loop(682, |(_, c): (Var, (Var, Var))| swing(c), (x, x * 0.5)).0.sum();
    let want = jit(grad(f)).call(&x).unwrap();
    for (s, block) in [(22, 31), (5, 31), (3, 100), (2, 300), (10, 20)] {
        let few = jit(grad(checkpoint_carries(s, block, f)));
        let found = few.explain(&x).unwrap().workspace_bytes();
        let most = s * (carry + 8) + block * tape + 3 * carry + 4096;
        assert!(found <= most, "{s} carries, {block} iterations: {found} bytes, at most {most}");
        assert_eq!(few.call(&x).unwrap(), want, "{s} carries, {block} iterations");
    }
}

/// The size in bytes of a saved carry is known at compile time: it counts the carries that recomputation reads. If the
/// reverse pass needs no carry, or iterations cannot be recomputed, there is no such size.
#[test]
fn the_size_of_a_checkpoint_slot_is_static() {
    let of = |step: &str, takes: &str| {
        let text = format!(
            "func @step(%0: f64[4], %1: f64[], %2: i64[], %3: f64[4]) -> (f64[4], f64[], i64[]) {{
{step}
}}
func @f(%0: f64[4], %1: f64[], %2: i64[], %3: f64[9,4]) -> (f64[4], f64[], i64[]) {{
  %4: f64[4], %5: f64[], %6: i64[] = loop{{body=@step, trip=9, direction=up, takes=[{takes}]}} %0, %1, %2, %3
  return %4, %5, %6
}}"
        );
        let mut m = tapeloom_ir::parse_module(&text).unwrap();
        let f = m.iter().last().unwrap().1.clone();
        let active = [true, true, false, true];
        f.equations[0].op.places(&mut Transforms, &mut m, &active).unwrap()
    };
    let sines = "  %4: f64[4] = mul %0, %3
  %5: f64[4] = sin %4
  %6: f64[] = reduce_sum{axes=[0]} %5
  %7: f64[] = add %1, %6
  %8: i64[] = add %2, 1
  return %5, %7, %8";
    let places = of(sines, "carry0,carry1,carry2,xs").unwrap();
    assert_eq!((places.iterations, places.bytes), (Some(9), 4 * 8 + 8));
    assert_eq!(places.bytes(3), 3 * 40 + 8);
    let within = [47, 48, 87, 88, 5000].map(|bytes| places.within(bytes));
    assert_eq!(within, [None, Some(1), Some(1), Some(2), Some(9)]);
    let sums = "  %4: f64[4] = add %0, %3
  return %4, %1, %2";
    assert_eq!(of(sums, "carry0,carry1,carry2,xs"), None);
}

/// A loop on a condition under `checkpoint_carries` must have no dynamic tape: `report` counts no bytes of residuals on
/// one.
#[test]
fn loops_on_a_condition_keep_no_records() {
    let f = |x: Var| {
        let more = |(_, i): (Var, Var)| i.lt(500i64);
        while_loop(more, |(x, i): (Var, Var)| (x + x.sin() * 0.01, i + 1), (x, constant(0i64)))
            .0
            .sum()
    };
    let x = Tensor::full(&[100], 0.5).unwrap();
    let (want, all) = jit(grad(f)).report(&x).unwrap();
    let (found, few) = jit(grad(checkpoint_carries(4, 1, f))).report(&x).unwrap();
    assert_eq!(found, want);
    assert!(all.records >= 500 * 800 && few.records == 0, "{all}{few}");
    assert!(few.workspace <= 4 * 816 + 3 * 800 + 4096, "{few}");
}

/// Returns loops of every kind, as functions of `f64[4]`: with carries and elements, in either direction, with a
/// run-time trip count or a condition, nested, in branches, and with mutable state.
fn loops() -> Vec<(&'static str, F)> {
    let f = |name, f: fn(Var) -> Var| (name, Rc::new(f) as F);
    vec![
        f("counted", |x| {
            let iteration = |(i, (a, b)): (Var, (Var, Var))| {
                let i = i.convert(Dtype::F64).broadcast_to([4]) * 0.1;
                (b * 0.9 + i, (a * b).sin())
            };
            let (a, b) = fori_loop(9, iteration, (x, x * 0.5));
            (a * b).sum()
        }),
        f("scanned", |x| {
            let rows = stack(&[x, x * 0.5, x - 0.3, x.sin(), x * x, x * 0.1], 0);
            let iteration = |(c, row): (Var, Var)| {
                let c = (c * 0.7 + row).sin() * x;
                (c, c * row)
            };
            let (c, all) = scan(iteration, x, rows);
            (c.sum() + (all * all).sum()) * 0.5
        }),
        f("scanned down", |x| {
            let rows = stack(&[x, x * 0.5, x - 0.3, x.sin(), x * x], 0);
            let iteration =
                |((c, n), row): ((Var, Var), Var)| ((c * row + x.cos(), n + 1), c.sum());
            let ((c, n), all) = scan_reverse(iteration, (x, constant(0i64)), rows);
            c.sum() * n.convert(Dtype::F64) + (all * all).sum()
        }),
        f("counted at run time", |x| {
            let n = (x.index(0).abs() * 4.0 + 5.0).stop_gradient().convert(Dtype::I64);
            let iteration = |(i, c): (Var, Var)| (c * 0.8).sin() + x * i.convert(Dtype::F64) * 0.1;
            fori_loop(n, iteration, x * 0.5).sum()
        }),
        f("on a condition", |x| {
            let more = |(c, n): (Var, Var)| (c * c).sum().lt(40.0) & n.lt(12);
            let iteration = |(c, n): (Var, Var)| (c * 1.2 + x.sin() * 0.3 + 0.1, n + 1);
            let (c, n) = while_loop(more, iteration, (x, constant(0i64)));
            (c.cos() * (n.convert(Dtype::F64) + 1.0)).sum()
        }),
        f("a loop in a loop", |x| {
            let inner = |c: Var| fori_loop(3, |(_, c): (Var, Var)| (c * x).sin() + 0.2, c);
            fori_loop(7, |(_, c): (Var, Var)| inner(c) * 0.9, x).sum()
        }),
        f("loops in a row", |x| {
            let a = fori_loop(6, |(_, c): (Var, Var)| c.sin() + x * 0.1, x);
            let b = fori_loop(8, |(_, c): (Var, Var)| (c * a).cos(), x);
            (a * b).sum()
        }),
        f("places of an array", |x| {
            let all = concat(&[x, x * 0.5], 0);
            let iteration = |(i, a): (Var, Var)| {
                let (i, j) = (i % 8, (i * 3) % 8);
                a.at(i).set((a.index(j) * 1.1).sin() + a.index(i))
            };
            let y = fori_loop(11, iteration, all);
            (y * y).sum()
        }),
    ]
}

fn points() -> [Tensor; 3] {
    [[0.5, -1.0, 2.0, 0.25], [1.5, 0.75, -0.5, 0.1], [-0.3, 0.2, 1.1, -2.0]].map(Tensor::from)
}

fn kept(carries: usize, block: usize, f: &F) -> F {
    let f = f.clone();
    Rc::new(checkpoint_carries(carries, block, move |x: Var| f(x)))
}

#[test]
fn every_transform_is_that_of_the_loop() {
    those_of_the_loop(3, 1, FIRST);
}

#[test]
fn every_transform_of_blocks_is_that_of_the_loop() {
    those_of_the_loop(2, 2, FIRST);
}

#[test]
fn derivatives_of_second_order_are_those_of_the_loop() {
    those_of_the_loop(3, 1, &HIGHER[..3]);
}

#[test]
fn derivatives_of_batches_and_of_hessians_are_those_of_the_loop() {
    those_of_the_loop(3, 1, &HIGHER[3..]);
}

#[track_caller]
fn those_of_the_loop(carries: usize, block: usize, transforms: &[Transform]) {
    let mut wrong = Vec::new();
    for (name, f) in Sweep::Schedules.all(loops()) {
        wrong.extend(differences(name, &kept(carries, block, &f), &f, transforms, &points()));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn recorded_they_are_those_of_the_loop() {
    let mut wrong = Vec::new();
    for (name, f) in loops() {
        wrong.extend(recorded_differences(name, &kept(2, 1, &f), &f, &points()[..1]));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A loop that saves only some of its carries must have the values and gradients of the plain loop, for every trip
/// count known only at run time, in a single call and per batch member.
#[test]
fn any_number_of_iterations_at_run_time() {
    fn plain((x, n): (Var, Var)) -> Var {
        fori_loop(n, |(i, c): (Var, Var)| (c * x).sin() + i.convert(Dtype::F64), x)
    }
    fn kept(args: (Var, Var)) -> Var {
        checkpoint_carries(2, 1, plain)(args)
    }
    let slope =
        |f: fn((Var, Var)) -> Var| move |(x, n): (Var, Var)| value_and_grad(|x| f((x, n)))(x);
    let (one, other) = (jit(slope(plain)), jit(slope(kept)));
    let numbers = [-3i64, 0, 1, 2, 3, 9];
    for n in numbers {
        assert_eq!(other.call((0.7, n)).unwrap(), one.call((0.7, n)).unwrap(), "{n} iterations");
    }
    let x = Tensor::from([0.7, 0.2, -0.4, 1.1, 0.3, -0.9]);
    let all = (x, Tensor::from(numbers));
    let (one, other) = (jit(vmap(slope(plain))), jit(vmap(slope(kept))));
    assert_eq!(other.call(&all).unwrap(), one.call(&all).unwrap());
}

/// Gradients must have the same bits as the plain loop's, because cotangents are computed by the same operations in the
/// same order.
#[test]
fn gradients_are_the_same_in_every_bit() {
    for (name, f) in loops() {
        for x in points() {
            let (plain, few) = (f.clone(), kept(2, 1, &f));
            let want = jit(value_and_grad(move |x| plain(x))).interpreted().call(&x).unwrap();
            let found = jit(value_and_grad(move |x| few(x))).interpreted().call(&x).unwrap();
            assert_eq!(found, want, "{name} at {x}");
        }
    }
}

/// Iterations with ordered effects must save their residuals instead of being recomputed, so that each effect happens
/// once.
#[test]
fn iterations_that_print_are_not_run_again() {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    let f = move |x: Var| {
        let seen = seen.clone();
        let iteration = move |(_, c): (Var, Var)| {
            let seen = seen.clone();
            tap(c, move |_: Tensor| {
                seen.fetch_add(1, Relaxed);
            })
            .sin()
        };
        fori_loop(20, iteration, x)
    };
    let g = jit(grad(checkpoint_carries(2, 1, f)));
    // The first call may run a small program a second time, to check it, so only the next call is counted.
    g.call(0.5).unwrap();
    count.store(0, Relaxed);
    g.call(0.5).unwrap();
    assert_eq!(count.load(Relaxed), 20);
}
