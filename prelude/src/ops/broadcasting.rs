//! Broadcasting by numpy's rules, made explicit.
//!
//! Elementwise operations of the IR need operands of equal shapes. Here shapes are aligned at their last axes, an
//! extent of 1 is stretched, and missing axes are added in front. Literals have no shape and are not broadcast, so
//! `2.0 * x` needs no array of twos.

use super::emit;
use crate::Var;
use tapeloom_ir::prim::{Broadcast, Reshape};
use tapeloom_ir::trace;
use tapeloom_ir::{ArrayType, Kind, Loc, Op, Problem, Shape};

/// Returns the common shape to which two shapes broadcast, or `None` if they do not fit.
pub(crate) fn broadcast_shapes(x: &[usize], y: &[usize]) -> Option<Shape> {
    let rank = x.len().max(y.len());
    let extent = |shape: &[usize], axis: usize| {
        (axis + shape.len()).checked_sub(rank).map_or(1, |i| shape[i])
    };
    (0..rank)
        .map(|axis| match (extent(x, axis), extent(y, axis)) {
            (a, b) if a == b => Some(a),
            (1, b) => Some(b),
            (a, 1) => Some(a),
            _ => None,
        })
        .collect::<Option<Vec<usize>>>()
        .map(Shape::from)
}

/// Broadcasts `x` to `shape`.
pub(crate) fn broadcast_var(x: Var, shape: &Shape, at: Loc) -> Var {
    let from = x.ty(at).shape;
    if from == *shape {
        return x;
    }
    let new = shape.len().saturating_sub(from.len());
    // For each axis of `x`, its index in the result: shapes are aligned at their last axes.
    let dims: Vec<usize> = (new..shape.len()).collect();
    if from.elements() == shape.elements() && from.elements() != 1 {
        // If only axes of extent 1 are added, no element is repeated, and a reshape suffices.
        return emit(Reshape { shape: shape.clone() }, &[x], at);
    }
    emit(Broadcast { shape: shape.clone(), dims }, &[x], at)
}

/// Broadcasts all operands except literals to their common shape. Returns an error if there is no common shape.
pub(crate) fn broadcast_together(
    name: &str,
    operands: &[Var],
    at: Loc,
) -> Result<(Vec<Var>, Shape), Problem> {
    let mut shape = Shape::scalar();
    let mut shapes = Vec::with_capacity(operands.len());
    for v in operands {
        let own = v.ty(at).shape;
        shape = broadcast_shapes(&shape, &own).ok_or_else(|| {
            Problem::new(
                Kind::Shape,
                format!("`{name}` cannot broadcast shapes {shape} and {own} together"),
                "aligned at the last axis, extents must be equal or 1",
            )
        })?;
        shapes.push(own);
    }
    let lifted = operands.iter().zip(&shapes).map(|(v, own)| {
        if *own == shape || v.handle.as_literal().is_some() {
            *v
        } else {
            broadcast_var(*v, &shape, at)
        }
    });
    Ok((lifted.collect(), shape))
}

/// Emits an elementwise operation of two operands of one dtype, after broadcasting.
pub(crate) fn binary(op: impl Into<Op>, x: Var, y: Var, at: Loc) -> Var {
    let op = op.into();
    let (tx, ty) = (x.ty(at), y.ty(at));
    if tx == ty {
        return emit(op, &[x, y], at);
    }
    if tx.dtype != ty.dtype {
        let shape = broadcast_shapes(&tx.shape, &ty.shape).unwrap_or(tx.shape.clone());
        let name = op.name();
        let problem = Problem::new(
            Kind::Dtype,
            format!("`{name}` needs operands of one dtype, got {tx} and {ty}"),
            crate::dtype::conversions(tx.dtype, ty.dtype),
        );
        trace::record(problem, &[x.handle, y.handle], at);
        return Var::poison(ArrayType::new(tx.dtype, shape), at);
    }
    match broadcast_together(op.name(), &[x, y], at) {
        Ok((operands, _)) => emit(op, &operands, at),
        Err(problem) => {
            trace::record(problem, &[x.handle, y.handle], at);
            // The result has no shape. As a guess for later errors, use the type of the operand with more axes.
            Var::poison(if ty.shape.len() > tx.shape.len() { ty } else { tx }, at)
        }
    }
}

/// Broadcasting to a given shape.
impl Var {
    /// Broadcasts the array to `shape`, by numpy's rules.
    ///
    /// Errors: `shape` if an extent of the array is neither 1 nor that of the corresponding axis of `shape`.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let rows = run(|x: Var| x.broadcast_to([2, 3]), [1.0, 2.0, 3.0])?;
    /// assert_eq!(rows.to_vec::<f64>()?, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "expand_as")]
    #[doc(alias = "expand")]
    #[track_caller]
    pub fn broadcast_to(self, shape: impl Into<Shape>) -> Var {
        let at = crate::var::caller();
        let (ty, shape) = (self.ty(at), shape.into());
        if broadcast_shapes(&ty.shape, &shape).as_ref() != Some(&shape) {
            let problem = Problem::new(
                Kind::Shape,
                format!("cannot broadcast {ty} to shape {shape}"),
                "aligned at the last axis, extents must be equal or 1",
            );
            trace::record(problem, &[self.handle], at);
            return Var::poison(ArrayType { dtype: ty.dtype, shape }, at);
        }
        broadcast_var(self, &shape, at)
    }
}
