//! Scalar privatization: a variable that each iteration sets before it reads it becomes local to the iteration.
//!
//! A loop's body was a kernel before it was inlined, and its memory became variables outside of the loop. No value
//! passes from iteration to iteration in these variables, but the declarations suggest it:
//!
//! ```text
//! var v0: f64 = 0.0
//! serial i0 in 5 {                          for i0 in 5 {
//!   v0 = 0.0                                  var v0: f64 = 0.0
//!   serial i1 in 1000 {             ->        serial i1 in 1000 {
//!     .. v0 = %1                                .. v0 = %1
//!   }                                         }
//!   %2: f64 = convert{to=f64} v0              %2: f64 = convert{to=f64} v0
//!   store b1[i0], %2                          store b1[i0], %2
//! }                                         }
//! ```
//!
//! A declaration moves into the innermost block that contains all uses of its variable, if that block sets the
//! variable before it reads it. Loops that were serial only because of such a variable become parallel, and sums in
//! different iterations become independent chains.

use super::pass::{Invariant, Pass, Run};
use crate::loop_ir::{Arg, Kernel, Stmt, VarId, infer_parallelism, visit};
use tapeloom_ir::OrderedSet;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Exactness;

/// The table entry of this pass, which `super::PASSES` lists: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "privatize_scalars",
    about: "a variable that each iteration sets before reading becomes local to the iteration",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Kernels(|kernel, _| privatize_scalars(kernel)),
};

/// Privatizes the variables of a kernel. Returns whether any declaration moved.
fn privatize_scalars(kernel: &mut Kernel) -> bool {
    let changed = block(&mut kernel.body);
    if changed {
        infer_parallelism(kernel);
    }
    changed
}

/// Moves declarations into inner blocks. Returns whether any declaration moved.
fn block(body: &mut Vec<Stmt>) -> bool {
    let declared = |stmt: &Stmt| if let Stmt::Var { var, .. } = stmt { Some(*var) } else { None };
    let declared: Vec<VarId> = body.iter().filter_map(declared).collect();
    let moved: OrderedSet<VarId> =
        declared.into_iter().filter(|var| moves_inwards(body, *var)).collect();
    body.retain(|stmt| !matches!(stmt, Stmt::Var { var, .. } if moved.contains(var)));
    for stmt in body.iter_mut() {
        for inside in stmt.blocks_mut() {
            moved.iter().for_each(|var| declare(inside, *var));
        }
    }
    let mut any = !moved.is_empty();
    for stmt in body {
        stmt.blocks_mut().into_iter().for_each(|inside| any |= block(inside));
    }
    any
}

/// Returns whether a statement uses a variable, not counting its declaration.
fn mentions(stmt: &Stmt, var: VarId) -> bool {
    let mut found = false;
    visit(std::slice::from_ref(stmt), &mut |s| {
        found |= s.assigned().is_some_and(|(v, _)| v == var) && !matches!(s, Stmt::Var { .. });
        s.args(&mut |a| found |= a == Arg::Var(var));
    });
    found
}

/// Returns whether the declaration of a variable can move into an inner block: one nest or loop of `body`
/// holds all uses.
fn moves_inwards(body: &[Stmt], var: VarId) -> bool {
    let mut users = body.iter().filter(|stmt| mentions(stmt, var));
    let (Some(Stmt::Nest { body: inside, .. } | Stmt::For { body: inside, .. }), None) =
        (users.next(), users.next())
    else {
        return false;
    };
    sets_first(inside, var) || moves_inwards(inside, var)
}

/// Returns whether the first statement of a block that uses a variable sets it.
fn sets_first(body: &[Stmt], var: VarId) -> bool {
    let first = body.iter().find(|stmt| mentions(stmt, var));
    let sets = |stmt: &Stmt| matches!(stmt, Stmt::Set { var: v, value } if *v == var && *value != Arg::Var(var));
    first.is_some_and(sets) || planted(Fault::OwnOfTheIteration)
}

/// Declares a variable in the block, `body` or one inside, that sets the variable before reading it.
fn declare(body: &mut Vec<Stmt>, var: VarId) {
    if !sets_first(body, var) {
        for stmt in body {
            stmt.blocks_mut().into_iter().for_each(|inside| declare(inside, var));
        }
        return;
    }
    let first = body.iter_mut().find(|stmt| mentions(stmt, var));
    if let Some(stmt) = first
        && let Stmt::Set { value, .. } = stmt
    {
        *stmt = Stmt::Var { var, init: *value };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::privatize_scalars;
    use crate::loop_ir::{eval, parse, shadow, verify};
    use tapeloom_ir::Tensor;

    fn local(body: &str) -> String {
        let text = format!(
            "program @x {{ buffer b0: f64[4] input 0 buffer b1: f64[4] output 0
               for i9 in 4 {{ store b1[i9], 0.5 }} {body} }}"
        );
        let mut program = parse(&text, &|_| None).unwrap();
        assert_eq!(verify(&program), []);
        let x = [Tensor::from([1.0, 2.0, 4.0, 8.0])];
        let want = eval(&program, &x).unwrap();
        program.kernels_mut().for_each(|kernel| _ = privatize_scalars(kernel));
        assert_eq!(verify(&program), [], "{program}");
        assert_eq!(eval(&program, &x).unwrap(), want, "{program}");
        assert_eq!(shadow(&program, &x).unwrap(), want, "{program}");
        program.to_string()
    }

    #[test]
    fn variables_set_before_use_are_privatized() {
        let text = local(
            "nest { var v0: f64 = 0.0 serial i0 in 4 { v0 = 1.0 serial i1 in 2 {
               %0: f64 = load b0[i0] %1: f64 = mul v0, %0 v0 = %1 }
             %2: f64 = convert{to=f64} v0 store b1[i0], %2 } }",
        );
        assert!(text.contains("for i0 in 4 {\n      var v0: f64 = 1.0"), "{text}");
    }

    #[test]
    fn live_variables_are_not_privatized() {
        // The declaration stays if the value is read in the next iteration, read after the loop, or set only
        // in a branch.
        for body in [
            "nest { var v0: f64 = 2.0 serial i0 in 4 { %0: f64 = convert{to=f64} v0 store b1[i0], %0
               v0 = 1.0 } }",
            "nest { var v0: f64 = 2.0 serial i0 in 4 { v0 = 1.0 %0: f64 = convert{to=f64} v0
               store b1[i0], %0 } %1: f64 = convert{to=f64} v0 store b1[0], %1 }",
            "nest { var v0: f64 = 2.0 serial i0 in 4 { %0: bool = lt i0, 2 if %0 { v0 = 1.0 } else { }
               %1: f64 = convert{to=f64} v0 store b1[i0], %1 } }",
        ] {
            let text = local(body);
            assert!(text.contains("var v0: f64 = 2.0\n    serial i0"), "{text}");
        }
    }
}
