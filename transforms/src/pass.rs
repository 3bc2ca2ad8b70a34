//! Passes as data: named, printable, put together in pipelines written as text.
//!
//! ```
//! use tapeloom_transforms::Pipeline;
//! let tidy: Pipeline = "inline, cse, dce".parse()?;
//! assert_eq!(tidy.to_string(), "inline, cse, dce");
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```

use crate::bodies::everywhere;
use std::fmt;
use std::str::FromStr;
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{FuncId, Kind, Module, Problem, verify};

/// A pass: same parameters and results, another program.
#[derive(Clone, Copy)]
pub struct Pass {
    /// Name in pipelines.
    pub name: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// Whether results stay what they are, bit by bit.
    pub exactness: Exactness,
    /// The pass itself.
    pub run: fn(&mut Module, FuncId) -> Result<FuncId, Problem>,
}

/// Every pass.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "inline",
        about: "calls are replaced by bodies",
        exactness: Exactness::Exact,
        run: crate::inline,
    },
    Pass {
        name: "expand",
        about: "calls and functions with custom rules are replaced by bodies",
        exactness: Exactness::Exact,
        run: crate::expand,
    },
    Pass {
        name: "cse",
        about: "equal equations are computed once",
        exactness: Exactness::Exact,
        run: crate::cse,
    },
    Pass {
        name: "dce",
        about: "equations that nobody reads are dropped",
        exactness: Exactness::Exact,
        run: crate::dce,
    },
    Pass {
        name: "peephole",
        about: "exact local rules are applied and constants folded",
        exactness: Exactness::Exact,
        run: crate::peephole,
    },
    Pass {
        name: "simplify",
        about: "the cheapest program that exact rules lead to",
        exactness: Exactness::Exact,
        run: crate::simplify,
    },
    Pass {
        name: "simplify_relaxed",
        about: "the cheapest program that rules of real arithmetic lead to",
        exactness: Exactness::Reassociates,
        run: crate::simplify_relaxed,
    },
];

/// What runs before code generation.
pub const BEFORE_CODE: &str = "expand, cse, dce, peephole, simplify, dce";

/// A sequence of passes.
#[derive(Clone)]
pub struct Pipeline {
    passes: Vec<&'static Pass>,
}

impl Pipeline {
    /// Runs the passes in order, each also on the functions that are called and not inlined;
    /// `watch` sees the function after each. Debug builds verify the
    /// program after each pass and blame the pass by name.
    ///
    /// # Errors
    /// What a pass reports; [`Kind::Internal`] when a pass breaks an invariant.
    pub fn run(
        &self,
        module: &mut Module,
        mut f: FuncId,
        mut watch: impl FnMut(&'static str, &Module, FuncId),
    ) -> Result<FuncId, Problem> {
        for pass in &self.passes {
            f = everywhere(module, f, pass.run)?;
            if cfg!(debug_assertions)
                && let Some(error) = verify(module, f).into_iter().next()
            {
                let message = format!("pass `{}` broke an invariant: {error}", pass.name);
                return Err(Problem::internal(message));
            }
            watch(pass.name, module, f);
        }
        Ok(f)
    }

    /// The passes in the order in which they run.
    pub fn passes(&self) -> impl Iterator<Item = &'static Pass> {
        self.passes.iter().copied()
    }
}

impl FromStr for Pipeline {
    type Err = Problem;
    fn from_str(text: &str) -> Result<Pipeline, Problem> {
        let find = |name: &str| {
            PASSES.iter().find(|p| p.name == name).ok_or_else(|| {
                let known: Vec<&str> = PASSES.iter().map(|p| p.name).collect();
                Problem::new(
                    Kind::Parse,
                    format!("there is no pass `{name}`"),
                    format!("the passes are {}", known.join(", ")),
                )
            })
        };
        let words = text.split(',').map(str::trim).filter(|w| !w.is_empty());
        Ok(Pipeline { passes: words.map(find).collect::<Result<_, _>>()? })
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.passes.iter().map(|p| p.name).collect();
        f.write_str(&names.join(", "))
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
