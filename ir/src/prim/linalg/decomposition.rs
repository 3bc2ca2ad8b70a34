//! Decompositions: primitives with one operand, an array of matrices, several outputs and no regions.
//!
//! [`Decomposition`] has the items that differ between decompositions. They are the library routine, the tangents, and
//! the cheaper primitive if only some outputs are read. The `impl` below, for [`Decomposed`], provides everything else.
//! (A blanket `impl` for all `Decomposition` types would conflict with other blanket `impl`s, so there is a wrapper.)

use super::matrix::{batch_axes, matrices, square};
use super::routine_call::RoutineCall;
use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId};
use crate::lang::module::Module;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype, Shape, Type};
use crate::lang::value::Value;
use crate::prim::syntax::Written;
use crate::prim::{
    Arg, Attributes, Batched, Cotangents, Doc, Dual, Effects, Linearity, Lowering, Notation, Op,
    Operand, Primitive, Prune, Ranges, Reads, RegionList, Regions, Rewrite, RuleCx, Sample,
    Tangent, Types,
};
use crate::tensor::Tensor;
use smallvec::SmallVec;
use tapeloom_routines::{Element, Routine};

/// The definition of a matrix decomposition. The value of the implementing type holds the attributes.
pub trait Decomposition: Notation + Clone + Into<Op> {
    /// Whether only square matrices are accepted.
    const SQUARE: bool;

    /// Returns the decomposition's entry on the generated page of primitives.
    fn doc() -> Doc;

    /// Returns the library routine for a matrix of this size; its results are the primitive's outputs.
    fn routine(&self, rows: usize, columns: usize) -> Routine;

    /// Emits the outputs of `a` and their tangents for the tangent `da` of `a`; every equation is independent of `da`
    /// or linear in it. `reads` holds, for each output, the positions that are read. A tangent may be zero elsewhere.
    fn jvp(&self, b: &Builder<'_>, a: Atom, da: Atom, reads: &[Option<Reads>]) -> Result<Tangents>;

    /// Returns a cheaper primitive that has all outputs marked in `used`, and a mask of the outputs that it has.
    /// Returns `None` if there is no cheaper primitive.
    fn without(&self, used: &[bool]) -> Option<(Op, Vec<bool>)>;

    /// Returns sample operands, typical and edge cases, on which the tests over all primitives run.
    fn samples() -> Vec<Sample>;
}

/// The outputs of a decomposition, and the tangent of each output. Outputs of integers have no tangent.
pub type Tangents = (Vec<Atom>, Vec<Tangent>);

/// Returns the positions of output `output` that are read along one of its axes; `axis` counts axes from the last one,
/// which is 0.
pub(super) fn read_along(reads: &[Option<Reads>], output: usize, axis: usize) -> Ranges {
    let reads = reads.get(output).and_then(Option::as_ref);
    reads.and_then(|reads| reads.0.iter().rev().nth(axis)).cloned().unwrap_or_default()
}

/// A [`Decomposition`] as a primitive whose operand is an array of matrices.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Decomposed<P>(pub P);

impl<P: Decomposition> Decomposed<P> {
    /// Returns the call of the library routine for every matrix of an array of type `a`.
    fn call(&self, a: &ArrayType) -> RoutineCall {
        let rank = a.shape.len();
        let routine = self.0.routine(a.shape[rank - 2], a.shape[rank - 1]);
        RoutineCall::new(routine, a.dtype, batch_axes(&a.shape))
    }

    /// Returns the types of the outputs for an operand of type `a`: the batch axes, then the axes of the
    /// routine's result.
    fn results(&self, a: &ArrayType) -> Vec<ArrayType> {
        let rank = a.shape.len();
        let routine = self.0.routine(a.shape[rank - 2], a.shape[rank - 1]);
        let result = |own: tapeloom_routines::Array| {
            let dtype = match own.element {
                Element::Float => a.dtype,
                Element::Index => Dtype::I32,
            };
            ArrayType::new(dtype, Shape::from(&[batch_axes(&a.shape), &own.shape].concat()[..]))
        };
        routine.results().into_iter().map(result).collect()
    }
}

impl<P: Notation> Notation for Decomposed<P> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn attributes(&self) -> Written {
        self.0.attributes()
    }

    fn parse(name: &str, attributes: &mut Attributes) -> Option<Result<Self>> {
        Some(P::parse(name, attributes)?.map(Decomposed))
    }
}

impl<P: Decomposition> Primitive for Decomposed<P> {
    fn docs() -> Vec<Doc> {
        vec![P::doc()]
    }

    fn outputs(&self, _: &Module) -> usize {
        self.0.routine(1, 1).results().len()
    }

    fn infer(&self, _: &Module, operands: &[Operand<'_>]) -> Result<Types> {
        let name = self.0.name();
        let [a] = operands else {
            return Err(Problem::new(Kind::Arguments, format!("`{name}` takes one array"), ""));
        };
        let a = if P::SQUARE { square(name, a)?.0 } else { matrices(name, a)?.0 };
        Ok(self.results(a).into_iter().map(Type::Array).collect())
    }

    fn run(&self, _: &Module, operands: &[Value]) -> Result<Vec<Value>> {
        let operands = Value::arrays(operands)?;
        let a = operands[0].ty();
        let results = self.call(a).run(&operands)?;
        let shaped = |(y, ty): (&Tensor, ArrayType)| Ok(y.reshape(&ty.shape)?.into());
        results.iter().zip(self.results(a)).map(shaped).collect()
    }

    fn jvp(&self, cx: &mut RuleCx<'_, '_>, x: &[Atom], dx: &[Tangent]) -> Result<Dual> {
        // If the matrices have no elements, their factors are constants without tangents.
        let some = |da: &Atom| cx.b.shape_of(*da).elements() > 0;
        let Some(da) = dx[0].filter(some) else {
            let y = cx.b.emit(self.0.clone(), x);
            return Ok(Dual { dy: y.iter().map(|_| None).collect(), y });
        };
        let ty = cx.b.type_of(x[0]);
        let types = ty.as_array().map(|a| self.results(a)).unwrap_or_default();
        let read = |(i, ty): (usize, &ArrayType)| match cx.reads.get(i) {
            Some(reads) => reads.clone(),
            None => Some(Reads::all(&ty.shape)),
        };
        let reads: Vec<Option<Reads>> = types.iter().enumerate().map(read).collect();
        let (y, dy) = self.0.jvp(cx.b, x[0], da, &reads)?;
        Ok(Dual { y: y.into(), dy: dy.into() })
    }

    /// Emits the jvp: its equations are independent of `dx` or linear in `dx`, so the caller can split them into the
    /// forward function and the linear function.
    fn linearize(&self, cx: &mut RuleCx<'_, '_>, x: &[Atom], dx: &[Tangent]) -> Result<Dual> {
        Primitive::jvp(self, cx, x, dx)
    }

    fn is_linear(&self, _: &Module, _: &[Linearity]) -> bool {
        false
    }

    fn transpose(
        &self,
        _: &mut RuleCx<'_, '_>,
        _: &[Arg],
        _: &[Option<Atom>],
        _: &mut Cotangents,
    ) -> Result<()> {
        Err(Problem::internal(format!("`{}` is not linear", self.0.name())))
    }

    /// Emits the decomposition of a batch by the same primitive: the batch axis is one more axis in front of the
    /// matrices.
    fn batch(&self, cx: &mut RuleCx<'_, '_>, _: usize, x: &[Atom], _: &[bool]) -> Result<Batched> {
        let y = cx.b.emit(self.0.clone(), x);
        Ok(Batched { batched: SmallVec::from_elem(true, y.len()), y })
    }

    fn regions(&self) -> RegionList {
        RegionList::new()
    }

    fn with_regions(&self, _: &[FuncId]) -> Op {
        self.0.clone().into()
    }

    fn prune(&self, _: &mut dyn Regions, _: &mut Module, used: &[bool]) -> Result<Prune> {
        Ok(match self.0.without(used) {
            Some((op, outputs)) => Prune::Smaller { op, operands: vec![true], outputs },
            None => Prune::Whole,
        })
    }

    fn lower(&self, _: &Module, operands: &[Operand<'_>]) -> Lowering {
        RoutineCall::lowering(operands[0].ty.as_array().map(|a| self.call(a)))
    }

    fn effects(&self, _: &Module) -> Effects {
        Effects::Pure
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples(_: &mut Module) -> Vec<Sample> {
        P::samples()
    }
}
