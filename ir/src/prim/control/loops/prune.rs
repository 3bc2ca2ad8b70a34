//! Prunes a loop to the outputs that are read. A stacked result that is not read is removed. A carry that is not read
//! is removed if no remaining value depends on it.

use super::{Binding, Loop, TripCount};
use crate::lang::function::FuncId;
use crate::lang::module::Module;
use crate::lang::problem::Problem;
use crate::prim::{Prune, Regions};

pub(super) fn prune(
    of: &Loop,
    regions: &mut dyn Regions,
    module: &mut Module,
    used: &[bool],
) -> Result<Prune, Problem> {
    let spec = &of.spec;
    let mut asked = vec![false; spec.takes.len()];
    let mut trip = spec.trip.clone();
    if let TripCount::While { condition, reads } = &mut trip {
        // If the condition takes a parameter without reading it, drop that parameter from the condition.
        let part = regions.prune(module, *condition, &[true], &vec![false; reads.len()])?;
        *condition = part.function;
        let mut read = part.params.iter();
        reads.retain(|_| read.next() == Some(&true));
        reads.iter().for_each(|p| asked[*p] = true);
    }
    let results = module.function(of.body).results.len();
    let IterationSlice { function, mut needed, read } =
        IterationSlice::of(of, regions, module, used[..results].to_vec(), asked)?;
    if !needed.contains(&false) && !read.contains(&false) {
        return Ok(Prune::Whole);
    }
    let rank = |mask: &[bool], i: usize| mask[..i].iter().filter(|on| **on).count();
    let mut op = Loop { body: function, ..of.clone() };
    op.spec.trip = trip;
    let takes = spec.takes.iter().zip(&read).filter(|(_, on)| **on);
    op.spec.takes = takes
        .map(|(slot, _)| match *slot {
            Binding::Carry(r) => Binding::Carry(rank(&needed, r)),
            Binding::Index | Binding::Const | Binding::Xs => *slot,
        })
        .collect();
    if let TripCount::While { reads, .. } = &mut op.spec.trip {
        reads.iter_mut().for_each(|p| *p = rank(&read, *p));
    }
    let lead = (0..spec.lead()).map(|_| true);
    let operands = lead.chain(spec.params().map(|p| read[p])).collect();
    needed.extend((0..of.trips()).map(|_| true));
    Ok(Prune::Smaller { op: op.into(), operands, outputs: needed })
}

/// The part of an iteration that computes some results, and the carries that these results need from earlier
/// iterations.
pub(super) struct IterationSlice {
    /// The function of the part; its parameters are those marked in `read`.
    pub(super) function: FuncId,
    /// Per result: whether the part computes it, because it is wanted or is carried to a parameter that is read.
    pub(super) needed: Vec<bool>,
    /// Per parameter: whether the part or the loop's condition reads it.
    pub(super) read: Vec<bool>,
}

impl IterationSlice {
    pub(super) fn of(
        of: &Loop,
        regions: &mut dyn Regions,
        module: &mut Module,
        mut needed: Vec<bool>,
        mut read: Vec<bool>,
    ) -> Result<IterationSlice, Problem> {
        // If an iteration reads a carry, the preceding iteration must compute it; repeat until no more results
        // are needed.
        loop {
            for (p, slot) in of.spec.takes.iter().enumerate() {
                if let Binding::Carry(r) = slot {
                    needed[*r] |= read[p];
                    read[p] |= needed[*r];
                }
            }
            let part = regions.prune(module, of.body, &needed, &read)?;
            if part.params == read {
                return Ok(IterationSlice { function: part.function, needed, read });
            }
            read = part.params;
        }
    }
}
