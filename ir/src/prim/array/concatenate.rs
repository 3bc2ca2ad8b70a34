//! `concatenate{axis}`: joins arrays along an axis.
//!
//! There is at least one operand. All operands agree in dtype and in the extents of all other axes. In reverse mode,
//! the cotangent of each operand is a slice of the result's cotangent.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Shape};
use crate::prim::rules::lowering::INDEX_LIMIT;
use crate::prim::{
    Arg, ArrayPrimitive, AxisMap, Cotangents, Doc, Effects, Family, Linearity, Lowering, Operand,
    Piece, Rewrite, Sample, Slice, Tangent, elementwise,
};
use crate::tensor::Tensor;

/// A concatenation of arrays along an axis. Its text is `concatenate{axis}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Concatenate {
    /// The axis along which the operands are joined.
    pub axis: usize,
}

notation!(Concatenate = "concatenate" { axis });

impl Concatenate {
    /// Returns, for each operand, the part of the result that it fills, given the operands' extents along the
    /// axis.
    fn pieces(&self, rank: usize, extents: impl Iterator<Item = usize>) -> Vec<Piece> {
        let mut start = 0;
        let piece = |(operand, extent): (usize, usize)| {
            let mut axes: Vec<AxisMap> = (0..rank).map(AxisMap::same).collect();
            axes[self.axis] = AxisMap::shifted(self.axis, -start);
            start += extent as i64;
            Piece { operand, axes }
        };
        extents.enumerate().map(piece).collect()
    }

    /// Returns the type of the concatenation of operands of these types, or the error in the operands.
    fn result(&self, operands: &[&ArrayType]) -> Result<ArrayType> {
        let [first, rest @ ..] = operands else {
            return Err(Problem::new(
                Kind::Arguments,
                "`concatenate` takes at least one array",
                "",
            ));
        };
        if self.axis >= first.shape.len() {
            return Err(Problem::new(
                Kind::Shape,
                format!("`concatenate` along axis {} of {first}", self.axis),
                "the axis must exist; give scalars one with `reshape`",
            ));
        }
        if let Some(other) = rest.iter().find(|t| t.dtype != first.dtype) {
            return Err(Problem::new(
                Kind::Dtype,
                format!("`concatenate` of {first} and {other}: the dtypes differ"),
                "convert one of them",
            ));
        }
        let fits = |t: &ArrayType| {
            t.shape.len() == first.shape.len()
                && t.shape.without(&[self.axis]) == first.shape.without(&[self.axis])
        };
        if let Some(other) = rest.iter().find(|t| !fits(t)) {
            return Err(Problem::new(
                Kind::Shape,
                format!("`concatenate` of {first} and {other} along axis {}", self.axis),
                "all extents but those along the axis must be equal",
            ));
        }
        let sum = |sum: usize, t: &&ArrayType| sum.checked_add(t.shape[self.axis]);
        let extent = operands.iter().try_fold(0, sum).filter(|n| *n <= INDEX_LIMIT);
        let Some(extent) = extent else {
            return Err(Problem::new(
                Kind::TooLarge,
                format!("`concatenate` of {} arrays is too long", operands.len()),
                "",
            ));
        };
        let mut shape = first.shape.clone();
        shape[self.axis] = extent;
        Ok(ArrayType { dtype: first.dtype, shape })
    }
}

impl ArrayPrimitive for Concatenate {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Movement,
            name: "concatenate{axis}".into(),
            math: "y = x0, x1, .. one after the other along the axis".into(),
            types: "arrays of one dtype, equal extents except along the axis".into(),
            derivative: "∂x: concatenate of the tangents; its transpose slices".into(),
            edges: "empty operands contribute nothing".into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let arrays: Vec<&ArrayType> = operands.iter().filter_map(|o| o.ty.as_array()).collect();
        if arrays.len() != operands.len() {
            return Err(Problem::new(Kind::Arguments, "`concatenate` takes arrays only", ""));
        }
        let y = self.result(&arrays)?;
        Ok(ArrayType::new(y.dtype, y.shape))
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let types: Vec<&ArrayType> = operands.iter().map(Tensor::ty).collect();
        let y = self.result(&types)?;
        let pieces = self.pieces(y.shape.len(), types.iter().map(|t| t.shape[self.axis]));
        crate::prim::rules::lowering::eval_view(operands, &pieces, None, &y.shape)
    }

    fn jvp(&self, b: &Builder<'_>, x: &[Atom], _: Atom, dx: &[Tangent]) -> Result<Tangent> {
        let dx = elementwise::tangents_or_zeros(b, x, dx);
        Ok(Some(b.emit1(self.clone(), &dx)))
    }

    fn is_linear(&self, operands: &[Linearity]) -> bool {
        !operands.contains(&Linearity::Constant)
    }

    fn transpose(&self, b: &Builder<'_>, x: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        let mut start = vec![0; b.shape_of(ct).len()];
        let mut limit = b.shape_of(ct);
        for (i, arg) in x.iter().enumerate() {
            limit[self.axis] = start[self.axis] + arg.shape(b)[self.axis];
            if let Arg::Linear(_) = arg {
                let part = Slice::dense(start.clone(), limit.to_vec());
                into.add(b, i, b.emit1(part, &[ct]));
            }
            start[self.axis] = limit[self.axis];
        }
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, size: usize, x: &[Atom], batched: &[bool]) -> Result<Atom> {
        let lead = |(a, on): (&Atom, &bool)| match on {
            true => *a,
            false => elementwise::materialize_lead(b, size, *a),
        };
        let x: Vec<Atom> = x.iter().zip(batched).map(lead).collect();
        Ok(b.emit1(Concatenate { axis: self.axis + 1 }, &x))
    }

    fn lower(&self, operands: &[Operand<'_>]) -> Lowering {
        let shapes: Vec<&Shape> =
            operands.iter().filter_map(|o| o.ty.as_array()).map(|t| &t.shape).collect();
        let rank = shapes.first().map_or(0, |s| s.len());
        let pieces = self.pieces(rank, shapes.iter().map(|s| s[self.axis]));
        Lowering::View { pieces, fill: None }
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        let op = |axis| Concatenate { axis };
        let v = |x: &[f64]| Tensor::vector(x);
        let m = || Tensor::from([[1.5, -2.0, 0.25], [3.0, 4.0, -1.0]]);
        vec![
            Sample::smooth(op(0), vec![v(&[1.0, 2.0]), v(&[3.0])]),
            Sample::smooth(op(0), vec![m(), Tensor::from([[7.0, 8.0, 9.0]])]),
            Sample::smooth(op(1), vec![m(), Tensor::from([[7.0], [8.0]]), m()]),
            Sample::smooth(op(0), vec![v(&[1.0]), v(&[]), v(&[2.0, 3.0]), v(&[4.0])]),
            Sample::smooth(op(1), vec![m()]),
            Sample::edge(op(0), vec![v(&[]), v(&[])]),
            Sample::edge(op(0), vec![Tensor::from([1i32]), Tensor::from([2i32, 3])]),
            Sample::edge(op(0), vec![Tensor::from([true]), Tensor::from([false])]),
        ]
    }
}
