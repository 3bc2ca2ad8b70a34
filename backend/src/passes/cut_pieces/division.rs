//! Divisions of a loop into pieces, which run on several threads: the number of pieces, and the iterations of each.

/// A multiple of this number of elements fills whole cache lines, for every dtype.
const IN_LINES: usize = 64;
/// A multiple of this number of elements of 4 or more bytes fills whole cache lines.
pub(super) const IN_LINE: usize = 16;
/// The numbers of threads among which pieces should be distributed evenly.
const THREADS: [usize; 5] = [2, 4, 8, 16, 32];

/// The division of iterations into equal pieces and a rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Division {
    pub(super) pieces: usize,
    /// The number of iterations of each piece.
    pub(super) each: usize,
    /// The number of iterations that are left over after the last whole piece.
    pub(super) rest: usize,
}

impl Division {
    /// Converts a division of groups of `by` iterations to a division of `extent` iterations.
    pub(super) fn times(self, by: usize, extent: usize) -> Division {
        let each = self.each * by;
        Division { each, rest: extent - self.pieces * each, ..self }
    }
}

/// Returns a number of iterations. The number of iterations of each piece (a thread's share of a loop) must be a
/// multiple of it. Large pieces of a loop with lanes begin at a cache line, because a store across two lines takes
/// twice as long.
pub(super) fn group(lanes: usize, extent: usize, most: usize) -> usize {
    let aligned = lanes.max(IN_LINES);
    if lanes > 1 && extent / aligned >= most { aligned } else { lanes }
}

/// Divides iterations into at most `most` equal pieces and a rest; `None` if there would be only one piece. Among the
/// numbers of pieces above half of `most`, chooses the one for which threads idle the least.
pub(super) fn divide(iterations: usize, most: usize) -> Option<Division> {
    let most = most.min(iterations);
    if most < 2 {
        return None;
    }
    let division = |pieces: usize| {
        let each = iterations / pieces;
        Division { pieces, each, rest: iterations - pieces * each }
    };
    // Returns the estimated run time on each number of threads in `THREADS`, in iterations, times this number of
    // threads, and summed.
    let time = |d: &Division| {
        let rounds = |threads: usize| d.pieces.div_ceil(threads) as u128;
        let of =
            |threads: usize| threads as u128 * (rounds(threads) * d.each as u128 + d.rest as u128);
        THREADS.iter().map(|threads| of(*threads)).sum::<u128>()
    };
    let all = (most / 2 + 1..=most).map(division);
    // Returns the time of a division including the cost of a rest (iterations after the last piece). A rest needs
    // another copy of the loop's code, so it must save at least a sixteenth of the time.
    let with_copy = |d: &Division| time(d) + if d.rest > 0 { time(d) / 16 } else { 0 };
    all.min_by_key(|d| (with_copy(d), usize::MAX - d.pieces))
}
