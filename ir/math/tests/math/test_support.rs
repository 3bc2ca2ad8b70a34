//! Comparison helpers that the tests of the functions share.

/// A short name for ∞, for the tables of edge values.
pub(super) const INFINITY: f64 = f64::INFINITY;
/// A short name for NaN, for the tables of edge values.
pub(super) const NAN: f64 = f64::NAN;

/// Returns the distance of `actual` from `expected` in ulps of `expected`; infinite if exactly one of them is
/// NaN or they are different infinities.
pub(super) fn ulps(actual: f64, expected: f64) -> f64 {
    if actual == expected || (actual.is_nan() && expected.is_nan()) {
        return 0.0;
    }
    let size = expected.abs();
    let error = (actual - expected).abs() / (size.next_up() - size);
    if error.is_nan() { f64::INFINITY } else { error }
}

/// Fails the test unless `f(x)` is within `bound` ulps of `expected`, for each `(x, expected)` of the table.
#[track_caller]
pub(super) fn check(f: impl Fn(f64) -> f64, bound: f64, table: &[(f64, f64)]) {
    for &(x, expected) in table {
        let actual = f(x);
        let error = ulps(actual, expected);
        assert!(error <= bound, "f({x:e}) = {actual:e}, expected {expected:e}, off by {error} ulp");
    }
}

/// Fails the test like [`check`], for `(x, expected, lost)`, where `lost` is the rounding error of the expected
/// value in ulps.
#[track_caller]
pub(super) fn check_sharply(f: impl Fn(f64) -> f64, bound: f64, table: &[(f64, f64, f64)]) {
    for &(x, expected, lost) in table {
        let (actual, size) = (f(x), expected.abs());
        let error = ((actual - expected) / (size.next_up() - size) - lost).abs();
        assert!(error <= bound, "f({x:e}) = {actual:e}, expected {expected:e}, off by {error} ulp");
    }
}

/// Fails the test unless `f(x)` equals `expected` bit for bit, where all NaNs are equal. Meant for edge values,
/// where the sign of a zero matters.
#[track_caller]
pub(super) fn check_exact(f: impl Fn(f64) -> f64, table: &[(f64, f64)]) {
    for &(x, expected) in table {
        let actual = f(x);
        assert!(same(actual, expected), "f({x:e}) = {actual:e}, expected {expected:e}");
    }
}

/// Returns whether the two numbers are both NaN or have the same bits.
pub(super) fn same(a: f64, b: f64) -> bool {
    (a.is_nan() && b.is_nan()) || a.to_bits() == b.to_bits()
}

/// Returns `count` points spread evenly over `[low, high]`, ends included.
pub(super) fn grid(low: f64, high: f64, count: u32) -> impl Iterator<Item = f64> {
    let step = (high - low) / f64::from(count - 1);
    (0..count).map(move |i| low + step * f64::from(i))
}
