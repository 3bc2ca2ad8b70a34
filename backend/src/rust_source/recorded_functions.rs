//! Prints library functions from recordings: the list of operations of the function's own source, recorded without
//! branches.
//!
//! The printed function computes in f64 and has the same bits as the function in this library. For f32, its f64 result
//! is rounded.

use super::expression::{Expression, Level};
use super::names::identifier;
use tapeloom_ir::math::{Noted, Operation, Recording};
use tapeloom_ir::prim::Library;
use tapeloom_ir::{Dtype, Literal};

/// The bit of the sign of an f64.
const SIGN: u64 = 1 << 63;

/// The longest expression, in characters, that is printed at its use if it is used once.
const LONGEST: usize = 56;

/// Returns the name of the printed function for a library function.
pub(super) fn name(library: &Library) -> String {
    let number = library.number().map_or(String::new(), |n| format!("_{n}"));
    identifier(&format!("{}{number}", library.name))
}

/// Returns the text of a Rust function named `name`; `None` if the recording of the library function is not valid for
/// all arguments.
pub(super) fn function(library: &Library, name: &str) -> Option<String> {
    let recording = library.whole()?;
    let mut uses = vec![0usize; recording.list.len()];
    uses[recording.result.0 as usize] += 1;
    for operation in &recording.list {
        operands(*operation).for_each(|x| uses[x.0 as usize] += 1);
    }
    let arguments = recording.list.iter().filter_map(|operation| match operation {
        Operation::Argument(i) => Some(usize::from(*i) + 1),
        _ => None,
    });
    let parameters: Vec<&str> = ["x", "y", "z"][..arguments.max().unwrap_or(1)].to_vec();
    let mut values: Vec<Expression> = Vec::new();
    let typed: Vec<String> = parameters.iter().map(|name| format!("{name}: f64")).collect();
    let doc = format!("/// The function `{}`, by the operations of tapeloom's own.", library.name);
    let mut text = format!(
        "{doc}\n#[allow(clippy::excessive_precision)]\nfn {name}({}) -> f64 {{\n",
        typed.join(", ")
    );
    let mut bound = 0;
    for (i, operation) in recording.list.iter().enumerate() {
        let value = expression(recording, *operation, &values, &parameters);
        let constant = matches!(
            operation,
            Operation::Argument(_) | Operation::Constant(_) | Operation::Always(_)
        );
        let inline = constant || (uses[i] <= 1 && value.text().len() <= LONGEST);
        values.push(match inline {
            true => value,
            false => {
                bound += 1;
                text += &format!("    let t{bound} = {};\n", value.text());
                Expression::atom(format!("t{bound}"))
            }
        });
    }
    text += &format!("    {}\n}}\n", values[recording.result.0 as usize].text());
    Some(text)
}

/// Returns the operands of an operation.
fn operands(operation: Operation) -> impl Iterator<Item = Noted> {
    use Operation::*;
    let all: Vec<Noted> = match operation {
        Argument(_) | Constant(_) | Always(_) => Vec::new(),
        Sqrt(x) | Not(x) | ShiftLeft(x, _) | ShiftRight(x, _) => vec![x],
        Add(x, y)
        | Sub(x, y)
        | Mul(x, y)
        | Div(x, y)
        | Lt(x, y)
        | Le(x, y)
        | Eq(x, y)
        | Both(x, y)
        | Either(x, y)
        | PlusBits(x, y)
        | And(x, y)
        | Or(x, y)
        | Xor(x, y) => vec![x, y],
        Fma(x, y, z) | Pick(x, y, z) => vec![x, y, z],
    };
    all.into_iter()
}

fn expression(
    recording: &Recording,
    operation: Operation,
    values: &[Expression],
    parameters: &[&str],
) -> Expression {
    let at = |x: Noted| values[x.0 as usize].clone();
    let constant = |x: Noted| match recording.list[x.0 as usize] {
        Operation::Constant(bits) => Some(bits),
        _ => None,
    };
    let bits = |x: Noted| match constant(x) {
        Some(bits) => Expression::atom(format!("{bits:#x}_u64")),
        None => Expression::method(at(x), "to_bits", &[]),
    };
    let of_bits = |bits: Expression| Expression::call("f64::from_bits", &[bits]);
    let two = |x, op, y, level| Expression::binary(at(x), op, at(y), level);
    let bitwise = |x, op, y, level| of_bits(Expression::binary(bits(x), op, bits(y), level));
    let by = |n: u32| Expression::atom(n.to_string());
    let shifted = |x, op, n| of_bits(Expression::binary(bits(x), op, by(n), Level::Shift));
    match operation {
        Operation::Argument(i) => Expression::atom(parameters[usize::from(i)]),
        Operation::Constant(bits) => Expression::literal(Literal { dtype: Dtype::F64, bits }),
        Operation::Add(x, y) => two(x, "+", y, Level::Sum),
        Operation::Sub(x, y) => two(x, "-", y, Level::Sum),
        Operation::Mul(x, y) => two(x, "*", y, Level::Product),
        Operation::Div(x, y) => two(x, "/", y, Level::Product),
        Operation::Fma(x, y, z) => Expression::method(at(x), "mul_add", &[at(y), at(z)]),
        Operation::Sqrt(x) => Expression::method(at(x), "sqrt", &[]),
        Operation::Lt(x, y) => two(x, "<", y, Level::Comparison),
        Operation::Le(x, y) => two(x, "<=", y, Level::Comparison),
        Operation::Eq(x, y) => two(x, "==", y, Level::Comparison),
        Operation::Always(holds) => Expression::literal(Literal::bool(holds)),
        Operation::Both(x, y) => two(x, "&&", y, Level::Both),
        Operation::Either(x, y) => two(x, "||", y, Level::Either),
        Operation::Not(x) => Expression::unary("!", at(x)),
        Operation::Pick(c, x, y) => Expression::choice(at(c), at(x), at(y)),
        Operation::PlusBits(x, y) => {
            of_bits(Expression::method(bits(x), "wrapping_add", &[bits(y)]))
        }
        Operation::And(x, y) if constant(y) == Some(SIGN - 1) => {
            Expression::method(at(x), "abs", &[])
        }
        Operation::Xor(x, y) if constant(y) == Some(SIGN) => Expression::unary("-", at(x)),
        Operation::And(x, y) => bitwise(x, "&", y, Level::And),
        Operation::Or(x, y) => bitwise(x, "|", y, Level::Or),
        Operation::Xor(x, y) => bitwise(x, "^", y, Level::Xor),
        Operation::ShiftLeft(x, n) => shifted(x, "<<", n),
        Operation::ShiftRight(x, n) => shifted(x, ">>", n),
    }
}
