//! A pass as a table row: its name, its effect, its preconditions, and whether results stay bit-identical.
//!
//! Each row stands in the file of its pass, and [`PASSES`](super::PASSES) lists them. Code outside of this folder
//! runs a pass only through its row: by name, or as a step of a [list](super::pipeline).
//!
//! ```
//! use tapeloom_backend::loop_ir;
//! use tapeloom_backend::passes::{Context, by_name};
//! let text = "program @twice {
//!   buffer b0: f64[4] input 0
//!   buffer b1: f64[4] output 0
//!   for i0 in 4 {
//!     %0: f64 = load b0[i0]
//!     %1: f64 = load b0[i0]
//!     %2: f64 = add %0, %1
//!     store b1[i0], %2
//!   }
//! }";
//! let mut program = loop_ir::parse(text, &|_| None)?;
//! by_name("redundant_memory")?.apply(&mut program, &mut Context::default())?;
//! assert!(program.to_string().contains("add %0, %0"));
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```

use crate::loop_ir::fingerprint::printed;
use crate::loop_ir::{BufferId, Kernel, Origins, Program, check, check_form};
use crate::machine::MachineModel;
use std::fmt;
use tapeloom_ir::Problem;
use tapeloom_ir::prim::Exactness;

/// A pass on the loop IR. It maps a program to an equivalent program.
#[derive(Clone, Copy)]
pub struct Pass {
    /// The pass's name, which is also the name of its file.
    pub name: &'static str,
    /// A sentence that says how the pass changes a program.
    pub about: &'static str,
    /// The invariant that the pass needs of its input.
    pub requires: Invariant,
    /// The invariant that holds after the pass; `None` if the pass preserves the invariant of its input.
    pub ensures: Option<Invariant>,
    /// Whether results stay bit-identical, or sums may be reassociated.
    pub exactness: Exactness,
    pub(super) run: Run,
}

/// The function of a pass, which rewrites either one kernel or a whole program. It returns whether it changed anything.
/// In debug builds, [`Pass::apply`] checks this answer against the fingerprints of the program before and after the
/// pass.
#[derive(Clone, Copy)]
pub(super) enum Run {
    /// Runs on each kernel separately.
    Kernels(fn(&mut Kernel, &Context) -> bool),
    /// Runs on the whole program.
    Program(fn(&mut Program, &mut Context) -> Result<bool, Problem>),
}

impl Pass {
    /// Creates a pass for tests of [pipelines](super::List). The pass takes every well-formed program, and must
    /// preserve the bits of results. `run` returns whether it changed the program.
    pub const fn custom(
        name: &'static str,
        run: fn(&mut Program, &mut Context) -> Result<bool, Problem>,
    ) -> Pass {
        let (requires, exactness, run) = (Invariant::Form, Exactness::Exact, Run::Program(run));
        Pass {
            name,
            about: "a pass that no list of tapeloom runs",
            requires,
            ensures: None,
            exactness,
            run,
        }
    }

    /// Runs the pass on a program. Returns whether the pass changed the program.
    ///
    /// # Errors
    /// A broken precondition ([`Pass::requires`]), if the pass notices it. In a debug build,
    /// [`tapeloom_ir::Kind::Internal`] if the pass changes the program and reports that it did not, or the reverse.
    pub fn apply(&self, program: &mut Program, context: &mut Context) -> Result<bool, Problem> {
        let print = |program: &Program| cfg!(debug_assertions).then(|| printed(program));
        let before = print(program);
        let changed = match self.run {
            Run::Kernels(run) => {
                let either = |any, kernel| run(kernel, context) || any;
                program.kernels_mut().fold(false, either)
            }
            Run::Program(run) => run(program, context)?,
        };
        if before.is_some() && (before != print(program)) != changed {
            let answer = if changed { "a change" } else { "no change" };
            let message = format!("`{}` reported {answer}, which is wrong\n{program}", self.name);
            return Err(Problem::internal(message));
        }
        Ok(changed)
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A property that a program has before or after a pass. Each variant includes the properties of the variants before
/// it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Invariant {
    /// The program is [well-formed](check_form). Proofs that addresses stay within their buffers may be missing.
    Form,
    /// Additionally, every access is [proved](check) to stay within its buffer.
    Proved,
}

impl Invariant {
    /// Returns the name that tables print.
    pub fn name(self) -> &'static str {
        match self {
            Invariant::Form => "well-formed",
            Invariant::Proved => "proved",
        }
    }

    /// Runs the verifier's checks of this invariant on a program.
    ///
    /// # Errors
    /// [`tapeloom_ir::Kind::Verify`], with the violated rule.
    pub fn check(self, program: &Program) -> Result<(), Problem> {
        match self {
            Invariant::Form => check_form(program),
            Invariant::Proved => check(program),
        }
    }
}

/// An option of a pass, which a [`Step`] of a pipeline sets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Choice {
    /// No option.
    #[default]
    Plain,
    /// For `index_set_split`: also fully unroll tiny loops inside loops.
    WriteOut,
    /// For `promote_memory`: promote only memory that no other loop accesses.
    Private,
    /// For `vectorize` and `clamp_bounds`: choose few lanes, for a machine without vectors.
    Few,
}

impl Choice {
    /// All options.
    pub const ALL: [Choice; 4] = [Choice::Plain, Choice::WriteOut, Choice::Private, Choice::Few];

    /// Returns the option's name, which is printed after the name of the pass; an empty text for `Plain`.
    pub fn name(self) -> &'static str {
        match self {
            Choice::Plain => "",
            Choice::WriteOut => "write_out",
            Choice::Private => "private",
            Choice::Few => "few",
        }
    }
}

/// A pass at one place of a pipeline, with its option.
#[derive(Debug)]
pub struct Step {
    /// The pass.
    pub pass: &'static Pass,
    /// The option with which the pass runs at this place.
    pub choice: Choice,
    /// The reason why the pass runs at this place.
    pub why_here: &'static str,
}

/// Prints, for example, `promote_memory private`.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pass.name)?;
        match self.choice {
            Choice::Plain => Ok(()),
            Choice::WriteOut | Choice::Private | Choice::Few => {
                write!(f, " {}", self.choice.name())
            }
        }
    }
}

/// An array in the workspace of the entry kernel that `hoist_invariant` fills ahead of loops.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hoisted {
    /// The array.
    pub(crate) buffer: BufferId,
    /// The name of the operation that computes the elements.
    pub(crate) operation: &'static str,
}

/// The report on a loop or contraction with enough work for several threads.
#[derive(Clone, Debug)]
pub struct WorkDivision {
    /// The first line of the statement's text, such as `for i0 in 100000 lanes 8`.
    pub header: String,
    /// The equations that the statement computes, with their lines in the user's source.
    pub origins: Origins,
    /// The number of pieces into which the statement is cut, or the reason why it runs on one thread.
    pub pieces: Result<usize, String>,
}

/// The options that passes read besides the program, and the results that they report.
#[derive(Default)]
pub struct Context {
    /// The cost model of the target.
    pub machine: MachineModel,
    /// The option of the current step.
    pub choice: Choice,
    /// Input of `unroll`: the unroll factors, that of innermost loops first.
    pub factors: Vec<u64>,
    /// Input of `redundant_memory`: whether different arrays may overlap.
    pub overlap: bool,
    /// Output of `hoist_invariant`: the arrays of the entry kernel that hold hoisted values.
    pub(crate) hoisted: Vec<Hoisted>,
    /// Output of `cut_pieces`: the report on the loops with enough work for several threads.
    pub(crate) divisions: Vec<WorkDivision>,
    /// Output of `clamp_bounds`: the number of loads and stores whose index was clamped.
    pub clamped: usize,
    /// Output of [`List::run`](super::List::run): the steps that changed the program.
    pub changed: Vec<&'static Step>,
}
