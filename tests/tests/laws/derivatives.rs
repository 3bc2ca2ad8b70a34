//! Derivatives: forward mode is compared with differences of the function, reverse mode with forward mode.
//!
//! A derivative is never compared with the formula of its rule. Second order is the same laws applied to derived
//! functions.

use crate::{for_all, subsets};
use tapeloom_ir::lang::query::Residual;
use tapeloom_ir::prim::Linearity;
use tapeloom_ir::{
    Atom, Builder, Draft, FuncId, Kind, Literal, Module, Operands, Problem, Tensor, Value,
    print_function,
};
use tapeloom_tests::calculus::{
    check_differences, check_products, finite, largest, marked, moved, precision,
};
use tapeloom_tests::{Agreement, Case, Failure, Rng, run, run_values, values};
use tapeloom_transforms::{jvp, linearize, transpose, vjp};

#[test]
fn jvp_keeps_the_value() {
    for_all(|m, case| {
        let Some(of) = existing(jvp(m, case.f, &case.floats()), case)? else { return Ok(()) };
        let dx = case.directions(&mut Rng::new(1), &case.floats());
        let out = run(m, of.function, &[&case.args[..], &dx].concat())?;
        let y = run(m, case.f, &case.args)?;
        Ok(Agreement::Exact.check_all(&out[..y.len()], &y)?)
    });
}

#[test]
fn jvp_is_the_limit_of_differences() {
    for_all(|m, case| if case.smooth { forward(m, case) } else { Ok(()) });
}

#[test]
fn reverse_is_the_transpose_of_forward() {
    for_all(reverse);
}

#[test]
fn second_order_forward() {
    for_all(|m, case| match derived(m, case)? {
        Some(Second { jvp, vjp }) => forward(m, &jvp).and_then(|()| forward(m, &vjp)),
        None => Ok(()),
    });
}

#[test]
fn second_order_reverse() {
    for_all(|m, case| match derived(m, case)? {
        Some(Second { jvp, vjp }) => reverse(m, &jvp).and_then(|()| reverse(m, &vjp)),
        None => Ok(()),
    });
}

#[test]
fn linear_primitives_are_linear_and_transpose() {
    for_all(|m, case| {
        for linear in subsets(&case.floats()) {
            linear_in(m, case, &linear).map_err(|e| format!("linear in {linear:?}: {e}"))?;
        }
        Ok(())
    });
}

/// Compares `jvp` with finite differences of the function, along a direction of all float arguments, and along
/// directions of one argument each.
fn forward(m: &mut Module, case: &Case) -> Result<(), Failure> {
    let floats = case.floats();
    for active in subsets(&floats) {
        let of = jvp(m, case.f, &active)?;
        let dx = case.directions(&mut Rng::new(2), &active);
        let mut out = run(m, of.function, &[&case.args[..], &dx].concat())?;
        let mut tangents = out.split_off(of.active_out.len()).into_iter();
        let dy: Vec<Option<Tensor>> =
            of.active_out.iter().map(|on| on.then(|| tangents.next()).flatten()).collect();
        check_differences(m, case.f, &case.args, &active, &dx, &dy).map_err(|e| {
            format!("active {active:?}, along {dx:?}: {e}\n{}", print_function(m, of.function))
        })?;
    }
    Ok(())
}

/// Compares linearize and transpose with jvp. The linear function must map the tangents dx of the arguments to the
/// tangents dy that jvp gives. Its transpose must map cotangents ct of the results to cotangents ctx of the arguments
/// with `<ct, dy> = <ctx, dx>`, for every set of results that may have a cotangent.
pub(crate) fn reverse(m: &mut Module, case: &Case) -> Result<(), Failure> {
    let floats = case.floats();
    let Some(of) = existing(linearize(m, case.f, &floats), case)? else { return Ok(()) };
    let dx_all = case.directions(&mut Rng::new(3), &floats);
    let mut y = run_values(m, of.fwd, &values(&case.args))?;
    let residuals = Residual::pick(&of.residuals, &values(&case.args), &y);
    y.truncate(of.active_out.len());
    let y = Value::arrays(&y)?;
    Agreement::Exact.check_all(&y, &run(m, case.f, &case.args)?)?;
    let at = |dx: &[Tensor]| [&residuals[..], &values(dx)].concat();
    let dy = Value::arrays(&run_values(m, of.lin, &at(&dx_all))?)?;

    let forward = jvp(m, case.f, &floats)?;
    let out = run(m, forward.function, &[&case.args[..], &dx_all].concat())?;
    if forward.active_out == of.active_out {
        let (relative, absolute) = (precision(m, case.f), 0.0);
        Agreement::Within { relative, absolute }.check_all(&dy, &out[y.len()..])?;
    }

    let mut rng = Rng::new(4);
    let cts: Vec<Tensor> = dy.iter().map(|t| rng.tensor(t.ty())).collect();
    for nonzero in subsets(&vec![true; dy.len()]) {
        let back = transpose(m, of.lin, &nonzero)?;
        let seeds: Vec<Tensor> = marked(&cts, &nonzero);
        let ctx = Value::arrays(&run_values(m, back.function, &at(&seeds))?)?;
        let (dy, dx) = (marked(&dy, &nonzero), marked(&dx_all, &back.nonzero));
        // Intermediate terms may cancel. Then the result has the rounding error of the largest term, so allow that
        // error.
        let passed = largest(m, of.lin, &at(&dx_all))? + largest(m, back.function, &at(&seeds))?;
        let slack = 1e-3 * precision(m, case.f) * passed;
        check_products(precision(m, case.f), [&seeds, &dy], [&ctx, &dx], slack).map_err(|e| {
            format!("{e}\n{}{}", print_function(m, of.lin), print_function(m, back.function))
        })?;
    }
    Ok(())
}

/// Checks the primitive's claim to be linear in the marked arguments: `f(x + 2x') = f(x) + 2 f(x')`, and, for its
/// transpose fᵀ, `<ct, f x> = <fᵀ ct, x>`. The other tests of derivatives do not try every operand as the linear one.
fn linear_in(m: &mut Module, case: &Case, linear: &[bool]) -> Result<(), Failure> {
    let f = m.get(case.f);
    let e = &f.equations[0];
    let position = |a: &Atom| f.params.iter().position(|p| Atom::from(*p) == *a);
    let role = |a: &Atom| match a {
        Atom::Literal(l) if l.is_zero() => Linearity::Zero,
        a if position(a).is_some_and(|i| linear[i]) => Linearity::Linear,
        _ => Linearity::Constant,
    };
    let roles: Vec<Linearity> = e.operands.iter().map(role).collect();
    // Skip `dropped`: it is linear only if no result that depends on it is read, which this test does not ensure.
    if !e.op.is_linear(m, &roles) || e.op.name() == "dropped" {
        return Ok(());
    }
    let mut draft = Draft::new(format!("{}.lin", f.name));
    let mut atoms = vec![Atom::from(Literal::f64(0.0)); linear.len()];
    for (i, t) in case.args.iter().enumerate().filter(|(i, _)| !linear[*i]) {
        atoms[i] = draft.param(t.ty().clone().into());
    }
    for (i, t) in case.args.iter().enumerate().filter(|(i, _)| linear[*i]) {
        atoms[i] = draft.linear_param(t.ty().clone().into());
    }
    let operands: Operands =
        e.operands.iter().map(|a| position(a).map_or(*a, |i| atoms[i])).collect();
    let results = Builder::new(m, &mut draft).emit(e.op.clone(), &operands);
    let g = draft.finish(m, results.to_vec())?;

    let constants = marked(&case.args, &linear.iter().map(|on| !on).collect::<Vec<_>>());
    let mut rng = Rng::new(6);
    let (x, dx) = (case.directions(&mut rng, linear), case.directions(&mut rng, linear));
    let sum = moved(&x, &vec![true; x.len()], &dx, 2.0);
    let at = |x: &[Tensor]| run(m, g, &[&constants[..], x].concat());
    let (y, dy, total) = (at(&x)?, at(&dx)?, at(&sum)?);
    let want = moved(&y, &vec![true; y.len()], &dy, 2.0);
    if !want.iter().all(finite) {
        return Ok(());
    }
    Agreement::relative(precision(m, case.f)).check_all(&total, &want)?;

    let cts: Vec<Tensor> = y.iter().map(|t| rng.tensor(t.ty())).collect();
    let back = transpose(m, g, &vec![true; y.len()])?;
    let ctx = run(m, back.function, &[&constants[..], &cts].concat())?;
    check_products(precision(m, case.f), [&cts, &y], [&ctx, &marked(&x, &back.nonzero)], 0.0)
}

/// Returns the derivative, or `None` if the primitive reports that it has none and the sample is an edge, at which the
/// function is not smooth. At a smooth sample a missing derivative is an error.
pub(crate) fn existing<T>(derived: Result<T, Problem>, case: &Case) -> Result<Option<T>, Failure> {
    match derived {
        Ok(of) => Ok(Some(of)),
        Err(p) if p.kind == Kind::NotDifferentiable && !case.smooth => Ok(None),
        Err(p) => Err(p.into()),
    }
}

/// The `jvp` and the `vjp` of a smooth case, as cases to differentiate once more.
pub(crate) struct Second {
    pub(crate) jvp: Case,
    pub(crate) vjp: Case,
}

pub(crate) fn derived(m: &mut Module, case: &Case) -> Result<Option<Second>, Failure> {
    if !case.smooth {
        return Ok(None);
    }
    let floats = case.floats();
    let of = |f: FuncId, m: &Module, rng: &mut Rng| {
        let more = m.function(f).param_types().split_off(case.args.len());
        let more = more.iter().filter_map(|t| t.as_array()).map(|ty| rng.tensor(ty));
        Case { f, args: case.args.iter().cloned().chain(more).collect(), ..case.clone() }
    };
    let (forward, back) = (jvp(m, case.f, &floats)?, vjp(m, case.f, &floats)?);
    let mut rng = Rng::new(5);
    let jvp = of(forward.function, m, &mut rng);
    Ok(Some(Second { jvp, vjp: of(back.function, m, &mut rng) }))
}
