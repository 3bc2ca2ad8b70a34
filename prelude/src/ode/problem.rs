//! What a problem must be: floats, and a vector of times.

use super::Stats;
use super::state::State;
use crate::Var;
use crate::ops::{wrong, zeros_like_type};
use crate::tree::Form;
use tapeloom_ir::{ArrayType, Dtype, Kind, Literal, Loc, Problem};

/// A time, of which only the dtype is meant.
pub(super) fn sample(times: Var, at: Loc) -> Var {
    let dtype = times.ty(at).dtype;
    let dtype = if dtype.is_float() { dtype } else { Dtype::F64 };
    Var::literal(Literal::zero(dtype), at)
}

/// Whether a method can begin; what is wrong is reported.
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

/// The types of a solution.
fn rows(y: &[Var], n: usize, at: Loc) -> Vec<ArrayType> {
    let row = |y: &Var| {
        let ty = y.ty(at);
        ArrayType::new(ty.dtype, ty.shape.with_leading(n))
    };
    y.iter().map(row).collect()
}

/// What stands for a solution after an error.
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

/// A solution at no times.
pub(super) fn nothing(y: &[Var], at: Loc) -> (State, Stats<Var>) {
    let rows = rows(y, 0, at).iter().map(|ty| zeros_like_type(ty, at)).collect();
    (rows, Stats::none())
}
