//! The partial values of a loop in lanes, while the interpreter runs it.
//!
//! Each lane folds into a value of its own, which stands in the variable during the iterations of that
//! lane; behind the last iteration all become one, and that is folded into what the variable held.
//! [`legal_lanes`](crate::loop_ir::legal_lanes) says the order.

use super::observer::Marked;
use crate::loop_ir::analysis::dependence::folds;
use crate::loop_ir::legal_lanes::combine;
use crate::loop_ir::{Stmt, VarId};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use tapeloom_ir::{Code, Dtype, Problem};

/// What lanes hold while others run: values, and what goes with them.
pub(super) struct Partial<M> {
    lanes: i64,
    /// Iterations.
    extent: i64,
    values: Vec<(VarId, Code, Vec<Marked<M>>)>,
}

impl<M: Copy + Default> Partial<M> {
    /// A loop begins.
    pub(super) fn of(
        vars: &PrimaryMap<VarId, Dtype>,
        body: &[Stmt],
        lanes: usize,
        extent: i64,
    ) -> Partial<M> {
        let mut values = Vec::new();
        let lanes = lanes as i64;
        if lanes > 1 {
            for (var, code) in folds(body) {
                // The verifier has seen to it that there is one.
                if let Some(neutral) = code.neutral(vars[var]) {
                    values.push((var, code, vec![(neutral, M::default()); lanes as usize]));
                }
            }
        }
        Partial { lanes, extent, values }
    }

    /// Before an iteration and behind it: its lane's values and those outside change places.
    pub(super) fn turn(&mut self, iteration: i64, vars: &mut SecondaryMap<VarId, Marked<M>>) {
        for (var, _, values) in &mut self.values {
            std::mem::swap(&mut vars[*var], &mut values[(iteration % self.lanes) as usize]);
        }
    }

    /// Behind an iteration: the last one makes one value of all.
    pub(super) fn settle(
        &mut self,
        iteration: i64,
        vars: &mut SecondaryMap<VarId, Marked<M>>,
        mut code: impl FnMut(VarId, Code, Marked<M>, Marked<M>) -> Result<Marked<M>, Problem>,
    ) -> Result<(), Problem> {
        if iteration + 1 == self.extent {
            for (var, by, values) in &mut self.values {
                if let Some(all) = combine(values, |x, y| code(*var, *by, x, y))? {
                    vars[*var] = code(*var, *by, vars[*var], all)?;
                }
            }
        }
        Ok(())
    }
}
