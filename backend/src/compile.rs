//! The way through the backend: schedule, verify, machine code.
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

use crate::executable::Executable;
use crate::kernel::{self, Program};
use crate::plan::Plan;
use crate::schedule;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tapeloom_ir::{ArrayType, FuncId, Kind, Module, Problem, Tensor};

/// What runs the kernels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Engine {
    /// Machine code.
    #[default]
    Native,
    /// The interpreter of kernels: slow, for tests.
    Interpreter,
}

/// How to compile.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Options {
    /// What runs the kernels.
    pub engine: Engine,
}

/// A compiled function.
#[derive(Clone)]
pub struct Compiled {
    engine: Running,
    params: Vec<ArrayType>,
    report: Report,
}

#[derive(Clone)]
enum Running {
    Native(Executable),
    Interpreter(Arc<Program>),
}

/// What compilation did: data for `explain`.
#[derive(Clone, Debug)]
pub struct Report {
    /// The kernels; they display as text.
    pub program: Arc<Program>,
    /// The table of memory.
    pub plan: Plan,
    /// Bytes of workspace of a call, beside arguments and results: exact.
    pub peak: usize,
    /// Time from function to kernels.
    pub lower: Duration,
    /// Time from kernels to machine code.
    pub code: Duration,
}

/// Compiles a function.
///
/// # Errors
/// [`Kind::Target`] where a value is not an array or this machine cannot run the program,
/// [`Kind::TooLarge`] where an array does not fit in memory.
pub fn compile(module: &Module, func: FuncId, options: &Options) -> Result<Compiled, Problem> {
    let start = Instant::now();
    let (mut program, plan) = schedule::plan(module, func)?;
    kernel::split_loops(&mut program);
    if cfg!(debug_assertions) {
        kernel::check(&program)?;
    }
    let lower = start.elapsed();
    let start = Instant::now();
    let program = Arc::new(program);
    let f = module.function(func);
    let params = f.all_params().filter_map(|p| f.types[p].as_array().cloned()).collect();
    let engine = match options.engine {
        Engine::Native => Running::Native(Executable::new(&program)?),
        Engine::Interpreter => Running::Interpreter(program.clone()),
    };
    let code = start.elapsed();
    // Values that cross between the functions of a long program live in the workspace too.
    let peak = match &engine {
        Running::Native(e) => e.report().workspace_bytes,
        Running::Interpreter(_) => plan.peak,
    };
    let report = Report { program, plan, peak, lower, code };
    Ok(Compiled { engine, params, report })
}

impl Compiled {
    /// Runs the function.
    ///
    /// # Errors
    /// [`Kind::Arguments`] when the arguments do not fit the parameters.
    pub fn call(&self, args: &[&Tensor]) -> Result<Vec<Tensor>, Problem> {
        match &self.engine {
            Running::Native(e) => e.call(args),
            Running::Interpreter(p) => {
                self.check(args)?;
                let args: Vec<Tensor> = args.iter().map(|t| (*t).clone()).collect();
                kernel::eval(p, &args)
            }
        }
    }

    /// Refuses arguments that do not fit; machine code checks its own.
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

    /// What compilation did.
    pub fn report(&self) -> &Report {
        &self.report
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        writeln!(f, "{}", self.program)?;
        write!(f, "{}", self.plan)?;
        writeln!(f, "lower {:.3} ms, code {:.3} ms", ms(self.lower), ms(self.code))
    }
}
