//! `permute{permutation}`: reorders the axes. (Other systems call this `transpose`, but here that word means the
//! transpose of a linear map.)
//!
//! Axis `a` of the result is axis `permutation[a]` of the operand: for `x: f64[2,3,5]`,
//! `permute{permutation=[2,0,1]} x` is a `f64[5,2,3]`. A compiled program copies nothing for it: readers of the
//! result index the operand with permuted indices.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Shape, Type};
use crate::prim::rules::view::one_per_axis;
use crate::prim::{
    AxisMap, Broadcast, Cotangents, Doc, Equality, Exactness, Family, Movement, Op, Reshape,
    Rewrite, Sample, Scalar, Site, Term, View, When,
};
use crate::tensor::Tensor;

/// A permutation of the axes of an array. Its text is `permute{permutation}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Permute {
    /// For each axis of the result, the axis of the operand from which it comes.
    pub permutation: Vec<usize>,
}

notation!(Permute = "permute" { permutation });

impl Permute {
    /// Emits `x` with permuted axes, or returns `x` if the permutation is the identity.
    pub(crate) fn apply(&self, b: &Builder<'_>, x: Atom) -> Atom {
        if self.is_identity() { x } else { b.emit1(self.clone(), &[x]) }
    }

    /// Returns the permute with the inverse permutation.
    pub(crate) fn inverse(&self) -> Permute {
        let mut permutation = vec![0; self.permutation.len()];
        for (to, from) in self.permutation.iter().enumerate() {
            permutation[*from] = to;
        }
        Permute { permutation }
    }

    fn shape(&self, x: &[usize]) -> Shape {
        self.permutation.iter().map(|axis| x[*axis]).collect()
    }

    fn is_identity(&self) -> bool {
        self.permutation.iter().enumerate().all(|(to, from)| to == *from)
    }

    /// Returns whether only axes of extent 1 move, so that the row-major order of the elements is unchanged.
    fn keeps_order(&self, x: &[usize]) -> bool {
        let long: Vec<usize> = self.permutation.iter().copied().filter(|a| x[*a] != 1).collect();
        long.is_sorted()
    }
}

impl Movement for Permute {
    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Movement,
            name: "permute{permutation}".into(),
            math: "y[o] = x[i] with i[permutation[a]] = o[a]".into(),
            types: "any array; every axis once".into(),
            derivative: "∂x: permute of t; its transpose is the inverse permutation".into(),
            edges: String::new(),
        }]
    }

    fn result(&self, x: &ArrayType) -> Result<Shape> {
        one_per_axis("permute", "permutation", self.permutation.len(), x)?;
        let mut seen = vec![false; x.shape.len()];
        for axis in &self.permutation {
            match seen.get_mut(*axis) {
                Some(seen) if !*seen => *seen = true,
                _ => {
                    return Err(Problem::new(
                        Kind::Shape,
                        format!("{:?} does not permute the axes of {x}", self.permutation),
                        "name every axis of the operand once",
                    ));
                }
            }
        }
        Ok(self.shape(&x.shape))
    }

    /// Returns the index map: result index `o` reads operand index `v(o)`, with `v(o)[permutation[a]] = o[a]`.
    fn view(&self, _: &Shape) -> View {
        View::Axes(self.inverse().permutation.into_iter().map(AxisMap::same).collect())
    }

    fn adjoint(&self, b: &Builder<'_>, _: &ArrayType, ct: Atom, into: &mut Cotangents) {
        into.add(b, 0, b.emit1(self.inverse(), &[ct]));
    }

    fn batched(&self, _: usize) -> Permute {
        let inner = self.permutation.iter().map(|axis| axis + 1);
        Permute { permutation: std::iter::once(0).chain(inner).collect() }
    }

    fn rewrites() -> Vec<Rewrite> {
        let compose = |name, rule, why| Rewrite::exact(name, Equality::Compose(rule), why);
        vec![
            Rewrite::exact(
                "permute-nothing",
                Equality::Identity(|op, _| matches!(op, Op::Permute(p) if p.is_identity())),
                "every axis stays in its place",
            ),
            compose(
                "permute-permute",
                |outer, inner, _| {
                    let (Op::Permute(outer), Op::Permute(inner)) = (outer, inner) else {
                        return None;
                    };
                    let through = outer.permutation.iter().map(|a| inner.permutation[*a]);
                    let both = Permute { permutation: through.collect() };
                    Some(if both.is_identity() { vec![] } else { vec![both.into()] })
                },
                "one view instead of two",
            ),
            compose(
                "neg-permute",
                |outer, inner, _| match (outer, inner) {
                    (Op::Scalar(Scalar::Neg), Op::Permute(_)) => {
                        Some(vec![outer.clone(), inner.clone()])
                    }
                    _ => None,
                },
                "the negation may merge with another equation: a constant factor, a difference",
            ),
            compose(
                "permute-broadcast",
                |outer, inner, _| {
                    let (Op::Permute(outer), Op::Broadcast(inner)) = (outer, inner) else {
                        return None;
                    };
                    Some(permute_of_broadcast(outer, inner))
                },
                "permute the smaller array, or nothing",
            ),
            compose(
                "permute-reshape",
                |outer, inner, _| {
                    let (Op::Permute(outer), Op::Reshape(inner)) = (outer, inner) else {
                        return None;
                    };
                    let shape = outer.shape(&inner.shape);
                    outer.keeps_order(&inner.shape).then(|| vec![Reshape { shape }.into()])
                },
                "moving axes of extent 1 is reshaping",
            ),
            compose(
                "reshape-permute",
                |outer, inner, x| {
                    let (Op::Reshape(_), Op::Permute(inner), Type::Array(x)) = (outer, inner, x)
                    else {
                        return None;
                    };
                    inner.keeps_order(&x.shape).then(|| vec![outer.clone()])
                },
                "moving axes of extent 1 is reshaping",
            ),
            Rewrite {
                name: "permute-shift",
                rule: Equality::Site {
                    outer: |op| matches!(op, Op::Permute(_)),
                    inner: |op| matches!(op, Op::Scalar(Scalar::Add | Scalar::Sub)),
                    equal: before_shift,
                },
                when: When::Float,
                // The rule is exact, but marked as a relaxed rule, because only sums that other relaxed rules produce
                // become simpler by it.
                exactness: Exactness::Reassociates,
                why: "a permuted product is a product with exchanged operands, a permuted broadcast is a broadcast",
            },
        ]
    }

    fn samples() -> Vec<Sample> {
        let op = |permutation: &[usize]| Permute { permutation: permutation.to_vec() };
        let m = Tensor::from([[1.5, -2.0, 0.25], [3.0, 4.0, -1.0]]);
        let mut samples = vec![
            Sample::smooth(op(&[1, 0]), vec![m.clone()]),
            Sample::smooth(op(&[0, 1]), vec![m.clone()]),
            Sample::smooth(op(&[]), vec![Tensor::from(2.5)]),
            Sample::edge(op(&[1, 0]), vec![Tensor::from([[1i32, 2], [3, 4], [5, 6]])]),
            Sample::edge(op(&[1, 0]), vec![Tensor::from([[true], [false]])]),
        ];
        if let (Ok(x), Ok(empty)) = (m.reshape(&[3, 1, 2]), Tensor::new::<f64>(&[2, 0], vec![])) {
            samples.push(Sample::smooth(op(&[2, 0, 1]), vec![x]));
            samples.push(Sample::edge(op(&[1, 0]), vec![empty]));
        }
        samples
    }
}

/// Emits `x` with axis `from` moved to position `to`; the other axes keep their order.
pub(crate) fn move_axis(b: &Builder<'_>, x: Atom, from: usize, to: usize) -> Atom {
    let mut permutation: Vec<usize> = (0..b.shape_of(x).len()).collect();
    let axis = permutation.remove(from);
    permutation.insert(to, axis);
    Permute { permutation }.apply(b, x)
}

/// Returns `permute(broadcast x)` as `broadcast(permute x)`: the axes of `x` are brought to the order in which
/// they appear in the result.
fn permute_of_broadcast(outer: &Permute, inner: &Broadcast) -> Vec<Op> {
    let place = outer.inverse().permutation;
    let mut placed: Vec<(usize, usize)> =
        inner.dims.iter().enumerate().map(|(axis, d)| (place[*d], axis)).collect();
    placed.sort_unstable();
    let before = Permute { permutation: placed.iter().map(|(_, axis)| *axis).collect() };
    let shape = outer.shape(&inner.shape);
    let after = Broadcast { shape, dims: placed.iter().map(|(place, _)| *place).collect() };
    let mut ops: Vec<Op> = Vec::new();
    if !before.is_identity() {
        ops.push(before.into());
    }
    ops.push(after.into());
    ops
}

/// Rewrites `permute(x + y)` to `permute x + permute y`, also for differences, if `x` or `y` is a broadcast.
fn before_shift(site: &Site<'_>) -> Option<Term> {
    let definition = site.operands[0].definition.as_ref()?;
    let arrays = definition.operands.iter().all(|(_, literal)| literal.is_none());
    let operand = |i: usize| Term::Apply(site.op.clone(), vec![Term::Inner(0, i)]);
    (arrays && definition.repeated.contains(&true))
        .then(|| Term::Apply(definition.op.clone(), vec![operand(0), operand(1)]))
}
