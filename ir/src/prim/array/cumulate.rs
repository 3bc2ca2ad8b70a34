//! `cumsum`, `cumprod`, `cummax`, `cummin` with `{axis, reverse}`: all partial folds along an axis.
//!
//! `y[i] = x[0] ∘ x[1] ∘ .. ∘ x[i]`, or starting at the other end with `reverse`. The order of the operations
//! is defined, so that every engine returns the same bits. Source: XLA's `ReduceWindow` as `lax.cumsum` uses
//! it.
//!
//! The derivatives of all but sums are linear recurrences ([`Recurrence`]). These need no division, store no
//! partial products, and are right where factors are zero, unless a partial product overflows beside a zero:
//! infinity times zero is NaN. The tangent of a cumulative extremum is the mean of
//! the tangents of the elements that attain it so far, as for `reduce_max`.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype, Type};
use crate::prim::rules::axis_helpers::{along, before, walk};
use crate::prim::rules::view::one_array;
use crate::prim::syntax::{Notation, Word};
use crate::prim::{
    Arg, ArrayPrimitive, Code, Cotangents, Doc, Effects, Equality, Family, Linearity, Lowering,
    Operand, Recurrence, Reducer, Rewrite, Sample, Scalar, Step, Tangent,
};
use crate::tensor::Tensor;

/// The operation that combines an element with the fold of the elements before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Cumulation {
    /// The sum of the elements so far.
    Sum,
    /// The product of the elements so far.
    Prod,
    /// The largest element so far; NaN from the first NaN on.
    Max,
    /// The smallest element so far; NaN from the first NaN on.
    Min,
}

impl Cumulation {
    /// Returns the scalar operation that combines two elements: the one of `reduce_sum` for sums, the one of
    /// `reduce_max` for maxima, and so on.
    fn code(self) -> Code {
        match self {
            Cumulation::Sum => Reducer::Sum.code(),
            Cumulation::Prod => Reducer::Prod.code(),
            Cumulation::Max => Reducer::Max.code(),
            Cumulation::Min => Reducer::Min.code(),
        }
    }
}

impl Word for Cumulation {
    const ALL: &'static [Cumulation] =
        &[Cumulation::Sum, Cumulation::Prod, Cumulation::Max, Cumulation::Min];

    fn word(self) -> &'static str {
        match self {
            Cumulation::Sum => "cumsum",
            Cumulation::Prod => "cumprod",
            Cumulation::Max => "cummax",
            Cumulation::Min => "cummin",
        }
    }
}

/// All partial sums, products or extrema along an axis. Its text is `cumsum{axis, reverse}`, `cumprod`, `cummax`,
/// `cummin`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Cumulate {
    /// The operation of the folds: sum, product, maximum or minimum.
    pub cumulation: Cumulation,
    /// The axis along which elements are folded.
    pub axis: usize,
    /// Whether the folds start at the last element instead of the first.
    pub reverse: bool,
}

notation!(Cumulate = cumulation { axis, reverse });

impl ArrayPrimitive for Cumulate {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        let entry = |c: &Cumulation| Doc {
            family: Family::Cumulative,
            name: format!("{}{{axis, reverse}}", c.word()),
            math: match c {
                Cumulation::Sum => "y[i] = Σ x[j] over j ≤ i along the axis",
                Cumulation::Prod => "y[i] = Π x[j] over j ≤ i along the axis",
                Cumulation::Max => "y[i] = max x[j] over j ≤ i along the axis",
                Cumulation::Min => "y[i] = min x[j] over j ≤ i along the axis",
            }
            .into(),
            types: match c {
                Cumulation::Sum | Cumulation::Prod => "numbers to the same",
                Cumulation::Max | Cumulation::Min => "any dtype to the same",
            }
            .into(),
            derivative: match c {
                Cumulation::Sum => "∂x: cumsum of t; its transpose runs in the opposite direction",
                Cumulation::Prod => "∂x: recurrence of x and y[i-1] · t[i]",
                Cumulation::Max | Cumulation::Min => {
                    "∂x: mean of t over the elements so far that attain y"
                }
            }
            .into(),
            edges: match c {
                Cumulation::Sum => "over j ≥ i with reverse",
                Cumulation::Prod => {
                    "over j ≥ i with reverse; derivatives are nan where the product of some \
                     factors overflows and another factor is zero"
                }
                Cumulation::Max | Cumulation::Min => {
                    "over j ≥ i with reverse; nan from the first nan on, with the derivative 0; \
                     ties share evenly"
                }
            }
            .into(),
        };
        Cumulation::ALL.iter().map(entry).collect()
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let name = self.name();
        let x = one_array(name, operands)?;
        let numbers = matches!(self.cumulation, Cumulation::Sum | Cumulation::Prod);
        if numbers && x.dtype == Dtype::Bool {
            return Err(Problem::new(
                Kind::Dtype,
                format!("`{name}` is not defined for {x}"),
                "convert the operand first",
            ));
        }
        along(name, self.axis, x)
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let (x, code) = (&operands[0], self.cumulation.code());
        walk(x.ty(), self.axis, self.reverse, |i, before| match before {
            Some(before) => code.eval(&[before, x.at(i)]),
            None => x.at(i),
        })
    }

    fn jvp(&self, b: &Builder<'_>, x: &[Atom], y: Atom, dx: &[Tangent]) -> Result<Tangent> {
        let ([x], [Some(dx)]) = (x, dx) else {
            return Ok(None);
        };
        let (axis, reverse, dtype) = (self.axis, self.reverse, b.dtype_of(*x));
        let literal = |n: f64| Literal::of(dtype, n);
        let recurrence = |a, x| b.emit1(Recurrence { axis, reverse }, &[a, x]);
        Ok(Some(match self.cumulation {
            Cumulation::Sum => b.emit1(self.clone(), &[*dx]),
            Cumulation::Prod => {
                // The tangent of the cumulative product `y` of x is a recurrence:
                // `dy[i] = x[i] dy[i-1] + y[i-1] dx[i]`, with `y[-1] = 1`.
                let others = before(b, y, axis, reverse, literal(1.0));
                recurrence(*x, b.emit1(Scalar::Mul, &[others, *dx]))
            }
            Cumulation::Max | Cumulation::Min => {
                // The tangent of a cumulative extremum `y`, with `[..]` for 1 if true and 0 if false: dy[i] = Σ
                // [x[j] = y[i]] dx[j] / Σ [x[j] = y[i]], summed over j ≤ i. Both sums restart when y changes.
                let last = before(b, y, axis, reverse, literal(f64::NAN));
                let number = |condition: Atom, x: Atom| {
                    b.emit1(Scalar::Select, &[condition, x, literal(0.0).into()])
                };
                let ones = crate::prim::elementwise::full(b, &b.shape_of(*x), literal(1.0));
                let stays = b.emit1(Scalar::Eq, &[last, y]);
                let attains = b.emit1(Scalar::Eq, &[*x, y]);
                let count = recurrence(stays, number(attains, ones));
                // If y[i] is NaN, no element equals it and the count is 0: divide by 1 instead.
                let none = b.emit1(Scalar::Eq, &[count, literal(0.0).into()]);
                let count = b.emit1(Scalar::Select, &[none, ones, count]);
                let share = recurrence(stays, number(attains, *dx));
                b.emit1(Scalar::Div, &[share, count])
            }
        }))
    }

    fn is_linear(&self, _: &[Linearity]) -> bool {
        self.cumulation == Cumulation::Sum
    }

    fn transpose(&self, b: &Builder<'_>, _: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        into.add(b, 0, b.emit1(Cumulate { reverse: !self.reverse, ..self.clone() }, &[ct]));
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, _: usize, x: &[Atom], _: &[bool]) -> Result<Atom> {
        Ok(b.emit1(Cumulate { axis: self.axis + 1, ..self.clone() }, x))
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        let step = Step::Fold(self.cumulation.code());
        Lowering::Cumulate { axis: self.axis, reverse: self.reverse, step }
    }

    fn rewrites() -> Vec<Rewrite> {
        let one = |op: &crate::prim::Op, x: &Type| match (op, x) {
            (crate::prim::Op::Cumulate(c), Type::Array(x)) => x.shape.get(c.axis) == Some(&1),
            _ => false,
        };
        vec![Rewrite::exact("cumulate-one", Equality::Identity(one), "one element is its own fold")]
    }

    fn samples() -> Vec<Sample> {
        let matrix = Tensor::from([[1.5, -2.0, 0.25, 3.5], [3.0, 4.0, -1.0, 2.0]]);
        let ties = Tensor::from([[2.0f32, 2.0, 1.0], [0.0, -0.0, 0.0], [1.0, f32::NAN, 9.0]]);
        let ints = Tensor::from([[1i64, -2, 3], [i64::MAX, 5, -6]]);
        let bools = Tensor::from([[true, false, true], [false, true, true]]);
        let zeros = Tensor::from([[2.0, 0.0, 3.0, 0.0, 5.0]]);
        let mut all = Vec::new();
        for cumulation in Cumulation::ALL {
            for reverse in [false, true] {
                for axis in [0, 1] {
                    let op = Cumulate { cumulation: *cumulation, axis, reverse };
                    all.push(Sample::smooth(op.clone(), vec![matrix.clone()]));
                    let numbers = matches!(cumulation, Cumulation::Sum | Cumulation::Prod);
                    if numbers {
                        all.push(Sample::smooth(op.clone(), vec![zeros.clone()]));
                    } else {
                        all.push(Sample::edge(op.clone(), vec![bools.clone()]));
                    }
                    for x in [&ties, &Tensor::from([[0.0f32; 3]; 0])] {
                        all.push(Sample::edge(op.clone(), vec![x.clone()]));
                    }
                    all.push(Sample::edge(op, vec![ints.clone()]));
                }
            }
        }
        all
    }
}
