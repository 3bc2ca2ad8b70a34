//! `broadcast{shape, dims}`: repeats an array along new axes.
//!
//! Axis `i` of the operand becomes axis `dims[i]` of the result (ascending). The operand's axis has the extent of axis
//! `dims[i]`, or extent 1; an element of an axis of extent 1 is repeated. All other axes of the result are new. Source:
//! StableHLO's `broadcast_in_dim`.

use super::dot::Product;
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Shape, Type};
use crate::prim::{
    AxisMap, Cotangents, Doc, Equality, Family, Movement, Reduce, Reducer, Reshape, Rewrite,
    Sample, Site, Term, View,
};
use crate::tensor::Tensor;

/// A broadcast: repeats an array along new axes and axes of extent 1. Its text is `broadcast{shape, dims}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Broadcast {
    /// The extents of the result.
    pub shape: Shape,
    /// For each axis of the operand, the corresponding axis of the result; ascending.
    pub dims: Vec<usize>,
}

notation!(Broadcast = "broadcast" { shape, dims });

impl Broadcast {
    /// Returns the axes of the result along which the operand is repeated: new axes, and axes on which its extent
    /// is 1.
    fn repeated(&self, operand: &[usize]) -> Vec<usize> {
        let stretched = |axis: &usize| match self.dims.iter().position(|d| d == axis) {
            None => true,
            Some(i) => operand[i] != self.shape[*axis],
        };
        (0..self.shape.len()).filter(stretched).collect()
    }
}

impl Movement for Broadcast {
    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Movement,
            name: "broadcast{shape, dims}".into(),
            math: "y[o] = x[o[dims[0]], o[dims[1]], ..], extents of 1 stretched".into(),
            types: "any array; dims ascending".into(),
            derivative: "∂x: broadcast of t; its transpose sums over the repeated axes".into(),
            edges: String::new(),
        }]
    }

    fn result(&self, x: &ArrayType) -> Result<Shape> {
        let ascending = self.dims.windows(2).all(|w| w[0] < w[1]);
        let fits = |(i, d): (usize, &usize)| {
            self.shape.get(*d).is_some_and(|n| x.shape[i] == *n || x.shape[i] == 1)
        };
        if self.dims.len() != x.shape.len() || !ascending || !self.dims.iter().enumerate().all(fits)
        {
            return Err(Problem::new(
                Kind::Shape,
                format!(
                    "cannot broadcast {x} to {} with axes placed at {:?}",
                    self.shape, self.dims
                ),
                "each axis must have the extent of the axis of the result, or 1",
            ));
        }
        Ok(self.shape.clone())
    }

    /// Returns the index map from a result index `o` to an operand index `v(o)`: `v(o)[i] = o[dims[i]]`, or 0 where
    /// an extent of 1 is repeated.
    fn view(&self, x: &Shape) -> View {
        let map = |(i, d): (usize, &usize)| {
            if x[i] == self.shape[*d] { AxisMap::same(*d) } else { AxisMap::zero() }
        };
        View::Axes(self.dims.iter().enumerate().map(map).collect())
    }

    /// Emits the cotangent of the operand: the sum of `ct` over the axes along which elements are repeated.
    fn adjoint(&self, b: &Builder<'_>, x: &ArrayType, ct: Atom, into: &mut Cotangents) {
        let axes = self.repeated(&x.shape);
        let mut back = ct;
        if !axes.is_empty() {
            // If `ct` is a product that was just emitted, its sum over the axes can be computed as a smaller product.
            // Emit that product, so that the large one is not needed.
            let product = Product::of(b, ct).and_then(|product| product.summed(b, &axes));
            back =
                product.unwrap_or_else(|| b.emit1(Reduce { reducer: Reducer::Sum, axes }, &[ct]));
        }
        if b.shape_of(back) != x.shape {
            back = b.emit1(Reshape { shape: x.shape.clone() }, &[back]);
        }
        into.add(b, 0, back);
    }

    fn batched(&self, size: usize) -> Broadcast {
        let dims = std::iter::once(0).chain(self.dims.iter().map(|d| d + 1)).collect();
        Broadcast { shape: self.shape.with_leading(size), dims }
    }

    fn rewrites() -> Vec<Rewrite> {
        vec![
            Rewrite::exact(
                "broadcast-nothing",
                Equality::Identity(
                    |op, x| matches!((op, x), (crate::prim::Op::Broadcast(b), Type::Array(x)) if b.shape == x.shape),
                ),
                "broadcasting to the same shape",
            ),
            Rewrite::exact(
                "broadcast-broadcast",
                Equality::Compose(|outer, inner, _| match (outer, inner) {
                    (crate::prim::Op::Broadcast(o), crate::prim::Op::Broadcast(i)) => {
                        let dims = i.dims.iter().map(|d| o.dims[*d]).collect();
                        Some(vec![Broadcast { shape: o.shape.clone(), dims }.into()])
                    }
                    _ => None,
                }),
                "one view instead of two",
            ),
            Rewrite::exact(
                "broadcast-reshape",
                Equality::Compose(|outer, inner, x| match (outer, inner, x) {
                    (
                        crate::prim::Op::Broadcast(o),
                        crate::prim::Op::Reshape(i),
                        Type::Array(x),
                    ) => {
                        let places = inserted_ones(&x.shape, &i.shape)?;
                        let dims = places.iter().map(|place| o.dims[*place]).collect();
                        Some(vec![Broadcast { shape: o.shape.clone(), dims }.into()])
                    }
                    _ => None,
                }),
                "a broadcast inserts axes of extent 1 by itself",
            ),
            Rewrite::exact(
                "elementwise-broadcast",
                Equality::Site {
                    outer: crate::prim::Op::is_elementwise,
                    inner: |op| matches!(op, crate::prim::Op::Broadcast(_)),
                    equal: before_broadcast,
                },
                "computed once, then repeated",
            ),
        ]
    }

    fn samples() -> Vec<Sample> {
        let op = |shape: &[usize], dims: &[usize]| Broadcast {
            shape: shape.into(),
            dims: dims.to_vec(),
        };
        vec![
            Sample::smooth(op(&[3], &[0]), vec![Tensor::from([1.0, 2.0, 3.0])]),
            Sample::smooth(
                op(&[1, 2, 1, 3], &[1, 3]),
                vec![Tensor::from([[1.5, -2.0, 0.25], [3.0, 4.0, -1.0]])],
            ),
            Sample::smooth(op(&[2, 3], &[1]), vec![Tensor::from([1.0, 2.0, 3.0])]),
            Sample::smooth(op(&[3, 2], &[0]), vec![Tensor::from([1.0, 2.0, 3.0])]),
            Sample::smooth(op(&[4], &[]), vec![Tensor::from(2.5)]),
            Sample::smooth(op(&[2, 2], &[0, 1]), vec![Tensor::from([[1.0, 2.0], [3.0, 4.0]])]),
            Sample::smooth(op(&[2, 3, 2], &[1, 2]), vec![Tensor::from([[1.0], [2.0], [3.0]])]),
            Sample::smooth(
                op(&[1, 6, 1], &[1]),
                vec![Tensor::from([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])],
            ),
            Sample::edge(op(&[0, 3], &[1]), vec![Tensor::from([1i64, 2, 3])]),
            Sample::edge(op(&[2, 3], &[1]), vec![Tensor::from([1i64, -2, 3])]),
            Sample::edge(op(&[2, 2], &[1]), vec![Tensor::from([true, false])]),
        ]
    }
}

/// Rewrites `f(broadcast x, broadcast y, c)`, for an elementwise `f` and a literal `c`, to `broadcast f(x, y,
/// c)`, if both broadcasts are the same and repeat elements: `f` then runs on fewer elements.
fn before_broadcast(site: &Site<'_>) -> Option<Term> {
    let mut view: Option<(&crate::prim::Op, &Shape)> = None;
    let mut operands = Vec::with_capacity(site.operands.len());
    for (i, o) in site.operands.iter().enumerate() {
        operands.push(match (&o.definition, o.literal) {
            (_, Some(x)) => Term::Literal(x),
            (Some(d), None) => {
                // Do not match a broadcast of a literal, because constant folding replaces such a broadcast by the
                // literal.
                let (Type::Array(x), None) = &d.operands[0] else { return None };
                if *view.get_or_insert((d.op, &x.shape)) != (d.op, &x.shape) {
                    return None;
                }
                Term::Inner(i, 0)
            }
            (None, None) => return None,
        });
    }
    let (op, inner) = view?;
    let repeats = site.ty.as_array()?.shape.elements() > inner.elements();
    repeats.then(|| Term::apply(op.clone(), Term::Apply(site.op.clone(), operands)))
}

/// Returns the index in the shape `to` of each axis of `from`, if `to` is `from` with axes of extent 1 inserted;
/// otherwise `None`.
fn inserted_ones(from: &[usize], to: &[usize]) -> Option<Vec<usize>> {
    let mut places = Vec::with_capacity(from.len());
    for (place, extent) in to.iter().enumerate() {
        if from.get(places.len()) == Some(extent) {
            places.push(place);
        } else if *extent != 1 {
            return None;
        }
    }
    (places.len() == from.len()).then_some(places)
}
