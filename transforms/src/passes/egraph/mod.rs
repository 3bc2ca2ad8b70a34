//! Simplification by equality saturation: applies all rewrites, then chooses the cheapest program.
//!
//! A rewrite may pay off only after another one that makes the program more expensive. For example, `a·b + a·c` saves a
//! product only if `a·b` has not been rewritten before. So rules do not replace terms; they *add* equal terms to an
//! e-graph, which stores all of them compactly. The choice is made at the end, by cost (see [`Cost`]: arithmetic, and
//! memory traffic between loop nests).
//!
//! | file | |
//! |---|---|
//! | `rules` | the rows of [`tapeloom_ir::Op::rewrites`], compiled; matching and building. `peephole` uses them, too |
//! | `regions` | cutting a function into regions, and the e-graph of each |
//! | `graph` | the e-graph over the IR's own primitives; types and constants of classes |
//! | `saturate` | applying rules within limits of nodes and iterations |
//! | `extract` | choosing a node for every class, shared terms counted once |
//!
//! A function is cut into regions of at most about a thousand equations in program order; a value that crosses
//! regions is a root of one and a leaf of others. Equations with effects do not move, and no rule looks through
//! them: regions end there. In relaxed mode, a contraction whose readers are all in a later region first moves to its
//! first reader, if this keeps no more bytes in memory: otherwise a barrier would separate it from the sum of its
//! elements, for instance. A region whose result is not strictly cheaper stays unchanged, so by this cost
//! simplification never makes a program worse. Programs with more than [`Options::largest`] equations are left
//! to the pass `peephole`, which takes linear time.
//!
//! E-graphs are those of the crate egg, which the feature `relaxed` brings. Without it, `without_egraphs` stands in the
//! place of `regions`, and simplification is an error that names the feature.
//!
#![cfg_attr(feature = "relaxed", doc = "```")]
#![cfg_attr(not(feature = "relaxed"), doc = "```no_run")]
//! use tapeloom_ir::parse_module;
//! use tapeloom_transforms::{SimplifyOptions, simplify_with};
//! let mut module = parse_module("func @f(%a: f64[], %b: f64[], %c: f64[]) -> (f64[]) {
//!   %x: f64[] = mul %a, %b
//!   %y: f64[] = mul %c, %a
//!   %z: f64[] = add %x, %y
//!   return %z
//! }").map_err(|e| e[0].clone())?;
//! let f = module.iter().next().map(|(id, _)| id).ok_or("no function")?;
//! let exact = simplify_with(&mut module, f, &SimplifyOptions::default())?;
//! assert_eq!(exact.function, f);
//! let relaxed = SimplifyOptions { relaxed: true, ..SimplifyOptions::default() };
//! let factored = simplify_with(&mut module, f, &relaxed)?;
//! assert_eq!(module.function(factored.function).equations.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Model: Willsey et al., "egg: Fast and extensible equality saturation" (POPL 2021); Yang et al.,
//! "Equality saturation for tensor graph superoptimization" (MLSys 2021).

#[cfg(feature = "relaxed")]
mod extract;
#[cfg(feature = "relaxed")]
mod graph;
#[cfg(feature = "relaxed")]
mod regions;
pub(crate) mod rules;
#[cfg(feature = "relaxed")]
mod saturate;
#[cfg(not(feature = "relaxed"))]
mod without_egraphs;

use crate::passes::cost::Cost;
use crate::passes::live_equations::sweep;
use crate::passes::pass::{Pass, Run};
use crate::passes::simplification::{Simplification, Simplified};
use tapeloom_ir::prim::{Exactness, Regions};
use tapeloom_ir::{FuncId, Module, Problem};
#[cfg(not(feature = "relaxed"))]
use without_egraphs as regions;

/// The options and limits of simplification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Whether to use rules that are equalities of real numbers only. If so, results may differ by rounding.
    pub relaxed: bool,
    /// The largest number of equations of one region, the part of a function that has an e-graph of its own.
    pub region: usize,
    /// The largest number of nodes of a region's e-graph, per equation of the region.
    pub growth: usize,
    /// The largest number of equations of a function that is simplified; larger functions stay unchanged.
    pub largest: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { relaxed: false, region: 1000, growth: 6, largest: 50_000 }
    }
}

/// The entry of the pass `simplify` in the list `PASSES`.
pub(crate) const PASS: Pass = Pass {
    name: "simplify",
    about: "equality saturation with exact rules; the cheapest program is extracted",
    exactness: Exactness::Exact,
    run: Run::Reporting(|bodies, module, f| simplify_with(bodies, module, f, &Options::default())),
};

/// The variant of [`PASS`] that also uses rules of real arithmetic, so that results may differ by rounding.
pub(crate) const RELAXED: Pass = Pass {
    name: "simplify_relaxed",
    about: "equality saturation with rules of real arithmetic; the cheapest program is extracted",
    exactness: Exactness::Reassociates,
    run: Run::Reporting(|bodies, module, f| {
        let options = Options { relaxed: true, ..Options::default() };
        simplify_with(bodies, module, f, &options)
    }),
};

/// Simplifies function `id` by equality saturation; returns the cheaper function, or `id` itself, and a report.
pub(crate) fn simplify_with(
    bodies: &mut dyn Regions,
    module: &mut Module,
    id: FuncId,
    options: &Options,
) -> Result<Simplified, Problem> {
    let f = module.get(id);
    let before = Cost::of(module, &f);
    let mut report = Simplification { before, after: before, ..Simplification::default() };
    if f.equations.len() > options.largest {
        return Ok(Simplified { function: id, report });
    }
    let better = regions::cheaper(module, &f, options, &mut report)?;
    let better = sweep(bodies, module, better)?;
    let after = Cost::of(module, &better);
    // Each region was made cheaper on its own. Keep the new function only if it is cheaper as a whole, too.
    if report.regions.1 == 0 || after.total() >= before.total() {
        return Ok(Simplified { function: id, report });
    }
    report.after = after;
    Ok(Simplified { function: module.add(better)?, report })
}
