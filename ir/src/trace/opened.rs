//! Frames of closures inside a trace: opened before the closure is called, closed into a function after.
//!
//! The caller of [`frame()`] runs the closure between opening and closing. So the code before and after is
//! compiled once, and not again for each closure type of each user:
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
use super::state::CapturedState;
use super::{Guard, Handle, Param, Stop, active, declare, record, with_trace};
use crate::lang::function::{Atom, FuncId};
use crate::lang::source_loc::Loc;
use crate::lang::stack::{DEEPEST_CLOSURE, too_deep};
use crate::lang::types::{Dtype, Type};
use std::panic::resume_unwind;

/// An open frame (a function under construction), whose closure is about to run or runs. If an `Opened` is dropped
/// without being closed, as after a panic of the closure, its frame is discarded.
pub struct Opened {
    context: Context,
    params: Vec<Handle>,
    guard: Guard,
}

/// A closure that was traced in an inner frame and has become a function.
#[derive(Debug, Default)]
pub struct Closed {
    /// The function; its parameters are the declared ones, followed by one for each entry of `captures`. `None` after
    /// an error.
    pub function: Option<FuncId>,
    /// The handles of enclosing functions to pass after the arguments, in the order of the function's last
    /// parameters.
    pub captures: Vec<Handle>,
    /// The states (mutable variables) made outside that the function reads or writes: for each, the entry of
    /// `captures` that is its value before the call, and the extra result (after the closure's own) that is its new
    /// value, if any.
    pub held: Vec<CapturedState>,
    /// The types of the results; guesses for placeholders after an error.
    pub types: Vec<Type>,
    /// Per result: whether it is a placeholder for the result of a wrong operation (poison).
    pub poison: Vec<bool>,
    /// Per result: the user's source line that made it.
    pub born: Vec<Loc>,
}

/// Opens a frame (a function under construction) in the current trace for a closure that is run as a function:
/// transforms may change it.
pub fn frame(transform: &'static str, at: Loc, params: &[Param]) -> Opened {
    Opened::new(Context { transform, at }, params, Runs::AsFunction)
}

/// Opens a frame (a function under construction) for a closure that is run in place: the body of a loop, a branch.
/// Unlike in [`frame()`], the closure may write state from outside. The field [`Closed::held`] lists that state.
pub fn body(transform: &'static str, at: Loc, params: &[Param]) -> Opened {
    Opened::new(Context { transform, at }, params, Runs::InPlace)
}

/// Opens a frame (a function under construction) for a closure that solves an equation. The closure's function is
/// never differentiated, since the derivative of the solution follows from the equation. See [`solving`].
pub fn solver(transform: &'static str, at: Loc, params: &[Param]) -> Opened {
    Opened::new(Context { transform, at }, params, Runs::AsSolver)
}

/// Returns whether the closure being traced is never differentiated. This holds for the closure of a [`solver`], and
/// for loops and branches inside it.
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
            // The number of results is not known until the closure has run, and the closure may recurse until the
            // stack overflows. So unwind to the boundary (the call of `jit`, `run` or `record`), as a panic does; the
            // boundary returns the recorded error.
            let what = "the closures of transforms, outlines and jits";
            record(too_deep(what, depth, DEEPEST_CLOSURE), &[], context.at);
            resume_unwind(Box::new(Stop));
        }
        // Outside any trace no caller returns errors. Run the closure once nevertheless, so that it returns results.
        let guard =
            if active() { Guard::push_frame(context, runs) } else { Guard::push_trace(context) };
        Opened { context, params: declare(params), guard }
    }

    /// Returns the transform for which the frame was opened.
    pub fn context(&self) -> Context {
        self.context
    }

    /// Returns the handles of the frame's parameters, to pass to the closure.
    pub fn params(&self) -> &[Handle] {
        &self.params
    }

    /// Closes the frame into a function that returns `results`, after the closure has returned them.
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
            // A frame without an enclosing one belongs to a trace without a boundary (a call of `jit`, `run` or
            // `record`): no equation can be emitted after the frame, so its function is dropped.
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
