//! Scalar codes in kernels: their names, how many operands they take, and of which dtypes.
//!
//! A [`Code`] prints as in the language (`add`, `exp`, `convert{to=f32}`). The verifier and the
//! parser need to know, beside its meaning, where it is defined; everything about that stands here.

use tapeloom_ir::prim::{Library, LibraryFn};
use tapeloom_ir::{Code, Dtype};

/// Codes without attributes.
pub(crate) const PLAIN: [Code; 29] = [
    Code::Add,
    Code::Sub,
    Code::Mul,
    Code::Div,
    Code::Rem,
    Code::Neg,
    Code::Abs,
    Code::Sign,
    Code::Floor,
    Code::Ceil,
    Code::Sqrt,
    Code::Max,
    Code::Min,
    Code::Eq,
    Code::Ne,
    Code::Lt,
    Code::Le,
    Code::Gt,
    Code::Ge,
    Code::And,
    Code::Or,
    Code::Xor,
    Code::Not,
    Code::ShiftLeft,
    Code::ShiftRightArithmetic,
    Code::ShiftRightLogical,
    Code::Clamp,
    Code::Select,
    Code::IsFinite,
];

/// The name without attributes.
pub(crate) fn name(code: Code) -> &'static str {
    match code {
        Code::Add => "add",
        Code::Sub => "sub",
        Code::Mul => "mul",
        Code::Div => "div",
        Code::Rem => "rem",
        Code::Neg => "neg",
        Code::Abs => "abs",
        Code::Sign => "sign",
        Code::Floor => "floor",
        Code::Ceil => "ceil",
        Code::Sqrt => "sqrt",
        Code::Max => "max",
        Code::Min => "min",
        Code::Eq => "eq",
        Code::Ne => "ne",
        Code::Lt => "lt",
        Code::Le => "le",
        Code::Gt => "gt",
        Code::Ge => "ge",
        Code::And => "and",
        Code::Or => "or",
        Code::Xor => "xor",
        Code::Not => "not",
        Code::ShiftLeft => "shift_left",
        Code::ShiftRightArithmetic => "shift_right_arithmetic",
        Code::ShiftRightLogical => "shift_right_logical",
        Code::Clamp => "clamp",
        Code::Select => "select",
        Code::IsFinite => "is_finite",
        Code::Convert(_) => "convert",
        Code::IntegerPow(_) => "integer_pow",
        Code::Library(l) => l.name,
    }
}

/// The name with attributes: `add`, `convert{to=f32}`, `integer_pow{n=3}`, `exp`.
pub(crate) fn print(code: Code) -> String {
    let name = name(code);
    match code {
        Code::Convert(to) => format!("{name}{{to={to}}}"),
        Code::IntegerPow(n) => format!("{name}{{n={n}}}"),
        Code::Library(Library { function: LibraryFn::Indexed { n, .. }, .. }) => {
            format!("{name}{{n={n}}}")
        }
        _ => name.to_owned(),
    }
}

/// The code of that name and attribute (`to` or `n`, whichever was written).
pub(crate) fn named(
    name: &str,
    to: Option<Dtype>,
    n: Option<i64>,
    library: &dyn Fn(&str) -> Option<Library>,
) -> Option<Code> {
    match (name, to, n) {
        ("convert", Some(to), None) => Some(Code::Convert(to)),
        ("integer_pow", None, Some(n)) => Some(Code::IntegerPow(i32::try_from(n).ok()?)),
        (_, None, None) => {
            let plain = PLAIN.into_iter().find(|c| self::name(*c) == name);
            plain.or_else(|| library(name).map(Code::Library))
        }
        (_, None, Some(n)) => {
            let found = library(name)?;
            let LibraryFn::Indexed { f64, f32, .. } = found.function else { return None };
            let function = LibraryFn::Indexed { n: u32::try_from(n).ok()?, f64, f32 };
            Some(Code::Library(Library { function, ..found }))
        }
        (_, Some(_), _) => None,
    }
}

/// Number of operands.
pub(crate) fn arity(code: Code) -> usize {
    match code {
        Code::Neg
        | Code::Abs
        | Code::Sign
        | Code::Floor
        | Code::Ceil
        | Code::Sqrt
        | Code::Not
        | Code::IsFinite
        | Code::Convert(_)
        | Code::IntegerPow(_)
        | Code::Library(Library {
            function: LibraryFn::Unary { .. } | LibraryFn::Indexed { .. },
            ..
        }) => 1,
        Code::Add
        | Code::Sub
        | Code::Mul
        | Code::Div
        | Code::Rem
        | Code::Max
        | Code::Min
        | Code::Eq
        | Code::Ne
        | Code::Lt
        | Code::Le
        | Code::Gt
        | Code::Ge
        | Code::And
        | Code::Or
        | Code::Xor
        | Code::ShiftLeft
        | Code::ShiftRightArithmetic
        | Code::ShiftRightLogical
        | Code::Library(Library { function: LibraryFn::Binary { .. }, .. }) => 2,
        Code::Clamp | Code::Select => 3,
    }
}

/// Whether the code has a meaning on operands of that dtype (the last two of a select).
pub(crate) fn defined_on(code: Code, dtype: Dtype) -> bool {
    match code {
        Code::Convert(_)
        | Code::Select
        | Code::Eq
        | Code::Ne
        | Code::Lt
        | Code::Le
        | Code::Gt
        | Code::Ge
        | Code::Max
        | Code::Min
        | Code::Add
        | Code::Mul => true,
        Code::Sub
        | Code::Div
        | Code::Rem
        | Code::Neg
        | Code::Abs
        | Code::Sign
        | Code::Clamp
        | Code::IntegerPow(_) => dtype != Dtype::Bool,
        Code::Floor | Code::Ceil | Code::Sqrt | Code::IsFinite | Code::Library(_) => {
            dtype.is_float()
        }
        Code::And | Code::Or | Code::Xor | Code::Not => !dtype.is_float(),
        Code::ShiftLeft | Code::ShiftRightArithmetic | Code::ShiftRightLogical => {
            dtype.is_integer()
        }
    }
}

/// The dtype of the result, or `None` where the code does not take such operands.
pub(crate) fn result(code: Code, operands: &[Dtype]) -> Option<Dtype> {
    if operands.len() != arity(code) {
        return None;
    }
    let last = *operands.last()?;
    let equal = match code {
        Code::Select => operands[0] == Dtype::Bool && operands[1] == last,
        _ => operands.iter().all(|d| *d == last),
    };
    (equal && defined_on(code, last)).then(|| code.result(last))
}
