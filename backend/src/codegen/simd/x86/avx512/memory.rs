//! Loads and stores of AVX-512: under masks, gathers and scatters.

use super::super::super::form::{Access, At, Reg, Ty};
use super::super::emit::{Emit, by_size, sized};
use super::ACTIVE;
use super::codes::Operation;
use iced_x86::{Code, Instruction, MemoryOperand, Register};

impl Emit<'_> {
    /// Returns the mask register of an access: the active ones of `n` elements for which the guard holds. Returns
    /// `None` if the access is to all `n` elements.
    fn access_mask(&mut self, n: usize, guard: Option<Reg>) -> Option<Register> {
        match guard {
            None if n == 1 || self.active >= n => None,
            None => Some(ACTIVE),
            Some(guard) => {
                let guard = self.mask(guard, Register::K1);
                if n == 1 {
                    // A uniform guard has equal truth values for all elements, so use the first one for this single
                    // element.
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

    /// Returns the gather or scatter instruction for elements that are not contiguous, and its memory operand with a
    /// vector of offsets.
    fn gather_or_scatter(
        &mut self,
        ty: Ty,
        at: &At,
        access: Access,
        operation: [Operation; 2],
    ) -> (Code, MemoryOperand) {
        let [near, far] = operation;
        let (operation, offsets, scale, bytes) = match access {
            Access::Indexed(offsets) => (
                far,
                self.vector(offsets, 29),
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
                self.load_whole(29, from, constant);
                (near, 29, 1, ty.bytes().max(16))
            }
            Access::Unit | Access::One => {
                self.a.fail("the elements are contiguous".to_owned());
                (near, 29, 1, 64)
            }
        };
        let code = self.known(operation, ty);
        let (base, _, _, offset) = self.address(at, true);
        let none = Register::None;
        (code, MemoryOperand::new(base, sized(offsets, bytes), scale, offset, 1, false, none))
    }

    pub(super) fn load_512(
        &mut self,
        ty: Ty,
        to: Reg,
        at: &At,
        access: Access,
        guard: Option<Reg>,
    ) {
        let r = self.target(to);
        match access {
            Access::One => {
                // No mask of active elements is needed. If the value is uniform (equal in all elements), all truth
                // values of its guard are equal; any other guard is already restricted to active elements.
                let guard = guard.map(|g| self.mask(g, Register::K1));
                let from = self.place(at);
                let made =
                    Instruction::with2(by_size(self.m.broadcast, ty.lane), sized(r, 64), from);
                self.put_with(made, None, guard, guard.is_some());
            }
            Access::Unit => {
                let mask = self.access_mask(ty.n, guard);
                let from = self.place(at);
                let code = self.known(Operation::Load, ty);
                let made = Instruction::with2(code, sized(r, ty.bytes()), from);
                self.put_with(made, None, mask, mask.is_some());
            }
            Access::Strided(_) | Access::Indexed(_) => {
                let mask = self.access_mask(ty.n, guard).unwrap_or(ACTIVE);
                // Elements that are not loaded must be zero, and the gather instruction clears its mask register, so
                // give the instruction a copy of the mask.
                if mask != Register::K1 {
                    self.put(Instruction::with2(Code::VEX_Kmovw_kr_km16, Register::K1, mask));
                }
                let (code, from) = self.gather_or_scatter(
                    ty,
                    at,
                    access,
                    [Operation::Gather, Operation::GatherFar],
                );
                // A gather must not write the register that holds its offsets, at any vector width.
                let overlap = [16, 32, 64].iter().any(|bytes| from.index == sized(r, *bytes));
                let into = if overlap { 31 } else { r };
                let clear = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
                let whole = sized(into, 64);
                self.put(Instruction::with3(clear, whole, whole, whole));
                let made = Instruction::with2(code, sized(into, ty.bytes()), from);
                self.put_with(made, None, Some(Register::K1), false);
                if overlap {
                    self.copy_whole(r, into);
                }
            }
        }
        self.store_if_spilled(to);
    }

    pub(super) fn store_512(
        &mut self,
        ty: Ty,
        x: Reg,
        at: &At,
        access: Access,
        guard: Option<Reg>,
    ) {
        let x = self.vector(x, 31);
        let mask = self.access_mask(ty.n, guard);
        match access {
            Access::One => {
                let to = self.place(at);
                let made = Instruction::with2(by_size(self.m.store_one, ty.lane), to, sized(x, 16));
                self.put_with(made, None, mask, false);
            }
            Access::Unit => {
                let to = self.place(at);
                let code = self.known(Operation::Store, ty);
                let made = Instruction::with2(code, to, sized(x, ty.bytes()));
                self.put_with(made, None, mask, false);
            }
            Access::Strided(_) | Access::Indexed(_) => {
                let mask = mask.unwrap_or(ACTIVE);
                if mask != Register::K1 {
                    self.put(Instruction::with2(Code::VEX_Kmovw_kr_km16, Register::K1, mask));
                }
                let (code, to) = self.gather_or_scatter(
                    ty,
                    at,
                    access,
                    [Operation::Scatter, Operation::ScatterFar],
                );
                let made = Instruction::with2(code, to, sized(x, ty.bytes()));
                self.put_with(made, None, Some(Register::K1), false);
            }
        }
    }

    pub(super) fn load_truth_512(
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
                // Load the single byte if the guard holds for any element, and copy the byte to the elements for which
                // the guard holds.
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
            (Access::Unit | Access::Strided(_) | Access::Indexed(_), _) => {
                let from = self.place(at);
                let made = Instruction::with2(load, bytes, from);
                self.put_with(made, None, Some(mask.unwrap_or(ACTIVE)), true);
                self.put(Instruction::with3(test, r, bytes, bytes));
            }
        }
        self.settle_mask(to);
    }

    pub(super) fn store_truth_512(
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
        // Use register zmm31 for the byte to store. The first scratch register may hold the address of the store.
        let bytes = sized(31, 16);
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
