//! Arithmetic: sums, products, quotients, extrema, rounding, selection.

use super::scaling::{NEG_SCALE, SCALE_SCALE};
use super::{EDGES, Row, Signature, binary, exact, relaxed, unary};
use crate::math;
use crate::prim::elementwise::{Linear, Partial};
use crate::prim::rules::expr::Expr;
use crate::prim::rules::rewrite::When;
use crate::prim::{Code, Family, StableHlo};

/// The section of the page of primitives that lists the functions of this file.
pub(super) const FAMILY: Family = Family::Arithmetic;

const STEP: Partial = Partial::Zero("piecewise constant");

/// `x + y`
pub(super) const ADD: Row = Row {
    code: Code::Add,
    math: "x + y",
    signature: Signature::Number,
    partials: &[Partial::Of(|t, _, _| t), Partial::Of(|t, _, _| t)],
    linear: Linear::Joint(&[0, 1]),
    edges: "integers wrap",
    smooth: &[&[1.5, 2.0], &[-3.0, 0.25]],
    edge: &[&[f64::INFINITY, f64::NEG_INFINITY], &[f64::NAN, 1.0], &[2147483647.0, 1.0]],
    rewrites: &[
        exact("add-zero", "(add ?x!-0 0)", "?x", When::Always, "a sum with a symbolic zero"),
        exact("add-minus-zero", "(add ?x -0)", "?x", When::Float, "the neutral element of sums"),
        exact("add-self", "(add ?x ?x)", "(mul ?x 2)", When::Float, "constant factors merge"),
        exact(
            "add-neg",
            "(add ?x (neg ?y))",
            "(sub ?x ?y)",
            When::Always,
            "cotangents of differences",
        ),
        exact(
            "add-select-halves",
            "(add (select ?p ?x 0) (select ?p 0 ?y))",
            "(add (select ?p ?x ?y) 0)",
            When::Always,
            "joins the two sides of a differentiated `select`",
        ),
        exact(
            "add-zero-sub",
            "(add ?x!-0 (sub 0 ?y))",
            "(sub ?x ?y)",
            When::Always,
            "one difference",
        ),
        relaxed(
            "add-factor",
            "(add (mul ?x ?y) (mul ?x ?z))",
            "(mul ?x (add ?y ?z))",
            When::Always,
            "one product instead of two",
        ),
        relaxed(
            "add-factor-div",
            "(add (div ?x ?z) (div ?y ?z))",
            "(div (add ?x ?y) ?z)",
            When::Float,
            "one quotient instead of two",
        ),
        relaxed("add-sub", "(add (sub ?x ?y) ?y)", "?x", When::Float, "x + (y - x) is y"),
        exact("add-sub-integer", "(add (sub ?x ?y) ?y)", "?x", When::Integer, "x + (y - x) is y"),
    ],
};

/// `x - y`
pub(super) const SUB: Row = Row {
    code: Code::Sub,
    math: "x - y",
    signature: Signature::Number,
    partials: &[Partial::Of(|t, _, _| t), Partial::Minus(|t, _, _| t)],
    linear: Linear::Joint(&[0, 1]),
    edges: "integers wrap",
    smooth: &[&[1.5, 2.0], &[-3.0, 0.25]],
    edge: &[&[f64::INFINITY, f64::INFINITY], &[f64::NAN, 1.0], &[-2147483648.0, 1.0]],
    rewrites: &[
        exact("sub-zero", "(sub ?x 0)", "?x", When::Always, "a difference with a symbolic zero"),
        relaxed(
            "zero-sub",
            "(sub 0 ?x)",
            "(neg ?x)",
            When::Float,
            "negation is cheaper and cancels other negations; at 0 the zero has another sign",
        ),
        exact("sub-zero-sub", "(sub ?x!-0 (sub 0 ?y))", "(add ?x ?y)", When::Always, "one sum"),
        exact(
            "zero-sub-sub",
            "(sub 0 (sub ?x ?y!-0))",
            "(sub ?y ?x)",
            When::Always,
            "a difference with its operands exchanged",
        ),
        exact(
            "sub-neg",
            "(sub ?x (neg ?y))",
            "(add ?x ?y)",
            When::Always,
            "cotangents of differences",
        ),
        exact(
            "sub-select-halves",
            "(sub (select ?p ?x 0) (select ?p 0 ?y))",
            "(select ?p ?x (sub 0 ?y))",
            When::Always,
            "joins the two sides of a differentiated `select`",
        ),
        exact("sub-self", "(sub ?x ?x)", "0", When::Integer, "differences of indices"),
        relaxed(
            "sub-factor",
            "(sub (mul ?x ?y) (mul ?x ?z))",
            "(mul ?x (sub ?y ?z))",
            When::Always,
            "one product instead of two",
        ),
        relaxed("sub-add", "(sub (add ?x ?y) ?y)", "?x", When::Float, "x + y - y is x"),
        exact("sub-add-integer", "(sub (add ?x ?y) ?y)", "?x", When::Integer, "x + y - y is x"),
        relaxed(
            "sub-logistic",
            "(sub 1 (logistic ?x))",
            "(logistic (neg ?x))",
            When::Float,
            "the complementary probability, without cancellation",
        ),
        relaxed(
            "sub-exp-one",
            "(sub (exp ?x) 1)",
            "(expm1 ?x)",
            When::Float,
            "no cancellation near zero",
        ),
    ],
};

/// `x * y`
pub(super) const MUL: Row = Row {
    code: Code::Mul,
    math: "x · y",
    signature: Signature::Number,
    partials: &[Partial::Of(|t, x, _| t * x[1]), Partial::Of(|t, x, _| t * x[0])],
    linear: Linear::Each(&[0, 1]),
    edges: "integers wrap; 0 · inf is nan",
    smooth: &[&[1.5, 2.0], &[-3.0, 0.25]],
    edge: &[&[0.0, f64::INFINITY], &[f64::NAN, 1.0], &[2147483647.0, 2.0]],
    rewrites: &[
        exact("mul-one", "(mul ?x 1)", "?x", When::Always, "partials of linear functions"),
        SCALE_SCALE,
        exact(
            "mul-minus-one",
            "(mul ?x -1)",
            "(neg ?x)",
            When::Float,
            "negation is cheaper and cancels other negations",
        ),
        exact("mul-zero", "(mul ?x 0)", "0", When::Integer, "strides of broadcast axes"),
        relaxed(
            "mul-zero-float",
            "(mul ?x 0)",
            "0",
            When::Float,
            "for finite values; 0 · inf is nan",
        ),
        exact(
            "mul-neg-neg",
            "(mul (neg ?x) (neg ?y))",
            "(mul ?x ?y)",
            When::Always,
            "signs cancel",
        ),
        exact(
            "mul-neg",
            "(mul (neg ?x) ?y)",
            "(neg (mul ?x ?y))",
            When::Always,
            "moves negations outward, where they cancel in sums",
        ),
        relaxed(
            "mul-reciprocal",
            "(mul ?x (div 1 ?y))",
            "(div ?x ?y)",
            When::Float,
            "one rounding instead of two",
        ),
        relaxed(
            "mul-exp",
            "(mul (exp ?x) (exp ?y))",
            "(exp (add ?x ?y))",
            When::Float,
            "one exponential instead of two",
        ),
    ],
};

/// The partial of a quotient with respect to y: `∂(x/y)/∂y = -(x/y)/y`. For x = 1 it is the negative square of
/// the value, so the value is the only residual.
fn div_y<'b, 'm>(t: Expr<'b, 'm>, x: &[Expr<'b, 'm>], y: Expr<'b, 'm>) -> Expr<'b, 'm> {
    match x[0].atom.literal().map(|l| l.to_f64()) {
        Some(1.0) => t * (y * y),
        Some(-1.0) => -t * (y * y),
        _ => t * (y / x[1]),
    }
}

/// `x / y`
pub(super) const DIV: Row = Row {
    code: Code::Div,
    math: "x / y",
    signature: Signature::Number,
    partials: &[Partial::Of(|t, x, _| t / x[1]), Partial::MinusJoined(div_y, |t, _, y| t * y)],
    linear: Linear::Each(&[0]),
    edges: "integers truncate towards zero; an integer divided by 0 is -1 (all bits set)",
    smooth: &[&[1.5, 2.0], &[-3.0, 0.25]],
    edge: &[&[1.0, 0.0], &[0.0, 0.0], &[-7.0, 2.0], &[-2147483648.0, -1.0], &[f64::NAN, 1.0]],
    rewrites: &[
        exact("div-one", "(div ?x 1)", "?x", When::Always, "a quotient with a symbolic one"),
        exact("div-minus-one", "(div ?x -1)", "(neg ?x)", When::Float, "negation is cheaper"),
        exact(
            "div-two",
            "(div ?x 2)",
            "(mul ?x 0.5)",
            When::Float,
            "a power of two has an exact reciprocal",
        ),
        exact(
            "div-four",
            "(div ?x 4)",
            "(mul ?x 0.25)",
            When::Float,
            "a power of two has an exact reciprocal",
        ),
        exact(
            "div-half",
            "(div ?x 0.5)",
            "(mul ?x 2)",
            When::Float,
            "a power of two has an exact reciprocal",
        ),
        exact("div-neg-neg", "(div (neg ?x) (neg ?y))", "(div ?x ?y)", When::Float, "signs cancel"),
        exact(
            "div-neg",
            "(div (neg ?x) ?y)",
            "(neg (div ?x ?y))",
            When::Float,
            "moves negations outward, where they cancel in sums",
        ),
        relaxed(
            "div-sqrt",
            "(div ?x (sqrt ?y))",
            "(mul ?x (rsqrt ?y))",
            When::Float,
            "a product instead of a quotient",
        ),
        relaxed(
            "div-exp",
            "(div ?x (exp ?y))",
            "(mul ?x (exp (neg ?y)))",
            When::Float,
            "a product instead of a quotient",
        ),
        relaxed(
            "logistic-spelled",
            "(div 1 (add 1 (exp (neg ?x))))",
            "(logistic ?x)",
            When::Float,
            "the primitive does not overflow and has a cheap derivative",
        ),
    ],
};

/// `x % y`: the remainder of the truncated division, with the sign of x.
pub(super) const REM: Row = Row {
    code: Code::Rem,
    math: "x - y · trunc(x / y)",
    signature: Signature::Number,
    partials: &[Partial::Of(|t, _, _| t), Partial::Minus(rem_y)],
    linear: Linear::No,
    edges: "the sign is that of x; nan where y is 0 or x infinite, x where y is infinite; an integer modulo 0 is itself",
    smooth: &[&[7.25, 2.0], &[-3.0, 0.7], &[5.5, -1.25]],
    edge: &[
        &[7.0, 0.0],
        &[-7.0, 3.0],
        &[f64::INFINITY, 2.0],
        &[2.0, f64::INFINITY],
        &[-0.0, 3.0],
        &[-2147483648.0, -1.0],
    ],
    rewrites: &[],
};

/// The negated partial of a remainder with respect to y: `t · trunc(x / y)`, with the truncation expressed by
/// `floor`.
fn rem_y<'b, 'm>(t: Expr<'b, 'm>, x: &[Expr<'b, 'm>], _: Expr<'b, 'm>) -> Expr<'b, 'm> {
    let q = x[0] / x[1];
    t * (q.sign() * q.abs().floor())
}

/// `-x`
pub(super) const NEG: Row = Row {
    code: Code::Neg,
    math: "-x",
    signature: Signature::Signed,
    partials: &[Partial::Minus(|t, _, _| t)],
    linear: Linear::Joint(&[0]),
    edges: "integers wrap",
    smooth: &[&[1.5], &[-3.0]],
    edge: EDGES,
    rewrites: &[
        exact("neg-neg", "(neg (neg ?x))", "?x", When::Always, "signs cancel"),
        NEG_SCALE,
        exact(
            "neg-sub-integer",
            "(neg (sub ?x ?y))",
            "(sub ?y ?x)",
            When::Integer,
            "a difference with its operands exchanged",
        ),
        relaxed(
            "neg-sub",
            "(neg (sub ?x ?y))",
            "(sub ?y ?x)",
            When::Float,
            "a difference with its operands exchanged; where it is 0, the zero has another sign",
        ),
    ],
};

/// `|x|`
pub(super) const ABS: Row = Row {
    code: Code::Abs,
    math: "|x|",
    signature: Signature::Signed,
    partials: &[Partial::Of(|t, x, _| {
        t * x[0].ge(x[0].number(0.0)).select(t.number(1.0), t.number(-1.0))
    })],
    linear: Linear::No,
    edges: "the derivative at 0 (and -0) is 1; the least integer stays itself",
    smooth: &[&[1.5], &[-3.0]],
    edge: EDGES,
    rewrites: &[
        exact("abs-neg", "(abs (neg ?x))", "(abs ?x)", When::Always, "an even function"),
        exact("abs-plus", "(abs ?x!-)", "?x", When::Always, "a square, an exponential, a root"),
    ],
};

/// `sign x`: -1, 0 or 1.
pub(super) const SIGN: Row = Row {
    code: Code::Sign,
    math: "sign x",
    signature: Signature::Signed,
    partials: &[STEP],
    linear: Linear::No,
    edges: "-1, 0 or 1; keeps the sign of zero; nan for nan",
    smooth: &[&[1.5], &[-3.0]],
    edge: EDGES,
    rewrites: &[],
};

/// `floor x`
pub(super) const FLOOR: Row = Row {
    code: Code::Floor,
    math: "floor x",
    signature: Signature::Float,
    partials: &[STEP],
    linear: Linear::No,
    edges: "keeps infinities, nan and the sign of zero",
    smooth: &[&[0.3], &[-1.7], &[2.6]],
    edge: EDGES,
    rewrites: &[
        exact("floor-floor", "(floor (floor ?x))", "(floor ?x)", When::Always, "already integral"),
        exact("floor-ceil", "(floor (ceil ?x))", "(ceil ?x)", When::Always, "already integral"),
        exact("floor-round", "(floor (round ?x))", "(round ?x)", When::Always, "already integral"),
    ],
};

/// `ceil x`
pub(super) const CEIL: Row = Row {
    code: Code::Ceil,
    math: "ceil x",
    signature: Signature::Float,
    partials: &[STEP],
    linear: Linear::No,
    edges: "keeps infinities, nan and the sign of zero",
    smooth: &[&[0.3], &[-1.7], &[2.6]],
    edge: EDGES,
    rewrites: &[
        exact("ceil-ceil", "(ceil (ceil ?x))", "(ceil ?x)", When::Always, "already integral"),
        exact("ceil-floor", "(ceil (floor ?x))", "(floor ?x)", When::Always, "already integral"),
        exact("ceil-round", "(ceil (round ?x))", "(round ?x)", When::Always, "already integral"),
    ],
};

/// `round x`: to the nearest integer, halves away from zero.
pub(super) const ROUND: Row = Row {
    code: unary!(
        "round", 3, Jumps, Positive, StableHlo::Operation("stablehlo.round_nearest_afz"), parted math::Round
    ),
    math: "nearest integer, halves away from zero",
    signature: Signature::Float,
    partials: &[STEP],
    linear: Linear::No,
    edges: "keeps infinities, nan and the sign of zero",
    smooth: &[&[0.3], &[-1.7], &[2.6]],
    edge: &[
        &[0.5],
        &[1.5],
        &[2.5],
        &[-0.5],
        &[-2.5],
        &[-0.3],
        &[0.49999999999999994],
        &[f64::INFINITY],
        &[f64::NAN],
    ],
    rewrites: &[
        exact("round-round", "(round (round ?x))", "(round ?x)", When::Always, "already integral"),
        exact("round-floor", "(round (floor ?x))", "(floor ?x)", When::Always, "already integral"),
        exact("round-ceil", "(round (ceil ?x))", "(ceil ?x)", When::Always, "already integral"),
    ],
};

/// `round x`: to the nearest integer, halves to the even one.
pub(super) const ROUND_EVEN: Row = Row {
    code: unary!(
        "round_even", 3, Jumps, Positive,
        StableHlo::Operation("stablehlo.round_nearest_even"),
        parted math::RoundEven
    ),
    math: "nearest integer, halves to the even one",
    signature: Signature::Float,
    partials: &[STEP],
    linear: Linear::No,
    edges: "keeps infinities, nan and the sign of zero",
    smooth: &[&[0.3], &[-1.7], &[2.6]],
    edge: &[&[0.5], &[1.5], &[2.5], &[-0.5], &[-2.5], &[-0.3], &[f64::INFINITY], &[f64::NAN]],
    rewrites: &[exact(
        "round-even-twice",
        "(round_even (round_even ?x))",
        "(round_even ?x)",
        When::Always,
        "already integral",
    )],
};

/// `max(x, y)`
pub(super) const MAX: Row = Row {
    code: Code::Max,
    math: "max(x, y)",
    signature: Signature::Number,
    partials: &[
        Partial::Of(|t, x, _| extreme(t, x[0].ge(x[1]), x[0].eq(x[1]))),
        Partial::Of(|t, x, _| extreme(t, x[1].ge(x[0]), x[0].eq(x[1]))),
    ],
    linear: Linear::No,
    edges: "nan if either is; max(-0, 0) = 0; at a tie both derivatives are 1/2",
    smooth: &[&[1.0, 2.0], &[2.0, -1.0], &[-0.5, -3.0]],
    edge: &[
        &[1.0, 1.0],
        &[0.0, -0.0],
        &[-0.0, 0.0],
        &[f64::NAN, 1.0],
        &[1.0, f64::NAN],
        &[f64::INFINITY, f64::NEG_INFINITY],
    ],
    rewrites: &[
        exact("max-self", "(max ?x ?x)", "?x", When::Always, "the same twice"),
        exact("max-max", "(max (max ?x ?y) ?y)", "(max ?x ?y)", When::Always, "the same twice"),
    ],
};

/// `min(x, y)`
pub(super) const MIN: Row = Row {
    code: Code::Min,
    math: "min(x, y)",
    signature: Signature::Number,
    partials: &[
        Partial::Of(|t, x, _| extreme(t, x[0].le(x[1]), x[0].eq(x[1]))),
        Partial::Of(|t, x, _| extreme(t, x[1].le(x[0]), x[0].eq(x[1]))),
    ],
    linear: Linear::No,
    edges: "nan if either is; min(-0, 0) = -0; at a tie both derivatives are 1/2",
    smooth: &[&[1.0, 2.0], &[2.0, -1.0], &[-0.5, -3.0]],
    edge: &[
        &[1.0, 1.0],
        &[0.0, -0.0],
        &[-0.0, 0.0],
        &[f64::NAN, 1.0],
        &[1.0, f64::NAN],
        &[f64::INFINITY, f64::NEG_INFINITY],
    ],
    rewrites: &[
        exact("min-self", "(min ?x ?x)", "?x", When::Always, "the same twice"),
        exact("min-min", "(min (min ?x ?y) ?y)", "(min ?x ?y)", When::Always, "the same twice"),
    ],
};

/// The partial of a maximum or minimum with respect to an operand that is selected where `wins` is true; it
/// counts half where the operands are `equal`. The product is inside the select, so that nothing, not even an
/// infinite tangent, passes through from the operand that was not selected.
fn extreme<'b, 'm>(t: Expr<'b, 'm>, wins: Expr<'b, 'm>, equal: Expr<'b, 'm>) -> Expr<'b, 'm> {
    wins.select(t * equal.select(t.number(0.5), t.number(1.0)), t.number(0.0))
}

/// `min(max(x, lo), hi)`: x bounded to the range from lo to hi.
pub(super) const CLAMP: Row = Row {
    code: Code::Clamp,
    math: "min(max(y, x), z)",
    signature: Signature::Number,
    partials: &[
        Partial::Of(|t, x, _| inside(t, x[0].gt(x[1]), x[0].lt(x[2]))),
        Partial::Of(|t, x, _| inside(t, x[1].gt(x[0]), x[1].lt(x[2]))),
        Partial::Of(|t, x, _| x[2].lt(x[0].max(x[1])).select(t, t.number(0.0))),
    ],
    linear: Linear::No,
    edges: "operands are low, value, high; the high bound wins over the low one; nan if the value is; at a bound all derivatives are 0",
    smooth: &[&[-1.0, 0.5, 1.0], &[-1.0, -2.0, 1.0], &[-1.0, 3.0, 1.0]],
    edge: &[
        &[-1.0, -1.0, 1.0],
        &[-1.0, 1.0, 1.0],
        &[-1.0, f64::NAN, 1.0],
        &[2.0, 0.0, 1.0],
        &[-1.0, f64::INFINITY, 1.0],
    ],
    rewrites: &[],
};

/// Returns `t` where both conditions `p` and `q` hold, otherwise 0.
fn inside<'b, 'm>(t: Expr<'b, 'm>, p: Expr<'b, 'm>, q: Expr<'b, 'm>) -> Expr<'b, 'm> {
    p.and(q).select(t, t.number(0.0))
}

/// `nextafter(x, y)`: the float next to x in the direction of y.
pub(super) const NEXTAFTER: Row = Row {
    code: binary!(
        "nextafter",
        3,
        Jumps,
        Unknown,
        StableHlo::Operation("chlo.next_after"),
        math::nextafter,
        math::nextafter_f32
    ),
    math: "the float next to x towards y",
    signature: Signature::Float,
    partials: &[Partial::Missing(STEPS_ONE_FLOAT), Partial::Missing(STEPS_ONE_FLOAT)],
    linear: Linear::No,
    edges: "y where both are equal; nan if either is; from zero to the smallest subnormal",
    smooth: &[],
    edge: &[
        &[1.0, 2.0],
        &[1.0, -2.0],
        &[0.0, -1.0],
        &[0.0, -0.0],
        &[1.0, f64::INFINITY],
        &[f64::INFINITY, 0.0],
        &[f64::NAN, 1.0],
    ],
    rewrites: &[],
};

const STEPS_ONE_FLOAT: &str = "it depends on the spacing of floats, not on a real function";

/// `x ? y : z`: y where the bool x is true, otherwise z.
pub(super) const SELECT: Row = Row {
    code: Code::Select,
    math: "x ? y : z",
    signature: Signature::Choose,
    partials: &[
        Partial::Zero("a bool has no tangent"),
        Partial::Of(|t, x, _| x[0].select(t, t.number(0.0))),
        Partial::Of(|t, x, _| x[0].select(t.number(0.0), t)),
    ],
    linear: Linear::Joint(&[1, 2]),
    edges: "the side not taken contributes an exact zero to the derivative of the select itself",
    smooth: &[&[1.0, 2.0, 3.0], &[0.0, -1.0, 4.0]],
    edge: &[&[1.0, f64::NAN, 0.0], &[0.0, f64::NAN, 0.0]],
    rewrites: &[
        exact("select-same", "(select ?p ?x ?x)", "?x", When::Always, "both sides are equal"),
        exact(
            "select-not",
            "(select (not ?p) ?x ?y)",
            "(select ?p ?y ?x)",
            When::Always,
            "the sides exchanged",
        ),
        exact("select-true", "(select ?p 1 0)", "?p", When::Bool, "a choice of truth values"),
        exact(
            "select-false",
            "(select ?p 0 1)",
            "(not ?p)",
            When::Bool,
            "a choice of truth values",
        ),
        exact(
            "select-then-again",
            "(select ?p (select ?p ?x ?y) ?z)",
            "(select ?p ?x ?z)",
            When::Always,
            "the inner condition is known",
        ),
        exact(
            "select-else-again",
            "(select ?p ?x (select ?p ?y ?z))",
            "(select ?p ?x ?z)",
            When::Always,
            "the inner condition is known",
        ),
    ],
};
