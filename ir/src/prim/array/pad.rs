//! `pad{low, high, interior}`: an array with a scalar inserted around and between its elements.
//!
//! Along each axis, `interior` copies of the fill are inserted between neighbours, then `low` copies in front
//! and `high` copies behind. Negative `low` and `high` crop: for `x = [a b c]`,
//! `pad{low=[-1], high=[2], interior=[1]} x, 0` is `0 b 0 c 0 0`. Source: StableHLO's `pad`.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Shape};
use crate::prim::rules::lowering::INDEX_LIMIT;
use crate::prim::rules::view::one_per_axis;
use crate::prim::{AxisMap, Doc, Family, FilledView, Sample, Slice, Window};
use crate::tensor::Tensor;

/// An array with a scalar inserted around and between its elements. Its text is `pad{low, high, interior}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Pad {
    /// Copies of the fill in front of the elements along each axis; a negative number removes elements.
    pub low: Vec<i64>,
    /// Copies of the fill behind the elements along each axis; a negative number removes elements.
    pub high: Vec<i64>,
    /// Copies of the fill between neighbouring elements along each axis.
    pub interior: Vec<usize>,
}

notation!(Pad = "pad" { low, high, interior });

impl Pad {
    /// Iterates over the axes, with `low`, `high` and `interior` of each.
    fn axes(&self) -> impl Iterator<Item = (i64, i64, usize)> + '_ {
        let edges = self.low.iter().zip(&self.high).zip(&self.interior);
        edges.map(|((low, high), interior)| (*low, *high, *interior))
    }

    /// Returns whether the pad adds and removes nothing, so that the result equals the operand.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.axes().all(|edges| edges == (0, 0, 0))
    }

    /// Returns whether the pad removes nothing and changes no axes other than `axes`.
    pub(super) fn surrounds_only(&self, axes: impl Iterator<Item = usize> + Clone) -> bool {
        let one = |(axis, (low, high, interior)): (usize, (i64, i64, usize))| {
            let along = axes.clone().any(|a| a == axis);
            low >= 0 && high >= 0 && (along || (low, high, interior) == (0, 0, 0))
        };
        self.axes().enumerate().all(one)
    }

    /// Returns the extents of the result for an operand of type `x`, or the error.
    fn shape(&self, x: &ArrayType) -> Result<Shape> {
        let extent = |(axis, ((low, high, interior), n)): (usize, ((i64, i64, usize), &usize))| {
            let limit = INDEX_LIMIT as i128;
            let (low, high, interior) = (i128::from(low), i128::from(high), interior as i128);
            let n = *n as i128;
            let extent = low + n + (n - 1).max(0) * interior + high;
            let bounded = [low, high, interior, n, extent].iter().all(|v| v.abs() <= limit);
            match usize::try_from(extent) {
                Ok(extent) if bounded => Ok(extent),
                _ => Err(Problem::new(
                    Kind::Shape,
                    format!("`pad` of {x} would give axis {axis} the extent {extent}"),
                    "crop at most the extent, and pad to a size that fits into memory",
                )),
            }
        };
        self.axes().zip(x.shape.iter()).enumerate().map(extent).collect()
    }
}

impl FilledView for Pad {
    fn doc() -> Doc {
        Doc {
            family: Family::Movement,
            name: "pad{low, high, interior}".into(),
            math: "y[low + (interior + 1) i] = x[i], the fill elsewhere".into(),
            types: "any array and a scalar of its dtype".into(),
            derivative:
                "∂(x, fill): pad of t by the tangent of the fill; its transpose slices, and sums \
                 the cotangents of filled elements"
                    .into(),
            edges: "negative low and high crop elements after the interior fill is inserted".into(),
        }
    }

    fn result(&self, x: &ArrayType) -> Result<Shape> {
        one_per_axis("pad", "low", self.low.len(), x)?;
        one_per_axis("pad", "high", self.high.len(), x)?;
        one_per_axis("pad", "interior", self.interior.len(), x)?;
        self.shape(x)
    }

    fn view(&self, _: &Shape) -> Vec<AxisMap> {
        let map = |(axis, (low, _, interior)): (usize, (i64, i64, usize))| AxisMap {
            divisor: interior as i64 + 1,
            ..AxisMap::shifted(axis, -low)
        };
        self.axes().enumerate().map(map).collect()
    }

    /// Emits the cotangent of the array: removes the padding from `ct`, adds zeros for elements that the pad
    /// removed, and drops the positions between elements.
    fn adjoint(&self, b: &Builder<'_>, ct: Atom, x: &ArrayType) -> Atom {
        let negated = |v: &[i64]| v.iter().map(|v| -v).collect();
        let back = Pad {
            low: negated(&self.low),
            high: negated(&self.high),
            interior: vec![0; self.low.len()],
        };
        let strides: Vec<usize> = self.interior.iter().map(|i| i + 1).collect();
        if let Some(fewer) = Window::cropped(b, ct, &back.low, &back.high, &strides) {
            return fewer;
        }
        let zero = Literal::zero(x.dtype).into();
        let spread = b.emit1(back, &[ct, zero]);
        let picked =
            Slice { start: vec![0; x.shape.len()], limit: b.shape_of(spread).to_vec(), strides };
        b.emit1(picked, &[spread])
    }

    fn batched(&self) -> Pad {
        Pad {
            low: [&[0], self.low.as_slice()].concat(),
            high: [&[0], self.high.as_slice()].concat(),
            interior: [&[0], self.interior.as_slice()].concat(),
        }
    }

    fn samples() -> Vec<Sample> {
        let op = |low: &[i64], high: &[i64], interior: &[usize]| Pad {
            low: low.to_vec(),
            high: high.to_vec(),
            interior: interior.to_vec(),
        };
        let v = || Tensor::from([1.0, -2.0, 3.0]);
        let m = || Tensor::from([[1.5, -2.0, 0.25], [3.0, 4.0, -1.0]]);
        let fill = || Tensor::from(0.5);
        vec![
            Sample::smooth(op(&[1], &[2], &[0]), vec![v(), fill()]),
            Sample::smooth(op(&[0], &[0], &[2]), vec![v(), fill()]),
            Sample::smooth(op(&[-1], &[2], &[1]), vec![v(), fill()]),
            Sample::smooth(op(&[-1], &[-1], &[0]), vec![v(), fill()]),
            Sample::smooth(op(&[1, -1], &[2, 1], &[0, 2]), vec![m(), fill()]),
            Sample::smooth(op(&[0, 0], &[0, 0], &[0, 0]), vec![m(), fill()]),
            Sample::smooth(op(&[], &[], &[]), vec![Tensor::from(2.5), fill()]),
            Sample::smooth(op(&[2], &[1], &[3]), vec![Tensor::vector::<f64>(&[]), fill()]),
            Sample::edge(op(&[-2], &[-1], &[0]), vec![v(), fill()]),
            Sample::edge(op(&[-4], &[2], &[0]), vec![v(), fill()]),
            Sample::edge(op(&[1], &[0], &[1]), vec![Tensor::from([1i64, 2]), Tensor::scalar(7i64)]),
            Sample::edge(
                op(&[1], &[1], &[0]),
                vec![Tensor::from([true, true]), Tensor::scalar(false)],
            ),
        ]
    }
}
