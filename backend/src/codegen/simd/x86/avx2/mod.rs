//! AVX2 with FMA: vectors of 256 bits, and masks in vector registers.
//!
//! ```text
//! ymm0 .. ymm11    values and masks, by register allocation
//! ymm12            masks in memory, intermediate results
//! ymm13, ymm14     operands in memory
//! ymm15            results in memory, intermediate results
//! ```
//!
//! A mask of eight elements has 32 bits for each, all set or none. A mask of four or two elements has 64 bits for
//! each, whatever the size of the compared elements. A uniform mask has all bits set or none.
//!
//! There are no registers for masks of active elements, because the number of active elements is known when the code is
//! emitted. Operations for which AVX2 has no instruction take several instructions: 64-bit integer products and
//! conversions, unsigned comparisons, maximum and minimum as the language defines them, and scatters. Only the last
//! instruction of such a sequence writes the result, because the register of the result may be the register of an
//! operand.

mod codes;
mod convert;
mod memory;

use super::super::form::{Binary, Inst, Lane, Logic, Order, Reg, Ty, Unary, When};
use super::super::regalloc::Location;
use super::emit::{Emit, Machine, Operand, Source, sized};
use codes::{Operation, code};
use iced_x86::{Code, Instruction, Register};
use tapeloom_ir::fault::{Fault, planted};

/// The number of the scratch register ymm12, for masks from memory and intermediate results.
const EXTRA: u8 = 12;
const FIRST: u8 = 13;
const SECOND: u8 = 14;
const RESULT: u8 = 15;

/// The type of a full 256-bit register, as four 64-bit elements.
const WHOLE: Ty = Ty { lane: Lane::I64, n: 4 };

pub(super) const MACHINE: Machine = Machine {
    bytes: 32,
    vectors: &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    masks: &[],
    operands: [FIRST, SECOND],
    result: RESULT,
    load: Code::VEX_Vmovups_ymm_ymmm256,
    store: Code::VEX_Vmovups_ymmm256_ymm,
    copy: Code::VEX_Vmovaps_ymm_ymmm256,
    broadcast: [Code::VEX_Vbroadcastsd_ymm_m64, Code::VEX_Vbroadcastss_ymm_m32],
    load_one: [Code::VEX_Vmovsd_xmm_m64, Code::VEX_Vmovss_xmm_m32],
    store_one: [Code::VEX_Vmovsd_m64_xmm, Code::VEX_Vmovss_m32_xmm],
    to_general: Code::VEX_Vmovq_rm64_xmm,
    active: None,
    bits: |e, mask, n| e.bits_256(mask, n),
    lower: |e, at| e.avx2(at),
};

/// Returns whether a vector of type `ty` has elements of four bytes, but a mask with eight bytes for each of them (2 or
/// 4 elements).
fn is_narrow(ty: Ty) -> bool {
    ty.lane.bytes() == 4 && ty.bytes() < MACHINE.bytes
}

impl Emit<'_> {
    /// Returns the last operand of an instruction: the value's register, or memory. Words of the row (the nest's
    /// arguments) are first loaded into `scratch`.
    fn operand_256(&mut self, reg: Reg, ty: Ty, scratch: u8) -> Operand {
        match (self.allocation.locations[reg], self.sources[reg]) {
            (Location::Slot(_), _) => Operand::Memory(self.slot(reg), None),
            (Location::Source, Some(Source::Constant(lane, bits))) => {
                let at = self.constant(lane, bits, MACHINE.bytes / lane.bytes());
                Operand::Memory(self.a.constant_operand(false), Some(at))
            }
            _ => Operand::Register(sized(self.vector(reg, scratch), ty.bytes())),
        }
    }

    /// Returns a constant operand with the same bits in every element.
    fn repeated_bits(&mut self, lane: Lane, bits: u64) -> Operand {
        let one = &bits.to_le_bytes()[..lane.bytes()];
        let at = self.a.constant(&one.repeat(MACHINE.bytes / lane.bytes()));
        Operand::Memory(self.a.constant_operand(false), Some(at))
    }

    fn known_256(&mut self, operation: Operation, ty: Ty) -> Code {
        code(operation, ty.lane, ty.bytes().max(16)).unwrap_or_else(|| {
            self.a.fail(format!("there is no {operation:?} of {ty:?}"));
            Code::INVALID
        })
    }

    /// Emits `operation` on vectors of one type, in the registers numbered `to`, `x` and `y`.
    fn op(&mut self, operation: Operation, ty: Ty, to: u8, x: u8, y: u8) {
        let y = Operand::Register(sized(y, ty.bytes()));
        self.op_with(operation, ty, to, x, &y);
    }

    fn op_with(&mut self, operation: Operation, ty: Ty, to: u8, x: u8, y: &Operand) {
        let code = self.known_256(operation, ty);
        let [to, x] = [to, x].map(|r| sized(r, ty.bytes()));
        self.three(code, to, x, y, None);
    }

    /// Emits a shift of the elements of `x` by `by` bits, a constant.
    fn shift(&mut self, operation: Operation, ty: Ty, to: u8, x: u8, by: u8) {
        let code = self.known_256(operation, ty);
        let [to, x] = [to, x].map(|r| sized(r, ty.bytes()));
        self.put(Instruction::with3(code, to, x, i32::from(by)));
    }

    /// Emits `mask ? x : y` on registers, element by element. The mask's elements are as large as those of `ty`.
    fn blend(&mut self, ty: Ty, to: u8, mask: u8, x: &Operand, y: u8) {
        let code = self.known_256(Operation::Blend, ty);
        let [to, y, mask] = [to, y, mask].map(|r| sized(r, ty.bytes()));
        match x {
            Operand::Register(x) => self.put(Instruction::with4(code, to, y, *x, mask)),
            Operand::Memory(x, c) => {
                self.put_with(Instruction::with4(code, to, y, *x, mask), *c, None, false);
            }
        }
    }

    fn all_bits(&mut self, to: u8) {
        self.op(Operation::Equal, Ty { lane: Lane::I32, n: 8 }, to, to, to);
    }

    fn no_bits(&mut self, to: u8) {
        self.op(Operation::Xor, WHOLE, to, to, to);
    }

    /// Copies the general register r15d to every 32-bit element of the vector register with number `to`.
    fn spread_r15(&mut self, to: u8) {
        let low = sized(to, 16);
        self.put(Instruction::with2(Code::VEX_Vmovd_xmm_rm32, low, Register::R15D));
        let spread = Code::VEX_Vpbroadcastd_ymm_xmmm32;
        self.put(Instruction::with2(spread, self.whole(to), low));
    }

    /// Packs the lower halves of four 64-bit elements into four 32-bit elements. Overwrites `temporary`.
    fn lower_halves(&mut self, to: u8, x: u8, temporary: u8) {
        let extract = Code::VEX_Vextractf128_xmmm128_ymm_imm8;
        self.put(Instruction::with3(extract, sized(temporary, 16), self.whole(x), 1));
        let shuffle = Code::VEX_Vshufps_xmm_xmm_xmmm128_imm8;
        let [to, x, high] = [to, x, temporary].map(|r| sized(r, 16));
        self.put(Instruction::with4(shuffle, to, x, high, 0x88));
    }

    /// Returns the register of a mask, converted to elements as large as those of `ty`. May overwrite `EXTRA` and
    /// `RESULT`.
    fn mask_for(&mut self, mask: Reg, ty: Ty) -> u8 {
        let m = self.vector(mask, EXTRA);
        if !is_narrow(ty) {
            return m;
        }
        self.lower_halves(EXTRA, m, RESULT);
        EXTRA
    }

    fn bits_256(&mut self, mask: Reg, n: usize) -> Register {
        let m = self.vector(mask, EXTRA);
        let (code, bytes) = match n {
            8 => (Code::VEX_Vmovmskps_r32_ymm, 32),
            2 => (Code::VEX_Vmovmskpd_r32_xmm, 16),
            _ => (Code::VEX_Vmovmskpd_r32_ymm, 32),
        };
        self.put(Instruction::with2(code, Register::R15D, sized(m, bytes)));
        Register::R15D
    }

    fn avx2(&mut self, at: usize) -> Result<(), &'static str> {
        let program = self.program;
        match &program.body[at] {
            Inst::WordTruth { to, word } => {
                let from = self.word(*word, false);
                self.put(Instruction::with2(Code::Mov_r64_rm64, Register::R15, from));
                self.truth_of_r15();
                self.spread_r15(self.target(*to));
                self.store_if_spilled(*to);
            }
            Inst::SetWordTruth { word, x } => {
                let x = sized(self.vector(*x, FIRST), 16);
                self.put(Instruction::with2(Code::VEX_Vmovd_rm32_xmm, Register::R15D, x));
                self.put(Instruction::with2(Code::And_rm32_imm8, Register::R15D, 1));
                let to = self.word(*word, false);
                self.put(Instruction::with2(Code::Mov_rm64_r64, to, Register::R15));
            }
            Inst::Counter { to, of: _ } => {
                let r = self.target(*to);
                let low = sized(r, 16);
                self.put(Instruction::with2(Code::VEX_Vmovq_xmm_rm64, low, Register::RAX));
                let spread = Code::VEX_Vpbroadcastq_ymm_xmmm64;
                self.put(Instruction::with2(spread, self.whole(r), low));
                self.store_if_spilled(*to);
            }
            // A uniform mask has all bits set or none, so the mask is valid for elements of every size.
            Inst::MoveMask { to, x } | Inst::Widen { to, x } => {
                let x = self.vector(*x, RESULT);
                self.copy_whole(self.target(*to), x);
                self.store_if_spilled(*to);
            }
            Inst::Unary { op, ty, to, x } => self.unary_256(*op, *ty, *to, *x),
            Inst::Binary { op, ty, to, x, y } => self.binary_256(*op, *ty, *to, *x, *y),
            Inst::Fma { ty, to, x, y, z } => {
                let codes = [Operation::Fma213, Operation::Fma231]
                    .map(|operation| self.known_256(operation, *ty));
                self.fma(codes, *ty, *to, [*x, *y, *z], |e, reg, ty, scratch| {
                    e.operand_256(reg, ty, scratch)
                });
            }
            Inst::Compare { order, signed, ty, to, x, y } => {
                self.compare_256(*order, *signed, *ty, *x, *y, self.target(*to));
                self.store_if_spilled(*to);
            }
            Inst::Pick { ty, to, mask, x, y } => {
                let mask = self.mask_for(*mask, *ty);
                let y = self.vector(*y, FIRST);
                let x = self.operand_256(*x, *ty, SECOND);
                self.blend(*ty, self.target(*to), mask, &x, y);
                self.store_if_spilled(*to);
            }
            Inst::Convert { by, n, to, x } => {
                let x = self.vector(*x, FIRST);
                self.convert_256(*by, *n, self.target(*to), x)?;
                self.store_if_spilled(*to);
            }
            Inst::Logic { op, to, x, y } => {
                let operation = match op {
                    Logic::And => Operation::And,
                    Logic::AndNot => Operation::AndNot,
                    Logic::Or => Operation::Or,
                    Logic::Xor => Operation::Xor,
                };
                let x = self.vector(*x, FIRST);
                let y = self.operand_256(*y, WHOLE, SECOND);
                self.op_with(operation, WHOLE, self.target(*to), x, &y);
                self.store_if_spilled(*to);
            }
            Inst::Truth { to, all } => {
                let r = self.target(*to);
                if *all {
                    self.all_bits(r);
                } else {
                    self.no_bits(r);
                }
                self.store_if_spilled(*to);
            }
            Inst::UpperHalf { ty, to, x } => {
                let x = self.vector(*x, FIRST);
                let (code, from) = match ty.bytes() {
                    32 => (Code::VEX_Vextractf128_xmmm128_ymm_imm8, 32),
                    16 => (Code::VEX_Vpermilpd_xmm_xmmm128_imm8, 16),
                    _ => (Code::VEX_Vpermilps_xmm_xmmm128_imm8, 16),
                };
                let r = sized(self.target(*to), 16);
                self.put(Instruction::with3(code, r, sized(x, from), 1));
                self.store_if_spilled(*to);
            }
            Inst::Broadcast { lane, to, x } => {
                let x = sized(self.vector(*x, FIRST), 16);
                let code = match lane {
                    Lane::F64 | Lane::I64 => Code::VEX_Vbroadcastsd_ymm_xmm,
                    Lane::F32 | Lane::I32 => Code::VEX_Vbroadcastss_ymm_xmm,
                };
                self.put(Instruction::with2(code, self.whole(self.target(*to)), x));
                self.store_if_spilled(*to);
            }
            Inst::Load { ty, to, at, access, guard } => {
                self.load_256(*ty, *to, at, *access, *guard);
            }
            Inst::Store { ty, x, at, access, guard } => {
                self.store_256(*ty, *x, at, *access, *guard);
            }
            Inst::LoadTruth { n, to, at, access, guard } => {
                self.load_truth_256(*n, *to, at, *access, *guard);
            }
            Inst::StoreTruth { n, x, at, access, guard } => {
                self.store_truth_256(*n, *x, at, *access, *guard);
            }
            Inst::Call { ty, when, .. } => match when {
                When::Always => self.call(at)?,
                When::Outside(inside) => {
                    let bits = self.bits_256(*inside, ty.n);
                    if ty.n == 1 {
                        self.put(Instruction::with2(Code::Test_rm32_imm32, bits, 1));
                        self.rarely(at, Code::Je_rel32_64);
                    } else {
                        let active = (1i32 << self.active.min(ty.n)) - 1;
                        if self.active < ty.n {
                            self.put(Instruction::with2(Code::And_rm32_imm32, bits, active));
                        }
                        self.put(Instruction::with2(Code::Cmp_rm32_imm32, bits, active));
                        self.rarely(at, Code::Jne_rel32_64);
                    }
                }
            },
            Inst::ActiveMask { to, n } => {
                let constant = self.active_bits(32 / (*n).max(4), self.active);
                let from = self.a.constant_operand(false);
                self.load_whole(self.target(*to), from, Some(constant));
                self.store_if_spilled(*to);
            }
            Inst::Active { n } => self.active = *n,
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

    fn unary_256(&mut self, op: Unary, ty: Ty, to: Reg, x: Reg) {
        let r = self.target(to);
        match op {
            Unary::Sqrt => {
                let code = self.known_256(Operation::Sqrt, ty);
                let x = self.operand_256(x, ty, FIRST);
                self.two(code, sized(r, ty.bytes()), &x);
            }
            Unary::Floor | Unary::Ceil => {
                // The immediate operand: round towards -∞ (9) or +∞ (10), without raising the inexact exception.
                let by = if op == Unary::Floor { 9 } else { 10 };
                let x = self.vector(x, FIRST);
                self.shift(Operation::Round, ty, r, x, by);
            }
            Unary::ShiftLeft(n) => {
                let x = self.vector(x, FIRST);
                self.shift(Operation::ShiftLeft, ty, r, x, n);
            }
            Unary::ShiftRight(n) => {
                let x = self.vector(x, FIRST);
                self.shift(Operation::ShiftRight, ty, r, x, n);
            }
            Unary::Rotate(n) => {
                let x = self.vector(x, FIRST);
                self.shift(Operation::ShiftLeft, ty, EXTRA, x, n);
                self.shift(Operation::ShiftRight, ty, RESULT, x, ty.lane.bytes() as u8 * 8 - n);
                self.op(Operation::Or, ty, r, EXTRA, RESULT);
            }
        }
        self.store_if_spilled(to);
    }

    fn binary_256(&mut self, op: Binary, ty: Ty, to: Reg, x: Reg, y: Reg) {
        let r = self.target(to);
        let operation = match op {
            Binary::Add => Operation::Add,
            Binary::Sub => Operation::Sub,
            Binary::Mul if ty.lane == Lane::I64 => {
                let (x, y) = (self.vector(x, FIRST), self.vector(y, SECOND));
                self.product(ty, r, x, y);
                return self.store_if_spilled(to);
            }
            Binary::Mul => Operation::Mul,
            Binary::Div => Operation::Div,
            Binary::Largest | Binary::Smallest => {
                let (x, y) = (self.vector(x, FIRST), self.vector(y, SECOND));
                self.extreme(op == Binary::Largest, ty, r, x, y);
                return self.store_if_spilled(to);
            }
            Binary::FirstIfLess => Operation::Smallest,
            Binary::FirstIfGreater => Operation::Largest,
            Binary::And => Operation::And,
            Binary::Or => Operation::Or,
            Binary::Xor => Operation::Xor,
            Binary::ShiftLeft => Operation::ShiftLeftBy,
            Binary::ShiftRight => Operation::ShiftRightBy,
            Binary::ShiftRightArithmetic if ty.lane == Lane::I64 => {
                // AVX2 has no arithmetic shift of 64-bit elements. So the complement of a negative number is shifted
                // logically, and the shifted number is complemented again.
                let (x, y) = (self.vector(x, FIRST), self.vector(y, SECOND));
                self.no_bits(EXTRA);
                self.op(Operation::Greater, ty, EXTRA, EXTRA, x);
                self.op(Operation::Xor, ty, RESULT, x, EXTRA);
                self.op(Operation::ShiftRightBy, ty, RESULT, RESULT, y);
                self.op(Operation::Xor, ty, r, RESULT, EXTRA);
                return self.store_if_spilled(to);
            }
            Binary::ShiftRightArithmetic => Operation::ShiftArithmeticBy,
        };
        let x = self.vector(x, FIRST);
        let y = self.operand_256(y, ty, SECOND);
        self.op_with(operation, ty, r, x, &y);
        self.store_if_spilled(to);
    }

    /// Computes in register `r` the lower 64 bits of the products of 64-bit elements, from products of 32-bit halves.
    fn product(&mut self, ty: Ty, r: u8, x: u8, y: u8) {
        self.shift(Operation::ShiftRight, ty, EXTRA, x, 32);
        self.op(Operation::MulHalves, ty, EXTRA, EXTRA, y);
        self.shift(Operation::ShiftRight, ty, RESULT, y, 32);
        self.op(Operation::MulHalves, ty, RESULT, RESULT, x);
        self.op(Operation::Add, ty, EXTRA, EXTRA, RESULT);
        self.shift(Operation::ShiftLeft, ty, EXTRA, EXTRA, 32);
        self.op(Operation::MulHalves, ty, RESULT, x, y);
        self.op(Operation::Add, ty, r, RESULT, EXTRA);
    }

    /// Emits the maximum or minimum of floats, with +0 above -0. The machine's instruction returns its second operand
    /// if both operands are zeros. So the code runs the instruction with both orders of the operands, and combines the
    /// results by a bitwise `and` (maximum) or `or` (minimum).
    fn extreme(&mut self, largest: bool, ty: Ty, r: u8, x: u8, y: u8) {
        let (operation, join) = if largest {
            (Operation::Largest, Operation::And)
        } else {
            (Operation::Smallest, Operation::Or)
        };
        self.op(operation, ty, EXTRA, x, y);
        let (x, y) = if planted(Fault::WideZero) { (x, y) } else { (y, x) };
        self.op(operation, ty, RESULT, x, y);
        self.op(join, ty, r, EXTRA, RESULT);
    }

    fn float_compare(&mut self, predicate: i32, ty: Ty, to: u8, x: u8, y: &Operand) {
        let code = self.known_256(Operation::Compare, ty);
        let [to, x] = [to, x].map(|r| sized(r, ty.bytes()));
        self.four(code, to, x, y, predicate);
    }

    fn compare_256(&mut self, order: Order, signed: bool, ty: Ty, x: Reg, y: Reg, r: u8) {
        let x = self.vector(x, FIRST);
        if matches!(ty.lane, Lane::F64 | Lane::F32) {
            let predicate = match order {
                Order::Eq => 0,
                Order::Ne => 4,
                Order::Unordered => 3,
                Order::Lt => 0x11,
                Order::Le => 0x12,
                Order::Gt => 0x1e,
                Order::Ge => 0x1d,
            };
            let y = self.operand_256(y, ty, SECOND);
            self.float_compare(predicate, ty, r, x, &y);
        } else {
            let y = self.vector(y, SECOND);
            let (x, y) = if signed {
                (x, y)
            } else {
                let sign = self.repeated_bits(ty.lane, 1 << (8 * ty.lane.bytes() - 1));
                self.op_with(Operation::Xor, ty, EXTRA, x, &sign);
                self.op_with(Operation::Xor, ty, RESULT, y, &sign);
                (EXTRA, RESULT)
            };
            let (operation, x, y, not) = match order {
                Order::Eq => (Operation::Equal, x, y, false),
                Order::Ne => (Operation::Equal, x, y, true),
                Order::Gt => (Operation::Greater, x, y, false),
                Order::Lt => (Operation::Greater, y, x, false),
                Order::Le => (Operation::Greater, x, y, true),
                Order::Ge => (Operation::Greater, y, x, true),
                Order::Unordered => return self.no_bits(r),
            };
            self.op(operation, ty, r, x, y);
            if not {
                self.all_bits(EXTRA);
                self.op(Operation::Xor, WHOLE, r, r, EXTRA);
            }
        }
        if is_narrow(ty) {
            let widen = Code::VEX_Vpmovsxdq_ymm_xmmm128;
            self.put(Instruction::with2(widen, self.whole(r), sized(r, 16)));
        }
    }
}
