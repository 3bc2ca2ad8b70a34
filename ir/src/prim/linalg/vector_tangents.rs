//! The tangents of eigenvectors and singular vectors, as solutions of linear systems.
//!
//! Each vector has its own system, which contains no other vector:
//!
//! ```text
//! eigh:   (w[j] - A) dv[j] = dA v[j] - dw[j] v[j]            v[j]ᵀ dv[j] = 0
//! svd:    s[j] du[j] - A  dv[j] = dA  v[j] - ds[j] u[j]      u[j]ᵀ du[j] = 0
//!         s[j] dv[j] - Aᵀ du[j] = dAᵀ u[j] - ds[j] v[j]      v[j]ᵀ dv[j] = 0
//! ```
//!
//! Without its side condition a system has a solution y = dv[j] + α v[j] for every α. The border `c v̂[j] v̂[j]ᵀ` on the
//! left, where `v̂` is `v` as a constant and `c` the largest eigenvalue or singular value, a constant too, selects the y
//! with v̂[j]ᵀ y = 0. The tangent is then `y - v[j] v[j]ᵀ y`. With `v` in place of `v̂` the projection would not be
//! needed, but the derivative of the border, `c dv[j] v[j]ᵀ y`, would be a right side with rounding errors of
//! `1 / gap²`, which the next solution divides by the gap once more.
//!
//! For singular vectors the border is `c/2` times the sum of `(û, v̂) (û, v̂)ᵀ`, which selects α, and of
//! `(û, -v̂) (u, -v)ᵀ`, which makes the system regular at the singular value 0 and enforces `uᵀ y_u = vᵀ y_v`.
//!
//! The systems are symmetric where `v̂` is `v`, and diagonal in the coordinates of the decomposition's vectors,
//! with the diagonal `w[j] - w[i]`. So a tangent costs no more than the formula with `1 / (w[j] - w[i])` of the
//! literature.
//!
//! The formula with `1 / (w[j] - w[i])` is not emitted, because its derivative would pass through the tangents of all
//! vectors. The derivative of a [`LinearSolve`] follows from its equation, which has one column per vector.
//!
//! **Equal values.** Eigenvectors whose values are equal, or differ by a rounding error, are any basis of a space, so
//! they have no derivative. The quotient is nan there, even for a cotangent of 0: for `tr(W V diag(w) Vᵀ)` at a
//! multiple of the identity all cotangents of vectors are 0, but the derivative is `W`. A column has no system only if
//! the structure of the program shows that the vector is not read (`reads` of the rule). Then the solver of the other
//! columns takes the values and vectors of the decomposition as constants, so that derivatives of every order depend
//! only on the columns that are read.
//!
//! **One side of a matrix that is not square.** The longer side has more vectors of the value 0 than a thin
//! decomposition returns, so `u[j]` of that side has no derivative there. `v[j]` of the shorter side may have one. If
//! `v[j]` is read and `u[j]` is not, `v[j]` is differentiated as an eigenvector of `AᵀA`, whose equation contains no
//! `u`.
//!
//! Source of the formulas: M. Giles (2008); J. Townsend, *Differentiating the singular value decomposition* (2016).
//! Source of the bordered system: J. Magnus, *On differentiating eigenvalues and eigenvectors* (1985).

use super::matrix::{
    MatrixPart, by_column, by_row, columns, mask, minus, plus, product, spread, times, transposed,
};
use crate::fault::{Fault, planted};
use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId};
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::problem::Result;
use crate::lang::types::{Dtype, Shape, Type};
use crate::prim::rules::region_helpers::function;
use crate::prim::{
    Broadcast, Concatenate, Iota, LinearSolve, Ranges, Reduce, Reducer, Scalar, StopGradient,
};

/// Values that differ by no more than this many rounding errors of the largest value count as equal. The
/// decompositions return equal values of dense matrices of order 150 up to 50 rounding errors apart (80 in f32). The
/// closest two values of random f32 matrices of order 500 are about 1000 rounding errors apart.
const CLOSE: f64 = 64.0;

/// Emits `x[j]ᵀ y[j]` for each column j of two matrices.
pub(super) fn dot_columns(b: &Builder<'_>, x: Atom, y: Atom) -> Atom {
    let axes = vec![b.shape_of(x).len() - 2];
    b.emit1(Reduce { reducer: Reducer::Sum, axes }, &[times(b, x, y)])
}

/// The eigenvectors of symmetric matrices, `A V = V diag(w)`, some columns of which are read.
pub(super) struct Eigenvectors<'r> {
    /// The symmetric matrices `A`.
    pub(super) a: Atom,
    /// All eigenvalues `w`.
    pub(super) w: Atom,
    /// All eigenvectors, as the columns of `V`.
    pub(super) v: Atom,
    /// The positions of the columns of `V` that are read.
    pub(super) read: &'r Ranges,
}

impl Eigenvectors<'_> {
    /// Emits `dV` in the columns that are read. `moved` is `dA V` and `dw` the tangent of `w`, both in these
    /// columns only.
    pub(super) fn tangents(&self, b: &Builder<'_>, moved: Atom, dw: Atom) -> Result<Atom> {
        let Eigenvectors { a, w, v, read } = *self;
        let [own_w, own_v, c] = [w, v, scale(b, w)].map(|x| columns(b, x, read));
        let all = constants(b, [w, v], read);
        let parameters = [a, own_w, own_v, c, own_w, all[0], all[1]];
        bordered(
            b,
            parameters,
            Gaps::Differences,
            read,
            minus(b, moved, scaled_columns(b, own_v, dw)),
        )
    }
}

/// The divisor in the tangents of eigenvectors or singular vectors, computed from the values `p[i]` and `p[j]` of two
/// vectors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gaps {
    /// The difference `p[j] - p[i]`.
    Differences,
    /// The difference of squares `p[j]² - p[i]²`.
    OfSquares,
}

/// Emits `dV` of `A V = V diag(w)` in the columns that are read, by the bordered systems. The parameters are the matrix
/// `a`; the columns that are read of `w`, of `v`, of the border's factor `c` and of `p`; and all columns of `p` and of
/// `v`. Here `p` is `w`, or its square root for [`Gaps::OfSquares`].
fn bordered(
    b: &Builder<'_>,
    parameters: [Atom; 7],
    kind: Gaps,
    read: &Ranges,
    right: Atom,
) -> Result<Atom> {
    let own_v = parameters[2];
    let mut parameters = parameters;
    parameters[2] = b.emit1(StopGradient, &[own_v]);
    let matvec = |b: &Builder<'_>, p: [Atom; 7], y: [Atom; 1]| {
        let ([a, w, v, c, ..], [y]) = (p, y);
        let own = scaled_columns(b, v, times(b, c, dot_columns(b, v, y)));
        [plus(b, minus(b, scaled_columns(b, y, w), product(b, a, y)), own)]
    };
    let solve = |b: &Builder<'_>, p: [Atom; 7], y: [Atom; 1]| {
        let ([_, _, _, c, p, all, v], [y]) = (p, y);
        let inside = product(b, transposed(b, v), y);
        let mut gaps = open_gaps(b, p, all, c);
        if kind == Gaps::OfSquares {
            gaps = times(b, gaps, sums(b, p, all));
        }
        let divisors = on_own(b, read, by_column(b, c, rows(b, v)), gaps);
        [product(b, v, quotient(b, inside, divisors))]
    };
    let [y] = solved(b, "eigenvector_tangents", parameters, [right], matvec, solve)?;
    Ok(orthogonal_part(b, own_v, y))
}

/// Emits the part of each column of `y` that is orthogonal to the corresponding column of `v`.
fn orthogonal_part(b: &Builder<'_>, v: Atom, y: Atom) -> Atom {
    minus(b, y, scaled_columns(b, v, dot_columns(b, v, y)))
}

/// The singular vectors of matrices, thin, `A = U diag(s) Vᵀ`, some columns of which are read.
pub(super) struct SingularVectors<'r> {
    /// The matrices `A` that were decomposed.
    pub(super) a: Atom,
    /// All left vectors `U`, all singular values `s`, and all right vectors as the columns of `V`.
    pub(super) usv: [Atom; 3],
    /// The positions of the columns of `U` and of `V` that are read.
    pub(super) read: [&'r Ranges; 2],
    /// The positions of the singular values that are read, with `dA V` and `ds` in these columns.
    pub(super) values: Option<(&'r Ranges, [Atom; 2])>,
}

impl SingularVectors<'_> {
    /// Emits `dU` and `dV` for the tangent `da` of `a`. Columns that are not read are zero; a side without a
    /// column that is read is `None`.
    pub(super) fn tangents(&self, b: &Builder<'_>, da: Atom) -> Result<[Option<Atom>; 2]> {
        let [u, s, v] = self.usv;
        let k = last(b, s);
        let both = match (rows(b, u) > k, rows(b, v) > k) {
            (true, _) => self.read[0].clone(),
            (_, true) => self.read[1].clone(),
            _ => self.read[0].or(self.read[1]),
        };
        let alone = self.read.map(|read| read.except(&both));
        let together = match both.is_empty() {
            true => [None; 2],
            false => self.of_both(b, da, &both)?.map(Some),
        };
        let mut all = [None; 2];
        for (side, tangent) in all.iter_mut().enumerate() {
            let parts = [
                together[side].map(|y| (both.clone(), y)),
                match alone[side].is_empty() {
                    true => None,
                    false => Some((alone[side].clone(), self.of_one(b, da, side, &alone[side])?)),
                },
            ];
            let parts: Vec<(Ranges, Atom)> = parts.into_iter().flatten().collect();
            if !self.read[side].is_empty() && !parts.is_empty() {
                *tangent = Some(spread(b, &parts, k));
            }
        }
        Ok(all)
    }

    /// Emits `[dU, dV]` in the columns `read`, from the system that couples left and right vectors.
    fn of_both(&self, b: &Builder<'_>, da: Atom, read: &Ranges) -> Result<[Atom; 2]> {
        let [u, s, v] = self.usv;
        let [own_u, own_s, own_v, c] = [u, s, v, scale(b, s)].map(|x| columns(b, x, read));
        let all = constants(b, self.usv, read);
        let [image, ds] = match self.values {
            Some((values, known)) if values == read => known,
            _ => {
                let image = product(b, da, own_v);
                [image, dot_columns(b, own_u, image)]
            }
        };
        let moved = [image, product(b, transposed(b, da), own_u)];
        let right = [(moved[0], own_u), (moved[1], own_v)];
        let right = right.map(|(moved, x)| minus(b, moved, scaled_columns(b, x, ds)));
        let matvec = |b: &Builder<'_>, p: [Atom; 10], y: [Atom; 2]| {
            let ([a, u, s, v, c, .., fixed_u, fixed_v], [yu, yv]) = (p, y);
            let half = times(b, c, Literal::of(b.dtype_of(c), 0.5).into());
            let sum = plus(b, dot_columns(b, fixed_u, yu), dot_columns(b, fixed_v, yv));
            let difference = minus(b, dot_columns(b, u, yu), dot_columns(b, v, yv));
            let row = |x: Atom, y: Atom, image: Atom, along: Atom| {
                let own = scaled_columns(b, x, times(b, half, along));
                plus(b, minus(b, scaled_columns(b, y, s), image), own)
            };
            [
                row(fixed_u, yu, product(b, a, yv), plus(b, sum, difference)),
                row(fixed_v, yv, product(b, transposed(b, a), yu), minus(b, sum, difference)),
            ]
        };
        let solve = |b: &Builder<'_>, p: [Atom; 10], y: [Atom; 2]| singular_solve(b, p, read, y);
        let fixed = [own_u, own_v].map(|x| b.emit1(StopGradient, &[x]));
        let parameters =
            [self.a, own_u, own_s, own_v, c, all[0], all[1], all[2], fixed[0], fixed[1]];
        let [yu, yv] = solved(b, "singular_vector_tangents", parameters, right, matvec, solve)?;
        Ok([orthogonal_part(b, own_u, yu), orthogonal_part(b, own_v, yv)])
    }

    /// Emits the tangent `dV` of the right singular vectors (side 1) or `dU` of the left ones (side 0), in the columns
    /// `read`, if the vectors of the other side are not read. These vectors are eigenvectors of `BᵀB`, where `B` is `A`
    /// (or `Aᵀ`) divided by the largest singular value, so that no square overflows or underflows.
    ///
    /// The value `w = |B v|²` depends on `v`, so the tangent of `w` has rounding errors divided by the gap between the
    /// values, and a second derivative has errors divided by the cube of the gap instead of its square.
    fn of_one(&self, b: &Builder<'_>, da: Atom, side: usize, read: &Ranges) -> Result<Atom> {
        let [u, s, v] = self.usv;
        let x = if side == 0 { u } else { v };
        let c = scale(b, s);
        // `c`, the largest singular value, has one element per column of `v` and is repeated in each row, so it
        // has the shape of the matrix.
        let by_scale = |a: Atom| match side {
            0 => b.emit1(Scalar::Div, &[transposed(b, a), by_column(b, c, rows(b, v))]),
            _ => b.emit1(Scalar::Div, &[a, by_column(b, c, rows(b, u))]),
        };
        let (a, da) = (by_scale(self.a), by_scale(da));
        let p = b.emit1(Scalar::Div, &[s, c]);
        let [p, all] = [p, x].map(|x| b.emit1(StopGradient, &[x]));
        let (own_p, own_x) = (columns(b, p, read), columns(b, x, read));
        let image = product(b, a, own_x);
        let w = dot_columns(b, image, image);
        let (at, dat) = (transposed(b, a), transposed(b, da));
        let moved = plus(b, product(b, dat, image), product(b, at, product(b, da, own_x)));
        let dw = dot_columns(b, own_x, moved);
        let one = Literal::of(b.dtype_of(s), 1.0).into();
        let unit = b.emit1(Broadcast { shape: b.shape_of(own_p), dims: Vec::new() }, &[one]);
        let parameters = [product(b, at, a), w, own_x, unit, own_p, p, all];
        let right = minus(b, moved, scaled_columns(b, own_x, dw));
        bordered(b, parameters, Gaps::OfSquares, read, right)
    }
}

/// Emits the solution of the coupled systems in the coordinates of the singular vectors, `y[i, j]` for `U` and
/// `z[i, j]` for `V`:
///
/// ```text
/// s[j] y - s[i] z = α       y = (s[j] α + s[i] β) / (s[j]² - s[i]²)
/// s[j] z - s[i] y = β       z = (s[j] β + s[i] α) / (s[j]² - s[i]²)
/// ```
///
/// For i = j the border adds `c` on the left: `y + z = (α + β) / c`, `y - z = (α - β) / (c + 2 s[j])`.
/// Components outside the columns of a thin `U` or `V` are divided by `s[j]`. The difference of squares is
/// computed as a product, so that no square overflows or underflows.
fn singular_solve(b: &Builder<'_>, p: [Atom; 10], read: &Ranges, right: [Atom; 2]) -> [Atom; 2] {
    let [_, _, own_s, _, own_c, u, s, v, ..] = p;
    let k = last(b, s);
    let (sj, si) = (by_column(b, own_s, k), by_row(b, s, read.len()));
    let c = by_column(b, own_c, k);
    let [alpha, beta] =
        [(u, right[0]), (v, right[1])].map(|(x, y)| product(b, transposed(b, x), y));
    let one = Literal::of(b.dtype_of(s), 1.0).into();
    let (gaps, sums) = (on_own(b, read, one, open_gaps(b, own_s, s, own_c)), plus(b, sj, si));
    let [by_gap, other_by_gap] = [alpha, beta].map(|x| quotient(b, x, gaps));
    // On the diagonal (i = j) the sum of two singular values may be zero, and the border's formula is used. So replace
    // the sum by 1 there.
    let other_sums = on_own(b, read, one, sums);
    let others =
        |x: Atom, y: Atom| quotient(b, plus(b, times(b, sj, x), times(b, si, y)), other_sums);
    let half = Literal::of(b.dtype_of(s), 0.5).into();
    let sum = quotient(b, plus(b, alpha, beta), c);
    let difference = quotient(b, minus(b, alpha, beta), plus(b, c, sums));
    let own =
        |combine: fn(&Builder<'_>, Atom, Atom) -> Atom| times(b, half, combine(b, sum, difference));
    let inside = [
        on_own(b, read, own(plus), others(by_gap, other_by_gap)),
        on_own(b, read, own(minus), others(other_by_gap, by_gap)),
    ];
    let whole = |x: Atom, inside: Atom, right: Atom, own: Atom| {
        let within = product(b, x, inside);
        let n = rows(b, x);
        if n == k {
            return within;
        }
        let beyond = minus(b, right, product(b, x, own));
        let open = unless_close(b, own_s, own_c, own_s);
        plus(b, within, quotient(b, beyond, by_column(b, open, n)))
    };
    [whole(u, inside[0], right[0], alpha), whole(v, inside[1], right[1], beta)]
}

/// Emits the solution of symmetric systems as a `linear_solve`: `matvec` and `solve` take the parameters, then
/// the unknowns or right-hand sides.
fn solved<const P: usize, const N: usize>(
    b: &Builder<'_>,
    name: &str,
    parameters: [Atom; P],
    right: [Atom; N],
    matvec: impl Fn(&Builder<'_>, [Atom; P], [Atom; N]) -> [Atom; N],
    solve: impl Fn(&Builder<'_>, [Atom; P], [Atom; N]) -> [Atom; N],
) -> Result<[Atom; N]> {
    let operands = [&parameters[..], &right[..]].concat();
    let types: Vec<Type> = operands.iter().map(|x| b.type_of(*x)).collect();
    let system = format!("{name}_system");
    let (matvec, solve) = b.with_module(|m| {
        Ok((defined(m, &system, &types, matvec)?, defined(m, name, &types, solve)?))
    })?;
    let y = b.emit(LinearSolve { solve, transposed: solve, matvec }, &operands);
    Ok(std::array::from_fn(|i| y[i]))
}

/// Defines a function for `linear_solve`, of the parameters and then the unknowns or right-hand sides.
fn defined<const P: usize, const N: usize>(
    m: &mut Module,
    name: &str,
    types: &[Type],
    of: impl Fn(&Builder<'_>, [Atom; P], [Atom; N]) -> [Atom; N],
) -> Result<FuncId> {
    function(m, name, [types, &[]], |b, x, _| {
        let (p, y) = x.split_at(P);
        of(b, std::array::from_fn(|i| p[i]), std::array::from_fn(|i| y[i])).to_vec()
    })
}

/// Emits the largest absolute value of each vector `w` (1 if that is 0), repeated to the length of the vector, as
/// a constant for differentiation.
pub(super) fn scale(b: &Builder<'_>, w: Atom) -> Atom {
    let shape = b.shape_of(w);
    let axis = shape.len() - 1;
    let size = b.emit1(Scalar::Abs, &[b.emit1(StopGradient, &[w])]);
    let largest = b.emit1(Reduce { reducer: Reducer::Max, axes: vec![axis] }, &[size]);
    let [zero, one] = [0.0, 1.0].map(|x| Atom::from(Literal::of(b.dtype_of(w), x)));
    let none = b.emit1(Scalar::Eq, &[largest, zero]);
    let largest = b.emit1(Scalar::Select, &[none, one, largest]);
    b.emit1(Broadcast { dims: (0..axis).collect(), shape }, &[largest])
}

/// Emits `x / y`. 0/0 must give NaN, not 0.
fn quotient(b: &Builder<'_>, x: Atom, y: Atom) -> Atom {
    let quotient = b.emit1(Scalar::Div, &[x, y]);
    if !planted(Fault::ZeroOverZero) {
        return quotient;
    }
    let zero = Literal::zero(b.dtype_of(x)).into();
    b.emit1(Scalar::Select, &[b.emit1(Scalar::Eq, &[x, zero]), x, quotient])
}

/// Emits `x`, or nan where the absolute value of `gap` is at most [`CLOSE`] rounding errors of `c`.
pub(super) fn unless_close(b: &Builder<'_>, gap: Atom, c: Atom, x: Atom) -> Atom {
    let dtype = b.dtype_of(gap);
    let least = if planted(Fault::GapOfRounding) { 0.0 } else { CLOSE * epsilon(dtype) };
    let least = times(b, c, Literal::of(dtype, least).into());
    let close = b.emit1(Scalar::Le, &[b.emit1(Scalar::Abs, &[gap]), least]);
    b.emit1(Scalar::Select, &[close, Literal::of(dtype, f64::NAN).into(), x])
}

/// Returns the machine epsilon of the dtype: the distance from 1 to the next float.
fn epsilon(dtype: Dtype) -> f64 {
    if dtype == Dtype::F32 { f32::EPSILON.into() } else { f64::EPSILON }
}

/// Emits `p[j] - q[i]` in row i and column j, or NaN where the two values count as equal ([`CLOSE`]).
fn open_gaps(b: &Builder<'_>, p: Atom, q: Atom, c: Atom) -> Atom {
    let n = last(b, q);
    let gaps = minus(b, by_column(b, p, n), by_row(b, q, last(b, p)));
    unless_close(b, gaps, by_column(b, c, n), gaps)
}

/// Emits `p[j] + q[i]` in row i and column j.
fn sums(b: &Builder<'_>, p: Atom, q: Atom) -> Atom {
    plus(b, by_column(b, p, last(b, q)), by_row(b, q, last(b, p)))
}

/// Returns all values and vectors for a solver. If some column is not read, they become constants for
/// differentiation, so that no derivative passes through that column.
fn constants<const N: usize>(b: &Builder<'_>, all: [Atom; N], read: &Ranges) -> [Atom; N] {
    match read.is_all(last(b, all[0])) {
        true => all,
        false => all.map(|x| b.emit1(StopGradient, &[x])),
    }
}

/// Emits `x diag(y)`: column j of `x` times `y[j]`.
fn scaled_columns(b: &Builder<'_>, x: Atom, y: Atom) -> Atom {
    times(b, x, by_column(b, y, rows(b, x)))
}

/// Emits `y` with its diagonal replaced by that of `x`, where column j of `y` counts as the column at the j-th position
/// of `read`.
fn on_own(b: &Builder<'_>, read: &Ranges, x: Atom, y: Atom) -> Atom {
    let shape = b.shape_of(y);
    b.emit1(Scalar::Select, &[same_vector_mask(b, &shape, read), x, y])
}

/// Emits a mask for matrices with one column per position in `read`: true where row and column belong to the same
/// vector.
fn same_vector_mask(b: &Builder<'_>, shape: &Shape, read: &Ranges) -> Atom {
    let rank = shape.len();
    if read.is_all(shape[rank - 2]) {
        return mask(b, shape, MatrixPart::Diagonal);
    }
    let count = |shape: Shape, axis| b.emit1(Iota { shape, axis, dtype: Dtype::I64 }, &[]);
    let numbers = |range: std::ops::Range<usize>| {
        let mut part = shape.clone();
        part[rank - 1] = range.len();
        plus(b, count(part, rank - 1), Literal::i64(range.start as i64).into())
    };
    let numbers: Vec<Atom> = read.iter().map(numbers).collect();
    let column = match numbers[..] {
        [one] => one,
        _ => b.emit1(Concatenate { axis: rank - 1 }, &numbers),
    };
    b.emit1(Scalar::Eq, &[count(shape.clone(), rank - 2), column])
}

/// Returns the number of rows of the matrices `x`.
fn rows(b: &Builder<'_>, x: Atom) -> usize {
    let shape = b.shape_of(x);
    shape[shape.len() - 2]
}

/// Returns the extent of the last axis of `x`.
fn last(b: &Builder<'_>, x: Atom) -> usize {
    let shape = b.shape_of(x);
    shape[shape.len() - 1]
}
