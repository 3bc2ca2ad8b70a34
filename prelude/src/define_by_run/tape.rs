//! `record`, and the tape that it returns.

use crate::function::{Function, one};
use crate::jit::{Compiled, tree};
use crate::ops::constant;
use crate::staging::{Side, apply, float_types, rebuild, vars};
use crate::transform::{other_structure, other_type};
use crate::tree::{Args, Flat, Form, TensorRefs, Tree};
use crate::var::caller;
use crate::{Error, Var};
use std::fmt;
use std::marker::PhantomData;
use tapeloom_ir::prim::Call;
use tapeloom_ir::trace::{self, Context, Diagnostic, Handle, Note, Recorded, Traced};
use tapeloom_ir::{ArrayType, Kind, Loc, Problem, Tensor};
use tapeloom_transforms::Transforms;

/// Marks a tape whose reverse pass can run any number of times.
#[derive(Debug)]
pub enum Persistent {}

/// Marks a tape whose reverse pass runs once and consumes the tape.
#[derive(Debug)]
pub enum Ephemeral {}

/// The operations of a closure that [`record`] ran, with its value and its reverse pass.
///
/// It prints one line per operation, with its type, the bytes stored for it, and your line.
pub struct Tape<A: Tree<Var>, B: Tree<Var>, K = Persistent> {
    recorded: Recorded,
    structure: A::Structure,
    output: B::Structure,
    at: Loc,
    /// A tape contains no values of `A` and `B`. The type is that of a function, so that a tape is `Send` although
    /// trees of `Var` are not.
    kind: PhantomData<fn(A, K) -> B>,
}

/// Runs `f` on data, operation by operation, and records its operations; see [the module](mod@crate::define_by_run).
///
/// # Errors
/// All mistakes made while the closure ran, and all run-time errors of operations.
///
/// ```
/// use tapeloom::prelude::*;
/// // The sum of a series whose number of terms depends on x.
/// let tape = record(|x: Var| {
///     let (mut total, mut term) = (x * 0.0, x);
///     while term.item::<f64>() > 0.01 {
///         total = total + term;
///         term = term * x;
///     }
///     total
/// }, 0.5)?;
/// assert_eq!(tape.operations(), 13);
/// assert_eq!(tape.value().item::<f64>()?, 0.984375);
/// assert_eq!(tape.pull(1.0)?.item::<f64>()?, 3.75);
/// assert_eq!(tape.pull(2.0)?.item::<f64>()?, 7.5);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
#[doc(alias = "GradientTape")]
pub fn record<A: Tree<Var>, B: Tree<Var>, M>(
    f: impl Function<A, B, M>,
    args: impl Args<A>,
) -> Result<Tape<A, B>, Error> {
    recorded(&one(f), &args, None, caller())
}

/// Records a closure as [`record`] does, with a budget of `bytes` for values and operations while the closure runs. An
/// operation that exceeds the budget is an error at its line, and nothing after it is computed. If the results of an
/// operation do not fit, the operation does not start. If the residuals that the iterations of a loop save do not fit,
/// the loop ends with the iteration that exceeds the budget. An operation on scalars takes about 130 bytes, 16 of which
/// are its value.
///
/// [`recorded_bytes`] returns the bytes used so far.
///
/// # Errors
/// Those of [`record`]; [`Kind::Budget`].
///
/// ```
/// use tapeloom::{Kind, prelude::*};
/// let steps = |n: usize| move |x: Var| (0..n).fold(x, |x, _| (x * 0.5).sin());
/// let x = Tensor::full(&[1000], 1.0)?;
/// let tape = record_within(100_000, steps(5), &x)?;
/// assert!(tape.bytes() < 100_000);
/// let error = record_within(100_000, steps(50), &x).unwrap_err();
/// assert_eq!(error.kind(), Kind::Budget);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn record_within<A: Tree<Var>, B: Tree<Var>, M>(
    bytes: u64,
    f: impl Function<A, B, M>,
    args: impl Args<A>,
) -> Result<Tape<A, B>, Error> {
    recorded(&one(f), &args, Some(bytes), caller())
}

/// Returns the number of bytes of values and operations that the current recording stores so far. Each array is counted
/// once. Outside a recording, returns `None`. [`Tape::bytes`] is the memory of the finished tape.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |x: Var| {
///     let y = (x.sin() * x).cos();
///     assert!(recorded_bytes().is_some_and(|bytes| bytes > 4 * 8000));
///     y
/// };
/// record(f, Tensor::full(&[1000], 1.0)?)?;
/// assert_eq!(recorded_bytes(), None);
/// # Ok::<(), tapeloom::Error>(())
/// ```
pub fn recorded_bytes() -> Option<u64> {
    trace::recorded_bytes()
}

fn recorded<A: Tree<Var>, B: Tree<Var>>(
    f: &dyn Fn(A) -> B,
    args: &dyn Args<A>,
    most: Option<u64>,
    at: Loc,
) -> Result<Tape<A, B>, Error> {
    let structure = args.structure();
    let mut leaves = TensorRefs::new();
    args.tensors(&mut leaves);
    let mut output = None;
    let recorded = run(leaves, most, at, &mut |h| {
        let (results, structure) = apply(f, &structure, h, at);
        output = Some(structure);
        results
    })?;
    let Some(output) = output else {
        return Err(Problem::internal("a closure was recorded, but did not run").into());
    };
    Ok(Tape { recorded, structure, output, at, kind: PhantomData })
}

/// Runs and records a closure that maps the handles of the arguments to the handles of the results.
fn run(
    leaves: TensorRefs<'_>,
    most: Option<u64>,
    at: Loc,
    f: &mut dyn FnMut(&[Handle]) -> Vec<Handle>,
) -> Result<Recorded, Error> {
    let leaves: Vec<Tensor> = leaves.into_iter().map(|t| t.into_owned()).collect();
    let recorded =
        trace::recording("record", at, &leaves, most, Box::new(Transforms), |h| (f(h), ()));
    Ok(recorded.map_err(Error::from_diagnostics)?.0)
}

impl<A: Tree<Var>, B: Tree<Var>, K> Tape<A, B, K> {
    /// Returns the result of the closure.
    pub fn value(&self) -> B::With<Tensor> {
        let mut leaves = self.recorded.outputs().iter().cloned();
        // The recording has one output for each leaf of the structure, so the fallback to nan is never taken.
        B::with_leaves(&self.output, &mut || leaves.next().unwrap_or(Tensor::from(f64::NAN)))
    }

    /// Returns the number of recorded operations.
    pub fn operations(&self) -> usize {
        self.recorded.operations()
    }

    /// Returns the bytes that the tape stores: the values that the reverse pass reads, the results, the table of
    /// operations, and the functions that loops, branches and the reverse pass run. Attributes of operations are
    /// not counted.
    pub fn bytes(&self) -> usize {
        self.recorded.bytes()
    }

    /// Emits the recorded operations inside a trace, for new arguments. The result can be transformed in every way and
    /// differentiated to any order. An argument of another kind than the recorded one is reported as an error of that
    /// trace.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let tape = record(|x: Var| if x.item::<f64>() > 0.0 { x * x * x } else { -x }, 2.0)?;
    /// let bend = jit(grad(grad(|x| tape.apply(x))));
    /// assert_eq!(bend.call(2.0)?.item::<f64>()?, 12.0);
    /// assert_eq!(bend.call(-2.0)?.item::<f64>()?, -12.0); // the path that was taken at 2
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn apply(&self, x: A) -> B {
        let at = caller();
        let form = Form::of::<A>(&self.structure);
        rebuild(&self.output, applied(&self.recorded, &form, Flat::of(&x), at), at)
    }

    /// Compiles the recorded operations to a program, which is as fast as a program traced by `jit`.
    ///
    /// # Errors
    /// Operations that the target does not support.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let tape = record(|x: Var| if x.item::<f64>() > 0.0 { x.sqrt() } else { x }, 4.0)?;
    /// let f = tape.compile()?;
    /// assert_eq!(f.call(9.0)?.item::<f64>()?, 3.0);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn compile(&self) -> Result<Compiled<A, B>, Error> {
        let (module, function) = self.recorded.program().map_err(|p| Error::at(p, self.at))?;
        let tensors = self.recorded.tensors().to_vec();
        let output = Form::of::<B>(&self.output);
        let traced = Traced { module, function, tensors, output };
        let form = Form::of::<A>(&self.structure);
        Compiled::of((form, self.recorded.arg_types()), traced, self.at)
    }

    /// Checks that cotangents match the results in structure and types, and returns their leaves.
    fn cotangents(&self, given: &dyn Args<B>) -> Result<Vec<Tensor>, Error> {
        let argument = Form::of::<A>(&self.structure);
        let forms = [Form::of::<B>(&self.output), Form::of::<B>(&given.structure())];
        let mut leaves = TensorRefs::new();
        given.tensors(&mut leaves);
        cotangents(&self.recorded, &argument, forms, leaves, self.at)
    }
}

/// Emits the recorded operations for the new arguments `args`, and returns the results. `form` is the tree structure of
/// the arguments with which the operations were recorded; `args` must have the same structure.
fn applied(recorded: &Recorded, form: &Form, args: Flat, at: Loc) -> Vec<Var> {
    let poison = || recorded.outputs().iter().map(|y| Var::poison(y.ty().clone(), at)).collect();
    if args.form != *form {
        let sides = ["the recording", "the argument"];
        let differ = form.different(&args.form, "argument", sides);
        let problem = Problem::new(
            Kind::Shape,
            format!("a tape is applied to a tree of another structure: {differ}"),
            "apply it to arguments of the kind that was recorded",
        );
        trace::record(problem, &[], at);
        return poison();
    }
    let mut fits = true;
    let paths = form.paths("argument");
    for ((v, want), path) in args.leaves.iter().zip(recorded.arg_types()).zip(paths) {
        if v.ty(at) != want {
            fits = false;
            let problem = wrong_argument(&path, &want, &v.ty(at));
            trace::record(problem, &[v.handle], at);
        }
    }
    if !fits {
        return poison();
    }
    let program = match recorded.program() {
        Ok(program) => program,
        Err(problem) => {
            trace::record(problem, &[], at);
            return poison();
        }
    };
    let function = match trace::with_module(|m| m.import(&program.0, program.1)) {
        Some(Ok(function)) => function,
        Some(Err(problem)) => {
            trace::record(problem, &[], at);
            return poison();
        }
        // Without an active trace nothing can be emitted. The placeholders report that as an error when they are used.
        None => return poison(),
    };
    let data = recorded.tensors().iter().map(|t| constant(t));
    let operands: Vec<_> = args.leaves.into_iter().chain(data).map(|v| v.handle).collect();
    vars(&trace::bind(Call::inline(function), &operands, at))
}

/// Checks the leaves of the cotangents against the results. `output` is the form of the results, `given` the form of
/// the cotangents, and `argument` the form of the arguments, which is used in messages.
fn cotangents(
    recorded: &Recorded,
    argument: &Form,
    [output, given]: [Form; 2],
    leaves: TensorRefs<'_>,
    at: Loc,
) -> Result<Vec<Tensor>, Error> {
    let context = Context { transform: "Tape::pull", at };
    float_types(context, Side::Argument, argument, &recorded.arg_types())?;
    let results: Vec<ArrayType> = recorded.outputs().iter().map(|y| y.ty().clone()).collect();
    float_types(context, Side::Result, &output, &results)?;
    if given != output {
        return Err(Error::at(other_structure(&output, &given, "cotangent"), at));
    }
    let mut wrong = Vec::new();
    for ((ct, want), path) in leaves.iter().zip(&results).zip(given.paths("cotangent")) {
        if ct.ty() != want {
            let problem = other_type(&path, want, ct.ty());
            let notes = vec![Note { role: path, what: ct.ty().to_string(), born: None }];
            wrong.push(Diagnostic { problem, at, notes, context: vec![context] });
        }
    }
    match wrong.is_empty() {
        true => Ok(leaves.into_iter().map(|t| t.into_owned()).collect()),
        false => Err(Error::from_diagnostics(wrong)),
    }
}

impl<A: Tree<Var>, B: Tree<Var>> Tape<A, B, Persistent> {
    /// Computes the cotangents of the arguments from those of the results.
    ///
    /// # Errors
    /// `not-differentiable` if an argument or a result is not a float or an operation has no derivative; `shape` or
    /// `dtype` if a cotangent has another type than its result; errors of callbacks in the reverse pass.
    pub fn pull(&self, cotangents: impl Args<B>) -> Result<A::With<Tensor>, Error> {
        let cotangents = self.cotangents(&cotangents)?;
        let found = self.recorded.pull(&cotangents).map_err(|p| Error::at(p, self.at))?;
        tree::<A>(&self.structure, found)
    }

    /// Returns the same tape with a reverse pass that runs only once: `pull` then consumes the tape, so that a second
    /// call does not compile.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let tape = record(|x: Var| (x * x).sum(), [1.0, 2.0])?.once();
    /// assert_eq!(tape.pull(1.0)?.to_vec::<f64>()?, [2.0, 4.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// ```compile_fail
    /// use tapeloom::prelude::*;
    /// let tape = record(|x: Var| (x * x).sum(), [1.0, 2.0])?.once();
    /// tape.pull(1.0)?;
    /// tape.pull(1.0)?; // use of moved value
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn once(self) -> Tape<A, B, Ephemeral> {
        let Tape { recorded, structure, output, at, kind: _ } = self;
        Tape { recorded, structure, output, at, kind: PhantomData }
    }
}

impl<A: Tree<Var>, B: Tree<Var>> Tape<A, B, Ephemeral> {
    /// Computes the cotangents of the arguments from those of the results. The memory of the tape is freed as the
    /// reverse pass proceeds.
    ///
    /// # Errors
    /// Those of `pull` of a persistent tape.
    pub fn pull(self, cotangents: impl Args<B>) -> Result<A::With<Tensor>, Error> {
        let cotangents = self.cotangents(&cotangents)?;
        let Tape { recorded, structure, at, .. } = self;
        let found = recorded.pull_once(&cotangents).map_err(|p| Error::at(p, at))?;
        tree::<A>(&structure, found)
    }
}

/// Returns the error for an argument whose type differs from that of the recorded argument.
fn wrong_argument(path: &str, want: &ArrayType, got: &ArrayType) -> Problem {
    let kind = if got.dtype == want.dtype { Kind::Shape } else { Kind::Dtype };
    Problem::new(
        kind,
        format!("a tape is applied to another argument: `{path}` was {want} and is {got}"),
        "apply it to arguments of the kind that was recorded, or record again",
    )
}

impl<A: Tree<Var>, B: Tree<Var>, K> fmt::Display for Tape<A, B, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.recorded, f)
    }
}

impl<A: Tree<Var>, B: Tree<Var>, K> fmt::Debug for Tape<A, B, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.recorded, f)
    }
}
