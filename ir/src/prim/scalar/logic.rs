//! Comparisons, bits and tests.

use super::{Row, Signature, exact};
use crate::prim::Code;
use crate::prim::Family;
use crate::prim::elementwise::{Linear, Partial};
use crate::prim::rules::rewrite::When;

/// The section of the page of primitives that lists the functions of this file.
pub(super) const FAMILY: Family = Family::Logic;

const BOOL: Partial = Partial::Zero("a bool has no tangent");
const BITS: Partial = Partial::Zero("bools and integers have no tangent");

/// `x = y`
pub(super) const EQ: Row = Row {
    code: Code::Eq,
    math: "x = y",
    signature: Signature::Compare,
    partials: &[BOOL, BOOL],
    linear: Linear::No,
    edges: "nan differs from everything, also from nan; -0 = 0",
    smooth: &[],
    edge: &[
        &[1.0, 1.0],
        &[1.0, 2.0],
        &[2.0, 1.0],
        &[f64::NAN, f64::NAN],
        &[f64::NAN, 1.0],
        &[0.0, -0.0],
        &[-1.0, 1.0],
    ],
    rewrites: &[],
};

/// `x ≠ y`
pub(super) const NE: Row = Row {
    code: Code::Ne,
    math: "x ≠ y",
    signature: Signature::Compare,
    partials: &[BOOL, BOOL],
    linear: Linear::No,
    edges: "nan differs from everything, also from nan; -0 = 0",
    smooth: &[],
    edge: &[
        &[1.0, 1.0],
        &[1.0, 2.0],
        &[2.0, 1.0],
        &[f64::NAN, f64::NAN],
        &[f64::NAN, 1.0],
        &[0.0, -0.0],
        &[-1.0, 1.0],
    ],
    rewrites: &[],
};

/// `x < y`
pub(super) const LT: Row = Row {
    code: Code::Lt,
    math: "x < y",
    signature: Signature::Compare,
    partials: &[BOOL, BOOL],
    linear: Linear::No,
    edges: "false if either is nan; false < true",
    smooth: &[],
    edge: &[
        &[1.0, 1.0],
        &[1.0, 2.0],
        &[2.0, 1.0],
        &[f64::NAN, f64::NAN],
        &[f64::NAN, 1.0],
        &[0.0, -0.0],
        &[-1.0, 1.0],
    ],
    rewrites: &[exact("lt-self", "(lt ?x ?x)", "0", When::Always, "nothing is below itself")],
};

/// `x ≤ y`
pub(super) const LE: Row = Row {
    code: Code::Le,
    math: "x ≤ y",
    signature: Signature::Compare,
    partials: &[BOOL, BOOL],
    linear: Linear::No,
    edges: "false if either is nan; false < true",
    smooth: &[],
    edge: &[
        &[1.0, 1.0],
        &[1.0, 2.0],
        &[2.0, 1.0],
        &[f64::NAN, f64::NAN],
        &[f64::NAN, 1.0],
        &[0.0, -0.0],
        &[-1.0, 1.0],
    ],
    rewrites: &[],
};

/// `x > y`
pub(super) const GT: Row = Row {
    code: Code::Gt,
    math: "x > y",
    signature: Signature::Compare,
    partials: &[BOOL, BOOL],
    linear: Linear::No,
    edges: "false if either is nan; false < true",
    smooth: &[],
    edge: &[
        &[1.0, 1.0],
        &[1.0, 2.0],
        &[2.0, 1.0],
        &[f64::NAN, f64::NAN],
        &[f64::NAN, 1.0],
        &[0.0, -0.0],
        &[-1.0, 1.0],
    ],
    rewrites: &[exact("gt-self", "(gt ?x ?x)", "0", When::Always, "nothing is above itself")],
};

/// `x ≥ y`
pub(super) const GE: Row = Row {
    code: Code::Ge,
    math: "x ≥ y",
    signature: Signature::Compare,
    partials: &[BOOL, BOOL],
    linear: Linear::No,
    edges: "false if either is nan; false < true",
    smooth: &[],
    edge: &[
        &[1.0, 1.0],
        &[1.0, 2.0],
        &[2.0, 1.0],
        &[f64::NAN, f64::NAN],
        &[f64::NAN, 1.0],
        &[0.0, -0.0],
        &[-1.0, 1.0],
    ],
    rewrites: &[],
};

/// `x and y`: bitwise; logical on bools.
pub(super) const AND: Row = Row {
    code: Code::And,
    math: "x ∧ y",
    signature: Signature::Bits,
    partials: &[BITS, BITS],
    linear: Linear::No,
    edges: "bitwise on integers",
    smooth: &[],
    edge: &[&[1.0, 0.0], &[1.0, 1.0], &[12.0, 10.0], &[-1.0, 5.0], &[0.0, -7.0]],
    rewrites: &[
        exact("and-self", "(and ?x ?x)", "?x", When::Always, "the same twice"),
        exact("and-zero", "(and ?x 0)", "0", When::Always, "all bits are 0"),
        exact("and-true", "(and ?x 1)", "?x", When::Bool, "true is neutral"),
        exact("and-absorb", "(and ?x (or ?x ?y))", "?x", When::Always, "absorption"),
    ],
};

/// `x or y`: bitwise; logical on bools.
pub(super) const OR: Row = Row {
    code: Code::Or,
    math: "x ∨ y",
    signature: Signature::Bits,
    partials: &[BITS, BITS],
    linear: Linear::No,
    edges: "bitwise on integers",
    smooth: &[],
    edge: &[&[1.0, 0.0], &[1.0, 1.0], &[12.0, 10.0], &[-1.0, 5.0], &[0.0, -7.0]],
    rewrites: &[
        exact("or-self", "(or ?x ?x)", "?x", When::Always, "the same twice"),
        exact("or-zero", "(or ?x 0)", "?x", When::Always, "zero is neutral"),
        exact("or-true", "(or ?x 1)", "1", When::Bool, "true whatever x is"),
        exact("or-absorb", "(or ?x (and ?x ?y))", "?x", When::Always, "absorption"),
    ],
};

/// `x xor y`: bitwise; logical on bools.
pub(super) const XOR: Row = Row {
    code: Code::Xor,
    math: "x ⊕ y",
    signature: Signature::Bits,
    partials: &[BITS, BITS],
    linear: Linear::No,
    edges: "bitwise on integers",
    smooth: &[],
    edge: &[&[1.0, 0.0], &[1.0, 1.0], &[12.0, 10.0], &[-1.0, 5.0], &[0.0, -7.0]],
    rewrites: &[
        exact("xor-self", "(xor ?x ?x)", "0", When::Always, "nothing differs"),
        exact("xor-zero", "(xor ?x 0)", "?x", When::Always, "zero is neutral"),
        exact("xor-true", "(xor ?x 1)", "(not ?x)", When::Bool, "a negation"),
    ],
};

/// `not x`: bitwise; logical on bools.
pub(super) const NOT: Row = Row {
    code: Code::Not,
    math: "¬x",
    signature: Signature::Bits,
    partials: &[BITS],
    linear: Linear::No,
    edges: "bitwise on integers",
    smooth: &[],
    edge: &[&[0.0], &[1.0], &[12.0], &[-7.0]],
    rewrites: &[
        exact("not-not", "(not (not ?x))", "?x", When::Always, "negations cancel"),
        exact("not-eq", "(not (eq ?x ?y))", "(ne ?x ?y)", When::Always, "one comparison"),
        exact("not-ne", "(not (ne ?x ?y))", "(eq ?x ?y)", When::Always, "one comparison"),
    ],
};

/// `x · 2ʸ`: x shifted left by y bits.
pub(super) const SHIFT_LEFT: Row = Row {
    code: Code::ShiftLeft,
    math: "x · 2ʸ",
    signature: Signature::Integer,
    partials: &[BITS, BITS],
    linear: Linear::No,
    edges: "0 where y is not below the number of bits (a negative y counts as large)",
    smooth: &[],
    edge: &[
        &[5.0, 1.0],
        &[-8.0, 2.0],
        &[1.0, 31.0],
        &[-1.0, 32.0],
        &[3.0, 64.0],
        &[7.0, -1.0],
        &[-5.0, 0.0],
    ],
    rewrites: &[exact("shift-left-zero", "(shift_left ?x 0)", "?x", When::Always, "nothing moves")],
};

/// `⌊x / 2ʸ⌋`: x shifted right by y bits, filled with copies of the sign bit.
pub(super) const SHIFT_RIGHT_ARITHMETIC: Row = Row {
    code: Code::ShiftRightArithmetic,
    math: "⌊x / 2ʸ⌋",
    signature: Signature::Integer,
    partials: &[BITS, BITS],
    linear: Linear::No,
    edges: "copies the sign bit, of unsigned numbers too; all sign bits where y is not below the number of bits",
    smooth: &[],
    edge: &[
        &[5.0, 1.0],
        &[-8.0, 2.0],
        &[1.0, 31.0],
        &[-1.0, 32.0],
        &[3.0, 64.0],
        &[7.0, -1.0],
        &[-5.0, 0.0],
    ],
    rewrites: &[exact(
        "shift-right-arithmetic-zero",
        "(shift_right_arithmetic ?x 0)",
        "?x",
        When::Always,
        "nothing moves",
    )],
};

/// x shifted right by y bits, filled with zeros.
pub(super) const SHIFT_RIGHT_LOGICAL: Row = Row {
    code: Code::ShiftRightLogical,
    math: "x shifted right, zeros coming in",
    signature: Signature::Integer,
    partials: &[BITS, BITS],
    linear: Linear::No,
    edges: "0 where y is not below the number of bits",
    smooth: &[],
    edge: &[
        &[5.0, 1.0],
        &[-8.0, 2.0],
        &[1.0, 31.0],
        &[-1.0, 32.0],
        &[3.0, 64.0],
        &[7.0, -1.0],
        &[-5.0, 0.0],
    ],
    rewrites: &[exact(
        "shift-right-logical-zero",
        "(shift_right_logical ?x 0)",
        "?x",
        When::Always,
        "nothing moves",
    )],
};

/// 64 random bits for the key x and the counter y (Threefry-2x32).
pub(super) const RANDOM_BITS: Row = Row {
    code: Code::RandomBits,
    math: "Threefry-2x32 of the counter y under the key x, high words first",
    signature: Signature::Wide,
    partials: &[BITS, BITS],
    linear: Linear::No,
    edges: "each key and counter has its bits, the same everywhere",
    smooth: &[],
    edge: &[
        &[0.0, 0.0],
        &[0.0, 1.0],
        &[1.0, 0.0],
        &[42.0, 7.0],
        &[1e19, 1.8e19],
        &[4294967296.0, 3.0],
    ],
    rewrites: &[],
};

/// Whether x is neither infinite nor NaN.
pub(super) const IS_FINITE: Row = Row {
    code: Code::IsFinite,
    math: "|x| < ∞",
    signature: Signature::Test,
    partials: &[BOOL],
    linear: Linear::No,
    edges: "false for nan",
    smooth: &[],
    edge: &[&[1.0], &[f64::INFINITY], &[f64::NEG_INFINITY], &[f64::NAN], &[1e308]],
    rewrites: &[],
};
