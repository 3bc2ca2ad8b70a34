//! `irfft{n, rank, axis} y`: the `n` real numbers with a given half spectrum, times `n`.
//!
//! ```text
//! x[k] = Re Σ_j w[j] y[j] exp(+2 π i j k / n)    j = 0 ..= n/2
//! ct_y = w ∘ rfft(ct)                            w = 1 at j = 0 and j = n/2 (n even), 2 between
//! ```
//!
//! The imaginary parts of frequencies 0 and `n/2` are multiplied by the sine of a multiple of `π`, which is zero. So
//! they have no influence, and `rfft` returns zeros there. The number `n` is an attribute, because `n = 2 h - 2` and
//! `n = 2 h - 1` have half spectra of the same length `h`.

use super::rfft::Rfft;
use super::spectrum::{axes, interior_weighted, pairs};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Shape};
use crate::prim::{
    Arg, ArrayPrimitive, Cotangents, Doc, Effects, Family, Linearity, Lowering, Operand, Rewrite,
    RoutineCall, Sample, Tangent,
};
use crate::tensor::Tensor;
use tapeloom_routines::{Routine, half};

/// The inverse of `rfft`, times `n`: the `n` real numbers with a given half spectrum. Its text is
/// `irfft{n, rank, axis}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Irfft {
    /// The length of each resulting sequence.
    pub n: usize,
    /// The number of axes of a half spectrum. These are the last axes of the operand, and the axis before them holds
    /// the real and imaginary parts.
    pub rank: usize,
    /// The index of the transformed axis among the last `rank` axes.
    pub axis: usize,
}

notation!(Irfft = "irfft" { n, rank, axis });

impl Irfft {
    /// Returns the library routine for half spectra in an array of this type.
    fn call(&self, y: &ArrayType) -> RoutineCall {
        let own = axes(&y.shape, 1, self.rank, self.axis);
        let (rows, n, columns) = (own.rows, self.n, own.columns);
        RoutineCall::new(Routine::InverseRealFft { rows, n, columns }, y.dtype, own.batch)
    }

    /// Returns the type of the real sequences whose half spectra have the type `y`.
    fn sequences(&self, y: &ArrayType) -> ArrayType {
        let mut shape = y.shape.to_vec();
        shape.remove(y.shape.len() - self.rank - 1);
        let axis = shape.len() - self.rank + self.axis;
        shape[axis] = self.n;
        ArrayType::new(y.dtype, Shape::from(&shape[..]))
    }
}

impl ArrayPrimitive for Irfft {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Fourier,
            name: "irfft{n, rank, axis}".into(),
            math: "x[k] = Re Σ_j w[j] y[j] exp(2πijk/n), w = 2 at interior frequencies j; not \
                   divided by n"
                .into(),
            types:
                "floats [.., 2, rank axes] to [.., rank axes], the extent n/2 + 1 of the axis to n"
                    .into(),
            derivative:
                "irfft of t; its transpose is the rfft of t with interior frequencies doubled"
                    .into(),
            edges:
                "imaginary parts of frequencies 0 and n/2 are not read; nan or inf elsewhere: nan \
                    everywhere in that sequence"
                    .into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let y = pairs("irfft", self.rank, self.axis, operands)?;
        let (n, half) = (self.n, half(self.n));
        if axes(&y.shape, 1, self.rank, self.axis).extent != half {
            let message = format!("`irfft` of {y} to {n} numbers");
            let help = format!("half a spectrum of {n} numbers has {half} frequencies");
            return Err(Problem::new(Kind::Shape, message, help));
        }
        Ok(self.sequences(y))
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let y = operands[0].ty();
        self.call(y).run_one(operands, &self.sequences(y).shape)
    }

    fn jvp(&self, b: &Builder<'_>, _: &[Atom], _: Atom, dx: &[Tangent]) -> Result<Tangent> {
        Ok(dx[0].map(|dx| b.emit1(self.clone(), &[dx])))
    }

    fn is_linear(&self, _: &[Linearity]) -> bool {
        true
    }

    fn transpose(&self, b: &Builder<'_>, _: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        let Irfft { n, rank, axis } = *self;
        let spectrum = b.emit1(Rfft { rank, axis }, &[ct]);
        into.add(b, 0, interior_weighted(b, spectrum, n, [rank, axis], 2.0));
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, _: usize, x: &[Atom], _: &[bool]) -> Result<Atom> {
        Ok(b.emit1(self.clone(), x))
    }

    fn lower(&self, operands: &[Operand<'_>]) -> Lowering {
        RoutineCall::lowering(operands[0].ty.as_array().map(|y| self.call(y)))
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        let (re, im) = ([1.0, -2.0, 0.5, 4.0], [0.25, 3.0, -1.0, 2.0]);
        let spectrum = |h: usize| {
            let parts = [&re[..h], &im[..h]].concat();
            Tensor::from(parts).reshape(&[2, h]).unwrap_or(Tensor::from(0.0))
        };
        let mut all: Vec<Sample> = (1..=7)
            .map(|n| Sample::smooth(Irfft { n, rank: 1, axis: 0 }, vec![spectrum(half(n))]))
            .collect();
        let two = Tensor::from([[[1.0, -2.0], [0.5, 3.0]], [[0.25, 3.0], [-1.0, 2.0]]]);
        let unread = Tensor::from([[1.0f32, 2.0, 3.0], [f32::NAN, 1.0, f32::INFINITY]]);
        let read = Tensor::from([[1.0f32, f32::INFINITY, 3.0], [0.0, 1.0, 0.0]]);
        all.extend([
            Sample::smooth(Irfft { n: 3, rank: 1, axis: 0 }, vec![two.clone()]),
            Sample::smooth(Irfft { n: 2, rank: 2, axis: 0 }, vec![two.clone()]),
            Sample::smooth(Irfft { n: 3, rank: 2, axis: 0 }, vec![two.clone()]),
            Sample::smooth(Irfft { n: 3, rank: 2, axis: 1 }, vec![two]),
            Sample::edge(Irfft { n: 4, rank: 1, axis: 0 }, vec![unread]),
            Sample::edge(Irfft { n: 5, rank: 1, axis: 0 }, vec![read]),
            Sample::edge(Irfft { n: 0, rank: 1, axis: 0 }, vec![Tensor::from([[0.0; 0]; 2])]),
        ]);
        all
    }
}
