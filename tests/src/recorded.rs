//! Checks of recordings: a recording must have the values of its program, and its first and second pullback must agree
//! with reverse mode.

use crate::{Agreement, Case, Failure, Rng, run};
use tapeloom_ir::prim::Call;
use tapeloom_ir::trace::{self, Handle, Recorded};
use tapeloom_ir::{Dtype, FuncId, Function, Kind, Module, Problem, Tensor, Type};
use tapeloom_transforms::{Transforms, VjpOf, vjp};

/// Returns the tolerance for comparing pullbacks of a recording with reverse mode. The interpreter runs both the
/// recording and reverse mode, but they sum terms in another order and grouping.
fn close(m: &Module, f: FuncId) -> Agreement {
    let single =
        |f: &Function| f.types.values().filter_map(Type::as_array).any(|ty| ty.dtype == Dtype::F32);
    let inside = m.function(f).equations.iter().flat_map(|e| e.op.regions());
    let any = single(m.function(f)) || inside.into_iter().any(|r| single(m.function(r.function)));
    Agreement::relative(if any { 1e-3 } else { 1e-9 })
}

/// Runs a function inside a recording, equation by equation.
fn record(
    m: &Module,
    f: FuncId,
    args: &[Tensor],
    then: impl FnOnce(&dyn Fn(&[Handle]) -> Vec<Handle>, &[Handle]) -> Vec<Handle>,
) -> Result<Recorded, Problem> {
    let recorded = trace::recording("record", None, args, None, Box::new(Transforms), |x| {
        let f = trace::with_module(|here| here.import(m, f));
        let call = |x: &[Handle]| match &f {
            Some(Ok(f)) => trace::bind(Call::inline(*f), x, None).to_vec(),
            Some(Err(_)) | None => Vec::new(),
        };
        (then(&call, x), ())
    });
    recorded.map(|(recorded, ())| recorded).map_err(|e| e[0].problem.clone())
}

/// Returns random cotangents for results of the types of `y`.
fn cotangents(y: &[Tensor], rng: &mut Rng) -> Vec<Tensor> {
    y.iter().map(|y| rng.tensor(y.ty())).collect()
}

/// Returns the cotangents of all arguments by reverse mode; zeros where a cotangent is absent.
fn reverse(
    m: &Module,
    of: &VjpOf,
    args: &[Tensor],
    cts: &[Tensor],
) -> Result<Vec<Tensor>, Failure> {
    let seeds = cts.iter().zip(&of.active_out).filter(|(_, on)| **on).map(|(ct, _)| ct.clone());
    let all: Vec<Tensor> = args.iter().cloned().chain(seeds).collect();
    let mut back = run(m, of.function, &all)?.split_off(cts.len()).into_iter();
    let one = |(x, on): (&Tensor, &bool)| {
        let found = if *on { back.next() } else { None };
        found.unwrap_or_else(|| x.zeros_like())
    };
    Ok(args.iter().zip(&of.nonzero).map(one).collect())
}

/// Checks that a recording has the values of its program, bit for bit.
///
/// # Errors
/// The difference.
pub fn values(m: &mut Module, case: &Case) -> Result<(), Failure> {
    let want = run(m, case.f, &case.args)?;
    let recorded = record(m, case.f, &case.args, |f, x| f(x))?;
    Ok(Agreement::Exact.check_all(recorded.outputs(), &want)?)
}

/// Checks that a recording has the values of its program, bit for bit, and that its pullbacks agree with reverse mode:
/// `pull`, which can be repeated, is called twice, and the pullback that consumes the tape once.
///
/// # Errors
/// The difference.
pub fn first_order(m: &mut Module, case: &Case) -> Result<(), Failure> {
    let want = run(m, case.f, &case.args)?;
    let recorded = record(m, case.f, &case.args, |f, x| f(x))?;
    Agreement::Exact.check_all(recorded.outputs(), &want)?;
    let (module, program) = recorded.program()?;
    Agreement::Exact
        .check_all(&run(&module, program, &case.args)?, &want)
        .map_err(|e| format!("the recorded program: {e}"))?;
    let cts = cotangents(&want, &mut Rng::new(11));
    let of = match vjp(m, case.f, &case.floats()) {
        Ok(of) => of,
        Err(p) if p.kind == Kind::NotDifferentiable => {
            return match recorded.pull(&cts) {
                Err(q) if q.kind == p.kind => Ok(()),
                Err(q) => Err(q.into()),
                Ok(_) => Err(format!("the pullback succeeds, but reverse mode fails: {p}").into()),
            };
        }
        Err(p) => return Err(p.into()),
    };
    let want = reverse(m, &of, &case.args, &cts)?;
    let got = recorded.pull(&cts)?;
    close(m, case.f)
        .check_all(&got, &want)
        .map_err(|e| format!("the pullback: {e}\n{recorded}"))?;
    let again = recorded.pull(&cts)?;
    Agreement::Exact.check_all(&again, &got).map_err(|e| format!("a second time: {e}"))?;
    let once = recorded.pull_once(&cts)?;
    Agreement::Exact.check_all(&once, &got).map_err(|e| format!("once: {e}"))?;
    Ok(())
}

/// Checks second derivatives: records the program together with its reverse pass, and compares the pullback of this
/// recording with reverse mode over reverse mode.
///
/// # Errors
/// The difference.
pub fn second_order(m: &mut Module, case: &Case) -> Result<(), Failure> {
    let floats = case.floats();
    let of = match vjp(m, case.f, &floats) {
        Ok(of) => of,
        Err(p) if p.kind == Kind::NotDifferentiable => return Ok(()),
        Err(p) => return Err(p.into()),
    };
    let y = run(m, case.f, &case.args)?;
    let mut rng = Rng::new(12);
    let seeds: Vec<Tensor> = y
        .iter()
        .zip(&of.active_out)
        .filter(|(_, on)| **on)
        .map(|(y, _)| rng.tensor(y.ty()))
        .collect();
    let args: Vec<Tensor> = case.args.iter().chain(&seeds).cloned().collect();
    let n = case.args.len();
    let recorded = record(m, case.f, &args, |f, x| {
        let (x, seeds) = x.split_at(n);
        let (mut y, (), pullback) = trace::level(x, None, |x| (f(x), ()));
        let Some(pullback) = pullback else { return Vec::new() };
        let mut seeds = seeds.iter();
        let mut next = |(y, on): (&Handle, &bool)| {
            if *on { seeds.next().copied().unwrap_or(*y) } else { *y }
        };
        let cts: Vec<Handle> = y.iter().zip(&of.active_out).map(&mut next).collect();
        let back = pullback.pull(&cts, None).into_iter().zip(&of.nonzero);
        y.extend(back.filter(|(_, on)| **on).filter_map(|(ct, _)| ct));
        y
    })?;
    let want = run(m, of.function, &args)?;
    close(m, case.f)
        .check_all(recorded.outputs(), &want)
        .map_err(|e| format!("a recorded reverse pass: {e}\n{recorded}"))?;
    let active: Vec<bool> = args.iter().map(|x| x.dtype().is_float()).collect();
    let twice = match vjp(m, of.function, &active) {
        Ok(twice) => twice,
        Err(p) if p.kind == Kind::NotDifferentiable => return Ok(()),
        Err(p) => return Err(p.into()),
    };
    let cts = cotangents(&want, &mut rng);
    let want = reverse(m, &twice, &args, &cts)?;
    let got = recorded.pull(&cts)?;
    close(m, case.f)
        .check_all(&got, &want)
        .map_err(|e| format!("the second order: {e}\n{recorded}"))?;
    Ok(())
}
