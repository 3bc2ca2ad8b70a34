//! Loops with lanes, their streams (the base pointers of accesses in such a loop), and addresses.

use super::super::form::{At, LoopId, Stream};
use super::emit::{Emit, STREAMS, memory, sized};
use iced_x86::{Code, Instruction, MemoryOperand, Register};

impl Emit<'_> {
    pub(super) fn lanes(
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
        let from = i32::try_from(from).map_err(|_| "a loop is too long")?;
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

    /// Emits the computation of a stream's pointer (the base of accesses in a loop with lanes) into `to`. Overwrites
    /// r15.
    fn point(&mut self, to: Register, stream: &Stream) -> Result<(), &'static str> {
        let word = self.word(stream.word, false);
        self.put(Instruction::with2(Code::Mov_r64_rm64, to, word));
        for (of, bytes) in &stream.outer {
            let bytes = i32::try_from(*bytes).map_err(|_| "a stride is too large")?;
            if bytes == 0 {
                continue;
            }
            let counter = self.counter(*of);
            self.put(Instruction::with3(Code::Imul_r64_rm64_imm32, Register::R15, counter, bytes));
            self.put(Instruction::with2(Code::Add_r64_rm64, to, Register::R15));
        }
        if let Some((reg, bytes)) = stream.computed {
            let from = sized(self.vector(reg, self.m.operands[0]), 16);
            let (by, r15) = (bytes as i32, Register::R15);
            self.put(Instruction::with2(self.m.to_general, r15, from));
            self.put(Instruction::with3(Code::Imul_r64_rm64_imm32, r15, r15, by));
            self.put(Instruction::with2(Code::Add_r64_rm64, to, r15));
        }
        Ok(())
    }

    /// Returns the base register, index register, scale and offset of an access's address. If the elements are not
    /// contiguous (`apart`), the index register stays free for a vector of offsets.
    pub(super) fn address(&mut self, at: &At, apart: bool) -> (Register, Register, u32, i64) {
        match at {
            At::Outer { stream, offset } => {
                if self.point(Register::R14, stream).is_err() {
                    self.a.fail("a stride is too large".to_owned());
                }
                (Register::R14, Register::None, 1, i64::from(*offset))
            }
            At::Lane { stream, stride, inner, offset } => {
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
                let base = if inner.is_empty() { base } else { self.moved(base, inner) };
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

    /// Emits the addition of inner loops' offsets (counter times stride in bytes) to the pointer `base`. Returns r15,
    /// which holds the sum.
    fn moved(&mut self, base: Register, inner: &[(LoopId, i64)]) -> Register {
        let (r14, r15) = (Register::R14, Register::R15);
        if base != r15 {
            self.put(Instruction::with2(Code::Mov_r64_rm64, r15, base));
        }
        for (of, bytes) in inner {
            let Ok(bytes) = i32::try_from(*bytes) else {
                self.a.fail("a stride is too large".to_owned());
                break;
            };
            let counter = self.counter(*of);
            self.put(Instruction::with3(Code::Imul_r64_rm64_imm32, r14, counter, bytes));
            self.put(Instruction::with2(Code::Add_r64_rm64, r15, r14));
        }
        r15
    }

    pub(super) fn place(&mut self, at: &At) -> MemoryOperand {
        let (base, index, scale, offset) = self.address(at, false);
        MemoryOperand::new(base, index, scale, offset, 1, false, Register::None)
    }
}
