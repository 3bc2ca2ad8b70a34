//! Lines of errors: every public function that takes a closure or a tree is called with wrong arguments, and each
//! error must be at a line of the call.
//!
//! A call with a closure of the wrong shape, or with trees that do not fit, must fail. A call with integers, or with a
//! value that has escaped from its trace, may succeed. The list of functions is read from the source: each public
//! function with a closure or a tree in its signature must have a call here or an entry in [`NOTHING_IS_WRONG`].
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::cell::Cell;
use std::panic::Location;
use std::path::{Path, PathBuf};
use tapeloom::optim::Optimizer;
use tapeloom::prelude::*;
use tapeloom::{ArrayType, Error};

type Two = (Var, Var);

/// Functions that accept every closure or tree, with the reason why no call of them can be wrong.
const NOTHING_IS_WRONG: &[(&str, &str)] = &[
    ("complex::shape::map", "only the closure can be wrong, at its own lines"),
    ("host_calls::see::debug_print", "any tree is printed"),
    ("host_calls::see::tap", "any tree is seen"),
    ("implicit::krylov::mod::precondition", "the map runs in `cg_with`, which has a call"),
    ("jit::mod::jit", "the closure runs in `call`, as in `run`, which has a call"),
    ("files::arrays::of", "any tree has paths"),
    ("files::arrays::renamed", "only the closure can be wrong, at its own lines"),
    ("tree::map::ones_like", "any tree has ones"),
    ("tree::map::tree_leaves", "any tree has leaves"),
    ("tree::map::tree_map", "only the closure can be wrong, at its own lines"),
    ("tree::map::tree_paths", "any tree has paths"),
    ("tree::map::zeros_like", "any tree has zeros"),
    ("tree::mod::with_segment", "derived code calls it"),
    (
        "transform::vectorize::axes_of_struct",
        "derived code calls it, and gives its errors to `vmap_axes`",
    ),
];

/// Whether this build has files of tensors. The tests of the workspace have them, and those of this crate alone do not.
const WITH_FILES: bool = cfg!(all(feature = "npz", feature = "safetensors"));

/// A call, with the error that it returned.
struct Call {
    name: &'static str,
    at: &'static Location<'static>,
    error: Option<Error>,
}

#[derive(Default)]
struct Calls(Vec<Call>);

impl Calls {
    /// Runs a call that must fail.
    #[track_caller]
    fn wrong<T>(&mut self, name: &'static str, call: impl FnOnce() -> Result<T, Error>) {
        let at = Location::caller();
        let error = call().err();
        assert!(error.is_some(), "{name} at {at} is wrong, and passes");
        self.0.push(Call { name, at, error });
    }

    /// Runs a call to which some functions give an error and others do not, and notes the error if there is one.
    #[track_caller]
    fn may<T>(&mut self, name: &'static str, call: impl FnOnce() -> Result<T, Error>) {
        self.0.push(Call { name, at: Location::caller(), error: call().err() });
    }

    /// Returns a message for each call with an error at a line outside of the call, or with more than four errors.
    fn misplaced(&self) -> Vec<String> {
        let lines: Vec<u32> = self.0.iter().map(|call| call.at.line()).collect();
        let mut wrong = Vec::new();
        for (i, Call { name, at, error }) in self.0.iter().enumerate() {
            let Some(error) = error else { continue };
            let end = lines.get(i + 1).filter(|next| **next > at.line()).copied();
            let lines = at.line()..end.unwrap_or(at.line() + 25);
            let is_own = |at: Option<&Location<'_>>| {
                at.is_some_and(|at| at.file() == file!() && lines.contains(&at.line()))
            };
            if let Some(d) = error.diagnostics().iter().find(|d| !is_own(d.at)) {
                wrong.push(format!("{name} at {at}: not its line\n{d}"));
            }
            if error.diagnostics().len() > 4 {
                wrong
                    .push(format!("{name} at {at}: {} errors\n{error}", error.diagnostics().len()));
            }
        }
        wrong
    }
}

/// Returns a value of a trace that has ended.
fn escaped() -> Var {
    let kept = Cell::new(None);
    run(
        |x: Var| {
            kept.set(Some(x.sin()));
            x
        },
        [1.0, 2.0],
    )
    .unwrap();
    kept.get().unwrap()
}

fn two() -> Tensor {
    Tensor::from([1.0, 2.0])
}

fn whole() -> Tensor {
    Tensor::from([1i64, 2])
}

fn three() -> Var {
    constant([1.0, 2.0, 3.0])
}

/// Returns an array with twice as many elements.
fn longer(x: Var) -> Var {
    let flat = x.flatten();
    concat(&[flat, flat], 0)
}

#[test]
fn errors_are_at_the_line_of_the_call() {
    let mut calls = Calls::default();
    transforms(&mut calls);
    rules(&mut calls);
    control(&mut calls);
    equations(&mut calls);
    optimizers(&mut calls);
    trees(&mut calls);
    #[cfg(all(feature = "npz", feature = "safetensors"))]
    files_of_trees(&mut calls);
    #[cfg(feature = "stablehlo")]
    shardings(&mut calls);
    #[cfg(feature = "xla")]
    calls
        .wrong("xla::download", || tapeloom::xla::download(&tapeloom::xla::DeviceArray::missing()));
    boundary(&mut calls);
    let wrong = calls.misplaced();
    assert!(
        wrong.is_empty(),
        "{} of {} calls:\n\n{}",
        wrong.len(),
        calls.0.len(),
        wrong.join("\n\n")
    );

    let called: Vec<&str> = calls.0.iter().map(|call| call.name).collect();
    let known =
        |name: &str| called.contains(&name) || NOTHING_IS_WRONG.iter().any(|(n, _)| *n == name);
    let public = public();
    let new: Vec<&String> = public.iter().filter(|name| !known(name)).collect();
    assert!(new.is_empty(), "public functions without a call that is wrong: {new:?}");
    // Functions of files need features that tests of this crate alone do not enable, so leave them out there.
    let fine = NOTHING_IS_WRONG.iter().map(|(name, _)| *name);
    let fine = fine.filter(|name| WITH_FILES || !name.starts_with("files::"));
    let all = called.into_iter().chain(fine);
    let gone: Vec<&str> = all.filter(|name| !public.iter().any(|p| p == name)).collect();
    assert!(gone.is_empty(), "calls of functions that are not there: {gone:?}");
}

fn transforms(calls: &mut Calls) {
    calls.wrong("transform::outline::outline", || run(outline(|x: Var| x + three()), two()));
    calls.may("transform::outline::outline", || run(outline(|x: Var| x + 1.0), whole()));
    calls.wrong("transform::forward::jvp", || run(|x: Var| jvp(longer)((x, three())), two()));
    calls.may("transform::forward::jvp", || run(|x: Var| jvp(longer)((x, x)), whole()));
    calls.wrong("transform::forward::linearize", || {
        run(|x: Var| linearize(longer)(x).1(three()), two())
    });
    calls.may("transform::forward::linearize", || run(|x: Var| linearize(longer)(x).1(x), whole()));
    calls.wrong("transform::gradient::grad", || run(grad(longer), two()));
    calls.may("transform::gradient::grad", || run(grad(|x: Var| x.sum()), whole()));
    calls.wrong("transform::gradient::value_and_grad", || run(value_and_grad(longer), two()));
    calls.may("transform::gradient::value_and_grad", || {
        run(value_and_grad(|x: Var| x.sum()), whole())
    });
    calls.wrong("transform::gradient::grad_aux", || run(grad_aux(|x: Var| (x, x)), two()));
    calls.may("transform::gradient::grad_aux", || run(grad_aux(|x: Var| (x.sum(), x)), whole()));
    calls.wrong("transform::gradient::value_and_grad_aux", || {
        run(value_and_grad_aux(|x: Var| (x, x)), two())
    });
    calls.may("transform::gradient::value_and_grad_aux", || {
        run(value_and_grad_aux(|x: Var| (x.sum(), x)), whole())
    });
    calls.wrong("transform::checkpoint::checkpoint", || {
        run(grad(checkpoint(longer, Policy::Nothing)), two())
    });
    calls.may("transform::checkpoint::checkpoint", || {
        run(checkpoint(longer, Policy::Nothing), whole())
    });
    calls.wrong("transform::checkpoint::checkpoint_carries", || {
        run(checkpoint_carries(0, 0, longer), two())
    });
    calls.may("transform::checkpoint::checkpoint_carries", || {
        run(checkpoint_carries(1, 1, longer), whole())
    });
    calls.wrong("transform::reverse::vjp", || run(|x: Var| vjp(longer)(x).1(three()), two()));
    calls.may("transform::reverse::vjp", || run(|x: Var| vjp(longer)(x).1(x), whole()));
    calls.wrong("transform::reverse::linear_transpose", || {
        run(|x: Var| linear_transpose(longer, x)(three()), two())
    });
    calls.may("transform::reverse::linear_transpose", || {
        run(|x: Var| linear_transpose(longer, x)(longer(x)), whole())
    });
    calls.wrong("transform::jacobian::jacfwd", || run(jacfwd(|x: Var| x.gt(0.0)), two()));
    calls.may("transform::jacobian::jacfwd", || run(jacfwd(longer), whole()));
    calls.wrong("transform::jacobian::jacrev", || run(jacrev(|x: Var| x.gt(0.0)), two()));
    calls.may("transform::jacobian::jacrev", || run(jacrev(longer), whole()));
    calls.wrong("transform::jacobian::hessian", || run(hessian(longer), two()));
    calls.may("transform::jacobian::hessian", || run(hessian(|x: Var| x.sum()), whole()));
    calls.wrong("transform::jacobian::hvp", || run(|x: Var| hvp(longer)((x, x)), two()));
    calls.wrong("transform::jacobian::hvp", || {
        run(|x: Var| hvp(|x: Var| x.sum())((x, three())), two())
    });
    calls.may("transform::jacobian::hvp", || run(|x: Var| hvp(|x: Var| x.sum())((x, x)), whole()));
    calls.wrong("transform::vectorize::vmap", || {
        run(|x: Var| vmap(|(x, y): Two| x + y)((x, three())), two())
    });
    calls.may("transform::vectorize::vmap", || run(vmap(|x: Var| x + 1i64), whole()));
    calls.wrong("transform::vectorize::vmap_axes", || run(vmap_axes(3, 0, |x: Var| x), two()));
    calls.may("transform::vectorize::vmap_axes", || run(vmap_axes(0, 0, |x: Var| x), whole()));
    calls.wrong("define_by_run::mod::recorded_vjp", || {
        run(|x: Var| recorded_vjp(longer)(x).1(three()), two())
    });
    calls.wrong("define_by_run::mod::recorded_vjp", || {
        record(|x: Var| recorded_vjp(longer)(x).1(three()), two())
    });
    calls.may("define_by_run::mod::recorded_vjp", || {
        record(|x: Var| recorded_vjp(longer)(x).1(x), whole())
    });
}

fn rules(calls: &mut Calls) {
    let twice = |x: Var| x * 2.0;
    calls.wrong("transform::custom::custom_jvp", || {
        run(grad(|x: Var| custom_jvp(twice, |x: Var, dx: Var| (x, longer(dx)))(x).sum()), two())
    });
    calls.may("transform::custom::custom_jvp", || {
        run(|x: Var| custom_jvp(longer, |x: Var, dx: Var| (longer(x), dx))(x), whole())
    });
    calls.wrong("transform::custom::custom_vjp", || {
        run(
            grad(|x: Var| {
                custom_vjp(twice, |x: Var| (x, x), |_: Var, ct: Var| longer(ct))(x).sum()
            }),
            two(),
        )
    });
    calls.may("transform::custom::custom_vjp", || {
        run(|x: Var| custom_vjp(longer, |x: Var| (longer(x), x), |_: Var, ct: Var| ct)(x), whole())
    });
    calls.wrong("transform::custom::custom_rules", || {
        run(
            |x: Var| {
                custom_rules(
                    twice,
                    |x: Var, dx: Var| (x, dx),
                    |x: Var| (longer(x), x),
                    |_: Var, ct: Var| ct,
                )(x)
            },
            two(),
        )
    });
    calls.may("transform::custom::custom_rules", || {
        run(
            |x: Var| {
                custom_rules(
                    longer,
                    |x: Var, dx: Var| (longer(x), dx),
                    |x: Var| (longer(x), x),
                    |_: Var, ct: Var| ct,
                )(x)
            },
            whole(),
        )
    });
    calls.wrong("host_calls::callback::callback", || {
        run(|x: Var| callback("f", x, x.array_type(), |_: Tensor| Ok(Tensor::from(1.0))), two())
    });
    calls.may("host_calls::callback::callback", || {
        run(|x: Var| callback("f", x, x.array_type(), |x: Tensor| Ok(x)), whole())
    });
    calls.wrong("host_calls::callback::callback_batched", || {
        let f = |x: Var| {
            callback_batched(
                "f",
                x,
                x.array_type(),
                |x: Tensor| Ok(x),
                |_, _: Tensor| Ok(Tensor::from(1.0)),
            )
        };
        run(vmap(f), two())
    });
    calls.wrong("host_calls::see::tap_cotangent", || {
        run(|x: Var| tap_cotangent(x + three(), |_| {}), two())
    });
    calls.may("host_calls::see::tap_cotangent", || run(|x: Var| tap_cotangent(x, |_| {}), whole()));
    calls.wrong("check::check_grads", || check_grads(|x: Var| x + three(), two(), 1));
    calls.wrong("check::check_grads", || check_grads(longer, whole(), 1));
    calls.wrong("check::check_rule", || check_rule(twice, longer, two()));
    calls.wrong("check::check_rule", || check_rule(longer, longer, whole()));
}

fn control(calls: &mut Calls) {
    calls.wrong("control::prefixes::associative_scan", || {
        run(|x: Var| associative_scan(|(x, y): Two| longer(x + y), x), two())
    });
    calls.may("control::prefixes::associative_scan", || {
        run(|x: Var| associative_scan(|(x, y): Two| x + y, x), whole())
    });
    calls.wrong("control::branch::cond", || {
        run(|x: Var| cond(x.sum().gt(0.0), longer, |x: Var| x, x), two())
    });
    calls.wrong("control::branch::cond", || {
        run(|x: Var| cond(x, |x: Var| x, |x: Var| x, x), whole())
    });
    calls.wrong("control::branch::switch", || {
        run(|x: Var| switch(constant(0i64), [&longer, &|x: Var| x], x), two())
    });
    calls.wrong("control::branch::switch", || {
        run(|x: Var| switch(x, [&|x: Var| x, &|x: Var| x], x), two())
    });
    calls.wrong("control::loops::scan", || {
        run(|x: Var| scan(|(s, x): Two| (longer(s), x), x, x), two())
    });
    calls.may("control::loops::scan", || {
        run(|x: Var| scan(|(s, x): Two| (s + x, x), constant(0.0), x), whole())
    });
    calls.wrong("control::loops::scan_reverse", || {
        run(|x: Var| scan_reverse(|(s, x): Two| (longer(s), x), x, x), two())
    });
    calls.may("control::loops::scan_reverse", || {
        run(|x: Var| scan_reverse(|(s, x): Two| (s + x, x), constant(0.0), x), whole())
    });
    calls.wrong("control::loops::map", || {
        run(|x: Var| map(|(x, y): Two| x + y, (x, three())), two())
    });
    calls.may("control::loops::map", || run(|x: Var| map(|x: Var| x + 1.0, x), whole()));
    calls.wrong("control::loops::fori_loop", || {
        run(|x: Var| fori_loop(3, |(_, x): Two| longer(x), x), two())
    });
    calls.may("control::loops::fori_loop", || {
        run(|x: Var| fori_loop(3, |(_, x): Two| x * 0.5, x), whole())
    });
    calls.wrong("control::loops::while_loop", || {
        run(|x: Var| while_loop(|x: Var| x, longer, x), two())
    });
    calls.wrong("control::loops::while_loop", || {
        run(|x: Var| while_loop(|x: Var| x.sum().lt(9i64), longer, x), whole())
    });
    calls.wrong("conv::pool::reduce_window", || {
        run(
            |x: Var| conv::reduce_window(x, conv::windows([2]), 0.0, |x, _| longer(stack(&[x], 0))),
            two(),
        )
    });
    calls.wrong("conv::pool::reduce_window", || {
        run(|x: Var| conv::reduce_window(x, conv::windows([2]), 0.0, |_, _| escaped()), two())
    });
    calls.wrong("conv::pool::reduce_window", || {
        run(|_: Var| conv::reduce_window(escaped(), conv::windows([2]), 0.0, |x, y| x + y), two())
    });
    calls.wrong("conv::pool::reduce_window", || {
        let many = |x: Var| conv::reduce_window(x, conv::windows([20]), 0.0, |_, _| escaped());
        run(many, Tensor::full(&[30], 1.0)?)
    });
    calls.may("conv::pool::reduce_window", || {
        run(|x: Var| conv::reduce_window(x, conv::windows([2]), 0.5, |x, y| x + y), whole())
    });
    calls.wrong("state::mod::update", || run(|x: Var| Ref::new(x).update(longer), two()));
    calls.wrong("state::mod::update", || run(|x: Var| Ref::new(x).update(|x| x * 0.5), whole()));
    let square = || Tensor::from([[2.0, 1.0], [1.0, 3.0]]);
    let integers = || Tensor::from([[2i64, 1], [1, 3]]);
    calls.wrong("linalg::spectral::mod::matrix_function", || {
        run(|a: Var| linalg::matrix_function(a, longer), square())
    });
    calls.wrong("linalg::spectral::mod::matrix_function", || {
        run(|a: Var| linalg::matrix_function(a, |x: Var| x), integers())
    });
    calls.wrong("linalg::spectral::mod::spectral_sum", || {
        run(|a: Var| linalg::spectral_sum(a, longer), square())
    });
    calls.wrong("linalg::spectral::mod::spectral_sum", || {
        run(|a: Var| linalg::spectral_sum(a, |x: Var| x), integers())
    });
    calls.wrong("quadrature::mod::quad", || {
        run(|x: Var| quad(|t: Var| t * x, (0.0, three()), Precision::default()), two())
    });
    calls.wrong("quadrature::mod::quad", || {
        run(|_: Var| quad(|t: Var| t.gt(0.0), (0.0, 1.0), Precision::default()), two())
    });
    calls.wrong("quadrature::mod::quad", || {
        run(|n: Var| quad(|t: Var| t, (n.index(0), n.index(1)), Precision::default()), whole())
    });
}

fn equations(calls: &mut Calls) {
    let until = Until::default;
    calls.wrong("implicit::krylov::mod::cg", || run(|b: Var| cg(longer, b, until()), two()));
    calls.wrong("implicit::krylov::mod::cg", || run(|b: Var| cg(|x: Var| x, b, until()), whole()));
    calls.wrong("implicit::krylov::mod::cg_with", || {
        run(|b: Var| cg_with(|x: Var| x, b, Krylov::new().precondition(longer)), two())
    });
    calls.wrong("implicit::krylov::mod::cg_with", || {
        run(|b: Var| cg_with(|x: Var| x, b, Krylov::new().start(three())), two())
    });
    calls.wrong("implicit::krylov::mod::cg_with", || {
        run(|b: Var| cg_with(|x: Var| x, b, Krylov::new()), whole())
    });
    calls.wrong("implicit::krylov::mod::gmres", || run(|b: Var| gmres(longer, b, until()), two()));
    calls.wrong("implicit::krylov::mod::gmres", || {
        run(|b: Var| gmres(|x: Var| x, b, until()), whole())
    });
    calls.wrong("implicit::krylov::mod::gmres_with", || {
        run(|b: Var| gmres_with(|x: Var| x, b, Krylov::new().precondition(longer)), two())
    });
    calls.wrong("implicit::krylov::mod::gmres_with", || {
        run(|b: Var| gmres_with(|x: Var| x, b, Krylov::new()), whole())
    });
    calls.wrong("implicit::krylov::mod::bicgstab", || {
        run(|b: Var| bicgstab(longer, b, until()), two())
    });
    calls.wrong("implicit::krylov::mod::bicgstab", || {
        run(|b: Var| bicgstab(|x: Var| x, b, until()), whole())
    });
    calls.wrong("implicit::krylov::mod::bicgstab_with", || {
        run(|b: Var| bicgstab_with(|x: Var| x, b, Krylov::new().precondition(longer)), two())
    });
    calls.wrong("implicit::krylov::mod::bicgstab_with", || {
        run(|b: Var| bicgstab_with(|x: Var| x, b, Krylov::new()), whole())
    });
    calls.wrong("implicit::bracket::root_between", || {
        run(|_: Var| root_between(|x: Var| longer(stack(&[x], 0)), 0.0, 1.0), two())
    });
    calls.wrong("implicit::bracket::root_between", || {
        run(|n: Var| root_between(|x: Var| x - 1i64, n.index(0), n.index(1)), whole())
    });
    calls.wrong("implicit::mod::custom_linear_solve", || {
        run(|b: Var| custom_linear_solve(longer, b, |_, b| b), two())
    });
    calls.wrong("implicit::mod::custom_linear_solve", || {
        run(|b: Var| custom_linear_solve(|x: Var| x, b, |_, b| b), whole())
    });
    calls.wrong("implicit::mod::custom_linear_solve_with", || {
        run(|b: Var| custom_linear_solve_with(|x: Var| x, b, longer, |b| b), two())
    });
    calls.wrong("implicit::mod::custom_linear_solve_with", || {
        run(|b: Var| custom_linear_solve_with(|x: Var| x, b, |b| b, |b| b), whole())
    });
    calls.wrong("implicit::mod::custom_root", || {
        run(|x: Var| custom_root(longer, x, |_, x| x, |_, b| b), two())
    });
    calls.wrong("implicit::mod::custom_root", || {
        run(|x: Var| custom_root(|x: Var| x, x, |_, x| x, |_, b| b), whole())
    });
    calls.wrong("implicit::mod::fixed_point", || {
        run(|x: Var| fixed_point(|x: Two| x, (x, x.convert(Dtype::F32))), two())
    });
    calls.wrong("implicit::mod::fixed_point", || run(|x: Var| fixed_point(longer, x), two()));
    calls.wrong("implicit::mod::fixed_point", || {
        run(|x: Var| fixed_point(|x: Vec<Var>| x[1..].to_vec(), vec![x, x]), two())
    });
    calls.wrong("implicit::mod::fixed_point", || run(|x: Var| fixed_point(|x: Var| x, x), whole()));
    let times = || linspace(0.0, 1.0, 3, Dtype::F64);
    let keep = |(_, y): Two| y;
    let grown = |(_, y): Two| longer(y);
    let event = |(_, y): Two| y.sum();
    calls.wrong("ode::solver::solve", || {
        run(|y: Var| ode::dopri5().solve(grown, y, times()), two())
    });
    calls.wrong("ode::solver::solve", || {
        run(|y: Var| ode::rodas5p().solve(grown, y, times()), two())
    });
    calls.wrong("ode::solver::solve", || {
        run(|y: Var| ode::dopri5().solve(keep, y, times()), whole())
    });
    calls.wrong("ode::solver::solve", || {
        run(|y: Var| ode::dopri5().rtol(-1e-3).solve(keep, y, times()), two())
    });
    calls.wrong("ode::solver::solve_until", || {
        run(|y: Var| ode::dopri5().solve_until(grown, event, y, times()), two())
    });
    calls.wrong("ode::solver::solve_until", || {
        run(|y: Var| ode::dopri5().solve_until(keep, keep, y, times()), two())
    });
    calls.wrong("ode::solver::solve_until", || {
        run(|y: Var| ode::dopri5().solve_until(keep, event, y, times()), whole())
    });
    calls.wrong("ode::fixed::solve", || run(|y: Var| ode::rk4().solve(grown, y, times()), two()));
    calls
        .wrong("ode::fixed::solve", || run(|y: Var| ode::euler().solve(keep, y, times()), whole()));
}

fn optimizers(calls: &mut Calls) {
    let square = |x: Var| x.square().sum();
    let quarter = |x: Var| (x * x).sum();
    calls.wrong("optim::minimize::mod::minimize", || {
        run(|x: Var| optim::bfgs().minimize(longer, x), two())
    });
    calls.wrong("optim::minimize::mod::minimize", || {
        run(|x: Var| optim::bfgs().minimize(quarter, x), whole())
    });
    calls.wrong("optim::minimize::mod::minimize", || {
        run(|x: Var| optim::lbfgs(3).minimize(longer, x), two())
    });
    calls.wrong("optim::minimize::mod::minimize", || {
        run(|x: Var| optim::lbfgs(3).minimize(quarter, x), whole())
    });
    calls.wrong("optim::minimize::mod::minimize", || {
        run(|x: Var| optim::newton_cg().minimize(longer, x), two())
    });
    calls.wrong("optim::minimize::mod::minimize", || {
        run(|x: Var| optim::newton_cg().minimize(quarter, x), whole())
    });
    let fit = || optim::levenberg_marquardt();
    calls.wrong("optim::minimize::levenberg_marquardt::minimize_squares", || {
        run(|x: Var| fit().minimize_squares(|x: Var| x.gt(0.0), x), two())
    });
    calls.wrong("optim::minimize::levenberg_marquardt::minimize_squares", || {
        run(|x: Var| fit().minimize_squares(|x: Var| x + three(), x), two())
    });
    calls.wrong("optim::minimize::levenberg_marquardt::minimize_squares", || {
        run(|x: Var| fit().minimize_squares(|x: Var| x * x, x), whole())
    });
    calls.wrong("optim::minimize::curve_fit::curve_fit", || {
        run(|x: Var| optim::curve_fit(|(p, x): (Var, Var)| p * x, three(), x, x).fit().0, two())
    });
    calls.wrong("optim::minimize::curve_fit::curve_fit", || {
        run(|x: Var| optim::curve_fit(|(p, x): (Var, Var)| p * x, x, x, x).fit().0, whole())
    });
    calls.wrong("optim::minimize::curve_fit::curve_fit", || {
        run(
            |x: Var| {
                optim::curve_fit(|(p, x): (Var, Var)| p * x, x, x, x).bounds(x, three()).fit().0
            },
            two(),
        )
    });
    calls.wrong("optim::minimize::curve_fit::parameter_covariance", || {
        run(|x: Var| optim::parameter_covariance(|x: Var| x + three(), x), two())
    });
    calls.wrong("optim::minimize::curve_fit::parameter_covariance", || {
        run(|x: Var| optim::parameter_covariance(|x: Var| x.gt(0.0), x), two())
    });
    calls.wrong("optim::minimize::lbfgs::start", || {
        run(|x: Var| optim::lbfgs(3).start(&(x, x.gt(0.0))), two())
    });
    calls.wrong("optim::minimize::lbfgs::start", || {
        run(|x: Var| optim::lbfgs(3).start(&x), whole())
    });
    calls.wrong("optim::minimize::lbfgs::step", || {
        run(|x: Var| optim::lbfgs(3).step(longer, &x, &optim::lbfgs(3).start(&x)), two())
    });
    calls.wrong("optim::minimize::lbfgs::step", || {
        run(|x: Var| optim::lbfgs(3).step(square, &three(), &optim::lbfgs(3).start(&x)), two())
    });
    calls.wrong("optim::minimize::lbfgs::step", || {
        run(
            |x: Var| {
                optim::lbfgs(3).step(quarter, &x, &optim::lbfgs(3).start(&constant([1.0, 2.0])))
            },
            whole(),
        )
    });
    calls.wrong("optim::number::schedule", || {
        run(
            |x: Var| {
                optim::sgd(optim::schedule(|_| three())).step(&x, &optim::sgd(0.1).init(&x), &x)
            },
            two(),
        )
    });
    /// Adds calls of an optimiser: a gradient of another shape, and integers.
    macro_rules! steps {
        ($($kind:literal $method:expr;)*) => {$(
            calls.wrong(concat!("optim::Optimizer for ", $kind), || run(|x: Var| { let m = $method; m.step(&three(), &m.init(&x), &x) }, two()));
            calls.wrong(concat!("optim::Optimizer for ", $kind), || run(|x: Var| { let m = $method; m.step(&x, &m.init(&x), &x) }, whole()));
            calls.wrong(concat!("optim::Optimizer for ", $kind), || run(|x: Var| { let m = $method; m.update(&x, &m.init(&x), &x) }, whole()));
        )*};
    }
    steps! {
        "Adam" optim::adam(0.1);
        "Adam" optim::lamb(0.1, 0.1);
        "Sgd" optim::sgd(0.1).momentum(0.9);
        "Rmsprop" optim::rmsprop(0.1);
        "Adagrad" optim::adagrad(0.1);
        "Lion" optim::lion(0.1, 0.1);
        "ClipByGlobalNorm" optim::clip_by_global_norm(1.0);
        "Clip" optim::clip(1.0);
        "DecayWeights" optim::decay_weights(0.1);
        "Scale" optim::scale(0.1);
        "Ema" optim::ema(0.9);
        "Accumulate" optim::accumulate(2, optim::adam(0.1));
        "($($O,)+)" (optim::clip(1.0), optim::sgd(0.1));
    }
}

fn trees(calls: &mut Calls) {
    let ema = optim::ema(0.9);
    calls
        .wrong("optim::parts::average", || run(|x: Var| ema.average(&x, &ema.init(&x)).0, whole()));
    let add = |x: Var, y: Var| x + y;
    calls.wrong("tree::ravel::ravel", || run(|x: Var| ravel(&(x, x.gt(0.0))).0, two()));
    calls.wrong("tree::ravel::ravel", || run(|x: Var| ravel(&x).1(three()), two()));
    calls.may("tree::ravel::ravel", || run(|x: Var| ravel(&(x, x)).1(x), whole()));
    calls.wrong("tree::ravel::ravel_tensors", || ravel_tensors(&(two(), whole())).map(|(x, _)| x));
    calls.wrong("tree::ravel::ravel_tensors", || ravel_tensors(&two())?.1(&whole()));
    calls.wrong("tree::map::tree_map2", || {
        run(|x: Var| tree_map2(add, &vec![x, x], &vec![x]), two())
    });
    calls.may("tree::map::tree_map2", || run(|x: Var| tree_map2(add, &x, &x), whole()));
    calls.wrong("tree::map::tree_map3", || {
        run(|x: Var| tree_map3(|x, y, z| x + y + z, &vec![x, x], &vec![x], &vec![x, x]), two())
    });
    calls.wrong("tree::map::tree_sum", || run(|x: Var| tree_sum(&(x, x.gt(0.0))), two()));
    calls.may("tree::map::tree_sum", || run(|x: Var| tree_sum(&(x, x)), whole()));
    calls.wrong("tree::map::tree_dot", || run(|x: Var| tree_dot(&x, &three()), two()));
    calls.wrong("tree::map::tree_dot", || run(|x: Var| tree_dot(&vec![x, x], &vec![x]), two()));
    calls.may("tree::map::tree_dot", || run(|x: Var| tree_dot(&x, &x), whole()));
    calls.wrong("tree::map::global_norm", || run(|x: Var| global_norm(&(x, x.gt(0.0))), two()));
    calls.may("tree::map::global_norm", || run(|x: Var| global_norm(&x), whole()));
    calls.wrong("tree::map::clip_by_global_norm", || {
        run(|x: Var| clip_by_global_norm(&(x, x.gt(0.0)), 1.0), two())
    });
    calls.wrong("tree::map::clip_by_global_norm", || {
        run(|x: Var| clip_by_global_norm(&x, three()), two())
    });
    calls.may("tree::map::clip_by_global_norm", || {
        run(|x: Var| clip_by_global_norm(&x, 1.0), whole())
    });
}

#[cfg(all(feature = "npz", feature = "safetensors"))]
fn files_of_trees(calls: &mut Calls) {
    use tapeloom::files::{self, Arrays};
    let folder = std::env::temp_dir().join("no-such-folder-of-tapeloom");
    calls.wrong("files::arrays::tree", || Arrays::of(&two()).tree(&(two(), whole())));
    calls.wrong("files::safetensors::save_safetensors", || {
        files::save_safetensors(folder.join("x"), &two())
    });
    calls.wrong("files::safetensors::load_safetensors", || {
        files::load_safetensors(folder.join("x"), &two())
    });
    calls.wrong("files::npz::save_npz", || files::save_npz(folder.join("x"), &two()));
    calls.wrong("files::npz::load_npz", || files::load_npz(folder.join("x"), &two()));
}

#[cfg(feature = "stablehlo")]
fn shardings(calls: &mut Calls) {
    let spec = || tapeloom::PartitionSpec::new(["data"]);
    calls.wrong("jit::mod::argument_shardings", || {
        jit(|x: Var| x + 1.0).argument_shardings(spec()).stablehlo(two())
    });
    calls.wrong("jit::mod::result_shardings", || {
        jit(|x: Var| x + 1.0).result_shardings(spec()).stablehlo(two())
    });
}

fn boundary(calls: &mut Calls) {
    calls.wrong("jit::mod::run", || run(|x: Var| x + three(), two()));
    calls.wrong("jit::mod::run", || run(|_: Var| escaped(), two()));
    calls.may("jit::mod::run", || run(longer, whole()));
    let ty = || ArrayType::new(Dtype::F64, [2]);
    calls.wrong("jit::mod::eval_shape", || eval_shape(|x: Var| x + three(), two()));
    calls.may("jit::mod::eval_shape", || eval_shape(longer, whole()));
    assert_eq!(ty().shape.len(), 1);
    calls.wrong("define_by_run::tape::record", || record(|x: Var| x + three(), two()));
    calls.may("define_by_run::tape::record", || record(longer, whole()));
    calls.wrong("define_by_run::tape::record_within", || {
        record_within(10_000, |x: Var| x + three(), two())
    });
    calls.may("define_by_run::tape::record_within", || record_within(10_000, longer, whole()));
}

/// Returns the public functions with a closure or a tree in their signature, and the optimisers, by their paths in
/// the source.
fn public() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found: Vec<String> = Vec::new();
    for file in sources(&root) {
        let text = std::fs::read_to_string(&file).unwrap();
        let path = file.strip_prefix(&root).unwrap().with_extension("");
        let module = path.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("::");
        if module.starts_with("files::") && !WITH_FILES {
            continue;
        }
        for (at, _) in text.match_indices("pub fn ") {
            // Skip functions in the text of a macro: their names are not in the source.
            let begin = text[..at].rfind('\n').map_or(0, |i| i + 1);
            if !text[begin..at].trim().is_empty() {
                continue;
            }
            let rest = &text[at + "pub fn ".len()..];
            let signature = rest.split([';', '{']).next().unwrap();
            let name = rest.split(['<', '(']).next().unwrap();
            // `upload` needs a plugin. Only tests of the workspace have one, and only if the environment names it.
            if module == "xla" && (name == "upload" || cfg!(not(feature = "xla"))) {
                continue;
            }
            // Without StableHLO there is one device, and partition specs are not compared with arguments.
            if name.ends_with("_shardings") && cfg!(not(feature = "stablehlo")) {
                continue;
            }
            if ["Fn(", "FnMut(", "FnOnce(", "Function<", "Tree<"]
                .iter()
                .any(|part| signature.contains(part))
            {
                found.push(format!("{module}::{name}"));
            }
        }
        for (at, part) in text.match_indices("Optimizer<P> for ") {
            let name = text[at + part.len()..].split(['<', '{']).next().unwrap();
            found.push(format!("optim::Optimizer for {}", name.trim()));
        }
    }
    assert!(found.len() > 80, "{found:?}");
    found.sort();
    found.dedup();
    found
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(sources(&path)),
            false if path.extension().is_some_and(|e| e == "rs") => found.push(path),
            false => {}
        }
    }
    found.sort();
    found
}
