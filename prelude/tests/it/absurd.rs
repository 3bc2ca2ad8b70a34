//! Extreme arguments to public functions: they must give errors, never a panic or an abort.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tapeloom::Kind;
use tapeloom::ops::*;
use tapeloom::prelude::*;

/// Counts and extents to try.
const SIZES: [usize; 6] = [0, 1, 5, 1 << 45, 1 << 62, usize::MAX];
/// Axes, offsets and indices to try.
const NUMBERS: [i64; 10] = [0, 1, -1, 2, 5, -5, 1 << 45, -(1 << 45), i64::MAX, i64::MIN];

/// Returns the operands on which functions are tried: arrays of every rank up to three, with every kind of dtype, and
/// an array without elements.
fn operands() -> Vec<Tensor> {
    vec![
        Tensor::from(2.0),
        Tensor::from([1.0, 2.0, 3.0]),
        Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        Tensor::from([[[1.0, 2.0]]; 2]),
        Tensor::from([0.0; 0]),
        Tensor::from([[0.0; 0]; 2]),
        Tensor::from([1i64, 2, 0]),
        Tensor::from([1u32, 2]),
        Tensor::from([true, false]),
        Tensor::from([1f32, 2.0]),
    ]
}

fn small(n: i64) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

thread_local! {
    static FAILURES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Runs a program. A panic or an internal error is recorded as a failure with the name of the function.
fn survives<B: Tree<Var>>(name: &str, f: impl Fn(Var) -> B, x: &Tensor) {
    let outcome = catch_unwind(AssertUnwindSafe(|| run(&f, x).map(|_| ())));
    let failure = match outcome {
        Err(_) => format!("{name} of {} panicked", x.ty()),
        Ok(Err(error)) if error.kind() == Kind::Internal => {
            format!("{name} of {}: {error}", x.ty())
        }
        Ok(_) => return,
    };
    FAILURES.with_borrow_mut(|all| all.push(failure));
}

/// Fails the test if a panic or a wrong error was recorded.
#[track_caller]
fn all_survived() {
    let failures = FAILURES.take();
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

/// Tries every function on every operand with every number of a list.
macro_rules! sweep {
    ($numbers:expr, $operands:expr; $($name:literal: |$x:ident, $n:ident| $e:expr;)*) => {
        for x in $operands {
            for n in $numbers {
                $(survives(&format!("{} with {n}", $name), move |$x: Var| { let $n = n; $e }, x);)*
            }
        }
        all_survived();
    };
}

#[test]
fn sizes() {
    sweep! { SIZES, &operands();
        "split": |x, n| x.split(n, 0);
        "array_split": |x, n| x.array_split(n, 0);
        "split_at": |x, n| x.split_at(&[n, 1], 0);
        "repeat": |x, n| x.repeat(n, 0);
        "tile": |x, n| x.tile([n, n]);
        "resize": |x, n| x.resize([n]);
        "reshape": |x, n| x.reshape([n, n]);
        "broadcast_to": |x, n| x.broadcast_to([n, 3]);
        "one_hot": |x, n| x.one_hot(n, Dtype::F64);
        "bincount": |x, n| x.bincount(n);
        "vander": |x, n| x.vander(n);
        "diff": |x, n| x.diff_n(n, 0);
        "slice_axis from": |x, n| x.slice_axis(0, n..);
        "slice_axis to": |x, n| x.slice_axis(0, ..=n);
        "slice_step": |x, n| x.slice_step(0, .., n);
        "slice": |x, n| x.slice([n..n, 0..n]);
        "delete": |x, n| x.delete(n..=n, 0);
        "pad_dilated": |x, n| x.pad_dilated(&[(0, 0, n)], 0.0);
        "dynamic_slice": |x, n| x.dynamic_slice(&[0i64], [n]);
        "tensordot": |x, n| x.tensordot(x, &[(n, n)]);
        "dot_general": |x, n| x.dot_general(x, &[(0, n)], &[(n, 0)]);
        "pad_like": |x, n| x.pad_like(&[(n.min(1000), 0)], Padding::Reflect);
        "top_k": |x, n| x.top_k(n);
        "split_n": |x, n| (x, random::split_n(random::key(0), n));
        "uniform": |x, n| (x, random::uniform(random::key(0), [n, n], Dtype::F32));
        "permutation": |x, n| (x, random::permutation(random::key(0), n));
        "choice": |x, n| random::choice(random::key(0), x, [n]);
        "pad_like wrap": |x, n| x.pad_like(&[(0, n)], Padding::Wrap);
        "rfft": |x, n| fft::rfft(x, fft::along(0).points(n)).abs2();
        "irfft": |x, n| fft::irfft(x, fft::along(0).points(n));
        "fftn": |x, n| fft::fftn(x, fft::along([n]).points_each([n])).abs();
        "dct": |x, n| fft::dct(x, fft::Cosine::III, fft::along(0).points(n));
        "max_steps": |x, n| ode::dopri5().max_steps(n).solve(decay, x, x.flatten());
        "substeps": |x, n| ode::euler().substeps(n).solve(decay, x, linspace(0.0, 1.0, 1, Dtype::F64));
        "quad": |x, n| {
            let precision = Precision { most: n, ..Precision::default() };
            quad(|t: Var| t * x.sum(), (0.0, 1.0), precision)
        };
    }
}

/// Returns `-y` for any type of `y`.
fn decay((_, y): (Var, Var)) -> Var {
    -y
}

#[test]
fn equations_and_curves() {
    use interpolate::{Ends, cubic_spline, pchip};
    // Each function is tried only on some operands, because every call compiles: on those that this kind of argument
    // accepts, on an empty one and on an integer one.
    let of = |all: &[usize]| all.iter().map(|i| operands().swap_remove(*i)).collect::<Vec<_>>();
    for x in &of(&[0, 1, 2, 4, 6, 9]) {
        for y in of(&[0, 1, 4, 7]) {
            let y = || constant(&y);
            let with = |name: &str| format!("{name} with {}", y().array_type());
            for method in [ode::dopri5(), ode::rodas5p(), ode::dopri5().adjoint()] {
                survives(&with("solve"), |x| method.solve(decay, x, y()), x);
                survives(&with("tolerances"), |x| method.rtol(x).solve(decay, y(), x), x);
                survives(&with("steps"), |x| method.first_step(x).solve(decay, y(), y()), x);
                let event = |(_, y): (Var, Var)| y;
                survives(&with("event"), |x| method.solve_until(decay, event, x, y()), x);
            }
            survives(&with("rk4"), |x| ode::rk4().solve(|(t, x)| x * t, x, y()), x);
            survives(&with("spline"), |x| cubic_spline(x, y(), Ends::NotAKnot).at(x), x);
            survives(&with("ends"), |x| cubic_spline(x, x, Ends::Clamped(y(), x)).at(y()), x);
            survives(&with("pchip"), |x| pchip(x, y()).at(y()), x);
            survives(&with("quad"), |x| quad(|t: Var| t * y(), (x, y()), Precision::default()), x);
            survives(&with("root_between"), |x| root_between(|t: Var| t - y(), x, y()), x);
        }
    }
    all_survived();
}

#[test]
fn sizes_of_nothing() {
    for n in SIZES {
        let alone: &[(&str, &dyn Fn() -> Vec<Var>)] = &[
            ("zeros", &|| vec![zeros([n, n], Dtype::F64)]),
            ("ones", &|| vec![ones([n], Dtype::I32)]),
            ("full", &|| vec![full([n, 2], 1.0)]),
            ("iota", &|| vec![iota([n, n], n, Dtype::I64), iota([n], 0, Dtype::F64)]),
            ("arange", &|| vec![arange(n, Dtype::F32), arange(n, Dtype::I32)]),
            ("linspace", &|| vec![linspace(0.0, 1.0, n, Dtype::F64)]),
            ("logspace", &|| vec![logspace(0.0, 1.0, n, 2.0, Dtype::F64)]),
            ("geomspace", &|| vec![geomspace(1.0, 2.0, n, Dtype::F64)]),
            ("fftfreq", &|| vec![fftfreq(n, 0.0, Dtype::F64), fft::rfftfreq(n, 0.0, Dtype::F64)]),
            ("empty rfft2", &|| vec![fft::rfft2(zeros([n, 0, n], Dtype::F64)).re]),
            ("empty convolution", &|| {
                let x = zeros([0, n], Dtype::F64);
                vec![fft::fftconvolve(x, x, fft::Mode::Full)]
            }),
            ("eye", &|| vec![eye(n, Dtype::F64)]),
            ("tri", &|| vec![tri(n, n, i64::MIN, Dtype::F64), tri(n, 3, i64::MAX, Dtype::Bool)]),
            ("diag_indices", &|| vec![diag_indices(n).0]),
            ("diagonal", &|| vec![zeros([n, n, 0], Dtype::F64).diagonal()]),
            ("unstack", &|| zeros([n, 0], Dtype::F64).unstack(0)),
            ("split", &|| zeros([n, 0], Dtype::F64).split(n, 0)),
            ("empty sum", &|| vec![zeros([n, 0], Dtype::F64).sum_axis(1)]),
            ("empty product", &|| vec![zeros([0, n], Dtype::F64).dot(zeros([n, 0], Dtype::F64))]),
            ("empty flatten", &|| vec![zeros([n, n, n, 0], Dtype::F64).flatten()]),
            ("empty mean", &|| vec![zeros([n, n, 0], Dtype::F64).mean()]),
        ];
        for (name, f) in alone {
            survives(&format!("{name} of {n}"), |_| f(), &Tensor::from(0.0));
        }
    }
    all_survived();
}

#[test]
fn axes_and_offsets() {
    sweep! { NUMBERS, &operands()[..7];
        "sum_axis": |x, n| x.sum_axis(n);
        "mean_keepdims": |x, n| x.mean_keepdims([n, 0]);
        "var_axis": |x, n| x.var_axis(n);
        "max_axis": |x, n| x.max_axis([n, n]);
        "argmax": |x, n| x.argmax(n);
        "cumsum": |x, n| x.cumsum(n);
        "cumlogsumexp": |x, n| x.cumlogsumexp_reverse(n);
        "linear_recurrence": |x, n| x.linear_recurrence(x, n);
        "unwrap_phase": |x, n| x.unwrap_phase(n);
        "sort": |x, n| x.sort(n);
        "argsort": |x, n| x.argsort_descending(n);
        "sort_key_val": |x, n| x.sort_key_val(x, n);
        "lexsort": |x, n| lexsort(&[x, x], n);
        "quantile": |x, n| x.quantile_axis(n as f64, n);
        "median": |x, n| x.median_axis([n, n]);
        "categorical": |x, n| random::categorical(random::key(n), x, n);
        "shuffle": |x, n| random::shuffle(random::key(n), x, n);
        "randint": |x, n| (x, random::randint(random::key(0), [2], n, 3, Dtype::I64));
        "cumulative softmax": |x, n| x.softmax(n);
        "layer_norm": |x, n| x.layer_norm(n, 0.0);
        "logsumexp_axis": |x, n| x.logsumexp_axis(n);
        "expand_dims": |x, n| x.expand_dims(n);
        "squeeze": |x, n| x.squeeze(n);
        "flip": |x, n| x.flip(n);
        "roll": |x, n| x.roll(n, 0);
        "roll axis": |x, n| x.roll(1, n);
        "swap_axes": |x, n| x.swap_axes(n, 0);
        "move_axis": |x, n| x.move_axis(0, n);
        "permute": |x, n| x.permute([n, 0]);
        "rot90": |x, n| x.rot90(n, [0, 1]);
        "rot90 axes": |x, n| x.rot90(1, [n, 0]);
        "fftshift": |x, n| x.fftshift(n);
        "tril": |x, n| x.tril(n);
        "triu": |x, n| x.triu(n);
        "diag": |x, n| x.diag(if n.unsigned_abs() > 5 && x.rank() == 1 { 5 } else { n });
        "diagflat": |x, n| x.diagflat(n.clamp(-5, 5));
        "pad": |x, n| x.pad(&[(n, 0)], 0.0);
        "pad both": |x, n| x.pad(&[(n, n), (n, -5)], 0.0);
        "index": |x, n| x.index(n);
        "index tuple": |x, n| x.index((0, n));
        "index_axis": |x, n| x.index_axis(n, 0);
        "at": |x, n| x.at(n).set(1);
        "take": |x, n| x.take(full([2], n), 0);
        "take axis": |x, n| x.take(full([2], 0), n);
        "index computed": |x, n| x.index(full([], n));
        "at computed": |x, n| x.at(full([], n)).set(x.sum().convert(x.dtype()));
        "take_along_axis": |x, n| x.take_along_axis(full([1], n), 0);
        "put_along_axis": |x, n| x.put_along_axis(full([1], n), x, n);
        "dynamic_slice": |x, n| x.dynamic_slice(&[n], [1]);
        "dynamic_slice of more": |x, n| x.dynamic_slice(&[n, n, n, n], [1, 1]);
        "dynamic_update_slice": |x, n| x.dynamic_update_slice(x, &[n]);
        "concat": |x, n| concat(&[x, x], n);
        "stack": |x, n| stack(&[x, x], n);
        "insert": |x, n| x.insert(n, x, 0);
        "compress": |x, n| x.compress(&[true, false], n);
        "unstack": |x, n| x.unstack(n);
        "split axis": |x, n| x.split(1, n);
        "glu": |x, n| x.glu(n);
        "trapezoid": |x, n| x.trapezoid(1.0, n);
        "central_diff": |x, n| x.central_diff(0.0, n);
        "vecdot": |x, n| x.vecdot(x, n);
        "vmap axis": |x, n| vmap_axes(small(n), 0, |x: Var| x + 1)(x);
        "vmap out axis": |x, n| vmap_axes(0, small(n), |x: Var| x + 1)(x);
        "add": |x, n| x + n;
        "shift": |x, n| x.ldexp(n);
        "rem": |x, n| x.rem(n);
        "mod_floor": |x, n| x.mod_floor(n);
    }
}

#[test]
fn no_numbers_at_all() {
    let none: &[Var] = &[];
    for x in &operands() {
        let run = |name: &str, f: &dyn Fn(Var) -> Vec<Var>| {
            survives(name, f, x);
        };
        run("concat", &|_| vec![concat(none, 0)]);
        run("stack", &|_| vec![stack(none, 0)]);
        run("hstack", &|_| vec![hstack(none)]);
        run("vstack", &|_| vec![vstack(none)]);
        run("dstack", &|_| vec![dstack(none)]);
        run("column_stack", &|_| vec![column_stack(none)]);
        run("block_diag", &|_| vec![block_diag(none)]);
        run("meshgrid", &|_| meshgrid(none));
        run("broadcast_arrays", &|_| broadcast_arrays(none));
        run("multi_dot", &|x| vec![multi_dot(none), multi_dot(&[x]), multi_dot(&[x, x, x])]);
        run("select_first", &|x| vec![select_first(&[], x)]);
        run("select_nth", &|x| vec![select_nth(x, none)]);
        run("einsum", &|x| vec![einsum("", none), einsum("", &[x])]);
        for spec in [
            "->",
            ",",
            "ii",
            "i->",
            "...",
            "i...->...",
            "ij,jk->ik->k",
            "ä",
            "i j",
            "1",
            "->->",
            "...i...->i",
        ] {
            run(spec, &|x| vec![einsum(spec, &[x]), einsum(spec, &[x, x])]);
        }
        run("permute", &|x| {
            vec![x.permute([0i64; 0]), x.squeeze([0i64; 0]), x.sum_axis([0i64; 0])]
        });
        run("at nothing", &|x| vec![x.index([0i64; 0]), x.at([0i64; 0]).add(1)]);
        run("split_at", &|x| x.split_at(&[], 0));
        run("backwards", &|x| x.split_at(&[3, 1], 0));
        run("pad", &|x| vec![x.pad(&[], 0.0), x.pad_like(&[], Padding::Edge)]);
        run("linear algebra", &|x| vec![x.dot(x), x.matmul(x), x.outer(x), x.inner(x)]);
        run("more", &|x| vec![x.kron(x), x.cross(x), x.vdot(x), x.trace(), x.diagonal(), x.t()]);
        run("toeplitz", &|x| vec![toeplitz(x, x), x.fill_diagonal(0), x.matrix_power(9)]);
        run("statistics", &|x| vec![x.cov(), x.corrcoef(), x.histogram(x), x.digitize(x)]);
        run("sorted", &|x| vec![x.searchsorted(x), interp(x, x, x), polyval(x, x)]);
        run("learning", &|x| vec![x.cross_entropy(x), x.average(x, 0), x.poly_from_roots()]);
        run("powers", &|x| vec![x.powi(i32::MIN), x.powi(i32::MAX), x.powf(f64::NAN)]);
        run("clamp", &|x| vec![x.clamp(1, 0), x.clamp(f64::NAN, f64::NAN)]);
        run("is_in", &|x| vec![x.is_in(x), x.array_equal(x), x.one_hot(2, Dtype::Bool)]);
        for n in [0, 1, 7, 200, u32::MAX] {
            run("polygamma", &|x| vec![x.polygamma(n)]);
        }
        run("transforms", &|x| {
            let f = |x: Var| x.sum();
            vec![grad(f)(x), jacrev(f)(x), jacfwd(f)(x), hessian(f)(x), vmap(f)(x)]
        });
        run("transposed", &|x| vec![linear_transpose(|v: Var| v + v, x)(x)]);
        run("itself", &|x| vec![jvp(|x: Var| x * x)((x, x)).1, vjp(|x: Var| x * x)(x).1(x)]);
        run("linearized", &|x| vec![linearize(|x: Var| x * x)(x).1(x.sum())]);
    }
    all_survived();
}

/// Creating an array that exceeds the memory of any machine is an error, in native code and in the interpreter.
#[test]
fn arrays_beyond_memory() {
    for shape in [[1usize << 45, 1], [1 << 45, 1 << 10], [1 << 62, 1 << 62], [usize::MAX, 2]] {
        let errors = [
            run(|()| zeros(shape, Dtype::F64), ()).unwrap_err(),
            jit(|()| zeros(shape, Dtype::F64)).interpreted().call(()).unwrap_err(),
            jit(|x: Var| x.broadcast_to(shape).exp()).interpreted().call(1.0).unwrap_err(),
            jit(|x: Var| grad(|x: Var| x.broadcast_to(shape).exp().sum())(x))
                .interpreted()
                .call(1.0)
                .unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), Kind::TooLarge, "{error}");
        }
    }
    // An empty array is small, even if its other extents are large.
    let empty = jit(|()| zeros([1 << 40, 1 << 40, 0], Dtype::F64)).interpreted().call(()).unwrap();
    assert_eq!(empty.elements(), 0);
}

/// Operations that join or repeat arrays must return an error if the number of elements of the result overflows an
/// integer. In these programs, each operand is small, or is a broadcast that is never in memory.
#[test]
fn many_parts_beyond_memory() {
    let many = |x: Var| vec![x.broadcast_to([1 << 59]); 40];
    for error in [
        run(|x: Var| ravel(&many(x)).0.sum(), 1.0).unwrap_err(),
        run(|x: Var| ravel(&many(x)).1(x.broadcast_to([1 << 59]))[39].sum(), 1.0).unwrap_err(),
        run(|x: Var| hessian(|v: Vec<Var>| tree_sum(&v))(many(x)).sum(), 1.0).unwrap_err(),
        run(|x: Var| concat(&many(x), 0).sum(), 1.0).unwrap_err(),
        run(|()| block_diag(&[zeros([0, 1 << 62], Dtype::F64); 4]), ()).unwrap_err(),
        run(|()| block_diag(&[zeros([0, 1 << 62], Dtype::F64); 2]), ()).unwrap_err(),
    ] {
        assert_eq!(error.kind(), Kind::TooLarge, "{error}");
        assert!(error.to_string().contains(file!()), "{error}");
    }
}

#[test]
fn ranges_that_end_nowhere() {
    use std::ops::Bound;
    let beyond = (Bound::Excluded(usize::MAX), Bound::Unbounded);
    for error in [
        run(|x: Var| x.slice_axis(0, ..=usize::MAX), [1.0]).unwrap_err(),
        run(|x: Var| x.slice_axis(0, beyond), [1.0]).unwrap_err(),
        run(|x: Var| x.slice_step(0, ..=usize::MAX, 1), [1.0]).unwrap_err(),
        run(|x: Var| x.slice([..=usize::MAX]), [1.0]).unwrap_err(),
        run(|x: Var| x.delete(..=usize::MAX, 0), [1.0]).unwrap_err(),
    ] {
        assert_eq!(error.kind(), Kind::Shape, "{error}");
        assert!(error.to_string().contains(file!()), "{error}");
    }
}
