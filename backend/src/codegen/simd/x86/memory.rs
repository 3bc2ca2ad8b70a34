//! Loops in lanes, their streams, loads and stores.

use super::super::form::{Access, At, LoopId, Reg, Stream, Ty};
use super::avx512::{ACTIVE, Emit, STREAMS, memory, sized};
use super::codes::{Does, broadcast_code, store_one};
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
        if let Some((reg, bytes)) = stream.computed {
            let from = sized(self.vector(reg, 29), 16);
            let (by, r15) = (bytes as i32, Register::R15);
            self.put(Instruction::with2(Code::EVEX_Vmovq_rm64_xmm, r15, from));
            self.put(Instruction::with3(Code::Imul_r64_rm64_imm32, r15, r15, by));
            self.put(Instruction::with2(Code::Add_r64_rm64, to, r15));
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

    /// A pointer moved by loops in the loop in lanes, in r15.
    fn moved(&mut self, base: Register, inner: &[(LoopId, i64)]) -> Register {
        let (r14, r15) = (Register::R14, Register::R15);
        if base != r15 {
            self.put(Instruction::with2(Code::Mov_r64_rm64, r15, base));
        }
        for (of, bytes) in inner {
            let Ok(bytes) = i32::try_from(*bytes) else {
                self.a.fail("a stride is long".to_owned());
                break;
            };
            let counter = self.counter(*of);
            self.put(Instruction::with3(Code::Imul_r64_rm64_imm32, r14, counter, bytes));
            self.put(Instruction::with2(Code::Add_r64_rm64, r15, r14));
        }
        r15
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

    /// Elements that are apart: the instruction, and the operand with a vector of places.
    fn apart(&mut self, ty: Ty, at: &At, access: Access, does: [Does; 2]) -> (Code, MemoryOperand) {
        let [near, far] = does;
        let (does, places, scale, bytes) = match access {
            Access::Places(places) => (
                far,
                self.vector(places, 29),
                ty.lane.bytes() as u32,
                8 * ty.n.max(16 / ty.lane.bytes()),
            ),
            Access::Strided(stride) => {
                let offset = |i: i64| (i * stride).to_le_bytes();
                let offsets: Vec<u8> = if ty.lane.bytes() == 8 {
                    (0..8).flat_map(offset).collect()
                } else {
                    (0..16).flat_map(|i| offset(i)[..4].to_vec()).collect()
                };
                let constant = Some(self.a.constant(&offsets));
                let from = self.a.constant_operand(false);
                let load = Code::EVEX_Vmovups_zmm_k1z_zmmm512;
                let made = Instruction::with2(load, sized(29, 64), from);
                self.put_with(made, constant, None, false);
                (near, 29, 1, ty.bytes().max(16))
            }
            Access::Unit | Access::One => {
                self.a.fail("elements are side by side".to_owned());
                (near, 29, 1, 64)
            }
        };
        let code = self.known(does, ty);
        let (base, _, _, offset) = self.address(at, true);
        let none = Register::None;
        (code, MemoryOperand::new(base, sized(places, bytes), scale, offset, 1, false, none))
    }

    pub(super) fn load(&mut self, ty: Ty, to: Reg, at: &At, access: Access, guard: Option<Reg>) {
        let r = self.target(to);
        match access {
            Access::One => {
                // Of a uniform value the guard has all truths or none; of another one those of active elements.
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
            Access::Strided(_) | Access::Places(_) => {
                let mask = self.access_mask(ty.n, guard).unwrap_or(ACTIVE);
                // Elements that are not read are zero; the instruction clears its mask.
                if mask != Register::K1 {
                    self.put(Instruction::with2(Code::VEX_Kmovw_kr_km16, Register::K1, mask));
                }
                let (code, from) = self.apart(ty, at, access, [Does::Gather, Does::GatherFar]);
                // A gather must not write the register that holds its places.
                let overlap = [16, 32, 64].iter().any(|bytes| from.index == sized(r, *bytes));
                let into = if overlap { 31 } else { r };
                let clear = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
                let whole = sized(into, 64);
                self.put(Instruction::with3(clear, whole, whole, whole));
                let made = Instruction::with2(code, sized(into, ty.bytes()), from);
                self.put_with(made, None, Some(Register::K1), false);
                if overlap {
                    let copy = Code::EVEX_Vmovaps_zmm_k1z_zmmm512;
                    self.put(Instruction::with2(copy, sized(r, 64), whole));
                }
            }
        }
        self.settle(to);
    }

    pub(super) fn store(&mut self, ty: Ty, x: Reg, at: &At, access: Access, guard: Option<Reg>) {
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
            Access::Strided(_) | Access::Places(_) => {
                let mask = mask.unwrap_or(ACTIVE);
                if mask != Register::K1 {
                    self.put(Instruction::with2(Code::VEX_Kmovw_kr_km16, Register::K1, mask));
                }
                let (code, to) = self.apart(ty, at, access, [Does::Scatter, Does::ScatterFar]);
                let made = Instruction::with2(code, to, sized(x, ty.bytes()));
                self.put_with(made, None, Some(Register::K1), false);
            }
        }
    }

    pub(super) fn load_truth(
        &mut self,
        n: usize,
        to: Reg,
        at: &At,
        access: Access,
        guard: Option<Reg>,
    ) {
        let mask = self.access_mask(n, guard);
        let load = Code::EVEX_Vmovdqu8_xmm_k1z_xmmm128;
        let test = Code::EVEX_Vptestmb_kr_k1_xmm_xmmm128;
        let bytes = sized(29, 16);
        let r = self.mask_target(to);
        match (access, guard) {
            (Access::One, None) => {
                let from = self.place(at);
                self.put(Instruction::with2(Code::Movzx_r32_rm8, Register::R15D, from));
                self.truth_of_r15();
                self.put(Instruction::with2(Code::VEX_Kmovw_kr_r32, r, Register::R15D));
            }
            (Access::One, Some(guard)) => {
                // One byte, if an element asks for it; then for those that do.
                let mask = mask.unwrap_or(ACTIVE);
                let (to_mask, to_general) = (Code::VEX_Kmovw_kr_r32, Code::VEX_Kmovw_r32_kr);
                self.put(Instruction::with2(to_general, Register::R15D, mask));
                self.truth_of_r15();
                self.put(Instruction::with2(Code::And_rm32_imm8, Register::R15D, 1));
                self.put(Instruction::with2(to_mask, Register::K1, Register::R15D));
                let from = self.place(at);
                let made = Instruction::with2(load, bytes, from);
                self.put_with(made, None, Some(Register::K1), true);
                self.put(Instruction::with3(test, Register::K1, bytes, bytes));
                self.put(Instruction::with2(to_general, Register::R15D, Register::K1));
                self.truth_of_r15();
                self.put(Instruction::with2(to_mask, Register::K1, Register::R15D));
                let guard = self.mask(guard, Register::K0);
                let both = Code::VEX_Kandw_kr_kr_kr;
                self.put(Instruction::with3(both, r, Register::K1, guard));
            }
            (Access::Unit | Access::Strided(_) | Access::Places(_), _) => {
                let from = self.place(at);
                let made = Instruction::with2(load, bytes, from);
                self.put_with(made, None, Some(mask.unwrap_or(ACTIVE)), true);
                self.put(Instruction::with3(test, r, bytes, bytes));
            }
        }
        self.settle_mask(to);
    }

    pub(super) fn store_truth(
        &mut self,
        n: usize,
        x: Reg,
        at: &At,
        access: Access,
        guard: Option<Reg>,
    ) {
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
}
