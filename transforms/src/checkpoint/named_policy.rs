//! Checks the names of a policy against the names in a function.
//!
//! ```text
//! named(act, mask)      %3: f64[8] = barrier{name=act, id=0} %2      nothing is named `mask`
//! ```
//!
//! With a misspelled name, a policy would save nothing, or everything; the user would notice only the time or
//! the number of bytes. So a name that no value of the function has is an error that lists the existing names.

use cranelift_entity::SecondaryMap;
use std::sync::Arc;
use tapeloom_ir::prim::{Lowering, Mark};
use tapeloom_ir::{Atom, FuncId, Function, Kind, Module, OrderedSet, Policy, Problem, ValueId};

/// Checks that each name of a policy is the name of a value of `f`, of a function that it runs or of their
/// derivative rules.
///
/// # Errors
/// [`Kind::Arguments`], with a list of the names that values do have.
pub fn known_names(module: &Module, f: FuncId, policy: &Policy) -> Result<(), Problem> {
    let asked = policy.names();
    if asked.is_empty() {
        return Ok(());
    }
    let there = names(module, f);
    let quoted = |names: &[Arc<str>]| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    let missing: Vec<Arc<str>> =
        asked.iter().filter(|name| !there.contains(*name)).cloned().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let there: Vec<Arc<str>> = there.into_iter().collect();
    let help = match there.as_slice() {
        [] => "no value of the function has a name: name one by `x.named(\"h\")`".to_owned(),
        [_] => format!("the function has one named value: {}", quoted(&there)),
        _ => format!("the values of the function have the names {}", quoted(&there)),
    };
    Err(Problem::new(
        Kind::Arguments,
        format!(
            "the policy `{}` names {}, and no value of the function has that name",
            policy.word(),
            quoted(&missing)
        ),
        help,
    ))
}

/// A named value is the operand of a mark, a `barrier` equation that has the name and returns the value. Returns a copy
/// of `f` in which, for each name in the policy, every read of the value is redirected to the output of the mark. So
/// the value is saved once, under its name, and is not recomputed for readers of the unmarked value.
///
/// ```text
/// %2 = exp %1                              %2 = exp %1
/// %3 = barrier{name=act, id=0} %2             %3 = barrier{name=act, id=0} %2
/// return %3, %2                            return %3, %3
/// ```
pub(super) fn read_by_name(module: &Module, f: &Function, policy: &Policy) -> Function {
    let (asked, mut f) = (policy.names(), f.clone());
    if asked.is_empty() {
        return f;
    }
    let mut named: SecondaryMap<ValueId, Option<Atom>> = SecondaryMap::new();
    let by_name = |a: &mut Atom, named: &SecondaryMap<ValueId, Option<Atom>>| {
        *a = a.value().and_then(|v| named[v]).unwrap_or(*a);
    };
    // Per output of a mark (a barrier that names a value) or of an equation that returns its operand: that operand.
    let mut of: SecondaryMap<ValueId, Option<ValueId>> = SecondaryMap::new();
    for i in 0..f.equations.len() {
        let lowering = f.equations[i].lower(module, &f);
        let e = &mut f.equations[i];
        e.operands.iter_mut().for_each(|a| by_name(a, &named));
        let Lowering::Alias { mark, .. } = lowering else { continue };
        let (y, mut next) = (e.outputs[0], e.operands[0].value());
        of[y] = next;
        // An argument is available without saving, so reads of the argument need not go through its name.
        while let Some(v) = next.filter(|v| !f.params.contains(v)) {
            let name = mark.as_ref().and_then(Mark::name);
            if name.is_some_and(|name| asked.contains(name)) {
                named[v] = Some(y.into());
            }
            next = of[v];
        }
    }
    f.results.iter_mut().for_each(|a| by_name(a, &named));
    f
}

/// Returns the names of values in `f`, in all functions that it runs, and in their derivative rules; sorted.
fn names(module: &Module, f: FuncId) -> OrderedSet<Arc<str>> {
    let (mut found, mut seen, mut open) = (OrderedSet::default(), OrderedSet::default(), vec![f]);
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let f = module.function(id);
        for e in &f.equations {
            open.extend(e.op.regions().iter().map(|r| r.function));
            if let Lowering::Alias { mark: Some(Mark::Named(name)), .. } = e.lower(module, f) {
                found.insert(name);
            }
        }
    }
    found.sort_unstable();
    found
}
