//! Tapes: records of which only the run knows how many there are.
//!
//! What the iterations of a loop keep, where their number is known only when it runs, goes to a tape of the
//! program: one record for each iteration, with its fields at fixed bytes. A *cursor* stands at a record,
//! and buffers at bytes of that record are memory like any other, until the cursor turns to the next:
//!
//! ```text
//! tape t0: 16
//! program @f {
//!   buffer b3: f64[] record c0 8                 8 bytes into the record where c0 stands
//!   %1: i64 = length t0
//!   serial i0 in (%0) {
//!     %2: i64 = add %1, i0
//!     turn c0 to t0[%2]                          to write: the tape grows to hold the record
//!     store b3[0], ..
//!   }
//! ```
//!
//! Records stay where they are until the tape is cut, so they are read in any order. Who reads them may
//! not know which tape they are on: it has a [`handle`], two numbers that say which tape and which of
//! its fields, and the first record. A handle is an array like any other, so what the iterations of a loop
//! within a loop keep is a field of the outer record: all inner records lie one behind the other, and
//! the outer one says where its own begin.
//!
//! ```text
//!   turn c1 to (%7)[%8]                          to read: the tape and field of the handle's word %7
//! ```
//!
//! A record that is not there, or not of that size, ends the call with an error, whatever the handle is;
//! so nobody has to prove where records are.
//!
//! A kernel of which no record leaves cuts its tapes to the length that they had, so memory is that of
//! what is still wanted.

use super::Arg;
use super::ScalarId;
use cranelift_entity::{EntityRef, entity_impl};
use tapeloom_ir::Loc;

/// A tape of a program. Displays as `t3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TapeId(u32);
entity_impl!(TapeId, "t");

/// A cursor of a kernel. Displays as `c3`. It may be turned in several blocks, and never where it stands already.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CursorId(u32);
entity_impl!(CursorId, "c");

/// A tape: records of one size.
#[derive(Clone, Debug)]
pub struct Tape {
    /// Bytes of a record, a multiple of 8.
    pub record: usize,
    /// The user's line of the loop whose iterations write it.
    pub loc: Loc,
    /// Those of the loops around of which every iteration has so many records, inner ones first.
    pub within: Vec<Loc>,
}

/// What a cursor may do with the record where it stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Cursor {
    /// Read it.
    #[default]
    Reads,
    /// Write it, and read it back.
    Writes,
}

/// What happens to a tape.
#[derive(Clone, PartialEq, Hash, Debug)]
pub enum TapeStmt {
    /// `turn c0 to t0[index]`, `turn c0 to (handle)[index]`: a cursor stands at that record, to the end
    /// of the block.
    Turn {
        /// Which.
        cursor: CursorId,
        /// Of which tape.
        to: CursorTarget,
        /// Which record, an i64.
        index: Arg,
    },
    /// `%0: i64 = length t0`
    Length {
        /// The value defined.
        value: ScalarId,
        /// Of which tape.
        tape: TapeId,
    },
    /// `cut t0 to length`: forgets the records from there on.
    Cut {
        /// Which.
        tape: TapeId,
        /// How many records stay, an i64; no more than there are.
        to: Arg,
    },
}

/// Where a cursor turns.
#[derive(Clone, Copy, PartialEq, Hash, Debug)]
pub enum CursorTarget {
    /// To a record of that tape, to write it: the tape grows as far as it has to.
    Tape(TapeId),
    /// To what the first word of a [`handle`] says, to read it.
    Handle(Arg),
}

/// The first word of a handle: a field of the records of a tape. The second one is the number of the
/// first record.
pub fn handle(tape: TapeId, field: usize) -> i64 {
    ((tape.index() as i64) << 32) | field as i64
}

/// The tape and the field that a word says, which need not be there. The last number is that of no tape.
pub(crate) fn opened(word: i64) -> (Option<TapeId>, usize) {
    let tape = (word as u64 >> 32) as u32;
    ((tape < u32::MAX).then(|| TapeId::from_u32(tape)), (word & 0xffff_ffff) as usize)
}

impl TapeStmt {
    /// The scalar operands.
    pub fn args(&self, f: &mut dyn FnMut(Arg)) {
        match self {
            TapeStmt::Turn { to, index, .. } => {
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
