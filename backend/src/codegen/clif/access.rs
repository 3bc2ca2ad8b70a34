//! Loads and stores: the addresses of elements in each lane (loop iterations that run at once), and the accesses.
//!
//! An address is a sum of terms, added from the outermost loop inwards. So the sum of the outer terms is invariant
//! in inner loops, and Cranelift's mid-end moves it out. A stride that an addressing mode can scale (1, 2, 4 or 8
//! bytes) is left to the addressing mode; for any other stride the loop advances a separate counter.

use super::partition::{Promotion, constant};
use super::scalar;
use super::translate::{At, Counter, Translator, begin};
use super::vector_value::{self, Lanes};
use crate::loop_ir::{Address, Arg, Buffer, BufferId, Place};
use crate::runtime::abi;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, MemFlagsData, Type, Value, types};
use smallvec::SmallVec;
use tapeloom_ir::{Code, Dtype, Literal, Problem};

/// The addresses of an access in each lane of the loop: a pointer plus an immediate offset.
enum LaneAddresses {
    /// All lanes access one element: its pointer and offset in bytes.
    One(Value, i32),
    /// Neighbouring lanes are a constant number of bytes apart: the pointer of the first lane, the offset in bytes, and
    /// the stride in bytes.
    Strided(Value, i32, i64),
    /// Each lane has an unrelated address: its pointer and offset in bytes.
    Each(SmallVec<[(Value, i32); 4]>),
}

impl Translator<'_, '_, '_> {
    pub(super) fn load(
        &mut self,
        buffer: BufferId,
        address: &Address,
        guard: Option<Arg>,
    ) -> Result<Lanes, Problem> {
        let dtype = self.p.buffers[buffer].ty.dtype;
        let scalar = scalar::register(dtype);
        let fixed = constant(address);
        if let Some(offset) = fixed
            && let Some(value) = self.elements.get(&(buffer, offset)).copied()
        {
            let value = Lanes::One(value);
            let Some(g) = guard else { return Ok(value) };
            let zero = Lanes::One(scalar::literal(self.b, Literal::zero(dtype)));
            let g = self.arg(g)?;
            return self.emit().code(Code::Select, dtype, &[g, value, zero]);
        }
        let guard = guard.map(|g| self.arg(g)).transpose()?;
        let addresses = self.lane_addresses(buffer, address)?;
        let input = matches!(self.p.buffers[buffer].place, Place::Input(_));
        // A load inside a branch or a `while` must not be moved out, because its bounds may be proved only there. Loads
        // also stay in place if the loop needs more values than there are registers: a hoisted value would occupy a
        // register throughout the iterations.
        let calm = self.cut.spilled.is_empty() && !self.crowded;
        let moves = guard.is_none() && input && self.inside == 0 && calm;
        let mut flags = MemFlagsData::trusted();
        if moves {
            flags = flags.with_readonly().with_can_move();
        }
        let uniform = matches!(guard, None | Some(Lanes::One(_)));
        match addresses {
            LaneAddresses::One(base, offset) if uniform => {
                let (base, offset) = self.guarded(&guard, 0, base, offset);
                let value = self.b.ins().load(scalar, flags, base, offset);
                let value = self.truth(buffer, value);
                if let Some(offset) = fixed
                    && guard.is_none()
                    && self.top()
                    && self.cut.buffers[buffer] != Promotion::Memory
                {
                    self.elements.insert((buffer, offset), value);
                }
                Ok(Lanes::One(value))
            }
            LaneAddresses::Strided(base, offset, bytes)
                if uniform
                    && bytes == i64::from(scalar.bytes())
                    && self.registers(dtype).is_some() =>
            {
                let Some((ty, count)) = self.registers(dtype) else { return Err(lost()) };
                // Elements are aligned to their own size, but a vector of elements need not be aligned to the vector's
                // size. So the flags do not say `aligned`.
                let mut flags = MemFlagsData::new().with_notrap();
                if moves {
                    flags = flags.with_readonly().with_can_move();
                }
                let mut registers = vector_value::Registers::new();
                for r in 0..count {
                    let (base, offset) = self.guarded(&guard, 0, base, offset + r as i32 * 16);
                    registers.push(self.b.ins().load(ty, flags, base, offset));
                }
                Ok(Lanes::Vector(registers))
            }
            addresses => {
                let guard = guard.map(|g| Lanes::Each(self.emit().each(&g, Dtype::Bool)));
                let mut each = vector_value::Registers::new();
                for lane in 0..self.width() {
                    let (base, offset) = addresses.lane(lane);
                    let (base, offset) = self.guarded(&guard, lane, base, offset);
                    let value = self.b.ins().load(scalar, flags, base, offset);
                    each.push(self.truth(buffer, value));
                }
                Ok(Lanes::Each(each))
            }
        }
    }

    /// Normalizes a loaded bool to 0 or 1, because an earlier value in the same memory of the workspace may have left
    /// another byte. (Arguments need this only if code in another language calls: bools of this process are the bytes 0
    /// and 1.)
    fn truth(&mut self, buffer: BufferId, value: Value) -> Value {
        let Buffer { ty, place, .. } = &self.p.buffers[buffer];
        let valid = self.valid_bools && matches!(place, Place::Input(_));
        if ty.dtype != Dtype::Bool || valid {
            return value;
        }
        self.b.ins().icmp_imm_u(IntCC::NotEqual, value, 0)
    }

    /// Returns the address of the element of a lane if the lane's guard is true or there is no guard, otherwise the
    /// address of zero bytes in the call's context. So a guarded load needs no branch.
    fn guarded(
        &mut self,
        guard: &Option<Lanes>,
        lane: usize,
        base: Value,
        offset: i32,
    ) -> (Value, i32) {
        let g = match guard {
            None => return (base, offset),
            Some(Lanes::One(g)) => *g,
            Some(Lanes::Each(g) | Lanes::Vector(g) | Lanes::Mask(g)) => g[lane],
        };
        let element = self.b.ins().iadd_imm_s(base, i64::from(offset));
        let zeros = self.b.ins().iadd_imm_s(self.context, abi::ZEROS as i64);
        (self.b.ins().select(g, element, zeros), 0)
    }

    pub(super) fn store(
        &mut self,
        buffer: BufferId,
        address: &Address,
        value: Arg,
        guard: Option<Arg>,
    ) -> Result<(), Problem> {
        let x = self.arg(value)?;
        let promotion = self.cut.buffers[buffer];
        if let Some(offset) = constant(address)
            && promotion != Promotion::Memory
            && let Lanes::One(x) = x
        {
            self.elements.insert((buffer, offset), x);
            let workspace = matches!(self.p.buffers[buffer].place, Place::Workspace(_));
            if workspace && promotion == Promotion::Local(self.part) {
                return Ok(());
            }
        }
        let guard = guard.map(|g| self.arg(g)).transpose()?;
        let addresses = self.lane_addresses(buffer, address)?;
        match guard {
            None => self.write(buffer, &addresses, &x),
            Some(Lanes::One(g)) => {
                let join = self.begin_if(g);
                self.write(buffer, &addresses, &x);
                self.end_if(join);
            }
            Some(g) => {
                let dtype = self.p.buffers[buffer].ty.dtype;
                let g = self.emit().each(&g, Dtype::Bool);
                let each = self.emit().each(&x, dtype);
                for lane in 0..self.width() {
                    let (base, offset) = addresses.lane(lane);
                    let join = self.begin_if(g[lane]);
                    self.b.ins().store(MemFlagsData::trusted(), each[lane], base, offset);
                    self.end_if(join);
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, buffer: BufferId, addresses: &LaneAddresses, x: &Lanes) {
        let dtype = self.p.buffers[buffer].ty.dtype;
        match (addresses, x) {
            (LaneAddresses::One(base, offset), Lanes::One(x)) => {
                self.b.ins().store(MemFlagsData::trusted(), *x, *base, *offset);
            }
            (LaneAddresses::Strided(base, offset, bytes), _)
                if *bytes == dtype.bytes() as i64 && self.registers(dtype).is_some() =>
            {
                let Some((ty, _)) = self.registers(dtype) else { return };
                let flags = MemFlagsData::new().with_notrap();
                let registers = self.emit().vectors(x, dtype, ty);
                for (r, x) in registers.iter().enumerate() {
                    self.b.ins().store(flags, *x, *base, *offset + r as i32 * 16);
                }
            }
            _ => {
                let each = self.emit().each(x, dtype);
                for (lane, x) in each.iter().enumerate() {
                    let (base, offset) = addresses.lane(lane);
                    self.b.ins().store(MemFlagsData::trusted(), *x, base, offset);
                }
            }
        }
    }

    /// Returns the vector type of a dtype, and the number of registers of this type that hold a value's elements in all
    /// lanes; `None` if the dtype uses no vectors.
    fn registers(&self, dtype: Dtype) -> Option<(Type, usize)> {
        let ty = self.vector(dtype)?;
        Some((ty, self.width() / ty.lane_count() as usize))
    }

    pub(super) fn begin_if(&mut self, condition: Value) -> Block {
        let (then, join) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(condition, then, &[], join, &[]);
        begin(self.b, then);
        join
    }

    pub(super) fn end_if(&mut self, join: Block) {
        self.b.ins().jump(join, &[]);
        begin(self.b, join);
    }

    /// Returns the addresses of an access to `buffer` in each lane of the loop.
    fn lane_addresses(&mut self, buffer: BufferId, a: &Address) -> Result<LaneAddresses, Problem> {
        let size = self.p.buffers[buffer].ty.dtype.bytes() as i64;
        let mut offset = a.offset * size;
        for (index, stride) in &a.terms {
            if let Some(Counter { at: At::Constant(n), .. }) =
                self.loops.iter().find(|c| c.index == *index)
            {
                offset += n * stride * size;
            }
        }
        let mut pointer = self.pointer(buffer, &mut offset);
        for depth in 0..self.loops.len() {
            let Counter { index, at: At::Value(at), .. } = self.loops[depth] else { continue };
            let bytes = a.stride(index) * size;
            if bytes == 0 {
                continue;
            }
            let scaled = self.loops[depth].scaled.iter().find(|s| s.0 == bytes);
            let term = match (scaled, bytes) {
                (Some((_, value)), _) => *value,
                (None, 1) => at,
                (None, 2 | 4 | 8) => self.b.ins().ishl_imm_u(at, i64::from(bytes.trailing_zeros())),
                (None, _) => self.b.ins().imul_imm_s(at, bytes),
            };
            pointer = self.b.ins().iadd(pointer, term);
        }
        let between = self.lanes.map_or(0, |(index, _)| a.stride(index) * size);
        // If the offset of the last lane (`far`, in bytes) fits in 32 bits, the offsets of all lanes are immediates.
        // Otherwise the offset is added to the pointer.
        let far = (between.saturating_mul(self.width() as i64)).saturating_add(offset);
        let (pointer, offset) = match i32::try_from(far) {
            Ok(_) => self.place(pointer, offset),
            Err(_) => (self.b.ins().iadd_imm_s(pointer, offset), 0),
        };
        let moved = |n: &mut Self, d: Value| {
            let bytes = n.b.ins().ishl_imm_u(d, i64::from(size.trailing_zeros()));
            n.b.ins().iadd(pointer, bytes)
        };
        let dynamic = a.dynamic.map(|d| self.arg(d)).transpose()?;
        let base = match dynamic {
            None => pointer,
            Some(Lanes::One(d)) => moved(self, d),
            Some(d) => {
                let each = self.emit().each(&d, Dtype::I64);
                let addresses = each.iter().enumerate().map(|(lane, d)| {
                    let base = moved(self, *d);
                    self.place(base, i64::from(offset) + lane as i64 * between)
                });
                return Ok(LaneAddresses::Each(addresses.collect()));
            }
        };
        if between == 0 {
            return Ok(LaneAddresses::One(base, offset));
        }
        if between.abs() >= 1 << 20 {
            let addresses = (0..self.width() as i64)
                .map(|lane| self.place(base, i64::from(offset) + lane * between));
            return Ok(LaneAddresses::Each(addresses.collect()));
        }
        Ok(LaneAddresses::Strided(base, offset, between))
    }

    /// Returns a pointer to a buffer's current memory. For a buffer in the workspace, returns the pointer to the
    /// workspace, and adds the buffer's offset in the workspace to `offset` (in bytes).
    pub(super) fn pointer(&mut self, buffer: BufferId, offset: &mut i64) -> Value {
        match self.exchanged.get(&buffer).copied() {
            Some(at) => self.current_address(buffer, at),
            None => self.fixed(buffer, offset),
        }
    }

    /// Returns a pointer like [`Self::pointer`], but the pointer to the buffer's original memory, which differs from
    /// the current memory if a surrounding loop swaps the buffer with another buffer.
    pub(super) fn fixed(&mut self, buffer: BufferId, offset: &mut i64) -> Value {
        let place = self.p.buffers[buffer].place;
        if let Place::Record { cursor, offset: at } = place
            && let Some(variable) = self.cursors[cursor]
        {
            *offset += at as i64;
            return self.b.use_var(variable);
        }
        let Some(at) = self.layout.pointer(place) else {
            if let (Place::Private(at), Some(private)) = (place, self.private) {
                *offset += at as i64;
                return private;
            }
            if let Place::Workspace(at) = place {
                *offset += at as i64;
            }
            return self.frame;
        };
        if let Some(pointer) = self.pointers.get(&buffer) {
            return *pointer;
        }
        let (base, offset) = self.place(self.record, at as i64);
        // A call record (the pointers that the caller passes to the kernel) does not change during a call, so these
        // loads may move out of loops.
        let mut flags = MemFlagsData::trusted();
        if !self.crowded {
            flags = flags.with_readonly().with_can_move();
        }
        let pointer = self.b.ins().load(types::I64, flags, base, offset);
        if self.top() {
            self.pointers.insert(buffer, pointer);
        }
        pointer
    }

    /// Returns a pointer to the element at the address `at`, which must be the same in all lanes. Callers use it as the
    /// start of consecutive elements.
    pub(super) fn first(&mut self, buffer: BufferId, at: &Address) -> Result<Value, Problem> {
        match self.lane_addresses(buffer, at)? {
            LaneAddresses::One(base, offset) => {
                Ok(self.b.ins().iadd_imm_s(base, i64::from(offset)))
            }
            LaneAddresses::Strided(..) | LaneAddresses::Each(_) => {
                Err(Problem::internal(format!("{buffer}[{at}] in lanes")))
            }
        }
    }

    /// Splits an address into a pointer and an immediate: the offset in bytes becomes the immediate if it fits in 32
    /// bits.
    pub(super) fn place(&mut self, base: Value, offset: i64) -> (Value, i32) {
        match i32::try_from(offset) {
            Ok(small) => (base, small),
            Err(_) => (self.b.ins().iadd_imm_s(base, offset), 0),
        }
    }
}

impl LaneAddresses {
    fn lane(&self, lane: usize) -> (Value, i32) {
        match self {
            LaneAddresses::One(base, offset) => (*base, *offset),
            LaneAddresses::Strided(base, offset, bytes) => {
                (*base, offset + lane as i32 * *bytes as i32)
            }
            LaneAddresses::Each(addresses) => addresses[lane],
        }
    }
}

fn lost() -> Problem {
    Problem::internal("the number of vector registers changed")
}
