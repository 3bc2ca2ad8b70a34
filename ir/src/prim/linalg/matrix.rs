//! Matrices on the last two axes of an array, and the operations on them that rules use.

use super::triangular_solve::TriangularSolve;
use crate::fault::{Fault, planted};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype, Shape, Type};
use crate::prim::array::permute::move_axis;
use crate::prim::{
    Broadcast, Concatenate, Diagonal, Dot, Iota, Operand, Pad, Permute, Ranges, Scalar, Slice,
    elementwise, reshaped,
};

/// Checks that the operand is a floating-point array of matrices; returns its type and the numbers of rows and
/// columns.
pub(super) fn matrices<'a>(
    name: &str,
    operand: &Operand<'a>,
) -> Result<(&'a ArrayType, [usize; 2])> {
    let wrong = |kind, help: &str| {
        Err(Problem::new(kind, format!("`{name}` of {}", operand.ty), help.to_owned()))
    };
    let Type::Array(x) = operand.ty else {
        return wrong(Kind::Dtype, "it takes matrices of floats");
    };
    if !x.dtype.is_float() {
        return wrong(Kind::Dtype, "it takes matrices of floats; convert them");
    }
    match x.shape[..] {
        [.., rows, columns] => Ok((x, [rows, columns])),
        _ => wrong(Kind::Shape, "the last two axes are the rows and columns of a matrix"),
    }
}

/// As [`matrices`], for square matrices.
pub(super) fn square<'a>(name: &str, operand: &Operand<'a>) -> Result<(&'a ArrayType, usize)> {
    let (x, [rows, columns]) = matrices(name, operand)?;
    if rows == columns {
        return Ok((x, rows));
    }
    let message = format!("`{name}` of {x}: {rows} rows and {columns} columns");
    Err(Problem::new(Kind::Shape, message, "it takes square matrices"))
}

/// Returns the extents of the axes before the last two.
pub(super) fn batch_axes(shape: &Shape) -> &[usize] {
    &shape[..shape.len() - 2]
}

/// Emits the matrix product `x y`.
pub(super) fn product(b: &Builder<'_>, x: Atom, y: Atom) -> Atom {
    let rank = b.shape_of(x).len();
    let batch = (0..rank - 2).map(|axis| (axis, axis)).collect();
    b.emit1(Dot { batch, contract: vec![(rank - 1, rank - 2)] }, &[x, y])
}

/// Emits the transposed matrices `xᵀ`.
pub(super) fn transposed(b: &Builder<'_>, x: Atom) -> Atom {
    let rank = b.shape_of(x).len();
    let mut permutation: Vec<usize> = (0..rank).collect();
    permutation.swap(rank - 2, rank - 1);
    b.emit1(Permute { permutation }, &[x])
}

/// A part of a matrix, defined by comparing row and column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// row >= column
    Lower,
    /// row > column
    StrictlyLower,
    /// row <= column
    Upper,
    /// row < column
    StrictlyUpper,
    /// row = column
    Diagonal,
}

/// Emits a mask of this part, for matrices of this shape.
pub(super) fn mask(b: &Builder<'_>, shape: &Shape, part: Part) -> Atom {
    let rank = shape.len();
    let count = |axis| b.emit1(Iota { shape: shape.clone(), axis, dtype: Dtype::I64 }, &[]);
    let (row, column) = (count(rank - 2), count(rank - 1));
    match part {
        Part::Lower => b.emit1(Scalar::Ge, &[row, column]),
        Part::StrictlyLower => b.emit1(Scalar::Gt, &[row, column]),
        Part::Upper => b.emit1(Scalar::Le, &[row, column]),
        Part::StrictlyUpper => b.emit1(Scalar::Lt, &[row, column]),
        Part::Diagonal => b.emit1(Scalar::Eq, &[row, column]),
    }
}

/// Emits the elements of the part, and zeros elsewhere.
pub(super) fn part(b: &Builder<'_>, x: Atom, part: Part) -> Atom {
    let zero = Literal::zero(b.dtype_of(x)).into();
    b.emit1(Scalar::Select, &[mask(b, &b.shape_of(x), part), x, zero])
}

/// Emits the symmetric matrix with the lower triangle of `x`: `tril(x) + tril(x, -1)ᵀ`.
pub(super) fn symmetric_of_lower(b: &Builder<'_>, x: Atom) -> Atom {
    let above = transposed(b, part(b, x, Part::StrictlyLower));
    b.emit1(Scalar::Add, &[part(b, x, Part::Lower), above])
}

/// Emits `Φ(x)`: the lower triangle with its diagonal halved, so that `Φ(x) + Φ(x)ᵀ = x` for symmetric `x`.
pub(super) fn half_of_lower(b: &Builder<'_>, x: Atom) -> Atom {
    let half = if planted(Fault::FactorHalf) { 1.0 } else { 0.5 };
    let half = Literal::of(b.dtype_of(x), half).into();
    let halved = b.emit1(Scalar::Mul, &[x, half]);
    let diagonal = mask(b, &b.shape_of(x), Part::Diagonal);
    part(b, b.emit1(Scalar::Select, &[diagonal, halved, x]), Part::Lower)
}

/// Emits `op(T)⁻¹ x`, where `op(T)` is the triangle that `solve` reads.
pub(super) fn solved(b: &Builder<'_>, solve: TriangularSolve, t: Atom, x: Atom) -> Atom {
    b.emit1(solve, &[t, x])
}

/// Emits `x U⁻¹` for an upper triangular `U`: `(U⁻ᵀ xᵀ)ᵀ`.
pub(super) fn over_upper(b: &Builder<'_>, x: Atom, u: Atom) -> Atom {
    let solve = TriangularSolve { lower: false, transposed: true, unit_diagonal: false };
    transposed(b, solved(b, solve, u, transposed(b, x)))
}

/// Emits the upper left corner with this number of rows and columns, with zeros beyond the size of `x`.
pub(super) fn corner(b: &Builder<'_>, x: Atom, rows: usize, columns: usize) -> Atom {
    let shape = b.shape_of(x);
    let rank = shape.len();
    if shape[rank - 2..] == [rows, columns] {
        return x;
    }
    let mut high = vec![0; rank];
    high[rank - 2] = rows as i64 - shape[rank - 2] as i64;
    high[rank - 1] = columns as i64 - shape[rank - 1] as i64;
    let zero = Literal::zero(b.dtype_of(x)).into();
    b.emit1(Pad { low: vec![0; rank], high, interior: vec![0; rank] }, &[x, zero])
}

/// Emits the diagonal of square matrices.
pub(super) fn diagonal(b: &Builder<'_>, x: Atom) -> Atom {
    let rank = b.shape_of(x).len();
    b.emit1(Diagonal { axes: vec![rank - 2, rank - 1] }, &[x])
}

/// Emits vectors `[.., n]` repeated into matrices with `columns` columns: element i in row i.
pub(super) fn by_row(b: &Builder<'_>, x: Atom, columns: usize) -> Atom {
    let mut shape = b.shape_of(x).to_vec();
    shape.push(columns);
    b.emit1(Broadcast { dims: (0..shape.len() - 1).collect(), shape: shape[..].into() }, &[x])
}

/// Emits vectors `[.., n]` repeated into matrices with `rows` rows: element j in column j.
pub(super) fn by_column(b: &Builder<'_>, x: Atom, rows: usize) -> Atom {
    let mut shape = b.shape_of(x).to_vec();
    let last = shape.len() - 1;
    shape.insert(last, rows);
    let dims = (0..last).chain([last + 1]).collect();
    b.emit1(Broadcast { dims, shape: shape[..].into() }, &[x])
}

/// Emits `x[j] - x[i]` in row i and column j.
pub(super) fn gaps(b: &Builder<'_>, x: Atom) -> Atom {
    let shape = b.shape_of(x);
    let n = shape[shape.len() - 1];
    minus(b, by_column(b, x, n), by_row(b, x, n))
}

/// Emits some columns of matrices, or elements of vectors: the positions `places` of the last axis.
pub(super) fn columns(b: &Builder<'_>, x: Atom, places: &Ranges) -> Atom {
    let shape = b.shape_of(x);
    let axis = shape.len() - 1;
    if places.is_all(shape[axis]) {
        return x;
    }
    let part = |range: std::ops::Range<usize>| {
        let (mut start, mut limit) = (vec![0; axis + 1], shape.to_vec());
        (start[axis], limit[axis]) = (range.start, range.end);
        b.emit1(Slice::dense(start, limit), &[x])
    };
    let parts: Vec<Atom> = places.iter().map(part).collect();
    match parts[..] {
        [one] => one,
        _ => b.emit1(Concatenate { axis }, &parts),
    }
}

/// Emits an array with the given parts at their positions of a last axis of this extent, and zeros elsewhere:
/// the transpose of [`columns`] for each part.
pub(super) fn spread(b: &Builder<'_>, parts: &[(Ranges, Atom)], extent: usize) -> Atom {
    if let [(places, part)] = parts
        && places.is_all(extent)
    {
        return *part;
    }
    let mut pieces: Vec<(usize, usize, Atom)> = Vec::new();
    for (places, part) in parts {
        let mut from = 0;
        for range in places.iter() {
            let piece = columns(b, *part, &Ranges::one(from..from + range.len()));
            pieces.push((range.start, range.end, piece));
            from += range.len();
        }
    }
    pieces.sort_by_key(|piece| piece.0);
    let like = b.type_of(parts[0].1);
    let zeros = |count: usize| {
        let mut ty = like.as_array()?.clone();
        let axis = ty.shape.len() - 1;
        ty.shape[axis] = count;
        Some(elementwise::zeros(b, &ty))
    };
    let (mut all, mut at) = (Vec::new(), 0);
    for (start, end, piece) in pieces {
        all.extend(if start > at { zeros(start - at) } else { None });
        all.push(piece);
        at = end;
    }
    all.extend(if extent > at { zeros(extent - at) } else { None });
    match all[..] {
        [one] => one,
        _ => b.emit1(Concatenate { axis: b.shape_of(parts[0].1).len() - 1 }, &all),
    }
}

/// Emits the elements of a matrix, with `number` in place of the elements of the part.
pub(super) fn unless(b: &Builder<'_>, part: Part, x: Atom, number: f64) -> Atom {
    let number = Literal::of(b.dtype_of(x), number).into();
    b.emit1(Scalar::Select, &[mask(b, &b.shape_of(x), part), number, x])
}

/// `x + y`
pub(super) fn plus(b: &Builder<'_>, x: Atom, y: Atom) -> Atom {
    b.emit1(Scalar::Add, &[x, y])
}

/// `x - y`
pub(super) fn minus(b: &Builder<'_>, x: Atom, y: Atom) -> Atom {
    b.emit1(Scalar::Sub, &[x, y])
}

/// `x ∘ y`, element by element.
pub(super) fn times(b: &Builder<'_>, x: Atom, y: Atom) -> Atom {
    b.emit1(Scalar::Mul, &[x, y])
}

/// Calls `solve` once for a batch of right-hand sides, axis 0 of `right`, as additional columns: `[size, .., n, m]`
/// is reordered to `[.., n, size m]`.
pub(super) fn by_columns(b: &Builder<'_>, right: Atom, solve: impl Fn(Atom) -> Atom) -> Atom {
    let last = b.shape_of(right).len() - 2;
    let beside = move_axis(b, right, 0, last);
    let apart = b.shape_of(beside);
    let mut together = apart[..last].to_vec();
    together.push(apart[last] * apart[last + 1]);
    let solved = solve(reshaped(b, beside, &together));
    move_axis(b, reshaped(b, solved, &apart), last, 0)
}
