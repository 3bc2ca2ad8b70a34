//! Array primitives: primitives with one array as output and no regions.
//!
//! Most primitives are of this kind, and most methods of [`Primitive`] (the number of outputs, the body, pruning) are
//! about regions. [`ArrayPrimitive`] has only the methods that differ between array primitives, in the shortest form:
//! one type, one tensor, one tangent, one cotangent. The `impl` below derives all methods of [`Primitive`] from them.
//!
//! `EFFECTS` has no default: each primitive states it, because effects do not follow from the kind of
//! primitive.

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

/// The tangent of a value; `None` is zero, whatever the tangents of the variables of differentiation
/// are.
pub type Tangent = Option<Atom>;

/// The rules of a primitive `y = f(x..)` with one array `y`. The value of the implementing type holds the
/// attributes.
pub trait ArrayPrimitive: Notation + Clone + Into<Op> {
    /// The class of effects, which decides whether an equation may be dropped, moved or merged.
    const EFFECTS: Effects;

    /// Returns the primitive's entries on the generated page of primitives: one, or one per row of a table.
    fn docs() -> Vec<Doc>;

    /// Returns the type of the output for these operands, or the error in the operands.
    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType>;

    /// Evaluates the primitive: returns the output for concrete operands. Literal operands of elementwise
    /// primitives are passed as scalars.
    fn eval(&self, operands: &[Tensor]) -> Result<Tensor>;

    /// Emits the tangent `dy = Σ ∂f/∂xᵢ dxᵢ` of the output `y`, which has been emitted already. `dx[i]` is `None`
    /// if operand i does not depend on the variables of differentiation (at least one does); a tangent of `None`
    /// means the same. Every emitted equation is independent of `dx` or linear in it.
    fn jvp(&self, b: &Builder<'_>, x: &[Atom], y: Atom, dx: &[Tangent]) -> Result<Tangent>;

    /// Returns whether `f` is a linear map of the operands marked [`Linearity::Linear`] together (at least one
    /// is), for fixed other operands.
    fn is_linear(&self, operands: &[Linearity]) -> bool;

    /// Adds to `into` the cotangents `(∂f/∂xᵢ)ᵀ ct` of the operands that are [`Arg::Linear`]. Called only if
    /// `is_linear` holds.
    fn transpose(&self, b: &Builder<'_>, x: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()>;

    /// vmap: emits the primitive over a batch of `size`. The operands marked batched (at least one) have the batch on
    /// axis 0. The output must have the batch on axis 0, too.
    fn batch(&self, b: &Builder<'_>, size: usize, x: &[Atom], batched: &[bool]) -> Result<Atom>;

    /// Lowers the primitive to the target-neutral instruction that backends implement.
    fn lower(&self, operands: &[Operand<'_>]) -> Lowering;

    /// Returns the primitive's rewrite rules for the e-graph and the peephole pass.
    fn rewrites() -> Vec<Rewrite>;

    /// Returns sample operands, typical and edge cases, on which the tests over all primitives run.
    fn samples() -> Vec<Sample>;
}

/// Every array primitive is a [`Primitive`] without regions.
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

    /// Emits the jvp: its equations are independent of `dx` or linear in `dx`, so the caller can split them into the
    /// forward function and the linear function.
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
