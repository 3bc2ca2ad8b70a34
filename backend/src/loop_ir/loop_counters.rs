//! The iterations of the loops of one call, counted and limited: by the interpreter, and by machine code, which counts in
//! a [`Row`] and calls [`runtime::loop_limits`](crate::runtime::loop_limits) where a loop begins.

use crate::loop_ir::{LoopLimit, LoopLimitId};
use cranelift_entity::{EntityRef, PrimaryMap};
use std::sync::atomic::AtomicBool;
use tapeloom_ir::{LimitedLoop, Limits, LoopCount, Problem};

/// What machine code knows of a loop.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Row {
    /// Iterations that have begun since the loop did.
    pub(crate) count: u64,
    /// At which one to look.
    pub(crate) until: u64,
    /// How many there may be.
    pub(crate) most: u64,
    /// 1 if the loop is what ends the call.
    pub(crate) stopped: u64,
}

/// The loops of a program during one call.
pub(crate) struct LoopLimits {
    pub(crate) rows: Box<[Row]>,
    loops: Vec<(LimitedLoop, LoopCount)>,
    limits: Limits,
    /// Why a loop did not begin.
    pub(crate) refused: Option<Problem>,
    /// Looked at where nobody may end the call.
    never: AtomicBool,
}

impl LoopLimits {
    /// None has begun.
    pub(crate) fn of(limited: &PrimaryMap<LoopLimitId, LoopLimit>, limits: &Limits) -> LoopLimits {
        let one = |w: &LoopLimit| {
            let (location, runtime) = (w.loc, w.runtime);
            let count = LoopCount { location, runtime, entered: 0, iterations: 0, most: 0 };
            (LimitedLoop::new(limits, runtime), count)
        };
        let loops: Vec<(LimitedLoop, LoopCount)> = limited.values().map(one).collect();
        let row = |most| Row { count: 0, until: 0, most, stopped: 0 };
        let rows = loops.iter().map(|(iterations, _)| row(iterations.most)).collect();
        LoopLimits {
            rows,
            loops,
            limits: limits.clone(),
            refused: None,
            never: AtomicBool::new(false),
        }
    }

    /// Where it is written that the call ends.
    pub(crate) fn flag(&self) -> *const u8 {
        let cancel = self.limits.cancel.as_ref();
        std::ptr::from_ref(cancel.map_or(&self.never, |c| c.flag())).cast()
    }

    /// A loop begins, of so many iterations, if that is known.
    pub(crate) fn enter(&mut self, limit: LoopLimitId, trip: Option<u64>) -> Result<(), Problem> {
        self.settle(limit);
        let (iterations, count) = &mut self.loops[limit.index()];
        count.entered += 1;
        let begun = iterations.begin(trip);
        self.rows[limit.index()].until = iterations.until;
        begun.map_err(|p| p.at(count.location))
    }

    /// An iteration begins.
    pub(crate) fn count(&mut self, limit: LoopLimitId) -> Result<(), Problem> {
        let row = &mut self.rows[limit.index()];
        row.count += 1;
        if row.count == row.until { self.look(limit) } else { Ok(()) }
    }

    fn look(&mut self, limit: LoopLimitId) -> Result<(), Problem> {
        let (row, (iterations, count)) =
            (&mut self.rows[limit.index()], &mut self.loops[limit.index()]);
        iterations.count = row.count;
        let looked = iterations.look();
        row.until = iterations.until;
        looked.map_err(|p| p.at(count.location))
    }

    /// Takes up what the last run of a loop counted.
    fn settle(&mut self, limit: LoopLimitId) {
        let (row, (_, count)) = (&mut self.rows[limit.index()], &mut self.loops[limit.index()]);
        count.iterations += row.count;
        count.most = count.most.max(row.count);
        row.count = 0;
    }

    /// What the loops did.
    pub(crate) fn counts(mut self) -> Vec<LoopCount> {
        (0..self.rows.len()).for_each(|i| self.settle(LoopLimitId::new(i)));
        self.loops.into_iter().map(|(_, count)| count).collect()
    }

    /// Why machine code stopped.
    pub(crate) fn stopped(&mut self) -> Problem {
        let row = self.rows.iter().position(|row| row.stopped != 0);
        let stopped = row.map(|i| {
            let (iterations, count) = &mut self.loops[i];
            iterations.count = self.rows[i].count;
            iterations.stopped().at(count.location)
        });
        let unknown = || Problem::internal("a call is stopped for no reason");
        self.refused.take().or(stopped).unwrap_or_else(unknown)
    }
}
