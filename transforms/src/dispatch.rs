//! The transforms, as a trait object for the derivative rules of primitives that run functions.
//!
//! The rules are in `ir`, which does not depend on this crate; yet the jvp rule of a call needs the jvp of its
//! body. So `ir` declares the trait [`Regions`], this file implements it, and the transforms pass the
//! implementation to the rules. The module memoizes every answer.

use tapeloom_ir::lang::query::{
    AccumulateInto, Batch, BatchOf, BatchRequest, Jvp, JvpOf, Linearize, LinearizeOf, Plan, Prune,
    PruneOf, Transpose, TransposeOf, Unzip, UnzipOf, Within,
};
use tapeloom_ir::prim::Regions;
use tapeloom_ir::{Amortization, FuncId, Module, PlanRequest, Policy, Problem};

/// The transforms of this crate as an implementation of the trait `Regions`, which the derivative rules in `ir` call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transforms;

/// Extends the list `given` to `n` entries, with `rest` for each missing one.
fn full<T: Copy>(given: &[T], n: usize, rest: T) -> Vec<T> {
    (0..n).map(|i| given.get(i).copied().unwrap_or(rest)).collect()
}

impl Regions for Transforms {
    fn jvp(
        &mut self,
        module: &mut Module,
        f: FuncId,
        active: &[bool],
        forced: &[bool],
    ) -> Result<JvpOf, Problem> {
        let forced = full(forced, module.function(f).results.len(), false);
        let query = Jvp { active: active.to_vec(), forced };
        module.answer(f, query, |m, q| crate::ad::jvp::derive(self, m, f, q))
    }

    fn linearize(
        &mut self,
        module: &mut Module,
        f: FuncId,
        active: &[bool],
        forced: &[bool],
        shares: &[Amortization],
    ) -> Result<LinearizeOf, Problem> {
        let forced = full(forced, module.function(f).results.len(), false);
        let shares = full(shares, active.len(), Amortization::FREE);
        let query = Linearize { active: active.to_vec(), forced, shares };
        module.answer(f, query, |m, q| crate::ad::linearize::derive(self, m, f, q))
    }

    fn plan(
        &mut self,
        module: &mut Module,
        of: LinearizeOf,
        terms: PlanRequest,
    ) -> Result<LinearizeOf, Problem> {
        let LinearizeOf { fwd, lin, active_out, residuals } = of;
        let query = Plan { lin, active_out, residuals, terms };
        module.answer(fwd, query, |m, q| crate::checkpoint::derive(self, m, fwd, q))
    }

    fn within(
        &mut self,
        module: &mut Module,
        f: FuncId,
        active: &[bool],
        shares: &[Amortization],
        policy: &Policy,
    ) -> Result<LinearizeOf, Problem> {
        let shares = full(shares, active.len(), Amortization::FREE);
        let query = Within { active: active.to_vec(), shares, policy: policy.clone() };
        module.answer(f, query, |m, q| crate::checkpoint::within(self, m, f, q))
    }

    fn transpose(
        &mut self,
        module: &mut Module,
        f: FuncId,
        nonzero: &[bool],
        onto: &[AccumulateInto],
    ) -> Result<TransposeOf, Problem> {
        let onto = full(onto, module.function(f).linear_params.len(), AccumulateInto::Nothing);
        let query = Transpose { nonzero: nonzero.to_vec(), onto };
        module.answer(f, query, |m, q| crate::ad::transpose::derive(self, m, f, q))
    }

    fn batch(
        &mut self,
        module: &mut Module,
        f: FuncId,
        size: usize,
        batched: &[bool],
        wanted: &[BatchRequest],
    ) -> Result<BatchOf, Problem> {
        let wanted = full(wanted, module.function(f).results.len(), BatchRequest::AsIs);
        let query = Batch { size, batched: batched.to_vec(), wanted };
        module.answer(f, query, |m, q| crate::ad::batch::derive(self, m, f, q))
    }

    fn prune(
        &mut self,
        module: &mut Module,
        f: FuncId,
        used: &[bool],
        kept: &[bool],
    ) -> Result<PruneOf, Problem> {
        let kept = full(kept, module.function(f).all_params().count(), false);
        let query = Prune { used: used.to_vec(), kept };
        module.answer(f, query, |m, q| crate::passes::prune::derive(self, m, f, q))
    }

    fn unzip(
        &mut self,
        module: &mut Module,
        f: FuncId,
        known: &[bool],
    ) -> Result<UnzipOf, Problem> {
        let query = Unzip { known: known.to_vec() };
        module.answer(f, query, |m, q| crate::ad::unzip::derive(self, m, f, q))
    }
}
