//! Allocations of calls of compiled programs.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::prelude::*;
use tapeloom::{Kind, Target};
use tapeloom_tests::Counting;

/// Returns the number of allocations of the third call, for which all memory of earlier calls is available.
fn blocks<T>(mut call: impl FnMut() -> T) -> usize {
    drop((call(), call()));
    Counting::blocks(call).1
}

/// A call must allocate each result, and each argument that is a Rust number, and nothing else.
#[test]
fn a_call_of_a_scalar_function_allocates_its_result_only() {
    let f = jit(grad(|x: Var| x.sin() * x));
    let x = Tensor::from(0.5);
    let compiled = f.compile(&x).unwrap();
    let mut y = f.call(&x).unwrap();
    assert_eq!(blocks(|| f.call(&x).unwrap()), 1);
    assert_eq!(blocks(|| f.call(0.5).unwrap()), 2);
    assert_eq!(blocks(|| compiled.call(&x).unwrap()), 1);
    assert_eq!(blocks(|| f.call_into(&x, &mut y).unwrap()), 0);
    assert_eq!(blocks(|| compiled.call_into(&x, &mut y).unwrap()), 0);
    assert_eq!(y, f.call(&x).unwrap());

    // The number of allocations must be the same with intermediate results in memory, and for tuples of up to four
    // results.
    let g = jit(|x: Var| {
        let sorted = x.sort(0);
        (sorted.sum(), sorted, (x * 2.0).cumsum(0))
    });
    let x = Tensor::from([3.0, 1.0, 2.0]);
    assert_eq!(blocks(|| g.call(&x).unwrap()), 3);
    let mut y = g.call(&x).unwrap();
    assert_eq!(blocks(|| g.call_into(&x, &mut y).unwrap()), 0);
}

#[derive(Tree, Clone)]
struct Model<L: tapeloom::tree::Leaf> {
    w: L,
    b: L,
    state: optim::Saved<optim::Adam, (Var, Var), L>,
}

/// Trains with two sets of parameters and optimiser state, which are written alternately, and with one set, which each
/// step updates in place. After some steps, a step may allocate at most `bytes` bytes. Its results must equal those of
/// ordinary calls.
fn check(w: &Tensor, x: &Tensor, predict: impl Fn(Var, Var) -> Var + Copy + 'static, bytes: usize) {
    let adam = optim::adam(0.01);
    let init = jit(|(w, b): (Var, Var)| Model { w, b, state: adam.init(&(w, b)) });
    let step = jit(|(m, x): (Model<Var>, Var)| {
        let loss = |(w, b): (Var, Var)| (predict(w.tanh(), x) + b).square().mean();
        let (loss, gradient) = value_and_grad(loss)((m.w, m.b));
        let ((w, b), state) = adam.step(&gradient, &m.state, &(m.w, m.b));
        (loss, Model { w, b, state })
    });
    let b = Tensor::zeros(&[400], Dtype::F32).unwrap();
    let mut model = init.call((w, &b)).unwrap();
    let mut next = step.call((&model, x)).unwrap();
    let mut advance = || {
        step.call_into((&model, x), &mut next).unwrap();
        std::mem::swap(&mut model, &mut next.1);
    };
    (0..4).for_each(|_| advance());
    let (_, most) = Counting::most(&mut advance);
    assert!(most <= bytes, "{most} bytes");
    let mut donated = init.call((w, &b)).unwrap();
    let addresses = |model: &Model<Tensor>| {
        let mut all = Vec::new();
        model.leaves(&mut |x: &Tensor| all.push(x.address()));
        all
    };
    let memory = addresses(&donated);
    for _ in 0..4 {
        donated = step.call_donating((donated, x)).unwrap().1;
    }
    let (last, most) = Counting::most(|| step.call_donating((donated, x)).unwrap().1);
    // The lists of handles are longer than those of references.
    assert!(most <= bytes + 1024, "{most} bytes");
    assert_eq!(addresses(&last), memory);
    assert_eq!((&last.w, &last.b), (&model.w, &model.b));

    // For comparison: a step without given memory allocates all results, once the memory of dropped tensors is used up.
    let mut held = Vec::new();
    let allocates = (0..100).any(|_| {
        let (results, most) = Counting::most(|| step.call((&model, x)).unwrap());
        held.push(results);
        most > 3 * w.elements() * 4
    });
    assert!(allocates, "{} calls allocated no results", held.len());
    drop(held);
    let mut other = init.call((w, &b)).unwrap();
    for _ in 0..5 {
        other = step.call((&other, x)).unwrap().1;
    }
    assert_eq!((other.w, other.b), (model.w, model.b));
}

#[test]
fn a_training_step_into_given_memory_allocates_no_arrays() {
    let (rows, batch) = (300, 8);
    let w = Tensor::full(&[rows, 400], 0.01_f32).unwrap();
    let x = Tensor::full(&[rows, 1], 1.0_f32).unwrap();
    // A call with more than eight leaves allocates the lists of its arguments and results: 2 KiB.
    check(&w, &x, |w, x| w * x, 2 << 10);
    // The matrix library copies blocks of large operands, so allow the bytes of half of the weights.
    let x = Tensor::full(&[batch, rows], 1.0_f32).unwrap();
    check(&w, &x, |w, x| x.dot(w), w.elements() * 4 / 2);
}

/// The temporary values of an optimiser's step need no arrays, whether or not the parameters stay in the cache.
#[test]
fn a_step_of_adam_needs_no_temporary_arrays() {
    let adam = optim::adam(1e-3);
    let init = jit(|w: Var| (w, adam.init(&w)));
    let step = jit(|((w, state), x): ((Var, optim::State<optim::Adam, Var>), Var)| {
        let slope = grad(|w: Var| (w * x - 1.0).square().mean())(w);
        adam.step(&slope, &state, &w)
    });
    for n in [1000, 200_000] {
        let [w, x] = [0.0, 2.0].map(|value| Tensor::full(&[n], value).unwrap());
        let donated = init.call(&w).unwrap();
        let bytes = step.explain_donating((donated, &x)).unwrap().workspace_bytes();
        assert!(bytes <= 256, "{bytes} bytes of workspace for {n} parameters");
    }
}

/// An argument of which another handle is alive keeps its elements, although the call takes its handle.
#[test]
fn a_call_copies_donated_arguments_with_other_handles() {
    let f = jit(|(x, n): (Var, Var)| (2.0 * x, n.gt(1)));
    let (x, n) = (Tensor::from([1.0, 2.0]), Tensor::from([1_i64, 2]));
    let (y, _) = f.call_donating((x.clone(), n.clone())).unwrap();
    let (z, more) = f.call_donating((y.clone(), n)).unwrap();
    assert_eq!((x, &y), (Tensor::from([1.0, 2.0]), &Tensor::from([2.0, 4.0])));
    assert_eq!((&z, more), (&Tensor::from([4.0, 8.0]), Tensor::from([false, true])));
    assert_eq!(f.call((&z, [5_i64, 6])).unwrap().0, Tensor::from([8.0, 16.0]));

    // Both arguments are handles of one tensor, and the program captures a third.
    let held = z.clone();
    let g = jit(move |(x, y): (Var, Var)| (x + y, y * &held));
    let (sum, product) = g.call_donating((z.clone(), z.clone())).unwrap();
    assert_eq!((sum, product), (Tensor::from([8.0, 16.0]), Tensor::from([16.0, 64.0])));
    assert_eq!(z, Tensor::from([4.0, 8.0]));
}

/// Each engine takes arguments by value, and has the results of an ordinary call.
#[test]
fn arguments_are_donated_on_every_engine() {
    let f = |x: Var| (x.sin() * x, x.sum());
    let x = || Tensor::from([1.0, 2.0, 3.0]);
    let want = jit(f).call(x()).unwrap();
    let machine = Target::Accelerator(tapeloom::accelerator::Machine::cal());
    for g in [
        jit(f).interpreted(),
        jit(f).nan_check(),
        jit(f).on(Target::Interpreter),
        jit(f).on(machine),
        jit(f).max_steps(3),
        jit(f).threads(2),
    ] {
        assert_eq!(g.call_donating(x()).unwrap(), want);
    }
}

/// A program with a loop that is too long fails, and the next call of the program succeeds.
#[test]
fn a_failed_call_loses_its_donated_arguments_only() {
    let f = jit(|(x, n): (Var, Var)| {
        while_loop(
            |(i, _): (Var, Var)| i.lt(n),
            |(i, x): (Var, Var)| (i + 1, 2.0 * x),
            (constant(0i64), x),
        )
    });
    let f = f.max_steps(3);
    let x = || Tensor::full(&[1000], 1.0).unwrap();
    let error = f.call_donating((x(), Tensor::from(5_i64))).unwrap_err();
    assert_eq!(error.kind(), Kind::Limit);
    let (_, y) = f.call_donating((x(), Tensor::from(3_i64))).unwrap();
    assert_eq!(y, Tensor::full(&[1000], 8.0).unwrap());
}

/// Returns an equal tensor that shares no memory.
fn copy(x: &Tensor) -> Tensor {
    let mut own = x.clone();
    own.unshare();
    own
}

/// Calls `f` on arguments that the call takes over, and again on clones of them. Results must equal those of an ordinary
/// call, and clones must keep their elements. The program must run on two threads as well. Returns, for each result, the
/// argument in whose memory it is.
#[track_caller]
fn taken(f: impl Fn(Vec<Var>) -> Vec<Var> + Copy, args: &[Tensor]) -> Vec<Option<usize>> {
    let of = jit(f);
    let own = || args.iter().map(copy).collect::<Vec<Tensor>>();
    let want = of.call(args.to_vec()).unwrap();
    let before = own();
    assert_eq!(of.call_donating(args.to_vec()).unwrap(), want, "clones");
    assert_eq!(args, before, "clones after the call");
    assert_eq!(jit(f).threads(2).call_donating(own()).unwrap(), want, "two threads");
    assert_eq!(of.call_donating(args).unwrap(), want, "references");
    assert_eq!(of.programs(), 2, "a call by reference has the program of `call`");
    let donated = own();
    let memory: Vec<usize> = donated.iter().map(Tensor::address).collect();
    let results = of.call_donating(donated).unwrap();
    assert_eq!(results, want, "donated");
    let listed = of.explain_donating(own()).unwrap();
    let path = |word: &str, i: usize| format!("{word}[{i}]");
    let all = results.iter().enumerate().map(|(r, result)| {
        let n = memory.iter().position(|address| *address == result.address());
        let stated = listed.donated().iter().find(|(_, of)| *of == path("result", r));
        assert_eq!(stated.map(|(n, _)| n.clone()), n.map(|n| path("argument", n)), "explain");
        n
    });
    all.collect()
}

/// Returns `n` different numbers.
fn numbers(n: usize, first: f64) -> Tensor {
    Tensor::vector(&(0..n).map(|i| first + i as f64).collect::<Vec<f64>>())
}

/// Results that are arguments, in the same order or in another one, have the right elements.
#[test]
fn results_that_are_arguments() {
    for n in [0, 1, 8, 1000, 1024] {
        let all = [numbers(n, 1.0), numbers(n, 5.0), numbers(n, 9.0)];
        taken(|v| vec![v[0]], &all[..1]);
        taken(|v| vec![v[0], v[0]], &all[..1]);
        taken(|v| vec![v[0], v[0], v[0]], &all[..2]);
        taken(|v| vec![v[1], v[0]], &all[..2]);
        taken(|v| vec![v[2], v[0], v[1]], &all);
        taken(|v| vec![v[1], v[2], v[0]], &all);
        taken(|v| vec![v[1] + 1.0, v[0] * 2.0], &all[..2]);
        taken(|v| vec![v[1] + v[0], v[0] - v[1]], &all[..2]);
        taken(|v| vec![v[2] + 1.0, v[0] + 1.0, v[1] + 1.0], &all);
        taken(|v| vec![v[0].flip(0), v[0] + 1.0], &all[..1]);
        taken(|v| vec![v[0] + 1.0, v[0].flip(0)], &all[..1]);
        taken(|v| vec![v[0].cumsum(0), v[1] + v[0].sum()], &all[..2]);
        taken(|v| vec![v[1] + v[0].sum(), v[0].sort(0)], &all[..2]);
        taken(|v| vec![v[0].stop_gradient(), v[0].exp()], &all[..2]);
    }
    let x = numbers(1000, 1.0);
    assert_eq!(taken(|v| vec![v[0] + 1.0], std::slice::from_ref(&x)), [Some(0)]);
    assert_eq!(
        taken(|v| vec![v[0] + v[1], v[1] + 1.0], &[x.clone(), copy(&x)]),
        [Some(0), Some(1)]
    );
    // The second result reads the first argument from its end, so the first argument is no memory for the first result.
    let reversed = taken(|v| vec![v[0] + 1.0, v[0].flip(0)], &[x]);
    assert_eq!(reversed[1], None);
}

/// Loops and branches whose carries and results begin with donated arguments, in one order and in another one.
#[test]
fn loops_and_branches_take_over_arguments() {
    for n in [1, 8, 1000] {
        let all = [numbers(n, 1.0), numbers(n, 5.0)];
        let two = |v: Vec<Var>| (v[0], v[1]);
        taken(
            |v| {
                let (x, y) =
                    fori_loop(3, |(_, (x, y)): (Var, (Var, Var))| (y, x + 1.0), (v[0], v[1]));
                vec![x, y]
            },
            &all,
        );
        taken(
            |v| {
                let (x, y) =
                    fori_loop(3, |(_, (x, y)): (Var, (Var, Var))| (x + y, y), (v[1], v[0]));
                vec![x, y, v[0] + 1.0]
            },
            &all,
        );
        taken(
            |v| {
                let (x, y) = two(v);
                let (_, x) = while_loop(
                    |(i, _): (Var, Var)| i.lt(4),
                    |(i, x): (Var, Var)| (i + 1, x.at(0).add(1.0)),
                    (constant(0i64), x),
                );
                vec![x, y.at(0).set(x.sum())]
            },
            &all,
        );
        taken(
            |v| {
                let (x, y) = two(v);
                let (a, b) = cond(
                    x.sum().gt(y.sum()),
                    |(x, y): (Var, Var)| (x, y),
                    |(x, y): (Var, Var)| (y, x),
                    (x, y),
                );
                vec![a, b]
            },
            &all,
        );
        // The derivative reads the arguments again in its reverse pass.
        taken(
            |v| {
                let loss = |(x, y): (Var, Var)| (x.sin() * y).sum();
                let (x, y) = grad(loss)((v[0], v[1]));
                vec![v[0] - x, v[1] - y]
            },
            &all,
        );
        taken(
            |v| {
                let f = checkpoint(|x: Var| x.sin().sin().sum(), Policy::Nothing);
                let (y, dx) = value_and_grad(f)(v[0]);
                vec![v[0] - dx, v[1] + y]
            },
            &all,
        );
        taken(
            |v| {
                let (y, dy) = jvp(|x: Var| x.sin())((v[0], v[1]));
                vec![y, dy]
            },
            &all,
        );
    }
}

/// A state of several dtypes, with numbers, flags, counters and complex parts.
#[test]
fn states_of_mixed_dtypes_are_donated() {
    for n in [0_usize, 1, 63, 64, 65, 1000] {
        let flags = Tensor::vector(&(0..n).map(|i| i % 3 == 0).collect::<Vec<bool>>());
        let counts = Tensor::vector(&(0..n as i64).collect::<Vec<i64>>());
        let keys = Tensor::vector(&(0..n as u32).collect::<Vec<u32>>());
        let small = Tensor::vector(&(0..n).map(|i| i as f32).collect::<Vec<f32>>());
        let state = [flags, counts, keys, small, numbers(n, 0.5), Tensor::from(3_i64)];
        let all = taken(
            |v| {
                let flags = v[4].gt(3.0) ^ v[0];
                let step = v[5] + 1;
                let x = select(v[0], v[4] + 1.0, -v[4]);
                vec![flags, v[1] + step, v[2] * 5u32, v[3] * 2.0, x, step]
            },
            &state,
        );
        if n == 1000 {
            assert_eq!(all[1..5], [Some(1), Some(2), Some(3), Some(4)]);
        }
    }
}

/// Arguments are donated by value and kept by reference: a result takes the memory of the first donated argument of its
/// type, not that of an argument passed by reference or of a tensor that the closure captured.
#[test]
fn arguments_by_reference_are_kept() {
    let held = numbers(1000, 3.0);
    let kept = held.clone();
    let f = jit(move |(x, w, h): (Var, Var, Var)| (w + x * &held, h + 1.0));
    let (x, w, h) = (numbers(1000, 1.0), numbers(1000, 2.0), numbers(1000, 0.0));
    let want = f.call((&x, &w, &h)).unwrap();
    let (memory, before) = ([w.address(), h.address()], copy(&x));
    let of = f.explain_donating((&x, w.clone(), h.clone())).unwrap();
    let path = |a: &str, r: &str| (a.to_owned(), r.to_owned());
    let pairs = [path("argument.1", "result.0"), path("argument.2", "result.1")];
    assert_eq!(of.donated(), pairs);
    assert!(of.to_string().contains("result.1 is in the memory of argument.2\n"));
    assert_eq!(of.peak_bytes(), f.explain((&x, &w, &h)).unwrap().peak_bytes() - 16_000);
    let got = f.call_donating((&x, w, h)).unwrap();
    assert_eq!((&got, [got.0.address(), got.1.address()]), (&want, memory));
    assert_eq!((x, kept), (before, numbers(1000, 3.0)));
    assert_eq!(
        f.explain((&want.0, &want.0, &want.0)).unwrap().misses(),
        ["first call", "`argument.1` is donated and was not"]
    );

    // Without a donated argument, the call is an ordinary one. Numbers are arguments, too.
    f.call_donating((&want.0, &want.0, &want.0)).unwrap();
    assert_eq!(f.programs(), 2);
    let scale = jit(|(x, rate): (Var, Var)| x * rate);
    let memory = got.0.address();
    assert_eq!(scale.call_donating((got.0, 2.0)).unwrap().address(), memory);
}

/// Other handles of a donated tensor keep its elements: clones, other shapes of the same memory, one tensor as two
/// arguments, a captured tensor, and the argument of a failed call.
#[test]
fn other_handles_of_donated_arguments_keep_their_elements() {
    let x = numbers(1000, 1.0);
    let want = copy(&x);
    let shape = x.reshape(&[10, 100]).unwrap();
    let f = jit(|x: Var| x + 1.0);
    let more = f.call_donating(x).unwrap();
    assert_eq!((shape.reshape(&[1000]).unwrap(), more), (want.clone(), numbers(1000, 2.0)));

    let x = numbers(1000, 1.0);
    let both = jit(|(x, y): (Var, Var)| (x + y, x - y));
    let (sum, difference) = both.call_donating((x.clone(), x)).unwrap();
    assert_eq!(sum.get::<f64>(&[999]).unwrap(), 2000.0);
    assert_eq!(difference, Tensor::zeros(&[1000], Dtype::F64).unwrap());

    let x = numbers(1000, 1.0);
    let held = x.clone();
    let captured = jit(move |y: Var| y + &held);
    assert_eq!(captured.call_donating(x).unwrap(), sum);
    assert_eq!(captured.call_donating(want.clone()).unwrap(), sum);

    let wrong = jit(|(x, y): (Var, Var)| x + y);
    let x = numbers(1000, 1.0);
    let error = wrong.call_donating((x.clone(), numbers(3, 0.0))).unwrap_err();
    assert_eq!((error.kind(), x), (Kind::Shape, want));
}

/// A Rust function that fails in the middle of a call leaves clones of donated arguments as they were.
#[test]
fn a_failing_callback_changes_no_clone_of_a_donated_argument() {
    let f = jit(|x: Var| {
        let y = x + 1.0;
        let small = |y: Tensor| match y.get::<f64>(&[0])? {
            first if first > 5.0 => Err("too large".into()),
            _ => Ok(y),
        };
        let checked = callback("small", y, y.array_type(), small);
        checked * 2.0
    });
    let x = numbers(1000, 1.0);
    assert_eq!(f.call_donating(x.clone()).unwrap().get::<f64>(&[0]).unwrap(), 4.0);
    let late = numbers(1000, 5.0);
    let error = f.call_donating(late.clone()).unwrap_err();
    assert_eq!(error.kind(), Kind::Callback);
    assert_eq!((x, late), (numbers(1000, 1.0), numbers(1000, 5.0)));
    assert_eq!(f.call_donating(numbers(1000, 1.0)).unwrap().get::<f64>(&[1]).unwrap(), 6.0);
}

/// Threads that call one program with donated arguments, each with its own state and with clones of a common tensor.
#[test]
fn several_threads_donate_to_one_program() {
    let f = jit(|(x, y): (Var, Var)| (x + y, y * 2.0));
    let common = numbers(1000, 0.0);
    std::thread::scope(|scope| {
        for t in 0..4 {
            let (f, common) = (&f, &common);
            scope.spawn(move || {
                let mut x = Tensor::full(&[1000], f64::from(t)).unwrap();
                for _ in 0..50 {
                    let (sum, twice) = f.call_donating((x, common.clone())).unwrap();
                    assert_eq!(twice.get::<f64>(&[7]).unwrap(), 14.0);
                    x = sum;
                }
                assert_eq!(x.get::<f64>(&[9]).unwrap(), f64::from(t) + 450.0);
            });
        }
    });
    assert_eq!(common, numbers(1000, 0.0));
}

/// The memory of dropped tensors is recycled: at most 256 MiB of freed memory may stay allocated for later tensors.
#[test]
fn dropped_tensors_keep_a_bounded_memory() {
    let before = Counting::held();
    let all: Vec<Tensor> = (0..5).map(|_| Tensor::zeros(&[8 << 20], Dtype::F64).unwrap()).collect();
    assert!(Counting::held() - before >= 5 << 26);
    drop(all);
    let kept = Counting::held().saturating_sub(before);
    assert!((1 << 26..=1 << 28).contains(&kept), "{kept} bytes");
}
