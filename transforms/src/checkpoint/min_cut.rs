//! Chooses by a minimum cut which values the linear function reads, and which it recomputes.
//!
//! Every value that the linear function needs is saved or recomputed, and recomputation needs the operands. In the
//! graph, the source side is the forward function, and the sink side is everything that the linear function computes or
//! reads:
//!
//! ```text
//! source -> e   price of recomputing equation e
//! e -> v        price of saving its output v
//! v -> e        never, for each operand v of e: recomputing e needs v
//! v -> sink     never, for each v that the linear function needs
//! ```
//!
//! The cheapest cut is the cheapest plan: if `e -> v` is cut, v is saved; if `source -> e` is cut, e is
//! recomputed.
//!
//! Sources: the split into a forward and a linear function embodies activity and to-be-recorded analysis (Hascoët,
//! Naumann, Pascual, 2005), since both functions hold only values that a derivative reads; the cut is that of Enzyme
//! (Moses et al., SC 2021) and of PyTorch's partitioner for ahead-of-time autograd, extended by the price of
//! arithmetic.

use super::cost::{Prices, Reads, arithmetic};
use super::max_flow::{NEVER, Network};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::prim::{Lowering, TripCount};
use tapeloom_ir::{
    Equation, FuncId, Function, Module, OrderedMap, PlanRequest, RecomputePrice, ValueId,
};

/// The largest amount of arithmetic that a plan may recompute if its residuals stay in a cache, as a fraction of the
/// arithmetic of the forward and the linear function.
const MORE: f64 = 0.1;

/// The size in bytes of a loop's residuals above which the residuals do not stay in the cache of a core. Moving such
/// residuals costs their full price, so the plan with the lowest price is chosen, without the limit [`MORE`] on
/// recomputed arithmetic. The number is the same for all machine models, since the size of tapes depends on it.
const CACHE_BYTES: usize = 1 << 21;

/// If a plan recomputes more arithmetic than [`MORE`] allows, the price of arithmetic is doubled, at most up to this
/// factor. If the plan then still recomputes too much, no arithmetic is recomputed.
const DEAREST: u64 = 64;

/// Returns, per equation of the forward function `f`, whether it is recomputed for the linear function `lin`. `reads`
/// lists the values that the linear function reads.
pub(super) fn choose(
    module: &Module,
    f: &Function,
    lin: FuncId,
    reads: &Reads<'_>,
    terms: &PlanRequest,
) -> Vec<bool> {
    let weighed = terms.policy.row().recompute == RecomputePrice::Weighed
        && !leaves_the_cache(f, reads, terms);
    let mut times = 1;
    loop {
        let recomputed = cheapest(f, &Prices::of(module, f, terms, reads, times), reads.values);
        if !weighed || times == NEVER || !recomputed.contains(&true) {
            return recomputed;
        }
        let runs = f.equations.iter().zip(&recomputed).filter(|(_, on)| **on);
        let more: f64 = runs.map(|(e, _)| arithmetic(module, f, e)).sum();
        if more <= MORE * (own_work(module, f) + work(module, lin)) {
            return recomputed;
        }
        times = if times < DEAREST { 2 * times } else { NEVER };
    }
}

/// Returns whether the computed values that the linear function reads, over all iterations, have more than
/// `CACHE_BYTES` bytes.
fn leaves_the_cache(f: &Function, reads: &Reads<'_>, terms: &PlanRequest) -> bool {
    let made = reads.values.iter().filter(|v| !f.params.contains(v));
    let bytes: usize = made.filter_map(|v| f.types[*v].as_array()).map(|ty| ty.bytes()).sum();
    !terms.together && bytes.saturating_mul(terms.runs) > CACHE_BYTES
}

/// Returns, per equation of `f`, whether the cheapest plan at these prices recomputes the equation. `needed` are the
/// values that the linear function reads.
fn cheapest(f: &Function, prices: &Prices, needed: &[ValueId]) -> Vec<bool> {
    let mut network = Network::default();
    let (source, sink) = (network.node(), network.node());
    let mut at: SecondaryMap<ValueId, Option<usize>> = SecondaryMap::new();
    let mut nodes: Vec<Option<usize>> = vec![None; f.equations.len()];
    for v in needed {
        if at[*v].is_none() {
            let node = network.node();
            at[*v] = Some(node);
            network.edge(node, sink, NEVER);
        }
    }
    for (i, e) in f.equations.iter().enumerate().rev() {
        if e.outputs.iter().all(|o| at[*o].is_none()) {
            continue;
        }
        let node = network.node();
        nodes[i] = Some(node);
        network.edge(source, node, prices.recompute[i]);
        for o in &e.outputs {
            if let Some(out) = at[*o] {
                network.edge(node, out, prices.save[*o]);
            }
        }
        // An equation that is never recomputed needs no edges from its operands.
        if prices.recompute[i] == NEVER {
            continue;
        }
        for v in e.operands.iter().filter_map(|a| a.value()) {
            let operand = *at[v].get_or_insert_with(|| network.node());
            network.edge(operand, node, NEVER);
        }
    }
    for p in f.all_params() {
        if let Some(node) = at[p] {
            network.edge(source, node, prices.save[p]);
        }
    }
    let side = network.cut(source, sink);
    nodes.into_iter().map(|node| node.is_some_and(|node| side[node])).collect()
}

/// Returns the arithmetic of function `f` and of all functions that it runs, in additions of floats.
fn work(module: &Module, f: FuncId) -> f64 {
    own_work(module, module.function(f))
}

/// Returns the arithmetic of `f` and of all functions that it runs, in additions of floats. The arithmetic of a loop's
/// body counts once per iteration if the trip count is static, else once. Of several branches, only the costliest
/// counts.
fn own_work(module: &Module, f: &Function) -> f64 {
    let mut reached: OrderedMap<FuncId, f64> = OrderedMap::default();
    let mut open: Vec<FuncId> = runs(f).collect();
    while let Some(id) = open.pop() {
        if reached.insert(id, 0.0).is_none() {
            open.extend(runs(module.function(id)));
        }
    }
    // Callees have smaller ids than their callers, so their sums are computed first.
    let mut order: Vec<FuncId> = reached.keys().copied().collect();
    order.sort();
    for id in order {
        let all = sum(module, module.function(id), &reached);
        reached.insert(id, all);
    }
    sum(module, f, &reached)
}

/// Iterates over the ids of the functions that the equations of `f` run.
fn runs(f: &Function) -> impl Iterator<Item = FuncId> + '_ {
    f.equations.iter().flat_map(Equation::runs)
}

fn sum(module: &Module, f: &Function, known: &OrderedMap<FuncId, f64>) -> f64 {
    let one = |e: &Equation| {
        let regions = e.op.regions();
        let inside = regions.iter().filter(|r| r.role.runs());
        let inside = inside.map(|r| known.get(&r.function).copied().unwrap_or(0.0));
        if regions.is_empty() {
            return arithmetic(module, f, e);
        }
        match e.op.lower(module, &[]) {
            Lowering::Loop { spec, .. } => {
                let times = if let TripCount::Static(n) = spec.trip { n as f64 } else { 1.0 };
                times * inside.sum::<f64>()
            }
            Lowering::Branch { .. } => inside.fold(0.0, f64::max),
            _ => inside.sum(),
        }
    };
    f.equations.iter().map(one).sum()
}
