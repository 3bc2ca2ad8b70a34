//! The description of a pass: its name, its purpose, and whether it preserves every bit.
//!
//! Each pass has its row in its file. [`PASSES`](crate::PASSES) lists them, and [pipelines](crate::List) define
//! their order. Outside this crate, passes are called by their rows only. Every pass accepts every function
//! that the verifier accepts.
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

/// The way in which a pass reaches the functions that a function runs.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// The pass rewrites one function; the driver applies it to each function, the outermost first.
    Function(Rewrite),
    /// The pass visits all functions of the program itself, innermost first. For each equation that runs a function, it
    /// uses the facts about the arguments.
    Program(Rewrite),
}

impl Pass {
    /// Runs the pass on `f` and on all functions that it runs. A debug build verifies every function that the pass
    /// added to the module.
    pub(crate) fn run(
        &self,
        regions: &mut dyn Regions,
        module: &mut Module,
        f: FuncId,
    ) -> Result<FuncId, Problem> {
        let known = if cfg!(debug_assertions) { module.iter().count() } else { 0 };
        let made = match self.run {
            Run::Function(run) => over_all_functions(regions, module, f, run)?,
            Run::Program(run) => run(regions, module, f)?,
        };
        if cfg!(debug_assertions)
            && made != f
            && let Some(error) = added(module, made, known).find_map(|f| verify(module, f).pop())
        {
            return Err(Problem::internal(format!("`{}` broke the program: {error}", self.name)));
        }
        Ok(made)
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
