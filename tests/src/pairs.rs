//! Two functions that are to be one, under every transform and on both engines.

use crate::Agreement;
use std::rc::Rc;
use tapeloom::prelude::*;

/// A function of `f64[4]` that gives a number.
pub type F = Rc<dyn Fn(Var) -> Var>;

/// Equal but for the order of sums.
const CLOSE: Agreement = Agreement::Within { relative: 1e-10, absolute: 1e-10 };

/// A transform of a function, by its name.
pub type Transform = (&'static str, fn(F) -> F);

/// What derivatives of a function are called that are taken once, and of a batch.
pub const FIRST: &[Transform] = &[
    ("value", |f| f),
    ("grad", |f| Rc::new(grad(move |x| f(x)))),
    ("jacfwd", |f| Rc::new(jacfwd(move |x| f(x)))),
    ("vmap", |f| Rc::new(move |x| vmap(|x| f(x))(batch(x)))),
    ("vmap of grad", |f| Rc::new(move |x| vmap(grad(|x| f(x)))(batch(x)))),
];

/// Transforms of transforms.
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
    ("grad of checkpoint", |f| Rc::new(grad(checkpoint(move |x| f(x))))),
];

fn batch(x: Var) -> Var {
    stack(&[x, x * -0.5, x + 1.0], 0)
}

/// Where two functions differ under transforms, each of which is tried at one of the points.
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
