//! The accumulators of a loop with vector lanes, while the interpreter runs the loop.
//!
//! Each lane folds into an accumulator of its own, which is swapped into the variable during the iterations of that
//! lane. After the last iteration all accumulators are combined, and the result is folded into the variable.
//! [`legal_lanes`](crate::loop_ir::legal_lanes) defines the order of these folds.

use super::observer::Marked;
use crate::loop_ir::analysis::dependence::folds;
use crate::loop_ir::legal_lanes::combine;
use crate::loop_ir::{Stmt, VarId};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use tapeloom_ir::{Code, Dtype, Problem};

/// The accumulators of a loop with vector lanes: for each variable, one accumulator for each lane, with the
/// observer's mark.
pub(super) struct LaneAccumulators<M> {
    lanes: i64,
    /// The trip count of the loop, from which the last iteration is known.
    extent: i64,
    values: Vec<(VarId, Code, Vec<Marked<M>>)>,
}

impl<M: Copy + Default> LaneAccumulators<M> {
    /// Creates the accumulators of a loop, each with the neutral element of the code that folds into its variable. A
    /// loop without lanes has no accumulators.
    pub(super) fn of(
        vars: &PrimaryMap<VarId, Dtype>,
        body: &[Stmt],
        lanes: usize,
        extent: i64,
    ) -> LaneAccumulators<M> {
        let mut values = Vec::new();
        let lanes = lanes as i64;
        if lanes > 1 {
            for (var, code) in folds(body) {
                // The verifier has checked that the folding code has a neutral element.
                if let Some(neutral) = code.neutral(vars[var]) {
                    values.push((var, code, vec![(neutral, M::default()); lanes as usize]));
                }
            }
        }
        LaneAccumulators { lanes, extent, values }
    }

    /// Exchanges the variables with the accumulators of the lane that runs `iteration`; called before and after each
    /// iteration.
    pub(super) fn swap(&mut self, iteration: i64, vars: &mut SecondaryMap<VarId, Marked<M>>) {
        for (var, _, values) in &mut self.values {
            std::mem::swap(&mut vars[*var], &mut values[(iteration % self.lanes) as usize]);
        }
    }

    /// If `iteration` is the last one of the loop, combines the accumulators of each variable and folds the result
    /// into the variable.
    pub(super) fn fold_into_variables(
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
