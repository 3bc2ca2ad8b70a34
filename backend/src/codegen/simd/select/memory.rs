//! Loads and stores: pointers of the row, moved by loops.

use super::{Refused, Select, Val, Word, class, lane, whole};
use crate::codegen::simd::form::{Access, At, Inst, Reg, Stream, Ty};
use crate::loop_ir::{Address, Arg, BufferId};
use smallvec::SmallVec;

impl Select<'_> {
    /// Where an access goes, and how its elements lie.
    pub(super) fn place(
        &mut self,
        buffer: BufferId,
        address: &Address,
    ) -> Result<(At, i64), Refused> {
        let size = self.k.buffers[buffer].ty.dtype.bytes() as i64;
        let mut outside = Address { offset: 0, terms: Vec::new(), dynamic: None };
        let mut stream = Stream { word: 0, outer: SmallVec::new() };
        let mut stride = 0i64;
        let bytes = |elements: i64| elements.wrapping_mul(size);
        for (index, step) in &address.terms {
            if self.lanes.is_some_and(|s| s.index == *index) {
                stride = stride.wrapping_add(bytes(*step));
            } else if let Some((_, of)) = self.open.iter().find(|o| o.0 == *index) {
                stream.outer.push((*of, bytes(*step)));
            } else {
                outside.terms.push((*index, *step));
            }
        }
        match address.dynamic {
            None => {}
            Some(Arg::Scalar(s)) if self.made.contains(&s) => {
                return Err(Refused("a place is computed"));
            }
            Some(Arg::Var(v)) if self.assigned.contains(&v) => {
                return Err(Refused("a place is computed"));
            }
            Some(Arg::Index(_)) => return Err(Refused("a place is an index")),
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
            return Err(Refused("a stride is long"));
        }
        stream.word = self.word(Word::Pointer(buffer, outside));
        if self.lanes.is_none() {
            return Ok((At::Outer { stream, offset }, 0));
        }
        let stream = match self.streams.iter().position(|s| *s == stream) {
            Some(i) => i,
            None => {
                self.streams.push(stream);
                self.streams.len() - 1
            }
        };
        Ok((At::Lane { stream, stride, offset }, stride))
    }

    /// The place of a vector of the strip, and how its elements lie.
    pub(super) fn unit(&self, at: &At, unit: usize, size: usize) -> Result<(At, Access), Refused> {
        let Some(strip) = self.lanes else { return Ok((at.clone(), Access::One)) };
        let At::Lane { stream, stride, offset } = *at else { return Err(Refused("a place")) };
        if stride == 0 {
            return Ok((at.clone(), Access::One));
        }
        let moved = i64::from(offset) + stride * (unit * strip.n) as i64;
        let offset = i32::try_from(moved).map_err(|_| Refused("a stride is long"))?;
        let access = if stride == size as i64 { Access::Unit } else { Access::Strided(stride) };
        Ok((At::Lane { stream, stride, offset }, access))
    }

    pub(super) fn load(
        &mut self,
        buffer: BufferId,
        address: &Address,
        guard: Option<Arg>,
    ) -> Result<Val, Refused> {
        let guard = guard.map(|g| self.arg(g)).transpose()?;
        let dtype = self.k.buffers[buffer].ty.dtype;
        let (at, stride) = self.place(buffer, address)?;
        let single = self.lanes.is_none();
        let uniform = single || (stride == 0 && guard.as_ref().is_none_or(|g| g.uniform));
        let units = if uniform { 1 } else { self.lanes.map_or(1, |s| s.units) };
        let n = if uniform { 1 } else { self.lanes.map_or(1, |s| s.n) };
        let mut regs: SmallVec<[Reg; 2]> = SmallVec::new();
        for unit in 0..units {
            let (at, access) = self.unit(&at, unit, dtype.bytes())?;
            let guard = guard.as_ref().map(|g| g.at(unit));
            let to = self.form.regs.push(class(dtype));
            self.push(match lane(dtype) {
                Some(lane) => {
                    let ty = if uniform { whole(lane) } else { Ty { lane, n } };
                    Inst::Load { ty, to, at, access, guard }
                }
                None if matches!(access, Access::Strided(_)) => {
                    return Err(Refused("truths are strided"));
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
        let (at, stride) = self.place(buffer, address)?;
        let strip = self.lanes;
        if strip.is_some() && stride == 0 {
            return Err(Refused("iterations store to one element"));
        }
        for unit in 0..strip.map_or(1, |s| s.units) {
            let n = strip.map_or(1, |s| s.n);
            let (at, access) = self.unit(&at, unit, dtype.bytes())?;
            let (x, guard) = (value.at(unit), guard.as_ref().map(|g| g.at(unit)));
            self.push(match lane(dtype) {
                Some(lane) => Inst::Store { ty: Ty { lane, n }, x, at, access, guard },
                None if matches!(access, Access::Strided(_)) => {
                    return Err(Refused("truths are strided"));
                }
                None => Inst::StoreTruth { n, x, at, access, guard },
            });
        }
        Ok(())
    }
}
