//! Loads and stores: addresses from pointers in the row (the nest's arguments) and the counters of loops.

use super::{Refused, Select, Val, Word, class, lane};
use crate::codegen::simd::form::{
    Access, At, Binary, Class, Inst, Lane, Logic, LoopId, Reg, Stream, Ty,
};
use crate::loop_ir::{Address, Arg, BufferId};
use cranelift_entity::EntityRef;
use smallvec::SmallVec;

impl Select<'_> {
    /// Returns the address of an access, the stride in bytes per iteration of the loop with lanes, and, for lanes that
    /// are not evenly spaced, their offsets in elements.
    fn place(
        &mut self,
        buffer: BufferId,
        address: &Address,
    ) -> Result<(At, i64, Option<Val>), Refused> {
        let size = self.k.buffers[buffer].ty.dtype.bytes() as i64;
        let mut outside = Address { offset: 0, terms: Vec::new(), dynamic: None };
        let mut stream = Stream { word: 0, outer: SmallVec::new(), computed: None };
        let mut inner: SmallVec<[(LoopId, i64); 2]> = SmallVec::new();
        let mut stride = 0i64;
        let bytes = |elements: i64| elements.wrapping_mul(size);
        for (index, step) in &address.terms {
            if self.lanes.is_some_and(|s| s.index == *index) {
                stride = stride.wrapping_add(bytes(*step));
            } else if let Some(at) = self.open.iter().position(|o| o.0 == *index) {
                let in_lanes = self.lanes.is_some() && at >= self.before.0;
                let to = if in_lanes { &mut inner } else { &mut stream.outer };
                to.push((self.open[at].1, bytes(*step)));
            } else {
                outside.terms.push((*index, *step));
            }
        }
        let mut offsets = None;
        match address.dynamic {
            None => {}
            Some(Arg::Index(_)) => return Err(Refused("an address is computed from an index")),
            Some(arg) if self.inside(arg) => {
                let computed = self.arg(arg)?;
                let reg = computed.at(0);
                // An index that was computed before the loop with lanes is added once, before that loop, to the
                // stream's pointer (the base address of the access).
                let found = self.lanes.is_none() || reg.index() < self.before.1;
                if computed.uniform && found && !self.homes.contains(&reg) {
                    stream.computed = Some((reg, size));
                } else {
                    offsets = Some(self.offsets(computed, stride / size)?);
                    stride = 0;
                }
            }
            Some(from_outside) => outside.dynamic = Some(from_outside),
        }
        let offset = match i32::try_from(bytes(address.offset)) {
            Ok(small) if small.unsigned_abs() < 1 << 30 => small,
            _ => {
                outside.offset = address.offset;
                0
            }
        };
        if stride.unsigned_abs() >= 1 << 30 {
            return Err(Refused("a stride is too large"));
        }
        stream.word = self.word(Word::Pointer(buffer, outside));
        if self.lanes.is_none() {
            return Ok((At::Outer { stream, offset }, 0, offsets));
        }
        let stream = match self.streams.iter().position(|s| *s == stream) {
            Some(i) => i,
            None => {
                self.streams.push(stream);
                self.streams.len() - 1
            }
        };
        Ok((At::Lane { stream, stride, inner, offset }, stride, offsets))
    }

    /// Returns whether an operand is computed in the nest (instead of being an argument, a literal or a loop index).
    fn inside(&self, arg: Arg) -> bool {
        match arg {
            Arg::Scalar(s) => self.defined.contains(&s),
            Arg::Var(v) => self.assigned.contains(&v),
            Arg::Index(_) | Arg::Literal(_) => false,
        }
    }

    /// Returns the offset in elements for each lane: the computed index plus the lane's loop index times `step`.
    fn offsets(&mut self, computed: Val, step: i64) -> Result<Val, Refused> {
        let Some(strip) = self.lanes else {
            return Err(Refused("an address outside of lanes is in a variable"));
        };
        if strip.n * 8 > self.vector_bytes {
            return Err(Refused(
                "its vectors have more elements than a vector of computed addresses",
            ));
        }
        if step == 0 {
            return Ok(computed);
        }
        let (index, ty) = (self.lane_index(strip), Ty { lane: Lane::I64, n: strip.n });
        let step = self.constant(Lane::I64, step as u64);
        let place = |s: &mut Self, unit: usize| {
            let moved = s.binary(Binary::Mul, ty, index.at(unit), step);
            s.binary(Binary::Add, ty, moved, computed.at(unit))
        };
        let regs = (0..strip.units).map(|unit| place(self, unit)).collect();
        Ok(Val { regs, uniform: false })
    }

    /// Returns the address of vector number `unit` of the strip (the vectors of one iteration), and the arrangement of
    /// that vector's elements in memory.
    fn unit(
        &self,
        (at, stride, offsets): &(At, i64, Option<Val>),
        unit: usize,
        size: usize,
    ) -> Result<(At, Access), Refused> {
        let Some(strip) = self.lanes else { return Ok((at.clone(), Access::One)) };
        if let Some(offsets) = offsets {
            return Ok((at.clone(), Access::Indexed(offsets.at(unit))));
        }
        let At::Lane { stream, inner, offset, .. } = at else {
            return Err(Refused("an access is outside of lanes"));
        };
        if *stride == 0 {
            return Ok((at.clone(), Access::One));
        }
        let moved = i64::from(*offset) + stride * (unit * strip.n) as i64;
        let offset = i32::try_from(moved).map_err(|_| Refused("a stride is too large"))?;
        let access = if *stride == size as i64 { Access::Unit } else { Access::Strided(*stride) };
        // Offsets within a vector have the width of its elements, so for 4-byte elements the last one must fit in 32
        // bits.
        let last = stride * (strip.n as i64 - 1);
        if access != Access::Unit && size == 4 && i32::try_from(last).is_err() {
            return Err(Refused("a stride is too large"));
        }
        let (stream, stride, inner) = (*stream, *stride, inner.clone());
        Ok((At::Lane { stream, stride, inner, offset }, access))
    }

    pub(super) fn load(
        &mut self,
        buffer: BufferId,
        address: &Address,
        guard: Option<Arg>,
    ) -> Result<Val, Refused> {
        let guard = guard.map(|g| self.arg(g)).transpose()?;
        let dtype = self.k.buffers[buffer].ty.dtype;
        let place = self.place(buffer, address)?;
        let single = self.lanes.is_none();
        let one = place.1 == 0 && place.2.is_none();
        let uniform = single || (one && guard.as_ref().is_none_or(|g| g.uniform));
        let units = if uniform { 1 } else { self.lanes.map_or(1, |s| s.units) };
        let n = if uniform { 1 } else { self.lanes.map_or(1, |s| s.n) };
        // If all lanes access one element, restrict the guard to active lanes: the guard may hold for an inactive lane
        // although the element is out of bounds.
        let active =
            (one && !uniform).then(|| self.make(Class::Mask, |to| Inst::ActiveMask { to, n }));
        let mut regs: SmallVec<[Reg; 2]> = SmallVec::new();
        for unit in 0..units {
            let (at, access) = self.unit(&place, unit, dtype.bytes())?;
            let guard = guard.as_ref().map(|g| g.at(unit));
            let guard = match active {
                Some(active) => guard.map(|g| self.logic(Logic::And, g, active)),
                None => guard,
            };
            let to = self.program.regs.push(class(dtype));
            self.push(match lane(dtype) {
                Some(lane) => {
                    let ty = if uniform { self.whole(lane) } else { Ty { lane, n } };
                    Inst::Load { ty, to, at, access, guard }
                }
                None if matches!(access, Access::Strided(_) | Access::Indexed(_)) => {
                    return Err(Refused("bools are not contiguous"));
                }
                None => Inst::LoadTruth { n, to, at, access, guard },
            });
            regs.push(to);
        }
        Ok(Val { regs, uniform })
    }

    pub(super) fn store(
        &mut self,
        buffer: BufferId,
        address: &Address,
        value: Arg,
        guard: Option<Arg>,
    ) -> Result<(), Refused> {
        let value = self.arg(value)?;
        let guard = guard.map(|g| self.arg(g)).transpose()?;
        let dtype = self.k.buffers[buffer].ty.dtype;
        let place = self.place(buffer, address)?;
        let strip = self.lanes;
        if strip.is_some() && place.1 == 0 && place.2.is_none() {
            return Err(Refused("iterations store to the same element"));
        }
        for unit in 0..strip.map_or(1, |s| s.units) {
            let n = strip.map_or(1, |s| s.n);
            let (at, access) = self.unit(&place, unit, dtype.bytes())?;
            let (x, guard) = (value.at(unit), guard.as_ref().map(|g| g.at(unit)));
            self.push(match lane(dtype) {
                Some(lane) => Inst::Store { ty: Ty { lane, n }, x, at, access, guard },
                None if matches!(access, Access::Strided(_) | Access::Indexed(_)) => {
                    return Err(Refused("bools are not contiguous"));
                }
                None => Inst::StoreTruth { n, x, at, access, guard },
            });
        }
        Ok(())
    }
}
