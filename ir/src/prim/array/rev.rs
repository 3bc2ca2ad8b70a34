//! `rev{axes}`: reverses the elements along some axes.

use crate::fault::{Fault, planted};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Shape, Type};
use crate::prim::{
    AxisMap, Cotangents, Doc, Equality, Family, Movement, Op, Rewrite, Sample, View,
};
use crate::tensor::Tensor;

/// A reversal of the elements along some axes. Its text is `rev{axes}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Rev {
    /// The axes along which elements are reversed; ascending, without repetition.
    pub axes: Vec<usize>,
}

notation!(Rev = "rev" { axes });

impl Movement for Rev {
    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Movement,
            name: "rev{axes}".into(),
            math: "y[o] = x[i], i = extent - 1 - o along the axes, i = o elsewhere".into(),
            types: "any array".into(),
            derivative: "∂x: rev of t, which is its own transpose".into(),
            edges: String::new(),
        }]
    }

    fn result(&self, x: &ArrayType) -> Result<Shape> {
        let ascending = self.axes.windows(2).all(|w| w[0] < w[1]);
        if !ascending || self.axes.last().is_some_and(|a| *a >= x.shape.len()) {
            return Err(Problem::new(
                Kind::Shape,
                format!("`rev` along axes {:?} of {x}", self.axes),
                "axes are ascending and smaller than the rank",
            ));
        }
        Ok(x.shape.clone())
    }

    /// Returns the index map: result index `o` reads operand index `extent - 1 - o` along the reversed axes, `o`
    /// along the others.
    fn view(&self, x: &Shape) -> View {
        let map = |(axis, n): (usize, &usize)| match self.axes.binary_search(&axis) {
            // The offset is the last index. For extent 0 it wraps to -1, but then no element is read.
            Ok(_) => AxisMap::scaled(axis, -1, n.wrapping_sub(1) as i64),
            Err(_) => AxisMap::same(axis),
        };
        View::Axes(x.iter().enumerate().map(map).collect())
    }

    fn adjoint(&self, b: &Builder<'_>, _: &ArrayType, ct: Atom, into: &mut Cotangents) {
        into.add(b, 0, b.emit1(self.clone(), &[ct]));
    }

    fn batched(&self, _: usize) -> Rev {
        let before = usize::from(!planted(Fault::BatchRule));
        Rev { axes: self.axes.iter().map(|axis| axis + before).collect() }
    }

    fn rewrites() -> Vec<Rewrite> {
        vec![
            Rewrite::exact(
                "rev-nothing",
                Equality::Identity(|op, x| match (op, x) {
                    (Op::Rev(r), Type::Array(x)) => r.axes.iter().all(|a| x.shape[*a] < 2),
                    _ => false,
                }),
                "axes of at most one element have no order",
            ),
            Rewrite::exact(
                "rev-rev",
                Equality::Compose(|outer, inner, _| match (outer, inner) {
                    (Op::Rev(o), Op::Rev(i)) => {
                        let once = |a: &&usize| o.axes.contains(a) != i.axes.contains(a);
                        let mut axes: Vec<usize> =
                            o.axes.iter().chain(&i.axes).filter(once).copied().collect();
                        axes.sort_unstable();
                        Some(if axes.is_empty() { vec![] } else { vec![Rev { axes }.into()] })
                    }
                    _ => None,
                }),
                "two reversals cancel",
            ),
            Rewrite::exact(
                "rev-broadcast",
                Equality::Compose(|outer, inner, x| match (outer, inner, x) {
                    (Op::Rev(r), Op::Broadcast(b), Type::Array(x)) => {
                        let reversed = |(axis, d): (usize, &usize)| {
                            (r.axes.contains(d) && x.shape[axis] > 1).then_some(axis)
                        };
                        let axes: Vec<usize> =
                            b.dims.iter().enumerate().filter_map(reversed).collect();
                        let before = (!axes.is_empty()).then(|| Rev { axes }.into());
                        Some(before.into_iter().chain([inner.clone()]).collect())
                    }
                    _ => None,
                }),
                "all elements are equal",
            ),
        ]
    }

    fn samples() -> Vec<Sample> {
        let op = |axes: &[usize]| Rev { axes: axes.to_vec() };
        let m = Tensor::from([[1.5, -2.0, 0.25], [3.0, 4.0, -1.0]]);
        vec![
            Sample::smooth(op(&[0]), vec![Tensor::from([1.0, 2.0, 3.0])]),
            Sample::smooth(op(&[1]), vec![m.clone()]),
            Sample::smooth(op(&[0, 1]), vec![m.clone()]),
            Sample::smooth(op(&[]), vec![m]),
            Sample::smooth(op(&[]), vec![Tensor::from(2.5)]),
            Sample::edge(op(&[0]), vec![Tensor::vector::<f64>(&[])]),
            Sample::edge(op(&[0]), vec![Tensor::from([1u32, 2, 3, 4])]),
            Sample::edge(op(&[0]), vec![Tensor::from([true, true, false])]),
        ]
    }
}
