//! Operations: what a program hands to the machine, one after the other.
//!
//! Whoever runs the program computes its values; the machine hears which operation ran, on the results
//! of which others, and, where memory is touched, which element of which array. So addresses and
//! branches are exact, while a trace is never stored.
//!
//! Tape operations come in *layers*, as the paper's second and fourth pass say: [`Work::Layer`] (its
//! `SAlloc`) asks for so many entries of the scratchpad, stores or loads name them by their offset in
//! the layer, and [`Work::Barrier`] ends it. A layer is stored in the forward phase and loaded in the
//! reverse one, and systems without a scratchpad take no notice of it.

use super::arrays::{ArrayId, RegionId};
use super::opcode::Opcode;

/// What stands for the result of an operation: later ones name it as their operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    pub(super) slot: u32,
    pub(super) sequence: u64,
}

impl Default for Token {
    fn default() -> Token {
        Token::READY
    }
}

impl Token {
    /// What is there from the beginning: constants and arguments.
    pub const READY: Token = Token { slot: u32::MAX, sequence: 0 };
}

/// One operation that runs.
#[derive(Clone, Copy, Debug)]
pub struct Op<'a> {
    /// Which operation of the program's text it is an instance of.
    pub site: u32,
    /// What it does.
    pub work: Work,
    /// Whose results it takes; for accesses, those that its address and what it stores depend on.
    pub operands: &'a [Token],
}

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Computes something from its operands.
    Compute(Opcode),
    /// Reads an element that is not of the tape.
    Load(ArrayId, u64),
    /// Writes one.
    Store(ArrayId, u64),
    /// Reads or writes an element of which somebody else knows where it lies.
    Touch {
        /// Where.
        address: u64,
        /// Whether it is written.
        write: bool,
        /// Whether it is of the tape, which then lies in memory like anything else: counted as such, and
        /// read and written through the cache by every system.
        tape: bool,
    },
    /// Reads an element of an array again, in the reverse phase: the forward phase has read it, and it lies
    /// where it lay. It counts as of the tape. Where tape and streams cost no time, it is streamed.
    Rematerialized {
        /// Where.
        address: u64,
    },
    /// Stores an entry of the tape, in the forward phase.
    TapeStore(Entry),
    /// Loads it, in the reverse phase.
    TapeLoad(Entry),
    /// Begins a layer.
    Layer(Layer),
    /// Ends that of a stream: done when all its tape operations are.
    Barrier(u32),
    /// Ends a block: what follows is known only when its operands are.
    Branch,
}

/// A value of the tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Which value it is.
    pub home: Home,
    /// The stream that it comes in.
    pub stream: u32,
    /// Which entry of its layer,
    pub offset: u64,
    /// which byte of that, and how many.
    pub byte: u64,
    /// See above.
    pub width: u64,
    /// Its bits. A load that finds others is a fault of the machine or of the order of the program, and
    /// ends the run.
    pub bits: u64,
}

/// Which value an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Home {
    /// That value of that execution of a region.
    Tape(RegionId, u64, u64),
    /// An element of an array that is not written between the phases: nothing is stored, and the reverse
    /// phase reads it where it lies. Its store only remarks what lies there, and costs nothing.
    Array(ArrayId, u64),
    /// What lies there, streamed by itself ([`Simulation::feed`](super::Simulation::feed)): its bits are the
    /// address, so a load finds whether it gets what it means.
    There,
}

impl Entry {
    /// A whole entry of the first stream.
    pub fn word(home: Home, offset: u64, bits: u64) -> Entry {
        Entry { home, stream: 0, offset, byte: 0, width: 8, bits }
    }

    /// The bytes of the entry that it is.
    pub(super) fn mask(self) -> u64 {
        let all = u64::MAX.checked_shr(64 - 8 * self.width.min(8) as u32).unwrap_or(0);
        all << (8 * self.byte.min(7))
    }

    /// Its bits where they are in the entry.
    pub(super) fn word_bits(self) -> u64 {
        self.bits << (8 * self.byte.min(7)) & self.mask()
    }
}

/// Entries that are together in the scratchpad.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layer {
    /// Which stream moves them; each has its own place, its own tiles, and one layer at a time.
    pub stream: u32,
    /// How many.
    pub entries: u64,
    /// Whether they are entries of the tape, which are streamed to memory and back, or lie in arrays
    /// already ([`Home::Array`]), and are streamed back only.
    pub lies: bool,
    /// How the reverse phase reads the layers.
    pub order: Order,
}

/// In which order the reverse phase comes by what the forward phase stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// The last layer first: loops that are turned round.
    Mirrored,
    /// The layers of one nest in the order in which they were stored, and nests the last one first.
    Same {
        /// Which nest.
        nest: u32,
    },
}
