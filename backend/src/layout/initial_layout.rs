//! What a program keeps, as it is before any pass: each array and each tape by itself, and how the way back
//! reads it.
//!
//! That is read off the loops: an array is *mirrored* if the forward pass stores each element once, upward, and
//! one step of the way back reads each at most once, downward. What may not happen is no store; a read that
//! may not happen leaves an entry of the scratchpad unread, and that is all.

use super::access_order::{Order, Way, order};
use super::access_sites::{Site, Sites};
use super::phase_boundary::turn;
use super::{Field, Holds, Layout, Read, Region, Room};
use crate::loop_ir::{Buffer, BufferId, Kernel, Place, Program};
use cranelift_entity::PrimaryMap;
use tapeloom_ir::fault::{Fault, planted};

/// A kept array.
pub(super) struct Found {
    pub(super) read: Read,
    /// Elements that are read together, in any order among themselves.
    pub(super) granule: u64,
    /// The step that reads it, if it is one,
    pub(super) back: Option<usize>,
    /// the blocks that store it, and how often all of them run.
    pub(super) blocks: Vec<usize>,
    pub(super) iterations: Option<u64>,
}

/// Whether a buffer is kept, and lies nowhere else. What a call gives may have no elements, and nothing of it is kept.
pub(crate) fn is_kept(k: &Kernel, id: BufferId) -> bool {
    let Buffer { ty, place, .. } = &k.buffers[id];
    let kept = || k.kept.keys().any(|h| h.buffer == id);
    matches!(place, Place::Workspace(_)) && ty.shape.elements() > 0 && kept()
}

/// The layout of a program to begin with.
pub(super) fn layout(program: &Program, room: &Room) -> Layout {
    let (k, sites, turn) = (&program.entry, Sites::of(program), turn(program));
    let mut regions = PrimaryMap::new();
    for id in k.buffers.keys().filter(|id| is_kept(k, *id)) {
        let ty = &k.buffers[id].ty;
        let (elements, width) =
            (ty.shape.elements() as u64, room.word.max(ty.dtype.bytes() as u64));
        let found = found(&sites, turn, id, elements);
        let together = found.granule;
        let field = Field { buffer: id, at: 0, elements: together, width };
        let holds = Holds::Arrays { fields: vec![field], records: elements / together.max(1) };
        regions.push(Region::of(holds, together * width, found.read));
    }
    for (tape, about) in &program.tapes {
        regions.push(Region::of(Holds::Tape(tape), about.record as u64, Read::Run));
    }
    Layout { name: k.name.clone(), regions, inputs: PrimaryMap::new() }
}

impl Region {
    /// One that nobody streams yet.
    pub(super) fn of(holds: Holds, width: u64, read: Read) -> Region {
        Region { holds, width, read, layer: None, tile: None, scratchpad: None }
    }
}

/// How an array is stored and read back.
pub(super) fn found(sites: &Sites, turn: Option<usize>, id: BufferId, elements: u64) -> Found {
    let stores: Vec<&Site> = sites.touching(id).filter(|s| s.write).collect();
    let mut blocks: Vec<usize> = stores.iter().map(|s| s.block).collect();
    blocks.dedup();
    let read = ordered(sites, turn, id, elements).filter(|_| !sites.turned.contains(&id));
    let (read, granule) = read.unwrap_or((Read::Otherwise, 1));
    // How often one block runs.
    let iterations = stores.first().filter(|_| blocks.len() == 1).and_then(|s| {
        s.loops.iter().try_fold(1u64, |n, l| n.checked_mul(u64::try_from(l.iterations()?).ok()?))
    });
    let back = sites.touching(id).filter(|s| !s.write).map(|s| s.step).last();
    Found { read, granule, back, blocks, iterations }
}

fn ordered(sites: &Sites, turn: Option<usize>, id: BufferId, elements: u64) -> Option<(Read, u64)> {
    let (turn, elements) = (turn?, i64::try_from(elements).ok()?);
    let (stores, once) = accesses(sites, id);
    let one_step = |all: &[&Site]| all.windows(2).all(|s| s[0].step == s[1].step);
    let phases = stores.iter().all(|s| s.step < turn && s.always)
        && once.iter().all(|s| s.step >= turn)
        && one_step(&stores)
        && one_step(&once);
    let (stored, read) = (order(&stores).filter(|_| phases)?, order(&once)?);
    let all = Order {
        way: Way::Up,
        granule: stored.granule,
        least: 0,
        most: elements - 1,
        count: elements,
    };
    let granule = stored.granule.max(read.granule);
    let nested = granule % stored.granule == 0 && granule % read.granule == 0;
    if stored != all || !nested || elements % granule != 0 {
        return None;
    }
    let read = match read.way {
        Way::Down => Read::Mirrored,
        Way::Up if read.count == 1 || planted(Fault::FifoMirrored) => Read::Mirrored,
        Way::Up => Read::Same,
    };
    Some((read, u64::try_from(granule).ok()?))
}

/// The stores of a buffer, and the loads that come to memory.
pub(super) fn accesses(sites: &Sites, id: BufferId) -> (Vec<&Site>, Vec<&Site>) {
    let (stores, mut loads): (Vec<&Site>, Vec<&Site>) = sites.touching(id).partition(|s| s.write);
    // What an iteration reads of what it has just stored is in registers.
    loads.retain(|load| {
        !stores.iter().any(|s| (s.epoch, &s.address) == (load.epoch, &load.address) && s.always)
    });
    // What it reads twice it reads once.
    let mut once: Vec<&Site> = Vec::new();
    for load in loads {
        if !once.iter().any(|s| (s.epoch, &s.address) == (load.epoch, &load.address)) {
            once.push(load);
        }
    }
    (stores, once)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crate::layout::{Pipeline, Room};
    use crate::loop_ir::parse;

    #[test]
    fn what_has_no_elements_is_not_kept() {
        let text = "program @x { workspace 64 buffer b0: f64[8] input 0 buffer b1: f64[8] output 0
            buffer b2: f64[8] workspace 0 kept tape buffer b3: f64[3,0] workspace 0 kept tape
            for i0 in 8 { %0: f64 = load b0[i0] store b2[i0], %0 }
            for i1 in 8 { %1: f64 = load b2[i1*-1 + 7] store b1[i1*-1 + 7], %1 } }";
        let program = parse(text, &|_| None).unwrap();
        for pipeline in [Pipeline::AOS, Pipeline::TFLOW] {
            let layout = pipeline.run(&program, &Room::default()).unwrap();
            assert_eq!(layout.regions.len(), 1, "{layout}");
        }
    }
}
