//! Prints scalar codes as expressions of Rust with the meaning of [`Code::eval`].
//!
//! Integers wrap, conversions of floats to integers saturate, and maxima are nan if an operand is nan. Functions of
//! floats are those of the standard library, so results agree except for rounding.

use super::expression::{Expression, Level, rust_type};
use super::library_functions;
use super::math_helpers::{self, Helper, Helpers};
use tapeloom_ir::{Code, Dtype, Literal};

/// An operand of a code.
#[derive(Clone)]
pub(super) struct Operand {
    pub(super) expression: Expression,
    pub(super) dtype: Dtype,
    /// The value of the operand, if it is a constant.
    pub(super) literal: Option<Literal>,
}

/// Returns the expression of a code on its operands; `None` if the code is a library function that cannot be printed.
/// If `fits` is true, sums, differences and products of integers cannot overflow, so `+` is printed instead of
/// `wrapping_add`.
pub(super) fn expression(
    helpers: &mut Helpers,
    code: Code,
    operands: &[Operand],
    fits: bool,
) -> Option<Expression> {
    let dtype = operands.last()?.dtype;
    let args: Vec<Expression> = operands.iter().map(|x| x.expression.clone()).collect();
    let x = || args[0].clone();
    let y = || args[1.min(args.len() - 1)].clone();
    let two = |op, level| Expression::binary(x(), op, y(), level);
    let compare = |op| {
        let [x, y] = [0, 1].map(|i| beside_comparison(&operands[i]));
        Expression::binary(x, op, y, Level::Comparison)
    };
    let method = |name| Expression::method(x(), name, &args[1..]);
    let mut helper = |of: &Helper| Expression::call(&helpers.of(of, dtype), &args);
    // If one operand is a literal without a suffix, Rust infers the literal's type from the other operand.
    let truth = dtype == Dtype::Bool;
    let arithmetic = |op, level, wrapping| {
        if dtype.is_float() || fits { two(op, level) } else { method(wrapping) }
    };
    Some(match code {
        Code::Add if truth => two("||", Level::Either),
        // The first sum of a chain starts with 0, as in `0.0 + x`. Print only `x`; the result differs only in the sign
        // of a sum of negative zeros.
        Code::Add if is_zero(&operands[1]) && x().is_sum() => x(),
        Code::Add if is_zero(&operands[0]) && y().is_sum() => y(),
        Code::Add => arithmetic("+", Level::Sum, "wrapping_add"),
        Code::Sub => arithmetic("-", Level::Sum, "wrapping_sub"),
        Code::Mul if truth => two("&&", Level::Both),
        Code::Mul => arithmetic("*", Level::Product, "wrapping_mul"),
        Code::Div if dtype.is_float() || is_plain_divisor(operands) => two("/", Level::Product),
        Code::Div => helper(&math_helpers::DIVIDE),
        Code::Rem if dtype.is_float() || is_plain_divisor(operands) => two("%", Level::Product),
        Code::Rem => helper(&math_helpers::REMAINDER),
        Code::Neg if dtype.is_float() || fits => Expression::unary("-", x()),
        Code::Neg => method("wrapping_neg"),
        Code::Abs if dtype.is_float() => method("abs"),
        Code::Abs if dtype.is_signed() => method("wrapping_abs"),
        Code::Abs => x(),
        Code::Sign if dtype.is_float() => helper(&math_helpers::SIGN),
        Code::Sign if dtype.is_signed() => method("signum"),
        Code::Sign => {
            let one = Expression::literal(Literal::one(dtype));
            Expression::method(x(), "min", &[one])
        }
        Code::Floor => method("floor"),
        Code::Ceil => method("ceil"),
        Code::Sqrt => method("sqrt"),
        Code::Max if truth => two("||", Level::Either),
        Code::Max if dtype.is_float() => helper(&math_helpers::MAX),
        Code::Max => method("max"),
        Code::Min if truth => two("&&", Level::Both),
        Code::Min if dtype.is_float() => helper(&math_helpers::MIN),
        Code::Min => method("min"),
        Code::Eq => compare("=="),
        Code::Ne => compare("!="),
        Code::Lt => compare("<"),
        Code::Le => compare("<="),
        Code::Gt => compare(">"),
        Code::Ge => compare(">="),
        Code::And if truth => two("&&", Level::Both),
        Code::And => two("&", Level::And),
        Code::Or if truth => two("||", Level::Either),
        Code::Or => two("|", Level::Or),
        Code::Xor => two("^", Level::Xor),
        Code::Not => Expression::unary("!", x()),
        Code::ShiftLeft | Code::ShiftRightLogical | Code::ShiftRightArithmetic => {
            return Some(shift(helpers, code, operands, dtype));
        }
        Code::RandomBits => helper(&math_helpers::RANDOM_BITS),
        Code::Clamp => clamp(helpers, operands, dtype),
        Code::Select => Expression::choice(x(), y(), args[2].clone()),
        Code::IsFinite => method("is_finite"),
        Code::Convert(to) => convert(x(), dtype, to),
        Code::Bitcast(to) => bitcast(x(), dtype, to),
        Code::IntegerPow(n) => power(helpers, &operands[0], n),
        Code::Library(library) => return library_functions::call(helpers, &library, dtype, &args),
    })
}

/// Returns the expression of an operand of a comparison. The compiler rejects comparisons with the constant `NAN`, so
/// nan is printed by its bits.
fn beside_comparison(x: &Operand) -> Expression {
    match x.literal {
        Some(Literal { dtype, bits }) if x.expression.text().ends_with("::NAN") => {
            Expression::atom(format!("{}::from_bits({bits:#x})", rust_type(dtype)))
        }
        _ => x.expression.clone(),
    }
}

/// Returns whether an operand is the float 0.
fn is_zero(x: &Operand) -> bool {
    x.dtype.is_float() && x.literal == Some(Literal::zero(x.dtype))
}

/// Returns whether integers are divided by a constant for which Rust's operator neither panics nor overflows (not 0 and
/// not -1).
fn is_plain_divisor(operands: &[Operand]) -> bool {
    let divisor = operands.last().and_then(|y| y.literal).and_then(Literal::to_integer);
    divisor.is_some_and(|y| y != 0 && y != -1)
}

fn shift(helpers: &mut Helpers, code: Code, operands: &[Operand], dtype: Dtype) -> Expression {
    let [x, y] = [0, 1].map(|i| operands[i].expression.clone());
    let (op, helper, plain) = match code {
        Code::ShiftLeft => ("<<", &math_helpers::SHIFT_LEFT, true),
        Code::ShiftRightLogical => (">>", &math_helpers::SHIFT_RIGHT_LOGICAL, !dtype.is_signed()),
        _ => (">>", &math_helpers::SHIFT_RIGHT, dtype.is_signed()),
    };
    let by = operands[1].literal.and_then(Literal::to_integer);
    let inside = by.is_some_and(|by| (0..8 * dtype.bytes() as i128).contains(&by));
    if plain && inside {
        return Expression::binary(x, op, y, Level::Shift);
    }
    Expression::call(&helpers.of(helper, dtype), &[x, y])
}

/// Returns `min(max(x, lo), hi)`, for the operands `lo`, `x` and `hi` in this order.
fn clamp(helpers: &mut Helpers, operands: &[Operand], dtype: Dtype) -> Expression {
    let [low, x, high] = [0, 1, 2].map(|i| operands[i].expression.clone());
    if dtype.is_float() {
        let larger = Expression::call(&helpers.of(&math_helpers::MAX, dtype), &[x, low]);
        return Expression::call(&helpers.of(&math_helpers::MIN, dtype), &[larger, high]);
    }
    let bound = |i: usize| operands[i].literal.and_then(Literal::to_integer);
    match (bound(0), bound(2)) {
        (Some(a), Some(b)) if a <= b => Expression::method(x, "clamp", &[low, high]),
        _ => Expression::method(Expression::method(x, "max", &[low]), "min", &[high]),
    }
}

fn convert(x: Expression, from: Dtype, to: Dtype) -> Expression {
    match (from, to) {
        _ if from == to => x,
        (_, Dtype::Bool) => {
            let zero = Expression::literal(Literal::zero(from));
            Expression::binary(x, "!=", zero, Level::Comparison)
        }
        (Dtype::Bool, _) => Expression::call(&format!("{}::from", rust_type(to)), &[x]),
        _ => Expression::cast(x, rust_type(to)),
    }
}

fn bitcast(x: Expression, from: Dtype, to: Dtype) -> Expression {
    match (from.is_float(), to.is_float()) {
        (true, true) => x,
        (false, false) if from == to => x,
        (false, false) => Expression::cast(x, rust_type(to)),
        (true, false) => {
            let bits = Expression::method(x, "to_bits", &[]);
            if to.is_signed() { Expression::cast(bits, rust_type(to)) } else { bits }
        }
        (false, true) => {
            let unsigned = format!("u{}", 8 * to.bytes());
            let bits = if from.is_signed() { Expression::cast(x, &unsigned) } else { x };
            Expression::call(&format!("{}::from_bits", rust_type(to)), &[bits])
        }
    }
}

/// Returns `x` to the power of `n`. A negative power is the reciprocal.
fn power(helpers: &mut Helpers, x: &Operand, n: i32) -> Expression {
    let one = Expression::literal(Literal::one(x.dtype));
    let (base, exponent) = (x.expression.clone(), Expression::atom(n.unsigned_abs().to_string()));
    let is_name = base.text().chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let positive = match n.unsigned_abs() {
        0 => one.suffixed(),
        1 => base,
        2 if is_name && x.dtype.is_float() => {
            Expression::binary(base.clone(), "*", base, Level::Product)
        }
        _ if x.dtype.is_float() => Expression::method(base, "powi", &[exponent]),
        _ => Expression::method(base, "wrapping_pow", &[exponent]),
    };
    match n {
        0.. => positive,
        _ if x.dtype.is_float() => Expression::binary(one, "/", positive, Level::Product),
        _ => Expression::call(&helpers.of(&math_helpers::DIVIDE, x.dtype), &[one, positive]),
    }
}

/// Returns a name for a variable that holds the result of a code.
pub(super) fn name_of(code: Code) -> &'static str {
    match code {
        Code::Add => "sum",
        Code::Sub => "difference",
        Code::Mul => "product",
        Code::Div => "quotient",
        Code::Rem => "rest",
        Code::Neg => "negative",
        Code::Abs => "magnitude",
        Code::Sign => "direction",
        Code::Floor => "floor",
        Code::Ceil => "ceiling",
        Code::Sqrt => "root",
        Code::Max => "larger",
        Code::Min => "smaller",
        Code::Eq => "equal",
        Code::Ne => "unequal",
        Code::Lt | Code::Le => "below",
        Code::Gt | Code::Ge => "above",
        Code::And => "both",
        Code::Or => "either",
        Code::Xor => "one_of_both",
        Code::Not => "not",
        Code::ShiftLeft | Code::ShiftRightArithmetic | Code::ShiftRightLogical => "shifted",
        Code::RandomBits => "random",
        Code::Clamp => "clamped",
        Code::Select => "chosen",
        Code::IsFinite => "finite",
        Code::Convert(_) => "converted",
        Code::Bitcast(_) => "bits",
        Code::IntegerPow(2) => "square",
        Code::IntegerPow(_) => "power",
        Code::Library(library) => match library.name {
            "log" => "ln",
            name => name,
        },
    }
}
