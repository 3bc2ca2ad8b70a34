//! The trace of accesses to the records of dynamic tapes, from which the order of reading is inferred.
//!
//! The address of a record of a dynamic tape is a run-time value. So before the run it is not known whether records
//! are read in the opposite order of their stores, or in the same order. A program with such records therefore runs
//! once to observe the order. Records that are stored once, one after the other, and loaded at most once, one after
//! the other in the opposite order, are *mirrored*. Records that are read neither in the opposite nor in the same
//! order are accessed through the cache. Below, a capital letter stores and a small letter loads an entry of the
//! record with this letter; `|` begins the reverse phase:
//!
//! ```text
//! AABBCC|ccbbaa   mirrored          AABBCC|aabbcc   in order          ABC|bac   neither
//! ```

use super::config::InRegion;
use crate::layout::{Read, RegionId};
use tapeloom_ir::OrderedSet;

/// An access to a record (one iteration's residuals) of a dynamic tape, observed in the first run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RecordAccess {
    pub(super) at: InRegion,
    pub(super) write: bool,
    /// Whether the access happened in the reverse phase.
    pub(super) reverse: bool,
    /// The index of the program's step (top-level statement) that made the access.
    pub(super) step: usize,
}

/// Returns the order in which the records (one iteration's residuals each) of a region are read, and the number of
/// records. Returns `None` if a stream cannot bring the records: if they are read in no fixed direction, or some entry
/// is not stored. A record has `width` bytes.
pub(super) fn reading_order(
    accesses: &[RecordAccess],
    region: RegionId,
    width: u64,
) -> Option<(Read, u64)> {
    let of = |write: bool| -> Vec<&RecordAccess> {
        accesses.iter().filter(|m| m.at.region == region && m.write == write).collect()
    };
    let (stores, loads) = (of(true), of(false));
    let sorted = |all: &[&RecordAccess], by: fn(u64, u64) -> bool| {
        all.windows(2).all(|m| m[0].step == m[1].step && by(m[0].at.record, m[1].at.record))
    };
    let once = |all: &[&RecordAccess]| {
        let distinct: OrderedSet<(u64, u64)> =
            all.iter().map(|m| (m.at.record, m.at.byte)).collect();
        distinct.len() == all.len()
    };
    let records = stores.last()?.at.record + 1;
    // Streaming needs whole records, so every 8-byte entry of every record must have been stored.
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

    /// Observes the accesses in `text`, and compares the inferred order with `expected`. A capital letter stores, and
    /// a small letter loads, the next entry of the record with this letter; `|` begins the reverse phase.
    #[track_caller]
    fn check(text: &str, width: u64, expected: Option<Read>) {
        let (mut all, mut reverse) = (Vec::<RecordAccess>::new(), false);
        let region = RegionId::from_u32(0);
        for c in text.bytes() {
            reverse |= c == b'|';
            if c.is_ascii_alphabetic() {
                let (record, write) =
                    (u64::from(c.to_ascii_lowercase() - b'a'), c.is_ascii_uppercase());
                let before = |m: &&RecordAccess| m.at.record == record && m.write == write;
                let byte = 8 * all.iter().filter(before).count() as u64 % width;
                let at = InRegion { region, record, byte };
                all.push(RecordAccess { at, write, reverse, step: usize::from(reverse) });
            }
        }
        assert_eq!(reading_order(&all, region, width).map(|v| v.0), expected, "{text}");
    }

    #[test]
    fn records_come_back_in_an_order_or_not() {
        check("ABC|cba", 8, Some(Read::Mirrored));
        check("AABBCC|ccbbaa", 16, Some(Read::Mirrored));
        check("ABC|abc", 8, Some(Read::Same));
        check("ABC|bac", 8, None);
        // Records must count as mirrored even if some of their entries are never loaded.
        check("ABC|ca", 8, Some(Read::Mirrored));
        // No order must be found in these texts: stored twice, loaded twice, loaded in the forward phase, stored in
        // the reverse phase, not all entries stored, no access at all.
        check("AAB|ba", 8, None);
        check("AB|baa", 8, None);
        check("AaB|ba", 8, None);
        check("A|BAb", 8, None);
        check("AAB|ba", 16, None);
        check("", 8, None);
    }
}
