//! Threads: runs the pieces (iterations) of concurrent loops, on several threads at the same time.
//!
//! A piece is a call of generated code. Threads take the numbers of pieces from one counter, so a slow piece does not
//! delay the others. Which thread runs a piece is left to chance, and no result depends on it: pieces write different
//! elements, and their number is part of the program.
//!
//! The calling thread runs pieces, too, and never waits for a helper to wake up. When a loop begins, the calling thread
//! *opens* the loop for helpers. When no piece is left, it closes the loop, and waits only for helpers that are within
//! a piece. A helper is a task in a pool of threads ([`spawn`]). After a loop, the helper waits for the next loop of
//! the same call, for at most [`PATIENCE`], and then returns its thread to the pool; the next loop spawns another
//! helper. So short serial parts between loops cost no wake-ups, which take tens of microseconds each.
//!
//! ```text
//! caller:  job, next = 0 | state = loop n | pieces ..               | state = closed | wait until inside = 0
//! helper:                                   inside += 1, state? pieces ..  inside -= 1
//! ```

#![expect(unsafe_code, reason = "calls generated code, on several threads")]

use crate::runtime::abi::Context;
use crate::runtime::gemm::{DONE, PANICKED};
use std::cell::{OnceCell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tapeloom_ir::fault::{Fault, planted};

/// The machine code of a piece (an iteration of a concurrent loop): gets the values that the loop's body reads from
/// outside, the number of the piece, and the private memory of the piece. Returns a status (0: success).
type Piece = unsafe extern "C" fn(*const u64, i64, *mut u8) -> i32;

/// The longest time that a helper thread waits for the next loop of its call: about the run time of one iteration.
const PATIENCE: Duration = Duration::from_micros(50);

/// The largest number of tasks of one thread that may wait in the queue of a thread pool.
const QUEUED: usize = 64;

/// The threads of one call of a program.
pub(crate) struct Threads {
    /// The largest number of pieces (iterations of a concurrent loop) that run at the same time, one on each thread.
    most: usize,
    /// Points to the private memory of the calling thread (thread 0). The private memory of thread t is `t * stride`
    /// bytes further.
    private: *mut u8,
    stride: usize,
    /// The state that helpers share with the calling thread. The first concurrent loop of the call creates the team.
    team: OnceCell<Arc<Team>>,
}

impl Threads {
    /// Returns the threads of a call, with `most` times `stride` bytes of private memory at `private`.
    pub(crate) fn new(most: usize, private: *mut u8, stride: usize) -> Threads {
        Threads { most, private, stride, team: OnceCell::new() }
    }
}

/// Ends the helpers that wait for another loop of the call.
impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(team) = self.team.get() {
            team.state.store(ENDED, SeqCst);
        }
    }
}

/// The concurrent loop of a call that helpers may enter.
struct Team {
    /// [`CLOSED`], [`ENDED`], or the number of the open loop: 2, 3, ..
    state: AtomicUsize,
    /// The number of the last loop that was opened for helpers. A helper compares this number with the loops that it
    /// has entered, so that it enters each loop once.
    opened: AtomicUsize,
    /// The number of helpers that read `job`, or that are checking whether they may read it.
    inside: AtomicUsize,
    /// The number of helpers that were spawned and have not ended yet.
    helpers: AtomicUsize,
    /// The number of helpers that have entered the open loop. A helper's number selects its private memory.
    entered: AtomicUsize,
    /// The number of the next piece (iteration of the open loop) to run.
    next: AtomicUsize,
    /// The number of the first piece (iteration of the open loop) that failed, with its status.
    failed: Mutex<Option<(usize, i32)>>,
    /// The loop that helpers may enter. Only the calling thread writes this field, while the state is `CLOSED` and no
    /// helper is inside.
    job: UnsafeCell<Job>,
}

const CLOSED: usize = 0;
const ENDED: usize = 1;

/// The machine code of a concurrent loop's pieces (iterations), with its operands.
#[derive(Clone, Copy)]
struct Job {
    piece: Piece,
    captured: *const u64,
    pieces: usize,
    private: *mut u8,
    stride: usize,
    /// The number of threads that have private memory.
    threads: usize,
}

// SAFETY: `job` is written only by the calling thread, while no helper reads it. The pointers in `job` are passed to
// `piece` only. Iterations of a verified concurrent loop access no element that another iteration writes, and each
// thread has private memory of its own.
unsafe impl Send for Team {}
// SAFETY: as for `Send`: only the calling thread writes `job`, and no helper reads it meanwhile.
unsafe impl Sync for Team {}

/// Runs `pieces` pieces (iterations of a concurrent loop), and returns the status of the first piece that failed, or
/// `DONE`. If a piece fails, pieces after it may not run.
///
/// # Safety
/// `context` is that of the call. Its `threads` have private memory of the program's size, aligned to 64 bytes, which
/// nothing else uses meanwhile. `piece` is machine code of a verified concurrent loop with this number of pieces, and
/// `captured` points to the values that the code reads.
pub(crate) unsafe extern "C" fn run_pieces(
    context: *const Context,
    piece: Piece,
    captured: *const u64,
    pieces: i64,
) -> i32 {
    // SAFETY: by the contract of this function, `context` is that of the call, whose `threads` are alive.
    let threads = unsafe { &*(*context).threads };
    let Threads { most, private, stride, team } = threads;
    let pieces = usize::try_from(pieces).unwrap_or(0);
    let job = Job { piece, captured, pieces, private: *private, stride: *stride, threads: *most };
    let helpers = (*most).min(pieces).saturating_sub(1);
    if helpers == 0 {
        // SAFETY: by the contract of this function, `job` is valid. Each piece runs once, on this thread, with the
        // private memory of thread 0.
        let mut statuses = (0..pieces).map(|n| unsafe { job.run(n, 0) });
        return statuses.find(|status| *status != DONE).unwrap_or(DONE);
    }
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let team = team.get_or_init(Team::new);
        // SAFETY: by the contract of this function, `job` is valid, and only this thread opens loops of the call.
        unsafe { team.run(job, helpers) }
    }));
    ran.unwrap_or(PANICKED)
}

impl Job {
    /// Runs one piece (iteration of a concurrent loop) with the private memory of a thread, and returns its status.
    ///
    /// # Safety
    /// As for [`run_pieces`]; `thread` is below `threads`, and no other piece uses the private memory of `thread`
    /// meanwhile.
    unsafe fn run(&self, piece: usize, thread: usize) -> i32 {
        // SAFETY: by the contract of this function, `captured` is valid, and the private memory of `thread` is used by
        // no other piece.
        unsafe {
            let thread = if planted(Fault::SharedScratch) { 0 } else { thread };
            let private = self.private.wrapping_add(thread * self.stride);
            (self.piece)(self.captured, piece as i64, private)
        }
    }
}

impl Team {
    fn new() -> Arc<Team> {
        unsafe extern "C" fn nothing(_: *const u64, _: i64, _: *mut u8) -> i32 {
            DONE
        }
        let job = Job {
            piece: nothing,
            captured: std::ptr::null(),
            pieces: 0,
            private: std::ptr::null_mut(),
            stride: 0,
            threads: 1,
        };
        let zero = || AtomicUsize::new(0);
        Arc::new(Team {
            state: AtomicUsize::new(CLOSED),
            inside: zero(),
            helpers: zero(),
            entered: zero(),
            opened: AtomicUsize::new(ENDED),
            next: zero(),
            failed: Mutex::new(None),
            job: UnsafeCell::new(job),
        })
    }

    /// Runs the pieces (iterations) of a loop on this thread and on at most `helpers` other threads. Returns the status
    /// of the first piece that failed, or `DONE`.
    ///
    /// # Safety
    /// As for [`run_pieces`]; only one thread calls this function at a time.
    unsafe fn run(self: &Arc<Team>, job: Job, helpers: usize) -> i32 {
        // SAFETY: the state is `CLOSED`, and no helper is inside, because the previous loop waited until all helpers
        // had left. So no helper reads `job`.
        unsafe { *self.job.get() = job };
        self.next.store(0, SeqCst);
        self.entered.store(0, SeqCst);
        // Helpers are spawned before the loop is open. If spawning panics, because the system has no thread to give, no
        // helper may read `job`, and the calling thread runs the pieces with the helpers that there are.
        while self.helpers.load(SeqCst) < helpers {
            self.helpers.fetch_add(1, SeqCst);
            let team = self.clone();
            let help = AssertUnwindSafe(|| spawn(move || team.help()));
            if !catch_unwind(help).unwrap_or(false) {
                self.helpers.fetch_sub(1, SeqCst);
                break;
            }
        }
        self.state.store(self.opened.fetch_add(1, SeqCst) + 1, SeqCst);
        // SAFETY: by the contract of this function, `job` is valid; thread 0 is the calling thread.
        unsafe { self.work(&job, 0) };
        self.state.store(CLOSED, SeqCst);
        // From here on, a helper that looks at the loop finds it closed. Helpers that entered before are running their
        // last piece (iteration).
        let mut spins = 0_u32;
        while self.inside.load(SeqCst) != 0 {
            spins += 1;
            if spins.is_multiple_of(1024) {
                std::thread::yield_now()
            } else {
                std::hint::spin_loop()
            }
        }
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        failed.map_or(DONE, |(_, status)| status)
    }

    /// Runs pieces (iterations of the loop) until none is left.
    ///
    /// # Safety
    /// As for [`run_pieces`], for the open loop; no other thread runs pieces under the number `thread`.
    unsafe fn work(&self, job: &Job, thread: usize) {
        loop {
            let n = self.next.fetch_add(1, SeqCst);
            if n >= job.pieces {
                return;
            }
            // SAFETY: by the contract of this function, `job` is valid. The counter yields each piece's number once.
            let status = unsafe { job.run(n, thread) };
            if status != DONE {
                self.next.store(job.pieces, SeqCst);
                let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                *failed = Some(failed.map_or((n, status), |first| first.min((n, status))));
                return;
            }
        }
    }

    /// Runs iterations of the call's loops, until the call ends or no loop is opened for a while.
    fn help(&self) {
        let mut last = CLOSED;
        let mut since = Instant::now();
        let mut spins = 0_u32;
        loop {
            let state = self.state.load(SeqCst);
            if state == ENDED {
                break;
            }
            if state == CLOSED || state == last {
                spins += 1;
                if spins.is_multiple_of(64) && since.elapsed() > PATIENCE {
                    break;
                }
                std::hint::spin_loop();
                continue;
            }
            self.inside.fetch_add(1, SeqCst);
            if self.state.load(SeqCst) == state {
                // SAFETY: the loop is open, and the calling thread does not write `job` before `inside` is 0 again. So
                // `job` does not change meanwhile, and its pointers are valid.
                unsafe {
                    let job = *self.job.get();
                    let thread = 1 + self.entered.fetch_add(1, SeqCst);
                    if thread < job.threads {
                        self.work(&job, thread);
                    }
                }
            }
            self.inside.fetch_sub(1, SeqCst);
            (last, since) = (state, Instant::now());
        }
        self.helpers.fetch_sub(1, SeqCst);
    }
}

/// Runs a task on a thread of the current pool of `rayon`: the pool of the calling thread, or the global pool. Returns
/// false if [`QUEUED`] tasks of this thread have not begun, because the pool's threads are busy. Without this limit, a
/// pool thread that calls programs in a loop, while no other thread of the pool is free, would fill the memory with
/// tasks.
fn spawn(task: impl FnOnce() + Send + 'static) -> bool {
    thread_local! {
        static NOT_BEGUN: Arc<AtomicUsize> = Arc::default();
    }
    let Ok(queued) = NOT_BEGUN.try_with(Arc::clone) else { return false };
    if queued.load(SeqCst) >= QUEUED {
        return false;
    }
    queued.fetch_add(1, SeqCst);
    let waiting = Waiting(queued);
    rayon_core::spawn(move || {
        drop(waiting);
        task();
    });
    true
}

/// Counts a task as waiting in the queue until the task begins. A task that never begins is no longer counted when its
/// pool drops it.
struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicU64;

    /// A call with `threads` threads, each with 64 bytes of private memory.
    fn context(threads: &Threads) -> Context {
        Context {
            zeros: [0; 2],
            workspace: std::ptr::null_mut(),
            external_calls: std::ptr::null(),
            tapes: std::ptr::null_mut(),
            records: std::ptr::null_mut(),
            rows: std::ptr::null_mut(),
            flag: std::ptr::null(),
            loop_limits: std::ptr::null_mut(),
            timers: std::ptr::null_mut(),
            threads,
        }
    }

    /// Counts the piece (iteration) in its element of the captured array. Checks that the private word keeps its value,
    /// which fails if two pieces use the same private memory at the same time.
    unsafe extern "C" fn counts(captured: *const u64, piece: i64, private: *mut u8) -> i32 {
        // SAFETY: the tests below capture an array with an element for each piece, and private memory has 64 bytes for
        // each thread.
        unsafe {
            let own = private.cast::<u64>();
            own.write_volatile(piece as u64);
            (*captured.cast::<AtomicU64>().add(piece as usize)).fetch_add(1, SeqCst);
            for _ in 0..50 {
                std::hint::spin_loop();
            }
            if own.read_volatile() == piece as u64 { DONE } else { 17 }
        }
    }

    /// Fails in the pieces 5, 6, 7, .., with the number of the piece as status.
    unsafe extern "C" fn fails(_: *const u64, piece: i64, _: *mut u8) -> i32 {
        if piece < 5 { DONE } else { piece as i32 }
    }

    fn private(threads: usize) -> Vec<[u64; 8]> {
        vec![[0; 8]; threads]
    }

    #[test]
    fn each_piece_runs_once_in_memory_of_its_own() {
        for most in [1, 2, 3, 7] {
            let mut memory = private(most);
            let threads = Threads::new(most, memory.as_mut_ptr().cast(), 64);
            let context = context(&threads);
            for loops in 1..=300_u64 {
                let pieces = 1 + (loops * 7 % 20) as usize;
                let counted: Vec<AtomicU64> = (0..pieces).map(|_| AtomicU64::new(0)).collect();
                // SAFETY: `counted` has an element for each piece, and `memory` has 64 bytes for each thread.
                let status = unsafe {
                    run_pieces(&raw const context, counts, counted.as_ptr().cast(), pieces as i64)
                };
                assert_eq!(status, DONE);
                assert!(counted.iter().all(|n| n.load(SeqCst) == 1), "{most} {loops} {counted:?}");
            }
        }
    }

    /// If a pool has only one thread, that thread runs all pieces of its calls itself, and no task of its calls begins.
    #[test]
    fn tasks_of_a_busy_pool_are_few() {
        let pool = rayon_core::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        static DROPPED: AtomicUsize = AtomicUsize::new(0);
        struct Counted;
        impl Drop for Counted {
            fn drop(&mut self) {
                DROPPED.fetch_add(1, SeqCst);
            }
        }
        let spawned = pool.install(|| {
            (0..1000)
                .filter(|_| {
                    spawn({
                        let counted = Counted;
                        move || drop(counted)
                    })
                })
                .count()
        });
        assert_eq!(spawned, QUEUED);
        // Tasks that did not fit into the queue were dropped at once. The tasks in the queue run now, because the
        // thread is free.
        while DROPPED.load(SeqCst) < 1000 {
            std::thread::yield_now();
        }
        assert!(pool.install(|| spawn(|| ())), "tasks are accepted again");
    }

    #[test]
    fn the_status_is_that_of_the_first_piece_that_failed() {
        for most in [1, 2, 7] {
            let mut memory = private(most);
            let threads = Threads::new(most, memory.as_mut_ptr().cast(), 64);
            let context = context(&threads);
            let mut found = BTreeSet::new();
            for _ in 0..200 {
                // SAFETY: `fails` reads no captured values and no private memory.
                let status = unsafe { run_pieces(&raw const context, fails, std::ptr::null(), 40) };
                found.insert(status);
            }
            assert_eq!(found.first(), Some(&5), "{found:?}");
            assert!(found.iter().all(|n| (5..5 + most as i32).contains(n)), "{found:?}");
        }
    }

    #[test]
    fn calls_from_many_threads_do_not_wait_for_one_another() {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut memory = private(4);
                    let threads = Threads::new(4, memory.as_mut_ptr().cast(), 64);
                    let context = context(&threads);
                    for _ in 0..100 {
                        let counted: Vec<AtomicU64> = (0..9).map(|_| AtomicU64::new(0)).collect();
                        // SAFETY: `counted` has an element for each piece, and `memory` has 64 bytes for each thread.
                        let status = unsafe {
                            run_pieces(&raw const context, counts, counted.as_ptr().cast(), 9)
                        };
                        assert_eq!(status, DONE);
                        assert!(counted.iter().all(|n| n.load(SeqCst) == 1));
                    }
                });
            }
        });
    }
}
