//! Assigns offsets in the workspace to buffers with known lifetimes: best fit, with merging of free neighbours.
//!
//! The lifetime of a buffer is from the step (a position in the order of statements) that first writes it to the step
//! that last reads it. Buffers are placed in the order of their first steps, each in the smallest free hole that is
//! large enough; memory whose buffer ended before the step is free. The returned peak is exact: it is the end of the
//! highest byte ever occupied.
//!
//! This is fast, but a small buffer may take memory in which a large one would have fitted later. The peak cannot be
//! lower than the bytes of the buffers that are live in any one step. If it is higher, a second plan is made: the
//! largest buffers are placed first, each at the lowest offset that is free during its lifetime. The plan with the
//! lower peak is used. Source: greedy by size (Pisarchyk and Lee, 2020, arXiv:2001.03288).
//!
//! ```text
//! buffer  life    bytes     offset
//! a       0..2    800       0
//! b       1..1    64        832
//! c       2..3    64        832    (the lifetime of b has ended)
//! ```

use crate::loop_ir::{BUFFER_ALIGNMENT_BYTES, MOST_BYTES};
use std::collections::{BTreeMap, BTreeSet};
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::{Kind, Problem};

/// The lifetime of a buffer (first and last step) and its size in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetime {
    pub(crate) first: usize,
    pub(crate) last: usize,
    pub(crate) bytes: usize,
}

/// Returns the bytes to reserve for a buffer of `bytes` bytes: whole cache lines, and an odd number of them if the
/// buffer is at least as large as a page. So up to 64 consecutive arrays of one length begin at different offsets in
/// their pages. If an iteration stores to one array and then loads from another one at the same offset in its page, the
/// load waits, because a processor compares the last twelve address bits first (4 KiB aliasing). Also, cache lines at
/// the same offset of many pages compete for the same set of the cache.
fn padded_bytes(bytes: usize, page_bytes: usize) -> usize {
    let lines = bytes.div_ceil(BUFFER_ALIGNMENT_BYTES);
    let odd = if bytes >= page_bytes { lines | 1 } else { lines };
    odd * BUFFER_ALIGNMENT_BYTES
}

/// Returns the error for a function `name` whose intermediate results have more bytes than memory can have.
pub(crate) fn too_large(name: &str) -> Problem {
    Problem::new(
        Kind::TooLarge,
        format!("the intermediate results of @{name} are larger than memory can be"),
        "reduce an extent, or process the data in parts",
    )
}

/// The largest number of buffers for which placement by size is tried, since it compares all pairs of buffers.
const BY_SIZE: usize = 1000;

/// Up to this number of buffers, placement by size is tried even if it can lower the peak only a little.
const FEW: usize = 128;

/// Returns the offset in bytes of each buffer, in the order of `lives`, and the peak; `None` if the peak is
/// not addressable.
pub(crate) fn plan(lives: &[Lifetime], page_bytes: usize) -> Option<(Vec<usize>, usize)> {
    let by_time = by_time(lives, page_bytes)?;
    let needed = most_at_once(lives, page_bytes);
    // For more than `FEW` buffers, try placement by size only if it can lower the peak by more than a sixteenth.
    let enough = if lives.len() > FEW { needed + needed / 16 } else { needed };
    if lives.len() > BY_SIZE || by_time.1 <= enough {
        return Some(by_time);
    }
    let by_size = by_size(lives, page_bytes).filter(|plan| plan.1 < by_time.1);
    Some(by_size.unwrap_or(by_time))
}

/// Returns the first step in which a buffer occupies its memory.
fn begin(life: Lifetime) -> usize {
    life.first + usize::from(planted(Fault::MemoryOverlap))
}

/// Returns the largest sum of the bytes of all buffers that are live in one step.
fn most_at_once(lives: &[Lifetime], page_bytes: usize) -> usize {
    let mut changes: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for life in lives {
        let size = padded_bytes(life.bytes, page_bytes);
        changes.entry(life.first).or_default().0 += size;
        changes.entry(life.last + 1).or_default().1 += size;
    }
    let mut now = 0;
    let after = |(more, less): &(usize, usize)| {
        now = now + more - less;
        now
    };
    changes.values().map(after).max().unwrap_or(0)
}

/// Places the largest buffers first, each at the lowest offset that is free during its lifetime. Returns the offsets
/// and the peak in bytes; `None` if the peak is not addressable.
fn by_size(lives: &[Lifetime], page_bytes: usize) -> Option<(Vec<usize>, usize)> {
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_key(|i| (usize::MAX - lives[*i].bytes, lives[*i].first));
    let mut offsets = vec![0; lives.len()];
    // The placed buffers, by offset.
    let mut placed: Vec<usize> = Vec::new();
    let mut peak = 0;
    for i in order {
        let (life, size) = (lives[i], padded_bytes(lives[i].bytes, page_bytes));
        if size == 0 {
            continue;
        }
        let mut offset = 0;
        for other in &placed {
            let meet = begin(life) <= lives[*other].last && begin(lives[*other]) <= life.last;
            if meet && offset + size <= offsets[*other] {
                break;
            }
            if meet {
                offset =
                    offset.max(offsets[*other] + padded_bytes(lives[*other].bytes, page_bytes));
            }
        }
        offset.checked_add(size).filter(|end| *end <= MOST_BYTES)?;
        offsets[i] = offset;
        peak = peak.max(offset + life.bytes);
        let at = placed.partition_point(|other| offsets[*other] <= offset);
        placed.insert(at, i);
    }
    Some((offsets, peak))
}

/// Places buffers in the order of their first steps, each in the smallest free hole that is large enough. Returns the
/// offsets and the peak in bytes; `None` if the peak is not addressable.
fn by_time(lives: &[Lifetime], page_bytes: usize) -> Option<(Vec<usize>, usize)> {
    let mut order: Vec<usize> = (0..lives.len()).collect();
    // Place the largest buffer first among buffers with the same first step.
    order.sort_by_key(|i| (lives[*i].first, usize::MAX - lives[*i].bytes));
    let mut ends: BTreeSet<(usize, usize)> = BTreeSet::new();
    let mut offsets = vec![0; lives.len()];
    let mut holes = Holes::default();
    let mut top = 0;
    let mut peak = 0;
    for i in order {
        let life = lives[i];
        while let Some((last, dead)) = ends.first().copied().filter(|(last, _)| *last < begin(life))
        {
            ends.remove(&(last, dead));
            let size = padded_bytes(lives[dead].bytes, page_bytes);
            top = holes.free(offsets[dead], size, top);
        }
        let size = padded_bytes(life.bytes, page_bytes);
        if size == 0 {
            continue;
        }
        offsets[i] = match holes.take(size) {
            Some(offset) => offset,
            None => {
                let offset = top;
                top = top.checked_add(size).filter(|top| *top <= MOST_BYTES)?;
                offset
            }
        };
        peak = peak.max(offsets[i] + life.bytes);
        ends.insert((life.last, i));
    }
    Some((offsets, peak))
}

/// The free ranges below the top (the end of the memory used so far), by offset and by size, in bytes.
#[derive(Default)]
struct Holes {
    by_offset: BTreeMap<usize, usize>,
    by_size: BTreeSet<(usize, usize)>,
}

impl Holes {
    /// Takes `size` bytes from the smallest hole that is large enough, and returns their offset; `None` if no hole is.
    fn take(&mut self, size: usize) -> Option<usize> {
        let (found, offset) = self.by_size.range((size, 0)..).next().copied()?;
        self.remove(offset, found);
        if found > size {
            self.insert(offset + size, found - size);
        }
        Some(offset)
    }

    /// Frees a range. Returns the new top (the end of the memory used), which is lower than `top` if the range ended
    /// there.
    fn free(&mut self, offset: usize, size: usize, top: usize) -> usize {
        if size == 0 {
            return top;
        }
        let (mut offset, mut size) = (offset, size);
        if let Some((&before, &n)) = self.by_offset.range(..offset).next_back()
            && before + n == offset
        {
            self.remove(before, n);
            (offset, size) = (before, n + size);
        }
        if let Some(&n) = self.by_offset.get(&(offset + size)) {
            self.remove(offset + size, n);
            size += n;
        }
        if offset + size == top {
            return offset;
        }
        self.insert(offset, size);
        top
    }

    fn insert(&mut self, offset: usize, size: usize) {
        self.by_offset.insert(offset, size);
        self.by_size.insert((size, offset));
    }

    fn remove(&mut self, offset: usize, size: usize) {
        self.by_offset.remove(&offset);
        self.by_size.remove(&(size, offset));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const PAGE: usize = 4096;

    fn life(first: usize, last: usize, bytes: usize) -> Lifetime {
        Lifetime { first, last, bytes }
    }

    #[test]
    fn the_example_of_the_module() {
        let lives = [life(0, 2, 800), life(1, 1, 64), life(2, 3, 64)];
        assert_eq!(plan(&lives, PAGE), Some((vec![0, 832, 832], 896)));
    }

    #[test]
    fn lives_that_meet_never_overlap() {
        // The lifetimes come from a fixed sequence of pseudo-random numbers, so they are the same in every run of the
        // test.
        let mut state = 1u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) % n) as usize
        };
        let lives: Vec<Lifetime> = (0..300)
            .map(|_| {
                let first = random(100);
                life(first, first + random(20), random(1000))
            })
            .collect();
        let plans = [by_time(&lives, PAGE).unwrap(), by_size(&lives, PAGE).unwrap()];
        assert!(plans.iter().all(|(_, peak)| *peak + 128 >= most_at_once(&lives, PAGE)));
        for (i, a, (offsets, peak)) in
            plans.iter().flat_map(|p| lives.iter().enumerate().map(move |(i, a)| (i, a, p)))
        {
            assert!(a.bytes == 0 || offsets[i] + a.bytes <= *peak);
            for (j, b) in lives.iter().enumerate().skip(i + 1) {
                let meet = a.first <= b.last && b.first <= a.last;
                let apart =
                    offsets[i] + a.bytes <= offsets[j] || offsets[j] + b.bytes <= offsets[i];
                assert!(!meet || apart || a.bytes == 0 || b.bytes == 0, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn small_buffers_do_not_stand_in_the_way_of_large_ones() {
        // Placed in the order of first steps, the small buffer would take memory that the third large array needs. The
        // test expects that placement by size lowers the peak.
        let lives = [life(0, 1, 9000), life(1, 4, 9000), life(2, 4, 100), life(3, 4, 9000)];
        let (_, peak) = plan(&lives, PAGE).unwrap();
        let (_, in_order) = by_time(&lives, PAGE).unwrap();
        assert!(peak < 19_000 && in_order > 27_000, "{peak} {in_order}");
    }

    #[test]
    fn arrays_of_pages_begin_at_different_places_of_pages() {
        for bytes in [PAGE, 3 * PAGE, 1 << 20, PAGE + 2048] {
            let (offsets, _) = plan(&[life(0, 1, bytes); 64], PAGE).unwrap();
            let places: BTreeSet<usize> = offsets.iter().map(|offset| offset % PAGE).collect();
            assert_eq!(places.len(), 64, "{bytes}");
        }
    }

    #[test]
    fn memory_that_is_free_is_used_again() {
        let lives: Vec<Lifetime> = (0..1000).map(|i| life(i, i + 1, 100)).collect();
        assert_eq!(plan(&lives, PAGE).unwrap().1, 228);
    }

    #[test]
    fn more_than_any_machine_has_is_no_plan() {
        let large = 1 << 62;
        assert_eq!(plan(&[life(0, 1, large), life(2, 3, large)], PAGE).unwrap().1, large);
        assert_eq!(plan(&[life(0, 1, large), life(1, 2, large)], PAGE), None);
    }
}
