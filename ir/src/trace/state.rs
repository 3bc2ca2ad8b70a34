//! Mutable state, as values.
//!
//! A [`State`] is an array that a program replaces by others of its type. No trace of that is left in
//! the language: every frame knows which of its values the state is *now*, reading gives that value, and
//! writing names another. So straight-line code is pure as it is written, and no pass takes state out.
//!
//! A closure that uses state from outside gets its value as a parameter, at the first use, as it gets
//! every other value that it captures. What remains is known when the closure has returned: if the value
//! is another one by then, the function has the last one as a result more ([`Held`]), and whoever runs
//! the function carries it: a loop from iteration to iteration, a branch from its operand to its result. So
//! nothing is traced twice, and nested bodies need nothing of their own, since running the inner
//! function reads and writes the state in the outer one:
//!
//! ```text
//! let r = State(x);                  func @body(%0: i64[], %1: f64[]) -> (f64[]) {
//! for i in 0..n {                      %2: f64[] = convert{to=f64} %0
//!     r.set(r.get() + i);              %3: f64[] = add %1, %2
//! }                                    return %3 }
//! r.get()                            %1: f64[] = loop{body=@body, trip=n, takes=[index,carry0]} %0
//! ```
//!
//! Only bodies of control flow may write to what is outside ([`body`](super::body)), since only they are run where
//! they stand and when. The closures of transforms and outlined ones ([`frame`](super::frame)) are
//! functions, which may run many times or never; they read.

use super::diagnostic::{Context, Diagnostic, Note, place};
use super::frame::{Captured, Frame, Runs, Trace};
use super::{Handle, nowhere, poison1, with_trace};
use crate::lang::problem::{Kind, Problem};
use crate::lang::source_loc::Loc;
use crate::lang::types::{Dtype, Type};
use std::marker::PhantomData;

/// An array of a trace that can be replaced by others of its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    number: u64,
    /// What users call it.
    name: &'static str,
    born: Loc,
    not_send: PhantomData<*const ()>,
}

/// State that a closed function reads or writes, though it was made outside.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Which one.
    pub state: State,
    /// The capture that is its value when the function is called.
    pub capture: usize,
    /// Whether the function has a result, after its own and in the order of these, that is its value
    /// when the function has run.
    pub written: bool,
}

/// What a trace knows of a state.
#[derive(Debug)]
pub(super) struct Known {
    /// The frame that made it.
    home: u64,
    name: &'static str,
    ty: Type,
    born: Loc,
    /// Where it ended.
    ended: Loc,
}

/// What is done with a state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    End,
}

impl State {
    /// State that holds `value` first.
    pub fn new(value: Handle, at: Loc) -> State {
        State::of("Ref", value, None, at)
    }

    /// State that users call by that name and that belongs to the frame under way, or to an open one
    /// below it, and begins with a value that was there before that.
    pub fn of(name: &'static str, value: Handle, frame: Option<u64>, at: Loc) -> State {
        let number = super::unique();
        let state = State { number, name, born: at, not_send: PhantomData };
        let ty = super::type_of(value, at);
        with_trace(|t| {
            let top = t.frames.len() - 1;
            let home = frame.and_then(|id| t.frames.iter().position(|f| f.id == id));
            let frame = &mut t.frames[home.unwrap_or(top)];
            frame.states.insert(state.number, value);
            t.states
                .insert(state.number, Known { home: frame.id, name, ty, born: at, ended: None });
        });
        state
    }

    /// The line that made it.
    pub fn born(self) -> Loc {
        self.born
    }

    /// The type of its values, if it is known in the trace under way.
    pub fn ty(self) -> Option<Type> {
        with_trace(|t| t.states.get(&self.number).map(|known| known.ty.clone())).flatten()
    }

    /// Its value now; `what` is the user's name for what reads it. A wrong use is recorded and gives
    /// poison.
    pub fn get(self, what: &'static str, at: Loc) -> Handle {
        self.with(Access::Read, what, at).unwrap_or_else(|| self.poison(at))
    }

    /// Replaces its value by one of its type. A wrong use is recorded.
    pub fn set(self, value: Handle, what: &'static str, at: Loc) {
        let (Some(_), Some(ty)) = (self.with(Access::Write, what, at), self.ty()) else { return };
        let given = super::type_of(value, at);
        if given == ty {
            return self.put(value);
        }
        let problem = Problem::new(
            match (given.as_array(), ty.as_array()) {
                (Some(given), Some(ty)) if given.dtype == ty.dtype => Kind::Shape,
                _ => Kind::Dtype,
            },
            format!("`{what}` gives {given} to a `{}` of {ty}", self.name),
            "a `Ref` keeps its type: convert or reshape the value, or begin with another one",
        );
        super::record(problem, &[self.get(what, at), value], at);
        self.put(poison1(ty, at));
    }

    /// Its last value: no use of it after this one is right.
    pub fn end(self, what: &'static str, at: Loc) -> Handle {
        let value = self.with(Access::End, what, at);
        if value.is_some() {
            with_trace(|t| {
                if let Some(known) = t.states.get_mut(&self.number) {
                    known.ended = at;
                }
            });
        }
        value.unwrap_or_else(|| self.poison(at))
    }

    /// The value that a function finds which is called now; `None` if there is none any more.
    pub fn now(self) -> Option<Handle> {
        with_trace(|t| {
            let home = t.home(self)?;
            let top = t.frames.len() - 1;
            t.states.get(&self.number).filter(|known| known.ended.is_none())?;
            Some(t.version(self, home, top))
        })
        .flatten()
    }

    /// The closure under way that may not write to it, if it was made outside of one: its frame, and what it was given
    /// to.
    pub fn barred(self) -> Option<(u64, Context)> {
        with_trace(|t| {
            let home = t.home(self)?;
            let function = |f: &&Frame| f.runs.is_function();
            t.frames[home + 1..].iter().rev().find(function).map(|f| (f.id, f.context))
        })
        .flatten()
    }

    /// Records why it cannot be used so.
    pub fn refuse(self, problem: Problem, at: Loc) {
        with_trace(|t| t.refuse(self, problem, at));
    }

    /// What a function left that was called in the frame under way, and was allowed to write.
    pub fn put(self, value: Handle) {
        with_trace(|t| {
            if let Some(frame) = t.frames.last_mut() {
                frame.states.insert(self.number, value);
            }
        });
    }

    /// What a function would have left that was called, had it been right.
    pub fn spoil(self, at: Loc) {
        self.put(self.poison(at));
    }

    fn poison(self, at: Loc) -> Handle {
        self.ty().map_or_else(|| nowhere(at), |ty| poison1(ty, at))
    }

    fn with(self, access: Access, what: &'static str, at: Loc) -> Option<Handle> {
        with_trace(|t| match t.allowed(self, access, what) {
            Ok(home) => {
                let top = t.frames.len() - 1;
                Some(t.version(self, home, top))
            }
            Err(problem) => {
                t.refuse(self, problem, at);
                None
            }
        })
        .flatten()
    }
}

/// Runs `f` as if the closure of that frame had not begun, nor those inside: what it emits stands before
/// them, in the frame around.
pub fn around<T>(frame: u64, f: impl FnOnce() -> T) -> T {
    /// Puts the frames back, also where `f` panics.
    struct Aside(Vec<Frame>);
    impl Drop for Aside {
        fn drop(&mut self) {
            with_trace(|t| t.frames.append(&mut self.0));
        }
    }
    let aside = with_trace(|t| {
        let place = t.frames.iter().position(|f| f.id == frame).filter(|i| *i > 0)?;
        Some(t.frames.split_off(place))
    });
    let _aside = Aside(aside.flatten().unwrap_or_default());
    f()
}

impl Trace {
    /// The frame that made a state, if that is open.
    fn home(&self, state: State) -> Option<usize> {
        let known = self.states.get(&state.number)?;
        self.frames.iter().rposition(|f| f.id == known.home)
    }

    /// The frame that made a state, if it can be used so in the frame under way.
    fn allowed(&self, state: State, access: Access, what: &'static str) -> Result<usize, Problem> {
        let (name, made) =
            (state.name, state.born.map_or(String::new(), |l| format!(" made {}", place(l))));
        let Some(home) = self.home(state) else {
            // No frame has the number 0.
            let from = self.whence(self.states.get(&state.number).map_or(0, |known| known.home));
            return Err(Problem::new(
                Kind::Escaped,
                format!("`{what}` of a `{name}`{made}, outside the trace it belongs to: {from}"),
                format!("return its value from the closure, or make the `{name}` outside"),
            ));
        };
        if let Some(Known { ended: Some(end), .. }) = self.states.get(&state.number) {
            return Err(Problem::new(
                Kind::State,
                format!("`{what}` of a `{name}`{made}, which `freeze` ended {}", place(end)),
                "use what `freeze` gave, or take the value by `get`, which ends nothing",
            ));
        }
        let outside = |how: &dyn Fn(Runs) -> bool| {
            self.frames[home + 1..].iter().rev().find(|f| how(f.runs)).map(|f| f.context)
        };
        let problem = |context, does: &str, help: &str| {
            let message = format!("`{what}` in {context} {does} a `{name}`{made}, outside of it");
            Err(Problem::new(Kind::State, message, help))
        };
        match access {
            Access::Read => Ok(home),
            Access::Write => match outside(&Runs::is_function) {
                None => Ok(home),
                Some(context) => problem(
                    context,
                    "writes to",
                    "return the value from the closure and set it outside: it is a function, \
                     which may run many times or never",
                ),
            },
            Access::End => match outside(&|_| true) {
                None => Ok(home),
                Some(context) => problem(
                    context,
                    "ends",
                    "freeze it where it was made: the closure may run many times or never",
                ),
            },
        }
    }

    /// Records why a state cannot be used so, with the line that made it.
    fn refuse(&mut self, state: State, problem: Problem, at: Loc) {
        let notes = self.states.get(&state.number).map(|known| Note {
            role: "state".to_owned(),
            what: known.ty.to_string(),
            born: known.born,
        });
        let notes = notes.into_iter().collect();
        self.push(Diagnostic { problem, at, notes, context: Vec::new() });
    }

    /// What a state is now in the frame `i`. A frame that meets it for the first time captures it.
    fn version(&mut self, state: State, home: usize, i: usize) -> Handle {
        if let Some(now) = self.frames[i].states.get(&state.number) {
            return *now;
        }
        debug_assert!(i > home, "a state has a value where it was made");
        let below = self.version(state, home, i - 1);
        let known = self.states.get(&state.number).map(|known| known.ty.clone());
        let ty = known.unwrap_or(Type::scalar(Dtype::F64));
        let poisoned = self.is_poison(below);
        let frame = &mut self.frames[i];
        let atom = frame.draft.param(ty);
        frame.captures.insert(Captured::State(state.number), (below, atom));
        frame.poison.extend(atom.value().filter(|_| poisoned));
        let now = Handle::new(frame.id, atom, below.born);
        frame.states.insert(state.number, now);
        now
    }

    /// The states from outside that the frame under way holds, each with its capture, and the last
    /// values of those that it wrote.
    pub(super) fn held(&mut self) -> (Vec<Held>, Vec<Handle>) {
        let Some(frame) = self.frames.last() else { return Default::default() };
        let mut last = Vec::new();
        let each = frame.captures.iter().enumerate();
        let held = each.filter_map(|(capture, (captured, (_, first)))| {
            let Captured::State(number) = captured else { return None };
            let (known, now) = (self.states.get(number)?, frame.states.get(number)?);
            let (name, born) = (known.name, known.born);
            let state = State { number: *number, name, born, not_send: PhantomData };
            let written = (now.frame, now.atom) != (frame.id, *first);
            last.extend(written.then_some(*now));
            Some(Held { state, capture, written })
        });
        (held.collect(), last)
    }
}
