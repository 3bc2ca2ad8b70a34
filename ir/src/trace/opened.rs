//! Frames of closures inside a trace: opened before the closure is called, closed into a function after.
//!
//! Whoever traces a closure calls it in between. So all that is done before and after is compiled once, and
//! not once more for every closure of every user, whose types are all different:
//!
//! ```
//! use tapeloom_ir::{Dtype, Scalar, Type, prim::Call, trace};
//! let number = trace::Param::new(Type::scalar(Dtype::F64), None);
//! let traced = trace::trace("run", None, &[number.clone()], |x| {
//!     let square = |x: trace::Handle| trace::bind1(Scalar::Mul, &[x, x], None);
//!     let frame = trace::frame("grad", None, &[number]);
//!     let y = square(frame.params()[0]);
//!     let square = frame.close(&[y]);
//!     (trace::bind(Call::inline(square.function.unwrap()), x, None).to_vec(), ())
//! });
//! assert_eq!(traced.unwrap().module.iter().count(), 2);
//! ```

use super::diagnostic::{Context, Diagnostic};
use super::frame::{Runs, Trace};
use super::state::Held;
use super::{Guard, Handle, Param, Stop, active, declare, record, with_trace};
use crate::lang::function::{Atom, FuncId};
use crate::lang::source_loc::Loc;
use crate::lang::stack::{DEEPEST_CLOSURE, too_deep};
use crate::lang::types::{Dtype, Type};
use std::panic::resume_unwind;

/// A frame of a closure that is about to run, or runs. If it is dropped without being closed, as where the
/// closure panics, nothing is left of it.
pub struct Opened {
    context: Context,
    params: Vec<Handle>,
    guard: Guard,
}

/// A closure of an inner frame, as a function.
#[derive(Debug, Default)]
pub struct Closed {
    /// The function: given parameters, then one per capture. `None` if an error made it poison.
    pub function: Option<FuncId>,
    /// Values of enclosing frames to pass after the arguments.
    pub captures: Vec<Handle>,
    /// State from outside: what of it is captured, and what is a result more, after the closure's own.
    pub held: Vec<Held>,
    /// Types of the results (guesses where they are poison).
    pub types: Vec<Type>,
    /// Which results are errors or their consequences.
    pub poison: Vec<bool>,
    /// The lines that made the results.
    pub born: Vec<Loc>,
}

/// Opens a frame of the trace under way for a closure that is run as a function.
pub fn frame(transform: &'static str, at: Loc, params: &[Param]) -> Opened {
    Opened::new(Context { transform, at }, params, Runs::AsFunction)
}

/// Opens a frame for a closure that is run where it stands: the body of a loop, a branch. As [`frame()`], and
/// state from outside may be written; [`Closed::held`] says which is.
pub fn body(transform: &'static str, at: Loc, params: &[Param]) -> Opened {
    Opened::new(Context { transform, at }, params, Runs::InPlace)
}

/// Opens a frame for a closure that solves an equation. Its function is never differentiated, since the derivative of
/// the solution follows from the equation. See [`solving`].
pub fn solver(transform: &'static str, at: Loc, params: &[Param]) -> Opened {
    Opened::new(Context { transform, at }, params, Runs::AsSolver)
}

/// Whether the current closure is never differentiated: it is the closure of a [`solver`], or a loop or branch in it.
pub fn solving() -> bool {
    let innermost = |t: &mut Trace| {
        let function = t.frames.iter().rev().find(|f| f.runs.is_function());
        function.is_some_and(|f| f.runs == Runs::AsSolver)
    };
    with_trace(innermost).unwrap_or(false)
}

impl Opened {
    fn new(context: Context, params: &[Param], runs: Runs) -> Opened {
        let depth = with_trace(|t| t.frames.len()).unwrap_or(0);
        if depth > DEEPEST_CLOSURE {
            // There is no tree of results without running the closure, which may go on like this until the
            // stack is full. So the way back to the boundary is that of a panic, though none is reported.
            let what = "the closures of transforms, outlines and jits";
            record(too_deep(what, depth, DEEPEST_CLOSURE), &[], context.at);
            resume_unwind(Box::new(Stop));
        }
        // Outside any trace there is nobody to report to; the closure runs once so that its results exist.
        let guard =
            if active() { Guard::push_frame(context, runs) } else { Guard::push_trace(context) };
        Opened { context, params: declare(params), guard }
    }

    /// The transform that it was opened for.
    pub fn context(&self) -> Context {
        self.context
    }

    /// What stands for the parameters.
    pub fn params(&self) -> &[Handle] {
        &self.params
    }

    /// The closure as a function, when it has returned these results.
    pub fn close(self, results: &[Handle]) -> Closed {
        let at = self.context.at;
        let closed = with_trace(|t| {
            let mut atoms = t.results(results, at);
            let types = results
                .iter()
                .map(|h| t.type_of(*h).unwrap_or(Type::scalar(Dtype::F64)))
                .collect::<Vec<Type>>();
            let poison = atoms.iter().map(Option::is_none).collect::<Vec<bool>>();
            t.tell_cause();
            let (held, last) = t.held();
            atoms.extend(t.results(&last, at));
            let frame = t.frames.pop()?;
            let captures = frame.captures();
            t.closed.insert(frame.id, frame.context);
            // A frame on its own is a trace without a boundary: nothing can be emitted after it.
            let sound = !t.frames.is_empty() && frame.poison.is_empty();
            let function = match atoms.into_iter().collect::<Option<Vec<Atom>>>() {
                Some(results) if sound => match frame.draft.finish(&mut t.module, results) {
                    Ok(function) => Some(function),
                    Err(problem) => {
                        t.push(Diagnostic::new(problem, at));
                        None
                    }
                },
                Some(_) | None => None,
            };
            Some(Closed { function, captures, held, types, poison, born: Vec::new() })
        });
        drop(self.guard);
        let born = results.iter().map(|h| h.born()).collect();
        Closed { born, ..closed.flatten().unwrap_or_default() }
    }
}
