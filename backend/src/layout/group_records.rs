//! Groups arrays into records (array of structures): arrays that the same blocks fill become one array of records.
//!
//! ```text
//! for i0 in 8 {                      b2  0 1 2 3 4 5 6 7         r0  b2 b3, b2 b3, b2 b3, ..
//!   store b2[i0], %1                 b3  0 1 2 3 4 5 6 7
//!   store b3[i0], %2
//! }
//! ```
//!
//! A record holds the elements that one iteration of a block stores, so a record may hold several elements of an array.
//! Fields are sorted by decreasing element size, so that each field is aligned, and the record is padded to whole
//! entries of 8 bytes. Two arrays stay apart if the reverse pass reads them in different orders or in different
//! top-level statements, because one stream reads all its arrays in one order. They also stay apart if an iteration
//! reads several elements of one array before it reads the other array: each array is then read in order, but the
//! records are not. Grouping arrays into records is the first pass of the TapeFlow paper.

use super::access_order::{Direction, accesses_records_in_order};
use super::access_sites::{Site, Sites};
use super::initial_layout::{ArrayAccesses, accesses, array_accesses};
use super::phase_boundary::reverse_pass_start;
use super::{Field, Holds, Layout, Read, Region, ScratchpadModel};
use crate::loop_ir::Program;
use cranelift_entity::PrimaryMap;
use tapeloom_ir::fault::{Fault, planted};

/// Runs the pass `records`: returns the layout with arrays grouped into records.
pub(super) fn records(program: &Program, mut layout: Layout, _: &ScratchpadModel) -> Layout {
    let (sites, reverse_start) = (Sites::of(program), reverse_pass_start(program));
    let mut all: Vec<(Region, Option<ArrayAccesses>)> = Vec::new();
    for region in std::mem::take(&mut layout.regions).into_iter().map(|(_, region)| region) {
        let Holds::Arrays { fields, records } = &region.holds else {
            all.push((region, None));
            continue;
        };
        let [Field { buffer, elements, width, .. }] = fields[..] else {
            all.push((region, None));
            continue;
        };
        let count = elements * records;
        let found = array_accesses(&sites, reverse_start, buffer, count);
        // The number of elements of the array in a record (one iteration's saved values): the elements that an
        // iteration stores, if their number is a multiple of the granule (the elements that the reverse pass reads
        // together). Otherwise a record has one granule.
        let iteration = found.iterations.filter(|n| count % n == 0).map(|n| count / n);
        let elements = iteration.filter(|n| n % found.granule == 0).unwrap_or(found.granule);
        let field = Field { buffer, at: 0, elements, width };
        let holds = Holds::Arrays { fields: vec![field], records: count / elements };
        let alone = Region::of(holds, elements * width, found.read);
        let with = all.iter_mut().find(|(other, about)| {
            let alike =
                about.as_ref().is_some_and(|a| (&a.blocks, a.back) == (&found.blocks, found.back));
            alike && joins(other, &alone)
        });
        match with {
            Some((region, _)) => join(region, alone),
            None => all.push((alone, Some(found))),
        }
    }
    let padded = |mut region: Region| {
        if let Holds::Arrays { fields, .. } = &mut region.holds {
            fields.sort_by_key(|f| std::cmp::Reverse(f.width));
            let mut at = 0;
            for field in fields.iter_mut() {
                field.at = at;
                at += field.elements * field.width;
            }
            region.width = at.next_multiple_of(8);
        }
        region
    };
    let apart = all.into_iter().flat_map(|(region, _)| together(&sites, region));
    layout.regions = apart.map(padded).collect::<PrimaryMap<_, _>>();
    layout
}

fn joins(a: &Region, b: &Region) -> bool {
    a.read == b.read && a.records().is_some() && a.records() == b.records()
}

/// Returns the region (an array of records) unchanged if its records are read through the cache, or if they can be
/// streamed: the forward pass writes record after record, and the reverse pass reads them in the direction
/// `region.read`. Otherwise splits the region into one region for each of its arrays.
fn together(sites: &Sites, region: Region) -> Vec<Region> {
    let Holds::Arrays { fields, records } = &region.holds else { return vec![region] };
    if fields.len() < 2 || in_order(sites, fields, region.read) || planted(Fault::RecordsMixed) {
        return vec![region];
    }
    let alone = |field: &Field| {
        let holds = Holds::Arrays { fields: vec![field.clone()], records: *records };
        Region::of(holds, field.elements * field.width, region.read)
    };
    fields.iter().map(alone).collect()
}

fn in_order(sites: &Sites, fields: &[Field], read: Read) -> bool {
    let back = match read {
        Read::Mirrored => Direction::Down,
        Read::Same => Direction::Up,
        // The records are read through the cache, not streamed, so any order of accesses is allowed.
        Read::Otherwise | Read::Run => return true,
    };
    // Returns the stores (`write`) or the loads of the arrays of all fields, in program order, each with the number of
    // elements that a record has of its array.
    let sites = |write: bool| {
        let of = |field: &Field| {
            let (stored, loaded) = accesses(sites, field.buffer);
            let per = field.elements as i64;
            (if write { stored } else { loaded }).into_iter().map(move |site| (site, per))
        };
        let mut all: Vec<(&Site, i64)> = fields.iter().flat_map(of).collect();
        all.sort_by_key(|(site, _)| site.number);
        all
    };
    accesses_records_in_order(&sites(true), Direction::Up)
        && accesses_records_in_order(&sites(false), back)
}

fn join(a: &mut Region, b: Region) {
    if let (Holds::Arrays { fields, .. }, Holds::Arrays { fields: more, .. }) =
        (&mut a.holds, b.holds)
    {
        fields.extend(more);
    }
}
