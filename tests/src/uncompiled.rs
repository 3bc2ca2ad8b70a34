//! What is not compiled yet: programs with loops and branches.
//!
//! Until the backend compiles them, what compares engines asks [`compiled`] and passes such programs
//! by. This file goes when it does.

use crate::Failure;
use tapeloom_backend::{Options, Runnable, Target, compile};
use tapeloom_ir::prim::Role;
use tapeloom_ir::{FuncId, Kind, Module};

/// The program for a target; nothing if it has loops or branches, which the backend refuses.
///
/// # Errors
/// Any other refusal.
pub fn compiled(m: &Module, f: FuncId, target: Target) -> Result<Option<Runnable>, Failure> {
    match compile(m, f, &Options { target }) {
        Err(problem) if problem.kind == Kind::Target && controls(m, f) => Ok(None),
        answer => Ok(Some(answer?)),
    }
}

/// Whether a program has loops or branches.
fn controls(m: &Module, f: FuncId) -> bool {
    let regions = m.function(f).equations.iter().flat_map(|e| e.op.regions());
    regions.into_iter().any(|r| match r.role {
        Role::Branch | Role::Round => true,
        Role::Inline | Role::Ruled | Role::Checkpoint | Role::Outline | Role::Rule => {
            controls(m, r.function)
        }
    })
}
