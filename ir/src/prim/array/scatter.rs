//! `scatter_set`, `scatter_add`, `scatter_mul`, `scatter_max`, `scatter_min`: write windows into an array at
//! computed positions.
//!
//! The operands are an array `[B.., D..]`, integer indices `[B.., I.., n]` and updates `[B.., I.., remaining
//! D..]`, addressed as in [`Gather`]. The result is the array with every update combined with the element at its
//! position, in row-major order of the updates. So several updates at one position accumulate, and of several
//! `scatter_set` updates at one position the last remains.
//!
//! ```text
//! func @count(%0: i64[4,1], %1: f64[4]) -> (f64[3]) {
//!   %2: f64[3] = broadcast{shape=[3], dims=[]} 0.0
//!   %3: f64[3] = scatter_add{batch=0, axes=[0], bounds=drop} %2, %0, %1
//!   return %3
//! }
//! ```
//!
//! Derivatives also hold if several updates have the same position. `scatter_add` and `scatter_set` are linear in the
//! array and the updates together; the cotangent of an overwritten update is zero (a scatter of the updates' indices
//! finds the update that remains). The derivative of `scatter_mul` gives each factor the product of the others. Those
//! of `scatter_max` and `scatter_min` share the tangent evenly among the array's element and the updates that attain
//! the result, as JAX does.

use super::permute::move_axis;
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype, Type};
use crate::prim::elementwise::{self, zeros_like};
use crate::prim::rules::index_map::Addressing;
use crate::prim::rules::slice_access::{Boxed, SliceAccess, Within, Write};
use crate::prim::rules::slice_helpers::{reshaped, sum};
use crate::prim::syntax::{Notation, Word};
use crate::prim::{
    Arg, ArrayPrimitive, Bounds, Broadcast, Code, Cotangents, Doc, Effects, Family, Gather,
    Linearity, Lowering, Op, Operand, Rewrite, Sample, Scalar, Tangent,
};
use crate::tensor::Tensor;

/// The operation that combines an update with the array's element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Combine {
    /// Overwrites the array's element; of several updates at one position the last remains.
    Set,
    /// Adds the update to the array's element.
    Add,
    /// Multiplies the array's element by the update.
    Mul,
    /// Takes the larger of the array's element and the update.
    Max,
    /// Takes the smaller of the array's element and the update.
    Min,
}

impl Combine {
    /// All combinations.
    pub const ALL: [Combine; 5] =
        [Combine::Set, Combine::Add, Combine::Mul, Combine::Max, Combine::Min];

    /// Returns the scalar operation on (array element, update); `None` for `Set`, which overwrites.
    pub fn code(self) -> Option<Code> {
        match self {
            Combine::Set => None,
            Combine::Add => Some(Code::Add),
            Combine::Mul => Some(Code::Mul),
            Combine::Max => Some(Code::Max),
            Combine::Min => Some(Code::Min),
        }
    }
}

impl Word for Combine {
    const ALL: &'static [Combine] = &Combine::ALL;

    fn word(self) -> &'static str {
        match self {
            Combine::Set => "scatter_set",
            Combine::Add => "scatter_add",
            Combine::Mul => "scatter_mul",
            Combine::Max => "scatter_max",
            Combine::Min => "scatter_min",
        }
    }
}

/// A scatter: combines updates with windows of an array at computed positions. Its text is
/// `scatter_*{batch, axes, bounds}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Scatter {
    /// The operation that combines an update with the array's element.
    pub combine: Combine,
    /// The number of leading axes that array, indices and updates share.
    pub batch: usize,
    /// The axes of the array that are indexed, in ascending order. Axis numbers count from the first axis of the array,
    /// including the batch axes.
    pub axes: Vec<usize>,
    /// The treatment of out-of-range indices: they are clamped, or their reads and writes are dropped.
    pub bounds: Bounds,
}

notation!(Scatter = combine { batch, axes, bounds });

impl Scatter {
    /// Combines the updates into `y` and returns it. If other tensors refer to the elements of `y`, they are copied
    /// first.
    pub(crate) fn combined(&self, mut y: Tensor, indices: &Tensor, updates: &Tensor) -> Tensor {
        let (starts, offsets) = self.addressing().places(y.shape(), indices);
        let mut from = 0;
        for start in starts {
            for offset in &offsets {
                if let Some(start) = start {
                    let (at, u) = (start + offset, updates.at(from));
                    let code = self.combine.code();
                    y.put(at, code.map_or(u, |code| code.eval(&[y.at(at), u])));
                }
                from += 1;
            }
        }
        y
    }

    fn addressing(&self) -> Addressing<'_> {
        Addressing { batch: self.batch, axes: &self.axes, bounds: self.bounds }
    }

    /// Returns the scatter with the same addressing and the operation `combine`.
    fn with(&self, combine: Combine) -> Scatter {
        Scatter { combine, ..self.clone() }
    }

    /// Emits a scatter of the updates `u` into `x` with the same addressing and the operation `combine`.
    pub(super) fn write(
        &self,
        b: &Builder<'_>,
        combine: Combine,
        x: Atom,
        indices: Atom,
        u: Atom,
    ) -> Atom {
        b.emit1(self.with(combine), &[x, indices, u])
    }

    /// Emits a gather of the elements of `x` at the positions of the updates.
    pub(super) fn read(&self, b: &Builder<'_>, x: Atom, indices: Atom) -> Atom {
        let (batch, axes, bounds) = (self.batch, self.axes.clone(), self.bounds);
        b.emit1(Gather { batch, axes, bounds }, &[x, indices])
    }

    /// If there is only one position, emits the scatter as a gather, a scalar operation and a `scatter_set`:
    /// without repeated positions this is equivalent. Otherwise returns `None`.
    fn through_memory(&self, b: &Builder<'_>, operands: &[Atom]) -> Option<Atom> {
        let [x, indices, u] = *operands else { return None };
        let code = match self.combine {
            Combine::Add => Scalar::Add,
            Combine::Mul => Scalar::Mul,
            Combine::Max => Scalar::Max,
            Combine::Min => Scalar::Min,
            Combine::Set => return None,
        };
        let alone = self.one_place(b, indices);
        alone.then(|| {
            let new = b.emit1(code, &[self.read(b, x, indices), u]);
            self.write(b, Combine::Set, x, indices, new)
        })
    }

    /// Returns whether there is at most one position (per batch member), so that no two updates have the same
    /// position.
    pub(super) fn one_place(&self, b: &Builder<'_>, indices: Atom) -> bool {
        let shape = b.shape_of(indices);
        let places = &shape[self.batch..shape.len() - 1];
        places.iter().product::<usize>() <= 1
    }
}

impl Op {
    /// If this is a scatter at one position, emits it as a gather, a scalar operation and a `scatter_set`;
    /// otherwise returns `None`.
    pub fn through_memory(&self, b: &Builder<'_>, operands: &[Atom]) -> Option<Atom> {
        let Op::Scatter(scatter) = self else { return None };
        scatter.through_memory(b, operands)
    }
}

impl Boxed for Scatter {
    fn part(&self, operands: &[Type]) -> Option<SliceAccess> {
        let adds = match self.combine {
            Combine::Set => false,
            Combine::Add => true,
            Combine::Mul | Combine::Max | Combine::Min => return None,
        };
        let (starts, sizes) = self.addressing().one_place(operands)?;
        Some(SliceAccess { starts, sizes, clamps: false, writes: Some(Write { operand: 2, adds }) })
    }

    fn within(&self, b: &Builder<'_>, of: &Within<'_>) -> Option<Atom> {
        let update = reshaped(b, of.update?, &of.window());
        match self.combine {
            Combine::Set if of.is_all() => return Some(update),
            Combine::Add if of.is_all() => return Some(sum(b, of.array, update)),
            Combine::Set | Combine::Add => {}
            Combine::Mul | Combine::Max | Combine::Min => return None,
        }
        let (axes, indices) = of.indices(b);
        let scatter = Scatter { batch: 0, axes, ..self.clone() };
        Some(b.emit1(scatter, &[of.array, indices, update]))
    }
}

impl ArrayPrimitive for Scatter {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        let entry = |combine: Combine| Doc {
            family: Family::Indexing,
            name: format!("{}{{batch, axes, bounds}}", combine.word()),
            math: match combine {
                Combine::Set => "y = x; y[place k] = u_k for k in order",
                Combine::Add => "y = x; y[place k] += u_k for k in order",
                Combine::Mul => "y = x; y[place k] *= u_k for k in order",
                Combine::Max => "y = x; y[place k] = max(y[place k], u_k) for k in order",
                Combine::Min => "y = x; y[place k] = min(y[place k], u_k) for k in order",
            }
            .into(),
            types: match combine {
                Combine::Add | Combine::Mul => {
                    "an array of numbers, integer indices, updates of the array's dtype"
                }
                Combine::Set | Combine::Max | Combine::Min => {
                    "any array, integer indices, updates of the array's dtype"
                }
            }
            .into(),
            derivative: match combine {
                Combine::Set => "scatter_set of the tangents; that of an overwritten update is 0",
                Combine::Add => "scatter_add of the tangents; the transpose in u is gather",
                Combine::Mul => "∂x: scatter_mul of t; ∂u: t times x and the other updates there",
                Combine::Max | Combine::Min => {
                    "the mean of t over the element of x and the updates that attain y"
                }
            }
            .into(),
            edges: match combine {
                Combine::Set => "out-of-range updates clip or drop; the last of several wins",
                Combine::Add => "out-of-range updates clip or drop",
                Combine::Mul => {
                    "out-of-range updates clip or drop; where three or more updates of one element \
                     are exactly zero, derivatives beyond the third order are nan or infinite"
                }
                Combine::Max | Combine::Min => {
                    "out-of-range updates clip or drop; nan wins; ties share evenly"
                }
            }
            .into(),
        };
        Combine::ALL.into_iter().map(entry).collect()
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let name = self.name();
        let [
            Operand { ty: Type::Array(x), .. },
            Operand { ty: Type::Array(indices), .. },
            Operand { ty: Type::Array(updates), .. },
        ] = operands
        else {
            return Err(Problem::new(
                Kind::Arguments,
                format!("`{name}` takes an array, indices and updates"),
                "",
            ));
        };
        let numeric = matches!(self.combine, Combine::Add | Combine::Mul);
        if numeric && x.dtype == Dtype::Bool {
            return Err(Problem::new(
                Kind::Dtype,
                format!("`{name}` is not defined for {x}"),
                "convert the array to numbers, or take `max` for or, `min` for and",
            ));
        }
        let windows = self.addressing().windows(name, x, indices)?;
        if updates.dtype != x.dtype {
            return Err(Problem::new(
                Kind::Dtype,
                format!("`{name}` into {x} needs updates of {}, got {updates}", x.dtype),
                "convert the updates",
            ));
        }
        if updates.shape != windows {
            return Err(Problem::new(
                Kind::Shape,
                format!(
                    "`{name}` into {x} at {indices} needs updates {}, got {updates}",
                    ArrayType { dtype: x.dtype, shape: windows }
                ),
                "updates have the shape of the result of a gather at the same indices",
            ));
        }
        Ok(ArrayType::new(x.dtype, x.shape.clone()))
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        Ok(self.combined(operands[0].clone(), &operands[1], &operands[2]))
    }

    fn jvp(&self, b: &Builder<'_>, x: &[Atom], y: Atom, dx: &[Tangent]) -> Result<Tangent> {
        let dy = match self.combine {
            Combine::Add if dx[2].is_none() => dx[0],
            Combine::Set | Combine::Add => {
                let array = dx[0].unwrap_or_else(|| zeros_like(b, x[0]));
                let updates = dx[2].unwrap_or_else(|| zeros_like(b, x[2]));
                Some(b.emit1(self.clone(), &[array, x[1], updates]))
            }
            Combine::Mul => self.product_tangent(b, x, dx),
            Combine::Max | Combine::Min => self.extremum_tangent(b, x, dx, y),
        };
        Ok(dy)
    }

    fn is_linear(&self, operands: &[Linearity]) -> bool {
        let [array, indices, updates] = operands else { return false };
        let fixed = *indices != Linearity::Linear;
        match self.combine {
            Combine::Set | Combine::Add => {
                fixed && *array != Linearity::Constant && *updates != Linearity::Constant
            }
            Combine::Mul => fixed && *updates != Linearity::Linear,
            Combine::Max | Combine::Min => false,
        }
    }

    fn transpose(&self, b: &Builder<'_>, x: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        let [array, Arg::Known(indices), updates] = x else { return Ok(()) };
        let (b, shape) = (b, b.shape_of(ct));
        if let Arg::Linear(_) = array {
            let back = match (self.combine, updates) {
                (Combine::Add, _) => ct,
                (Combine::Mul, Arg::Known(u)) => self.write(b, Combine::Mul, ct, *indices, *u),
                (Combine::Set, Arg::Linear(Type::Array(u))) => {
                    self.write(b, Combine::Set, ct, *indices, elementwise::zeros(b, u))
                }
                (Combine::Set, Arg::Known(u)) => {
                    self.write(b, Combine::Set, ct, *indices, zeros_like(b, *u))
                }
                _ => return Err(Problem::internal(format!("`{}` is not linear", self.name()))),
            };
            into.add(b, 0, back);
        }
        if let Arg::Linear(Type::Array(u)) = updates {
            let mut back = self.read(b, ct, *indices);
            if self.combine == Combine::Set && !self.one_place(b, *indices) {
                let won = self.remaining_updates(b, &shape, *indices, &u.shape);
                let zero = Literal::zero(u.dtype).into();
                back = b.emit1(Scalar::Select, &[won, back, zero]);
            }
            into.add(b, 2, back);
        }
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, size: usize, x: &[Atom], batched: &[bool]) -> Result<Atom> {
        let lead = |i: usize| match batched[i] {
            true => x[i],
            false => elementwise::materialize_lead(b, size, x[i]),
        };
        let mut op = self.clone();
        op.axes.iter_mut().for_each(|a| *a += 1);
        if batched[1] || self.batch > 0 {
            op.batch += 1;
            return Ok(b.emit1(op, &[lead(0), lead(1), lead(2)]));
        }
        // The positions are the same for all batch members, so the batch axis becomes the first axis of each window
        // that is written.
        let places = b.shape_of(x[1]).len() - 1;
        let updates = if batched[2] {
            move_axis(b, x[2], 0, places)
        } else {
            let mut shape = b.shape_of(x[2]).to_vec();
            let dims = (0..=shape.len()).filter(|d| *d != places).collect();
            shape.insert(places, size);
            b.emit1(Broadcast { shape: shape.into(), dims }, &[x[2]])
        };
        Ok(b.emit1(op, &[lead(0), x[1], updates]))
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        Lowering::Scatter {
            combine: self.combine,
            batch: self.batch,
            axes: self.axes.clone(),
            bounds: self.bounds,
        }
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        let vector = Tensor::from([1.5, -2.0, 0.25, 3.0]);
        let matrix = Tensor::from([[0.5, -1.0, 2.0], [3.0, 0.75, -0.25]]);
        let ints = Tensor::from([5i64, -2, 7]);
        let bools = Tensor::from([true, false, true]);
        let mut all = Vec::new();
        for combine in Combine::ALL {
            let scatter = |batch: usize, axes: &[usize], bounds: Bounds| Scatter {
                combine,
                batch,
                axes: axes.to_vec(),
                bounds,
            };
            for bounds in [Bounds::Clip, Bounds::Drop] {
                // These samples have several updates at one position, an update whose index is out of range, and a zero
                // among the factors.
                let places = Tensor::from([[2i64], [0], [2], [9], [2]]);
                let updates = Tensor::from([0.5, -1.25, 2.0, 4.0, -3.0]);
                let op = scatter(0, &[0], bounds);
                all.push(Sample::smooth(op.clone(), vec![vector.clone(), places, updates]));
                let places = Tensor::from([[1i32], [1], [0]]);
                if combine == Combine::Mul {
                    let updates = Tensor::from([0.0, -1.5, 2.0]);
                    all.push(Sample::smooth(
                        op.clone(),
                        vec![vector.clone(), places.clone(), updates],
                    ));
                }
                let ties = Tensor::from([-2.0, f64::NAN, 1.5]);
                all.push(Sample::edge(op.clone(), vec![vector.clone(), places.clone(), ties]));
                let updates = Tensor::from([3i64, -4, 5]);
                all.push(Sample::edge(op.clone(), vec![ints.clone(), places.clone(), updates]));
                if !matches!(combine, Combine::Add | Combine::Mul) {
                    let updates = Tensor::from([true, false, false]);
                    all.push(Sample::edge(op.clone(), vec![bools.clone(), places, updates]));
                }
                // The first sample writes a column at one position, the second writes nothing, and the third writes one
                // element in each row.
                let column = Tensor::from([1.25, -0.5]);
                let op = scatter(0, &[1], bounds);
                all.push(Sample::smooth(op, vec![matrix.clone(), Tensor::from([2i64]), column]));
                let op = scatter(0, &[0], bounds);
                let (none, nothing) = (Tensor::from([[0i64; 1]; 0]), Tensor::from([[0.0; 3]; 0]));
                all.push(Sample::smooth(op, vec![matrix.clone(), none, nothing]));
                if let Ok(along) = Tensor::new(&[2, 2, 1], vec![2u32, 0, 1, 1]) {
                    let updates = Tensor::from([[1.5, -0.75], [0.5, 2.5]]);
                    let op = scatter(1, &[1], bounds);
                    all.push(Sample::smooth(op, vec![matrix.clone(), along, updates]));
                }
            }
        }
        all
    }
}
