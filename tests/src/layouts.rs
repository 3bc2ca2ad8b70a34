//! The same tape in four memory layouts, written by hand in Rust, to measure how much a compiler could gain by choosing
//! among them.
//!
//! Two arrays of n elements change over iterations. Each iteration saves six numbers per element, and the reverse pass
//! reads them from the last iteration to the first. Every loop handles eight elements at once, so that it compiles to
//! vector code.
//!
//! The layouts differ in the position on the tape of value s (0 to 5) of element i in iteration t; `all` is n times the
//! number of iterations:
//!
//! ```text
//! arrays    value s of element i in iteration t at    s * (all + gap) + t n + i         gap 0: page on page
//! skewed                                                                          gap 37 lines
//! records                                         6 (t n + i) + s
//! tiles                                           6 (t n + i - i mod 8) + 8 s + i mod 8
//! ```

/// The number of values that each iteration saves per element.
pub const VALUES: usize = 6;
/// The number of elements that a loop handles at once, as a vector.
const LANES: usize = 8;
/// The step size of the Euler integration.
const STEP: f64 = 0.01;

/// The values saved for eight elements in one iteration.
type Eight = [[f64; LANES]; VALUES];

/// The layout of a tape in memory, which is written and read for eight elements at once. `before` is the number of
/// elements that precede the eight, over all iterations, and `all` the total number of elements.
trait Layout {
    /// Returns the length of the tape for `all` elements, as a number of f64.
    fn size(all: usize) -> usize;
    fn store(tape: &mut [f64], before: usize, all: usize, kept: &Eight);
    fn load(tape: &[f64], before: usize, all: usize) -> Eight;
}

/// A layout in which the eight numbers of each value are contiguous; `place` returns the position of the first of them.
trait Together {
    fn place(before: usize, value: usize, all: usize) -> usize;
}

/// Structure of arrays: one array per value, with `GAP` unused numbers between arrays.
struct Arrays<const GAP: usize>;
struct Records;
struct Tiles;

impl<const GAP: usize> Together for Arrays<GAP> {
    fn place(before: usize, value: usize, all: usize) -> usize {
        value * (all + GAP) + before
    }
}

impl Together for Tiles {
    fn place(before: usize, value: usize, _: usize) -> usize {
        before * VALUES + value * LANES
    }
}

impl<T: Together> Layout for T {
    fn size(all: usize) -> usize {
        (0..VALUES).map(|s| T::place(all - LANES, s, all) + LANES).max().unwrap_or(0)
    }

    fn store(tape: &mut [f64], before: usize, all: usize, kept: &Eight) {
        for (s, kept) in kept.iter().enumerate() {
            tape[T::place(before, s, all)..][..LANES].copy_from_slice(kept);
        }
    }

    fn load(tape: &[f64], before: usize, all: usize) -> Eight {
        let mut kept = Eight::default();
        for (s, kept) in kept.iter_mut().enumerate() {
            kept.copy_from_slice(&tape[T::place(before, s, all)..][..LANES]);
        }
        kept
    }
}

impl Layout for Records {
    fn size(all: usize) -> usize {
        all * VALUES
    }

    fn store(tape: &mut [f64], before: usize, _: usize, kept: &Eight) {
        let to = &mut tape[before * VALUES..][..LANES * VALUES];
        (0..LANES * VALUES).for_each(|i| to[i] = kept[i % VALUES][i / VALUES]);
    }

    fn load(tape: &[f64], before: usize, _: usize) -> Eight {
        let (from, mut kept) = (&tape[before * VALUES..][..LANES * VALUES], Eight::default());
        (0..LANES * VALUES).for_each(|i| kept[i % VALUES][i / VALUES] = from[i]);
        kept
    }
}

/// Computes a gradient over `iterations` iterations, and returns its sums over all elements of both arrays; the memory
/// of `tape` is reused.
pub type Gradient = fn(elements: usize, iterations: usize, tape: &mut Vec<f64>) -> [f64; 2];

/// The measured layouts by name.
pub const LAYOUTS: [(&str, Gradient); 4] = [
    ("arrays", gradient::<Arrays<0>>),
    ("skewed", gradient::<Arrays<{ 37 * LANES }>>),
    ("records", gradient::<Records>),
    ("tiles", gradient::<Tiles>),
];

fn gradient<L: Layout>(elements: usize, iterations: usize, tape: &mut Vec<f64>) -> [f64; 2] {
    let all = elements * iterations;
    tape.resize(L::size(all), 0.0);
    let start = |f: fn(f64) -> f64| (0..elements).map(|i| 0.5 * f(i as f64)).collect::<Vec<f64>>();
    let (mut x, mut y) = (start(f64::sin), start(f64::cos));
    let (mut dx, mut dy) = (vec![1.0; elements], vec![1.0; elements]);
    for iteration in 0..iterations {
        let eights = x.chunks_exact_mut(LANES).zip(y.chunks_exact_mut(LANES));
        for (block, (x, y)) in eights.enumerate() {
            let mut kept = Eight::default();
            for l in 0..LANES {
                let a = x[l] * x[l] - y[l];
                let b = 1.0 / (1.0 + a * a);
                let c = a * b;
                let d = y[l] * c;
                for (kept, value) in kept.iter_mut().zip([x[l], y[l], a, b, c, d]) {
                    kept[l] = value;
                }
                x[l] += STEP * c;
                y[l] += STEP * (b - d * d);
            }
            L::store(tape, iteration * elements + block * LANES, all, &kept);
        }
    }
    for iteration in (0..iterations).rev() {
        let eights = dx.chunks_exact_mut(LANES).zip(dy.chunks_exact_mut(LANES));
        for (block, (dx, dy)) in eights.enumerate() {
            let kept = L::load(tape, iteration * elements + block * LANES, all);
            for l in 0..LANES {
                let [x, y, a, b, c, d] = kept.map(|value| value[l]);
                let dd = -2.0 * STEP * d * dy[l];
                let dc = STEP * dx[l] + y * dd;
                let db = STEP * dy[l] + a * dc;
                let da = b * dc - 2.0 * a * b * b * db;
                dx[l] += 2.0 * x * da;
                dy[l] += c * dd - da;
            }
        }
    }
    [dx.iter().sum(), dy.iter().sum()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_hold_the_same_numbers() {
        let of = |gradient: Gradient| gradient(64, 100, &mut Vec::new());
        let [first, ..] = LAYOUTS.map(|(_, gradient)| of(gradient));
        assert!(first.iter().all(|x| x.is_finite() && *x != 64.0));
        for (name, gradient) in LAYOUTS {
            assert_eq!(of(gradient), first, "{name}");
        }
    }
}
