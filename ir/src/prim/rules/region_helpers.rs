//! Helpers for the rules of region primitives, which construct functions with matching signatures.

use crate::lang::builder::{Builder, Draft};
use crate::lang::function::{Atom, FuncId, Function};
use crate::lang::module::Module;
use crate::lang::problem::Problem;
use crate::lang::query::BatchRequest;
use crate::lang::types::Type;
use crate::lang::verify::verify_function;
use crate::prim::{Linearity, Op, Reduce, Reducer, Role, elementwise};

/// Returns `x`; if `x` is absent, emits zeros of type `ty` (a tape without records, if `ty` is a tape).
pub fn instantiate(b: &Builder<'_>, x: Option<Atom>, ty: &Type) -> Atom {
    match (x, ty) {
        (Some(x), _) => x,
        (None, Type::Array(ty)) => elementwise::zeros(b, ty),
        (None, Type::Tape(fields)) => crate::prim::control::loops::empty_tape(b, fields),
    }
}

/// Returns one tangent per output: for an active output the next one of `tangents`, for any other
/// output `None`.
pub(crate) fn scatter_tangents(active: &[bool], tangents: &[Atom]) -> Vec<Option<Atom>> {
    let mut next = tangents.iter();
    active.iter().map(|on| if *on { next.next().copied() } else { None }).collect()
}

/// Formats the type of a function with these parameters and results: `(a, b) -> (c)`.
pub(crate) fn arrow(params: &[Type], results: &[Type]) -> String {
    format!("({}) -> ({})", list(params), list(results))
}

/// Formats the type of the function `f`: `(a, b) -> (c)`, or `(a; b) -> (c)` if it is linear in `b`.
pub(crate) fn signature(f: &Function) -> String {
    let params = f.param_types();
    let (first, linear) = params.split_at(f.params.len());
    let gap = if linear.is_empty() { "" } else { "; " };
    format!("({}{gap}{}) -> ({})", list(first), list(linear), list(&f.result_types()))
}

fn list(types: &[Type]) -> String {
    let names: Vec<String> = types.iter().map(Type::to_string).collect();
    names.join(", ")
}

/// Adds to the module a function with ordinary and linear parameters of these types; `body` emits it.
pub(crate) fn function(
    module: &mut Module,
    name: &str,
    [params, linear]: [&[Type]; 2],
    body: impl FnOnce(&Builder<'_>, &[Atom], &[Atom]) -> Vec<Atom>,
) -> Result<FuncId, Problem> {
    let mut draft = Draft::new(name);
    let params: Vec<Atom> = params.iter().map(|ty| draft.param(ty.clone())).collect();
    let linear: Vec<Atom> = linear.iter().map(|ty| draft.linear_param(ty.clone())).collect();
    let results = body(&Builder::new(module, &mut draft), &params, &linear);
    draft.finish(module, results)
}

/// Returns the function of a plain call; `None` if the equation has derivative rules, branches or
/// iterations.
pub(crate) fn called(op: &Op) -> Option<FuncId> {
    op.opened(Role::is_call)
}

/// Returns `f` with calls inlined and with only the results from `first` on. The ordinary parameters marked in `linear`
/// become linear ones, and so come last. The error names the equation that is not linear as written.
pub(super) fn linear_part(
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

/// Returns whether arguments of the given linearity fit a function whose first `known` parameters are
/// ordinary and whose others are linear: zero fits any parameter.
pub(crate) fn fits(known: usize, given: impl IntoIterator<Item = (usize, Linearity)>) -> bool {
    given.into_iter().all(|(parameter, given)| match given {
        Linearity::Constant => parameter < known,
        Linearity::Zero => true,
        Linearity::Linear => parameter >= known,
    })
}

/// Converts a result of a batched function to the requested form (unchanged, batched, or summed over
/// the batch); also returns whether the converted result is batched.
pub fn batch_as_requested(
    b: &Builder<'_>,
    size: usize,
    result: Atom,
    batched: bool,
    wanted: BatchRequest,
) -> (Atom, bool) {
    let lead = || match batched {
        true => result,
        false => match b.type_of(result) {
            Type::Array(_) => elementwise::materialize_lead(b, size, result),
            Type::Tape(_) => crate::prim::control::loops::spread_tape(b, size, result),
        },
    };
    match wanted {
        BatchRequest::AsIs => (result, batched),
        BatchRequest::Batched => (lead(), true),
        BatchRequest::Summed => {
            (b.emit1(Reduce { reducer: Reducer::Sum, axes: vec![0] }, &[lead()]), false)
        }
    }
}

/// Returns the requested form of each operand's cotangent: batched if the operand is batched, summed
/// over the batch if all members share the operand.
pub(crate) fn as_operands(batched: &[bool]) -> Vec<BatchRequest> {
    batched
        .iter()
        .map(|on| if *on { BatchRequest::Batched } else { BatchRequest::Summed })
        .collect()
}
