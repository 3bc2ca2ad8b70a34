//! A set-associative cache with LRU replacement, write-back and write-allocate.
//!
//! Line l is in set l mod (number of sets). An access that finds its line makes it the youngest of its
//! set; one that does not puts it in the place of the oldest, which is written back if it was changed.
//! Only lines are kept track of, no values: see the module for why.

use tapeloom_ir::fault::{Fault, planted};

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    Hit,
    /// The line was fetched; the one that it replaced, if that was changed.
    Miss {
        write_back: Option<u64>,
    },
}

/// A line in the cache.
#[derive(Clone, Copy)]
struct Way {
    line: u64,
    /// When it was used last; 0 if nothing was ever there.
    used: u64,
    changed: bool,
}

pub(super) struct Cache {
    ways: Vec<Way>,
    /// Ways of a set.
    of: usize,
    clock: u64,
}

impl Cache {
    /// An empty cache of so many lines, so many to a set.
    pub(super) fn new(lines: u64, of: u64) -> Cache {
        let empty = Way { line: 0, used: 0, changed: false };
        Cache { ways: vec![empty; lines as usize], of: of as usize, clock: 0 }
    }

    fn set(&self, line: u64) -> usize {
        (line % (self.ways.len() / self.of) as u64) as usize * self.of
    }

    /// Whether a line is there.
    pub(super) fn has(&self, line: u64) -> bool {
        let set = self.set(line);
        self.ways[set..set + self.of].iter().any(|way| way.used > 0 && way.line == line)
    }

    /// Reads or writes a line, which is there afterwards.
    pub(super) fn access(&mut self, line: u64, write: bool) -> Found {
        self.clock += 1;
        let (clock, set, of) = (self.clock, self.set(line), self.of);
        let ways = &mut self.ways[set..set + of];
        if let Some(way) = ways.iter_mut().find(|way| way.used > 0 && way.line == line) {
            way.used = clock;
            way.changed |= write;
            return Found::Hit;
        }
        let mut write_back = None;
        if let Some(oldest) = ways.iter_mut().min_by_key(|way| match planted(Fault::Replacement) {
            true => u64::MAX - way.used,
            false => way.used,
        }) {
            write_back = oldest.changed.then_some(oldest.line);
            *oldest = Way { line, used: clock, changed: write };
        }
        Found::Miss { write_back }
    }

    /// Lines that were changed and not written back.
    pub(super) fn changed(&self) -> u64 {
        self.ways.iter().filter(|way| way.changed).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The accesses of a cache of two sets with two ways, `w` for a write, and what each finds: a hit, a
    /// miss, a miss with a write-back.
    #[track_caller]
    fn check(accesses: &str, found: &str) {
        let mut cache = Cache::new(4, 2);
        let of = |word: &str| {
            let line = word.trim_end_matches('w').parse().unwrap();
            match cache.access(line, word.ends_with('w')) {
                Found::Hit => 'h',
                Found::Miss { write_back: None } => 'm',
                Found::Miss { write_back: Some(_) } => 'b',
            }
        };
        assert_eq!(accesses.split(' ').map(of).collect::<String>(), found);
    }

    #[test]
    fn the_oldest_line_of_a_set_is_replaced() {
        check("0 0 2 0", "mhmh");
        check("0 2 4 0", "mmmm");
        check("0 2 0 4 0 2", "mmhmhm");
        // Another set is not in the way.
        check("0 2 1 3 0 2", "mmmmhh");
    }

    #[test]
    fn changed_lines_are_written_back_once() {
        check("0w 2 4 6 0 2", "mmbmmm");
        check("0 0w 2 4", "mhmb");
        check("0w 2w 4 6 0 2", "mmbbmm");
    }

    #[test]
    fn what_is_written_back_is_what_was_changed() {
        let mut cache = Cache::new(4, 2);
        cache.access(2, true);
        cache.access(4, false);
        assert_eq!(cache.access(6, false), Found::Miss { write_back: Some(2) });
    }

    #[test]
    fn line_zero_is_not_there_from_the_start() {
        let mut cache = Cache::new(4, 2);
        assert!(!cache.has(0));
        cache.access(0, true);
        assert!(cache.has(0) && !cache.has(2));
        assert_eq!(cache.changed(), 1);
    }
}
