//! Rewrite rules for products and quotients with a literal: scaling by a constant.
//!
//! The rules compute a new constant. A pattern cannot express that, so each rule is a function.

use super::Scalar;
use crate::lang::literal::Literal;
use crate::prim::rules::rewrite::{Equality, Exactness, Rewrite, Site, Term, When};
use crate::prim::{Code, Op};

/// Rewrites `-(x c)` to `x (-c)`, and `-(x / c)` to `x / (-c)`, for a literal `c`.
pub(super) const NEG_SCALE: Rewrite = Rewrite {
    name: "neg-scale",
    rule: Equality::Site {
        outer: |op| matches!(op, Op::Scalar(Scalar::Neg)),
        inner: is_scaling,
        equal: negated,
    },
    when: When::Float,
    exactness: Exactness::Exact,
    why: "the constant takes the sign",
};

/// Rewrites `(x c) d` to `x (c d)` for literals `c` and `d`, and combines two divisions or a product and a division in
/// the same way.
pub(super) const SCALE_SCALE: Rewrite = Rewrite {
    name: "scale-scale",
    rule: Equality::Site { outer: is_scaling, inner: is_scaling, equal: twice },
    when: When::Float,
    exactness: Exactness::Reassociates,
    why: "one product instead of two",
};

fn is_scaling(op: &Op) -> bool {
    matches!(op, Op::Scalar(Scalar::Mul | Scalar::Div))
}

fn negated(site: &Site<'_>) -> Option<Term> {
    let definition = site.operands[0].definition.as_ref()?;
    let (i, c) = definition.scaled()?;
    let c = Term::Literal(Code::Neg.eval(&[c]));
    Some(Term::Apply(definition.op.clone(), vec![Term::Inner(0, i), c]))
}

fn twice(site: &Site<'_>) -> Option<Term> {
    let of = |i: usize| {
        let definition = site.operands[i].definition.as_ref()?;
        Some((i, definition.scaled()?, definition.op))
    };
    // In a quotient the literal must be the right operand: a literal divided by a value is not a scaling.
    let other = |i: usize| site.operands.get(1 - i).and_then(|o| o.literal);
    let (i, (j, c), by) = of(0).or_else(|| of(1))?;
    let d = other(i).filter(|_| i == 0 || *site.op == Scalar::Mul.into())?;
    let factor = |op: &Op, x: Literal| {
        if *op == Scalar::Mul.into() { x.to_f64() } else { 1.0 / x.to_f64() }
    };
    let both = Literal::of(c.dtype, factor(by, c) * factor(site.op, d));
    Some(Term::Apply(Scalar::Mul.into(), vec![Term::Inner(i, j), Term::Literal(both)]))
}
