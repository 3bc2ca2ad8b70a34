//! Matrices on the last two axes of an array, and the operations on them that derivative rules use.

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

/// Checks that the operand is an array of square matrices of floats; returns its type and the order of the
/// matrices.
pub(super) fn square<'a>(name: &str, operand: &Operand<'a>) -> Result<(&'a ArrayType, usize)> {
    let (x, [rows, columns]) = matrices(name, operand)?;
    if rows == columns {
        return Ok((x, rows));
    }
    let message = format!("`{name}` of {x}: {rows} rows and {columns} columns");
    Err(Problem::new(Kind::Shape, message, "it takes square matrices"))
}

/// Returns the extents of the batch axes: all but the last two.
pub(super) fn batch_axes(shape: &Shape) -> &[usize] {
    &shape[..shape.len() - 2]
}

/// Emits the matrix product `x y` for every batch member.
pub(super) fn product(b: &Builder<'_>, x: Atom, y: Atom) -> Atom {
    let rank = b.shape_of(x).len();
    let batch = (0..rank - 2).map(|axis| (axis, axis)).collect();
    b.emit1(Dot { batch, contract: vec![(rank - 1, rank - 2)] }, &[x, y])
}

/// Emits the transposed matrices `xᵀ` for every batch member.
pub(super) fn transposed(b: &Builder<'_>, x: Atom) -> Atom {
    let rank = b.shape_of(x).len();
    let mut permutation: Vec<usize> = (0..rank).collect();
    permutation.swap(rank - 2, rank - 1);
    b.emit1(Permute { permutation }, &[x])
}

/// A part of a matrix, defined by comparing the row with the column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MatrixPart {
    /// The elements with row >= column.
    Lower,
    /// The elements with row > column.
    StrictlyLower,
    /// The elements with row <= column.
    Upper,
    /// The elements with row < column.
    StrictlyUpper,
    /// The elements with row = column.
    Diagonal,
}

/// Emits a bool mask that is true in this part of matrices of this shape.
pub(super) fn mask(b: &Builder<'_>, shape: &Shape, part: MatrixPart) -> Atom {
    let rank = shape.len();
    let count = |axis| b.emit1(Iota { shape: shape.clone(), axis, dtype: Dtype::I64 }, &[]);
    let (row, column) = (count(rank - 2), count(rank - 1));
    match part {
        MatrixPart::Lower => b.emit1(Scalar::Ge, &[row, column]),
        MatrixPart::StrictlyLower => b.emit1(Scalar::Gt, &[row, column]),
        MatrixPart::Upper => b.emit1(Scalar::Le, &[row, column]),
        MatrixPart::StrictlyUpper => b.emit1(Scalar::Lt, &[row, column]),
        MatrixPart::Diagonal => b.emit1(Scalar::Eq, &[row, column]),
    }
}

/// Emits `x` with zeros outside of this part of the matrices.
pub(super) fn part(b: &Builder<'_>, x: Atom, part: MatrixPart) -> Atom {
    let zero = Literal::zero(b.dtype_of(x)).into();
    b.emit1(Scalar::Select, &[mask(b, &b.shape_of(x), part), x, zero])
}

/// Emits the symmetric matrix with the lower triangle of `x`: `tril(x) + tril(x, -1)ᵀ`.
pub(super) fn symmetric_of_lower(b: &Builder<'_>, x: Atom) -> Atom {
    let above = transposed(b, part(b, x, MatrixPart::StrictlyLower));
    b.emit1(Scalar::Add, &[part(b, x, MatrixPart::Lower), above])
}

/// Emits `Φ(x)`: the lower triangle with its diagonal halved, so that `Φ(x) + Φ(x)ᵀ = x` for symmetric `x`.
pub(super) fn half_of_lower(b: &Builder<'_>, x: Atom) -> Atom {
    let half = if planted(Fault::FactorHalf) { 1.0 } else { 0.5 };
    let half = Literal::of(b.dtype_of(x), half).into();
    let halved = b.emit1(Scalar::Mul, &[x, half]);
    let diagonal = mask(b, &b.shape_of(x), MatrixPart::Diagonal);
    part(b, b.emit1(Scalar::Select, &[diagonal, halved, x]), MatrixPart::Lower)
}

/// Emits `op(T)⁻¹ x`, where `op(T)` is the triangle of `t`, possibly transposed, that `solve` reads.
pub(super) fn solved(b: &Builder<'_>, solve: TriangularSolve, t: Atom, x: Atom) -> Atom {
    b.emit1(solve, &[t, x])
}

/// Emits `x U⁻¹` for an upper triangular `U`: `(U⁻ᵀ xᵀ)ᵀ`.
pub(super) fn over_upper(b: &Builder<'_>, x: Atom, u: Atom) -> Atom {
    let solve = TriangularSolve { lower: false, transposed: true, unit_diagonal: false };
    transposed(b, solved(b, solve, u, transposed(b, x)))
}

/// Emits the upper left corner of the matrices `x` with this number of rows and columns, with zeros beyond the
/// size of `x`.
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

/// Emits matrices with `columns` columns from vectors `[.., n]`: each element of row i is element i of the
/// vector.
pub(super) fn by_row(b: &Builder<'_>, x: Atom, columns: usize) -> Atom {
    let mut shape = b.shape_of(x).to_vec();
    shape.push(columns);
    b.emit1(Broadcast { dims: (0..shape.len() - 1).collect(), shape: shape[..].into() }, &[x])
}

/// Emits matrices with `rows` rows from vectors `[.., n]`: each element of column j is element j of the vector.
pub(super) fn by_column(b: &Builder<'_>, x: Atom, rows: usize) -> Atom {
    let mut shape = b.shape_of(x).to_vec();
    let last = shape.len() - 1;
    shape.insert(last, rows);
    let dims = (0..last).chain([last + 1]).collect();
    b.emit1(Broadcast { dims, shape: shape[..].into() }, &[x])
}

/// Emits the matrices with `x[j] - x[i]` in row i and column j, for vectors `x`.
pub(super) fn gaps(b: &Builder<'_>, x: Atom) -> Atom {
    let shape = b.shape_of(x);
    let n = shape[shape.len() - 1];
    minus(b, by_column(b, x, n), by_row(b, x, n))
}

/// Emits some columns of the matrices `x` (or elements of vectors): those at the positions `places` of the last
/// axis.
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

/// Emits an array whose last axis has this extent, with each part at its positions of that axis and zeros
/// elsewhere: the sum over the parts of the transposes of [`columns`].
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

/// Emits the matrices `x` with `number` in place of the elements of this part.
pub(super) fn unless(b: &Builder<'_>, part: MatrixPart, x: Atom, number: f64) -> Atom {
    let number = Literal::of(b.dtype_of(x), number).into();
    b.emit1(Scalar::Select, &[mask(b, &b.shape_of(x), part), number, x])
}

/// Emits `x + y`.
pub(super) fn plus(b: &Builder<'_>, x: Atom, y: Atom) -> Atom {
    b.emit1(Scalar::Add, &[x, y])
}

/// Emits `x - y`.
pub(super) fn minus(b: &Builder<'_>, x: Atom, y: Atom) -> Atom {
    b.emit1(Scalar::Sub, &[x, y])
}

/// Emits `x ∘ y`, the product element by element.
pub(super) fn times(b: &Builder<'_>, x: Atom, y: Atom) -> Atom {
    b.emit1(Scalar::Mul, &[x, y])
}

/// Emits the solutions of a batch of right-hand sides, axis 0 of `right`, by one call of `solve`, for which the
/// members are additional columns: `[size, .., n, m]` is reordered to `[.., n, size m]`.
pub(super) fn by_columns(b: &Builder<'_>, right: Atom, solve: impl Fn(Atom) -> Atom) -> Atom {
    let last = b.shape_of(right).len() - 2;
    let beside = move_axis(b, right, 0, last);
    let apart = b.shape_of(beside);
    let mut together = apart[..last].to_vec();
    together.push(apart[last] * apart[last + 1]);
    let solved = solve(reshaped(b, beside, &together));
    move_axis(b, reshaped(b, solved, &apart), last, 0)
}
