//! Tests of captures, poison, escapes and panics.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use tapeloom_ir::prim::{Call, Reduce, Reducer};
use tapeloom_ir::trace::{
    Closed, Handle, Param, Traced, active, bind1, capture, is_poison, poison, poison1, trace,
    type_of,
};
use tapeloom_ir::{
    ArrayType, Dtype, Kind, Literal, Loc, Scalar, Tensor, Type, eval, verify_module,
};

#[track_caller]
fn here() -> Loc {
    Some(Location::caller())
}

fn scalar() -> Param {
    Param::new(Type::scalar(Dtype::F64), here())
}

fn vector(n: usize) -> Param {
    Param::new(Type::array(Dtype::F64, &[n]), here())
}

fn mul(x: Handle, y: Handle) -> Handle {
    bind1(Scalar::Mul, &[x, y], here())
}

/// Traces a closure in a frame of its own and closes the frame into a function.
fn frame(
    transform: &'static str,
    at: Loc,
    params: &[Param],
    f: impl FnOnce(&[Handle]) -> (Vec<Handle>, ()),
) -> Closed {
    let opened = tapeloom_ir::trace::frame(transform, at, params);
    let (results, ()) = f(opened.params());
    opened.close(&results)
}

/// Calls a closed function on arguments and its captures.
fn call(closed: &Closed, args: &[Handle]) -> Handle {
    let operands: Vec<Handle> = args.iter().chain(&closed.captures).copied().collect();
    bind1(Call::inline(closed.function.unwrap()), &operands, here())
}

fn run(traced: &Traced<()>, args: &[f64]) -> f64 {
    assert_eq!(verify_module(&traced.module), []);
    let mut args: Vec<Tensor> = args.iter().map(|x| Tensor::from(*x)).collect();
    args.extend(traced.tensors.iter().cloned());
    eval(&traced.module, traced.function, &args).unwrap()[0].item().unwrap()
}

/// `x` is captured twice through two nested closures: the function of each must get one parameter for it, not two.
#[test]
fn captures_are_lifted_once_per_frame() {
    let traced = trace("run", here(), &[scalar()], |x| {
        let x = x[0];
        let outer = frame("grad", here(), &[scalar()], |y| {
            let inner = frame("grad", here(), &[], |_| (vec![mul(mul(x, x), x)], ()));
            assert_eq!(inner.captures.len(), 1);
            (vec![mul(call(&inner, &[]), mul(y[0], x))], ())
        });
        assert_eq!(outer.captures.len(), 1);
        (vec![call(&outer, &[x])], ())
    });
    assert_eq!(run(&traced.unwrap(), &[2.0]), 32.0);
}

#[test]
fn literals_and_outer_values_may_be_results() {
    let traced = trace("run", here(), &[scalar()], |x| {
        let f = frame("vmap", here(), &[], |_| (vec![x[0]], ()));
        let two = Handle::literal(Literal::f64(2.0), here());
        let g = frame("vmap", here(), &[], |_| (vec![two], ()));
        assert!(g.captures.is_empty());
        (vec![mul(call(&f, &[]), call(&g, &[]))], ())
    });
    assert_eq!(run(&traced.unwrap(), &[3.0]), 6.0);
}

/// A tensor used in an inner closure must become one hidden parameter of the outermost function.
#[test]
fn tensors_are_hidden_parameters() {
    let data = Tensor::from(5.0);
    let traced = trace("run", here(), &[scalar()], |x| {
        let f = frame("grad", here(), &[scalar()], |y| {
            (vec![mul(y[0], mul(capture(&data, here()), capture(&data.clone(), here())))], ())
        });
        (vec![mul(call(&f, &[x[0]]), capture(&data, here()))], ())
    });
    let traced = traced.unwrap();
    assert_eq!(traced.tensors.len(), 1);
    assert_eq!(run(&traced, &[2.0]), 250.0);
}

/// A reshaped tensor shares its buffer with the original tensor, but must become a hidden parameter of its own.
#[test]
fn identity_of_data_includes_its_type() {
    let data = Tensor::from([1.0, 2.0]);
    let column = data.reshape(&[2, 1]).unwrap();
    let traced =
        trace("run", here(), &[], |_| (vec![capture(&data, here()), capture(&column, here())], ()));
    assert_eq!(traced.unwrap().tensors.len(), 2);
}

#[test]
fn all_first_causes_are_reported_and_consequences_are_silent() {
    let line = Cell::new(0);
    let errors = trace("jit", here(), &[vector(3), vector(4)], |x| {
        let bad = mul(x[0], x[1]);
        assert!(is_poison(bad, here()));
        assert_eq!(type_of(bad, here()), Type::array(Dtype::F64, &[3]));
        let follows = mul(bad, x[1]);
        line.set(line!() + 1);
        let second = bind1(Reduce { reducer: Reducer::Sum, axes: vec![7] }, &[x[0]], here());
        (vec![follows, mul(second, bad)], ())
    });
    let errors = errors.unwrap_err();
    assert_eq!(errors.len(), 2);
    assert_eq!(errors[0].problem.kind, Kind::Shape);
    assert_eq!(errors[0].notes[1].what, "f64[4]");
    assert_eq!(errors[0].context[0].transform, "jit");
    assert_eq!(errors[1].at.unwrap().line(), line.get());
}

#[test]
fn poison_crosses_frames_silently() {
    let errors = trace("jit", here(), &[vector(3), vector(4)], |x| {
        let bad = mul(x[0], x[1]);
        let f = frame("grad", here(), &[Param::like(bad, here())], |y| {
            assert!(is_poison(y[0], here()));
            (vec![mul(mul(y[0], bad), x[1])], ())
        });
        assert!(f.function.is_none());
        assert_eq!(f.poison, [true]);
        (poison(&f.types, here()).to_vec(), ())
    });
    assert_eq!(errors.unwrap_err().len(), 1);
}

/// Poison (a placeholder result) without a recorded error must be reported as an internal error with the user's line.
/// If a query asks whether an escaped handle is poison, the escape must be reported.
#[test]
fn there_is_no_poison_without_a_cause() {
    let (line, leak) = (Cell::new(0), Cell::new(None));
    let errors = trace("jit", here(), &[scalar()], |x| {
        let f = frame("grad", here(), &[scalar()], |y| {
            leak.set(Some(mul(y[0], y[0])));
            line.set(line!() + 1);
            let _ = poison1(Type::scalar(Dtype::F64), here());
            (vec![mul(y[0], x[0])], ())
        });
        assert!(f.function.is_none());
        (poison(&f.types, here()).to_vec(), ())
    });
    let errors = errors.unwrap_err();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].problem.kind, Kind::Internal);
    assert_eq!(errors[0].at.unwrap().line(), line.get());
    let errors = trace("jit", here(), &[scalar()], |x| {
        assert!(is_poison(leak.get().unwrap(), here()));
        (x.to_vec(), ())
    });
    assert_eq!(errors.unwrap_err()[0].problem.kind, Kind::Escaped);
}

#[test]
fn an_escaped_handle_names_both_lines() {
    let leak = Cell::new(None);
    let errors = trace("jit", here(), &[scalar()], |x| {
        frame("grad", here(), &[scalar()], |y| {
            leak.set(Some(mul(y[0], y[0])));
            (vec![y[0]], ())
        });
        (vec![mul(x[0], leak.get().unwrap())], ())
    });
    let text = errors.unwrap_err()[0].to_string();
    assert!(text.starts_with("error[escaped]"), "{text}");
    assert!(text.contains("the closure given to `grad` at"), "{text}");
    let leaked = leak.get().unwrap();
    assert!(text.contains(&format!("made at {}", leaked.born().unwrap())), "{text}");

    // A leaked handle is used in another trace, or outside any trace: the result must be poison.
    assert!(is_poison(mul(leaked, leaked), here()));
    let errors = trace("jit", here(), &[], |_| (vec![leaked], ())).unwrap_err();
    assert_eq!(errors[0].problem.kind, Kind::Escaped);
    let errors = trace("jit", here(), &[], |_| {
        type_of(leaked, here());
        (vec![], ())
    });
    assert_eq!(errors.unwrap_err()[0].problem.kind, Kind::Escaped);
}

#[test]
fn a_panic_restores_the_stack() {
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        trace("jit", here(), &[scalar()], |x| {
            frame("grad", here(), &[scalar()], |_| -> (Vec<Handle>, ()) { panic!("user") });
            (x.to_vec(), ())
        })
    }));
    assert!(panicked.is_err());
    assert!(!active());
    let traced = trace("run", here(), &[scalar()], |x| {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            frame("grad", here(), &[], |_| -> (Vec<Handle>, ()) { panic!("user") })
        }));
        assert!(caught.is_err());
        (vec![mul(x[0], x[0])], ())
    });
    assert_eq!(run(&traced.unwrap(), &[3.0]), 9.0);
}

#[test]
fn arrays_beyond_memory_are_refused() {
    let huge = Type::Array(ArrayType::new(Dtype::F64, [1 << 30]));
    let errors = trace("run", here(), &[Param::new(huge, here())], |x| {
        let shape = [1 << 31, 1 << 30].into();
        let y = bind1(tapeloom_ir::prim::Broadcast { shape, dims: vec![1] }, &[x[0]], here());
        (vec![y], ())
    });
    assert_eq!(errors.unwrap_err()[0].problem.kind, Kind::TooLarge);
}

/// Traces nest: a trace begun inside a closure must reject the handles of the enclosing trace.
#[test]
fn an_inner_boundary_is_another_trace() {
    let traced = trace("run", here(), &[scalar()], |x| {
        let inner = trace("run", here(), &[scalar()], |y| (vec![mul(y[0], y[0])], ()));
        assert_eq!(run(&inner.unwrap(), &[3.0]), 9.0);
        let wrong = trace("run", here(), &[], |_| (vec![x[0]], ()));
        assert_eq!(wrong.unwrap_err()[0].problem.kind, Kind::Escaped);
        (vec![mul(x[0], x[0])], ())
    });
    assert_eq!(run(&traced.unwrap(), &[2.0]), 4.0);
}
