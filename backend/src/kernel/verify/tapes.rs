//! Tapes: what is in a record lies within it, and is touched where a cursor stands.

use super::{State, Verifier};
use crate::kernel::{BufferId, Cursor, CursorId, Place, Taping, Turned, opened};
use cranelift_entity::EntityRef;
use tapeloom_ir::{ArrayType, Dtype};

/// More than this is no number of tapes, nor bytes of a record, that a handle can say.
const MOST: usize = i32::MAX as usize;

impl Verifier<'_> {
    /// The tapes of the program.
    pub(super) fn tapes(&mut self) {
        if self.program.tapes.len() > MOST {
            self.error("there are more tapes than a handle can name".to_owned());
        }
        for (id, tape) in &self.program.tapes {
            if !tape.record.is_multiple_of(8) || tape.record > MOST {
                self.error(format!("{id} has records of {} bytes", tape.record));
            }
        }
    }

    /// A buffer in the record where a cursor stands.
    pub(super) fn recorded(
        &mut self,
        id: BufferId,
        (cursor, offset): (CursorId, usize),
        ty: &ArrayType,
    ) {
        if !self.p.cursors.is_valid(cursor) {
            self.error(format!("{id} is where {cursor} stands, which does not exist"));
        }
        if !offset.is_multiple_of(ty.dtype.bytes()) {
            self.error(format!("{id} at byte {offset} of a record is not aligned"));
        }
        if !self.p.versions[id].is_empty() {
            self.error(format!("{id} is in a record, and has versions"));
        }
    }

    /// An access where a cursor must stand.
    pub(super) fn at_cursor(&mut self, buffer: BufferId, cursor: CursorId, write: bool) {
        match self.cursors[cursor] {
            State::Visible => {}
            State::Undefined => {
                self.error(format!("{buffer} is touched before {cursor} is turned"));
            }
            State::Gone => self.error(format!("{buffer} is touched where {cursor} has gone")),
        }
        if write && self.p.cursors.get(cursor) == Some(&Cursor::Reads) {
            self.error(format!("{buffer} is written where {cursor} only reads"));
        }
    }

    pub(super) fn taping(&mut self, taping: &Taping) {
        match taping {
            Taping::Turn { cursor, to, index } => {
                let found = self.arg(*index);
                self.fits("the number of a record", Some(Dtype::I64), found);
                self.turn(*cursor, to);
            }
            Taping::Length { value, tape } => {
                self.tape(*tape);
                let want = self.p.scalars.get(*value).copied();
                self.fits(&value.to_string(), want, Some(Dtype::I64));
                self.define(*value);
            }
            Taping::Cut { tape, to } => {
                self.tape(*tape);
                let found = self.arg(*to);
                self.fits("a length", Some(Dtype::I64), found);
            }
        }
    }

    fn tape(&mut self, tape: crate::kernel::TapeId) -> Option<usize> {
        let found = self.program.tapes.get(tape).map(|t| t.record);
        if found.is_none() {
            self.error(format!("{tape} does not exist"));
        }
        found
    }

    /// What is in the record lies within it. Of a handle that only the run knows the code asks itself.
    fn turn(&mut self, cursor: CursorId, to: &Turned) {
        let does = match to {
            Turned::Tape(_) => Cursor::Writes,
            Turned::Handle(_) => Cursor::Reads,
        };
        match self.p.cursors.get(cursor) {
            None => return self.error(format!("{cursor} does not exist")),
            Some(known) if *known != does => {
                self.error(format!("{cursor} is turned to read and to write"));
            }
            Some(_) => {}
        }
        if self.loops == 0 {
            self.error(format!("{cursor} is turned outside any loop"));
        }
        // Where an enclosing block has turned it, it would stand elsewhere behind this one.
        if self.cursors[cursor] == State::Visible {
            self.error(format!("{cursor} is turned where it stands already"));
        }
        self.cursors[cursor] = State::Visible;
        let (from, record) = match to {
            Turned::Tape(tape) => (0, self.tape(*tape)),
            Turned::Handle(crate::kernel::Arg::Literal(word)) if word.dtype == Dtype::I64 => {
                let (tape, field) = opened(word.bits as i64);
                (field, self.tape(crate::kernel::TapeId::new(tape)))
            }
            Turned::Handle(word) => {
                let found = self.arg(*word);
                self.fits("a handle", Some(Dtype::I64), found);
                if self.program.tapes.is_empty() {
                    self.error(format!("{cursor} is turned to a tape, and there is none"));
                }
                return;
            }
        };
        let Some(record) = record else { return };
        for (id, b) in &self.p.buffers {
            let Place::Record { cursor: of, offset } = b.place else { continue };
            let end = b.ty.checked_bytes().and_then(|n| from.checked_add(offset)?.checked_add(n));
            if of == cursor && end.is_none_or(|end| end > record) {
                self.error(format!("{id} ends beyond the record of {record} bytes"));
            }
            if of == cursor && !from.is_multiple_of(b.ty.dtype.bytes()) {
                self.error(format!("{id} at byte {from} of a record is not aligned"));
            }
        }
    }
}
