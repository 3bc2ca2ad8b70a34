//! Prints library functions in Rust: as methods of the standard library, as helpers, or as the arithmetic of their own
//! source.
//!
//! A function for which none of these is possible cannot be printed. A test lists the functions that cannot be printed,
//! so that a new library function is either added here or to that list.

use super::expression::{Expression, Level};
use super::math_helpers::{self, Helper, Helpers};
use super::recorded_functions;
use tapeloom_ir::prim::Library;
use tapeloom_ir::{Dtype, Literal};

/// The form of a library function in Rust.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// A method of the standard library on the first operand.
    Method(&'static str),
    /// A call of a helper function on the operands.
    Helper(&'static Helper),
    /// `x % y`
    Remainder,
    /// `1 / √x`, for the operand `x`.
    InverseRoot,
    /// `x` to the power of half of the function's constant number.
    HalfPower,
    /// A Rust function whose text repeats the operations that were recorded from the function's own implementation in
    /// this library.
    Recorded,
}

/// Returns the form in which a library function is printed. Returns `None` if the standard library lacks the function
/// and the function's own source branches, so that its operations cannot be recorded.
fn form(library: &Library) -> Option<Form> {
    Some(match library.name {
        "exp" => Form::Method("exp"),
        "exp2" => Form::Method("exp2"),
        "expm1" => Form::Method("exp_m1"),
        "log" => Form::Method("ln"),
        "log2" => Form::Method("log2"),
        "log10" => Form::Method("log10"),
        "log1p" => Form::Method("ln_1p"),
        "cbrt" => Form::Method("cbrt"),
        "hypot" => Form::Method("hypot"),
        "pow" => Form::Method("powf"),
        "sin" => Form::Method("sin"),
        "cos" => Form::Method("cos"),
        "tan" => Form::Method("tan"),
        "asin" => Form::Method("asin"),
        "acos" => Form::Method("acos"),
        "atan" => Form::Method("atan"),
        "atan2" => Form::Method("atan2"),
        "sinh" => Form::Method("sinh"),
        "cosh" => Form::Method("cosh"),
        "tanh" => Form::Method("tanh"),
        "asinh" => Form::Method("asinh"),
        "acosh" => Form::Method("acosh"),
        "atanh" => Form::Method("atanh"),
        "round" => Form::Method("round"),
        "round_even" => Form::Method("round_ties_even"),
        "rem" => Form::Remainder,
        "rsqrt" => Form::InverseRoot,
        "half_pow" => Form::HalfPower,
        "logistic" => Form::Helper(&math_helpers::LOGISTIC),
        "logistic_density" => Form::Helper(&math_helpers::LOGISTIC_DENSITY),
        "softplus" => Form::Helper(&math_helpers::SOFTPLUS),
        "logaddexp" => Form::Helper(&math_helpers::LOGADDEXP),
        "sech" => Form::Helper(&math_helpers::SECH),
        "sech_square" => Form::Helper(&math_helpers::SECH_SQUARE),
        "nextafter" => Form::Helper(&math_helpers::NEXT_AFTER),
        _ => library.whole().map(|_| Form::Recorded)?,
    })
}

/// Returns whether a library function can be printed.
pub fn is_printable(library: &Library) -> bool {
    form(library).is_some()
}

/// Returns the expression that calls a library function on floats of this dtype; `None` if the function cannot be
/// printed.
pub(super) fn call(
    helpers: &mut Helpers,
    library: &Library,
    dtype: Dtype,
    args: &[Expression],
) -> Option<Expression> {
    let [x, rest @ ..] = args else { return None };
    Some(match form(library)? {
        Form::Method(name) => Expression::method(x.clone(), name, rest),
        Form::Helper(helper) => Expression::call(&helpers.of(helper, dtype), args),
        Form::Remainder => {
            Expression::binary(x.clone(), "%", rest.first()?.clone(), Level::Product)
        }
        Form::InverseRoot => {
            let root = Expression::method(x.clone(), "sqrt", &[]);
            Expression::binary(Expression::literal(Literal::one(dtype)), "/", root, Level::Product)
        }
        Form::HalfPower => {
            let half = 0.5 * library.number()? as f64;
            let half = Expression::literal(Literal::of(dtype, half));
            Expression::method(x.clone(), "powf", &[half])
        }
        Form::Recorded => {
            let name = recorded_functions::name(library);
            let function = || recorded_functions::function(library, &name).unwrap_or_default();
            let name = helpers.add(&name, function);
            let double = |x: &Expression| Expression::cast(x.clone(), "f64");
            match dtype {
                Dtype::F32 => {
                    let args: Vec<Expression> = args.iter().map(double).collect();
                    Expression::cast(Expression::call(&name, &args), "f32")
                }
                _ => Expression::call(&name, args),
            }
        }
    })
}
