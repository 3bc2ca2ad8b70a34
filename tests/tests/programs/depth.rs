//! Nested calls: every traversal of them must fit on the stack of an ordinary thread, and calls nested deeper than the
//! limit must be refused with an error before any traversal.

use std::rc::Rc;
use tapeloom::prelude::*;
use tapeloom::{Error, Kind};
use tapeloom_backend::{Options, compile};
use tapeloom_ir::prim::{Call, CustomCall};
use tapeloom_ir::{
    Builder, DEEPEST_CALL, DEEPEST_CLOSURE, Draft, FuncId, Module, Op, Problem, Scalar, Type, eval,
    parse_module, print_function, verify_module,
};
use tapeloom_tests::Sweep;
use tapeloom_transforms as transforms;

/// Runs a closure on a thread with 2 MiB of stack, the default of `std::thread::spawn`, and checks that it does not
/// panic. Traversals deeper than the limit would overflow this stack.
fn on_a_small_stack(f: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(f).unwrap();
    assert!(thread.join().is_ok());
}

/// Makes the primitive that calls a function.
type How = fn(FuncId) -> Op;

/// All kinds of calls that nest: outlined calls, inlined calls, and calls with custom rules.
const CALLS: &[(&str, How)] = &[
    ("outlined", |function| Call::outline(function).into()),
    ("inlined", |function| Call::inline(function).into()),
    ("with rules", |function| CustomCall { function, jvp: None, fwd: None, bwd: None }.into()),
];

/// Returns the last of `depth` nested functions `f0 = sin`, `f{n+1}(x) = g(f{n}(g(x)))`, which call each other by
/// `call`.
fn chain(m: &mut Module, depth: usize, call: How, g: Scalar) -> Result<FuncId, Problem> {
    let mut f = None;
    for i in 0..=depth {
        let mut draft = Draft::new(format!("f{i}"));
        let x = draft.param(Type::scalar(Dtype::F64));
        let b = Builder::new(m, &mut draft);
        let y = match f {
            None => b.emit1(Scalar::Sin, &[x]),
            Some(f) => {
                let y = b.emit1(call(f), &[b.emit1(g, &[x])]);
                b.emit1(g, &[y])
            }
        };
        f = Some(draft.finish(m, vec![y])?);
    }
    f.ok_or_else(|| Problem::internal("no function"))
}

/// A traversal of a function and of all functions that it calls.
type Walk = fn(&mut Module, FuncId) -> Result<(), Problem>;

const WALKS: &[(&str, Walk)] = &[
    ("print and parse", |m, f| {
        parse_module(&print_function(m, f)).map(|_| ()).map_err(|e| e[0].problem.clone())
    }),
    ("verify", |m, _| verify_module(m).into_iter().next().map_or(Ok(()), |e| Err(e.problem))),
    ("eval", |m, f| eval(m, f, &[Tensor::from(1.0)]).map(|_| ())),
    ("jvp", |m, f| transforms::jvp(m, f, &[true]).map(|_| ())),
    ("linearize", |m, f| transforms::linearize(m, f, &[true]).map(|_| ())),
    ("transpose", |m, f| {
        let of = transforms::linearize(m, f, &[true])?;
        transforms::transpose(m, of.lin, &[true]).map(|_| ())
    }),
    ("second derivative", |m, f| {
        let first = transforms::vjp(m, f, &[true])?.function;
        transforms::vjp(m, first, &[true, true]).map(|_| ())
    }),
    ("batch", |m, f| transforms::batch(m, f, 3, &[true]).map(|_| ())),
    ("prune", |m, f| transforms::prune(m, f, &[false]).map(|_| ())),
    ("inline", |m, f| transforms::by_name("inline")?.apply(m, f).map(|_| ())),
    ("expand", |m, f| transforms::by_name("expand")?.apply(m, f).map(|_| ())),
    ("passes", |m, f| transforms::BEFORE_CODE.run(m, f).map(|_| ())),
    ("lower and compile", |m, f| {
        compile(m, f, &Options::default())?.call(&[&Tensor::from(1.0)]).map(|_| ())
    }),
];

#[test]
fn every_walk_survives_the_deepest_calls() {
    on_a_small_stack(|| {
        // Inlined calls and calls with custom rules are replaced by bodies before most traversals; other traversals
        // treat them like outlined calls. So a thousand levels suffice for these two kinds.
        for ((how, call), depth) in CALLS.iter().zip([DEEPEST_CALL, 1000, 1000]) {
            for (name, walk) in Sweep::Depth.all(WALKS) {
                let mut m = Module::new();
                let f = chain(&mut m, depth, *call, Scalar::Neg).unwrap();
                assert_eq!(m.depth(f), depth);
                walk(&mut m, f).unwrap_or_else(|e| panic!("{how}, {name}: {e}"));
            }
        }
    });
}

/// Pruning at the deepest nesting must remove the unread second result of every called function.
#[test]
fn pruning_survives_the_deepest_calls() {
    on_a_small_stack(|| {
        let mut m = Module::new();
        let mut f = None;
        for i in 0..=DEEPEST_CALL {
            let mut draft = Draft::new(format!("f{i}"));
            let x = draft.param(Type::scalar(Dtype::F64));
            let b = Builder::new(&mut m, &mut draft);
            let y = match f {
                None => b.emit1(Scalar::Sin, &[x]),
                Some(function) => b.emit(Call::outline(function), &[x])[0],
            };
            let other = b.emit1(Scalar::Exp, &[y]);
            f = Some(draft.finish(&mut m, vec![y, other]).unwrap());
        }
        let of = transforms::prune(&mut m, f.unwrap(), &[true, false]).unwrap();
        let depths = std::iter::successors(Some(of.function), |f| {
            m.function(*f).equations[0].op.regions().first().map(|r| r.function)
        });
        let mut lengths = depths.map(|f| m.function(f).equations.len());
        assert!(lengths.all(|n| n == 1));
        assert_eq!(m.depth(of.function), DEEPEST_CALL);
    });
}

/// Traversals of nested calls that save residuals. A callee's residuals are also residuals of all its callers: with n
/// levels that save two residuals each, n (n - 1) residuals are passed on. So the chains here are shorter.
#[test]
fn every_walk_survives_deep_calls_that_keep_values() {
    on_a_small_stack(|| {
        for (how, call) in CALLS {
            for (name, walk) in WALKS {
                let mut m = Module::new();
                let f = chain(&mut m, 100, *call, Scalar::Sin).unwrap();
                walk(&mut m, f).unwrap_or_else(|e| panic!("{how}, {name}: {e}"));
            }
        }
    });
}

#[test]
fn deeper_calls_are_refused() {
    let too_deep = |problem: &Problem| {
        assert_eq!(problem.kind, Kind::TooLarge, "{problem}");
        let depth = format!("nest {} deep, more than {DEEPEST_CALL}", DEEPEST_CALL + 1);
        assert!(problem.message.contains(&depth), "{problem}");
    };
    on_a_small_stack(move || {
        let outlined = CALLS[0].1;
        for (_, call) in CALLS {
            let mut m = Module::new();
            too_deep(&chain(&mut m, 1_000_000, *call, Scalar::Sin).unwrap_err());
        }
        let mut m = Module::new();
        let f = chain(&mut m, DEEPEST_CALL, outlined, Scalar::Sin).unwrap();
        let mut text = print_function(&m, f);
        for i in DEEPEST_CALL..2 * DEEPEST_CALL {
            text += &format!(
                "\nfunc @f{}(%0: f64[]) -> (f64[]) {{\n  %1: f64[] = \
                 call{{function=@f{i}, outline=true}} %0\n  return %1\n}}\n",
                i + 1
            );
        }
        too_deep(&parse_module(&text).unwrap_err()[0].problem);
    });
}

/// Functions traced earlier may call each other more deeply than closures can nest. Compiled code calls them on the
/// stack: 450 levels must run, and 510 must be refused with an error that names the limit of 500.
#[test]
fn compiled_calls_are_as_deep_as_the_stack_holds() {
    let chain = |n: usize| {
        move |x: Var| {
            let (mut f, mut y): (Rc<dyn Fn(Var) -> Var>, Var) = (Rc::new(|x: Var| x.sin()), x);
            for _ in 0..n {
                let before = f;
                f = Rc::new(outline(move |x: Var| before((x.sin() * x.cos() + x).tanh()) * 0.5));
                y = f(y);
            }
            y
        }
    };
    on_a_small_stack(move || {
        let deep = run(chain(450), 0.3).unwrap().item::<f64>().unwrap();
        let step = |x: f64| (x.sin() * x.cos() + x).tanh();
        let by_hand =
            (1..=450).fold(0.3, |y, n: i32| (0..n).fold(y, |x, _| step(x)).sin() * 0.5_f64.powi(n));
        assert!((deep - by_hand).abs() <= 1e-12 * by_hand.abs(), "{deep} {by_hand}");
        let error = run(chain(510), 0.3).unwrap_err();
        assert_eq!(error.kind(), Kind::TooLarge, "{error}");
        let error = error.to_string();
        assert!(error.contains(" deep, more than 500"), "{error}");
        assert!(error.contains(file!()), "{error}");
    });
}

type Closure = Box<dyn Fn(Var) -> Var>;

/// Runs a closure under a transform or on an engine.
type Run = fn(Closure) -> Result<Tensor, Error>;

fn nested(depth: usize, wrap: fn(Closure) -> Closure) -> Closure {
    (0..depth).fold(Box::new(|x: Var| x.sin()), |f, _| wrap(f))
}

/// Closures nested by a transform: 5 levels below the limit `DEEPEST_CLOSURE` they must run, and 2,000 levels must be
/// refused at the user's line.
#[test]
fn nested_closures() {
    const WRAPS: &[fn(Closure) -> Closure] = &[
        |f| Box::new(outline(f)),
        |f| {
            let f = vmap(f);
            Box::new(move |x: Var| f(x.expand_dims(0)).squeeze(0))
        },
        |f| {
            let f = jit(f);
            Box::new(move |x| f.apply(x))
        },
        |f| Box::new(custom_jvp(f, |x: Var, dx: Var| (x.sin(), dx * x.cos()))),
        |f| Box::new(move |x| value_and_grad(&f)(x).0),
    ];
    for (i, wrap) in WRAPS.iter().enumerate() {
        on_a_small_stack(move || {
            let runs: &[Run] = &[
                |f| run(f, 1.0),
                |f| run(grad(f), 1.0),
                |f| run(jvp(f), (1.0, 1.0)).map(|(_, dy)| dy),
                |f| run(vmap(f), [1.0, 2.0]),
                |f| jit(f).interpreted().call(1.0),
            ];
            for (k, run) in runs.iter().enumerate() {
                if i < 3 {
                    run(nested(DEEPEST_CLOSURE - 5, *wrap)).unwrap();
                }
                let error = run(nested(2_000, *wrap)).unwrap_err();
                assert_eq!(error.kind(), Kind::TooLarge, "{i} {k}: {error}");
                assert!(error.to_string().contains(" deep, more than 100"), "{error}");
                assert!(error.to_string().contains(file!()), "{error}");
            }
        });
    }
}

/// A trace that was refused for its depth must not affect the trace that encloses it.
#[test]
fn the_next_trace_begins_afresh() {
    let f = jit(|x: Var| {
        let inner = jit(nested(500, |f| Box::new(outline(f))));
        assert!(inner.call(1.0).is_err());
        x * x
    });
    assert_eq!(f.call(3.0).unwrap(), Tensor::from(9.0));
}
