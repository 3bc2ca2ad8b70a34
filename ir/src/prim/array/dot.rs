//! `dot{lhs_batch, rhs_batch, lhs_contract, rhs_contract}`: products of arrays, summed over shared
//! axes.
//!
//! There are three kinds of axes. *Batch* axes are shared by both operands and appear in the result;
//! *contracted* axes are shared and summed over; the others are *free*. The result has the batch axes in the
//! order listed, then the free axes of the left operand, then those of the right operand. A matrix product
//! contracts axis 1 of the left operand with axis 0 of the right one; an outer product contracts nothing.
//!
//! ```text
//! %2: f64[3,5] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} %0, %1
//! ```
//!
//! Source: XLA's `DotGeneral`. With `@` for the product, `d(x @ y) = dx @ y + x @ dy`. The transpose with
//! respect to one operand contracts the cotangent with the other operand over its free axes, so derivatives of
//! dot are dots, up to a permutation of axes.

use super::permute::move_axis;
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype, Shape, Type};
use crate::prim::{
    Arg, ArrayPrimitive, Cotangents, Doc, Effects, Family, Linearity, Lowering, Op, Operand,
    Permute, Rewrite, Sample, Tangent, elementwise,
};
use crate::tensor::{Element, Tensor};

/// A contraction: the product of two arrays, summed over shared axes. Its text is
/// `dot{lhs_batch, rhs_batch, lhs_contract, rhs_contract}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Dot {
    /// The batch axes, as pairs (axis of the left operand, axis of the right operand). The two axes of a pair have the
    /// same index, and the result has one axis for the pair.
    pub batch: Vec<(usize, usize)>,
    /// The contracted axes, as pairs (axis of the left operand, axis of the right operand). The two axes of a pair have
    /// the same index, over which the products are summed.
    pub contract: Vec<(usize, usize)>,
}

notation!(Dot = "dot" { batch(lhs_batch, rhs_batch), contract(lhs_contract, rhs_contract) });

/// One of the two operands of a product.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

impl Side {
    pub(super) fn of(self, pairs: &[(usize, usize)]) -> Vec<usize> {
        let pick = |(l, r): &(usize, usize)| if self == Side::Left { *l } else { *r };
        pairs.iter().map(pick).collect()
    }
}

impl Dot {
    /// Returns the axes of an operand of rank `rank` that are neither batch nor contracted, ascending.
    pub(super) fn free(&self, side: Side, rank: usize) -> Vec<usize> {
        let (batch, contract) = (side.of(&self.batch), side.of(&self.contract));
        (0..rank).filter(|a| !batch.contains(a) && !contract.contains(a)).collect()
    }

    /// Returns, for each axis of the result, the operand axis or batch pair that it comes from, for operands of
    /// these ranks.
    pub(super) fn axes(&self, [left, right]: [usize; 2]) -> Vec<AxisOf> {
        let batch = (0..self.batch.len()).map(AxisOf::Batch);
        let left = self.free(Side::Left, left).into_iter().map(AxisOf::Left);
        batch
            .chain(left)
            .chain(self.free(Side::Right, right).into_iter().map(AxisOf::Right))
            .collect()
    }

    /// Returns the attributes of the same product with its operands exchanged; the free axes of the result change
    /// their order.
    pub(super) fn swapped(&self) -> Dot {
        let swap = |pairs: &[(usize, usize)]| pairs.iter().map(|(l, r)| (*r, *l)).collect();
        Dot { batch: swap(&self.batch), contract: swap(&self.contract) }
    }

    /// Emits the cotangent of the left operand from the right operand and the cotangent `ct` of the result. The axes of
    /// `ct` from `others` on are the right operand's free axes.
    ///
    /// The cotangent is contracted with the right operand over these free axes. This gives [batch, left free, right
    /// contracted], the axes of the left operand in another order.
    fn left_cotangent(
        &self,
        b: &Builder<'_>,
        rank: usize,
        ct: Atom,
        right: Atom,
        others: usize,
    ) -> Atom {
        let right_free = self.free(Side::Right, b.shape_of(right).len());
        let back = Dot {
            batch: Side::Right.of(&self.batch).into_iter().enumerate().collect(),
            contract: (others..).zip(right_free).collect(),
        };
        // The product lists the right operand's contracted axes in ascending order, so sort the pairs by them.
        let mut contracted = self.contract.clone();
        contracted.sort_by_key(|(_, right)| *right);
        let mut came = Side::Left.of(&self.batch);
        came.extend(self.free(Side::Left, rank));
        came.extend(Side::Left.of(&contracted));
        let place = |axis: usize| came.iter().position(|c| *c == axis);
        let permutation = (0..rank).filter_map(place).collect();
        Permute { permutation }.apply(b, b.emit1(back, &[ct, right]))
    }
}

/// The origin of an axis of a product: a batch pair or a free axis of one operand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AxisOf {
    /// The batch pair with this index in `Dot::batch`.
    Batch(usize),
    /// A free axis of the left operand, by its index among all axes of the operand.
    Left(usize),
    /// A free axis of the right operand, by its index among all axes of the operand.
    Right(usize),
}

/// A value of the builder that is defined as a product, possibly followed by permutations of its axes.
pub(super) struct Product {
    pub(super) dot: Dot,
    pub(super) operands: [Atom; 2],
    /// For each axis of the value, its origin in the product's operands.
    pub(super) axes: Vec<AxisOf>,
}

impl Product {
    /// Returns `x` as a product with possibly permuted axes; `None` unless the builder emitted that product
    /// recently.
    pub(super) fn of(b: &Builder<'_>, x: Atom) -> Option<Product> {
        let (mut order, mut at): (Vec<usize>, Atom) = ((0..b.shape_of(x).len()).collect(), x);
        loop {
            let e = b.recent_definition(at)?;
            match (&e.op, &e.operands[..]) {
                (Op::Permute(p), [from]) => {
                    order = order.iter().map(|axis| p.permutation[*axis]).collect();
                    at = *from;
                }
                (Op::Dot(dot), [left, right]) => {
                    let own = dot.axes([*left, *right].map(|x| b.shape_of(x).len()));
                    let axes = order.iter().map(|axis| own[*axis]).collect();
                    return Some(Product { dot: dot.clone(), operands: [*left, *right], axes });
                }
                _ => return None,
            }
        }
    }

    /// Returns the same value as a product with the operands exchanged; the value's axes keep their order.
    pub(super) fn turned(self) -> Product {
        let turned = |axis: AxisOf| match axis {
            AxisOf::Batch(i) => AxisOf::Batch(i),
            AxisOf::Left(a) => AxisOf::Right(a),
            AxisOf::Right(a) => AxisOf::Left(a),
        };
        let [left, right] = self.operands;
        Product {
            dot: self.dot.swapped(),
            operands: [right, left],
            axes: self.axes.into_iter().map(turned).collect(),
        }
    }

    /// Emits a product and permutes its axes so that they have the origins `axes`, in this order; `None` if one
    /// is missing.
    pub(super) fn emit(
        b: &Builder<'_>,
        dot: Dot,
        operands: [Atom; 2],
        axes: &[AxisOf],
    ) -> Option<Atom> {
        let own = dot.axes(operands.map(|x| b.shape_of(x).len()));
        let place = |axis: &AxisOf| own.iter().position(|o| o == axis);
        let permutation = axes.iter().map(place).collect::<Option<Vec<usize>>>()?;
        Some(Permute { permutation }.apply(b, b.emit1(dot, &operands)))
    }

    /// Emits the sum of the value over its axes `over`, if all of these are batch axes: they become contracted
    /// axes. Otherwise returns `None`.
    pub(super) fn summed(self, b: &Builder<'_>, over: &[usize]) -> Option<Atom> {
        let Product { dot, operands, axes } = self;
        let mut gone = Vec::new();
        for axis in over {
            let AxisOf::Batch(i) = axes[*axis] else { return None };
            gone.push(i);
        }
        let pairs = |on: bool| {
            let which = dot.batch.iter().enumerate().filter(|(i, _)| gone.contains(i) == on);
            which.map(|(_, pair)| *pair).collect::<Vec<_>>()
        };
        let (batch, mut contract) = (pairs(false), dot.contract.clone());
        contract.extend(pairs(true));
        let now = |axis: AxisOf| match axis {
            AxisOf::Batch(i) => AxisOf::Batch(i - (0..i).filter(|j| gone.contains(j)).count()),
            other => other,
        };
        let kept = axes.iter().enumerate().filter(|(i, _)| !over.contains(i));
        let kept: Vec<AxisOf> = kept.map(|(_, axis)| now(*axis)).collect();
        Product::emit(b, Dot { batch, contract }, operands, &kept)
    }
}

impl ArrayPrimitive for Dot {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Reduction,
            name: "dot{lhs_batch, rhs_batch, lhs_contract, rhs_contract}".into(),
            math: "z[b.., m.., n..] = Σ_k x[b.., m.., k..] y[b.., k.., n..]".into(),
            types: "two arrays of numbers of one dtype".into(),
            derivative: "∂x: dot(t, y); ∂y: dot(x, t); their transposes contract the cotangent \
                         with the other operand"
                .into(),
            edges: "terms are summed in ascending order of the contracted indices, starting at 0; \
                    a sum of no terms is 0; integers wrap"
                .into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let [Operand { ty: Type::Array(x), .. }, Operand { ty: Type::Array(y), .. }] = operands
        else {
            return Err(Problem::new(Kind::Arguments, "`dot` takes two arrays", ""));
        };
        if x.dtype != y.dtype || x.dtype == Dtype::Bool {
            return Err(Problem::new(
                Kind::Dtype,
                format!("`dot` needs two arrays of numbers of one dtype, got {x} and {y}"),
                "convert one of them",
            ));
        }
        for (side, name, ty) in [(Side::Left, "left", x), (Side::Right, "right", y)] {
            let mut named = side.of(&self.batch);
            named.extend(side.of(&self.contract));
            let twice = named.iter().enumerate().any(|(i, a)| named[..i].contains(a));
            if twice || named.iter().any(|a| *a >= ty.shape.len()) {
                return Err(Problem::new(
                    Kind::Shape,
                    format!("`dot` names axes {named:?} of its {name} operand {ty}"),
                    "an axis is smaller than the rank and is named once, as batch or as contracted",
                ));
            }
        }
        for (sort, pairs) in [("batch", &self.batch), ("contracted", &self.contract)] {
            if let Some((l, r)) = pairs.iter().find(|(l, r)| x.shape[*l] != y.shape[*r]) {
                return Err(Problem::new(
                    Kind::Shape,
                    format!(
                        "`dot` of {x} and {y}: {sort} axes {l} and {r} have extents {} and {}",
                        x.shape[*l], y.shape[*r]
                    ),
                    "paired axes have equal extents; transpose an operand, or pair other axes",
                ));
            }
        }
        let batch = self.batch.iter().map(|(l, _)| x.shape[*l]);
        let left = self.free(Side::Left, x.shape.len()).into_iter().map(|a| x.shape[a]);
        let right = self.free(Side::Right, y.shape.len()).into_iter().map(|a| y.shape[a]);
        Ok(ArrayType { dtype: x.dtype, shape: batch.chain(left).chain(right).collect() })
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        let (x, y) = (&operands[0], &operands[1]);
        match x.dtype() {
            Dtype::F64 => self.product::<f64>(x, y),
            Dtype::F32 => self.product::<f32>(x, y),
            Dtype::I32 => self.product::<i32>(x, y),
            Dtype::I64 => self.product::<i64>(x, y),
            Dtype::U32 => self.product::<u32>(x, y),
            Dtype::U64 => self.product::<u64>(x, y),
            Dtype::Bool => Err(Problem::internal("a dot of bools")),
        }
    }

    fn jvp(&self, b: &Builder<'_>, x: &[Atom], _: Atom, dx: &[Tangent]) -> Result<Tangent> {
        let left = dx[0].map(|dx| b.emit1(self.clone(), &[dx, x[1]]));
        let right = dx[1].map(|dy| b.emit1(self.clone(), &[x[0], dy]));
        Ok(elementwise::add_tangents(b, left, right))
    }

    fn is_linear(&self, operands: &[Linearity]) -> bool {
        operands.iter().filter(|o| **o == Linearity::Linear).count() == 1
    }

    fn transpose(&self, b: &Builder<'_>, x: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        let batch = self.batch.len();
        let ct = into.apply_sign(b, ct);
        match x {
            [Arg::Linear(Type::Array(left)), Arg::Known(right)] => {
                let rank = left.shape.len();
                let others = batch + self.free(Side::Left, rank).len();
                into.add(b, 0, self.left_cotangent(b, rank, ct, *right, others));
            }
            [Arg::Known(left), Arg::Linear(Type::Array(right))] => {
                let rank = right.shape.len();
                let back = self.swapped().left_cotangent(b, rank, ct, *left, batch);
                into.add(b, 1, back);
            }
            _ => return Err(Problem::internal("`dot` is linear in one operand at a time")),
        }
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, _: usize, x: &[Atom], batched: &[bool]) -> Result<Atom> {
        let (left, right) = (usize::from(batched[0]), usize::from(batched[1]));
        let shift = |pairs: &[(usize, usize)]| -> Vec<(usize, usize)> {
            pairs.iter().map(|(l, r)| (l + left, r + right)).collect()
        };
        let mut op = Dot { batch: shift(&self.batch), contract: shift(&self.contract) };
        if batched[0] && batched[1] {
            op.batch.insert(0, (0, 0));
            return Ok(b.emit1(op, x));
        }
        // The batch axis becomes a free axis of the batched operand: the first of that operand's free axes in the
        // result.
        let mut operands = [x[0], x[1]];
        let right_free = self.free(Side::Right, b.shape_of(x[1]).len() - right).len();
        let mut at = self.batch.len();
        if batched[1] && right_free == 0 {
            // Exchange the operands: then no other free axis precedes the batch axis in the result.
            op = op.swapped();
            operands.reverse();
        } else if batched[1] {
            at += self.free(Side::Left, b.shape_of(x[0]).len()).len();
        }
        Ok(move_axis(b, b.emit1(op, &operands), at, 0))
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        Lowering::Contract { batch: self.batch.clone(), contract: self.contract.clone() }
    }

    fn rewrites() -> Vec<Rewrite> {
        super::dot_rewrites::rows()
    }

    fn samples() -> Vec<Sample> {
        let dot = |batch: &[(usize, usize)], contract: &[(usize, usize)]| Dot {
            batch: batch.to_vec(),
            contract: contract.to_vec(),
        };
        let vector = Tensor::from([1.5, -2.0, 0.25]);
        let matrix = Tensor::from([[0.5, -1.0, 2.0], [3.0, 0.75, -0.25]]);
        let cube = cube::<2, 3, 4>();
        let ints = Tensor::from([[1i64, -2, 3], [4, 5, i64::MAX]]);
        let none = Tensor::from([[0.0; 0]; 2]);
        vec![
            // Sample the products x · y, A x, x A, A Aᵀ, and the outer product A ⊗ x, of vectors x, y and a matrix A.
            Sample::smooth(dot(&[], &[(0, 0)]), vec![vector.clone(), vector.clone()]),
            Sample::smooth(dot(&[], &[(1, 0)]), vec![matrix.clone(), vector.clone()]),
            Sample::smooth(dot(&[], &[(0, 1)]), vec![vector.clone(), matrix.clone()]),
            Sample::smooth(dot(&[], &[(1, 1)]), vec![matrix.clone(), matrix.clone()]),
            Sample::smooth(dot(&[], &[]), vec![matrix.clone(), vector]),
            // These samples have batch axes, axes that are not in order, two contracted axes, or two batch axes.
            Sample::smooth(dot(&[(0, 0)], &[(1, 1)]), vec![cube.clone(), matrix.clone()]),
            Sample::smooth(dot(&[(1, 1)], &[(0, 0)]), vec![cube.clone(), cube.clone()]),
            Sample::smooth(dot(&[(2, 2)], &[(1, 1), (0, 0)]), vec![cube.clone(), cube.clone()]),
            Sample::smooth(dot(&[(1, 1), (0, 0)], &[]), vec![cube.clone(), matrix.clone()]),
            Sample::smooth(dot(&[], &[(1, 1), (0, 0)]), vec![cube, matrix.clone()]),
            Sample::edge(dot(&[], &[(1, 1)]), vec![ints.clone(), ints]),
            Sample::edge(dot(&[], &[(1, 1)]), vec![none.clone(), none]),
            Sample::edge(
                dot(&[], &[(0, 0)]),
                vec![Tensor::from([1.5f32, f32::INFINITY]), Tensor::from([2.0f32, 0.0])],
            ),
        ]
    }
}

/// Returns an array of shape `[K, M, N]` with small elements of both signs.
fn cube<const K: usize, const M: usize, const N: usize>() -> Tensor {
    let element = |i: usize| ((i * 7) % 11) as f64 * 0.25 - 1.0;
    let row = |i: usize| std::array::from_fn::<f64, N, _>(|j| element(N * i + j));
    let matrix = |i: usize| std::array::from_fn::<_, M, _>(|j| row(M * i + j));
    Tensor::from(std::array::from_fn::<_, K, _>(matrix))
}

/// A Rust type of array elements, with the arithmetic that products need.
trait Number: Element<Stored = Self> + bytemuck::Pod {
    /// Returns `self + x y`, rounded after the multiplication and after the addition; integers wrap.
    fn plus_product(self, x: Self, y: Self) -> Self;
}

macro_rules! numbers {
    ($($t:ty: |$s:ident, $x:ident, $y:ident| $e:expr),* $(,)?) => {$(
        impl Number for $t {
            fn plus_product(self, $x: $t, $y: $t) -> $t { let $s = self; $e }
        }
    )*};
}
numbers! {
    f64: |s, x, y| s + x * y,
    f32: |s, x, y| s + x * y,
    i32: |s, x, y| s.wrapping_add(x.wrapping_mul(y)),
    i64: |s, x, y| s.wrapping_add(x.wrapping_mul(y)),
    u32: |s, x, y| s.wrapping_add(x.wrapping_mul(y)),
    u64: |s, x, y| s.wrapping_add(x.wrapping_mul(y)),
}

impl Dot {
    /// Evaluates the product on elements of type `T`: permutes the operands to `[batch, m, k]` and `[batch, k,
    /// n]` and multiplies.
    fn product<T: Number>(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let (left_free, right_free) =
            (self.free(Side::Left, x.shape().len()), self.free(Side::Right, y.shape().len()));
        let extent =
            |t: &Tensor, axes: &[usize]| -> Shape { axes.iter().map(|a| t.shape()[*a]).collect() };
        let (x_batch, y_batch) = (Side::Left.of(&self.batch), Side::Right.of(&self.batch));
        let (x_sum, y_sum) = (Side::Left.of(&self.contract), Side::Right.of(&self.contract));
        let (batch, sum) = (extent(x, &x_batch), extent(x, &x_sum));
        let (rows, columns) = (extent(x, &left_free), extent(y, &right_free));
        let (m, n, k) = (rows.elements(), columns.elements(), sum.elements());
        let left = arranged::<T>(x, &[x_batch, left_free, x_sum].concat());
        let right = arranged::<T>(y, &[y_batch, y_sum, right_free].concat());
        let shape: Shape = batch.iter().chain(&*rows).chain(&*columns).copied().collect();
        let mut z = Tensor::zeros_of(&ArrayType::new(T::DTYPE, shape))?;
        if m == 0 || n == 0 || k == 0 {
            return Ok(z);
        }
        let matrices = left.chunks_exact(m * k).zip(right.chunks_exact(k * n));
        for (z, (x, y)) in z.stored_mut::<T>().chunks_exact_mut(m * n).zip(matrices) {
            // The innermost loop runs along a row of y, so that it accesses contiguous memory; each sum adds its
            // terms in ascending order of k.
            for (z, x) in z.chunks_exact_mut(n).zip(x.chunks_exact(k)) {
                for (x, y) in x.iter().zip(y.chunks_exact(n)) {
                    for (z, y) in z.iter_mut().zip(y) {
                        *z = z.plus_product(*x, *y);
                    }
                }
            }
        }
        Ok(z)
    }
}

/// Returns the elements of `t` in row-major order after its axes have been permuted to the order `axes`.
fn arranged<T: Number>(t: &Tensor, axes: &[usize]) -> Vec<T> {
    let elements = t.stored::<T>();
    if axes.iter().enumerate().all(|(i, a)| i == *a) {
        return elements.to_vec();
    }
    let strides = t.ty().shape.strides();
    let shape: Shape = axes.iter().map(|a| t.shape()[*a]).collect();
    let mut index = vec![0; axes.len()];
    let mut out = Vec::with_capacity(elements.len());
    for _ in 0..elements.len() {
        let at: usize = index.iter().zip(axes).map(|(i, a)| i * strides[*a]).sum();
        out.push(elements[at]);
        crate::tensor::step_index(&mut index, &shape);
    }
    out
}
