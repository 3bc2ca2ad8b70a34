//! Views with a fill: the elements of one array, read elsewhere, and a scalar where there are none.
//!
//! `y[o] = x[v(o)]` where the index map `v` leads into the array, and the fill elsewhere. A primitive says
//! what `v` is ([`FilledView`]) and how a cotangent goes back to the array; the rest follows and stands here.
//! The result is linear in array and fill together: `view(x, f) = view(x, 0) + [filled] f`.

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

/// What the system must know about a view of an array with a fill.
pub trait FilledView: Notation + Clone + Into<Op> {
    /// Its entry on the generated page of primitives.
    fn doc() -> Doc;

    /// The extents of `y`, or what is wrong with `x`.
    fn result(&self, x: &ArrayType) -> Result<Shape>;

    /// The index map `v`, one entry for each axis of the array.
    fn view(&self, x: &Shape) -> Vec<AxisMap>;

    /// `ct of x[i] = Σ ct[o] over the o with v(o) = i`.
    fn adjoint(&self, b: &Builder<'_>, ct: Atom, x: &ArrayType) -> Atom;

    /// The same view of every element of a batch along a new axis 0.
    fn batched(&self) -> Self;

    /// Typical and edge uses; the law tests run every one.
    fn samples() -> Vec<Sample>;
}

/// A [`FilledView`] as a primitive: its operands are the array and the fill.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Filled<P>(pub P);

impl<P: FilledView> Filled<P> {
    fn piece(&self, x: &Shape) -> Piece {
        Piece { operand: 0, axes: self.0.view(x) }
    }

    /// Where an element of the result comes from the array (of those extents): a bool array.
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
            // Summed over the fill alone, and not as a difference of sums, so that what falls on the
            // array (an infinity, say) leaves no trace.
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
        // One fill per element of the batch: zero first, then the fills where nothing is.
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
