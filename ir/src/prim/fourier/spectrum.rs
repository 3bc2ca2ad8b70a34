//! The axes of transformed arrays, and half spectra, which determine the spectrum of a real sequence.
//!
//! The spectrum `y` of `n` real numbers has `y[n - k] = conj(y[k])`, so frequencies `0 ..= n/2` suffice. Each frequency
//! strictly between 0 and `n/2` represents two. Frequency 0 and, for even `n`, `n/2` represent one.

use crate::fault::{Fault, planted};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype, Type};
use crate::prim::{Iota, Operand, Scalar};

/// The extents of a batch of arrays, as a Fourier transform along one axis sees them.
pub(super) struct Axes<'a> {
    /// The extents of the batch axes, which precede the axis of real and imaginary parts (if any) and the axes of
    /// the arrays.
    pub(super) batch: &'a [usize],
    /// The number of elements of an array's axes before the transformed axis (the product of their extents).
    pub(super) rows: usize,
    /// The extent of the transformed axis.
    pub(super) extent: usize,
    /// The number of elements of an array's axes after the transformed axis.
    pub(super) columns: usize,
}

/// Splits `shape` into the extents that a transform along `axis` needs. The last `rank` axes are those of an array, and
/// `axis` counts within them. Before them are `parts` (0 or 1) axes of real and imaginary parts, and before these the
/// batch axes.
pub(super) fn axes(shape: &[usize], parts: usize, rank: usize, axis: usize) -> Axes<'_> {
    let (batch, own) = shape.split_at(shape.len().saturating_sub(rank));
    let batch = &batch[..batch.len().saturating_sub(parts)];
    // If one extent is zero, the others may be arbitrarily large, so saturate the products.
    let product = |extents: &[usize]| extents.iter().fold(1, |n: usize, m| n.saturating_mul(*m));
    match own.split_at_checked(axis) {
        Some((before, [extent, behind @ ..])) => {
            Axes { batch, rows: product(before), extent: *extent, columns: product(behind) }
        }
        _ => Axes { batch, rows: 0, extent: 0, columns: 0 },
    }
}

/// Returns the type of the only operand, which must be a float array with at least `rank` axes, and `axis` one of
/// the last `rank`; otherwise the error.
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

/// Returns the type of the only operand, which must be a float array that represents complex numbers: the axis before
/// the last `rank` axes has extent 2 and holds the real and imaginary parts. `axis` must be one of the last `rank`
/// axes. Otherwise returns the error.
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

/// Emits the half spectra `y` of `n` real numbers with the interior frequencies multiplied by `weight`. Frequencies
/// strictly between 0 and `n/2` are interior: each stands for itself and for its mirror image. The frequencies are on
/// axis `axis` of the last `rank` axes.
pub(super) fn interior_weighted(
    b: &Builder<'_>,
    y: Atom,
    n: usize,
    [rank, axis]: [usize; 2],
    weight: f64,
) -> Atom {
    // The weighted frequencies k have 0 < k and 2 k < n, so they are 1 .. (n + 1) / 2, rounded down and
    // exclusive.
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
