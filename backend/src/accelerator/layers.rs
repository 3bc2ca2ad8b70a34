//! Layers of a program: which of its tape goes through the scratchpad, and in which pieces.
//!
//! Streams bring back first what was stored last. Whether a program reads its tape so is a question about
//! the order of its accesses, and a run answers it: with what the forward phase stores and the reverse
//! phase loads, a place between two stores is a *cut* if all that is stored behind it is loaded before
//! all that is stored before it.
//!
//! ```text
//! forward   a b | c d | e f          reverse   f e | c d | b a         in between, order is free
//! ```
//!
//! Layers go from cut to cut, as many values as fit. So a layer is some rounds of a loop, without code
//! for it (the paper unrolls), and nothing is asked of a program's form: loops in loops, several loops,
//! records of run-time length are all the same. An array with a value that is stored or loaded twice, or
//! not in its phase, or with more values between two cuts than a layer holds, is not for streams: it is
//! read and written through the cache. So is a value that nobody loads.

use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::{OrderedMap, OrderedSet};

/// An access to the tape, as a run met it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Met {
    /// Of which array, or of the records.
    pub(super) array: u64,
    pub(super) address: u64,
    pub(super) write: bool,
    /// In which phase.
    pub(super) reverse: bool,
}

/// A value of the tape in the scratchpad.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Its number among all that are stored.
    pub(super) number: u64,
    /// Which entry of its layer it is,
    pub(super) offset: u64,
    /// and of how many.
    pub(super) entries: u64,
}

/// What goes through the scratchpad.
#[derive(Default, Debug)]
pub(super) struct Layers {
    places: OrderedMap<u64, Place>,
}

impl Layers {
    /// The layers of a run with so many entries at most: of all arrays that can be streamed, the largest
    /// ones that can be streamed together.
    pub(super) fn of(met: &[Met], capacity: u64) -> Layers {
        let arrays: OrderedSet<u64> = met.iter().map(|m| m.array).collect();
        if let Some(all) = together(met, &arrays, capacity) {
            return all;
        }
        let (mut chosen, mut layers) = (OrderedSet::default(), Layers::default());
        let mut largest: Vec<u64> = arrays.into_iter().collect();
        let mut sizes: OrderedMap<u64, usize> = OrderedMap::default();
        met.iter().for_each(|m| *sizes.entry(m.array).or_default() += 1);
        largest.sort_by_key(|array| std::cmp::Reverse(sizes[array]));
        for array in largest {
            chosen.insert(array);
            match together(met, &chosen, capacity) {
                Some(more) => layers = more,
                None => {
                    chosen.swap_remove(&array);
                }
            }
        }
        layers
    }

    /// How many values.
    pub(super) fn entries(&self) -> u64 {
        self.places.len() as u64
    }

    pub(super) fn place(&self, address: u64) -> Option<Place> {
        self.places.get(&address).copied()
    }
}

/// The layers of those arrays, if they have any.
fn together(met: &[Met], arrays: &OrderedSet<u64>, capacity: u64) -> Option<Layers> {
    let of_these = met.iter().filter(|m| arrays.contains(&m.array));
    let wanted: OrderedSet<u64> =
        of_these.clone().filter(|m| !m.write).map(|m| m.address).collect();
    let (mut stored, mut loaded) = (OrderedMap::<u64, usize>::default(), Vec::new());
    for m in of_these.filter(|m| wanted.contains(&m.address)) {
        let once = match (m.write, m.reverse) {
            (true, false) => stored.insert(m.address, stored.len()).is_none(),
            (false, true) => {
                loaded.push(*stored.get(&m.address)?);
                true
            }
            (true, true) | (false, false) => false,
        };
        if !once {
            return None;
        }
    }
    if loaded.len() != stored.len() {
        return None;
    }
    // From the end of the loads: a cut is where as many have been met as stores before the last of them.
    let (mut last, mut ends) = (0, Vec::new());
    for (n, number) in loaded.iter().rev().enumerate() {
        last = last.max(*number);
        if last == n || planted(Fault::CutEarly) && last == n + 1 {
            ends.push(n + 1);
        }
    }
    let (mut places, mut layers, mut begin, mut end) = (OrderedMap::default(), Vec::new(), 0, 0);
    for cut in ends {
        if (cut - begin) as u64 > capacity {
            layers.push((begin, end));
            begin = end;
        }
        if (cut - begin) as u64 > capacity {
            return None;
        }
        end = cut;
    }
    layers.push((begin, end));
    let mut addresses = stored.keys();
    // A value that is loaded twice leaves another one without.
    let distinct: OrderedSet<usize> = loaded.iter().copied().collect();
    if distinct.len() != loaded.len() || end != loaded.len() {
        return None;
    }
    for (begin, end) in layers {
        for (number, address) in (begin..end).zip(&mut addresses) {
            let (offset, entries) = ((number - begin) as u64, (end - begin) as u64);
            places.insert(*address, Place { number: number as u64, offset, entries });
        }
    }
    Some(Layers { places })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a word says: capital letters are stored, small ones loaded; `a` to `c` are of one array, others
    /// of another one; the reverse phase begins with `|`.
    fn met(text: &str) -> Vec<Met> {
        let mut reverse = false;
        let mut all = Vec::new();
        for c in text.chars() {
            reverse |= c == '|';
            if c.is_ascii_alphabetic() {
                let address = u64::from(c.to_ascii_lowercase());
                let array = u64::from(address > u64::from('c'));
                all.push(Met { array, address, write: c.is_ascii_uppercase(), reverse });
            }
        }
        all
    }

    /// The layers, as words.
    #[track_caller]
    fn check(text: &str, capacity: u64, expected: &str) {
        let layers = Layers::of(&met(text), capacity);
        let mut words = String::new();
        for (address, place) in &layers.places {
            if place.offset == 0 && place.number > 0 {
                words.push(' ');
            }
            words.push(char::from(*address as u8));
        }
        assert_eq!(words, expected);
    }

    #[test]
    fn layers_go_from_cut_to_cut() {
        check("ABCDEF|fedcba", 2, "ab cd ef");
        check("ABCDEF|fedcba", 4, "abcd ef");
        check("ABCDEF|fedcba", 6, "abcdef");
        // Rounds of two values, each read in any order.
        check("ABCDEF|efcdba", 3, "ab cd ef");
        check("ABCDEF|efcdba", 5, "abcd ef");
        // What nobody loads is not there.
        check("ABCD|dba", 4, "abd");
        check("", 4, "");
    }

    #[test]
    fn what_is_not_mirrored_is_not_for_streams() {
        // Read as it was stored: one cut, at the end.
        check("ABC|abc", 2, "");
        check("ABC|abc", 3, "abc");
        // Twice stored, twice loaded, loaded early, stored late.
        check("AAB|ba", 4, "");
        check("AB|baa", 4, "");
        check("AaB|ba", 4, "");
        check("A|BAb", 4, "");
    }

    #[test]
    fn arrays_that_can_be_streamed_are() {
        check("ADBECF|fcebda", 2, "ad be cf");
        // The second one is read in its own order.
        check("ADBECF|dcebfa", 2, "ab c");
        check("ADBECF|dcebfa", 1, "a b c");
    }
}
