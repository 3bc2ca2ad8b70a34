//! The closures of an initial value problem, each traced once.
//!
//! A step evaluates the slope several times, and the program has several copies of a step. So the closure is traced
//! once, into a function that each evaluation calls. Therefore random numbers are the same at every evaluation, and
//! the captures are known, so that the adjoint method can differentiate with respect to them.

use super::state::State;
use crate::Var;
use crate::prng::unmarked;
use crate::staging::{Staged, stage};
use crate::tree::{Form, Tree};
use tapeloom_ir::trace::{Diagnostic, Note};
use tapeloom_ir::{ArrayType, FuncId, Kind, Loc, Problem};

/// A closure of time and state, traced into a function.
#[derive(Clone, Copy)]
pub(super) struct Traced<'a> {
    staged: &'a Staged,
    function: FuncId,
}

/// Traces a closure of time and state, with the types of the given time and state.
pub(super) fn traced<Y: Tree<Var>, Z: Tree<Var>>(
    name: &'static str,
    at: Loc,
    f: &dyn Fn((Var, Y)) -> Z,
    (t, y): (Var, Y),
) -> Staged {
    // The solver evaluates the traced closure repeatedly, with the same random numbers each time, so these draws must
    // not count as repeated uses of a key.
    unmarked(|| stage::<(Var, Y), Z>(name, at, f, (t, y)).0)
}

impl<'a> Traced<'a> {
    /// Returns the traced slope if its result has the tree structure and the types of the state. Otherwise reports the
    /// difference and returns `None`.
    pub(super) fn slope(
        staged: &'a Staged,
        form: &Form,
        types: &[ArrayType],
    ) -> Option<Traced<'a>> {
        let problem = |kind, message: String, notes: Vec<Note>| {
            let help = "the slope dy/dt is a tree of the form, shapes and dtypes of the state y";
            let problem = Problem::new(kind, message, help);
            let at = staged.at;
            staged.report(Diagnostic { problem, at, notes, context: Vec::new() });
        };
        if staged.output() != form {
            let differ = form.different(staged.output(), "", ["the state", "the slope"]);
            problem(
                Kind::Arguments,
                format!("the slope is no tree as the state is: {differ}"),
                vec![],
            );
            return None;
        }
        let mut fits = true;
        let found = staged.result_types();
        let paths = form.paths("state");
        for (i, (found, want)) in found.iter().zip(types).enumerate() {
            if found == want || staged.poisoned_results()[i] {
                continue;
            }
            fits = false;
            let kind = if found.dtype == want.dtype { Kind::Shape } else { Kind::Dtype };
            let born = staged.result_born(i);
            let note = Note { role: "slope".to_owned(), what: found.to_string(), born };
            problem(kind, format!("the slope of `{}`, {want}, is {found}", paths[i]), vec![note]);
        }
        Traced::of(staged).filter(|_| fits)
    }

    /// Returns the traced event function if its result is a single float. Otherwise reports the type of the result and
    /// returns `None`.
    pub(super) fn event(staged: &'a Staged) -> Option<Traced<'a>> {
        let types = staged.result_types();
        let fits = types.len() == 1 && types[0].shape.is_empty() && types[0].dtype.is_float();
        if fits || staged.poisoned_results().contains(&true) {
            return Traced::of(staged).filter(|_| fits);
        }
        let found: Vec<String> = types.iter().map(ArrayType::to_string).collect();
        let message = format!("an event is a single float, and this one is {}", found.join(", "));
        let help = if types.iter().all(|ty| ty.dtype.is_float()) {
            "reduce it, as by `.min()` or `.index(0)`"
        } else {
            "return a number that changes its sign at the event, such as `y - 0.5` instead of \
             `y.lt(0.5)`"
        };
        let problem = Problem::new(Kind::Shape, message, help);
        staged.report(Diagnostic::new(problem, staged.at));
        None
    }

    fn of(staged: &'a Staged) -> Option<Traced<'a>> {
        Some(Traced { staged, function: staged.function()? })
    }

    /// Returns the floats that the closure captures.
    pub(super) fn floats(self) -> State {
        self.staged.floats()
    }

    /// Calls the function at a time and a state.
    pub(super) fn call(self, t: Var, y: &[Var]) -> State {
        self.staged.call(self.function, &[&[t], y].concat(), [], false)
    }

    /// Calls the function with other values for the floats that the closure captures.
    pub(super) fn call_with(self, t: Var, y: &[Var], floats: &[Var]) -> State {
        self.staged.call_with(self.function, &[&[t], y].concat(), floats)
    }
}
