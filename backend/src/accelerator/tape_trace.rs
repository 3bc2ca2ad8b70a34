//! Records of a tape as a run meets them: in which order they are read back.
//!
//! Where a record lies is a number in memory, so no one knows before the run that records come back in the
//! opposite order of their stores, or in the same. So a program with such records runs once to see it: what is
//! stored once, record after record, and loaded at most once, record before record, is *mirrored*; everything
//! that is neither this nor in order is read and written through the cache.
//!
//! ```text
//! AABBCC|ccbbaa   mirrored          AABBCC|aabbcc   in order          ABC|bac   neither
//! ```

use super::config::InRegion;
use crate::layout::{Read, RegionId};
use tapeloom_ir::OrderedSet;

/// An access to a record, as a run met it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Met {
    pub(super) at: InRegion,
    pub(super) write: bool,
    /// In which phase,
    pub(super) reverse: bool,
    /// and in which step.
    pub(super) step: usize,
}

/// How the records of a region, each of so many bytes, are read back, and how many there are.
pub(super) fn verdict(met: &[Met], region: RegionId, width: u64) -> Option<(Read, u64)> {
    let of = |write: bool| -> Vec<&Met> {
        met.iter().filter(|m| m.at.region == region && m.write == write).collect()
    };
    let (stores, loads) = (of(true), of(false));
    let sorted = |all: &[&Met], by: fn(u64, u64) -> bool| {
        all.windows(2).all(|m| m[0].step == m[1].step && by(m[0].at.record, m[1].at.record))
    };
    let once = |all: &[&Met]| {
        let distinct: OrderedSet<(u64, u64)> =
            all.iter().map(|m| (m.at.record, m.at.byte)).collect();
        distinct.len() == all.len()
    };
    let records = stores.last()?.at.record + 1;
    // Each entry of each record is there.
    let entries: OrderedSet<(u64, u64)> =
        stores.iter().map(|m| (m.at.record, m.at.byte / 8)).collect();
    let whole = entries.len() as u64 == records * width.div_ceil(8);
    let phases = stores.iter().all(|m| !m.reverse) && loads.iter().all(|m| m.reverse);
    if !whole || !phases || !once(&stores) || !once(&loads) || !sorted(&stores, |a, b| a <= b) {
        return None;
    }
    match (sorted(&loads, |a, b| a >= b), sorted(&loads, |a, b| a <= b)) {
        (true, _) => Some((Read::Mirrored, records)),
        (false, true) => Some((Read::Same, records)),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Capital letters are stored, small ones loaded, each the next entry of its record that is not yet; the
    /// reverse phase begins with `|`.
    #[track_caller]
    fn check(text: &str, width: u64, expected: Option<Read>) {
        let (mut all, mut reverse) = (Vec::<Met>::new(), false);
        let region = RegionId::from_u32(0);
        for c in text.bytes() {
            reverse |= c == b'|';
            if c.is_ascii_alphabetic() {
                let (record, write) =
                    (u64::from(c.to_ascii_lowercase() - b'a'), c.is_ascii_uppercase());
                let before = |m: &&Met| m.at.record == record && m.write == write;
                let byte = 8 * all.iter().filter(before).count() as u64 % width;
                let at = InRegion { region, record, byte };
                all.push(Met { at, write, reverse, step: usize::from(reverse) });
            }
        }
        assert_eq!(verdict(&all, region, width).map(|v| v.0), expected, "{text}");
    }

    #[test]
    fn records_come_back_in_an_order_or_not() {
        check("ABC|cba", 8, Some(Read::Mirrored));
        check("AABBCC|ccbbaa", 16, Some(Read::Mirrored));
        check("ABC|abc", 8, Some(Read::Same));
        check("ABC|bac", 8, None);
        // What nobody loads is there all the same.
        check("ABC|ca", 8, Some(Read::Mirrored));
        // Twice stored, twice loaded, loaded early, stored late, not whole.
        check("AAB|ba", 8, None);
        check("AB|baa", 8, None);
        check("AaB|ba", 8, None);
        check("A|BAb", 8, None);
        check("AAB|ba", 16, None);
        check("", 8, None);
    }
}
