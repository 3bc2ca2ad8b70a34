//! The records of a call's dynamic tapes (one iteration's residuals each): memory that grows while machine code runs.
//!
//! Records lie in [chunks](crate::loop_ir::tape_chunks) and never move.
//!
//! Machine code reads and writes the [`State`] of a tape. If a record is to be written for which no chunk is allocated,
//! the code calls [`grow`]; all other accesses need no call. Small chunks are allocated several at a time, in
//! allocations of at least [`BLOCK`] bytes.
//!
//! If the tapes take more than [`KEPT`] bytes, their memory is freed when the call ends.

#![expect(unsafe_code, reason = "is called by generated code, with pointers")]

use crate::loop_ir::tape_chunks::chunk;
use crate::loop_ir::{Program, Tape};
use crate::runtime::abi::{Context, State};
use crate::runtime::gemm::PANICKED;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tapeloom_ir::{Kind, Line, Loc, Problem, try_zeros};

/// The most chunks (blocks of consecutive records) of a tape: four of each size from 2^0 to 2^59 records.
pub(crate) const CHUNKS: usize = 4 * 60;
/// The least bytes of one allocation, which may hold several chunks.
const BLOCK: usize = 4096;
/// The most bytes of a call's tapes that stay allocated for the next call; if the tapes take more, all their memory is
/// freed.
const KEPT: usize = 16 << 20;

/// The least bytes of an allocation before which the system's available memory is checked.
const LARGE: usize = 64 << 20;

/// The status of a call that could not allocate memory for its dynamic tapes.
pub(crate) const NO_ROOM: i32 = 2;
/// The status of a call that read a record (one iteration's residuals) that does not exist on the tape.
pub(crate) const NO_RECORD: i32 = 3;

/// The memory of all dynamic tapes of a program, for one call at a time.
pub(crate) struct Records {
    pub(crate) states: Box<[State]>,
    tables: Box<[[*mut u8; CHUNKS]]>,
    /// For each tape, the allocations that hold its chunks.
    blocks: Vec<Vec<Vec<Line>>>,
    /// The index of the tape, and the number of bytes, of the allocation that failed.
    refused: Option<(usize, usize)>,
}

// SAFETY: the pointers point to memory that the value owns; no other memory is reached through them.
unsafe impl Send for Records {}

impl Records {
    /// Creates the memory of dynamic tapes that have no records (one iteration's residuals each) yet; `record_bytes`
    /// has the size of a record for each tape.
    pub(crate) fn of(record_bytes: &[usize]) -> Records {
        let tables: Box<[[*mut u8; CHUNKS]]> =
            record_bytes.iter().map(|_| [std::ptr::null_mut(); CHUNKS]).collect();
        let state = |(record, table): (&usize, &[*mut u8; CHUNKS])| State {
            length: 0,
            capacity: 0,
            chunks: table.as_ptr(),
            record: *record as u64,
        };
        let states = record_bytes.iter().zip(&tables).map(state).collect();
        let blocks = record_bytes.iter().map(|_| Vec::new()).collect();
        Records { states, tables, blocks, refused: None }
    }

    /// Allocates all chunks (blocks of records) up to the chunk that holds record `index` (the residuals of one
    /// iteration). Returns whether there was enough memory.
    fn allocate_up_to(&mut self, tape: usize, index: u64) -> bool {
        let record = self.states[tape].record as usize;
        while self.states[tape].capacity <= index {
            let first = chunk(self.states[tape].capacity);
            // Allocate consecutive chunks (blocks of records) together, until they have at least `BLOCK` bytes.
            let (mut end, mut records) = (first, 0usize);
            while end < CHUNKS && (end == first || records.saturating_mul(record.max(1)) < BLOCK) {
                records += 1 << (end / 4);
                end += 1;
            }
            let bytes = records.checked_mul(record.max(1)).filter(|_| first < CHUNKS);
            let lines = bytes.unwrap_or(usize::MAX).div_ceil(size_of::<Line>());
            let room = bytes.is_some_and(|bytes| bytes < LARGE || is_there(bytes));
            let block = if room { try_zeros(lines) } else { None };
            let Some(mut block) = block else {
                self.refused = Some((tape, bytes.unwrap_or(usize::MAX)));
                return false;
            };
            let mut at = block.as_mut_ptr().cast::<u8>();
            for chunk in first..end {
                self.tables[tape][chunk] = at;
                at = at.wrapping_add(record << (chunk / 4));
            }
            self.blocks[tape].push(block);
            self.states[tape].capacity += records as u64;
        }
        true
    }

    /// Returns the error of the allocation that failed; `lines` has the user's source line of each tape's loop.
    pub(crate) fn problem(&self, lines: &[Loc]) -> Problem {
        let (tape, bytes) = self.refused.unwrap_or_default();
        let records = self.states.get(tape).map_or(0, |s| s.length);
        let line = lines.get(tape).copied().flatten();
        let at = line.map_or(String::new(), |l| format!(" at {}:{}", l.file(), l.line()));
        let mut problem = Problem::new(
            Kind::TooLarge,
            format!(
                "there is no memory for {bytes} more bytes of residuals that the iterations of the \
                 loop{at} save for the reverse pass, after {records} iterations"
            ),
            "run fewer iterations, or put `checkpoint` around the body of the loop",
        );
        problem.location = line;
        problem
    }

    /// Returns the number of bytes allocated for all dynamic tapes.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.iter().flatten().map(|b| size_of_val(b.as_slice())).sum()
    }

    /// Removes the records (one iteration's residuals each) of all tapes before the next call, and frees the memory if
    /// it exceeds `KEPT` bytes.
    pub(crate) fn empty(&mut self) {
        let large = self.bytes() > KEPT;
        for (tape, state) in self.states.iter_mut().enumerate() {
            state.length = 0;
            if large {
                state.capacity = 0;
                self.blocks[tape].clear();
            }
        }
        self.refused = None;
    }
}

/// Returns whether the system has `bytes` bytes of memory available. Linux overcommits memory: the allocation would
/// succeed, and the process would be killed when it uses the memory. If the system does not report its available
/// memory, returns true, and the allocation decides.
fn is_there(bytes: usize) -> bool {
    let Ok(text) = std::fs::read_to_string("/proc/meminfo") else { return true };
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<usize>().ok()
    };
    let Some(available) = of("MemAvailable:") else { return true };
    bytes / 1024 < available.saturating_add(of("SwapFree:").unwrap_or(0))
}

/// Returns the size in bytes of a record (one iteration's residuals), for each dynamic tape of the program.
pub(crate) fn sizes(program: &Program) -> Vec<usize> {
    program.tapes.values().map(|t: &Tape| t.record).collect()
}

/// Allocates chunks (blocks of records) up to the chunk that holds record `index`, and returns a status (0, or
/// `NO_ROOM`).
///
/// # Safety
/// `context` is that of the call, and no other code uses the call's records meanwhile. `tape` is the number of a
/// dynamic tape of the program.
pub(crate) unsafe extern "C" fn grow(context: *const Context, tape: i64, index: i64) -> i32 {
    let grown = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: by the contract of this function, `context` is that of the call, and no other code uses the call's
        // records meanwhile.
        let records = unsafe { &mut *(*context).records.cast::<Records>() };
        records.allocate_up_to(tape as usize, index as u64)
    }));
    match grown {
        Ok(true) => 0,
        Ok(false) => NO_ROOM,
        Err(_) => PANICKED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_there_and_apart() {
        let mut records = Records::of(&[24, 0]);
        assert!(records.allocate_up_to(0, 10_000) && records.allocate_up_to(1, 3));
        let mut places: Vec<(usize, usize)> =
            (0..=chunk(10_000)).map(|c| (records.tables[0][c] as usize, 24 << (c / 4))).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
        let (needed, there) = (10_000 * 24, records.bytes());
        assert!(there <= needed + needed / 4 + 2 * BLOCK, "{there}");
        records.empty();
        assert!(records.states[0].capacity > 10_000, "small memory is kept");
        assert!(is_there(1 << 20));
        // Linux would grant an allocation of 2^50 bytes, so `is_there` must refuse that size.
        if cfg!(target_os = "linux") {
            assert!(!is_there(1 << 50));
        }
        for too_much in [1 << 45, usize::MAX / 2] {
            let mut records = Records::of(&[too_much]);
            assert!(!records.allocate_up_to(0, 0), "{too_much}");
            assert_eq!(records.problem(&[]).kind, Kind::TooLarge);
        }
    }
}
