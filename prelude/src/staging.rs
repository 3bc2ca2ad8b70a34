//! Tracing closures into functions: the first step of every transform.
//!
//! A transform called inside a trace traces its closure in a new frame ([`stage`]), asks
//! `tapeloom-transforms` for the function derived from it, and emits a call of that function with the
//! arguments followed by the closure's captures.
//!
//! **Generic code is thin.** Every closure has its own type, and rustc compiles code that is generic over it again
//! in the user's crate for each closure. So a public function passes its closure on as a `&dyn Fn(A) -> B`;
//! [`stage`] and [`rebuild`] are compiled once for each pair of tree types; and the transforms themselves work on a
//! [`Staged`], which does not depend on tree types.

use crate::tree::{Form, Tree, flatten, unflatten};
use crate::{Error, Var};
use std::cell::Cell;
use std::num::NonZeroUsize;
use std::time::Duration;
use tapeloom_ir::lang::query::Residual;
use tapeloom_ir::prim::Call;
use tapeloom_ir::trace::{
    self, CapturedState, Closed, Context, Diagnostic, Handle, Note, Opened, Param,
};
use tapeloom_ir::{ArrayType, FuncId, Kind, Loc, Module, Problem, Stopwatch, Type};

thread_local! {
    /// The time that this thread has spent in transforms of functions (derivatives, batches).
    static TRANSFORMING: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Returns the time that this thread has spent in transforms of functions, for `explain`.
pub(crate) fn time_in_transforms() -> Duration {
    TRANSFORMING.get()
}

/// The name that frames of the closures of a `while_loop` have as their transform.
pub(crate) const WHILE_LOOP: &str = "while_loop";

/// A closure that has been traced for given arguments.
pub(crate) struct Staged {
    transform: &'static str,
    pub(crate) at: Loc,
    closed: Closed,
    /// For each capture, whether it has been replaced by an array with one value for each batch member.
    lifted: Vec<bool>,
    /// The leaves of the arguments.
    pub(crate) args: Vec<Var>,
    /// The tree structure of the argument.
    form: Form,
    /// The tree structure of the result.
    output: Form,
}

/// A traced closure, and the structures of its argument and its result.
pub(crate) type Typed<A, B> = (Staged, <A as Tree<Var>>::Structure, <B as Tree<Var>>::Structure);

/// Traces `f` for the argument `x` in a new frame, the scope in which the trace records the equations of a closure.
pub(crate) fn stage<A: Tree<Var>, B: Tree<Var>>(
    transform: &'static str,
    at: Loc,
    f: &dyn Fn(A) -> B,
    x: A,
) -> Typed<A, B> {
    let (structure, args) = flatten(&x);
    let opened = trace::frame(transform, at, &like(&args, at));
    let (staged, output) = stage_in(opened, f, &structure, args);
    (staged, structure, output)
}

/// Traces `f` as [`stage`] does, for a derivative that saves residuals of loops. Batches inside are divided into larger
/// chunks: each iteration of a loop in a chunk saves a record, which takes as long as hundreds of operations.
pub(crate) fn stage_linearized<A: Tree<Var>, B: Tree<Var>>(
    transform: &'static str,
    at: Loc,
    f: &dyn Fn(A) -> B,
    x: A,
) -> Typed<A, B> {
    with_chunks(|operations| operations.saturating_mul(16), || stage(transform, at, f, x))
}

/// Calls `stage` while batches are divided into chunks of another size: `divide` returns the operations of an iteration of
/// a chunk ([`Module::divide_batches`]) for those outside.
///
/// [`Module::divide_batches`]: tapeloom_ir::Module::divide_batches
pub(crate) fn with_chunks<T>(divide: fn(usize) -> usize, stage: impl FnOnce() -> T) -> T {
    let set = |operations| trace::with_module(|m| m.divide_batches(operations));
    let before = trace::with_module(|m| m.chunk_operations().map_or(0, NonZeroUsize::get));
    let before = before.unwrap_or(0);
    set(divide(before));
    let staged = stage();
    set(before);
    staged
}

/// Traces `f` as [`stage`] does, in a frame marked as a solver: the function of an equation's solver is never
/// differentiated.
pub(crate) fn stage_solver<A: Tree<Var>, B: Tree<Var>>(
    transform: &'static str,
    at: Loc,
    f: &dyn Fn(A) -> B,
    x: A,
) -> Typed<A, B> {
    let (structure, args) = flatten(&x);
    let opened = trace::solver(transform, at, &like(&args, at));
    let (staged, output) = stage_in(opened, f, &structure, args);
    (staged, structure, output)
}

/// Traces a closure in a frame that was opened for it. Its parameters may differ from the arguments (vmap removes an
/// axis). If the frame was opened as a body, the closure may write to state from outside. Then the caller of the
/// function must pass its results to [`Staged::store_state`].
pub(crate) fn stage_in<A: Tree<Var>, B: Tree<Var>>(
    opened: Opened,
    f: &dyn Fn(A) -> B,
    structure: &A::Structure,
    args: Vec<Var>,
) -> (Staged, B::Structure) {
    let Context { transform, at } = opened.context();
    let (results, output) = apply(f, structure, opened.params(), at);
    let closed = opened.close(&results);
    let lifted = vec![false; closed.captures.len()];
    let (form, of) = (Form::of::<A>(structure), Form::of::<B>(&output));
    (Staged { transform, at, closed, lifted, args, form, output: of }, output)
}

/// Returns one parameter for each argument, of the same type.
pub(crate) fn like(args: &[Var], at: Loc) -> Vec<Param> {
    args.iter().map(|v| Param::like(v.handle, at)).collect()
}

/// Builds a tree from handles, calls `f` with it, and returns the handles of the result and its structure.
pub(crate) fn apply<A: Tree<Var>, B: Tree<Var>>(
    f: &dyn Fn(A) -> B,
    structure: &A::Structure,
    handles: &[Handle],
    at: Loc,
) -> (Vec<Handle>, B::Structure) {
    let (structure, results) = flatten(&f(rebuild(structure, vars(handles), at)));
    (self::handles(&results), structure)
}

/// Returns the handles of values.
pub(crate) fn handles(vars: &[Var]) -> Vec<Handle> {
    vars.iter().map(|v| v.handle).collect()
}

/// Returns the values of handles.
pub(crate) fn vars(handles: &[Handle]) -> Vec<Var> {
    handles.iter().map(|h| Var::new(*h)).collect()
}

/// Returns a placeholder for a missing leaf, which can only be missing because of a bug in tapeloom.
fn missing(at: Loc) -> Var {
    trace::record(Problem::internal("a tree has fewer leaves than its structure"), &[], at);
    Var::poison(ArrayType::new(tapeloom_ir::Dtype::F64, []), at)
}

impl Staged {
    /// Returns the structure of the result.
    pub(crate) fn output(&self) -> &Form {
        &self.output
    }

    /// Returns the structure of the argument.
    pub(crate) fn form(&self) -> &Form {
        &self.form
    }

    /// Returns the traced function, or `None` if tracing had an error.
    pub(crate) fn function(&self) -> Option<FuncId> {
        self.closed.function
    }

    /// Returns the captures of the closure: the values from outside that it uses.
    pub(crate) fn captures(&self) -> &[Handle] {
        &self.closed.captures
    }

    /// Returns the captures of the closure, and the ones among them that are state.
    pub(crate) fn taken(&self) -> (&[Handle], &[CapturedState]) {
        (&self.closed.captures, &self.closed.held)
    }

    /// Returns the captures that are state, which the closure reads or writes.
    pub(crate) fn held(&self) -> &[CapturedState] {
        &self.closed.held
    }

    /// Returns the state from outside that the closure writes. Its new values are the last results of the function.
    pub(crate) fn written(&self) -> impl Iterator<Item = &CapturedState> {
        self.closed.held.iter().filter(|held| held.written)
    }

    /// Removes the new values of state from the end of `results`, stores them in the state, and returns the closure's
    /// own results.
    pub(crate) fn store_state(&self, mut results: Vec<Handle>) -> Vec<Var> {
        let last = results.split_off(self.closed.types.len().min(results.len()));
        self.written().zip(last).for_each(|(held, value)| held.state.put(value));
        results.into_iter().map(Var::new).collect()
    }

    /// After an error, replaces the state that the closure writes by placeholders.
    pub(crate) fn spoil(&self) {
        self.written().for_each(|held| held.state.spoil(self.at));
    }

    /// Returns the types of the results.
    pub(crate) fn result_types(&self) -> Vec<ArrayType> {
        self.closed.types.iter().map(array).collect()
    }

    /// Returns, for each result, whether it is a placeholder after an error.
    pub(crate) fn poisoned_results(&self) -> &[bool] {
        &self.closed.poison
    }

    /// Returns the line that made result `i`.
    pub(crate) fn result_born(&self, i: usize) -> Loc {
        self.closed.born.get(i).copied().flatten()
    }

    /// Returns the types of the arguments.
    pub(crate) fn arg_types(&self) -> Vec<ArrayType> {
        self.args.iter().map(|v| v.ty(self.at)).collect()
    }

    /// Returns a mask over the function's parameters. It has the values of `args` for the arguments, true for captures
    /// replaced by one value per batch member, and false for all other captures.
    pub(crate) fn mask(&self, args: impl IntoIterator<Item = bool>) -> Vec<bool> {
        args.into_iter().chain(self.lifted.iter().copied()).collect()
    }

    /// Returns the mask of the parameters with respect to which a transform differentiates: all arguments.
    pub(crate) fn all_args(&self) -> Vec<bool> {
        self.mask(self.args.iter().map(|_| true))
    }

    /// Replaces each capture for which `instead` returns a value by that value, which has one entry per batch member.
    pub(crate) fn lift_captures(&mut self, mut instead: impl FnMut(Handle) -> Option<Handle>) {
        for (capture, lifted) in self.closed.captures.iter_mut().zip(&mut self.lifted) {
            if let Some(all) = instead(*capture) {
                (*capture, *lifted) = (all, true);
            }
        }
    }

    /// Applies a transform to the traced function. If the transform fails, reports the error and returns `None`.
    pub(crate) fn derive<T>(
        &self,
        transform: impl FnOnce(&mut Module, FuncId) -> Result<T, Problem>,
    ) -> Option<T> {
        let function = self.closed.function?;
        let start = Stopwatch::start();
        let answer = trace::with_module(|m| transform(m, function))?;
        TRANSFORMING.set(TRANSFORMING.get() + start.elapsed());
        match answer {
            Ok(answer) => Some(answer),
            Err(problem) => {
                self.report(Diagnostic::new(problem, self.at));
                None
            }
        }
    }

    /// Emits a call of `function`, whose operands are `args`, the captures and `more`. If `outline` is true, the call
    /// is not inlined.
    pub(crate) fn call(
        &self,
        function: FuncId,
        args: &[Var],
        more: impl IntoIterator<Item = Var>,
        outline: bool,
    ) -> Vec<Var> {
        let call = if outline { Call::outline(function) } else { Call::inline(function) };
        self.bind(call, args, more)
    }

    /// Returns the captures that may have a derivative: those that are floats and not captured data.
    pub(crate) fn floats(&self) -> Vec<Var> {
        vars(self.captures()).into_iter().filter(|v| self.is_active(*v)).collect()
    }

    /// Returns whether a capture may have a derivative.
    fn is_active(&self, capture: Var) -> bool {
        capture.ty(self.at).dtype.is_float() && !trace::is_data(capture.handle)
    }

    /// Emits a call of a function with `args` and the captures, in which the captures that may have a derivative are
    /// replaced by `floats`. It is used for derivatives with respect to captures.
    pub(crate) fn call_with(&self, function: FuncId, args: &[Var], floats: &[Var]) -> Vec<Var> {
        let mut floats = floats.iter();
        let mut one = |own: Var| {
            let given = if self.is_active(own) { floats.next() } else { None };
            given.copied().unwrap_or(own).handle
        };
        let captures = vars(self.captures()).into_iter().map(&mut one);
        let operands: Vec<Handle> = args.iter().map(|v| v.handle).chain(captures).collect();
        vars(&trace::bind(Call::inline(function), &operands, self.at))
    }

    /// Emits `call`, with the operands `args`, the captures and `more`.
    pub(crate) fn bind(
        &self,
        call: Call,
        args: &[Var],
        more: impl IntoIterator<Item = Var>,
    ) -> Vec<Var> {
        let mut operands = self.operands(args);
        operands.extend(more.into_iter().map(|v| v.handle));
        trace::bind(call, &operands, self.at).into_iter().map(Var::new).collect()
    }

    /// Returns the operands of the function: `args` and the captures.
    fn operands(&self, args: &[Var]) -> Vec<Handle> {
        let args = args.iter().map(|v| v.handle);
        args.chain(self.closed.captures.iter().copied()).collect()
    }

    /// Emits a call of `fwd`, the forward function of a linearization of this closure. Returns the closure's results,
    /// and the residuals that the linear or the reverse function takes.
    pub(crate) fn first_half(&self, fwd: FuncId, residuals: &[Residual]) -> (Vec<Var>, Vec<Var>) {
        let mut y = self.call(fwd, &self.args, [], false);
        let x: Vec<Var> = self.operands(&self.args).into_iter().map(Var::new).collect();
        let residuals = Residual::pick(residuals, &x, &y);
        y.truncate(self.closed.types.len());
        (y, residuals)
    }

    /// Reports an error of this transform.
    pub(crate) fn report(&self, diagnostic: Diagnostic) {
        trace::report(diagnostic, Some(self.context()));
    }

    /// Returns placeholders of the given types, for results after an error.
    pub(crate) fn poison(&self, types: &[ArrayType]) -> Vec<Var> {
        types.iter().map(|t| Var::poison(t.clone(), self.at)).collect()
    }

    /// Returns the name of the transform and the line of the user's call, for messages.
    pub(crate) fn context(&self) -> Context {
        Context { transform: self.transform, at: self.at }
    }

    /// Checks that all arguments are floats. Otherwise reports the path of each that is not, and returns false.
    pub(crate) fn require_floats(&self) -> bool {
        require_floats(self.context(), Side::Argument, &self.form, &self.args)
    }

    /// Checks that all results are floats. Otherwise reports the path of each that is not, and returns false.
    pub(crate) fn require_float_results(&self) -> bool {
        let types = self.result_types();
        let leaf = |i: usize| (types[i].clone(), self.result_born(i), self.closed.poison[i]);
        all_floats(self.context(), Side::Result, &self.output, types.len(), &leaf)
    }
}

/// The side of the differentiated function to which a leaf belongs.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Argument,
    Result,
}

impl Side {
    /// Returns the first segment of the paths of leaves on this side: `argument` or `result`.
    pub(crate) fn root(self) -> &'static str {
        match self {
            Side::Argument => "argument",
            Side::Result => "result",
        }
    }

    /// Returns the error for a leaf that is not a float.
    pub(crate) fn no_float(self, transform: &str, path: &str, ty: &ArrayType) -> Problem {
        let (how, help) = match self {
            Side::Argument => {
                ("with respect to", "close over it instead of passing it, or convert it to a float")
            }
            Side::Result => (
                "of",
                "convert it to a float, return it as an auxiliary value of `value_and_grad_aux`, \
                 or return it from a closure that is not differentiated",
            ),
        };
        Problem::new(
            Kind::NotDifferentiable,
            format!("`{transform}` {how} `{path}`, which is {ty}: only floats have derivatives"),
            help,
        )
    }
}

/// Checks that all leaves are floats. Otherwise reports the path of each that is not, and returns false.
pub(crate) fn require_floats(context: Context, side: Side, form: &Form, leaves: &[Var]) -> bool {
    let leaf = |i: usize| {
        let v = leaves[i];
        (v.ty(context.at), v.handle.born(), trace::is_poison(v.handle, context.at))
    };
    all_floats(context, side, form, leaves.len(), &leaf)
}

/// Checks that all leaves of data are floats.
///
/// # Errors
/// The error for the first leaf that is not a float.
pub(crate) fn float_types(
    context: Context,
    side: Side,
    form: &Form,
    types: &[ArrayType],
) -> Result<(), Error> {
    let paths = form.paths(side.root());
    match paths.iter().zip(types).find(|(_, ty)| !ty.dtype.is_float()) {
        None => Ok(()),
        Some((path, ty)) => Err(Error::at(side.no_float(context.transform, path, ty), context.at)),
    }
}

/// Checks that `n` leaves are floats. Otherwise reports the path of each that is not, and returns false. `leaf` returns
/// the type of a leaf, its line, and whether it is a placeholder after an error. Nothing is reported for placeholders.
fn all_floats(
    context: Context,
    side: Side,
    form: &Form,
    n: usize,
    leaf: &dyn Fn(usize) -> (ArrayType, Loc, bool),
) -> bool {
    let mut ok = true;
    for (i, path) in (0..n).zip(form.paths(side.root())) {
        let (ty, born, poisoned) = leaf(i);
        if ty.dtype.is_float() || poisoned {
            ok &= ty.dtype.is_float();
            continue;
        }
        ok = false;
        let problem = side.no_float(context.transform, &path, &ty);
        let notes = vec![Note { role: path, what: ty.to_string(), born }];
        let diagnostic = Diagnostic { problem, at: context.at, notes, context: Vec::new() };
        trace::report(diagnostic, Some(context));
    }
    ok
}

/// Returns the type of a value of the user, which is always an array.
pub(crate) fn array(ty: &Type) -> ArrayType {
    ty.as_array().cloned().unwrap_or(ArrayType::new(tapeloom_ir::Dtype::F64, []))
}

/// Builds a tree from its structure and leaves.
pub(crate) fn rebuild<A: Tree<Var>>(structure: &A::Structure, leaves: Vec<Var>, at: Loc) -> A {
    unflatten(structure, leaves, || missing(at))
}
