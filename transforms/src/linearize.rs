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

use crate::jvp::{Rule, forward};
use crate::regions::Transforms;
use crate::sweep::sweep;
use cranelift_entity::SecondaryMap;
use tapeloom_ir::prim::LinearizeOf;
use tapeloom_ir::{Atom, Copying, Derived, Draft, FuncId, Function, Key, Module, Problem, ValueId};

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
    let both = sweep(&mut Transforms, module, both)?;
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
    let mut in_fwd = Copying::new();
    for p in &both.params[..primals] {
        in_fwd.bind(*p, fwd.param(both.types[*p].clone()));
    }
    let mut lin = Draft::new(format!("{name}.lin"));
    let mut in_lin = Copying::new();
    let mut residuals: Vec<Atom> = Vec::new();
    for e in &both.equations {
        if e.outputs.iter().any(|o| half[*o] == Half::Linear) {
            for a in e.operands.iter().filter(|a| of(&half, **a) == Half::Forward) {
                if let Atom::Value(v) = a
                    && !in_lin.knows(*v)
                {
                    in_lin.bind(*v, lin.param(both.types[*v].clone()));
                    residuals.push(*a);
                }
            }
        }
    }
    for p in &both.params[primals..] {
        in_lin.bind(*p, lin.linear_param(both.types[*p].clone()));
    }
    for (i, e) in both.equations.iter().enumerate() {
        let is = |h: Half| e.outputs.iter().all(|o| half[*o] == h);
        if !is(Half::Linear) {
            in_fwd.define(e, fwd.copy(&both, i, in_fwd.all(&e.operands)));
        }
        if !is(Half::Forward) {
            in_lin.define(e, lin.copy(&both, i, in_lin.all(&e.operands)));
        }
    }

    let results = y.iter().chain(&residuals).map(|a| in_fwd.read(*a)).collect();
    let fwd = sweep(&mut Transforms, module, fwd.close(results)?)?;
    let lin = sweep(&mut Transforms, module, lin.close(in_lin.all(&live).to_vec())?)?;
    Ok(LinearizeOf { fwd: module.add(fwd)?, lin: module.add(lin)?, active_out })
}
