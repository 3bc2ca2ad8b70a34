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

/// Limits of a call. The default is no limits.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The most iterations in each run of a loop whose trip count is dynamic.
    pub max_steps: Option<u64>,
    /// The handle that can cancel the call.
    pub cancel: Option<Cancel>,
}

impl Limits {
    /// Checks for cancellation at the beginning of a call, since a call without loops does not check later.
    ///
    /// # Errors
    /// [`Kind::Cancelled`] if the handle was cancelled before.
    pub fn begin(&self) -> Result<(), Problem> {
        match &self.cancel {
            Some(cancel) if cancel.is_cancelled() => {
                let message = "the call was cancelled before it began";
                Err(Problem::new(
                    Kind::Cancelled,
                    message,
                    "let calls run again by `Cancel::reset`",
                ))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// A handle that cancels running calls from another thread. Clones share the handle.
///
/// A call checks the handle when it begins; a loop checks it when it begins and every 1,024 iterations. So a
/// running call ends soon after [`Cancel::cancel`], and later calls fail at once, until [`Cancel::reset`].
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Makes a handle that is not cancelled.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Cancels the calls that check this handle.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns the flag in memory, which machine code reads.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// Returns whether [`Cancel::cancel`] was called after the last reset.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Lets calls run again.
    pub fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The number of iterations between two checks of the cancellation flag.
pub const LOOK_EVERY: u64 = 1024;

/// The iteration count of one loop under limits.
#[derive(Clone, Debug)]
pub struct LimitedLoop {
    limits: Limits,
    /// The most iterations that this run of the loop may begin.
    pub most: u64,
    /// The number of iterations begun.
    pub count: u64,
    /// The iteration at which to check next.
    pub until: u64,
}

impl LimitedLoop {
    /// Makes the counter of a loop. [`Limits::max_steps`] applies if `bounded`.
    pub fn new(limits: &Limits, bounded: bool) -> LimitedLoop {
        // `most + 1` must not overflow.
        let most = limits.max_steps.filter(|_| bounded).unwrap_or(u64::MAX).min(u64::MAX - 1);
        LimitedLoop { limits: limits.clone(), most, count: 0, until: 0 }
    }

    /// Begins the loop, with its trip count if known.
    ///
    /// # Errors
    /// [`Kind::Limit`] if the trip count is too large; [`Kind::Cancelled`].
    pub fn begin(&mut self, trip: Option<u64>) -> Result<(), Problem> {
        self.count = 0;
        match trip {
            Some(n) if n > self.most => Err(self
                .too_many(format!("a loop would run {n} iterations, and may run {}", self.most))),
            _ => self.look(),
        }
    }

    /// Counts an iteration that begins, and calls `look` if a check is due.
    ///
    /// # Errors
    /// Errors of [`LimitedLoop::look`].
    pub fn iteration(&mut self) -> Result<(), Problem> {
        self.count += 1;
        if self.count < self.until { Ok(()) } else { self.look() }
    }

    /// Checks whether the iteration that begins may run, and sets the iteration of the next check.
    ///
    /// # Errors
    /// [`Kind::Limit`] if it is one too many; [`Kind::Cancelled`].
    pub fn look(&mut self) -> Result<(), Problem> {
        if self.count > self.most || self.limits.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            return Err(self.stopped());
        }
        self.until = self.count.saturating_add(LOOK_EVERY).min(self.most + 1);
        Ok(())
    }

    /// Returns the reason why the iteration that begins may not run.
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

/// The number of runs and iterations of one loop in a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoopCount {
    /// The user's line.
    pub location: Loc,
    /// Whether the trip count is dynamic.
    pub runtime: bool,
    /// The number of runs of the loop in the call: how often it was entered.
    pub entered: u64,
    /// The sum of iterations over all runs of the loop in the call.
    pub iterations: u64,
    /// The most iterations of one run of the loop.
    pub most: u64,
}

thread_local! {
    /// The limits of programs that this thread interprets; `None` without limits.
    static LIMITS: RefCell<Option<Limits>> = const { RefCell::new(None) };
}

/// Calls `run` with the limits applied to all programs that the interpreter runs in it.
pub fn eval_within<T>(limits: &Limits, run: impl FnOnce() -> T) -> T {
    /// Restores the previous limits, even if `run` panics.
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
    /// The most bytes that a loop of this thread may save for its iterations; `None` without a limit.
    static ROOM: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Calls `run` with a limit of `room` bytes on the residuals that each loop saves.
pub(crate) fn keeping<T>(room: u64, run: impl FnOnce() -> T) -> T {
    /// Restores the previous limit, even if `run` panics.
    struct Restore(Option<u64>);
    impl Drop for Restore {
        fn drop(&mut self) {
            ROOM.set(self.0);
        }
    }
    let _restore = Restore(ROOM.replace(Some(room)));
    run()
}

/// Checks that a loop may save `bytes` bytes for its iterations.
///
/// # Errors
/// [`Kind::Budget`] if `bytes` exceeds the limit that `keeping` set.
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

/// Makes the counter of a loop that the interpreter begins, if limits are set.
pub(crate) fn iterations(bounded: bool) -> Option<LimitedLoop> {
    LIMITS.with_borrow(|limits| limits.as_ref().map(|limits| LimitedLoop::new(limits, bounded)))
}
