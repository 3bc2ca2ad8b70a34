//! `argsort{axis, descending, first}`: the indices that sort the elements along an axis.
//!
//! Along the axis, `y` lists the index in `x` of the smallest element, then of the next, and so on (with
//! `descending`, the largest first). Equal elements stay in their order in both directions, -0 equals 0, and
//! NaN counts as larger than any number: last, or first with `descending`. Only the first `first` indices are
//! computed; for a full sort, `first` is the extent of the axis.
//!
//! Indices are integers, so there is no derivative. Sorting is a gather with these indices, and so are the k
//! largest elements and the median; a gathered value has the right derivative.

use crate::prim::rules::axis_helpers::{along, rows};
use crate::prim::rules::view::one_array;

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype};
use crate::prim::{
    Arg, ArrayPrimitive, Code, Cotangents, Doc, Effects, Family, Linearity, Lowering, Operand,
    Rewrite, Sample, Tangent,
};
use crate::tensor::Tensor;
use std::cmp::Ordering;

/// The indices that sort the elements along an axis. Its text is `argsort{axis, descending, first}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ArgSort {
    /// The axis that is sorted.
    pub axis: usize,
    /// Whether the largest element comes first in the order.
    pub descending: bool,
    /// The number of indices that are computed: the extent of the axis in the result.
    pub first: usize,
}

notation!(ArgSort = "argsort" { axis, descending, first });

/// Compares two elements for an ascending sort; a NaN is larger than any number and equal to another NaN.
fn order(x: Literal, y: Literal) -> Ordering {
    let is = |code: Code, x: Literal, y: Literal| code.eval(&[x, y]).bits != 0;
    // Test for NaN by comparing a number with itself: only a NaN differs from itself.
    let (x_nan, y_nan) = (is(Code::Ne, x, x), is(Code::Ne, y, y));
    if x_nan || y_nan {
        return x_nan.cmp(&y_nan);
    }
    is(Code::Gt, x, y).cmp(&is(Code::Lt, x, y))
}

impl ArrayPrimitive for ArgSort {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Cumulative,
            name: "argsort{axis, descending, first}".into(),
            math: "x[y[0]] ≤ x[y[1]] ≤ .. along the axis; only the first `first` indices".into(),
            types: "any dtype to i64".into(),
            derivative: "0, positions are integers; gather with them to differentiate".into(),
            edges: "stable, -0 = 0, nan is largest; with descending, the largest comes first"
                .into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let x = along("argsort", self.axis, one_array("argsort", operands)?)?;
        let n = x.shape[self.axis];
        if self.first > n {
            let message =
                format!("`argsort` of {x} along axis {} for its first {}", self.axis, self.first);
            let help = format!("ask for at most {n}, the extent of the axis");
            return Err(Problem::new(Kind::Shape, message, help));
        }
        let mut y = ArrayType::new(Dtype::I64, x.shape);
        y.shape[self.axis] = self.first;
        Ok(y)
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let x = &operands[0];
        let mut shape = x.shape().to_vec();
        shape[self.axis] = self.first;
        let mut y = Tensor::zeros_of(&ArrayType::new(Dtype::I64, shape))?;
        // If `first` is 0, the result has no rows although the operand has some. Then `zip` visits no row.
        let results = rows(y.ty(), self.axis).collect::<Vec<_>>();
        for (row, result) in rows(x.ty(), self.axis).zip(results) {
            let mut places: Vec<usize> = (0..row.len()).collect();
            places.sort_by(|i, j| {
                let order = order(x.at(row[*i]), x.at(row[*j]));
                if self.descending { order.reverse() } else { order }
            });
            for (at, place) in result.iter().zip(places) {
                y.put(*at, Literal::i64(place as i64));
            }
        }
        Ok(y)
    }

    fn jvp(&self, _: &Builder<'_>, _: &[Atom], _: Atom, _: &[Tangent]) -> Result<Tangent> {
        Ok(None)
    }

    fn is_linear(&self, _: &[Linearity]) -> bool {
        false
    }

    fn transpose(&self, _: &Builder<'_>, _: &[Arg], _: Atom, _: &mut Cotangents) -> Result<()> {
        Err(Problem::internal("`argsort` is not linear"))
    }

    fn batch(&self, b: &Builder<'_>, _: usize, x: &[Atom], _: &[bool]) -> Result<Atom> {
        Ok(b.emit1(ArgSort { axis: self.axis + 1, ..self.clone() }, x))
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        Lowering::ArgSort { axis: self.axis, descending: self.descending, first: self.first }
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        let matrix = Tensor::from([[1.5, -2.0, 0.25, 7.0, 0.5], [3.0, 4.0, -1.0, -9.0, 2.0]]);
        let ties = Tensor::from([
            [2.0f32, 2.0, 1.0, 2.0, 1.0, 0.0, 9.0],
            [0.0, -0.0, 0.0, -1.0, -0.0, 0.0, -0.0],
            [f32::NAN, 1.0, f32::INFINITY, f32::NAN, -f32::INFINITY, 2.0, 1.0],
        ]);
        let ints = Tensor::from([[1u64, u64::MAX, 3], [4, 5, 0]]);
        let bools = Tensor::from([[false, true, true, false], [true, false, false, true]]);
        let mut all = Vec::new();
        for (axis, descending) in [(0, false), (1, false), (0, true), (1, true)] {
            let some = |x: &Tensor, first| (ArgSort { axis, descending, first }, vec![x.clone()]);
            let whole = |x: &Tensor| some(x, x.shape()[axis]);
            let (op, x) = whole(&matrix);
            all.push(Sample::smooth(op, x));
            let all_of = [&ties, &ints, &bools, &Tensor::from([[0.0; 0]; 2])].map(whole);
            for (op, x) in
                all_of.into_iter().chain([some(&ties, 0), some(&ties, 1), some(&ties, 2)])
            {
                all.push(Sample::edge(op, x));
            }
        }
        all
    }
}
