//! The description of a pass: its name, its purpose, and whether it preserves every bit.
//!
//! Each pass has its row (a constant of type [`Pass`]) in its file. [`PASSES`](crate::PASSES) lists these rows, and
//! [pipelines](crate::List) define the order of passes. Outside this crate, passes are called by their rows only. Every
//! pass accepts every function that the verifier accepts.
//!
//! ```
//! use tapeloom_ir::{parse_module, print_function};
//! use tapeloom_transforms::by_name;
//! let mut module = parse_module("func @f(%0: f64[]) -> (f64[]) {
//!   %1: f64[] = exp %0
//!   %2: f64[] = sin %0
//!   return %2
//! }").map_err(|e| e[0].clone())?;
//! let (f, _) = module.iter().last().ok_or("no function")?;
//! let f = by_name("dce")?.apply(&mut module, f)?;
//! assert!(!print_function(&module, f).contains("exp"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::passes::over_regions::over_all_functions;
use crate::passes::simplification::{Simplification, Simplified};
use cranelift_entity::EntityRef;
use std::fmt;
use tapeloom_ir::prim::{Exactness, Regions};
use tapeloom_ir::{FuncId, Module, OrderedSet, Problem, verify};

/// A pass on functions: the result has the same parameters and results, and other equations.
#[derive(Clone, Copy)]
pub struct Pass {
    /// The name of the pass in lists and messages. If compilers have a common term for the pass, that term is the name.
    pub name: &'static str,
    /// The effect of the pass, in one sentence.
    pub about: &'static str,
    /// Whether the results of the program stay equal in every bit, or in real arithmetic only.
    pub exactness: Exactness,
    pub(crate) run: Run,
}

/// A pass as a function from function to function. The first argument gives access to the transforms: a pass that drops
/// a result of a call needs a callee without that result.
pub(crate) type Rewrite = fn(&mut dyn Regions, &mut Module, FuncId) -> Result<FuncId, Problem>;

/// The type of a pass on one function that also returns a report.
pub(crate) type Reporting =
    fn(&mut dyn Regions, &mut Module, FuncId) -> Result<Simplified, Problem>;

/// The way in which a pass reaches the functions that a function runs.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// The pass rewrites one function; the driver applies it to each function, the outermost first.
    Function(Rewrite),
    /// A pass that also returns a report. The reports of all functions are added up.
    Reporting(Reporting),
    /// The pass visits all functions of the program itself, innermost first. For each equation that runs a function, it
    /// uses the facts about the arguments.
    Program(Rewrite),
}

/// The result of a pass.
#[derive(Debug)]
pub(crate) struct Made {
    /// The function that the pass made; the original one if the pass changed nothing.
    pub(crate) function: FuncId,
    /// The sum of the reports on all functions of the program; `None` if the pass is not one that reports.
    pub(crate) report: Option<Simplification>,
}

impl Pass {
    /// Runs the pass on `f` and on all functions that it runs. A debug build verifies every function that the pass
    /// added to the module.
    pub(crate) fn run(
        &self,
        regions: &mut dyn Regions,
        module: &mut Module,
        f: FuncId,
    ) -> Result<Made, Problem> {
        let known = if cfg!(debug_assertions) { module.iter().count() } else { 0 };
        let mut report = None;
        let made = match self.run {
            Run::Function(run) => over_all_functions(regions, module, f, &mut { run })?,
            Run::Reporting(run) => {
                let all = report.insert(Simplification::default());
                over_all_functions(regions, module, f, &mut |regions, module, f| {
                    let Simplified { function, report } = run(regions, module, f)?;
                    all.add(&report);
                    Ok(function)
                })?
            }
            Run::Program(run) => run(regions, module, f)?,
        };
        if cfg!(debug_assertions)
            && made != f
            && let Some(error) = added(module, made, known).find_map(|f| verify(module, f).pop())
        {
            return Err(Problem::internal(format!("`{}` broke the program: {error}", self.name)));
        }
        Ok(Made { function: made, report })
    }
}

/// Iterates over `f` and those functions that it runs, directly or not, that are not among the first `known`
/// functions of the module.
fn added(module: &Module, f: FuncId, known: usize) -> impl Iterator<Item = FuncId> {
    let (mut pending, mut seen) = (vec![f], OrderedSet::default());
    std::iter::from_fn(move || {
        let next = pending.pop()?;
        let new = |inside: &FuncId| inside.index() >= known && seen.insert(*inside);
        pending.extend(module.function(next).equations.iter().flat_map(|e| e.runs()).filter(new));
        Some(next)
    })
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
