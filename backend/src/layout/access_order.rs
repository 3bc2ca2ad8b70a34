//! Finds the order in which a step (a top-level statement of a program) accesses the elements of an array.
//!
//! Loops whose strides grow from the inner to the outer loop access the elements one after the other, upward or
//! downward. Other loops may still access *granules* (groups of adjacent elements) in order, for example the three
//! components of each point in any order, but point after point.
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

/// A direction through memory: toward greater (`Up`) or smaller (`Down`) addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    Up,
    Down,
}

/// The order in which some load and store sites access the elements with indices `least` to `most` of an array, each
/// element once. The sites access one *granule*, a run of `granule` elements, after the other. The elements within a
/// granule are accessed in any order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Order {
    pub(super) direction: Direction,
    pub(super) granule: i64,
    pub(super) least: i64,
    pub(super) most: i64,
    /// The number of distinct elements that the loads and stores access; smaller than `most - least + 1` if there are
    /// gaps.
    pub(super) count: i64,
}

/// Returns the order in which the load and store sites of one step (a top-level statement) access the elements of one
/// array. Returns `None` if an element may be accessed twice, or if the granules (runs of adjacent elements) are
/// accessed neither in ascending nor in descending order.
pub(super) fn order(sites: &[&Site]) -> Option<Order> {
    let of = |site: &&Site| Some((site.loops.clone(), site.address.clone()?));
    let met = element_span(&sites.iter().map(of).collect::<Option<Vec<_>>>()?)?;
    let direction = match met.kind {
        OrderKind::One | OrderKind::Directed(Direction::Up) => Direction::Up,
        OrderKind::Directed(Direction::Down) => Direction::Down,
        OrderKind::Mixed => return None,
    };
    let Span { granule, least, most, count, .. } = met;
    Some(Order { direction, granule, least, most, count })
}

/// Returns whether the load and store sites of one step (a top-level statement) access records (one element group of
/// each array) in ascending or descending order, as `direction` asks. Each site comes with the number of elements of
/// its array in one record. A record may be accessed several times if no other record is accessed in between.
///
/// ```text
/// b0[2 i0], b1[2 i0], b0[2 i0 + 1], b1[2 i0 + 1]    up, in records of one element each
/// b0[2 i0], b0[2 i0 + 1], b1[2 i0], b1[2 i0 + 1]    not in order; but up in records of two
/// ```
pub(super) fn accesses_records_in_order(sites: &[(&Site, i64)], direction: Direction) -> bool {
    let of = |(site, per): &(&Site, i64)| Some((site.loops.clone(), site.address.clone()?, *per));
    let found =
        sites.iter().map(of).collect::<Option<Vec<_>>>().and_then(|sites| record_span(&sites));
    found.is_some_and(|found| found.kind.fits(direction))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OrderKind {
    /// The loads and stores access a single element or a single record (a group of array elements), which fits both
    /// directions.
    One,
    Directed(Direction),
    /// The order of the accesses is unknown, or neither ascending nor descending.
    Mixed,
}

impl OrderKind {
    /// Returns whether accesses in this order can be part of a longer sequence of accesses that goes in `direction`.
    fn fits(self, direction: Direction) -> bool {
        self == OrderKind::One || self == OrderKind::Directed(direction)
    }
}

/// The range of element indices (`least` to `most`) that some iterations access, and the order of these accesses.
#[derive(Clone, Copy)]
struct Span {
    kind: OrderKind,
    granule: i64,
    least: i64,
    most: i64,
    count: i64,
}

fn element_span(sites: &[(Vec<Loop>, Affine<IndexId>)]) -> Option<Span> {
    let head = |site: &(Vec<Loop>, Affine<IndexId>)| site.0.first().map(|l| l.index);
    let parts: Vec<&[(Vec<Loop>, Affine<IndexId>)]> =
        sites.chunk_by(|a, b| head(a).is_some() && head(a) == head(b)).collect();
    let mut spans = parts.into_iter().map(span_of_loop).collect::<Option<Vec<Span>>>()?.into_iter();
    let mut all = spans.next()?;
    for next in spans {
        let direction = match (next.least > all.most, next.most < all.least) {
            (true, _) => Direction::Up,
            (_, true) => Direction::Down,
            // The index ranges of the two groups of loads and stores overlap. Elements might still be accessed once
            // each, if the two groups access alternate elements; this case is not analysed.
            (false, false) => return None,
        };
        let fits = all.kind.fits(direction) && next.kind.fits(direction);
        all = Span {
            kind: if fits { OrderKind::Directed(direction) } else { OrderKind::Mixed },
            granule: all.granule.max(next.granule),
            least: all.least.min(next.least),
            most: all.most.max(next.most),
            count: all.count.checked_add(next.count)?,
        };
    }
    Some(all)
}

/// Returns the range and order of the elements that the load and store sites inside one loop access; `sites` may also
/// be a single load or store outside any loop. Returns `None` if the range is not known or an element may be accessed
/// twice.
fn span_of_loop(sites: &[(Vec<Loop>, Affine<IndexId>)]) -> Option<Span> {
    let (loops, address) = sites.first()?;
    let Some(outer) = loops.first() else {
        let at = address.value()?;
        return Some(Span { kind: OrderKind::One, granule: 1, least: at, most: at, count: 1 });
    };
    let (iterations, mut stride, mut inside) = (outer.iterations()?, None, Vec::new());
    for (loops, address) in sites {
        let (rest, by) = address.without(outer.index);
        if *stride.get_or_insert(by) != by {
            return None;
        }
        inside.push((loops[1..].to_vec(), rest));
    }
    let (all, stride) = (element_span(&inside)?, stride?);
    if iterations == 1 {
        return Some(all);
    }
    let (width, step) = (all.most - all.least + 1, stride.checked_abs()?);
    if step < width {
        return None;
    }
    let direction = if stride > 0 { Direction::Up } else { Direction::Down };
    let granule =
        if all.kind.fits(direction) || planted(Fault::Granule) { all.granule } else { step };
    // Return `None` if two iterations may access elements of one granule (a run of elements that are read together).
    if step % granule != 0 || granule > 1 && all.least.rem_euclid(granule) + width > step {
        return None;
    }
    let gone = stride.checked_mul(iterations - 1)?;
    Some(Span {
        kind: OrderKind::Directed(direction),
        granule,
        least: all.least.checked_add(gone.min(0))?,
        most: all.most.checked_add(gone.max(0))?,
        count: all.count.checked_mul(iterations)?,
    })
}

/// An access for the check of record order: the loops around it, the affine index of its element, and the number of
/// elements of its array in one record (a record has one group of elements of each array).
type Access = (Vec<Loop>, Affine<IndexId>, i64);

/// The range of the numbers of the records (groups of array elements) that some iterations access, and the order of
/// these accesses.
#[derive(Clone, Copy)]
struct RecordSpan {
    kind: OrderKind,
    least: i64,
    most: i64,
}

fn record_span(sites: &[Access]) -> Option<RecordSpan> {
    let head = |site: &Access| site.0.first().map(|l| l.index);
    let mut parts =
        sites.chunk_by(|a, b| head(a).is_some() && head(a) == head(b)).map(record_span_of_loop);
    let mut all = parts.next()??;
    for next in parts {
        let next = next?;
        if (all.kind, next.kind, all.least) == (OrderKind::One, OrderKind::One, next.least) {
            continue;
        }
        let direction = match (next.least >= all.most, next.most <= all.least) {
            (true, _) => Direction::Up,
            (_, true) => Direction::Down,
            (false, false) => return None,
        };
        if !all.kind.fits(direction) || !next.kind.fits(direction) {
            return None;
        }
        let (least, most) = (all.least.min(next.least), all.most.max(next.most));
        all = RecordSpan { kind: OrderKind::Directed(direction), least, most };
    }
    Some(all)
}

/// Returns the range and order of the records (groups of array elements) that the sites inside one loop access. `sites`
/// may also be a single site outside any loop.
fn record_span_of_loop(sites: &[Access]) -> Option<RecordSpan> {
    let records = |(loops, address, per): &Access| {
        let Interval { least, most } = range(address, loops)?;
        let record = |at: i128| i64::try_from(at.div_euclid((*per).into())).ok();
        Some((record(least)?, record(most)?))
    };
    let ranges = sites.iter().map(records).collect::<Option<Vec<_>>>()?;
    let (least, most) = *ranges.first()?;
    if least == most && ranges.iter().all(|range| *range == (least, most)) {
        return Some(RecordSpan { kind: OrderKind::One, least, most });
    }
    let outer = sites.first()?.0.first()?;
    let (mut step, mut inside) = (None, Vec::new());
    for (loops, address, per) in sites {
        let (rest, by) = address.without(outer.index);
        // Return `None` unless each iteration advances by a whole number of records (groups of array elements), and by
        // an equal number at all loads and stores.
        if by % per != 0 || *step.get_or_insert(by / per) != by / per {
            return None;
        }
        inside.push((loops[1..].to_vec(), rest, *per));
    }
    let (all, step, iterations) = (record_span(&inside)?, step?, outer.iterations()?);
    let direction = if step > 0 { Direction::Up } else { Direction::Down };
    if iterations == 1 || step == 0 && all.kind == OrderKind::One {
        return Some(all);
    }
    if !all.kind.fits(direction) || step.checked_abs()? < (all.most - all.least).max(1) {
        return None;
    }
    let gone = step.checked_mul(iterations - 1)?;
    let (least, most) = (all.least.checked_add(gone.min(0))?, all.most.checked_add(gone.max(0))?);
    Some(RecordSpan { kind: OrderKind::Directed(direction), least, most })
}
