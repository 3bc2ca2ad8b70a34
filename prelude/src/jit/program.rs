//! A traced function made ready to run, by one of two engines.

use tapeloom_backend::{Compiled, Options};
use tapeloom_ir::{FuncId, Module, Problem, Tensor, eval};
use tapeloom_transforms::{self as transforms, Pipeline};

/// Who runs a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Engine {
    /// Compiled code.
    Native,
    /// The reference interpreter.
    Interpreter,
}

/// A program that can be run.
pub(super) enum Program {
    /// Machine code.
    Native(Compiled),
    /// A function as it was traced.
    Interpreted(Module, FuncId),
}

impl Program {
    /// Makes a function ready to run.
    pub(super) fn compile(
        engine: Engine,
        mut module: Module,
        function: FuncId,
    ) -> Result<Program, Problem> {
        match engine {
            Engine::Interpreter => Ok(Program::Interpreted(module, function)),
            Engine::Native => {
                let pipeline: Pipeline = transforms::BEFORE_CODE.parse()?;
                let function = pipeline.run(&mut module, function, |_, _, _| {})?;
                Ok(Program::Native(tapeloom_backend::compile(
                    &module,
                    function,
                    &Options::default(),
                )?))
            }
        }
    }

    /// Runs the program.
    pub(super) fn run(&self, args: &[&Tensor]) -> Result<Vec<Tensor>, Problem> {
        match self {
            Program::Native(compiled) => compiled.call(args),
            Program::Interpreted(module, function) => {
                let args: Vec<Tensor> = args.iter().map(|t| (*t).clone()).collect();
                eval(module, *function, &args)
            }
        }
    }
}
