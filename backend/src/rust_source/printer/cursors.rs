//! Prints statements that move cursors, which point to records of dynamic tapes (a record has the residuals of one
//! iteration).

use super::{Printer, Record};
use crate::loop_ir::{Arg, BufferId, CursorId, CursorTarget, TapeStmt};
use crate::rust_source::expression::Expression;
use crate::rust_source::tapes::{Tapes, in_record};
use tapeloom_ir::Problem;

impl<'p> Printer<'_, 'p> {
    pub(super) fn tape(&mut self, of: &'p TapeStmt) -> Result<(), Problem> {
        match of {
            TapeStmt::Length { value, tape } => {
                if self.uses[*value] > 0 {
                    let tape = &self.source.tapes.all[*tape].name;
                    let length =
                        Expression::cast(Expression::atom(format!("{tape}.records")), "i64");
                    self.name(*value, &length);
                }
            }
            TapeStmt::Cut { tape, to } => {
                let to = self.arg(*to)?;
                self.source.cut.insert(*tape);
                let tape = self.source.tapes.all[*tape].name.clone();
                self.line(&format!("{tape}.cut({});", Expression::cast(to, "usize").text()));
            }
            TapeStmt::MoveCursor { cursor, to, index } => self.seek(*cursor, *to, *index)?,
        }
        Ok(())
    }

    /// Prints the move of a cursor (a pointer to a tape record) as the declaration of a variable, which holds the
    /// number of the record to which the cursor then points.
    pub(super) fn seek(
        &mut self,
        cursor: CursorId,
        to: CursorTarget,
        index: Arg,
    ) -> Result<(), Problem> {
        let mut targets = match to {
            CursorTarget::Tape(tape) => vec![(tape, 0)],
            CursorTarget::Handle(word) => self.source.tapes.targets(self.kernel, cursor, word),
        };
        let target =
            targets.pop().ok_or_else(|| Problem::internal("a tape that nothing writes"))?;
        let number = Expression::cast(self.arg(index)?, "usize");
        let name = self.names.fresh("record");
        self.line(&format!("let {name} = {};", number.text()));
        if let CursorTarget::Tape(tape) = to {
            let tape = self.source.tapes.all[tape].name.clone();
            self.line(&format!("{tape}.reach({name});"));
        }
        let fields: Vec<(BufferId, usize)> =
            in_record(self.kernel, cursor).filter(|(b, _)| self.accessed.contains(b)).collect();
        if targets.is_empty() {
            for (buffer, _) in fields {
                self.places[buffer] = None;
            }
            self.records[cursor] = Some(Record { index: name, target });
            return Ok(());
        }
        // The handle (the value that names a tape and a field) may select one of several fields at run time. So copy
        // the values of the selected field, by a `match` on the handle.
        let CursorTarget::Handle(word) = to else { return Ok(()) };
        let word = self.arg(word)?;
        targets.push(target);
        for (buffer, offset) in fields {
            let ty = &self.kernel.buffers[buffer].ty;
            let (dtype, elements) = (ty.dtype, ty.shape.elements());
            let value = self.names.fresh("saved");
            self.line(&format!("let {value} = match {} {{", word.text()));
            for (i, target) in targets.iter().enumerate() {
                let (tape, field) = *target;
                let Some(of) = self.source.tapes.field(tape, field + offset, dtype, elements)
                else {
                    continue;
                };
                let place = format!("{}.{}", self.source.tapes.all[tape].name, of.name);
                let read = match elements {
                    1 => format!("{place}[{name}]"),
                    n => format!("{place}[{name} * {n}..][..{n}].to_vec()"),
                };
                let word = match i + 1 == targets.len() {
                    true => "_".to_owned(),
                    false => Tapes::word(*target).to_string(),
                };
                self.line(&format!("    {word} => {read},"));
            }
            self.line("};");
            self.places[buffer] = Some(value);
        }
        Ok(())
    }
}
