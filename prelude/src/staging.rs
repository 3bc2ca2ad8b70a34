//! Closures as functions: what every transform does first.
//!
//! A transform called inside a trace traces its closure in a new frame ([`stage`]), asks
//! `tapeloom-transforms` for the function derived from it, and emits a call of that function with the
//! arguments followed by what the closure captured.
//!
//! **What is compiled for users.** Every closure has a type of its own, and whatever is generic in it rustc
//! compiles again in the user's crate, for each of them. So generic code is a thin layer: a public function
//! hands its closure on as a `&dyn Fn(A) -> B`; what stands between, [`stage`] and [`rebuild`], is compiled
//! once for each pair of trees; and what transforms do is done to a [`Staged`], which knows no types of trees.

use crate::tree::{Form, Tree, flatten, unflatten};
use crate::{Error, Var};
use std::cell::Cell;
use std::time::{Duration, Instant};
use tapeloom_ir::lang::query::Residual;
use tapeloom_ir::prim::Call;
use tapeloom_ir::trace::{self, Closed, Context, Diagnostic, Handle, Held, Note, Opened, Param};
use tapeloom_ir::{ArrayType, FuncId, Kind, Loc, Module, Problem, Type};

thread_local! {
    /// Time that this thread has spent deriving functions.
    static TRANSFORMING: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Time that this thread has spent deriving functions, for `explain`.
pub(crate) fn time_in_transforms() -> Duration {
    TRANSFORMING.get()
}

/// What the closures of a `while_loop` are given to.
pub(crate) const WHILE_LOOP: &str = "while_loop";

/// A closure traced at its arguments.
pub(crate) struct Staged {
    transform: &'static str,
    pub(crate) at: Loc,
    closed: Closed,
    /// Which captures have a value for each member of a batch.
    lifted: Vec<bool>,
    /// The arguments' leaves.
    pub(crate) args: Vec<Var>,
    /// What is left of the argument without its leaves, and of the result.
    form: Form,
    output: Form,
}

/// A traced closure, and the structures of its argument and its result.
pub(crate) type Typed<A, B> = (Staged, <A as Tree<Var>>::Structure, <B as Tree<Var>>::Structure);

/// Traces `f` at `x` in a new frame.
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

/// As [`stage`], for a closure that solves an equation: no derivative of its function is ever asked for.
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

/// Runs a closure in a frame that was opened for it. Its parameters may differ from the arguments (vmap takes an axis
/// away). One that was opened as a body may write to state from outside: whoever runs the function hands the
/// results on by [`Staged::settle`].
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

/// Parameters for which those values will be passed.
pub(crate) fn like(args: &[Var], at: Loc) -> Vec<Param> {
    args.iter().map(|v| Param::like(v.handle, at)).collect()
}

/// Runs `f` on a tree of handles: those of its results, and what is left of them.
pub(crate) fn apply<A: Tree<Var>, B: Tree<Var>>(
    f: &dyn Fn(A) -> B,
    structure: &A::Structure,
    handles: &[Handle],
    at: Loc,
) -> (Vec<Handle>, B::Structure) {
    let (structure, results) = flatten(&f(rebuild(structure, vars(handles), at)));
    (self::handles(&results), structure)
}

/// Values as handles.
pub(crate) fn handles(vars: &[Var]) -> Vec<Handle> {
    vars.iter().map(|v| v.handle).collect()
}

/// Handles as values.
pub(crate) fn vars(handles: &[Handle]) -> Vec<Var> {
    handles.iter().map(|h| Var::new(*h)).collect()
}

/// Stands in for a leaf that is not there, which a fault of tapeloom alone can cause.
fn missing(at: Loc) -> Var {
    trace::record(Problem::internal("a tree has fewer leaves than its structure"), &[], at);
    Var::poison(ArrayType::new(tapeloom_ir::Dtype::F64, []), at)
}

impl Staged {
    /// What is left of the result without its leaves.
    pub(crate) fn output(&self) -> &Form {
        &self.output
    }

    /// What is left of the argument without its leaves.
    pub(crate) fn form(&self) -> &Form {
        &self.form
    }

    /// The function, unless an error made it meaningless.
    pub(crate) fn function(&self) -> Option<FuncId> {
        self.closed.function
    }

    /// Values that the closure uses from outside.
    pub(crate) fn captures(&self) -> &[Handle] {
        &self.closed.captures
    }

    /// What the closure uses from outside, and which of it is state.
    pub(crate) fn taken(&self) -> (&[Handle], &[Held]) {
        (&self.closed.captures, &self.closed.held)
    }

    /// State from outside that the closure uses.
    pub(crate) fn held(&self) -> &[Held] {
        &self.closed.held
    }

    /// State from outside that the closure writes: its last values are the function's last results.
    pub(crate) fn written(&self) -> impl Iterator<Item = &Held> {
        self.closed.held.iter().filter(|held| held.written)
    }

    /// The closure's own results; what more the function gave is what state is now.
    pub(crate) fn settle(&self, mut results: Vec<Handle>) -> Vec<Var> {
        let last = results.split_off(self.closed.types.len().min(results.len()));
        self.written().zip(last).for_each(|(held, value)| held.state.put(value));
        results.into_iter().map(Var::new).collect()
    }

    /// After an error: what the closure writes is poison.
    pub(crate) fn spoil(&self) {
        self.written().for_each(|held| held.state.spoil(self.at));
    }

    /// Types of the results.
    pub(crate) fn result_types(&self) -> Vec<ArrayType> {
        self.closed.types.iter().map(array).collect()
    }

    /// Which results are errors or their consequences.
    pub(crate) fn poisoned_results(&self) -> &[bool] {
        &self.closed.poison
    }

    /// The line that made a result.
    pub(crate) fn result_born(&self, i: usize) -> Loc {
        self.closed.born.get(i).copied().flatten()
    }

    /// Types of the arguments.
    pub(crate) fn arg_types(&self) -> Vec<ArrayType> {
        self.args.iter().map(|v| v.ty(self.at)).collect()
    }

    /// A mask over the function's parameters: `args` for the arguments, false for the captures but those
    /// that were lifted.
    pub(crate) fn mask(&self, args: impl IntoIterator<Item = bool>) -> Vec<bool> {
        args.into_iter().chain(self.lifted.iter().copied()).collect()
    }

    /// The mask of what a transform differentiates by: all arguments.
    pub(crate) fn all_args(&self) -> Vec<bool> {
        self.mask(self.args.iter().map(|_| true))
    }

    /// Passes something else for the captures for which there is something: a value for each member of a
    /// batch.
    pub(crate) fn lift_captures(&mut self, mut instead: impl FnMut(Handle) -> Option<Handle>) {
        for (capture, lifted) in self.closed.captures.iter_mut().zip(&mut self.lifted) {
            if let Some(all) = instead(*capture) {
                (*capture, *lifted) = (all, true);
            }
        }
    }

    /// What a transform answers for the function; a problem is recorded. `None` after an error.
    pub(crate) fn derive<T>(
        &self,
        transform: impl FnOnce(&mut Module, FuncId) -> Result<T, Problem>,
    ) -> Option<T> {
        let function = self.closed.function?;
        let start = Instant::now();
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

    /// Calls a function on `args`, the captures, and `more`.
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

    /// The floats among the captures that are no data; what more there is has no derivative.
    pub(crate) fn floats(&self) -> Vec<Var> {
        vars(self.captures()).into_iter().filter(|v| self.is_active(*v)).collect()
    }

    /// Whether a capture may have a derivative.
    fn is_active(&self, capture: Var) -> bool {
        capture.ty(self.at).dtype.is_float() && !trace::is_data(capture.handle)
    }

    /// Calls a function on `args` and the captures, with others for the floats among them: for transforms that
    /// differentiate with respect to them, too.
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

    /// Emits a call on `args`, the captures, and `more`.
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

    /// What the function takes: `args` and the captures.
    fn operands(&self, args: &[Var]) -> Vec<Handle> {
        let args = args.iter().map(|v| v.handle);
        args.chain(self.closed.captures.iter().copied()).collect()
    }

    /// Calls the first half of a function cut in two: the function's results, and what the second
    /// half reads.
    pub(crate) fn first_half(&self, fwd: FuncId, residuals: &[Residual]) -> (Vec<Var>, Vec<Var>) {
        let mut y = self.call(fwd, &self.args, [], false);
        let x: Vec<Var> = self.operands(&self.args).into_iter().map(Var::new).collect();
        let residuals = Residual::pick(residuals, &x, &y);
        y.truncate(self.closed.types.len());
        (y, residuals)
    }

    /// Records a problem of this transform.
    pub(crate) fn report(&self, diagnostic: Diagnostic) {
        trace::report(diagnostic, Some(self.context()));
    }

    /// Poison of those types.
    pub(crate) fn poison(&self, types: &[ArrayType]) -> Vec<Var> {
        types.iter().map(|t| Var::poison(t.clone(), self.at)).collect()
    }

    /// The transform, for messages.
    pub(crate) fn context(&self) -> Context {
        Context { transform: self.transform, at: self.at }
    }

    /// Whether all arguments can be differentiated; those that cannot are reported by path.
    pub(crate) fn require_floats(&self) -> bool {
        require_floats(self.context(), Side::Argument, &self.form, &self.args)
    }

    /// Whether all results can be differentiated; those that cannot are reported by path.
    pub(crate) fn require_float_results(&self) -> bool {
        let types = self.result_types();
        let leaf = |i: usize| (types[i].clone(), self.result_born(i), self.closed.poison[i]);
        all_floats(self.context(), Side::Result, &self.output, types.len(), &leaf)
    }
}

/// What a leaf without a derivative is to the function that is differentiated.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Argument,
    Result,
}

impl Side {
    /// Where paths begin.
    pub(crate) fn root(self) -> &'static str {
        match self {
            Side::Argument => "argument",
            Side::Result => "result",
        }
    }

    /// What is wrong with a leaf that is no float.
    pub(crate) fn no_float(self, transform: &str, path: &str, ty: &ArrayType) -> Problem {
        let (how, help) = match self {
            Side::Argument => {
                ("with respect to", "close over it instead of passing it, or convert it to a float")
            }
            Side::Result => (
                "of",
                "convert it to a float, or return it otherwise: beside the value, as \
                 `value_and_grad_aux` does, or from a closure that is not differentiated",
            ),
        };
        Problem::new(
            Kind::NotDifferentiable,
            format!("`{transform}` {how} `{path}`, which is {ty}: only floats have derivatives"),
            help,
        )
    }
}

/// Whether all leaves can be differentiated; those that cannot are reported by path.
pub(crate) fn require_floats(context: Context, side: Side, form: &Form, leaves: &[Var]) -> bool {
    let leaf = |i: usize| {
        let v = leaves[i];
        (v.ty(context.at), v.handle.born(), trace::is_poison(v.handle, context.at))
    };
    all_floats(context, side, form, leaves.len(), &leaf)
}

/// The same of data.
///
/// # Errors
/// The first leaf that cannot.
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

/// Whether `n` leaves, each a type, a line and whether it is an error, have derivatives; those that do not,
/// and not for another error, are reported by path.
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

/// The array type of a user's value.
pub(crate) fn array(ty: &Type) -> ArrayType {
    ty.as_array().cloned().unwrap_or(ArrayType::new(tapeloom_ir::Dtype::F64, []))
}

/// A tree of that structure from its leaves.
pub(crate) fn rebuild<A: Tree<Var>>(structure: &A::Structure, leaves: Vec<Var>, at: Loc) -> A {
    unflatten(structure, leaves, || missing(at))
}
