//! The vector IR: the instructions of a nest of loops, before register allocation.
//!
//! A [`VectorProgram`] is a list of instructions in program order. Loops are pairs of markers in the list, so the
//! position of an instruction orders it in time, as [register allocation](super::regalloc) requires. Virtual registers
//! are vectors or masks, and may be assigned several times (those of variables are). A *uniform* value has equal
//! elements, and occupies a whole register of the machine.
//!
//! ```text
//! fold i0 in 100 lanes 8 {            m0 = 0.0                         the neutral element
//!   %0: f64 = load b0[i0]             lanes 0..96 step 8 {
//!   v0 = add v0, %0                     m1 = load.8 s0[lane*8]
//! }                                     m0 = add.8 m0, m1
//!                                     }
//! ```

use cranelift_entity::{PrimaryMap, entity_impl};
use smallvec::SmallVec;

/// A virtual register of the vector IR, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Reg(u32);
entity_impl!(Reg, "m");

/// The kind of a virtual register: vector or mask.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Class {
    /// A vector register: one number per element.
    Vector,
    /// A mask register: one truth value per element of a vector.
    Mask,
}

/// The type of a vector's elements: a float or an integer of 32 or 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Lane {
    F64,
    F32,
    I64,
    I32,
}

impl Lane {
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Lane::F64 | Lane::I64 => 8,
            Lane::F32 | Lane::I32 => 4,
        }
    }
}

/// The type of a vector: the type and the number of its elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ty {
    pub(crate) lane: Lane,
    pub(crate) n: usize,
}

impl Ty {
    /// Returns the bytes of the vector.
    pub(crate) const fn bytes(self) -> usize {
        self.lane.bytes() * self.n
    }
}

/// An operation on two vectors, element by element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    /// The larger operand; +0 is larger than -0. Any value if one operand is nan.
    Largest,
    /// The smaller operand; -0 is smaller than +0. Any value if one operand is nan.
    Smallest,
    /// The first operand if it is less than the second, otherwise the second, also if one is nan.
    FirstIfLess,
    /// The first operand if it is greater than the second, otherwise the second, also if one is nan.
    FirstIfGreater,
    And,
    Or,
    Xor,
    /// Shifts the first operand left by the second; gives 0 if the second is at least the element's width in bits.
    ShiftLeft,
    /// Shifts right logically; gives 0 if the second operand is at least the element's width in bits.
    ShiftRight,
    /// Shifts right arithmetically, with copies of the sign bit.
    ShiftRightArithmetic,
}

/// An operation on one vector, element by element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Unary {
    Sqrt,
    Floor,
    Ceil,
    /// Shifts left by this number of bits.
    ShiftLeft(u8),
    /// Shifts right logically by this number of bits.
    ShiftRight(u8),
    /// Rotates left by this number of bits.
    Rotate(u8),
}

/// A comparison of two operands. If an operand is nan, only [`Order::Ne`] and [`Order::Unordered`] are true.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Order {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// At least one operand is nan.
    Unordered,
}

/// A logical operation on masks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Logic {
    And,
    /// The logical and of the second mask with the complement of the first.
    AndNot,
    Or,
    Xor,
}

/// A conversion between element types.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Conversion {
    F32ToF64,
    F64ToF32,
    I64ToF64,
    U64ToF64,
    I64ToF32,
    U64ToF32,
    I32ToF64,
    U32ToF64,
    I32ToF32,
    U32ToF32,
    I32ToI64,
    U32ToI64,
    /// Truncates: the result is the lower 32 bits.
    I64ToI32,
    // Rounds towards zero. A value out of range, or nan, becomes the least integer of a signed type, or the greatest
    // integer of an unsigned type.
    F64ToI64,
    F64ToU64,
    F32ToI64,
    F32ToU64,
    F64ToI32,
    F64ToU32,
    F32ToI32,
    F32ToU32,
}

impl Conversion {
    /// Returns the element types of the conversion's operand and of its result.
    pub(crate) const fn lanes(self) -> (Lane, Lane) {
        match self {
            Conversion::F32ToF64 => (Lane::F32, Lane::F64),
            Conversion::F64ToF32 => (Lane::F64, Lane::F32),
            Conversion::I64ToF64 | Conversion::U64ToF64 => (Lane::I64, Lane::F64),
            Conversion::I64ToF32 | Conversion::U64ToF32 => (Lane::I64, Lane::F32),
            Conversion::I32ToF64 | Conversion::U32ToF64 => (Lane::I32, Lane::F64),
            Conversion::I32ToF32 | Conversion::U32ToF32 => (Lane::I32, Lane::F32),
            Conversion::I32ToI64 | Conversion::U32ToI64 => (Lane::I32, Lane::I64),
            Conversion::I64ToI32 => (Lane::I64, Lane::I32),
            Conversion::F64ToI64 | Conversion::F64ToU64 => (Lane::F64, Lane::I64),
            Conversion::F32ToI64 | Conversion::F32ToU64 => (Lane::F32, Lane::I64),
            Conversion::F64ToI32 | Conversion::F64ToU32 => (Lane::F64, Lane::I32),
            Conversion::F32ToI32 | Conversion::F32ToU32 => (Lane::F32, Lane::I32),
        }
    }
}

/// The number of an outer loop of the nest: a loop without lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LoopId(u32);
entity_impl!(LoopId, "l");

/// The base address of accesses in a loop with lanes: a pointer from the row (the nest's arguments), advanced by the
/// outer loops' counters times their strides.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Stream {
    /// The index of the word that holds the pointer in the row (the nest's arguments).
    pub(crate) word: usize,
    /// The outer loops whose counters advance the pointer, with their strides in bytes.
    pub(crate) outer: SmallVec<[(LoopId, i64); 2]>,
    /// A uniform integer (equal in all elements) and a number of bytes, whose product is added to the pointer.
    pub(crate) computed: Option<(Reg, i64)>,
}

/// The address of an access, relative to a stream (a base pointer).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum At {
    /// An access in a loop with lanes: the index of its stream, the bytes per iteration of that loop, the loops inside
    /// that loop with their strides in bytes, and a constant offset in bytes.
    Lane { stream: usize, stride: i64, inner: SmallVec<[(LoopId, i64); 2]>, offset: i32 },
    /// An access outside of loops with lanes: its stream, and a constant offset in bytes.
    Outer { stream: Stream, offset: i32 },
}

impl At {
    fn read(&self) -> Option<Reg> {
        match self {
            At::Lane { .. } => None,
            At::Outer { stream, .. } => stream.computed.map(|c| c.0),
        }
    }
}

/// The arrangement of a vector's elements in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Access {
    /// The elements are contiguous.
    Unit,
    /// One element: a load repeats it in the whole vector; a store writes only the vector's first element.
    One,
    /// Neighbouring elements are this number of bytes apart.
    Strided(i64),
    /// Each element has its own offset, from a vector register, in units of the element size (gather and scatter).
    Indexed(Reg),
}

impl Access {
    fn read(self) -> Option<Reg> {
        match self {
            Access::Indexed(offsets) => Some(offsets),
            Access::Unit | Access::One | Access::Strided(_) => None,
        }
    }
}

/// The condition under which a scalar function is called.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum When {
    /// Calls the function for all active elements, since its operations are not inlined.
    Always,
    /// Calls the function for the active elements outside of this mask. The mask holds the elements for which the
    /// inlined operations of the function give a valid result.
    Outside(Reg),
}

/// An instruction of the vector IR; `to` is the register of its result.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Inst {
    /// Sets all elements to a constant with these bits.
    Constant {
        to: Reg,
        lane: Lane,
        bits: u64,
    },
    /// Sets element i to i times `step`, as i64.
    Ramp {
        to: Reg,
        step: i64,
    },
    /// Loads a word of the row (the nest's arguments) and repeats it in every element.
    Word {
        to: Reg,
        lane: Lane,
        word: usize,
    },
    /// Sets all truth values of a mask: true if a word of the row (the nest's arguments) is not 0.
    WordTruth {
        to: Reg,
        word: usize,
    },
    /// Stores the first element of a vector to a word of the row (the nest's arguments).
    SetWord {
        word: usize,
        x: Reg,
        lane: Lane,
    },
    /// Stores the first truth value of a mask to a word of the row (the nest's arguments).
    SetWordTruth {
        word: usize,
        x: Reg,
    },
    /// Sets every element to the counter of an outer loop, or, if `None`, of the loop with lanes.
    Counter {
        to: Reg,
        of: Option<LoopId>,
    },
    Move {
        to: Reg,
        x: Reg,
    },
    MoveMask {
        to: Reg,
        x: Reg,
    },
    Unary {
        op: Unary,
        ty: Ty,
        to: Reg,
        x: Reg,
    },
    Binary {
        op: Binary,
        ty: Ty,
        to: Reg,
        x: Reg,
        y: Reg,
    },
    /// `x * y + z`, rounded once.
    Fma {
        ty: Ty,
        to: Reg,
        x: Reg,
        y: Reg,
        z: Reg,
    },
    Compare {
        order: Order,
        signed: bool,
        ty: Ty,
        to: Reg,
        x: Reg,
        y: Reg,
    },
    /// Sets each element to `mask ? x : y`.
    Pick {
        ty: Ty,
        to: Reg,
        mask: Reg,
        x: Reg,
        y: Reg,
    },
    Convert {
        by: Conversion,
        n: usize,
        to: Reg,
        x: Reg,
    },
    Logic {
        op: Logic,
        to: Reg,
        x: Reg,
        y: Reg,
    },
    /// Sets all truth values of a mask to one constant.
    Truth {
        to: Reg,
        all: bool,
    },
    /// Copies the lower eight truth values of a uniform mask (all truth values are equal) to the upper eight, for
    /// vectors of 16 elements.
    Widen {
        to: Reg,
        x: Reg,
    },
    /// Moves the upper half of a vector to the lower half.
    UpperHalf {
        ty: Ty,
        to: Reg,
        x: Reg,
    },
    /// Copies the first element of a vector to every element.
    Broadcast {
        lane: Lane,
        to: Reg,
        x: Reg,
    },
    Load {
        ty: Ty,
        to: Reg,
        at: At,
        access: Access,
        guard: Option<Reg>,
    },
    Store {
        ty: Ty,
        x: Reg,
        at: At,
        access: Access,
        guard: Option<Reg>,
    },
    /// Loads bools (one byte each in memory) as the truth values of a mask.
    LoadTruth {
        n: usize,
        to: Reg,
        at: At,
        access: Access,
        guard: Option<Reg>,
    },
    StoreTruth {
        n: usize,
        x: Reg,
        at: At,
        access: Access,
        guard: Option<Reg>,
    },
    /// Calls a scalar function, whose address is a word of the row (the nest's arguments), element by element. The
    /// arguments are `args` and, for some functions, a constant number. Elements without a call keep their value in
    /// `to`.
    Call {
        ty: Ty,
        word: usize,
        number: Option<i64>,
        to: Reg,
        args: SmallVec<[Reg; 3]>,
        when: When,
    },
    /// The beginning of an outer loop: a loop without lanes.
    Loop {
        of: LoopId,
        extent: usize,
    },
    LoopEnd {
        of: LoopId,
        extent: usize,
    },
    /// The beginning of a loop with lanes, with its start, end and step in elements. If there is only one iteration,
    /// the code has no jump.
    Lanes {
        streams: Vec<Stream>,
        from: usize,
        to: usize,
        by: usize,
    },
    LanesEnd {
        to: usize,
        by: usize,
    },
    /// Sets a mask of `n` elements to true for the active elements: all of them, except in a loop's last, partly used
    /// vector.
    ActiveMask {
        to: Reg,
        n: usize,
    },
    /// Sets the number of active elements for the instructions that follow. The number is less than the vector's length
    /// only in a loop's last vector.
    Active {
        n: usize,
    },
}

/// The instructions of a nest of loops, in program order.
#[derive(Clone, Default, Debug)]
pub(crate) struct VectorProgram {
    pub(crate) regs: PrimaryMap<Reg, Class>,
    pub(crate) loops: PrimaryMap<LoopId, ()>,
    pub(crate) body: Vec<Inst>,
}

impl Inst {
    /// Returns the instruction's result register, to be replaced, if that register is `reg` and the instruction does
    /// not also read `reg`.
    pub(crate) fn replaceable_result(&mut self, reg: Reg) -> Option<&mut Reg> {
        match self {
            Inst::Unary { to, .. }
            | Inst::Binary { to, .. }
            | Inst::Fma { to, .. }
            | Inst::Pick { to, .. }
            | Inst::Logic { to, .. }
                if *to == reg =>
            {
                Some(to)
            }
            _ => None,
        }
    }

    /// Returns the register that the instruction assigns, if any, and the registers that it reads.
    pub(crate) fn registers(&self) -> (Option<Reg>, SmallVec<[Reg; 4]>) {
        use smallvec::smallvec as of;
        match self {
            Inst::Constant { to, .. }
            | Inst::Ramp { to, .. }
            | Inst::Word { to, .. }
            | Inst::WordTruth { to, .. }
            | Inst::Counter { to, .. }
            | Inst::ActiveMask { to, .. }
            | Inst::Truth { to, .. } => (Some(*to), of![]),
            Inst::SetWord { x, .. } | Inst::SetWordTruth { x, .. } => (None, of![*x]),
            Inst::Move { to, x }
            | Inst::MoveMask { to, x }
            | Inst::Unary { to, x, .. }
            | Inst::Convert { to, x, .. }
            | Inst::Widen { to, x }
            | Inst::UpperHalf { to, x, .. }
            | Inst::Broadcast { to, x, .. } => (Some(*to), of![*x]),
            Inst::Binary { to, x, y, .. }
            | Inst::Compare { to, x, y, .. }
            | Inst::Logic { to, x, y, .. } => (Some(*to), of![*x, *y]),
            Inst::Fma { to, x, y, z, .. } => (Some(*to), of![*x, *y, *z]),
            Inst::Pick { to, mask, x, y, .. } => (Some(*to), of![*mask, *x, *y]),
            Inst::Load { to, guard, at, access, .. }
            | Inst::LoadTruth { to, guard, at, access, .. } => {
                (Some(*to), guard.iter().copied().chain(access.read()).chain(at.read()).collect())
            }
            Inst::Store { x, guard, at, access, .. }
            | Inst::StoreTruth { x, guard, at, access, .. } => {
                let offsets = access.read().into_iter().chain(at.read());
                (None, std::iter::once(*x).chain(guard.iter().copied()).chain(offsets).collect())
            }
            Inst::Call { to, args, when, .. } => {
                let mut read: SmallVec<[Reg; 4]> = args.iter().copied().collect();
                if let When::Outside(inside) = when {
                    // Elements inside the mask keep their value in `to`, so the call reads the mask and `to`.
                    read.extend([*inside, *to]);
                }
                (Some(*to), read)
            }
            Inst::Lanes { streams, .. } => {
                (None, streams.iter().filter_map(|s| s.computed.map(|c| c.0)).collect())
            }
            Inst::Loop { .. }
            | Inst::LoopEnd { .. }
            | Inst::LanesEnd { .. }
            | Inst::Active { .. } => (None, of![]),
        }
    }
}
