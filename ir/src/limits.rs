//! Limits of a running program: a maximal number of iterations per loop, and a handle that cancels the program
//! from another thread.
//!
//! ```
//! use tapeloom_ir::{Kind, Limits, Tensor, eval_within, parse_module};
//! let module = parse_module("func @more(%0: f64[]) -> (bool[]) {
//!   %1: bool[] = lt %0, 1000.0
//!   return %1
//! }
//! func @next(%0: f64[]) -> (f64[]) {
//!   %1: f64[] = add %0, 1.0
//!   return %1
//! }
//! func @f(%0: f64[]) -> (f64[]) {
//!   %1: f64[], %2: i64[] = loop{body=@next, trip=while, condition=@more, reads=[0], direction=up, takes=[carry0]} %0
//!   return %1
//! }").map_err(|e| e[0].clone())?;
//! let f = module.iter().last().map(|(id, _)| id).ok_or("no function")?;
//! let limits = Limits { max_steps: Some(100), ..Limits::default() };
//! assert_eq!(eval_within(&limits, || tapeloom_ir::eval(&module, f, &[Tensor::from(950.0)]))?, [Tensor::from(1000.0)]);
//! let problem = eval_within(&limits, || tapeloom_ir::eval(&module, f, &[Tensor::from(0.0)])).unwrap_err();
//! assert_eq!(problem.kind, Kind::Limit);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::lang::problem::{Kind, Problem};
use crate::lang::source_loc::Loc;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Limits of a call of a program. By default there are none.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The largest number of iterations in one run of a loop whose trip count is dynamic; `None` without a limit.
    pub max_steps: Option<u64>,
    /// The handle by which another thread can cancel the call.
    pub cancel: Option<Cancel>,
}

impl Limits {
    /// Checks for cancellation when a call begins, since a call without loops makes no later check.
    ///
    /// # Errors
    /// [`Kind::Cancelled`] if the handle is cancelled.
    pub fn begin(&self) -> Result<(), Problem> {
        match &self.cancel {
            Some(cancel) if cancel.is_cancelled() => {
                let message = "the call was cancelled before it began";
                Err(Problem::new(
                    Kind::Cancelled,
                    message,
                    "allow further calls by `Cancel::reset`",
                ))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// A handle that cancels running calls from another thread. Clones share the handle.
///
/// A call checks the handle when it begins. A loop checks it when it begins and every 1,024 iterations. So a running
/// call ends soon after [`Cancel::cancel`], and later calls fail at once, until [`Cancel::reset`].
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Makes a handle that has not been cancelled.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Cancels the running and later calls that check this handle, until [`Cancel::reset`].
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns the handle's flag in memory, which machine code reads: true means cancelled.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// Returns whether [`Cancel::cancel`] has been called since the last reset.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Resets the handle, so that calls that check it run again.
    pub fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The number of iterations of a loop between two checks of the cancellation flag.
pub const LOOK_EVERY: u64 = 1024;

/// The iteration counter of one run of a loop under limits.
#[derive(Clone, Debug)]
pub struct LimitedLoop {
    limits: Limits,
    /// The largest number of iterations that this run of the loop may begin.
    pub most: u64,
    /// The number of iterations begun so far.
    pub count: u64,
    /// The value of `count` at which the next check is due.
    pub until: u64,
}

impl LimitedLoop {
    /// Makes the counter of a loop. [`Limits::max_steps`] applies only if `bounded`: if the trip count is dynamic.
    pub fn new(limits: &Limits, bounded: bool) -> LimitedLoop {
        // Keep `most` below the largest number, so that `most + 1` does not overflow.
        let most = limits.max_steps.filter(|_| bounded).unwrap_or(u64::MAX).min(u64::MAX - 1);
        LimitedLoop { limits: limits.clone(), most, count: 0, until: 0 }
    }

    /// Begins a run of the loop; `trip` is its trip count, if it is known at that time. Checks the limits.
    ///
    /// # Errors
    /// [`Kind::Limit`] if the trip count exceeds the limit; [`Kind::Cancelled`] if the call is cancelled.
    pub fn begin(&mut self, trip: Option<u64>) -> Result<(), Problem> {
        self.count = 0;
        match trip {
            Some(n) if n > self.most => Err(self
                .too_many(format!("a loop would run {n} iterations, and may run {}", self.most))),
            _ => self.look(),
        }
    }

    /// Counts an iteration that is about to begin. If a check of the limits is due, calls `look`.
    ///
    /// # Errors
    /// Errors of [`LimitedLoop::look`].
    pub fn iteration(&mut self) -> Result<(), Problem> {
        self.count += 1;
        if self.count < self.until { Ok(()) } else { self.look() }
    }

    /// Checks whether the iteration that is about to begin may run, and sets when the next check is due.
    ///
    /// # Errors
    /// [`Kind::Limit`] if the iteration exceeds the limit; [`Kind::Cancelled`] if the call is cancelled.
    pub fn look(&mut self) -> Result<(), Problem> {
        if self.count > self.most || self.limits.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            return Err(self.stopped());
        }
        self.until = self.count.saturating_add(LOOK_EVERY).min(self.most + 1);
        Ok(())
    }

    /// Returns the error for an iteration that may not run: the limit is exceeded, or the call is cancelled.
    pub fn stopped(&self) -> Problem {
        if self.count > self.most {
            let most = self.most;
            return self.too_many(format!(
                "a loop did not end after {most} iterations, the limit of `max_steps`"
            ));
        }
        let message = match self.count {
            0 => "the call was cancelled before the first iteration of a loop".to_owned(),
            n => format!("the call was cancelled in iteration {n} of a loop"),
        };
        Problem::new(Kind::Cancelled, message, "")
    }

    fn too_many(&self, message: String) -> Problem {
        let help = "allow more by `max_steps`, or see why the loop does not end";
        Problem::new(Kind::Limit, message, help)
    }
}

/// The runs and iterations of one loop during a call, for the profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoopCount {
    /// The user's source line of the loop.
    pub location: Loc,
    /// Whether the loop's trip count is dynamic.
    pub runtime: bool,
    /// The number of runs of the loop during the call.
    pub entered: u64,
    /// The number of iterations in all runs together.
    pub iterations: u64,
    /// The largest number of iterations in one run.
    pub most: u64,
}

thread_local! {
    /// The limits of programs that the interpreter runs on this thread; `None` without limits.
    static LIMITS: RefCell<Option<Limits>> = const { RefCell::new(None) };
}

/// Calls `run`; the limits apply to all programs that the interpreter runs meanwhile on this thread.
pub fn eval_within<T>(limits: &Limits, run: impl FnOnce() -> T) -> T {
    /// A guard that restores the previous limits, even if `run` panics.
    struct Restore(Option<Limits>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LIMITS.set(self.0.take());
        }
    }
    let _restore = Restore(LIMITS.replace(Some(limits.clone())));
    run()
}

thread_local! {
    /// The largest number of bytes that each loop on this thread may save for its iterations; `None` without a
    /// limit.
    static ROOM: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Calls `run`; each loop that runs meanwhile on this thread may save at most `room` bytes of residuals.
pub(crate) fn keeping<T>(room: u64, run: impl FnOnce() -> T) -> T {
    /// A guard that restores the previous limit, even if `run` panics.
    struct Restore(Option<u64>);
    impl Drop for Restore {
        fn drop(&mut self) {
            ROOM.set(self.0);
        }
    }
    let _restore = Restore(ROOM.replace(Some(room)));
    run()
}

/// Checks that a loop may save `bytes` bytes of residuals for all its iterations.
///
/// # Errors
/// [`Kind::Budget`] if `bytes` exceeds the limit that `keeping` has set.
pub(crate) fn kept(bytes: u64) -> Result<(), Problem> {
    match ROOM.get() {
        Some(room) if bytes > room => Err(Problem::new(
            Kind::Budget,
            format!("the iterations of a loop save {bytes} bytes, and {room} bytes are left"),
            "record a smaller piece, or run the loop inside a `checkpoint` with a budget",
        )),
        Some(_) | None => Ok(()),
    }
}

/// Makes the iteration counter of a loop that the interpreter begins; `None` if the thread has no limits.
pub(crate) fn iterations(bounded: bool) -> Option<LimitedLoop> {
    LIMITS.with_borrow(|limits| limits.as_ref().map(|limits| LimitedLoop::new(limits, bounded)))
}
