//! `fft{inverse, rank, axis} x`: the discrete Fourier transform of complex sequences, in either direction.
//!
//! ```text
//! y[j] = Σ_k x[k] exp(∓2 π i j k / n)           the upper sign: forward, the lower sign: inverse
//!
//! y_re = C x_re + S x_im    y_im = C x_im - S x_re        forward; C, S: cos and sin of 2 π j k / n
//! ```
//!
//! `C` and `S` are symmetric, so the transpose of the real map `(x_re, x_im) -> (y_re, y_im)` has `-S` in place of `S`.
//! So the transpose is the transform in the other direction. Neither direction divides by `n`, so one after the other
//! gives `n x`.

use super::spectrum::{axes, pairs};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::Result;
use crate::lang::types::ArrayType;
use crate::prim::{
    Arg, ArrayPrimitive, Cotangents, Doc, Effects, Family, Linearity, Lowering, Operand, Rewrite,
    RoutineCall, Sample, Tangent,
};
use crate::tensor::Tensor;
use tapeloom_routines::Routine;

/// The discrete Fourier transform of complex sequences. Its text is `fft{inverse, rank, axis}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Fft {
    /// Whether the transform is the inverse one, with a positive exponent: `exp(+2 π i j k / n)`.
    pub inverse: bool,
    /// The number of axes of a complex array. These are the last axes of the operand, and the axis before them holds
    /// the real and imaginary parts.
    pub rank: usize,
    /// The index of the transformed axis among the last `rank` axes.
    pub axis: usize,
}

notation!(Fft = "fft" { inverse, rank, axis });

impl Fft {
    /// Returns the library routine for transforming sequences in an array of this type.
    fn call(&self, x: &ArrayType) -> RoutineCall {
        let own = axes(&x.shape, 1, self.rank, self.axis);
        let (rows, n, columns) = (own.rows, own.extent, own.columns);
        let routine = Routine::Fft { rows, n, columns, inverse: self.inverse };
        RoutineCall::new(routine, x.dtype, own.batch)
    }
}

impl ArrayPrimitive for Fft {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Fourier,
            name: "fft{inverse, rank, axis}".into(),
            math: "y[j] = Σ_k x[k] exp(∓2πijk/n), + if inverse; not divided by n".into(),
            types: "floats [.., 2, rank axes] to the same: real parts, imaginary parts".into(),
            derivative: "fft of t; its transpose is the fft of the other direction".into(),
            edges: "nan or inf: nan everywhere in that sequence".into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        Ok(pairs("fft", self.rank, self.axis, operands)?.clone())
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let x = &operands[0];
        self.call(x.ty()).run_one(operands, x.shape())
    }

    fn jvp(&self, b: &Builder<'_>, _: &[Atom], _: Atom, dx: &[Tangent]) -> Result<Tangent> {
        Ok(dx[0].map(|dx| b.emit1(self.clone(), &[dx])))
    }

    fn is_linear(&self, _: &[Linearity]) -> bool {
        true
    }

    fn transpose(&self, b: &Builder<'_>, _: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        into.add(b, 0, b.emit1(Fft { inverse: !self.inverse, ..self.clone() }, &[ct]));
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, _: usize, x: &[Atom], _: &[bool]) -> Result<Atom> {
        Ok(b.emit1(self.clone(), x))
    }

    fn lower(&self, operands: &[Operand<'_>]) -> Lowering {
        RoutineCall::lowering(operands[0].ty.as_array().map(|x| self.call(x)))
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        let three = Tensor::from([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]]);
        let four = Tensor::from([[1.0, -2.0, 0.5, 4.0], [0.25, 3.0, -1.0, 2.0]]);
        let two = Tensor::from([[[1.0, -2.0], [0.5, 3.0]], [[0.25, 3.0], [-1.0, 2.0]]]);
        let wrong = Tensor::from([[[1.0, f64::NAN], [0.0, 3.0]], [[0.25, 3.0], [-1.0, 2.0]]]);
        let large = Tensor::from([[f32::MAX, f32::MAX, 1.0], [0.0, -0.0, f32::MIN_POSITIVE]]);
        let matrix = Tensor::from([
            [[1.0, -2.0, 0.5], [4.0, 0.25, 3.0]],
            [[-1.0, 2.0, 1.5], [0.5, -0.25, 2.5]],
        ]);
        let spoilt = Tensor::from([[[1.0, -2.0], [f64::INFINITY, 3.0]], [[2.0, 1.5], [0.5, 2.5]]]);
        let mut all = Vec::new();
        for inverse in [false, true] {
            let op = Fft { inverse, rank: 1, axis: 0 };
            for x in [&three, &four, &two, &Tensor::from([[2.0], [-3.0]])] {
                all.push(Sample::smooth(op.clone(), vec![x.clone()]));
            }
            for x in [&wrong, &large, &Tensor::from([[0.0; 0]; 2])] {
                all.push(Sample::edge(op.clone(), vec![x.clone()]));
            }
            // These samples transform a complex matrix along its columns, and along its rows.
            for axis in [0, 1] {
                let op = Fft { inverse, rank: 2, axis };
                all.push(Sample::smooth(op.clone(), vec![matrix.clone()]));
                all.push(Sample::edge(op, vec![spoilt.clone()]));
            }
        }
        all
    }
}
