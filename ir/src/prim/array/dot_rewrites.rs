//! Rewrite rules of contractions: views of operands and results become changes of axis numbers.
//!
//! A contraction reads its operands in the order that its axis numbers give, so a permute before it is never
//! needed. It can read a repeated element once, so a broadcast before it only costs time. A rule keeps all
//! products and the order in which they are added, and is exact, unless it is marked `Reassociates`.

use super::dot::Side;
use crate::lang::types::{Shape, Type};
use crate::prim::rules::rewrite::{Equality, Exactness, Rewrite, Site, Term, When};
use crate::prim::{Broadcast, Dot, Op, Permute, Reduce, Reducer, Scalar};

/// Returns all rewrite rules of contractions.
pub(super) fn rows() -> Vec<Rewrite> {
    use Exactness::{Exact, Reassociates};
    vec![
        row("dot-permute", is_dot, is_permute, of_permuted, Exact, "no copy in another order"),
        row("permute-dot", is_permute, is_dot, permuted, Exact, "the operands exchanged"),
        row(
            "dot-neg",
            is_dot,
            is_neg,
            of_negated,
            Reassociates,
            "brings negations outside, where they meet sums; no sum is -0, its negation may be",
        ),
        Rewrite {
            when: When::Integer,
            ..row(
                "dot-neg-integer",
                is_dot,
                is_neg,
                of_negated,
                Exact,
                "brings negations outside, where they meet sums",
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
/// the right operand is, the operands are exchanged. Also returns the index in `site` of the operand with the
/// definition, and the index of the other operand.
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
