//! The tangents of eigenvectors and singular vectors, as solutions of linear systems.
//!
//! Each vector has a system of its own, in which no other vector stands:
//!
//! ```text
//! eigh:   (w[j] - A) dv[j] = dA v[j] - dw[j] v[j]            v[j]ᵀ dv[j] = 0
//! svd:    s[j] du[j] - A  dv[j] = dA  v[j] - ds[j] u[j]      u[j]ᵀ du[j] = 0
//!         s[j] dv[j] - Aᵀ du[j] = dAᵀ u[j] - ds[j] v[j]      v[j]ᵀ dv[j] = 0
//! ```
//!
//! The side conditions enter as `c v[j] v[j]ᵀ` on the left, whose value is 0 (`c` is the largest eigenvalue or singular
//! value, a constant). The systems are symmetric, and the vectors of the decomposition solve them: in their
//! coordinates they are diagonal, `w[j] - w[i]`. So a tangent costs no more than the formula with `1 / (w[j] - w[i])`
//! that the literature has.
//!
//! That formula is not written out, since derivatives of it would pass through the tangents of all vectors: where two
//! other eigenvalues are equal, or equal but for rounding, those are infinite or very large, and do not cancel. From
//! [`LinearSolve`] further derivatives follow by the equation, column by column. For the same reason a quotient of 0
//! and 0 is 0 here, so that a cotangent that is 0 stays so, and the systems leave out the columns whose solutions are
//! infinite, which 0 would turn into nan.
//!
//! Source of the formulas: M. Giles (2008); J. Townsend, *Differentiating the singular value decomposition* (2016).
//! Source of the bordered system: J. Magnus, *On differentiating eigenvalues and eigenvectors* (1985).

use super::matrix::{
    Part, by_column, by_row, gaps, mask, minus, plus, product, times, transposed, unless,
};
use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId};
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::problem::Result;
use crate::lang::types::Type;
use crate::prim::rules::region_helpers::function;
use crate::prim::{Broadcast, LinearSolve, Reduce, Reducer, Scalar, StopGradient};

/// `x[j]ᵀ y[j]` of the columns of two matrices.
pub(super) fn dot_columns(b: &Builder<'_>, x: Atom, y: Atom) -> Atom {
    let axes = vec![b.shape_of(x).len() - 2];
    b.emit1(Reduce { reducer: Reducer::Sum, axes }, &[times(b, x, y)])
}

/// `dV` of `A V = V diag(w)`: `moved` is `dA V`, and `dw` the tangent of `w`.
pub(super) fn of_eigenvectors(
    b: &Builder<'_>,
    [a, w, v]: [Atom; 3],
    moved: Atom,
    dw: Atom,
) -> Result<Atom> {
    let right = minus(b, moved, scaled_columns(b, v, dw));
    let matvec = |b: &Builder<'_>, p: [Atom; 4], y: [Atom; 1]| {
        let ([a, w, v, c], [y]) = (p, y);
        let y = only(b, y, apart(b, w, c));
        let own = scaled_columns(b, v, times(b, c, dot_columns(b, v, y)));
        [plus(b, minus(b, scaled_columns(b, y, w), product(b, a, y)), own)]
    };
    let solve = |b: &Builder<'_>, p: [Atom; 4], y: [Atom; 1]| {
        let ([_, w, v, c], [y]) = (p, y);
        let n = rows(b, v);
        let divisors = on_diagonal(b, by_column(b, c, n), gaps(b, w));
        let inside = product(b, transposed(b, v), y);
        [product(b, v, quotient(b, inside, divisors))]
    };
    let [dv] = solved(b, "eigenvector_tangents", [a, w, v, scale(b, w)], [right], matvec, solve)?;
    Ok(dv)
}

/// `[dU, dV]` of `A = U diag(s) Vᵀ`, thin: `moved` are `dA V` and `dAᵀ U`, and `ds` is the tangent of `s`.
pub(super) fn of_singular_vectors(
    b: &Builder<'_>,
    [a, u, s, v]: [Atom; 4],
    moved: [Atom; 2],
    ds: Atom,
) -> Result<[Atom; 2]> {
    let right = [(moved[0], u), (moved[1], v)];
    let right = right.map(|(moved, x)| minus(b, moved, scaled_columns(b, x, ds)));
    let matvec = |b: &Builder<'_>, p: [Atom; 5], y: [Atom; 2]| {
        let ([a, u, s, v, c], [yu, yv]) = (p, y);
        let mut solvable = apart(b, s, c);
        if rows(b, u) != rows(b, v) {
            solvable = b.emit1(Scalar::And, &[solvable, in_range(b, c, s)]);
        }
        let (yu, yv) = (only(b, yu, solvable), only(b, yv, solvable));
        let row = |x: Atom, y: Atom, image: Atom| {
            let own = scaled_columns(b, x, times(b, c, dot_columns(b, x, y)));
            plus(b, minus(b, scaled_columns(b, y, s), image), own)
        };
        [row(u, yu, product(b, a, yv)), row(v, yv, product(b, transposed(b, a), yu))]
    };
    let solve = |b: &Builder<'_>, p: [Atom; 5], y: [Atom; 2]| singular_solve(b, p, y);
    let parameters = [a, u, s, v, scale(b, s)];
    solved(b, "singular_vector_tangents", parameters, right, matvec, solve)
}

/// In the coordinates of the singular vectors, `y[i, j]` of `U` and `z[i, j]` of `V`:
///
/// ```text
/// s[j] y - s[i] z = α       y = (s[j] α + s[i] β) / (s[j]² - s[i]²)
/// s[j] z - s[i] y = β       z = (s[j] β + s[i] α) / (s[j]² - s[i]²)
/// ```
///
/// with `c` more on the left where i = j: `y + z = (α + β) / c`, `y - z = (α - β) / (c + 2 s[j])`. What lies beyond the columns
/// of a thin `U` or `V` is divided by `s[j]`. The difference of squares is a product, so that no square overflows or vanishes.
fn singular_solve(b: &Builder<'_>, p: [Atom; 5], right: [Atom; 2]) -> [Atom; 2] {
    let [_, u, s, v, c] = p;
    let k = b.shape_of(s)[b.shape_of(s).len() - 1];
    let (sj, si, c) = (by_column(b, s, k), by_row(b, s, k), by_column(b, c, k));
    let [alpha, beta] =
        [(u, right[0]), (v, right[1])].map(|(x, y)| product(b, transposed(b, x), y));
    let (gaps, sums) = (unless(b, Part::Diagonal, gaps(b, s), 1.0), plus(b, sj, si));
    let [by_gap, other_by_gap] = [alpha, beta].map(|x| quotient(b, x, gaps));
    let beside = |x: Atom, y: Atom| quotient(b, plus(b, times(b, sj, x), times(b, si, y)), sums);
    let half = Literal::of(b.dtype_of(s), 0.5).into();
    let sum = quotient(b, plus(b, alpha, beta), c);
    let difference = quotient(b, minus(b, alpha, beta), plus(b, c, sums));
    let own =
        |combine: fn(&Builder<'_>, Atom, Atom) -> Atom| times(b, half, combine(b, sum, difference));
    let inside = [
        on_diagonal(b, own(plus), beside(by_gap, other_by_gap)),
        on_diagonal(b, own(minus), beside(other_by_gap, by_gap)),
    ];
    let whole = |x: Atom, inside: Atom, right: Atom, own: Atom| {
        let within = product(b, x, inside);
        if rows(b, x) == k {
            return within;
        }
        let beyond = minus(b, right, product(b, x, own));
        plus(b, within, quotient(b, beyond, by_column(b, s, rows(b, x))))
    };
    [whole(u, inside[0], right[0], alpha), whole(v, inside[1], right[1], beta)]
}

/// The solution of a symmetric system: `matvec` and `solve` take the parameters, then unknowns or right sides.
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

/// A function of parameters, then of unknowns or right sides.
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

/// The largest absolute value of each vector, 1 where that is 0, as long as the vector and constant.
fn scale(b: &Builder<'_>, w: Atom) -> Atom {
    let shape = b.shape_of(w);
    let axis = shape.len() - 1;
    let size = b.emit1(Scalar::Abs, &[b.emit1(StopGradient, &[w])]);
    let largest = b.emit1(Reduce { reducer: Reducer::Max, axes: vec![axis] }, &[size]);
    let [zero, one] = [0.0, 1.0].map(|x| Atom::from(Literal::of(b.dtype_of(w), x)));
    let none = b.emit1(Scalar::Eq, &[largest, zero]);
    let largest = b.emit1(Scalar::Select, &[none, one, largest]);
    b.emit1(Broadcast { dims: (0..axis).collect(), shape }, &[largest])
}

/// `x / y`, and 0 where `x` is: a vector that nobody reads has cotangents of zero, whatever its divisor.
fn quotient(b: &Builder<'_>, x: Atom, y: Atom) -> Atom {
    let zero = Literal::zero(b.dtype_of(x)).into();
    let none = b.emit1(Scalar::Eq, &[x, zero]);
    b.emit1(Scalar::Select, &[none, x, b.emit1(Scalar::Div, &[x, y])])
}

/// Whether the square of `x / y` is finite.
fn in_range(b: &Builder<'_>, x: Atom, y: Atom) -> Atom {
    let ratio = b.emit1(Scalar::Div, &[x, y]);
    b.emit1(Scalar::IsFinite, &[times(b, ratio, ratio)])
}

/// Whether each of the values is apart from all others, measured by the constants `c`.
fn apart(b: &Builder<'_>, w: Atom, c: Atom) -> Atom {
    let shape = b.shape_of(w);
    let axis = shape.len() - 1;
    let c = by_column(b, c, shape[axis]);
    let apart = in_range(b, c, on_diagonal(b, c, gaps(b, w)));
    b.emit1(Reduce { reducer: Reducer::And, axes: vec![axis] }, &[apart])
}

/// The columns for which `on` is true, and zeros.
fn only(b: &Builder<'_>, x: Atom, on: Atom) -> Atom {
    let zero = Literal::zero(b.dtype_of(x)).into();
    b.emit1(Scalar::Select, &[by_column(b, on, rows(b, x)), x, zero])
}

/// `x diag(y)`
fn scaled_columns(b: &Builder<'_>, x: Atom, y: Atom) -> Atom {
    times(b, x, by_column(b, y, rows(b, x)))
}

/// The elements of `x` on the diagonal, those of `y` beside it.
fn on_diagonal(b: &Builder<'_>, x: Atom, y: Atom) -> Atom {
    b.emit1(Scalar::Select, &[mask(b, &b.shape_of(y), Part::Diagonal), x, y])
}

/// How many rows matrices have.
fn rows(b: &Builder<'_>, x: Atom) -> usize {
    let shape = b.shape_of(x);
    shape[shape.len() - 2]
}
