//! Finds the order in which a step accesses the elements of an array.
//!
//! Loops whose strides grow from the inner to the outer loop access the elements one after the other, upward or
//! downward. Other loops may still access *granules* in order: for example the three components of each point in any
//! order, but point after point.
//!
//! ```text
//! b0[64 i0 + 8 i1 + i2]        up                  b0[3 i0], b0[3 i0 + 1]    up
//! b0[99 - i0]                  down                b0[3 i0 + 1], b0[3 i0]    up, in granules of 3
//! b0[i0 + 8 i1]                none                b0[0], b0[i0 + 1]         up (an iteration before the others)
//! ```

use super::access_sites::Site;
use super::affine::{Loop, range};
use crate::loop_ir::IndexId;
use tapeloom_ir::analysis::affine::Affine;
use tapeloom_ir::analysis::interval::Interval;
use tapeloom_ir::fault::{Fault, planted};

/// A direction through memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Up,
    Down,
}

/// The order in which some sites access the elements from `least` to `most`, each once, in granules of
/// `granule` elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Order {
    pub(super) way: Way,
    pub(super) granule: i64,
    pub(super) least: i64,
    pub(super) most: i64,
    /// The number of elements that are accessed.
    pub(super) count: i64,
}

/// Returns the order in which the sites of one step access the elements of an array; `None` if the elements are not
/// accessed in order, or some of them possibly twice.
pub(super) fn order(sites: &[&Site]) -> Option<Order> {
    let of = |site: &&Site| Some((site.loops.clone(), site.address.clone()?));
    let met = met(&sites.iter().map(of).collect::<Option<Vec<_>>>()?)?;
    let way = match met.way {
        Met::One | Met::Way(Way::Up) => Way::Up,
        Met::Way(Way::Down) => Way::Down,
        Met::Mixed => return None,
    };
    let Span { granule, least, most, count, .. } = met;
    Some(Order { way, granule, least, most, count })
}

/// Whether the sites of one step access records in the order `way`. Each site comes with the number of elements of its
/// array in one record. A record may be accessed several times if no other record is accessed in between.
///
/// ```text
/// b0[2 i0], b1[2 i0], b0[2 i0 + 1], b1[2 i0 + 1]    up, in records of one element each
/// b0[2 i0], b0[2 i0 + 1], b1[2 i0], b1[2 i0 + 1]    not in order; but up in records of two
/// ```
pub(super) fn come_by_records(sites: &[(&Site, i64)], way: Way) -> bool {
    let of = |(site, per): &(&Site, i64)| Some((site.loops.clone(), site.address.clone()?, *per));
    let found = sites.iter().map(of).collect::<Option<Vec<_>>>().and_then(|sites| passed(&sites));
    found.is_some_and(|found| found.way.fits(way))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Met {
    /// A single element or record.
    One,
    Way(Way),
    /// No order is known.
    Mixed,
}

impl Met {
    /// Whether these accesses may be a part of an access in the order `way`.
    fn fits(self, way: Way) -> bool {
        self == Met::One || self == Met::Way(way)
    }
}

/// The range of elements that some iterations access, and their order.
#[derive(Clone, Copy)]
struct Span {
    way: Met,
    granule: i64,
    least: i64,
    most: i64,
    count: i64,
}

fn met(sites: &[(Vec<Loop>, Affine<IndexId>)]) -> Option<Span> {
    let head = |site: &(Vec<Loop>, Affine<IndexId>)| site.0.first().map(|l| l.index);
    let parts: Vec<&[(Vec<Loop>, Affine<IndexId>)]> =
        sites.chunk_by(|a, b| head(a).is_some() && head(a) == head(b)).collect();
    let mut spans = parts.into_iter().map(part).collect::<Option<Vec<Span>>>()?.into_iter();
    let mut all = spans.next()?;
    for next in spans {
        let way = match (next.least > all.most, next.most < all.least) {
            (true, _) => Way::Up,
            (_, true) => Way::Down,
            // The ranges overlap. Each element is accessed once only if the sites interleave, which is not analysed.
            (false, false) => return None,
        };
        let fits = all.way.fits(way) && next.way.fits(way);
        all = Span {
            way: if fits { Met::Way(way) } else { Met::Mixed },
            granule: all.granule.max(next.granule),
            least: all.least.min(next.least),
            most: all.most.max(next.most),
            count: all.count.checked_add(next.count)?,
        };
    }
    Some(all)
}

/// Returns the span of sites inside one loop, or of one site outside any loop.
fn part(sites: &[(Vec<Loop>, Affine<IndexId>)]) -> Option<Span> {
    let (loops, address) = sites.first()?;
    let Some(outer) = loops.first() else {
        let at = address.value()?;
        return Some(Span { way: Met::One, granule: 1, least: at, most: at, count: 1 });
    };
    let (iterations, mut stride, mut inside) = (outer.iterations()?, None, Vec::new());
    for (loops, address) in sites {
        let (rest, by) = address.without(outer.index);
        if *stride.get_or_insert(by) != by {
            return None;
        }
        inside.push((loops[1..].to_vec(), rest));
    }
    let (all, stride) = (met(&inside)?, stride?);
    if iterations == 1 {
        return Some(all);
    }
    let (width, step) = (all.most - all.least + 1, stride.checked_abs()?);
    if step < width {
        return None;
    }
    let way = if stride > 0 { Way::Up } else { Way::Down };
    let granule = if all.way.fits(way) || planted(Fault::Granule) { all.granule } else { step };
    // Each iteration begins at the start of a granule and ends at the end of one.
    if step % granule != 0 || granule > 1 && all.least.rem_euclid(granule) + width > step {
        return None;
    }
    let gone = stride.checked_mul(iterations - 1)?;
    Some(Span {
        way: Met::Way(way),
        granule,
        least: all.least.checked_add(gone.min(0))?,
        most: all.most.checked_add(gone.max(0))?,
        count: all.count.checked_mul(iterations)?,
    })
}

/// An access: the loops around it, its element, and the number of elements in one record.
type Access = (Vec<Loop>, Affine<IndexId>, i64);

/// The range of records that some iterations access, and their order.
#[derive(Clone, Copy)]
struct Passed {
    way: Met,
    least: i64,
    most: i64,
}

fn passed(sites: &[Access]) -> Option<Passed> {
    let head = |site: &Access| site.0.first().map(|l| l.index);
    let mut parts = sites.chunk_by(|a, b| head(a).is_some() && head(a) == head(b)).map(passed_part);
    let mut all = parts.next()??;
    for next in parts {
        let next = next?;
        if (all.way, next.way, all.least) == (Met::One, Met::One, next.least) {
            continue;
        }
        let way = match (next.least >= all.most, next.most <= all.least) {
            (true, _) => Way::Up,
            (_, true) => Way::Down,
            (false, false) => return None,
        };
        if !all.way.fits(way) || !next.way.fits(way) {
            return None;
        }
        let (least, most) = (all.least.min(next.least), all.most.max(next.most));
        all = Passed { way: Met::Way(way), least, most };
    }
    Some(all)
}

/// Returns the records that sites inside one loop, or one site outside any loop, access.
fn passed_part(sites: &[Access]) -> Option<Passed> {
    let records = |(loops, address, per): &Access| {
        let Interval { least, most } = range(address, loops)?;
        let record = |at: i128| i64::try_from(at.div_euclid((*per).into())).ok();
        Some((record(least)?, record(most)?))
    };
    let ranges = sites.iter().map(records).collect::<Option<Vec<_>>>()?;
    let (least, most) = *ranges.first()?;
    if least == most && ranges.iter().all(|range| *range == (least, most)) {
        return Some(Passed { way: Met::One, least, most });
    }
    let outer = sites.first()?.0.first()?;
    let (mut step, mut inside) = (None, Vec::new());
    for (loops, address, per) in sites {
        let (rest, by) = address.without(outer.index);
        // Each iteration advances by a whole number of records.
        if by % per != 0 || *step.get_or_insert(by / per) != by / per {
            return None;
        }
        inside.push((loops[1..].to_vec(), rest, *per));
    }
    let (all, step, iterations) = (passed(&inside)?, step?, outer.iterations()?);
    let way = if step > 0 { Way::Up } else { Way::Down };
    if iterations == 1 || step == 0 && all.way == Met::One {
        return Some(all);
    }
    if !all.way.fits(way) || step.checked_abs()? < (all.most - all.least).max(1) {
        return None;
    }
    let gone = step.checked_mul(iterations - 1)?;
    let (least, most) = (all.least.checked_add(gone.min(0))?, all.most.checked_add(gone.max(0))?);
    Some(Passed { way: Met::Way(way), least, most })
}
