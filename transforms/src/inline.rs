//! Inlining: calls replaced by the bodies of the functions they run.
//!
//! Transforms inside a trace leave calls, so that programs stay linear in the depth of nesting.
//! [`inline`] opens them before the next transform and before code generation. A function with a
//! custom derivative rule stays closed until no derivative can be asked of it any more; [`expand`]
//! opens those too. Outlined calls stay.

use tapeloom_ir::prim::Body;
use tapeloom_ir::{Builder, Copying, FuncId, Module, Op, Problem};

/// The same function with ordinary calls inlined, to any depth.
///
/// # Errors
/// None that a well-formed module can cause.
pub fn inline(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    open(module, f, |op| match op.body() {
        Body::Inline(g) => Some(g),
        Body::None | Body::Ruled(_) | Body::Outline(_) => None,
    })
}

/// The same function with ordinary calls and functions with custom rules inlined.
///
/// # Errors
/// None that a well-formed module can cause.
pub fn expand(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    open(module, f, |op| match op.body() {
        Body::Inline(g) | Body::Ruled(g) => Some(g),
        Body::None | Body::Outline(_) => None,
    })
}

fn open(
    module: &mut Module,
    id: FuncId,
    wanted: fn(&Op) -> Option<FuncId>,
) -> Result<FuncId, Problem> {
    let f = module.get(id);
    if !f.equations.iter().any(|e| wanted(&e.op).is_some()) {
        return Ok(id);
    }
    let (mut draft, params) = Copying::same_signature(&f);
    let args: Vec<_> = f.all_params().map(|p| params.read(p.into())).collect();
    let results = Builder::new(module, &mut draft).open(id, &args, wanted);
    draft.finish(module, results)
}
