//! Divisions: the number of pieces of a loop, and the iterations of each.

/// A number of elements of any dtype that fills whole cache lines.
const IN_LINES: usize = 64;
/// Numbers of threads for which pieces are distributed evenly.
const THREADS: [usize; 5] = [2, 4, 8, 16, 32];

/// The division of a number of iterations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Division {
    pub(super) pieces: usize,
    /// The iterations of each piece.
    pub(super) each: usize,
    /// The iterations that are left over.
    pub(super) rest: usize,
}

impl Division {
    /// Returns the division of `extent` iterations, if this is the division of groups of `by` iterations.
    pub(super) fn times(self, by: usize, extent: usize) -> Division {
        let each = self.each * by;
        Division { each, rest: extent - self.pieces * each, ..self }
    }
}

/// Returns the number of iterations of which pieces consist of multiples. Pieces of a loop with lanes begin at a cache
/// line, if they are large: stores across two lines take twice as long.
pub(super) fn group(lanes: usize, extent: usize, most: usize) -> usize {
    let aligned = lanes.max(IN_LINES);
    if lanes > 1 && extent / aligned >= most { aligned } else { lanes }
}

/// Divides iterations into at most `most` equal pieces and a rest; `None` if there would be only one piece. Chooses the
/// number of pieces, more than half of `most`, with which threads wait the least for one another.
pub(super) fn divide(iterations: usize, most: usize) -> Option<Division> {
    let most = most.min(iterations);
    if most < 2 {
        return None;
    }
    let division = |pieces: usize| {
        let each = iterations / pieces;
        Division { pieces, each, rest: iterations - pieces * each }
    };
    // The time in iterations, times the number of threads, summed over numbers of threads.
    let time = |d: &Division| {
        let rounds = |threads: usize| d.pieces.div_ceil(threads) as u128;
        let of =
            |threads: usize| threads as u128 * (rounds(threads) * d.each as u128 + d.rest as u128);
        THREADS.iter().map(|threads| of(*threads)).sum::<u128>()
    };
    let all = (most / 2 + 1..=most).map(division);
    // A rest is another copy of the loop, so it must gain a sixteenth.
    let with_copy = |d: &Division| time(d) + if d.rest > 0 { time(d) / 16 } else { 0 };
    all.min_by_key(|d| (with_copy(d), usize::MAX - d.pieces))
}
