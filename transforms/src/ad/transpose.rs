//! Transposition of a linear function. The transpose maps the ordinary parameters `k` and the cotangent of `dy` to the
//! cotangent of `dx`. As a type, `transpose : (k; dx -o dy) -> (k; ct of dy -o ct of dx)`, where `ct` means cotangent.
//!
//! A linear program is a graph of linear maps; its transpose is the same graph with every edge reversed. The
//! linear equations are visited in reverse, each through its primitive's transpose rule, and the cotangents of
//! a value that is read several times are added. Equations that do not depend on the linear parameters are
//! copied, each before its first reader.
//!
//! ```text
//! func @f.lin(%0: f64[3]; %1: f64[3]) -> (f64[]) {   func @f.bwd(%0: f64[3]; %1: f64[]) -> (f64[3]) {
//!   %2: f64[3] = mul %1, %0                            %2: f64[3] = broadcast{shape=[3], dims=[]} %1
//!   %3: f64[] = reduce_sum{axes=[0]} %2                %3: f64[3] = mul %2, %0
//!   return %3                                          return %3
//! }                                                  }
//! ```

use crate::passes::live_equations::sweep;
use cranelift_entity::SecondaryMap;
use std::sync::Arc;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::lang::query::{AccumulateInto, Transpose, TransposeOf};
use tapeloom_ir::prim::{
    Accumulator, Arg, Cotangents, Effects, Lowering, Regions, RuleCx, instantiate,
};
use tapeloom_ir::{
    Atom, Builder, Draft, Equation, FuncId, Function, Kind, Module, Problem, ValueId, ValueRemap,
    rebuild,
};

pub(crate) fn derive(
    regions: &mut dyn Regions,
    module: &mut Module,
    id: FuncId,
    Transpose { nonzero, onto }: &Transpose,
) -> Result<TransposeOf, Problem> {
    let f = constants_once(module, module.get(id))?;
    let base = f.name.strip_suffix(".lin").unwrap_or(&f.name);
    let mut draft = Draft::new(format!("{base}.bwd"));
    let mut known = ValueRemap::new();
    for p in &f.params {
        known.bind(*p, draft.param(f.types[*p].clone()));
    }
    let seeds: Vec<Option<Atom>> = f
        .results
        .iter()
        .zip(nonzero)
        .map(|(r, on)| on.then(|| draft.linear_param(f.type_of(*r))))
        .collect();
    let mut ct: SecondaryMap<ValueId, Option<Accumulator>> = SecondaryMap::new();
    let mut linear: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    for (p, onto) in f.linear_params.iter().zip(onto) {
        linear[*p] = true;
        if *onto == AccumulateInto::Total {
            ct[*p] = Some(draft.linear_param(f.types[*p].clone()).into());
        }
    }

    for e in &f.equations {
        let on = reads_linear(e, &linear);
        e.outputs.iter().for_each(|o| linear[*o] = on);
    }
    let order = reads_first(module, &f, &linear);
    let mut due = due(module, &f, &linear, &order).into_iter();
    let mut forward: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    let b = Builder::new(module, &mut draft);

    // The cotangents of the results come first; then the linear equations are transposed, the last one first.
    for (r, seed) in f.results.iter().zip(seeds) {
        match (r, seed) {
            (Atom::Value(v), Some(seed)) if linear[*v] => {
                accumulate(&b, &mut ct[*v], seed.into());
            }
            _ => {}
        }
    }
    for i in order.into_iter().rev() {
        // Copy here the ordinary (not linear) equations whose results the next linear equation needs, and no linear
        // equation transposed so far has needed.
        for i in due.next().unwrap_or_default() {
            let e = &f.equations[i];
            let made = b.copy(&f, i, known.all(&e.operands));
            made.iter().filter_map(|a| a.value()).for_each(|v| forward[v] = true);
            known.define(e, made);
        }
        let e = &f.equations[i];
        if !e.outputs.iter().any(|o| linear[*o]) {
            continue;
        }
        let outputs: Vec<Option<Accumulator>> = e.outputs.iter().map(|o| ct[*o]).collect();
        if outputs.iter().all(Option::is_none) {
            continue;
        }
        b.at(f.origin(i));
        // If the cotangents of all outputs of the equation are negated, pass the rule their negatives, and negate
        // the cotangents that the rule adds: a rule is linear, so no negation is emitted.
        let negated = outputs.iter().flatten().all(|t| t.negated);
        let given = |t: Accumulator| if negated { t.atom } else { t.apply_sign(&b) };
        let outputs: Vec<Option<Atom>> = outputs.into_iter().map(|t| t.map(given)).collect();
        let arg = |a: &Atom| match a {
            Atom::Value(v) if linear[*v] => Arg::Linear(f.types[*v].clone()),
            _ => Arg::Known(known.read(*a)),
        };
        let args: Vec<Arg> = e.operands.iter().map(arg).collect();
        // Move the running total of each operand's cotangent into the rule and back out, so that the rule can add to it
        // in place. If two operands of the equation are the same value, the total moves in at one of the two operands.
        let mut into = Cotangents { negated, ..Cotangents::default() };
        for (k, a) in e.operands.iter().enumerate() {
            let here = |v: &ValueId| linear[*v] && b.with_module(|m| moves_in(m, e, *v)) == Some(k);
            into.total.push(a.value().filter(here).and_then(|v| ct[v].take()));
        }
        let mut cx = RuleCx { b: &b, regions: &mut *regions, shares: &[], reads: &[] };
        e.op.transpose(&mut cx, &args, &outputs, &mut into).map_err(|p| p.at(f.location(i)))?;
        // The order in which cotangents are added must not depend on how a checkpoint plan splits iterations into
        // loops. So add the totals of loop constants first, then the totals of initial carries, then the totals of
        // operands of which each iteration reads one row.
        let late = |k: &usize| b.with_module(|m| (!e.op.is_constant(m, *k), e.op.is_rows(m, *k)));
        let mut order: Vec<usize> = (0..e.operands.len()).collect();
        if !e.op.regions().is_empty() {
            order.sort_by_key(late);
        }
        for k in order {
            if let (Some(v), Some(total)) = (e.operands[k].value(), into.total[k])
                && linear[v]
            {
                accumulate(&b, &mut ct[v], total);
            }
        }
    }
    let total = |(p, onto): (&ValueId, &AccumulateInto)| match (ct[*p], onto) {
        (Some(total), AccumulateInto::Nothing | AccumulateInto::Zeros | AccumulateInto::Total) => {
            Some(total.apply_sign(&b))
        }
        (None, AccumulateInto::Zeros | AccumulateInto::Total) => {
            Some(instantiate(&b, None, &f.types[*p]))
        }
        (None, AccumulateInto::Nothing) => None,
    };
    let totals: Vec<Option<Atom>> = f.linear_params.iter().zip(onto).map(total).collect();
    let results: Vec<Atom> = totals.iter().flatten().copied().collect();
    if draft.problem().is_none() && f.linear_params.is_empty() {
        let message = format!("@{} has no linear parameters to transpose", f.name);
        return Err(Problem::new(Kind::NotLinear, message, "mark them after `;`"));
    }
    let mut function = draft.close(results)?;
    for (e, phase) in function.equations.iter().zip(&mut function.phases) {
        *phase = phase.reverse(!e.outputs.iter().any(|o| forward[*o]));
    }
    let function = sweep(regions, module, function)?;
    let nonzero = totals.iter().map(Option::is_some).collect();
    Ok(TransposeOf { function: module.add(function)?, nonzero })
}

/// Merges equal constants of each loop (values that all its iterations read), so that each value has one running
/// total of its cotangent.
fn constants_once(module: &mut Module, f: Arc<Function>) -> Result<Arc<Function>, Problem> {
    let mut once = Vec::new();
    for e in &f.equations {
        once.push(e.op.with_constants_once(module, &e.operands)?);
    }
    if once.iter().all(Option::is_none) || planted(Fault::TwoTotals) {
        return Ok(f);
    }
    let f = rebuild(&f, |draft, i, operands| {
        match f.equations[i].op.with_constants_once(module, &operands)? {
            Some((op, operands)) => Ok(draft.copy_as(op, &f, i, operands.into())),
            None => Ok(draft.copy(&f, i, operands)),
        }
    })?;
    Ok(Arc::new(f))
}

fn reads_linear(e: &Equation, linear: &SecondaryMap<ValueId, bool>) -> bool {
    e.operands.iter().any(|a| a.value().is_some_and(|v| linear[v]))
}

/// Returns, per linear equation in the order of the reverse walk, the other (not linear) equations to copy just before
/// it. An equation is copied before the first linear equation that needs its results, directly or indirectly. So
/// recomputed values do not occupy memory long before they are read. All equations with ordered effects stand before
/// the first linear equation, in program order.
fn due(
    module: &Module,
    f: &Function,
    linear: &SecondaryMap<ValueId, bool>,
    order: &[usize],
) -> Vec<Vec<usize>> {
    const NEVER: usize = usize::MAX;
    let mut when: SecondaryMap<ValueId, usize> = SecondaryMap::with_default(NEVER);
    let soon = |when: &mut SecondaryMap<ValueId, usize>, e: &Equation, at: usize| {
        e.operands.iter().filter_map(|a| a.value()).for_each(|v| when[v] = when[v].min(at));
    };
    // An equation without outputs that reads a linear value is linear, too.
    let is_linear = |e: &Equation| reads_linear(e, linear);
    for (at, i) in order.iter().rev().enumerate() {
        let e = &f.equations[*i];
        if is_linear(e) {
            soon(&mut when, e, at);
        }
    }
    let mut all = vec![Vec::new(); order.len()];
    for (i, e) in f.equations.iter().enumerate().rev().filter(|(_, e)| !is_linear(e)) {
        let at = match e.op.effects(module) {
            Effects::Ordered => 0,
            Effects::Pure | Effects::Fixed if planted(Fault::AtOnce) => 0,
            Effects::Pure | Effects::Fixed => {
                e.outputs.iter().map(|o| when[*o]).min().unwrap_or(NEVER)
            }
        };
        if at < NEVER {
            soon(&mut when, e, at);
            all[at].push(i);
        }
    }
    all.iter_mut().for_each(|equations| equations.reverse());
    all
}

/// Returns the equations in an order in which a read of an array at dynamic indices (a slice, a gather) comes before
/// all other reads of the array. So the transpose of this read comes last.
///
/// By then the array's cotangent already has a running total, if it gets one at all, and the slice's cotangent is
/// added to the total in place. In the other order, the slice's cotangent would first have to become an array of
/// zeros outside the slice, and adding that array would cost time in proportion to the whole array.
fn reads_first(module: &Module, f: &Function, linear: &SecondaryMap<ValueId, bool>) -> Vec<usize> {
    let late = reads_late(module, f, |v| linear[v]);
    let mut early: SecondaryMap<ValueId, Vec<usize>> = SecondaryMap::new();
    for (i, array) in late.iter().enumerate() {
        array.iter().for_each(|array| early[*array].push(i));
    }
    let mut order = Vec::with_capacity(f.equations.len());
    let params: Vec<usize> = f.all_params().flat_map(|p| early[p].clone()).collect();
    let rest = (0..f.equations.len()).filter(|i| late[*i].is_none());
    let mut next: Vec<usize> = Vec::new();
    for i in params.into_iter().chain(rest) {
        next.push(i);
        while let Some(i) = next.pop() {
            order.push(i);
            next.extend(f.equations[i].outputs.iter().flat_map(|o| early[*o].iter().rev()));
        }
    }
    order
}

/// Returns, per equation that reads an array at dynamic indices (a slice, a gather) after an earlier equation has
/// read the array: that array, if `of` accepts it. `None` for all other equations.
pub(crate) fn reads_late(
    module: &Module,
    f: &Function,
    of: impl Fn(ValueId) -> bool,
) -> Vec<Option<ValueId>> {
    let mut read: SecondaryMap<ValueId, bool> = SecondaryMap::with_capacity(f.types.len());
    let late = |e: &Equation| {
        let array = e.operands.first().and_then(|a| a.value()).filter(|v| of(*v) && read[*v]);
        e.operands.iter().filter_map(|a| a.value()).for_each(|v| read[v] = true);
        let is_place = |_: &ValueId| {
            matches!(e.lower(module, f), Lowering::DynamicSlice | Lowering::Gather { .. })
        };
        array.filter(is_place)
    };
    f.equations.iter().map(late).collect()
}

/// Returns the index of the operand of `e` at which the running total of the cotangent of `v` moves into the transpose
/// rule. If `v` is a constant of a loop, the operand of that constant is chosen, since the iterations add to the total
/// of `v` one after the other. So the order of the sum is the order of the iterations, even if `v` is also the initial
/// value of a carry, and however a checkpoint plan splits the iterations into loops.
fn moves_in(module: &Module, e: &Equation, v: ValueId) -> Option<usize> {
    let mut reads = (0..e.operands.len()).filter(|k| e.operands[*k].value() == Some(v));
    let first = reads.clone().next();
    reads.find(|k| e.op.is_constant(module, *k)).or(first)
}

fn accumulate(b: &Builder<'_>, total: &mut Option<Accumulator>, ct: Accumulator) {
    let before = if planted(Fault::CotangentSum) { None } else { *total };
    *total = Some(before.map_or(ct, |before| before.plus(b, ct)));
}
