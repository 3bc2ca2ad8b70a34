//! Orders reads before writes: the readers of an array come before the update that overwrites it, so that the
//! update can be made in place.
//!
//! ```text
//! func @swap(%0: f64[100], %1: i64[], %2: i64[]) -> (f64[100]) {
//!   %3: f64[1] = dynamic_slice{sizes=[1]} %0, %1
//!   %4: f64[1] = dynamic_slice{sizes=[1]} %0, %2
//!   %5: f64[100] = dynamic_update_slice %0, %4, %1
//!   %6: f64[100] = dynamic_update_slice %5, %3, %2       reads %0, which %5 has written over
//!   return %6
//! }
//! ```
//!
//! A slice has no memory of its own, so its readers read its operand. So a slice that is small compared to the
//! overwritten array is copied first ([`copied`]), and an update comes after every reader of the overwritten array that
//! does not depend on the update ([`in_order`]). Otherwise an update of one element would copy the array, and a loop
//! over elements, or its gradient, would copy the array in every iteration.

use super::iteration_domain::FusionCandidate;
use crate::lower::graph::phase_order;
use crate::lower::graph::units::Donation;
use crate::lower::graph::{Graph, Movement, NodeId, NodeKind, Source};
use cranelift_entity::SecondaryMap;
use std::collections::{BTreeMap, BTreeSet};

/// The limit of the search for fusion candidates that depend on an update: for all updates together, the search follows
/// at most this number of reads times the number of candidates.
const FOLLOWED: usize = 64;

/// Returns the views of overwritten arrays that are copied before the update, as (node, operand number). A view is
/// copied if it has at most 1/`copied_view_ratio` of the array's elements.
pub(crate) fn copied(graph: &Graph, donation: &Donation) -> BTreeSet<(NodeId, usize)> {
    let mut copied = BTreeSet::new();
    let mut written: SecondaryMap<NodeId, bool> = SecondaryMap::new();
    let results: BTreeSet<NodeId> = graph.results.iter().copied().collect();
    for (id, node) in &graph.nodes {
        if !node.kind.is_movement() {
            let small = |s: &usize| {
                let view = node.operands[*s];
                let over = viewed(graph, view).filter(|base| written[*base]);
                over.is_some_and(|base| {
                    let elements = graph.array(view).shape.elements();
                    elements.saturating_mul(graph.machine.copied_view_ratio)
                        <= graph.nodes[base].ty.shape.elements()
                })
            };
            copied.extend((0..node.operands.len()).filter(small).map(|slot| (id, slot)));
        }
        for base in bases(graph, id) {
            let owned = match graph.nodes[base].kind {
                NodeKind::Input(p) => donation.any(p),
                _ => true,
            };
            written[base] |= owned && !results.contains(&base);
        }
    }
    copied
}

/// If `view` is not an array itself, but only moves elements of one array, returns this array.
fn viewed(graph: &Graph, view: Source) -> Option<NodeId> {
    let mut id = view.node()?;
    let mut moved = false;
    loop {
        let node = &graph.nodes[id];
        let operand = match &node.kind {
            NodeKind::Movement(Movement::Reshape | Movement::Slice | Movement::Gather { .. }) => 0,
            NodeKind::Movement(Movement::View { pieces, .. }) if pieces.len() == 1 => {
                pieces[0].operand
            }
            kind => return (moved && !kind.is_movement()).then_some(id),
        };
        moved = true;
        id = node.operands[operand].node()?;
    }
}

/// Returns the bases (arrays whose memory may be overwritten) of a node and of all results of its region.
fn bases(graph: &Graph, id: NodeId) -> impl Iterator<Item = NodeId> {
    let node = &graph.nodes[id];
    let update = node.kind.is_update().then_some(0);
    let region = node.kind.region().map_or(&[][..], |r| &graph.regions[r].initial_values);
    let slots = update.into_iter().chain(region.iter().map(|(slot, _)| *slot));
    slots.filter_map(|slot| node.operands[slot].node())
}

/// Reorders the fusion candidates so that an update comes after the readers of its base (the array whose memory the
/// update overwrites). Readers that depend on the update stay after it. Otherwise the order is unchanged.
pub(crate) fn in_order(graph: &Graph, candidates: Vec<FusionCandidate>) -> Vec<FusionCandidate> {
    let waits = waits(graph, &candidates);
    let pass = phase_order::required_passes(graph);
    let pass: Vec<u8> = candidates.iter().map(|m| pass[m.node]).collect();
    let late = late(graph, &candidates, &waits, &pass);
    if late.is_empty() {
        return candidates;
    }
    let mut waiting: Vec<usize> = waits.iter().map(Vec::len).collect();
    let mut waited: Vec<Vec<usize>> = vec![Vec::new(); candidates.len()];
    let edges = waits.iter().enumerate().flat_map(|(m, on)| on.iter().map(move |on| (m, *on)));
    for (m, on) in edges {
        waited[on].push(m);
    }
    for (update, reader) in late {
        waiting[update] += 1;
        waited[reader].push(update);
    }
    // For each pass, the fusion candidates that are not yet in the new order: `rest` has all of them, and `ready` those
    // whose predecessors are all in the new order.
    let [mut rest, mut ready] = [const { BTreeMap::<u8, BTreeSet<usize>>::new() }; 2];
    for (m, pass) in pass.iter().enumerate() {
        rest.entry(*pass).or_default().insert(m);
        ready.entry(*pass).or_default().extend((waiting[m] == 0).then_some(m));
    }
    let mut candidates: Vec<Option<FusionCandidate>> = candidates.into_iter().map(Some).collect();
    let mut order = Vec::with_capacity(candidates.len());
    // A fusion candidate whose pass is not the first one must come after all remaining candidates of other passes that
    // precede it in the old order.
    let free = |rest: &BTreeMap<u8, BTreeSet<usize>>, (m, pass): (usize, u8)| {
        let mut others = rest.iter().filter(|(other, _)| **other != pass);
        pass == 0 || others.all(|(_, all)| all.first().is_none_or(|other| m < *other))
    };
    // Two updates may each have to follow a reader that comes after the other update, so the order may be cyclic.
    // Except for updates, a fusion candidate follows only earlier candidates. So the first of the remaining candidates
    // is an update. It runs before a reader of its base, and copies the base.
    while let Some((m, own)) =
        first(&ready).filter(|m| free(&rest, *m)).min().or_else(|| first(&rest).min())
    {
        for all in [&mut ready, &mut rest] {
            all.entry(own).or_default().remove(&m);
        }
        order.extend(candidates[m].take());
        for next in std::mem::take(&mut waited[m]) {
            waiting[next] -= 1;
            if waiting[next] == 0 && candidates[next].is_some() {
                ready.entry(pass[next]).or_default().insert(next);
            }
        }
    }
    order
}

/// Returns, for each pass in `of`, its first fusion candidate, as (candidate, pass).
fn first(of: &BTreeMap<u8, BTreeSet<usize>>) -> impl Iterator<Item = (usize, u8)> {
    of.iter().filter_map(|(pass, all)| Some((*all.first()?, *pass)))
}

/// Returns, for every fusion candidate, the earlier candidates that it must come after: the producers of the arrays
/// that it reads, and for an ordered effect the ordered effect before it.
fn waits(graph: &Graph, candidates: &[FusionCandidate]) -> Vec<Vec<usize>> {
    let mut made: SecondaryMap<NodeId, Vec<usize>> = SecondaryMap::new();
    let mut effect = None;
    let mut waits = Vec::with_capacity(candidates.len());
    for (m, candidate) in candidates.iter().enumerate() {
        let mut on: BTreeSet<usize> = BTreeSet::new();
        for r in &candidate.reads {
            let first = graph.nodes[r.node].first_result().unwrap_or(r.node);
            on.extend(made[first].iter());
        }
        if let Some(region) = graph.nodes[candidate.node].kind.region()
            && graph.regions[region].ordered
        {
            on.extend(effect.replace(m));
        }
        made[candidate.node].push(m);
        waits.push(on.into_iter().collect());
    }
    waits
}

/// Returns pairs (update, reader) to be reordered: the reader comes after the update, reads the base of the update (the
/// array that it overwrites), and does not depend on the update.
fn late(
    graph: &Graph,
    candidates: &[FusionCandidate],
    waits: &[Vec<usize>],
    pass: &[u8],
) -> Vec<(usize, usize)> {
    let mut taker: SecondaryMap<NodeId, Option<usize>> = SecondaryMap::new();
    for (m, candidate) in candidates.iter().enumerate() {
        for base in bases(graph, candidate.node) {
            // If several updates overwrite one base, the last of them may take over the base's memory.
            taker[base] = Some(m);
        }
    }
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); candidates.len()];
    for (m, candidate) in candidates.iter().enumerate() {
        for r in &candidate.reads {
            if let Some(update) = taker[r.node].filter(|update| *update < m)
                && readers[update].last() != Some(&m)
            {
                readers[update].push(m);
            }
        }
    }
    let mut late = Vec::new();
    let mut followed = candidates.len().saturating_mul(FOLLOWED);
    for (update, readers) in readers.iter().enumerate() {
        let Some(last) = readers.last() else { continue };
        // For each fusion candidate from the update on: whether it must run after the update. It must if it reads
        // results of the update, is the next ordered effect, or belongs to a pass that begins after the pass of the
        // update has ended. It must also if one of these conditions holds between it and another candidate that must
        // run after the update.
        let mut after: Vec<bool> = vec![true];
        let mut passes = BTreeSet::from([pass[update]]);
        for (waits, own) in waits.iter().zip(pass).take(*last + 1).skip(update + 1) {
            let mut on = waits.iter().filter(|on| **on >= update);
            let behind = *own > 0 && passes.iter().any(|pass| pass != own);
            let waits_for_it = behind || on.any(|on| after[*on - update]);
            passes.extend(waits_for_it.then_some(*own));
            after.push(waits_for_it);
            followed = followed.saturating_sub(1 + waits.len());
        }
        if followed == 0 {
            break;
        }
        // If one reader depends on the update, the base is copied in any case, so no reader needs to move.
        if !readers.iter().any(|m| after[*m - update]) {
            late.extend(readers.iter().map(|m| (update, *m)));
        }
    }
    late
}
