//! Records: arrays that the same blocks fill become one array of records.
//!
//! ```text
//! for i0 in 8 {                      b2  0 1 2 3 4 5 6 7         r0  b2 b3, b2 b3, b2 b3, ..
//!   store b2[i0], %1                 b3  0 1 2 3 4 5 6 7
//!   store b3[i0], %2
//! }
//! ```
//!
//! A record is what one round of a block stores, so an array may have several elements of it. Fields stand
//! in the order of their sizes, so that each is where its size divides, and the record is padded to whole
//! entries of 8 bytes. Arrays that the way back reads in different orders or steps stay apart: only alike can be
//! streamed together. The first pass of the paper.

use super::found::{Found, found};
use super::sites::Sites;
use super::turn::turn;
use super::{Field, Holds, Layout, Region, Room};
use crate::kernel::Program;
use cranelift_entity::PrimaryMap;

/// The pass.
pub(super) fn records(program: &Program, mut layout: Layout, _: &Room) -> Layout {
    let (sites, turn) = (Sites::of(program), turn(program));
    let mut all: Vec<(Region, Option<Found>)> = Vec::new();
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
        let found = found(&sites, turn, buffer, count);
        // What a block stores in one round, if granules are not larger.
        let round = found.rounds.filter(|n| count % n == 0).map(|n| count / n);
        let elements = round.filter(|n| n % found.granule == 0).unwrap_or(found.granule);
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
    let padded = |(mut region, _): (Region, _)| {
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
    layout.regions = all.into_iter().map(padded).collect::<PrimaryMap<_, _>>();
    layout
}

fn joins(a: &Region, b: &Region) -> bool {
    a.read == b.read && a.records().is_some() && a.records() == b.records()
}

fn join(a: &mut Region, b: Region) {
    if let (Holds::Arrays { fields, .. }, Holds::Arrays { fields: more, .. }) =
        (&mut a.holds, b.holds)
    {
        fields.extend(more);
    }
}
