//! Rewrite rules of reductions: operations that can move before or after the fold, or replace it.
//!
//! Elements are folded in row-major order of the operand, so a rule is exact only if it preserves that order, or if the
//! order does not matter (for extrema, bitwise operations, and wrapping sums of integers).

use super::dot::Side;
use crate::lang::literal::Literal;
use crate::lang::types::Type;
use crate::prim::rules::rewrite::{Equality, Exactness, Rewrite, Site, Term, When};
use crate::prim::{Broadcast, Dot, Op, Permute, Reduce, Reducer, Scalar};

/// Returns all rewrite rules of reductions.
pub(super) fn rows() -> Vec<Rewrite> {
    use Exactness::{Exact, Reassociates};
    let compose = |name, rule, when, exactness, why| Rewrite {
        name,
        rule: Equality::Compose(rule),
        when,
        exactness,
        why,
    };
    vec![
        Rewrite {
            name: "reduce-nothing",
            rule: Equality::Identity(|op, _| matches!(op, Op::Reduce(r) if r.axes.is_empty())),
            when: When::Always,
            exactness: Exact,
            why: "a reduction over no axis",
        },
        compose(
            "reduce-reduce",
            |outer, inner, _| merged(outer, inner, |r| !r.rounds()),
            When::Always,
            Exact,
            "one pass over the array instead of two",
        ),
        compose(
            "reduce-reduce-integer",
            |outer, inner, _| merged(outer, inner, Reducer::rounds),
            When::Integer,
            Exact,
            "one pass over the array instead of two",
        ),
        compose(
            "reduce-reduce-float",
            |outer, inner, _| merged(outer, inner, Reducer::rounds),
            When::Float,
            Reassociates,
            "one pass over the array instead of two",
        ),
        compose(
            "reduce-permute",
            |outer, inner, _| {
                let (op, in_order) = before_permute(outer, inner)?;
                let Op::Reduce(r) = outer else { return None };
                (in_order || !r.reducer.rounds()).then_some(op)
            },
            When::Always,
            Exact,
            "fewer elements to move",
        ),
        compose(
            "reduce-permute-float",
            |outer, inner, _| before_permute(outer, inner).map(|(op, _)| op),
            When::Float,
            Reassociates,
            "fewer elements to move",
        ),
        compose(
            "reduce-reshape",
            |outer, inner, x| {
                let (Op::Reduce(r), Op::Reshape(s), Type::Array(x)) = (outer, inner, x) else {
                    return None;
                };
                // A fold over no axes returns its operand without applying the initial value, so a fold over all
                // axes cannot replace it.
                let all = r.axes.len() == s.shape.len() && !x.shape.is_empty();
                let axes = (0..x.shape.len()).collect();
                all.then(|| vec![Reduce { reducer: r.reducer, axes }.into()])
            },
            When::Always,
            Exact,
            "a reduction of all elements does not depend on the shape",
        ),
        compose(
            "sum-neg",
            negated_sum,
            When::Float,
            Reassociates,
            "one negation instead of many; a sum is never -0, its negation may be",
        ),
        compose(
            "sum-neg-integer",
            negated_sum,
            When::Integer,
            Exact,
            "one negation instead of many",
        ),
        compose(
            "extreme-neg",
            |outer, inner, _| {
                let (Op::Reduce(r), Op::Scalar(Scalar::Neg)) = (outer, inner) else { return None };
                let reducer = match r.reducer {
                    Reducer::Max => Reducer::Min,
                    Reducer::Min => Reducer::Max,
                    Reducer::Sum | Reducer::Prod | Reducer::And | Reducer::Or => return None,
                };
                Some(vec![Reduce { reducer, axes: r.axes.clone() }.into(), inner.clone()])
            },
            When::Float,
            Exact,
            "one negation instead of many",
        ),
        compose(
            "extreme-broadcast",
            |outer, inner, x| {
                let (ops, _, reducer) = before_broadcast(outer, inner, x)?;
                // The rewrite applies to extrema and bitwise reductions only, since their results do not change if an
                // element is repeated.
                (!reducer.rounds()).then_some(ops)
            },
            When::Always,
            Exact,
            "repeated elements do not change an extremum",
        ),
        site(
            "sum-broadcast-integer",
            |op| matches!(op, Op::Broadcast(_)),
            sum_of_broadcast,
            When::Integer,
            Exact,
            "a product instead of a sum of equal terms",
        ),
        site(
            "sum-broadcast",
            |op| matches!(op, Op::Broadcast(_)),
            sum_of_broadcast,
            When::Float,
            Reassociates,
            "a product instead of a sum of equal terms",
        ),
        site(
            "sum-scale",
            |op| matches!(op, Op::Scalar(Scalar::Mul | Scalar::Div)),
            sum_of_scaled,
            When::Float,
            Reassociates,
            "one product instead of many",
        ),
        site(
            "sum-product",
            |op| matches!(op, Op::Scalar(Scalar::Mul)),
            sum_of_product,
            When::Float,
            Reassociates,
            "a contraction reads no repeated elements",
        ),
        site(
            "sum-dot",
            |op| matches!(op, Op::Dot(_)),
            sum_of_dot,
            When::Float,
            Reassociates,
            "factors are summed before they are multiplied",
        ),
    ]
}

fn site(
    name: &'static str,
    inner: fn(&Op) -> bool,
    equal: fn(&Site<'_>) -> Option<Term>,
    when: When,
    exactness: Exactness,
    why: &'static str,
) -> Rewrite {
    let outer = |op: &Op| matches!(op, Op::Reduce(r) if r.reducer == Reducer::Sum);
    Rewrite { name, rule: Equality::Site { outer, inner, equal }, when, exactness, why }
}

impl Reducer {
    /// Returns whether the reducer's result on floats depends on the order of the elements, because each step
    /// rounds.
    fn rounds(self) -> bool {
        match self {
            Reducer::Sum | Reducer::Prod => true,
            Reducer::Max | Reducer::Min | Reducer::And | Reducer::Or => false,
        }
    }
}

/// Merges `reduce(reduce(x))` with one reducer, if `which` accepts it, into one reduction over the axes of both.
fn merged(outer: &Op, inner: &Op, which: fn(Reducer) -> bool) -> Option<Vec<Op>> {
    let (Op::Reduce(outer), Op::Reduce(inner)) = (outer, inner) else { return None };
    if outer.reducer != inner.reducer || !which(outer.reducer) {
        return None;
    }
    // For each axis of the inner reduction's result, the axis of `x` from which it comes.
    let rank = inner.axes.len() + outer.axes.last().map_or(0, |last| last + 1);
    let kept: Vec<usize> = (0..rank + 1).filter(|a| !inner.axes.contains(a)).collect();
    let mut axes = inner.axes.clone();
    axes.extend(outer.axes.iter().filter_map(|a| kept.get(*a)));
    axes.sort_unstable();
    Some(vec![Reduce { reducer: outer.reducer, axes }.into()])
}

/// Rewrites `reduce(permute(x))` to a reduction of `x` followed by a permutation of the remaining axes. Also
/// returns whether every fold still combines its elements in the same order.
fn before_permute(outer: &Op, inner: &Op) -> Option<(Vec<Op>, bool)> {
    let (Op::Reduce(r), Op::Permute(p)) = (outer, inner) else { return None };
    let folded: Vec<usize> = r.axes.iter().map(|a| p.permutation[*a]).collect();
    let in_order = folded.is_sorted();
    let mut axes = folded.clone();
    axes.sort_unstable();
    let left: Vec<usize> =
        p.permutation.iter().copied().filter(|axis| !folded.contains(axis)).collect();
    let mut sorted = left.clone();
    sorted.sort_unstable();
    let permutation: Vec<usize> =
        left.iter().filter_map(|axis| sorted.binary_search(axis).ok()).collect();
    let mut ops = vec![Reduce { reducer: r.reducer, axes }.into()];
    if !permutation.is_sorted() {
        ops.push(Permute { permutation }.into());
    }
    Some((ops, in_order))
}

/// Rewrites `reduce(broadcast(x))` to a reduction over the folded axes of `x`, followed by a broadcast along the
/// remaining new axes. Also returns how often the old fold combined each element, and the reducer.
fn before_broadcast(outer: &Op, inner: &Op, x: &Type) -> Option<(Vec<Op>, usize, Reducer)> {
    let (Op::Reduce(r), Op::Broadcast(b), Type::Array(x)) = (outer, inner, x) else { return None };
    // Give up if the broadcast has no elements, or if it repeats an axis of extent 1.
    let stretched = |(i, d): (usize, &usize)| x.shape[i] != b.shape[*d];
    if b.shape.contains(&0) || b.dims.iter().enumerate().any(stretched) {
        return None;
    }
    let repeats: usize =
        r.axes.iter().filter(|a| !b.dims.contains(a)).map(|a| b.shape[*a]).product();
    if r.axes.iter().all(|a| b.dims.contains(a)) {
        return None;
    }
    let axes = (0..b.dims.len()).filter(|i| r.axes.contains(&b.dims[*i])).collect();
    let place = |axis: usize| axis - r.axes.iter().filter(|a| **a < axis).count();
    let dims: Vec<usize> =
        b.dims.iter().filter(|d| !r.axes.contains(d)).map(|d| place(*d)).collect();
    let shape = b.shape.without(&r.axes);
    let mut ops = vec![Reduce { reducer: r.reducer, axes }.into()];
    if dims.len() != shape.len() {
        ops.push(Broadcast { shape, dims }.into());
    }
    Some((ops, repeats, r.reducer))
}

/// Rewrites `Σ -x` to `-Σ x`.
fn negated_sum(outer: &Op, inner: &Op, _: &Type) -> Option<Vec<Op>> {
    let (Op::Reduce(r), Op::Scalar(Scalar::Neg)) = (outer, inner) else { return None };
    (r.reducer == Reducer::Sum).then(|| vec![outer.clone(), inner.clone()])
}

/// Rewrites `Σ broadcast(x)` to `n · broadcast(Σ x)`, where the sum contains each element n times.
fn sum_of_broadcast(site: &Site<'_>) -> Option<Term> {
    let definition = site.operands[0].definition.as_ref()?;
    let (ops, repeats, _) = before_broadcast(site.op, definition.op, &definition.operands[0].0)?;
    let mut ops = ops.into_iter();
    let sum = Term::apply(ops.next()?, Term::Inner(0, 0));
    let dtype = site.ty.as_array()?.dtype;
    let times = Term::Literal(Literal::of(dtype, repeats as f64));
    let scaled = Term::Apply(Scalar::Mul.into(), vec![sum, times]);
    Some(ops.fold(scaled, |x, op| Term::apply(op, x)))
}

/// Rewrites `Σ (x · c)` to `(Σ x) · c`, and `Σ (x / c)` to `(Σ x) / c`, for a literal `c`.
fn sum_of_scaled(site: &Site<'_>) -> Option<Term> {
    let definition = site.operands[0].definition.as_ref()?;
    let (i, c) = definition.scaled()?;
    let sum = Term::apply(site.op.clone(), Term::Inner(0, i));
    Some(Term::Apply(definition.op.clone(), vec![sum, Term::Literal(c)]))
}

/// Rewrites `Σ x · y` to a contraction. Both define the same order of additions, but contractions are computed in
/// blocks, so the rule is not exact.
fn sum_of_product(site: &Site<'_>) -> Option<Term> {
    let Op::Reduce(r) = site.op else { return None };
    let definition = site.operands[0].definition.as_ref()?;
    let [(Type::Array(x), None), (_, None)] = definition.operands.as_slice() else { return None };
    let (contract, batch) =
        (0..x.shape.len()).map(|a| (a, a)).partition(|(a, _)| r.axes.contains(a));
    let dot = Dot { batch, contract };
    Some(Term::Apply(dot.into(), vec![Term::Inner(0, 0), Term::Inner(0, 1)]))
}

/// Rewrites `Σ dot(x, y)` to a smaller dot: operands are summed over free axes first, and batch axes become
/// contracted axes.
fn sum_of_dot(site: &Site<'_>) -> Option<Term> {
    let Op::Reduce(r) = site.op else { return None };
    let definition = site.operands[0].definition.as_ref()?;
    let Op::Dot(dot) = definition.op else { return None };
    let [(Type::Array(x), _), (Type::Array(y), _)] = definition.operands.as_slice() else {
        return None;
    };
    let (left, right) = (dot.free(Side::Left, x.shape.len()), dot.free(Side::Right, y.shape.len()));
    let batch = dot.batch.len();
    let pick = |axes: &[usize], start: usize| -> Vec<usize> {
        let on = |i: &usize| r.axes.contains(&(start + i));
        (0..axes.len()).filter(on).map(|i| axes[i]).collect()
    };
    let (from_x, from_y) = (pick(&left, batch), pick(&right, batch + left.len()));
    let gone = |axes: &[usize], axis: usize| axes.iter().filter(|a| **a < axis).count();
    let renumber = |(l, r): &(usize, usize)| (l - gone(&from_x, *l), r - gone(&from_y, *r));
    let (mut kept, mut contract) =
        (Vec::new(), dot.contract.iter().map(renumber).collect::<Vec<_>>());
    for (i, pair) in dot.batch.iter().enumerate() {
        if r.axes.contains(&i) { &mut contract } else { &mut kept }.push(renumber(pair));
    }
    let sum = |axes: Vec<usize>, j: usize| match axes.is_empty() {
        true => Term::Inner(0, j),
        false => Term::apply(Reduce { reducer: Reducer::Sum, axes }, Term::Inner(0, j)),
    };
    let operands = vec![sum(from_x.clone(), 0), sum(from_y.clone(), 1)];
    Some(Term::Apply(Dot { batch: kept, contract }.into(), operands))
}
