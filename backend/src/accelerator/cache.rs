//! A set-associative cache with LRU replacement, write-back and write-allocate.
//!
//! Line l is in set l mod (number of sets). A hit makes its line the most recently used of the set. A miss replaces
//! the least recently used line of the set, and writes it back if it was changed. The model tracks which lines are
//! present, not the values in them; the documentation of the module `accelerator` says why.

use tapeloom_ir::fault::{Fault, planted};

/// The outcome of an access to the cache: a hit, or a miss that may write another line back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    Hit,
    /// The line was fetched from memory. `write_back` is the line that the fetched line replaced, if the replaced line
    /// was changed.
    Miss {
        write_back: Option<u64>,
    },
}

/// One way of a cache set: a cache line, with its dirty flag and last use.
#[derive(Clone, Copy)]
struct Way {
    line: u64,
    /// The value of `Cache::clock` (a count of accesses) at the last use; 0 if the way is empty.
    used: u64,
    changed: bool,
}

pub(super) struct Cache {
    ways: Vec<Way>,
    /// The number of ways (cache lines) in each set of the cache.
    of: usize,
    clock: u64,
}

impl Cache {
    /// Creates an empty cache with room for `lines` cache lines, in sets of `of` ways.
    pub(super) fn new(lines: u64, of: u64) -> Cache {
        let empty = Way { line: 0, used: 0, changed: false };
        Cache { ways: vec![empty; lines as usize], of: of as usize, clock: 0 }
    }

    fn set(&self, line: u64) -> usize {
        (line % (self.ways.len() / self.of) as u64) as usize * self.of
    }

    /// Returns whether a cache line is present, without making it the most recently used line.
    pub(super) fn has(&self, line: u64) -> bool {
        let set = self.set(line);
        self.ways[set..set + self.of].iter().any(|way| way.used > 0 && way.line == line)
    }

    /// Reads or writes a cache line. On a miss, fetches the line and evicts the least recently used line of its set.
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

    /// Returns the number of dirty cache lines: changed, and not yet written back.
    pub(super) fn changed(&self) -> u64 {
        self.ways.iter().filter(|way| way.changed).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Performs accesses to cache lines, written like `0 2 4w` (`w` marks a write), on a cache with two sets of two
    /// ways. The outcomes are compared with `found`: `h` is a hit, `m` a miss, `b` a miss with a write-back.
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
        // Lines 1 and 3 are in the other set of the cache, so they must not evict lines 0 and 2: the last two
        // accesses hit.
        check("0 2 1 3 0 2", "mmmmhh");
    }

    #[test]
    fn changed_lines_are_written_back_once() {
        check("0w 2 4 6 0 2", "mmbmmm");
        check("0 0w 2 4", "mhmb");
        check("0w 2w 4 6 0 2", "mmbbmm");
    }

    #[test]
    fn only_modified_lines_are_written_back() {
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
