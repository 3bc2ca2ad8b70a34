//! Emission of machine code from the vector IR: a leaf function, whose argument points to a *row* of words (the nest's
//! arguments).
//!
//! ```text
//! rdi        the pointer to the row
//! rax        the counter of the loop with lanes
//! rcx ..     pointers of streams
//! r14, r15   computed addresses
//! rbp        the caller's stack pointer
//! ```
//!
//! The vector and mask registers depend on the instruction set ([`Machine`]): [`avx512`](super::avx512) and
//! [`avx2`](super::avx2). The calling convention is System V. The frame is aligned to 64 bytes, and has slots for
//! vectors, slots for masks, counters of outer loops, and the memory that calls need. Calls of functions on single
//! elements save the live registers.

use super::super::form::{Class, Inst, Lane, LoopId, Reg, Ty, VectorProgram};
use super::super::regalloc::{Allocation, Location};
use super::assembler::{Assembler, Label};
use super::frame::Frame;
use super::{avx2, avx512};
use cranelift_entity::{EntityRef, SecondaryMap};
use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};
use tapeloom_ir::Isa;
use tapeloom_ir::fault::{Fault, planted};

/// The general registers that hold the pointers of streams (base pointers of accesses in a loop with lanes).
/// Caller-saved registers come first.
pub(super) const STREAMS: [Register; 10] = [
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::RBX,
    Register::R12,
    Register::R13,
];

const CALLEE_SAVED: [Register; 5] =
    [Register::RBX, Register::R12, Register::R13, Register::R14, Register::R15];

/// The most bytes that a nest's spilled vectors may take; a nest with more is left to Cranelift.
const MOST_SPILLS: usize = 4096;
/// The bytes of a page of memory. A stack grows only when the page directly below it is touched.
const PAGE_BYTES: usize = 4096;

/// The registers of an instruction set (AVX2 or AVX-512) with their purposes, and its basic instructions.
pub(crate) struct Machine {
    /// The bytes of a vector register.
    pub(super) bytes: usize,
    /// The numbers of the vector registers that register allocation may use.
    pub(crate) vectors: &'static [u8],
    /// The numbers of the mask registers that register allocation may use; empty if masks are in vector registers.
    pub(crate) masks: &'static [u8],
    /// The numbers of the two scratch registers for operands that are in memory.
    pub(super) operands: [u8; 2],
    /// The number of the scratch register for a result whose location is the stack frame.
    pub(super) result: u8,
    /// The instruction that loads a whole vector from an unaligned address.
    pub(super) load: Code,
    /// The instruction that stores a whole vector at an unaligned address.
    pub(super) store: Code,
    /// The instruction that copies a vector register.
    pub(super) copy: Code,
    /// The instructions that repeat a number from memory in every element: for numbers of eight bytes, and of four.
    pub(super) broadcast: [Code; 2],
    /// The instructions that load only the first element of a vector: for elements of eight bytes, and of four.
    pub(super) load_one: [Code; 2],
    /// The instructions that store only the first element of a vector: for elements of eight bytes, and of four.
    pub(super) store_one: [Code; 2],
    /// The instruction that moves the first eight bytes of a vector to a general register.
    pub(super) to_general: Code,
    /// The number of the mask register that holds the active elements; `None` if the set has no mask registers.
    pub(super) active: Option<u8>,
    /// Emits a move of a mask, as one bit for each of the given number of elements, to a general 32-bit register.
    pub(super) bits: fn(&mut Emit<'_>, Reg, usize) -> Register,
    /// Emits the vector IR's instruction at an index, if its code depends on the instruction set.
    pub(super) lower: fn(&mut Emit<'_>, usize) -> Result<(), &'static str>,
}

/// Returns the first code for elements of eight bytes, and the second for elements of four.
pub(super) fn by_size(codes: [Code; 2], lane: Lane) -> Code {
    match lane {
        Lane::F64 | Lane::I64 => codes[0],
        Lane::F32 | Lane::I32 => codes[1],
    }
}

/// Returns the registers and basic instructions of an instruction set, or the reason why SIMD code does not use it.
pub(crate) fn machine(isa: Isa) -> Result<&'static Machine, &'static str> {
    match isa {
        Isa::Avx512 => Ok(&avx512::MACHINE),
        Isa::Avx2 => Ok(&avx2::MACHINE),
        Isa::Baseline => Err("the instruction set has no wider vectors"),
    }
}

/// Returns the machine code of a program in the vector IR, or the reason why the program is refused.
pub(crate) fn emit(
    program: &VectorProgram,
    allocation: Allocation,
    m: &'static Machine,
) -> Result<Vec<u8>, &'static str> {
    if allocation.slots.0 * m.bytes > MOST_SPILLS {
        return Err("it has more values than registers");
    }
    let calls = program.body.iter().any(|i| matches!(i, Inst::Call { .. }));
    let streams = program.body.iter().map(|i| match i {
        Inst::Lanes { streams, .. } => streams.len(),
        _ => 0,
    });
    let frame = Frame::of(&allocation, m, program.loops.len(), streams.max().unwrap_or(0), calls);
    let mut sources = SecondaryMap::new();
    for inst in &program.body {
        match inst {
            Inst::Constant { to, lane, bits } => {
                sources[*to] = Some(Source::Constant(*lane, *bits));
            }
            Inst::Word { to, lane, word } => sources[*to] = Some(Source::Word(*lane, *word)),
            _ => {}
        }
    }
    let mut e = Emit {
        a: Assembler::new(),
        m,
        program,
        allocation,
        frame,
        sources,
        streams: Vec::new(),
        active: 0,
        tops: Vec::new(),
        cold: Vec::new(),
    };
    e.enter();
    for at in 0..program.body.len() {
        e.inst(at)?;
    }
    e.leave();
    for Cold { at, streams, active, begin, join } in std::mem::take(&mut e.cold) {
        e.a.bind(begin);
        (e.streams, e.active) = (streams, active);
        e.call(at)?;
        e.a.jump(Code::Jmp_rel32_64, join);
    }
    e.a.finish().map_err(|_| "an instruction cannot be encoded")
}

/// The origin of a value without a register: a constant, or a word of the row (the nest's arguments).
#[derive(Clone, Copy)]
pub(super) enum Source {
    Constant(Lane, u64),
    Word(Lane, usize),
}

/// An operand of an instruction: a register, or memory. For a constant, also its offset among the constants after the
/// code.
pub(super) enum Operand {
    Register(Register),
    Memory(MemoryOperand, Option<usize>),
}

/// A call that few executions reach. Its code is placed after all other code, so that the common path has no jumps over
/// it.
pub(super) struct Cold {
    /// The index of the call in the program's instructions.
    pub(super) at: usize,
    /// The registers of stream pointers in the surrounding loop; `None` for pointers in the stack frame.
    pub(super) streams: Vec<Option<Register>>,
    /// The number of active elements of the vector at the call.
    pub(super) active: usize,
    pub(super) begin: Label,
    pub(super) join: Label,
}

pub(super) struct Emit<'a> {
    pub(super) a: Assembler,
    pub(super) m: &'static Machine,
    pub(super) program: &'a VectorProgram,
    pub(super) allocation: Allocation,
    pub(super) frame: Frame,
    pub(super) sources: SecondaryMap<Reg, Option<Source>>,
    /// The registers of stream pointers in the loop with lanes; `None` for pointers in the stack frame.
    pub(super) streams: Vec<Option<Register>>,
    /// The number of active elements of a vector: fewer than all in the last vector of a loop.
    pub(super) active: usize,
    /// The label at the start of each surrounding loop's body, outermost first; `None` for a loop with one iteration,
    /// which does not jump.
    pub(super) tops: Vec<Option<Label>>,
    pub(super) cold: Vec<Cold>,
}

pub(super) fn sized(number: u8, bytes: usize) -> Register {
    let first = match bytes {
        0..=16 => Register::XMM0,
        32 => Register::YMM0,
        _ => Register::ZMM0,
    };
    first + u32::from(number)
}

pub(super) fn memory(base: Register, offset: i64) -> MemoryOperand {
    MemoryOperand::with_base_displ(base, offset)
}

impl Emit<'_> {
    pub(super) fn put(&mut self, made: Result<Instruction, IcedError>) {
        self.put_with(made, None, None, false);
    }

    /// Emits an instruction. `constant` is the offset of the constant to which its memory operand refers, if any. If
    /// there is a mask, elements outside of the mask become zero (`zeroing`) or keep their value.
    pub(super) fn put_with(
        &mut self,
        made: Result<Instruction, IcedError>,
        constant: Option<usize>,
        mask: Option<Register>,
        zeroing: bool,
    ) {
        match made {
            Ok(mut i) => {
                if let Some(mask) = mask {
                    i.set_op_mask(mask);
                    i.set_zeroing_masking(zeroing);
                }
                self.a.put(&i, constant);
            }
            Err(e) => self.a.fail(e.to_string()),
        }
    }

    fn enter(&mut self) {
        self.put(Instruction::with1(Code::Push_r64, Register::RBP));
        self.put(Instruction::with2(Code::Mov_r64_rm64, Register::RBP, Register::RSP));
        for r in CALLEE_SAVED {
            self.put(Instruction::with1(Code::Push_r64, r));
        }
        self.put(Instruction::with2(Code::And_rm64_imm8, Register::RSP, -64));
        // If the frame is larger than a page, touch each page in order: the system grows a stack only when the page
        // directly below it is touched.
        for page in 1..=(self.frame.bytes / PAGE_BYTES) as i64 {
            let between = memory(Register::RSP, -page * PAGE_BYTES as i64);
            self.put(Instruction::with2(Code::Or_rm64_imm8, between, 0));
        }
        let bytes = self.frame.bytes as i32;
        self.put(Instruction::with2(Code::Sub_rm64_imm32, Register::RSP, bytes));
    }

    fn leave(&mut self) {
        self.put(Ok(Instruction::with(Code::VEX_Vzeroupper)));
        let saved = memory(Register::RBP, -8 * CALLEE_SAVED.len() as i64);
        self.put(Instruction::with2(Code::Lea_r64_m, Register::RSP, saved));
        for r in CALLEE_SAVED.into_iter().rev() {
            self.put(Instruction::with1(Code::Pop_r64, r));
        }
        self.put(Instruction::with1(Code::Pop_r64, Register::RBP));
        self.put(Ok(Instruction::with(Code::Retnq)));
    }

    /// Returns vector register `number` at the machine's full width.
    pub(super) fn whole(&self, number: u8) -> Register {
        sized(number, self.m.bytes)
    }

    /// Loads a whole vector from memory into register `to`. `constant` is the offset of the constant that `from` refers
    /// to, if any.
    pub(super) fn load_whole(&mut self, to: u8, from: MemoryOperand, constant: Option<usize>) {
        let made = Instruction::with2(self.m.load, self.whole(to), from);
        self.put_with(made, constant, None, false);
    }

    pub(super) fn store_whole(&mut self, to: MemoryOperand, x: u8) {
        self.put(Instruction::with2(self.m.store, to, self.whole(x)));
    }

    pub(super) fn copy_whole(&mut self, to: u8, x: u8) {
        if to != x {
            self.put(Instruction::with2(self.m.copy, self.whole(to), self.whole(x)));
        }
    }

    /// Loads one number from memory and repeats it in every element of register `to`.
    pub(super) fn broadcast_from(
        &mut self,
        lane: Lane,
        to: u8,
        from: MemoryOperand,
        constant: Option<usize>,
    ) {
        let made = Instruction::with2(by_size(self.m.broadcast, lane), self.whole(to), from);
        self.put_with(made, constant, None, false);
    }

    pub(super) fn slot(&self, reg: Reg) -> MemoryOperand {
        match self.allocation.locations[reg] {
            Location::Slot(i)
                if self.program.regs[reg] == Class::Mask && !self.m.masks.is_empty() =>
            {
                memory(Register::RSP, (self.frame.masks + 8 * i) as i64)
            }
            Location::Slot(i) => memory(Register::RSP, (self.m.bytes * i) as i64),
            Location::Nowhere | Location::Register(_) | Location::Source => {
                memory(Register::RSP, 0)
            }
        }
    }

    /// Returns the offset of a constant of `copies` equal elements, from the start of the constants after the code.
    pub(super) fn constant(&mut self, lane: Lane, bits: u64, copies: usize) -> usize {
        let one = &bits.to_le_bytes()[..lane.bytes()];
        let at = self.a.constant(&one.repeat(copies));
        if planted(Fault::WideConstant) { at.saturating_sub(lane.bytes()) } else { at }
    }

    pub(super) fn word(&self, word: usize, broadcast: bool) -> MemoryOperand {
        let at = 8 * word as i64;
        MemoryOperand::new(Register::RDI, Register::None, 1, at, 1, broadcast, Register::None)
    }

    /// Loads a value that has no register into register `to`, from its source: a constant, or a word of the row (the
    /// nest's arguments).
    pub(super) fn load_source(&mut self, reg: Reg, to: u8) {
        match self.sources[reg] {
            Some(Source::Constant(lane, bits)) => {
                let constant = self.constant(lane, bits, 1);
                let from = self.a.constant_operand(false);
                self.broadcast_from(lane, to, from, Some(constant));
            }
            Some(Source::Word(lane, word)) => {
                let from = self.word(word, false);
                self.broadcast_from(lane, to, from, None);
            }
            None => self.a.fail("a register is read before it is written".to_owned()),
        }
    }

    /// Returns the number of the vector register that holds a value. If the value has no register, loads the value into
    /// register `scratch` and returns `scratch`.
    pub(super) fn vector(&mut self, reg: Reg, scratch: u8) -> u8 {
        match self.allocation.locations[reg] {
            Location::Register(r) => return r,
            Location::Slot(_) => {
                let from = self.slot(reg);
                self.load_whole(scratch, from, None);
            }
            Location::Source => self.load_source(reg, scratch),
            Location::Nowhere => {}
        }
        scratch
    }

    /// Returns the number of the vector register to compute a result in: the result's own register, or the scratch
    /// register if the location of the result is the stack frame.
    pub(super) fn target(&self, reg: Reg) -> u8 {
        match self.allocation.locations[reg] {
            Location::Register(r) => r,
            Location::Nowhere | Location::Slot(_) | Location::Source => self.m.result,
        }
    }

    /// Stores the result `reg` from the scratch register to the frame, if register allocation placed `reg` in the
    /// frame.
    pub(super) fn store_if_spilled(&mut self, reg: Reg) {
        if let Location::Slot(_) = self.allocation.locations[reg]
            && !planted(Fault::WideSpill)
        {
            let to = self.slot(reg);
            self.store_whole(to, self.m.result);
        }
    }

    pub(super) fn two(&mut self, code: Code, to: Register, x: &Operand) {
        match x {
            Operand::Register(x) => self.put(Instruction::with2(code, to, *x)),
            Operand::Memory(x, c) => {
                self.put_with(Instruction::with2(code, to, *x), *c, None, false)
            }
        }
    }

    pub(super) fn three(
        &mut self,
        code: Code,
        to: Register,
        x: Register,
        y: &Operand,
        mask: Option<Register>,
    ) {
        match y {
            Operand::Register(y) => {
                self.put_with(Instruction::with3(code, to, x, *y), None, mask, false);
            }
            Operand::Memory(y, c) => {
                self.put_with(Instruction::with3(code, to, x, *y), *c, mask, false);
            }
        }
    }

    pub(super) fn four(&mut self, code: Code, to: Register, x: Register, y: &Operand, by: i32) {
        match y {
            Operand::Register(y) => self.put(Instruction::with4(code, to, x, *y, by)),
            Operand::Memory(y, c) => {
                self.put_with(Instruction::with4(code, to, x, *y, by), *c, None, false);
            }
        }
    }

    /// Emits `to = x * y + z`, rounded once. The first of `codes` overwrites a factor, the second the summand. The
    /// instruction whose overwritten operand is already in `to` is preferred.
    pub(super) fn fma(
        &mut self,
        codes: [Code; 2],
        ty: Ty,
        to: Reg,
        [x, y, z]: [Reg; 3],
        operand: fn(&mut Self, Reg, Ty, u8) -> Operand,
    ) {
        let r = self.target(to);
        let is = |e: &Self, reg: Reg| e.allocation.locations[reg] == Location::Register(r);
        let [multiplied, added] = codes;
        let [first, second] = self.m.operands;
        let bytes = ty.bytes();
        if is(self, z) && r != self.m.result {
            let x = sized(self.vector(x, first), bytes);
            let y = operand(self, y, ty, second);
            self.three(added, sized(r, bytes), x, &y, None);
        } else {
            let (x, y) = if is(self, y) { (y, x) } else { (x, y) };
            // Load `y` before `to` is overwritten, because `to` may be the register of `y`.
            let y = sized(self.vector(y, second), bytes);
            let x = self.vector(x, self.m.result);
            self.copy_whole(r, x);
            let z = operand(self, z, ty, first);
            self.three(multiplied, sized(r, bytes), y, &z, None);
        }
        self.store_if_spilled(to);
    }

    fn inst(&mut self, at: usize) -> Result<(), &'static str> {
        let program = self.program;
        match &program.body[at] {
            Inst::Constant { to, .. } | Inst::Word { to, .. } => {
                if let Location::Slot(_) | Location::Register(_) = self.allocation.locations[*to] {
                    self.load_source(*to, self.target(*to));
                    self.store_if_spilled(*to);
                }
            }
            Inst::Ramp { to, step } => {
                let n = self.m.bytes as i64 / 8;
                let ramp: Vec<u8> = (0..n).flat_map(|i| (i * step).to_le_bytes()).collect();
                let constant = self.a.constant(&ramp);
                let from = self.a.constant_operand(false);
                self.load_whole(self.target(*to), from, Some(constant));
                self.store_if_spilled(*to);
            }
            Inst::SetWord { word, x, lane } => {
                let x = sized(self.vector(*x, self.m.operands[0]), 16);
                let to = self.word(*word, false);
                self.put(Instruction::with2(by_size(self.m.store_one, *lane), to, x));
            }
            Inst::Counter { to, of: Some(of) } => {
                let from = self.counter(*of);
                self.broadcast_from(Lane::I64, self.target(*to), from, None);
                self.store_if_spilled(*to);
            }
            Inst::Move { to, x } => {
                let x = self.vector(*x, self.m.result);
                self.copy_whole(self.target(*to), x);
                self.store_if_spilled(*to);
            }
            Inst::Loop { of, extent } => {
                let counter = self.counter(*of);
                self.put(Instruction::with2(Code::Mov_rm64_imm32, counter, 0));
                let top = (*extent > 1).then(|| self.a.label());
                top.iter().for_each(|top| self.a.bind(*top));
                self.tops.push(top);
            }
            Inst::LoopEnd { of, extent } => {
                if let Some(Some(top)) = self.tops.pop() {
                    let to = i32::try_from(*extent).map_err(|_| "a loop is too long")?;
                    let counter = self.counter(*of);
                    self.put(Instruction::with2(Code::Mov_r64_rm64, Register::R15, counter));
                    self.put(Instruction::with2(Code::Add_rm64_imm8, Register::R15, 1));
                    self.put(Instruction::with2(Code::Mov_rm64_r64, counter, Register::R15));
                    self.put(Instruction::with2(Code::Cmp_rm64_imm32, Register::R15, to));
                    self.a.jump(Code::Jb_rel32_64, top);
                }
            }
            Inst::Lanes { streams, from, to, by } => self.lanes(streams, *from, *to, *by)?,
            Inst::LanesEnd { to, by } => {
                if let Some(Some(top)) = self.tops.pop() {
                    let to = i32::try_from(*to).map_err(|_| "a loop is too long")?;
                    self.put(Instruction::with2(Code::Add_rm64_imm32, Register::RAX, *by as i32));
                    self.put(Instruction::with2(Code::Cmp_rm64_imm32, Register::RAX, to));
                    self.a.jump(Code::Jb_rel32_64, top);
                }
            }
            _ => (self.m.lower)(self, at)?,
        }
        Ok(())
    }

    pub(super) fn counter(&self, of: LoopId) -> MemoryOperand {
        memory(Register::RSP, (self.frame.counters + 8 * of.index()) as i64)
    }

    /// Emits `r15d = r15 != 0 ? -1 : 0`.
    pub(super) fn truth_of_r15(&mut self) {
        self.put(Instruction::with1(Code::Neg_rm64, Register::R15));
        self.put(Instruction::with2(Code::Sbb_r32_rm32, Register::R15D, Register::R15D));
    }

    /// Emits a conditional jump to the code of the call at index `at` of the program. That code is placed after all
    /// other code, and jumps back.
    pub(super) fn rarely(&mut self, at: usize, jump: Code) {
        let (begin, join) = (self.a.label(), self.a.label());
        self.a.jump(jump, begin);
        let (streams, active) = (self.streams.clone(), self.active);
        self.cold.push(Cold { at, streams, active, begin, join });
        self.a.bind(join);
    }
}
