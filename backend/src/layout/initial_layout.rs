//! The layout before any pass: each saved array and each dynamic tape is a region of its own, with the order in which
//! the reverse pass reads it.
//!
//! The order is derived from the loops. An array is *mirrored* if the forward pass stores each element once, upward,
//! and one step (top-level statement) of the reverse pass reads each element at most once, downward. A store that may
//! be skipped does not count. A load that may be skipped is harmless: an entry of the scratchpad stays unread.

use super::access_order::{Direction, Order, order};
use super::access_sites::{Site, Sites};
use super::phase_boundary::reverse_pass_start;
use super::{Field, Holds, Layout, Read, Region, ScratchpadModel};
use crate::loop_ir::{Buffer, BufferId, Kernel, Place, Program};
use cranelift_entity::PrimaryMap;
use tapeloom_ir::fault::{Fault, planted};

/// The accesses to a saved array: the stores of the forward pass, and the order of the loads of the reverse pass.
pub(super) struct ArrayAccesses {
    pub(super) read: Read,
    /// The number of consecutive elements that the reverse pass reads together, in any order among themselves. The
    /// granule is 1 if elements are read one by one in a fixed order.
    pub(super) granule: u64,
    /// The index of the last step (top-level statement) of the program that loads from the array; `None` if no step
    /// does.
    pub(super) back: Option<usize>,
    /// The indices of the statement blocks (bodies of loops or branches) that store to the array, each once.
    pub(super) blocks: Vec<usize>,
    /// The number of times that the storing block runs; `None` if several blocks store to the array or a trip count
    /// is not static.
    pub(super) iterations: Option<u64>,
}

/// Returns whether a workspace buffer holds values that are saved for the reverse pass. A buffer without elements saves
/// nothing, even if a called kernel lists the buffer among its saved values.
pub(crate) fn is_kept(k: &Kernel, id: BufferId) -> bool {
    let Buffer { ty, place, .. } = &k.buffers[id];
    let kept = || k.kept.keys().any(|h| h.buffer == id);
    matches!(place, Place::Workspace(_)) && ty.shape.elements() > 0 && kept()
}

/// Returns the layout before any pass: one region (an array of records in memory) for each saved array and each dynamic
/// tape.
pub(super) fn layout(program: &Program, model: &ScratchpadModel) -> Layout {
    let (k, sites, reverse_start) =
        (&program.entry, Sites::of(program), reverse_pass_start(program));
    let mut regions = PrimaryMap::new();
    for id in k.buffers.keys().filter(|id| is_kept(k, *id)) {
        let ty = &k.buffers[id].ty;
        let (elements, width) =
            (ty.shape.elements() as u64, model.word.max(ty.dtype.bytes() as u64));
        let found = array_accesses(&sites, reverse_start, id, elements);
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
    /// Returns a region (an array of records) that is not streamed, with records of `width` bytes that the reverse pass
    /// reads in the order `read`.
    pub(super) fn of(holds: Holds, width: u64, read: Read) -> Region {
        Region { holds, width, read, layer: None, tile: None, scratchpad: None }
    }
}

/// Returns the stores of the saved array `id`, which has `elements` elements, and the order in which it is read back.
pub(super) fn array_accesses(
    sites: &Sites,
    reverse_start: Option<usize>,
    id: BufferId,
    elements: u64,
) -> ArrayAccesses {
    let stores: Vec<&Site> = sites.accessing(id).filter(|s| s.write).collect();
    let mut blocks: Vec<usize> = stores.iter().map(|s| s.block).collect();
    blocks.dedup();
    let read = ordered(sites, reverse_start, id, elements).filter(|_| !sites.turned.contains(&id));
    let (read, granule) = read.unwrap_or((Read::Otherwise, 1));
    // The number of times that the block of the stores runs: the product of the trip counts around the block, if only
    // one block stores to the array.
    let iterations = stores.first().filter(|_| blocks.len() == 1).and_then(|s| {
        s.loops.iter().try_fold(1u64, |n, l| n.checked_mul(u64::try_from(l.iterations()?).ok()?))
    });
    let back = sites.accessing(id).filter(|s| !s.write).map(|s| s.step).last();
    ArrayAccesses { read, granule, back, blocks, iterations }
}

fn ordered(
    sites: &Sites,
    reverse_start: Option<usize>,
    id: BufferId,
    elements: u64,
) -> Option<(Read, u64)> {
    let (reverse_start, elements) = (reverse_start?, i64::try_from(elements).ok()?);
    let (stores, once) = accesses(sites, id);
    let one_step = |all: &[&Site]| all.windows(2).all(|s| s[0].step == s[1].step);
    let phases = stores.iter().all(|s| s.step < reverse_start && s.always)
        && once.iter().all(|s| s.step >= reverse_start)
        && one_step(&stores)
        && one_step(&once);
    let (stored, read) = (order(&stores).filter(|_| phases)?, order(&once)?);
    let all = Order {
        direction: Direction::Up,
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
    let read = match read.direction {
        Direction::Down => Read::Mirrored,
        Direction::Up if read.count == 1 || planted(Fault::FifoMirrored) => Read::Mirrored,
        Direction::Up => Read::Same,
    };
    Some((read, u64::try_from(granule).ok()?))
}

/// Returns the sites that store to a buffer, and the sites that load from it. Loads that find their element in a
/// register are left out.
pub(super) fn accesses(sites: &Sites, id: BufferId) -> (Vec<&Site>, Vec<&Site>) {
    let (stores, mut loads): (Vec<&Site>, Vec<&Site>) = sites.accessing(id).partition(|s| s.write);
    // Drop a load of an element that the same iteration has just stored: the stored value is still in a register.
    loads.retain(|load| {
        !stores.iter().any(|s| (s.epoch, &s.address) == (load.epoch, &load.address) && s.always)
    });
    // Keep only the first load of an element in an iteration: later loads find the element in a register.
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

    use crate::layout::{Pipeline, ScratchpadModel};
    use crate::loop_ir::parse;

    #[test]
    fn empty_arrays_get_no_region() {
        let text = "program @x { workspace 64 buffer b0: f64[8] input 0 buffer b1: f64[8] output 0
            buffer b2: f64[8] workspace 0 kept tape buffer b3: f64[3,0] workspace 0 kept tape
            for i0 in 8 { %0: f64 = load b0[i0] store b2[i0], %0 }
            for i1 in 8 { %1: f64 = load b2[i1*-1 + 7] store b1[i1*-1 + 7], %1 } }";
        let program = parse(text, &|_| None).unwrap();
        for pipeline in [Pipeline::AOS, Pipeline::TFLOW] {
            let layout = pipeline.run(&program, &ScratchpadModel::default()).unwrap();
            assert_eq!(layout.regions.len(), 1, "{layout}");
        }
    }
}
