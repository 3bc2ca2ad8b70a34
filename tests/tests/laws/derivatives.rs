//! Derivatives: forward mode against differences of the function, reverse against forward.
//!
//! A derivative is never compared with the formula it comes from. Second order is the same laws
//! applied to derived functions.

use crate::{for_all, marked, single, subsets, tolerance};
use tapeloom_ir::prim::Linearity;
use tapeloom_ir::{
    Atom, Builder, Draft, FuncId, Kind, Literal, Module, Operands, Problem, Tensor, eval,
    print_function,
};
use tapeloom_tests::{Agreement, Case, Failure, Rng, run};
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
fn what_claims_to_be_linear_is_and_transposes() {
    for_all(|m, case| {
        for linear in subsets(&case.floats()) {
            linear_in(m, case, &linear).map_err(|e| format!("linear in {linear:?}: {e}"))?;
        }
        Ok(())
    });
}

/// `jvp` against differences, for all float arguments together and each alone.
fn forward(m: &mut Module, case: &Case) -> Result<(), Failure> {
    let floats = case.floats();
    for active in subsets(&floats) {
        let of = jvp(m, case.f, &active)?;
        let dx = case.directions(&mut Rng::new(2), &active);
        let mut out = run(m, of.function, &[&case.args[..], &dx].concat())?.into_iter();
        let y: Vec<Tensor> = out.by_ref().take(of.active_out.len()).collect();
        for (i, on) in of.active_out.iter().enumerate() {
            let dy = if *on { out.next() } else { None };
            if !y[i].dtype().is_float() {
                continue;
            }
            let dy = dy.unwrap_or_else(|| Tensor::zeros(y[i].ty()));
            differences(m, case, &active, &dx, i, &dy).map_err(|e| {
                format!(
                    "output {i}, active {active:?}, along {dx:?}: {e}\n{}",
                    print_function(m, of.function)
                )
            })?;
        }
    }
    Ok(())
}

/// Each element of `dy` must meet a difference quotient of fourth order for one of several steps:
/// no single step suits a function near a pole and one at 1e6.
fn differences(
    m: &Module,
    case: &Case,
    active: &[bool],
    dx: &[Tensor],
    output: usize,
    dy: &Tensor,
) -> Result<(), Failure> {
    let (steps, relative, floor) = if single(m, case) {
        ([0.1, 0.03, 0.01, 0.003], 2e-2, 1e-3)
    } else {
        ([1e-2, 1e-3, 1e-4, 1e-5], 1e-6, 1e-10)
    };
    let mut nearest = vec![f64::NAN; dy.elements()];
    for h in steps {
        let mut along = Vec::new();
        for k in [1.0, -1.0, 2.0, -2.0] {
            along.push(eval(m, case.f, &moved(&case.args, active, dx, k * h))?.swap_remove(output));
        }
        for (i, nearest) in nearest.iter_mut().enumerate() {
            let y = |k: usize| along[k].get(i).to_f64();
            let slope = (8.0 * (y(0) - y(1)) - (y(2) - y(3))) / (12.0 * h);
            let got = dy.get(i).to_f64();
            if nearest.is_nan() || (slope - got).abs() < (*nearest - got).abs() {
                *nearest = slope;
            }
        }
    }
    for (i, want) in nearest.into_iter().enumerate() {
        let got = dy.get(i).to_f64();
        let size = want.abs().max(got.abs());
        if (got - want).abs() <= relative * size + floor {
            continue;
        }
        return Err(format!("element {i}: got {got}, differences give {want}").into());
    }
    Ok(())
}

/// The arguments, those active moved by `t` along `dx`.
fn moved(args: &[Tensor], active: &[bool], dx: &[Tensor], t: f64) -> Vec<Tensor> {
    let mut dx = dx.iter();
    let mut args = args.to_vec();
    for (x, _) in args.iter_mut().zip(active).filter(|(_, on)| **on) {
        let Some(dx) = dx.next() else { break };
        for i in 0..x.elements() {
            let at = x.get(i).to_f64() + t * dx.get(i).to_f64();
            x.set(i, Literal::of(x.dtype(), at));
        }
    }
    args
}

/// Linearize and transpose against jvp: `lin dx = dy`, and `<ct, dy> = <ctx, dx>` for every set of
/// outputs that a cotangent may come from.
pub(crate) fn reverse(m: &mut Module, case: &Case) -> Result<(), Failure> {
    let floats = case.floats();
    let Some(of) = existing(linearize(m, case.f, &floats), case)? else { return Ok(()) };
    let dx_all = case.directions(&mut Rng::new(3), &floats);
    let mut residuals = run(m, of.fwd, &case.args)?;
    let y: Vec<Tensor> = residuals.drain(..of.active_out.len()).collect();
    Agreement::Exact.check_all(&y, &run(m, case.f, &case.args)?)?;
    let dy = run(m, of.lin, &[&residuals[..], &dx_all].concat())?;

    let forward = jvp(m, case.f, &floats)?;
    let out = run(m, forward.function, &[&case.args[..], &dx_all].concat())?;
    if forward.active_out == of.active_out {
        let (relative, absolute) = (tolerance(m, case), 0.0);
        Agreement::Within { relative, absolute }.check_all(&dy, &out[y.len()..])?;
    }

    let mut rng = Rng::new(4);
    let cts: Vec<Tensor> = dy.iter().map(|t| rng.tensor(t.ty())).collect();
    for nonzero in subsets(&vec![true; dy.len()]) {
        let back = transpose(m, of.lin, &nonzero)?;
        let seeds: Vec<Tensor> = marked(&cts, &nonzero);
        let ctx = run(m, back.function, &[&residuals[..], &seeds].concat())?;
        let (dy, dx) = (marked(&dy, &nonzero), marked(&dx_all, &back.nonzero));
        // Terms may cancel on the way to a result, and leave the rounding of the largest.
        let passed = largest(m, of.lin, &residuals, &dx_all)?
            + largest(m, back.function, &residuals, &seeds)?;
        let slack = 1e-3 * tolerance(m, case) * passed;
        same_product(m, case, [&seeds, &dy], [&ctx, &dx], slack).map_err(|e| {
            format!("{e}\n{}{}", print_function(m, of.lin), print_function(m, back.function))
        })?;
    }
    Ok(())
}

/// If the primitive says that it is linear in these arguments: `f(x + 2x') = f(x) + 2 f(x')`, and
/// `<ct, f x> = <fᵀ ct, x>`. Derivatives alone would not try every operand in the linear role.
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
    if !e.op.is_linear(m, &roles) {
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
    let finite = |t: &Tensor| (0..t.elements()).all(|i| t.get(i).to_f64().is_finite());
    if !want.iter().all(finite) {
        return Ok(());
    }
    Agreement::relative(tolerance(m, case)).check_all(&total, &want)?;

    let cts: Vec<Tensor> = y.iter().map(|t| rng.tensor(t.ty())).collect();
    let back = transpose(m, g, &vec![true; y.len()])?;
    let ctx = run(m, back.function, &[&constants[..], &cts].concat())?;
    same_product(m, case, [&cts, &y], [&ctx, &marked(&x, &back.nonzero)], 0.0)
}

/// `<ct, dy> = <ctx, dx>`
fn same_product(
    m: &Module,
    case: &Case,
    [ct, dy]: [&[Tensor]; 2],
    [ctx, dx]: [&[Tensor]; 2],
    slack: f64,
) -> Result<(), Failure> {
    let (here, there) = (products(ct, dy), products(ctx, dx));
    let size: f64 = here.iter().chain(&there).map(|t| t.abs()).sum();
    let (here, there): (f64, f64) = (here.iter().sum(), there.iter().sum());
    // At poles both sides are infinite or nan, and there is nothing to compare.
    if size.is_finite() && (here - there).abs() > tolerance(m, case) * size + slack {
        return Err(format!("<ct, J dx> = {here}, <Jᵀ ct, dx> = {there}").into());
    }
    Ok(())
}

/// The largest number that a program computes on the way.
fn largest(m: &mut Module, f: FuncId, known: &[Tensor], x: &[Tensor]) -> Result<f64, Failure> {
    let mut all = (*m.get(f)).clone();
    all.results = all.types.keys().map(Atom::from).collect();
    let all = m.add(all);
    let values = eval(m, all, &[known, x].concat())?;
    let numbers = values.iter().flat_map(|t| (0..t.elements()).map(|i| t.get(i).to_f64().abs()));
    Ok(numbers.fold(0.0, f64::max))
}

fn products(x: &[Tensor], y: &[Tensor]) -> Vec<f64> {
    assert_eq!(x.len(), y.len(), "a cotangent for every tangent");
    let pairs = x.iter().zip(y).flat_map(|(x, y)| {
        assert_eq!(x.ty(), y.ty(), "a cotangent has the type of its tangent");
        (0..x.elements()).map(|i| x.get(i).to_f64() * y.get(i).to_f64())
    });
    pairs.collect()
}

/// A derivative may be missing at an edge sample, if the primitive says so; at a smooth one not.
fn existing<T>(derived: Result<T, Problem>, case: &Case) -> Result<Option<T>, Failure> {
    match derived {
        Ok(of) => Ok(Some(of)),
        Err(p) if p.kind == Kind::NotDifferentiable && !case.smooth => Ok(None),
        Err(p) => Err(p.into()),
    }
}

/// The derivatives of a smooth case as cases.
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
