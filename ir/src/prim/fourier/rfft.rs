//! `rfft{rank, axis} x`: the first half of the discrete Fourier transform of real sequences.
//!
//! ```text
//! y[j] = Σ_k x[k] exp(-2 π i j k / n)           j = 0 ..= n/2
//! ct_x[k] = Re Σ_j ct[j] exp(+2 π i j k / n)    the same j; ct = ct_re + i ct_im
//! ```
//!
//! The transpose sums over the half spectrum alone, whereas `irfft` counts each frequency between 0 and `n/2`
//! twice. So the transpose is the `irfft` of `ct` with these frequencies halved.

use super::irfft::Irfft;
use super::spectrum::{axes, interior_weighted, sequences};
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

/// The first half of the discrete Fourier transform of real sequences. Its text is `rfft{rank, axis}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Rfft {
    /// The number of axes of a real array. These are the last axes of the operand. In the result, the axis before them
    /// holds the real and imaginary parts of the spectrum.
    pub rank: usize,
    /// The index of the transformed axis among the last `rank` axes.
    pub axis: usize,
}

notation!(Rfft = "rfft" { rank, axis });

impl Rfft {
    /// Returns the library routine for real sequences in an array of this type.
    fn call(&self, x: &ArrayType) -> RoutineCall {
        let own = axes(&x.shape, 0, self.rank, self.axis);
        let (rows, n, columns) = (own.rows, own.extent, own.columns);
        RoutineCall::new(Routine::RealFft { rows, n, columns }, x.dtype, own.batch)
    }

    /// Returns the type of the half spectra of real sequences in an array of this type.
    fn spectra(&self, x: &ArrayType) -> ArrayType {
        let batch = x.shape.len() - self.rank;
        let mut shape = x.shape.to_vec();
        shape[batch + self.axis] = half(shape[batch + self.axis]);
        shape.insert(batch, 2);
        ArrayType::new(x.dtype, Shape::from(&shape[..]))
    }
}

impl ArrayPrimitive for Rfft {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Fourier,
            name: "rfft{rank, axis}".into(),
            math: "y[j] = Σ_k x[k] exp(-2πijk/n), j = 0 ..= n/2".into(),
            types: "floats [.., rank axes] to [.., 2, rank axes], the extent n of the axis to n/2 + 1: real parts, \
                    imaginary parts"
                .into(),
            derivative:
                "rfft of t; its transpose is the irfft of t with interior frequencies halved".into(),
            edges: "nan or inf: nan everywhere in that sequence; no frequencies of n = 0".into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        Ok(self.spectra(sequences("rfft", self.rank, self.axis, operands)?))
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let x = operands[0].ty();
        self.call(x).run_one(operands, &self.spectra(x).shape)
    }

    fn jvp(&self, b: &Builder<'_>, _: &[Atom], _: Atom, dx: &[Tangent]) -> Result<Tangent> {
        Ok(dx[0].map(|dx| b.emit1(self.clone(), &[dx])))
    }

    fn is_linear(&self, _: &[Linearity]) -> bool {
        true
    }

    fn transpose(&self, b: &Builder<'_>, x: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        if let [Arg::Linear(Type::Array(x))] = x {
            let Rfft { rank, axis } = *self;
            let n = x.shape[x.shape.len() - rank + axis];
            let halved = interior_weighted(b, ct, n, [rank, axis], 0.5);
            into.add(b, 0, b.emit1(Irfft { n, rank, axis }, &[halved]));
        }
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
        let numbers = [1.0, -2.0, 0.5, 4.0, 0.25, 3.0, -1.0];
        let mut all: Vec<Sample> = (1..=7)
            .map(|n| {
                Sample::smooth(Rfft { rank: 1, axis: 0 }, vec![Tensor::from(numbers[..n].to_vec())])
            })
            .collect();
        let two = Tensor::from([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]]);
        let wrong = Tensor::from([[1.0f32, f32::INFINITY], [f32::MAX, f32::MAX]]);
        for axis in [0, 1] {
            all.push(Sample::smooth(Rfft { rank: 2, axis }, vec![two.clone()]));
        }
        all.extend([
            Sample::smooth(Rfft { rank: 1, axis: 0 }, vec![two]),
            Sample::edge(Rfft { rank: 1, axis: 0 }, vec![wrong]),
            Sample::edge(Rfft { rank: 1, axis: 0 }, vec![Tensor::from([0.0; 0])]),
            Sample::edge(Rfft { rank: 1, axis: 0 }, vec![Tensor::from([[0.0f32; 3]; 0])]),
        ]);
        all
    }
}
