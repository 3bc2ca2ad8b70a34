//! What the rules of region primitives share: functions made to fit one another.

use super::call::Body;
use super::{BatchOf, Op, Reduce, Reducer, RuleCx, elementwise};
use crate::builder::{Builder, Draft};
use crate::function::{Atom, FuncId};
use crate::module::Module;
use crate::problem::Problem;
use crate::types::Type;
use crate::verify::verify_function;

/// The atom, or zeros of that type.
pub(super) fn instantiate(b: &Builder<'_>, x: Option<Atom>, ty: &Type) -> Atom {
    match (x, ty) {
        (Some(x), _) => x,
        (None, Type::Array(ty)) => elementwise::zeros(b, ty),
        (None, Type::Tape(_) | Type::Ref(_)) => {
            b.fail(Problem::internal(format!("there are no zeros of type {ty}")));
            crate::literal::Literal::f64(0.0).into()
        }
    }
}

/// Tangents of the outputs from those of the active ones.
pub(super) fn scatter_tangents(active: &[bool], tangents: &[Atom]) -> Vec<Option<Atom>> {
    let mut next = tangents.iter();
    active.iter().map(|on| if *on { next.next().copied() } else { None }).collect()
}

/// `(a, b) -> (c)`
pub(super) fn arrow(params: &[Type], results: &[Type]) -> String {
    let list = |types: &[Type]| {
        let names: Vec<String> = types.iter().map(Type::to_string).collect();
        names.join(", ")
    };
    format!("({}) -> ({})", list(params), list(results))
}

/// The function that an equation calls, unless it has rules of its own.
pub(super) fn called(op: &Op) -> Option<FuncId> {
    match op.body() {
        Body::Inline(f) | Body::Outline(f) => Some(f),
        Body::None | Body::Ruled(_) => None,
    }
}

/// The function with calls inlined, only the results from `first` on, and the marked ordinary
/// parameters linear (and so last).
///
/// # Errors
/// [`Kind::NotLinear`](crate::Kind::NotLinear), with the line of the primitive at fault.
pub fn as_linear(
    module: &mut Module,
    f: FuncId,
    linear: &[bool],
    first: usize,
) -> Result<FuncId, Problem> {
    let old = module.get(f);
    let mut draft = Draft::new(old.name.clone());
    let types = old.param_types();
    let is_linear = |i: usize| i >= old.params.len() || linear.get(i) == Some(&true);
    let mut args: Vec<Option<Atom>> = vec![None; types.len()];
    for (i, ty) in types.iter().enumerate().filter(|(i, _)| !is_linear(*i)) {
        args[i] = Some(draft.param(ty.clone()));
    }
    for (i, ty) in types.iter().enumerate().filter(|(i, _)| is_linear(*i)) {
        args[i] = Some(draft.linear_param(ty.clone()));
    }
    let args: Vec<Atom> = args.into_iter().flatten().collect();
    let mut results = Builder::new(module, &mut draft).open(f, &args, called);
    results.drain(..first);
    let function = draft.close(results)?;
    match verify_function(module, &function).into_iter().next() {
        None => module.add(function),
        Some(error) => Err(error.problem),
    }
}

/// The transpose of `(k..; x..) -> y..` as a function of all of `y` that gives all of `x`, with
/// zeros where no dependence exists.
pub(super) fn transposed(
    cx: &mut RuleCx<'_, '_>,
    f: FuncId,
    residuals: usize,
) -> Result<FuncId, Problem> {
    let linear = cx.b.with_module(|m| {
        let params = m.function(f).params.len();
        let linear: Vec<bool> = (0..params).map(|i| i >= residuals).collect();
        as_linear(m, f, &linear, 0)
    })?;
    let outputs = cx.b.with_module(|m| m.function(linear).results.len());
    let of = cx.transpose_of(linear, &vec![true; outputs])?;
    cx.b.with_module(|m| {
        let f = m.get(linear);
        let (k, seeds) = (f.params.iter(), f.result_types());
        let mut draft = Draft::new(format!("{}.transpose", f.name));
        let mut args: Vec<Atom> = k.map(|p| draft.param(f.types[*p].clone())).collect();
        args.extend(seeds.into_iter().map(|ty| draft.linear_param(ty)));
        let b = Builder::new(m, &mut draft);
        let mut given = b.inline(of.function, &args).into_iter();
        let fill = |(on, p): (&bool, &crate::function::ValueId)| {
            let back = if *on { given.next() } else { None };
            instantiate(&b, back, &f.types[*p])
        };
        let results = of.nonzero.iter().zip(&f.linear_params).map(fill).collect();
        draft.finish(m, results)
    })
}

/// What becomes of a result of a batched function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Settle {
    /// It stays as it came.
    AsIs,
    /// It carries the batch, if need be by repetition.
    Batched,
    /// It is summed over the batch: the cotangent of something that all members share.
    Summed,
}

/// A batched function with its results made as wanted.
pub(super) fn settled(
    module: &mut Module,
    of: &BatchOf,
    size: usize,
    wanted: &[Settle],
) -> Result<FuncId, Problem> {
    let done = |(on, want): (&bool, &Settle)| match want {
        Settle::AsIs => true,
        Settle::Batched => *on,
        Settle::Summed => false,
    };
    if of.batched_out.iter().zip(wanted).all(done) {
        return Ok(of.function);
    }
    let f = module.get(of.function);
    let mut draft = Draft::new(f.name.clone());
    let known = f.params.len();
    let param = |(i, ty): (usize, Type)| match i < known {
        true => draft.param(ty),
        false => draft.linear_param(ty),
    };
    let args: Vec<Atom> = f.param_types().into_iter().enumerate().map(param).collect();
    let b = Builder::new(module, &mut draft);
    let lead = |on: bool, r: Atom| match on {
        true => r,
        false => elementwise::materialize_lead(&b, size, r),
    };
    let settle = |((r, on), want): ((Atom, &bool), &Settle)| match want {
        Settle::AsIs => r,
        Settle::Batched => lead(*on, r),
        Settle::Summed => b.emit1(Reduce { reducer: Reducer::Sum, axes: vec![0] }, &[lead(*on, r)]),
    };
    let results = b.inline(of.function, &args).into_iter();
    let results = results.zip(&of.batched_out).zip(wanted).map(settle).collect();
    draft.finish(module, results)
}

/// Batched where the operand is batched, summed where it is shared.
pub(super) fn as_operands(batched: &[bool]) -> Vec<Settle> {
    batched.iter().map(|on| if *on { Settle::Batched } else { Settle::Summed }).collect()
}
