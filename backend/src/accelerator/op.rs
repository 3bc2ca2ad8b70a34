//! Operations: the units of work that a running program passes to the simulated machine.
//!
//! The code that runs a program computes its values. For each operation, the machine gets the operations whose
//! results it uses, and for memory accesses the array and the element. So addresses and branches are those of the
//! actual run, and no trace is stored.
//!
//! Tape operations are grouped in *layers* (a layer is the tape entries for which the scratchpad is allocated at one
//! time), as in the second and fourth pass of the TapeFlow paper. [`Work::Layer`] (the paper's `SAlloc`) requests a
//! number of scratchpad entries; stores or loads name the entries by their offset in the layer; and [`Work::Barrier`]
//! ends the layer. A layer is stored in the forward phase and loaded in the reverse phase. Systems without a
//! scratchpad ignore layers.

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
    /// The token of values that exist before the run starts: constants and arguments.
    pub const READY: Token = Token { slot: u32::MAX, sequence: 0 };
}

/// One executed operation of the program, as input of the simulated machine.
#[derive(Clone, Copy, Debug)]
pub struct Op<'a> {
    /// The number of the operation in the program's text; all executions of one statement have the same number.
    pub site: u32,
    /// The kind of work that the operation does, such as a computation or a load.
    pub work: Work,
    /// The tokens of the operations whose results this operation uses. For a memory access: the tokens on which the
    /// address and the stored value depend.
    pub operands: &'a [Token],
}

/// The work of an operation: a computation, a memory or tape access, or a mark (the begin or end of a layer, a branch).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Computes a value from its operands.
    Compute(Opcode),
    /// Reads an element of an array that is not on the tape: the array and the element's index.
    Load(ArrayId, u64),
    /// Writes an element of an array that is not on the tape: the array and the element's index.
    Store(ArrayId, u64),
    /// Reads or writes memory at an address that the caller computed.
    Touch {
        /// The address in bytes.
        address: u64,
        /// Whether the access is a write.
        write: bool,
        /// Whether the address is on the tape. If so, the access counts as a tape access. The access goes through the
        /// cache even on systems with a scratchpad.
        tape: bool,
    },
    /// Reads, in the reverse phase, an array element that the forward phase has read, from the element's original
    /// address. Counts as a tape access. On systems with an ideal scratchpad (tape and streams cost no time), the
    /// read is only counted.
    Rematerialized {
        /// The address in bytes.
        address: u64,
    },
    /// Stores an entry of the tape in the forward phase.
    TapeStore(Entry),
    /// Loads an entry of the tape in the reverse phase.
    TapeLoad(Entry),
    /// Begins a layer: requests the scratchpad entries for a group of tape operations.
    Layer(Layer),
    /// Ends the current layer (the tape entries allocated in the scratchpad at one time) of a stream, given by the
    /// stream's number. The barrier is finished when all tape operations of the layer are finished.
    Barrier(u32),
    /// Ends a block: the machine gets no later operation until the operands are finished.
    Branch,
}

/// An access to a value on the tape: where the value is in the scratchpad and in memory, and its bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The identity of the value: its place on the tape or in an array.
    pub identity: EntryIdentity,
    /// The number of the stream that moves the entry between memory and scratchpad.
    pub stream: u32,
    /// The index of the value's 8-byte entry in its layer (the entries allocated in the scratchpad at one time).
    pub offset: u64,
    /// The offset of the value within the entry, in bytes.
    pub byte: u64,
    /// The size of the value in bytes.
    pub width: u64,
    /// The bits of the value. A load that finds other bits than were stored ends the run with an error: the simulator
    /// has a fault, or the program loads in the wrong order.
    pub bits: u64,
}

/// The identity of the value of a tape entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryIdentity {
    /// A value on the tape: the region of the statement block that stores the value, the value's index among the
    /// block's values, and the number of the block's execution.
    Tape(RegionId, u64, u64),
    /// An array element that is not written between the forward and the reverse phase: the array and the element's
    /// index. The value is not stored on the tape. The reverse phase reads it from the array. The forward phase's store
    /// only records the bits and costs nothing.
    Array(ArrayId, u64),
    /// An element that a stream brings from its array ([`Simulation::set_tiles`](super::Simulation::set_tiles)). The
    /// address of the element serves as its bits, so that a load can check that the scratchpad holds the right element.
    Streamed,
}

impl Entry {
    /// Creates an access to a whole 8-byte entry of stream 0.
    pub fn word(identity: EntryIdentity, offset: u64, bits: u64) -> Entry {
        Entry { identity, stream: 0, offset, byte: 0, width: 8, bits }
    }

    /// Returns the mask of the bits that the value takes in its 8-byte entry.
    pub(super) fn mask(self) -> u64 {
        let all = u64::MAX.checked_shr(64 - 8 * self.width.min(8) as u32).unwrap_or(0);
        all << (8 * self.byte.min(7))
    }

    /// Returns the value's bits, shifted to their position in the 8-byte entry.
    pub(super) fn word_bits(self) -> u64 {
        self.bits << (8 * self.byte.min(7)) & self.mask()
    }
}

/// A group of tape entries for which the scratchpad is allocated at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layer {
    /// The number of the stream that moves the layer. Each stream has its own range of the scratchpad and its own tiles
    /// (units of transfer), and one layer in use at a time.
    pub stream: u32,
    /// The number of entries of the layer; each takes an 8-byte word of the scratchpad.
    pub entries: u64,
    /// Whether the values are in arrays already ([`EntryIdentity::Array`]) and are only streamed to the scratchpad.
    /// Otherwise the values are on the tape, and are streamed to memory and back.
    pub in_array: bool,
    /// The order in which the reverse phase reads this layer among the layers of the stream.
    pub order: Order,
}

/// The order in which the reverse phase reads the layers (groups of tape entries) that the forward phase stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// The layer (group of tape entries) that was stored last is read first, as in a reversed loop.
    Mirrored,
    /// The loop nest that stored last is read first; within a nest, the layers (groups of tape entries) are read in the
    /// order of their stores.
    Same {
        /// The number of the loop nest that stores the layer (group of tape entries).
        nest: u32,
    },
}
