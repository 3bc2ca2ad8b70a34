//! Counts and limits the iterations of loops during one call of a program. The interpreter calls these functions;
//! machine code counts in a [`Row`] and calls [`runtime::loop_limits`](crate::runtime::loop_limits) when a loop
//! begins.

use crate::loop_ir::{LoopLimit, LoopLimitId};
use cranelift_entity::{EntityRef, PrimaryMap};
use std::sync::atomic::AtomicBool;
use tapeloom_ir::{LimitedLoop, Limits, LoopCount, Problem};

/// The counter of a limited loop, as machine code reads and writes it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Row {
    /// The number of iterations since the current run of the loop began.
    pub(crate) count: u64,
    /// The value of `count`, in iterations, at which the limits are checked next.
    pub(crate) until: u64,
    /// The limit that the user has set: a run of the loop with more iterations than this is an error.
    pub(crate) most: u64,
    /// 1 if this loop ended the call because it reached a limit, otherwise 0.
    pub(crate) stopped: u64,
}

/// The counters of all limited loops of a program during one call, with the limits of the call.
pub(crate) struct LoopLimits {
    pub(crate) rows: Box<[Row]>,
    loops: Vec<(LimitedLoop, LoopCount)>,
    limits: Limits,
    /// The error that prevented a loop from beginning: its trip count exceeds the limit, or the call has been
    /// cancelled.
    pub(crate) refused: Option<Problem>,
    /// A flag that is never set; machine code checks it in calls that cannot be cancelled.
    never: AtomicBool,
}

impl LoopLimits {
    /// Creates the counters of a call, before any loop has begun.
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

    /// Returns the address of the flag that machine code checks; the flag is set when the call is cancelled.
    pub(crate) fn flag(&self) -> *const u8 {
        let cancel = self.limits.cancel.as_ref();
        std::ptr::from_ref(cancel.map_or(&self.never, |c| c.flag())).cast()
    }

    /// Begins a run of a loop; `trip` is the trip count if it is known. Returns an error if the trip count exceeds
    /// the limit.
    pub(crate) fn enter(&mut self, limit: LoopLimitId, trip: Option<u64>) -> Result<(), Problem> {
        self.end_run(limit);
        let (iterations, count) = &mut self.loops[limit.index()];
        count.entered += 1;
        let begun = iterations.begin(trip);
        self.rows[limit.index()].until = iterations.until;
        begun.map_err(|p| p.at(count.location))
    }

    /// Counts an iteration of a loop that begins. Returns an error if the loop's limit is reached or the call is
    /// cancelled.
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

    /// Adds the iterations of the loop's previous run to the loop's totals, and resets the counter.
    fn end_run(&mut self, limit: LoopLimitId) {
        let (row, (_, count)) = (&mut self.rows[limit.index()], &mut self.loops[limit.index()]);
        count.iterations += row.count;
        count.most = count.most.max(row.count);
        row.count = 0;
    }

    /// Returns, for each limited loop, the number of its runs and of its iterations in the call.
    pub(crate) fn counts(mut self) -> Vec<LoopCount> {
        (0..self.rows.len()).for_each(|i| self.end_run(LoopLimitId::new(i)));
        self.loops.into_iter().map(|(_, count)| count).collect()
    }

    /// Returns the error for which machine code ended the call: a loop that reached a limit, a loop that could not
    /// begin, or a cancellation.
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
