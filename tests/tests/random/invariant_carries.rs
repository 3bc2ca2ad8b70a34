//! Loops with invariant carries, under byte budgets: gradients must have the same bits as without a budget.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

use tapeloom::prelude::*;
use tapeloom_tests::Agreement;

/// The carries of a loop: x, which changes, an invariant vector, and an invariant number.
type State = (Var, Var, Var);

fn step((x, y, s): State) -> State {
    ((x * y).sin() * 0.7 + s * x * 0.1, y, s)
}

fn sum((x, y, s): State) -> Var {
    (x * x).sum() + (y * 0.3).sin().sum() + s * 0.5
}

fn start(x: Var) -> State {
    (x, x.cos() * 0.9, x.sum() * 0.1)
}

/// Runs a loop of 9 iterations with two invariant carries.
fn known(x: Var) -> Var {
    sum(fori_loop(9, |(_, s): (Var, State)| step(s), start(x)))
}

/// Runs the loop of `known` with a trip count that is known only at run time.
fn stacked(x: Var) -> Var {
    let n = (x.sum() * 0.0).convert(Dtype::I64) + 9;
    sum(fori_loop(n, |(_, s): (Var, State)| step(s), start(x)))
}

/// Runs a loop whose condition reads an invariant carry.
fn until(x: Var) -> Var {
    let end = (x.sum() * 0.0) + 8.5;
    let more = |(i, end, _): (Var, Var, State)| i.lt(end);
    let (i, end, s) = while_loop(
        more,
        |(i, end, s): (Var, Var, State)| (i + 1.0, end, step(s)),
        (x.sum() * 0.0, end, start(x)),
    );
    sum(s) + i * 0.1 + end * 0.2
}

/// Runs a loop all of whose carries are invariant.
fn all(x: Var) -> Var {
    sum(fori_loop(9, |(_, s): (Var, State)| s, start(x)))
}

/// Runs a loop in which one value is the initial value of two invariant carries, and is captured by the body, too.
fn twice(x: Var) -> Var {
    let y = x.cos() * 0.9;
    let iteration = |(_, (z, a, b)): (Var, State)| ((z * a + b * y).sin() * 0.6, a, b);
    let (z, a, b) = fori_loop(9, iteration, (x, y, y));
    (z * a + b).sum()
}

/// Runs a loop with a carry whose tangent is invariant although the carry changes: each iteration adds a constant to
/// it.
fn added(x: Var) -> Var {
    let iteration =
        |(i, (z, a)): (Var, (Var, Var))| ((z * a).sin() * 0.8, a + i.convert(Dtype::F64) * 0.01);
    let (z, a) = fori_loop(9, iteration, (x, x.cos()));
    (z * a).sum()
}

/// Runs two nested loops with the same invariant carries.
fn nested(x: Var) -> Var {
    let inner = |s: State| fori_loop(5, |(_, s): (Var, State)| step(s), s);
    sum(fori_loop(6, |(_, s): (Var, State)| inner(step(s)), start(x)))
}

/// Runs a loop with invariant carries that reads a row and stacks a row in each iteration.
fn scanned(x: Var) -> Var {
    let rows = x.reshape([1, x.size()]) * arange(7, Dtype::F64).reshape([7, 1]) * 0.1;
    let iteration = |(s, row): (State, Var)| {
        let (x, y, s) = step(s);
        ((x + row * y, y, s), x * y)
    };
    let (s, stacked) = scan(iteration, start(x), rows);
    sum(s) + stacked.sin().sum() * 0.1
}

/// Runs an outer loop that reads the invariant carry of an inner loop, so the sum of the carry's cotangents passes
/// through both loops. The compiler finds that the carry is invariant only when it differentiates the inner call.
fn mapped(x: Var) -> Var {
    let (_, y, s) = start(x);
    let same = checkpoint(step, Policy::Everything);
    let row = |t: Var| {
        let (z, y, s) = fori_loop(30, |(_, s): (Var, State)| same(s), (x + t, y, s));
        (z * y).sum() + (y * t).cos().sum() * 0.3 + s
    };
    map(row, arange(5, Dtype::F64) * 0.1).sin().sum()
}

/// The derivatives of a function that are compared: the gradient, the gradients of a batch of two, the derivative of
/// the gradient along a direction, and the gradient of the gradient.
type Asked = (Var, Var, Var, Var);

/// A name, and a function of a vector.
type Named = (&'static str, fn(Var) -> Var);

/// Returns a function that computes four derivatives of `f`: the gradient, also for a batch and along a direction, and
/// the gradient of the gradient.
fn asked(f: impl Fn(Var) -> Var + Clone) -> impl Fn(Var) -> Asked {
    move |x| {
        let gradient = grad(f.clone());
        let batch = vmap(grad(f.clone()))(stack(&[x, x * 0.5 - 0.1], 0));
        let along = jvp(grad(f.clone()))((x, x.sin())).1;
        let second = grad(|x: Var| (grad(f.clone())(x) * x.sin()).sum())(x);
        (gradient(x), batch, along, second)
    }
}

#[test]
fn gradients_within_budgets_have_the_bits_of_those_that_keep_everything() {
    let x = Tensor::from([0.3, -0.7, 1.1, 0.2, -0.4, 0.9, 0.05]);
    let programs: [Named; 9] = [
        ("known", known),
        ("stacked", stacked),
        ("until", until),
        ("all", all),
        ("twice", twice),
        ("added", added),
        ("nested", nested),
        ("scanned", scanned),
        ("mapped", mapped),
    ];
    for (name, f) in programs {
        let under = |policy: Policy| asked(move |x| checkpoint(f, policy.clone())(x));
        let want = jit(under(Policy::Everything)).interpreted().call(&x).unwrap();
        let (want, mut met) = ([want.0, want.1, want.2, want.3], 0);
        for bytes in [300, 4000] {
            let within = || jit(under(Policy::Bytes(bytes)));
            let results = [within(), within().interpreted()].map(|f| f.call(&x));
            let [native, interpreted] = results.map(|y| y.map(|y| [y.0, y.1, y.2, y.3]));
            let (Ok(native), Ok(interpreted)) = (native, interpreted) else { continue };
            met += 1;
            let checked = Agreement::CLOSE.check_all(&native, &want);
            checked.unwrap_or_else(|e| panic!("{name} in {bytes} bytes: {e}"));
            // A gradient of a gradient sums cotangents in another order, so it is compared up to rounding.
            let checked = Agreement::CLOSE.check(&interpreted[3], &want[3]);
            checked.unwrap_or_else(|e| panic!("{name} in {bytes} bytes, second order: {e}"));
            let checked = Agreement::Exact.check_all(&interpreted[..3], &want[..3]);
            checked.unwrap_or_else(|e| panic!("{name} in {bytes} bytes, interpreted: {e}"));
        }
        assert!(met > 0, "{name}: no budget is met");
    }
}
