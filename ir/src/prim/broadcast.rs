//! `broadcast{shape, dims}`: repeats an array along new axes.
//!
//! Axis `i` of the operand becomes axis `dims[i]` of the result (ascending); it has the extent of
//! that axis, or extent 1, which is stretched. All other axes are new. Source: StableHLO's
//! `broadcast_in_dim`.

use super::{
    Arg, Attr, Attributes, AxisMap, Batched, Cotangents, Discharge, Doc, Dual, Effects, Linearity,
    Lowering, Operand, Piece, Primitive, Prune, Reduce, Reducer, Regions, Reshape, Rewrite, Rule,
    RuleCx, Sample, Types, When, elementwise,
};
use crate::function::Atom;
use crate::module::Module;
use crate::prim::rewrite::Exactness;
use crate::problem::{Kind, Problem};
use crate::tensor::Tensor;
use crate::types::{Shape, Type};

/// `broadcast{shape, dims}`
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Broadcast {
    /// The result's extents.
    pub shape: Shape,
    /// For each axis of the operand, its place in the result; ascending.
    pub dims: Vec<usize>,
}

impl Broadcast {
    /// Axes of the result along which the operand is repeated.
    fn repeated(&self, operand: &[usize]) -> Vec<usize> {
        let stretched = |axis: &usize| match self.dims.iter().position(|d| d == axis) {
            None => true,
            Some(i) => operand[i] != self.shape[*axis],
        };
        (0..self.shape.len()).filter(stretched).collect()
    }

    fn axes(&self, operand: &[usize]) -> Vec<AxisMap> {
        let map = |(i, d): (usize, &usize)| {
            if operand[i] == self.shape[*d] { AxisMap::same(*d) } else { AxisMap::zero() }
        };
        self.dims.iter().enumerate().map(map).collect()
    }
}

impl Primitive for Broadcast {
    fn docs() -> Vec<Doc> {
        vec![Doc {
            name: "broadcast{shape, dims}".into(),
            math: "y[o] = x[o[dims[0]], o[dims[1]], ..], extents of 1 stretched".into(),
            types: "any array; dims ascending".into(),
            derivative: "∂x: broadcast of t; its transpose sums over the repeated axes".into(),
            edges: String::new(),
        }]
    }

    fn name(&self) -> &'static str {
        "broadcast"
    }

    fn attributes(&self) -> Vec<(&'static str, Attr)> {
        vec![("shape", Attr::sizes(&self.shape)), ("dims", Attr::sizes(&self.dims))]
    }

    fn parse(name: &str, attributes: &mut Attributes) -> Option<Result<Broadcast, Problem>> {
        (name == "broadcast").then(|| {
            let shape = attributes.sizes("shape")?.into();
            Ok(Broadcast { shape, dims: attributes.sizes("dims")? })
        })
    }

    fn outputs(&self, _: &Module) -> usize {
        1
    }

    fn infer(&self, _: &Module, operands: &[Operand<'_>]) -> Result<Types, Problem> {
        let [Operand { ty: Type::Array(x), .. }] = operands else {
            return Err(Problem::new(Kind::Arguments, "`broadcast` takes one array", ""));
        };
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
                "each axis must have the extent of its place, or 1",
            ));
        }
        Ok(elementwise::one_type(x.dtype, self.shape.clone()))
    }

    fn eval(&self, _: &Module, operands: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
        let x = &operands[0];
        let piece = Piece { operand: 0, axes: self.axes(x.shape()) };
        Ok(vec![super::lower::eval_view(operands, &[piece], None, &self.shape)])
    }

    fn jvp(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        Ok(super::rules::linear_jvp(cx, self.clone(), x, dx))
    }

    fn is_linear(&self, _: &Module, _: &[Linearity]) -> bool {
        true
    }

    fn transpose(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Arg],
        ct: &[Option<Atom>],
        into: &mut Cotangents,
    ) -> Result<(), Problem> {
        let ([Some(ct)], [Arg::Linear(Type::Array(x))]) = (ct, x) else { return Ok(()) };
        let axes = self.repeated(&x.shape);
        let mut back = *ct;
        if !axes.is_empty() {
            back = cx.b.emit1(Reduce { reducer: Reducer::Sum, axes }, &[back]);
        }
        if cx.b.shape_of(back) != x.shape {
            back = cx.b.emit1(Reshape { shape: x.shape.clone() }, &[back]);
        }
        into.add(cx.b, 0, back);
        Ok(())
    }

    fn batch(
        &self,
        cx: &mut RuleCx<'_, '_>,
        size: usize,
        x: &[Atom],
        _: &[bool],
    ) -> Result<Batched, Problem> {
        let dims = std::iter::once(0).chain(self.dims.iter().map(|d| d + 1)).collect();
        let op = Broadcast { shape: self.shape.with_leading(size), dims };
        Ok(Batched::one(cx.b.emit1(op, x)))
    }

    fn discharge(&self) -> Discharge {
        Discharge::Stateless
    }

    fn prune(&self, _: &mut dyn Regions, _: &mut Module, _: &[bool]) -> Result<Prune, Problem> {
        Ok(Prune::Whole)
    }

    fn lower(&self, _: &Module, operands: &[Operand<'_>]) -> Lowering {
        let axes = operands[0].ty.as_array().map_or(Vec::new(), |x| self.axes(&x.shape));
        Lowering::View { pieces: vec![Piece { operand: 0, axes }], fill: None }
    }

    fn effects(&self, _: &Module) -> Effects {
        Effects::Pure
    }

    fn rewrites() -> Vec<Rewrite> {
        vec![
            Rewrite {
                name: "broadcast-nothing",
                rule: Rule::Identity(
                    |op, x| matches!((op, x), (super::Op::Broadcast(b), Type::Array(x)) if b.shape == x.shape),
                ),
                when: When::Always,
                exactness: Exactness::Exact,
                why: "broadcasting to the same shape",
            },
            Rewrite {
                name: "broadcast-broadcast",
                rule: Rule::Compose(|outer, inner, _| match (outer, inner) {
                    (super::Op::Broadcast(o), super::Op::Broadcast(i)) => {
                        let dims = i.dims.iter().map(|d| o.dims[*d]).collect();
                        Some(vec![Broadcast { shape: o.shape.clone(), dims }.into()])
                    }
                    _ => None,
                }),
                when: When::Always,
                exactness: Exactness::Exact,
                why: "one view instead of two",
            },
        ]
    }

    fn samples(_: &mut Module) -> Vec<Sample> {
        let op = |shape: &[usize], dims: &[usize]| Broadcast {
            shape: shape.into(),
            dims: dims.to_vec(),
        };
        vec![
            Sample::smooth(op(&[3], &[0]), vec![Tensor::from([1.0, 2.0, 3.0])]),
            Sample::smooth(op(&[2, 3], &[1]), vec![Tensor::from([1.0, 2.0, 3.0])]),
            Sample::smooth(op(&[3, 2], &[0]), vec![Tensor::from([1.0, 2.0, 3.0])]),
            Sample::smooth(op(&[4], &[]), vec![Tensor::from(2.5)]),
            Sample::smooth(op(&[2, 3, 2], &[1, 2]), vec![Tensor::from([[1.0], [2.0], [3.0]])]),
            Sample::edge(op(&[0, 3], &[1]), vec![Tensor::from([1i64, 2, 3])]),
            Sample::edge(op(&[2, 2], &[1]), vec![Tensor::from([true, false])]),
        ]
    }
}
