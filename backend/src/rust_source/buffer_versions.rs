//! Splits buffers into their versions (the values that a buffer holds one after the other), so that there is one buffer
//! for each value.
//!
//! Lowering lets values whose lifetimes do not overlap share a buffer, and uses the buffer of a result for intermediate
//! values. In printed Rust, each value has a variable of its own, which is named after the operation that computes the
//! value.

use super::declarations::is_local;
use crate::loop_ir::{
    Address, Arg, Buffer, BufferId, BufferVersion, Carry, Kernel, Place, Rewriter, visit,
};
use std::collections::{BTreeMap, BTreeSet};
use tapeloom_ir::OrderedMap;

/// Gives each version of a buffer (one of the values that it holds one after the other) its own buffer, unless the
/// version keeps elements of an earlier version.
pub(super) fn split(kernel: &mut Kernel) {
    let mut carried: BTreeSet<BufferId> = BTreeSet::new();
    // For each buffer, the version that the last statement writes. Versions are not numbered in the order of
    // statements, so this need not be the version with the largest number.
    let mut last: BTreeMap<BufferId, u32> = BTreeMap::new();
    visit(&kernel.body, &mut |stmt| {
        stmt.accesses(&mut |access| {
            if access.write {
                last.insert(access.held.buffer, access.held.version);
            }
        });
        for Carry { input, output } in stmt.carries() {
            carried.extend([input.buffer, output.buffer]);
        }
    });
    let mut fresh: OrderedMap<BufferVersion, BufferId> = OrderedMap::default();
    for id in kernel.buffers.keys().collect::<Vec<_>>() {
        let Buffer { ty, place, .. } = kernel.buffers[id].clone();
        let is_result = matches!(place, Place::Output(_));
        if !(is_result || is_local(kernel, id))
            || carried.contains(&id)
            || kernel.buffers[id].zeroed
        {
            continue;
        }
        // For each version, its group. If a version keeps elements of an earlier version, it is in the group of that
        // version. A group is named by its first version.
        let versions = kernel.versions[id].clone();
        let mut groups: Vec<u32> = vec![0];
        for (i, version) in versions.iter().enumerate() {
            let own = i as u32 + 1;
            groups.push(version.continues.map_or(own, |before| groups[before as usize]));
        }
        // The last version of a result, which is the value that the caller gets, stays in the result's own buffer.
        let last = last.get(&id).filter(|_| is_result);
        let kept = last.map_or(0, |version| groups[*version as usize]);
        let mut made: BTreeMap<u32, BufferId> = BTreeMap::from([(kept, id)]);
        for (version, group) in groups.iter().enumerate() {
            let buffer = *made
                .entry(*group)
                .or_insert_with(|| kernel.buffers.push(Buffer::new(ty.clone(), Place::Unplaced)));
            fresh.insert(BufferVersion { buffer: id, version: version as u32 }, buffer);
        }
    }
    kernel.rewrite(|_, body| *body = Renamed(&fresh).block(body));
}

/// A rewriter that replaces each version of a buffer (one of the values that it holds one after the other) by its new
/// buffer.
struct Renamed<'a>(&'a OrderedMap<BufferVersion, BufferId>);

impl Rewriter for Renamed<'_> {
    fn arg(&mut self, arg: Arg) -> Arg {
        arg
    }

    fn element(&mut self, held: BufferVersion, address: &Address) -> (BufferVersion, Address) {
        let buffer = self.0.get(&held).copied().unwrap_or(held.buffer);
        (BufferVersion { buffer, ..held }, address.clone())
    }
}
