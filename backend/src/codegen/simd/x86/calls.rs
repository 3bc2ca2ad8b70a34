//! Calls of functions on single elements.

use super::super::form::{Class, Inst, When};
use super::super::regalloc::Home;
use super::avx512::{ACTIVE, Emit, memory, sized};
use super::codes::{load_one, store_one};
use super::frame::CALLER_SAVED;
use iced_x86::{Code, Instruction, MemoryOperand, Register};
use smallvec::SmallVec;

impl Emit<'_> {
    /// A function on single elements, over those that are active and not inside.
    pub(super) fn call(&mut self, at: usize) -> Result<(), &'static str> {
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
