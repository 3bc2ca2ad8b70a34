//! `argmax{axis}`, `argmin{axis}`: the index of the extremum along an axis.
//!
//! The result is an i64, the first index if several elements attain the extremum. NaN counts as more extreme than any
//! number, as in JAX and numpy, so the result is the index of the first NaN if there is one. Indices are integers, so
//! there is no derivative. To differentiate the selected element, gather it with the index: the gathered value has the
//! right derivative.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype};
use crate::prim::Code;
use crate::prim::rules::view::one_array;
use crate::prim::syntax::{Notation, Word};
use crate::prim::{
    Arg, ArrayPrimitive, Cotangents, Doc, Effects, Family, Linearity, Lowering, Operand, Rewrite,
    Sample, Tangent,
};
use crate::tensor::Tensor;

/// The kind of extremum that is searched along the axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Extremum {
    /// The largest element.
    Max,
    /// The smallest element.
    Min,
}

impl Word for Extremum {
    const ALL: &'static [Extremum] = &[Extremum::Max, Extremum::Min];

    fn word(self) -> &'static str {
        match self {
            Extremum::Max => "argmax",
            Extremum::Min => "argmin",
        }
    }
}

/// The index of the largest or smallest element along an axis. Its text is `argmax{axis}`, `argmin{axis}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ArgReduce {
    /// The axis along which the extremum is searched; the result does not have it.
    pub axis: usize,
    /// The kind of extremum: the largest or the smallest element.
    pub extremum: Extremum,
}

notation!(ArgReduce = extremum { axis });

impl ArgReduce {
    /// Returns whether `x` replaces `best`, the most extreme of the elements before `x`: only if it is strictly
    /// more extreme, or the first NaN.
    fn beats(&self, x: Literal, best: Literal) -> bool {
        let is = |code: Code, x: Literal, y: Literal| code.eval(&[x, y]).bits != 0;
        // Test for NaN by comparing a number with itself: only a NaN differs from itself.
        let (x_nan, best_nan) = (is(Code::Ne, x, x), is(Code::Ne, best, best));
        let code = match self.extremum {
            Extremum::Max => Code::Gt,
            Extremum::Min => Code::Lt,
        };
        !best_nan && (x_nan || is(code, x, best))
    }
}

impl ArrayPrimitive for ArgReduce {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        let entry = |name: &str, what: &str| Doc {
            family: Family::Reduction,
            name: format!("{name}{{axis}}"),
            math: format!("y = the index of the {what} element of x along the axis"),
            types: "any dtype to i64".into(),
            derivative: "0, positions are integers; gather with them to differentiate".into(),
            edges: "the first of equal elements; the first nan if there is one".into(),
        };
        vec![entry("argmax", "largest"), entry("argmin", "smallest")]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let name = self.name();
        let x = one_array(name, operands)?;
        match x.shape.get(self.axis) {
            None => Err(Problem::new(
                Kind::Shape,
                format!("`{name}` along axis {} of {x}", self.axis),
                "the axis is smaller than the rank",
            )),
            Some(0) => Err(Problem::new(
                Kind::Shape,
                format!("`{name}` along axis {} of {x}, which is empty", self.axis),
                "only a non-empty axis has an extremum",
            )),
            Some(_) => Ok(ArrayType::new(Dtype::I64, x.shape.without(&[self.axis]))),
        }
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let x = &operands[0];
        let (extent, inner) = (x.shape()[self.axis], x.ty().shape.strides()[self.axis]);
        let shape = x.ty().shape.without(&[self.axis]);
        let mut y = Tensor::zeros_of(&ArrayType::new(Dtype::I64, shape))?;
        for at in 0..y.elements() {
            let start = at / inner * inner * extent + at % inner;
            let mut best = 0;
            for i in 1..extent {
                if self.beats(x.at(start + i * inner), x.at(start + best * inner)) {
                    best = i;
                }
            }
            y.put(at, Literal::i64(best as i64));
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
        Err(Problem::internal(format!("`{}` is not linear", self.name())))
    }

    fn batch(&self, b: &Builder<'_>, _: usize, x: &[Atom], _: &[bool]) -> Result<Atom> {
        Ok(b.emit1(ArgReduce { axis: self.axis + 1, ..self.clone() }, x))
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        Lowering::ArgReduce { axis: self.axis, largest: self.extremum == Extremum::Max }
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        let matrix = Tensor::from([[1.5, -2.0, 0.25], [3.0, 4.0, -1.0]]);
        let ties = Tensor::from([[2.0f32, 2.0, 1.0], [0.0, -0.0, 0.0], [1.0, f32::NAN, 9.0]]);
        let extremes = Tensor::from([[f64::INFINITY, f64::NEG_INFINITY], [f64::NAN, f64::NAN]]);
        let ints = Tensor::from([[1u64, u64::MAX, 3], [4, 5, 0]]);
        let bools = Tensor::from([[false, true, true], [true, false, false]]);
        let none = Tensor::from([[0.0; 0]; 2]);
        let mut all = Vec::new();
        for extremum in [Extremum::Max, Extremum::Min] {
            for axis in [0, 1] {
                let op = ArgReduce { axis, extremum };
                all.push(Sample::smooth(op.clone(), vec![matrix.clone()]));
                for x in [&ties, &extremes] {
                    all.push(Sample::edge(op.clone(), vec![x.clone()]));
                }
                all.push(Sample::edge(op.clone(), vec![ints.clone()]));
                all.push(Sample::edge(op, vec![bools.clone()]));
            }
            all.push(Sample::edge(ArgReduce { axis: 0, extremum }, vec![none.clone()]));
            let one = Tensor::from([7i32]);
            all.push(Sample::edge(ArgReduce { axis: 0, extremum }, vec![one]));
        }
        all
    }
}
