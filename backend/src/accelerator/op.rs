//! Operations: the stream of work that a program hands to the machine.
//!
//! The code that runs a program computes its values. The machine gets, per operation, the operations whose results
//! it uses, and for memory accesses the array and the element. So addresses and branches are exact, and no trace is
//! stored.
//!
//! Tape operations are grouped in *layers*, as in the paper's second and fourth pass. [`Work::Layer`] (its
//! `SAlloc`) requests a number of scratchpad entries; stores or loads name them by their offset in the layer; and
//! [`Work::Barrier`] ends the layer. A layer is stored in the forward phase and loaded in the reverse phase.
//! Systems without a scratchpad ignore layers.

use super::arrays::{ArrayId, RegionId};
use super::opcode::Opcode;

/// A handle for the result of an operation, which later operations name as their operand.
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
    /// The token of values that exist from the start: constants and arguments.
    pub const READY: Token = Token { slot: u32::MAX, sequence: 0 };
}

/// One executed operation.
#[derive(Clone, Copy, Debug)]
pub struct Op<'a> {
    /// The number of the operation in the program's text.
    pub site: u32,
    /// The work of the operation.
    pub work: Work,
    /// The tokens of the operations whose results this operation uses. For a memory access: those that its address and
    /// its stored value depend on.
    pub operands: &'a [Token],
}

/// The kinds of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Computes a value from its operands.
    Compute(Opcode),
    /// Reads an element that is not on the tape.
    Load(ArrayId, u64),
    /// Writes an element that is not on the tape.
    Store(ArrayId, u64),
    /// Reads or writes an element at an address that the caller computed.
    Touch {
        /// The address.
        address: u64,
        /// Whether the access is a write.
        write: bool,
        /// Whether the address is on the tape. If so, the access counts as a tape access, and goes through the
        /// cache on every system.
        tape: bool,
    },
    /// Reads, in the reverse phase, an array element that the forward phase has read, from its original address.
    /// Counts as a tape access. It is streamed on systems where tape and streams cost no time.
    Rematerialized {
        /// The address.
        address: u64,
    },
    /// Stores an entry of the tape in the forward phase.
    TapeStore(Entry),
    /// Loads an entry of the tape in the reverse phase.
    TapeLoad(Entry),
    /// Begins a layer: requests the scratchpad entries of a group of tape operations.
    Layer(Layer),
    /// Ends the layer (the tape entries in the scratchpad at once) of a stream. Done when all tape operations of the
    /// layer are done.
    Barrier(u32),
    /// Ends a block: later operations are known only when the operands are finished.
    Branch,
}

/// A value on the tape, or a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The identity of the entry's value: its place on the tape or in an array.
    pub home: Home,
    /// The stream that moves the entry.
    pub stream: u32,
    /// The index of the entry in its layer, the group of entries that are in the scratchpad together.
    pub offset: u64,
    /// The first byte of the value within the entry.
    pub byte: u64,
    /// The number of bytes of the value.
    pub width: u64,
    /// The bits of the value. A load that finds other bits ends the run: the simulator has a fault, or the program's
    /// order is wrong.
    pub bits: u64,
}

/// The identity of an entry's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Home {
    /// A value on the tape: its region (of one block), its index among the block's values, and the block's execution.
    Tape(RegionId, u64, u64),
    /// An array element that is not written between the phases. It is not stored on the tape; the reverse phase
    /// reads it from the array. Its store only records the bits and costs nothing.
    Array(ArrayId, u64),
    /// An element that a stream brings from its array ([`Simulation::set_tiles`](super::Simulation::set_tiles)). Its
    /// bits are its address, so a load can check that it got the right element.
    Streamed,
}

impl Entry {
    /// Creates a whole entry of the first stream.
    pub fn word(home: Home, offset: u64, bits: u64) -> Entry {
        Entry { home, stream: 0, offset, byte: 0, width: 8, bits }
    }

    /// Returns the mask of the value's bytes in its entry.
    pub(super) fn mask(self) -> u64 {
        let all = u64::MAX.checked_shr(64 - 8 * self.width.min(8) as u32).unwrap_or(0);
        all << (8 * self.byte.min(7))
    }

    /// Returns the value's bits, shifted to their position in the entry.
    pub(super) fn word_bits(self) -> u64 {
        self.bits << (8 * self.byte.min(7)) & self.mask()
    }
}

/// A group of entries that are in the scratchpad together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layer {
    /// The stream that moves the layer. Each stream has its own place and tiles, and one layer at a time.
    pub stream: u32,
    /// The number of entries (8-byte words of the scratchpad) of the layer.
    pub entries: u64,
    /// Whether the entries are in arrays already ([`Home::Array`]) and are only streamed back. Otherwise they are
    /// entries of the tape, which are streamed to memory and back.
    pub in_array: bool,
    /// The order in which the reverse phase reads the layers.
    pub order: Order,
}

/// The order in which the reverse phase reads the layers of the forward phase.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// The last layer first, as in reversed loops.
    Mirrored,
    /// The layers of one nest in the order of their stores, and the last nest first.
    Same {
        /// The number of the nest.
        nest: u32,
    },
}
