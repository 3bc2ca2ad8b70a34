//! Constant folding of scalar codes.

use crate::loop_ir::Arg;
use tapeloom_ir::{Code, Dtype, Literal};

/// Returns the constant or operand to which the result of a code is equal, if constants among the operands decide it:
/// a logical operation with one constant, a select with a constant condition, or any code on constants alone. Returns
/// `None` otherwise.
pub(crate) fn fold(code: Code, args: &[Arg]) -> Option<Arg> {
    let known = |a: &Arg| match a {
        Arg::Literal(l) => Some(*l),
        Arg::Scalar(_) | Arg::Var(_) | Arg::Index(_) => None,
    };
    let truth = |a: &Arg| known(a).filter(|l| l.dtype == Dtype::Bool).map(|l| l.bits != 0);
    match (code, args) {
        (Code::Select, [c, t, f]) => truth(c).map(|c| if c { *t } else { *f }),
        (Code::And, [x, y]) if truth(x) == Some(true) || truth(y) == Some(false) => Some(*y),
        (Code::And, [x, y]) if truth(y) == Some(true) || truth(x) == Some(false) => Some(*x),
        (Code::Or, [x, y]) if truth(x) == Some(false) || truth(y) == Some(true) => Some(*y),
        (Code::Or, [x, y]) if truth(y) == Some(false) || truth(x) == Some(true) => Some(*x),
        _ => {
            let all: Option<Vec<Literal>> = args.iter().map(known).collect();
            all.filter(|l| !l.is_empty()).map(|l| Arg::Literal(code.eval(&l)))
        }
    }
}
