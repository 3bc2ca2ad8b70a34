//! The names of a policy, and the names that there are.
//!
//! ```text
//! named(act, mask)      %3: f64[8] = keep{name=act, id=0} %2      nothing is named `mask`
//! ```
//!
//! Who misspells a name would keep nothing, or everything, and see no more of it than a time or a number of
//! bytes. So a name that no value of the function has is an error that says which there are.

use std::sync::Arc;
use tapeloom_ir::prim::{Lowering, MARKS};
use tapeloom_ir::{FuncId, Kind, Module, OrderedSet, Policy, Problem};

/// Whether the function has a value for each name of a policy.
///
/// # Errors
/// [`Kind::Arguments`], with the names that there are.
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
        [] => "no value of it has a name: mark one, as `x.named(\"h\")` does".to_owned(),
        [_] => format!("it has one named value: {}", quoted(&there)),
        _ => format!("its values have the names {}", quoted(&there)),
    };
    Err(Problem::new(
        Kind::Arguments,
        format!(
            "the policy `{}` speaks of {}, and no value of the function has that name",
            policy.word(),
            quoted(&missing)
        ),
        help,
    ))
}

/// The names that users gave to values of a function and of all that it runs or is derived by.
fn names(module: &Module, f: FuncId) -> OrderedSet<Arc<str>> {
    let (mut found, mut seen, mut open) = (OrderedSet::default(), OrderedSet::default(), vec![f]);
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let f = module.function(id);
        for e in &f.equations {
            open.extend(e.op.regions().iter().map(|r| r.function));
            if let Lowering::Alias { kept: Some(name) } = e.lower(module, f)
                && !MARKS.contains(&&*name)
            {
                found.insert(name);
            }
        }
    }
    found.sort_unstable();
    found
}
