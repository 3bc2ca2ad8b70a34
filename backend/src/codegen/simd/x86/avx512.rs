//! The wide form in AVX-512: a leaf function of a row.
//!
//! ```text
//! rdi        the row                      zmm0 .. zmm28   allocated
//! rax        the index of the lanes       zmm29 .. zmm31  operands that are in memory
//! rcx ..     streams                      k2 .. k6        allocated
//! r14, r15   addresses                    k0, k1          operands that are in memory
//! rbp        the caller's stack           k7              active elements
//! ```
//!
//! The calling convention is that of System V. The frame is aligned to 64 bytes and has slots of vectors, slots of
//! masks, counters of outer loops and what calls need. Calls of functions on single elements save what is live.

use super::super::form::{
    Access, At, Binary, Class, Conversion, Form, Inst, Lane, Logic, LoopId, Order, Reg, Stream, Ty,
    Unary, When,
};
use super::super::regalloc::{Allocation, Home, allocate};
use super::assembler::{Assembler, Label};
use super::codes::{Does, code};
use cranelift_entity::{EntityRef, SecondaryMap};
use iced_x86::{Code, Instruction, MemoryOperand, Register};
use smallvec::SmallVec;
use tapeloom_ir::fault::{Fault, planted};

const VECTORS: [u8; 29] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
    26, 27, 28,
];
const MASKS: [u8; 5] = [2, 3, 4, 5, 6];
const ACTIVE: Register = Register::K7;

/// Registers of streams. Those that callees do not save come first.
const STREAMS: [Register; 10] = [
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

/// General registers that a callee may change.
const CALLER_SAVED: [Register; 9] = [
    Register::RDI,
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

const CALLEE_SAVED: [Register; 5] =
    [Register::RBX, Register::R12, Register::R13, Register::R14, Register::R15];

/// Spills of more bytes are left to others.
const MOST_SPILLS: usize = 4096;

/// Machine code of a form; an error says what it does not take.
pub(crate) fn emit(form: &Form) -> Result<Vec<u8>, &'static str> {
    let allocation = allocate(form, &VECTORS, &MASKS);
    if allocation.slots.0 * 64 > MOST_SPILLS {
        return Err("its values are more than fit registers");
    }
    let calls = form.body.iter().any(|i| matches!(i, Inst::Call { .. }));
    let streams = form.body.iter().map(|i| match i {
        Inst::Lanes { streams, .. } => streams.len(),
        _ => 0,
    });
    let frame = Frame::of(&allocation, form.loops.len(), streams.max().unwrap_or(0), calls);
    let mut sources = SecondaryMap::new();
    for inst in &form.body {
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
        form,
        allocation,
        frame,
        sources,
        streams: Vec::new(),
        active: 0,
        tops: Vec::new(),
        cold: Vec::new(),
    };
    e.enter();
    for at in 0..form.body.len() {
        e.inst(at)?;
    }
    e.leave();
    for (at, cold, join) in std::mem::take(&mut e.cold) {
        e.a.bind(cold);
        e.call(at)?;
        e.a.jump(Code::Jmp_rel32_64, join);
    }
    e.a.finish().map_err(|_| "an instruction cannot be encoded")
}

/// Where everything is in the frame: bytes from the stack pointer.
struct Frame {
    masks: usize,
    counters: usize,
    streams: usize,
    /// Arguments of a call, three vectors, and its results.
    arguments: usize,
    results: usize,
    /// Vectors, masks and general registers that are live.
    saved: usize,
    saved_masks: usize,
    saved_general: usize,
    /// Elements that are left, and the present one.
    left: usize,
    element: usize,
    bytes: usize,
}

impl Frame {
    fn of(all: &Allocation, loops: usize, streams: usize, calls: bool) -> Frame {
        let arguments = all.slots.0 * 64;
        let results = arguments + if calls { 3 * 64 } else { 0 };
        let saved = results + if calls { 64 } else { 0 };
        let masks = saved + if calls { 32 * 64 } else { 0 };
        let counters = masks + 8 * all.slots.1;
        let streams_at = counters + 8 * loops;
        let saved_masks = streams_at + 8 * streams.saturating_sub(STREAMS.len());
        let saved_general = saved_masks + 8 * 8;
        let left = saved_general + 8 * CALLER_SAVED.len();
        let element = left + 8;
        Frame {
            masks,
            counters,
            streams: streams_at,
            arguments,
            results,
            saved,
            saved_masks,
            saved_general,
            left,
            element,
            bytes: (element + 8).next_multiple_of(64),
        }
    }
}

/// What can be read where it comes from.
#[derive(Clone, Copy)]
enum Source {
    Constant(Lane, u64),
    Word(Lane, usize),
}

/// An operand: a register, or memory with the constant that it refers to.
enum Operand {
    Register(Register),
    Memory(MemoryOperand, Option<usize>),
}

struct Emit<'a> {
    a: Assembler,
    form: &'a Form,
    allocation: Allocation,
    frame: Frame,
    sources: SecondaryMap<Reg, Option<Source>>,
    /// Registers of the streams of the loop in lanes; `None` in the frame.
    streams: Vec<Option<Register>>,
    /// How many elements are active.
    active: usize,
    /// The beginnings of open loops.
    tops: Vec<Option<Label>>,
    cold: Vec<(usize, Label, Label)>,
}

fn sized(number: u8, bytes: usize) -> Register {
    let first = match bytes {
        0..=16 => Register::XMM0,
        32 => Register::YMM0,
        _ => Register::ZMM0,
    };
    first + u32::from(number)
}

fn memory(base: Register, offset: i64) -> MemoryOperand {
    MemoryOperand::with_base_displ(base, offset)
}

impl Emit<'_> {
    fn put(&mut self, made: Result<Instruction, iced_x86::IcedError>) {
        self.put_with(made, None, None, false);
    }

    /// An instruction, with the constant that it refers to, under a mask whose other elements become zero or stay.
    fn put_with(
        &mut self,
        made: Result<Instruction, iced_x86::IcedError>,
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
        if self.frame.bytes >= 4096 {
            // A frame of more than a page touches the page between.
            let between = memory(Register::RSP, -4096);
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

    fn slot(&self, reg: Reg) -> MemoryOperand {
        match self.allocation.homes[reg] {
            Home::Slot(i) if self.form.regs[reg] == Class::Mask => {
                memory(Register::RSP, (self.frame.masks + 8 * i) as i64)
            }
            Home::Slot(i) => memory(Register::RSP, (64 * i) as i64),
            Home::Nowhere | Home::Register(_) | Home::Source => memory(Register::RSP, 0),
        }
    }

    /// Where a register comes from, as an operand that is repeated for every element.
    fn source(&mut self, reg: Reg, broadcast: bool) -> (MemoryOperand, Option<usize>) {
        match self.sources[reg] {
            Some(Source::Constant(lane, bits)) => {
                let at = self.a.constant(&bits.to_le_bytes()[..lane.bytes()]);
                (self.a.constant_operand(broadcast), Some(at))
            }
            Some(Source::Word(_, word)) => (self.word(word, broadcast), None),
            None => {
                self.a.fail("a register comes from nowhere".to_owned());
                (memory(Register::RSP, 0), None)
            }
        }
    }

    fn word(&self, word: usize, broadcast: bool) -> MemoryOperand {
        let at = 8 * word as i64;
        MemoryOperand::new(Register::RDI, Register::None, 1, at, 1, broadcast, Register::None)
    }

    fn source_lane(&self, reg: Reg) -> Lane {
        match self.sources[reg] {
            Some(Source::Constant(lane, _) | Source::Word(lane, _)) => lane,
            None => Lane::F64,
        }
    }

    /// The number of the vector register that holds a value: its own, or this one, into which it is loaded.
    fn vector(&mut self, reg: Reg, scratch: u8) -> u8 {
        match self.allocation.homes[reg] {
            Home::Register(r) => r,
            Home::Slot(_) => {
                let from = self.slot(reg);
                let to = sized(scratch, 64);
                let load = Code::EVEX_Vmovups_zmm_k1z_zmmm512;
                self.put(Instruction::with2(load, to, from));
                scratch
            }
            Home::Source => {
                let (from, constant) = self.source(reg, false);
                let made = Instruction::with2(
                    broadcast_code(self.source_lane(reg)),
                    sized(scratch, 64),
                    from,
                );
                self.put_with(made, constant, None, false);
                scratch
            }
            Home::Nowhere => scratch,
        }
    }

    /// A last operand, which may be memory.
    fn operand(&mut self, reg: Reg, ty: Ty) -> Operand {
        match self.allocation.homes[reg] {
            Home::Register(r) => Operand::Register(sized(r, ty.bytes())),
            Home::Slot(_) => Operand::Memory(self.slot(reg), None),
            Home::Source => {
                let (from, constant) = self.source(reg, true);
                Operand::Memory(from, constant)
            }
            Home::Nowhere => Operand::Register(sized(31, ty.bytes())),
        }
    }

    /// The number of the register that a result goes to.
    fn target(&self, reg: Reg) -> u8 {
        match self.allocation.homes[reg] {
            Home::Register(r) => r,
            Home::Nowhere | Home::Slot(_) | Home::Source => 31,
        }
    }

    /// Stores a result that is at home in the frame.
    fn settle(&mut self, reg: Reg) {
        if let Home::Slot(_) = self.allocation.homes[reg] {
            let to = self.slot(reg);
            let store = Code::EVEX_Vmovups_zmmm512_k1z_zmm;
            self.put(Instruction::with2(store, to, sized(31, 64)));
        }
    }

    fn mask(&mut self, reg: Reg, scratch: Register) -> Register {
        match self.allocation.homes[reg] {
            Home::Register(r) => Register::K0 + u32::from(r),
            Home::Slot(_) => {
                let from = self.slot(reg);
                self.put(Instruction::with2(Code::VEX_Kmovw_kr_km16, scratch, from));
                scratch
            }
            Home::Nowhere | Home::Source => scratch,
        }
    }

    fn mask_target(&self, reg: Reg) -> Register {
        match self.allocation.homes[reg] {
            Home::Register(r) => Register::K0 + u32::from(r),
            Home::Nowhere | Home::Slot(_) | Home::Source => Register::K0,
        }
    }

    fn settle_mask(&mut self, reg: Reg) {
        if let Home::Slot(_) = self.allocation.homes[reg] {
            let to = self.slot(reg);
            self.put(Instruction::with2(Code::VEX_Kmovw_m16_kr, to, Register::K0));
        }
    }

    fn known(&mut self, does: Does, ty: Ty) -> Code {
        let bytes = ty.bytes().max(16);
        code(does, ty.lane, bytes).unwrap_or_else(|| {
            self.a.fail(format!("there is no {does:?} of {ty:?}"));
            Code::INVALID
        })
    }

    fn two(&mut self, code: Code, to: Register, x: &Operand) {
        match x {
            Operand::Register(x) => self.put(Instruction::with2(code, to, *x)),
            Operand::Memory(x, c) => {
                self.put_with(Instruction::with2(code, to, *x), *c, None, false)
            }
        }
    }

    fn three(
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

    fn inst(&mut self, at: usize) -> Result<(), &'static str> {
        let form = self.form;
        match &form.body[at] {
            Inst::Constant { to, .. } | Inst::Word { to, .. } => {
                if let Home::Slot(_) | Home::Register(_) = self.allocation.homes[*to] {
                    let (from, constant) = self.source(*to, false);
                    let r = sized(self.target(*to), 64);
                    let broadcast = broadcast_code(self.source_lane(*to));
                    self.put_with(Instruction::with2(broadcast, r, from), constant, None, false);
                    self.settle(*to);
                }
            }
            Inst::Ramp { to, step } => {
                let ramp: Vec<u8> = (0..8).flat_map(|i: i64| (i * step).to_le_bytes()).collect();
                let constant = self.a.constant(&ramp);
                let from = self.a.constant_operand(false);
                let r = sized(self.target(*to), 64);
                let load = Code::EVEX_Vmovups_zmm_k1z_zmmm512;
                self.put_with(Instruction::with2(load, r, from), Some(constant), None, false);
                self.settle(*to);
            }
            Inst::WordTruth { to, word } => {
                let from = self.word(*word, false);
                self.put(Instruction::with2(Code::Mov_r64_rm64, Register::R15, from));
                self.truth_of_r15();
                self.mask_from(*to, Register::R15D);
            }
            Inst::SetWord { word, x, lane } => {
                let x = sized(self.vector(*x, 29), 16);
                let to = self.word(*word, false);
                self.put(Instruction::with2(store_one(*lane), to, x));
            }
            Inst::SetWordTruth { word, x } => {
                let x = self.mask(*x, Register::K1);
                self.put(Instruction::with2(Code::VEX_Kmovw_r32_kr, Register::R15D, x));
                self.put(Instruction::with2(Code::And_rm32_imm8, Register::R15D, 1));
                let to = self.word(*word, false);
                self.put(Instruction::with2(Code::Mov_rm64_r64, to, Register::R15));
            }
            Inst::Counter { to, of } => {
                let r = sized(self.target(*to), 64);
                match of {
                    None => {
                        let from = Code::EVEX_Vpbroadcastq_zmm_k1z_r64;
                        self.put(Instruction::with2(from, r, Register::RAX));
                    }
                    Some(of) => {
                        let from = self.counter(*of);
                        let load = Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64;
                        self.put(Instruction::with2(load, r, from));
                    }
                }
                self.settle(*to);
            }
            Inst::Move { to, x } => {
                let x = self.vector(*x, 31);
                let r = self.target(*to);
                if r != x {
                    let copy = Code::EVEX_Vmovaps_zmm_k1z_zmmm512;
                    self.put(Instruction::with2(copy, sized(r, 64), sized(x, 64)));
                }
                self.settle(*to);
            }
            Inst::MoveMask { to, x } => {
                let x = self.mask(*x, Register::K0);
                let r = self.mask_target(*to);
                if r != x {
                    self.put(Instruction::with2(Code::VEX_Kmovw_kr_km16, r, x));
                }
                self.settle_mask(*to);
            }
            Inst::Unary { op, ty, to, x } => {
                let (does, by) = match op {
                    Unary::Sqrt => (Does::Sqrt, None),
                    // Towards -∞ or +∞, without an exception.
                    Unary::Floor => (Does::Round, Some(9)),
                    Unary::Ceil => (Does::Round, Some(10)),
                    Unary::ShiftLeft(n) => (Does::ShiftLeft, Some(i32::from(*n))),
                    Unary::ShiftRight(n) => (Does::ShiftRight, Some(i32::from(*n))),
                };
                let code = self.known(does, *ty);
                let x = self.operand(*x, *ty);
                let r = sized(self.target(*to), ty.bytes());
                match (by, x) {
                    (None, x) => self.two(code, r, &x),
                    (Some(by), Operand::Register(x)) => {
                        self.put(Instruction::with3(code, r, x, by));
                    }
                    (Some(by), Operand::Memory(x, c)) => {
                        self.put_with(Instruction::with3(code, r, x, by), c, None, false);
                    }
                }
                self.settle(*to);
            }
            Inst::Binary { op, ty, to, x, y } => {
                let does = match op {
                    Binary::Add => Does::Add,
                    Binary::Sub => Does::Sub,
                    Binary::Mul => Does::Mul,
                    Binary::Div => Does::Div,
                    Binary::Largest | Binary::Smallest => Does::Range,
                    Binary::And => Does::And,
                    Binary::Or => Does::Or,
                    Binary::Xor => Does::Xor,
                };
                let code = self.known(does, *ty);
                let x = sized(self.vector(*x, 29), ty.bytes());
                let y = self.operand(*y, *ty);
                let r = sized(self.target(*to), ty.bytes());
                // The sign of the result is that of the operand chosen.
                let by = match op {
                    Binary::Smallest if planted(Fault::WideZero) => Some(0),
                    Binary::Largest if planted(Fault::WideZero) => Some(1),
                    Binary::Smallest => Some(4),
                    Binary::Largest => Some(5),
                    _ => None,
                };
                match (by, y) {
                    (None, y) => self.three(code, r, x, &y, None),
                    (Some(by), y) => self.four(code, r, x, y, by),
                }
                self.settle(*to);
            }
            Inst::Fma { ty, to, x, y, z } => self.fma(*ty, *to, [*x, *y, *z]),
            Inst::Compare { order, signed, ty, to, x, y } => {
                let floats = matches!(ty.lane, Lane::F64 | Lane::F32);
                let does = if *signed || floats { Does::Compare } else { Does::CompareUnsigned };
                let code = self.known(does, *ty);
                let by = match (order, floats) {
                    (Order::Eq, _) => 0,
                    (Order::Ne, _) => 4,
                    (Order::Unordered, _) => 3,
                    (Order::Lt, true) => 0x11,
                    (Order::Le, true) => 0x12,
                    (Order::Gt, true) => 0x1e,
                    (Order::Ge, true) => 0x1d,
                    (Order::Lt, false) => 1,
                    (Order::Le, false) => 2,
                    (Order::Ge, false) => 5,
                    (Order::Gt, false) => 6,
                };
                let x = sized(self.vector(*x, 29), ty.bytes());
                let y = self.operand(*y, *ty);
                let r = self.mask_target(*to);
                self.four(code, r, x, y, by);
                self.settle_mask(*to);
            }
            Inst::Pick { ty, to, mask, x, y } => {
                let code = self.known(Does::Blend, *ty);
                let mask = self.mask(*mask, Register::K1);
                let y = sized(self.vector(*y, 29), ty.bytes());
                let x = self.operand(*x, *ty);
                let r = sized(self.target(*to), ty.bytes());
                self.three(code, r, y, &x, Some(mask));
                self.settle(*to);
            }
            Inst::Convert { by, n, to, x } => {
                let (code, from, into) = conversion(*by, *n).ok_or("a conversion is not there")?;
                let x = sized(self.vector(*x, 29), from);
                let r = sized(self.target(*to), into);
                self.put(Instruction::with2(code, r, x));
                self.settle(*to);
            }
            Inst::Logic { op, to, x, y } => {
                let code = match op {
                    Logic::And => Code::VEX_Kandw_kr_kr_kr,
                    Logic::AndNot => Code::VEX_Kandnw_kr_kr_kr,
                    Logic::Or => Code::VEX_Korw_kr_kr_kr,
                    Logic::Xor => Code::VEX_Kxorw_kr_kr_kr,
                };
                let (x, y) = (self.mask(*x, Register::K1), self.mask(*y, Register::K0));
                let r = self.mask_target(*to);
                self.put(Instruction::with3(code, r, x, y));
                self.settle_mask(*to);
            }
            Inst::Truth { to, all } => {
                let r = self.mask_target(*to);
                let code = if *all { Code::VEX_Kxnorw_kr_kr_kr } else { Code::VEX_Kxorw_kr_kr_kr };
                self.put(Instruction::with3(code, r, r, r));
                self.settle_mask(*to);
            }
            Inst::Widen { to, x } => {
                let x = self.mask(*x, Register::K1);
                let r = self.mask_target(*to);
                self.put(Instruction::with3(Code::VEX_Kunpckbw_kr_kr_kr, r, x, x));
                self.settle_mask(*to);
            }
            Inst::UpperHalf { ty, to, x } => {
                let x = self.vector(*x, 29);
                let r = self.target(*to);
                let (code, to_bytes, from, by) = match ty.bytes() {
                    64 => (Code::EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8, 32, 64, 1),
                    32 => (Code::EVEX_Vextractf32x4_xmmm128_k1z_ymm_imm8, 16, 32, 1),
                    16 => (Code::EVEX_Vpermilpd_xmm_k1z_xmmm128b64_imm8, 16, 16, 1),
                    _ => (Code::EVEX_Vpermilps_xmm_k1z_xmmm128b32_imm8, 16, 16, 1),
                };
                self.put(Instruction::with3(code, sized(r, to_bytes), sized(x, from), by));
                self.settle(*to);
            }
            Inst::Broadcast { lane, to, x } => {
                let x = sized(self.vector(*x, 29), 16);
                let r = sized(self.target(*to), 64);
                self.put(Instruction::with2(broadcast_code(*lane), r, x));
                self.settle(*to);
            }
            Inst::Load { ty, to, at, access, guard } => self.load(*ty, *to, at, *access, *guard),
            Inst::Store { ty, x, at, access, guard } => self.store(*ty, *x, at, *access, *guard),
            Inst::LoadTruth { n, to, at, access, guard } => {
                self.load_truth(*n, *to, at, *access, *guard);
            }
            Inst::StoreTruth { n, x, at, access, guard } => {
                self.store_truth(*n, *x, at, *access, *guard);
            }
            Inst::Call { ty, when, .. } => match when {
                When::Always => self.call(at)?,
                When::Outside(inside) => {
                    let inside = self.mask(*inside, Register::K1);
                    let (cold, join) = (self.a.label(), self.a.label());
                    if ty.n == 1 {
                        let code = Code::VEX_Kmovw_r32_kr;
                        self.put(Instruction::with2(code, Register::R15D, inside));
                        self.put(Instruction::with2(Code::Test_rm32_imm32, Register::R15D, 1));
                        self.a.jump(Code::Je_rel32_64, cold);
                    } else {
                        let code = Code::VEX_Kandnw_kr_kr_kr;
                        self.put(Instruction::with3(code, Register::K0, inside, ACTIVE));
                        let test = Code::VEX_Kortestw_kr_kr;
                        self.put(Instruction::with2(test, Register::K0, Register::K0));
                        self.a.jump(Code::Jne_rel32_64, cold);
                    }
                    self.cold.push((at, cold, join));
                    self.a.bind(join);
                }
            },
            Inst::Loop { of, extent } => {
                let counter = self.counter(*of);
                self.put(Instruction::with2(Code::Mov_rm64_imm32, counter, 0));
                let top = (*extent > 1).then(|| self.a.label());
                top.iter().for_each(|top| self.a.bind(*top));
                self.tops.push(top);
            }
            Inst::LoopEnd { of, extent } => {
                if let Some(Some(top)) = self.tops.pop() {
                    let to = i32::try_from(*extent).map_err(|_| "a loop is long")?;
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
                    let to = i32::try_from(*to).map_err(|_| "a loop is long")?;
                    self.put(Instruction::with2(Code::Add_rm64_imm32, Register::RAX, *by as i32));
                    self.put(Instruction::with2(Code::Cmp_rm64_imm32, Register::RAX, to));
                    self.a.jump(Code::Jb_rel32_64, top);
                }
            }
            Inst::ActiveMask { to } => {
                let r = self.mask_target(*to);
                self.put(Instruction::with2(Code::VEX_Kmovw_kr_km16, r, ACTIVE));
                self.settle_mask(*to);
            }
            Inst::Active { n } => {
                self.active = *n;
                let bits = (1i32 << n) - 1;
                self.put(Instruction::with2(Code::Mov_r32_imm32, Register::R15D, bits));
                self.put(Instruction::with2(Code::VEX_Kmovw_kr_r32, ACTIVE, Register::R15D));
            }
        }
        Ok(())
    }

    fn four(&mut self, code: Code, to: Register, x: Register, y: Operand, by: i32) {
        match y {
            Operand::Register(y) => self.put(Instruction::with4(code, to, x, y, by)),
            Operand::Memory(y, c) => {
                self.put_with(Instruction::with4(code, to, x, y, by), c, None, false);
            }
        }
    }

    /// `to = x y + z`, in the form that overwrites an operand which is there already.
    fn fma(&mut self, ty: Ty, to: Reg, [x, y, z]: [Reg; 3]) {
        let r = self.target(to);
        let is = |e: &Self, reg: Reg| e.allocation.homes[reg] == Home::Register(r);
        let (first, second) = (self.known(Does::Fma213, ty), self.known(Does::Fma231, ty));
        let bytes = ty.bytes();
        if is(self, z) && r != 31 {
            let x = sized(self.vector(x, 29), bytes);
            let y = self.operand(y, ty);
            self.three(second, sized(r, bytes), x, &y, None);
        } else {
            let (x, y) = if is(self, y) { (y, x) } else { (x, y) };
            // Loaded before the target changes, which may be where it was.
            let y = sized(self.vector(y, 30), bytes);
            let x = self.vector(x, 31);
            if x != r {
                let copy = Code::EVEX_Vmovaps_zmm_k1z_zmmm512;
                self.put(Instruction::with2(copy, sized(r, 64), sized(x, 64)));
            }
            let z = self.operand(z, ty);
            self.three(first, sized(r, bytes), y, &z, None);
        }
        self.settle(to);
    }

    fn counter(&self, of: LoopId) -> MemoryOperand {
        memory(Register::RSP, (self.frame.counters + 8 * of.index()) as i64)
    }

    /// All bits of r15d, where r15 is not 0.
    fn truth_of_r15(&mut self) {
        self.put(Instruction::with1(Code::Neg_rm64, Register::R15));
        self.put(Instruction::with2(Code::Sbb_r32_rm32, Register::R15D, Register::R15D));
    }

    fn mask_from(&mut self, to: Reg, from: Register) {
        let r = self.mask_target(to);
        self.put(Instruction::with2(Code::VEX_Kmovw_kr_r32, r, from));
        self.settle_mask(to);
    }

    // Memory.

    fn lanes(
        &mut self,
        streams: &[Stream],
        from: usize,
        to: usize,
        by: usize,
    ) -> Result<(), &'static str> {
        self.streams.clear();
        for (i, stream) in streams.iter().enumerate() {
            let home = STREAMS.get(i).copied();
            self.point(home.unwrap_or(Register::R14), stream)?;
            if home.is_none() {
                let slot = self.stream_slot(i);
                self.put(Instruction::with2(Code::Mov_rm64_r64, slot, Register::R14));
            }
            self.streams.push(home);
        }
        let from = i32::try_from(from).map_err(|_| "a loop is long")?;
        self.put(Instruction::with2(Code::Mov_rm64_imm32, Register::RAX, from));
        let again = to - from as usize > by;
        let top = again.then(|| self.a.label());
        top.iter().for_each(|top| self.a.bind(*top));
        self.tops.push(top);
        Ok(())
    }

    fn stream_slot(&self, i: usize) -> MemoryOperand {
        let at = self.frame.streams + 8 * (i - STREAMS.len());
        memory(Register::RSP, at as i64)
    }

    /// The pointer of a stream, by way of r15.
    fn point(&mut self, to: Register, stream: &Stream) -> Result<(), &'static str> {
        let word = self.word(stream.word, false);
        self.put(Instruction::with2(Code::Mov_r64_rm64, to, word));
        for (of, bytes) in &stream.outer {
            let bytes = i32::try_from(*bytes).map_err(|_| "a stride is long")?;
            if bytes == 0 {
                continue;
            }
            let counter = self.counter(*of);
            self.put(Instruction::with3(Code::Imul_r64_rm64_imm32, Register::R15, counter, bytes));
            self.put(Instruction::with2(Code::Add_r64_rm64, to, Register::R15));
        }
        Ok(())
    }

    /// The address of an access. Elements that are `apart` begin at it.
    fn address(&mut self, at: &At, apart: bool) -> (Register, Register, u32, i64) {
        match at {
            At::Outer { stream, offset } => {
                if self.point(Register::R14, stream).is_err() {
                    self.a.fail("a stride is long".to_owned());
                }
                (Register::R14, Register::None, 1, i64::from(*offset))
            }
            At::Lane { stream, stride, offset } => {
                let home = self.streams.get(*stream).copied().flatten();
                let base = match home {
                    Some(base) => base,
                    None => {
                        let slot = self.stream_slot(*stream);
                        self.put(Instruction::with2(Code::Mov_r64_rm64, Register::R15, slot));
                        Register::R15
                    }
                };
                let offset = i64::from(*offset);
                match *stride {
                    0 => (base, Register::None, 1, offset),
                    1 | 2 | 4 | 8 if !apart => (base, Register::RAX, *stride as u32, offset),
                    _ => {
                        let by = *stride as i32;
                        let imul = Code::Imul_r64_rm64_imm32;
                        self.put(Instruction::with3(imul, Register::R14, Register::RAX, by));
                        self.put(Instruction::with2(Code::Add_r64_rm64, Register::R14, base));
                        (Register::R14, Register::None, 1, offset)
                    }
                }
            }
        }
    }

    fn place(&mut self, at: &At) -> MemoryOperand {
        let (base, index, scale, offset) = self.address(at, false);
        MemoryOperand::new(base, index, scale, offset, 1, false, Register::None)
    }

    /// The mask of an access: the active elements of `n` that the guard allows; none where that is all.
    fn access_mask(&mut self, n: usize, guard: Option<Reg>) -> Option<Register> {
        match guard {
            None if n == 1 || self.active >= n => None,
            None => Some(ACTIVE),
            Some(guard) => {
                let guard = self.mask(guard, Register::K1);
                if n == 1 {
                    // A uniform guard has more truths than one.
                    let code = Code::VEX_Kmovw_r32_kr;
                    self.put(Instruction::with2(code, Register::R15D, guard));
                    self.put(Instruction::with2(Code::And_rm32_imm8, Register::R15D, 1));
                    let code = Code::VEX_Kmovw_kr_r32;
                    self.put(Instruction::with2(code, Register::K1, Register::R15D));
                } else {
                    let code = Code::VEX_Kandw_kr_kr_kr;
                    self.put(Instruction::with3(code, Register::K1, guard, ACTIVE));
                }
                Some(Register::K1)
            }
        }
    }

    /// Offsets of strided elements, in zmm29.
    fn offsets(&mut self, lane: Lane, stride: i64, n: usize) {
        let bytes: Vec<u8> = if lane.bytes() == 8 {
            (0..8).flat_map(|i: i64| (i * stride).to_le_bytes()).collect()
        } else {
            (0..16).flat_map(|i: i32| (i * stride as i32).to_le_bytes()).collect()
        };
        let _ = n;
        let constant = self.a.constant(&bytes);
        let from = self.a.constant_operand(false);
        let load = Code::EVEX_Vmovups_zmm_k1z_zmmm512;
        self.put_with(Instruction::with2(load, sized(29, 64), from), Some(constant), None, false);
    }

    fn load(&mut self, ty: Ty, to: Reg, at: &At, access: Access, guard: Option<Reg>) {
        let r = self.target(to);
        match access {
            Access::One => {
                // Uniform: the guard has all truths or none.
                let guard = guard.map(|g| self.mask(g, Register::K1));
                let from = self.place(at);
                let made = Instruction::with2(broadcast_code(ty.lane), sized(r, 64), from);
                self.put_with(made, None, guard, guard.is_some());
            }
            Access::Unit => {
                let mask = self.access_mask(ty.n, guard);
                let from = self.place(at);
                let code = self.known(Does::Load, ty);
                let made = Instruction::with2(code, sized(r, ty.bytes()), from);
                self.put_with(made, None, mask, mask.is_some());
            }
            Access::Strided(stride) => {
                let mask = self.access_mask(ty.n, guard).unwrap_or(ACTIVE);
                // Elements that are not read are zero; the instruction clears its mask.
                if mask != Register::K1 {
                    self.put(Instruction::with2(Code::VEX_Kmovw_kr_km16, Register::K1, mask));
                }
                self.offsets(ty.lane, stride, ty.n);
                let (base, _, _, offset) = self.address(at, true);
                let clear = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
                let whole = sized(r, 64);
                self.put(Instruction::with3(clear, whole, whole, whole));
                let code = self.known(Does::Gather, ty);
                let index = sized(29, ty.bytes());
                let from = MemoryOperand::new(base, index, 1, offset, 1, false, Register::None);
                let made = Instruction::with2(code, sized(r, ty.bytes()), from);
                self.put_with(made, None, Some(Register::K1), false);
            }
        }
        self.settle(to);
    }

    fn store(&mut self, ty: Ty, x: Reg, at: &At, access: Access, guard: Option<Reg>) {
        let x = self.vector(x, 31);
        let mask = self.access_mask(ty.n, guard);
        match access {
            Access::One => {
                let to = self.place(at);
                let made = Instruction::with2(store_one(ty.lane), to, sized(x, 16));
                self.put_with(made, None, mask, false);
            }
            Access::Unit => {
                let to = self.place(at);
                let code = self.known(Does::Store, ty);
                let made = Instruction::with2(code, to, sized(x, ty.bytes()));
                self.put_with(made, None, mask, false);
            }
            Access::Strided(stride) => {
                let mask = mask.unwrap_or(ACTIVE);
                if mask != Register::K1 {
                    self.put(Instruction::with2(Code::VEX_Kmovw_kr_km16, Register::K1, mask));
                }
                self.offsets(ty.lane, stride, ty.n);
                let (base, _, _, offset) = self.address(at, true);
                let code = self.known(Does::Scatter, ty);
                let index = sized(29, ty.bytes());
                let to = MemoryOperand::new(base, index, 1, offset, 1, false, Register::None);
                let made = Instruction::with2(code, to, sized(x, ty.bytes()));
                self.put_with(made, None, Some(Register::K1), false);
            }
        }
    }

    fn load_truth(&mut self, n: usize, to: Reg, at: &At, access: Access, guard: Option<Reg>) {
        let mask = self.access_mask(n, guard);
        let from = self.place(at);
        if access == Access::One && mask.is_none() {
            self.put(Instruction::with2(Code::Movzx_r32_rm8, Register::R15D, from));
            self.truth_of_r15();
            return self.mask_from(to, Register::R15D);
        }
        let load = Code::EVEX_Vmovdqu8_xmm_k1z_xmmm128;
        let bytes = sized(29, 16);
        let mask = mask.unwrap_or(ACTIVE);
        self.put_with(Instruction::with2(load, bytes, from), None, Some(mask), true);
        let test = Code::EVEX_Vptestmb_kr_k1_xmm_xmmm128;
        let r = self.mask_target(to);
        self.put(Instruction::with3(test, r, bytes, bytes));
        if access == Access::One {
            self.put(Instruction::with2(Code::VEX_Kmovw_r32_kr, Register::R15D, r));
            self.put(Instruction::with2(Code::And_rm32_imm8, Register::R15D, 1));
            self.truth_of_r15();
            return self.mask_from(to, Register::R15D);
        }
        self.settle_mask(to);
    }

    fn store_truth(&mut self, n: usize, x: Reg, at: &At, access: Access, guard: Option<Reg>) {
        let constant = self.a.constant(&[1; 16]);
        let x = self.mask(x, Register::K1);
        let ones = self.a.constant_operand(false);
        let (load, store) =
            (Code::EVEX_Vmovdqu8_xmm_k1z_xmmm128, Code::EVEX_Vmovdqu8_xmmm128_k1z_xmm);
        let bytes = sized(29, 16);
        self.put_with(Instruction::with2(load, bytes, ones), Some(constant), Some(x), true);
        let mask = match (self.access_mask(n, guard), access) {
            (Some(mask), _) => mask,
            (None, Access::One) => {
                self.put(Instruction::with2(Code::Mov_r32_imm32, Register::R15D, 1));
                let code = Code::VEX_Kmovw_kr_r32;
                self.put(Instruction::with2(code, Register::K1, Register::R15D));
                Register::K1
            }
            (None, _) => ACTIVE,
        };
        let to = self.place(at);
        self.put_with(Instruction::with2(store, to, bytes), None, Some(mask), false);
    }

    // Calls.

    /// A function on single elements, over those that are active and not inside.
    fn call(&mut self, at: usize) -> Result<(), &'static str> {
        let form = self.form;
        let Inst::Call { ty, word, number, to, args, when } = &form.body[at] else { return Ok(()) };
        let frame = |at: usize| memory(Register::RSP, at as i64);
        let (load, store) =
            (Code::EVEX_Vmovups_zmm_k1z_zmmm512, Code::EVEX_Vmovups_zmmm512_k1z_zmm);

        // What is live is saved.
        let mut vectors: SmallVec<[u8; 32]> = SmallVec::new();
        let mut masks: SmallVec<[u8; 8]> = SmallVec::new();
        for (reg, class) in &form.regs {
            if let (Home::Register(r), Some((start, end))) =
                (self.allocation.homes[reg], self.allocation.live[reg])
                && start < at
                && end > at
                && reg != *to
            {
                match class {
                    Class::Vector => vectors.push(r),
                    Class::Mask => masks.push(r),
                }
            }
        }
        for r in &vectors {
            let slot = frame(self.frame.saved + 64 * usize::from(*r));
            self.put(Instruction::with2(store, slot, sized(*r, 64)));
        }
        masks.push(7);
        for r in &masks {
            let slot = frame(self.frame.saved_masks + 8 * usize::from(*r));
            let k = Register::K0 + u32::from(*r);
            self.put(Instruction::with2(Code::VEX_Kmovw_m16_kr, slot, k));
        }
        for (i, r) in CALLER_SAVED.into_iter().enumerate() {
            let slot = frame(self.frame.saved_general + 8 * i);
            self.put(Instruction::with2(Code::Mov_rm64_r64, slot, r));
        }
        for (i, x) in args.iter().enumerate() {
            let x = self.vector(*x, 29);
            let slot = frame(self.frame.arguments + 64 * i);
            self.put(Instruction::with2(store, slot, sized(x, 64)));
        }
        if let When::Outside(inside) = when {
            let x = self.vector(*to, 29);
            let results = frame(self.frame.results);
            self.put(Instruction::with2(store, results, sized(x, 64)));
            let inside = self.mask(*inside, Register::K1);
            let outside = Code::VEX_Kandnw_kr_kr_kr;
            if ty.n > 1 {
                self.put(Instruction::with3(outside, Register::K1, inside, ACTIVE));
            }
        }
        if ty.n == 1 {
            self.put(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, 1));
        } else {
            let k = if *when == When::Always { ACTIVE } else { Register::K1 };
            self.put(Instruction::with2(Code::VEX_Kmovw_r32_kr, Register::EAX, k));
        }
        self.put(Instruction::with2(Code::Mov_rm64_r64, frame(self.frame.left), Register::RAX));
        self.put(Ok(Instruction::with(Code::VEX_Vzeroupper)));

        // Element by element: the lowest bit of what is left.
        let (again, done) = (self.a.label(), self.a.label());
        self.a.bind(again);
        self.put(Instruction::with2(Code::Mov_r64_rm64, Register::RAX, frame(self.frame.left)));
        self.put(Instruction::with2(Code::Test_rm64_r64, Register::RAX, Register::RAX));
        self.a.jump(Code::Je_rel32_64, done);
        self.put(Instruction::with2(Code::Bsf_r64_rm64, Register::RCX, Register::RAX));
        let less = memory(Register::RAX, -1);
        self.put(Instruction::with2(Code::Lea_r64_m, Register::RDX, less));
        self.put(Instruction::with2(Code::And_r64_rm64, Register::RAX, Register::RDX));
        self.put(Instruction::with2(Code::Mov_rm64_r64, frame(self.frame.left), Register::RAX));
        self.put(Instruction::with2(Code::Mov_rm64_r64, frame(self.frame.element), Register::RCX));
        let scale = ty.lane.bytes() as u32;
        let element = |at: usize| {
            let none = Register::None;
            MemoryOperand::new(Register::RSP, Register::RCX, scale, at as i64, 1, false, none)
        };
        for i in 0..args.len() {
            let from = element(self.frame.arguments + 64 * i);
            self.put(Instruction::with2(load_one(ty.lane), sized(i as u8, 16), from));
        }
        // The row, of which rdi was the pointer.
        let row = frame(self.frame.saved_general);
        self.put(Instruction::with2(Code::Mov_r64_rm64, Register::RAX, row));
        let function = memory(Register::RAX, 8 * *word as i64);
        self.put(Instruction::with2(Code::Mov_r64_rm64, Register::RAX, function));
        if let Some(number) = number {
            self.put(Instruction::with2(Code::Mov_r32_imm32, Register::EDI, *number));
        }
        self.put(Instruction::with1(Code::Call_rm64, Register::RAX));
        self.put(Instruction::with2(Code::Mov_r64_rm64, Register::RCX, frame(self.frame.element)));
        let result = element(self.frame.results);
        self.put(Instruction::with2(store_one(ty.lane), result, Register::XMM0));
        self.a.jump(Code::Jmp_rel32_64, again);
        self.a.bind(done);

        for (i, r) in CALLER_SAVED.into_iter().enumerate() {
            let slot = frame(self.frame.saved_general + 8 * i);
            self.put(Instruction::with2(Code::Mov_r64_rm64, r, slot));
        }
        for r in &masks {
            let slot = frame(self.frame.saved_masks + 8 * usize::from(*r));
            let k = Register::K0 + u32::from(*r);
            self.put(Instruction::with2(Code::VEX_Kmovw_kr_km16, k, slot));
        }
        for r in &vectors {
            let slot = frame(self.frame.saved + 64 * usize::from(*r));
            self.put(Instruction::with2(load, sized(*r, 64), slot));
        }
        let r = sized(self.target(*to), 64);
        let results = frame(self.frame.results);
        self.put(Instruction::with2(load, r, results));
        self.settle(*to);
        Ok(())
    }
}

fn broadcast_code(lane: Lane) -> Code {
    match lane {
        Lane::F64 | Lane::I64 => Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64,
        Lane::F32 | Lane::I32 => Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32,
    }
}

fn store_one(lane: Lane) -> Code {
    match lane {
        Lane::F64 | Lane::I64 => Code::EVEX_Vmovsd_m64_k1_xmm,
        Lane::F32 | Lane::I32 => Code::EVEX_Vmovss_m32_k1_xmm,
    }
}

fn load_one(lane: Lane) -> Code {
    match lane {
        Lane::F64 | Lane::I64 => Code::EVEX_Vmovsd_xmm_k1z_m64,
        Lane::F32 | Lane::I32 => Code::EVEX_Vmovss_xmm_k1z_m32,
    }
}

/// The instruction on `n` elements, and the bytes of its operand and of its result.
fn conversion(by: Conversion, n: usize) -> Option<(Code, usize, usize)> {
    Some(match (by, n) {
        (Conversion::F32ToF64, 2) => (Code::EVEX_Vcvtps2pd_xmm_k1z_xmmm64b32, 16, 16),
        (Conversion::F32ToF64, 4) => (Code::EVEX_Vcvtps2pd_ymm_k1z_xmmm128b32, 16, 32),
        (Conversion::F32ToF64, 8) => (Code::EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae, 32, 64),
        (Conversion::F64ToF32, 2) => (Code::EVEX_Vcvtpd2ps_xmm_k1z_xmmm128b64, 16, 16),
        (Conversion::F64ToF32, 4) => (Code::EVEX_Vcvtpd2ps_xmm_k1z_ymmm256b64, 32, 16),
        (Conversion::F64ToF32, 8) => (Code::EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er, 64, 32),
        (Conversion::I64ToF64, 2) => (Code::EVEX_Vcvtqq2pd_xmm_k1z_xmmm128b64, 16, 16),
        (Conversion::I64ToF64, 4) => (Code::EVEX_Vcvtqq2pd_ymm_k1z_ymmm256b64, 32, 32),
        (Conversion::I64ToF64, 8) => (Code::EVEX_Vcvtqq2pd_zmm_k1z_zmmm512b64_er, 64, 64),
        (Conversion::I32ToF64, 2) => (Code::EVEX_Vcvtdq2pd_xmm_k1z_xmmm64b32, 16, 16),
        (Conversion::I32ToF64, 4) => (Code::EVEX_Vcvtdq2pd_ymm_k1z_xmmm128b32, 16, 32),
        (Conversion::I32ToF64, 8) => (Code::EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er, 32, 64),
        (Conversion::I32ToF32, 4) => (Code::EVEX_Vcvtdq2ps_xmm_k1z_xmmm128b32, 16, 16),
        (Conversion::I32ToF32, 8) => (Code::EVEX_Vcvtdq2ps_ymm_k1z_ymmm256b32, 32, 32),
        (Conversion::I32ToF32, 16) => (Code::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er, 64, 64),
        (Conversion::I32ToI64, 2) => (Code::EVEX_Vpmovsxdq_xmm_k1z_xmmm64, 16, 16),
        (Conversion::I32ToI64, 4) => (Code::EVEX_Vpmovsxdq_ymm_k1z_xmmm128, 16, 32),
        (Conversion::I32ToI64, 8) => (Code::EVEX_Vpmovsxdq_zmm_k1z_ymmm256, 32, 64),
        _ => return None,
    })
}
