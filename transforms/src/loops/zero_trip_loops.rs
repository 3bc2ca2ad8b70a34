//! `zero_trip_loops`: replaces a loop without an iteration by its initial values.
//!
//! ```text
//! %1: f64[], %2: f64[0] = loop{body=@f, trip=0, ..} %0        %0, and an array without elements
//! ```
//!
//! So reverse mode saves nothing for the loop.

use super::region_rewriter::{RegionSite, Replacement, Rewrite, inside_out};
use crate::passes::pass::{Pass, Run};
use tapeloom_ir::prim::{Exactness, TripCount, instantiate};

/// The entry of the pass `zero_trip_loops` in the list `PASSES`.
pub(crate) const PASS: Pass = Pass {
    name: "zero_trip_loops",
    about: "loops with the trip count 0 are replaced by their initial carries",
    exactness: Exactness::Exact,
    run: Run::Program(|_, module, f| inside_out(module, f, Rewrite::Loops(first))),
};

fn first(site: &RegionSite<'_>) -> Replacement {
    let at = site.looped().filter(|at| at.spec.trip == TripCount::Static(0));
    Ok(at.map(|at| {
        let results = at.body.result_types().into_iter().enumerate();
        let first = |r: usize| at.operand(at.spec.carrier(r)?).map(|k| at.operands[k]);
        results.map(|(r, ty)| instantiate(site.b, first(r), &at.spec.output(r, &ty))).collect()
    }))
}
