//! Closures with captures, at every depth of nesting. These tests would detect perturbation confusion.
#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::prelude::*;

/// Runs `f` compiled and by the interpreter, and compares both results with `want`.
#[track_caller]
fn check<A: Tree<Var>>(f: impl Fn(A) -> Var, args: impl Args<A>, want: f64) {
    let native = jit(&f).call(&args).unwrap();
    let reference = jit(&f).interpreted().call(&args).unwrap();
    for got in [native, reference] {
        let got = got.item::<f64>().unwrap();
        assert!((got - want).abs() <= 1e-12 * want.abs().max(1.0), "{got} instead of {want}");
    }
}

#[test]
fn a_capture_is_a_constant_of_the_inner_derivative() {
    // The outer derivative must not be confused with the inner one: d/dx x · (d/dy (x + y)) = 1.
    check(grad(|x: Var| x * grad(|y: Var| x + y)(x)), 3.0, 1.0);
    // The inner function captures x: d/dx x · (d/dy x y) = d/dx x² = 2x.
    check(grad(|x: Var| x * grad(|y: Var| x * y)(x)), 3.0, 6.0);
    // Three nested derivatives, with all variables equal to x at the end: d/dx (d/dy (d/dz x y z²)).
    check(grad(|x: Var| grad(|y: Var| grad(|z: Var| x * y * z * z)(x))(x)), 3.0, 12.0);
}

#[test]
fn all_pairs_of_modes_agree() {
    let forward = |f: &dyn Fn(Var) -> Var, x: Var| jvp(f)((x, x.ones_like())).1;
    let reverse = |f: &dyn Fn(Var) -> Var, x: Var| grad(f)(x);
    type Mode<'a> = &'a dyn Fn(&dyn Fn(Var) -> Var, Var) -> Var;
    let modes: [Mode<'_>; 2] = [&forward, &reverse];
    for outer in modes {
        for inner in modes {
            check(|x: Var| outer(&|x| x * inner(&|y| x + y, x), x), 3.0, 1.0);
            check(|x: Var| outer(&|x| x * inner(&|y| x * y, x), x), 3.0, 6.0);
        }
    }
}

#[test]
fn derivatives_of_any_order() {
    check(grad(grad(|x: Var| x.sin())), 0.5, -0.5f64.sin());
    check(grad(grad(grad(grad(|x: Var| x.exp())))), 0.5, 0.5f64.exp());
    check(jacfwd(jacrev(jacfwd(|x: Var| x.powi(4)))), 2.0, 48.0);
}

#[test]
fn literals_and_captures_may_be_the_whole_result() {
    check(grad(|x: Var| full([], 2.0) + 0.0 * x), 3.0, 0.0);
    check(|x: Var| grad(|_: Var| x)(x), 3.0, 0.0);
    check(|x: Var| vmap(|_: Var| x)(arange(3, Dtype::F64)).sum(), 2.0, 6.0);
    check(|(x, _): (Var, Var)| x, (2.0, 1.0), 2.0);
}

#[test]
fn captured_tensors_are_arguments() {
    let data = Tensor::from([1.0, 2.0, 3.0]);
    let f = jit(|w: Var| grad(|w: Var| (w * &data).sum() * (&data * w).sum())(w));
    // The function is (6w)², so its derivative with respect to w is 72 w.
    assert_eq!(f.call(2.0).unwrap().item::<f64>().unwrap(), 144.0);
    let inside = |w: Var| grad(grad(|v: Var| (v * v * w * &data).sum()))(w);
    check(inside, 2.0, 24.0);
}

#[test]
fn pullbacks_and_pushforwards_can_be_used_in_inner_closures() {
    let f = |x: Var| {
        let (_, pull) = vjp(|x: Var| x * x)(x);
        let (_, push) = linearize(|x: Var| x * x * x)(x);
        vmap(|v: Var| pull(v) + push(v))(arange(3, Dtype::F64)).sum()
    };
    // The expected result is (2x + 3x²)(0 + 1 + 2) at x = 2, which is 48.
    check(f, 2.0, 48.0);
    check(grad(f), 2.0, 42.0);
}

#[test]
fn gradients_through_an_inner_batch_reach_the_capture() {
    // d/dw Σ_i (w x_i)² = 2 w Σ x_i²
    let f = |w: Var| {
        let x = 1.0 + arange(3, Dtype::F64);
        vmap(|x: Var| (w * x).square())(x).sum()
    };
    check(grad(f), 2.0, 56.0);
    check(grad(grad(f)), 2.0, 28.0);
}

#[test]
fn outlined_functions_are_traced_once_and_differentiated() {
    let traced = std::cell::Cell::new(0);
    let f = |x: Var| {
        let y = 2.0 * x;
        let step = outline(|v: Var| {
            traced.set(traced.get() + 1);
            v * y
        });
        // The result is x (2x)⁵: five calls multiply x by the captured 2x.
        (0..5).fold(x, |v, _| step(v))
    };
    check(f, 1.0, 32.0);
    assert_eq!(traced.get(), 2, "once natively, once interpreted");
    check(grad(f), 1.0, 192.0);
    check(grad(grad(f)), 1.0, 960.0);
    check(|x: Var| vmap(grad(f))(x + arange(2, Dtype::F64)).sum(), 1.0, 192.0 * 33.0);
}

#[test]
fn a_jit_is_applied_inside_a_trace() {
    let inner = jit(|(x, y): (Var, Var)| x * y + y);
    check(|x: Var| inner.apply((x, x)), 3.0, 12.0);
    check(grad(|x: Var| inner.apply((x, inner.apply((x, x))))), 3.0, 3.0 * 9.0 + 4.0 * 3.0 + 1.0);
}

#[test]
fn aux_results_take_no_part() {
    let f = jit(grad_aux(|x: Var| (x * x, (x * 3.0, vec![x.floor()]))));
    let (slope, (triple, floors)) = f.call(2.5).unwrap();
    assert_eq!(slope.item::<f64>().unwrap(), 5.0);
    assert_eq!(triple.item::<f64>().unwrap(), 7.5);
    assert_eq!(floors[0].item::<f64>().unwrap(), 2.0);
}
