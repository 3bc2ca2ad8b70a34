//! `checkpoint`: values and derivatives must be those of the same program without it, with fewer residuals in memory.

use tapeloom::prelude::*;
use tapeloom_tests::Agreement;
use tapeloom_tests::repeated::{determinant, determinant_checkpointed};

fn wave(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::new(shape, (0..n).map(|i| 0.3 * (1.0 + 0.7 * i as f64).sin()).collect::<Vec<_>>())
        .unwrap()
}

/// Returns the output of a layer: the hyperbolic tangent of a matrix product.
fn layer((w, x): (Var, Var)) -> Var {
    x.dot(w).tanh()
}

/// Returns the output of a feed-forward layer with a residual connection: to a larger width, tanh, back to the input's
/// width, tanh.
fn wide((w, x): (Var, Var)) -> Var {
    (x.dot(w).tanh().dot(w.t()) + x).tanh()
}

/// Returns the workspace in bytes of the gradient of a loss of `layers`, and the gradient.
fn gradient(layers: impl Fn((Var, Var)) -> Var, w: &Tensor, x: &Tensor) -> (usize, [Tensor; 2]) {
    let loss = |(w, x): (Var, Var)| {
        let y = layers((w, x));
        (y * y).sum()
    };
    let f = jit(grad(loss));
    let bytes = f.explain((w, x)).unwrap().workspace_bytes();
    (bytes, f.call((w, x)).unwrap().into())
}

/// Returns a function that applies `f` to x `n` times.
fn chain(n: usize, f: impl Fn((Var, Var)) -> Var) -> impl Fn((Var, Var)) -> Var {
    move |(w, x)| (0..n).fold(x, |x, _| f((w, x)))
}

#[test]
fn a_chain_has_one_layer_at_a_time_in_memory() {
    let (w, x) = (wave(&[24, 24]), wave(&[64, 24]));
    let (all, g) = gradient(chain(32, layer), &w, &x);
    let (one, g1) = gradient(chain(32, checkpoint(layer, Policy::Nothing)), &w, &x);
    // Eight checkpointed segments of four checkpointed layers: 8 + 4 arrays are in memory instead of 2 * 32.
    let piece = checkpoint(chain(4, checkpoint(layer, Policy::Nothing)), Policy::Nothing);
    let (nested, g2) = gradient(chain(8, piece), &w, &x);
    println!("everything {all}, each layer {one}, pieces of layers {nested}");
    Agreement::CLOSE.check_all(&g1, &g).unwrap();
    Agreement::CLOSE.check_all(&g2, &g).unwrap();
    assert!(10 * one <= 6 * all, "{one} of {all}");
    assert!(4 * nested <= all, "{nested} of {all}");

    let (w, x) = (wave(&[24, 96]), wave(&[64, 24]));
    let (all, g) = gradient(chain(32, wide), &w, &x);
    let (one, g1) = gradient(chain(32, checkpoint(wide, Policy::Nothing)), &w, &x);
    println!("wide: everything {all}, each layer {one}");
    Agreement::CLOSE.check_all(&g1, &g).unwrap();
    assert!(4 * one <= all, "{one} of {all}");
}

/// If the layers are checkpointed, the loop program must mark the definitions of the values that the reverse pass reads
/// as `kept rematerialize`.
#[test]
fn definitions_of_residuals_are_marked() {
    let (w, x) = (wave(&[24, 24]), wave(&[64, 24]));
    let explained = |layers: &dyn Fn((Var, Var)) -> Var| {
        let f = jit(grad(move |(w, x): (Var, Var)| layers((w, x)).sum()));
        f.explain((&w, &x)).unwrap()
    };
    let e = explained(&chain(4, checkpoint(layer, Policy::Nothing)));
    let kernels = e.kernels();
    let marked: Vec<&str> = kernels.lines().filter(|l| l.ends_with("kept rematerialize")).collect();
    // Five definitions must be marked: both arguments, and the results of the first three of the four layers.
    assert_eq!(marked.len(), 5, "{e}");
    assert_eq!(marked.iter().filter(|l| l.contains("input")).count(), 2, "{e}");
    assert!(e.to_string().contains("tanh, kept rematerialize"), "{e}");
    assert!(!explained(&chain(4, layer)).to_string().contains("kept"));
}

/// A determinant by recursion over sizes, outlined and checkpointed, must have a small gradient: one or a few kernels
/// per size, although there are `n!` calls.
#[test]
fn gradients_of_recursive_programs_stay_small() {
    let a = wave(&[5, 5]);
    let (d, g) = run(value_and_grad(determinant(5)), &a).unwrap();
    let (e, h) = run(value_and_grad(determinant_checkpointed(5)), &a).unwrap();
    Agreement::CLOSE.check_all(&[e, h], &[d, g]).unwrap();
    let size = |n: usize| {
        let f = jit(grad(determinant_checkpointed(n)));
        let e = f.explain(wave(&[n, n])).unwrap();
        (e.kernels().lines().count(), e.workspace_bytes())
    };
    let ((lines, bytes), (more_lines, more_bytes)) = (size(4), size(8));
    assert!(more_lines < 8 * lines && more_bytes < 16 * bytes, "{lines} {more_lines}");
}

#[test]
fn it_composes_with_every_transform() {
    let f = |x: Var| (x.sin() * x.exp()).tanh();
    let c = |x: Var| checkpoint(f, Policy::Nothing)(x).sum();
    let p = |x: Var| f(x).sum();
    let x = wave(&[5]);
    let same = |a: Tensor, b: Tensor| Agreement::CLOSE.check(&a, &b).unwrap();
    same(run(c, &x).unwrap(), run(p, &x).unwrap());
    same(run(grad(c), &x).unwrap(), run(grad(p), &x).unwrap());
    same(run(hessian(c), &x).unwrap(), run(hessian(p), &x).unwrap());
    same(run(jacrev(checkpoint(f, Policy::Nothing)), &x).unwrap(), run(jacrev(f), &x).unwrap());
    same(run(jacfwd(checkpoint(f, Policy::Nothing)), &x).unwrap(), run(jacfwd(f), &x).unwrap());
    let third = |f: fn(Var) -> Var| move |x: Var| grad(grad(grad(f)))(x.index(0));
    same(
        run(third(|x| checkpoint(|x: Var| (x.sin() * x.exp()).tanh(), Policy::Nothing)(x)), &x)
            .unwrap(),
        run(third(|x| (x.sin() * x.exp()).tanh()), &x).unwrap(),
    );
    let rows = wave(&[3, 5]);
    same(run(vmap(grad(c)), &rows).unwrap(), run(vmap(grad(p)), &rows).unwrap());
    let batched = |x: Var| vmap(checkpoint(f, Policy::Nothing))(x).sum();
    same(run(grad(batched), &rows).unwrap(), run(grad(p), &rows).unwrap());
}

/// A checkpointed closure may capture values, which are differentiated like arguments; it may take and return trees;
/// and integers pass through it. An error inside must be reported once, with its line.
#[test]
fn checkpoint_takes_every_closure() {
    let x = wave(&[4]);
    let loss = |w: Var| {
        let scaled =
            checkpoint(|(x, n): (Var, Var)| (n, [(w * x).sin(), x.exp() * w]), Policy::Nothing);
        let (n, [a, b]) = scaled((w, w.round().convert(Dtype::I64)));
        (a * b).sum() + n.convert(Dtype::F64).sum()
    };
    let plain = |w: Var| ((w * w).sin() * (w.exp() * w)).sum();
    Agreement::CLOSE.check(&run(grad(loss), &x).unwrap(), &run(grad(plain), &x).unwrap()).unwrap();

    let wrong = |x: Var| checkpoint(|x: Var| x.reshape([3]), Policy::Nothing)(x).sum();
    let error = run(grad(wrong), &x).unwrap_err().to_string();
    assert!(error.contains(file!()), "{error}");
    for (carries, block) in [(0, 1), (1, 0)] {
        let iterations = |x: Var| fori_loop(3, |(_, x): (Var, Var)| x.sin(), x).sum();
        let error = run(grad(checkpoint_carries(carries, block, iterations)), &x).unwrap_err();
        assert_eq!(error.kind(), tapeloom::Kind::Arguments, "{error}");
        assert!(error.to_string().contains(file!()), "{error}");
    }
}

/// If no value has a name that a policy lists, the error must be at the line of the checkpoint and must list the
/// existing names.
#[test]
fn names_are_those_that_there_are() {
    let f = |x: Var| {
        let iteration = |(_, x): (Var, Var)| x.sin().named("inner") * 1.1;
        fori_loop(3, iteration, x.exp().named("act")).sum()
    };
    let under = |policy: Policy| run(grad(checkpoint(f, policy)), [0.1, 0.2]);
    for known in [Policy::named(["act"]), Policy::except(["inner", "act"]), Policy::named([])] {
        assert!(under(known).is_ok());
    }
    for (policy, says) in [
        (Policy::named(["a b"]), "`named` names `a b`, and"),
        (Policy::except(["act", "mask", "held"]), "`except` names `mask`, `held`, and"),
    ] {
        let error = under(policy).unwrap_err();
        assert_eq!(error.kind(), tapeloom::Kind::Arguments, "{error}");
        let text = error.to_string();
        assert!(text.contains(says) && text.contains("`act`, `inner`"), "{text}");
        assert!(text.contains(file!()) && error.diagnostics().len() == 1, "{text}");
    }
    // A user may give a value a name that tapeloom also uses internally, such as "tape".
    let own = |x: Var| x.exp().named("tape").sin().named("residual").sum();
    let of = |policy: Policy| run(grad(checkpoint(own, policy)), [0.1, 0.2]);
    assert!(of(Policy::named(["residual", "tape"])).is_ok());
    let error = of(Policy::named(["packed"])).unwrap_err().to_string();
    assert!(
        error.contains("the values of the function have the names `residual`, `tape`"),
        "{error}"
    );
    let bare = run(grad(checkpoint(|x: Var| x.sin(), Policy::named(["h"]))), 1.0).unwrap_err();
    assert!(bare.to_string().contains("no value of the function has a name"), "{bare}");
}

/// A value that a policy names must be saved once, under its name, and not be recomputed: gradients have the same bits
/// as without a policy.
#[test]
fn named_values_are_saved_once() {
    let w = wave(&[24, 24]);
    let chain = |f: fn(Var) -> Var| move |w: Var| (0..4).fold(w, |x, _| f(x.dot(w))).sum();
    let functions: [fn(Var) -> Var; 2] =
        [|x| x.exp().named("h"), |x| x.exp().named("g").named("h")];
    for (i, f) in functions.into_iter().map(chain).enumerate() {
        let named = checkpoint(f, Policy::named(["h"]));
        let e = jit(grad(&named)).explain(&w).unwrap();
        // At most four arrays are saved. The last named value is read by a sum, and the derivative of a sum does not
        // need its operand.
        assert!(e.tape().bytes() <= 4 * 24 * 24 * 8, "{i}: {}", e.tape());
        let made: Vec<&str> = e.tape().rematerialized().iter().map(|a| a.what).collect();
        assert!(!made.contains(&"dot") && !made.contains(&"exp"), "{i}: {}", e.tape());
        let exact = |f: &dyn Fn(Var) -> Var| jit(grad(f)).interpreted().call(&w).unwrap();
        assert_eq!(exact(&named), exact(&f), "{i}");
    }
    // Named values in the body of a loop are saved by each iteration, so no product is recomputed.
    let cell = checkpoint(|(w, h): (Var, Var)| (-h.dot(w)).exp().named("h"), Policy::named(["h"]));
    let loss = |w: Var| fori_loop(20, |(_, h): (Var, Var)| cell((w, h)), w.index(0)).sum();
    let e = jit(grad(loss)).explain(&w).unwrap();
    let products = e.tape().rematerialized().iter().filter(|a| a.what == "dot").count();
    assert_eq!(products, 0, "{}", e.tape());
}

/// Under `Policy::Rounded`, decisions of the forward pass (comparisons, floors, maxima) must not be repeated on rounded
/// values: at a threshold and at a tie, the derivative must be the derivative of the branch that was taken.
#[test]
fn decisions_are_not_made_on_rounded_values() {
    let under = |f: fn(Var) -> Var, x: f64| {
        let [all, half] = [Policy::Planned, Policy::Rounded].map(|policy| checkpoint(f, policy));
        [run(grad(all), x).unwrap(), run(grad(half), x).unwrap()].map(|g| g.item::<f64>().unwrap())
    };
    let near = |[all, half]: [f64; 2]| (all - half).abs() <= 1e-5 * all.abs();
    let threshold = |x: Var| {
        let below = |y: Var| 0.3 + (y - 0.3).sin() * 2.0;
        let iteration = |y: Var| select(y.gt(0.3), y * y * 10.0, below(y));
        fori_loop(3, |(_, y): (Var, Var)| iteration(y), x)
    };
    let slopes = under(threshold, 0.3);
    assert!(near(slopes) && slopes[0] == 8.0, "{slopes:?}");
    // The comparison that must not be repeated is in a function that is called with another policy.
    let inner = |x: Var| {
        let below = |y: Var| 0.3 + (y - 0.3).sin() * 2.0;
        let iteration = |y: Var| select(y.gt(0.3), y * y * 10.0, below(y));
        fori_loop(3, |(_, y): (Var, Var)| checkpoint(iteration, Policy::Nothing)(y), x)
    };
    let slopes = under(inner, 0.3);
    assert!(near(slopes) && slopes[0] == 8.0, "{slopes:?}");
    let stairs =
        |x: Var| fori_loop(3, |(_, y): (Var, Var)| ((y * 10.0).floor() + 1.0) * y.sin(), x);
    let slopes = under(stairs, 0.3);
    assert!(near(slopes), "{slopes:?}");

    let largest = |x: Var| {
        let iteration = |(m, x): (Var, Var)| (m.maximum(x), m);
        let start = constant(0.3) + (x * 0.0).sum();
        let (m, _) = scan_reverse(iteration, start, x);
        m
    };
    let ties = Tensor::from([0.1, 0.3]);
    let all = run(grad(checkpoint(largest, Policy::Planned)), &ties).unwrap();
    let half = run(grad(checkpoint(largest, Policy::Rounded)), &ties).unwrap();
    Agreement::Within { relative: 1e-6, absolute: 1e-6 }.check(&half, &all).unwrap();
}
