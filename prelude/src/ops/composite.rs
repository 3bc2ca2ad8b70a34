//! Helpers of composite functions: operands are broadcast together, and errors name the called function instead of
//! its primitives.

use super::axes::{Axis, resolve_axis};
use super::{broadcast_shapes, broadcast_together, wrong};
use crate::Var;
use crate::var::on_behalf;
use tapeloom_ir::{ArrayType, Dtype, Kind, Literal, Loc, Problem};

/// Checks that the operands are floats of one dtype, broadcasts all of them except literals to one shape, and evaluates
/// the formula `body` with them.
pub(crate) fn of_floats<const N: usize>(
    name: &'static str,
    operands: [Var; N],
    at: Loc,
    body: impl FnOnce([Var; N]) -> Var,
) -> Var {
    of("floats", Dtype::F64, Dtype::is_float, name, operands, at, body)
}

/// Checks that the operands are integers of one dtype, broadcasts all of them except literals to one shape, and
/// evaluates the formula `body` with them.
pub(crate) fn of_integers<const N: usize>(
    name: &'static str,
    operands: [Var; N],
    at: Loc,
    body: impl FnOnce([Var; N]) -> Var,
) -> Var {
    of("integers", Dtype::I64, Dtype::is_integer, name, operands, at, body)
}

/// Checks that the operands are numbers (not bools) of one dtype, broadcasts all of them except literals to one shape,
/// and evaluates the formula `body` with them.
pub(super) fn of_numbers<const N: usize>(
    name: &'static str,
    operands: [Var; N],
    at: Loc,
    body: impl FnOnce([Var; N]) -> Var,
) -> Var {
    of("numbers", Dtype::F64, |dtype| dtype != Dtype::Bool, name, operands, at, body)
}

fn of<const N: usize>(
    what: &str,
    such: Dtype,
    fits: impl Fn(Dtype) -> bool,
    name: &'static str,
    operands: [Var; N],
    at: Loc,
    body: impl FnOnce([Var; N]) -> Var,
) -> Var {
    let types = operands.map(|v| v.ty(at));
    let guess = || {
        let mut shapes = types.iter().map(|t| t.shape.clone());
        let first = shapes.next().unwrap_or(tapeloom_ir::Shape::scalar());
        let shape = shapes.fold(first, |x, y| broadcast_shapes(&x, &y).unwrap_or(x));
        ArrayType::new(types.first().map_or(Dtype::F64, |t| t.dtype), shape)
    };
    let problem = if !types.iter().all(|t| fits(t.dtype)) {
        let message = format!("`{name}` needs {what}, got {}", list(&types));
        let help = format!("convert first, as in `x.convert(Dtype::{such:?})`");
        Problem::new(Kind::Dtype, message, help)
    } else if types.iter().any(|t| t.dtype != types[0].dtype) {
        let message = format!("`{name}` needs operands of one dtype, got {}", list(&types));
        let help = format!("convert one of them, as in `y.convert(Dtype::{:?})`", types[0].dtype);
        Problem::new(Kind::Dtype, message, help)
    } else {
        match broadcast_together(name, &operands, at) {
            Ok((together, _)) => {
                let mut aligned = operands;
                aligned.copy_from_slice(&together);
                return on_behalf(name, at, || body(aligned));
            }
            Err(problem) => problem,
        }
    };
    wrong(problem, &operands, guess(), at)
}

/// Evaluates the formula `body` along one axis, which is counted from the front before it is passed to `body`. Reports
/// an error if the axis does not exist.
pub(super) fn along(
    name: &'static str,
    x: Var,
    axis: impl Axis,
    at: Loc,
    body: impl FnOnce(Var, usize) -> Var,
) -> Var {
    let ty = x.ty(at);
    match resolve_axis(name, axis, &ty.shape) {
        Ok(axis) => on_behalf(name, at, || body(x, axis)),
        Err(problem) => wrong(problem, &[x], ty, at),
    }
}

/// Reports an error of kind `shape` in a composite function, and returns a placeholder of the type `guess`.
pub(crate) fn misshapen(
    message: String,
    help: &str,
    operands: &[Var],
    guess: ArrayType,
    at: Loc,
) -> Var {
    wrong(Problem::new(Kind::Shape, message, help), operands, guess, at)
}

/// Returns the number `x` as a `Var` of the dtype of `like`.
#[track_caller]
pub(crate) fn number(like: Var, x: f64) -> Var {
    Var::literal(Literal::of(like.dtype(), x), crate::var::caller())
}

/// Returns types in the notation of messages: "a, b and c".
pub(crate) fn list(types: &[ArrayType]) -> String {
    let names: Vec<String> = types.iter().map(ArrayType::to_string).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        Some((last, _)) => last.clone(),
        None => "nothing".to_owned(),
    }
}
