//! `gather{batch, axes, bounds}`: reads windows of an array at computed places.
//!
//! The operands are an array `[B.., D..]` and integer indices `[B.., I.., n]`; the first `batch`
//! axes are shared. The last axis of the indices holds one index for each of the `n` `axes` of the
//! array, which are removed; what remains of the array at that place is the window. The result is
//! `[B.., I.., remaining D..]`. Taking rows 2 and 0 of a matrix:
//!
//! ```text
//! func @rows(%0: f64[3,4], %1: i64[2,1]) -> (f64[2,4]) {
//!   %2: f64[2,4] = gather{batch=0, axes=[0], bounds=clip} %0, %1
//!   return %2
//! }
//! ```
//!
//! Negative indices are out of range; counting from the end is up to whoever makes the indices.
//! Gather is linear in the array, and its transpose adds: `scatter_add` with the same addressing.
//! Source: XLA's `Gather` with windows of extent 1 along the indexed axes, which is what numpy's
//! `x[i, j]` and `take_along_axis` need.

use super::dot::move_axis;
use super::notation::Word;
use super::{
    Arg, ArrayPrimitive, Combine, Cotangents, Doc, Effects, Family, Linearity, Lowering, Operand,
    Rewrite, Sample, Scatter, Tangent, Total, elementwise,
};
use crate::builder::Builder;
use crate::fault::{Fault, planted};
use crate::function::Atom;
use crate::literal::Literal;
use crate::problem::{Kind, Problem, Result};
use crate::tensor::Tensor;
use crate::types::{ArrayType, Dtype, Shape, Type};

/// What an index outside the array means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Bounds {
    /// It is moved to the nearest index inside.
    Clip,
    /// A read gives zero, a write is dropped.
    Drop,
}

impl Word for Bounds {
    const ALL: &'static [Bounds] = &[Bounds::Clip, Bounds::Drop];

    fn word(self) -> &'static str {
        match self {
            Bounds::Clip => "clip",
            Bounds::Drop => "drop",
        }
    }
}

/// `gather{batch, axes, bounds}`
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Gather {
    /// Leading axes shared by array and indices.
    pub batch: usize,
    /// Axes of the array (batch axes count) that are indexed; ascending.
    pub axes: Vec<usize>,
    /// Out-of-range indices.
    pub bounds: Bounds,
}

notation!(Gather = "gather" { batch, axes, bounds });

impl Gather {
    fn addressing(&self) -> Addressing<'_> {
        Addressing { batch: self.batch, axes: &self.axes, bounds: self.bounds }
    }
}

/// How indices name places of an array: what gather and scatter have in common.
#[derive(Clone, Copy)]
pub(super) struct Addressing<'a> {
    pub(super) batch: usize,
    pub(super) axes: &'a [usize],
    pub(super) bounds: Bounds,
}

impl Addressing<'_> {
    /// The shape `[B.., I.., remaining D..]` of what is read or written, or what is wrong.
    pub(super) fn windows(
        &self,
        name: &str,
        array: &ArrayType,
        indices: &ArrayType,
    ) -> Result<Shape> {
        let shape = |message: String, help: &str| Err(Problem::new(Kind::Shape, message, help));
        if !indices.dtype.is_integer() {
            return Err(Problem::new(
                Kind::Dtype,
                format!("`{name}` needs integer indices, got {indices}"),
                "convert the indices to i64",
            ));
        }
        let (batch, n) = (self.batch, self.axes.len());
        let ascending = self.axes.windows(2).all(|w| w[0] < w[1]);
        if !ascending || self.axes.iter().any(|a| *a < batch || *a >= array.shape.len()) {
            return shape(
                format!(
                    "`{name}` indexes axes {:?} of {array} after {batch} batch axes",
                    self.axes
                ),
                "indexed axes are ascending, within the rank, and follow the batch axes",
            );
        }
        if indices.shape.len() <= batch || indices.shape.last() != Some(&n) {
            return shape(
                format!(
                    "`{name}` with {batch} batch axes and {n} indexed axes cannot use indices {indices}"
                ),
                "the last axis of the indices holds one index per indexed axis",
            );
        }
        if array.shape.len() < batch || array.shape[..batch] != indices.shape[..batch] {
            return shape(
                format!("`{name}` of {array} at {indices}: the {batch} batch axes differ"),
                "the leading batch axes have equal extents",
            );
        }
        let places = Shape::from(&indices.shape[..indices.shape.len() - 1]);
        let nowhere = self.axes.iter().any(|a| array.shape[*a] == 0);
        if self.bounds == Bounds::Clip && nowhere && !places.contains(&0) {
            return shape(
                format!("`{name}` clips indices into {array}, which has no element to clip to"),
                "index an axis that is not empty, or drop what is out of range",
            );
        }
        let kept = (batch..array.shape.len()).filter(|a| !self.axes.contains(a));
        Ok(places.iter().copied().chain(kept.map(|a| array.shape[a])).collect())
    }

    /// For concrete indices: the row-major position in the array at which each window starts (`None`
    /// if it is out of range and dropped), and the positions of the window's elements from there.
    pub(super) fn places(
        &self,
        array: &[usize],
        indices: &Tensor,
    ) -> (Vec<Option<usize>>, Vec<usize>) {
        let strides = Shape::from(array).strides();
        let n = self.axes.len();
        let outer = &indices.shape()[..indices.shape().len() - 1];
        let mut at = vec![0; outer.len()];
        let mut starts = Vec::new();
        for place in 0..Shape::from(outer).elements() {
            let mut start: Option<usize> = Some((0..self.batch).map(|b| at[b] * strides[b]).sum());
            for (j, axis) in self.axes.iter().enumerate() {
                let index = self.within(integer(indices.at(place * n + j)), array[*axis]);
                start = start.zip(index).map(|(s, i)| s + i * strides[*axis]);
            }
            starts.push(start);
            super::lower::step(&mut at, outer);
        }
        let kept: Vec<usize> =
            (self.batch..array.len()).filter(|a| !self.axes.contains(a)).collect();
        let window: Shape = kept.iter().map(|a| array[*a]).collect();
        let mut at = vec![0; kept.len()];
        let mut offsets = Vec::new();
        for _ in 0..window.elements() {
            offsets.push(at.iter().zip(&kept).map(|(i, a)| i * strides[*a]).sum());
            super::lower::step(&mut at, &window);
        }
        (starts, offsets)
    }

    /// The index along an axis of that extent, if there is one.
    fn within(&self, index: i128, extent: usize) -> Option<usize> {
        match self.bounds {
            Bounds::Drop => usize::try_from(index).ok().filter(|i| *i < extent),
            Bounds::Clip => usize::try_from(index.clamp(0, extent as i128 - 1)).ok(),
        }
    }
}

/// An integer literal of any dtype.
fn integer(x: Literal) -> i128 {
    match x.dtype {
        Dtype::I32 => i128::from(x.bits as u32 as i32),
        Dtype::I64 => i128::from(x.bits as i64),
        Dtype::Bool | Dtype::U32 | Dtype::U64 | Dtype::F32 | Dtype::F64 => i128::from(x.bits),
    }
}

/// Zeros of the type of `like`.
pub(super) fn zeros_like(b: &Builder<'_>, like: Atom) -> Atom {
    elementwise::zeros(b, &ArrayType { dtype: b.dtype_of(like), shape: b.shape_of(like) })
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
            edges: "out-of-range indices (negative ones too) move to the nearest inside (clip) or \
                    read zero (drop)"
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
        // The total so far is what is scattered into: reading a few rows costs a few rows.
        let zeros = || elementwise::zeros(b, array).into();
        let Total { atom: total, negated } = into.total[0].unwrap_or_else(zeros);
        let ct = Total { atom: ct, negated: negated != into.negated }.settle(b);
        let (batch, axes, bounds) = (self.batch, self.axes.clone(), self.bounds);
        let combine = if planted(Fault::TransposeRule) { Combine::Set } else { Combine::Add };
        let add = Scatter { combine, batch, axes, bounds };
        let atom = b.emit1(add, &[total, *indices, ct]);
        into.total[0] = Some(Total { atom, negated });
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, size: usize, x: &[Atom], batched: &[bool]) -> Result<Atom> {
        let shifted = |batch| Gather {
            batch,
            axes: self.axes.iter().map(|a| a + 1).collect(),
            bounds: self.bounds,
        };
        let y = match (batched[0], batched[1]) {
            // The batch is one more axis of the places, the first after the shared ones.
            (false, _) => {
                let indices = move_axis(b, x[1], 0, self.batch);
                move_axis(b, b.emit1(self.clone(), &[x[0], indices]), self.batch, 0)
            }
            // The batch is one more axis of the window, the first of the remaining ones.
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
            // Repeated and out-of-range places; one place without further axes; no place at all.
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
            // One column for each row: `take_along_axis`.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::prim::checks::*;

    #[test]
    fn laws_hold() {
        check_samples(Gather::samples());
    }

    #[test]
    fn bounds_clip_or_drop() {
        let x = Tensor::from([1.0, 2.0, 3.0]);
        let places = Tensor::from([[-1i64], [1], [3]]);
        let read = |bounds| {
            eval1(Gather { batch: 0, axes: vec![0], bounds }, &[x.clone(), places.clone()])
        };
        assert_eq!(read(Bounds::Clip), Tensor::from([1.0, 2.0, 3.0]));
        assert_eq!(read(Bounds::Drop), Tensor::from([0.0, 2.0, 0.0]));
    }

    #[test]
    fn remaining_axes_follow_the_places() {
        let mut x = Tensor::from([[[0i64; 4]; 3]; 2]);
        for i in 0..x.elements() {
            x.put(i, Literal::i64(i as i64));
        }
        // Axes 0 and 2 are indexed, axis 1 remains: y[i, d] = x[p[i], d, q[i]].
        let op = Gather { batch: 0, axes: vec![0, 2], bounds: Bounds::Clip };
        let places = Tensor::from([[1i64, 3], [0, 2]]);
        assert_eq!(eval1(op, &[x, places]), Tensor::from([[15i64, 19, 23], [2, 6, 10]]));
    }

    #[test]
    fn the_transpose_adds_repeated_reads() {
        let op = Gather { batch: 0, axes: vec![0], bounds: Bounds::Drop };
        let x = [Tensor::from([0.0, 0.0, 0.0]), Tensor::from([[1i64], [1], [5]])];
        let ct = Tensor::from([2.0, 3.0, 4.0]);
        let back = cotangents(op, &x, &[true, false], &ct);
        assert_eq!(back, [Tensor::from([0.0, 5.0, 0.0])]);
    }

    #[test]
    fn problems_say_what_to_mend() {
        let infer = |op: Gather, x: &[usize], dtype: Dtype, indices: &[usize]| {
            let (x, indices) = (Type::array(Dtype::F64, x), Type::array(dtype, indices));
            let operands = [&x, &indices].map(|ty| Operand { ty, literal: None });
            op.infer(&operands).unwrap_err().to_string()
        };
        let op =
            |batch, axes: &[usize]| Gather { batch, axes: axes.to_vec(), bounds: Bounds::Clip };
        let cases = [
            (infer(op(0, &[0]), &[3], Dtype::F64, &[2, 1]), "needs integer indices, got f64[2,1]"),
            (infer(op(0, &[1]), &[3], Dtype::I64, &[2, 1]), "indexes axes [1] of f64[3]"),
            (infer(op(1, &[0]), &[3], Dtype::I64, &[2, 1]), "after 1 batch axes"),
            (infer(op(0, &[0]), &[3], Dtype::I64, &[2]), "cannot use indices i64[2]"),
            (infer(op(0, &[0]), &[3], Dtype::I64, &[]), "cannot use indices i64[]"),
            (infer(op(1, &[1]), &[3, 2], Dtype::I64, &[4, 1]), "the 1 batch axes differ"),
            (infer(op(3, &[]), &[3], Dtype::I64, &[3, 1, 1, 0]), "the 3 batch axes differ"),
            (infer(op(0, &[0]), &[0], Dtype::I64, &[1, 1]), "has no element to clip to"),
        ];
        for (message, want) in cases {
            assert!(message.contains(want), "{message}");
        }
    }
}
