//! The stages of the backend: lowering, passes, verification, machine code.
//!
//! ```
//! use tapeloom_backend::{Options, compile};
//! use tapeloom_ir::{Builder, Draft, Dtype, Module, Scalar, Tensor, Type};
//! let mut module = Module::new();
//! let mut draft = Draft::new("square");
//! let x = draft.param(Type::array(Dtype::F64, &[3]));
//! let y = Builder::new(&mut module, &mut draft).emit1(Scalar::Mul, &[x, x]);
//! let square = draft.finish(&mut module, vec![y])?;
//! let compiled = compile(&module, square, &Options::default())?;
//! let y = compiled.call(&[&Tensor::from([1.0, 2.0, 3.0])])?;
//! assert_eq!(y, [Tensor::from([1.0, 4.0, 9.0])]);
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```

use crate::accelerator::{self, RunConfig, Statistics};
use crate::codegen::vectors::Vectors;
use crate::executable::Executable;
use crate::fingerprint;
use crate::layout::{Pipeline, ScratchpadModel};
use crate::loop_ir::{self, External, ExternalSignature, Program};
use crate::lower::plan_on;
use crate::machine::MachineModel;
use crate::passes::{AS_WRITTEN, Context, List, NATIVE, Step, WorkDivision};
use crate::profile::{self, Instrumented, Profile, session};
use crate::report::memory_plan::Plan;
use crate::report::tape_table::TapePlan;
use crate::results::{CallResources, Results, wrong_results};
use crate::target::{Options, Target};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tapeloom_ir::{ArrayType, FuncId, Kind, Limits, Module, Problem, Stopwatch, Tensor};

/// A compiled function with the engine that runs it, which can be called on tensors.
#[derive(Clone)]
pub struct Runnable {
    running: Running,
    params: Vec<ArrayType>,
    report: Report,
    /// Whether the interpreter has checked a first call; used in debug builds only.
    checked: Arc<AtomicBool>,
    profiling: Option<Profiling>,
}

/// The program with timers: each timer measures one loop nest or one call of the program.
#[derive(Clone)]
struct Profiling {
    parts: Arc<Instrumented>,
    /// Whether the program calls no Rust function, so that a second run with the same arguments has no effects.
    repeatable: bool,
    /// The recorder of the times of all calls; `None` unless the environment variable `TAPELOOM_PROFILE` requests a
    /// profile.
    recorder: Option<Arc<session::Recorder>>,
}

/// The largest number of executed statements for which a debug build checks a program's first call. The check also runs
/// the call in the interpreter, which checks every memory access.
const CHECKED: u64 = 1 << 15;

#[derive(Clone)]
enum Running {
    Native(Executable),
    Interpreter(Arc<Program>),
    Simulated(Arc<Program>, Arc<RunConfig>),
}

/// A report about the compilation, which `explain` prints.
#[derive(Clone, Debug)]
pub struct Report {
    /// The engine for which the program is compiled.
    pub target: Target,
    /// The machine model (performance parameters) of the compilation.
    pub machine: MachineModel,
    /// The loop program, after all passes.
    pub program: Arc<Program>,
    /// The memory plan: the size, lifetime and offset of each buffer of the program.
    pub plan: Plan,
    /// The exact number of bytes of workspace that a call needs, without the memory of arguments and results.
    pub peak: usize,
    /// The number of loads and stores whose index is clamped, because no proof was found that the index is in bounds
    /// ([`crate::passes::clamp_bounds`]).
    pub clamped: usize,
    /// The passes that changed the program, in the order in which they ran.
    pub passes: Vec<&'static Step>,
    /// For each loop and contraction with enough work for several threads: the number of pieces into which it is cut,
    /// or the reason why it runs on one thread.
    pub divisions: Vec<WorkDivision>,
    /// The vector width of each vectorized loop in machine code.
    pub vectors: Vectors,
    /// The time of lowering and passes: from the IR function to the loop program.
    pub lower: Duration,
    /// The time of code generation: from the loop program to machine code.
    pub code: Duration,
}

/// Compiles a function.
///
/// # Errors
/// [`Kind::Target`] if a value is not an array, this machine cannot run the program, or the machine model is
/// invalid; [`Kind::TooLarge`] if an array does not fit in memory, or calls nest too deeply for the stack.
pub fn compile(module: &Module, func: FuncId, options: &Options) -> Result<Runnable, Problem> {
    let start = Stopwatch::start();
    let list = match options.target {
        Target::Accelerator(_) => &AS_WRITTEN,
        Target::Native(_) | Target::Interpreter => &NATIVE,
        #[cfg(feature = "xla")]
        Target::Xla(_) => return Err(not_on_xla("a loop program")),
    };
    let (program, plan, context) = lowered(module, func, options, list)?;
    let (clamped, passes, divisions) = (context.clamped, context.changed, context.divisions);
    let lower = start.elapsed();
    let start = Stopwatch::start();
    let program = Arc::new(program);
    let f = module.function(func);
    let params = f.all_params().filter_map(|p| f.types[p].as_array().cloned()).collect();
    let mut profiling = None;
    let running = match &options.target {
        Target::Native(triple) => {
            // Machine code is generated from a copy of the program with timers; reports show the program without
            // timers.
            profiling = Profiling::of(&program, options)?;
            let timed = profiling.as_ref().map_or(&*program, |timed| &timed.parts.program);
            let code = Executable::verified(timed, triple, options.machine)?;
            Running::Native(code.with_threads(options.threads()?))
        }
        Target::Interpreter => Running::Interpreter(program.clone()),
        #[cfg(feature = "xla")]
        Target::Xla(_) => return Err(not_on_xla("a loop program")),
        Target::Accelerator(machine) => {
            machine.check()?;
            Running::Simulated(program.clone(), Arc::new(machine.clone().into()))
        }
    };
    let code = start.elapsed();
    // Code generation may enlarge the workspace: it cuts a long program into several machine functions, and stores
    // values that pass from one to another in the workspace.
    let (peak, vectors) = match &running {
        Running::Native(e) => (e.memory(), e.vectors().clone()),
        Running::Interpreter(_) | Running::Simulated(..) => (plan.peak, Vectors::default()),
    };
    let report = Report {
        target: options.target.clone(),
        machine: options.machine,
        program,
        plan,
        peak,
        clamped,
        passes,
        divisions,
        vectors,
        lower,
        code,
    };
    fingerprint::record(module, func, &report.target, &report.program, &report.plan);
    report.vectors.log();
    Ok(Runnable { running, params, report, checked: Arc::default(), profiling })
}

/// Lowers a function to a loop program, and runs the passes of a list on it.
pub(crate) fn lowered(
    module: &Module,
    func: FuncId,
    options: &Options,
    list: &List,
) -> Result<(Program, Plan, Context), Problem> {
    options.machine.check()?;
    let (mut program, mut plan) = plan_on(options, module, func)?;
    loop_ir::check_depth(&program)?;
    // Check the operands of calls for overlap here: after inlining there are no calls left to check.
    if cfg!(debug_assertions) {
        loop_ir::check_form(&program)?;
    }
    let mut context = Context { machine: options.machine, ..Context::default() };
    list.run(&mut program, &mut context)?;
    plan.complete(&program, &context.hoisted);
    Ok((program, plan, context))
}

/// Returns, as text, the loop program of a function with timers. After it, a line for each timer names the statement
/// that it measures, the primitives in this statement, and the estimated bytes that one run of it reads and writes.
///
/// ```
/// use tapeloom_ir::parse_module;
/// let text = "func @f(%0: f64[20000]) -> (f64[20000]) {
///   %1: f64[20000] = sqrt %0
///   return %1
/// }";
/// let module = parse_module(text).map_err(|e| format!("{e:?}"))?;
/// let (f, _) = module.iter().last().ok_or("no function")?;
/// let parts = tapeloom_backend::timed_parts(&module, f)?;
/// assert!(parts.ends_with("timer0: for 20000: sqrt, 320000 bytes\n"), "{parts}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`compile`].
pub fn timed_parts(module: &Module, func: FuncId) -> Result<String, Problem> {
    let (mut program, _) = plan_on(&Options::default(), module, func)?;
    NATIVE.run(&mut program, &mut Context::default())?;
    let parts = profile::instrument(&program);
    loop_ir::check(&parts.program)?;
    Ok(parts.to_string())
}

impl Profiling {
    /// Returns the program with timers, if the options or the environment request a profile; otherwise `None`.
    fn of(program: &Program, options: &Options) -> Result<Option<Profiling>, Problem> {
        if !options.profiled && !session::wanted() {
            return Ok(None);
        }
        let parts = Arc::new(profile::instrument(program));
        if cfg!(debug_assertions) {
            loop_ir::check(&parts.program)?;
        }
        let host = |s: &Arc<ExternalSignature>| matches!(s.function, External::Host(_));
        let repeatable = !program.externals().iter().any(host);
        // If the user asked for timers in order to call `Runnable::profile`, the profile of the whole process leaves
        // the program out.
        let recorded = session::wanted() && !options.profiled;
        let recorder =
            recorded.then(|| Arc::new(session::Recorder::new(&program.entry.name, parts.clone())));
        Ok(Some(Profiling { parts, repeatable, recorder }))
    }
}

impl Runnable {
    /// Sets the largest number of threads that a call uses; 0 means 1. Results have the same bits with any number of
    /// threads. Only machine code runs on several threads.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Runnable {
        if let Running::Native(code) = self.running {
            let code = code.with_threads(threads);
            self.report.peak = code.memory();
            self.running = Running::Native(code);
        }
        self
    }

    /// Runs the function on tensors, and returns its results.
    ///
    /// # Errors
    /// [`Kind::Arguments`] if the arguments do not fit the parameters; [`Kind::TooLarge`] if there is not enough
    /// memory for results or workspace; [`Kind::Callback`] if a Rust function that the program calls fails or
    /// returns wrong results.
    pub fn call(&self, args: &[&Tensor]) -> Result<Vec<Tensor>, Problem> {
        let mut results = Results::new();
        self.run(args, None, &mut results)?;
        Ok(results.into_vec())
    }

    /// Runs the function on tensors, like [`Runnable::call`], and appends its results to `results`. If the program was
    /// compiled [limited](Options::limited), `limits` are the limits of this call; `None` means no limits.
    ///
    /// # Errors
    /// Those of [`Runnable::call`], [`Kind::Limit`], [`Kind::Cancelled`].
    pub fn run(
        &self,
        args: &[&Tensor],
        limits: Option<&Limits>,
        results: &mut Results,
    ) -> Result<(), Problem> {
        self.check_first_call(args, limits)?;
        if let (Running::Native(e), None) = (&self.running, &self.profiling) {
            if let Some(limits) = limits {
                limits.begin()?;
            }
            return e.run(args, limits, results);
        }
        let (all, _) = self.call_within(args, limits.unwrap_or(&Limits::default()))?;
        results.extend(all);
        Ok(())
    }

    /// Runs the function on tensors, and writes its results to `results`, which has one tensor for each result. If a
    /// tensor has the result's type and no clone shares its memory, it keeps its memory; otherwise it is replaced by a
    /// new tensor. If the program was compiled [limited](Options::limited), `limits` are the limits of this call;
    /// `None` means no limits.
    ///
    /// Machine code without timers writes its results directly to the kept memory. Other engines copy their results to
    /// it.
    ///
    /// If the call fails, each tensor of `results` still has its type, but a mixture of old and new elements.
    ///
    /// ```
    /// # use tapeloom_backend::{Options, compile};
    /// # use tapeloom_ir::{Builder, Draft, Dtype, Module, Scalar, Tensor, Type};
    /// # let mut module = Module::new();
    /// # let mut draft = Draft::new("square");
    /// # let x = draft.param(Type::array(Dtype::F64, &[3]));
    /// # let y = Builder::new(&mut module, &mut draft).emit1(Scalar::Mul, &[x, x]);
    /// # let square = draft.finish(&mut module, vec![y])?;
    /// # let square = compile(&module, square, &Options::default())?;
    /// let mut y = Tensor::from([0.0; 3]);
    /// let memory = y.address();
    /// square.call_into(&[&Tensor::from([1.0, 2.0, 3.0])], &mut [&mut y], None)?;
    /// assert_eq!((&y, y.address()), (&Tensor::from([1.0, 4.0, 9.0]), memory));
    /// # Ok::<(), tapeloom_ir::Problem>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Runnable::call`], [`Kind::Limit`], [`Kind::Cancelled`]; [`Kind::Arguments`] if `results` has more or
    /// fewer tensors than the function has results.
    pub fn call_into(
        &self,
        args: &[&Tensor],
        results: &mut [&mut Tensor],
        limits: Option<&Limits>,
    ) -> Result<(), Problem> {
        self.check_first_call(args, limits)?;
        if let (Running::Native(e), None) = (&self.running, &self.profiling) {
            if let Some(limits) = limits {
                limits.begin()?;
            }
            return e.call_into(args, results, limits);
        }
        let (all, _) = self.call_within(args, limits.unwrap_or(&Limits::default()))?;
        if all.len() != results.len() {
            let name = &self.report.program.entry.name;
            return Err(wrong_results(name, all.len(), results.len()));
        }
        results.iter_mut().zip(all).for_each(|(result, new)| result.overwrite(new));
        Ok(())
    }

    /// Runs the function on tensors that it takes over. If it was compiled for
    /// [donated arguments](Options::donated), a result may be written to the memory of an argument, if no other tensor
    /// shares this memory. If the program was compiled [limited](Options::limited), `limits` are the limits of this call;
    /// `None` means no limits. Results have the same bits as those of [`Runnable::call`].
    ///
    /// Only machine code without timers takes over memory.
    ///
    /// ```
    /// # use tapeloom_backend::{Options, compile};
    /// # use tapeloom_ir::{Builder, Draft, Dtype, Module, Scalar, Tensor, Type};
    /// # let mut module = Module::new();
    /// # let mut draft = Draft::new("square");
    /// # let x = draft.param(Type::array(Dtype::F64, &[100]));
    /// # let y = Builder::new(&mut module, &mut draft).emit1(Scalar::Mul, &[x, x]);
    /// # let square = draft.finish(&mut module, vec![y])?;
    /// let options = Options { donated: vec![true], ..Options::default() };
    /// let square = compile(&module, square, &options)?;
    /// let x = Tensor::full(&[100], 3.0)?;
    /// let memory = x.address();
    /// let results = square.call_donating(vec![x], None)?;
    /// assert_eq!(results, [Tensor::full(&[100], 9.0)?]);
    /// # if cfg!(feature = "native") {
    /// assert_eq!(results[0].address(), memory);
    /// # }
    /// # Ok::<(), tapeloom_ir::Problem>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Runnable::call`], [`Kind::Limit`], [`Kind::Cancelled`].
    pub fn call_donating(
        &self,
        args: Vec<Tensor>,
        limits: Option<&Limits>,
    ) -> Result<Vec<Tensor>, Problem> {
        let references: Vec<&Tensor> = args.iter().collect();
        self.check_first_call(&references, limits)?;
        if let (Running::Native(e), None) = (&self.running, &self.profiling) {
            if let Some(limits) = limits {
                limits.begin()?;
            }
            return e.call_donating(args, limits);
        }
        let (results, _) = self.call_within(&references, limits.unwrap_or(&Limits::default()))?;
        Ok(results)
    }

    /// In a debug build, checks the first call of machine code, unless it has limits: runs the call also in the
    /// interpreter that checks memory accesses.
    fn check_first_call(&self, args: &[&Tensor], limits: Option<&Limits>) -> Result<(), Problem> {
        let native = matches!(self.running, Running::Native(_));
        if cfg!(debug_assertions) && native && limits.is_none() && self.check(args).is_ok() {
            self.check_memory(args)?;
        }
        Ok(())
    }

    /// Runs the program on a simulated accelerator, independently of the target that it was compiled for. Returns
    /// its results and the statistics of the run.
    ///
    /// # Errors
    /// Those of [`Runnable::call`]; [`Kind::Target`] if the machine is invalid.
    pub fn simulate(
        &self,
        args: &[&Tensor],
        setup: &RunConfig,
    ) -> Result<(Vec<Tensor>, Statistics), Problem> {
        self.check(args)?;
        accelerator::simulate(&self.report.program, &owned(args), setup)
    }

    /// Runs the function on tensors, like [`Runnable::call`]. If the program was compiled [limited](Options::limited),
    /// `limits` are the limits of this call. Also returns the resources that the call used.
    ///
    /// # Errors
    /// Those of [`Runnable::call`], [`Kind::Limit`], [`Kind::Cancelled`].
    pub fn call_within(
        &self,
        args: &[&Tensor],
        limits: &Limits,
    ) -> Result<(Vec<Tensor>, CallResources), Problem> {
        limits.begin()?;
        match &self.running {
            Running::Native(e) => {
                let (results, taken) = e.call_within(args, limits)?;
                if let (Some(profiling), Some(timed)) = (&self.profiling, &taken.timed) {
                    profiling.recorder.iter().for_each(|recorder| recorder.add(timed));
                }
                Ok((results, taken))
            }
            Running::Interpreter(p) => {
                self.check(args)?;
                let results = loop_ir::shadow_within(p, &owned(args), limits)?;
                Ok((
                    results,
                    CallResources { workspace: self.report.peak, ..CallResources::default() },
                ))
            }
            Running::Simulated(p, setup) => {
                self.check(args)?;
                let (results, _) = accelerator::simulate_within(p, &owned(args), setup, limits)?;
                Ok((
                    results,
                    CallResources { workspace: self.report.peak, ..CallResources::default() },
                ))
            }
        }
    }

    /// Runs a [profiled](Options::profiled) program within limits. Returns its results and the measured times of its
    /// loop nests and calls. If the program calls no Rust function, it runs twice, and only the second run is measured,
    /// because the first run also allocates memory.
    ///
    /// # Errors
    /// Those of [`Runnable::call_within`]; [`Kind::Target`] if the program is not machine code.
    pub fn profile(
        &self,
        args: &[&Tensor],
        limits: &Limits,
    ) -> Result<(Vec<Tensor>, Profile), Problem> {
        let (Running::Native(e), Some(profiling)) = (&self.running, &self.profiling) else {
            return Err(Problem::new(
                Kind::Target,
                format!(
                    "a profile needs machine code, and this program is for {}",
                    self.report.target
                ),
                "compile for `Target::host()`, with the option `profiled`",
            ));
        };
        limits.begin()?;
        let parts = &profiling.parts;
        if profiling.repeatable {
            e.call_within(args, limits)?;
        }
        let (results, taken) = e.call_within(args, limits)?;
        let timed = taken.timed.unwrap_or_default();
        Ok((results, Profile::of(&parts.program.entry.name, parts, &timed, 1)))
    }

    /// In a debug build, runs the first call also in the interpreter that checks memory accesses, if the call executes
    /// at most `CHECKED` statements.
    fn check_memory(&self, args: &[&Tensor]) -> Result<(), Problem> {
        let program = &self.report.program;
        if self.checked.swap(true, Ordering::Relaxed) || program.work() > CHECKED {
            return Ok(());
        }
        loop_ir::shadow(program, &owned(args)).map(|_| ())
    }

    /// Checks the number and the types of the arguments, for all engines except machine code, for which `Executable`
    /// checks them.
    fn check(&self, args: &[&Tensor]) -> Result<(), Problem> {
        if args.len() != self.params.len() {
            return Err(Problem::new(
                Kind::Arguments,
                format!("expected {} arguments, got {}", self.params.len(), args.len()),
                "",
            ));
        }
        for (i, (arg, ty)) in args.iter().zip(&self.params).enumerate() {
            if arg.ty() != ty {
                return Err(Problem::new(
                    Kind::Arguments,
                    format!("argument {i} must be {ty}, got {}", arg.ty()),
                    "",
                ));
            }
        }
        Ok(())
    }

    /// Returns the bytes of memory for tape records (residuals of loop iterations) that stay allocated for the next
    /// call; `None` for other engines than machine code, or before a call has used a tape.
    #[cfg(test)]
    pub(crate) fn records(&self) -> Option<usize> {
        match &self.running {
            Running::Native(e) => e.records(),
            Running::Interpreter(_) | Running::Simulated(..) => None,
        }
    }

    /// Returns the report about the compilation.
    pub fn report(&self) -> &Report {
        &self.report
    }
}

fn owned(args: &[&Tensor]) -> Vec<Tensor> {
    args.iter().map(|t| (*t).clone()).collect()
}

/// Returns the error that programs for XLA do not support `what`, a feature of tapeloom's own engines.
#[cfg(feature = "xla")]
fn not_on_xla(what: &str) -> Problem {
    let message = format!("XLA does not run {what}");
    Problem::new(Kind::Target, message, "compile for XLA with `xla::Program::compile`")
}

impl Report {
    /// Returns the table of the tape: the values in memory between the forward pass and the reverse pass.
    pub fn tape(&self) -> TapePlan<'_> {
        let model = match &self.target {
            Target::Accelerator(machine) => RunConfig::from(machine.clone()).scratchpad_model(),
            Target::Native(_) | Target::Interpreter => ScratchpadModel::default(),
            #[cfg(feature = "xla")]
            Target::Xla(_) => ScratchpadModel::default(),
        };
        TapePlan::of(&self.plan, Pipeline::TFLOW.run(&self.program, &model).ok())
    }

    /// Returns, as a table, the steps of the program (the statements of its outermost block), with the kind, the
    /// primitives and the user's lines of each step.
    pub fn steps(&self) -> String {
        profile::steps::Steps(&self.program).to_string()
    }

    /// Returns a line of text for each loop and contraction with enough work for several threads: the number of pieces, or
    /// the reason why it runs on one thread, and the user's lines.
    pub fn divisions(&self) -> String {
        let mut text = String::new();
        for WorkDivision { header, origins, pieces } in &self.divisions {
            let lines = profile::lines_of(origins);
            let lines = if lines.is_empty() { lines } else { format!(" ({lines})") };
            text += &match pieces {
                Ok(pieces) => format!("{header}: {pieces} pieces{lines}\n"),
                Err(why) => format!("{header}: one thread, since {why}{lines}\n"),
            };
        }
        if text.is_empty() { "no loop has enough work for two threads\n".to_owned() } else { text }
    }

    /// Returns the names of the passes that changed the program, in one line: `inline_bodies, vectorize`.
    pub fn passes(&self) -> String {
        let names: Vec<String> = self.passes.iter().map(|step| step.to_string()).collect();
        if names.is_empty() { "no pass changed them".to_owned() } else { names.join(", ") }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        writeln!(f, "{}", self.program)?;
        writeln!(f, "{}", self.passes())?;
        write!(f, "{}", self.plan)?;
        if self.clamped > 0 {
            writeln!(
                f,
                "the addresses of {} loads and stores are clamped to their buffers",
                self.clamped
            )?;
        }
        let (lower, code) = (ms(self.lower), ms(self.code));
        if self.machine != MachineModel::MEASURED {
            writeln!(f, "machine model: {}", self.machine)?;
        }
        writeln!(f, "for {}: lower {lower:.3} ms, code {code:.3} ms", self.target)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// A call must fail on every target if the program loads a wrong buffer version (an earlier value of the buffer),
    /// even if the loaded number is right by chance. For machine code, the check of the first call, which debug builds
    /// make, finds the error.
    #[test]
    fn calls_check_memory() {
        let text = "program @f {
  workspace 16
  buffer b0: f64[2] input 0
  buffer b1: f64[2] workspace 0
  version b1.1 continues b1
  buffer b2: f64[] output 0
  nest {
    %0: f64 = load b0[0]
    store b1[0], %0
    store b1.1[1], %0
    %1: f64 = load b1[0]
    store b2[0], %1
  }
}";
        let program = Arc::new(loop_ir::parse(text, &|_| None).unwrap());
        let params = vec![program.entry.buffers.values().next().unwrap().ty.clone()];
        let report = Report {
            target: Target::Interpreter,
            machine: MachineModel::MEASURED,
            program: program.clone(),
            plan: Plan::default(),
            peak: 16,
            clamped: 0,
            passes: Vec::new(),
            divisions: Vec::new(),
            vectors: Vectors::default(),
            lower: Duration::ZERO,
            code: Duration::ZERO,
        };
        let native = Running::Native(Executable::new(&program).unwrap());
        for running in [native, Running::Interpreter(program)] {
            let (params, report) = (params.clone(), report.clone());
            let (checked, profiling) = (Arc::default(), None);
            let compiled = Runnable { running, params, report, checked, profiling };
            let problem = compiled.call(&[&Tensor::from([1.0, 2.0])]).unwrap_err();
            assert!(problem.message.contains("b1.1 has taken it over"), "{problem}");
        }
    }
}
