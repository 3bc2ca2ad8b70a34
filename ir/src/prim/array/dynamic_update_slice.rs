//! `dynamic_update_slice`: an array with one box replaced.
//!
//! The operands are the array, the update and one integer scalar per axis, clamped so that the update lies within the
//! array. For `x = [a b c d]`, `dynamic_update_slice x, [p q], 1` is `[a p q d]`. If the array is not read again, a
//! backend writes in place, so that filling an array piece by piece costs no more than writing the pieces.
//!
//! The result is linear in the array and the update together. The derivative needs only the starts, so the
//! array that is written to is never a residual.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Type};
use crate::prim::rules::box_addressing::{
    Boxes, check_fits, check_starts, clamped, with_first_start,
};
use crate::prim::rules::slice_access::{Boxed, SliceAccess, Start, Within, Write};
use crate::prim::rules::slice_helpers::{put_box, reshaped};
use crate::prim::{
    Arg, ArrayPrimitive, Cotangents, Doc, DynamicSlice, Effects, Family, Linearity, Lowering,
    Operand, Rewrite, Sample, Tangent, elementwise,
};
use crate::tensor::Tensor;

/// An array in which one box, at computed starts, is replaced. Its text is `dynamic_update_slice`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct DynamicUpdateSlice;

notation!(DynamicUpdateSlice = "dynamic_update_slice" {});

impl Boxed for DynamicUpdateSlice {
    fn part(&self, operands: &[Type]) -> Option<SliceAccess> {
        let starts = (2..operands.len()).map(Start::scalar).collect();
        let sizes = operands.get(1)?.as_array()?.shape.to_vec();
        let writes = Some(Write { operand: 1, adds: false });
        Some(SliceAccess { starts, sizes, clamps: true, writes })
    }

    fn within(&self, b: &Builder<'_>, of: &Within<'_>) -> Option<Atom> {
        let update = reshaped(b, of.update?, of.sizes);
        if of.is_all() {
            return Some(update);
        }
        Some(put_box(b, of.array, update, &of.corner()))
    }
}

impl ArrayPrimitive for DynamicUpdateSlice {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Indexing,
            name: "dynamic_update_slice".into(),
            math: "y = x with y[s + o] = u[o], s = clamp(start, 0, extent of x - extent of u)"
                .into(),
            types: "an array, an update of its dtype and rank, then one integer scalar per axis"
                .into(),
            derivative:
                "∂(x, u): dynamic_update_slice of the tangents; its transpose sets the box to zero \
                 for x and slices it for u"
                    .into(),
            edges: "a start out of range, also a negative one, is clamped to the nearest that fits"
                .into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let [
            Operand { ty: Type::Array(x), .. },
            Operand { ty: Type::Array(update), .. },
            starts @ ..,
        ] = operands
        else {
            let message = "`dynamic_update_slice` takes an array, an update and one start per axis";
            return Err(Problem::new(Kind::Arguments, message, ""));
        };
        if update.dtype != x.dtype {
            return Err(Problem::new(
                Kind::Dtype,
                format!("`dynamic_update_slice` of {x} by {update}: the dtypes differ"),
                "convert one of them",
            ));
        }
        check_fits("dynamic_update_slice", x, &update.shape)?;
        check_starts("dynamic_update_slice", x, starts)?;
        Ok(ArrayType::new(x.dtype, x.shape.clone()))
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        Ok(write(operands[0].clone(), &operands[1], &operands[2..]))
    }

    fn jvp(&self, b: &Builder<'_>, x: &[Atom], _: Atom, dx: &[Tangent]) -> Result<Tangent> {
        let dx = elementwise::tangents_or_zeros(b, &x[..2], &dx[..2]);
        let operands: Vec<Atom> = dx.iter().chain(&x[2..]).copied().collect();
        Ok(Some(b.emit1(self.clone(), &operands)))
    }

    fn is_linear(&self, operands: &[Linearity]) -> bool {
        !operands[..2].contains(&Linearity::Constant)
    }

    fn transpose(&self, b: &Builder<'_>, x: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        let [array, update, starts @ ..] = x else { return Ok(()) };
        let starts: Vec<Atom> = starts.iter().filter_map(Arg::known).collect();
        let at_starts = |arrays: &[Atom]| [arrays, &starts].concat();
        let ty = ArrayType { dtype: b.dtype_of(ct), shape: update.shape(b) };
        // Read the box of the cotangent before the equation that zeroes it, so that the zeroing is the last use
        // of the cotangent and can happen in place.
        if let Arg::Linear(_) = update {
            let part = DynamicSlice { sizes: ty.shape.to_vec() };
            into.add(b, 1, b.emit1(part, &at_starts(&[ct])));
        }
        if let Arg::Linear(_) = array {
            let blank = elementwise::zeros(b, &ty);
            into.add(b, 0, b.emit1(self.clone(), &at_starts(&[ct, blank])));
        }
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, size: usize, x: &[Atom], batched: &[bool]) -> Result<Atom> {
        let lead = |i: usize| match batched[i] {
            true => x[i],
            false => elementwise::materialize_lead(b, size, x[i]),
        };
        let (array, update) = (lead(0), lead(1));
        if !batched[2..].contains(&true) {
            let operands = with_first_start(&[array, update], &x[2..]);
            return Ok(b.emit1(self.clone(), &operands));
        }
        let (shape, sizes) = (b.shape_of(array), b.shape_of(update));
        let boxes = Boxes::new(b, size, &shape[1..], &sizes[1..], &x[2..], &batched[2..]);
        // If the update has the extents of the array, `boxes` is `None`: the update then replaces the whole array, for
        // all values of the starts.
        Ok(boxes.map_or(update, |boxes| boxes.write(b, array, update)))
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        Lowering::DynamicUpdateSlice
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        let at = |x: Tensor, update: Tensor, starts: &[i64]| {
            let starts = starts.iter().map(|s| Tensor::scalar(*s));
            [x, update].into_iter().chain(starts).collect::<Vec<_>>()
        };
        let op = || DynamicUpdateSlice;
        let v = || Tensor::from([1.0, -2.0, 3.0, 4.5]);
        let m = || Tensor::from([[1.5, -2.0, 0.25], [3.0, 4.0, -1.0], [0.5, 7.0, -6.0]]);
        let row = || Tensor::from([[10.0, 20.0, 30.0]]);
        vec![
            Sample::smooth(op(), at(v(), Tensor::from([8.0, 9.0]), &[1])),
            Sample::smooth(op(), at(m(), row(), &[2, 0])),
            Sample::smooth(op(), at(m(), Tensor::from([[5.5], [6.5]]), &[0, 1])),
            Sample::smooth(op(), at(v(), Tensor::from([8.0, 9.0]), &[9])),
            Sample::smooth(op(), at(m(), row(), &[-7, i64::MAX])),
            Sample::smooth(op(), at(v(), Tensor::from([8.0, 9.0, 10.0, 11.0]), &[3])),
            Sample::smooth(op(), at(Tensor::from(2.5), Tensor::from(1.5), &[])),
            Sample::smooth(op(), vec![v(), Tensor::from([8.0]), Tensor::scalar(2u32)]),
            Sample::edge(op(), at(v(), Tensor::vector::<f64>(&[]), &[4])),
            Sample::edge(op(), at(Tensor::from([1i32, 2, 3]), Tensor::from([7i32]), &[-1])),
            Sample::edge(op(), at(Tensor::from([true, true]), Tensor::from([false]), &[1])),
        ]
    }
}

/// Writes `update` into `x` at the clamped starts and returns `x`. If other tensors refer to the elements of `x`, they
/// are copied first.
pub(crate) fn write(mut x: Tensor, update: &Tensor, starts: &[Tensor]) -> Tensor {
    let starts = clamped(x.shape(), update.shape(), starts);
    let (strides, size) = (x.ty().shape.strides(), x.dtype().bytes());
    let (inner, row) = match update.shape().split_last() {
        Some((row, inner)) => (inner, *row),
        None => (&[][..], 1),
    };
    let (to, from) = (x.bytes_mut(), update.bytes());
    let rows = from.len() / (row * size).max(1);
    for r in 0..rows {
        // The offset of the first element of row `r` of the box; elements along the last axis are adjacent in
        // memory.
        let mut at = starts.last().copied().unwrap_or(0);
        let mut rest = r;
        for axis in (0..inner.len()).rev() {
            at += (starts[axis] + rest % inner[axis]) * strides[axis];
            rest /= inner[axis];
        }
        to[at * size..][..row * size].copy_from_slice(&from[r * row * size..][..row * size]);
    }
    x
}
