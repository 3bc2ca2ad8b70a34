//! Tracing: how a Rust closure becomes a function of the language.
//!
//! A thread has a stack of *traces*, one per running call of an entry point (`jit`, `run`; also called the boundary),
//! and a trace has a stack of *frames*, one per closure being traced (`grad` inside `vmap` inside `jit`). A closure is
//! called once with [`Handle`]s; every operation on them emits an equation into the top frame, and when the closure
//! returns, its frame is closed into a function. All frames of a trace share one [`Module`], so a transform is a step
//! from function to function, whatever the nesting.
//!
//! A handle of an outer frame may be used in an inner closure: the functions in between get it as an
//! extra parameter, and [`Closed::captures`] says what to pass. Perturbation confusion cannot arise:
//! a transform sees a closed function with explicit, inactive captures.
//!
//! Wrong operations do not stop the closure. They record a [`Diagnostic`] and yield *poison*: a handle of the
//! type that was probably meant. An operation on poison yields poison and records nothing, so the boundary
//! returns first causes alone. The stack is not borrowed while user code runs, and a panic in the closure pops
//! the frames that it leaves.
//!
//! A *recording* ([`recording`]) is a trace whose outermost frame is evaluated while it grows. It yields a
//! tape.
//!
//! ```
//! use tapeloom_ir::{Dtype, Scalar, Tensor, Type, eval, trace};
//! use std::panic::Location;
//! let here = Some(Location::caller());
//! let x = trace::Param::new(Type::scalar(Dtype::F64), here);
//! let traced = trace::trace("run", here, &[x], |x| {
//!     (vec![trace::bind1(Scalar::Mul, &[x[0], x[0]], here)], ())
//! });
//! let traced = traced.map_err(|errors| errors[0].problem.clone())?;
//! let y = eval(&traced.module, traced.function, &[Tensor::from(3.0)])?;
//! assert_eq!(y[0].item::<f64>()?, 9.0);
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```
//!
//! Model: JAX's omnistaging and Autodidax; the capture of outer values is closure conversion.

mod define_by_run;
mod diagnostic;
mod frame;
mod opened;
mod state;

pub use define_by_run::{
    Pullback, Recorded, is_recording, item, level, recorded_bytes, recording, value,
};
pub use diagnostic::{Context, Diagnostic, Note};
pub use opened::{Closed, Opened, body, frame, solver, solving};
pub use state::{CapturedState, State, around};

use crate::lang::function::{Atom, FuncId};
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::problem::Problem;
use crate::lang::source_loc::Loc;
use crate::lang::types::{Dtype, Type};
use crate::prim::Op;
use crate::tensor::Tensor;
use frame::{Frame, Runs, Trace};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    /// The name of the outermost composed operation whose body is being traced; set by [`within`].
    static WITHIN: Cell<Option<&'static str>> = const { Cell::new(None) };
    static STACK: RefCell<Vec<Trace>> = const { RefCell::new(Vec::new()) };
}

/// The next frame number. Numbers are unique in the process, so that a handle is never resolved in a frame of
/// another thread.
static NEXT_FRAME: AtomicU64 = AtomicU64::new(1);

/// The frame number of handles that are made outside any trace. No frame (function under construction) has this number.
const NOWHERE: u64 = 0;

/// The payload of the panic that unwinds a closure to its boundary after an error has been recorded. Raised where no
/// placeholder can stand for the result, and where the closure would recurse without end.
struct Stop;

/// A value in a trace, or a literal. A handle belongs to the thread and the trace that made it.
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    frame: u64,
    atom: Atom,
    born: Loc,
    /// Handles are not `Send`, because the functions under construction (frames) belong to one thread.
    not_send: PhantomData<*const ()>,
}

impl Handle {
    fn new(frame: u64, atom: Atom, born: Loc) -> Handle {
        Handle { frame, atom, born, not_send: PhantomData }
    }

    /// Makes a handle of a constant, which can be used in every function under construction.
    pub fn literal(literal: Literal, born: Loc) -> Handle {
        Handle::new(NOWHERE, literal.into(), born)
    }

    /// Returns the constant, if the handle is a literal.
    pub fn as_literal(self) -> Option<Literal> {
        self.atom.literal()
    }

    /// Returns whether both handles stand for the same value.
    pub fn is_same(self, other: Handle) -> bool {
        (self.frame, self.atom) == (other.frame, other.atom)
    }

    /// Returns the user's source line that made the value.
    pub fn born(self) -> Loc {
        self.born
    }
}

/// A parameter of a function that is about to be traced.
#[derive(Clone, Debug)]
pub struct Param {
    /// The parameter's type.
    pub ty: Type,
    /// The source line that error messages show as the origin of the parameter.
    pub born: Loc,
    /// Whether the argument is poison: a placeholder for the result of a wrong operation.
    pub poison: bool,
}

impl Param {
    /// Makes a parameter that is no placeholder for a failed argument.
    pub fn new(ty: impl Into<Type>, born: Loc) -> Param {
        Param { ty: ty.into(), born, poison: false }
    }

    /// Makes a parameter for the argument `h`, with the same type and source line. If the argument is poison (a
    /// placeholder for the result of a wrong operation), so is the parameter.
    pub fn like(h: Handle, at: Loc) -> Param {
        Param { ty: type_of(h, at), born: h.born, poison: is_poison(h, at) }
    }
}

/// A closure that has been traced into a program.
#[derive(Debug)]
pub struct Traced<R> {
    /// The module with all functions of the program.
    pub module: Module,
    /// The outermost function. Its parameters are the declared ones, followed by one per captured tensor.
    pub function: FuncId,
    /// The captured tensors, in the order of the last parameters of `function`.
    pub tensors: Vec<Tensor>,
    /// The other value that the closure returned, besides its results.
    pub output: R,
}

/// Traces an outermost closure, as `jit` and `run` do. The closure gets handles of the parameters, and returns handles
/// of its results and a value of type `R`.
///
/// # Errors
/// Returns all errors recorded while the closure ran, without those that are consequences of others.
pub fn trace<R>(
    transform: &'static str,
    at: Loc,
    params: &[Param],
    f: impl FnOnce(&[Handle]) -> (Vec<Handle>, R),
) -> Result<Traced<R>, Vec<Diagnostic>> {
    let (finished, atoms, output) = outermost(transform, at, params, |_, _| {}, f)?;
    let tensors = finished.tensors();
    let Trace { mut module, mut frames, mut diagnostics, .. } = finished;
    let Some(frame) = frames.pop() else { return Err(lost(at)) };
    if let Some(results) = atoms.into_iter().collect::<Option<Vec<Atom>>>()
        && diagnostics.is_empty()
    {
        match frame.draft.finish(&mut module, results) {
            Ok(function) => return Ok(Traced { module, function, tensors, output }),
            Err(problem) => diagnostics.push(Diagnostic::new(problem, at)),
        }
    }
    if diagnostics.is_empty() {
        return Err(lost(at));
    }
    Err(diagnostics)
}

/// The outcome of an outermost closure: its trace, its results (`None` for a placeholder after an error), and the value
/// of type `R` that it returned besides them.
type Left<R> = (Trace, Vec<Option<Atom>>, R);

/// Runs an outermost closure in a trace of its own. Before that, calls `begin` with the new trace.
fn outermost<R>(
    transform: &'static str,
    at: Loc,
    params: &[Param],
    begin: impl FnOnce(&mut Trace, &[Handle]),
    f: impl FnOnce(&[Handle]) -> (Vec<Handle>, R),
) -> Result<Left<R>, Vec<Diagnostic>> {
    let guard = Guard::push_trace(Context { transform, at });
    let handles = declare(params);
    with_trace(|t| {
        t.bounded = true;
        begin(t, &handles);
    });
    let run = catch_unwind(AssertUnwindSafe(|| f(&handles)));
    let (results, output) = match run {
        Ok(run) => run,
        Err(cause) if cause.is::<Stop>() => {
            let trace = STACK.with_borrow_mut(|stack| stack.drain(guard.traces..).next());
            return Err(trace.map_or_else(|| lost(at), |t| t.diagnostics));
        }
        Err(cause) => resume_unwind(cause),
    };
    let atoms = with_trace(|t| {
        t.tell_cause();
        t.results(&results, at)
    });
    let finished = STACK.with_borrow_mut(|stack| stack.pop());
    drop(guard);
    match finished {
        Some(finished) => Ok((finished, atoms.unwrap_or_default(), output)),
        None => Err(lost(at)),
    }
}

/// Emits an equation into the top frame (the innermost function under construction), and returns its outputs. If the
/// equation is wrong, records a problem and returns poison, that is, placeholders.
pub fn bind(op: impl Into<Op>, operands: &[Handle], at: Loc) -> SmallVec<[Handle; 1]> {
    let op = op.into();
    // Take the trace off the stack while a recorded equation is evaluated: the evaluation may run user code, which may
    // itself trace.
    let runs = with_trace(|t| t.runs(&op)).unwrap_or_default();
    if runs {
        apart(|t| t.bind(op, operands, at))
    } else {
        with_trace(|t| t.bind(op, operands, at))
    }
    .unwrap_or_default()
}

/// Emits an equation with one output into the function under construction (the top frame), and returns the output.
pub fn bind1(op: impl Into<Op>, operands: &[Handle], at: Loc) -> Handle {
    bind(op, operands, at).first().copied().unwrap_or(escaped_placeholder(at))
}

/// Returns a handle of a concrete tensor. The tensor becomes a hidden parameter of the outermost function; tensors with
/// the same buffer and type share one parameter.
pub fn capture(tensor: &Tensor, at: Loc) -> Handle {
    with_trace(|t| t.capture(tensor, at)).unwrap_or(escaped_placeholder(at))
}

/// Returns whether a handle stands for a captured tensor. No derivative is taken with respect to captured tensors.
pub fn is_data(h: Handle) -> bool {
    with_trace(|t| t.is_data(h)).unwrap_or(false)
}

/// Returns the type of a handle. If the handle is used outside its trace, records that error at `at` and returns
/// `f64[]`.
pub fn type_of(h: Handle, at: Loc) -> Type {
    let known = with_trace(|t| t.type_or_escape(h, at));
    known.flatten().unwrap_or(Type::scalar(h.atom.literal().map_or(Dtype::F64, |l| l.dtype)))
}

/// Returns whether a handle is poison, a placeholder for the result of a wrong operation. A handle that is used outside
/// its trace counts as poison: its error is recorded at `at`, and the caller need not report more.
pub fn is_poison(h: Handle, at: Loc) -> bool {
    let asked = |t: &mut Trace| t.type_or_escape(h, at).is_none() || t.is_poison(h);
    h.atom.value().is_some() && with_trace(asked).unwrap_or(true)
}

/// Records a problem with these operands at the line `at`, unless an operand is a placeholder for the result of an
/// earlier wrong operation.
pub fn record(problem: Problem, operands: &[Handle], at: Loc) {
    with_trace(|t| t.record(problem, operands, at));
}

/// Runs the body of a composed operation (one that emits other operations or calls a transform), which users call
/// `name`. If a problem is recorded meanwhile, its message says that it arose in `name`, unless the message contains
/// that name. Of nested operations, the outermost name is shown.
pub fn within<T>(name: &'static str, body: impl FnOnce() -> T) -> T {
    named(WITHIN.get().or(Some(name)), body)
}

/// Runs a user's closure inside a composed operation: problems in it do not get the name that [`within`] has set.
pub fn outside<T>(body: impl FnOnce() -> T) -> T {
    named(None, body)
}

fn named<T>(name: Option<&'static str>, body: impl FnOnce() -> T) -> T {
    /// A guard that restores the previous name, even if the body panics.
    struct Restore(Option<&'static str>);
    impl Drop for Restore {
        fn drop(&mut self) {
            WITHIN.set(self.0);
        }
    }
    let _restore = Restore(WITHIN.replace(name));
    body()
}

/// Records a diagnostic. `inside` is a transform that is under way although its frame (function under construction) is
/// closed.
pub fn report(mut diagnostic: Diagnostic, inside: Option<Context>) {
    with_trace(|t| {
        diagnostic.context.extend(inside);
        diagnostic.context.extend(t.contexts());
        t.push(diagnostic);
    });
}

/// Returns one poison handle (a placeholder after an error) per type in `types`.
pub fn poison(types: &[Type], at: Loc) -> SmallVec<[Handle; 1]> {
    with_trace(|t| t.poison(types, at))
        .unwrap_or_else(|| types.iter().map(|_| escaped_placeholder(at)).collect())
}

/// Returns one poison handle of type `ty`, a placeholder for the result of a wrong operation.
pub fn poison1(ty: Type, at: Loc) -> Handle {
    poison(&[ty], at).first().copied().unwrap_or(escaped_placeholder(at))
}

/// Runs `f`, a transform, on the module of the current trace. Returns `None` outside a trace. `f` must not trace.
pub fn with_module<T>(f: impl FnOnce(&mut Module) -> T) -> Option<T> {
    with_trace(|t| f(&mut t.module))
}

/// Returns whether a handle can be used now: whether it is a literal, or its function is still under construction.
pub fn is_live(h: Handle) -> bool {
    with_trace(|t| t.type_of(h).is_some()).unwrap_or(false)
}

/// If a handle cannot be used now, returns a description of its owner: a closure that has returned, or another
/// trace.
pub fn gone(h: Handle) -> Option<String> {
    with_trace(|t| t.type_of(h).is_none().then(|| t.owner_of(h.frame))).flatten()
}

/// Returns whether a handle is the placeholder result of an operation outside any trace. No trace accepts it.
pub fn is_nowhere(h: Handle) -> bool {
    h.frame == NOWHERE && h.atom.value().is_some()
}

/// Returns a number that no other call of this function in the process returns. Such numbers identify frames (functions
/// under construction), states (mutable variables) and entries of [`remember`].
pub fn unique() -> u64 {
    NEXT_FRAME.fetch_add(1, Ordering::Relaxed)
}

/// Stores `value` under `number`, which comes from [`unique`], until the current trace ends.
pub fn remember<T: 'static>(number: u64, value: T) {
    with_trace(|t| t.memo.entry(number).or_default().push(Box::new(value)));
}

/// Returns a copy of the first value of type `T` stored under `number` that `pick` accepts.
pub fn recall<T: Clone + 'static>(number: u64, mut pick: impl FnMut(&T) -> bool) -> Option<T> {
    // Copy the values first: `pick` is the caller's code and may trace.
    let all: Option<Vec<T>> = with_trace(|t| {
        let kept = t.memo.get(&number).map(Vec::as_slice).unwrap_or_default();
        kept.iter().filter_map(|v| v.downcast_ref::<T>().cloned()).collect()
    });
    all?.into_iter().find(|v| pick(v))
}

/// Returns whether a closure is being traced on this thread.
pub fn active() -> bool {
    with_trace(|_| ()).is_some()
}

fn with_trace<T>(f: impl FnOnce(&mut Trace) -> T) -> Option<T> {
    STACK.with_borrow_mut(|stack| stack.last_mut().filter(|t| !t.frames.is_empty()).map(f))
}

/// Calls `f` on the current trace as [`with_trace`] does, but takes the trace off the stack meanwhile, so that
/// nothing is traced into it.
fn apart<T>(f: impl FnOnce(&mut Trace) -> T) -> Option<T> {
    /// A guard that puts the trace back on the stack, even if `f` panics.
    struct RestoreTrace(Trace);
    impl Drop for RestoreTrace {
        fn drop(&mut self) {
            let hollow = Trace::placeholder();
            let trace = std::mem::replace(&mut self.0, hollow);
            STACK.with_borrow_mut(|stack| {
                if let Some(place) = stack.last_mut() {
                    *place = trace;
                }
            });
        }
    }
    let mut aside = RestoreTrace(with_trace(|t| std::mem::replace(t, Trace::placeholder()))?);
    Some(f(&mut aside.0))
}

/// Returns a placeholder for the result of an operation outside any trace. Every trace rejects it as escaped.
fn escaped_placeholder(at: Loc) -> Handle {
    use cranelift_entity::EntityRef;
    Handle::new(NOWHERE, Atom::Value(crate::lang::function::ValueId::new(0)), at)
}

fn lost(at: Loc) -> Vec<Diagnostic> {
    vec![Diagnostic::new(Problem::internal("a trace ended without its frame"), at)]
}

fn declare(params: &[Param]) -> Vec<Handle> {
    let declared = with_trace(|t| {
        let frame = t.frames.last_mut()?;
        let one = |p: &Param| {
            let atom = frame.draft.param(p.ty.clone());
            frame.poison.extend(atom.value().filter(|_| p.poison));
            Handle::new(frame.id, atom, p.born)
        };
        Some(params.iter().map(one).collect())
    });
    declared.flatten().unwrap_or_default()
}

/// A guard that truncates the stack of traces, and the stack of frames in the last one, to their heights from before a
/// closure was entered, even if the closure panics.
struct Guard {
    traces: usize,
    frames: usize,
}

impl Guard {
    fn push_trace(context: Context) -> Guard {
        let guard = Guard::here();
        let frame = Frame::new(unique(), context, Runs::AsFunction);
        STACK.with_borrow_mut(|stack| stack.push(Trace::new(frame)));
        guard
    }

    fn push_frame(context: Context, runs: Runs) -> Guard {
        let guard = Guard::here();
        let frame = Frame::new(unique(), context, runs);
        with_trace(|t| t.frames.push(frame));
        guard
    }

    fn here() -> Guard {
        STACK.with_borrow(|stack| Guard {
            traces: stack.len(),
            frames: stack.last().map_or(0, |t| t.frames.len()),
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        STACK.with_borrow_mut(|stack| {
            stack.truncate(self.traces);
            if let Some(t) = stack.last_mut() {
                t.frames.truncate(self.frames);
            }
        });
    }
}
