//! `fft{inverse} x`: the discrete Fourier transform of complex sequences, in either direction.
//!
//! ```text
//! y[j] = Σ_k x[k] exp(∓2 π i j k / n)           the upper sign forward, the lower one inverse
//!
//! y_re = C x_re + S x_im    y_im = C x_im - S x_re        forward; C, S: cos and sin of 2 π j k / n
//! ```
//!
//! `C` and `S` are symmetric, so the transpose of the real map `(x_re, x_im) -> (y_re, y_im)` has `-S` in the place of
//! `S`: it is the transform of the other direction. Neither divides by `n`, so that one after the other is `n x`.

use super::spectrum::pairs;
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

/// `fft{inverse}`
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Fft {
    /// Whether the exponent is positive.
    pub inverse: bool,
}

notation!(Fft = "fft" { inverse });

impl Fft {
    /// The routine on sequences of that type.
    fn call(&self, x: &ArrayType) -> RoutineCall {
        let rank = x.shape.len();
        let routine = Routine::Fft { n: x.shape[rank - 1], inverse: self.inverse };
        RoutineCall::new(routine, x.dtype, &x.shape[..rank - 2])
    }
}

impl ArrayPrimitive for Fft {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Fourier,
            name: "fft{inverse}".into(),
            math: "y[j] = Σ_k x[k] exp(∓2πijk/n), + if inverse; not divided by n".into(),
            types: "floats [.., 2, n] to the same: real parts, imaginary parts".into(),
            derivative: "fft of t; its transpose is the fft of the other direction".into(),
            edges: "nan or inf anywhere: nan everywhere in that member".into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        Ok(pairs("fft", operands)?.clone())
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
        into.add(b, 0, b.emit1(Fft { inverse: !self.inverse }, &[ct]));
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
        let mut all = Vec::new();
        for inverse in [false, true] {
            let op = Fft { inverse };
            for x in [&three, &four, &two, &Tensor::from([[2.0], [-3.0]])] {
                all.push(Sample::smooth(op.clone(), vec![x.clone()]));
            }
            for x in [&wrong, &large, &Tensor::from([[0.0; 0]; 2])] {
                all.push(Sample::edge(op.clone(), vec![x.clone()]));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::lang::types::{Dtype, Type};
    use crate::prim::test_laws::*;

    #[test]
    fn laws_hold() {
        check_samples(Fft::samples());
    }

    #[test]
    fn directions_differ_in_the_sign_of_the_exponent() {
        // x[1] = 1: y[j] = exp(∓2 π i j / 4).
        let x = Tensor::from([[0.0, 1.0, 0.0, 0.0], [0.0; 4]]);
        let forward = Tensor::from([[1.0, 0.0, -1.0, 0.0], [0.0, -1.0, 0.0, 1.0]]);
        let inverse = Tensor::from([[1.0, 0.0, -1.0, 0.0], [0.0, 1.0, 0.0, -1.0]]);
        assert_eq!(eval1(Fft { inverse: false }, std::slice::from_ref(&x)), forward);
        assert_eq!(eval1(Fft { inverse: true }, &[x]), inverse);
    }

    #[test]
    fn a_failure_stays_in_its_member() {
        let x = Tensor::from([[[1.0, f64::NAN], [0.0, 3.0]], [[1.0, 3.0], [-1.0, 2.0]]]);
        let y = eval1(Fft { inverse: false }, &[x]);
        assert!(y.row(0).unwrap().to_vec::<f64>().unwrap().iter().all(|y| y.is_nan()));
        assert_eq!(y.row(1).unwrap(), Tensor::from([[4.0, -2.0], [1.0, -3.0]]));
    }

    #[test]
    fn problems_say_what_to_mend() {
        let ty = |dtype, shape: &[usize]| Type::array(dtype, shape);
        let wrong = |x: Type| problem(Fft { inverse: false }, &[x]).to_string();
        assert!(wrong(ty(Dtype::I64, &[2, 4])).contains("convert them"));
        assert!(wrong(ty(Dtype::F64, &[])).contains("the last axis"));
        assert!(wrong(ty(Dtype::F64, &[4])).contains("extent 2"));
        assert!(wrong(ty(Dtype::F64, &[3, 4])).contains("extent 2"));
    }
}
