//! Threads: runs the pieces (iterations) of a concurrent loop, on several threads at the same time.
//!
//! A piece is a call of generated code. Threads take the numbers of pieces from one counter, so a slow piece does not
//! delay the others. Which thread runs a piece is left to chance, and no result depends on it: pieces write different
//! elements, and their number is part of the program.

#![expect(unsafe_code, reason = "calls generated code, on several threads")]

use crate::runtime::abi::Context;
use crate::runtime::gemm::{DONE, PANICKED};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use tapeloom_ir::fault::{Fault, planted};

/// The machine code of a piece: gets the values that the loop's body reads from outside, the number of the piece, and
/// the private memory of the piece. Returns a status (0: success).
type Piece = unsafe extern "C" fn(*const u64, i64, *mut u8) -> i32;

/// The threads of one call of a program.
pub(crate) struct Threads {
    /// The largest number of pieces that run at the same time.
    most: usize,
    /// Points to the private memory of the first thread. That of the next thread is `stride` bytes further.
    private: *mut u8,
    stride: usize,
}

impl Threads {
    /// Returns the threads of a call, with `most` times `stride` bytes of private memory at `private`.
    pub(crate) fn new(most: usize, private: *mut u8, stride: usize) -> Threads {
        Threads { most, private, stride }
    }
}

/// Runs `pieces` pieces, and returns the status of the first one that failed, or `DONE`. If a piece fails, pieces after
/// it may not run.
///
/// # Safety
/// `context` is that of the call. Its `threads` have private memory of the program's size, aligned to 64 bytes, which
/// nothing else uses meanwhile. `piece` is machine code of a verified concurrent loop with this number of pieces, and
/// `captured` points to the values that it reads.
pub(crate) unsafe extern "C" fn run_pieces(
    context: *const Context,
    piece: Piece,
    captured: *const u64,
    pieces: i64,
) -> i32 {
    // SAFETY: by the contract of this function.
    let Threads { most, private, stride } = unsafe { &*(*context).threads };
    let code = PieceCode { piece, captured, private: *private, stride: *stride };
    let pieces = usize::try_from(pieces).unwrap_or(0);
    let most = (*most).min(pieces);
    if most <= 1 {
        // SAFETY: by the contract of this function, and each piece runs once.
        let mut statuses = (0..pieces).map(|n| unsafe { code.run(n, 0) });
        return statuses.find(|status| *status != DONE).unwrap_or(DONE);
    }
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None::<(usize, i32)>));
        on_threads(most, &|thread| {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= pieces {
                    return;
                }
                // SAFETY: by the contract of `run_pieces`. The counter yields each number once, and `thread` is below
                // `most` and belongs to this thread alone.
                let status = unsafe { code.run(n, thread) };
                if status != DONE {
                    next.store(pieces, Ordering::Relaxed);
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    *failed = Some(failed.map_or((n, status), |first| first.min((n, status))));
                    return;
                }
            }
        });
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.map_or(DONE, |(_, status)| status)
    }));
    ran.unwrap_or(PANICKED)
}

/// The machine code of a loop's pieces, with its operands.
struct PieceCode {
    piece: Piece,
    captured: *const u64,
    private: *mut u8,
    stride: usize,
}

// SAFETY: the pointers are passed to `piece` only. Pieces of a verified concurrent loop access no element that another
// piece writes, and the private memory of each thread is its own.
unsafe impl Sync for PieceCode {}

impl PieceCode {
    /// Runs one piece with the private memory of a thread.
    ///
    /// # Safety
    /// As for [`run_pieces`]; no other piece uses the private memory of `thread` meanwhile.
    unsafe fn run(&self, piece: usize, thread: usize) -> i32 {
        // SAFETY: by the contract of this function; `thread` is below the number of threads.
        unsafe {
            let thread = if planted(Fault::SharedScratch) { 0 } else { thread };
            let private = self.private.wrapping_add(thread * self.stride);
            (self.piece)(self.captured, piece as i64, private)
        }
    }
}

/// Calls `run` with each number below `threads`, once, on threads of the current pool of `rayon`, and returns when all
/// calls have returned. The number 0 runs on the calling thread. If fewer threads are idle, calls run one after the
/// other.
fn on_threads(threads: usize, run: &(dyn Fn(usize) + Sync)) {
    rayon_core::in_place_scope(|scope| {
        for thread in 1..threads {
            scope.spawn(move |_| run(thread));
        }
        run(0);
    });
}
