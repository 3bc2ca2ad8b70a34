//! Values that are defined implicitly, as solutions of an equation: [`LinearSolve`] and [`Root`].
//!
//! The solver is an ordinary function that is evaluated but never differentiated. The derivative of the value
//! follows from the equation (the implicit function theorem): it takes one linear system per tangent, whatever
//! iterations the solver ran. The rules emit the same primitives, so derivatives of every order are such
//! systems again.

mod linear_solve;
mod root;
mod samples;

pub use linear_solve::LinearSolve;
pub use root::Root;

use super::rules::region_helpers::{arrow, signature};
use super::rules::split_linear::transpose_of;
use super::{Call, LinearCall, Op, Regions, RuleCx};
use crate::lang::function::{Atom, FuncId};
use crate::lang::module::Module;
use crate::lang::problem::{Kind, Problem};
use crate::lang::query::BatchRequest;
use crate::lang::remap::rebuild;
use crate::lang::stack::deeper;
use crate::lang::types::Type;

/// The way in which a rule emits tangents: by forward mode (`Jvp`), or as equations each of which is independent
/// of the tangents or linear in them (`Linearize`).
#[derive(Clone, Copy)]
enum TangentMode {
    Jvp,
    Linearize,
}

impl TangentMode {
    /// Emits the tangents of the results of a function, for tangents of its arguments.
    fn of(
        self,
        cx: &mut RuleCx<'_, '_>,
        f: FuncId,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Vec<Option<Atom>>, Problem> {
        use super::Primitive;
        let call = Call::inline(f);
        let dual = match self {
            TangentMode::Jvp => call.jvp(cx, x, dx)?,
            TangentMode::Linearize => call.linearize(cx, x, dx)?,
        };
        Ok(dual.dy.into_vec())
    }
}

/// Checks that one of the functions of `linear_solve` or `root` has the required type.
fn check(
    module: &Module,
    what: &str,
    f: FuncId,
    params: &[&[Type]],
    results: &[Type],
) -> Result<(), Problem> {
    let (f, params) = (module.function(f), params.concat());
    if f.param_types() == params && f.result_types() == results {
        return Ok(());
    }
    Err(Problem::new(
        Kind::Rule,
        format!(
            "the {what} @{} must have the type {}, found {}",
            f.name,
            arrow(&params, results),
            signature(f)
        ),
        "the unknown, its equation and its solvers have one type",
    ))
}

/// Checks that all unknowns are floats: values of other dtypes have no tangent.
fn check_floats(what: &str, types: &[Type]) -> Result<(), Problem> {
    match types.iter().find(|ty| !ty.is_linear()) {
        None => Ok(()),
        Some(ty) => Err(Problem::new(
            Kind::Dtype,
            format!("`{what}` solves for {ty}"),
            "solve for floats, and close over everything else",
        )),
    }
}

/// Returns the solver of a transposed system with its missing maps derived: each [`LinearCall`] without `apply`
/// becomes a call of the transpose of its other map.
///
/// The maps are derived only when a cotangent needs them, because most programs never use the solver of the
/// transposed system, and some maps have no transpose.
fn completed(regions: &mut dyn Regions, m: &mut Module, id: FuncId) -> Result<FuncId, Problem> {
    let f = m.get(id);
    let mut changed = false;
    let copy = rebuild(&f, |draft, i, operands| {
        let at = f.location(i);
        let op = match &f.equations[i].op {
            Op::LinearCall(LinearCall { apply: None, transpose: Some(map), residuals }) => {
                changed = true;
                let map = transpose_of(regions, m, *map, *residuals).map_err(|p| p.at(at))?;
                Call::inline(map).into()
            }
            op => {
                let mut functions = Vec::new();
                for region in op.regions() {
                    let before = region.function;
                    let after = match region.role.runs() {
                        true => deeper(|| completed(regions, m, before))?,
                        false => before,
                    };
                    changed |= after != before;
                    functions.push(after);
                }
                if functions.is_empty() { op.clone() } else { op.with_regions(&functions) }
            }
        };
        Ok(draft.copy_as(op, &f, i, operands))
    })?;
    if changed { m.add(copy) } else { Ok(id) }
}

/// Returns `f` over a batch, with all results batched.
fn lift(
    cx: &mut RuleCx<'_, '_>,
    size: usize,
    f: FuncId,
    batched: &[bool],
) -> Result<FuncId, Problem> {
    let of = cx.derive(|regions, m| {
        let wanted = vec![BatchRequest::Batched; m.function(f).results.len()];
        regions.batch(m, f, size, batched, &wanted)
    })?;
    Ok(of.function)
}
