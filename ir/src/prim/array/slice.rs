//! `slice{start, limit, strides}`: a box of an array, every `strides`-th element of it.
//!
//! Along each axis the result has the indices `start, start + stride, ..` below `limit`. For `x = [a b c d e]`,
//! `slice{start=[1], limit=[5], strides=[2]} x` is `[b d]`. Bounds are static and lie within the array; `dynamic_slice`
//! has computed starts.
//!
//! Reverse mode returns the cotangent to its positions in the operand. If the operand has no cotangent yet, the
//! slice's cotangent is padded with zeros to full size. If it has one, the slice's cotangent is added in place,
//! so that a program that reads an array element by element does not create an array of zeros for every read.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Shape, Type};
use crate::prim::rules::lowering::INDEX_LIMIT;
use crate::prim::rules::slice_access::{Boxed, SliceAccess, Start, Within};
use crate::prim::rules::view::one_per_axis;
use crate::prim::{
    AxisMap, Broadcast, Cotangents, Doc, Equality, Family, Movement, Op, Pad, Rewrite, Sample, View,
};
use crate::tensor::Tensor;

/// A box of an array with static bounds, with a stride per axis. Its text is `slice{start, limit, strides}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Slice {
    /// The first selected index, per axis.
    pub start: Vec<usize>,
    /// The end of the selected indices (exclusive), per axis.
    pub limit: Vec<usize>,
    /// The distance between selected indices, per axis; at least 1.
    pub strides: Vec<usize>,
}

notation!(Slice = "slice" { start, limit, strides });

impl Slice {
    /// Returns the slice from `start` up to `limit` (exclusive), per axis, with stride 1.
    pub fn dense(start: Vec<usize>, limit: Vec<usize>) -> Slice {
        let strides = vec![1; start.len()];
        Slice { start, limit, strides }
    }

    /// Iterates over the axes, with (start, limit, stride) of each.
    fn axes(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        let bounds = self.start.iter().zip(&self.limit).zip(&self.strides);
        bounds.map(|((start, limit), stride)| (*start, *limit, *stride))
    }

    /// Returns the extents of the slice's result.
    fn shape(&self) -> Shape {
        self.axes().map(|(start, limit, stride)| (limit - start).div_ceil(stride)).collect()
    }

    /// Returns the pad that puts the elements of a slice back to their positions in an array of extents `x`, with
    /// a fill elsewhere.
    fn scatter(&self, x: &[usize]) -> Pad {
        let mut pad = Pad { low: Vec::new(), high: Vec::new(), interior: Vec::new() };
        for ((start, _, stride), (n, kept)) in self.axes().zip(x.iter().zip(self.shape().iter())) {
            let end = if *kept == 0 { start } else { start + (kept - 1) * stride + 1 };
            pad.low.push(start as i64);
            pad.high.push((n - end) as i64);
            pad.interior.push(stride - 1);
        }
        pad
    }
}

impl Boxed for Slice {
    fn part(&self, _: &[Type]) -> Option<SliceAccess> {
        let starts = self.start.iter().map(|s| Start::Number(*s as i64)).collect();
        let dense = self.strides.iter().all(|s| *s == 1);
        dense.then(|| SliceAccess {
            starts,
            sizes: self.shape().to_vec(),
            clamps: true,
            writes: None,
        })
    }

    fn within(&self, b: &Builder<'_>, of: &Within<'_>) -> Option<Atom> {
        Some(of.read(b))
    }
}

impl Movement for Slice {
    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Movement,
            name: "slice{start, limit, strides}".into(),
            math: "y[o] = x[start + strides o], for indices below limit".into(),
            types: "any array; 0 <= start <= limit <= extent, strides >= 1".into(),
            derivative: "∂x: slice of t; its transpose writes into zeros, or adds in place".into(),
            edges: "start = limit gives an empty array".into(),
        }]
    }

    fn result(&self, x: &ArrayType) -> Result<Shape> {
        one_per_axis("slice", "start", self.start.len(), x)?;
        one_per_axis("slice", "limit", self.limit.len(), x)?;
        one_per_axis("slice", "strides", self.strides.len(), x)?;
        for (axis, ((start, limit, stride), n)) in self.axes().zip(x.shape.iter()).enumerate() {
            if start > limit || limit > *n || limit > INDEX_LIMIT {
                return Err(Problem::new(
                    Kind::Shape,
                    format!("`slice` of {x} takes {start}..{limit} of axis {axis}, which has {n}"),
                    "bounds satisfy 0 <= start <= limit <= extent",
                ));
            }
            if stride == 0 || stride > INDEX_LIMIT {
                return Err(Problem::new(
                    Kind::Shape,
                    format!("`slice` of {x} has stride {stride} along axis {axis}"),
                    "strides are at least 1; for a negative one, reverse with `rev`",
                ));
            }
        }
        Ok(self.shape())
    }

    /// Returns the index map: along each axis, result index `o` reads operand index `start + stride o`.
    fn view(&self, _: &Shape) -> View {
        let map = |(axis, (start, _, stride)): (usize, (usize, usize, usize))| {
            AxisMap::scaled(axis, stride as i64, start as i64)
        };
        View::Axes(self.axes().enumerate().map(map).collect())
    }

    fn adjoint(&self, b: &Builder<'_>, x: &ArrayType, ct: Atom, into: &mut Cotangents) {
        if into.total[0].is_some() && self.strides.iter().all(|s| *s == 1) {
            let start: Vec<Atom> =
                self.start.iter().map(|s| Literal::i64(*s as i64).into()).collect();
            let read = |total| b.emit1(self.clone(), &[total]);
            into.add_part(b, 0, x, read, &start, ct);
        } else {
            let zero = Literal::zero(x.dtype).into();
            into.add(b, 0, b.emit1(self.scatter(&x.shape), &[ct, zero]));
        }
    }

    fn batched(&self, size: usize) -> Slice {
        let lead = |first: usize, rest: &[usize]| [&[first], rest].concat();
        Slice {
            start: lead(0, &self.start),
            limit: lead(size, &self.limit),
            strides: lead(1, &self.strides),
        }
    }

    fn rewrites() -> Vec<Rewrite> {
        vec![
            Rewrite::exact(
                "slice-everything",
                Equality::Identity(
                    |op, x| matches!((op, x), (Op::Slice(s), Type::Array(x)) if s.shape() == x.shape),
                ),
                "a slice as large as its operand is its operand",
            ),
            Rewrite::exact(
                "slice-slice",
                Equality::Compose(|outer, inner, _| match (outer, inner) {
                    (Op::Slice(outer), Op::Slice(inner)) => {
                        Some(vec![slice_of_slice(outer, inner)?.into()])
                    }
                    _ => None,
                }),
                "one view instead of two",
            ),
            Rewrite::exact(
                "slice-broadcast",
                Equality::Compose(|outer, inner, x| match (outer, inner, x) {
                    (Op::Slice(slice), Op::Broadcast(broadcast), Type::Array(x)) => {
                        Some(slice_of_broadcast(slice, broadcast, &x.shape))
                    }
                    _ => None,
                }),
                "slice the smaller array, or nothing",
            ),
        ]
    }

    fn samples() -> Vec<Sample> {
        let op = |start: &[usize], limit: &[usize], strides: &[usize]| Slice {
            start: start.to_vec(),
            limit: limit.to_vec(),
            strides: strides.to_vec(),
        };
        let x = Tensor::from([[1.5, -2.0, 0.25], [3.0, 4.0, -1.0], [0.5, 7.0, -6.0]]);
        vec![
            Sample::smooth(op(&[1, 0], &[3, 2], &[1, 1]), vec![x.clone()]),
            Sample::smooth(op(&[0, 0], &[3, 3], &[2, 1]), vec![x.clone()]),
            Sample::smooth(op(&[0, 1], &[2, 3], &[5, 2]), vec![x.clone()]),
            Sample::smooth(op(&[0, 0], &[3, 3], &[1, 1]), vec![x.clone()]),
            Sample::smooth(op(&[], &[], &[]), vec![Tensor::from(2.5)]),
            Sample::smooth(op(&[1], &[2], &[1]), vec![Tensor::from([1.0f32, 2.0, 3.0])]),
            Sample::edge(op(&[1, 2], &[1, 3], &[1, 1]), vec![x]),
            Sample::edge(op(&[0], &[0], &[3]), vec![Tensor::vector::<f64>(&[])]),
            Sample::edge(op(&[1], &[6], &[2]), vec![Tensor::from([0i32, 1, 2, 3, 4, 5])]),
            Sample::edge(op(&[1], &[3], &[1]), vec![Tensor::from([true, false, true])]),
        ]
    }
}

/// Merges `outer(inner(x))` into one slice: along each axis its start is `s_i + k_i s_o` and its stride `k_i
/// k_o`, for starts `s` and strides `k` of the inner and outer slice; its limit is the least that includes the
/// last element.
fn slice_of_slice(outer: &Slice, inner: &Slice) -> Option<Slice> {
    let mut all = Slice { start: Vec::new(), limit: Vec::new(), strides: Vec::new() };
    let shape = outer.shape();
    for ((o, i), kept) in outer.axes().zip(inner.axes()).zip(shape.iter()) {
        let stride = i.2.checked_mul(o.2).filter(|s| *s <= INDEX_LIMIT)?;
        // Limit the start: if the outer slice selects nothing, its start may lie beyond the inner slice's limit.
        let start = (i.0 + i.2.checked_mul(o.0)?).min(i.1);
        all.start.push(start);
        all.limit.push(if *kept == 0 { start } else { start + (kept - 1) * stride + 1 });
        all.strides.push(stride);
    }
    Some(all)
}

/// Rewrites `slice(broadcast x)` to `broadcast(slice x)`. Along the axes of `x`, `x` itself is sliced; along all other
/// axes, the broadcast gets shorter.
fn slice_of_broadcast(slice: &Slice, broadcast: &Broadcast, x: &Shape) -> Vec<Op> {
    let mut before = Slice::dense(vec![0; x.len()], x.to_vec());
    for (axis, d) in broadcast.dims.iter().enumerate() {
        if x[axis] == broadcast.shape[*d] && x[axis] != 1 {
            before.start[axis] = slice.start[*d];
            before.limit[axis] = slice.limit[*d];
            before.strides[axis] = slice.strides[*d];
        }
    }
    let sliced = before.shape();
    let after = Broadcast { shape: slice.shape(), dims: broadcast.dims.clone() };
    let mut ops: Vec<Op> = Vec::new();
    if sliced != *x {
        ops.push(before.into());
    }
    if sliced != after.shape {
        ops.push(after.into());
    }
    ops
}
