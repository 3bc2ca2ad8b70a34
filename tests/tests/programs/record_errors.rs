//! Wrong uses of recordings: each must give one error of its kind at the user's line, and no panic.

#![allow(clippy::unwrap_used, unused_must_use, reason = "tests")]

use std::cell::Cell;
use tapeloom::prelude::*;
use tapeloom::{ArrayType, Error, Kind};
use tapeloom_tests::error_asserts::{Lines, check};

/// Stores the line of the macro call in a cell, as the expected line of an error.
macro_rules! here {
    ($of:expr) => {
        $of.set(line!())
    };
}

/// Declares cases: a name, the kind of the expected error, a part of its message, and an expression that makes the
/// error, in which `here!` stores the expected lines.
macro_rules! cases {
    ($($name:literal, $kind:ident, $says:literal, |$l:ident| $body:expr)*) => {{
        let mut failures = Vec::new();
        let mut count = 0;
        $(
            count += 1;
            let lines = Lines::default();
            let $l = &lines;
            let wrong = || -> Result<(), Error> { $body };
            let outcome = wrong();
            match outcome {
                Ok(()) => failures.push(format!("{} is no error", $name)),
                Err(e) => failures.extend(check(file!(), $name, &lines, Kind::$kind, $says, &e)),
            }
        )*
        (count, failures)
    }};
}

/// Records a function of three numbers, and returns its error.
macro_rules! recorded {
    ($l:ident, |$x:ident| $body:expr) => {{ record(|$x: Var| $body, [0.5, 1.0, 2.0]).map(|_| ()) }};
}

#[test]
#[rustfmt::skip]
fn bad_inputs_are_errors_at_their_lines() {
    let slot: Cell<Option<Var>> = Cell::new(None);
    let pull = Cell::new(None);
    let (count, failures) = cases! {
        // The recording exceeds its limit of 100 bytes.
        "a budget", Budget, "and may hold 100", |l|
            record_within(100, |x: Var| { here!(l.wrong); x.exp() * x }, [0.5, 1.0, 2.0]).map(|_| ())
        // `value` is called in traces in which handles have no values.
        "value in jit", NoValue, "`value` of f64[3] in the closure given to `run`", |l|
            run(|x: Var| { here!(l.wrong); x.value(); x }, [0.5, 1.0, 2.0]).map(|_| ())
        "item in jit", NoValue, "`item` of f64[] in the closure given to `run`", |l|
            run(|x: Var| { here!(l.wrong); if x.item::<f64>() > 0.0 { x } else { -x } }, 0.5).map(|_| ())
        "a while that would not end", NoValue, "in the closure given to `run`", |l|
            run(|x: Var| { let mut y = x; here!(l.wrong); while y.item::<f64>() < 10.0 { y *= 2.0; } y }, 0.5).map(|_| ())
        "value in grad", NoValue, "in the closure given to `grad`", |l| recorded!(l, |x|
            grad(|x: Var| { here!(l.wrong); x.value(); x.sum() })(x))
        "value in vjp", NoValue, "`recorded_vjp` differentiates a closure that reads values", |l| recorded!(l, |x|
            vjp(|x: Var| { here!(l.wrong); x.value(); x.sum() })(x).0)
        "value in vmap", NoValue, "in the closure given to `vmap`", |l| recorded!(l, |x|
            vmap(|x: Var| { here!(l.wrong); if x.item::<f64>() > 0.0 { x } else { -x } })(x))
        "value in a scan", NoValue, "in the closure given to `scan`", |l| recorded!(l, |x|
            scan(|(c, x): (Var, Var)| { here!(l.wrong); c.value(); (c + x, ()) }, x.sum(), x).0)
        "value in a condition", NoValue, "in the closure given to `while_loop`", |l| recorded!(l, |x|
            while_loop(|c: Var| { here!(l.wrong); c.value(); c.lt(5.0) }, |c: Var| c + 1.0, x.sum()))
        "value in a branch", NoValue, "in the closure given to `cond`", |l| recorded!(l, |x|
            cond(x.sum().gt(0.0), |x: Var| { here!(l.wrong); x.value(); x }, |x: Var| x, x))
        "value in a jit inside", NoValue, "in the closure given to `jit`", |l| {
            let f = jit(|x: Var| { here!(l.wrong); x.value(); x });
            recorded!(l, |x| f.apply(x))
        }
        "value in an outline", NoValue, "in the closure given to `outline`", |l| recorded!(l, |x|
            outline(|x: Var| { here!(l.wrong); x.value(); x })(x))
        "value of an argument of custom_vjp", NoValue, "in the closure given to `custom_vjp`", |l| recorded!(l, |x|
            custom_vjp(|x: Var| { here!(l.wrong); x.value(); x }, |x: Var| (x, ()), |(), ct: Var| ct)(x))
        "value of a state's array in a loop", NoValue, "in the closure given to `fori_loop`", |l| recorded!(l, |x| {
            let r = Ref::new(x);
            fori_loop(3, |_: (Var, ())| { here!(l.wrong); r.get().value(); }, ());
            r.get()
        })
        "recorded_vjp inside of grad", NoValue, "in the closure given to `vjp`", |l| recorded!(l, |x|
            grad(|x: Var| {
                let f = |x: Var| { here!(l.wrong); x.value(); x.sum() };
                recorded_vjp(f)(x).0
            })(x))

        // Values are read with a wrong shape or dtype.
        "an item of many", Shape, "`item` needs a tensor with one element, got f64[3]", |l| recorded!(l, |x| {
            here!(l.wrong); x.item::<f64>();
            x
        })
        "an item of another type", Dtype, "expected elements of i64, found a tensor of f64[]", |l| recorded!(l, |x| {
            here!(l.wrong); x.sum().item::<i64>();
            x
        })

        // Values of another trace are used.
        "a value after its closure", Escaped, "the closure given to `grad`", |l| recorded!(l, |x| {
            grad(|x: Var| { here!(l.other); slot.set(Some(x.sin())); x.sum() })(x);
            here!(l.wrong); slot.get().unwrap().value();
            x
        })
        "a value after its recording", Escaped, "another trace", |l| {
            record(|x: Var| { slot.set(Some(x.sin())); x }, 0.5)?;
            recorded!(l, |x| { here!(l.wrong); slot.get().unwrap().value(); x })
        }
        "a Var of another recording", Escaped, "another trace", |l| {
            record(|x: Var| { here!(l.other); slot.set(Some(x.sin())); x }, 0.5)?;
            recorded!(l, |x| { here!(l.wrong); x * slot.get().unwrap() })
        }
        "a Var of the recording around", Escaped, "another trace", |l| {
            let outcome = Cell::new(None);
            record(|x: Var| {
                outcome.set(Some(record(|y: Var| { here!(l.wrong); y * x }, 0.5).map(|_| ())));
                x
            }, 0.5)?;
            outcome.take().unwrap_or(Ok(()))
        }

        "a pullback after its recording", Escaped, "outside the recording in which its closure ran", |l| {
            here!(l.wrong); record(|x: Var| { pull.set(Some(recorded_vjp(|x: Var| x.sin())(x).1)); x }, 0.5)?;
            let pull = pull.take().unwrap();
            recorded!(l, |x| pull(x.sum()))
        }

        // An operation fails, and its result is read.
        "a wrong operation, then a value of it", Shape, "cannot broadcast", |l| recorded!(l, |x| {
            here!(l.wrong); let y = x + zeros([2], Dtype::F64);
            while y.sum().item::<f64>() < 10.0 {}
            x
        })
        "a callback that fails", Callback, "no today", |l| recorded!(l, |x| {
            let ty = ArrayType::new(Dtype::F64, []);
            here!(l.wrong); let y = callback("never", x, ty, |_: Tensor| Err::<Tensor, _>("no today".into()));
            while y.item::<f64>() < 10.0 {}
            y
        })
        "a loop that cannot be", Dtype, "carry", |l| recorded!(l, |x| {
            here!(l.wrong); fori_loop(3, |(_, c): (Var, Var)| c.convert(Dtype::F32), x)
        })

        // Pullbacks get wrong cotangents.
        "a cotangent of another shape", Shape, "`cotangent` must have its primal's type f64[], got f64[2]", |l| {
            here!(l.wrong); let tape = record(|x: Var| x.sum(), [0.5, 1.0])?;
            tape.pull([1.0, 2.0]).map(|_| ())
        }
        "a cotangent of another dtype", Dtype, "`cotangent.1` must have its primal's type f64[], got f32[]", |l| {
            here!(l.wrong); let tape = record(|x: Var| (x, x), 0.5)?;
            tape.pull((1.0, 1f32)).map(|_| ())
        }
        "cotangents of another structure", Shape, "2 elements in its primal, 3 elements in it", |l| {
            here!(l.wrong); let tape = record(|x: Var| vec![x, x], 0.5)?;
            tape.once().pull(vec![1.0, 1.0, 1.0]).map(|_| ())
        }
        "an argument that is no float", NotDifferentiable, "with respect to `argument.1`, which is i64[]", |l| {
            here!(l.wrong); let tape = record(|(x, n): (Var, Var)| x * n.convert(Dtype::F64), (0.5, 3i64))?;
            tape.pull(1.0).map(|_| ())
        }
        "a result that is no float", NotDifferentiable, "of `result.1`, which is bool[]", |l| {
            here!(l.wrong); let tape = record(|x: Var| (x, x.gt(0.0)), 0.5)?;
            tape.pull((1.0, true)).map(|_| ())
        }
        "an operation without a derivative", NotDifferentiable, "`same` is a Rust function without a derivative rule", |l| {
            let ty = ArrayType::new(Dtype::F64, []);
            let tape = record(|x: Var| {
                here!(l.wrong); callback("same", x, ty.clone(), Ok)
            }, 0.5)?;
            tape.pull(1.0).map(|_| ())
        }
        "an operation without a derivative, recorded", NotDifferentiable, "`same` is a Rust function without a derivative rule", |l| {
            let ty = ArrayType::new(Dtype::F64, []);
            record(|x: Var| {
                let f = |x: Var| { here!(l.wrong); callback("same", x, ty.clone(), Ok) };
                recorded_vjp(f)(x).0
            }, 0.5).map(|_| ())
        }
        "recorded_vjp of an integer", NotDifferentiable, "`recorded_vjp` with respect to `argument`", |l| {
            record(|n: Var| { here!(l.wrong); let f = recorded_vjp(|n: Var| n.convert(Dtype::F64)); f(n).0 }, 3i64).map(|_| ())
        }
        "recorded_vjp to an integer", NotDifferentiable, "`recorded_vjp` of `result`", |l|
            record(|x: Var| { here!(l.wrong); let f = recorded_vjp(|x: Var| x.convert(Dtype::I64)); f(x).0 }, 3.0).map(|_| ())
        "a recorded cotangent of another shape", Shape, "`cotangent` must have its primal's type f64[]", |l|
            record(|x: Var| { here!(l.wrong); let f = recorded_vjp(|x: Var| x.sin()); f(x).1(zeros([2], Dtype::F64)) }, 3.0).map(|_| ())

        // A recording gets arguments of another type than it was recorded with.
        "applied to another shape", Shape, "`argument` was f64[2] and is f64[3]", |l| {
            let tape = record(|x: Var| x.sum(), [0.5, 1.0])?;
            run(|x: Var| { here!(l.wrong); tape.apply(x) }, [1.0, 2.0, 3.0]).map(|_| ())
        }
        "applied to another structure", Shape, "another structure", |l| {
            let tape = record(|x: Vec<Var>| x[0] * x[1], vec![0.5, 1.0])?;
            run(|x: Var| { here!(l.wrong); tape.apply(vec![x]) }, 1.0).map(|_| ())
        }
        "compiled and called with another shape", Arguments, "`argument` was f64[2] and is f64[3]", |l| {
            here!(l.wrong); let tape = record(|x: Var| x.sum(), [0.5, 1.0])?;
            tape.compile()?.call([1.0, 2.0, 3.0]).map(|_| ())
        }
    };
    assert!(failures.is_empty(), "{} of {count} fail\n{}", failures.len(), failures.join("\n\n"));
    assert!(count >= 30);
}

/// Outside any trace no error can be returned, so reading a value must give nan.
#[test]
fn outside_any_trace() {
    let slot = Cell::new(None);
    record(
        |x: Var| {
            slot.set(Some(x));
            x
        },
        0.5,
    )
    .unwrap();
    let x = slot.get().unwrap();
    assert!(x.item::<f64>().is_nan());
    assert!(x.value().item::<f64>().unwrap().is_nan());
    // A constant has its value in every trace.
    assert_eq!(zeros([], Dtype::I64).item::<i64>(), 0);
    let y = grad(|x: Var| if x.item::<f64>().is_nan() { x * 2.0 } else { x })(x);
    assert!(y.item::<f64>().is_nan());
}
