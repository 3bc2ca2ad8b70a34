//! Movement: primitives whose result holds the elements of one array at other positions.
//!
//! `y[o] = x[v(o)]`, where the index map `v` depends on attributes and extents alone. A movement primitive
//! defines `v`, as data ([`View`]), and the cotangent; this file derives all other rules: `y` is linear in `x`,
//! its tangent is the same movement of the operand's tangent, and the interpreter and the lowering are the same
//! for all. Compiled programs copy nothing: readers of `y` index `x`.
//!
//! ```text
//! %1: f64[2] = slice{start=[1], limit=[4], strides=[2]} %0     v(o) = 1 + 2 o
//! ```

use super::lowering::eval_view;
use crate::fault::{Fault, planted};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Shape, Type};
use crate::prim::{
    Arg, ArrayPrimitive, AxisMap, Cotangents, Doc, Effects, Linearity, Lowering, Notation, Op,
    Operand, Piece, Rewrite, Sample, Tangent,
};
use crate::tensor::Tensor;

/// The source in the operand of each element of the result.
pub enum View {
    /// For each axis of the operand, the affine map from the result's indices to the index at which the operand is
    /// read.
    Axes(Vec<AxisMap>),
    /// A reshape: element number k of the result, in row-major order, is element number k of the operand.
    RowMajor,
}

/// The rules of a primitive `y[o] = x[v(o)]` that moves the elements of one array.
pub trait Movement: Notation + Clone + Into<Op> {
    /// Returns the primitive's entries on the generated page of primitives.
    fn docs() -> Vec<Doc>;

    /// Returns the extents of `y`, or the error in `x`.
    fn result(&self, x: &ArrayType) -> Result<Shape>;

    /// Returns the index map `v`, for an operand with these extents.
    fn view(&self, x: &Shape) -> View;

    /// Emits the cotangent `ct of x[i] = Σ ct[o] over the o with v(o) = i`, and adds it to operand 0 of
    /// `into`.
    fn adjoint(&self, b: &Builder<'_>, x: &ArrayType, ct: Atom, into: &mut Cotangents);

    /// Returns the same movement of every batch member, with the batch of `size` as a new axis 0.
    fn batched(&self, size: usize) -> Self;

    /// Returns the primitive's rewrite rules for the e-graph and the peephole pass.
    fn rewrites() -> Vec<Rewrite>;

    /// Returns sample operands, typical and edge cases, on which the tests over all primitives run.
    fn samples() -> Vec<Sample>;
}

impl<M: Movement> ArrayPrimitive for M {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        M::docs()
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let x = one_array(self.name(), operands)?;
        Ok(ArrayType::new(x.dtype, self.result(x)?))
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let x = &operands[0];
        let shape = self.result(x.ty())?;
        match self.view(&x.ty().shape) {
            View::Axes(axes) => eval_view(operands, &[Piece { operand: 0, axes }], None, &shape),
            View::RowMajor => x.reshape(&shape),
        }
    }

    /// Emits the same movement of the operand's tangent: `dy[o] = dx[v(o)]`.
    fn jvp(&self, b: &Builder<'_>, _: &[Atom], _: Atom, dx: &[Tangent]) -> Result<Tangent> {
        Ok(dx[0].map(|dx| b.emit1(self.clone(), &[dx])))
    }

    fn is_linear(&self, _: &[Linearity]) -> bool {
        true
    }

    fn transpose(&self, b: &Builder<'_>, x: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        if let [Arg::Linear(Type::Array(x))] = x {
            self.adjoint(b, x, ct, into);
        }
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, size: usize, x: &[Atom], _: &[bool]) -> Result<Atom> {
        Ok(b.emit1(self.batched(size), x))
    }

    fn lower(&self, operands: &[Operand<'_>]) -> Lowering {
        let Ok(x) = one_array(self.name(), operands) else {
            return Lowering::Alias { mark: None, sharding: None };
        };
        let mut axes = match self.view(&x.shape) {
            View::Axes(axes) => axes,
            View::RowMajor => return Lowering::Reshape,
        };
        if planted(Fault::ViewAxes)
            && let Ok(y) = self.result(x)
        {
            for (i, map) in axes.iter_mut().enumerate() {
                for (axis, _) in map.terms.iter_mut().filter(|(axis, _)| y[*axis] == y[i]) {
                    *axis = i;
                }
            }
        }
        Lowering::View { pieces: vec![Piece { operand: 0, axes }], fill: None }
    }

    fn rewrites() -> Vec<Rewrite> {
        M::rewrites()
    }

    fn samples() -> Vec<Sample> {
        M::samples()
    }
}

/// Returns the type of the operand, if a primitive has one array as its only operand; otherwise the
/// error.
pub(crate) fn one_array<'a>(name: &str, operands: &[Operand<'a>]) -> Result<&'a ArrayType> {
    match operands {
        [Operand { ty: Type::Array(x), .. }] => Ok(x),
        _ => {
            let found: Vec<String> = operands.iter().map(|o| o.ty.to_string()).collect();
            Err(Problem::new(
                Kind::Arguments,
                format!("`{name}` takes one array, found ({})", found.join(", ")),
                "",
            ))
        }
    }
}

/// Checks that an attribute, a list of `entries` entries, has one entry per axis of `x`.
pub(crate) fn one_per_axis(name: &str, what: &str, entries: usize, x: &ArrayType) -> Result<()> {
    let rank = x.shape.len();
    if entries == rank {
        return Ok(());
    }
    Err(Problem::new(
        Kind::Shape,
        format!("`{name}` of {x} needs {rank} entries in `{what}`, one per axis, found {entries}"),
        "give one entry per axis",
    ))
}
