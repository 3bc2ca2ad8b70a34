//! Rewrite rules of contractions: views of operands and results become changes of axis numbers.
//!
//! A contraction reads its operands in the order that its axis numbers give, so a permute before it is never
//! needed. It can read a repeated element once, so a broadcast before it only costs time. A rule keeps all
//! products and the order in which they are added, and is exact, unless it is marked `Reassociates`.

use super::dot::{AxisOf, Side};
use crate::lang::types::{Shape, Type};
use crate::prim::rules::rewrite::{Equality, Exactness, Rewrite, Site, Term, When};
use crate::prim::{Broadcast, Dot, Op, Permute, Reduce, Reducer, Scalar};

/// Returns all rewrite rules of contractions.
pub(super) fn rows() -> Vec<Rewrite> {
    use Exactness::{Exact, Reassociates};
    vec![
        row("dot-permute", is_dot, is_permute, of_permuted, Exact, "no permuted copy"),
        row("permute-dot", is_permute, is_dot, permuted, Exact, "the operands exchanged"),
        row(
            "dot-neg",
            is_dot,
            is_neg,
            of_negated,
            Reassociates,
            "moves negations outward, where they cancel in sums; a sum is never -0, its negation \
             may be",
        ),
        Rewrite {
            when: When::Integer,
            ..row(
                "dot-neg-integer",
                is_dot,
                is_neg,
                of_negated,
                Exact,
                "moves negations outward, where they cancel in sums",
            )
        },
        row("dot-neg-neg", is_dot, is_neg, of_two_negated, Exact, "signs cancel"),
        row(
            "dot-broadcast",
            is_dot,
            is_broadcast,
            |site| of_broadcast(site, false),
            Exact,
            "repeated elements are read once",
        ),
        row(
            "dot-broadcast-sum",
            is_dot,
            is_broadcast,
            |site| of_broadcast(site, true),
            Reassociates,
            "a sum instead of products with equal factors",
        ),
        row(
            "dot-scale",
            is_dot,
            |op| matches!(op, Op::Scalar(Scalar::Mul | Scalar::Div)),
            of_scaled,
            Reassociates,
            "scaling the smaller array",
        ),
        row(
            "dot-shift",
            is_dot,
            |op| matches!(op, Op::Scalar(Scalar::Add | Scalar::Sub)),
            of_shifted,
            Reassociates,
            "the shifted array is not stored, and the product with the shift is small",
        ),
        row(
            "dot-chain-right",
            is_dot,
            is_dot,
            |site| of_chain(site, 0),
            Reassociates,
            "fewer products in another order",
        ),
        row(
            "dot-chain-left",
            is_dot,
            is_dot,
            |site| of_chain(site, 1),
            Reassociates,
            "fewer products in another order",
        ),
        row(
            "dot-mul",
            is_dot,
            |_| false,
            without_sum,
            Reassociates,
            "products that are not summed are computed where they are read; a sum is never -0, a \
             product may be",
        ),
    ]
}

fn row(
    name: &'static str,
    outer: fn(&Op) -> bool,
    inner: fn(&Op) -> bool,
    equal: fn(&Site<'_>) -> Option<Term>,
    exactness: Exactness,
    why: &'static str,
) -> Rewrite {
    let when = if exactness == Exactness::Exact { When::Always } else { When::Float };
    Rewrite { name, rule: Equality::Site { outer, inner, equal }, when, exactness, why }
}

fn is_dot(op: &Op) -> bool {
    matches!(op, Op::Dot(_))
}

fn is_neg(op: &Op) -> bool {
    matches!(op, Op::Scalar(Scalar::Neg))
}

fn is_permute(op: &Op) -> bool {
    matches!(op, Op::Permute(_))
}

fn is_broadcast(op: &Op) -> bool {
    matches!(op, Op::Broadcast(_))
}

/// Returns the attributes of a dot whose left operand is defined by an equation that the rewrite may look at. If only
/// the right operand has such a definition, the operands are exchanged. Also returns, as indices into the operands of
/// the matched equation `site`, the operand with the definition and the other operand.
fn with_definition_left(site: &Site<'_>) -> Option<(Dot, usize, usize)> {
    let Op::Dot(dot) = site.op else { return None };
    if site.operands[0].definition.is_some() {
        Some((dot.clone(), 0, 1))
    } else {
        site.operands[1].definition.is_some().then(|| (dot.swapped(), 1, 0))
    }
}

/// Returns the number of free axes of the left and of the right operand.
fn free_ranks(dot: &Dot, left: &Shape, right: &Shape) -> (usize, usize) {
    (dot.free(Side::Left, left.len()).len(), dot.free(Side::Right, right.len()).len())
}

/// Returns the permutation that exchanges the free axes in the result of a dot: from the order (batch, left free, right
/// free) to (batch, right free, left free). The arguments are the numbers of axes of each kind.
fn exchanged(batch: usize, left: usize, right: usize) -> Vec<usize> {
    let middle = batch..batch + left;
    (0..batch).chain(batch + left..batch + left + right).chain(middle).collect()
}

/// Returns `term` with its axes permuted, or `term` itself if the permutation is the identity.
fn in_order(term: Term, permutation: Vec<usize>) -> Term {
    if permutation.is_sorted() { term } else { Term::apply(Permute { permutation }, term) }
}

/// Rewrites `dot(permute x, y)` to a dot of `x` itself, with renumbered axes.
fn of_permuted(site: &Site<'_>) -> Option<Term> {
    let (dot, left, right) = with_definition_left(site)?;
    let definition = site.operands[left].definition.as_ref()?;
    let Op::Permute(p) = definition.op else { return None };
    let own =
        |pairs: &[(usize, usize)]| pairs.iter().map(|(l, r)| (p.permutation[*l], *r)).collect();
    let new = Dot { batch: own(&dot.batch), contract: own(&dot.contract) };
    let (x, y) = (&definition.operands[0].0, site.operands[right].shape()?);
    let x = &x.as_array()?.shape;
    // The free axes of the new dot come in the order of x. The free axes of the old dot came in the order of the
    // permuted x.
    let sorted = new.free(Side::Left, x.len());
    let before = dot.free(Side::Left, x.len());
    let place = |axis: &usize| sorted.binary_search(&p.permutation[*axis]).ok();
    let places: Vec<usize> = before.iter().filter_map(place).collect();
    let (batch, (l, r)) = (dot.batch.len(), free_ranks(&new, x, y));
    let term = Term::Apply(new.into(), vec![Term::Inner(left, 0), Term::Operand(right)]);
    let order = (0..batch)
        .chain(places.iter().map(|k| batch + k))
        .chain(batch + l..batch + l + r)
        .collect::<Vec<usize>>();
    let order = if left == 0 {
        order
    } else {
        exchanged(batch, l, r).into_iter().map(|a| order[a]).collect()
    };
    Some(in_order(term, order))
}

/// Rewrites `permute(dot(x, y))` to `dot(y, x)` if the permutation exchanges the free axes of `x` with those of
/// `y`.
fn permuted(site: &Site<'_>) -> Option<Term> {
    let Op::Permute(p) = site.op else { return None };
    let definition = site.operands[0].definition.as_ref()?;
    let Op::Dot(dot) = definition.op else { return None };
    let [(Type::Array(x), _), (Type::Array(y), _)] = definition.operands.as_slice() else {
        return None;
    };
    let (l, r) = free_ranks(dot, &x.shape, &y.shape);
    (p.permutation == exchanged(dot.batch.len(), l, r) && !p.permutation.is_sorted())
        .then(|| Term::Apply(dot.swapped().into(), vec![Term::Inner(0, 1), Term::Inner(0, 0)]))
}

/// Rewrites `dot(-x, y)` and `dot(x, -y)` to `-dot(x, y)`.
fn of_negated(site: &Site<'_>) -> Option<Term> {
    let (_, negated, other) = with_definition_left(site)?;
    let mut operands = vec![Term::Operand(other), Term::Inner(negated, 0)];
    if negated == 0 {
        operands.reverse();
    }
    Some(Term::apply(Scalar::Neg, Term::Apply(site.op.clone(), operands)))
}

/// Rewrites `dot(-x, -y)` to `dot(x, y)`.
fn of_two_negated(site: &Site<'_>) -> Option<Term> {
    let both = site.operands.iter().all(|o| o.definition.is_some());
    both.then(|| Term::Apply(site.op.clone(), vec![Term::Inner(0, 0), Term::Inner(1, 0)]))
}

/// Rewrites `dot(c x, y)` to `c dot(x, y)` for a literal `c`.
fn of_scaled(site: &Site<'_>) -> Option<Term> {
    let (_, scaled, other) = with_definition_left(site)?;
    let definition = site.operands[scaled].definition.as_ref()?;
    let (i, c) = definition.scaled()?;
    let mut operands = vec![Term::Operand(other), Term::Inner(scaled, i)];
    if scaled == 0 {
        operands.reverse();
    }
    let dot = Term::Apply(site.op.clone(), operands);
    Some(Term::Apply(definition.op.clone(), vec![dot, Term::Literal(c)]))
}

/// Rewrites `dot(broadcast x, y)` to a dot of `x` itself: a repeated batch axis becomes a free axis of `y`; a repeated
/// free axis is repeated after the product. Along a repeated contracted axis (only if `sums`) `y` is summed first.
fn of_broadcast(site: &Site<'_>, sums: bool) -> Option<Term> {
    let (dot, left, right) = with_definition_left(site)?;
    let definition = site.operands[left].definition.as_ref()?;
    let Op::Broadcast(b) = definition.op else { return None };
    let x = &definition.operands[0].0.as_array()?.shape;
    let y = site.operands[right].shape()?;
    let stretched = |(i, d): (usize, &usize)| x[i] != b.shape[*d];
    if b.dims.len() == b.shape.len() || b.dims.iter().enumerate().any(stretched) {
        return None;
    }
    let own = |axis: usize| b.dims.iter().position(|d| *d == axis);
    let summed: Vec<usize> =
        dot.contract.iter().filter(|(l, _)| own(*l).is_none()).map(|(_, r)| *r).collect();
    // Leave products with an axis of extent 0 unchanged: a sum over it would have to be zero.
    if summed.is_empty() == sums || summed.iter().any(|a| y[*a] == 0) {
        return None;
    }
    let left_of = |axis: usize| axis - summed.iter().filter(|a| **a < axis).count();
    let shared = |pairs: &[(usize, usize)]| -> Vec<(usize, usize)> {
        pairs.iter().filter_map(|(l, r)| Some((own(*l)?, left_of(*r)))).collect()
    };
    let new = Dot { batch: shared(&dot.batch), contract: shared(&dot.contract) };
    let y_shape = y.without(&summed);
    // The origin of an axis of the new product: a free or batch axis of one operand.
    #[derive(PartialEq)]
    enum Axis {
        Left(usize),
        Right(usize),
    }
    let mut out: Vec<Axis> = new.batch.iter().map(|(l, _)| Axis::Left(*l)).collect();
    out.extend(new.free(Side::Left, x.len()).into_iter().map(Axis::Left));
    out.extend(new.free(Side::Right, y_shape.len()).into_iter().map(Axis::Right));
    // The axes of the old result in order, by their origin in the new product; `None` for a repeated free axis,
    // which the new product lacks.
    let mut wanted: Vec<Option<Axis>> = Vec::new();
    for (l, r) in &dot.batch {
        wanted.push(Some(own(*l).map_or(Axis::Right(left_of(*r)), Axis::Left)));
    }
    let from_left = dot.free(Side::Left, b.shape.len()).into_iter().map(|a| own(a).map(Axis::Left));
    let from_right =
        dot.free(Side::Right, y.len()).into_iter().map(|a| Some(Axis::Right(left_of(a))));
    if left == 0 {
        wanted.extend(from_left);
        wanted.extend(from_right);
    } else {
        wanted.extend(from_right);
        wanted.extend(from_left);
    }
    let there = wanted.iter().flatten();
    let order: Option<Vec<usize>> = there.map(|axis| out.iter().position(|o| o == axis)).collect();
    let mut second = Term::Operand(right);
    if !summed.is_empty() {
        let mut axes = summed.clone();
        axes.sort_unstable();
        second = Term::apply(Reduce { reducer: Reducer::Sum, axes }, second);
    }
    let term = Term::Apply(new.into(), vec![Term::Inner(left, 0), second]);
    let term = in_order(term, order?);
    let dims: Vec<usize> = (0..wanted.len()).filter(|i| wanted[*i].is_some()).collect();
    if dims.len() == wanted.len() {
        return Some(term);
    }
    Some(Term::apply(Broadcast { shape: site.ty.as_array()?.shape.clone(), dims }, term))
}

/// Rewrites `dot(x + y, z)` to `dot(x, z) + dot(y, z)`, and the same with `-`, if `x` or `y` is a broadcast: other
/// rules then rewrite the product with the broadcast to a product with the broadcast's operand.
///
/// A product of a shifted array with itself stays: a sum of squares would become a difference of large numbers, which may
/// be negative.
fn of_shifted(site: &Site<'_>) -> Option<Term> {
    let shifted = usize::from(site.operands[0].definition.is_none());
    let (definition, other) = (site.operands[shifted].definition.as_ref()?, 1 - shifted);
    let arrays = definition.operands.iter().all(|(_, literal)| literal.is_none());
    let shifts = arrays && definition.repeated.contains(&true);
    if site.same || site.operands[other].definition.is_some() || !shifts {
        return None;
    }
    let product = |i: usize| {
        let mut operands = vec![Term::Inner(shifted, i), Term::Operand(other)];
        if shifted == 1 {
            operands.reverse();
        }
        Term::Apply(site.op.clone(), operands)
    };
    Some(Term::Apply(definition.op.clone(), vec![product(0), product(1)]))
}

/// The name of an index in a product of three arrays. Paired axes have the same index.
type Index = usize;

/// Returns the product of two arrays whose axes have the indices `x` and `y`: indices of both that `kept` accepts are
/// batch axes, other indices of both are contracted. Also returns the indices of the result's axes.
fn paired(x: &[Index], y: &[Index], kept: impl Fn(Index) -> bool) -> (Dot, Vec<Index>) {
    let pair = |(l, index): (usize, &Index)| Some((l, y.iter().position(|i| i == index)?));
    let pairs = x.iter().enumerate().filter_map(pair);
    let (batch, contract) = pairs.partition(|(l, _)| kept(x[*l]));
    let dot = Dot { batch, contract };
    let index = |axis: AxisOf| match axis {
        AxisOf::Batch(i) => x[dot.batch[i].0],
        AxisOf::Left(a) => x[a],
        AxisOf::Right(a) => y[a],
    };
    let indices = dot.axes([x.len(), y.len()]).into_iter().map(index).collect();
    (dot, indices)
}

/// Rewrites a product of three arrays in another order, if that takes fewer products of numbers: `(a b) c` becomes
/// `a (b c)` if `last` is 0, and `b (a c)` if `last` is 1. Products of the form `c (a b)` are rewritten likewise.
fn of_chain(site: &Site<'_>, last: usize) -> Option<Term> {
    let Op::Dot(outer) = site.op else { return None };
    let at = usize::from(site.operands[0].definition.is_none());
    let (definition, other) = (site.operands[at].definition.as_ref()?, 1 - at);
    let Op::Dot(inner) = definition.op else { return None };
    if site.operands[other].definition.is_some() {
        return None;
    }
    let [(Type::Array(a), _), (Type::Array(b), _)] = definition.operands.as_slice() else {
        return None;
    };
    let (a, b, c) = (&a.shape, &b.shape, site.operands[other].shape()?);
    let (ranks, inner_rank) = ([a.len(), b.len()], site.operands[at].shape()?.len());
    // Number the indices: those of a first, then those that only b has, then those that only c has.
    let of_a: Vec<Index> = (0..a.len()).collect();
    let mut of_b: Vec<Index> = (0..b.len()).map(|axis| a.len() + axis).collect();
    for (l, r) in inner.batch.iter().chain(&inner.contract) {
        of_b[*r] = *l;
    }
    let of_product: Vec<Index> = inner
        .axes(ranks)
        .into_iter()
        .map(|axis| match axis {
            AxisOf::Batch(i) => inner.batch[i].0,
            AxisOf::Left(axis) => of_a[axis],
            AxisOf::Right(axis) => of_b[axis],
        })
        .collect();
    let mut of_c: Vec<Index> = (0..c.len()).map(|axis| a.len() + b.len() + axis).collect();
    for (l, r) in outer.batch.iter().chain(&outer.contract) {
        let (own, theirs) = if at == 0 { (*l, *r) } else { (*r, *l) };
        of_c[theirs] = of_product[own];
    }
    let (mut of_sides, mut outer_ranks) = ([&of_product, &of_c], [inner_rank, c.len()]);
    if at == 1 {
        of_sides.reverse();
        outer_ranks.reverse();
    }
    let out: Vec<Index> = outer
        .axes(outer_ranks)
        .into_iter()
        .map(|axis| match axis {
            AxisOf::Batch(i) => of_sides[0][outer.batch[i].0],
            AxisOf::Left(axis) => of_sides[0][axis],
            AxisOf::Right(axis) => of_sides[1][axis],
        })
        .collect();
    let factors = [&of_a, &of_b];
    let (first_factor, last_factor) = (factors[1 - last], factors[last]);
    let (first, between) =
        paired(first_factor, &of_c, |index| last_factor.contains(&index) || out.contains(&index));
    let (second, made) = paired(last_factor, &between, |index| out.contains(&index));
    // The number of products of numbers that a dot takes is the product of the extents of all indices of its operands.
    let extent = |index: Index| match index {
        i if i < a.len() => a[i],
        i if i < a.len() + b.len() => b[i - a.len()],
        i => c[i - a.len() - b.len()],
    };
    let products = |x: &[Index], y: &[Index]| {
        let new = y.iter().filter(|index| !x.contains(index));
        x.iter().chain(new).map(|index| extent(*index) as f64).product::<f64>()
    };
    let before = products(&of_a, &of_b) + products(&of_product, &of_c);
    let after = products(first_factor, &of_c) + products(last_factor, &between);
    if after >= before {
        return None;
    }
    let place = |index: &Index| made.iter().position(|i| i == index);
    let order = out.iter().map(place).collect::<Option<Vec<usize>>>()?;
    let early = Term::Apply(first.into(), vec![Term::Inner(at, 1 - last), Term::Operand(other)]);
    Some(in_order(Term::Apply(second.into(), vec![Term::Inner(at, last), early]), order))
}

/// Rewrites a dot without contracted axes to an elementwise product of broadcasts.
fn without_sum(site: &Site<'_>) -> Option<Term> {
    let Op::Dot(dot) = site.op else { return None };
    let shape = &site.ty.as_array()?.shape;
    if !dot.contract.is_empty() {
        return None;
    }
    let (x, y) = (site.operands[0].shape()?, site.operands[1].shape()?);
    let (batch, (left, right)) = (dot.batch.len(), free_ranks(dot, x, y));
    // The operand with its batch axes first, then its free axes, repeated along the free axes of the other operand.
    let factor = |i: usize, side: Side, rank: usize, free: std::ops::Range<usize>| {
        let mut permutation = side.of(&dot.batch);
        permutation.extend(dot.free(side, rank));
        let term = in_order(Term::Operand(i), permutation);
        let dims: Vec<usize> = (0..batch).chain(free).collect();
        match dims.len() == shape.len() {
            true => term,
            false => Term::apply(Broadcast { shape: shape.clone(), dims }, term),
        }
    };
    let x = factor(0, Side::Left, x.len(), batch..batch + left);
    let y = factor(1, Side::Right, y.len(), batch + left..batch + left + right);
    Some(Term::Apply(Scalar::Mul.into(), vec![x, y]))
}
