//! The minimum cut of a graph with capacities.
//!
//! ```text
//! maximum flow = minimum capacity of the edges from S to T, source in S, sink in T
//! ```
//!
//! The algorithm is Dinic's: flow is sent along shortest paths until the sink is unreachable. Of all minimum cuts, the
//! one with the smallest sink side is returned.
//!
//! Source: Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation"
//! (1970).

use std::collections::VecDeque;

/// A capacity too large to be cut: it exceeds every minimum cut. An edge with this price forbids saving or recomputing.
pub(super) const NEVER: u64 = u64::MAX / 4;

/// A directed graph whose edges have capacities.
#[derive(Clone, Debug, Default)]
pub(super) struct Network {
    /// Edges in pairs, each followed by its reverse edge.
    edges: Vec<Edge>,
    /// The indices of the edges that leave each node.
    leaving: Vec<Vec<usize>>,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    to: usize,
    /// The residual capacity: the edge's capacity less the flow along it.
    left: u64,
}

impl Network {
    /// Adds a node without edges; returns the node's index.
    pub(super) fn node(&mut self) -> usize {
        self.leaving.push(Vec::new());
        self.leaving.len() - 1
    }

    /// Adds an edge from node `from` to node `to` with this capacity, and its reverse edge.
    pub(super) fn edge(&mut self, from: usize, to: usize, capacity: u64) {
        self.leaving[from].push(self.edges.len());
        self.edges.push(Edge { to, left: capacity });
        self.leaving[to].push(self.edges.len());
        self.edges.push(Edge { to: from, left: 0 });
    }

    /// Returns, per node, whether it is on the sink side of a minimum cut.
    pub(super) fn cut(mut self, source: usize, sink: usize) -> Vec<bool> {
        while let Some(level) = self.levels(source, sink) {
            let mut next = vec![0; self.leaving.len()];
            while self.push(source, sink, &level, &mut next) > 0 {}
        }
        // The sink side of the cut: the nodes from which the sink is reachable in the residual graph.
        let mut side = vec![false; self.leaving.len()];
        side[sink] = true;
        let mut open = vec![sink];
        while let Some(node) = open.pop() {
            for &e in &self.leaving[node] {
                let from = self.edges[e].to;
                if !side[from] && self.edges[e ^ 1].left > 0 {
                    side[from] = true;
                    open.push(from);
                }
            }
        }
        side
    }

    /// Returns each node's distance from the source, in edges with residual capacity; `None` if the sink is
    /// unreachable.
    fn levels(&self, source: usize, sink: usize) -> Option<Vec<usize>> {
        let mut level = vec![usize::MAX; self.leaving.len()];
        level[source] = 0;
        let mut open = VecDeque::from([source]);
        while let Some(node) = open.pop_front() {
            for &e in &self.leaving[node] {
                let Edge { to, left } = self.edges[e];
                if left > 0 && level[to] == usize::MAX {
                    level[to] = level[node] + 1;
                    open.push_back(to);
                }
            }
        }
        (level[sink] != usize::MAX).then_some(level)
    }

    /// Sends flow along one shortest path from source to sink (along edges to the next `level`), and returns the
    /// amount of flow; 0 if there is no path. `next` has, per node, the index in `leaving` of the next edge to try.
    fn push(&mut self, source: usize, sink: usize, level: &[usize], next: &mut [usize]) -> u64 {
        let mut path: Vec<usize> = Vec::new();
        let mut node = source;
        while node != sink {
            let way = self.leaving[node][next[node]..].iter().position(|&e| {
                let Edge { to, left } = self.edges[e];
                left > 0 && level[to] == level[node] + 1
            });
            if let Some(way) = way {
                next[node] += way;
                let e = self.leaving[node][next[node]];
                path.push(e);
                node = self.edges[e].to;
                continue;
            }
            next[node] = self.leaving[node].len();
            let Some(back) = path.pop() else { return 0 };
            node = self.edges[back ^ 1].to;
            next[node] += 1;
        }
        let flow = path.iter().map(|e| self.edges[*e].left).min().unwrap_or(0);
        for e in path {
            self.edges[e].left -= flow;
            self.edges[e ^ 1].left += flow;
        }
        flow
    }
}
