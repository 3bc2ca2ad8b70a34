//! A loop of which only some outputs are read: stacks that nobody reads go, and carries that nobody
//! reads and that nothing follows from.

use super::{Loop, Slot, Trip};
use crate::module::Module;
use crate::prim::{Prune, Regions};
use crate::problem::Problem;

pub(super) fn prune(
    of: &Loop,
    regions: &mut dyn Regions,
    module: &mut Module,
    used: &[bool],
) -> Result<Prune, Problem> {
    let rounds = &of.rounds;
    let results = module.function(of.body).results.len();
    let mut asked = vec![false; rounds.takes.len()];
    if let Trip::While { reads, .. } = &rounds.trip {
        reads.iter().for_each(|p| asked[*p] = true);
    }
    // What a round reads of a carry, the round before must give.
    let mut needed = used[..results].to_vec();
    let mut read = asked.clone();
    loop {
        for (p, slot) in rounds.takes.iter().enumerate() {
            if let Slot::Carry(r) = slot {
                needed[*r] |= read[p];
                read[p] |= needed[*r];
            }
        }
        let part = regions.prune(module, of.body, &needed, &read)?;
        if part.params != read {
            read = part.params;
            continue;
        }
        if !needed.contains(&false) && !read.contains(&false) {
            return Ok(Prune::Whole);
        }
        let rank = |mask: &[bool], i: usize| mask[..i].iter().filter(|on| **on).count();
        let mut op = Loop { body: part.function, rounds: rounds.clone() };
        let takes = rounds.takes.iter().zip(&read).filter(|(_, on)| **on);
        op.rounds.takes = takes
            .map(|(slot, _)| match *slot {
                Slot::Carry(r) => Slot::Carry(rank(&needed, r)),
                Slot::Index | Slot::Const | Slot::Xs => *slot,
            })
            .collect();
        if let Trip::While { reads, .. } = &mut op.rounds.trip {
            reads.iter_mut().for_each(|p| *p = rank(&read, *p));
        }
        let lead = (0..rounds.lead()).map(|_| true);
        let operands = lead.chain(rounds.params().map(|p| read[p])).collect();
        needed.extend((0..of.trips()).map(|_| true));
        return Ok(Prune::Smaller { op: op.into(), operands, outputs: needed });
    }
}
