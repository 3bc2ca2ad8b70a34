//! Inlining: calls replaced by the bodies of the functions they run.
//!
//! Transforms inside a trace leave calls, so that programs stay linear in the depth of nesting.
//! [`inline`] opens them before the next transform and before code generation. A function with a
//! custom derivative rule stays closed until no derivative can be asked of it any more; [`expand`]
//! opens those too. Outlined calls stay.

use crate::jvp::{read, same_signature};
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Body;
use tapeloom_ir::{Builder, Derived, FuncId, Key, Module, Operands, Problem};

/// The same function with ordinary calls inlined, to any depth.
///
/// # Errors
/// None that a well-formed module can cause.
pub fn inline(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    open(module, f, "inline", |body| match body {
        Body::Inline(g) => Some(g),
        Body::None | Body::Ruled(_) | Body::Outline(_) => None,
    })
}

/// The same function with ordinary calls and functions with custom rules inlined.
///
/// # Errors
/// None that a well-formed module can cause.
pub fn expand(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    open(module, f, "expand", |body| match body {
        Body::Inline(g) | Body::Ruled(g) => Some(g),
        Body::None | Body::Outline(_) => None,
    })
}

fn open(
    module: &mut Module,
    id: FuncId,
    name: &'static str,
    wanted: fn(Body) -> Option<FuncId>,
) -> Result<FuncId, Problem> {
    let key = Key { transform: name, function: id, detail: Vec::new() };
    if let Some(Derived { functions, .. }) = module.recall(&key) {
        return Ok(functions[0]);
    }
    let f = module.get(id);
    if !f.equations.iter().any(|e| wanted(e.op.body()).is_some()) {
        return Ok(id);
    }
    let (mut draft, mut map) = same_signature(&f);
    for (i, e) in f.equations.iter().enumerate() {
        let mut operands: Operands = e.operands.iter().map(|a| read(&map, *a)).collect();
        match wanted(e.op.body()) {
            None => {
                let b = Builder::new(module, &mut draft);
                for (new, old) in b.copy(&f, i, operands).iter().zip(&e.outputs) {
                    map[*old] = Some((*new).into());
                }
            }
            Some(callee) => {
                if planted(Fault::CallOrder)
                    && let [x, y, ..] = e.operands.as_slice()
                    && f.type_of(*x) == f.type_of(*y)
                {
                    operands.swap(0, 1);
                }
                let callee = open(module, callee, name, wanted)?;
                let b = Builder::new(module, &mut draft);
                b.at(f.location(i));
                for (new, old) in b.inline(callee, &operands).iter().zip(&e.outputs) {
                    map[*old] = Some(*new);
                }
            }
        }
    }
    let function = draft.finish(module, f.results.iter().map(|r| read(&map, *r)).collect())?;
    module.remember(key, Derived { functions: vec![function], mask: Vec::new() });
    Ok(function)
}
