//! One buffer for each value: buffers are split into their versions.
//!
//! Lowering lets values whose lifetimes do not overlap share a buffer, and results hold other values before. In Rust each value
//! has a variable of its own, which is named by the operation that computes it.

use super::declarations::is_local;
use crate::loop_ir::{Buffer, BufferId, BufferVersion, Carry, Expr, Kernel, Place, Stmt, visit};
use std::collections::{BTreeMap, BTreeSet};
use tapeloom_ir::OrderedMap;

/// Gives each version of a buffer that keeps no element of another one a buffer of its own.
pub(super) fn split(kernel: &mut Kernel) {
    let mut carried: BTreeSet<BufferId> = BTreeSet::new();
    visit(&kernel.body, &mut |stmt| {
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
        // The group of a version: the first version whose elements it keeps.
        let versions = kernel.versions[id].clone();
        let mut groups: Vec<u32> = vec![0];
        for (i, version) in versions.iter().enumerate() {
            let own = i as u32 + 1;
            groups.push(version.continues.map_or(own, |before| groups[before as usize]));
        }
        // The last version of a result stays in it.
        let kept = if is_result { groups[versions.len()] } else { 0 };
        let mut made: BTreeMap<u32, BufferId> = BTreeMap::from([(kept, id)]);
        for (version, group) in groups.iter().enumerate() {
            let buffer = *made
                .entry(*group)
                .or_insert_with(|| kernel.buffers.push(Buffer::new(ty.clone(), Place::Unplaced)));
            fresh.insert(BufferVersion { buffer: id, version: version as u32 }, buffer);
        }
    }
    kernel.rewrite(|_, body| rename(body, &fresh));
}

fn rename(body: &mut [Stmt], fresh: &OrderedMap<BufferVersion, BufferId>) {
    let rename = |held: &mut BufferVersion| {
        if let Some(buffer) = fresh.get(held) {
            *held = BufferVersion { buffer: *buffer, version: held.version };
        }
    };
    for stmt in body {
        match stmt {
            Stmt::Let { expr: Expr::Load { held, .. }, .. } | Stmt::Store { held, .. } => {
                rename(held)
            }
            Stmt::Contract(c) => {
                [&mut c.lhs.held, &mut c.rhs.held, &mut c.out.held].into_iter().for_each(rename);
            }
            Stmt::Call(call) => {
                let views = call.operands.iter_mut().chain(&mut call.outputs);
                views.for_each(|view| rename(&mut view.held));
            }
            Stmt::CallExternal(call) => {
                let views = call.operands.iter_mut().chain(&mut call.outputs);
                views.for_each(|view| rename(&mut view.held));
            }
            Stmt::Nest { .. }
            | Stmt::For { .. }
            | Stmt::While { .. }
            | Stmt::If { .. }
            | Stmt::Let { expr: Expr::Code(..), .. }
            | Stmt::Var { .. }
            | Stmt::Set { .. }
            | Stmt::Fold { .. }
            | Stmt::Tape(_)
            | Stmt::Limit(_)
            | Stmt::Lap(_) => {}
        }
        for inside in stmt.blocks_mut() {
            self::rename(inside, fresh);
        }
    }
}
