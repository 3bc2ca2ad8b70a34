//! Calls of scalar functions, element by element.

use super::super::form::{Class, Inst, When};
use super::super::regalloc::Location;
use super::emit::{Emit, by_size, memory, sized};
use super::frame::CALLER_SAVED;
use iced_x86::{Code, Instruction, MemoryOperand, Register};
use smallvec::SmallVec;

impl Emit<'_> {
    /// Emits calls of a scalar function for the active elements for which its inlined operations give no valid
    /// result.
    pub(super) fn call(&mut self, at: usize) -> Result<(), &'static str> {
        let program = self.program;
        let Inst::Call { ty, word, number, to, args, when } = &program.body[at] else {
            return Ok(());
        };
        let frame = |at: usize| memory(Register::RSP, at as i64);
        let (m, first) = (self.m, self.m.operands[0]);

        // Save the vector and mask registers whose values are used after the call, since the called function may
        // overwrite all vector and mask registers.
        let mut vectors: SmallVec<[u8; 32]> = SmallVec::new();
        let mut masks: SmallVec<[u8; 8]> = SmallVec::new();
        for (reg, class) in &program.regs {
            if let (Location::Register(r), Some((start, end))) =
                (self.allocation.locations[reg], self.allocation.live[reg])
                && start < at
                && end > at
                && reg != *to
            {
                match class {
                    Class::Mask if !m.masks.is_empty() => masks.push(r),
                    Class::Vector | Class::Mask => vectors.push(r),
                }
            }
        }
        for r in &vectors {
            let slot = frame(self.frame.saved + m.bytes * usize::from(*r));
            self.store_whole(slot, *r);
        }
        masks.extend(m.active);
        for r in &masks {
            let slot = frame(self.frame.saved_masks + 8 * usize::from(*r));
            let k = Register::K0 + u32::from(*r);
            self.put(Instruction::with2(Code::VEX_Kmovw_m16_kr, slot, k));
        }
        // Save general registers: rdi (the pointer to the row), rax (the counter of the loop with lanes) and the
        // streams' pointers.
        let streams = self.streams.iter().flatten();
        let in_use =
            |r: &Register| CALLER_SAVED[..2].contains(r) || streams.clone().any(|s| s == r);
        let general: SmallVec<[(usize, Register); 9]> =
            CALLER_SAVED.into_iter().enumerate().filter(|(_, r)| in_use(r)).collect();
        for (i, r) in &general {
            let slot = frame(self.frame.saved_general + 8 * i);
            self.put(Instruction::with2(Code::Mov_rm64_r64, slot, *r));
        }
        for (i, x) in args.iter().enumerate() {
            let x = self.vector(*x, first);
            let slot = frame(self.frame.arguments + m.bytes * i);
            self.store_whole(slot, x);
        }
        if let When::Outside(_) = when {
            let x = self.vector(*to, first);
            let results = frame(self.frame.results);
            self.store_whole(results, x);
        }
        match (ty.n, when) {
            (1, _) => self.put(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, 1)),
            (n, When::Always) => {
                let active = (1i32 << self.active.min(n)) - 1;
                self.put(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, active));
            }
            (n, When::Outside(inside)) => {
                let inside = (m.bits)(self, *inside, n);
                let active = (1i32 << self.active.min(n)) - 1;
                self.put(Instruction::with2(Code::Mov_r32_rm32, Register::EAX, inside));
                self.put(Instruction::with1(Code::Not_rm32, Register::EAX));
                self.put(Instruction::with2(Code::And_rm32_imm32, Register::EAX, active));
            }
        }
        self.put(Instruction::with2(Code::Mov_rm64_r64, frame(self.frame.left), Register::RAX));
        self.put(Ok(Instruction::with(Code::VEX_Vzeroupper)));

        // Loop over the elements: the lowest set bit of the mask of remaining elements is the next element's index.
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
            let from = element(self.frame.arguments + m.bytes * i);
            let load = by_size(m.load_one, ty.lane);
            self.put(Instruction::with2(load, sized(i as u8, 16), from));
        }
        // Reload the pointer to the row (the nest's arguments), which was in rdi.
        let row = frame(self.frame.saved_general);
        self.put(Instruction::with2(Code::Mov_r64_rm64, Register::RAX, row));
        let function = memory(Register::RAX, 8 * *word as i64);
        self.put(Instruction::with2(Code::Mov_r64_rm64, Register::RAX, function));
        if let Some(number) = number {
            self.put(Instruction::with2(Code::Mov_r64_imm64, Register::RDI, *number));
        }
        self.put(Instruction::with1(Code::Call_rm64, Register::RAX));
        self.put(Instruction::with2(Code::Mov_r64_rm64, Register::RCX, frame(self.frame.element)));
        let result = element(self.frame.results);
        self.put(Instruction::with2(by_size(m.store_one, ty.lane), result, Register::XMM0));
        self.a.jump(Code::Jmp_rel32_64, again);
        self.a.bind(done);

        for (i, r) in &general {
            let slot = frame(self.frame.saved_general + 8 * i);
            self.put(Instruction::with2(Code::Mov_r64_rm64, *r, slot));
        }
        for r in &masks {
            let slot = frame(self.frame.saved_masks + 8 * usize::from(*r));
            let k = Register::K0 + u32::from(*r);
            self.put(Instruction::with2(Code::VEX_Kmovw_kr_km16, k, slot));
        }
        for r in &vectors {
            let slot = frame(self.frame.saved + m.bytes * usize::from(*r));
            self.load_whole(*r, slot, None);
        }
        let results = frame(self.frame.results);
        self.load_whole(self.target(*to), results, None);
        self.store_if_spilled(*to);
        Ok(())
    }
}
