//! The partial values of a loop in lanes, while the interpreter runs it.
//!
//! Each lane folds into a value of its own, which stands in the variable during the rounds of that
//! lane; behind the last full lanes all become one, and that is folded into what the variable held.
//! [`lanes`](super::lanes) says the order.

use super::lanes::combine;
use super::rounds::folds;
use super::{Stmt, VarId};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use std::convert::Infallible;
use tapeloom_ir::{Code, Dtype, Literal};

/// What lanes hold while others run.
pub(super) struct Partial {
    lanes: i64,
    /// Rounds in full lanes.
    full: i64,
    values: Vec<(VarId, Code, Vec<Literal>)>,
}

impl Partial {
    /// A loop begins.
    pub(super) fn of(
        vars: &PrimaryMap<VarId, Dtype>,
        body: &[Stmt],
        lanes: usize,
        extent: i64,
    ) -> Partial {
        let mut values = Vec::new();
        let lanes = lanes as i64;
        if lanes > 1 {
            for (var, code) in folds(body) {
                // The verifier has seen to it that there is one.
                if let Some(neutral) = code.neutral(vars[var]) {
                    values.push((var, code, vec![neutral; lanes as usize]));
                }
            }
        }
        Partial { lanes, full: extent - extent % lanes, values }
    }

    /// Before a round and behind it: its lane's values and those outside change places.
    pub(super) fn turn(&mut self, round: i64, vars: &mut SecondaryMap<VarId, Literal>) {
        if round < self.full {
            for (var, _, values) in &mut self.values {
                std::mem::swap(&mut vars[*var], &mut values[(round % self.lanes) as usize]);
            }
        }
    }

    /// Behind a round: the last one in full lanes makes one value of all.
    pub(super) fn settle(&mut self, round: i64, vars: &mut SecondaryMap<VarId, Literal>) {
        if round + 1 == self.full {
            for (var, code, values) in &mut self.values {
                let fold = |x, y| Ok::<_, Infallible>(code.eval(&[x, y]));
                if let Ok(Some(all)) = combine(values, fold) {
                    vars[*var] = code.eval(&[vars[*var], all]);
                }
            }
        }
    }
}
