//! Arithmetic: sums, products, quotients, extremes, rounding, choice.

use super::{Row, Signature};
use crate::prim::Code;
use crate::prim::elementwise::{Linear, Partial};
use crate::prim::rewrite::{Exactness::Exact, Rewrite, Rule, When};

/// `x + y`
pub(super) const ADD: Row = Row {
    name: "add",
    math: "x + y",
    arity: 2,
    signature: Signature::Number,
    code: Code::Add,
    partials: &[Partial::Of(|t, _, _| t), Partial::Of(|t, _, _| t)],
    linear: Linear::Joint(&[0, 1]),
    edges: "integers wrap",
    smooth: &[&[1.5, 2.0], &[-3.0, 0.25]],
    edge: &[&[f64::INFINITY, f64::NEG_INFINITY], &[f64::NAN, 1.0], &[2147483647.0, 1.0]],
    rewrites: &[Rewrite {
        name: "add-zero",
        rule: Rule::Pattern { lhs: "(add ?x 0)", rhs: "?x" },
        when: When::Always,
        exactness: Exact,
        why: "a sum with a symbolic zero",
    }],
};

/// `x * y`
pub(super) const MUL: Row = Row {
    name: "mul",
    math: "x · y",
    arity: 2,
    signature: Signature::Number,
    code: Code::Mul,
    partials: &[Partial::Of(|t, x, _| t * x[1]), Partial::Of(|t, x, _| t * x[0])],
    linear: Linear::Each(&[0, 1]),
    edges: "integers wrap; 0 · inf is nan",
    smooth: &[&[1.5, 2.0], &[-3.0, 0.25]],
    edge: &[&[0.0, f64::INFINITY], &[f64::NAN, 1.0], &[2147483647.0, 2.0]],
    rewrites: &[Rewrite {
        name: "mul-one",
        rule: Rule::Pattern { lhs: "(mul ?x 1)", rhs: "?x" },
        when: When::Always,
        exactness: Exact,
        why: "partials of linear functions",
    }],
};

/// `c ? x : y`
pub(super) const SELECT: Row = Row {
    name: "select",
    math: "x ? y : z",
    arity: 3,
    signature: Signature::Choose,
    code: Code::Select,
    partials: &[
        Partial::Zero("a bool has no tangent"),
        Partial::Of(|t, x, _| x[0].select(t, t.number(0.0))),
        Partial::Of(|t, x, _| x[0].select(t.number(0.0), t)),
    ],
    linear: Linear::Joint(&[1, 2]),
    edges: "the side not taken contributes an exact zero to the derivative of the select itself",
    smooth: &[&[1.0, 2.0, 3.0], &[0.0, -1.0, 4.0]],
    edge: &[&[1.0, f64::NAN, 0.0], &[0.0, f64::NAN, 0.0]],
    rewrites: &[],
};

/// `-x`
pub(super) const NEG: Row = Row {
    name: "neg",
    math: "-x",
    arity: 1,
    signature: Signature::Signed,
    code: Code::Neg,
    partials: &[Partial::Of(|t, _, _| -t)],
    linear: Linear::Joint(&[0]),
    edges: "integers wrap",
    smooth: &[&[1.5], &[-3.0]],
    edge: &[&[0.0], &[f64::INFINITY], &[f64::NAN]],
    rewrites: &[],
};

/// `x - y`
pub(super) const SUB: Row = Row {
    name: "sub",
    math: "x - y",
    arity: 2,
    signature: Signature::Number,
    code: Code::Sub,
    partials: &[Partial::Of(|t, _, _| t), Partial::Of(|t, _, _| -t)],
    linear: Linear::Joint(&[0, 1]),
    edges: "integers wrap",
    smooth: &[&[1.5, 2.0], &[-3.0, 0.25]],
    edge: &[&[f64::INFINITY, f64::INFINITY], &[f64::NAN, 1.0], &[-2147483648.0, 1.0]],
    rewrites: &[],
};

/// `x / y`
pub(super) const DIV: Row = Row {
    name: "div",
    math: "x / y",
    arity: 2,
    signature: Signature::Number,
    code: Code::Div,
    partials: &[Partial::Of(|t, x, _| t / x[1]), Partial::Of(|t, x, y| -t * (y / x[1]))],
    linear: Linear::Each(&[0]),
    edges: "integers truncate towards zero; an integer divided by 0 is -1 (all bits set)",
    smooth: &[&[1.5, 2.0], &[-3.0, 0.25]],
    edge: &[&[1.0, 0.0], &[0.0, 0.0], &[-7.0, 2.0], &[f64::NAN, 1.0]],
    rewrites: &[],
};
