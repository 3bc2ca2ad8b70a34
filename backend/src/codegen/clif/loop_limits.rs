//! Code that counts: loops with a limit on their iterations ([`crate::runtime::loop_limits`]), and timers
//! ([`crate::runtime::timers`]).

use super::translate::{Translator, begin, call};
use crate::loop_ir::loop_counters::Row;
use crate::loop_ir::{LimitStmt, TimerId};
use crate::runtime::abi;
use crate::runtime::loop_limits::STOPPED;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, types};
use cranelift_entity::EntityRef;
use std::mem::offset_of;
use tapeloom_ir::{LOOK_EVERY, Problem};

const COUNT: i32 = offset_of!(Row, count) as i32;
const UNTIL: i32 = offset_of!(Row, until) as i32;
const MOST: i32 = offset_of!(Row, most) as i32;
const STOP: i32 = offset_of!(Row, stopped) as i32;

impl Translator<'_, '_, '_> {
    pub(super) fn lap(&mut self, timer: TimerId) -> Result<(), Problem> {
        let number = self.b.ins().iconst(types::I64, timer.index() as i64);
        let lap = self.functions.lap(self.b.func)?;
        call(self.b, lap, &[self.context, number]);
        Ok(())
    }

    pub(super) fn limit(&mut self, limit: &LimitStmt) -> Result<(), Problem> {
        let number = self.b.ins().iconst(types::I64, limit.limit().index() as i64);
        match limit {
            LimitStmt::Enter { trip, .. } => {
                let trip = match trip {
                    Some(trip) => self.uniform(*trip)?,
                    None => self.b.ins().iconst(types::I64, -1),
                };
                let enter = self.functions.enter(self.b.func)?;
                call(self.b, enter, &[self.context, number, trip]);
            }
            LimitStmt::Count(limit) => {
                let flags = MemFlagsData::trusted();
                let rows = self.of_context(abi::ROWS);
                let at = (limit.index() * size_of::<Row>()) as i32;
                let count = self.b.ins().load(types::I64, flags, rows, at + COUNT);
                let count = self.b.ins().iadd_imm_s(count, 1);
                self.b.ins().store(flags, count, rows, at + COUNT);
                let until = self.b.ins().load(types::I64, flags, rows, at + UNTIL);
                let is = self.b.ins().icmp(IntCC::Equal, count, until);
                let [look, stop, on, join] = std::array::from_fn(|_| self.b.create_block());
                [look, stop, on].into_iter().for_each(|b| self.b.set_cold_block(b));
                self.b.ins().brif(is, look, &[], join, &[]);
                // If the count exceeds the limit `most` or the call is cancelled, return an error. Otherwise check
                // again `LOOK_EVERY` iterations later, but not later than at the count `most + 1`.
                begin(self.b, look);
                let most = self.b.ins().load(types::I64, flags, rows, at + MOST);
                let more = self.b.ins().icmp(IntCC::UnsignedGreaterThan, count, most);
                let flag = self.of_context(abi::FLAG);
                let flag = self.b.ins().load(types::I8, MemFlagsData::new(), flag, 0);
                let ends = self.b.ins().bor(more, flag);
                self.b.ins().brif(ends, stop, &[], on, &[]);
                begin(self.b, on);
                let next = self.b.ins().iadd_imm_s(count, LOOK_EVERY as i64);
                let last = self.b.ins().iadd_imm_s(most, 1);
                let until = self.b.ins().umin(next, last);
                self.b.ins().store(flags, until, rows, at + UNTIL);
                self.b.ins().jump(join, &[]);
                begin(self.b, stop);
                let one = self.b.ins().iconst(types::I64, 1);
                self.b.ins().store(flags, one, rows, at + STOP);
                let status = self.b.ins().iconst(types::I32, i64::from(STOPPED));
                self.b.ins().return_(&[status]);
                begin(self.b, join);
            }
        }
        Ok(())
    }
}
