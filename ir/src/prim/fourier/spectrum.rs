//! The axes of transformed arrays, and half spectra, which determine the spectrum of a real sequence.
//!
//! The spectrum `y` of `n` real numbers has `y[n - k] = conj(y[k])`, so frequencies `0 ..= n/2` suffice. Each
//! frequency strictly between 0 and `n/2` represents two; frequency 0 and, for even `n`, `n/2` represent one.

use crate::fault::{Fault, planted};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype, Type};
use crate::prim::{Iota, Operand, Scalar};

/// The extents of an array, relative to the transformed axis.
pub(super) struct Axes<'a> {
    /// The extents of the batch axes, which come before the axis of parts and the transformed arrays.
    pub(super) batch: &'a [usize],
    /// The number of elements before the transformed axis, per array.
    pub(super) rows: usize,
    /// The extent of the transformed axis.
    pub(super) extent: usize,
    /// The number of elements after the transformed axis.
    pub(super) columns: usize,
}

/// Returns the extents for an array whose last `rank` axes are an array of numbers, with `parts` axes of parts
/// before them.
pub(super) fn axes(shape: &[usize], parts: usize, rank: usize, axis: usize) -> Axes<'_> {
    let (batch, own) = shape.split_at(shape.len().saturating_sub(rank));
    let batch = &batch[..batch.len().saturating_sub(parts)];
    // If one extent is zero the others may be arbitrarily large, so saturate.
    let product = |extents: &[usize]| extents.iter().fold(1, |n: usize, m| n.saturating_mul(*m));
    match own.split_at_checked(axis) {
        Some((before, [extent, behind @ ..])) => {
            Axes { batch, rows: product(before), extent: *extent, columns: product(behind) }
        }
        _ => Axes { batch, rows: 0, extent: 0, columns: 0 },
    }
}

/// Returns the type of the only operand, an array of floats whose last `rank` axes are the array to transform.
pub(super) fn sequences<'a>(
    name: &str,
    rank: usize,
    axis: usize,
    operands: &[Operand<'a>],
) -> Result<&'a ArrayType> {
    let [x] = operands else {
        return Err(Problem::new(Kind::Arguments, format!("`{name}` takes one array"), ""));
    };
    let wrong = |kind, help: String| Err(Problem::new(kind, format!("`{name}` of {}", x.ty), help));
    match x.ty {
        Type::Array(x) if x.dtype.is_float() && axis < rank && rank <= x.shape.len() => Ok(x),
        Type::Array(x) if x.dtype.is_float() => {
            let help = format!("axis {axis} of the last {rank} is the one that is transformed");
            wrong(Kind::Shape, help)
        }
        _ => wrong(Kind::Dtype, "it takes arrays of floats; convert them".into()),
    }
}

/// Returns the type of the only operand like [`sequences`], for complex arrays, with the real and imaginary parts on
/// the axis before the last `rank` axes.
pub(super) fn pairs<'a>(
    name: &str,
    rank: usize,
    axis: usize,
    operands: &[Operand<'a>],
) -> Result<&'a ArrayType> {
    let x = sequences(name, rank, axis, operands)?;
    let (outside, _) = x.shape.split_at(x.shape.len() - rank);
    match outside {
        [.., 2] => Ok(x),
        _ => {
            let help = format!(
                "the axis before the last {rank} holds real and imaginary parts, and has extent 2"
            );
            Err(Problem::new(Kind::Shape, format!("`{name}` of {x}"), help))
        }
    }
}

/// Multiplies each frequency that represents two by `weight`, in half spectra of `n` numbers. The frequencies
/// are axis `axis` of the last `rank` axes.
pub(super) fn interior_weighted(
    b: &Builder<'_>,
    y: Atom,
    n: usize,
    [rank, axis]: [usize; 2],
    weight: f64,
) -> Atom {
    // 0 < k and 2 k < n, which for integers k is 0 < k < (n + 1) / 2, rounded down.
    let (shape, mut end) = (b.shape_of(y), n.div_ceil(2));
    if planted(Fault::HalfSpectrum) {
        end = n / 2 + 1;
    }
    if end <= 1 {
        return y;
    }
    let axis = shape.len() - rank + axis;
    let k = b.emit1(Iota { shape, axis, dtype: Dtype::I64 }, &[]);
    let number = |k: usize| Atom::from(Literal::i64(i64::try_from(k).unwrap_or(i64::MAX)));
    let after = b.emit1(Scalar::Gt, &[k, number(0)]);
    let before = b.emit1(Scalar::Lt, &[k, number(end)]);
    let inside = b.emit1(Scalar::And, &[after, before]);
    let weight = Literal::of(b.dtype_of(y), weight).into();
    b.emit1(Scalar::Select, &[inside, b.emit1(Scalar::Mul, &[y, weight]), y])
}
