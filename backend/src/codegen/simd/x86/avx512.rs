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
    Binary, Class, Form, Inst, Lane, Logic, LoopId, Order, Reg, Ty, Unary, When,
};
use super::super::regalloc::{Allocation, Home, allocate};
use super::assembler::{Assembler, Label};
use super::codes::{Does, broadcast_code, code, conversion, store_one};
use super::frame::Frame;
use cranelift_entity::{EntityRef, SecondaryMap};
use iced_x86::{Code, Instruction, MemoryOperand, Register};
use tapeloom_ir::fault::{Fault, planted};

const VECTORS: [u8; 29] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
    26, 27, 28,
];
const MASKS: [u8; 5] = [2, 3, 4, 5, 6];
pub(super) const ACTIVE: Register = Register::K7;

/// Registers of streams. Those that callees do not save come first.
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

pub(super) struct Emit<'a> {
    pub(super) a: Assembler,
    pub(super) form: &'a Form,
    pub(super) allocation: Allocation,
    pub(super) frame: Frame,
    sources: SecondaryMap<Reg, Option<Source>>,
    /// Registers of the streams of the loop in lanes; `None` in the frame.
    pub(super) streams: Vec<Option<Register>>,
    /// How many elements are active.
    pub(super) active: usize,
    /// The beginnings of open loops.
    pub(super) tops: Vec<Option<Label>>,
    cold: Vec<(usize, Label, Label)>,
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
    pub(super) fn put(&mut self, made: Result<Instruction, iced_x86::IcedError>) {
        self.put_with(made, None, None, false);
    }

    /// An instruction, with the constant that it refers to, under a mask whose other elements become zero or stay.
    pub(super) fn put_with(
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

    pub(super) fn slot(&self, reg: Reg) -> MemoryOperand {
        match self.allocation.homes[reg] {
            Home::Slot(i) if self.form.regs[reg] == Class::Mask => {
                memory(Register::RSP, (self.frame.masks + 8 * i) as i64)
            }
            Home::Slot(i) => memory(Register::RSP, (64 * i) as i64),
            Home::Nowhere | Home::Register(_) | Home::Source => memory(Register::RSP, 0),
        }
    }

    /// Where a register comes from, as an operand that is repeated for every element.
    pub(super) fn source(&mut self, reg: Reg, broadcast: bool) -> (MemoryOperand, Option<usize>) {
        match self.sources[reg] {
            Some(Source::Constant(lane, bits)) => {
                let mut at = self.a.constant(&bits.to_le_bytes()[..lane.bytes()]);
                if planted(Fault::WideConstant) {
                    at = at.saturating_sub(lane.bytes());
                }
                (self.a.constant_operand(broadcast), Some(at))
            }
            Some(Source::Word(_, word)) => (self.word(word, broadcast), None),
            None => {
                self.a.fail("a register comes from nowhere".to_owned());
                (memory(Register::RSP, 0), None)
            }
        }
    }

    pub(super) fn word(&self, word: usize, broadcast: bool) -> MemoryOperand {
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
    pub(super) fn vector(&mut self, reg: Reg, scratch: u8) -> u8 {
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
    pub(super) fn target(&self, reg: Reg) -> u8 {
        match self.allocation.homes[reg] {
            Home::Register(r) => r,
            Home::Nowhere | Home::Slot(_) | Home::Source => 31,
        }
    }

    /// Stores a result that is at home in the frame.
    pub(super) fn settle(&mut self, reg: Reg) {
        if let Home::Slot(_) = self.allocation.homes[reg]
            && !planted(Fault::WideSpill)
        {
            let to = self.slot(reg);
            let store = Code::EVEX_Vmovups_zmmm512_k1z_zmm;
            self.put(Instruction::with2(store, to, sized(31, 64)));
        }
    }

    pub(super) fn mask(&mut self, reg: Reg, scratch: Register) -> Register {
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

    pub(super) fn mask_target(&self, reg: Reg) -> Register {
        match self.allocation.homes[reg] {
            Home::Register(r) => Register::K0 + u32::from(r),
            Home::Nowhere | Home::Slot(_) | Home::Source => Register::K0,
        }
    }

    pub(super) fn settle_mask(&mut self, reg: Reg) {
        if let Home::Slot(_) = self.allocation.homes[reg] {
            let to = self.slot(reg);
            self.put(Instruction::with2(Code::VEX_Kmovw_m16_kr, to, Register::K0));
        }
    }

    pub(super) fn known(&mut self, does: Does, ty: Ty) -> Code {
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
                    Unary::Rotate(n) => (Does::Rotate, Some(i32::from(*n))),
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
                    Binary::ShiftLeft => Does::ShiftLeftBy,
                    Binary::ShiftRight => Does::ShiftRightBy,
                    Binary::ShiftRightArithmetic => Does::ShiftArithmeticBy,
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
                    } else if self.active == ty.n && (ty.n == 8 || ty.n == 16) {
                        // The carry says that all are inside.
                        let test = if ty.n == 8 {
                            Code::VEX_Kortestb_kr_kr
                        } else {
                            Code::VEX_Kortestw_kr_kr
                        };
                        self.put(Instruction::with2(test, inside, inside));
                        self.a.jump(Code::Jae_rel32_64, cold);
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

    pub(super) fn counter(&self, of: LoopId) -> MemoryOperand {
        memory(Register::RSP, (self.frame.counters + 8 * of.index()) as i64)
    }

    /// All bits of r15d, where r15 is not 0.
    pub(super) fn truth_of_r15(&mut self) {
        self.put(Instruction::with1(Code::Neg_rm64, Register::R15));
        self.put(Instruction::with2(Code::Sbb_r32_rm32, Register::R15D, Register::R15D));
    }

    pub(super) fn mask_from(&mut self, to: Reg, from: Register) {
        let r = self.mask_target(to);
        self.put(Instruction::with2(Code::VEX_Kmovw_kr_r32, r, from));
        self.settle_mask(to);
    }
}
