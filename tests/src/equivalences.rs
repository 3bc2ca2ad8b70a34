//! Pairs of functions that must be equal under every transform and on both engines.

use crate::Agreement;
use std::rc::Rc;
use tapeloom::Error;
use tapeloom::prelude::*;

/// A function from `f64[4]` to a scalar, one of a pair to be compared.
pub type F = Rc<dyn Fn(Var) -> Var>;

/// Agreement of numbers that are summed in another order.
const CLOSE: Agreement = Agreement::Within { relative: 1e-10, absolute: 1e-10 };

/// A transform of a function, with its name.
pub type Transform = (&'static str, fn(F) -> F);

/// The transforms of first order: the identity, first derivatives, and batches.
pub const FIRST: &[Transform] = &[
    ("value", |f| f),
    ("grad", |f| Rc::new(grad(move |x| f(x)))),
    ("jacfwd", |f| Rc::new(jacfwd(move |x| f(x)))),
    ("vmap", |f| Rc::new(move |x| vmap(|x| f(x))(batch(x)))),
    ("vmap of grad", |f| Rc::new(move |x| vmap(grad(|x| f(x)))(batch(x)))),
];

/// The transforms of higher order: higher derivatives, and transforms composed with `vmap`, `hessian` or `checkpoint`.
pub const HIGHER: &[Transform] = &[
    ("hessian", |f| Rc::new(hessian(move |x| f(x)))),
    ("jacrev of grad", |f| Rc::new(jacrev(grad(move |x| f(x))))),
    ("jacfwd of jacfwd", |f| Rc::new(jacfwd(jacfwd(move |x| f(x))))),
    ("grad of vmap", |f| Rc::new(grad(move |x: Var| (vmap(|x| f(x))(batch(x)) * 0.3).sin().sum()))),
    ("grad of hessian", |f| {
        Rc::new(grad(move |x: Var| {
            let h = hessian(|x| f(x))(x);
            (h * h).sum()
        }))
    }),
    ("grad of checkpoint", |f| Rc::new(grad(checkpoint(move |x| f(x), Policy::Nothing)))),
];

fn batch(x: Var) -> Var {
    stack(&[x, x * -0.5, x + 1.0], 0)
}

/// Returns a message for each difference between `one` and `other` under these transforms. Each transform is tried at
/// one of the points, in turn.
pub fn differences(
    name: &str,
    one: &F,
    other: &F,
    transforms: &[Transform],
    points: &[Tensor],
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (n, (transform, of)) in transforms.iter().enumerate() {
        let (native, interpreted, written) = (of(one.clone()), of(one.clone()), of(other.clone()));
        let x = &points[n % points.len()];
        let want = match jit(move |x: Var| written(x)).call(x) {
            Ok(want) => want,
            Err(e) => {
                wrong.push(format!("{name}, {transform}, the other form: {e}"));
                continue;
            }
        };
        let native = jit(move |x: Var| native(x)).call(x);
        let interpreted = jit(move |x: Var| interpreted(x)).interpreted().call(x);
        for (engine, got) in [("native", native), ("interpreted", interpreted)] {
            let found = got.map_err(|e| e.to_string()).and_then(|y| CLOSE.check(&y, &want));
            wrong.extend(found.err().map(|e| format!("{name}, {transform}, {engine}: {e}")));
        }
    }
    wrong
}

/// Returns a message for each difference between `one` when it is recorded and `other` when it is traced: their values,
/// the slope by the tape, the value of the compiled recording, and the derivative of the recorded slope along a
/// direction.
pub fn recorded_differences(name: &str, one: &F, other: &F, points: &[Tensor]) -> Vec<String> {
    let mut wrong = Vec::new();
    for x in points {
        let mut check = |what: &str, got: Result<Tensor, Error>, want: &Result<Tensor, Error>| {
            let outcome = match (got, want) {
                (Ok(got), Ok(want)) => CLOSE.check(&got, want),
                (Err(e), _) => Err(e.to_string()),
                (_, Err(e)) => Err(format!("the other form: {e}")),
            };
            wrong.extend(outcome.err().map(|e| format!("{name}, recorded, {what}: {e}")));
        };
        let (f, g) = (one.clone(), other.clone());
        let direction = Tensor::from([1.0, -0.5, 2.0, 0.25]);
        let slope = |x: Var| recorded_vjp(|x| f(x))(x).1(ones([], Dtype::F64));
        let tape = record(|x: Var| f(x), x);
        let bent = record(slope, x);
        let apart = |e: &Error| e.clone();
        let value = jit(|x: Var| g(x)).call(x);
        let once = jit(grad(|x: Var| g(x))).call(x);
        let twice = |x: Var| vjp(grad(|x: Var| g(x)))(x).1(constant(&direction));
        let twice = jit(twice).call(x);
        check("value", tape.as_ref().map(|t| t.value()).map_err(apart), &value);
        check("compiled", tape.as_ref().map_err(apart).and_then(|t| t.compile()?.call(x)), &value);
        check("slope", tape.as_ref().map_err(apart).and_then(|t| t.pull(1.0)), &once);
        check("slope recorded", bent.as_ref().map(|t| t.value()).map_err(apart), &once);
        check("second order", bent.and_then(|t| t.once().pull(&direction)), &twice);
    }
    wrong
}
