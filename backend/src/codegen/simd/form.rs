//! The wide form: what a nest of loops is in vectors, before registers.
//!
//! A [`Form`] is a row of instructions in order. Loops are pairs of markers among them, so that the position of an
//! instruction is its place in time, which is what [register allocation](super::regalloc) wants. Virtual registers are
//! vectors or masks and may be assigned again (variables are). A *uniform* value is one that has all elements equal, in
//! a register as wide as the machine's.
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

/// A virtual register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Reg(u32);
entity_impl!(Reg, "m");

/// What a virtual register holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Class {
    /// Elements.
    Vector,
    /// A truth per element.
    Mask,
}

/// The elements of a vector.
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

/// Elements of which kind, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ty {
    pub(crate) lane: Lane,
    pub(crate) n: usize,
}

impl Ty {
    /// Bytes of a register.
    pub(crate) const fn bytes(self) -> usize {
        self.lane.bytes() * self.n
    }
}

/// An instruction of two operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    /// The larger, of zeros the positive one; anything where one is nan.
    Largest,
    /// The smaller, of zeros the negative one; anything where one is nan.
    Smallest,
    And,
    Or,
    Xor,
    /// The bits of the first moved up by the second; 0 where those are too many.
    ShiftLeft,
    /// The bits moved down, zeros before them; 0 where those are too many.
    ShiftRight,
    /// The bits moved down, copies of the sign before them.
    ShiftRightArithmetic,
}

/// An instruction of one operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Unary {
    Sqrt,
    Floor,
    Ceil,
    /// The bits moved up, zeros behind them.
    ShiftLeft(u8),
    /// The bits moved down, zeros before them.
    ShiftRight(u8),
    /// The bits moved up, those that leave coming in below.
    Rotate(u8),
}

/// An order of two operands; all but [`Order::Ne`] and [`Order::Unordered`] are false on nan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Order {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// One is nan.
    Unordered,
}

/// An operation on masks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Logic {
    And,
    /// Not the first, and the second.
    AndNot,
    Or,
    Xor,
}

/// From elements of one kind to another.
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
    /// The lower half.
    I64ToI32,
    // Towards zero; what is beyond, and nan, is the bits of the least integer, or of the greatest unsigned one.
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
    /// Elements before and after.
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

/// An outer loop of the nest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LoopId(u32);
entity_impl!(LoopId, "l");

/// Where accesses of a loop in lanes go: a pointer of the row, moved by the outer loops.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Stream {
    /// The word of the row that has the pointer.
    pub(crate) word: usize,
    /// Outer loops with their strides in bytes.
    pub(crate) outer: SmallVec<[(LoopId, i64); 2]>,
    /// A uniform whole number, and its stride in bytes.
    pub(crate) computed: Option<(Reg, i64)>,
}

/// Which element is accessed, in bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum At {
    /// In a loop in lanes: the place in its streams, what an iteration adds, loops in it with their strides, and a constant.
    Lane { stream: usize, stride: i64, inner: SmallVec<[(LoopId, i64); 2]>, offset: i32 },
    /// Outside of loops in lanes.
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

/// How the elements of a vector lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Access {
    /// One after the other.
    Unit,
    /// The same for all; a store is of one.
    One,
    /// So many bytes from one to the next.
    Strided(i64),
    /// At these multiples of their size.
    Places(Reg),
}

impl Access {
    fn read(self) -> Option<Reg> {
        match self {
            Access::Places(places) => Some(places),
            Access::Unit | Access::One | Access::Strided(_) => None,
        }
    }
}

/// Where the cold part of a function is taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum When {
    /// Always: there is no other.
    Always,
    /// Where one of the active elements is not in this mask.
    Outside(Reg),
}

/// An instruction.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Inst {
    /// The same bits in every element.
    Constant {
        to: Reg,
        lane: Lane,
        bits: u64,
    },
    /// 0, 1, 2 .. times `step` as i64.
    Ramp {
        to: Reg,
        step: i64,
    },
    /// A word of the row, in every element.
    Word {
        to: Reg,
        lane: Lane,
        word: usize,
    },
    /// Whether a word of the row is not 0.
    WordTruth {
        to: Reg,
        word: usize,
    },
    /// The first element to a word of the row.
    SetWord {
        word: usize,
        x: Reg,
        lane: Lane,
    },
    /// The first truth to a word of the row.
    SetWordTruth {
        word: usize,
        x: Reg,
    },
    /// The counter of an outer loop, or (`None`) of the loop in lanes, in every element.
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
    /// `x y + z`, rounded once.
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
    /// `mask ? x : y`
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
    /// A mask without elements, or of all.
    Truth {
        to: Reg,
        all: bool,
    },
    /// The lower eight truths also as the upper ones: of a uniform one.
    Widen {
        to: Reg,
        x: Reg,
    },
    /// The upper half of a register, at the place of the lower one.
    UpperHalf {
        ty: Ty,
        to: Reg,
        x: Reg,
    },
    /// The first element, in every element.
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
    /// Bytes as truths.
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
    /// A function of the row, element by element, over what `to` holds: of `args` and perhaps a natural number.
    Call {
        ty: Ty,
        word: usize,
        number: Option<u32>,
        to: Reg,
        args: SmallVec<[Reg; 3]>,
        when: When,
    },
    /// An outer loop begins.
    Loop {
        of: LoopId,
        extent: usize,
    },
    LoopEnd {
        of: LoopId,
        extent: usize,
    },
    /// Iterations of a loop in lanes: from, to, by. Where it has one of them there is no jump.
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
    /// The active elements of `n` as a mask.
    ActiveMask {
        to: Reg,
        n: usize,
    },
    /// So many elements are active from here on.
    Active {
        n: usize,
    },
}

/// What is to be done, in order.
#[derive(Clone, Default, Debug)]
pub(crate) struct Form {
    pub(crate) regs: PrimaryMap<Reg, Class>,
    pub(crate) loops: PrimaryMap<LoopId, ()>,
    pub(crate) body: Vec<Inst>,
}

impl Inst {
    /// Where it makes that register, unless it reads it, too.
    pub(crate) fn made(&mut self, reg: Reg) -> Option<&mut Reg> {
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

    /// The register assigned, and those read.
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
                let places = access.read().into_iter().chain(at.read());
                (None, std::iter::once(*x).chain(guard.iter().copied()).chain(places).collect())
            }
            Inst::Call { to, args, when, .. } => {
                let mut read: SmallVec<[Reg; 4]> = args.iter().copied().collect();
                if let When::Outside(inside) = when {
                    // What lies inside has been computed.
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
