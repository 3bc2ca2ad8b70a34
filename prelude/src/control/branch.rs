//! `cond` and `switch`: run one of several closures.

use super::shared::{Shared, single};
use crate::Var;
use crate::function::{Function, one};
use crate::prng::{in_branch, next_branching};
use crate::staging::{Staged, like, rebuild, stage_in, vars};
use crate::tree::{Tree, flatten};
use crate::var::caller;
use tapeloom_ir::prim::Cond;
use tapeloom_ir::trace::{self, Diagnostic, Handle, Note};
use tapeloom_ir::{ArrayType, Dtype, FuncId, Kind, Loc, Module, Problem};

/// Returns `yes(x)` if `which` is true, else `no(x)`. Only the selected closure runs.
///
/// Both closures return trees of the same form with leaves of equal types. The derivative is that of the branch
/// that runs; the other branch does not affect it, even if it has a pole at `x`. Under `vmap`, members may take
/// different branches: then both branches run, and each member gets the results of its own branch.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(grad(|x: Var| cond(x.gt(0.0), |x: Var| x.sqrt(), |x: Var| -x, x)));
/// assert_eq!(f.call(4.0)?.item::<f64>()?, 0.25);
/// assert_eq!(f.call(0.0)?.item::<f64>()?, -1.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` or `dtype` if `which` is not a single truth value, or if the branches return different types;
/// `arguments` if they return trees of different forms.
#[track_caller]
pub fn cond<A, B, F, G, M, N>(which: Var, yes: F, no: G, x: A) -> B
where
    A: Tree<Var>,
    B: Tree<Var>,
    F: Function<A, B, M>,
    G: Function<A, B, N>,
{
    let (yes, no) = (one(yes), one(no));
    let at = caller();
    let one = single("cond", "a condition", Dtype::Bool, which, at);
    choose("cond", at, which, one, &no, &[&yes], x)
}

/// Returns `branches[i](x)`, where `i` is clamped to the valid range.
///
/// This is [`cond`] for any number of closures. `i` is an `i64` scalar.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(i, x): (Var, Var)| switch(i, [&|x: Var| x.sin(), &|x: Var| x.cos(), &|x| x * x], x));
/// assert_eq!(f.call((7i64, 3.0))?.item::<f64>()?, 9.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: those of [`cond`]; `shape` or `dtype` if `i` is not a single `i64`.
#[track_caller]
pub fn switch<A: Tree<Var>, B: Tree<Var>, const N: usize>(
    i: Var,
    branches: [&dyn Fn(A) -> B; N],
    x: A,
) -> B {
    const { assert!(N > 0, "`switch` needs a branch") };
    let at = caller();
    let one = single("switch", "the number of a branch", Dtype::I64, i, at);
    choose("switch", at, i, one, branches[0], &branches[1..], x)
}

fn choose<A: Tree<Var>, B: Tree<Var>>(
    transform: &'static str,
    at: Loc,
    which: Var,
    decides: bool,
    first: &dyn Fn(A) -> B,
    rest: &[&dyn Fn(A) -> B],
    x: A,
) -> B {
    let (structure, args) = flatten(&x);
    let params = like(&args, at);
    let branching = next_branching();
    let trace = |i: u32, f: &dyn Fn(A) -> B| {
        in_branch(branching, i, || {
            let opened = trace::body(transform, at, &params);
            stage_in(opened, f, &structure, args.clone())
        })
    };
    let (first, output) = trace(0, first);
    let rest: Vec<Staged> = (1..).zip(rest).map(|(i, f)| trace(i, *f).0).collect();
    rebuild(&output, emit_cond(which, decides, &first, &rest), at)
}

/// Emits the conditional and returns its results. If the branches differ, or `decides` is false, returns placeholders.
fn emit_cond(which: Var, decides: bool, first: &Staged, rest: &[Staged]) -> Vec<Var> {
    let at = first.at;
    let staged = || std::iter::once(first).chain(rest);
    let alike = rest.iter().all(|other| same_results(first, other, at));
    let functions: Option<Vec<FuncId>> = staged().map(Staged::function).collect();
    let bound = functions.filter(|_| alike && decides).and_then(|functions| {
        let taken: Vec<_> = staged().map(Staged::taken).collect();
        let shared = Shared::of(&taken, at);
        let whole = |m: &mut Module| -> Result<Vec<FuncId>, Problem> {
            let each = functions.iter().zip(staged()).enumerate();
            each.map(|(i, (f, of))| shared.with_written_state(m, *f, of, i)).collect()
        };
        let branches = match trace::with_module(whole)? {
            Ok(branches) => branches,
            Err(problem) => {
                first.report(Diagnostic::new(problem, at));
                return None;
            }
        };
        let operands = std::iter::once(which.handle).chain(first.args.iter().map(|v| v.handle));
        let operands: Vec<Handle> = operands.chain(shared.captures.iter().copied()).collect();
        Some(shared.store_state(trace::bind(Cond { branches }, &operands, at).to_vec()))
    });
    match bound {
        Some(results) => vars(&results),
        None => {
            staged().for_each(Staged::spoil);
            first.poison(&first.result_types())
        }
    }
}

/// Checks that two branches return trees of the same form with leaves of equal types. Otherwise reports an error and
/// returns false.
fn same_results(one: &Staged, other: &Staged, at: Loc) -> bool {
    let report = |kind, message: String, notes| {
        let help = "give trees of one form, with leaves of equal types, from every branch";
        let problem = Problem::new(kind, message, help);
        one.report(Diagnostic { problem, at, notes, context: Vec::new() });
        false
    };
    if one.output() != other.output() {
        let sides = ["one branch", "another"];
        let found = one.output().different(other.output(), "", sides);
        return report(Kind::Arguments, format!("branches differ: {found}"), Vec::new());
    }
    let paths = one.output().paths("result");
    let (types, others) = (one.result_types(), other.result_types());
    let mut alike = true;
    for (i, (a, b)) in types.iter().zip(&others).enumerate().filter(|(_, (a, b))| a != b) {
        if one.poisoned_results()[i] || other.poisoned_results()[i] {
            continue;
        }
        let kind = if a.dtype == b.dtype { Kind::Shape } else { Kind::Dtype };
        let note = |of: &Staged, ty: &ArrayType, role: &str| Note {
            role: role.to_owned(),
            what: ty.to_string(),
            born: of.result_born(i),
        };
        let notes = vec![note(one, a, "one branch"), note(other, b, "another")];
        alike =
            report(kind, format!("`{}` is {a} in one branch and {b} in another", paths[i]), notes);
    }
    alike
}
