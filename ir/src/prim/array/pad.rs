//! `pad{low, high, interior}`: an array with a scalar put around and between its elements.
//!
//! Along each axis, `interior` copies of the fill go between neighbours, then `low` in front and
//! `high` behind. Negative `low` and `high` crop: of `x = [a b c]`,
//! `pad{low=[-1], high=[2], interior=[1]} x, 0` is `0 b 0 c 0 0`. Source: StableHLO's `pad`.
//!
//! The result is linear in array and fill together: `pad(x, v) = pad(x, 0) + [padded] v`.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Shape, Type};
use crate::prim::rules::lowering::{INDEX_LIMIT, eval_view};
use crate::prim::rules::view::one_per_axis;
use crate::prim::{
    Arg, ArrayPrimitive, AxisMap, Cotangents, Doc, Effects, Family, Linearity, Lowering, Operand,
    Piece, Reduce, Reducer, Rewrite, Sample, Scalar, Slice, Tangent, elementwise,
};
use crate::tensor::Tensor;

/// `pad{low, high, interior}`
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Pad {
    /// Copies of the fill in front of each axis; negative to crop.
    pub low: Vec<i64>,
    /// Copies of the fill behind each axis; negative to crop.
    pub high: Vec<i64>,
    /// Copies of the fill between neighbours along each axis.
    pub interior: Vec<usize>,
}

notation!(Pad = "pad" { low, high, interior });

impl Pad {
    /// `low`, `high` and `interior` of every axis.
    fn axes(&self) -> impl Iterator<Item = (i64, i64, usize)> + '_ {
        let edges = self.low.iter().zip(&self.high).zip(&self.interior);
        edges.map(|((low, high), interior)| (*low, *high, *interior))
    }

    /// The extents of the result for an operand of extents `x`.
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
                    "crop no more than there is, and pad to what memory can hold",
                )),
            }
        };
        self.axes().zip(x.shape.iter()).enumerate().map(extent).collect()
    }

    fn piece(&self) -> Piece {
        let map = |(axis, (low, _, interior)): (usize, (i64, i64, usize))| AxisMap {
            axis: Some(axis),
            scale: 1,
            offset: -low,
            divisor: interior as i64 + 1,
        };
        Piece { operand: 0, axes: self.axes().enumerate().map(map).collect() }
    }

    /// What of a cotangent falls on the array: crop what was padded, pad what was cropped, and drop
    /// what lies between.
    fn gather(&self, b: &Builder<'_>, ct: Atom, x: &ArrayType) -> Atom {
        let negated = |v: &[i64]| v.iter().map(|v| -v).collect();
        let back = Pad {
            low: negated(&self.low),
            high: negated(&self.high),
            interior: vec![0; self.low.len()],
        };
        let zero = Literal::zero(x.dtype).into();
        let spread = b.emit1(back, &[ct, zero]);
        let picked = Slice {
            start: vec![0; x.shape.len()],
            limit: b.shape_of(spread).to_vec(),
            strides: self.interior.iter().map(|i| i + 1).collect(),
        };
        b.emit1(picked, &[spread])
    }

    /// Where an element of the result comes from the operand (of those extents): a bool array.
    fn covered(&self, b: &Builder<'_>, x: &Shape) -> Atom {
        let yes = elementwise::full(b, x, Literal::bool(true));
        b.emit1(self.clone(), &[yes, Literal::bool(false).into()])
    }
}

impl ArrayPrimitive for Pad {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Movement,
            name: "pad{low, high, interior}".into(),
            math: "y[low + (interior + 1) i] = x[i], the fill elsewhere".into(),
            types: "any array and a scalar of its dtype".into(),
            derivative:
                "∂(x, fill): pad of t by the tangent of the fill; its transpose slices, and \
                         sums what fell on the fill"
                    .into(),
            edges: "negative low and high crop; interior counts between elements that are cropped"
                .into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let [Operand { ty: Type::Array(x), .. }, Operand { ty: Type::Array(fill), .. }] = operands
        else {
            return Err(Problem::new(Kind::Arguments, "`pad` takes an array and a scalar", ""));
        };
        if !fill.shape.is_empty() || fill.dtype != x.dtype {
            return Err(Problem::new(
                if fill.shape.is_empty() { Kind::Dtype } else { Kind::Shape },
                format!("`pad` of {x} needs a fill of type {}[], found {fill}", x.dtype),
                "fill with a scalar of the array's dtype",
            ));
        }
        one_per_axis("pad", "low", self.low.len(), x)?;
        one_per_axis("pad", "high", self.high.len(), x)?;
        one_per_axis("pad", "interior", self.interior.len(), x)?;
        Ok(ArrayType::new(x.dtype, self.shape(x)?))
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let shape = self.shape(operands[0].ty())?;
        eval_view(operands, &[self.piece()], Some(1), &shape)
    }

    fn jvp(&self, b: &Builder<'_>, x: &[Atom], _: Atom, dx: &[Tangent]) -> Result<Tangent> {
        let dx = elementwise::tangents_or_zeros(b, x, dx);
        Ok(Some(b.emit1(self.clone(), &dx)))
    }

    fn is_linear(&self, operands: &[Linearity]) -> bool {
        !operands.contains(&Linearity::Constant)
    }

    fn transpose(&self, b: &Builder<'_>, x: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        let [array, fill] = x else { return Ok(()) };
        if let Arg::Linear(Type::Array(x)) = array {
            into.add(b, 0, self.gather(b, ct, x));
        }
        if let Arg::Linear(_) = fill {
            // Summed over the fill alone, and not as a difference of sums, so that what falls on the
            // array (an infinity, say) leaves no trace.
            let covered = self.covered(b, &array.shape(b));
            let zero = Literal::zero(b.dtype_of(ct)).into();
            let uncovered = b.emit1(Scalar::Select, &[covered, zero, ct]);
            let axes = (0..self.low.len()).collect();
            into.add(b, 1, b.emit1(Reduce { reducer: Reducer::Sum, axes }, &[uncovered]));
        }
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, size: usize, x: &[Atom], batched: &[bool]) -> Result<Atom> {
        let [array, fill] = *x else { return Err(Problem::internal("`pad` of two operands")) };
        let lead = Pad {
            low: [&[0], self.low.as_slice()].concat(),
            high: [&[0], self.high.as_slice()].concat(),
            interior: [&[0], self.interior.as_slice()].concat(),
        };
        if !batched[1] {
            return Ok(b.emit1(lead, &[array, fill]));
        }
        // One fill per element of the batch: pad by zero, then put the fills where nothing is.
        let array = if batched[0] { array } else { elementwise::materialize_lead(b, size, array) };
        let zero = Literal::zero(b.dtype_of(array)).into();
        let padded = b.emit1(lead.clone(), &[array, zero]);
        let covered = lead.covered(b, &b.shape_of(array));
        let fills = crate::prim::Broadcast { shape: b.shape_of(padded), dims: vec![0] };
        let fills = b.emit1(fills, &[fill]);
        Ok(b.emit1(Scalar::Select, &[covered, padded, fills]))
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        Lowering::View { pieces: vec![self.piece()], fill: Some(1) }
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prim::test_laws::*;

    fn op(low: &[i64], high: &[i64], interior: &[usize]) -> Pad {
        Pad { low: low.to_vec(), high: high.to_vec(), interior: interior.to_vec() }
    }

    #[test]
    fn puts_the_fill_around_and_between() {
        let pad = |p: Pad| eval1(p, &[Tensor::from([1.0, 2.0, 3.0]), Tensor::from(9.0)]);
        assert_eq!(pad(op(&[1], &[2], &[0])), Tensor::from([9.0, 1.0, 2.0, 3.0, 9.0, 9.0]));
        assert_eq!(pad(op(&[0], &[0], &[1])), Tensor::from([1.0, 9.0, 2.0, 9.0, 3.0]));
        assert_eq!(pad(op(&[-1], &[2], &[1])), Tensor::from([9.0, 2.0, 9.0, 3.0, 9.0, 9.0]));
        assert_eq!(pad(op(&[-1], &[-1], &[0])), Tensor::from([2.0]));
        assert_eq!(pad(op(&[-4], &[2], &[0])), Tensor::from([9.0]));
        assert_eq!(pad(op(&[-2], &[-1], &[0])), Tensor::vector::<f64>(&[]));
        let m = [Tensor::from([[1i32, 2], [3, 4]]), Tensor::scalar(0i32)];
        let y = Tensor::from([[2i32, 0], [0, 0], [4, 0]]);
        assert_eq!(eval1(op(&[0, -1], &[0, 1], &[1, 0]), &m), y);
    }

    #[test]
    fn laws() {
        check_samples(Pad::samples());
    }

    #[test]
    fn refuses_what_does_not_fit() {
        use crate::Dtype::{F32, F64};
        let (x, scalar) = (Type::array(F64, &[3]), Type::scalar(F64));
        let both = [x.clone(), scalar.clone()];
        for bad in [
            op(&[-2], &[-2], &[0]),
            op(&[i64::MIN], &[0], &[0]),
            op(&[i64::MIN], &[i64::MAX], &[0]),
            op(&[0], &[i64::MAX], &[0]),
            op(&[0], &[0], &[usize::MAX]),
            op(&[0, 0], &[0], &[0]),
            op(&[0], &[0], &[]),
        ] {
            assert_eq!(problem(bad, &both).kind, Kind::Shape);
        }
        let none = op(&[0], &[0], &[0]);
        assert_eq!(problem(none.clone(), &[x.clone(), x.clone()]).kind, Kind::Shape);
        assert_eq!(problem(none.clone(), &[x.clone(), Type::scalar(F32)]).kind, Kind::Dtype);
        assert_eq!(problem(none, &[x]).kind, Kind::Arguments);
    }
}
