//! AVX-512: vectors of 512 bits, and mask registers.
//!
//! ```text
//! zmm0 .. zmm28    values, by allocation        k2 .. k6   masks, by allocation
//! zmm29, zmm30     operands in memory           k0, k1     masks in memory
//! zmm31            results in memory            k7         active elements
//! ```

mod codes;
mod memory;

use super::super::form::{Binary, Inst, Lane, Logic, Order, Reg, Ty, Unary, When};
use super::super::regalloc::Location;
use super::emit::{Emit, Machine, Operand, Source, by_size, sized};
use codes::{Operation, code, conversion};
use iced_x86::{Code, Instruction, MemoryOperand, Register};
use tapeloom_ir::fault::{Fault, planted};

pub(super) const ACTIVE: Register = Register::K7;

pub(super) const MACHINE: Machine = Machine {
    bytes: 64,
    vectors: &[
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
        25, 26, 27, 28,
    ],
    masks: &[2, 3, 4, 5, 6],
    operands: [29, 30],
    result: 31,
    load: Code::EVEX_Vmovups_zmm_k1z_zmmm512,
    store: Code::EVEX_Vmovups_zmmm512_k1z_zmm,
    copy: Code::EVEX_Vmovaps_zmm_k1z_zmmm512,
    broadcast: [Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64, Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32],
    load_one: [Code::EVEX_Vmovsd_xmm_k1z_m64, Code::EVEX_Vmovss_xmm_k1z_m32],
    store_one: [Code::EVEX_Vmovsd_m64_k1_xmm, Code::EVEX_Vmovss_m32_k1_xmm],
    to_general: Code::EVEX_Vmovq_rm64_xmm,
    active: Some(7),
    bits: |e, mask, _| e.bits_512(mask),
    lower: |e, at| e.avx512(at),
};

impl Emit<'_> {
    /// Returns the memory operand that repeats a value (a constant or a word of the row) in every element, and, for a
    /// constant, its offset after the code.
    fn repeated(&mut self, reg: Reg) -> (MemoryOperand, Option<usize>) {
        match self.sources[reg] {
            Some(Source::Constant(lane, bits)) => {
                let at = self.constant(lane, bits, 1);
                (self.a.constant_operand(true), Some(at))
            }
            Some(Source::Word(_, word)) => (self.word(word, true), None),
            None => {
                self.a.fail("a register is read before it is written".to_owned());
                (self.word(0, true), None)
            }
        }
    }

    /// Returns the last operand of an instruction: the value's register, or memory if the value has no register.
    fn operand_512(&mut self, reg: Reg, ty: Ty) -> Operand {
        match self.allocation.locations[reg] {
            Location::Register(r) => Operand::Register(sized(r, ty.bytes())),
            Location::Slot(_) => Operand::Memory(self.slot(reg), None),
            Location::Source => {
                let (from, constant) = self.repeated(reg);
                Operand::Memory(from, constant)
            }
            Location::Nowhere => Operand::Register(sized(31, ty.bytes())),
        }
    }

    pub(super) fn mask(&mut self, reg: Reg, scratch: Register) -> Register {
        match self.allocation.locations[reg] {
            Location::Register(r) => Register::K0 + u32::from(r),
            Location::Slot(_) => {
                let from = self.slot(reg);
                self.put(Instruction::with2(Code::VEX_Kmovw_kr_km16, scratch, from));
                scratch
            }
            Location::Nowhere | Location::Source => scratch,
        }
    }

    fn mask_target(&self, reg: Reg) -> Register {
        match self.allocation.locations[reg] {
            Location::Register(r) => Register::K0 + u32::from(r),
            Location::Nowhere | Location::Slot(_) | Location::Source => Register::K0,
        }
    }

    fn settle_mask(&mut self, reg: Reg) {
        if let Location::Slot(_) = self.allocation.locations[reg] {
            let to = self.slot(reg);
            self.put(Instruction::with2(Code::VEX_Kmovw_m16_kr, to, Register::K0));
        }
    }

    fn known(&mut self, operation: Operation, ty: Ty) -> Code {
        let bytes = ty.bytes().max(16);
        code(operation, ty.lane, bytes).unwrap_or_else(|| {
            self.a.fail(format!("there is no {operation:?} of {ty:?}"));
            Code::INVALID
        })
    }

    fn avx512(&mut self, at: usize) -> Result<(), &'static str> {
        let program = self.program;
        match &program.body[at] {
            Inst::WordTruth { to, word } => {
                let from = self.word(*word, false);
                self.put(Instruction::with2(Code::Mov_r64_rm64, Register::R15, from));
                self.truth_of_r15();
                self.mask_from(*to, Register::R15D);
            }
            Inst::SetWordTruth { word, x } => {
                let x = self.mask(*x, Register::K1);
                self.put(Instruction::with2(Code::VEX_Kmovw_r32_kr, Register::R15D, x));
                self.put(Instruction::with2(Code::And_rm32_imm8, Register::R15D, 1));
                let to = self.word(*word, false);
                self.put(Instruction::with2(Code::Mov_rm64_r64, to, Register::R15));
            }
            Inst::Counter { to, of: _ } => {
                let r = self.whole(self.target(*to));
                let from = Code::EVEX_Vpbroadcastq_zmm_k1z_r64;
                self.put(Instruction::with2(from, r, Register::RAX));
                self.store_if_spilled(*to);
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
                let (operation, by) = match op {
                    Unary::Sqrt => (Operation::Sqrt, None),
                    // The immediate operand: round towards -∞ (9) or +∞ (10), without raising the inexact exception.
                    Unary::Floor => (Operation::Round, Some(9)),
                    Unary::Ceil => (Operation::Round, Some(10)),
                    Unary::ShiftLeft(n) => (Operation::ShiftLeft, Some(i32::from(*n))),
                    Unary::ShiftRight(n) => (Operation::ShiftRight, Some(i32::from(*n))),
                    Unary::Rotate(n) => (Operation::Rotate, Some(i32::from(*n))),
                };
                let code = self.known(operation, *ty);
                let x = self.operand_512(*x, *ty);
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
                self.store_if_spilled(*to);
            }
            Inst::Binary { op, ty, to, x, y } => {
                let operation = match op {
                    Binary::Add => Operation::Add,
                    Binary::Sub => Operation::Sub,
                    Binary::Mul => Operation::Mul,
                    Binary::Div => Operation::Div,
                    Binary::Largest | Binary::Smallest => Operation::Range,
                    Binary::FirstIfLess => Operation::Smallest,
                    Binary::FirstIfGreater => Operation::Largest,
                    Binary::And => Operation::And,
                    Binary::Or => Operation::Or,
                    Binary::Xor => Operation::Xor,
                    Binary::ShiftLeft => Operation::ShiftLeftBy,
                    Binary::ShiftRight => Operation::ShiftRightBy,
                    Binary::ShiftRightArithmetic => Operation::ShiftArithmeticBy,
                };
                let code = self.known(operation, *ty);
                let x = sized(self.vector(*x, 29), ty.bytes());
                let y = self.operand_512(*y, *ty);
                let r = sized(self.target(*to), ty.bytes());
                // The immediate operand: minimum (4) or maximum (5), with the sign of the selected operand, also if it
                // is zero.
                let by = match op {
                    Binary::Smallest if planted(Fault::WideZero) => Some(0),
                    Binary::Largest if planted(Fault::WideZero) => Some(1),
                    Binary::Smallest => Some(4),
                    Binary::Largest => Some(5),
                    _ => None,
                };
                match (by, y) {
                    (None, y) => self.three(code, r, x, &y, None),
                    (Some(by), y) => self.four(code, r, x, &y, by),
                }
                self.store_if_spilled(*to);
            }
            Inst::Fma { ty, to, x, y, z } => {
                let codes = [Operation::Fma213, Operation::Fma231]
                    .map(|operation| self.known(operation, *ty));
                self.fma(codes, *ty, *to, [*x, *y, *z], |e, reg, ty, _| e.operand_512(reg, ty));
            }
            Inst::Compare { order, signed, ty, to, x, y } => {
                let floats = matches!(ty.lane, Lane::F64 | Lane::F32);
                let operation =
                    if *signed || floats { Operation::Compare } else { Operation::CompareUnsigned };
                let code = self.known(operation, *ty);
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
                let y = self.operand_512(*y, *ty);
                let r = self.mask_target(*to);
                self.four(code, r, x, &y, by);
                self.settle_mask(*to);
            }
            Inst::Pick { ty, to, mask, x, y } => {
                let code = self.known(Operation::Blend, *ty);
                let mask = self.mask(*mask, Register::K1);
                let y = sized(self.vector(*y, 29), ty.bytes());
                let x = self.operand_512(*x, *ty);
                let r = sized(self.target(*to), ty.bytes());
                self.three(code, r, y, &x, Some(mask));
                self.store_if_spilled(*to);
            }
            Inst::Convert { by, n, to, x } => {
                let (code, from, into) =
                    conversion(*by, *n).ok_or("a conversion is not supported")?;
                let x = sized(self.vector(*x, 29), from);
                let r = sized(self.target(*to), into);
                self.put(Instruction::with2(code, r, x));
                self.store_if_spilled(*to);
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
                self.store_if_spilled(*to);
            }
            Inst::Broadcast { lane, to, x } => {
                let x = sized(self.vector(*x, 29), 16);
                let r = sized(self.target(*to), 64);
                self.put(Instruction::with2(by_size(self.m.broadcast, *lane), r, x));
                self.store_if_spilled(*to);
            }
            Inst::Load { ty, to, at, access, guard } => {
                self.load_512(*ty, *to, at, *access, *guard)
            }
            Inst::Store { ty, x, at, access, guard } => {
                self.store_512(*ty, *x, at, *access, *guard)
            }
            Inst::LoadTruth { n, to, at, access, guard } => {
                self.load_truth_512(*n, *to, at, *access, *guard);
            }
            Inst::StoreTruth { n, x, at, access, guard } => {
                self.store_truth_512(*n, *x, at, *access, *guard);
            }
            Inst::Call { ty, when, .. } => match when {
                When::Always => self.call(at)?,
                When::Outside(inside) => {
                    let inside = self.mask(*inside, Register::K1);
                    if ty.n == 1 {
                        let code = Code::VEX_Kmovw_r32_kr;
                        self.put(Instruction::with2(code, Register::R15D, inside));
                        self.put(Instruction::with2(Code::Test_rm32_imm32, Register::R15D, 1));
                        self.rarely(at, Code::Je_rel32_64);
                    } else if self.active == ty.n && (ty.n == 8 || ty.n == 16) {
                        // `kortest` sets the carry flag if the mask holds for all elements, which then need no call.
                        let test = if ty.n == 8 {
                            Code::VEX_Kortestb_kr_kr
                        } else {
                            Code::VEX_Kortestw_kr_kr
                        };
                        self.put(Instruction::with2(test, inside, inside));
                        self.rarely(at, Code::Jae_rel32_64);
                    } else {
                        let code = Code::VEX_Kandnw_kr_kr_kr;
                        self.put(Instruction::with3(code, Register::K0, inside, ACTIVE));
                        let test = Code::VEX_Kortestw_kr_kr;
                        self.put(Instruction::with2(test, Register::K0, Register::K0));
                        self.rarely(at, Code::Jne_rel32_64);
                    }
                }
            },
            Inst::ActiveMask { to, n: _ } => {
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
            Inst::Constant { .. }
            | Inst::Ramp { .. }
            | Inst::Word { .. }
            | Inst::SetWord { .. }
            | Inst::Move { .. }
            | Inst::Loop { .. }
            | Inst::LoopEnd { .. }
            | Inst::Lanes { .. }
            | Inst::LanesEnd { .. } => {}
        }
        Ok(())
    }

    fn mask_from(&mut self, to: Reg, from: Register) {
        let r = self.mask_target(to);
        self.put(Instruction::with2(Code::VEX_Kmovw_kr_r32, r, from));
        self.settle_mask(to);
    }

    fn bits_512(&mut self, mask: Reg) -> Register {
        let mask = self.mask(mask, Register::K1);
        self.put(Instruction::with2(Code::VEX_Kmovw_r32_kr, Register::R15D, mask));
        Register::R15D
    }
}
