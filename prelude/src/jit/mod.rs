//! The boundary between closures and data: [`jit`] and [`run`].
//!
//! A [`Jit`] holds a closure and the programs compiled from it, one per structure of the arguments
//! (static fields included) and types of their leaves. Calling it with arguments of a known kind runs
//! a compiled program; with new ones it traces the closure again. `Jit` is `Send + Sync`, so one can
//! be a `static` or shared by threads:
//!
//! ```
//! use tapeloom::prelude::*;
//! let f = jit(|x: Var| (x * x).sum());
//! std::thread::scope(|s| {
//!     for n in 1..4 {
//!         let f = &f;
//!         s.spawn(move || assert_eq!(f.call(vec![1.0; n]).unwrap().item::<f64>().unwrap(), n as f64));
//!     }
//! });
//! assert_eq!(f.programs(), 3);
//! ```

mod core;
mod explain;
mod program;
mod report;

pub use explain::{Explanation, Stage};
pub use report::CallReport;

use self::core::{Core, Entry, Given};
use crate::function::Function;
use crate::staging::apply;
use crate::transform::call_once_traced;
use crate::tree::{Args, Form, Leaf, TensorRefs, Tree};
use crate::var::caller;
use crate::{Error, Var};
use program::Engine;
use std::marker::PhantomData;
use std::sync::Arc;
use tapeloom_backend::accelerator::{RunConfig, Statistics};
use tapeloom_backend::{MachineModel, Target};
use tapeloom_ir::trace::{Handle, Traced};
use tapeloom_ir::{ArrayType, Cancel, Loc, Problem, Tensor};

/// A closure with the programs compiled from it. Made by [`jit`].
pub struct Jit<A: Tree<Var>, B: Tree<Var>, F> {
    f: F,
    core: Core,
    /// Trees of `Var` are not `Send`, but a `Jit` holds none: it takes and makes them.
    signature: PhantomData<fn(A) -> B>,
}

/// Arguments for a tree of type `A`.
struct Of<'a, A>(&'a dyn Args<A>);

impl<A: Tree<Var>> Of<'_, A> {
    fn leaves(&self) -> TensorRefs<'_> {
        let mut leaves = TensorRefs::new();
        self.0.tensors(&mut leaves);
        leaves
    }
}

impl<A: Tree<Var>> Given for Of<'_, A> {
    fn form(&self) -> Form {
        Form::of::<A>(&self.0.structure())
    }

    fn matches(&self, form: &Form) -> bool {
        form.structure::<A>().is_some_and(|structure| self.0.matches(structure))
    }
}

/// A closure at arguments.
fn at_args<A: Tree<Var>, B: Tree<Var>>(
    f: &dyn Fn(A) -> B,
    args: &dyn Args<A>,
    at: Loc,
) -> impl Fn(&[Handle]) -> (Vec<Handle>, Form) {
    move |handles| {
        let (results, output) = apply(f, &args.structure(), handles, at);
        (results, Form::of::<B>(&output))
    }
}

fn call<A: Tree<Var>, B: Tree<Var>>(
    core: &Core,
    f: &dyn Fn(A) -> B,
    args: &dyn Args<A>,
) -> Result<B::With<Tensor>, Error> {
    let mut leaves = TensorRefs::new();
    args.tensors(&mut leaves);
    let (results, form) = core.call(&Of(args), &leaves, &at_args(f, args, core.at))?;
    tree_of::<B>(form, results)
}

/// The tree of results of that form.
fn tree_of<B: Tree<Var>>(form: &Form, results: Vec<Tensor>) -> Result<B::With<Tensor>, Error> {
    match form.structure::<B>() {
        Some(structure) => tree::<B>(structure, results),
        None => Err(Problem::internal("results of another type").into()),
    }
}

/// The tree of a program's results.
pub(crate) fn tree<B: Tree<Var>>(
    structure: &B::Structure,
    results: Vec<Tensor>,
) -> Result<B::With<Tensor>, Error> {
    let mut results = results.into_iter();
    let mut complete = true;
    let tree = B::with_leaves(structure, &mut || {
        results.next().unwrap_or_else(|| {
            complete = false;
            Tensor::from(false)
        })
    });
    if complete { Ok(tree) } else { Err(Problem::internal("too few results").into()) }
}

/// A closure compiled for one kind of argument. Made by [`Jit::compile`].
pub struct Compiled<A: Tree<Var>, B: Tree<Var>> {
    entry: Arc<Entry>,
    at: Loc,
    signature: PhantomData<fn(A) -> B>,
}

impl<A: Tree<Var>, B: Tree<Var>> Compiled<A, B> {
    /// Compiles a program whose arguments are of that kind.
    pub(crate) fn of(
        (form, types): (Form, Vec<ArrayType>),
        traced: Traced<Form>,
        at: Loc,
    ) -> Result<Compiled<A, B>, Error> {
        let entry = Entry::of(form, types, traced).map_err(|p| Error::at(p, at))?;
        Ok(Compiled { entry: Arc::new(entry), at, signature: PhantomData })
    }

    /// Runs the program.
    ///
    /// # Errors
    /// `arguments` where they are not of the kind that it was compiled for.
    pub fn call(&self, args: impl Args<A>) -> Result<B::With<Tensor>, Error> {
        let given = Of(&args);
        let leaves = given.leaves();
        let (results, form) = self.entry.call(&given, &leaves, self.at)?;
        tree_of::<B>(form, results)
    }
}

/// Compiles `f` for whatever arguments it is called with. Nothing happens before the first call.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(x, y): (Var, Var)| x * y + 1.0);
/// assert_eq!(f.call((2.0, 3.0))?.item::<f64>()?, 7.0);
/// let x = Tensor::from([1.0, 2.0]);
/// assert_eq!(f.call((&x, 3.0))?.to_vec::<f64>()?, [4.0, 7.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn jit<A: Tree<Var>, B: Tree<Var>, F: Function<A, B, M>, M>(f: F) -> Jit<A, B, F> {
    boundary("jit", f, caller())
}

/// A boundary of that name in messages, asked for at that line.
pub(crate) fn boundary<A: Tree<Var>, B: Tree<Var>, F>(
    name: &'static str,
    f: F,
    at: Loc,
) -> Jit<A, B, F> {
    Jit { f, core: Core::new(name, at), signature: PhantomData }
}

/// Compiles and runs `f` once.
///
/// # Errors
/// As [`Jit::call`].
///
/// ```
/// use tapeloom::prelude::*;
/// assert_eq!(run(|x: Var| x.exp(), 0.0)?.item::<f64>()?, 1.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn run<A: Tree<Var>, B: Tree<Var>, M>(
    f: impl Function<A, B, M>,
    args: impl Args<A>,
) -> Result<B::With<Tensor>, Error> {
    call(&Core::new("run", caller()), &|x| f.apply(x), &args)
}

/// The shapes and dtypes of the results of `f` at arguments of these shapes and dtypes, as a tree of
/// [`ArrayType`]s: the closure is traced, and nothing is compiled or computed.
///
/// # Errors
/// All mistakes made while the closure was traced.
///
/// ```
/// use tapeloom::prelude::*;
/// let (y, n) = eval_shape(|x: Var| (x.dot(x.t()), x.count_nonzero()), [[1.0, 2.0, 3.0]; 2])?;
/// assert_eq!((y.to_string(), n.to_string()), ("f64[2,2]".into(), "i64[]".into()));
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn eval_shape<A: Tree<Var>, B: Tree<Var>, M>(
    f: impl Function<A, B, M>,
    args: impl Args<A>,
) -> Result<B::With<ArrayType>, Error> {
    let core = Core::new("eval_shape", caller());
    let mut leaves = TensorRefs::new();
    args.tensors(&mut leaves);
    let (types, form) = core.results(&leaves, &at_args(&|x| f.apply(x), &args, core.at))?;
    let Some(structure) = form.structure::<B>() else {
        return Err(Problem::internal("results of another type").into());
    };
    let mut types = types.into_iter();
    Ok(B::with_leaves(structure, &mut || types.next().unwrap_or_else(ArrayType::stand_in)))
}

impl<A: Tree<Var>, B: Tree<Var>, F: Fn(A) -> B> Jit<A, B, F> {
    /// Runs the closure's program on data, compiling it first if these arguments are of a new kind.
    ///
    /// # Errors
    /// All mistakes made while the closure was traced; what the target cannot do.
    pub fn call(&self, args: impl Args<A>) -> Result<B::With<Tensor>, Error> {
        call(&self.core, &self.f, &args)
    }

    /// Compiles for arguments like these, now, for calls that never compile.
    ///
    /// # Errors
    /// As [`Jit::call`].
    ///
    /// ```
    /// use tapeloom::{prelude::*, Kind};
    /// let f = jit(|(x, y): (Var, Var)| x * y).compile(([1.0, 2.0], 3.0))?;
    /// assert_eq!(f.call(([4.0, 5.0], 2.0))?.to_vec::<f64>()?, [8.0, 10.0]);
    /// let error = f.call(([4.0], 2.0)).unwrap_err();
    /// assert_eq!(error.kind(), Kind::Arguments);
    /// assert!(error.to_string().contains("`argument.0` was f64[2] and is f64[1]"));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "lower")]
    pub fn compile(&self, args: impl Args<A>) -> Result<Compiled<A, B>, Error> {
        let (given, at) = (Of(&args), self.core.at);
        let closure = at_args(&self.f, &args, at);
        let entry = self.core.program(&given, &given.leaves(), &closure)?.clone();
        Ok(Compiled { entry, at, signature: PhantomData })
    }

    /// The same closure run by the reference interpreter: slow, and the meaning of every program.
    /// Tests compare the two.
    pub fn interpreted(mut self) -> Jit<A, B, F> {
        self.core.set_engine(Engine::Interpreter);
        self
    }

    /// The same closure, whose calls end with an error where a value that is not finite first appears: it
    /// names the operation and your line, on the way forward and back. It is run by the reference
    /// interpreter, which looks at every value: slow, and for finding mistakes.
    ///
    /// ```
    /// use tapeloom::{prelude::*, Kind};
    /// let f = jit(grad(|x: Var| (x * x).sum().sqrt())).nan_check();
    /// assert_eq!(f.call([0.0, 4.0])?.to_vec::<f64>()?, [0.0, 1.0]);
    /// let error = f.call([0.0, 0.0]).unwrap_err();
    /// assert_eq!(error.kind(), Kind::NotFinite);
    /// assert!(error.to_string().contains("`div` gave inf, from 0.5 and 0.0"));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// What counts: a value that makes a result not finite, or from which something finite is computed.
    /// What does not: constants, values that nobody reads, those that only decide something (in a comparison,
    /// an order, an index, a conversion to integers), the side of a `cond` that does not run and that of
    /// a `select` that is not taken, iterations that a member of a batch does not need.
    #[doc(alias = "debug_nans")]
    pub fn nan_check(mut self) -> Jit<A, B, F> {
        self.core.set_engine(Engine::Finite);
        self
    }

    /// The same closure, of which no program is compiled that uses a [random](crate::random) key twice: the
    /// error has the line of the second draw, and says where the first one is. A key of outside that is drawn
    /// from in every iteration of a loop counts as used twice; two branches of one [`cond`](crate::cond) do not.
    /// The closure is traced once more for that; calls cost what they did.
    ///
    /// ```
    /// use tapeloom::{prelude::*, Kind};
    /// let noise = |key: Var| random::normal(key, [3], Dtype::F64);
    /// let twice = |seed: Var| noise(random::key(seed)) * noise(random::key(seed));
    /// let error = jit(twice).key_check().call(1i64).unwrap_err();
    /// assert_eq!(error.kind(), Kind::KeyReuse);
    ///
    /// let once = |seed: Var| {
    ///     let [a, b] = random::split(random::key(seed));
    ///     noise(a) * noise(b)
    /// };
    /// jit(once).key_check().call(1i64)?;
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn key_check(mut self) -> Jit<A, B, F> {
        self.core.set_key_check();
        self
    }

    /// The same closure, run by something else than this machine's own instructions: a
    /// [simulated accelerator](crate::accelerator), or the interpreter of kernels, which looks at every
    /// access to memory. Results of elementwise work are the same in every bit; a sum of products that
    /// the machine's library takes in an order of its own is the same to rounding.
    ///
    /// ```
    /// use tapeloom::{accelerator::Machine, prelude::*, Target};
    /// let f = |x: Var| (x * x).sin();
    /// let x = Tensor::from([1.0, 2.0, 3.0]);
    /// let simulated = jit(f).on(Target::Accelerator(Machine::cal()));
    /// assert_eq!(simulated.call(&x)?, jit(f).call(&x)?);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn on(mut self, target: Target) -> Jit<A, B, F> {
        self.core.set_target(target);
        self
    }

    /// The same closure, compiled for a machine of which other numbers are taken for fast than those of
    /// [`MachineModel::MEASURED`]: a smaller cache, fewer registers. Programs are the same on every computer for one
    /// model; another model may take the terms of sums of floats in another order
    /// ([`MachineModel::has_bits_of`]).
    ///
    /// A number that no machine has is an error of each call.
    ///
    /// ```
    /// use tapeloom::{prelude::*, Kind, MachineModel};
    /// let f = |x: Var| (x.sin() * 2.0).sum();
    /// let small = MachineModel { cached_elements: 64, ..MachineModel::MEASURED };
    /// let e = jit(f).machine(small).explain([1.0, 2.0])?;
    /// assert!(e.to_string().contains("machine model: cached_elements 64"));
    /// let none = MachineModel { jammed_iterations: 0, ..small };
    /// assert_eq!(jit(f).machine(none).call([1.0, 2.0]).unwrap_err().kind(), Kind::Target);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "mtune")]
    pub fn machine(mut self, model: MachineModel) -> Jit<A, B, F> {
        self.core.set_machine(model);
        self
    }

    /// Runs the closure's program on a simulated accelerator, and says what that came to: ticks, accesses,
    /// misses, traffic and energy, forward and back. It is the program that [`Jit::call`] runs, so results
    /// are those of [`Jit::on`].
    ///
    /// The second phase begins with the first step of the program that reads what an earlier one kept for
    /// the backward pass and keeps nothing itself; where there is no such step (halves that are fused
    /// into one loop keep nothing, and within a budget iterations run forward again on the way back), there is one
    /// phase, and `forward` has the whole ([`Statistics::phases`], [`Statistics::whole`]). [`explain`](Jit::explain) shows the steps.
    ///
    /// # Errors
    /// As [`Jit::call`]; `target` where the machine cannot be.
    ///
    /// ```
    /// use tapeloom::{accelerator::Machine, prelude::*};
    /// let logistic = |x: Var| fori_loop(100, |(_, x): (Var, Var)| 3.9 * x * (1.0 - x), x);
    /// let (_, statistics) = jit(grad(logistic)).simulate(0.3, Machine::cal())?;
    /// let (forward, reverse) = (statistics.forward, statistics.reverse);
    /// assert_eq!((forward.tape.stores, reverse.tape.loads), (200, 200));
    /// assert!(reverse.ticks > forward.ticks);
    /// println!("{statistics}");
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn simulate(
        &self,
        args: impl Args<A>,
        on: impl Into<RunConfig>,
    ) -> Result<(B::With<Tensor>, Statistics), Error> {
        let (given, closure) = (Of(&args), at_args(&self.f, &args, self.core.at));
        let leaves = given.leaves();
        let (results, form, statistics) =
            self.core.simulate(&given, &leaves, &closure, &on.into())?;
        Ok((tree_of::<B>(form, results)?, statistics))
    }

    /// The same closure compiled with rules of real arithmetic (reassociation, factoring), which are
    /// not exact in floating point: faster, and different in the last digits.
    pub fn relaxed(mut self) -> Jit<A, B, F> {
        self.core.set_engine(Engine::Relaxed);
        self
    }

    /// The same closure, in which no loop of run-time length runs more than `n` iterations: a call in which one
    /// would ends with an error that has its line, before the first iteration where their number is known.
    /// Each run of a loop counts by itself. It costs a few instructions an iteration.
    ///
    /// ```
    /// use tapeloom::{prelude::*, Kind};
    /// let halved = |x: Var| while_loop(|x: Var| x.gt(1.0), |x| x / 2, x);
    /// let f = jit(halved).max_steps(1000);
    /// assert_eq!(f.call(1024.0)?.item::<f64>()?, 1.0);
    /// let error = f.call(f64::INFINITY).unwrap_err();
    /// assert_eq!(error.kind(), Kind::Limit);
    /// assert!(error.to_string().contains("a loop goes on after 1000 iterations"));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn max_steps(mut self, n: u64) -> Jit<A, B, F> {
        self.core.limits().max_steps = Some(n);
        self
    }

    /// The same closure, whose calls end with an error soon after the handle says so, from any thread:
    /// loops look at it when they begin and every 1,024 iterations.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tapeloom::{prelude::*, Kind};
    /// let cancel = Cancel::new();
    /// let forever = jit(|x: Var| while_loop(|x: Var| x.gt(0.0), |x| x + 1.0, x)).cancelled_by(&cancel);
    /// let error = std::thread::scope(|s| {
    ///     let call = s.spawn(|| forever.call(1.0));
    ///     std::thread::sleep(Duration::from_millis(50));
    ///     cancel.cancel();
    ///     call.join().unwrap().unwrap_err()
    /// });
    /// assert_eq!(error.kind(), Kind::Cancelled);
    /// ```
    pub fn cancelled_by(mut self, cancel: &Cancel) -> Jit<A, B, F> {
        self.core.limits().cancel = Some(cancel.clone());
        self
    }

    /// Calls, and says what the call took: the iterations of its loops of run-time length, and bytes. The
    /// closure is traced and compiled again for that, so that loops count.
    ///
    /// # Errors
    /// As [`Jit::call`]; and [`Kind::Target`](tapeloom_ir::Kind) [on](Jit::on) another target than a machine of this
    /// kind, since it is machine code that counts.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let collatz = |n: Var| while_loop(
    ///     |n: Var| n.gt(1),
    ///     |n: Var| select((n % 2).eq(0), n / 2, 3 * n + 1),
    ///     n,
    /// );
    /// let (one, report) = jit(collatz).report(27i64)?;
    /// assert_eq!(one.item::<i64>()?, 1);
    /// assert_eq!((report.loops[0].entered, report.loops[0].iterations), (1, 111));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn report(&self, args: impl Args<A>) -> Result<(B::With<Tensor>, CallReport), Error> {
        let closure = at_args(&self.f, &args, self.core.at);
        let (results, form, report) = self.core.report(&Of(&args).leaves(), &closure)?;
        Ok((tree_of::<B>(&form, results)?, report))
    }

    /// Says what compiling for these arguments does: the program at each stage, kernels, memory with
    /// its exact peak, times, and why the programs that are kept were compiled. The closure is traced
    /// and compiled again for that.
    ///
    /// # Errors
    /// As [`Jit::call`].
    #[doc(alias = "make_jaxpr")]
    pub fn explain(&self, args: impl Args<A>) -> Result<Explanation, Error> {
        self.core.explain(&Of(&args).leaves(), &at_args(&self.f, &args, self.core.at))
    }

    /// Inside a trace: calls the function. It is traced once per kind of argument in that trace and
    /// stays a call in the program, as with [`outline`](crate::outline).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let square = jit(|x: Var| x * x);
    /// let f = jit(grad(|x: Var| square.apply(square.apply(x))));
    /// assert_eq!(f.call(2.0)?.item::<f64>()?, 32.0);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn apply(&self, args: A) -> B {
        call_once_traced("jit", self.core.number, self.core.at, &self.f, args)
    }

    /// How many programs have been compiled and are kept.
    pub fn programs(&self) -> usize {
        self.core.programs()
    }
}
