//! Inlining: replaces calls by the bodies of the called functions.
//!
//! Transforms inside a trace leave calls in the program, so that programs stay linear in the depth of nesting.
//! [`inline`] opens (inlines) these calls before the next transform and before code generation. A function with a
//! custom derivative rule stays closed as long as it may still be differentiated; [`expand`] opens such functions, too.
//! Outlined calls stay.

use crate::passes::pass::{Pass, Run};
use tapeloom_ir::prim::{Exactness, Role};
use tapeloom_ir::{Builder, FuncId, Module, Problem, ValueRemap};

/// The entry of the pass `inline` in the list `PASSES`.
pub(crate) const PASS: Pass = Pass {
    name: "inline",
    about: "calls are replaced by their bodies",
    exactness: Exactness::Exact,
    run: Run::Function(|_, module, f| inline(module, f)),
};

/// The entry of the pass `expand` in the list `PASSES`. The pass also inlines functions with custom derivative rules,
/// so it is meant for programs that are not differentiated any more.
pub(crate) const EXPAND: Pass = Pass {
    name: "expand",
    about: "calls and functions with custom rules are replaced by their bodies, and all parameters become ordinary ones",
    exactness: Exactness::Exact,
    run: Run::Function(|_, module, f| expand(module, f)),
};

/// Returns a copy of `f` with ordinary calls replaced by the bodies of their functions, at any depth.
pub(crate) fn inline(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    open(module, f, |role| match role {
        Role::Inline => true,
        Role::Ruled
        | Role::Checkpoint
        | Role::Outline
        | Role::Branch
        | Role::Iteration
        | Role::Rule => false,
    })
}

/// Returns a copy of `f` with ordinary calls and functions with custom rules inlined, and with its linear parameters
/// made ordinary: the result is not transposed any more. A loop that recomputes carries mixes linear and other values,
/// so the verifier would reject the loop if it read linear parameters.
fn expand(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    let opened = open(module, f, |role| match role {
        Role::Inline | Role::Ruled | Role::Checkpoint => true,
        Role::Outline | Role::Branch | Role::Iteration | Role::Rule => false,
    })?;
    let mut ordinary = (*module.get(opened)).clone();
    if ordinary.linear_params.is_empty() {
        return Ok(opened);
    }
    ordinary.params.append(&mut ordinary.linear_params);
    module.add(ordinary)
}

fn open(module: &mut Module, id: FuncId, wanted: fn(Role) -> bool) -> Result<FuncId, Problem> {
    let f = module.get(id);
    if f.equations.iter().all(|e| e.op.opened(wanted).is_none()) {
        return Ok(id);
    }
    let (mut draft, params) = ValueRemap::same_signature(&f);
    let args: Vec<_> = f.all_params().map(|p| params.read(p.into())).collect();
    let results = Builder::new(module, &mut draft).open(id, &args, |op| op.opened(wanted));
    draft.finish(module, results)
}
