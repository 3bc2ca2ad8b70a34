//! `gather{batch, axes, bounds}`: reads windows of an array at computed positions.
//!
//! The operands are an array `[B.., D..]` and integer indices `[B.., I.., n]`. The first `batch` axes are shared. The
//! last axis of the indices holds one index for each of the `n` `axes` of the array. These axes are removed; the
//! remaining axes form the window at that position. The result is `[B.., I.., remaining D..]`. Example, rows 2 and 0 of
//! a matrix:
//!
//! ```text
//! func @rows(%0: f64[3,4], %1: i64[2,1]) -> (f64[2,4]) {
//!   %2: f64[2,4] = gather{batch=0, axes=[0], bounds=clip} %0, %1
//!   return %2
//! }
//! ```
//!
//! Negative indices are out of range; code that counts from the end must add the extent first. Gather is linear
//! in the array, and its transpose is `scatter_add` with the same addressing. Source: XLA's `Gather` with
//! windows of extent 1 along the indexed axes, which is enough for numpy's `x[i, j]` and `take_along_axis`.

use super::permute::move_axis;
use crate::fault::{Fault, planted};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Type};
use crate::prim::rules::index_map::Addressing;
use crate::prim::rules::slice_access::{Boxed, SliceAccess, Within};
use crate::prim::{
    Accumulator, Arg, ArrayPrimitive, Bounds, Combine, Cotangents, Doc, Effects, Family, Linearity,
    Lowering, Operand, Rewrite, Sample, Scatter, Tangent, elementwise,
};
use crate::tensor::Tensor;

/// A gather: reads windows of an array at computed positions. Its text is `gather{batch, axes, bounds}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Gather {
    /// The number of leading axes that array and indices share.
    pub batch: usize,
    /// The axes of the array that are indexed, in ascending order. Axis numbers count from the first axis of the array,
    /// including the batch axes.
    pub axes: Vec<usize>,
    /// The treatment of out-of-range indices: they are clamped, or their reads and writes are dropped.
    pub bounds: Bounds,
}

notation!(Gather = "gather" { batch, axes, bounds });

impl Gather {
    fn addressing(&self) -> Addressing<'_> {
        Addressing { batch: self.batch, axes: &self.axes, bounds: self.bounds }
    }
}

impl Boxed for Gather {
    fn part(&self, operands: &[Type]) -> Option<SliceAccess> {
        let (starts, sizes) = self.addressing().one_place(operands)?;
        Some(SliceAccess { starts, sizes, clamps: self.bounds == Bounds::Clip, writes: None })
    }

    fn within(&self, b: &Builder<'_>, of: &Within<'_>) -> Option<Atom> {
        if of.is_all() {
            return Some(of.array);
        }
        let (axes, indices) = of.indices(b);
        Some(b.emit1(Gather { batch: 0, axes, bounds: self.bounds }, &[of.array, indices]))
    }
}

impl ArrayPrimitive for Gather {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Indexing,
            name: "gather{batch, axes, bounds}".into(),
            math: "y[b.., i.., d..] = x[b.., d.. with indices[b.., i.., j] along axes[j]]".into(),
            types: "any array `[B.., D..]` and integer indices `[B.., I.., n]`; n axes".into(),
            derivative: "∂x: gather of t; its transpose is scatter_add".into(),
            edges: "out-of-range indices, also negative ones, are clamped (clip) or read zero \
                    (drop)"
                .into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let [Operand { ty: Type::Array(x), .. }, Operand { ty: Type::Array(indices), .. }] =
            operands
        else {
            return Err(Problem::new(Kind::Arguments, "`gather` takes an array and indices", ""));
        };
        Ok(ArrayType::new(x.dtype, self.addressing().windows("gather", x, indices)?))
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let (x, indices) = (&operands[0], &operands[1]);
        let shape = self.addressing().windows("gather", x.ty(), indices.ty())?;
        let (starts, offsets) = self.addressing().places(x.shape(), indices);
        let mut y = Tensor::zeros_of(&ArrayType::new(x.dtype(), shape))?;
        let mut to = 0;
        for start in starts {
            for offset in &offsets {
                if let Some(start) = start {
                    y.put(to, x.at(start + offset));
                }
                to += 1;
            }
        }
        Ok(y)
    }

    fn jvp(&self, b: &Builder<'_>, x: &[Atom], _: Atom, dx: &[Tangent]) -> Result<Tangent> {
        Ok(dx[0].map(|dx| b.emit1(self.clone(), &[dx, x[1]])))
    }

    fn is_linear(&self, operands: &[Linearity]) -> bool {
        operands.len() == 2 && operands[1] != Linearity::Linear
    }

    fn transpose(&self, b: &Builder<'_>, x: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        let [Arg::Linear(Type::Array(array)), Arg::Known(indices)] = x else {
            return Ok(());
        };
        // Scatter into the total cotangent so far, not into new zeros, so that the cost is proportional to the
        // rows read and not to the array.
        let zeros = || elementwise::zeros(b, array).into();
        let Accumulator { atom: total, negated } = into.total[0].unwrap_or_else(zeros);
        let ct = Accumulator { atom: ct, negated: negated != into.negated }.apply_sign(b);
        let (batch, axes, bounds) = (self.batch, self.axes.clone(), self.bounds);
        let combine = if planted(Fault::TransposeRule) { Combine::Set } else { Combine::Add };
        let add = Scatter { combine, batch, axes, bounds };
        let atom = b.emit1(add, &[total, *indices, ct]);
        into.total[0] = Some(Accumulator { atom, negated });
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, size: usize, x: &[Atom], batched: &[bool]) -> Result<Atom> {
        let shifted = |batch| Gather {
            batch,
            axes: self.axes.iter().map(|a| a + 1).collect(),
            bounds: self.bounds,
        };
        let y = match (batched[0], batched[1]) {
            // Only the indices are batched. Their batch axis moves behind the leading axes that array and indices
            // share, where it counts as one more axis of positions.
            (false, _) => {
                let indices = move_axis(b, x[1], 0, self.batch);
                move_axis(b, b.emit1(self.clone(), &[x[0], indices]), self.batch, 0)
            }
            // Only the array is batched. Its batch axis is not indexed, so it becomes the first axis of each window
            // that is read.
            (true, false) if self.batch == 0 => {
                let places = b.shape_of(x[1]).len() - 1;
                move_axis(b, b.emit1(shifted(0), x), places, 0)
            }
            (true, false) => {
                let indices = elementwise::materialize_lead(b, size, x[1]);
                b.emit1(shifted(self.batch + 1), &[x[0], indices])
            }
            (true, true) => b.emit1(shifted(self.batch + 1), x),
        };
        Ok(y)
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        Lowering::Gather { batch: self.batch, axes: self.axes.clone(), bounds: self.bounds }
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        let gather = |batch: usize, axes: &[usize], bounds: Bounds| Gather {
            batch,
            axes: axes.to_vec(),
            bounds,
        };
        let vector = Tensor::from([1.5, -2.0, 0.25]);
        let matrix = Tensor::from([[0.5, -1.0, 2.0], [3.0, 0.75, -0.25]]);
        let mut all = Vec::new();
        for bounds in [Bounds::Clip, Bounds::Drop] {
            // The samples have repeated and out-of-range positions, one position without further axes, and no position
            // at all.
            let places = Tensor::from([[2i64], [0], [-1], [2], [7]]);
            all.push(Sample::smooth(gather(0, &[0], bounds), vec![vector.clone(), places]));
            let columns = Tensor::from([[1i64], [1]]);
            all.push(Sample::smooth(gather(0, &[1], bounds), vec![matrix.clone(), columns]));
            let one = Tensor::from([1i32, 2]);
            all.push(Sample::smooth(gather(0, &[0, 1], bounds), vec![matrix.clone(), one]));
            let none = Tensor::from([[0i64; 1]; 0]);
            all.push(Sample::smooth(gather(0, &[0], bounds), vec![matrix.clone(), none]));
            let whole = Tensor::from([[0i64; 0]; 2]);
            all.push(Sample::smooth(gather(0, &[], bounds), vec![vector.clone(), whole]));
            // This sample reads one column for each row, as numpy's `take_along_axis` does.
            if let Ok(along) = Tensor::new(&[2, 2, 1], vec![2u32, 0, 1, 9]) {
                all.push(Sample::smooth(gather(1, &[1], bounds), vec![matrix.clone(), along]));
            }
            let bools = Tensor::from([true, false, true]);
            let far = Tensor::from([[u64::MAX], [1]]);
            all.push(Sample::edge(gather(0, &[0], bounds), vec![bools, far]));
        }
        let empty = Tensor::from([[0.0; 2]; 0]);
        let places = Tensor::from([[0i64], [1]]);
        all.push(Sample::edge(gather(0, &[0], Bounds::Drop), vec![empty, places]));
        all
    }
}
