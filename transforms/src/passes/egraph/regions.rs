//! Regions of a function: parts with an e-graph of their own.

use super::Options;
use super::extract::{Extraction, extract};
use super::graph::{ENode, Graph};
use super::rules::allowed;
use super::saturate::saturate;
use crate::passes::cost::{Cost, bytes};
use crate::passes::simplification::Simplification;
use cranelift_entity::SecondaryMap;
use egg::Id;
use smallvec::SmallVec;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{Effects, Lowering, Op};
use tapeloom_ir::{
    Atom, Draft, Function, Module, Operands, OrderedMap, Origin, Outputs, Problem, Type, ValueId,
    ValueRemap,
};

/// Returns the function with each region (a part with an e-graph of its own) replaced by a cheaper region, if one was
/// found.
pub(super) fn cheaper(
    module: &Module,
    f: &Function,
    options: &Options,
    report: &mut Simplification,
) -> Result<Function, Problem> {
    match options.relaxed {
        true => pieces(module, &sunk(module, f, options)?, options, report),
        false => pieces(module, f, options, report),
    }
}

/// Returns whether equation `i` of `f` must not move, because it has an effect.
fn is_pinned(module: &Module, f: &Function, i: usize) -> bool {
    f.equations[i].op.effects(module) != Effects::Pure
}

/// Returns, for each equation, the number of its region. A pinned equation (one with an effect) is a region of its own.
fn regions(module: &Module, f: &Function, options: &Options) -> Vec<usize> {
    let (mut region, mut length) = (0, 0);
    let mut all = Vec::with_capacity(f.equations.len());
    for i in 0..f.equations.len() {
        let pinned = is_pinned(module, f, i);
        if pinned || length == options.region.max(1) {
            (region, length) = (region + 1, 0);
        }
        all.push(region);
        length += 1;
        if pinned {
            (region, length) = (region + 1, 0);
        }
    }
    all
}

/// Returns `f` with contractions moved to the region (part with an e-graph of its own) of their first reader, if all
/// readers are in later regions. A contraction moves only if the operands that the move keeps in memory have no more
/// bytes than its result.
fn sunk(module: &Module, f: &Function, options: &Options) -> Result<Function, Problem> {
    let mut home = regions(module, f, options);
    let end = home.last().map_or(0, |last| last + 1);
    // For each value: the regions (parts with an e-graph each) of its first and of its last reader.
    let mut first: SecondaryMap<ValueId, usize> = SecondaryMap::with_default(end);
    let mut last: SecondaryMap<ValueId, usize> = SecondaryMap::with_default(0);
    for v in f.results.iter().filter_map(|a| a.value()) {
        last[v] = end;
    }
    for v in f.all_params() {
        last[v] = end;
    }
    for (i, e) in f.equations.iter().enumerate() {
        for v in e.operands.iter().filter_map(|a| a.value()) {
            last[v] = last[v].max(home[i]);
        }
    }
    for (i, e) in f.equations.iter().enumerate().rev() {
        let values = || e.operands.iter().filter_map(|a| a.value());
        if let [y] = e.outputs.as_slice()
            && matches!(e.lower(module, f), Lowering::Contract { .. })
            && (home[i] + 1..end).contains(&first[*y])
        {
            let kept: f64 =
                values().filter(|v| last[*v] < first[*y]).map(|v| bytes(&f.types[v])).sum();
            if kept <= bytes(&f.types[*y]) {
                home[i] = first[*y];
                values().for_each(|v| last[v] = last[v].max(home[i]));
            }
        }
        values().for_each(|v| first[v] = first[v].min(home[i]));
    }
    let mut order: Vec<usize> = (0..f.equations.len()).collect();
    order.sort_by_key(|i| home[*i]);
    let (mut draft, mut map) = ValueRemap::same_signature(f);
    for i in order {
        let e = &f.equations[i];
        map.define(e, draft.copy(f, i, map.all(&e.operands)));
    }
    draft.close(map.results(f))
}

/// Cuts a function into regions (parts with an e-graph each), simplifies each region, and returns the concatenation of
/// the results.
fn pieces(
    module: &Module,
    f: &Function,
    options: &Options,
    report: &mut Simplification,
) -> Result<Function, Problem> {
    let (mut draft, mut map) = ValueRemap::same_signature(f);
    let mut last_use = vec![0usize; f.types.len()];
    for (i, e) in f.equations.iter().enumerate() {
        for v in e.operands.iter().filter_map(|a| a.value()) {
            last_use[v.as_u32() as usize] = i;
        }
    }
    for v in f.results.iter().filter_map(|a| a.value()) {
        last_use[v.as_u32() as usize] = f.equations.len();
    }
    let mut start = 0;
    while start < f.equations.len() {
        if is_pinned(module, f, start) {
            let e = &f.equations[start];
            map.define(e, draft.copy(f, start, map.all(&e.operands)));
            start += 1;
            continue;
        }
        let most = (start + options.region.max(1)).min(f.equations.len());
        let end = (start..most).find(|i| is_pinned(module, f, *i)).unwrap_or(most);
        let roots: Vec<ValueId> = f.equations[start..end]
            .iter()
            .flat_map(|e| &e.outputs)
            .copied()
            .filter(|v| last_use[v.as_u32() as usize] >= end)
            .collect();
        let piece = cut(f, start..end, &roots)?;
        report.regions.0 += 1;
        let smaller = region(module, &piece, options, report)?;
        report.regions.1 += usize::from(smaller.is_some());
        let crossing = crossing(f, start..end);
        let args = crossing.iter().map(|v| map.read((*v).into())).collect();
        let results = splice(&mut draft, smaller.as_ref().unwrap_or(&piece), args);
        for (v, a) in roots.iter().zip(results) {
            map.bind(*v, a);
        }
        start = end;
    }
    draft.close(map.results(f))
}

/// Returns the values that the equations of `range` read and that are defined before them, in the order of definition.
fn crossing(f: &Function, range: std::ops::Range<usize>) -> Vec<ValueId> {
    let equations = &f.equations[range];
    let inside: Vec<ValueId> = equations.iter().flat_map(|e| &e.outputs).copied().collect();
    let mut values: Vec<ValueId> = equations
        .iter()
        .flat_map(|e| &e.operands)
        .filter_map(|a| a.value())
        .filter(|v| inside.binary_search(v).is_err())
        .collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// Returns the equations of `range` as a function: its parameters are the values defined before, its results the
/// `roots`.
fn cut(
    f: &Function,
    range: std::ops::Range<usize>,
    roots: &[ValueId],
) -> Result<Function, Problem> {
    let mut draft = Draft::new(f.name.clone());
    let mut map = ValueRemap::new();
    for v in crossing(f, range.clone()) {
        map.bind(v, draft.param(f.types[v].clone()));
    }
    for i in range {
        let e = &f.equations[i];
        map.define(e, draft.copy(f, i, map.all(&e.operands)));
    }
    draft.close(roots.iter().map(|v| map.read((*v).into())).collect())
}

/// Appends the equations of the function `piece` to the function under construction, `draft`, and returns the results
/// of `piece` as atoms of `draft`.
fn splice(draft: &mut Draft, piece: &Function, args: Vec<Atom>) -> Vec<Atom> {
    let mut map = ValueRemap::with(piece, args);
    for (i, e) in piece.equations.iter().enumerate() {
        map.define(e, draft.copy(piece, i, map.all(&e.operands)));
    }
    map.results(piece)
}

/// The place of an original equation in the e-graph: its class, with its source line and phase (forward or reverse
/// pass).
struct Place<'f> {
    id: Id,
    origin: Origin,
    /// For a primitive that runs functions, such as a loop: the primitive as the e-graph stores it, and the original
    /// primitive. In the e-graph, equations of these functions are not marked as forward or reverse pass, so that equal
    /// loops of both passes are merged.
    runs: Option<(Op, &'f Op)>,
}

/// Simplifies one region (a part of the program), given as a function; returns `None` if no cheaper program was found.
fn region(
    module: &Module,
    f: &Function,
    options: &Options,
    report: &mut Simplification,
) -> Result<Option<Function>, Problem> {
    let leaves: Vec<ValueId> = f.all_params().collect();
    let mut graph = Graph::new(module, leaves.iter().map(|v| f.types[*v].clone()).collect());
    let mut class: SecondaryMap<ValueId, Option<Id>> = SecondaryMap::with_capacity(f.types.len());
    for (i, v) in leaves.iter().enumerate() {
        class[*v] = Some(graph.egraph.add(ENode::Leaf(i as u32)));
    }
    let mut places: Vec<Place<'_>> = Vec::new();
    let of = |graph: &mut Graph<'_>, class: &SecondaryMap<ValueId, Option<Id>>, a: &Atom| match a {
        Atom::Literal(x) => Some(graph.egraph.add(ENode::Literal(*x))),
        Atom::Value(v) => class[*v],
    };
    for (i, e) in f.equations.iter().enumerate() {
        let operands: Option<SmallVec<[Id; 3]>> =
            e.operands.iter().map(|a| of(&mut graph, &class, a)).collect();
        let Some(operands) = operands else { return Ok(None) };
        let types: SmallVec<[Type; 1]> = e.outputs.iter().map(|o| f.types[*o].clone()).collect();
        let op = module.unphased(&e.op);
        let id = graph.insert(&op, &operands, &types);
        let runs = (!op.regions().is_empty()).then_some((op, &e.op));
        places.push(Place { id, origin: f.origin(i), runs });
        match e.outputs.as_slice() {
            [y] => class[*y] = Some(id),
            outputs => {
                for (k, y) in outputs.iter().enumerate() {
                    class[*y] = Some(graph.egraph.add(ENode::Output(k as u32, [id])));
                }
            }
        }
    }
    let limit = 256 + options.growth * f.equations.len();
    let s = saturate(&mut graph, |r| allowed(&r.row, options.relaxed), limit);
    report.iterations += s.iterations;
    report.nodes += graph.egraph.total_number_of_nodes();
    report.full += usize::from(s.full);
    for (name, count) in s.fired {
        *report.rules.entry(name).or_default() += count;
    }
    let roots: Option<Vec<Id>> = f.results.iter().map(|r| of(&mut graph, &class, r)).collect();
    let Some(roots) = roots else { return Ok(None) };
    let Some(chosen) = extract(&graph, &roots) else { return Ok(None) };
    let Some(g) = emit(&graph, f, &chosen, &roots, &places)? else { return Ok(None) };
    let cheaper = Cost::of(module, &g).total() < Cost::of(module, f).total();
    Ok(cheaper.then_some(g))
}

/// Returns a function with the parameters of `f` that computes the chosen terms of the `roots` (the results), in the
/// order in which the roots need these terms; `None` if a term has no chosen node.
fn emit(
    graph: &Graph<'_>,
    f: &Function,
    chosen: &Extraction,
    roots: &[Id],
    places: &[Place<'_>],
) -> Result<Option<Function>, Problem> {
    let mut draft = Draft::new(f.name.clone());
    let params: Vec<Atom> = f.all_params().map(|p| draft.param(f.types[p].clone())).collect();
    // A class may hold several equal equations; the emitted equation gets the source line and the phase (forward or
    // reverse pass) of the first of them.
    let mut origins: OrderedMap<Id, Origin> = OrderedMap::default();
    let mut first: OrderedMap<(Id, &Op), &Op> = OrderedMap::default();
    for place in places {
        let id = graph.egraph.find(place.id);
        origins.entry(id).or_insert(place.origin);
        if let Some((unphased, op)) = &place.runs {
            first.entry((id, unphased)).or_insert(op);
        }
    }
    let mut done: OrderedMap<Id, Outputs> = OrderedMap::default();
    let mut atoms: OrderedMap<Id, Atom> = OrderedMap::default();
    // A stack of classes to emit, each with the source line and the phase (forward or reverse pass) of its first
    // reader. Recursion would overflow the stack in deep programs.
    let mut stack: Vec<(Id, Origin)> =
        roots.iter().rev().map(|r| (graph.egraph.find(*r), Origin::default())).collect();
    while let Some((id, asked)) = stack.last().copied() {
        if atoms.contains_key(&id) || done.contains_key(&id) {
            stack.pop();
            continue;
        }
        let Some(node) = chosen.node(id) else { return Ok(None) };
        let own = origins.get(&id).copied().unwrap_or(asked);
        let origin = Origin { loc: own.loc.or(asked.loc), ..own };
        let children: SmallVec<[Id; 3]> =
            egg::Language::children(node).iter().map(|x| graph.egraph.find(*x)).collect();
        let missing = |x: &&Id| !atoms.contains_key(*x) && !done.contains_key(*x);
        let before = stack.len();
        stack.extend(children.iter().rev().filter(missing).map(|x| (*x, origin)));
        if stack.len() > before {
            continue;
        }
        stack.pop();
        match node {
            ENode::Leaf(i) => {
                atoms.insert(id, params[*i as usize]);
            }
            ENode::Literal(x) => {
                atoms.insert(id, (*x).into());
            }
            ENode::Output(k, _) => {
                let Some(outputs) = done.get(&children[0]) else { return Ok(None) };
                atoms.insert(id, outputs[*k as usize].into());
            }
            ENode::Apply(op, _) => {
                let operands: Option<Operands> =
                    children.iter().map(|x| atoms.get(x).copied()).collect();
                let Some(mut operands) = operands else { return Ok(None) };
                if op.commutes() {
                    operands.sort_unstable();
                } else if planted(Fault::Extraction)
                    && graph.egraph[id].nodes.len() > 1
                    && let [x, y] = operands.as_mut_slice()
                    && draft.type_of(*x) == draft.type_of(*y)
                {
                    std::mem::swap(x, y);
                }
                let data = &graph.egraph[id].data;
                let op = first.get(&(id, op)).copied().unwrap_or(op).clone();
                let outputs = draft.push(op, operands, &data.types, origin);
                if data.bundle {
                    done.insert(id, outputs);
                } else {
                    atoms.insert(id, outputs[0].into());
                }
            }
        }
    }
    let results: Option<Vec<Atom>> =
        roots.iter().map(|r| atoms.get(&graph.egraph.find(*r)).copied()).collect();
    results.map(|results| draft.close(results)).transpose()
}
