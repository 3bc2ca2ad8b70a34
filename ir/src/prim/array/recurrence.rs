//! `recurrence{axis, reverse} a, x`: the first-order linear recurrence along an axis.
//!
//! `y[i] = a[i] y[i-1] + x[i]`, starting with `y[0] = x[0]` (the first element of `a` is never read). With `reverse`,
//! from the last element to the first. Moving averages, filters and linear state-space models are recurrences, and so
//! are the derivatives of cumulative products and extrema.
//!
//! If `a` is bool, the sum restarts where `a` is false: there `y[i] = x[i]`, whatever precedes it. A factor 0
//! would instead turn a preceding infinity or NaN into NaN.
//!
//! Derivatives of recurrences are recurrences: the tangent has the same `a`, and the transpose runs in the
//! other direction.
//!
//! ```text
//! dy[i] = a[i] dy[i-1] + (da[i] y[i-1] + dx[i])
//! ct_x[i] = a[i+1] ct_x[i+1] + ct[i]
//! ```

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype, Type};
use crate::prim::rules::axis_helpers::{along, before, walk};
use crate::prim::{
    Arg, ArrayPrimitive, Code, Cotangents, Doc, Effects, Family, Linearity, Lowering, Operand,
    Rewrite, Sample, Scalar, Step, Tangent, elementwise,
};
use crate::tensor::Tensor;

/// The linear recurrence `y[i] = a[i] y[i-1] + x[i]` along an axis. Its text is `recurrence{axis, reverse}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Recurrence {
    /// The axis along which elements depend on their predecessors.
    pub axis: usize,
    /// Whether the recurrence runs from the last element to the first.
    pub reverse: bool,
}

notation!(Recurrence = "recurrence" { axis, reverse });

impl ArrayPrimitive for Recurrence {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Cumulative,
            name: "recurrence{axis, reverse}".into(),
            math: "y[i] = a[i] y[i-1] + x[i] along the axis, y[0] = x[0]".into(),
            types: "two arrays of numbers to the same; a may be bool".into(),
            derivative:
                "∂a, ∂x: recurrence of a and t_a[i] y[i-1] + t_x[i]; its transpose runs in the \
                 opposite direction"
                    .into(),
            edges: "from the last element with reverse; the first of a is never read; where a is \
                    false, y[i] = x[i]"
                .into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let [Operand { ty: Type::Array(a), .. }, Operand { ty: Type::Array(x), .. }] = operands
        else {
            let message = "`recurrence` takes two arrays";
            return Err(Problem::new(Kind::Arguments, message, "first factors, then terms"));
        };
        let fits = a.dtype == x.dtype || a.dtype == Dtype::Bool;
        if a.shape != x.shape || !fits || x.dtype == Dtype::Bool {
            return Err(Problem::new(
                if a.shape == x.shape { Kind::Dtype } else { Kind::Shape },
                format!("`recurrence` of {a} and {x}"),
                "it takes two arrays of numbers of one type, or truth values and numbers of one shape",
            ));
        }
        along("recurrence", self.axis, x)
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let (a, x) = (&operands[0], &operands[1]);
        let handed_on = |i: usize, before: Literal| match a.dtype() {
            Dtype::Bool => (!a.at(i).is_zero()).then_some(before),
            _ => Some(Code::Mul.eval(&[a.at(i), before])),
        };
        walk(x.ty(), self.axis, self.reverse, |i, before| {
            match before.and_then(|before| handed_on(i, before)) {
                Some(before) => Code::Add.eval(&[before, x.at(i)]),
                None => x.at(i),
            }
        })
    }

    fn jvp(&self, b: &Builder<'_>, x: &[Atom], y: Atom, dx: &[Tangent]) -> Result<Tangent> {
        let varied = dx[0].map(|da| {
            let zero = Literal::zero(b.dtype_of(y));
            let last = before(b, y, self.axis, self.reverse, zero);
            b.emit1(Scalar::Mul, &[da, last])
        });
        let driven = elementwise::add_tangents(b, varied, dx[1]);
        Ok(driven.map(|t| b.emit1(self.clone(), &[x[0], t])))
    }

    fn is_linear(&self, operands: &[Linearity]) -> bool {
        operands.len() == 2 && operands[0] != Linearity::Linear
    }

    fn transpose(&self, b: &Builder<'_>, x: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        let Some(a) = x[0].known() else { return Ok(()) };
        let back = Recurrence { reverse: !self.reverse, ..self.clone() };
        let next = before(b, a, self.axis, back.reverse, Literal::zero(b.dtype_of(a)));
        into.add(b, 1, b.emit1(back, &[next, ct]));
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, size: usize, x: &[Atom], batched: &[bool]) -> Result<Atom> {
        let both: Vec<Atom> = x
            .iter()
            .zip(batched)
            .map(|(x, on)| if *on { *x } else { elementwise::materialize_lead(b, size, *x) })
            .collect();
        Ok(b.emit1(Recurrence { axis: self.axis + 1, ..self.clone() }, &both))
    }

    fn lower(&self, operands: &[Operand<'_>]) -> Lowering {
        let goes_on = operands[0].ty.as_array().is_some_and(|a| a.dtype == Dtype::Bool);
        let step = if goes_on { Step::Segments } else { Step::Affine };
        Lowering::Cumulate { axis: self.axis, reverse: self.reverse, step }
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        let a = Tensor::from([[0.5, -1.0, 2.0], [3.0, 0.75, 0.0]]);
        let x = Tensor::from([[1.5, -2.0, 0.25], [-0.5, 4.0, -1.0]]);
        let on = Tensor::from([[true, false, true], [false, true, true]]);
        let wild = Tensor::from([[f32::NAN, 1.0, f32::INFINITY], [0.0, -0.0, 2.0]]);
        let ints = Tensor::from([[3u32, 2, u32::MAX], [0, 1, 2]]);
        let none = Tensor::from([[0.0; 3]; 0]);
        let mut all = Vec::new();
        for (axis, reverse) in [(0, false), (1, false), (0, true), (1, true)] {
            let op = Recurrence { axis, reverse };
            all.push(Sample::smooth(op.clone(), vec![a.clone(), x.clone()]));
            all.push(Sample::smooth(op.clone(), vec![on.clone(), x.clone()]));
            all.push(Sample::edge(op.clone(), vec![on.clone(), wild.clone()]));
            for x in [&wild, &ints, &none] {
                all.push(Sample::edge(op.clone(), vec![x.clone(), x.clone()]));
            }
        }
        all
    }
}
