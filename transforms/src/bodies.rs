//! Passes on bodies: what is done to a program is done to the functions it calls, too.
//!
//! A call that the user asked to keep (an outlined one) hides its function from passes, which see
//! one function at a time. [`everywhere`] runs a pass on a function and then on every function that
//! the result still calls, callees once each however often they are called, and puts the new ones in
//! the place of the old. Signatures stay as they are, so nothing else changes.

use std::collections::HashMap;
use tapeloom_ir::prim::{Attr, Attributes, Body};
use tapeloom_ir::{FuncId, Module, Op, Problem, rebuild};

/// A pass as a function.
pub(crate) type Run = fn(&mut Module, FuncId) -> Result<FuncId, Problem>;

/// Runs a pass on a function and on those it calls outlined.
pub(crate) fn everywhere(module: &mut Module, id: FuncId, run: Run) -> Result<FuncId, Problem> {
    visit(module, id, run, &mut HashMap::new())
}

fn visit(
    module: &mut Module,
    id: FuncId,
    run: Run,
    done: &mut HashMap<FuncId, FuncId>,
) -> Result<FuncId, Problem> {
    if let Some(known) = done.get(&id) {
        return Ok(*known);
    }
    let new = run(module, id)?;
    let mut renamed = HashMap::new();
    for e in &module.get(new).equations {
        if let Body::Outline(callee) = e.op.body() {
            let after = visit(module, callee, run, done)?;
            if after != callee {
                renamed.insert(callee, after);
            }
        }
    }
    let new = if renamed.is_empty() { new } else { rename(module, new, &renamed)? };
    done.insert(id, new);
    Ok(new)
}

/// The same function calling others.
fn rename(
    module: &mut Module,
    id: FuncId,
    renamed: &HashMap<FuncId, FuncId>,
) -> Result<FuncId, Problem> {
    let f = module.get(id);
    let renamed = rebuild(&f, |draft, i, operands| {
        let op = &f.equations[i].op;
        let op = match op.body() {
            Body::Outline(g) if renamed.contains_key(&g) => calling(op, renamed)?,
            Body::Outline(_) | Body::None | Body::Inline(_) | Body::Ruled(_) => op.clone(),
        };
        Ok(draft.copy_as(op, &f, i, operands))
    })?;
    module.add(renamed)
}

/// The primitive with other functions among its attributes.
fn calling(op: &Op, renamed: &HashMap<FuncId, FuncId>) -> Result<Op, Problem> {
    let attributes = op.attributes().into_iter().map(|(name, attribute)| {
        let attribute = match attribute {
            Attr::Func(g) => Attr::Func(renamed.get(&g).copied().unwrap_or(g)),
            other => other,
        };
        (name.to_owned(), attribute)
    });
    let missing = || Problem::internal(format!("`{}` does not parse", op.name()));
    Op::parse(op.name(), &mut Attributes::new(attributes.collect())).ok_or_else(missing)?
}
