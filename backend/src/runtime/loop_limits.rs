//! The iterations of a call: counted, limited, and ended from outside.
//!
//! Generated code counts an iteration by a few instructions in a [`Row`], and where the count reaches what it
//! is told to look at, looks whether there may be another one; where a loop begins it calls [`enter`].
//! There is no call in an iteration: it would cost what registers hold.

#![expect(unsafe_code, reason = "is called by generated code, with pointers")]

use crate::loop_ir::{WatchId, Watched};
use crate::runtime::abi::Context;
use crate::runtime::gemm::PANICKED;
use cranelift_entity::{EntityRef, PrimaryMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use tapeloom_ir::{LimitedLoop, Limits, LoopCount, Problem};

/// The status of a call that came to a limit.
pub(crate) const STOPPED: i32 = 4;

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
pub(crate) struct Watches {
    pub(crate) rows: Box<[Row]>,
    loops: Vec<(LimitedLoop, LoopCount)>,
    limits: Limits,
    /// Why a loop did not begin.
    refused: Option<Problem>,
    /// Looked at where nobody may end the call.
    never: AtomicBool,
}

impl Watches {
    /// None has begun.
    pub(crate) fn of(watched: &PrimaryMap<WatchId, Watched>, limits: &Limits) -> Watches {
        let one = |w: &Watched| {
            let (location, runtime) = (w.loc, w.runtime);
            let count = LoopCount { location, runtime, entered: 0, rounds: 0, most: 0 };
            (LimitedLoop::new(limits, runtime), count)
        };
        let loops: Vec<(LimitedLoop, LoopCount)> = watched.values().map(one).collect();
        let row = |most| Row { count: 0, until: 0, most, stopped: 0 };
        let rows = loops.iter().map(|(rounds, _)| row(rounds.most)).collect();
        Watches {
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
    pub(crate) fn enter(&mut self, watch: WatchId, trip: Option<u64>) -> Result<(), Problem> {
        self.settle(watch);
        let (rounds, count) = &mut self.loops[watch.index()];
        count.entered += 1;
        let begun = rounds.begin(trip);
        self.rows[watch.index()].until = rounds.until;
        begun.map_err(|p| p.at(count.location))
    }

    /// An iteration begins.
    pub(crate) fn count(&mut self, watch: WatchId) -> Result<(), Problem> {
        let row = &mut self.rows[watch.index()];
        row.count += 1;
        if row.count == row.until { self.look(watch) } else { Ok(()) }
    }

    fn look(&mut self, watch: WatchId) -> Result<(), Problem> {
        let (row, (rounds, count)) =
            (&mut self.rows[watch.index()], &mut self.loops[watch.index()]);
        rounds.count = row.count;
        let looked = rounds.look();
        row.until = rounds.until;
        looked.map_err(|p| p.at(count.location))
    }

    /// Takes up what the last run of a loop counted.
    fn settle(&mut self, watch: WatchId) {
        let (row, (_, count)) = (&mut self.rows[watch.index()], &mut self.loops[watch.index()]);
        count.rounds += row.count;
        count.most = count.most.max(row.count);
        row.count = 0;
    }

    /// What the loops did.
    pub(crate) fn counts(mut self) -> Vec<LoopCount> {
        (0..self.rows.len()).for_each(|i| self.settle(WatchId::new(i)));
        self.loops.into_iter().map(|(_, count)| count).collect()
    }

    /// Why machine code stopped.
    pub(crate) fn stopped(&mut self) -> Problem {
        let row = self.rows.iter().position(|row| row.stopped != 0);
        let stopped = row.map(|i| {
            let (rounds, count) = &mut self.loops[i];
            rounds.count = self.rows[i].count;
            rounds.stopped().at(count.location)
        });
        let unknown = || Problem::internal("a call is stopped for no reason");
        self.refused.take().or(stopped).unwrap_or_else(unknown)
    }
}

/// A loop begins: a status. It will have `trip` iterations, if that is not negative.
///
/// # Safety
/// `context` is that of the call, whose watches nobody else uses meanwhile; there is a loop of that
/// number among them.
pub(crate) unsafe extern "C" fn enter(context: *const Context, watch: i64, trip: i64) -> i32 {
    let entered = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: by the contract of this function.
        let watches = unsafe { &mut *(*context).watches.cast::<Watches>() };
        let entered = watches.enter(WatchId::new(watch as usize), u64::try_from(trip).ok());
        watches.refused = entered.err();
        watches.refused.is_none()
    }));
    match entered {
        Ok(true) => 0,
        Ok(false) => STOPPED,
        Err(_) => PANICKED,
    }
}
