//! What arithmetic can do without loss.

/// Added to a number below 2⁵¹ it leaves no bits for fractions, and the whole number in the lowest ones.
pub(super) const ROUND: f64 = 1.5 * (1u64 << 52) as f64;

/// `a + b` rounded, and what that lost (Knuth's TwoSum).
#[inline(always)]
pub(super) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}
