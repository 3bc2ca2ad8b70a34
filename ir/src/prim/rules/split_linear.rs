//! Splits functions that are linear in some of their parameters although their loops and branches also compute
//! other values.
//!
//! A rule that carries values and tangents through one loop, for example the jvp of a function with a loop, is
//! linear in the tangents, but none of its equations is:
//!
//! ```text
//! loop (c, dc) -> (sin c, dc * cos c)
//! ```
//!
//! So linearity is propagated into regions, result by result ([`follow`]). [`separated`] turns such a function
//! into one that first computes the values, in their own loops, and then the linear results, in linear loops.
//! It does so by linearizing the function: a linear map is its own derivative at every point.
//!
//! Calls are split first ([`apart_in_calls`]), in loops and branches too. A call with few residuals recomputes
//! its loops; a loop that carries values and tangents would recompute both, and so save tangents.

use super::region_helpers::{called, function, instantiate, linear_part};
use crate::fault::{Fault, planted};
use crate::lang::builder::{Builder, Draft};
use crate::lang::function::{Atom, FuncId, Function, ValueId};
use crate::lang::module::Module;
use crate::lang::problem::{Kind, Problem};
use crate::lang::query::{AccumulateInto, Residual};
use crate::lang::remap::rebuild;
use crate::lang::stack::deeper;
use crate::lang::types::Type;
use crate::lang::verify::{as_is, not_linear};
use crate::prim::{
    Binding, Cond, Effects, Linearity, Loop, Op, Regions, RuleCx, TripCount, elementwise,
};
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;

/// Returns `f` itself if its results from `first` on are linear in the marked parameters as written; otherwise returns
/// an equivalent function that first computes the other results, and then the results from `first` on, with linear
/// equations.
///
/// # Errors
/// [`Kind::NotLinear`], with the line of the primitive at fault.
pub(crate) fn separated(
    regions: &mut dyn Regions,
    m: &mut Module,
    f: FuncId,
    linear: &[bool],
    first: usize,
) -> Result<FuncId, Problem> {
    let Err(reason) = linear_part(m, f, linear, first) else { return Ok(f) };
    let function = m.get(f);
    let mixed = function.equations.iter().any(|e| !e.op.regions().is_empty());
    if reason.kind != Kind::NotLinear || !mixed || m.effects(f) == Effects::Ordered {
        return Err(reason);
    }
    let given: Vec<Linearity> =
        linear.iter().map(|on| if *on { Linearity::Linear } else { Linearity::Constant }).collect();
    let found = follow(m, f, &given)?;
    let (values, tangents) = found.split_at(first);
    if values.contains(&Linearity::Linear) || tangents.contains(&Linearity::Constant) {
        return Err(reason);
    }

    let forced: Vec<bool> = (0..found.len()).map(|r| r >= first).collect();
    let f = apart_in_calls(regions, m, f, &given)?;
    let of = regions.linearize(m, f, linear, &forced, &[])?;
    // The first function only has to return the values and the residuals of the second function, and has no linear
    // parameters.
    let mut used: Vec<bool> = m.function(of.fwd).results.iter().map(|_| false).collect();
    used[..first].fill(true);
    for residual in &of.residuals {
        if let Residual::Result(r) | Residual::Kept(r) = residual {
            used[*r] = true;
        }
    }
    let known = regions.prune(m, of.fwd, &used, &[])?;
    let reads = |p: usize| linear[p] && known.params[p];
    let kept = of.residuals.iter().any(|r| matches!(r, Residual::Parameter(p) if linear[*p]));
    if kept || (0..linear.len()).any(reads) {
        return Err(Problem::internal(format!(
            "@{} was classified as linear, and is not",
            function.name
        )));
    }

    let mut draft = Draft::new(function.name.clone());
    let params: Vec<Atom> = function.param_types().into_iter().map(|ty| draft.param(ty)).collect();
    let b = Builder::new(m, &mut draft);
    let pick = |mask: &[bool]| -> Vec<Atom> {
        params.iter().zip(mask).filter(|(_, on)| **on).map(|(p, _)| *p).collect()
    };
    let made = b.inline(known.function, &pick(&known.params));
    let place = |r: usize| made[used[..r].iter().filter(|on| **on).count()];
    let residual = |residual: &Residual| match residual {
        Residual::Parameter(p) => params[*p],
        Residual::Result(r) | Residual::Kept(r) => place(*r),
    };
    let operands = [of.residuals.iter().map(residual).collect(), pick(linear)].concat();
    let mut results = made[..first].to_vec();
    results.extend(b.inline(of.lin, &operands));
    draft.finish(m, results)
}

/// Returns `f` with calls inlined and with only the results from `first` on. The ordinary parameters marked in `linear`
/// become linear ones, and so come last. Loops and branches that also compute other values are split.
///
/// # Errors
/// [`Kind::NotLinear`](crate::Kind::NotLinear), with the line of the primitive at fault.
pub fn as_linear(
    regions: &mut dyn Regions,
    module: &mut Module,
    f: FuncId,
    linear: &[bool],
    first: usize,
) -> Result<FuncId, Problem> {
    let f = separated(regions, module, f, linear, first)?;
    linear_part(module, f, linear, first)
}

/// Returns the transpose of a function `(residuals..; x..) -> y..`: it takes all residuals and the
/// cotangents of all of `y`, and returns the cotangents of all of `x`, with zeros where `y` does not
/// depend on an `x`.
pub(crate) fn transposed(
    cx: &mut RuleCx<'_, '_>,
    f: FuncId,
    residuals: usize,
) -> Result<FuncId, Problem> {
    cx.derive(|regions, m| transpose_of(regions, m, f, residuals))
}

/// Returns the same transpose as [`transposed`], for callers that have no `RuleCx`.
pub(crate) fn transpose_of(
    regions: &mut dyn Regions,
    m: &mut Module,
    f: FuncId,
    residuals: usize,
) -> Result<FuncId, Problem> {
    let params = m.function(f).params.len();
    let linear: Vec<bool> = (0..params).map(|i| i >= residuals).collect();
    let linear = as_linear(regions, m, f, &linear, 0)?;
    let f = m.get(linear);
    let zeros = vec![AccumulateInto::Zeros; f.linear_params.len()];
    Ok(regions.transpose(m, linear, &vec![true; f.results.len()], &zeros)?.function)
}

/// The result of [`present`]: a function specialised to nonzero tangents.
pub(crate) struct Present {
    /// The specialised function; its parameters are those that are not linear, then the linear ones
    /// that may be nonzero. `None` if the given function is not known to be linear.
    pub(crate) function: Option<FuncId>,
    /// Per linear result: whether it may be nonzero.
    pub(crate) nonzero: Vec<bool>,
}

/// Specialises a function `(known.., x..) -> (values.., y..)` to the linear parameters `x` that are marked in
/// `there`; all other linear parameters are zero. `linear` marks `x` among all parameters, and `first` is the
/// position of the first linear result. A linear result that depends on no parameter in `there` becomes an
/// array of zeros.
///
/// A zero tangent is absent. Materialised zeros would be computed with: `0 · inf` at a pole is nan. The derivative of
/// a linear function is the function itself, so the specialised function is the derivative along the parameters in
/// `there`; the rule of each primitive leaves out the terms of absent tangents.
///
/// # Errors
/// Fails if the derivative of one of the equations does not exist.
pub(crate) fn present(
    regions: &mut dyn Regions,
    m: &mut Module,
    f: FuncId,
    [linear, there]: [&[bool]; 2],
    first: usize,
) -> Result<Present, Problem> {
    let role = |on: &bool| if *on { Linearity::Linear } else { Linearity::Constant };
    let given: Vec<Linearity> = linear.iter().map(role).collect();
    let found = follow(m, f, &given).ok().filter(|found| {
        let (values, rest) = found.split_at(first);
        !values.contains(&Linearity::Linear) && !rest.contains(&Linearity::Constant)
    });
    let Some(found) = found else {
        // The function is not known to be linear, but results that are zero for all parameters can
        // still be found.
        let found = follow(m, f, &vec![Linearity::Constant; given.len()])?;
        let nonzero = found[first..].iter().map(|of| *of != Linearity::Zero).collect();
        return Ok(Present { function: None, nonzero });
    };
    let linear_results: Vec<bool> =
        found[first..].iter().map(|of| *of == Linearity::Linear).collect();
    if linear == there {
        return Ok(Present { function: Some(f), nonzero: linear_results });
    }
    if planted(Fault::ZeroTangent) {
        return Ok(Present { function: None, nonzero: linear_results });
    }

    let of = regions.jvp(m, f, there, &[])?;
    let nonzero = of.active_out[first..].to_vec();
    let values = of.active_out.iter().enumerate().map(|(r, _)| r < first);
    let tangents = of.active_out.iter().enumerate().filter(|(_, on)| **on).map(|(r, _)| r >= first);
    let used: Vec<bool> = values.chain(tangents).collect();
    let extra = there.iter().filter(|on| **on).map(|_| true);
    let kept: Vec<bool> = linear.iter().map(|on| !on).chain(extra).collect();
    let pruned = regions.prune(m, of.function, &used, &kept)?;

    let whole = m.get(f);
    let verified = !whole.linear_params.is_empty();
    let types = whole.param_types();
    let of_params = |on: &dyn Fn(usize) -> bool| -> Vec<Type> {
        (0..types.len()).filter(|i| on(*i)).map(|i| types[i].clone()).collect()
    };
    let taken = of_params(&|i| !linear[i] || there[i]);
    let function = function(m, &whole.name, [&taken, &[]], |b, p, _| {
        let mut place = p.iter();
        let mut own: Vec<Option<Atom>> = Vec::new();
        for i in 0..types.len() {
            own.push(if !linear[i] || there[i] { place.next().copied() } else { None });
        }
        // The derivative function `pruned` may have parameters for the point at which the linear map is differentiated.
        // The derivative of a linear map does not depend on the point, so pass zeros.
        let at = |i: usize| match own[i] {
            Some(own) if !linear[i] => own,
            Some(_) | None => instantiate(b, None, &types[i]),
        };
        let mut args: Vec<Atom> = (0..types.len()).filter(|i| pruned.params[*i]).map(at).collect();
        args.extend((0..types.len()).filter(|i| there[*i]).filter_map(|i| own[i]));
        let mut made = b.inline(pruned.function, &args).into_iter();
        let mut results: Vec<Atom> = made.by_ref().take(first).collect();
        for (ty, on) in whole.result_types()[first..].iter().zip(&nonzero) {
            let tangent = if *on { made.next() } else { None };
            results.push(instantiate(b, tangent, ty));
        }
        results
    })?;
    let function = match verified {
        true => {
            let linear: Vec<bool> = linear
                .iter()
                .zip(there)
                .filter(|(linear, there)| !**linear || **there)
                .map(|(linear, _)| *linear)
                .collect();
            as_linear(regions, m, function, &linear, first)?
        }
        false => function,
    };
    Ok(Present { function: Some(function), nonzero })
}

/// Returns, per result of a function, whether the result may be nonzero, that is, whether it depends on a linear
/// parameter. The first `known` parameters are not linear, and all others are.
pub(crate) fn depends(m: &Module, f: FuncId, known: usize) -> Result<Vec<bool>, Problem> {
    let params = m.function(f).all_params().count();
    let role = |i: usize| if i < known { Linearity::Constant } else { Linearity::Linear };
    let given: Vec<Linearity> = (0..params).map(role).collect();
    Ok(follow(m, f, &given)?.iter().map(|of| *of != Linearity::Zero).collect())
}

/// Returns `f` with only the results marked in the mask; all parameters stay.
pub(crate) fn with_results(
    regions: &mut dyn Regions,
    m: &mut Module,
    f: FuncId,
    wanted: &[bool],
) -> Result<FuncId, Problem> {
    if !wanted.contains(&false) {
        return Ok(f);
    }
    let params = m.function(f).all_params().count();
    Ok(regions.prune(m, f, wanted, &vec![true; params])?.function)
}

/// Returns an equivalent function in which every called function computes its ordinary results before
/// its linear ones.
fn apart_in_calls(
    regions: &mut dyn Regions,
    m: &mut Module,
    id: FuncId,
    given: &[Linearity],
) -> Result<FuncId, Problem> {
    let f = m.get(id);
    let known = values(m, &f, given)?;
    let mut changed = false;
    let copy = rebuild(&f, |draft, i, operands| {
        let e = &f.equations[i];
        let given: Vec<Linearity> = e.operands.iter().map(|a| read(&known, a)).collect();
        let mut functions: Vec<FuncId> = e.op.regions().iter().map(|r| r.function).collect();
        if given.contains(&Linearity::Linear) && !e.op.is_linear(m, &given) {
            for (region, function) in e.op.regions().iter().zip(&mut functions) {
                *function = match &e.op {
                    // The condition has its own parameters, and no parameter that it reads is linear.
                    Op::Loop(of) if region.function == of.body => {
                        let (given, _) = carried(m, of, &given)?;
                        deeper(|| apart_in_calls(regions, m, *function, &given))?
                    }
                    Op::Cond(_) => deeper(|| apart_in_calls(regions, m, *function, &given[1..]))?,
                    op => match called(op) {
                        Some(callee) => {
                            deeper(|| ordinary_results_first(regions, m, callee, &given))?
                        }
                        None => *function,
                    },
                };
            }
        }
        changed |= e.op.regions().iter().zip(&functions).any(|(r, g)| r.function != *g);
        Ok(draft.copy_as(e.op.with_regions(&functions), &f, i, operands))
    })?;
    if changed { m.add(copy) } else { Ok(id) }
}

/// Reorders the equations of a function such that those of the ordinary results come before those of the linear
/// results. If `f` does not list all ordinary results before the linear results, returns `f` unchanged.
fn ordinary_results_first(
    regions: &mut dyn Regions,
    m: &mut Module,
    f: FuncId,
    given: &[Linearity],
) -> Result<FuncId, Problem> {
    let found = follow(m, f, given)?;
    let is_value = |of: &Linearity| *of == Linearity::Constant;
    let first = found.iter().take_while(|of| is_value(of)).count();
    if found[first..].iter().any(is_value) {
        return Ok(f);
    }
    let linear: Vec<bool> = given.iter().map(|of| *of == Linearity::Linear).collect();
    let f = with_zeros(m, f, given)?;
    separated(regions, m, f, &linear, first)
}

/// Returns a function with the same parameters in which parameters known to be zero are replaced by
/// literal zeros: a sum may be linear only because one of its terms is zero.
fn with_zeros(m: &mut Module, f: FuncId, given: &[Linearity]) -> Result<FuncId, Problem> {
    if !given.contains(&Linearity::Zero) {
        return Ok(f);
    }
    let function = m.get(f);
    let mut draft = Draft::new(function.name.clone());
    let params: Vec<Atom> = function.param_types().into_iter().map(|ty| draft.param(ty)).collect();
    let b = Builder::new(m, &mut draft);
    let operand = |(param, given): (Atom, &Linearity)| match b.type_of(param) {
        Type::Array(ty) if *given == Linearity::Zero => elementwise::zeros(&b, &ty),
        _ => param,
    };
    let operands: Vec<Atom> = params.into_iter().zip(given).map(operand).collect();
    let results = b.inline(f, &operands);
    draft.finish(m, results)
}

/// Returns the linearity of the results of the function `f`, given that of its parameters.
fn follow(m: &Module, f: FuncId, given: &[Linearity]) -> Result<Vec<Linearity>, Problem> {
    let f = m.function(f);
    let known = values(m, f, given)?;
    Ok(f.results.iter().map(|r| read(&known, r)).collect())
}

/// The linearity of each value of one function; `None` if it is not known yet.
type Values = SecondaryMap<ValueId, Option<Linearity>>;

fn read(known: &Values, a: &Atom) -> Linearity {
    match a {
        Atom::Literal(l) if l.is_zero() => Linearity::Zero,
        Atom::Literal(_) => Linearity::Constant,
        Atom::Value(v) => known[*v].unwrap_or(Linearity::Constant),
    }
}

/// Returns the linearity of every value of the function `f`, given that of its parameters.
fn values(m: &Module, f: &Function, given: &[Linearity]) -> Result<Values, Problem> {
    let mut known = Values::new();
    for (p, given) in f.all_params().zip(given) {
        known[p] = Some(*given);
    }
    for (i, e) in f.equations.iter().enumerate() {
        let operands: SmallVec<[Linearity; 3]> =
            e.operands.iter().map(|a| read(&known, a)).collect();
        let linear = operands.contains(&Linearity::Linear);
        let all = |of: Linearity| vec![of; e.outputs.len()];
        let outputs = if linear && e.op.is_linear(m, &operands) {
            all(Linearity::Linear)
        } else {
            match &e.op {
                Op::Loop(of) => deeper(|| iterations(m, of, &operands)),
                Op::Cond(of) => deeper(|| branches(m, of, &operands)),
                op => match called(op) {
                    Some(callee) => deeper(|| follow(m, callee, &operands)),
                    None if linear => Err(not_linear(op)),
                    None => Ok(all(as_is(m, op, &operands))),
                },
            }
            .map_err(|p| p.at(f.location(i)))?
        };
        for (o, of) in e.outputs.iter().zip(outputs) {
            known[*o] = Some(of);
        }
    }
    Ok(known)
}

/// Returns the common linearity of one result of two branches; zero is both constant and linear.
/// Constant and linear together are an error.
fn join(op: &Op, one: Linearity, other: Linearity) -> Result<Linearity, Problem> {
    match (one, other) {
        (Linearity::Zero, x) | (x, Linearity::Zero) => Ok(x),
        (x, y) if x == y => Ok(x),
        _ => Err(not_linear(op)),
    }
}

/// Returns the linearity of the parameters and of the results of a loop's body that holds in all
/// iterations (a fixed point).
fn carried(
    m: &Module,
    of: &Loop,
    operands: &[Linearity],
) -> Result<(Vec<Linearity>, Vec<Linearity>), Problem> {
    let op = Op::from(of.clone());
    let spec = &of.spec;
    let mut given = vec![Linearity::Constant; spec.takes.len()];
    for (p, operand) in spec.params().zip(&operands[spec.lead()..]) {
        given[p] = *operand;
    }
    // The linearity of a carry's result becomes that of the body's parameter in the next iteration. A
    // parameter's linearity changes at most once, so this loop ends.
    loop {
        let found = follow(m, of.body, &given)?;
        let before = given.clone();
        for (p, slot) in spec.takes.iter().enumerate() {
            if let Binding::Carry(r) = slot {
                given[p] = join(&op, given[p], found[*r])?;
            }
        }
        if given == before {
            return Ok((given, found));
        }
    }
}

fn iterations(m: &Module, of: &Loop, operands: &[Linearity]) -> Result<Vec<Linearity>, Problem> {
    let op = Op::from(of.clone());
    let spec = &of.spec;
    let (given, found) = carried(m, of, operands)?;
    let result = |(r, found): (usize, &Linearity)| spec.carrier(r).map_or(*found, |p| given[p]);
    let mut results: Vec<Linearity> = found.iter().enumerate().map(result).collect();
    if let TripCount::While { condition, reads } = &spec.trip {
        // The condition takes all carries as parameters but may read only some of them.
        let read: Vec<Linearity> = reads.iter().map(|p| given[*p]).collect();
        match follow(m, *condition, &read) {
            Ok(goes_on) if !goes_on.contains(&Linearity::Linear) => {}
            Ok(_) | Err(_) => return Err(not_linear(&op)),
        }
        results.push(Linearity::Constant);
    }
    Ok(results)
}

fn branches(m: &Module, of: &Cond, operands: &[Linearity]) -> Result<Vec<Linearity>, Problem> {
    let op = Op::from(of.clone());
    if operands[0] == Linearity::Linear {
        return Err(not_linear(&op));
    }
    let mut results: Option<Vec<Linearity>> = None;
    for branch in &of.branches {
        let found = follow(m, *branch, &operands[1..])?;
        results = Some(match results {
            None => found,
            Some(known) => {
                let both = known.into_iter().zip(found);
                both.map(|(x, y)| join(&op, x, y)).collect::<Result<_, _>>()?
            }
        });
    }
    Ok(results.unwrap_or_default())
}
