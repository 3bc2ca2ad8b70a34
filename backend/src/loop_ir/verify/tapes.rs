//! Verifies dynamic tapes: fields lie within their record, and records are accessed only while a cursor points to
//! them.

use super::{State, Verifier};
use crate::loop_ir::{
    BufferId, Cursor, CursorId, CursorTarget, LimitStmt, Place, TapeStmt, TimerId, opened,
};
use cranelift_entity::EntityRef;
use tapeloom_ir::{ArrayType, Dtype};

/// The upper bound of the number of tapes, and of the bytes of a record. The first word of a handle, an i64, states a
/// tape and an offset in its records, in 32 bits each.
const MOST_OF_A_HANDLE: usize = i32::MAX as usize;

impl Verifier<'_> {
    /// Checks the dynamic tapes of the program: their number, and the size of their records.
    pub(super) fn tapes(&mut self) {
        if self.program.tapes.len() > MOST_OF_A_HANDLE {
            self.error("there are more tapes than a handle can name".to_owned());
        }
        for (id, tape) in &self.program.tapes {
            if !tape.record.is_multiple_of(8) || tape.record > MOST_OF_A_HANDLE {
                self.error(format!("{id} has records of {} bytes", tape.record));
            }
        }
    }

    /// Checks that a buffer in a record of a dynamic tape has a cursor, an aligned offset and only one version.
    pub(super) fn recorded(
        &mut self,
        id: BufferId,
        (cursor, offset): (CursorId, usize),
        ty: &ArrayType,
    ) {
        if !self.p.cursors.is_valid(cursor) {
            self.error(format!("{id} is in the record of {cursor}, which does not exist"));
        }
        if !offset.is_multiple_of(ty.dtype.bytes()) {
            self.error(format!("{id} at byte {offset} of a record is not aligned"));
        }
        if !self.p.versions[id].is_empty() {
            self.error(format!("{id} is in a record, and has versions"));
        }
    }

    /// Checks that `cursor` points to a record at an access to a buffer in that record, and may write it if `write`
    /// is true.
    pub(super) fn at_cursor(&mut self, buffer: BufferId, cursor: CursorId, write: bool) {
        match self.cursors[cursor] {
            State::Visible => {}
            State::Undefined => {
                self.error(format!("{buffer} is accessed before {cursor} points to a record"));
            }
            State::Gone => self
                .error(format!("{buffer} is accessed where {cursor} no longer points to a record")),
        }
        if write && self.p.cursors.get(cursor) == Some(&Cursor::Reads) {
            self.error(format!("{buffer} is written where {cursor} only reads"));
        }
    }

    pub(super) fn tape_stmt(&mut self, taping: &TapeStmt) {
        match taping {
            TapeStmt::MoveCursor { cursor, to, index } => {
                self.operand("the number of a record", Dtype::I64, *index);
                self.seek(*cursor, to);
            }
            TapeStmt::Length { value, tape } => {
                self.tape(*tape);
                let want = self.p.scalars.get(*value).copied();
                self.fits(&value.to_string(), want, Some(Dtype::I64));
                self.define(*value);
            }
            TapeStmt::Cut { tape, to } => {
                self.tape(*tape);
                self.operand("a length", Dtype::I64, *to);
            }
        }
    }

    /// Checks that the limited loop of an `enter` or `count` statement exists in the program.
    pub(super) fn limit(&mut self, limit: &LimitStmt) {
        if !self.program.limited.is_valid(limit.limit()) {
            self.error(format!("{} does not exist", limit.limit()));
        }
        if let LimitStmt::Enter { trip: Some(trip), .. } = limit {
            self.operand("a number of iterations", Dtype::I64, *trip);
        }
    }

    /// Checks that the timer of a `lap` statement exists in the program.
    pub(super) fn timer(&mut self, timer: TimerId) {
        if timer.index() >= self.program.timers {
            self.error(format!("{timer} does not exist"));
        }
    }

    fn tape(&mut self, tape: crate::loop_ir::TapeId) -> Option<usize> {
        let found = self.program.tapes.get(tape).map(|t| t.record);
        if found.is_none() {
            self.error(format!("{tape} does not exist"));
        }
        found
    }

    /// Checks a move of a cursor: the buffers at the cursor must lie within the record. If the cursor moves to the
    /// record of a handle, the tape is known only at run time, so generated code checks the record then.
    fn seek(&mut self, cursor: CursorId, to: &CursorTarget) {
        let does = match to {
            CursorTarget::Tape(_) => Cursor::Writes,
            CursorTarget::Handle(_) => Cursor::Reads,
        };
        match self.p.cursors.get(cursor) {
            None => return self.error(format!("{cursor} does not exist")),
            Some(known) if *known != does => {
                self.error(format!("{cursor} seeks both to read and to write"));
            }
            Some(_) => {}
        }
        if self.loops == 0 {
            self.error(format!("{cursor} moves outside any loop"));
        }
        // Refuse a move if an enclosing block has already moved the cursor: after this block, the cursor would point
        // to another record than before it.
        if self.cursors[cursor] == State::Visible {
            self.error(format!("{cursor} already points to a record in this block"));
        }
        self.cursors[cursor] = State::Visible;
        let (from, record) = match to {
            CursorTarget::Tape(tape) => (0, self.tape(*tape)),
            CursorTarget::Handle(crate::loop_ir::Arg::Literal(word))
                if word.dtype == Dtype::I64 =>
            {
                let (tape, field) = opened(word.bits as i64);
                let Some(tape) = tape else {
                    return self.error(format!("{cursor} seeks to a handle without a tape"));
                };
                (field, self.tape(tape))
            }
            CursorTarget::Handle(word) => {
                self.operand("a handle", Dtype::I64, *word);
                if self.program.tapes.is_empty() {
                    self.error(format!("{cursor} seeks to a tape, but the program has none"));
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crate::Executable;
    use crate::loop_ir::{eval, parse, shadow, verify};
    use tapeloom_ir::{Kind, Tensor};

    /// Returns a program with a loop that writes three records to a tape; `read` is the statement that moves cursor
    /// `c1` to read record `%5` of the handle `%4`.
    fn text(read: &str) -> String {
        format!(
            "tape t0: 16
program @f {{
  buffer b0: i64[2] input 0
  buffer b1: f64[] output 0
  buffer b2: f64[] record c0 8
  buffer b3: i64[] record c0 0
  buffer b4: f64[] record c1 0
  nest {{
    %0: i64 = length t0
    serial i0 in 3 {{
      %1: i64 = add %0, i0
      seek c0 to t0[%1]
      %2: f64 = convert{{to=f64}} i0
      store b2[0], %2
      store b3[0], i0
    }}
    %4: i64 = load b0[0]
    %5: i64 = load b0[1]
    serial i1 in 1 {{
      {read}
      %6: f64 = load b4[0]
      store b1[0], %6
    }}
    cut t0 to %0
  }}
}}
"
        )
    }

    /// The interpreter and machine code must check handles at run time, and must end the call with an error if the
    /// record does not exist.
    #[test]
    fn records_that_are_not_there_end_the_call() {
        let text = text("seek c1 to (%4)[%5]");
        let program = parse(&text, &|_| None).unwrap();
        assert_eq!((verify(&program), program.to_string()), (vec![], text));
        let native = Executable::new(&program).unwrap();
        let call = |word: i64, index: i64| {
            let x = Tensor::from([word, index]);
            let args = std::slice::from_ref(&x);
            let found = [shadow(&program, args), eval(&program, args)];
            let native = native.call(&[&x]);
            for of in &found {
                assert_eq!(of.is_ok(), native.is_ok(), "{word} {index}");
            }
            native
        };
        for i in 0..3 {
            assert_eq!(call(8, i).unwrap(), [Tensor::from(i as f64)]);
        }
        for (word, index) in [(8, 3), (8, -1), (16, 0), (1 << 32, 0), (-1, 0), (i64::MIN, i64::MAX)]
        {
            assert_eq!(call(word, index).unwrap_err().kind, Kind::Internal, "{word} {index}");
        }
        assert_eq!(call(12, 1).unwrap(), [Tensor::from(1.0)], "held to a multiple of 8");
        // A call must succeed after a call that has failed.
        assert_eq!(call(8, 2).unwrap(), [Tensor::from(2.0)]);
    }

    #[test]
    fn misuse_of_cursors_is_refused() {
        for (read, why) in [
            ("seek c1 to (12)[%5]", "ends beyond the record of 16 bytes"),
            ("seek c1 to (4294967296)[%5]", "t1 does not exist"),
            ("seek c1 to (4)[%5]", "is not aligned"),
            ("seek c0 to (8)[%5]", "c0 seeks both to read and to write"),
            ("", "b4 is accessed before c1 points to a record"),
            (
                "seek c1 to (8)[%5] seek c1 to (8)[%5]",
                "c1 already points to a record in this block",
            ),
            ("seek c1 to (8)[%5] store b4[0], 1.0", "b4 is written where c1 only reads"),
            (
                "seek c1 to (8)[%5] store b2[0], 1.0",
                "b2 is accessed where c0 no longer points to a record",
            ),
            ("seek c1 to (8)[%6]", "used before it is defined"),
        ] {
            let program = parse(&text(read), &|_| None).unwrap();
            let errors = verify(&program);
            assert!(errors.iter().any(|e| e.message.contains(why)), "{read}: {errors:?}");
        }
        let outside = text("seek c1 to (8)[%5]").replace("serial i1 in 1 {", "nest {");
        let errors = verify(&parse(&outside, &|_| None).unwrap());
        assert!(errors.iter().any(|e| e.message.contains("outside any loop")), "{errors:?}");
        let parallel = text("seek c1 to (8)[%5]").replace("serial i0", "for i0");
        let errors = verify(&parse(&parallel, &|_| None).unwrap());
        assert!(errors.iter().any(|e| e.message.contains("in order")), "{errors:?}");
    }
}
