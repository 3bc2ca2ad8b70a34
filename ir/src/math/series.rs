//! Series: sums of powers, with coefficients that are written down as what they are.

use super::number::Number;

/// `c₀ + c₁x + c₂x² + …`, by Horner's rule on the even and on the odd powers side by side.
///
/// Of an even number of coefficients.
#[inline(always)]
pub(super) fn series<N: Number>(c: &[N::Float], x: N) -> N {
    let square = x * x;
    let mut i = c.len() - 2;
    let (mut even, mut odd) = (N::of(c[i]), N::of(c[i + 1]));
    while i > 0 {
        i -= 2;
        even = even.fma(square, N::of(c[i]));
        odd = odd.fma(square, N::of(c[i + 1]));
    }
    odd.fma(x, even)
}

/// `1/first!`, `sign/(first + step)!`, `1/(first + 2·step)!` and so on: every second one times `sign`.
pub(super) const fn over_factorials<const N: usize>(first: u32, step: u32, sign: f64) -> [f64; N] {
    let mut c = [0.0; N];
    // n! is exact in f64 up to 22!, beyond what is asked for here.
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
