//! The transforms as rules of region primitives see them.
//!
//! `ir` defines the rules and does not know the transforms; a call's jvp rule needs jvp of its body.
//! So `ir` declares the trait [`Regions`] and this crate implements it.

use tapeloom_ir::prim::{BatchOf, JvpOf, LinearizeOf, Regions, TransposeOf};
use tapeloom_ir::{FuncId, Module, Problem};

/// All transforms of this crate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transforms;

impl Regions for Transforms {
    fn jvp(&mut self, module: &mut Module, f: FuncId, active: &[bool]) -> Result<JvpOf, Problem> {
        crate::jvp(module, f, active)
    }
    fn linearize(
        &mut self,
        module: &mut Module,
        f: FuncId,
        active: &[bool],
    ) -> Result<LinearizeOf, Problem> {
        crate::linearize(module, f, active)
    }
    fn transpose(
        &mut self,
        module: &mut Module,
        f: FuncId,
        nonzero: &[bool],
    ) -> Result<TransposeOf, Problem> {
        crate::transpose(module, f, nonzero)
    }
    fn batch(
        &mut self,
        module: &mut Module,
        f: FuncId,
        size: usize,
        batched: &[bool],
    ) -> Result<BatchOf, Problem> {
        crate::batch(module, f, size, batched)
    }
    fn prune(
        &mut self,
        module: &mut Module,
        f: FuncId,
        used: &[bool],
    ) -> Result<(FuncId, Vec<bool>), Problem> {
        crate::prune(module, f, used)
    }
}
