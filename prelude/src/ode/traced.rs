//! Closures of a problem, traced once.
//!
//! A step evaluates the slope several times, and the program has several copies of a step. So the closure is
//! traced once, into a function, and evaluating it is a call of that function: whatever it draws is the same at every
//! evaluation, and what it captures is known, so that the adjoint method can differentiate by it.

use super::state::State;
use crate::Var;
use crate::random::unmarked;
use crate::staging::{Staged, handles, stage, vars};
use crate::tree::{Form, Tree};
use tapeloom_ir::prim::Call;
use tapeloom_ir::trace::{self, Diagnostic, Note};
use tapeloom_ir::{ArrayType, FuncId, Kind, Loc, Problem};

/// A function of time and state.
#[derive(Clone, Debug)]
pub(super) struct Traced {
    function: FuncId,
    /// What it takes after them.
    captures: Vec<Var>,
    at: Loc,
}

/// Traces a closure at a time and a state.
pub(super) fn traced<Y: Tree<Var>, Z: Tree<Var>>(
    name: &'static str,
    at: Loc,
    f: &dyn Fn((Var, Y)) -> Z,
    (t, y): (Var, Y),
) -> Staged {
    // A solver asks again and again, and gets what was drawn at first.
    unmarked(|| stage::<(Var, Y), Z>(name, at, f, (t, y)).0)
}

impl Traced {
    /// The slope of a state of that form and these types, unless an error made it meaningless; one that is of another
    /// form or type is reported.
    pub(super) fn slope(staged: &Staged, form: &Form, types: &[ArrayType]) -> Option<Traced> {
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

    /// An event, which is a single float, unless an error made it meaningless.
    pub(super) fn event(staged: &Staged) -> Option<Traced> {
        let types = staged.result_types();
        let fits = types.len() == 1 && types[0].shape.is_empty() && types[0].dtype.is_float();
        if fits || staged.poisoned_results().contains(&true) {
            return Traced::of(staged).filter(|_| fits);
        }
        let found: Vec<String> = types.iter().map(ArrayType::to_string).collect();
        let message = format!("an event is a single float, and this one is {}", found.join(", "));
        let problem =
            Problem::new(Kind::Shape, message, "reduce it, as by `.min()` or `.index(0)`");
        staged.report(Diagnostic::new(problem, staged.at));
        None
    }

    fn of(staged: &Staged) -> Option<Traced> {
        let captures = vars(staged.captures());
        Some(Traced { function: staged.function()?, captures, at: staged.at })
    }

    /// The floats that it captures: what more there is has no derivative.
    pub(super) fn floats(&self) -> State {
        self.captures.iter().filter(|v| v.ty(self.at).dtype.is_float()).copied().collect()
    }

    /// Its results at a time and a state.
    pub(super) fn call(&self, t: Var, y: &[Var]) -> State {
        self.called(t, y, &self.captures)
    }

    /// The same with other floats for those that it captures.
    pub(super) fn call_with(&self, t: Var, y: &[Var], floats: &[Var]) -> State {
        let mut floats = floats.iter();
        let one = |own: &Var| match own.ty(self.at).dtype.is_float() {
            true => floats.next().copied().unwrap_or(*own),
            false => *own,
        };
        let captures: Vec<Var> = self.captures.iter().map(one).collect();
        self.called(t, y, &captures)
    }

    fn called(&self, t: Var, y: &[Var], captures: &[Var]) -> State {
        let all: Vec<Var> = [t].iter().chain(y).chain(captures).copied().collect();
        vars(&trace::bind(Call::inline(self.function), &handles(&all), self.at))
    }
}
