//! Prints loops and branches.

use super::Printer;
use crate::loop_ir::{Arg, Carry, Extent, IndexId, Stmt};
use crate::rust_source::declarations::{is_local, is_number};
use crate::rust_source::expression::{Expression, Level};
use crate::rust_source::names::has_word;
use crate::rust_source::source_comments::SourceLines;
use tapeloom_ir::{Literal, Problem};

impl<'p> Printer<'_, 'p> {
    pub(super) fn counted(
        &mut self,
        stmt: &'p Stmt,
        (index, extent): (IndexId, Extent),
        carries: &[Carry],
        body: &'p [Stmt],
        lines: &SourceLines,
    ) -> Result<(), Problem> {
        let extent_text = match extent {
            Extent::Constant(n) => n.to_string(),
            Extent::Scalar(arg) => {
                let least = self.ranges.iterations(extent);
                let own = self.range(arg);
                let n = self.arg(arg)?;
                let n = if own.0 >= 0 && least.least >= 0 {
                    n
                } else {
                    let zero = Expression::literal(Literal::i64(0));
                    Expression::method(n, "max", &[zero])
                };
                Expression::cast(n, "usize").within(Level::Sum)
            }
        };
        self.flush_for(stmt)?;
        self.ranges.count(index, extent);
        self.ranges.invalidate_all(body);
        self.names.enter();
        let name = self.names.counter();
        let before = std::mem::take(&mut self.out);
        self.indices[index] = Some(name.clone());
        self.scope_with_carries(body, carries, lines)?;
        let inside = std::mem::replace(&mut self.out, before);
        if inside.is_empty() && matches!(extent, Extent::Constant(_)) {
            self.names.leave();
            return Ok(());
        }
        let shown = if has_word(&inside, &name) { name.as_str() } else { "_" };
        self.line(&format!("for {shown} in 0..{extent_text} {{"));
        self.out += &inside;
        self.line("}");
        self.names.leave();
        self.ranges.invalidate_all(body);
        Ok(())
    }

    pub(super) fn scope_with_carries(
        &mut self,
        body: &'p [Stmt],
        carries: &[Carry],
        lines: &SourceLines,
    ) -> Result<(), Problem> {
        self.names.enter();
        self.depth += 1;
        let result = self.statements(body, lines);
        carries.iter().for_each(|carry| self.carry(carry));
        self.depth -= 1;
        self.names.leave();
        result
    }

    pub(super) fn conditional_loop(
        &mut self,
        stmt: &'p Stmt,
        (head, condition): (&'p [Stmt], Arg),
        carries: &[Carry],
        body: &'p [Stmt],
        lines: &SourceLines,
    ) -> Result<(), Problem> {
        self.flush_for(stmt)?;
        self.ranges.invalidate_all(head);
        self.ranges.invalidate_all(body);
        let before = self.pending.len();
        self.names.enter();
        self.depth += 1;
        // Write the head to a separate text. If it needs no statements of its own, it is printed as the condition of
        // the `while`.
        let text = std::mem::take(&mut self.out);
        for stmt in head {
            self.statement(stmt, lines)?;
        }
        let condition_text = self.arg(condition)?;
        let head_text = std::mem::replace(&mut self.out, text);
        self.depth -= 1;
        if head_text.is_empty() {
            self.line(&format!("while {} {{", condition_text.text()));
            self.depth += 1;
        } else {
            self.line("loop {");
            self.out += &head_text;
            self.depth += 1;
            let not = Expression::unary("!", condition_text);
            self.line(&format!("if {} {{", not.text()));
            self.line("    break;");
            self.line("}");
        }
        self.ranges.facts.push((condition, true));
        for stmt in body {
            self.statement(stmt, lines)?;
        }
        self.ranges.facts.pop();
        self.pending.truncate(before);
        carries.iter().for_each(|carry| self.carry(carry));
        self.depth -= 1;
        self.line("}");
        self.names.leave();
        self.ranges.invalidate_all(head);
        self.ranges.invalidate_all(body);
        Ok(())
    }

    pub(super) fn branch(
        &mut self,
        stmt: &'p Stmt,
        condition: Arg,
        then: &'p [Stmt],
        otherwise: &'p [Stmt],
        lines: &SourceLines,
    ) -> Result<(), Problem> {
        let text = self.arg(condition)?;
        self.flush_for(stmt)?;
        let side = |printer: &mut Self, block: &'p [Stmt], holds| {
            printer.ranges.facts.push((condition, holds));
            let result = printer.scope(block, lines);
            printer.ranges.facts.pop();
            printer.ranges.invalidate_all(block);
            result
        };
        if then.is_empty() && !otherwise.is_empty() {
            let not = Expression::unary("!", text);
            self.line(&format!("if {} {{", not.text()));
            side(self, otherwise, false)?;
        } else {
            self.line(&format!("if {} {{", text.text()));
            side(self, then, true)?;
            if !otherwise.is_empty() {
                self.line("} else {");
                side(self, otherwise, false)?;
            }
        }
        self.line("}");
        Ok(())
    }

    /// Prints the statement that passes a carried array or number to the next iteration of a loop.
    pub(super) fn carry(&mut self, carry: &Carry) {
        let (to, from) = (carry.input.buffer, carry.output.buffer);
        if to == from {
            return;
        }
        let [to_place, from_place] = [to, from].map(|b| self.places[b].clone().unwrap_or_default());
        if is_number(self.kernel, to) {
            self.line(&format!("{to_place} = {from_place};"));
        } else if [to, from].iter().all(|b| is_local(self.kernel, *b)) {
            self.line(&format!("std::mem::swap(&mut {to_place}, &mut {from_place});"));
        } else {
            let other = self.borrowed(from, true);
            self.line(&format!("{to_place}.swap_with_slice({other});"));
        }
    }
}
