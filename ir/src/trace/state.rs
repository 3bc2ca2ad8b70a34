//! Mutable state as values.
//!
//! A [`State`] is a variable that holds an array; a program can replace it by another array of the same type. Functions
//! contain no state: each frame tracks the current value of each state; a read returns that value, and a write replaces
//! it. So straight-line code becomes pure while it is traced, and no later pass removes state.
//!
//! A closure that uses state from outside gets the state's value as a parameter at the first use, as for any
//! other captured value. When the closure has returned, its writes are known: if the state's value has changed,
//! the function returns the last value as an extra result ([`CapturedState`]), and the caller of the function carries
//! it: a loop from iteration to iteration, a branch from its operand to its result. So no closure is traced
//! twice. Nested bodies need no further rule, since running the inner function reads and writes the state in
//! the outer one:
//!
//! ```text
//! let r = State(x);                  func @body(%0: i64[], %1: f64[]) -> (f64[]) {
//! for i in 0..n {                      %2: f64[] = convert{to=f64} %0
//!     r.set(r.get() + i);              %3: f64[] = add %1, %2
//! }                                    return %3 }
//! r.get()                            %1: f64[] = loop{body=@body, trip=n, takes=[index,carry0]} %0
//! ```
//!
//! Only bodies of control flow may write to state from outside ([`body`](super::body)), since only they run in
//! place and in program order. The closures of transforms and outlined ones ([`frame`](super::frame)) are
//! functions, which may run many times or never; they may only read.

use super::diagnostic::{Context, Diagnostic, Note, place};
use super::frame::{Captured, Frame, Runs, Trace};
use super::{Handle, escaped_placeholder, poison1, with_trace};
use crate::lang::problem::{Kind, Problem};
use crate::lang::source_loc::Loc;
use crate::lang::types::{Dtype, Type};
use std::marker::PhantomData;

/// An array of a trace that a program can replace by other arrays of its type: a mutable variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    number: u64,
    /// The name by which error messages call the state, such as `Ref`.
    name: &'static str,
    born: Loc,
    not_send: PhantomData<*const ()>,
}

/// A state made outside a closure that the closure's function reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct CapturedState {
    /// The state (mutable variable) that the function uses.
    pub state: State,
    /// The index of the function's capture that is the state's value at the call.
    pub capture: usize,
    /// Whether the function writes the state. Then the function returns the state's last value as an extra result. The
    /// extra results follow the function's own, in the order of the list of `CapturedState`.
    pub written: bool,
}

/// The entry for a state in its trace: name, type and where it was made and ended.
#[derive(Debug)]
pub(super) struct StateEntry {
    /// The number of the frame (function under construction) in which the state was made.
    home: u64,
    name: &'static str,
    ty: Type,
    born: Loc,
    /// The source line at which `freeze` ended the state; `None` if it has not ended.
    ended: Loc,
}

/// The way in which a state is used: reading, writing or ending it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    End,
}

impl State {
    /// Makes a state with the initial value `value`.
    pub fn new(value: Handle, at: Loc) -> State {
        State::of("Ref", value, None, at)
    }

    /// Makes a state that error messages call `name`, with the initial value `value`. The state belongs to the frame
    /// (function under construction) with the number `frame` if that frame is open, else to the top frame. `value` must
    /// belong to the state's frame or to one below it.
    pub fn of(name: &'static str, value: Handle, frame: Option<u64>, at: Loc) -> State {
        let number = super::unique();
        let state = State { number, name, born: at, not_send: PhantomData };
        let ty = super::type_of(value, at);
        with_trace(|t| {
            let top = t.frames.len() - 1;
            let home = frame.and_then(|id| t.frames.iter().position(|f| f.id == id));
            let frame = &mut t.frames[home.unwrap_or(top)];
            frame.states.insert(state.number, value);
            t.states.insert(
                state.number,
                StateEntry { home: frame.id, name, ty, born: at, ended: None },
            );
        });
        state
    }

    /// Returns the user's source line that made the state.
    pub fn born(self) -> Loc {
        self.born
    }

    /// Returns the type of the state's values; `None` if the current trace does not have the state.
    pub fn ty(self) -> Option<Type> {
        with_trace(|t| t.states.get(&self.number).map(|known| known.ty.clone())).flatten()
    }

    /// Returns the current value of the state; `what` is the name of the reading operation for messages. If the state
    /// cannot be read, records a problem and returns a placeholder (poison).
    pub fn get(self, what: &'static str, at: Loc) -> Handle {
        self.with(Access::Read, what, at).unwrap_or_else(|| self.poison(at))
    }

    /// Replaces the value of the state by another value of the same type. If that is not allowed here, records a
    /// problem.
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
            format!("`{what}` writes {given} to a `{}` of {ty}", self.name),
            "a `Ref` has one type: convert or reshape the value, or begin with another type",
        );
        super::record(problem, &[self.get(what, at), value], at);
        self.put(poison1(ty, at));
    }

    /// Ends the state and returns its last value. Every later use of the state is an error.
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

    /// Returns the state's value at this point of the closure being traced, which a function called here would read.
    /// Returns `None` if the state has ended, or its frame (function under construction) is closed.
    pub fn now(self) -> Option<Handle> {
        with_trace(|t| {
            let home = t.frame_index(self)?;
            let top = t.frames.len() - 1;
            t.states.get(&self.number).filter(|known| known.ended.is_none())?;
            Some(t.version(self, home, top))
        })
        .flatten()
    }

    /// Returns the innermost closure being traced that may not write to the state, because the closure becomes a
    /// function and the state was made outside it. Returns the number of the closure's frame, and the transform that
    /// got the closure.
    pub fn barred(self) -> Option<(u64, Context)> {
        with_trace(|t| {
            let home = t.frame_index(self)?;
            let function = |f: &&Frame| f.runs.is_function();
            t.frames[home + 1..].iter().rev().find(function).map(|f| (f.id, f.context))
        })
        .flatten()
    }

    /// Records the problem of a wrong use of the state, with the source line that made the state.
    pub fn refuse(self, problem: Problem, at: Loc) {
        with_trace(|t| t.refuse(self, problem, at));
    }

    /// Sets the state's value in the top frame (the innermost function under construction), after the call of a
    /// function that has written the state.
    pub fn put(self, value: Handle) {
        with_trace(|t| {
            if let Some(frame) = t.frames.last_mut() {
                frame.states.insert(self.number, value);
            }
        });
    }

    /// Sets the state's value in the top frame (the innermost function under construction) to a placeholder, after a
    /// call that failed and would have written the state.
    pub fn spoil(self, at: Loc) {
        self.put(self.poison(at));
    }

    fn poison(self, at: Loc) -> Handle {
        self.ty().map_or_else(|| escaped_placeholder(at), |ty| poison1(ty, at))
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

/// Runs `f` while the frame (function under construction) with the number `frame` and all frames inside it are off the
/// stack: `f` emits its equations into the enclosing frame, in front of the call of the closure traced in `frame`.
pub fn around<T>(frame: u64, f: impl FnOnce() -> T) -> T {
    /// A guard that puts the frames back on the stack, even if `f` panics.
    struct RestoreFrames(Vec<Frame>);
    impl Drop for RestoreFrames {
        fn drop(&mut self) {
            with_trace(|t| t.frames.append(&mut self.0));
        }
    }
    let aside = with_trace(|t| {
        let place = t.frames.iter().position(|f| f.id == frame).filter(|i| *i > 0)?;
        Some(t.frames.split_off(place))
    });
    let _aside = RestoreFrames(aside.flatten().unwrap_or_default());
    f()
}

impl Trace {
    /// Returns the index of the frame (function under construction) in which a state was made; `None` if that frame is
    /// not open.
    fn frame_index(&self, state: State) -> Option<usize> {
        let known = self.states.get(&state.number)?;
        self.frames.iter().rposition(|f| f.id == known.home)
    }

    /// Returns the index of the frame (function under construction) in which a state was made. If the top frame may not
    /// use the state in this way, returns the error.
    fn allowed(&self, state: State, access: Access, what: &'static str) -> Result<usize, Problem> {
        let (name, made) =
            (state.name, state.born.map_or(String::new(), |l| format!(" made {}", place(l))));
        let Some(home) = self.frame_index(state) else {
            // If this trace has no such state, take the frame number 0, which no frame has. The message then says that
            // the state belongs to another trace.
            let from = self.owner_of(self.states.get(&state.number).map_or(0, |known| known.home));
            return Err(Problem::new(
                Kind::Escaped,
                format!("`{what}` of a `{name}`{made}, outside the trace it belongs to: {from}"),
                format!("return its value from the closure, or make the `{name}` outside"),
            ));
        };
        if let Some(StateEntry { ended: Some(end), .. }) = self.states.get(&state.number) {
            return Err(Problem::new(
                Kind::State,
                format!("`{what}` of a `{name}`{made}, which `freeze` ended {}", place(end)),
                "use the result of `freeze`, or read the value by `get`, which does not end the `Ref`",
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

    /// Records the problem of a wrong use of a state, with the source line that made the state as a note.
    fn refuse(&mut self, state: State, problem: Problem, at: Loc) {
        let notes = self.states.get(&state.number).map(|known| Note {
            role: "state".to_owned(),
            what: known.ty.to_string(),
            born: known.born,
        });
        let notes = notes.into_iter().collect();
        self.push(Diagnostic { problem, at, notes, context: Vec::new() });
    }

    /// Returns the current value of a state in frame `i` (of the stack of functions under construction). If that frame
    /// has not used the state before, captures its value from the enclosing frame. `home` is the index of the frame in
    /// which the state was made.
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

    /// Returns the states from outside that the top frame (the innermost function under construction) uses, each with
    /// its capture, and the last values of the states that the frame has written.
    pub(super) fn held(&mut self) -> (Vec<CapturedState>, Vec<Handle>) {
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
            Some(CapturedState { state, capture, written })
        });
        (held.collect(), last)
    }
}
