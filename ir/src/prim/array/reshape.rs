//! `reshape{shape}`: the same elements in row-major order under other extents.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Problem, Result};
use crate::lang::types::{ArrayType, Shape, Type};
use crate::prim::{Cotangents, Doc, Equality, Family, Movement, Op, Rewrite, Sample, View};
use crate::tensor::Tensor;

/// The same elements in row-major order under other extents. Its text is `reshape{shape}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Reshape {
    /// The extents of the result; their product is the number of elements.
    pub shape: Shape,
}

notation!(Reshape = "reshape" { shape });

impl Movement for Reshape {
    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Movement,
            name: "reshape{shape}".into(),
            math: "y has the elements of x in row-major order".into(),
            types: "any array; equal numbers of elements".into(),
            derivative: "∂x: reshape of t".into(),
            edges: String::new(),
        }]
    }

    fn result(&self, x: &ArrayType) -> Result<Shape> {
        let (from, to) = (x.shape.checked_elements(), self.shape.checked_elements());
        if from.is_none() || from != to {
            return Err(Problem::reshape(x, &self.shape));
        }
        Ok(self.shape.clone())
    }

    /// Returns the index map: result index `o` reads the operand's element at the same row-major position.
    fn view(&self, _: &Shape) -> View {
        View::RowMajor
    }

    fn adjoint(&self, b: &Builder<'_>, x: &ArrayType, ct: Atom, into: &mut Cotangents) {
        into.add(b, 0, b.emit1(Reshape { shape: x.shape.clone() }, &[ct]));
    }

    fn batched(&self, size: usize) -> Reshape {
        Reshape { shape: self.shape.with_leading(size) }
    }

    fn rewrites() -> Vec<Rewrite> {
        vec![
            Rewrite::exact(
                "reshape-nothing",
                Equality::Identity(
                    |op, x| matches!((op, x), (Op::Reshape(r), Type::Array(x)) if r.shape == x.shape),
                ),
                "reshaping to the same shape",
            ),
            Rewrite::exact(
                "reshape-reshape",
                Equality::Compose(|outer, inner, _| match (outer, inner) {
                    (Op::Reshape(_), Op::Reshape(_)) => Some(vec![outer.clone()]),
                    _ => None,
                }),
                "only the last shape matters",
            ),
            Rewrite::exact(
                "reshape-broadcast",
                Equality::Compose(|outer, inner, x| match (outer, inner, x) {
                    // The number of elements is unchanged, so the broadcast repeats nothing. It preserves the
                    // order of the axes, so it only inserts axes of extent 1, which the reshape can do.
                    (Op::Reshape(_), Op::Broadcast(inner), Type::Array(x)) => {
                        (x.shape.elements() == inner.shape.elements()).then(|| vec![outer.clone()])
                    }
                    _ => None,
                }),
                "a broadcast that repeats nothing is a reshape",
            ),
        ]
    }

    fn samples() -> Vec<Sample> {
        let x = Tensor::from([[1.5, -2.0, 0.25], [3.0, 4.0, -1.0]]);
        vec![
            Sample::smooth(Reshape { shape: [3, 2].into() }, vec![x.clone()]),
            Sample::smooth(Reshape { shape: [6].into() }, vec![x.clone()]),
            Sample::smooth(Reshape { shape: [1, 2, 1, 3].into() }, vec![x]),
            Sample::smooth(Reshape { shape: [1, 1].into() }, vec![Tensor::from(2.0)]),
            Sample::edge(Reshape { shape: [2].into() }, vec![Tensor::from([[1i32], [2]])]),
        ]
    }
}
