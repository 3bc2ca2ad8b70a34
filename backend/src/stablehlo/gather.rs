//! Writes gathers, which read windows of an array at computed positions.

use super::sharding;
use super::types::{integers, list};
use super::writer::{Value, Writer};
use tapeloom_ir::prim::Bounds;
use tapeloom_ir::{ArrayType, Dtype, Literal, Shape};

/// The attributes that gather and scatter share.
pub(super) struct Addressing<'a> {
    /// The number of leading axes that array and indices share.
    pub(super) batch: usize,
    /// The indexed axes of the array.
    pub(super) axes: &'a [usize],
    pub(super) bounds: Bounds,
}

impl Addressing<'_> {
    /// Appends the indices as i64, clamped to the array. If reads outside of the array are dropped, also appends a mask
    /// of shape `[B.., I..]` (batch axes, other axes of the indices), which says which positions are inside.
    ///
    /// An index is clamped before it is converted, because u64 has numbers that i64 cannot represent.
    pub(super) fn inside(
        &self,
        w: &mut Writer,
        x: &Shape,
        indices: &Value,
    ) -> (Value, Option<Value>) {
        let (n, last) = (self.axes.len(), indices.ty.shape.len() - 1);
        let end = |axis: &usize| x[*axis].saturating_sub(1);
        // The largest valid index along each axis, or the largest number of the indices' dtype if that is smaller.
        let least = w.number(0.0, indices);
        let most: Vec<Value> = (self.axes.iter())
            .map(|axis| {
                let exact = Literal::exact_integer(indices.ty.dtype, end(axis) as i128);
                let end = exact.unwrap_or(Literal::of(indices.ty.dtype, f64::INFINITY));
                let shape = super::types::with_extent(&indices.ty.shape, last, 1);
                w.constant(end, &shape)
            })
            .collect();
        let most = w.concatenate(&most.iter().collect::<Vec<_>>(), last);
        let raised = w.same("stablehlo.maximum", &[indices, &least]);
        let clamped = w.same("stablehlo.minimum", &[&raised, &most]);
        let mask = (self.bounds == Bounds::Drop).then(|| {
            let same = w.compare("EQ", indices, &clamped);
            let parts: Vec<Value> = (0..n).map(|k| w.part(&same, last, k, 1)).collect();
            let all = parts.into_iter().reduce(|a, b| w.same("stablehlo.and", &[&a, &b]));
            let all = all.unwrap_or(same);
            let places = all.ty.shape.without(&[last]);
            w.reshape(&all, places)
        });
        (w.convert(&clamped, Dtype::I64), mask)
    }
}

/// Appends a gather of windows of `x` at the indices. Returns the result.
pub(super) fn gather(
    w: &mut Writer,
    of: &Addressing<'_>,
    x: &Value,
    indices: &Value,
    ty: &ArrayType,
) -> Value {
    let shape = &x.ty.shape;
    let places = indices.ty.shape.len() - 1;
    let zero = Literal::zero(ty.dtype);
    // Without elements, nothing is read: either the result is empty, or all reads are dropped and yield zeros.
    if ty.shape.elements() == 0 || shape.elements() == 0 {
        return w.constant(zero, &ty.shape);
    }
    if of.axes.is_empty() {
        let axes: Vec<usize> = (0..of.batch).chain(places..ty.shape.len()).collect();
        return w.broadcast(x, &axes, &ty.shape);
    }
    let (inside, mask) = of.inside(w, shape, indices);
    let batch: Vec<usize> = (0..of.batch).collect();
    let one = |axis: &usize| *axis < of.batch || of.axes.contains(axis);
    let sizes = (0..shape.len()).map(|axis| if one(&axis) { 1 } else { shape[axis] });
    let numbers = format!(
        "#stablehlo.gather<offset_dims = {}, collapsed_slice_dims = {}, operand_batching_dims = {batch:?}, start_indices_batching_dims = {batch:?}, start_index_map = {}, index_vector_dim = {places}>",
        list(places..ty.shape.len()),
        list(of.axes),
        list(of.axes),
    );
    let attributes = format!(
        "{{dimension_numbers = {numbers}, indices_are_sorted = false, slice_sizes = {}}}",
        integers(sizes)
    );
    let inside = sharding::whole_positions(w, &inside);
    let y = w.generic("stablehlo.gather", &[x, &inside], &attributes, ty.clone());
    match mask {
        None => y,
        Some(mask) => {
            let axes: Vec<usize> = (0..places).collect();
            let mask = w.broadcast(&mask, &axes, &ty.shape);
            let zero = w.constant(zero, &ty.shape);
            w.select(&mask, &y, &zero)
        }
    }
}

/// Appends a gather of single elements of `x`, and returns the result. `indices` has, for each axis of `x`, an array of
/// i64 of the result's shape.
pub(super) fn points(w: &mut Writer, x: &Value, indices: &[Value]) -> Value {
    let Some(first) = indices.first() else { return x.clone() };
    let shape = first.ty.shape.clone();
    let rank = shape.len();
    let with_one: Shape = shape.iter().copied().chain([1]).collect();
    let parts: Vec<Value> = indices.iter().map(|i| w.reshape(i, with_one.clone())).collect();
    let indices = w.concatenate(&parts.iter().collect::<Vec<_>>(), rank);
    let indices = sharding::whole_positions(w, &indices);
    let axes = list(0..x.ty.shape.len());
    let numbers = format!(
        "#stablehlo.gather<collapsed_slice_dims = {axes}, start_index_map = {axes}, index_vector_dim = {rank}>"
    );
    let sizes = integers(x.ty.shape.iter().map(|_| 1));
    let attributes = format!(
        "{{dimension_numbers = {numbers}, indices_are_sorted = false, slice_sizes = {sizes}}}"
    );
    let ty = ArrayType::new(x.ty.dtype, shape);
    w.generic("stablehlo.gather", &[x, &indices], &attributes, ty)
}
