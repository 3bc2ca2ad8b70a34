//! Conversions of AVX2. A conversion without an instruction is composed of exact parts whose sum is rounded once, or is
//! done element by element.

use super::super::super::form::{Conversion, Lane, Ty};
use super::super::emit::{Emit, memory, sized};
use super::codes::{Operation, conversion};
use super::{EXTRA, RESULT};
use iced_x86::{Code, Instruction, Register};

/// The bits of the f64 2⁵². Replacing the low 52 bits by an integer below 2⁵² gives the f64 of 2⁵² plus that integer.
const TWO_52: u64 = 0x4330_0000_0000_0000;
/// The bits of the f64 2⁸⁴, whose last mantissa bit has the value 2³².
const TWO_84: u64 = 0x4530_0000_0000_0000;

impl Emit<'_> {
    /// Emits the conversion of the `n` elements in register `x` to register `r`.
    pub(super) fn convert_256(
        &mut self,
        by: Conversion,
        n: usize,
        r: u8,
        x: u8,
    ) -> Result<(), &'static str> {
        if let Some((code, from, into)) = conversion(by, n) {
            self.put(Instruction::with2(code, sized(r, into), sized(x, from)));
            return Ok(());
        }
        let long = Ty { lane: Lane::I64, n };
        match by {
            Conversion::I64ToF64 => self.join_halves(n, r, x, 1 << 31),
            Conversion::U64ToF64 => self.join_halves(n, r, x, 0),
            Conversion::U32ToF64 => {
                let code = if n == 2 {
                    Code::VEX_Vpmovzxdq_xmm_xmmm64
                } else {
                    Code::VEX_Vpmovzxdq_ymm_xmmm128
                };
                self.put(Instruction::with2(code, sized(EXTRA, 8 * n), sized(x, 16)));
                let two_52 = self.repeated_bits(Lane::I64, TWO_52);
                self.op_with(Operation::Or, long, EXTRA, EXTRA, &two_52);
                let two_52 = self.repeated_bits(Lane::I64, TWO_52);
                self.op_with(Operation::Sub, Ty { lane: Lane::F64, n }, r, EXTRA, &two_52);
            }
            Conversion::U32ToF32 => {
                // A u32 is upper * 2¹⁶ + lower, where `upper` and `lower` have 16 bits. Both terms are exact as f32, so
                // only the sum is rounded.
                let (ints, floats) = (Ty { lane: Lane::I32, n }, Ty { lane: Lane::F32, n });
                let (code, bytes, _) =
                    conversion(Conversion::I32ToF32, n).ok_or("a conversion is not supported")?;
                self.shift(Operation::ShiftRight, ints, EXTRA, x, 16);
                let lower = self.repeated_bits(Lane::I32, 0xffff);
                self.op_with(Operation::And, ints, RESULT, x, &lower);
                for part in [EXTRA, RESULT] {
                    self.put(Instruction::with2(code, sized(part, bytes), sized(part, bytes)));
                }
                let scale = self.repeated_bits(Lane::F32, 65536f32.to_bits().into());
                self.op_with(Operation::Mul, floats, EXTRA, EXTRA, &scale);
                self.op(Operation::Add, floats, r, EXTRA, RESULT);
            }
            Conversion::I64ToI32 if n == 2 => {
                let code = Code::VEX_Vpshufd_xmm_xmmm128_imm8;
                self.put(Instruction::with3(code, sized(r, 16), sized(x, 16), 8));
            }
            Conversion::I64ToI32 => self.lower_halves(r, x, RESULT),
            Conversion::I64ToF32
            | Conversion::F64ToI64
            | Conversion::F32ToI64
            | Conversion::F64ToU32
            | Conversion::F32ToU32 => self.one_by_one(by, n, r, x),
            _ => return Err("a conversion is not supported"),
        }
        Ok(())
    }

    /// Emits the conversion of 64-bit integers to f64. An integer is upper * 2³² + lower, where `upper` and `lower`
    /// have 32 bits. Both terms are exact as low bits of the floats 2⁸⁴ and 2⁵², so only their addition rounds. For
    /// signed integers, `bias` flips the sign bit, so that the upper half is nonnegative.
    fn join_halves(&mut self, n: usize, r: u8, x: u8, bias: u64) {
        let (ints, floats) = (Ty { lane: Lane::I64, n }, Ty { lane: Lane::F64, n });
        let lower = self.repeated_bits(Lane::I64, u32::MAX.into());
        self.op_with(Operation::And, ints, EXTRA, x, &lower);
        let two_52 = self.repeated_bits(Lane::I64, TWO_52);
        self.op_with(Operation::Or, ints, EXTRA, EXTRA, &two_52);
        self.shift(Operation::ShiftRight, ints, RESULT, x, 32);
        let two_84 = self.repeated_bits(Lane::I64, TWO_84 | bias);
        self.op_with(Operation::Xor, ints, RESULT, RESULT, &two_84);
        // Subtract 2⁸⁴ + bias * 2³² + 2⁵². The last mantissa bit of this number has the value 2³².
        let both = self.repeated_bits(Lane::I64, (TWO_84 | bias) + (1 << 20));
        self.op_with(Operation::Sub, floats, RESULT, RESULT, &both);
        self.op(Operation::Add, floats, r, RESULT, EXTRA);
    }

    /// Converts the `n` elements of `x` one by one in general registers: stores them to the stack frame, converts each,
    /// and loads the results into `r`.
    fn one_by_one(&mut self, by: Conversion, n: usize, r: u8, x: u8) {
        let (from, to) = by.lanes();
        let start = self.frame.elements;
        let all = start + self.m.bytes;
        self.store_whole(memory(Register::RSP, start as i64), x);
        for i in 0..n {
            let element = memory(Register::RSP, (start + i * from.bytes()) as i64);
            let result = memory(Register::RSP, (all + i * to.bytes()) as i64);
            let (r14, r15) = (Register::R14, Register::R15);
            if by == Conversion::I64ToF32 {
                let low = sized(EXTRA, 16);
                let code = Code::VEX_Vcvtsi2ss_xmm_xmm_rm64;
                self.put(Instruction::with3(code, low, low, element));
                self.put(Instruction::with2(Code::VEX_Vmovss_m32_xmm, result, low));
                continue;
            }
            let code = match from {
                Lane::F64 | Lane::I64 => Code::VEX_Vcvttsd2si_r64_xmmm64,
                Lane::F32 | Lane::I32 => Code::VEX_Vcvttss2si_r64_xmmm32,
            };
            self.put(Instruction::with2(code, r15, element));
            if to.bytes() == 8 {
                self.put(Instruction::with2(Code::Mov_rm64_r64, result, r15));
                continue;
            }
            // Values out of the range of u32 become the greatest u32.
            self.put(Instruction::with2(Code::Mov_r32_imm32, Register::R14D, -1));
            self.put(Instruction::with2(Code::Cmp_r64_rm64, r15, r14));
            self.put(Instruction::with2(Code::Cmova_r64_rm64, r15, r14));
            self.put(Instruction::with2(Code::Mov_rm32_r32, result, Register::R15D));
        }
        self.load_whole(r, memory(Register::RSP, all as i64), None);
    }
}
