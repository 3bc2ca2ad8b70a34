//! Helpers that emit reads and writes of boxes (a range of indices along each axis) of an array.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::prim::array::permute::move_axis;
use crate::prim::{Concatenate, DynamicSlice, DynamicUpdateSlice, Reshape, Scalar, Slice};

/// Emits the sum of two arrays of the same shape.
pub fn sum(b: &Builder<'_>, x: Atom, y: Atom) -> Atom {
    b.emit1(Scalar::Add, &[x, y])
}

/// Emits the i64 sum of `factor · scalar` over the pairs in `terms`, plus `rest`.
pub fn linear(b: &Builder<'_>, terms: &[(Atom, i64)], rest: i64) -> Atom {
    let number = |x: i64| Atom::from(Literal::i64(x));
    let term = |(a, factor): &(Atom, i64)| match factor {
        1 => *a,
        _ => b.emit1(Scalar::Mul, &[*a, number(*factor)]),
    };
    match (terms.iter().map(term).reduce(|x, y| sum(b, x, y)), rest) {
        (Some(total), 0) => total,
        (Some(total), rest) => sum(b, total, number(rest)),
        (None, rest) => number(rest),
    }
}

/// Emits component `at` of the vector `a`; if `a` is a scalar, returns `a` itself.
pub fn component(b: &Builder<'_>, a: Atom, at: usize) -> Atom {
    if b.shape_of(a).is_empty() {
        return a;
    }
    let one = b.emit1(Slice::dense(vec![at], vec![at + 1]), &[a]);
    reshaped(b, one, &[])
}

/// Emits a vector whose components are the scalars `parts`.
pub(super) fn vector(b: &Builder<'_>, parts: &[Atom]) -> Atom {
    let parts: Vec<Atom> = parts.iter().map(|a| reshaped(b, *a, &[1])).collect();
    match parts.as_slice() {
        [one] => *one,
        _ => b.emit1(Concatenate { axis: 0 }, &parts),
    }
}

/// Emits `x` reshaped to `shape`, or returns `x` if it has that shape.
pub fn reshaped(b: &Builder<'_>, x: Atom, shape: &[usize]) -> Atom {
    if b.shape_of(x)[..] == *shape {
        return x;
    }
    b.emit1(Reshape { shape: shape.into() }, &[x])
}

/// Emits the box of extents `sizes` of `array`; `starts` are clamped so that the box fits.
pub fn take_box(b: &Builder<'_>, array: Atom, starts: &[Atom], sizes: &[usize]) -> Atom {
    let fixed = |a: &Atom| usize::try_from(a.literal()?.to_integer()?).ok();
    if let Some(start) = starts.iter().map(fixed).collect::<Option<Vec<usize>>>() {
        let limit = start.iter().zip(sizes).map(|(s, n)| s + n).collect();
        return b.emit1(Slice::dense(start, limit), &[array]);
    }
    let operands: Vec<Atom> = [array].into_iter().chain(starts.iter().copied()).collect();
    b.emit1(DynamicSlice { sizes: sizes.to_vec() }, &operands)
}

/// Emits `array` with the box at `starts` replaced by `part`; the starts are clamped so that the box
/// fits.
pub fn put_box(b: &Builder<'_>, array: Atom, part: Atom, starts: &[Atom]) -> Atom {
    let operands: Vec<Atom> = [array, part].into_iter().chain(starts.iter().copied()).collect();
    b.emit1(DynamicUpdateSlice, &operands)
}

/// Emits `x` with its first axis moved to position `axis`; the other axes keep their order.
pub fn first_axis_to(b: &Builder<'_>, x: Atom, axis: usize) -> Atom {
    if axis == 0 { x } else { move_axis(b, x, 0, axis) }
}

/// Emits `x[i]`: the element at index `i` of axis 0, without that axis.
pub(crate) fn element(b: &Builder<'_>, x: Atom, i: Atom) -> Atom {
    let mut sizes = b.shape_of(x).to_vec();
    sizes[0] = 1;
    reshaped(b, take_box(b, x, &at_row(i, sizes.len()), &sizes), &sizes[1..])
}

/// Emits `x` with `x[i]`, the element at index `i` of axis 0, replaced by `y`.
pub(crate) fn with_element(b: &Builder<'_>, x: Atom, i: Atom, y: Atom) -> Atom {
    let row = reshaped(b, y, &b.shape_of(y).with_leading(1));
    put_box(b, x, row, &at_row(i, b.shape_of(x).len()))
}

/// Returns the start indices of row `i` in an array of this rank: `i`, then zeros.
fn at_row(i: Atom, rank: usize) -> Vec<Atom> {
    let zero = Atom::from(Literal::i64(0));
    (0..rank).map(|axis| if axis == 0 { i } else { zero }).collect()
}
