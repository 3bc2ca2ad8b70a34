//! Limits of a running program: how many iterations a loop may run, and a handle that ends the program from
//! outside.
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

/// What a call may take. By default, anything.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The most iterations of each run of a loop whose length only the run knows.
    pub max_steps: Option<u64>,
    /// Who may end the call.
    pub cancel: Option<Cancel>,
}

impl Limits {
    /// A call begins: one without loops looks at nothing later.
    ///
    /// # Errors
    /// [`Kind::Cancelled`] where that was said before.
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

/// A handle that ends running calls from another thread. Clones are the same handle.
///
/// Calls look at it when they begin, loops when they begin and every 1,024 iterations, so a call ends soon
/// after [`Cancel::cancel`], and later ones at once, until [`Cancel::reset`].
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A handle that has not been used.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Ends the calls that look at it.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Where it is written.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// Whether [`Cancel::cancel`] was called, and nothing reset since.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Lets calls run again.
    pub fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// After so many iterations a loop looks again.
pub const LOOK_EVERY: u64 = 1024;

/// The iterations of one loop under limits.
#[derive(Clone, Debug)]
pub struct LimitedLoop {
    limits: Limits,
    /// How many there may be.
    pub most: u64,
    /// Iterations that have begun.
    pub count: u64,
    /// With which iteration to look next.
    pub until: u64,
}

impl LimitedLoop {
    /// A loop whose iterations are `bounded` by [`Limits::max_steps`], or not.
    pub fn new(limits: &Limits, bounded: bool) -> LimitedLoop {
        // One more is a number, too.
        let most = limits.max_steps.filter(|_| bounded).unwrap_or(u64::MAX).min(u64::MAX - 1);
        LimitedLoop { limits: limits.clone(), most, count: 0, until: 0 }
    }

    /// It begins, of `trip` iterations where that is known.
    ///
    /// # Errors
    /// [`Kind::Limit`] where these are too many, [`Kind::Cancelled`].
    pub fn begin(&mut self, trip: Option<u64>) -> Result<(), Problem> {
        self.count = 0;
        match trip {
            Some(n) if n > self.most => Err(self
                .too_many(format!("a loop would run {n} iterations, and may run {}", self.most))),
            _ => self.look(),
        }
    }

    /// An iteration begins.
    ///
    /// # Errors
    /// Those of [`LimitedLoop::look`].
    pub fn iteration(&mut self) -> Result<(), Problem> {
        self.count += 1;
        if self.count < self.until { Ok(()) } else { self.look() }
    }

    /// Looks whether the iteration that begins may run, and when to look again.
    ///
    /// # Errors
    /// [`Kind::Limit`] where it is one too many, [`Kind::Cancelled`].
    pub fn look(&mut self) -> Result<(), Problem> {
        if self.count > self.most || self.limits.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            return Err(self.stopped());
        }
        self.until = self.count.saturating_add(LOOK_EVERY).min(self.most + 1);
        Ok(())
    }

    /// Why the iteration that begins may not run.
    pub fn stopped(&self) -> Problem {
        if self.count > self.most {
            let most = self.most;
            return self
                .too_many(format!("a loop goes on after {most} iterations, and may run no more"));
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

/// How often a loop ran in a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoopCount {
    /// The user's line.
    pub location: Loc,
    /// Whether only the run knows how many iterations there are.
    pub runtime: bool,
    /// How often it was come to.
    pub entered: u64,
    /// The iterations of all these times.
    pub iterations: u64,
    /// The most iterations of one time.
    pub most: u64,
}

thread_local! {
    /// What programs of this thread may take; nothing where nobody asked.
    static LIMITS: RefCell<Option<Limits>> = const { RefCell::new(None) };
}

/// Runs something whose programs are interpreted under limits.
pub fn eval_within<T>(limits: &Limits, run: impl FnOnce() -> T) -> T {
    /// Restores what was there also where `run` panics.
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
    /// How many bytes a loop of this thread may keep of its iterations; nothing where nobody asked.
    static ROOM: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Runs something whose loops keep so many bytes of their iterations at most, each.
pub(crate) fn keeping<T>(room: u64, run: impl FnOnce() -> T) -> T {
    /// Restores what was there also where `run` panics.
    struct Restore(Option<u64>);
    impl Drop for Restore {
        fn drop(&mut self) {
            ROOM.set(self.0);
        }
    }
    let _restore = Restore(ROOM.replace(Some(room)));
    run()
}

/// Whether a loop may keep so many bytes of its iterations.
///
/// # Errors
/// [`Kind::Budget`].
pub(crate) fn kept(bytes: u64) -> Result<(), Problem> {
    match ROOM.get() {
        Some(room) if bytes > room => Err(Problem::new(
            Kind::Budget,
            format!("the iterations of a loop keep {bytes} bytes, where {room} are left"),
            "record a smaller piece, or run the loop inside a `checkpoint` with a budget",
        )),
        Some(_) | None => Ok(()),
    }
}

/// The iterations of a loop that the interpreter comes to, if anybody limits them.
pub(crate) fn iterations(bounded: bool) -> Option<LimitedLoop> {
    LIMITS.with_borrow(|limits| limits.as_ref().map(|limits| LimitedLoop::new(limits, bounded)))
}
