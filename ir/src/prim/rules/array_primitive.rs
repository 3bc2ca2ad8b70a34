//! Array primitives: one array out, no region inside.
//!
//! Most primitives are of this kind, and most of what the system asks a primitive is about regions:
//! how many outputs there are, which body runs, what may be pruned. [`ArrayPrimitive`] asks only for
//! what differs from one to the next, in the shortest form: one type, one tensor, one tangent, one
//! cotangent. The `impl` below gives the answers to everything else, for all of them.
//!
//! What an equation does beside defining its output is not part of the kind: [`Effects`] is a
//! constant that each primitive states, for a default would be a guess.

use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId};
use crate::lang::module::Module;
use crate::lang::problem::Result;
use crate::lang::types::{ArrayType, Type};
use crate::lang::value::Value;
use crate::prim::{
    Arg, Batched, Cotangents, Doc, Dual, Effects, Linearity, Lowering, Notation, Op, Operand,
    Primitive, Prune, RegionList, Regions, Rewrite, RuleCx, Sample, Types,
};
use crate::tensor::Tensor;
use smallvec::{SmallVec, smallvec};

/// A tangent; `None` is zero, whatever the tangents of the variables are.
pub type Tangent = Option<Atom>;

/// What the system must know about a primitive `y = f(x..)` with one array `y`. The value of the
/// implementing type holds the attributes.
pub trait ArrayPrimitive: Notation + Clone + Into<Op> {
    /// Whether an equation may be dropped, moved or merged.
    const EFFECTS: Effects;

    /// Its entries on the generated page of primitives: one, or one per row of a table.
    fn docs() -> Vec<Doc>;

    /// Type of the output, or what is wrong with the operands.
    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType>;

    /// The meaning: the output from concrete operands. Literal operands of elementwise primitives
    /// come as scalars.
    fn eval(&self, operands: &[Tensor]) -> Result<Tensor>;

    /// `dy = Σ ∂f/∂xᵢ dxᵢ`: emits the tangent of the output `y`, which is there already. `dx[i]` is
    /// `None` where operand i does not depend on the variables of differentiation (one does); a
    /// tangent of `None` means the same. Every equation emitted is independent of `dx` or linear in it.
    fn jvp(&self, b: &Builder<'_>, x: &[Atom], y: Atom, dx: &[Tangent]) -> Result<Tangent>;

    /// Whether `f` is a linear map of the operands marked [`Linearity::Linear`] together (at least
    /// one is), given what the others are.
    fn is_linear(&self, operands: &[Linearity]) -> bool;

    /// `ct of xᵢ = (∂f/∂xᵢ)ᵀ ct`: adds to `into` the cotangents of the operands that are
    /// [`Arg::Linear`]. Called only where `is_linear` holds.
    fn transpose(&self, b: &Builder<'_>, x: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()>;

    /// vmap: emits the primitive over a batch of `size`, which the operands marked batched (at least
    /// one) carry on axis 0, and the output must.
    fn batch(&self, b: &Builder<'_>, size: usize, x: &[Atom], batched: &[bool]) -> Result<Atom>;

    /// What a backend has to do, in target-neutral terms.
    fn lower(&self, operands: &[Operand<'_>]) -> Lowering;

    /// Its rows for the e-graph and the peephole pass.
    fn rewrites() -> Vec<Rewrite>;

    /// Typical and edge uses; the law tests run every one.
    fn samples() -> Vec<Sample>;
}

/// An array primitive is a primitive with nothing in it that could be transformed.
impl<P: ArrayPrimitive> Primitive for P {
    fn docs() -> Vec<Doc> {
        P::docs()
    }

    fn outputs(&self, _: &Module) -> usize {
        1
    }

    fn infer(&self, _: &Module, operands: &[Operand<'_>]) -> Result<Types> {
        Ok(smallvec![Type::Array(self.infer(operands)?)])
    }

    fn run(&self, _: &Module, operands: &[Value]) -> Result<Vec<Value>> {
        Ok(vec![self.eval(&Value::arrays(operands)?)?.into()])
    }

    fn jvp(&self, cx: &mut RuleCx<'_, '_>, x: &[Atom], dx: &[Tangent]) -> Result<Dual> {
        let y = cx.b.emit1(self.clone(), x);
        let moves = dx.iter().any(Option::is_some);
        let dy = if moves { self.jvp(cx.b, x, y, dx)? } else { None };
        Ok(Dual { y: smallvec![y], dy: smallvec![dy] })
    }

    /// jvp, whose equations are independent of `dx` or linear in it: the caller splits them.
    fn linearize(&self, cx: &mut RuleCx<'_, '_>, x: &[Atom], dx: &[Tangent]) -> Result<Dual> {
        Primitive::jvp(self, cx, x, dx)
    }

    fn is_linear(&self, _: &Module, operands: &[Linearity]) -> bool {
        self.is_linear(operands)
    }

    fn transpose(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Arg],
        ct: &[Option<Atom>],
        into: &mut Cotangents,
    ) -> Result<()> {
        match ct {
            [Some(ct)] => self.transpose(cx.b, x, *ct, into),
            _ => Ok(()),
        }
    }

    fn batch(
        &self,
        cx: &mut RuleCx<'_, '_>,
        size: usize,
        x: &[Atom],
        batched: &[bool],
    ) -> Result<Batched> {
        let y = self.batch(cx.b, size, x, batched)?;
        Ok(Batched { y: smallvec![y], batched: SmallVec::from_elem(true, 1) })
    }

    fn regions(&self) -> RegionList {
        RegionList::new()
    }

    fn with_regions(&self, _: &[FuncId]) -> Op {
        self.clone().into()
    }

    fn prune(&self, _: &mut dyn Regions, _: &mut Module, _: &[bool]) -> Result<Prune> {
        Ok(Prune::Whole)
    }

    fn lower(&self, _: &Module, operands: &[Operand<'_>]) -> Lowering {
        self.lower(operands)
    }

    fn effects(&self, _: &Module) -> Effects {
        P::EFFECTS
    }

    fn rewrites() -> Vec<Rewrite> {
        P::rewrites()
    }

    fn samples(_: &mut Module) -> Vec<Sample> {
        P::samples()
    }
}
