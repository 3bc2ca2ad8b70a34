//! Names for buffers and variables of the printed source: each is named after the operation that computes its contents.

use super::scalar_codes;
use crate::loop_ir::{Arg, BufferId, Expr, Kernel, ScalarId, Stmt, TapeStmt, VarId, visit};
use cranelift_entity::SecondaryMap;
use std::collections::BTreeSet;

/// The name of a scalar that holds the length of a tape before a loop. This is the number of the first record that the
/// loop will write (a record has the residuals of one iteration).
pub(super) const FIRST_RECORD: &str = "first_record";

/// Returns a name for each buffer: the operation that computes the first value stored in the buffer. `None` for a
/// buffer whose first value is not the result of an operation.
pub(super) fn contents(kernel: &Kernel) -> SecondaryMap<BufferId, Option<&'static str>> {
    let mut definitions: SecondaryMap<ScalarId, Option<&Expr>> = SecondaryMap::new();
    let mut folds: SecondaryMap<VarId, Option<&'static str>> = SecondaryMap::new();
    let mut names: SecondaryMap<BufferId, Option<&'static str>> = SecondaryMap::new();
    let mut lengths: BTreeSet<ScalarId> = BTreeSet::new();
    visit(&kernel.body, &mut |stmt| match stmt {
        Stmt::Tape(TapeStmt::Length { value, .. }) => _ = lengths.insert(*value),
        Stmt::Let { value, expr } => definitions[*value] = Some(expr),
        Stmt::Fold { var, code, .. } => {
            folds[*var].get_or_insert(of_fold(*code));
        }
        Stmt::Contract(c) => {
            names[c.out.held.buffer].get_or_insert("product");
        }
        _ => {}
    });
    visit(&kernel.body, &mut |stmt| {
        let Stmt::Store { held, value, .. } = stmt else { return };
        let name = match value {
            Arg::Var(var) => folds[*var],
            Arg::Scalar(value) if lengths.contains(value) => Some(FIRST_RECORD),
            Arg::Scalar(value) => match definitions[*value] {
                Some(Expr::Code(code, _)) => Some(scalar_codes::name_of(*code)),
                Some(Expr::Load { .. }) => Some("copy"),
                None => None,
            },
            Arg::Index(_) => Some("indices"),
            Arg::Literal(_) => None,
        };
        if let Some(name) = name {
            let known = &mut names[held.buffer];
            if known.is_none_or(|known| known == "copy") {
                *known = Some(name);
            }
        }
    });
    names
}

/// Returns a name for a variable into which a loop combines values by `code`.
pub(super) fn of_fold(code: tapeloom_ir::Code) -> &'static str {
    match scalar_codes::name_of(code) {
        "larger" => "largest",
        "smaller" => "smallest",
        name => name,
    }
}

/// Returns a noun for the result of a primitive, such as `sum` for `add`.
pub(super) fn noun(primitive: &str) -> String {
    let noun = match primitive {
        "add" | "reduce_sum" => "sum",
        "sub" => "difference",
        "mul" | "dot" | "reduce_prod" => "product",
        "div" => "quotient",
        "neg" => "negative",
        "log" => "ln",
        "reduce_max" => "largest",
        "reduce_min" => "smallest",
        "select" => "chosen",
        "convert" => "converted",
        "loop" | "cond" => "state",
        name => name,
    };
    noun.to_owned()
}
