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

mod explain;
mod program;
mod report;

pub use explain::{Explanation, Stage};
pub use report::CallReport;

use crate::closure::{time_in_transforms, trace_program};
use crate::function::{Function, one};
use crate::random::with_marks;
use crate::transform::call_once_traced;
use crate::tree::{Args, TensorRefs, Tree, leaf_paths};
use crate::var::caller;
use crate::{Error, Var};
use program::{Engine, Program};
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;
use tapeloom_backend::accelerator::{Setup, Statistics};
use tapeloom_backend::{Options, Target};
use tapeloom_ir::trace::Traced;
use tapeloom_ir::{ArrayType, Cancel, Kind, Limits, Loc, Problem, Tensor, check_keys};

/// A closure with the programs compiled from it. Made by [`jit`].
pub struct Jit<A: Tree<Var>, B: Tree<Var>, F> {
    f: F,
    /// `jit` or `run`, for messages.
    name: &'static str,
    at: Loc,
    /// Under this number a trace remembers what it has traced for [`Jit::apply`].
    number: u64,
    engine: Engine,
    target: Target,
    /// What calls may take, if that is limited.
    limits: Option<Limits>,
    /// Whether programs in which a key is used twice are refused.
    keys: bool,
    cache: RwLock<Vec<Arc<Entry<A, B>>>>,
    /// Trees of `Var` are not `Send`, but a `Jit` holds none: it takes and makes them.
    signature: PhantomData<fn(A) -> B>,
}

/// One compiled program.
struct Entry<A: Tree<Var>, B: Tree<Var>> {
    /// The key: what the arguments are without their leaves, and the types of those.
    structure: A::Structure,
    types: Vec<ArrayType>,
    program: Program,
    /// Data that the closure captured; the program's last arguments.
    tensors: Vec<Tensor>,
    output: B::Structure,
    limits: Option<Limits>,
    /// Why it was compiled: what differs from the program before it.
    why: String,
}

impl<A: Tree<Var>, B: Tree<Var>> Entry<A, B> {
    /// Whether this program is for such arguments.
    fn takes(&self, args: &impl Args<A>, leaves: &TensorRefs<'_>) -> bool {
        self.types.len() == leaves.len()
            && self.types.iter().zip(leaves).all(|(t, x)| t == x.ty())
            && args.matches(&self.structure)
    }

    /// Runs the program.
    fn run(&self, leaves: &TensorRefs<'_>, at: Loc) -> Result<B::With<Tensor>, Error> {
        let operands: SmallVec<[&Tensor; 8]> =
            leaves.iter().map(|t| &**t).chain(&self.tensors).collect();
        let results = self.program.run(&operands, self.limits.as_ref());
        tree::<B>(&self.output, results.map_err(|p| Error::at(p, at))?)
    }

    /// How arguments differ from those that this program is for.
    fn difference(&self, structure: &A::Structure, types: &[ArrayType]) -> String {
        let mut first = None;
        let root = &mut "argument".to_owned();
        A::differences(&self.structure, structure, root, &mut |path, was, is| {
            first.get_or_insert_with(|| format!("`{path}` was {was} and is {is}"));
        });
        first.unwrap_or_else(|| {
            explain::difference(&leaf_paths::<Var, A>(structure, "argument"), &self.types, types)
        })
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
    entry: Arc<Entry<A, B>>,
    at: Loc,
}

impl<A: Tree<Var>, B: Tree<Var>> Compiled<A, B> {
    /// Compiles a program whose arguments are of that kind.
    pub(crate) fn of(
        (structure, types): (A::Structure, Vec<ArrayType>),
        traced: Traced<B::Structure>,
        at: Loc,
    ) -> Result<Compiled<A, B>, Error> {
        let (module, function) = (traced.module, traced.function);
        let program = Program::compile(Engine::Native, &Options::default(), module, function, None);
        let program = program.map_err(|p| Error::at(p, at))?;
        let (tensors, output, limits, why) = (traced.tensors, traced.output, None, String::new());
        let entry = Entry { structure, types, program, tensors, output, limits, why };
        Ok(Compiled { entry: Arc::new(entry), at })
    }

    /// Runs the program.
    ///
    /// # Errors
    /// `arguments` where they are not of the kind that it was compiled for.
    pub fn call(&self, args: impl Args<A>) -> Result<B::With<Tensor>, Error> {
        let mut leaves = TensorRefs::new();
        args.tensors(&mut leaves);
        if self.entry.takes(&args, &leaves) {
            return self.entry.run(&leaves, self.at);
        }
        let types: Vec<ArrayType> = leaves.iter().map(|t| t.ty().clone()).collect();
        let problem = Problem::new(
            Kind::Arguments,
            format!(
                "a program compiled for other arguments: {}",
                self.entry.difference(&args.structure(), &types)
            ),
            "pass arguments of that kind, or call the `Jit`, which compiles for each kind",
        );
        Err(Error::at(problem, self.at))
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
    Jit {
        f,
        name,
        at,
        number: tapeloom_ir::trace::unique(),
        engine: Engine::Native,
        target: Target::default(),
        limits: None,
        keys: false,
        cache: RwLock::new(Vec::new()),
        signature: PhantomData,
    }
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
    boundary("run", one(f), caller()).call(args)
}

impl<A: Tree<Var>, B: Tree<Var>, F: Fn(A) -> B> Jit<A, B, F> {
    /// Runs the closure's program on data, compiling it first if these arguments are of a new kind.
    ///
    /// # Errors
    /// All mistakes made while the closure was traced; what the target cannot do.
    pub fn call(&self, args: impl Args<A>) -> Result<B::With<Tensor>, Error> {
        let mut leaves = TensorRefs::new();
        args.tensors(&mut leaves);
        let entry = match self.lookup(|e| e.takes(&args, &leaves)) {
            Some(entry) => entry,
            None => self.prepare(&args, &leaves)?,
        };
        entry.run(&leaves, self.at)
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
        let mut leaves = TensorRefs::new();
        args.tensors(&mut leaves);
        let entry = match self.lookup(|e| e.takes(&args, &leaves)) {
            Some(entry) => entry,
            None => self.prepare(&args, &leaves)?,
        };
        Ok(Compiled { entry, at: self.at })
    }

    /// The same closure run by the reference interpreter: slow, and the meaning of every program.
    /// Tests compare the two.
    pub fn interpreted(mut self) -> Jit<A, B, F> {
        self.engine = Engine::Interpreter;
        self.cache = RwLock::new(Vec::new());
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
    /// a `select` that is not taken, rounds that a member of a batch does not need.
    #[doc(alias = "debug_nans")]
    pub fn nan_check(mut self) -> Jit<A, B, F> {
        self.engine = Engine::Finite;
        self.cache = RwLock::new(Vec::new());
        self
    }

    /// The same closure, of which no program is compiled that uses a [random](crate::random) key twice: the
    /// error has the line of the second draw, and says where the first one is. A key of outside that is drawn
    /// from in every round of a loop counts as used twice; two branches of one [`cond`](crate::cond) do not.
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
        self.keys = true;
        self.cache = RwLock::new(Vec::new());
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
        self.target = target;
        self.cache = RwLock::new(Vec::new());
        self
    }

    /// Runs the closure's program on a simulated accelerator, and says what that came to: ticks, accesses,
    /// misses, traffic and energy, forward and back. It is the program that [`Jit::call`] runs, so results
    /// are those of [`Jit::on`].
    ///
    /// The second phase begins with the first step of the program that reads what an earlier one kept for
    /// the backward pass and keeps nothing itself; where there is no such step (halves that are fused
    /// into one loop keep nothing, and within a budget rounds run forward again on the way back), there is one
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
        on: impl Into<Setup>,
    ) -> Result<(B::With<Tensor>, Statistics), Error> {
        let mut leaves = TensorRefs::new();
        args.tensors(&mut leaves);
        let entry = match self.lookup(|e| e.takes(&args, &leaves)) {
            Some(entry) => entry,
            None => self.prepare(&args, &leaves)?,
        };
        let operands: Vec<&Tensor> = leaves.iter().map(|t| &**t).chain(&entry.tensors).collect();
        let simulated = entry.program.simulate(&operands, &on.into());
        let (results, statistics) = simulated.map_err(|p| Error::at(p, self.at))?;
        Ok((tree::<B>(&entry.output, results)?, statistics))
    }

    /// The same closure compiled with rules of real arithmetic (reassociation, factoring), which are
    /// not exact in floating point: faster, and different in the last digits.
    pub fn relaxed(mut self) -> Jit<A, B, F> {
        self.engine = Engine::Relaxed;
        self.cache = RwLock::new(Vec::new());
        self
    }

    /// The same closure, in which no loop of run-time length runs more than `n` rounds: a call in which one
    /// would ends with an error that has its line, before the first round where their number is known.
    /// Each run of a loop counts by itself. It costs a few instructions a round.
    ///
    /// ```
    /// use tapeloom::{prelude::*, Kind};
    /// let halved = |x: Var| while_loop(|x: Var| x.gt(1.0), |x| x / 2, x);
    /// let f = jit(halved).max_steps(1000);
    /// assert_eq!(f.call(1024.0)?.item::<f64>()?, 1.0);
    /// let error = f.call(f64::INFINITY).unwrap_err();
    /// assert_eq!(error.kind(), Kind::Limit);
    /// assert!(error.to_string().contains("a loop goes on after 1000 rounds"));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn max_steps(mut self, n: u64) -> Jit<A, B, F> {
        self.limits.get_or_insert_default().max_steps = Some(n);
        self.cache = RwLock::new(Vec::new());
        self
    }

    /// The same closure, whose calls end with an error soon after the handle says so, from any thread:
    /// loops look at it when they begin and every 1,024 rounds.
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
        self.limits.get_or_insert_default().cancel = Some(cancel.clone());
        self.cache = RwLock::new(Vec::new());
        self
    }

    /// Calls, and says what the call took: the rounds of its loops of run-time length, and bytes. The
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
    /// assert_eq!((report.loops[0].entered, report.loops[0].rounds), (1, 111));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn report(&self, args: impl Args<A>) -> Result<(B::With<Tensor>, CallReport), Error> {
        if !matches!(self.target, Target::Native(_)) {
            let problem = Problem::new(
                Kind::Target,
                "a report is of machine code, and this function is for another target",
                "report without `on`; on an accelerator, `simulate` gives statistics",
            );
            return Err(Error::at(problem, self.at));
        }
        let mut leaves = TensorRefs::new();
        args.tensors(&mut leaves);
        let types: Vec<ArrayType> = leaves.iter().map(|t| t.ty().clone()).collect();
        let traced = self.traced(&args.structure(), &types)?;
        let at = |p: Problem| Error::at(p, self.at);
        let (options, module, function) = (self.options(true), traced.module, traced.function);
        let program = Program::compile(self.compiled(), &options, module, function, None);
        let Program::Native(compiled) = program.map_err(at)? else {
            return Err(Problem::internal("reported on an interpreted program").into());
        };
        let operands: Vec<&Tensor> = leaves.iter().map(|t| &**t).chain(&traced.tensors).collect();
        let limits = self.limits.clone().unwrap_or_default();
        let (results, taken) = compiled.call_within(&operands, &limits).map_err(at)?;
        let bytes = |all: &mut dyn Iterator<Item = &Tensor>| all.map(|x| x.ty().bytes()).sum();
        let arguments = bytes(&mut operands.iter().copied());
        let report = CallReport::of(taken, arguments, bytes(&mut results.iter()));
        Ok((tree::<B>(&traced.output, results)?, report))
    }

    fn options(&self, watched: bool) -> Options {
        Options { target: self.target.clone(), watched }
    }

    /// The engine for what has to be compiled.
    fn compiled(&self) -> Engine {
        if self.engine == Engine::Relaxed { Engine::Relaxed } else { Engine::Native }
    }

    /// Says what compiling for these arguments does: the program at each stage, kernels, memory with
    /// its exact peak, times, and why the programs that are kept were compiled. The closure is traced
    /// and compiled again for that.
    ///
    /// # Errors
    /// As [`Jit::call`].
    #[doc(alias = "make_jaxpr")]
    pub fn explain(&self, args: impl Args<A>) -> Result<Explanation, Error> {
        let mut leaves = TensorRefs::new();
        args.tensors(&mut leaves);
        let types: Vec<ArrayType> = leaves.iter().map(|t| t.ty().clone()).collect();
        let (start, before) = (Instant::now(), time_in_transforms());
        let traced = self.traced(&args.structure(), &types)?;
        let time = start.elapsed();
        let transforming = time_in_transforms().saturating_sub(before);
        let f = traced.module.function(traced.function);
        let ends = f.param_types().into_iter().chain(f.result_types());
        let boundary = ends.map(|t| crate::closure::array(&t).bytes()).sum();
        let mut stages = vec![program::stage("trace", &traced.module, traced.function, time)];
        let stages_too = Some(&mut stages);
        let options = self.options(self.limits.is_some());
        let (module, function) = (traced.module, traced.function);
        let program = Program::compile(self.compiled(), &options, module, function, stages_too);
        let Program::Native(compiled) = program.map_err(|p| Error::at(p, self.at))? else {
            return Err(Problem::internal("explained an interpreted program").into());
        };
        let report = compiled.report().clone();
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        let misses = cache.iter().map(|e| e.why.clone()).collect();
        Ok(Explanation { stages, transforming, report, boundary, misses })
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
        call_once_traced("jit", self.number, self.at, &self.f, args)
    }

    /// How many programs have been compiled and are kept.
    pub fn programs(&self) -> usize {
        self.cache.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The closure as a program; an error if it uses a key twice and somebody wants to know.
    fn traced(
        &self,
        structure: &A::Structure,
        types: &[ArrayType],
    ) -> Result<Traced<B::Structure>, Error> {
        let trace = || trace_program::<A, B>(self.name, self.at, &self.f, structure, types);
        if self.keys {
            let Traced { module, function, .. } = with_marks(trace)?;
            check_keys(&module, function).map_err(|p| Error::at(p, self.at))?;
        }
        trace()
    }

    /// A program for arguments of that kind. Few kinds are the rule, so a list is searched.
    fn lookup(&self, is_it: impl Fn(&Entry<A, B>) -> bool) -> Option<Arc<Entry<A, B>>> {
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        cache.iter().find(|e| is_it(e)).cloned()
    }

    fn prepare(
        &self,
        args: &impl Args<A>,
        leaves: &TensorRefs<'_>,
    ) -> Result<Arc<Entry<A, B>>, Error> {
        let structure = args.structure();
        let types: Vec<ArrayType> = leaves.iter().map(|t| t.ty().clone()).collect();
        // The cache is not locked meanwhile: the closure may call this very function. Of threads that
        // compile the same program the first one keeps it, and the others use that.
        let traced = self.traced(&structure, &types)?;
        let (limits, module, function) = (self.limits.clone(), traced.module, traced.function);
        let options = self.options(limits.is_some());
        let program = Program::compile(self.engine, &options, module, function, None)
            .map_err(|p| Error::at(p, self.at))?;
        let (tensors, output) = (traced.tensors, traced.output);
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        let same = |e: &&Arc<Entry<A, B>>| e.structure == structure && e.types == types;
        if let Some(known) = cache.iter().find(same) {
            return Ok(known.clone());
        }
        let why = match cache.last() {
            None => "first call".to_owned(),
            Some(e) => e.difference(&structure, &types),
        };
        let entry = Arc::new(Entry { structure, types, program, tensors, output, limits, why });
        cache.push(entry.clone());
        Ok(entry)
    }
}
