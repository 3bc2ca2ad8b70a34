//! `diagonal{axes}`: the elements whose indices along two axes are equal.

use super::permute::move_axis;
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype, Shape};
use crate::prim::{
    Accumulator, AxisMap, Bounds, Combine, Cotangents, Doc, Equality, Family, Iota, Movement, Op,
    Rewrite, Sample, Scatter, View, elementwise,
};
use crate::tensor::Tensor;

/// The elements whose indices along two axes are equal. Its text is `diagonal{axes}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Diagonal {
    /// The two axes, ascending: the first one becomes the diagonal, the second one is removed.
    pub axes: Vec<usize>,
}

notation!(Diagonal = "diagonal" { axes });

impl Diagonal {
    /// Returns the two axes; `None` if the attribute does not list exactly two.
    fn ends(&self) -> Option<(usize, usize)> {
        match *self.axes {
            [i, j] => Some((i, j)),
            _ => None,
        }
    }
}

impl Movement for Diagonal {
    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Movement,
            name: "diagonal{axes=[i, j]}".into(),
            math: "y[.., k, ..] = x[.., k, .., k, ..]".into(),
            types: "any array; axis i gets the smaller of both extents, axis j is removed".into(),
            derivative: "∂x: diagonal of t; its transpose is scatter_add".into(),
            edges: String::new(),
        }]
    }

    fn result(&self, x: &ArrayType) -> Result<Shape> {
        let mut shape = x.shape.to_vec();
        match self.ends() {
            Some((i, j)) if i < j && j < shape.len() => shape[i] = shape[i].min(shape.remove(j)),
            _ => {
                return Err(Problem::new(
                    Kind::Shape,
                    format!("`diagonal` of axes {:?} of {x}", self.axes),
                    "name two axes, ascending and smaller than the rank",
                ));
            }
        }
        Ok(shape.into())
    }

    /// Returns the index map. For `axes=[i, j]`, the index of the operand is the index `o` of the result with a copy of
    /// `o[i]` inserted at position j.
    fn view(&self, x: &Shape) -> View {
        let map = |axis: usize| match self.ends() {
            Some((i, j)) if axis == j => AxisMap::same(i),
            Some((_, j)) if axis > j => AxisMap::same(axis - 1),
            _ => AxisMap::same(axis),
        };
        View::Axes((0..x.len()).map(map).collect())
    }

    /// Adds `ct` onto the diagonal of the operand's cotangent: `x_ct[.., k, .., k, ..] += ct[.., k, ..]`; other
    /// elements get nothing.
    fn adjoint(&self, b: &Builder<'_>, x: &ArrayType, ct: Atom, into: &mut Cotangents) {
        let Some((i, _)) = self.ends() else { return };
        let Accumulator { atom: total, negated } =
            into.total[0].unwrap_or_else(|| elementwise::zeros(b, x).into());
        let ct = Accumulator { atom: ct, negated: negated != into.negated }.apply_sign(b);
        let ct = move_axis(b, ct, i, 0);
        let shape = Shape::from([b.shape_of(ct)[0], 2]);
        let places = b.emit1(Iota { shape, axis: 0, dtype: Dtype::I64 }, &[]);
        let (combine, bounds) = (Combine::Add, Bounds::Clip);
        let add = Scatter { combine, batch: 0, axes: self.axes.clone(), bounds };
        let atom = b.emit1(add, &[total, places, ct]);
        into.total[0] = Some(Accumulator { atom, negated });
    }

    fn batched(&self, _: usize) -> Diagonal {
        Diagonal { axes: self.axes.iter().map(|axis| axis + 1).collect() }
    }

    fn rewrites() -> Vec<Rewrite> {
        vec![Rewrite::exact(
            "diagonal-permute",
            Equality::Compose(|outer, inner, _| match (outer, inner) {
                (Op::Diagonal(d), Op::Permute(p)) => {
                    let rank = p.permutation.len();
                    let (i, j) = d.ends()?;
                    let swapped = |axis: usize| match axis {
                        _ if axis == i => j,
                        _ if axis == j => i,
                        _ => axis,
                    };
                    let swaps = (0..rank).all(|axis| p.permutation[axis] == swapped(axis));
                    swaps.then(|| vec![outer.clone()])
                }
                _ => None,
            }),
            "a matrix and its transpose have the same diagonal",
        )]
    }

    fn samples() -> Vec<Sample> {
        let op = |i: usize, j: usize| Diagonal { axes: vec![i, j] };
        let m = Tensor::from([[1.5, -2.0, 0.25], [3.0, 4.0, -1.0]]);
        let cube = Tensor::from([
            [[1.5, -2.0], [0.25, 3.0], [4.0, -1.0]],
            [[0.5, 2.5], [-0.75, 1.0], [-3.0, 6.0]],
        ]);
        let one = vec![
            Sample::smooth(op(0, 1), vec![m]),
            Sample::smooth(op(0, 1), vec![Tensor::from([[2.0, 1.0], [0.5, -3.0], [1.0, 7.0]])]),
            Sample::smooth(op(0, 1), vec![Tensor::from([[2.5]])]),
            Sample::edge(op(1, 2), vec![Tensor::from([[[0.0; 2]; 0]; 3])]),
            Sample::edge(op(0, 1), vec![Tensor::from([[1u32, 2], [3, 4]])]),
            Sample::edge(op(0, 1), vec![Tensor::from([[true, false], [true, false]])]),
            Sample::edge(op(0, 1), vec![Tensor::from([[-0.0, f64::NAN], [f64::NAN, -0.0]])]),
        ];
        let of_cube = |(i, j)| Sample::smooth(op(i, j), vec![cube.clone()]);
        one.into_iter().chain([(0, 1), (0, 2), (1, 2)].map(of_cube)).collect()
    }
}
