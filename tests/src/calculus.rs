//! Derivatives and batches by definition, against which transforms are tested.
//!
//! A tangent is a limit of differences ([`check_differences`]). A cotangent satisfies `<ct, J dx> = <Jᵀ ct, dx>`
//! ([`check_products`]). A batched function agrees with the function applied to each batch member ([`check_batch`]).

use crate::exactness::{Trust, trusts};
use crate::{Agreement, Failure, run};
use crate::{Elements, tensor_of};
use tapeloom_ir::{Atom, Dtype, FuncId, Literal, Module, Tensor, Type, Value, eval, eval_values};

/// Returns the relative accuracy of results that are computed in another order: 1e-4 in single, 1e-10 in double
/// precision.
pub fn precision(m: &Module, f: FuncId) -> f64 {
    if single(m, f) { 1e-4 } else { 1e-10 }
}

/// Returns the relative accuracy of results that are computed in nearly the same order: 1e-5 in single, 1e-12 in
/// double precision.
pub fn rounding(m: &Module, f: FuncId) -> f64 {
    if single(m, f) { 1e-5 } else { 1e-12 }
}

/// Returns whether any value that the function computes or takes is f32.
fn single(m: &Module, f: FuncId) -> bool {
    let mut types = m.function(f).types.values().filter_map(Type::as_array);
    types.any(|t| t.dtype == Dtype::F32)
}

/// Returns whether all elements of a tensor are finite.
pub fn finite(t: &Tensor) -> bool {
    (0..t.elements()).all(|i| t.at(i).to_f64().is_finite())
}

/// Returns the tensors of `all` whose entry in the mask is true.
pub fn marked(all: &[Tensor], mask: &[bool]) -> Vec<Tensor> {
    all.iter().zip(mask).filter(|(_, on)| **on).map(|(t, _)| t.clone()).collect()
}

/// Returns the arguments, with the active ones replaced by `x + t dx`.
pub fn moved(args: &[Tensor], active: &[bool], dx: &[Tensor], t: f64) -> Vec<Tensor> {
    let mut dx = dx.iter();
    let mut args = args.to_vec();
    for (x, _) in args.iter_mut().zip(active).filter(|(_, on)| **on) {
        let Some(dx) = dx.next() else { break };
        for i in 0..x.elements() {
            let at = x.at(i).to_f64() + t * dx.at(i).to_f64();
            x.put(i, Literal::of(x.dtype(), at));
        }
    }
    args
}

/// Checks that `dy` are the derivatives of `f` at `args` along `dx`, the direction of the active arguments. `dy` has
/// an entry per result of `f`; `None` is zero.
///
/// Each element must agree with the fourth-order difference quotient of at least one of several step sizes: no single
/// step size suits both a function near a pole and an argument of size 1e6.
///
/// # Errors
/// Names the first element that agrees with none of the quotients.
pub fn check_differences(
    m: &Module,
    f: FuncId,
    args: &[Tensor],
    active: &[bool],
    dx: &[Tensor],
    dy: &[Option<Tensor>],
) -> Result<(), Failure> {
    let (steps, relative, floor) = if single(m, f) {
        ([0.1, 0.03, 0.01, 0.003], 2e-2, 1e-3)
    } else {
        ([1e-2, 1e-3, 1e-4, 1e-5], 1e-6, 1e-10)
    };
    let along = |h: f64| {
        let at = |k: f64| eval(m, f, &moved(args, active, dx, k * h));
        [1.0, -1.0, 2.0, -2.0].into_iter().map(at).collect::<Result<Vec<_>, _>>()
    };
    let along: Vec<Vec<Vec<Tensor>>> =
        steps.into_iter().map(along).collect::<Result<Vec<_>, _>>()?;
    for (output, dy) in dy.iter().enumerate() {
        let model = &along[0][0][output];
        if !model.dtype().is_float() {
            continue;
        }
        for i in 0..model.elements() {
            let got = dy.as_ref().map_or(0.0, |dy| dy.at(i).to_f64());
            let slope = |(h, y): (f64, &Vec<Vec<Tensor>>)| {
                let y = |k: usize| y[k][output].at(i).to_f64();
                (8.0 * (y(0) - y(1)) - (y(2) - y(3))) / (12.0 * h)
            };
            let slopes = steps.into_iter().zip(&along).map(slope);
            let nearer = |a: f64, b: f64| {
                if a.is_nan() || (b - got).abs() < (a - got).abs() { b } else { a }
            };
            let want = slopes.fold(f64::NAN, nearer);
            let size = want.abs().max(got.abs());
            if (got - want).abs() <= relative * size + floor {
                continue;
            }
            let place = format!("output {output}, element {i}");
            return Err(format!("{place}: got {got}, differences give {want}").into());
        }
    }
    Ok(())
}

/// Splits the results of a jvp or vjp. The first `own` of them are the results of the function, the others are
/// derivatives. Returns the function's results, and a tangent or cotangent for each entry of the mask, `None` where the
/// entry is false.
pub fn split(
    mut results: Vec<Tensor>,
    mask: &[bool],
    own: usize,
) -> (Vec<Tensor>, Vec<Option<Tensor>>) {
    let mut derived = results.split_off(own).into_iter();
    let derived = mask.iter().map(|on| on.then(|| derived.next()).flatten()).collect();
    (results, derived)
}

/// Returns the largest magnitude among all intermediate values of a program. If terms of this magnitude cancel, the
/// result still has their rounding error.
///
/// # Errors
/// The error of a primitive.
pub fn largest(m: &mut Module, f: FuncId, args: &[Value]) -> Result<f64, Failure> {
    let mut all = (*m.get(f)).clone();
    all.results = all.types.keys().map(Atom::from).collect();
    let all = m.add(all)?;
    Ok(eval_values(m, all, args)?.iter().map(size).fold(0.0, f64::max))
}

/// Returns the largest magnitude in a value: an array, or a dynamic tape with all residuals on it.
fn size(value: &Value) -> f64 {
    match value {
        Value::Array(t) => (0..t.elements()).map(|i| t.at(i).to_f64().abs()).fold(0.0, f64::max),
        Value::Tape(tape) => tape.records.iter().flatten().map(size).fold(0.0, f64::max),
    }
}

/// Checks that `<ct, dy> = <ctx, dx>` within a relative and an absolute bound. `dy` are the tangents of the results
/// along `dx`, and `ctx` the cotangents of the arguments for the cotangents `ct` of the results.
///
/// # Errors
/// The two inner products, if they differ.
pub fn check_products(
    relative: f64,
    [ct, dy]: [&[Tensor]; 2],
    [ctx, dx]: [&[Tensor]; 2],
    absolute: f64,
) -> Result<(), Failure> {
    let (here, there) = (products(ct, dy)?, products(ctx, dx)?);
    let size: f64 = here.iter().chain(&there).map(|t| t.abs()).sum();
    let (here, there): (f64, f64) = (here.iter().sum(), there.iter().sum());
    // Skip points near poles: there both sides are infinite or nan, and cannot be compared.
    if size.is_finite() && (here - there).abs() > relative * size + absolute {
        return Err(format!("<ct, J dx> = {here}, <Jᵀ ct, dx> = {there}").into());
    }
    Ok(())
}

/// Returns the terms of the inner product of two lists of tensors.
fn products(x: &[Tensor], y: &[Tensor]) -> Result<Vec<f64>, Failure> {
    if x.len() != y.len() {
        return Err(format!("{} cotangents for {} tangents", x.len(), y.len()).into());
    }
    let mut all = Vec::new();
    for (x, y) in x.iter().zip(y) {
        if x.ty() != y.ty() {
            return Err(format!("a cotangent of type {} for a {}", x.ty(), y.ty()).into());
        }
        all.extend((0..x.elements()).map(|i| x.at(i).to_f64() * y.at(i).to_f64()));
    }
    Ok(all)
}

/// Checks that `got`, the results of a batched `f`, are the results of `f` on each of `inputs`.
///
/// `batched` says which results carry the batch axis. If `inputs` is empty, `model` supplies arguments for the result
/// types. Of wild programs (their floats may be infinities, nan and numbers near poles) only exact results are
/// compared.
///
/// # Errors
/// Names the first result that differs.
pub fn check_batch(
    m: &Module,
    f: FuncId,
    model: &[Tensor],
    inputs: &[Vec<Tensor>],
    got: &[Tensor],
    batched: &[bool],
    wild: bool,
) -> Result<(), Failure> {
    let each = inputs.iter().map(|x| run(m, f, x)).collect::<Result<Vec<_>, _>>()?;
    let model = run(m, f, model)?;
    let trust = trusts(m, f, wild);
    for (i, lifted) in batched.iter().enumerate() {
        let want = match lifted {
            true => stack(&model[i], each.iter().map(|y| &y[i])),
            false => each.first().map_or(&model[i], |y| &y[i]).clone(),
        };
        let agreement = match trust[i] {
            Trust::Exact => Agreement::Exact,
            Trust::Rounded if !wild => Agreement::relative(precision(m, f)),
            Trust::Rounded | Trust::Open => continue,
        };
        agreement.check(&got[i], &want).map_err(|e| format!("output {i}: {e}"))?;
    }
    Ok(())
}

/// Stacks the tensors `parts`, of the type of `model`, along a new axis 0. `parts` may be empty.
pub fn stack<'t>(model: &Tensor, parts: impl ExactSizeIterator<Item = &'t Tensor>) -> Tensor {
    let shape = model.ty().shape.with_leading(parts.len());
    let mut elements = parts.flat_map(Tensor::literals);
    let zero = Literal::zero(model.dtype());
    tensor_of(&tapeloom_ir::ArrayType::new(model.dtype(), shape), |_| {
        elements.next().unwrap_or(zero)
    })
}
