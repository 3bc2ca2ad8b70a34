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
        donated = step.call_donating((donated, x.clone())).unwrap().1;
    }
    let (last, most) = Counting::most(|| step.call_donating((donated, x.clone())).unwrap().1);
    // The lists of handles are longer than those of references.
    assert!(most <= bytes + 1024, "{most} bytes");
    assert_eq!(addresses(&last), memory);
    assert_eq!((&last.w, &last.b), (&model.w, &model.b));

    // For comparison: a step without given memory allocates all results.
    let (_, most) = Counting::most(|| step.call((&model, x)).unwrap());
    assert!(most > 3 * w.elements() * 4, "{most}");
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
