//! Linearization: `linearize : (x -> y) -> (x -> (y, residuals)), ((residuals; dx) -> dy)`.
//!
//! jvp, split in two. Every equation that the rules emit is either independent of the tangents, and
//! goes to the forward half, or linear in them, and goes to the linear half. What the linear half
//! reads of the forward half are the *residuals*: they will be the tape. Values that depend on no
//! input (broadcast constants, iota) are made again in the linear half rather than kept.
//!
//! ```text
//! func @f(%0: f64[]) -> (f64[]) {  func @f.fwd(%0: f64[]) -> (f64[], f64[]) {  func @f.lin(%0: f64[]; %1: f64[]) -> (f64[]) {
//!   %1: f64[] = sin %0               %1: f64[] = sin %0                          %2: f64[] = mul %1, %0
//!   return %1                        %2: f64[] = cos %0                          return %2
//! }                                  return %1, %2                             }
//!                                  }
//! ```
//!
//! Source: Radul, Paszke, Frostig, Johnson, Maclaurin, "You Only Linearize Once" (POPL 2023).

use crate::dce::sweep;
use crate::jvp::{Rule, forward, read};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::prim::LinearizeOf;
use tapeloom_ir::{
    Atom, Builder, Derived, Draft, FuncId, Function, Key, Module, Operands, Problem, ValueId,
};

/// The two halves of the derivative of `f` with respect to the `active` parameters.
///
/// # Errors
/// A derivative that does not exist, with the user's line.
pub fn linearize(module: &mut Module, f: FuncId, active: &[bool]) -> Result<LinearizeOf, Problem> {
    let key = Key::masked("linearize", f, active);
    if let Some(Derived { functions, mask }) = module.recall(&key) {
        let active_out = mask.clone();
        return Ok(LinearizeOf { fwd: functions[0], lin: functions[1], active_out });
    }
    let name = module.get(f).name.clone();
    let (both, active_out) = forward(module, f, active, Rule::Linearize)?;
    let both = sweep(module, both)?;
    let of = split(module, &name, both, active, active_out)?;
    let derived = Derived { functions: vec![of.fwd, of.lin], mask: of.active_out.clone() };
    module.remember(key, derived);
    Ok(of)
}

/// Where a value of the combined program belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Half {
    /// Depends on no parameter: made in both halves.
    Constant,
    /// Depends on the primals alone.
    Forward,
    /// Depends on the tangents.
    Linear,
}

fn split(
    module: &mut Module,
    name: &str,
    both: Function,
    active: &[bool],
    mut active_out: Vec<bool>,
) -> Result<LinearizeOf, Problem> {
    let primals = active.len();
    let mut half: SecondaryMap<ValueId, Half> = SecondaryMap::with_default(Half::Constant);
    for (i, p) in both.params.iter().enumerate() {
        half[*p] = if i < primals { Half::Forward } else { Half::Linear };
    }
    let of = |half: &SecondaryMap<ValueId, Half>, a: Atom| match a {
        Atom::Value(v) => half[v],
        Atom::Literal(_) => Half::Constant,
    };
    for e in &both.equations {
        let parts = || e.operands.iter().map(|a| of(&half, *a));
        let h = match () {
            () if parts().any(|h| h == Half::Linear) => Half::Linear,
            () if parts().any(|h| h == Half::Forward) => Half::Forward,
            () => Half::Constant,
        };
        for o in &e.outputs {
            half[*o] = h;
        }
    }
    let (y, dy) = both.results.split_at(active_out.len());
    if y.iter().any(|a| of(&half, *a) == Half::Linear) {
        return Err(Problem::internal(format!("a rule mixed values and tangents in @{name}")));
    }
    // A tangent that depends on no tangent is zero.
    let mut tangents = dy.iter();
    let mut live = Vec::new();
    for on in active_out.iter_mut().filter(|on| **on) {
        if let Some(t) = tangents.next() {
            *on = of(&half, *t) == Half::Linear;
            live.extend(on.then_some(*t));
        }
    }

    // Forward half, and which of its values the linear half asks for.
    let mut fwd = Draft::new(format!("{name}.fwd"));
    let mut in_fwd: SecondaryMap<ValueId, Option<Atom>> = SecondaryMap::new();
    for p in &both.params[..primals] {
        in_fwd[*p] = Some(fwd.param(both.types[*p].clone()));
    }
    let mut lin = Draft::new(format!("{name}.lin"));
    let mut in_lin: SecondaryMap<ValueId, Option<Atom>> = SecondaryMap::new();
    let mut residuals: Vec<Atom> = Vec::new();
    for e in &both.equations {
        if e.outputs.iter().any(|o| half[*o] == Half::Linear) {
            for a in e.operands.iter().filter(|a| of(&half, **a) == Half::Forward) {
                if let Atom::Value(v) = a
                    && in_lin[*v].is_none()
                {
                    in_lin[*v] = Some(lin.param(both.types[*v].clone()));
                    residuals.push(*a);
                }
            }
        }
    }
    for p in &both.params[primals..] {
        in_lin[*p] = Some(lin.linear_param(both.types[*p].clone()));
    }
    copy(module, &both, &mut fwd, &mut in_fwd, |h| h != Half::Linear, &half);
    copy(module, &both, &mut lin, &mut in_lin, |h| h != Half::Forward, &half);

    let results = y.iter().chain(&residuals).map(|a| read(&in_fwd, *a)).collect();
    let fwd = sweep(module, fwd.close(results)?)?;
    let lin = sweep(module, lin.close(live.iter().map(|a| read(&in_lin, *a)).collect())?)?;
    Ok(LinearizeOf { fwd: module.add(fwd)?, lin: module.add(lin)?, active_out })
}

/// Copies the equations of the wanted halves.
fn copy(
    module: &mut Module,
    both: &Function,
    draft: &mut Draft,
    map: &mut SecondaryMap<ValueId, Option<Atom>>,
    wanted: impl Fn(Half) -> bool,
    half: &SecondaryMap<ValueId, Half>,
) {
    let b = Builder::new(module, draft);
    for (i, e) in both.equations.iter().enumerate() {
        if e.outputs.iter().any(|o| !wanted(half[*o])) {
            continue;
        }
        let operands: Operands = e.operands.iter().map(|a| read(map, *a)).collect();
        for (new, old) in b.copy(both, i, operands).iter().zip(&e.outputs) {
            map[*old] = Some((*new).into());
        }
    }
}
