//! Dynamic tapes (tapes that grow during the run): the addresses of records. A record holds one iteration's residuals.
//!
//! A cursor is a Cranelift variable that holds the address of its record. [`crate::runtime::tape_memory`] says how
//! the address is computed from the record's number.

use super::translate::{Translator, begin, call};
use crate::loop_ir::{Arg, CursorId, CursorTarget, TapeId, TapeStmt, opened};
use crate::runtime::abi::{self, State};
use crate::runtime::tape_memory::NO_RECORD;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use cranelift_entity::EntityRef;
use std::mem::offset_of;
use tapeloom_ir::Problem;

/// The location of a field in a tape's records: the address of the tape's run-time state, the bytes of a record, and
/// the field's offset in a record in bytes.
struct Field {
    state: Value,
    record: Value,
    at: Value,
}

const LENGTH: i32 = offset_of!(State, length) as i32;
const CAPACITY: i32 = offset_of!(State, capacity) as i32;
const CHUNKS: i32 = offset_of!(State, chunks) as i32;
const RECORD: i32 = offset_of!(State, record) as i32;

impl Translator<'_, '_, '_> {
    pub(super) fn tape_stmt(&mut self, taping: &TapeStmt) -> Result<(), Problem> {
        match taping {
            TapeStmt::MoveCursor { cursor, to, index } => {
                let index = self.uniform(*index)?;
                let field = match to {
                    CursorTarget::Tape(tape) => self.reserve(*tape, index)?,
                    CursorTarget::Handle(word) => self.found(*cursor, *word, index)?,
                };
                let place = self.record_at(&field, index);
                let variable = self.cursors[*cursor].unwrap_or_else(|| {
                    let variable = self.b.declare_var(types::I64);
                    self.cursors[*cursor] = Some(variable);
                    variable
                });
                self.b.def_var(variable, place);
                Ok(())
            }
            TapeStmt::Length { value, tape } => {
                let state = self.state(*tape);
                let length = self.b.ins().load(types::I64, MemFlagsData::trusted(), state, LENGTH);
                self.define(*value, super::vector_value::Lanes::One(length));
                Ok(())
            }
            TapeStmt::Cut { tape, to } => {
                let (state, to) = (self.state(*tape), self.uniform(*to)?);
                let flags = MemFlagsData::trusted();
                let length = self.b.ins().load(types::I64, flags, state, LENGTH);
                // A negative new length is a large unsigned number, so this unsigned minimum leaves the tape's length
                // unchanged.
                let shorter = self.b.ins().umin(to, length);
                self.b.ins().store(flags, shorter, state, LENGTH);
                Ok(())
            }
        }
    }

    /// Returns the address of the array of all dynamic tapes' run-time states.
    fn states(&mut self) -> Value {
        self.of_context(abi::TAPES)
    }

    fn state(&mut self, tape: TapeId) -> Value {
        let states = self.states();
        self.b.ins().iadd_imm_s(states, (tape.index() * size_of::<State>()) as i64)
    }

    /// Emits code for a write of record number `index`: if the dynamic tape has no memory for the record, the code
    /// grows the tape.
    fn reserve(&mut self, tape: TapeId, index: Value) -> Result<Field, Problem> {
        let state = self.state(tape);
        let flags = MemFlagsData::trusted();
        let capacity = self.b.ins().load(types::I64, flags, state, CAPACITY);
        let full = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, index, capacity);
        let (more, join) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(more);
        self.b.ins().brif(full, more, &[], join, &[]);
        begin(self.b, more);
        let grow = self.functions.grow(self.b.func)?;
        let number = self.b.ins().iconst(types::I64, tape.index() as i64);
        call(self.b, grow, &[self.context, number, index]);
        self.end_if(join);
        let length = self.b.ins().load(types::I64, flags, state, LENGTH);
        let next = self.b.ins().iadd_imm_s(index, 1);
        let length = self.b.ins().umax(length, next);
        self.b.ins().store(flags, length, state, LENGTH);
        let record = self.program.tapes[tape].record as i64;
        let record = self.b.ins().iconst(types::I64, record);
        Ok(Field { state, record, at: self.b.ins().iconst(types::I64, 0) })
    }

    /// Emits code for a read of record number `index`: if the dynamic tape has no such record, the code returns an
    /// error.
    fn found(&mut self, cursor: CursorId, word: Arg, index: Value) -> Result<Field, Problem> {
        let flags = MemFlagsData::trusted();
        let literal = if let Arg::Literal(word) = word { Some(word.bits as i64) } else { None };
        let (field, fits) = match literal {
            // The handle (the word that names the tape) is constant, so the verifier has already checked it.
            Some(word) => {
                let (tape, at) = opened(word);
                let tape =
                    tape.ok_or_else(|| Problem::internal("a cursor seeks without a tape"))?;
                let record = self.program.tapes[tape].record as i64;
                let [record, at] = [record, at as i64].map(|n| self.b.ins().iconst(types::I64, n));
                (Field { state: self.state(tape), record, at }, None)
            }
            None => {
                let (need, aligned) = self.p.needs(cursor);
                let word = self.uniform(word)?;
                let tape = self.b.ins().ushr_imm_u(word, 32);
                let tapes = self.program.tapes.len() as i64;
                let is = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, tape, tapes);
                let zero = self.b.ins().iconst(types::I64, 0);
                let tape = self.b.ins().select(is, tape, zero);
                let tape = self.b.ins().imul_imm_s(tape, size_of::<State>() as i64);
                let states = self.states();
                let state = self.b.ins().iadd(states, tape);
                let record = self.b.ins().load(types::I64, flags, state, RECORD);
                let mask = 0xffff_ffff & !(aligned as i64 - 1);
                let at = self.b.ins().band_imm_u(word, mask);
                let end = self.b.ins().iadd_imm_s(at, need as i64);
                let within = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, record);
                (Field { state, record, at }, Some(self.b.ins().band(is, within)))
            }
        };
        let length = self.b.ins().load(types::I64, flags, field.state, LENGTH);
        let mut there = self.b.ins().icmp(IntCC::UnsignedLessThan, index, length);
        if let Some(fits) = fits {
            there = self.b.ins().band(there, fits);
        }
        let (none, some) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(none);
        self.b.ins().brif(there, some, &[], none, &[]);
        begin(self.b, none);
        let status = self.b.ins().iconst(types::I32, i64::from(NO_RECORD));
        self.b.ins().return_(&[status]);
        begin(self.b, some);
        Ok(field)
    }

    /// Emits the computation of the address of a field in the dynamic tape's record number `index`, which must exist.
    fn record_at(&mut self, field: &Field, index: Value) -> Value {
        let b = &mut *self.b;
        // The array of pointers to the tape's chunks (blocks of records) does not move during a call.
        let fixed = MemFlagsData::trusted();
        let chunks = b.ins().load(types::I64, fixed, field.state, CHUNKS);
        let n = b.ins().iadd_imm_s(index, 4);
        let zeros = b.ins().clz(n);
        let most = b.ins().iconst(types::I64, 61);
        let s = b.ins().isub(most, zeros);
        let top = b.ins().ushr(n, s);
        let before = b.ins().ishl(top, s);
        let within = b.ins().isub(n, before);
        let four = b.ins().ishl_imm_u(s, 2);
        let number = b.ins().iadd(four, top);
        let bytes = b.ins().ishl_imm_u(number, 3);
        let entry = b.ins().iadd(chunks, bytes);
        // The computation above gives chunk k (a block of records) the number k + 4, so its pointer is 32 bytes before
        // `entry`.
        let chunk = b.ins().load(types::I64, MemFlagsData::trusted(), entry, -32);
        let offset = b.ins().imul(within, field.record);
        let place = b.ins().iadd(chunk, offset);
        b.ins().iadd(place, field.at)
    }
}
