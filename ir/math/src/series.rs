//! Coefficients of series, computed from their formulas at compile time.

/// Returns `1/first!`, `sign/(first + step)!`, `1/(first + 2·step)!` and so on: every second coefficient is
/// multiplied by `sign`.
pub(super) const fn over_factorials<const N: usize>(first: u32, step: u32, sign: f64) -> [f64; N] {
    let mut c = [0.0; N];
    // n! is exact in f64 up to 22!, and no caller needs a larger one.
    let (mut i, mut n, mut factorial) = (0, 1, 1.0);
    let mut next = first;
    while i < N {
        while n < next {
            n += 1;
            factorial *= n as f64;
        }
        c[i] = if i % 2 == 1 { sign / factorial } else { 1.0 / factorial };
        (i, next) = (i + 1, next + step);
    }
    c
}
