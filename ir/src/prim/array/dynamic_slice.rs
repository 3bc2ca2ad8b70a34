//! `dynamic_slice{sizes}`: a box of an array that starts at computed indices.
//!
//! The operands are the array and one integer scalar per axis. A start is clamped so that the box lies within
//! the array: for `x = [a b c d e]`, `dynamic_slice{sizes=[2]} x, 9` is `[d e]`. The extents of the box are
//! static, as all extents are. Source: StableHLO's `dynamic_slice`. Negative starts that count from the end are
//! a convention of some frontends, not of this primitive.
//!
//! In reverse mode, the cotangent is added in place to its box of the array's total cotangent. That needs the
//! starts, and nothing of the array.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Type};
use crate::prim::rules::box_addressing::{
    Boxes, check_fits, check_starts, clamped, with_first_start,
};
use crate::prim::rules::slice_access::{Boxed, SliceAccess, Start, Within};
use crate::prim::rules::view::one_per_axis;
use crate::prim::{
    Arg, ArrayPrimitive, Cotangents, Doc, Effects, Family, Linearity, Lowering, Operand, Rewrite,
    Sample, Slice, Tangent, elementwise,
};
use crate::tensor::Tensor;

/// A box of an array that starts at computed indices. Its text is `dynamic_slice{sizes}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct DynamicSlice {
    /// The extents of the box, which are also the extents of the result.
    pub sizes: Vec<usize>,
}

notation!(DynamicSlice = "dynamic_slice" { sizes });

impl Boxed for DynamicSlice {
    fn part(&self, operands: &[Type]) -> Option<SliceAccess> {
        let starts = (1..operands.len()).map(Start::scalar).collect();
        Some(SliceAccess { starts, sizes: self.sizes.clone(), clamps: true, writes: None })
    }

    fn within(&self, b: &Builder<'_>, of: &Within<'_>) -> Option<Atom> {
        Some(of.read(b))
    }
}

impl ArrayPrimitive for DynamicSlice {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Indexing,
            name: "dynamic_slice{sizes}".into(),
            math: "y[o] = x[s + o], s = clamp(start, 0, extent - sizes)".into(),
            types: "any array, then one integer scalar per axis".into(),
            derivative: "∂x: dynamic_slice of t; its transpose adds into the box".into(),
            edges: "a start out of range, also a negative one, is clamped to the nearest that fits"
                .into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let [Operand { ty: Type::Array(x), .. }, starts @ ..] = operands else {
            let message = "`dynamic_slice` takes an array and one start per axis";
            return Err(Problem::new(Kind::Arguments, message, ""));
        };
        one_per_axis("dynamic_slice", "sizes", self.sizes.len(), x)?;
        check_starts("dynamic_slice", x, starts)?;
        check_fits("dynamic_slice", x, &self.sizes)?;
        Ok(ArrayType::new(x.dtype, self.sizes.clone()))
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let start = clamped(operands[0].shape(), &self.sizes, &operands[1..]);
        let limit = start.iter().zip(&self.sizes).map(|(s, n)| s + n).collect();
        Slice::dense(start, limit).eval(&operands[..1])
    }

    fn jvp(&self, b: &Builder<'_>, x: &[Atom], _: Atom, dx: &[Tangent]) -> Result<Tangent> {
        let dy = dx[0].map(|dx| {
            let operands: Vec<Atom> = [dx].into_iter().chain(x[1..].iter().copied()).collect();
            b.emit1(self.clone(), &operands)
        });
        Ok(dy)
    }

    fn is_linear(&self, operands: &[Linearity]) -> bool {
        operands[0] == Linearity::Linear
    }

    fn transpose(&self, b: &Builder<'_>, x: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        let [Arg::Linear(Type::Array(x)), starts @ ..] = x else {
            return Ok(());
        };
        let starts: Vec<Atom> = starts.iter().filter_map(Arg::known).collect();
        let read = |total: Atom| {
            let operands: Vec<Atom> = [total].into_iter().chain(starts.iter().copied()).collect();
            b.emit1(self.clone(), &operands)
        };
        into.add_part(b, 0, x, read, &starts, ct);
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, size: usize, x: &[Atom], batched: &[bool]) -> Result<Atom> {
        if batched[1..].contains(&true) {
            let shape = b.shape_of(x[0]);
            let shape = if batched[0] { &shape[1..] } else { &shape };
            let y = match Boxes::new(b, size, shape, &self.sizes, &x[1..], &batched[1..]) {
                Some(boxes) => boxes.read(b, x[0], batched[0]),
                // If the box has the extents of the array, the clamped starts are 0 for all values of the start
                // operands, so the result is the array itself.
                None if batched[0] => x[0],
                None => elementwise::materialize_lead(b, size, x[0]),
            };
            return Ok(y);
        }
        let op = DynamicSlice { sizes: [&[size], self.sizes.as_slice()].concat() };
        Ok(b.emit1(op, &with_first_start(&x[..1], &x[1..])))
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        Lowering::DynamicSlice
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        let op = |sizes: &[usize]| DynamicSlice { sizes: sizes.to_vec() };
        let at = |x: Tensor, starts: &[i64]| {
            [x].into_iter().chain(starts.iter().map(|s| Tensor::scalar(*s))).collect::<Vec<_>>()
        };
        let v = || Tensor::from([1.0, -2.0, 3.0, 4.5]);
        let m = || Tensor::from([[1.5, -2.0, 0.25], [3.0, 4.0, -1.0], [0.5, 7.0, -6.0]]);
        vec![
            Sample::smooth(op(&[2]), at(v(), &[1])),
            Sample::smooth(op(&[1, 3]), at(m(), &[2, 0])),
            Sample::smooth(op(&[2, 2]), at(m(), &[0, 1])),
            Sample::smooth(op(&[2]), at(v(), &[9])),
            Sample::smooth(op(&[2, 2]), at(m(), &[-7, i64::MAX])),
            Sample::smooth(op(&[4]), at(v(), &[2])),
            Sample::smooth(op(&[]), at(Tensor::from(2.5), &[])),
            Sample::smooth(op(&[1]), vec![v(), Tensor::scalar(2i32)]),
            Sample::edge(op(&[1]), vec![v(), Tensor::scalar(u64::MAX)]),
            Sample::edge(op(&[0]), at(v(), &[4])),
            Sample::edge(op(&[2]), at(Tensor::from([1u32, 2, 3]), &[-1])),
            Sample::edge(op(&[1]), at(Tensor::from([true, false]), &[1])),
        ]
    }
}
