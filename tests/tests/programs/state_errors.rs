//! Wrong uses of mutable state (`Ref`): each must give one error of its kind at the user's line, which also names the
//! other line involved, and no panic.

#![allow(clippy::unwrap_used, clippy::panic, unused_must_use, reason = "tests")]

use std::cell::Cell;
use tapeloom::Kind;
use tapeloom::prelude::*;
use tapeloom_tests::error_asserts::{Lines, check};

macro_rules! cases {
    ($($name:literal, $kind:ident, $says:literal, |$x:ident, $l:ident| $body:block)*) => {{
        let mut failures = Vec::new();
        let mut count = 0;
        $(
            count += 1;
            let lines = Lines::default();
            let $l = &lines;
            let x = Tensor::from([[0.5, 1.0, 2.0], [0.25, -1.0, 3.0]]);
            let outcome = run(|$x: Var| $body, &x).map(|_| ());
            match outcome {
                Ok(()) => failures.push(format!("{} is no error", $name)),
                Err(e) => failures.extend(check(file!(), $name, &lines, Kind::$kind, $says, &e)),
            }
        )*
        (count, failures)
    }};
}

/// Stores the line of the macro call in a cell, as the expected line of an error.
macro_rules! here {
    ($of:expr) => {
        $of.set(line!())
    };
}

#[test]
#[rustfmt::skip]
fn bad_inputs_are_errors_at_their_lines() {
    let slot: Cell<Option<Ref>> = Cell::new(None);
    let (count, failures) = cases! {
        "written in grad", State, "`add` in the closure given to `grad`", |x, l| {
            here!(l.other); let r = Ref::new(x);
            grad(|y: Var| { here!(l.wrong); r.add(y); y.sum() })(x)
        }
        "written in vjp", State, "`set` in the closure given to `vjp`", |x, l| {
            here!(l.other); let r = Ref::new(x);
            vjp(|y: Var| { here!(l.wrong); r.set(y); y.sum() })(x).0
        }
        "written in jvp", State, "`swap` in the closure given to `jvp`", |x, l| {
            here!(l.other); let r = Ref::new(x);
            jvp(|y: Var| { here!(l.wrong); r.swap(y); y.sum() })((x, x)).0
        }
        "written in vmap", State, "`mul` in the closure given to `vmap`", |x, l| {
            here!(l.other); let r = Ref::new(0.0);
            vmap(|y: Var| { here!(l.wrong); r.mul(2.0); y })(x)
        }
        "written in linearize", State, "`max` in the closure given to `linearize`", |x, l| {
            here!(l.other); let r = Ref::new(x);
            linearize(|y: Var| { here!(l.wrong); r.max(y); y.sum() })(x).0
        }
        "written in outline", State, "`min` in the closure given to `outline`", |x, l| {
            here!(l.other); let r = Ref::new(x);
            outline(|y: Var| { here!(l.wrong); r.min(0.0); y })(x)
        }
        "written in checkpoint", State, "`update` in the closure given to `checkpoint`", |x, l| {
            here!(l.other); let r = Ref::new(x);
            checkpoint(|y: Var| { here!(l.wrong); r.update(|r| r + 1.0); y }, Policy::Nothing)(x)
        }
        "written in an inner jit", State, "`add` in the closure given to `jit`", |x, l| {
            here!(l.other); let r = Ref::new(x);
            jit(|y: Var| { here!(l.wrong); r.add(y); y }).apply(x)
        }
        "written in a function with rules", State, "`add` in the closure given to `custom_jvp`", |x, l| {
            here!(l.other); let r = Ref::new(x);
            custom_jvp(|y: Var| { here!(l.wrong); r.add(1.0); y }, |y: Var, dy: Var| (y, dy))(x)
        }
        "written in a forward rule", State, "`add` in the closure given to `custom_jvp`", |x, l| {
            here!(l.other); let r = Ref::new(x);
            custom_jvp(|y: Var| y, |y: Var, dy: Var| { here!(l.wrong); r.add(1.0); (y, dy) })(x)
        }
        "written in a reverse rule", State, "`add` in the closure given to `custom_vjp`", |x, l| {
            here!(l.other); let r = Ref::new(x);
            custom_vjp(|y: Var| y, |y: Var| (y, ()), |(), ct: Var| { here!(l.wrong); r.add(1.0); ct })(x)
        }
        "written in a condition", State, "`add` in the closure given to `while_loop`", |x, l| {
            here!(l.other); let r = Ref::new(0.0);
            while_loop(|y: Var| { here!(l.wrong); r.add(1.0); y.sum().lt(10.0) }, |y: Var| y * 2.0, x)
        }
        "drawn in a condition", State, "a draw from an `Rng` in the condition of `while_loop`", |x, l| {
            here!(l.other); let rng = random::Rng::new(0);
            while_loop(|_: Var| { here!(l.wrong); rng.uniform([], Dtype::F64).lt(0.5) }, |y: Var| y * 2.0, x)
        }
        "drawn in a loop in a condition", State, "a draw from an `Rng` in the condition", |x, l| {
            here!(l.other); let rng = random::Rng::new(0);
            let two = |y: Var| fori_loop(2, |(_, y): (Var, Var)| { here!(l.wrong); y + rng.uniform([], Dtype::F64) }, y);
            while_loop(|y: Var| two(y.sum()).lt(0.5), |y: Var| y * 2.0, x)
        }
        "drawn in a function in a condition", State, "a draw from an `Rng` in the condition", |x, l| {
            here!(l.other); let rng = random::Rng::new(0);
            let slope = |y: Var| grad(|y: Var| { here!(l.wrong); y * rng.uniform([], Dtype::F64) })(y);
            while_loop(|y: Var| slope(y.sum()).lt(0.5), |y: Var| y * 2.0, x)
        }
        "written in an associative function", State, "`add` in the closure given to", |x, l| {
            here!(l.other); let r = Ref::new(0.0);
            associative_scan(|(a, b): (Var, Var)| { here!(l.wrong); r.add(1.0); a + b }, x)
        }
        "written in a hessian", State, "`add` in the closure given to", |x, l| {
            here!(l.other); let r = Ref::new(x);
            hessian(|y: Var| { here!(l.wrong); r.add(1.0); (y * y).sum() })(x)
        }
        "written in a jacobian", State, "`add` in the closure given to", |x, l| {
            here!(l.other); let r = Ref::new(x);
            jacfwd(|y: Var| { here!(l.wrong); r.add(1.0); y * y })(x)
        }
        "written in a loop in grad", State, "`add` in the closure given to `grad`", |x, l| {
            here!(l.other); let r = Ref::new(x);
            grad(|y: Var| { fori_loop(2, |_: (Var, ())| { here!(l.wrong); r.add(1.0) }, ()); y.sum() })(x)
        }
        "written in grad in a loop", State, "`add` in the closure given to `grad`", |x, l| {
            here!(l.other); let r = Ref::new(x);
            fori_loop(2, |(_, c): (Var, Var)| grad(|y: Var| { here!(l.wrong); r.add(1.0); y.sum() })(c), x)
        }
        "a view written in grad", State, "`set` in the closure given to `grad`", |x, l| {
            here!(l.other); let r = Ref::new(x);
            let row = r.at(0);
            grad(|y: Var| { here!(l.wrong); row.set(0.0); y.sum() })(x)
        }
        "read after its end", State, "which `freeze` ended at", |x, l| {
            let r = Ref::new(x);
            here!(l.other); let y = r.freeze();
            here!(l.wrong); y + r.get()
        }
        "written after its end", State, "which `freeze` ended at", |x, l| {
            let r = Ref::new(x);
            here!(l.other); let y = r.freeze();
            here!(l.wrong); r.set(0.0);
            y
        }
        "ended twice", State, "which `freeze` ended at", |x, l| {
            let r = Ref::new(x);
            here!(l.other); let y = r.freeze();
            here!(l.wrong); y + r.freeze()
        }
        "a view after the end", State, "which `freeze` ended at", |x, l| {
            let r = Ref::new(x);
            let row = r.at(1);
            here!(l.other); r.freeze();
            here!(l.wrong); row.get()
        }
        "a view written after the end", State, "which `freeze` ended at", |x, l| {
            let r = Ref::new(x);
            let row = r.slice_axis(1, 1..);
            here!(l.other); r.freeze();
            here!(l.wrong); row.add(1.0);
            x
        }
        "the whole after the end by a view", State, "which `freeze` ended at", |x, l| {
            let r = Ref::new(x);
            here!(l.other); let first = r.at(0).freeze();
            here!(l.wrong); first + r.get()
        }
        "read in a loop after its end", State, "which `freeze` ended at", |x, l| {
            let r = Ref::new(x);
            here!(l.other); r.freeze();
            fori_loop(2, |(_, y): (Var, Var)| { here!(l.wrong); y + r.get() }, x)
        }
        "ended in a loop", State, "`freeze` in the closure given to `fori_loop`", |x, l| {
            here!(l.other); let r = Ref::new(x);
            fori_loop(2, |(_, y): (Var, Var)| { here!(l.wrong); y + r.freeze() }, x)
        }
        "ended in a branch", State, "`freeze` in the closure given to `cond`", |x, l| {
            here!(l.other); let r = Ref::new(x);
            cond(x.sum().gt(0.0), |y: Var| { here!(l.wrong); y + r.freeze() }, |y: Var| y, x)
        }
        "ended in grad", State, "`freeze` in the closure given to `grad`", |x, l| {
            here!(l.other); let r = Ref::new(x);
            grad(|y: Var| { here!(l.wrong); (y * r.freeze()).sum() })(x)
        }
        "smuggled out of a loop", Escaped, "the closure given to `fori_loop` at", |x, l| {
            fori_loop(2, |(_, y): (Var, Var)| { here!(l.other); slot.set(Some(Ref::new(y))); y }, x);
            here!(l.wrong); slot.take().unwrap().get()
        }
        "smuggled out of grad", Escaped, "the closure given to `grad` at", |x, l| {
            grad(|y: Var| { here!(l.other); slot.set(Some(Ref::new(y))); y.sum() })(x);
            here!(l.wrong); slot.take().unwrap().set(0.0);
            x
        }
        "smuggled from a branch to the other", Escaped, "the closure given to `switch` at", |x, l| {
            let first = |y: Var| { here!(l.other); slot.set(Some(Ref::new(y))); y };
            let zero = Tensor::from(0i64); switch(constant(&zero), [&first, &|_: Var| { here!(l.wrong); slot.take().unwrap().get() }], x)
        }
        "a view by an index of an ended trace", Escaped, "is used where its index does not exist", |x, l| {
            let r = Ref::new(x);
            fori_loop(2, |(i, ()): (Var, ())| { here!(l.other); slot.set(Some(r.at(i))) }, ());
            here!(l.wrong); slot.take().unwrap().get()
        }
        "a window by an index of an ended trace", Escaped, "is used where its index does not exist", |x, l| {
            let r = Ref::new(x);
            let show = |i: Var| { here!(l.other); slot.set(Some(r.dynamic_slice(&[i, i], [1, 1]))) };
            map(show, arange(2, Dtype::I64));
            here!(l.wrong); slot.take().unwrap().set(0.0);
            x
        }
        "another shape", Shape, "`set` writes f64[2] to a `Ref` of f64[2,3]", |x, l| {
            here!(l.other); let r = Ref::new(x * 1.0);
            here!(l.wrong); r.set(x.index_axis(1, 0));
            x
        }
        "a shape that does not broadcast", Shape, "`add` writes f64[2,3] to a `Ref` of f64[3]", |x, l| {
            let r = Ref::new(x);
            here!(l.wrong); r.at(0).add(x);
            x
        }
        "another dtype", Dtype, "`set` writes i64[2,3] to a `Ref` of f64[2,3]", |x, l| {
            let r = Ref::new(x);
            here!(l.wrong); r.set(x.convert(Dtype::I64));
            x
        }
        "a number that does not fit", Dtype, "the number 0.5 meets an array of i64", |x, l| {
            let r = Ref::new(0);
            here!(l.wrong); r.add(0.5);
            x
        }
        "a view of another dtype", Dtype, "`mul` writes f32[2,3] to a `Ref` of f64[2,3]", |x, l| {
            let r = Ref::new(x);
            here!(l.wrong); r.slice_axis(0, ..).mul(x.convert(Dtype::F32));
            x
        }
        "an index out of range", Shape, "index 2 is out of range for a `Ref` of shape [2,3]", |x, l| {
            let r = Ref::new(x);
            here!(l.wrong); r.at(2).get()
        }
        "an index of a view out of range", Shape, "index -4 is out of range for a `Ref` of shape [3]", |x, l| {
            let r = Ref::new(x);
            here!(l.wrong); r.at(1).at(-4).set(0.0);
            x
        }
        "too many indices", Shape, "3 indices into a `Ref` of shape [2,3]", |x, l| {
            let r = Ref::new(x);
            here!(l.wrong); r.at((0, 0, 0)).get()
        }
        "an index into a scalar", Shape, "1 indices into a `Ref` of shape []", |x, l| {
            let r = Ref::new(0.0);
            here!(l.wrong); r.at(0).add(1.0);
            x
        }
        "an index that is a float", Dtype, "must be an integer, got f64[]", |x, l| {
            let r = Ref::new(x);
            here!(l.wrong); r.at(x.sum()).get()
        }
        "an index of an axis that is an array", Shape, "must be an integer, got i64[2]", |x, l| {
            let r = Ref::new(x);
            here!(l.wrong); r.at_axis(1, arange(2, Dtype::I64)).get()
        }
        "an axis that is not there", Shape, "`at_axis` along axis 2 of shape [2,3]", |x, l| {
            let r = Ref::new(x);
            here!(l.wrong); r.at_axis(2, 0).get()
        }
        "a range that is not there", Shape, "`slice_axis` of 1..4 by 1 along axis 1 of a `Ref` of shape [2,3]", |x, l| {
            let r = Ref::new(x);
            here!(l.wrong); r.slice_axis(1, 1..4).set(0.0);
            x
        }
        "more ranges than axes", Shape, "`slice` along axis 1 of shape [1]", |x, l| {
            let r = Ref::new(x);
            here!(l.wrong); r.at(0).slice([0..1, 0..1]).set(0.0);
            x
        }
        "a window that does not fit", Shape, "`dynamic_slice` with 2 starts and sizes [1,4] of a `Ref`", |x, l| {
            let r = Ref::new(x);
            here!(l.wrong); r.dynamic_slice(&[0, 0], [1, 4]).get()
        }
        "a window without a start", Shape, "`dynamic_slice` with 1 starts and sizes [1,1] of a `Ref`", |x, l| {
            let r = Ref::new(x);
            here!(l.wrong); r.dynamic_slice(&[0], [1, 1]).get()
        }
        "a view of a view that has index arrays", Shape, "a view of a view that has index arrays", |x, l| {
            let r = Ref::new(x);
            here!(l.wrong); r.at(arange(2, Dtype::I64)).at(0).get()
        }
        "an index array that is no integer", Dtype, "an index must be an integer", |x, l| {
            let r = Ref::new(x);
            here!(l.wrong); r.at(x.index(0)).get()
        }
    };
    assert!(count >= 40, "{count} cases");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// A `Ref` that belongs to another trace, or to no trace, must be refused.
#[test]
fn state_belongs_to_its_trace() {
    let slot: Cell<Option<Ref>> = Cell::new(None);
    run(
        |x: Var| {
            slot.set(Some(Ref::new(x)));
            x
        },
        1.0,
    )
    .unwrap();
    let other = slot.get().unwrap();
    assert_eq!(format!("{other:?}"), "Ref(escaped)");
    let error = run(|x: Var| x + other.get(), 1.0).unwrap_err();
    assert_eq!(error.kind(), Kind::Escaped);
    assert!(error.to_string().contains("another trace"), "{error}");
    let nowhere = Ref::new(2.0);
    nowhere.add(1.0);
    nowhere.at(0).set(nowhere.freeze());
    assert_eq!(nowhere.shape(), Shape::scalar());
    let error = run(|x: Var| x + nowhere.get(), 1.0).unwrap_err();
    assert_eq!(error.kind(), Kind::Escaped);
    let inner = |x: Var| {
        let r = Ref::new(x);
        run(
            |y: Var| {
                r.add(y);
                y
            },
            2.0,
        )
        .map(|_| ())
        .unwrap_err()
    };
    let seen: Cell<Option<Kind>> = Cell::new(None);
    run(
        |x: Var| {
            seen.set(Some(inner(x).kind()));
            x
        },
        1.0,
    )
    .unwrap();
    assert_eq!(seen.get(), Some(Kind::Escaped));
}

/// After a mistake in a closure, only the mistake must be reported, not errors that follow from it.
#[test]
fn consequences_of_an_error_are_not_reported() {
    let f = |x: Var| {
        let (r, s) = (Ref::new(x), Ref::new(0.0));
        fori_loop(2, |_: (Var, ())| r.set(r.get() + x.index(5)), ());
        cond(x.index(0).gt(0.0), |()| s.add(r.get().sum()), |()| (), ());
        let v = r.at(1);
        v.add(s.get());
        grad(|y: Var| (y * v.get()).sum())(x) + r.freeze()
    };
    let error = run(f, [1.0, 2.0]).unwrap_err();
    assert_eq!(error.diagnostics().len(), 1, "{error}");
}
