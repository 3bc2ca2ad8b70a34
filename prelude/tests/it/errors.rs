//! Errors that `run` and `jit` return: kind, the user's line, and operands with the lines that made them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tapeloom::prelude::*;
use tapeloom::{Error, Kind};

/// Returns `file:line:` in the notation of messages. (Columns are not compared, because they change with every
/// rename.)
fn place(line: u32) -> String {
    format!("{}:{line}:", file!())
}

fn fails<A: Tree<Var>, B: Tree<Var>>(f: impl Fn(A) -> B, args: impl Args<A>) -> Error {
    match run(f, args) {
        Ok(_) => panic!("the program is wrong and ran"),
        Err(error) => error,
    }
}

#[test]
fn a_shape_error_names_line_operands_birthplaces_and_context() {
    let (here, x_born, y_born) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let asked = line!() + 1;
    let f = grad(|w: Var| {
        let x = w.sin();
        x_born.set(line!() - 1);
        let y = w.slice_axis(0, ..2);
        y_born.set(line!() - 1);
        here.set(line!() + 1);
        (x + y).sum()
    });
    let error = fails(f, [1.0, 2.0, 3.0]).to_string();
    let lines: Vec<&str> = error.lines().collect();
    let lines = lines.as_slice();
    assert_eq!(lines[0], "error[shape]: `add` cannot broadcast shapes [3] and [2] together");
    assert!(lines[1].starts_with(&format!("  --> {}", place(here.get()))), "{error}");
    assert!(
        lines[2].starts_with(&format!("   = left   f64[3]  made at {}", place(x_born.get()))),
        "{error}"
    );
    assert!(
        lines[3].starts_with(&format!("   = right  f64[2]  made at {}", place(y_born.get()))),
        "{error}"
    );
    assert!(
        lines[4].starts_with(&format!("   = while tracing for `grad` at {}", place(asked))),
        "{error}"
    );
    assert!(lines[5].starts_with("   = while tracing for `run` at "), "{error}");
    assert!(lines[6].starts_with("   = help: "), "{error}");
    assert_eq!(lines[7], "   = see the book: errors.html#shape");
    assert_eq!(lines.len(), 8, "a second error is a consequence: {error}");
}

#[test]
fn all_first_causes_are_returned() {
    let error = fails(
        |(x, y): (Var, Var)| {
            let a = x + y;
            let b = (a * 2.0).exp().sum_axis(0);
            let c = x.reshape([5]) * b;
            (c, y.dot(x), x.index(7))
        },
        ([1.0, 2.0], [1.0, 2.0, 3.0]),
    );
    assert_eq!(error.diagnostics().len(), 4, "{error}");
    assert!(error.to_string().contains("the array has 2 elements, the shape 5"), "{error}");
    assert!(error.to_string().ends_with("4 errors"));
}

/// The placeholder after an error has the right shape, so that user code that reads the shape continues.
#[test]
fn poison_has_a_shape() {
    let shapes = Cell::new(None);
    fails(
        |(x, y): (Var, Var)| {
            shapes.set(Some((x + y).shape().to_vec()));
            x
        },
        ([1.0, 2.0], [1.0, 2.0, 3.0]),
    );
    assert_eq!(shapes.take(), Some(vec![2]));
}

#[test]
fn dtypes_do_not_mix_silently() {
    let error = fails(|(x, y): (Var, Var)| x * y, (1.0f64, 1.0f32));
    assert_eq!(error.kind(), Kind::Dtype);
    assert!(error.to_string().contains("`y.convert(Dtype::F64)`"), "{error}");
    let error = fails(|n: Var| n * 0.5, 3i64);
    assert!(error.to_string().contains("the number 0.5 meets an array of i64"), "{error}");
    let error = fails(|x: Var| select(x, 1.0, 2.0), 1.0);
    assert!(error.to_string().contains("needs a bool condition, got f64[]"), "{error}");
    // A number that is representable in the array's dtype must take that dtype.
    assert_eq!(run(|n: Var| 2 * n + 1.0, 3i64).unwrap().item::<i64>().unwrap(), 7);
    assert_eq!(run(|n: Var| 2.0 * n + 1, 3f32).unwrap().item::<f32>().unwrap(), 7.0);
}

#[test]
fn gradients_need_a_scalar_result() {
    let line = line!() + 1;
    let error = fails(grad(|x: Var| x * x), [1.0, 2.0]);
    assert_eq!(error.kind(), Kind::Shape);
    let text = error.to_string();
    assert!(text.contains("`grad` needs a scalar result, the closure returns f64[2]"), "{text}");
    assert!(text.contains(&format!("  --> {}", place(line))), "{text}");
    assert!(text.contains("jacrev"), "{text}");
    let error = fails(grad(|x: Var| x.gt(0.0)), 1.0);
    assert_eq!(error.kind(), Kind::NotDifferentiable);
}

#[derive(Tree, Clone)]
struct Layer<T> {
    w: T,
    steps: T,
}

#[derive(Tree, Clone)]
struct Params<T> {
    layers: Vec<Layer<T>>,
}

#[test]
fn integer_leaves_are_named_by_their_path() {
    let layer = |steps: i64| Layer { w: Tensor::from(1.0), steps: Tensor::scalar(steps) };
    let params = Params { layers: vec![layer(1), layer(2)] };
    let error = fails(grad(|(x, p): (Var, Params<Var>)| x * p.layers[1].w), (1.0, &params));
    assert_eq!(error.kind(), Kind::NotDifferentiable);
    assert_eq!(error.diagnostics().len(), 2);
    let text = error.to_string();
    assert!(text.contains("`argument.1.layers[1].steps`, which is i64[]"), "{text}");
    assert!(text.contains("close over it"), "{text}");
}

#[test]
fn a_missing_derivative_names_its_line() {
    let line = Cell::new(0);
    let error = fails(
        grad(|x: Var| {
            line.set(line!() + 1);
            x.next_after(2.0) * 3.0
        }),
        1.0,
    );
    assert_eq!(error.kind(), Kind::NotDifferentiable);
    let text = error.to_string();
    assert!(text.contains(&format!("  --> {}", place(line.get()))), "{text}");
    assert!(text.contains("while tracing for `grad`"), "{text}");
}

#[test]
fn an_escaped_value_names_where_it_was_made_and_used() {
    let leak: Cell<Option<Var>> = Cell::new(None);
    let (made, used) = (Cell::new(0), Cell::new(0));
    let error = fails(
        |x: Var| {
            let g = grad(|y: Var| {
                made.set(line!() + 1);
                leak.set(Some(y * y));
                y * y
            })(x);
            used.set(line!() + 1);
            g + leak.get().unwrap()
        },
        1.0,
    );
    assert_eq!(error.kind(), Kind::Escaped);
    let text = error.to_string();
    assert!(text.contains(&format!("made at {}", place(made.get()))), "{text}");
    assert!(text.contains(&format!("  --> {}", place(used.get()))), "{text}");
    assert!(text.contains("the closure given to `grad`"), "{text}");
    // The use of a value outside its closure must also be reported in a later trace, and outside any trace.
    let later = fails(|x: Var| x + leak.get().unwrap(), 1.0);
    assert_eq!(later.kind(), Kind::Escaped);
    assert_eq!(leak.get().unwrap().sin().shape().len(), 0);
}

#[test]
fn batches_must_agree() {
    let error = fails(vmap(|(x, y): (Var, Var)| x + y), ([1.0, 2.0], [1.0, 2.0, 3.0]));
    let text = error.to_string();
    assert!(text.contains("`argument.0` has 2, `argument.1` has 3"), "{text}");
    let error = fails(vmap(|x: Var| x), 1.0);
    assert!(error.to_string().contains("axis 0 of `argument`, which is f64[]"), "{error}");
    let error = fails(vmap_axes(0, None, |x: Var| x), [1.0]);
    assert!(error.to_string().contains("result 0 of `vmap` differs over the batch"), "{error}");
    let error = fails(vmap_axes(None, 0, |x: Var| x), [1.0]);
    assert!(error.to_string().contains("`vmap` without a batched argument"), "{error}");
}

#[test]
fn tangents_must_have_the_types_of_their_primals() {
    let error = fails(|(x, dx): (Var, Var)| jvp(|x: Var| x * x)((x, dx)), ([1.0, 2.0], 1.0));
    assert!(error.to_string().contains("`tangent` must have its primal's type f64[2]"), "{error}");
    let error = fails(|x: Var| vjp(|x: Var| (x, x))(x).1((x, x.sum())), [1.0, 2.0]);
    assert!(error.to_string().contains("`cotangent.1` must have"), "{error}");
    let error = fails(|x: Var| jvp(|x: Vec<Var>| x[0])((vec![x], vec![x, x])), 1.0);
    assert!(error.to_string().contains("another structure"), "{error}");
}

#[test]
fn only_linear_functions_are_transposed() {
    let error = fails(|x: Var| linear_transpose(|v: Var| v * v, x)(x), 1.0);
    assert_eq!(error.kind(), Kind::NotLinear);
}

#[test]
fn arrays_beyond_memory_are_refused() {
    let error = fails(|x: Var| x + zeros([1 << 31, 1 << 31], Dtype::F64), 1.0);
    assert_eq!(error.kind(), Kind::TooLarge);
}

#[test]
fn axes_that_do_not_exist() {
    for error in [
        fails(|x: Var| x.sum_axis(1), [1.0]),
        fails(|x: Var| x.softmax(-2), [1.0]),
        fails(|x: Var| x.sum_axis([0, -1]), [1.0]),
        fails(|x: Var| x.expand_dims(3), [1.0]),
        fails(|x: Var| x.permute([0, 0]), [[1.0]]),
        fails(|x: Var| concat(&[x, x], 4), [[1.0]]),
        fails(|x: Var| einsum("ij,jk", &[x]), [[1.0]]),
        fails(|x: Var| einsum("ii->j", &[x]), [[1.0]]),
        fails(|x: Var| x.argmax(2), [1.0]),
        fails(|x: Var| x.index((0, 0)), [1.0]),
        fails(|x: Var| x.slice_axis(0, 1..5), [1.0]),
        fails(|x: Var| x.matmul(x), [[1.0, 2.0]]),
    ] {
        assert_eq!(error.kind(), Kind::Shape, "{error}");
        assert_eq!(error.diagnostics().len(), 1, "{error}");
        assert!(error.to_string().contains(file!()), "the user's line: {error}");
    }
}

#[test]
fn messages_speak_the_users_language() {
    let error = fails(|x: Var| einsum("ii->j", &[x]), [[1.0]]).to_string();
    assert!(error.contains("'j' of the result is in no operand"), "{error}");
    let error = fails(|x: Var| einsum("ij,jk", &[x]), [[1.0]]).to_string();
    assert!(error.contains("it names 2 operands, given are 1"), "{error}");
    let error = fails(|x: Var| x.sum_axis(1), [1.0]).to_string();
    assert!(error.contains("axis 1 of shape [1], which has no such axis"), "{error}");
}

/// A panic in the user's closure is passed on to the user, and the next trace is not affected.
#[test]
fn a_panic_in_the_closure_leaves_nothing_behind() {
    let f = jit(|x: Var| {
        let y = grad(|y: Var| if y.rank() == 0 { panic!("mine") } else { y })(x);
        y + 1.0
    });
    let panicked = catch_unwind(AssertUnwindSafe(|| f.call(1.0)));
    assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"mine"));
    assert_eq!(run(grad(|x: Var| x * x), 2.0).unwrap().item::<f64>().unwrap(), 4.0);
}

/// A result that is not a float has no derivative. The error must name the path of the result; its derivative must not
/// silently be zero.
#[test]
fn results_that_are_no_floats_are_named() {
    let whole = |x: Var| x.convert(Dtype::I64);
    let errors = [
        fails(jacrev(whole), [1.0, 2.0]),
        fails(jacfwd(whole), [1.0, 2.0]),
        fails(move |x: Var| vjp(whole)(x).0, [1.0, 2.0]),
        fails(jacrev(|x: Var| x.gt(0.0)), 1.0),
    ];
    for error in errors {
        assert_eq!(error.kind(), Kind::NotDifferentiable);
        assert_eq!(error.diagnostics().len(), 1, "{error}");
        let text = error.to_string();
        assert!(text.contains("of `result`, which is "), "{text}");
        assert!(text.contains(file!()), "{text}");
    }
    let error = fails(|x: Var| vjp(|x: Var| (x, (x.floor(), x.argmax(0))))(x).0.0, [1.0, 2.0]);
    assert!(error.to_string().contains("`vjp` of `result.1.1`, which is i64[]"), "{error}");
    // `grad_aux` returns its second result without differentiating it, so that result may be an integer.
    let f = grad_aux(|x: Var| (x.sum(), x.argmax(0)));
    assert_eq!(run(f, [1.0, 2.0]).unwrap().1, Tensor::from(1i64));
}

#[test]
fn the_derivative_of_nothing_is_nothing() {
    let constant = |_: Vec<Var>| full([2], 3.0);
    let none: Vec<Tensor> = Vec::new();
    let gradient = run(value_and_grad(|_: Vec<Var>| full([], 3.0)), &none).unwrap();
    assert_eq!((gradient.0, gradient.1.len()), (Tensor::from(3.0), 0));
    assert_eq!(run(grad(|(): ()| full([], 3.0)), ()), Ok(()));
    assert_eq!(run(jacrev(constant), &none).unwrap().len(), 0);
    assert_eq!(run(jacfwd(constant), &none).unwrap().len(), 0);
    let f = |x: Vec<Var>| {
        let (y, pull) = vjp(constant)(x);
        (y, pull(y))
    };
    let (y, pulled) = run(f, &none).unwrap();
    assert_eq!((y, pulled.len()), (Tensor::from([3.0, 3.0]), 0));
    // The derivative with respect to a captured value must be right, too.
    let f = grad(|x: Var| value_and_grad(move |(): ()| x * x)(()).0);
    assert_eq!(run(f, 3.0).unwrap(), Tensor::from(6.0));
    let (y, dy) = run(jvp(|(): ()| full([], 3.0)), ((), ())).unwrap();
    assert_eq!((y, dy), (Tensor::from(3.0), Tensor::from(0.0)));
}

/// An integer that is not exactly representable in the dtype is an error; a decimal fraction is rounded.
#[test]
fn integers_are_exact_and_fractions_rounded() {
    let exact = run(|x: Var| x + (1 << 24), 0f32).unwrap();
    assert_eq!(exact, Tensor::from(16_777_216f32));
    let error = fails(|x: Var| x + ((1 << 24) + 1), 0f32);
    assert_eq!(error.kind(), Kind::Dtype);
    assert!(error.to_string().contains("16777217 meets an array of f32"), "{error}");
    let error = fails(|x: Var| x * i64::MAX, 0f64);
    assert_eq!(error.kind(), Kind::Dtype);
    assert_eq!(run(|x: Var| x + 0.1, 0f32).unwrap(), Tensor::from(0.1f32));
}

/// Errors of checks that run inside a library function have the user's line.
#[test]
fn checks_point_at_the_user() {
    let line = line!() + 1;
    let error = check_grads(|(x, n): (Var, Var)| x * n.convert(Dtype::F64), (2.0, 3i64), 1);
    let text = error.unwrap_err().to_string();
    assert!(text.contains("`check_grads` with respect to `argument.1`, which is i64[]"), "{text}");
    assert!(text.contains(&format!("  --> {}", place(line))), "{text}");
    assert!(!text.contains("src/check.rs"), "{text}");
    for error in [
        check_grads(|x: Var| x.next_after(1.0), 1.0, 1).unwrap_err(),
        check_rule(|x: Var| x, |x: Var| x.next_after(1.0), 1.0).unwrap_err(),
        check_rule(|x: Var| x, |x: Var| x, 1i32).unwrap_err(),
        check_grads(|x: Var| x.index(4), [1.0], 1).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(text.contains("`check_") && !text.contains("src/check.rs"), "{text}");
        assert!(text.contains(file!()), "{text}");
    }
    // Results that are not floats are not differentiated.
    check_grads(|x: Var| (x.sin(), x.argmax(0)), [1.0, 2.0], 2).unwrap();
    check_rule(|x: Var| (x, x.argmax(0)), |x: Var| (x, x.argmax(0)), [1.0, 2.0]).unwrap();
}

/// If an error would have a line of the standard library, that line is omitted, and the lines of the operands are
/// shown.
#[test]
fn lines_of_the_standard_library_are_not_shown() {
    let born = Cell::new(0);
    let error = fails(
        |(x, y): (Var, Var)| {
            born.set(line!() + 1);
            let parts = [x.sin(), y.cos()];
            parts.iter().sum::<Var>()
        },
        ([1.0, 2.0], [1.0, 2.0, 3.0]),
    );
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "  --> through an iterator or a function passed by name", "{text}");
    assert!(lines[2].contains(&format!("made at {}", place(born.get()))), "{text}");
    assert!(lines[3].contains(&format!("made at {}", place(born.get()))), "{text}");

    // A wrong operation that is called through two functions of the standard library (`map`, `product`) must be
    // reported, too.
    let error = fails(
        |(x, y): (Var, Var)| {
            born.set(line!() + 1);
            [x + 1.0, y + 1.0].into_iter().map(Var::sin).product::<Var>()
        },
        ([1.0, 2.0], [1.0, 2.0, 3.0]),
    );
    let text = error.to_string();
    assert_eq!(text.matches(&format!("made at {}", place(born.get()))).count(), 2, "{text}");
    // The message of a missing derivative must not show lines of the standard library either, here of `fold`.
    let floor = |x: Var, y: Var| x.next_after(y);
    let missing = fails(grad(move |x: Var| [x].into_iter().fold(x, floor)), 1.0).to_string();
    let by_name = fails(
        grad(|x: Var| [x].into_iter().map(Var::flatten).map(|x| x.index(7)).sum::<Var>()),
        1.0,
    );
    for text in [text, missing, by_name.to_string()] {
        assert!(!text.contains("/rustc/") && !text.contains("rustlib"), "{text}");
    }
}

#[test]
fn values_made_outside_any_trace_say_so() {
    let line = line!() + 1;
    let outside = zeros([2], Dtype::F64);
    assert_eq!(format!("{outside:?}"), "Var(made outside any trace)");
    let text = fails(move |x: Var| x + outside, [1.0, 2.0]).to_string();
    assert!(text.contains("was made outside any trace, where no operation computes"), "{text}");
    assert!(text.contains(&format!("a value made at {}", place(line))), "{text}");
}

#[test]
fn dtype_errors_name_the_loss_of_each_conversion() {
    let error = fails(|(n, x): (Var, Var)| n + x, (1i64, 1.0)).to_string();
    assert!(
        error.contains(
            "`y.convert(Dtype::I64)` truncates fractions, `x.convert(Dtype::F64)` rounds integers \
             beyond 2^53"
        ),
        "{error}"
    );
    let error = fails(|(n, x): (Var, Var)| n + x, (1i32, 1.0)).to_string();
    assert!(
        error.contains("convert one of them: `x.convert(Dtype::F64)` loses nothing, "),
        "{error}"
    );
    let error = fails(|(x, y): (Var, Var)| x.dot(y), ([1.0f32], [1.0])).to_string();
    assert!(
        error.contains("`x.convert(Dtype::F64)` loses nothing, `y.convert(Dtype::F32)` rounds"),
        "{error}"
    );
}

#[test]
fn axes_that_are_not_there_are_not_called_unequal() {
    let text = run(|x: Var| x.tensordot(x, &[(3, 0)]), [1.0, 2.0]).unwrap_err().to_string();
    assert!(text.contains("help: name axes that both have"), "{text}");
    let text = run(|x: Var| x.tensordot(x, &[(1, 0)]), [[1.0, 2.0]]).unwrap_err().to_string();
    assert!(text.contains("help: the extents of axes summed over must be equal"), "{text}");
}

/// The result of a wrong operation is a placeholder whose dtype is a guess. So a number that is not representable in
/// this dtype must not be reported.
#[test]
fn numbers_beside_the_outcome_of_an_error_are_silent() {
    fn once(f: impl Fn(Var, Var) -> Var) {
        for n in [Tensor::from([true]), Tensor::from([1i64])] {
            let e = run(|(n, x): (Var, Var)| f(n, x), (&n, [1.0])).unwrap_err();
            assert_eq!(e.diagnostics().len(), 1, "{e}");
        }
    }
    once(|n, _| n.sqrt() * 0.5);
    once(|n, _| 0.5 * n.sin());
    once(|n, _| 0.5 * &n.sin());
    once(|n, _| 0.5 * n.mean());
    once(|n, _| n.mean_axis(0) + 0.5);
    once(|n, _| n.softmax(0) - 0.5);
    once(|n, _| n.sin().maximum(0.5).gt(0.5));
    once(|n, _| n.sin().clamp(0.25, 0.5));
    once(|n, x| select(x.gt(0.0), n.sin(), 0.5));
    once(|n, x| select(n.sin().gt(0.5), x, 0.5));
    once(|n, _| n.sin().pow(0.5).powf(0.5).recip());
    once(|n, _| 0.5 * (n * 2.5));
    once(|n, x| 0.5 * (n / x));
    once(|n, _| n.sin().at(0).set(0.5));
    once(|n, _| n.sin().pad(&[(1, 1)], 0.5));
    once(|n, _| n.sin().is_close(0.5, 0.0, 0.0));
    once(|n, x| n.sin().full_like(0.5) + x);
    once(|n, x| select_nth(n.sin(), &[x, x]));
    once(|n, x| select_first(&[(x.gt(0.0), n.sin())], 0.5));
    once(|n, _| {
        let mut y = n.sin();
        y += 0.5;
        y
    });
}
