//! `reduce_sum`, `reduce_prod`, `reduce_max`, `reduce_min`, `reduce_and`, `reduce_or`: fold axes away.
//!
//! Elements are combined in row-major order of the operand. The derivative of an extremum is shared evenly among the
//! elements that attain it, as in JAX. The derivative of a product is formed by halving (`d(xy) = dx y + x dy` on
//! halves of the axis, log n steps); it needs no division, so zeros among the factors are no problem, also at higher
//! orders. If the product of one half of the axis overflows and the other half contains a zero, the derivative is
//! infinity times zero: NaN. A mask there would make second derivatives a wrong zero.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype, Shape, Type};
use crate::prim::rules::view::one_array;
use crate::prim::syntax::{Notation, Word};
use crate::prim::{
    Arg, ArrayPrimitive, Broadcast, Code, Cotangents, Doc, Effects, Family, Linearity, Lowering,
    Operand, Pad, Permute, Reshape, Rewrite, Sample, Scalar, Slice, Tangent, elementwise,
};
use crate::tensor::Tensor;

/// The operation that combines two elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Reducer {
    /// The sum of all elements.
    Sum,
    /// The product of all elements.
    Prod,
    /// The largest element; NaN if any element is NaN.
    Max,
    /// The smallest element; NaN if any element is NaN.
    Min,
    /// Logical and of bools: whether all are true; bitwise and of integers.
    And,
    /// Logical or of bools: whether any is true; bitwise or of integers.
    Or,
}

impl Reducer {
    /// All reducers.
    pub const ALL: [Reducer; 6] =
        [Reducer::Sum, Reducer::Prod, Reducer::Max, Reducer::Min, Reducer::And, Reducer::Or];

    /// Returns the scalar operation that combines two elements.
    pub fn code(self) -> Code {
        match self {
            Reducer::Sum => Code::Add,
            Reducer::Prod => Code::Mul,
            Reducer::Max => Code::Max,
            Reducer::Min => Code::Min,
            Reducer::And => Code::And,
            Reducer::Or => Code::Or,
        }
    }

    /// Returns the initial value of the fold, which is also the result of reducing no elements. Sums of floats
    /// start at 0, not at the neutral -0, so that no sum is -0.
    pub fn identity(self, dtype: Dtype) -> Literal {
        match self {
            Reducer::Sum => Literal::zero(dtype),
            Reducer::Prod | Reducer::Max | Reducer::Min | Reducer::And | Reducer::Or => {
                self.code().neutral(dtype).unwrap_or(Literal::zero(dtype))
            }
        }
    }
}

impl Word for Reducer {
    const ALL: &'static [Reducer] = &Reducer::ALL;

    fn word(self) -> &'static str {
        match self {
            Reducer::Sum => "reduce_sum",
            Reducer::Prod => "reduce_prod",
            Reducer::Max => "reduce_max",
            Reducer::Min => "reduce_min",
            Reducer::And => "reduce_and",
            Reducer::Or => "reduce_or",
        }
    }
}

/// A reduction: folds the elements along some axes into one. Its text is `reduce_*{axes}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Reduce {
    /// The operation that combines two elements.
    pub reducer: Reducer,
    /// The axes that are folded and that the result lacks; ascending, without repetition.
    pub axes: Vec<usize>,
}

notation!(Reduce = reducer { axes });

impl Reduce {
    /// Emits the result `y` repeated along the folded axes, so that it has the operand's shape.
    fn spread(&self, b: &Builder<'_>, y: Atom, shape: &Shape) -> Atom {
        let dims = (0..shape.len()).filter(|a| !self.axes.contains(a)).collect();
        b.emit1(Broadcast { shape: shape.clone(), dims }, &[y])
    }
}

/// Emits the product of `x: [rest, n]` along its last axis, and the product's tangent, by multiplying halves of
/// the axis in log n steps.
fn product_jvp(b: &Builder<'_>, mut x: Atom, mut dx: Atom) -> (Atom, Atom) {
    let mul = |x, y| b.emit1(Scalar::Mul, &[x, y]);
    loop {
        let shape = b.shape_of(x);
        let (rest, n) = (shape[0], shape[1]);
        if n == 1 {
            return (x, dx);
        }
        if n % 2 == 1 {
            let pad = Pad { low: vec![0, 0], high: vec![0, 1], interior: vec![0, 0] };
            let one = Literal::one(b.dtype_of(x));
            x = b.emit1(pad.clone(), &[x, one.into()]);
            dx = b.emit1(pad, &[dx, Literal::zero(one.dtype).into()]);
        }
        let half = n.div_ceil(2);
        let part = |from: usize| Slice {
            start: vec![0, from],
            limit: vec![rest, from + half],
            strides: vec![1, 1],
        };
        let (x0, x1) = (b.emit1(part(0), &[x]), b.emit1(part(half), &[x]));
        let (dx0, dx1) = (b.emit1(part(0), &[dx]), b.emit1(part(half), &[dx]));
        x = mul(x0, x1);
        dx = b.emit1(Scalar::Add, &[mul(dx0, x1), mul(dx1, x0)]);
    }
}

impl ArrayPrimitive for Reduce {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        let entry = |r: Reducer| Doc {
            family: Family::Reduction,
            name: format!("{}{{axes}}", r.word()),
            math: match r {
                Reducer::Sum => "y = Σ x over the axes",
                Reducer::Prod => "y = Π x over the axes",
                Reducer::Max => "y = max x over the axes",
                Reducer::Min => "y = min x over the axes",
                Reducer::And => "y = ∧ x over the axes",
                Reducer::Or => "y = ∨ x over the axes",
            }
            .into(),
            types: match r {
                Reducer::And | Reducer::Or => "bool or integers",
                Reducer::Sum | Reducer::Prod => "numbers",
                Reducer::Max | Reducer::Min => "any dtype",
            }
            .into(),
            derivative: match r {
                Reducer::Sum => "∂x: Σ t; its transpose broadcasts",
                Reducer::Prod => {
                    "∂x: Σ_i t_i Π_{j≠i} x_j, computed by recursive halving, without division"
                }
                Reducer::Max | Reducer::Min => "∂x: mean of t over the elements that attain y",
                Reducer::And | Reducer::Or => "0, bools and integers have no tangent",
            }
            .into(),
            edges: match r {
                Reducer::Max | Reducer::Min => "nan if any element is nan; ties share evenly",
                Reducer::Prod => {
                    "an empty reduction gives the identity; derivatives are nan where the product \
                     of some factors overflows and another factor is zero"
                }
                _ => "an empty reduction gives the identity",
            }
            .into(),
        };
        Reducer::ALL.into_iter().map(entry).collect()
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let name = self.name();
        let x = one_array(name, operands)?;
        let ok = match self.reducer {
            Reducer::Sum | Reducer::Prod => x.dtype != Dtype::Bool,
            Reducer::Max | Reducer::Min => true,
            Reducer::And | Reducer::Or => !x.dtype.is_float(),
        };
        if !ok {
            return Err(Problem::new(
                Kind::Dtype,
                format!("`{name}` is not defined for {x}"),
                "convert the operand first",
            ));
        }
        let ascending = self.axes.windows(2).all(|w| w[0] < w[1]);
        if !ascending || self.axes.iter().any(|a| *a >= x.shape.len()) {
            return Err(Problem::new(
                Kind::Shape,
                format!("`{name}` over axes {:?} of {x}", self.axes),
                "axes are ascending and smaller than the rank",
            ));
        }
        Ok(ArrayType::new(x.dtype, x.shape.without(&self.axes)))
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let x = &operands[0];
        if self.axes.is_empty() {
            return Ok(x.clone());
        }
        let shape = x.ty().shape.without(&self.axes);
        // Every fold starts at the identity, so that a sum of floats is never -0.
        let mut y = Tensor::full(&shape, self.reducer.identity(x.dtype()))?;
        let strides = shape.strides();
        let kept: Vec<usize> = (0..x.shape().len()).filter(|a| !self.axes.contains(a)).collect();
        let mut index = vec![0; x.shape().len()];
        for flat in 0..x.elements() {
            let at: usize = kept.iter().zip(&strides).map(|(a, s)| index[*a] * s).sum();
            y.put(at, self.reducer.code().eval(&[y.at(at), x.at(flat)]));
            crate::tensor::step_index(&mut index, x.shape());
        }
        Ok(y)
    }

    fn jvp(&self, b: &Builder<'_>, x: &[Atom], y: Atom, dx: &[Tangent]) -> Result<Tangent> {
        let ([x], [Some(dx)]) = (x, dx) else {
            return Ok(None);
        };
        let sum =
            |x: Atom| b.emit1(Reduce { reducer: Reducer::Sum, axes: self.axes.clone() }, &[x]);
        let shape = b.shape_of(*x);
        match self.reducer {
            Reducer::Sum => Ok(Some(sum(*dx))),
            Reducer::Max | Reducer::Min => {
                // The tangent of an extremum, with `[x = y]` for 1 where an element x equals the result y and 0
                // elsewhere: dy = Σ [x = y] dx / Σ [x = y], the mean over ties.
                let zero = Literal::zero(b.dtype_of(*x)).into();
                let attains = b.emit1(Scalar::Eq, &[*x, self.spread(b, y, &shape)]);
                let ones = elementwise::full(b, &shape, Literal::one(b.dtype_of(*x)));
                let count = sum(b.emit1(Scalar::Select, &[attains, ones, zero]));
                let share = sum(b.emit1(Scalar::Select, &[attains, *dx, zero]));
                Ok(Some(b.emit1(Scalar::Div, &[share, count])))
            }
            Reducer::Prod => {
                let kept: Vec<usize> =
                    (0..shape.len()).filter(|a| !self.axes.contains(a)).collect();
                let out: Shape = kept.iter().map(|a| shape[*a]).collect();
                let n = self.axes.iter().map(|a| shape[*a]).product();
                if n == 0 || out.elements() == 0 {
                    return Ok(None);
                }
                let permutation: Vec<usize> = kept.iter().chain(&self.axes).copied().collect();
                let flat = |x: Atom| {
                    let x = b.emit1(Permute { permutation: permutation.clone() }, &[x]);
                    b.emit1(Reshape { shape: [out.elements(), n].into() }, &[x])
                };
                let (_, dy) = product_jvp(b, flat(*x), flat(*dx));
                Ok(Some(b.emit1(Reshape { shape: out }, &[dy])))
            }
            Reducer::And | Reducer::Or => Ok(None),
        }
    }

    fn is_linear(&self, _: &[Linearity]) -> bool {
        self.reducer == Reducer::Sum
    }

    fn transpose(&self, b: &Builder<'_>, x: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        let [Arg::Linear(Type::Array(x))] = x else { return Ok(()) };
        into.add(b, 0, self.spread(b, ct, &x.shape));
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, _: usize, x: &[Atom], _: &[bool]) -> Result<Atom> {
        let axes = self.axes.iter().map(|a| a + 1).collect();
        Ok(b.emit1(Reduce { reducer: self.reducer, axes }, x))
    }

    fn lower(&self, operands: &[Operand<'_>]) -> Lowering {
        let dtype = operands[0].ty.as_array().map_or(Dtype::Bool, |x| x.dtype);
        Lowering::Reduce {
            code: self.reducer.code(),
            identity: self.reducer.identity(dtype),
            axes: self.axes.clone(),
        }
    }

    fn rewrites() -> Vec<Rewrite> {
        super::reduce_rewrites::rows()
    }

    fn samples() -> Vec<Sample> {
        let matrix = Tensor::from([[1.5, -2.0, 0.25], [3.0, 4.0, -1.0]]);
        let ties = Tensor::from([[2.0, 2.0, 1.0], [0.0, -0.0, f64::NAN]]);
        let ints = Tensor::from([[1i64, -2, 3], [4, 5, -6]]);
        let bools = Tensor::from([[true, false, true], [true, true, true]]);
        let empty = Tensor::from([[0.0; 3]; 0]);
        let mut all = Vec::new();
        for reducer in Reducer::ALL {
            for axes in [vec![], vec![0], vec![1], vec![0, 1]] {
                let op = Reduce { reducer, axes };
                match reducer {
                    Reducer::And | Reducer::Or => {
                        all.push(Sample::edge(op.clone(), vec![bools.clone()]));
                        all.push(Sample::edge(op, vec![ints.clone()]));
                    }
                    _ => {
                        all.push(Sample::smooth(op.clone(), vec![matrix.clone()]));
                        all.push(Sample::edge(op.clone(), vec![ties.clone()]));
                        all.push(Sample::edge(op.clone(), vec![empty.clone()]));
                        all.push(Sample::edge(op, vec![ints.clone()]));
                    }
                }
            }
        }
        all
    }
}
