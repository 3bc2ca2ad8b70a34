//! Checks of a problem: the state and the times are floats, the times are a vector, and settings are valid.

use super::Stats;
use super::state::State;
use crate::Var;
use crate::ops::{wrong, zeros_like_type};
use crate::tree::Form;
use tapeloom_ir::{ArrayType, Dtype, Kind, Literal, Loc, Problem};

/// Returns a number of the dtype of one time, for tracing closures. Its value is not used. If the times are not floats,
/// its dtype is f64.
pub(super) fn sample(times: Var, at: Loc) -> Var {
    let dtype = times.ty(at).dtype;
    let dtype = if dtype.is_float() { dtype } else { Dtype::F64 };
    Var::literal(Literal::zero(dtype), at)
}

/// Checks that the state and the times are floats and that the times are a vector. Reports each error, and returns
/// whether there was none.
pub(super) fn checked(name: &str, form: &Form, y: &[Var], times: Var, at: Loc) -> bool {
    let mut ok = true;
    let mut report = |kind, message: String, help: &str, v: Var| {
        ok = false;
        wrong(Problem::new(kind, message, help), &[v], v.ty(at), at);
    };
    for (y, path) in y.iter().zip(form.paths("state")) {
        let ty = y.ty(at);
        if !ty.dtype.is_float() {
            let message = format!("`{name}` needs a state of floats: `{path}` is {ty}");
            report(Kind::Dtype, message, "convert it, as in `y.convert(Dtype::F64)`", *y);
        }
    }
    let ty = times.ty(at);
    if !ty.dtype.is_float() {
        let message = format!("`{name}` needs times that are floats, got {ty}");
        report(Kind::Dtype, message, "convert them, as in `times.convert(Dtype::F64)`", times);
    } else if ty.shape.len() != 1 {
        let message = format!("`{name}` needs a vector of times, got {ty}");
        let help = "the first is that of the start: `stack(&[start, end], 0)`, or `linspace`";
        report(Kind::Shape, message, help, times);
    }
    ok
}

/// Checks that a tolerance is a nonnegative number. For a state of one leaf, it may also be an array of nonnegative
/// numbers in the shape of that leaf. Otherwise reports an error and returns false.
pub(super) fn tolerance(name: &str, what: &str, given: Var, y: &[Var], at: Loc) -> bool {
    let ty = given.ty(at);
    let negative = given.known().is_some_and(|x| x.is_nan() || x < 0.0);
    let fits = match y {
        _ if ty.shape.is_empty() => true,
        [only] => only.ty(at).shape == ty.shape,
        _ => false,
    };
    let (kind, help) = match () {
        () if !ty.dtype.is_float() => (Kind::Dtype, "give a float"),
        () if !fits => {
            (Kind::Shape, "give a number, or for a state of one leaf an array of its shape")
        }
        () if negative => (Kind::Arguments, "give a number that is not negative"),
        () => return true,
    };
    refused(Problem::new(kind, misfit(name, what, given, at), help), given, at)
}

/// Checks that a step size set by the user is a positive number. Otherwise reports an error and returns false.
pub(super) fn length(name: &str, what: &str, given: Var, at: Loc) -> bool {
    let ty = given.ty(at);
    let (kind, help) = match () {
        () if !ty.dtype.is_float() => (Kind::Dtype, "give a float"),
        () if !ty.shape.is_empty() => (Kind::Shape, "give one number"),
        () if given.known().is_some_and(|x| x.is_nan() || x <= 0.0) => {
            (Kind::Arguments, "lengths of steps are positive, also where times descend")
        }
        () => return true,
    };
    refused(Problem::new(kind, misfit(name, what, given, at), help), given, at)
}

fn misfit(name: &str, what: &str, given: Var, at: Loc) -> String {
    let given = given.known().map_or_else(|| given.ty(at).to_string(), |x| format!("{x:?}"));
    format!("`{name}` with the {what} {given}")
}

fn refused(problem: Problem, given: Var, at: Loc) -> bool {
    wrong(problem, &[given], given.ty(at), at);
    false
}

/// Returns the types of a solution at `n` times.
fn rows(y: &[Var], n: usize, at: Loc) -> Vec<ArrayType> {
    let row = |y: &Var| {
        let ty = y.ty(at);
        ArrayType::new(ty.dtype, ty.shape.with_leading(n))
    };
    y.iter().map(row).collect()
}

/// Returns placeholders for a solution and its statistics after an error.
pub(super) fn poison(y: &[Var], times: Var, at: Loc) -> (State, Stats<Var>) {
    let n = times.ty(at).shape.first().copied().unwrap_or(0);
    let rows = rows(y, n, at).into_iter().map(|ty| Var::poison(ty, at)).collect();
    let number = || Var::poison(ArrayType::new(Dtype::I64, []), at);
    let stats = Stats {
        status: number(),
        accepted: number(),
        rejected: number(),
        evaluations: number(),
        jacobians: number(),
    };
    (rows, stats)
}

/// Returns the solution for an empty vector of times: no rows, and statistics of zeros.
pub(super) fn nothing(y: &[Var], at: Loc) -> (State, Stats<Var>) {
    let rows = rows(y, 0, at).iter().map(|ty| zeros_like_type(ty, at)).collect();
    (rows, Stats::none())
}
