//! `fft{inverse, rank, axis} x`: the discrete Fourier transform of complex sequences, in either direction.
//!
//! ```text
//! y[j] = Σ_k x[k] exp(∓2 π i j k / n)           the upper sign forward, the lower one inverse
//!
//! y_re = C x_re + S x_im    y_im = C x_im - S x_re        forward; C, S: cos and sin of 2 π j k / n
//! ```
//!
//! `C` and `S` are symmetric, so the transpose of the real map `(x_re, x_im) -> (y_re, y_im)` has `-S` in the place of
//! `S`: it is the transform of the other direction. Neither divides by `n`, so that one after the other is `n x`.

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

/// `fft{inverse, rank, axis}`
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Fft {
    /// Whether the exponent is positive.
    pub inverse: bool,
    /// How many axes, the last ones, a complex array has; the axis before them holds its parts.
    pub rank: usize,
    /// Which of these is transformed.
    pub axis: usize,
}

notation!(Fft = "fft" { inverse, rank, axis });

impl Fft {
    /// The routine on sequences of that type.
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
            // A matrix of two rows: by columns, and by rows.
            for axis in [0, 1] {
                let op = Fft { inverse, rank: 2, axis };
                all.push(Sample::smooth(op.clone(), vec![matrix.clone()]));
                all.push(Sample::edge(op, vec![spoilt.clone()]));
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
        assert_eq!(
            eval1(Fft { inverse: false, rank: 1, axis: 0 }, std::slice::from_ref(&x)),
            forward
        );
        assert_eq!(eval1(Fft { inverse: true, rank: 1, axis: 0 }, &[x]), inverse);
    }

    #[test]
    fn any_axis_is_transformed_where_it_is() {
        // x[1] = 1 in the columns: y[j] = (-1)^j; of the second column i times as much.
        let x = Tensor::from([[[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]);
        let y = Tensor::from([[[1.0, 0.0], [-1.0, 0.0]], [[0.0, 1.0], [0.0, -1.0]]]);
        assert_eq!(eval1(Fft { inverse: false, rank: 2, axis: 0 }, std::slice::from_ref(&x)), y);
        // x[0] = 1 and x[1] = i in row 1: y = (1 + i, 1 - i).
        let y = Tensor::from([[[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, -1.0]]]);
        assert_eq!(eval1(Fft { inverse: false, rank: 2, axis: 1 }, &[x]), y);
    }

    #[test]
    fn a_failure_stays_in_its_member() {
        let x = Tensor::from([[[1.0, f64::NAN], [0.0, 3.0]], [[1.0, 3.0], [-1.0, 2.0]]]);
        let y = eval1(Fft { inverse: false, rank: 1, axis: 0 }, &[x]);
        assert!(y.row(0).unwrap().to_vec::<f64>().unwrap().iter().all(|y| y.is_nan()));
        assert_eq!(y.row(1).unwrap(), Tensor::from([[4.0, -2.0], [1.0, -3.0]]));
    }

    #[test]
    fn problems_say_what_to_mend() {
        let ty = |dtype, shape: &[usize]| Type::array(dtype, shape);
        let wrong = |x: Type| problem(Fft { inverse: false, rank: 1, axis: 0 }, &[x]).to_string();
        assert!(wrong(ty(Dtype::I64, &[2, 4])).contains("convert them"));
        assert!(wrong(ty(Dtype::F64, &[])).contains("axis 0 of the last 1"));
        let no_axis = Fft { inverse: false, rank: 1, axis: 1 };
        let no_axis = problem(no_axis, &[ty(Dtype::F64, &[2, 4])]).to_string();
        assert!(no_axis.contains("axis 1 of the last 1"), "{no_axis}");
        let beyond = Fft { inverse: false, rank: 2, axis: 0 };
        let beyond = problem(beyond, &[ty(Dtype::F64, &[2, 4])]).to_string();
        assert!(beyond.contains("extent 2"), "{beyond}");
        assert!(wrong(ty(Dtype::F64, &[4])).contains("extent 2"));
        assert!(wrong(ty(Dtype::F64, &[3, 4])).contains("extent 2"));
    }
}
