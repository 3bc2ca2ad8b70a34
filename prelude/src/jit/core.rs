//! The part of a [`Jit`](super::Jit) that does not depend on the types of closure and trees: settings and compiled
//! programs.
//!
//! This file is not generic, so it is compiled once. Arguments are passed as [`CallArgs`], closures as [`Closure`]s
//! from handles to handles, and results are returned as leaves with a form. Only the functions that each call of a
//! compiled program runs are `#[inline]`: they are short, and this crate may be compiled with few optimisations.

use super::explain::{self, Explanation, Loops, Product};
use super::program::{self, Engine, Program, Seen};
use super::report::CallReport;
use super::sharding::{ARGUMENT, Division, RESULT};
use crate::Error;
use crate::prng::with_marks;
use crate::staging::{array, time_in_transforms};
use crate::tree::{Form, TensorRefs};
use smallvec::SmallVec;
use std::num::NonZeroUsize;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, OnceLock};
use tapeloom_backend::accelerator::{RunConfig, Statistics};
#[cfg(feature = "xla")]
use tapeloom_backend::xla::DeviceArray;
use tapeloom_backend::{MachineModel, Options, Profile, Results, Target};
use tapeloom_ir::trace::{self, Handle, Param, Traced};
use tapeloom_ir::{ArrayType, Kind, Limits, Loc, Problem, Stopwatch, Tensor, check_keys};
use tapeloom_transforms::{FLUSHED, changes};

/// The structure of a call's arguments, without their leaves.
pub(super) trait CallArgs {
    /// Returns the form of the arguments.
    fn form(&self) -> Form;

    /// Returns whether the arguments have the form `form`. Their own form is not built for this.
    fn matches(&self, form: &Form) -> bool;
}

/// A user's closure, wrapped for arguments of one form: a function from the handles of the arguments' leaves to the
/// handles of the results' leaves, and the form of the results.
pub(super) type Closure<'a> = dyn Fn(&[Handle]) -> (Vec<Handle>, Form) + 'a;

/// One compiled program.
pub(super) struct Entry {
    /// The key of the program: the form of the arguments and the types of their leaves.
    form: Form,
    types: Vec<ArrayType>,
    program: Program,
    /// Tensors that the closure captured. The program takes them as its last arguments.
    tensors: Vec<Tensor>,
    /// The form of the results.
    output: Form,
    limits: Option<Limits>,
    /// As a part of the key: for each argument, whether a call may take over its memory. Empty if there are none.
    donated: Vec<bool>,
}

/// The settings and the compiled programs of a `Jit`.
pub(super) struct Core {
    /// The name of the user's call in messages: `jit` or `run`.
    name: &'static str,
    pub(super) at: Loc,
    /// The key under which a trace stores the function that it traced for [`Jit::apply`](super::Jit::apply).
    pub(super) number: u64,
    pub(super) engine: Engine,
    pub(super) target: Target,
    machine: MachineModel,
    /// Limits on the iterations of loops and the handle for cancelling calls, if any are set.
    pub(super) limits: Option<Limits>,
    /// Whether compilation fails if a program uses a random key twice.
    keys: bool,
    /// Whether subnormal carries of loops are flushed to 0.
    flushes: bool,
    /// The largest number of threads of a call; `None` for the default.
    threads: Option<NonZeroUsize>,
    /// The division of arrays among devices.
    pub(super) division: Division,
    programs: Programs,
}

/// The compiled programs, oldest first. The list only grows, so it is read without a lock.
#[derive(Default)]
struct Programs {
    first: OnceLock<Box<Link>>,
}

struct Link {
    entry: Arc<Entry>,
    /// The reason for the compilation: the difference between the arguments of this program and those of the previous
    /// one.
    why: String,
    rest: Programs,
}

impl Programs {
    #[inline]
    fn iter(&self) -> impl Iterator<Item = &Link> {
        std::iter::successors(self.next(), |link| link.rest.next())
    }

    #[inline]
    fn next(&self) -> Option<&Link> {
        self.first.get().map(|link| &**link)
    }

    /// Appends a program, unless the list already has a program for the same arguments. Returns the program in the
    /// list.
    fn keep(&self, new: Arc<Entry>) -> &Arc<Entry> {
        let mut rest = self;
        let mut last: Option<&Entry> = None;
        loop {
            let link = rest.first.get_or_init(|| {
                let differs = |last: &Entry| last.difference(&new.form, &new.types, &new.donated);
                let why = last.map_or("first call".to_owned(), differs);
                Box::new(Link { entry: new.clone(), why, rest: Programs::default() })
            });
            let entry = &link.entry;
            let same =
                entry.form == new.form && entry.types == new.types && entry.donated == new.donated;
            if Arc::ptr_eq(entry, &new) || same {
                return entry;
            }
            (rest, last) = (&link.rest, Some(&**entry));
        }
    }
}

// A panic during compilation leaves the list unchanged, so a `Jit` may be called again after the panic was caught.
impl UnwindSafe for Programs {}
impl RefUnwindSafe for Programs {}

/// Drops the links of the list in a loop. Nested drops would be recursive and could overflow the stack.
impl Drop for Programs {
    fn drop(&mut self) {
        let mut next = self.first.take();
        while let Some(mut link) = next {
            next = link.rest.first.take();
        }
    }
}

/// Returns the error that the feature `what` is available for machine code only, with `help` for builds that can make
/// machine code.
#[cold]
fn only_of_machine_code(what: &str, help: &str) -> Problem {
    let help = if cfg!(feature = "native") { help } else { "build with the feature `native`" };
    let message = format!("{what} needs machine code, and this function runs on another engine");
    Problem::new(Kind::Target, message, help)
}

/// Returns the types of tensors.
pub(super) fn types(leaves: &TensorRefs<'_>) -> Vec<ArrayType> {
    leaves.iter().map(|t| t.ty().clone()).collect()
}

impl Entry {
    /// Compiles a traced program for this machine. `form` and `types` are the form of the arguments and the types of
    /// their leaves.
    pub(super) fn of(
        form: Form,
        types: Vec<ArrayType>,
        traced: Traced<Form>,
    ) -> Result<Entry, Problem> {
        let (module, function) = (traced.module, traced.function);
        let program =
            Program::compile(Engine::Native, &Options::default(), module, function, None)?;
        let (tensors, output, limits) = (traced.tensors, traced.output, None);
        Ok(Entry { form, types, program, tensors, output, limits, donated: Vec::new() })
    }

    /// Returns whether this program was compiled for arguments of this form and these types, with these ones donated.
    #[inline]
    fn takes(&self, given: &dyn CallArgs, leaves: &TensorRefs<'_>, donated: &[bool]) -> bool {
        self.types.len() == leaves.len()
            && *self.donated == *donated
            && (0..leaves.len()).all(|i| self.types[i] == *leaves[i].ty())
            && given.matches(&self.form)
    }

    /// Runs the program, and appends the leaves of the results to `results`.
    #[inline]
    pub(super) fn run(
        &self,
        leaves: &TensorRefs<'_>,
        at: Loc,
        results: &mut Results,
    ) -> Result<(), Error> {
        let mut operands = SmallVec::new();
        self.operands(leaves, &mut operands);
        let ran = self.program.run(&operands, self.limits.as_ref(), results);
        ran.map_err(|p| Error::at(p, at))
    }

    /// Runs the program, and writes the leaves of the results to `results`, which has one tensor for each leaf.
    #[inline]
    pub(super) fn run_into(
        &self,
        leaves: &TensorRefs<'_>,
        at: Loc,
        results: &mut [&mut Tensor],
    ) -> Result<(), Error> {
        let mut operands = SmallVec::new();
        self.operands(leaves, &mut operands);
        let ran = self.program.run_into(&operands, self.limits.as_ref(), results);
        ran.map_err(|p| Error::at(p, at))
    }

    /// Runs the program on a simulated accelerator.
    fn simulate(
        &self,
        leaves: &TensorRefs<'_>,
        on: &RunConfig,
        at: Loc,
    ) -> Result<(Vec<Tensor>, Statistics), Error> {
        let mut operands = SmallVec::new();
        self.operands(leaves, &mut operands);
        self.program.simulate(&operands, on).map_err(|p| Error::at(p, at))
    }

    /// Appends the program's operands, arguments and captured tensors, to `out`. Appending to the caller's list
    /// makes a call a tenth faster than returning a list, which would be moved.
    #[inline]
    fn operands<'a>(&'a self, leaves: &'a TensorRefs<'_>, out: &mut SmallVec<[&'a Tensor; 8]>) {
        leaves.iter().for_each(|t| out.push(t));
        self.tensors.iter().for_each(|t| out.push(t));
    }

    /// Runs the program, and appends the leaves of the results to `results`. Returns the form of the results; an error if
    /// the program was compiled for arguments of another form or of other types.
    #[inline]
    pub(super) fn call(
        &self,
        given: &dyn CallArgs,
        leaves: &TensorRefs<'_>,
        at: Loc,
        results: &mut Results,
    ) -> Result<&Form, Error> {
        self.check(given, leaves, at)?;
        self.run(leaves, at, results)?;
        Ok(&self.output)
    }

    /// Returns an error if the program was compiled for arguments of another form or of other types.
    #[inline]
    pub(super) fn check(
        &self,
        given: &dyn CallArgs,
        leaves: &TensorRefs<'_>,
        at: Loc,
    ) -> Result<(), Error> {
        if self.takes(given, leaves, &[]) {
            return Ok(());
        }
        let problem = Problem::new(
            Kind::Arguments,
            format!(
                "a program compiled for other arguments: {}",
                self.difference(&given.form(), &types(leaves), &[])
            ),
            "pass arguments of those types, or call the `Jit`, which compiles for each combination \
             of types",
        );
        Err(Error::at(problem, at))
    }

    /// Returns the tree structure (form) of the results.
    #[inline]
    pub(super) fn output(&self) -> &Form {
        &self.output
    }

    /// Runs the program on arguments that it takes over, and returns the leaves of the results.
    pub(super) fn run_donating(
        &self,
        mut args: Vec<Tensor>,
        at: Loc,
    ) -> Result<Vec<Tensor>, Error> {
        args.extend_from_slice(&self.tensors);
        let results = self.program.run_donating(args, self.limits.as_ref());
        results.map_err(|p| Error::at(p, at))
    }

    /// Returns a text that describes the first difference between the arguments of this program and those with the form
    /// `form` and the types `types`, of which the `donated` ones are donated.
    fn difference(&self, form: &Form, types: &[ArrayType], donated: &[bool]) -> String {
        let mut first = None;
        self.form.differences(form, ARGUMENT, &mut |path, was, is| {
            first.get_or_insert_with(|| format!("`{path}` was {was} and is {is}"));
        });
        let is = |donated: &[bool], i| donated.get(i).is_some_and(|donated| *donated);
        let paths = form.paths(ARGUMENT);
        let differs = (0..paths.len()).find(|i| is(&self.donated, *i) != is(donated, *i));
        match (first, differs) {
            (Some(first), _) => first,
            (None, Some(i)) if self.types == types => match is(donated, i) {
                true => format!("`{}` is donated and was not", paths[i]),
                false => format!("`{}` was donated and is not", paths[i]),
            },
            (None, _) => explain::difference(&paths, &self.types, types),
        }
    }
}

impl Core {
    /// Returns the settings of a new `Jit` or `run`. `name` and `at` are for messages. This function is not inlined, so
    /// that its code is not repeated in the user's crate for every closure.
    #[inline(never)]
    pub(super) fn new(name: &'static str, at: Loc) -> Core {
        Core {
            name,
            at,
            number: trace::unique(),
            engine: Engine::Native,
            target: Target::default(),
            machine: MachineModel::MEASURED,
            limits: None,
            keys: false,
            flushes: false,
            threads: None,
            division: Division::default(),
            programs: Programs::default(),
        }
    }

    // A setting determines how programs are compiled, so each change of a setting drops the compiled programs.

    pub(super) fn set_engine(&mut self, engine: Engine) {
        self.engine = engine;
        self.forget();
    }

    pub(super) fn set_target(&mut self, target: Target) {
        self.target = target;
        self.forget();
    }

    pub(super) fn set_machine(&mut self, machine: MachineModel) {
        self.machine = machine;
        self.forget();
    }

    pub(super) fn set_key_check(&mut self) {
        self.keys = true;
        self.forget();
    }

    pub(super) fn set_flush(&mut self) {
        self.flushes = true;
        self.forget();
    }

    pub(super) fn set_threads(&mut self, threads: NonZeroUsize) {
        self.threads = Some(threads);
        self.forget();
    }

    pub(super) fn division(&mut self) -> &mut Division {
        self.forget();
        &mut self.division
    }

    pub(super) fn limits(&mut self) -> &mut Limits {
        self.forget();
        self.limits.get_or_insert_default()
    }

    fn forget(&mut self) {
        self.programs = Programs::default();
    }

    /// Runs the program for these arguments, and compiles it first if necessary. Appends the leaves of the results to
    /// `results`, and returns their form.
    #[inline]
    pub(super) fn call(
        &self,
        given: &dyn CallArgs,
        leaves: &TensorRefs<'_>,
        closure: &Closure<'_>,
        results: &mut Results,
    ) -> Result<&Form, Error> {
        let entry = self.program(given, leaves, &[], closure)?;
        entry.run(leaves, self.at, results)?;
        Ok(&entry.output)
    }

    /// Runs the program on a simulated accelerator.
    pub(super) fn simulate(
        &self,
        given: &dyn CallArgs,
        leaves: &TensorRefs<'_>,
        closure: &Closure<'_>,
        on: &RunConfig,
    ) -> Result<(Vec<Tensor>, &Form, Statistics), Error> {
        let entry = self.program(given, leaves, &[], closure)?;
        let (results, statistics) = entry.simulate(leaves, on, self.at)?;
        Ok((results, &entry.output, statistics))
    }

    /// Compiles the closure with counters in its loops, and runs it once. Returns the results and the counts.
    pub(super) fn report(
        &self,
        leaves: &TensorRefs<'_>,
        closure: &Closure<'_>,
    ) -> Result<(Vec<Tensor>, Form, CallReport), Error> {
        if !matches!(self.target, Target::Native(_)) {
            let help = "make the report without `on`; on an accelerator, `simulate` returns \
                        statistics";
            return Err(Error::at(only_of_machine_code("a report", help), self.at));
        }
        let traced = self.traced(&types(leaves), closure)?;
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
        Ok((results, traced.output, report))
    }

    /// Compiles the closure with timers around the parts of the program, and runs it once. Returns the results and the
    /// times.
    pub(super) fn profile(
        &self,
        leaves: &TensorRefs<'_>,
        closure: &Closure<'_>,
    ) -> Result<(Vec<Tensor>, Form, Profile), Error> {
        let machine_code = matches!(self.target, Target::Native(_));
        let compiled = matches!(self.engine, Engine::Native | Engine::Relaxed);
        if !machine_code || !compiled {
            let help = "make the profile without `on`, `interpreted` and `nan_check`; on an \
                        accelerator, `simulate` returns statistics";
            return Err(Error::at(only_of_machine_code("a profile", help), self.at));
        }
        let traced = self.traced(&types(leaves), closure)?;
        let at = |p: Problem| Error::at(p, self.at);
        let options = Options { profiled: true, ..self.options(self.limits.is_some()) };
        let (module, function) = (traced.module, traced.function);
        let program = Program::compile(self.engine, &options, module, function, None);
        let Program::Native(compiled) = program.map_err(at)? else {
            return Err(Problem::internal("profiled an interpreted program").into());
        };
        let operands: Vec<&Tensor> = leaves.iter().map(|t| &**t).chain(&traced.tensors).collect();
        let limits = self.limits.clone().unwrap_or_default();
        let (results, profile) = compiled.profile(&operands, &limits).map_err(at)?;
        Ok((results, traced.output, profile))
    }

    /// Compiles the closure for these arguments, of which the `donated` ones are donated, and returns a description of all
    /// stages.
    pub(super) fn explain(
        &self,
        given: &dyn CallArgs,
        leaves: &TensorRefs<'_>,
        donated: &[bool],
        closure: &Closure<'_>,
    ) -> Result<Explanation, Error> {
        let types = types(leaves);
        let (start, before) = (Stopwatch::start(), time_in_transforms());
        let (traced, derived) = changes(|| self.traced(&types, closure));
        let (traced, time) = (traced?, start.elapsed());
        let transforming = time_in_transforms().saturating_sub(before);
        let f = traced.module.function(traced.function);
        let ends = f.param_types().into_iter().chain(f.result_types());
        let boundary = ends.map(|t| array(&t).bytes()).sum();
        let first = program::stage("trace", &traced.module, traced.function, time);
        let mut seen = Seen { stages: vec![first], ..Seen::default() };
        let product = self.product(traced, boundary, (&given.form(), &types), donated, &mut seen);
        let product = product.map_err(|p| Error::at(p, self.at))?;
        let misses = self.programs.iter().map(|link| link.why.clone()).collect();
        let Seen { stages, simplified, .. } = seen;
        Ok(Explanation { stages, simplified, transforming, derived, product, misses })
    }

    /// Compiles a traced program for `explain`. `boundary` is the size of the arguments and results in bytes.
    #[cfg_attr(not(feature = "xla"), allow(unused_variables, reason = "only XLA prints arguments"))]
    fn product(
        &self,
        traced: Traced<Form>,
        boundary: usize,
        arguments: (&Form, &[ArrayType]),
        donated: &[bool],
        seen: &mut Seen,
    ) -> Result<Product, Problem> {
        #[cfg(feature = "xla")]
        if let Target::Xla(client) = &self.target {
            let options = self.client_options(client, arguments, &traced)?;
            let paths = arguments.0.paths("argument");
            let Traced { module, function, .. } = traced;
            let report = program::explain_xla(client, module, function, &options, paths, seen)?;
            return Ok(Product::Xla(Box::new(report)));
        }
        let Traced { module, function, output, .. } = traced;
        let options = Options { donated: donated.to_vec(), ..self.options(self.limits.is_some()) };
        let program = Program::compile(self.compiled(), &options, module, function, Some(seen))?;
        let Program::Native(compiled) = program else {
            return Err(Problem::internal("explained an interpreted program"));
        };
        let (report, loop_trees) =
            (compiled.report().clone(), std::mem::take(&mut seen.loop_trees));
        let (paths, results) = (arguments.0.paths(ARGUMENT), output.paths(RESULT));
        let taken: Vec<(usize, usize)> = report.program.entry.donated().collect();
        let shared: usize = taken.iter().map(|(argument, _)| arguments.1[*argument].bytes()).sum();
        let donated = taken.iter().map(|(a, r)| (paths[*a].clone(), results[*r].clone())).collect();
        let boundary = boundary - shared;
        Ok(Product::Loops(Box::new(Loops { loop_trees, report, boundary, donated })))
    }

    /// Returns the number of compiled programs.
    pub(super) fn programs(&self) -> usize {
        self.programs.iter().count()
    }

    pub(super) fn options(&self, limited: bool) -> Options {
        let (profiled, donated) = (false, Vec::new());
        let (threads, machine) = (self.threads, self.machine);
        Options { target: self.target.clone(), limited, profiled, donated, threads, machine }
    }

    /// Returns the engine for operations that need compiled code, even if calls use an interpreter.
    fn compiled(&self) -> Engine {
        if self.engine == Engine::Relaxed { Engine::Relaxed } else { Engine::Native }
    }

    /// Traces the closure for the target. Batches are divided into chunks ([`Module::divide_batches`]) for targets that
    /// run the chunks one after the other, or on a few threads.
    ///
    /// [`Module::divide_batches`]: tapeloom_ir::Module::divide_batches
    pub(super) fn traced(
        &self,
        types: &[ArrayType],
        closure: &Closure<'_>,
    ) -> Result<Traced<Form>, Error> {
        let chunk_operations = match &self.target {
            Target::Native(_) | Target::Interpreter => self.machine.chunk_operations,
            Target::Accelerator(_) => 0,
            #[cfg(feature = "xla")]
            Target::Xla(_) => 0,
        };
        self.traced_in_chunks(types, closure, chunk_operations)
    }

    /// Traces the closure. If `flushes` is set, adds code that flushes subnormal carries of loops. If the key check is
    /// on, a random key that is used twice is an error. `chunk_operations` is that of the machine model; 0 for undivided
    /// batches.
    pub(super) fn traced_in_chunks(
        &self,
        types: &[ArrayType],
        closure: &Closure<'_>,
        chunk_operations: usize,
    ) -> Result<Traced<Form>, Error> {
        let params: Vec<Param> = types.iter().map(|t| Param::new(t.clone(), self.at)).collect();
        let trace = || {
            let f = |h: &[Handle]| {
                trace::with_module(|m| m.divide_batches(chunk_operations));
                closure(h)
            };
            trace::trace(self.name, self.at, &params, f).map_err(Error::from_diagnostics)
        };
        if self.keys {
            let Traced { module, function, .. } = with_marks(trace)?;
            check_keys(&module, function).map_err(|p| Error::at(p, self.at))?;
        }
        let mut traced = trace()?;
        if self.flushes {
            let flushed = FLUSHED.observed(&mut traced.module, traced.function, &mut |_| ());
            traced.function = flushed.map_err(|p| Error::at(p, self.at))?;
        }
        Ok(traced)
    }

    /// Traces the closure, and returns the types of its results and their form.
    pub(super) fn results(
        &self,
        leaves: &TensorRefs<'_>,
        closure: &Closure<'_>,
    ) -> Result<(Vec<ArrayType>, Form), Error> {
        let Traced { module, function, output, .. } = self.traced(&types(leaves), closure)?;
        let types = module.function(function).result_types().iter().map(array).collect();
        Ok((types, output))
    }

    /// Returns the program for these arguments, of which the `donated` ones are donated. If there is none yet, compiles
    /// it. The list is searched linearly, because most closures are called with few kinds of arguments.
    #[inline]
    pub(super) fn program(
        &self,
        given: &dyn CallArgs,
        leaves: &TensorRefs<'_>,
        donated: &[bool],
        closure: &Closure<'_>,
    ) -> Result<&Arc<Entry>, Error> {
        match self.programs.iter().find(|link| link.entry.takes(given, leaves, donated)) {
            Some(link) => Ok(&link.entry),
            None => self.prepare(given.form(), types(leaves), donated.to_vec(), closure),
        }
    }

    /// Returns which arguments are donated to a program if the caller donates the `owned` ones. If the engine takes over no
    /// memory, there are none, and the call shares the program of other calls.
    pub(super) fn donated(&self, mut owned: SmallVec<[bool; 8]>) -> SmallVec<[bool; 8]> {
        let compiled = matches!(self.engine, Engine::Native | Engine::Relaxed);
        let takes_over = compiled && matches!(self.target, Target::Native(_));
        if !takes_over || !owned.contains(&true) {
            owned.clear();
        }
        owned
    }

    fn prepare(
        &self,
        form: Form,
        types: Vec<ArrayType>,
        donated: Vec<bool>,
        closure: &Closure<'_>,
    ) -> Result<&Arc<Entry>, Error> {
        // The closure may call this `Jit` again while it is traced, so no lock is held here. If several threads compile
        // the same program, the first result is stored and all threads use it.
        let traced = self.traced(&types, closure)?;
        let (limits, output) = (self.limits.clone(), traced.output.clone());
        let (program, tensors) =
            self.compile((&form, &types), traced, &donated).map_err(|p| Error::at(p, self.at))?;
        let entry = Entry { form, types, program, tensors, output, limits, donated };
        Ok(self.programs.keep(Arc::new(entry)))
    }

    /// Compiles a traced function for the target. Returns the program, and the captured tensors that each call passes.
    #[cfg_attr(not(feature = "xla"), allow(unused_variables, reason = "only XLA divides arrays"))]
    fn compile(
        &self,
        arguments: (&Form, &[ArrayType]),
        traced: Traced<Form>,
        donated: &[bool],
    ) -> Result<(Program, Vec<Tensor>), Problem> {
        #[cfg(feature = "xla")]
        if let Target::Xla(client) = &self.target
            && matches!(self.engine, Engine::Native | Engine::Relaxed)
        {
            let options = self.client_options(client, arguments, &traced)?;
            let Traced { module, function, tensors, .. } = traced;
            let program = Program::for_xla(client, module, function, &options, donated, &tensors)?;
            return Ok((program, Vec::new()));
        }
        let Traced { module, function, tensors, .. } = traced;
        let options = Options { donated: donated.to_vec(), ..self.options(self.limits.is_some()) };
        Ok((Program::compile(self.engine, &options, module, function, None)?, tensors))
    }

    /// Returns the program that takes over the memory of the `donated` arguments on devices of XLA. If there is none yet,
    /// compiles it.
    #[cfg(feature = "xla")]
    fn program_donating(
        &self,
        form: Form,
        types: Vec<ArrayType>,
        donated: Vec<bool>,
        closure: &Closure<'_>,
    ) -> Result<&Arc<Entry>, Error> {
        let same = |e: &Entry| e.form == form && e.types == types && e.donated == donated;
        match self.programs.iter().find(|link| same(&link.entry)) {
            Some(link) => Ok(&link.entry),
            None => self.prepare(form, types, donated, closure),
        }
    }

    /// Copies arguments to the devices of XLA on which the program will run, divided as the partition specs say.
    #[cfg(feature = "xla")]
    pub(super) fn upload(
        &self,
        form: &Form,
        leaves: &TensorRefs<'_>,
    ) -> Result<Vec<DeviceArray>, Error> {
        let at = |p: Problem| Error::at(p, self.at);
        let Target::Xla(client) = &self.target else {
            return Err(at(Problem::new(
                Kind::Target,
                "arrays are copied to devices for programs of XLA, and this one is for another engine",
                "choose the engine with `on(Target::Xla(client))`",
            )));
        };
        let types = types(leaves);
        let uploaded: Result<_, Problem> =
            match self.division.of_arguments(form, &types).map_err(at)? {
                None => leaves.iter().map(|x| DeviceArray::upload(client, x)).collect(),
                Some((mesh, specs)) => {
                    let divided = leaves.iter().zip(&specs);
                    divided.map(|(x, spec)| DeviceArray::upload_to(client, x, mesh, spec)).collect()
                }
            };
        uploaded.map_err(at)
    }

    /// Runs the program with arrays on devices of XLA. It takes over the memory of the `donated` arguments.
    #[cfg(feature = "xla")]
    pub(super) fn on_device(
        &self,
        form: Form,
        leaves: &[&DeviceArray],
        mut donated: Vec<bool>,
        closure: &Closure<'_>,
    ) -> Result<(Vec<DeviceArray>, &Form), Error> {
        let at = |p: Problem| Error::at(p, self.at);
        let types: Vec<ArrayType> =
            leaves.iter().map(|x| x.ty().cloned()).collect::<Result<_, _>>().map_err(at)?;
        if !donated.contains(&true) {
            donated.clear();
        }
        let entry = self.program_donating(form, types, donated, closure)?;
        let results = entry.program.on_device(leaves);
        // Check for arrays of another client only if the call failed, because the check takes time.
        let results = results.map_err(|p| at(self.foreign(&entry.form, leaves).unwrap_or(p)))?;
        Ok((results, &entry.output))
    }

    /// Returns an error if an argument lies on a device of another client.
    #[cfg(feature = "xla")]
    fn foreign(&self, form: &Form, leaves: &[&DeviceArray]) -> Option<Problem> {
        let Target::Xla(client) = &self.target else { return None };
        let i = leaves.iter().position(|x| x.is_of(client).is_ok_and(|is| !is))?;
        let path = form.paths("argument").get(i).cloned().unwrap_or_default();
        Some(Problem::new(
            Kind::Arguments,
            format!("`{path}` is an array of another client than the program's, {client:?}"),
            "copy it to the host with `xla::download`, and to the program's client with `xla::upload`",
        ))
    }
}
