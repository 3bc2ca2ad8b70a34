//! Passes as data: named, printable, put together in pipelines written as text.
//!
//! ```
//! use tapeloom_transforms::Pipeline;
//! let tidy: Pipeline = "inline, cse, dce".parse()?;
//! assert_eq!(tidy.to_string(), "inline, cse, dce");
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```

use crate::passes::over_regions::everywhere;
use std::fmt;
use std::str::FromStr;
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{FuncId, Kind, Module, Problem, fingerprint, verify};

/// A pass: same parameters and results, another program.
#[derive(Clone, Copy)]
pub struct Pass {
    /// Name in pipelines.
    pub name: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// Whether results stay what they are, bit by bit.
    pub exactness: Exactness,
    /// Whether it goes into the functions that are run by itself; otherwise it sees one at a time.
    pub nested: bool,
    /// The pass itself.
    pub run: fn(&mut Module, FuncId) -> Result<FuncId, Problem>,
}

/// Every pass.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "inline",
        about: "calls are replaced by bodies",
        exactness: Exactness::Exact,
        nested: false,
        run: crate::inline,
    },
    Pass {
        name: "expand",
        about: "calls and functions with custom rules are replaced by bodies",
        exactness: Exactness::Exact,
        nested: false,
        run: crate::expand,
    },
    Pass {
        name: "cse",
        about: "equal equations are computed once",
        exactness: Exactness::Exact,
        nested: false,
        run: crate::cse,
    },
    Pass {
        name: "dce",
        about: "equations that nobody reads are dropped",
        exactness: Exactness::Exact,
        nested: false,
        run: crate::dce,
    },
    Pass {
        name: "peephole",
        about: "exact local rules are applied and constants folded",
        exactness: Exactness::Exact,
        nested: false,
        run: crate::peephole,
    },
    Pass {
        name: "ranges",
        about: "integers that can only be one thing are that, and loops of no iterations are what they begin with",
        exactness: Exactness::Exact,
        nested: true,
        run: crate::ranges,
    },
    Pass {
        name: "windows",
        about: "loops carry what they write of arrays, and not the arrays",
        exactness: Exactness::Exact,
        nested: true,
        run: crate::windows,
    },
    Pass {
        name: "rows",
        about: "loops that make each row of an array from those before it carry rows",
        exactness: Exactness::Exact,
        nested: true,
        run: crate::rows,
    },
    Pass {
        name: "last_rows",
        about: "loops carry rows of arrays of which the last row is all that is read",
        exactness: Exactness::Exact,
        nested: true,
        run: crate::last_rows,
    },
    Pass {
        name: "simplify",
        about: "the cheapest program that exact rules lead to",
        exactness: Exactness::Exact,
        nested: false,
        run: crate::simplify,
    },
    Pass {
        name: "simplify_relaxed",
        about: "the cheapest program that rules of real arithmetic lead to",
        exactness: Exactness::Reassociates,
        nested: false,
        run: crate::simplify_relaxed,
    },
];

/// What runs before code generation.
pub const BEFORE_CODE: &str =
    "expand, cse, dce, ranges, windows, last_rows, peephole, simplify, dce";

/// The same, where sums may be taken in another order.
pub const BEFORE_RELAXED_CODE: &str =
    "expand, cse, dce, ranges, windows, last_rows, peephole, simplify_relaxed, dce";

/// What runs before the simulated accelerator, where loops are run as they are written.
pub const BEFORE_ACCELERATOR: &str = "expand, cse, dce, ranges, peephole, simplify, dce";

/// A sequence of passes.
#[derive(Clone)]
pub struct Pipeline {
    passes: Vec<&'static Pass>,
}

impl Pipeline {
    /// Runs the passes in order, each also on the functions that are called and not inlined;
    /// `observe` sees the function after each. Debug builds verify the
    /// program after each pass and blame the pass by name.
    ///
    /// # Errors
    /// What a pass reports; [`Kind::Internal`] when a pass breaks an invariant.
    pub fn run(
        &self,
        module: &mut Module,
        mut f: FuncId,
        mut observe: impl FnMut(&'static str, &Module, FuncId),
    ) -> Result<FuncId, Problem> {
        let traced = f;
        for pass in &self.passes {
            f = match pass.nested {
                true => (pass.run)(module, f)?,
                false => everywhere(module, f, pass.run)?,
            };
            if cfg!(debug_assertions)
                && let Some(error) = verify(module, f).into_iter().next()
            {
                let message = format!("pass `{}` broke an invariant: {error}", pass.name);
                return Err(Problem::internal(message));
            }
            observe(pass.name, module, f);
        }
        let of = |f| fingerprint::function(module, f);
        fingerprint::tell("passes", || of(traced), || of(f));
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
