//! The workspace and tape that `explain` reports for gradients, compared with allocations.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::Explanation;
use tapeloom::prelude::*;
use tapeloom_tests::{Agreement, Counting, Sweep};

/// Bytes that a call may allocate in addition to the reported ones, for its own lists.
const LITTLE: usize = 2048;

/// Returns the explanation of the gradient at `x`, after checking that calls allocate the reported bytes.
fn explained(what: &str, f: impl Fn(Var) -> Var + 'static, x: &Tensor) -> Explanation {
    // Call once before measuring: the matrix library allocates memory at its first use and never frees it.
    run(grad(&f), x).unwrap();
    measured(what, grad(f), x)
}

/// Returns the explanation of `g` at `x`, after checking that calls allocate the reported bytes.
fn measured(what: &str, g: impl Fn(Var) -> Var + 'static, x: &Tensor) -> Explanation {
    let f = jit(g);
    let e = f.explain(x).unwrap();
    let call = f.compile(x).unwrap();
    let before = Counting::held();
    let results = call.call(x).unwrap();
    // The bytes that stay allocated beside the results: the workspace, which the next call reuses.
    let stays = Counting::held() - before - results.bytes().len();
    let says = e.workspace_bytes();
    assert!((says..says + LITTLE).contains(&stays), "{what}: {stays} bytes stay of {says}");
    // A second call allocates its results only, and memory into which the matrix library may pack one or both operands,
    // depending on cache sizes.
    let packed = if e.kernels().contains("contract") { 2 * x.bytes().len() } else { 0 } + LITTLE;
    let (_, most) = Counting::most(|| call.call(x).unwrap());
    let says = results.bytes().len();
    assert!((says..says + packed).contains(&most), "{what} takes {most} bytes, and says {says}");

    let svg = e.tape().to_svg();
    let red = svg.matches("#c0392b").count();
    let rows = e.tape().rows().filter(|r| r.is_workspace()).count();
    assert_eq!(red, rows + e.tape().inside().count(), "{what}");
    // The highest rectangle of the drawing must touch its top, up to rounding: no part of the workspace is missing.
    let drawn = svg.split("<rect").skip(1).filter_map(|rect| rect.split(" y=\"").nth(1));
    let tops = drawn.filter_map(|y| y.split('"').next()?.parse::<f64>().ok());
    assert!(tops.fold(f64::MAX, f64::min) < 4.0, "{what}: {svg}");
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{svg}");
    e
}

/// Returns the primitive and type of each row of the tape's table.
fn rows(e: &Explanation) -> Vec<String> {
    e.tape().rows().map(|r| format!("{} {}", r.primitive, r.ty)).collect()
}

#[test]
fn explained_memory_equals_allocated_memory() {
    let x = Tensor::full(&[64, 64], 0.01).unwrap();
    let layer = |x: Var| x.dot(x.t()).tanh().dot(x);
    let e = explained("layers", move |x| layer(layer(x)).sum(), &x);
    assert!(
        e.tape().bytes() >= 3 * x.bytes().len() && e.tape().bytes() < e.workspace_bytes(),
        "{e}"
    );
    assert!(e.tape().rematerialized().is_empty(), "{}", e.tape());

    // In a checkpointed layer the hyperbolic tangents are recomputed: the tape is smaller, and the report names `tanh`.
    let checkpointed = checkpoint(layer, Policy::Nothing);
    let less = explained("checkpointed", move |x| checkpointed(layer(x)).sum(), &x);
    assert!(less.tape().bytes() < e.tape().bytes(), "{}{}", e.tape(), less.tape());
    assert!(less.tape().rematerialized().iter().any(|a| a.what == "tanh"), "{}", less.tape());

    // Each iteration saves its result (`add`), two more arrays (`cos`, `exp`) and its element of the argument of `scan`
    // (`copy`), listed by primitive and with lines of the body; iteration counters are recomputed.
    let iteration = |(h, t): (Var, Var)| {
        let d = h - 0.01 * t;
        let h = (d * d).sin() + h.exp();
        (h, h)
    };
    let iterations = move |x: Var| scan(iteration, x, arange(100, Dtype::F64)).1.square().sum();
    let e = explained("scan", iterations, &Tensor::full(&[32], 0.1).unwrap());
    let mut kept = rows(&e);
    kept.sort();
    let want = ["add f64[100,32]", "copy f64[100]", "cos f64[100,32]", "exp f64[100,32]"];
    assert_eq!(kept, want, "{}", e.tape());
    assert_eq!(e.tape().bytes(), 3 * 100 * 32 * 8 + 100 * 8);
    let tape = e.tape();
    let layout = tape.layout().unwrap();
    // Every saved value must lie in a region of the tape's layout; in this program all lie in region r0.
    let marked = |r: &&tapeloom_backend::Row| !r.kept.is_empty();
    assert!(
        tape.rows().filter(marked).all(|r| layout.region(r.buffer).is_some()),
        "{tape}{layout}"
    );
    assert_eq!(tape.to_string().matches(" r0 ").count(), tape.rows().filter(marked).count());
    let lines: Vec<u32> = e.tape().rows().filter_map(|r| Some(r.location?.line())).collect();
    assert!(lines.iter().all(|line| lines[0].abs_diff(*line) < 8), "{}", e.tape());

    // Each iteration reads a carry that the previous iteration has also stacked as a result. The gradient must save
    // this array once.
    let x = Tensor::full(&[8, 8], 0.1).unwrap();
    let iteration = |(h, x): (Var, Var)| {
        let h = (h.dot(x) + 0.1).tanh();
        (h, h)
    };
    let over = |w: Var| w.reshape([1, 8, 8]).broadcast_to([100, 8, 8]);
    let up =
        move |w: Var| scan(|(h, _): (Var, Var)| iteration((h, w)), w, over(w)).1.square().sum();
    let down = move |w: Var| {
        scan_reverse(|(h, _): (Var, Var)| iteration((h, w)), w, over(w)).1.square().sum()
    };
    two_arrays("up", up, &x);
    two_arrays("down", down, &x);
}

#[test]
fn the_tape_of_a_loop_is_all_that_grows_with_iterations() {
    the_tape_is_all_that_grows_with_iterations("swing", |n| {
        Box::new(move |x: Var| {
            let iteration = |(_, (x, v)): (Var, (Var, Var))| (x + v * 0.01, v - x.sin() * 0.01);
            fori_loop(n, iteration, (x, x.zeros_like())).0.sum()
        })
    });
}

#[test]
fn the_tape_of_nested_loops_is_all_that_grows_with_iterations() {
    the_tape_is_all_that_grows_with_iterations("nest", |n| {
        Box::new(move |x: Var| {
            let inner = |x: Var| fori_loop(n, |(_, x): (Var, Var)| x.sin() + x * 0.1, x);
            fori_loop(8, |(_, x): (Var, Var)| inner(x) + 0.5, x).sum()
        })
    });
}

#[test]
fn the_tape_of_loops_in_branches_is_all_that_grows_with_iterations() {
    the_tape_is_all_that_grows_with_iterations("branch", |n| {
        Box::new(move |x: Var| {
            let inner = |x: Var| fori_loop(n, |(_, x): (Var, Var)| x.cos(), x);
            let iteration = |(i, x): (Var, Var)| cond(i.rem(3).eq(0), |x: Var| x.sin(), inner, x);
            fori_loop(7, iteration, x).sum()
        })
    });
}

/// Checks, for policies and for first and second derivatives, that the reported workspace is allocated, and that only
/// the reported tape grows with the trip count. Exceptions: in the derivative of a gradient, cotangents as large as the
/// tape also grow. A branch whose reverse pass recomputes a loop copies the saved states.
fn the_tape_is_all_that_grows_with_iterations(name: &str, f: fn(usize) -> Box<dyn Fn(Var) -> Var>) {
    let x: Tensor = (0..100).map(|i| 0.01 * f64::from(i)).collect();
    let once = jit(grad(f(1))).explain(&x).unwrap().workspace_bytes();
    let bytes = [60_000, 5_000].map(Policy::Bytes);
    let plain = [Policy::Planned, Policy::Nothing, Policy::Rounded];
    let all = plain.into_iter().chain(bytes).flat_map(|policy| [1, 2].map(|n| (policy.clone(), n)));
    for (policy, order) in Sweep::TapePlan.all(all) {
        let what = format!("{name}, {policy}, order {order}");
        let f = checkpoint(f(50), policy);
        let g: Box<dyn Fn(Var) -> Var> = match order {
            1 => Box::new(grad(f)),
            _ => Box::new(grad(move |x: Var| grad(&f)(x).square().sum())),
        };
        let e = measured(&what, g, &x);
        let (tape, all) = (e.tape().bytes(), e.workspace_bytes());
        let more = match (order, name) {
            (1, "branch") => tape,
            (1, _) => 0,
            (_, "branch") => 4 * tape,
            _ => tape,
        };
        let room = order * (3 * once + 4096) + more;
        assert!(tape <= all && all - tape <= room, "{what}: {tape} of {all}\n{}", e.tape());
        assert!(tape > 3 * 800, "{what}: {tape} of {all}\n{}", e.tape());
    }
}

/// Checks that the gradient saves exactly two arrays with a row per iteration, and agrees with the interpreter.
fn two_arrays(what: &str, f: impl Fn(Var) -> Var + Copy + 'static, x: &Tensor) {
    let e = explained(what, f, x);
    let kept: Vec<String> = rows(&e).into_iter().filter(|row| row.contains("100")).collect();
    assert_eq!(kept.len(), 2, "{what}: {}", e.tape());
    let exact = jit(grad(f)).interpreted().call(x).unwrap();
    Agreement::CLOSE.check(&run(grad(f), x).unwrap(), &exact).unwrap();
}
