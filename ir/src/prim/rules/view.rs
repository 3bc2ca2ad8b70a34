//! Movement: the elements of one array, read elsewhere.
//!
//! `y[o] = x[v(o)]`, where the index map `v` depends on attributes and extents alone. A movement
//! primitive says what `v` is, as data ([`View`]), and how cotangents go back; the rest follows. That
//! `y` is linear in `x`, that its tangent moves as it does, the interpreter and the lowering are the
//! same for all and stand here. Nothing moves when it is compiled: readers of `y` index `x`.
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

/// Where each element of the result comes from.
pub enum View {
    /// For each axis of the operand, the index read along it.
    Axes(Vec<AxisMap>),
    /// The elements in row-major order, under other extents.
    RowMajor,
}

/// What the system must know about a primitive `y[o] = x[v(o)]` of one array.
pub trait Movement: Notation + Clone + Into<Op> {
    /// Its entries on the generated page of primitives.
    fn docs() -> Vec<Doc>;

    /// The extents of `y`, or what is wrong with `x`.
    fn result(&self, x: &ArrayType) -> Result<Shape>;

    /// The index map `v`, for an operand of those extents.
    fn view(&self, x: &Shape) -> View;

    /// `ct of x[i] = Σ ct[o] over the o with v(o) = i`: adds it to the first of `into`.
    fn adjoint(&self, b: &Builder<'_>, x: &ArrayType, ct: Atom, into: &mut Cotangents);

    /// The same movement of every element of a batch of `size` along a new axis 0.
    fn batched(&self, size: usize) -> Self;

    /// Its rows for the e-graph and the peephole pass.
    fn rewrites() -> Vec<Rewrite>;

    /// Typical and edge uses; the law tests run every one.
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

    /// `dy[o] = dx[v(o)]`
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
        let Ok(x) = one_array(self.name(), operands) else { return Lowering::Alias { mark: None } };
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

/// The type of the operand of a primitive that takes one array.
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

/// Checks that a list has one entry per axis.
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
