//! Loads and stores of AVX2: with vector registers as masks, gathers, and accesses element by element.

use super::super::super::form::{Access, At, Lane, Reg, Ty};
use super::super::assembler::Label;
use super::super::emit::{Emit, Operand, by_size, memory, sized};
use super::codes::Operation;
use super::{EXTRA, FIRST, RESULT, SECOND, WHOLE};
use iced_x86::{Code, Instruction, MemoryOperand, Register};

/// Returns the memory operand whose address is `bytes` bytes above that of `at`.
fn offset_by(mut at: MemoryOperand, bytes: usize) -> MemoryOperand {
    at.displacement += bytes as i64;
    at
}

/// Returns the bytes of each element in a mask of `n` elements: 4 for eight elements, otherwise 8.
fn mask_bytes(n: usize) -> usize {
    32 / n.max(4)
}

impl Emit<'_> {
    /// Returns the offset of a constant, a mask whose first `active` elements are set; each element has `bytes` bytes.
    pub(super) fn active_bits(&mut self, bytes: usize, active: usize) -> usize {
        let mut mask = vec![0xff; bytes * active];
        mask.resize(self.m.bytes, 0);
        self.a.constant(&mask)
    }

    /// Returns the register with the mask of an access to elements of type `ty`: the active elements for which the
    /// guard holds. Returns `None` if the access is to all elements.
    fn allowed(&mut self, ty: Ty, guard: Option<Reg>) -> Option<u8> {
        let all = self.active >= ty.n;
        let guard = guard.map(|guard| self.mask_for(guard, ty));
        if all {
            return guard;
        }
        let constant = self.active_bits(ty.lane.bytes(), self.active);
        let from = self.a.constant_operand(false);
        match guard {
            None => self.load_whole(EXTRA, from, Some(constant)),
            Some(guard) => {
                let active = Operand::Memory(from, Some(constant));
                self.op_with(Operation::And, WHOLE, EXTRA, guard, &active);
            }
        }
        Some(EXTRA)
    }

    /// Returns slot `number` (0 to 2) of the stack frame for a vector whose elements are accessed one by one.
    fn elements(&self, number: usize) -> MemoryOperand {
        memory(Register::RSP, (self.frame.elements + number * self.m.bytes) as i64)
    }

    /// Computes in r14 the address of an access, or the address of a constant zero if the guard holds for no element,
    /// so that a load reads only valid memory.
    fn address_if_any(&mut self, at: &At, guard: Reg, n: usize) -> MemoryOperand {
        let from = self.place(at);
        let (r14, r15) = (Register::R14, Register::R15);
        self.put(Instruction::with2(Code::Lea_r64_m, r14, from));
        let bits = self.bits_256(guard, n.max(2));
        self.put(Instruction::with2(Code::Test_rm32_r32, bits, bits));
        let zero = Some(self.a.constant(&[0; 8]));
        let nowhere = self.a.constant_operand(false);
        self.put_with(Instruction::with2(Code::Lea_r64_m, r15, nowhere), zero, None, false);
        self.put(Instruction::with2(Code::Cmove_r64_rm64, r14, r15));
        memory(r14, 0)
    }

    pub(super) fn load_256(
        &mut self,
        ty: Ty,
        to: Reg,
        at: &At,
        access: Access,
        guard: Option<Reg>,
    ) {
        let r = self.target(to);
        match (access, guard) {
            (Access::One, None) => {
                let from = self.place(at);
                self.broadcast_from(ty.lane, r, from, None);
            }
            (Access::One, Some(guard)) => {
                let from = self.address_if_any(at, guard, ty.n);
                self.broadcast_from(ty.lane, FIRST, from, None);
                let guard = self.mask_for(guard, ty);
                self.op(Operation::And, WHOLE, r, FIRST, guard);
            }
            (Access::Unit, _) => {
                let mask = self.allowed(ty, guard);
                let from = self.place(at);
                let bytes = ty.bytes();
                match mask {
                    None => {
                        let code = self.known_256(Operation::Load, ty);
                        self.put(Instruction::with2(code, sized(r, bytes), from));
                    }
                    Some(mask) => {
                        let code = self.known_256(Operation::MaskedLoad, ty);
                        let mask = sized(mask, bytes);
                        self.put(Instruction::with3(code, sized(r, bytes), mask, from));
                    }
                }
            }
            (Access::Strided(stride), None)
                if stride == 2 * ty.lane.bytes() as i64
                    && ty.bytes() == 32
                    && self.active >= ty.n =>
            {
                self.every_second(ty, r, at);
            }
            (Access::Strided(_) | Access::Indexed(_), _) => self.gather(ty, r, at, access, guard),
        }
        self.store_if_spilled(to);
    }

    /// Loads every second element of a full vector by two plain loads and two shuffles, which take a fraction of a
    /// gather's time. The second load ends at the last element that is wanted, so it reads no memory behind it.
    fn every_second(&mut self, ty: Ty, r: u8, at: &At) {
        let from = self.place(at);
        let next = offset_by(from, 32 - ty.lane.bytes());
        let wide = |r: u8| sized(r, 32);
        self.put(Instruction::with2(Code::VEX_Vmovups_ymm_ymmm256, wide(FIRST), from));
        // From each half of both vectors: of f32 the elements 0, 2 and 1, 3; of f64 the elements 0 and 1.
        let (shuffle, order) = match ty.lane {
            Lane::F32 | Lane::I32 => (Code::VEX_Vshufps_ymm_ymm_ymmm256_imm8, 0b1101_1000),
            Lane::F64 | Lane::I64 => (Code::VEX_Vshufpd_ymm_ymm_ymmm256_imm8, 0b1010),
        };
        self.put(Instruction::with4(shuffle, wide(FIRST), wide(FIRST), next, order));
        // The quarters are those of the first halves, then those of the second halves: exchange the middle ones.
        let exchange = Code::VEX_Vpermpd_ymm_ymmm256_imm8;
        self.put(Instruction::with3(exchange, wide(r), wide(FIRST), 0b1101_1000));
    }

    fn gather(&mut self, ty: Ty, r: u8, at: &At, access: Access, guard: Option<Reg>) {
        // The gather instruction clears its mask register, so give the instruction a copy of the mask.
        match self.allowed(ty, guard) {
            None => self.all_bits(EXTRA),
            Some(mask) => self.copy_whole(EXTRA, mask),
        }
        let (operation, offsets, scale, bytes) = match access {
            Access::Indexed(offsets) => {
                let offsets = self.vector(offsets, FIRST);
                (Operation::GatherFar, offsets, ty.lane.bytes() as u32, 8 * ty.n)
            }
            Access::Strided(stride) => {
                let size = ty.lane.bytes();
                let offset = |i: usize| (i as i64 * stride).to_le_bytes()[..size].to_vec();
                let all: Vec<u8> = (0..self.m.bytes / size).flat_map(offset).collect();
                let constant = self.a.constant(&all);
                let from = self.a.constant_operand(false);
                self.load_whole(FIRST, from, Some(constant));
                (Operation::Gather, FIRST, 1, ty.bytes())
            }
            Access::Unit | Access::One => {
                return self.a.fail("the elements are contiguous".to_owned());
            }
        };
        // Four offsets of 64 bits fill a 256-bit register, even if the gathered elements have 32 bits.
        let code = self.known_256(operation, ty);
        let (base, _, _, offset) = self.address(at, true);
        let offsets_in = sized(offsets, bytes);
        let none = Register::None;
        let from = MemoryOperand::new(base, offsets_in, scale, offset, 1, false, none);
        // A gather must not write the register that holds its offsets. Elements outside the mask must be zero, so the
        // result register is cleared first.
        let into = if offsets == r { RESULT } else { r };
        self.no_bits(into);
        let (to, mask) = (sized(into, ty.bytes()), sized(EXTRA, ty.bytes()));
        self.put(Instruction::with3(code, to, from, mask));
        self.copy_whole(r, into);
    }

    pub(super) fn store_256(
        &mut self,
        ty: Ty,
        x: Reg,
        at: &At,
        access: Access,
        guard: Option<Reg>,
    ) {
        let x = self.vector(x, SECOND);
        match access {
            Access::One => {
                let to = self.place(at);
                let skip = guard.map(|guard| self.jump_unless(guard));
                let code = by_size(self.m.store_one, ty.lane);
                self.put(Instruction::with2(code, to, sized(x, 16)));
                skip.into_iter().for_each(|skip| self.a.bind(skip));
            }
            Access::Unit => {
                let mask = self.allowed(ty, guard);
                let to = self.place(at);
                let x = sized(x, ty.bytes());
                match mask {
                    None => {
                        let code = self.known_256(Operation::Store, ty);
                        self.put(Instruction::with2(code, to, x));
                    }
                    Some(mask) => {
                        let code = self.known_256(Operation::MaskedStore, ty);
                        let mask = sized(mask, ty.bytes());
                        self.put(Instruction::with3(code, to, mask, x));
                    }
                }
            }
            Access::Strided(_) | Access::Indexed(_) => self.scatter(ty, x, at, access, guard),
        }
    }

    /// Emits a jump over the code that follows, taken if the guard is false. The guard must be uniform (equal for all
    /// elements). Returns the jump's label, to be bound after that code. Overwrites r15.
    fn jump_unless(&mut self, guard: Reg) -> Label {
        let bits = self.bits_256(guard, 1);
        let skip = self.a.label();
        self.put(Instruction::with2(Code::Test_rm32_imm32, bits, 1));
        self.a.jump(Code::Je_rel32_64, skip);
        skip
    }

    /// Stores the active elements for which the guard holds, one by one in the order of their index in the vector. So
    /// if two elements have equal addresses, the later element remains.
    fn scatter(&mut self, ty: Ty, x: u8, at: &At, access: Access, guard: Option<Reg>) {
        let size = ty.lane.bytes();
        self.store_whole(self.elements(0), x);
        if let Some(guard) = guard {
            let guard = self.mask_for(guard, ty);
            self.store_whole(self.elements(2), guard);
        }
        if let Access::Indexed(offsets) = access {
            let offsets = self.vector(offsets, FIRST);
            self.store_whole(self.elements(1), offsets);
        }
        let (base, _, _, offset) = self.address(at, true);
        let index = if base == Register::R15 { Register::R14 } else { Register::R15 };
        for i in 0..self.active.min(ty.n) {
            let skip = guard.map(|_| self.skip(offset_by(self.elements(2), i * size)));
            let from = offset_by(self.elements(0), i * size);
            let element = sized(FIRST, 16);
            self.put(Instruction::with2(by_size(self.m.load_one, ty.lane), element, from));
            let to = match access {
                Access::Strided(stride) => {
                    let offset = offset + stride * i as i64;
                    if i32::try_from(offset).is_err() {
                        self.a.fail("a stride is too large".to_owned());
                    }
                    memory(base, offset)
                }
                _ => {
                    let place = offset_by(self.elements(1), i * 8);
                    self.put(Instruction::with2(Code::Mov_r64_rm64, index, place));
                    let none = Register::None;
                    MemoryOperand::new(base, index, size as u32, offset, 1, false, none)
                }
            };
            self.put(Instruction::with2(by_size(self.m.store_one, ty.lane), to, element));
            skip.into_iter().for_each(|skip| self.a.bind(skip));
        }
    }

    /// Emits a jump over the code that follows, taken if the 32 bits at `of`, in the frame, are 0. Returns the jump's
    /// label, to be bound after that code.
    fn skip(&mut self, of: MemoryOperand) -> Label {
        let skip = self.a.label();
        self.put(Instruction::with2(Code::Cmp_rm32_imm8, of, 0));
        self.a.jump(Code::Je_rel32_64, skip);
        skip
    }

    pub(super) fn load_truth_256(
        &mut self,
        n: usize,
        to: Reg,
        at: &At,
        access: Access,
        guard: Option<Reg>,
    ) {
        let r = self.target(to);
        match (access, guard) {
            (Access::One, None) => {
                let from = self.place(at);
                self.put(Instruction::with2(Code::Movzx_r32_rm8, Register::R15D, from));
                self.truth_of_r15();
                self.spread_r15(r);
            }
            (Access::One, Some(guard)) => {
                let from = self.address_if_any(at, guard, n);
                self.put(Instruction::with2(Code::Movzx_r32_rm8, Register::R15D, from));
                self.truth_of_r15();
                self.spread_r15(FIRST);
                let guard = self.vector(guard, EXTRA);
                self.op(Operation::And, WHOLE, r, FIRST, guard);
            }
            (Access::Unit | Access::Strided(_) | Access::Indexed(_), _) => {
                self.load_bytes(n, at, guard);
                let (code, ty) = match n {
                    8 => (Code::VEX_Vpmovzxbd_ymm_xmmm64, Ty { lane: Lane::I32, n: 8 }),
                    _ => (Code::VEX_Vpmovzxbq_ymm_xmmm32, WHOLE),
                };
                let (bytes, all) = (sized(FIRST, 16), self.whole(FIRST));
                self.put(Instruction::with2(code, all, bytes));
                self.no_bits(EXTRA);
                self.op(Operation::Greater, ty, r, FIRST, EXTRA);
            }
        }
        self.store_if_spilled(to);
    }

    /// Loads `n` contiguous bytes. The bytes of inactive elements, or of elements that the guard excludes, are 0.
    fn load_bytes(&mut self, n: usize, at: &At, guard: Option<Reg>) {
        let bytes = sized(FIRST, 16);
        let insert = Code::VEX_Vpinsrb_xmm_xmm_r32m8_imm8;
        if let Some(guard) = guard {
            let guard = self.vector(guard, EXTRA);
            self.store_whole(self.elements(2), guard);
        }
        let from = self.place(at);
        match (n, guard) {
            (8, None) if self.active >= 8 => {
                self.put(Instruction::with2(Code::VEX_Vmovq_xmm_xmmm64, bytes, from));
            }
            (4, None) if self.active >= 4 => {
                self.put(Instruction::with2(Code::VEX_Vmovd_xmm_rm32, bytes, from));
            }
            _ => {
                self.no_bits(FIRST);
                for i in 0..self.active.min(n) {
                    let mask = offset_by(self.elements(2), i * mask_bytes(n));
                    let skip = guard.map(|_| self.skip(mask));
                    let from = offset_by(from, i);
                    self.put(Instruction::with4(insert, bytes, bytes, from, i as i32));
                    skip.into_iter().for_each(|skip| self.a.bind(skip));
                }
            }
        }
    }

    pub(super) fn store_truth_256(
        &mut self,
        n: usize,
        x: Reg,
        at: &At,
        access: Access,
        guard: Option<Reg>,
    ) {
        let x = self.vector(x, SECOND);
        if access == Access::One {
            let to = self.place(at);
            let skip = guard.map(|guard| self.jump_unless(guard));
            let r15 = Register::R15D;
            self.put(Instruction::with2(Code::VEX_Vmovd_rm32_xmm, r15, sized(x, 16)));
            self.put(Instruction::with2(Code::And_rm32_imm8, r15, 1));
            self.put(Instruction::with2(Code::Mov_rm8_r8, to, Register::R15L));
            skip.into_iter().for_each(|skip| self.a.bind(skip));
            return;
        }
        if let Some(guard) = guard {
            let guard = self.vector(guard, EXTRA);
            self.store_whole(self.elements(2), guard);
        }
        let bytes = sized(FIRST, 16);
        let extract = Code::VEX_Vextractf128_xmmm128_ymm_imm8;
        match n {
            8 => {
                let (high, low) = (sized(EXTRA, 16), sized(x, 16));
                self.put(Instruction::with3(extract, high, self.whole(x), 1));
                let pack = Code::VEX_Vpackssdw_xmm_xmm_xmmm128;
                self.put(Instruction::with3(pack, bytes, low, high));
            }
            _ => {
                self.lower_halves(FIRST, x, EXTRA);
                let pack = Code::VEX_Vpackssdw_xmm_xmm_xmmm128;
                self.put(Instruction::with3(pack, bytes, bytes, bytes));
            }
        }
        let pack = Code::VEX_Vpacksswb_xmm_xmm_xmmm128;
        self.put(Instruction::with3(pack, bytes, bytes, bytes));
        let ones = self.repeated_bits(Lane::I64, 0x0101_0101_0101_0101);
        self.op_with(Operation::And, Ty { lane: Lane::I64, n: 2 }, FIRST, FIRST, &ones);
        let to = self.place(at);
        match (n, guard) {
            (8, None) if self.active >= 8 => {
                self.put(Instruction::with2(Code::VEX_Vmovq_xmmm64_xmm, to, bytes));
            }
            (4, None) if self.active >= 4 => {
                self.put(Instruction::with2(Code::VEX_Vmovd_rm32_xmm, to, bytes));
            }
            _ => {
                for i in 0..self.active.min(n) {
                    let mask = offset_by(self.elements(2), i * mask_bytes(n));
                    let skip = guard.map(|_| self.skip(mask));
                    let code = Code::VEX_Vpextrb_r32m8_xmm_imm8;
                    self.put(Instruction::with3(code, offset_by(to, i), bytes, i as i32));
                    skip.into_iter().for_each(|skip| self.a.bind(skip));
                }
            }
        }
    }
}
