//! `convert{to}`: the same numbers in another dtype.
//!
//! Between floats it is linear, and its transpose converts back. An integer has no tangent, so a
//! conversion to or from one has derivative zero.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype, Type};
use crate::prim::Op;
use crate::prim::rules::rewrite::Equality;
use crate::prim::{
    Arg, ArrayPrimitive, Code, Cotangents, Doc, Effects, Family, Linearity, Lowering, Operand,
    Rewrite, Sample, Tangent, elementwise,
};
use crate::tensor::Tensor;

/// The same numbers in another dtype. Its text is `convert{to}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Convert {
    /// The dtype of the result.
    pub to: Dtype,
}

notation!(Convert = "convert" { to });

impl ArrayPrimitive for Convert {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Arithmetic,
            name: "convert{to}".into(),
            math: "x in the dtype `to`".into(),
            types: "any dtype to any dtype".into(),
            derivative: "∂x: t converted, between floats; otherwise 0, integers and bools have no tangent".into(),
            edges: "floats to integers truncate and saturate, nan to 0; integers to integers wrap; to bool is x ≠ 0; to floats rounds to nearest".into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let (shape, dtypes) = elementwise::common_shape("convert", operands)?;
        match dtypes.as_slice() {
            [_] => Ok(ArrayType::new(self.to, shape)),
            _ => Err(Problem::new(Kind::Arguments, "`convert` takes one operand", "")),
        }
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        elementwise::eval(Code::Convert(self.to), operands)
    }

    fn jvp(&self, b: &Builder<'_>, _: &[Atom], _: Atom, dx: &[Tangent]) -> Result<Tangent> {
        Ok(dx[0].filter(|_| self.to.is_float()).map(|dx| b.emit1(*self, &[dx])))
    }

    fn is_linear(&self, _: &[Linearity]) -> bool {
        self.to.is_float()
    }

    fn transpose(&self, b: &Builder<'_>, x: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        let [Arg::Linear(Type::Array(x))] = x else { return Ok(()) };
        let back = b.emit1(Convert { to: x.dtype }, &[ct]);
        into.add(b, 0, back);
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, size: usize, x: &[Atom], batched: &[bool]) -> Result<Atom> {
        elementwise::batch(b, (*self).into(), size, x, batched)
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        Lowering::Elementwise(Code::Convert(self.to))
    }

    fn rewrites() -> Vec<Rewrite> {
        vec![
            Rewrite::exact(
                "convert-nothing",
                Equality::Identity(
                    |op, x| matches!((op, x), (Op::Convert(c), Type::Array(x)) if c.to == x.dtype),
                ),
                "it has that dtype already",
            ),
            Rewrite::exact(
                "convert-convert",
                Equality::Compose(|outer, inner, x| match (outer, inner, x) {
                    (Op::Convert(to), Op::Convert(through), Type::Array(x))
                        if passes(x.dtype, through.to, to.to) =>
                    {
                        Some(if to.to == x.dtype { Vec::new() } else { vec![outer.clone()] })
                    }
                    _ => None,
                }),
                "the conversion in between loses nothing",
            ),
        ]
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        let numbers = [0.0, -0.0, 1.5, -2.75, 3e9, -1e20, 1e300, f64::INFINITY, f64::NAN];
        for from in Dtype::ALL {
            for to in Dtype::ALL {
                let x = Tensor::of(from, &numbers);
                samples.push(Sample::edge(Convert { to }, vec![x]));
                samples.push(Sample::edge(Convert { to }, vec![Tensor::from(Literal::one(from))]));
            }
        }
        // A smooth sample converts to f64, not to f32: finite differences with the steps for f64 would measure
        // the rounding to f32.
        samples.push(Sample::smooth(Convert { to: Dtype::F64 }, vec![Tensor::from([0.5, -1.25])]));
        samples
    }
}

/// Returns whether converting `from` one dtype `through` a second one `to` a third one equals converting
/// directly. It does if the second dtype represents every value of the first exactly, and the last conversion
/// follows the same rule as the direct one (floats saturate, integers wrap).
fn passes(from: Dtype, through: Dtype, to: Dtype) -> bool {
    use Dtype::{Bool, F32, F64, I32, I64, U32, U64};
    let holds = match (from, through) {
        _ if from == through => true,
        (Bool, _) | (F32, F64) => true,
        (I32, I64 | F64) | (U32, I64 | U64 | F64) => true,
        _ => false,
    };
    let same_rule = from == Bool || to.is_float() || to == Bool || to == from;
    holds && (same_rule || from.is_float() == through.is_float())
}
