//! Estimates of the run time of statements, in operations.

use crate::loop_ir::{Extent, Flow, KernelId, Program, Stmt, work};
use cranelift_entity::PrimaryMap;
use std::slice::from_ref;

/// The cost of an operation outside of loops with vector lanes, in operations of one vector lane.
const SCALAR: u64 = 4;

/// The cost of each callee of a program, in operations of a vector lane.
#[derive(Debug)]
pub(crate) struct Costs {
    callees: PrimaryMap<KernelId, u64>,
    /// The assumed trip count of loops whose trip count is known only at run time.
    trips: u64,
}

impl Costs {
    /// Returns the costs of the program's callees; loops with a run-time trip count are assumed to run `trips`
    /// iterations.
    pub(crate) fn of(program: &Program, trips: u64) -> Costs {
        let mut costs = Costs { callees: PrimaryMap::new(), trips };
        for kernel in program.callees.values() {
            let cost = costs.block(&kernel.body);
            costs.callees.push(cost);
        }
        costs
    }

    /// Returns the cost of a callee, in operations of a vector lane.
    pub(crate) fn kernel(&self, kernel: KernelId) -> u64 {
        self.callees[kernel]
    }

    /// Returns the cost of a block in operations of a vector lane; `u64::MAX` if the block calls a Rust function.
    pub(crate) fn block(&self, body: &[Stmt]) -> u64 {
        self.within(body, self.trips, 1)
    }

    /// Returns the cost in operations of a vector lane of a statement that runs once in a call of the program. The cost
    /// is `u64::MAX` for a loop whose trip count is known only at run time.
    pub(crate) fn once(&self, stmt: &Stmt) -> u64 {
        self.within(from_ref(stmt), u64::MAX, 1)
    }

    fn within(&self, body: &[Stmt], trips: u64, lanes: usize) -> u64 {
        body.iter().map(|s| self.stmt(s, trips, lanes)).fold(0, u64::saturating_add)
    }

    fn stmt(&self, stmt: &Stmt, trips: u64, lanes: usize) -> u64 {
        let shape = stmt.shape();
        let own = if let Flow::For { lanes: own, .. } = shape.flow { own } else { 1 };
        let blocks = shape.blocks.iter().map(|b| self.within(b, trips, lanes.max(own)));
        match shape.flow {
            Flow::Straight => {
                let scalar = shape.is_scalar() && lanes == 1;
                work(from_ref(stmt), &self.callees).saturating_mul(if scalar { SCALAR } else { 1 })
            }
            Flow::If => blocks.max().unwrap_or(0),
            Flow::Nest => blocks.fold(0, u64::saturating_add),
            Flow::For { extent: Extent::Constant(n), .. } => {
                blocks.fold(0, u64::saturating_add).saturating_mul(n as u64)
            }
            Flow::For { extent: Extent::Scalar(_), .. } | Flow::While => {
                blocks.fold(0, u64::saturating_add).saturating_mul(trips)
            }
        }
    }
}
