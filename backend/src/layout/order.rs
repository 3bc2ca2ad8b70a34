//! In which order a step comes by the elements of an array.
//!
//! Loops whose strides grow outward meet the elements one after the other, upward or downward. Where they
//! do not, they may still meet *granules* in order: the three components of each point in any order, but
//! point after point.
//!
//! ```text
//! b0[64 i0 + 8 i1 + i2]        up                  b0[3 i0], b0[3 i0 + 1]    up
//! b0[99 - i0]                  down                b0[3 i0 + 1], b0[3 i0]    up, in granules of 3
//! b0[i0 + 8 i1]                none                b0[0], b0[i0 + 1]         up (a round before the others)
//! ```

use super::affine::Affine;
use super::affine::Loop;
use super::sites::Site;
use tapeloom_ir::fault::{Fault, planted};

/// A direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Up,
    Down,
}

/// How some sites come by elements: each once, between two of them, granule by granule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Order {
    pub(super) way: Way,
    pub(super) granule: i64,
    pub(super) least: i64,
    pub(super) most: i64,
    /// How many are met.
    pub(super) count: i64,
}

/// The order in which the sites of one step meet the elements of an array, if each is met at most once.
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Met {
    /// A single element.
    One,
    Way(Way),
    /// In any order.
    Mixed,
}

/// What some rounds meet.
#[derive(Clone, Copy)]
struct Span {
    way: Met,
    granule: i64,
    least: i64,
    most: i64,
    count: i64,
}

fn met(sites: &[(Vec<Loop>, Affine)]) -> Option<Span> {
    let head = |site: &(Vec<Loop>, Affine)| site.0.first().map(|l| l.index);
    let parts: Vec<&[(Vec<Loop>, Affine)]> =
        sites.chunk_by(|a, b| head(a).is_some() && head(a) == head(b)).collect();
    let mut spans = parts.into_iter().map(part).collect::<Option<Vec<Span>>>()?.into_iter();
    let mut all = spans.next()?;
    for next in spans {
        let way = match (next.least > all.most, next.most < all.least) {
            (true, _) => Met::Way(Way::Up),
            (_, true) => Met::Way(Way::Down),
            // Elements in between: they are met once if no two parts meet, which nobody knows here.
            (false, false) => return None,
        };
        let fits = |part: Met| part == Met::One || part == way;
        all = Span {
            way: if fits(all.way) && fits(next.way) { way } else { Met::Mixed },
            granule: all.granule.max(next.granule),
            least: all.least.min(next.least),
            most: all.most.max(next.most),
            count: all.count.checked_add(next.count)?,
        };
    }
    Some(all)
}

/// Sites in one loop, or one site in none.
fn part(sites: &[(Vec<Loop>, Affine)]) -> Option<Span> {
    let (loops, address) = sites.first()?;
    let Some(outer) = loops.first() else {
        let at = address.value()?;
        return Some(Span { way: Met::One, granule: 1, least: at, most: at, count: 1 });
    };
    let (rounds, mut stride, mut inside) = (outer.rounds()?, None, Vec::new());
    for (loops, address) in sites {
        let (rest, by) = address.without(outer.index);
        if *stride.get_or_insert(by) != by {
            return None;
        }
        inside.push((loops[1..].to_vec(), rest));
    }
    let (all, stride) = (met(&inside)?, stride?);
    if rounds == 1 {
        return Some(all);
    }
    let (width, step) = (all.most - all.least + 1, stride.checked_abs()?);
    if step < width {
        return None;
    }
    let way = if stride > 0 { Way::Up } else { Way::Down };
    let fits = all.way == Met::One || all.way == Met::Way(way);
    let granule = if fits || planted(Fault::Granule) { all.granule } else { step };
    // Rounds begin and end with granules.
    if step % granule != 0 || granule > 1 && all.least.rem_euclid(granule) + width > step {
        return None;
    }
    let gone = stride.checked_mul(rounds - 1)?;
    Some(Span {
        way: Met::Way(way),
        granule,
        least: all.least.checked_add(gone.min(0))?,
        most: all.most.checked_add(gone.max(0))?,
        count: all.count.checked_mul(rounds)?,
    })
}
