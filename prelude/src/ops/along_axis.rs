//! Gather and scatter along one axis, with the kind of indices that `argmax` and `argsort` return.

use super::axes::{Axis, resolve_axis};
use super::index::{from_front, materialize};
use super::{broadcast_var, emit, insert_axis, move_axis, wrong};
use crate::Var;
use crate::var::{IntoVar, caller};
use tapeloom_ir::prim::{Bounds, Combine, Gather, Scatter};
use tapeloom_ir::trace;
use tapeloom_ir::{Dtype, Kind, Problem, Shape};

/// Gather and scatter along an axis, with one index for each element that is read or written.
impl Var {
    /// Returns one element per index: `y[.., j, ..] = x[.., indices[.., j, ..], ..]` along `axis`. The other axes
    /// of array and indices are broadcast together.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|(x, i): (Var, Var)| x.take_along_axis(i, 1));
    /// let y = f.call(([[1.0, 2.0], [3.0, 4.0]], [[1i64], [0]]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [2.0, 3.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "take_along_dim")]
    #[track_caller]
    pub fn take_along_axis(self, indices: impl IntoVar, axis: impl Axis) -> Var {
        let at = caller();
        let indices = indices.into_var(Dtype::I64, at);
        let (ty, ti) = (self.ty(at), indices.ty(at));
        let axis = match resolve_axis("take_along_axis", axis, &ty.shape) {
            Ok(axis) => axis,
            Err(problem) => return wrong(problem, &[self, indices], ty, at),
        };
        let batch = (ty.shape.len() == ti.shape.len())
            .then(|| {
                let without = |s: &Shape| s.without(&[axis]);
                super::broadcast_shapes(&without(&ty.shape), &without(&ti.shape))
            })
            .flatten();
        let Some(batch) = batch else {
            let message = format!("`take_along_axis` of {ty} with indices {ti} along axis {axis}");
            let help = "all other axes must be equal, or 1";
            let problem = Problem::new(Kind::Shape, message, help);
            return wrong(problem, &[self, indices], ty, at);
        };
        let last = ty.shape.len() - 1;
        // Broadcasts an operand along its other axes, which become batch axes, and moves `axis` to the end.
        let arrange = |v: Var, extent: usize| {
            let shape: Shape = batch.iter().copied().chain([extent]).collect();
            broadcast_var(move_axis(v, axis, last, at), &shape, at)
        };
        let places = from_front(arrange(indices, ti.shape[axis]), ty.shape[axis], at);
        let gather = Gather { batch: last, axes: vec![last], bounds: Bounds::Clip };
        let operands = [arrange(self, ty.shape[axis]), insert_axis(places, last + 1, at)];
        let taken = trace::within("take_along_axis", || emit(gather, &operands, at));
        move_axis(taken, last, axis, at)
    }

    /// Returns the array with one element per index overwritten:
    /// `y[.., indices[.., j, ..], ..] = values[.., j, ..]` along `axis`. If another axis of indices or values has
    /// extent 1, it is broadcast to that of the array. A write out of range is dropped; of several writes to one
    /// element, the last wins.
    ///
    /// Errors: `shape` if the other axes do not fit; `dtype` if the indices are not integers.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|x: Var| x.put_along_axis(x.argmax(1).expand_dims(1), 0.0, 1));
    /// let y = f.call([[1.0, 2.0], [4.0, 3.0]])?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 0.0, 0.0, 3.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn put_along_axis(
        self,
        indices: impl IntoVar,
        values: impl IntoVar,
        axis: impl Axis,
    ) -> Var {
        let at = caller();
        let indices = indices.into_var(Dtype::I64, at);
        let (ty, ti) = (self.ty(at), indices.ty(at));
        let values = values.beside(self, at);
        let axis = match resolve_axis("put_along_axis", axis, &ty.shape) {
            Ok(axis) => axis,
            Err(problem) => return wrong(problem, &[self, indices, values], ty, at),
        };
        // The shape to which indices and values are broadcast: that of the array, except for the extent along `axis`.
        let mut places = ty.shape.clone();
        if let Some(n) = ti.shape.get(axis) {
            places[axis] = *n;
        }
        let fits =
            |shape: &Shape| super::broadcast_shapes(shape, &places).as_ref() == Some(&places);
        let equal_ranks = ty.shape.len() == ti.shape.len();
        if !equal_ranks || !fits(&ti.shape) || !fits(&values.ty(at).shape) {
            let message = format!(
                "`put_along_axis` of {} at indices {ti} along axis {axis} of {ty}",
                values.ty(at)
            );
            let help = "all other axes must be those of the array, or 1";
            let problem = Problem::new(Kind::Shape, message, help);
            return wrong(problem, &[self, indices, values], ty, at);
        }
        let last = ty.shape.len() - 1;
        let to_last = |v: Var| move_axis(v, axis, last, at);
        let index = from_front(broadcast_var(indices, &places, at), ty.shape[axis], at);
        let index = insert_axis(to_last(index), last + 1, at);
        let scatter =
            Scatter { combine: Combine::Set, batch: last, axes: vec![last], bounds: Bounds::Drop };
        let values = to_last(materialize(values, &places, at));
        let operands = [to_last(self), index, values];
        let put = trace::within("put_along_axis", || emit(scatter, &operands, at));
        move_axis(put, last, axis, at)
    }
}
