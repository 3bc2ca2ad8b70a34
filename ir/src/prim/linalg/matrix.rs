//! Matrices on the last two axes of an array, and what rules do with them.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype, Shape, Type};
use crate::prim::{Dot, Iota, Operand, Permute, Scalar};

/// The axes of a batch, rows and columns of a floating-point array of matrices.
pub(super) fn matrices<'a>(name: &str, operand: &Operand<'a>) -> Result<(&'a ArrayType, [usize; 2])> {
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

/// As [`matrices`], with as many rows as columns.
pub(super) fn square<'a>(name: &str, operand: &Operand<'a>) -> Result<(&'a ArrayType, usize)> {
    let (x, [rows, columns]) = matrices(name, operand)?;
    if rows == columns {
        return Ok((x, rows));
    }
    let message = format!("`{name}` of {x}: {rows} rows and {columns} columns");
    Err(Problem::new(Kind::Shape, message, "it takes square matrices"))
}

/// The axes before the last two.
pub(super) fn batch_axes(shape: &Shape) -> &[usize] {
    &shape[..shape.len() - 2]
}

/// `x y`
pub(super) fn product(b: &Builder<'_>, x: Atom, y: Atom) -> Atom {
    let rank = b.shape_of(x).len();
    let batch = (0..rank - 2).map(|axis| (axis, axis)).collect();
    b.emit1(Dot { batch, contract: vec![(rank - 1, rank - 2)] }, &[x, y])
}

/// `xᵀ`
pub(super) fn transposed(b: &Builder<'_>, x: Atom) -> Atom {
    let rank = b.shape_of(x).len();
    let mut permutation: Vec<usize> = (0..rank).collect();
    permutation.swap(rank - 2, rank - 1);
    b.emit1(Permute { permutation }, &[x])
}

/// Which elements of a matrix: those whose row compares so with their column.
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

/// True at the elements of that part of matrices of that shape.
fn mask(b: &Builder<'_>, shape: &Shape, part: Part) -> Atom {
    let rank = shape.len();
    let count =
        |axis| b.emit1(Iota { shape: shape.clone(), axis, dtype: Dtype::I64 }, &[]);
    let (row, column) = (count(rank - 2), count(rank - 1));
    match part {
        Part::Lower => b.emit1(Scalar::Ge, &[row, column]),
        Part::StrictlyLower => b.emit1(Scalar::Gt, &[row, column]),
        Part::Upper => b.emit1(Scalar::Le, &[row, column]),
        Part::StrictlyUpper => b.emit1(Scalar::Lt, &[row, column]),
        Part::Diagonal => b.emit1(Scalar::Eq, &[row, column]),
    }
}

/// The elements of that part, and zeros.
pub(super) fn part(b: &Builder<'_>, x: Atom, part: Part) -> Atom {
    let zero = Literal::zero(b.dtype_of(x)).into();
    b.emit1(Scalar::Select, &[mask(b, &b.shape_of(x), part), x, zero])
}

/// The symmetric matrix with the lower triangle of `x`: `tril(x) + tril(x, -1)ᵀ`.
pub(super) fn symmetric_of_lower(b: &Builder<'_>, x: Atom) -> Atom {
    let above = transposed(b, part(b, x, Part::StrictlyLower));
    b.emit1(Scalar::Add, &[part(b, x, Part::Lower), above])
}

/// `Φ(x)`: the lower triangle with its diagonal halved, so that `Φ(x) + Φ(x)ᵀ = x` of a symmetric `x`.
pub(super) fn half_of_lower(b: &Builder<'_>, x: Atom) -> Atom {
    let half = Literal::of(b.dtype_of(x), 0.5).into();
    let halved = b.emit1(Scalar::Mul, &[x, half]);
    let diagonal = mask(b, &b.shape_of(x), Part::Diagonal);
    part(b, b.emit1(Scalar::Select, &[diagonal, halved, x]), Part::Lower)
}
