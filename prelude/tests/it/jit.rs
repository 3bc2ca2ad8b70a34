//! Calls of `jit` and `run`: when a program is compiled or reused, from which threads it may be called, and on which
//! data.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tapeloom::prelude::*;

fn shared<T: Send + Sync>(_: &T) {}

/// A `Jit` can be shared among threads, and panics around its calls can be caught.
#[test]
fn a_jit_is_shared_and_outlives_panics() {
    fn is<T: Send + Sync + UnwindSafe + RefUnwindSafe>(_: &T) {}
    is(&jit(|x: Var| x.sin()));
}

/// If a closure calls its own `Jit`, the inner call compiles and stores a program first, and the outer call uses that
/// program instead of its own.
#[test]
fn the_first_program_of_a_kind_is_kept() {
    type Call = dyn Fn(usize) -> Tensor + Send + Sync;
    let (traced, again) = (AtomicUsize::new(0), OnceLock::<Box<Call>>::new());
    let of = Arc::new((traced, again));
    let inner = of.clone();
    let f = Arc::new(jit(move |x: Var| {
        let n = inner.0.fetch_add(1, Ordering::Relaxed);
        if n == 0 || n == 2 {
            let y = inner.1.get().unwrap()(x.size());
            assert_eq!(y.to_vec::<f64>().unwrap()[0], n as f64 + 1.0);
        }
        x + n as f64
    }));
    let weak = Arc::downgrade(&f);
    let call = move |n: usize| weak.upgrade().unwrap().call(vec![0.0; n]).unwrap();
    assert!(of.1.set(Box::new(call)).is_ok());
    // The closure is traced as `x + 0` and, during that trace, as `x + 1`, which is stored first. The next traces are
    // `x + 2` and `x + 3`.
    for (n, want) in [(1, 1.0), (2, 3.0), (1, 1.0), (2, 3.0)] {
        assert_eq!(f.call(vec![0.0; n]).unwrap().to_vec::<f64>().unwrap(), vec![want; n]);
    }
    assert_eq!((f.programs(), of.0.load(Ordering::Relaxed)), (2, 4));
    let e = f.explain(vec![0.0; 1]).unwrap();
    assert_eq!(e.misses(), ["first call", "`argument` was f64[1] and is f64[2]"]);
}

/// If programs were dropped recursively, each drop would need a stack frame, and the small stack of this test would
/// overflow.
#[test]
fn many_programs_are_dropped() {
    const PROGRAMS: usize = 2000;
    const STACK: usize = 1 << 16;
    let held = Arc::new(());
    let own = held.clone();
    let closure = move |x: Var| {
        let own = own.clone();
        tap(x, move |_: Tensor| assert!(Arc::strong_count(&own) > 1))
    };
    let f = jit(closure).interpreted();
    for n in 0..PROGRAMS {
        f.call(vec![true; n]).unwrap();
    }
    assert_eq!(f.programs(), PROGRAMS);
    assert!(Arc::strong_count(&held) > PROGRAMS);
    let thread = std::thread::Builder::new().stack_size(STACK);
    thread.spawn(move || drop(f)).unwrap().join().unwrap();
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn compiled_functions_and_tensors_are_send_and_sync() {
    let data = Tensor::from([1.0, 2.0]);
    shared(&data);
    let f = jit(move |x: Var| grad(|x: Var| (x * &data).sum())(x));
    shared(&f);
    let y = std::thread::scope(|s| s.spawn(|| f.call(2.0).unwrap()).join().unwrap());
    assert_eq!(y.item::<f64>().unwrap(), 3.0);
    assert_eq!(f.call(1.0).unwrap().item::<f64>().unwrap(), 3.0);
    assert_eq!(f.programs(), 1);
}

#[test]
fn one_program_per_kind_of_argument() {
    let traced = AtomicUsize::new(0);
    let f = jit(|x: Var| {
        traced.fetch_add(1, Ordering::Relaxed);
        x.sum()
    });
    for _ in 0..3 {
        f.call([1.0, 2.0]).unwrap();
        f.call([1.0f32, 2.0]).unwrap();
        f.call([1.0, 2.0, 3.0]).unwrap();
        f.call([[1.0], [2.0]]).unwrap();
    }
    assert_eq!((traced.load(Ordering::Relaxed), f.programs()), (4, 4));
}

/// A failed compilation is not cached; the next call traces again and returns the same error.
#[test]
fn errors_are_not_cached() {
    let f = jit(|x: Var| x.reshape([3]));
    let first = f.call([1.0, 2.0]).unwrap_err();
    assert_eq!(f.call([1.0, 2.0]).unwrap_err(), first);
    assert_eq!(f.programs(), 0);
    assert!(f.call([1.0, 2.0, 3.0]).is_ok());
}

/// Two closures of one type with different captures are compiled separately.
#[test]
fn captured_rust_values_are_read_when_traced() {
    let scale = |k: f64| jit(move |x: Var| k * x);
    let (double, triple) = (scale(2.0), scale(3.0));
    assert_eq!(double.call(1.0).unwrap().item::<f64>().unwrap(), 2.0);
    assert_eq!(triple.call(1.0).unwrap().item::<f64>().unwrap(), 3.0);
}

/// A `run` inside a trace is a separate trace, on concrete data.
#[test]
fn a_closure_may_run_another_program() {
    let f = jit(|x: Var| {
        let k = run(|k: Var| k * k, 3.0).unwrap().item::<f64>().unwrap();
        k * x
    });
    assert_eq!(f.call(2.0).unwrap().item::<f64>().unwrap(), 18.0);
}

#[test]
fn data_of_every_dtype_goes_through() {
    assert_eq!(run(|x: Var| x + 1, 1i32).unwrap().item::<i32>().unwrap(), 2);
    assert_eq!(run(|x: Var| x + 1, 1i64).unwrap().item::<i64>().unwrap(), 2);
    assert_eq!(run(|x: Var| x + 1, 1u32).unwrap().item::<u32>().unwrap(), 2);
    assert_eq!(run(|x: Var| x + 1, 1u64).unwrap().item::<u64>().unwrap(), 2);
    assert_eq!(run(|x: Var| x + 1, 1f32).unwrap().item::<f32>().unwrap(), 2.0);
    assert_eq!(run(|x: Var| x + 1, 1f64).unwrap().item::<f64>().unwrap(), 2.0);
    assert!(!run(|x: Var| !x, true).unwrap().item::<bool>().unwrap());
}

#[derive(Tree, Clone)]
struct Model<T> {
    w: T,
    #[tree(static)]
    power: i32,
}

#[test]
fn explain_says_why_programs_were_compiled() {
    let f = jit(|(m, x): (Model<Var>, Vec<Var>)| x.iter().fold(m.w, |y, x| y * x.powi(m.power)));
    let model = |power| Model { w: Tensor::from(2.0), power };
    let (a, b) = (Tensor::from(3.0), Tensor::from([1.0, 2.0]));
    f.call((model(2), [&a])).unwrap();
    f.call((model(3), [&a])).unwrap();
    f.call((model(3), [&b])).unwrap();
    f.call((model(3), [&a, &b])).unwrap();
    f.call((model(3), [&b])).unwrap();
    let e = f.explain((model(3), [&b])).unwrap();
    assert_eq!(
        e.misses(),
        [
            "first call",
            "`argument.0.power` was 2 and is 3",
            "`argument.1[0]` was f64[] and is f64[2]",
            "`argument.1` was 1 element and is 2 elements",
        ]
    );
}

#[test]
fn explain_shows_every_stage_and_the_exact_memory() {
    let data = Tensor::from(vec![1.0; 100]);
    let f = jit(grad(|w: Var| (w * &data).sigmoid().sum()));
    let e = f.explain(2.0).unwrap();
    assert!(e.to_string().ends_with("== programs\n(none yet: no call)\n"), "{e}");
    let names: Vec<&str> = e.stages().iter().map(|s| s.name).collect();
    assert_eq!(names[0], "trace");
    assert!(names.contains(&"peephole"), "{names:?}");
    assert!(e.simplification().is_none(), "the e-graph runs in relaxed mode only");
    let timed: Vec<&str> = e.timings().iter().map(|(name, _)| *name).collect();
    assert_eq!(&timed[..2], ["trace", "transform"]);
    assert_eq!(&timed[timed.len() - 2..], ["lower", "code"]);
    // Besides the workspace, the program has two scalars (argument and result) and the captured data.
    assert_eq!(e.peak_bytes() - e.workspace_bytes(), 8 + 800 + 8);
    let text = e.to_string();
    for part in ["== trace", "== target", "== kernels", "== memory", "== time", "bytes at most"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

/// The program of the gradient must have a single store, that of its result.
#[test]
fn gradients_through_reshapes_and_transposes_need_no_workspace() {
    let reshaped = jit(grad(|x: Var| {
        let y = x.reshape([400, 300]);
        (y * y.sin()).sum()
    }));
    let transposed = jit(grad(|x: Var| {
        let y = x.t();
        (y * y.sin()).sum()
    }));
    let x = Tensor::full(&[300, 400], 1.0).unwrap();
    assert_eq!(reshaped.explain(&x).unwrap().workspace_bytes(), 0);
    assert_eq!(transposed.explain(&x).unwrap().workspace_bytes(), 0);
    // The gradient is a product that is written directly to the result. So the workspace holds only one array, the
    // operand of the product that is the cotangent of `y`.
    let product =
        jit(|(x, w): (Var, Var)| grad(|x: Var| x.reshape([400, 300]).dot(w).square().sum())(x));
    let w = Tensor::full(&[300, 8], 1.0).unwrap();
    assert_eq!(product.explain((&x, &w)).unwrap().workspace_bytes(), 400 * 8 * 8);
}

/// The text of every stage can be parsed, even though the linearity of inlined functions is no longer verified.
#[test]
fn stages_are_programs() {
    let inner = |x: Var| fori_loop(12, |(_, x): (Var, Var)| (x * 1.1).sin(), x);
    let few = move |x: Var| checkpoint_carries(2, 3, inner)(x);
    let f = jit(grad(move |x: Var| fori_loop(4, |(_, x): (Var, Var)| few(x) * x, x)));
    let e = f.explain(0.5).unwrap();
    for stage in e.stages().iter().filter(|stage| !stage.text.is_empty()) {
        let module = tapeloom_ir::parse_module(&stage.text);
        let again = module.map(|m| tapeloom_ir::print_module(&m));
        assert_eq!(again.as_ref(), Ok(&stage.text), "{}", stage.name);
    }
}

/// Relaxed rules may reassociate; exact rules never do.
#[cfg(feature = "relaxed")]
#[test]
fn relaxed_programs_agree_up_to_rounding() {
    let f = |x: Var| (x * 3.0 + x * 5.0).sum() * 2.0 + (x + 1.0).sum() * 2.0;
    let x = [0.1, 0.2, 0.3];
    let exact = jit(f).call(x).unwrap().item::<f64>().unwrap();
    let relaxed = jit(f).relaxed().call(x).unwrap().item::<f64>().unwrap();
    assert!((exact - relaxed).abs() < 1e-12 * exact.abs());
}

/// If threads compile for the same kind of arguments at the same time, the cache must hold one program at the end.
#[test]
fn threads_share_compiled_programs() {
    let f = jit(|x: Var| (x * x).sum());
    let barrier = std::sync::Barrier::new(8);
    std::thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                barrier.wait();
                for n in 1..=3 {
                    let y = f.call(vec![2.0; n]).unwrap();
                    assert_eq!(y.item::<f64>().unwrap(), 4.0 * n as f64);
                }
            });
        }
    });
    assert_eq!(f.programs(), 3);
    let why = f.explain([1.0]).unwrap();
    assert_eq!(why.misses().len(), 3);
}

/// The table of memory names residuals that are as large as the carry of their loop, with their number of bytes.
#[test]
fn explain_warns_of_residuals_as_large_as_the_carry() {
    let x = Tensor::from(vec![0.5; 100]);
    let whole = |c: Var| (c * 0.5).sin();
    let line = line!() - 1;
    let counted = jit(grad(move |x: Var| fori_loop(7, |(_, c): (Var, Var)| whole(c), x).sum()));
    let asked = jit(grad(move |x: Var| while_loop(|c: Var| c.sum().gt(0.1), whole, x).sum()));
    let keeps = format!("saves cos at prelude/tests/it/jit.rs:{line}, f64[100], which is as large");
    let plan = counted.explain(&x).unwrap().memory_plan();
    let bytes = "as its carry: 800 bytes for each iteration, 5600 for all\n";
    assert!(plan.contains(&format!("{keeps} {bytes}")), "{plan}");
    let plan = asked.explain(&x).unwrap().memory_plan();
    assert!(
        plan.contains(&format!("{keeps} as its carry: 800 bytes for each iteration\n")),
        "{plan}"
    );
    // The memory plan must not warn if each iteration saves only one element of the carry, or if the residuals are
    // arrays that the user's `scan` stacks as results.
    let place = |(i, c): (Var, Var)| c.at(i).set(c.index(i).sin());
    let places = jit(grad(move |x: Var| fori_loop(7, place, x).sum()));
    let stacked =
        jit(move |x: Var| scan(|(c, _): (Var, Var)| (whole(c), c), x, arange(7, Dtype::F64)).1);
    for explanation in [places.explain(&x), stacked.explain(&x)] {
        let plan = explanation.unwrap().memory_plan();
        assert!(!plan.contains("as large as"), "{plan}");
    }
}

/// If the trip counts of nested loops are known only at run time, the memory plan must list residuals in bytes per
/// iteration of the innermost loop, and name every loop around it, since their trip counts multiply these bytes.
#[test]
fn explain_multiplies_the_iterations_of_nested_loops() {
    let f = |(x, n): (Var, Var)| {
        let inner = move |x: Var| fori_loop(n, |(_, x): (Var, Var)| x.sin(), x); // INNER
        let middle = move |x: Var| fori_loop(3, |(_, x): (Var, Var)| inner(x), x); // MIDDLE
        fori_loop(n, |(_, x): (Var, Var)| middle(x), x) // OUTER
    };
    let slope = jit(move |(x, n): (Var, Var)| grad(|x: Var| f((x, n)))(x));
    let text = slope.explain((0.5, 3i64)).unwrap().memory_plan();
    let line = |mark: &str| {
        let found = include_str!("jit.rs").lines().position(|l| l.ends_with(&format!("// {mark}")));
        found.unwrap() + 1
    };
    let [inner, middle, outer] = ["INNER", "MIDDLE", "OUTER"].map(line);
    let product = format!(
        "8 bytes more for each iteration of the loop at prelude/tests/it/jit.rs:{inner}, in each of that at \
         prelude/tests/it/jit.rs:{middle}, in each of that at prelude/tests/it/jit.rs:{outer}"
    );
    assert!(text.contains(&product), "{text}");
    // On the tape, each outer iteration also has references to the residuals of the inner loops. Their bytes must be
    // listed.
    let own = format!("each iteration of the loop at prelude/tests/it/jit.rs:{outer}\n");
    assert!(text.contains(&own), "{text}");
}
