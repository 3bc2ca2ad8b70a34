//! Executable programs: a traced function with the engine that runs it.

use super::explain::{SimplifyReport, Stage};
use std::time::Duration;
use tapeloom_backend::accelerator::{RunConfig, Statistics};
use tapeloom_backend::{Options, Results, Runnable, Target};
#[cfg(feature = "xla")]
use tapeloom_backend::{stablehlo, xla};
use tapeloom_ir::{
    FuncId, Kind, Limits, Module, Problem, Stopwatch, Tensor, eval, eval_finite, eval_within,
    print_function,
};
use tapeloom_transforms as transforms;

/// The engine of a program, and the rewrite rules that it allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Engine {
    /// Compiled code. Passes preserve every bit of the results.
    Native,
    /// Compiled code. Passes may reassociate operations on floats.
    Relaxed,
    /// The reference interpreter.
    Interpreter,
    /// The reference interpreter with a check for values that are not finite.
    Finite,
}

/// A program that can be run.
pub(super) enum Program {
    /// Machine code.
    Native(Box<Runnable>),
    /// A program of XLA.
    #[cfg(feature = "xla")]
    Xla(Box<xla::Program>),
    /// The traced function, to which no passes were applied, run by the reference interpreter.
    Interpreted(Module, FuncId),
    /// The traced function, run by the reference interpreter with a check for values that are not finite.
    Finite(Module, FuncId),
}

impl Program {
    /// Prepares a traced function for the engine: runs the passes and generates code, unless the engine is an
    /// interpreter. If `options.limited` is set, the code checks limits. `seen` receives the output of each stage, for
    /// `explain`.
    pub(super) fn compile(
        engine: Engine,
        options: &Options,
        mut module: Module,
        function: FuncId,
        seen: Option<&mut Seen>,
    ) -> Result<Program, Problem> {
        let passes = match engine {
            Engine::Interpreter => return Ok(Program::Interpreted(module, function)),
            Engine::Finite => return Ok(Program::Finite(module, function)),
            Engine::Native => match options.target {
                Target::Accelerator(_) => &transforms::BEFORE_ACCELERATOR,
                Target::Native(_) | Target::Interpreter => &transforms::BEFORE_CODE,
                #[cfg(feature = "xla")]
                Target::Xla(_) => {
                    return Err(Problem::internal(
                        "machine code was requested for a program of XLA",
                    ));
                }
            },
            Engine::Relaxed => &transforms::BEFORE_RELAXED_CODE,
        };
        let mut stages = Stages { seen, before: function, since: Stopwatch::start() };
        let function = passes.observed(&mut module, function, &mut |done| stages.pass(done))?;
        if let Some(seen) = stages.seen {
            seen.loop_trees = tapeloom_backend::loop_trees(&module, function)?;
        }
        let compiled = tapeloom_backend::compile(&module, function, options)?;
        Ok(Program::Native(Box::new(compiled)))
    }

    /// Writes a traced function as StableHLO, and compiles it with a plugin of XLA. The last parameters are the captured
    /// tensors, which stay on the device.
    #[cfg(feature = "xla")]
    pub(super) fn for_xla(
        client: &xla::Client,
        mut module: Module,
        function: FuncId,
        options: &stablehlo::Options,
        donated: &[bool],
        captured: &[Tensor],
    ) -> Result<Program, Problem> {
        let function = transforms::BEFORE_STABLEHLO.observed(&mut module, function, &mut |_| ())?;
        let mut program = xla::Program::compile(&module, function, client, options, donated)?;
        program.hold(captured)?;
        Ok(Program::Xla(Box::new(program)))
    }

    /// Runs the program with arrays on the device; results stay there.
    #[cfg(feature = "xla")]
    pub(super) fn on_device(
        &self,
        args: &[&xla::DeviceArray],
    ) -> Result<Vec<xla::DeviceArray>, Problem> {
        match self {
            Program::Xla(program) => program.execute(args),
            Program::Native(_) | Program::Interpreted(..) | Program::Finite(..) => {
                Err(Problem::new(
                    Kind::Target,
                    "arrays on a device of XLA are arguments of a program of XLA, and this one is for another engine",
                    "choose the engine with `on(Target::Xla(client))`",
                ))
            }
        }
    }

    /// Runs the program, and appends its results to `results`.
    #[inline]
    pub(super) fn run(
        &self,
        args: &[&Tensor],
        limits: Option<&Limits>,
        results: &mut Results,
    ) -> Result<(), Problem> {
        match self {
            Program::Native(compiled) => return compiled.run(args, limits, results),
            #[cfg(feature = "xla")]
            Program::Xla(_) => {}
            Program::Interpreted(..) | Program::Finite(..) => {}
        }
        results.extend(self.interpret(args, limits)?);
        Ok(())
    }

    /// Runs the program, and writes its results to `results`, one tensor for each result.
    #[inline]
    pub(super) fn run_into(
        &self,
        args: &[&Tensor],
        limits: Option<&Limits>,
        results: &mut [&mut Tensor],
    ) -> Result<(), Problem> {
        match self {
            Program::Native(compiled) => return compiled.call_into(args, results, limits),
            #[cfg(feature = "xla")]
            Program::Xla(_) => {}
            Program::Interpreted(..) | Program::Finite(..) => {}
        }
        let all = self.interpret(args, limits)?;
        results.iter_mut().zip(all).for_each(|(result, new)| result.overwrite(new));
        Ok(())
    }

    /// Runs the program on arguments that it takes over, and returns its results.
    pub(super) fn run_donating(
        &self,
        args: Vec<Tensor>,
        limits: Option<&Limits>,
    ) -> Result<Vec<Tensor>, Problem> {
        match self {
            Program::Native(compiled) => return compiled.call_donating(args, limits),
            #[cfg(feature = "xla")]
            Program::Xla(_) => {}
            Program::Interpreted(..) | Program::Finite(..) => {}
        }
        self.interpret(&args.iter().collect::<Vec<_>>(), limits)
    }

    /// Runs the program in the reference interpreter or on XLA. Machine code is run by [`Program::run`].
    fn interpret(&self, args: &[&Tensor], limits: Option<&Limits>) -> Result<Vec<Tensor>, Problem> {
        let run = || match self {
            Program::Native(compiled) => compiled.call(args),
            #[cfg(feature = "xla")]
            Program::Xla(program) => program.call(args),
            Program::Interpreted(module, function) => eval(module, *function, &owned(args)),
            Program::Finite(module, function) => eval_finite(module, *function, &owned(args)),
        };
        match limits {
            Some(limits) => limits.begin().and_then(|()| eval_within(limits, run)),
            None => run(),
        }
    }

    /// Runs the program on a simulated accelerator.
    pub(super) fn simulate(
        &self,
        args: &[&Tensor],
        setup: &RunConfig,
    ) -> Result<(Vec<Tensor>, Statistics), Problem> {
        match self {
            Program::Native(compiled) => compiled.simulate(args, setup),
            #[cfg(feature = "xla")]
            Program::Xla(_) => Err(Problem::new(
                Kind::Target,
                "an accelerator runs loop programs, and this program is for XLA",
                "simulate without `on`",
            )),
            Program::Interpreted(..) | Program::Finite(..) => Err(Problem::new(
                Kind::Target,
                "an accelerator runs compiled programs, and this one is interpreted",
                "simulate without `interpreted()` and `nan_check()`",
            )),
        }
    }
}

/// Compiles a traced function for XLA, and describes the program. `paths` are the paths of its arguments; `seen`
/// receives the output of each stage.
#[cfg(feature = "xla")]
pub(super) fn explain_xla(
    client: &xla::Client,
    mut module: Module,
    function: FuncId,
    options: &stablehlo::Options,
    paths: Vec<String>,
    seen: &mut Seen,
) -> Result<xla::Report, Problem> {
    let mut stages = Stages { seen: Some(seen), before: function, since: Stopwatch::start() };
    let passes = &transforms::BEFORE_STABLEHLO;
    let function = passes.observed(&mut module, function, &mut |done| stages.pass(done))?;
    xla::explain(&module, function, client, options, paths)
}

fn owned(args: &[&Tensor]) -> Vec<Tensor> {
    args.iter().map(|t| (*t).clone()).collect()
}

/// Returns the description of a stage, with the text of the program after it.
pub(super) fn stage(name: &'static str, module: &Module, f: FuncId, time: Duration) -> Stage {
    let equations = module.function(f).equations.len();
    Stage { name, text: print_function(module, f), equations, time }
}

/// The output of each stage of a compilation, collected for `explain`.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) stages: Vec<Stage>,
    pub(super) simplified: Option<SimplifyReport>,
    pub(super) loop_trees: String,
}

/// Collects the text of the program after each pass, and the time of the pass. The time for printing the text is not
/// counted.
struct Stages<'a> {
    seen: Option<&'a mut Seen>,
    before: FuncId,
    since: Stopwatch,
}

impl Stages<'_> {
    fn pass(&mut self, done: transforms::Observed<'_>) {
        let Some(seen) = &mut self.seen else { return };
        let time = self.since.elapsed();
        let transforms::Observed { step, module, function: f, simplification } = done;
        let mut stage = stage(step.pass.name, module, f, time);
        if f == self.before {
            stage.text.clear();
        }
        if let Some(simplification) = simplification {
            seen.simplified =
                Some(SimplifyReport::of(simplification.clone(), module, self.before, f));
        }
        seen.stages.push(stage);
        self.before = f;
        self.since = Stopwatch::start();
    }
}
