//! `rfft x`: the first half of the discrete Fourier transform of real sequences.
//!
//! ```text
//! y[j] = Σ_k x[k] exp(-2 π i j k / n)           j = 0 ..= n/2
//! ct_x[k] = Re Σ_j ct[j] exp(+2 π i j k / n)    the same j; ct = ct_re + i ct_im
//! ```
//!
//! The sum of the transpose is over the half alone, where `irfft` counts a frequency between 0 and `n/2` twice; so the
//! transpose is the `irfft` of `ct` with these halved.

use super::irfft::Irfft;
use super::spectrum::{interior_weighted, sequences};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::Result;
use crate::lang::types::{ArrayType, Shape, Type};
use crate::prim::{
    Arg, ArrayPrimitive, Cotangents, Doc, Effects, Family, Linearity, Lowering, Operand, Rewrite,
    RoutineCall, Sample, Tangent,
};
use crate::tensor::Tensor;
use tapeloom_routines::{Routine, half};

/// `rfft`
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Rfft {}

notation!(Rfft = "rfft" {});

impl Rfft {
    /// The routine on sequences of that type.
    fn call(x: &ArrayType) -> RoutineCall {
        let last = x.shape.len() - 1;
        RoutineCall::new(Routine::RealFft { n: x.shape[last] }, x.dtype, &x.shape[..last])
    }

    /// The type of the spectra of sequences of that type.
    fn spectra(x: &ArrayType) -> ArrayType {
        let last = x.shape.len() - 1;
        let shape = [&x.shape[..last], &[2, half(x.shape[last])]].concat();
        ArrayType::new(x.dtype, Shape::from(&shape[..]))
    }
}

impl ArrayPrimitive for Rfft {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Fourier,
            name: "rfft".into(),
            math: "y[j] = Σ_k x[k] exp(-2πijk/n), j = 0 ..= n/2".into(),
            types: "floats [.., n] to [.., 2, n/2 + 1]: real parts, imaginary parts".into(),
            derivative:
                "rfft of t; its transpose is the irfft of t with interior frequencies halved".into(),
            edges: "nan or inf anywhere: nan everywhere in that member; no frequencies of n = 0"
                .into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        Ok(Rfft::spectra(sequences("rfft", operands)?))
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let x = operands[0].ty();
        Rfft::call(x).run_one(operands, &Rfft::spectra(x).shape)
    }

    fn jvp(&self, b: &Builder<'_>, _: &[Atom], _: Atom, dx: &[Tangent]) -> Result<Tangent> {
        Ok(dx[0].map(|dx| b.emit1(self.clone(), &[dx])))
    }

    fn is_linear(&self, _: &[Linearity]) -> bool {
        true
    }

    fn transpose(&self, b: &Builder<'_>, x: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        if let [Arg::Linear(Type::Array(x))] = x {
            let n = x.shape[x.shape.len() - 1];
            into.add(b, 0, b.emit1(Irfft { n }, &[interior_weighted(b, ct, n, 0.5)]));
        }
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, _: usize, x: &[Atom], _: &[bool]) -> Result<Atom> {
        Ok(b.emit1(self.clone(), x))
    }

    fn lower(&self, operands: &[Operand<'_>]) -> Lowering {
        RoutineCall::lowering(operands[0].ty.as_array().map(Rfft::call))
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        let numbers = [1.0, -2.0, 0.5, 4.0, 0.25, 3.0, -1.0];
        let mut all: Vec<Sample> = (1..=7)
            .map(|n| Sample::smooth(Rfft {}, vec![Tensor::from(numbers[..n].to_vec())]))
            .collect();
        let two = Tensor::from([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]]);
        let wrong = Tensor::from([[1.0f32, f32::INFINITY], [f32::MAX, f32::MAX]]);
        all.extend([
            Sample::smooth(Rfft {}, vec![two]),
            Sample::edge(Rfft {}, vec![wrong]),
            Sample::edge(Rfft {}, vec![Tensor::from([0.0; 0])]),
            Sample::edge(Rfft {}, vec![Tensor::from([[0.0f32; 3]; 0])]),
        ]);
        all
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::lang::types::Dtype;
    use crate::prim::test_laws::*;

    #[test]
    fn laws_hold() {
        check_samples(Rfft::samples());
    }

    #[test]
    fn the_half_of_an_impulse_is_a_rotation() {
        let y = eval1(Rfft {}, &[Tensor::from([0.0, 1.0, 0.0, 0.0])]);
        assert_eq!(y, Tensor::from([[1.0, 0.0, -1.0], [0.0, -1.0, 0.0]]));
    }

    #[test]
    fn problems_say_what_to_mend() {
        let wrong = |x: Type| problem(Rfft {}, &[x]).to_string();
        assert!(wrong(Type::array(Dtype::I64, &[4])).contains("convert them"));
        assert!(wrong(Type::array(Dtype::F64, &[])).contains("the last axis"));
    }
}
