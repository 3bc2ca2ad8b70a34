//! Views with a fill: the elements of one array at other positions, and a scalar at all remaining positions.
//!
//! `y[o] = x[v(o)]` if the index map `v` leads into the array, otherwise the fill. A primitive defines `v`
//! ([`FilledView`]) and the cotangent of the array; this file derives all other rules. The result is linear in
//! array and fill together: `view(x, f) = view(x, 0) + [filled] f`.

use super::lowering::eval_view;
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Shape, Type};
use crate::prim::syntax::Written;
use crate::prim::{
    Arg, ArrayPrimitive, Attributes, AxisMap, Broadcast, Cotangents, Doc, Effects, Linearity,
    Lowering, Notation, Op, Operand, Piece, Reduce, Reducer, Rewrite, Sample, Scalar, Tangent,
    elementwise,
};
use crate::tensor::Tensor;

/// The rules of a primitive `y[o] = x[v(o)]`, or a fill where `v(o)` lies outside `x`: padding and
/// windows.
pub trait FilledView: Notation + Clone + Into<Op> {
    /// Returns the primitive's entry on the generated page of primitives.
    fn doc() -> Doc;

    /// Returns the extents of `y`, or the error in `x`.
    fn result(&self, x: &ArrayType) -> Result<Shape>;

    /// Returns the index map `v`, with one `AxisMap` for each axis of the array `x`.
    fn view(&self, x: &Shape) -> Vec<AxisMap>;

    /// Emits the cotangent of the array: `ct of x[i] = Σ ct[o] over the o with v(o) = i`.
    fn adjoint(&self, b: &Builder<'_>, ct: Atom, x: &ArrayType) -> Atom;

    /// Returns the same view for every batch member, with the batch as a new axis 0.
    fn batched(&self) -> Self;

    /// Returns sample operands, typical and edge cases, on which the tests over all primitives run.
    fn samples() -> Vec<Sample>;
}

/// A [`FilledView`] as a primitive: its operands are the array and the fill.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Filled<P>(pub P);

impl<P: FilledView> Filled<P> {
    fn piece(&self, x: &Shape) -> Piece {
        Piece { operand: 0, axes: self.0.view(x) }
    }

    /// Emits a bool array that is true where an element of the result comes from the array, whose extents are
    /// `x`.
    fn covered(&self, b: &Builder<'_>, x: &Shape) -> Atom {
        let yes = elementwise::full(b, x, Literal::bool(true));
        b.emit1(self.0.clone(), &[yes, Literal::bool(false).into()])
    }
}

impl<P: Notation> Notation for Filled<P> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn attributes(&self) -> Written {
        self.0.attributes()
    }

    fn parse(name: &str, attributes: &mut Attributes) -> Option<Result<Self>> {
        Some(P::parse(name, attributes)?.map(Filled))
    }
}

impl<P: FilledView> ArrayPrimitive for Filled<P>
where
    Filled<P>: Into<Op>,
{
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![P::doc()]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let name = self.0.name();
        let [Operand { ty: Type::Array(x), .. }, Operand { ty: Type::Array(fill), .. }] = operands
        else {
            let message = format!("`{name}` takes an array and a scalar");
            return Err(Problem::new(Kind::Arguments, message, ""));
        };
        if !fill.shape.is_empty() || fill.dtype != x.dtype {
            return Err(Problem::new(
                if fill.shape.is_empty() { Kind::Dtype } else { Kind::Shape },
                format!("`{name}` of {x} needs a fill of type {}[], found {fill}", x.dtype),
                "fill with a scalar of the array's dtype",
            ));
        }
        Ok(ArrayType::new(x.dtype, self.0.result(x)?))
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let x = operands[0].ty();
        eval_view(operands, &[self.piece(&x.shape)], Some(1), &self.0.result(x)?)
    }

    fn jvp(&self, b: &Builder<'_>, x: &[Atom], _: Atom, dx: &[Tangent]) -> Result<Tangent> {
        let dx = elementwise::tangents_or_zeros(b, x, dx);
        Ok(Some(b.emit1(self.0.clone(), &dx)))
    }

    fn is_linear(&self, operands: &[Linearity]) -> bool {
        !operands.contains(&Linearity::Constant)
    }

    fn transpose(&self, b: &Builder<'_>, x: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        let [array, fill] = x else { return Ok(()) };
        if let Arg::Linear(Type::Array(x)) = array {
            into.add(b, 0, self.0.adjoint(b, ct, x));
        }
        if let Arg::Linear(_) = fill {
            // Sum over the filled elements alone, not as a difference of two sums, so that an infinity in the
            // array's elements has no effect.
            let covered = self.covered(b, &array.shape(b));
            let zero = Literal::zero(b.dtype_of(ct)).into();
            let uncovered = b.emit1(Scalar::Select, &[covered, zero, ct]);
            let axes = (0..b.shape_of(ct).len()).collect();
            into.add(b, 1, b.emit1(Reduce { reducer: Reducer::Sum, axes }, &[uncovered]));
        }
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, size: usize, x: &[Atom], batched: &[bool]) -> Result<Atom> {
        let [array, fill] = *x else {
            return Err(Problem::internal(format!("`{}` of two operands", self.0.name())));
        };
        let lead = Filled(self.0.batched());
        if !batched[1] {
            return Ok(b.emit1(lead.0, &[array, fill]));
        }
        // Each batch member has its own fill: fill with zeros first, then select the fills where the
        // array has no element.
        let array = if batched[0] { array } else { elementwise::materialize_lead(b, size, array) };
        let zero = Literal::zero(b.dtype_of(array)).into();
        let covered = lead.covered(b, &b.shape_of(array));
        let viewed = b.emit1(lead.0, &[array, zero]);
        let fills = Broadcast { shape: b.shape_of(viewed), dims: vec![0] };
        let fills = b.emit1(fills, &[fill]);
        Ok(b.emit1(Scalar::Select, &[covered, viewed, fills]))
    }

    fn lower(&self, operands: &[Operand<'_>]) -> Lowering {
        let shape = operands.first().and_then(|x| x.ty.as_array()).map(|x| x.shape.clone());
        let pieces = vec![self.piece(&shape.unwrap_or_default())];
        Lowering::View { pieces, fill: Some(1) }
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        P::samples()
    }
}
