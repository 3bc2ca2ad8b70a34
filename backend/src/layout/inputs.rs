//! Inputs: arguments that the way back reads in order are streamed from where they lie.
//!
//! A planner that keeps little reads arguments again. They come in an order that loops know beforehand, so
//! nothing has to be copied to be streamed: the engine that brings tiles back brings them, too. It is done for
//! loads that happen in every round, whose index is a sum of counters, of an argument that an earlier step
//! has read, where two elements or more are found in each line that is moved, or the cache would move about
//! as many lines: a column of a large matrix is in as many lines as it has elements, which fall on few sets.
//!
//! ```text
//! serial i10 in 10 {                          a tile: 8 rounds of i12, one line of b2
//!   serial i12 in 784 {
//!     %33: f64 = load b2[783 - i12]
//! ```

use super::affine::Affine;
use super::sites::{Site, Sites};
use super::turn::turn;
use super::{Input, Layout, Room};
use crate::kernel::{Place, Program, ScalarId};

/// The pass.
pub(super) fn inputs(program: &Program, mut layout: Layout, room: &Room) -> Layout {
    let (k, sites) = (&program.entry, Sites::of(program));
    let from = turn(program).unwrap_or(0);
    let mut found: Vec<(usize, Input)> = Vec::new();
    for site in sites.all.iter().filter(|s| s.step >= from) {
        let again = sites.touching(site.buffer).any(|s| s.step < site.step);
        if !again || !matches!(k.buffers[site.buffer].place, Place::Input(_)) {
            continue;
        }
        let Some((value, address, stride)) = in_order(site) else { continue };
        let with = found.iter_mut().find(|(block, input)| {
            let near = |(_, other): &(_, Affine)| {
                let apart = address.minus(other).and_then(|d| d.value());
                apart.is_some_and(|d| d.abs() < stride)
            };
            (*block, input.buffer) == (site.block, site.buffer) && input.loads.iter().all(near)
        });
        match with {
            Some((_, input)) if input.loads.iter().any(|l| l.1 == address) => {}
            Some((_, input)) => input.loads.push((value, address)),
            None => {
                let (buffer, step, loops) = (site.buffer, site.step, site.loops.clone());
                let loads = vec![(value, address)];
                found.push((
                    site.block,
                    Input { buffer, step, loops, loads, tile: None, scratchpad: None },
                ));
            }
        }
    }
    for (_, input) in found {
        let width = k.buffers[input.buffer].ty.dtype.bytes() as i64;
        let line = |element: i64| element * width / room.line.max(1) as i64;
        let worth = input.elements().is_some_and(|all| {
            let lines: Vec<i64> = all.iter().map(|element| line(*element)).collect();
            let moved = lines.chunk_by(|a, b| a == b).count() as u64;
            let dense = 2 * moved <= lines.len() as u64;
            lines.len() as u64 >= room.half() && (dense || 15 * moved <= 16 * misses(&lines, room))
        });
        if worth {
            layout.inputs.push(input);
        }
    }
    layout
}

/// How many lines a cache fetches that has nothing else to do.
fn misses(lines: &[i64], room: &Room) -> u64 {
    let count = (room.cache / room.line.max(1) / room.ways.max(1)).max(1);
    // Of each set its lines, the youngest last.
    let mut sets: Vec<Vec<i64>> = vec![Vec::new(); count as usize];
    let mut missed = 0;
    for line in lines {
        let set = &mut sets[line.rem_euclid(count as i64) as usize];
        match set.iter().position(|l| l == line) {
            Some(at) => {
                set.remove(at);
            }
            None => {
                missed += 1;
                if set.len() as u64 >= room.ways {
                    set.remove(0);
                }
            }
        }
        set.push(*line);
    }
    missed
}

/// A load that comes by its elements in order: what it gives, which elements, and the stride of the
/// innermost loop.
fn in_order(site: &Site) -> Option<(ScalarId, Affine, i64)> {
    let (value, address) = (site.value?, site.address.clone()?);
    let (_, stride) = address.without(site.loops.last()?.index);
    (site.always && !site.write && stride != 0).then_some((value, address, stride.abs()))
}
