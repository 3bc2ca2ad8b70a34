//! Dynamic tapes: sequences of records whose number is known only at run time.
//!
//! If the trip count of a loop is known only at run time, the loop's residuals are saved on a dynamic tape, which has
//! one record for each iteration, with fields at fixed offsets. A *cursor* points to a record. A buffer at an offset in
//! that record is memory like any other, until the cursor moves to another record:
//!
//! ```text
//! tape t0: 16
//! program @f {
//!   buffer b3: f64[] record c0 8                 8 bytes into the record of c0
//!   %1: i64 = length t0
//!   serial i0 in (%0) {
//!     %2: i64 = add %1, i0
//!     seek c0 to t0[%2]                          to write: the tape grows to hold the record
//!     store b3[0], ..
//!   }
//! ```
//!
//! Records do not move until the tape is truncated, so they can be read in any order. The reader may not know the
//! tape statically: it has a [`handle`], two numbers that state the tape, the field, and the first record. A handle
//! is an array like any other. So the records of an inner loop need no tape of their own for each outer iteration:
//! all inner records are consecutive on one tape, and a field of the outer record is the handle that says where its
//! inner records begin.
//!
//! ```text
//!   seek c1 to (%7)[%8]                          to read: the tape and field of the handle's word %7
//! ```
//!
//! If a record does not exist, or does not have the expected size, the call ends with an error, whatever numbers the
//! handle has; so accesses to records need no proof of their bounds.
//!
//! A kernel that returns none of its records truncates its tapes to their previous length, so the memory is bounded by
//! the records that are still needed.

use super::Arg;
use super::ScalarId;
use cranelift_entity::{EntityRef, entity_impl};
use tapeloom_ir::Loc;

/// The id of a dynamic tape of a program. Displays as `t3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TapeId(u32);
entity_impl!(TapeId, "t");

/// The id of a cursor, which points to a record of a dynamic tape. Displays as `c3`. A block moves a cursor at most
/// once, but several blocks may move the same cursor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CursorId(u32);
entity_impl!(CursorId, "c");

/// A dynamic tape: a sequence of records of one size, whose number is known only at run time.
#[derive(Clone, Debug)]
pub struct Tape {
    /// The size of one record in bytes, a multiple of 8.
    pub record: usize,
    /// The user's source line of the loop whose iterations write one record each.
    pub loc: Loc,
    /// The user's source lines of the enclosing loops, inner loops first; each iteration of an enclosing loop has
    /// records of its own.
    pub within: Vec<Loc>,
}

/// The use of a cursor: whether it reads or writes the record to which it points.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Cursor {
    /// The cursor only reads the record.
    #[default]
    Reads,
    /// The cursor writes the record, and may read back the written values.
    Writes,
}

/// A statement on dynamic tapes: moves a cursor, reads the number of records, or truncates a tape.
#[derive(Clone, PartialEq, Hash, Debug)]
pub enum TapeStmt {
    /// `seek c0 to t0[index]`, `seek c0 to (handle)[index]`: moves a cursor to a record. After the end of the block
    /// the cursor points to no record.
    MoveCursor {
        /// The cursor that moves to another record.
        cursor: CursorId,
        /// The tape that holds the record; also states whether the record is written or read.
        to: CursorTarget,
        /// The number of the record on its tape, an i64.
        index: Arg,
    },
    /// `%0: i64 = length t0`: reads the number of records of a tape.
    Length {
        /// The scalar that gets the number of records.
        value: ScalarId,
        /// The tape whose records are counted.
        tape: TapeId,
    },
    /// `cut t0 to length`: truncates a tape, that is removes the records from the index `length` on.
    Cut {
        /// The tape that is truncated.
        tape: TapeId,
        /// The number of records that remain, an i64; at most the number before.
        to: Arg,
    },
}

/// The tape that holds the record to which a cursor moves. To write a record, the target is the tape itself; to read a
/// record, it is a handle.
#[derive(Clone, Copy, PartialEq, Hash, Debug)]
pub enum CursorTarget {
    /// Moves the cursor to a record of this tape in order to write it; the tape grows to hold the record.
    Tape(TapeId),
    /// Moves the cursor, in order to read, to a record of the tape that the operand states: the first word of a
    /// [`handle`].
    Handle(Arg),
}

/// Returns the first word of a handle, which encodes a tape and the offset in bytes of a field in its records. (The
/// second word of a handle is the number of the first record.)
pub fn handle(tape: TapeId, field: usize) -> i64 {
    ((tape.index() as i64) << 32) | field as i64
}

/// Decodes the first word of a handle into the tape and the field offset, without a check that such a tape and field
/// exist. The largest tape number stands for no tape.
pub(crate) fn opened(word: i64) -> (Option<TapeId>, usize) {
    let tape = (word as u64 >> 32) as u32;
    ((tape < u32::MAX).then(|| TapeId::from_u32(tape)), (word & 0xffff_ffff) as usize)
}

impl TapeStmt {
    /// Calls `f` with each scalar operand of the statement: record numbers, handles and lengths.
    pub fn args(&self, f: &mut dyn FnMut(Arg)) {
        match self {
            TapeStmt::MoveCursor { to, index, .. } => {
                if let CursorTarget::Handle(word) = to {
                    f(*word);
                }
                f(*index);
            }
            TapeStmt::Length { .. } => {}
            TapeStmt::Cut { to, .. } => f(*to),
        }
    }
}
