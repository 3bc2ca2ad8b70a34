//! Tests of minimum cuts.

use crate::sweeps::Sweep;
use max_flow::Network;

#[path = "../../src/checkpoint/max_flow.rs"]
#[allow(dead_code, reason = "it is a private module of the library")]
mod max_flow;

/// Returns the sum of the capacities of the edges into `side`, the sink side of a cut.
fn capacity(edges: &[(usize, usize, u64)], side: &[bool]) -> u64 {
    edges.iter().filter(|(a, b, _)| !side[*a] && side[*b]).map(|(_, _, c)| c).sum()
}

#[test]
fn every_cut_of_small_graphs_costs_as_much_or_more() {
    let mut state = Sweep::Cuts.seed();
    let mut random = |n: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % n
    };
    for _ in 0..Sweep::Cuts.cases() {
        let n = 2 + random(6) as usize;
        let m = random(16);
        let edges: Vec<(usize, usize, u64)> = (0..m)
            .map(|_| (random(n as u64) as usize, random(n as u64) as usize, random(9)))
            .collect();
        let mut network = Network::default();
        (0..n).for_each(|_| {
            network.node();
        });
        edges.iter().for_each(|(a, b, c)| network.edge(*a, *b, *c));
        let side = network.cut(0, 1);
        assert!(!side[0] && side[1]);
        let found = capacity(&edges, &side);
        let size = side.iter().filter(|on| **on).count();
        for mask in 0..1u32 << n {
            let other: Vec<bool> = (0..n).map(|i| mask >> i & 1 == 1).collect();
            if other[0] || !other[1] {
                continue;
            }
            let cost = capacity(&edges, &other);
            assert!(found <= cost, "{edges:?}: {side:?} costs {found}, {other:?} {cost}");
            let smaller = other.iter().filter(|on| **on).count() < size;
            assert!(found < cost || !smaller, "{edges:?}: {other:?} is smaller than {side:?}");
        }
    }
}
