//! Derivatives of scatters in which several updates have the same position: the update that remains, the
//! product of the other factors, the updates that attain an extremum. All are found by further scatters and
//! gathers.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::types::{ArrayType, Dtype, Shape};
use crate::prim::elementwise::{self, zeros_like};
use crate::prim::{Combine, Expr, Iota, Reshape, Scalar, Scatter, StopGradient, Tangent};

/// The weight of a zero update in the sum that counts updates. It exceeds any number of updates that fit in memory.
const ZERO: i64 = 1 << 32;

/// Emits zeros with the derivatives of `x`, which must be zero or NaN everywhere. The rule `zero-of-its-derivative` of
/// `stop_gradient` replaces them by the constant 0 once no derivative can be requested any more.
fn zero_with_derivative(b: &Builder<'_>, x: Atom) -> Atom {
    let zero = Atom::from(Literal::zero(b.dtype_of(x)));
    let constant = b.emit1(StopGradient, &[x]);
    let difference = b.emit1(Scalar::Sub, &[x, constant]);
    b.emit1(Scalar::Select, &[b.emit1(Scalar::Eq, &[x, zero]), difference, zero])
}

impl Scatter {
    /// Emits, for each update of a `scatter_set`, whether it remains in the result. Every update writes its
    /// number (from 1); an update remains if its own number is read back at its position.
    pub(super) fn remaining_updates(
        &self,
        b: &Builder<'_>,
        array: &Shape,
        indices: Atom,
        updates: &Shape,
    ) -> Atom {
        let n = updates.elements();
        let count = b.emit1(Iota { dtype: Dtype::I64, shape: [n].into(), axis: 0 }, &[]);
        let number = b.emit1(Scalar::Add, &[count, Literal::i64(1).into()]);
        let number = b.emit1(Reshape { shape: updates.clone() }, &[number]);
        let none = elementwise::zeros(b, &ArrayType::new(Dtype::I64, array.clone()));
        let last = self.write(b, Combine::Set, none, indices, number);
        b.emit1(Scalar::Eq, &[self.read(b, last, indices), number])
    }

    /// Emits `Π_{j≠k} u_j` over the other updates of the same position, for every update `u_k`.
    ///
    /// If an update is alone, the product is 1. Otherwise the product of the nonzero factors is divided by
    /// `u_k` (if that is not zero) and multiplied by the other zeros. The zero factors must enter as a formula
    /// in the `u_j` that equals their product, so that derivatives are right too: for one other zero the
    /// formula is their sum S, for two it is `(S² - Q) / 2` with the sum Q of their squares. For three or more
    /// other zeros it is `|S|^2.5`, which is zero like their product, with zero derivatives up to order two. So
    /// derivatives of `scatter_mul` are right up to order three wherever zeros are, and beyond that infinite or
    /// NaN instead of a wrong zero.
    ///
    /// All these formulas have the value zero. They enter as [`zero_with_derivative`], so that a program without
    /// further derivatives computes none of their scatters and gathers.
    fn others(&self, b: &Builder<'_>, array: &Shape, indices: Atom, u: Atom) -> Atom {
        let updates = b.shape_of(u);
        let dtype = b.dtype_of(u);
        let number = |x: f64| Atom::from(Literal::of(dtype, x));
        if self.one_place(b, indices) {
            return elementwise::full(b, &updates, Literal::one(dtype));
        }
        let unit = elementwise::full(b, array, Literal::one(dtype));
        let total = |u: Atom| {
            let into = ArrayType::new(b.dtype_of(u), array.clone());
            let sum = self.write(b, Combine::Add, elementwise::zeros(b, &into), indices, u);
            self.read(b, sum, indices)
        };
        let select = |c: Atom, x: Atom, y: Atom| b.emit1(Scalar::Select, &[c, x, y]);
        let zero = b.emit1(Scalar::Eq, &[u, number(0.0)]);
        let factor = select(zero, number(1.0), u);
        let product = self.write(b, Combine::Mul, unit, indices, factor);
        let product = Expr::new(b, self.read(b, product, indices)) / Expr::new(b, factor);
        // Count, by one sum, the other updates of the position and the zeros among these updates. Every update
        // contributes 1 to the sum, and a zero update contributes 2³² more.
        let own = select(zero, Literal::i64(ZERO + 1).into(), Literal::i64(1).into());
        let others = b.emit1(Scalar::Sub, &[total(own), own]);
        let zeros_from = |n: i64| b.emit1(Scalar::Ge, &[others, Literal::i64(n * ZERO).into()]);
        let alone = b.emit1(Scalar::Eq, &[others, Literal::i64(0).into()]);

        let null = select(zero, u, number(0.0));
        let squares = b.emit1(Scalar::Mul, &[null, null]);
        let other_null = Expr::new(b, total(null)) - Expr::new(b, null);
        let other_squares = Expr::new(b, total(squares)) - Expr::new(b, squares);
        let pairs = (other_null * other_null - other_squares) * 0.5;
        let three = zeros_from(3);
        // Where another case of the formula is selected, the base is 1, so that the power's derivatives are
        // finite.
        let triple = Expr::new(b, select(three, other_null.atom, number(1.0)));
        let unknown = triple.abs().pow(triple.number(2.5));
        let many = select(three, unknown.atom, (product * pairs).atom);
        let formula = select(zeros_from(2), many, (product * other_null).atom);
        // If the product of the nonzero factors is infinite, the result is NaN, as is the product of all factors: zero
        // times infinity.
        let value = Expr::new(b, b.emit1(StopGradient, &[product.atom])) * 0.0;
        let some = value + Expr::new(b, zero_with_derivative(b, formula));
        let shared = select(zeros_from(1), some.atom, product.atom);
        select(alone, number(1.0), shared)
    }

    /// Emits the tangent of a `scatter_mul` with array `x` and updates `u`: `d(x Π u) = dx Π u + x Σ_k du_k
    /// Π_{j≠k} u_j`.
    pub(super) fn product_tangent(
        &self,
        b: &Builder<'_>,
        x: &[Atom],
        dx: &[Tangent],
    ) -> Option<Atom> {
        let (array, indices, u) = (x[0], x[1], x[2]);
        let first = dx[0].map(|dx| self.write(b, Combine::Mul, dx, indices, u));
        let second = dx[2].map(|du| {
            let others = self.others(b, &b.shape_of(array), indices, u);
            let before = self.read(b, array, indices);
            let weight = b.emit1(Scalar::Mul, &[before, others]);
            let share = b.emit1(Scalar::Mul, &[weight, du]);
            self.write(b, Combine::Add, zeros_like(b, array), indices, share)
        });
        elementwise::add_tangents(b, first, second)
    }

    /// Emits the tangent of a `scatter_max` or `scatter_min`: the mean of the tangents of the array's element and
    /// the updates that attain the extremum.
    pub(super) fn extremum_tangent(
        &self,
        b: &Builder<'_>,
        x: &[Atom],
        dx: &[Tangent],
        y: Atom,
    ) -> Option<Atom> {
        let (array, indices, u) = (x[0], x[1], x[2]);
        dx[0].or(dx[2])?;
        let dtype = b.dtype_of(array);
        let zero = Atom::from(Literal::zero(dtype));
        let kept = b.emit1(Scalar::Eq, &[array, y]);
        let came = b.emit1(Scalar::Eq, &[u, self.read(b, y, indices)]);
        let masked = |on: Atom, t: Option<Atom>, like: Atom| match t {
            Some(t) => b.emit1(Scalar::Select, &[on, t, zero]),
            None => zeros_like(b, like),
        };
        let ones = |like: Atom| elementwise::full(b, &b.shape_of(like), Literal::one(dtype));
        let count = |on: Atom, like: Atom| masked(on, Some(ones(like)), like);
        let attain = self.write(b, Combine::Add, count(kept, array), indices, count(came, u));
        let sum = self.write(
            b,
            Combine::Add,
            masked(kept, dx[0], array),
            indices,
            masked(came, dx[2], u),
        );
        Some(b.emit1(Scalar::Div, &[sum, attain]))
    }
}
