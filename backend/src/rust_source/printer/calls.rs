//! Prints calls of kernels.

use super::Printer;
use crate::loop_ir::{BufferId, Call, Place};
use crate::rust_source::expression::typed_literal;
use crate::rust_source::kernel::{Slot, slots, zeros};
use std::collections::BTreeSet;
use tapeloom_ir::{Literal, Problem};

impl<'p> Printer<'_, 'p> {
    pub(super) fn call(&mut self, call: &'p Call) -> Result<(), Problem> {
        let callee = &self.source.program.callees[call.callee];
        let tapes = self.source.tapes.of_callees[call.callee].clone();
        let is_lent = |printer: &Self, buffer: BufferId| match printer.kernel.buffers[buffer].place
        {
            Place::Record { cursor, .. } => {
                let record = printer.records[cursor].as_ref();
                record.is_some_and(|record| tapes.contains(&record.target.0))
            }
            _ => false,
        };
        let all: Vec<(Slot, BufferId)> = slots(callee);
        let mut written: BTreeSet<BufferId> = BTreeSet::new();
        let mut arguments: Vec<String> = vec![String::new(); all.len()];
        let mut after: Vec<String> = Vec::new();
        let mut stored: BTreeSet<BufferId> = BTreeSet::new();
        // Handle results first: they tell which arguments are in the same array as a result and must be copied.
        for (i, (slot, _)) in all.iter().enumerate() {
            let Slot::Output(n) = slot else { continue };
            let view = &call.outputs[*n];
            let buffer = view.held.buffer;
            stored.insert(buffer);
            let donated = callee.buffers[all[i].1].place.input().is_some();
            if written.insert(buffer) && !is_lent(self, buffer) {
                arguments[i] = self.view(view, true)?;
                continue;
            }
            let place = self.view(view, true)?;
            let dtype = self.kernel.buffers[buffer].ty.dtype;
            let name = self.names.fresh("result");
            let is_one = view.elements == 1;
            let source = place.trim_start_matches("&mut ").to_owned();
            let start = match (donated, is_one) {
                (true, true) => source.clone(),
                (true, false) => format!("{source}.to_vec()"),
                (false, true) => typed_literal(Literal::zero(dtype)),
                (false, false) => zeros(dtype, view.elements),
            };
            self.line(&format!("let mut {name} = {start};"));
            arguments[i] = format!("&mut {name}");
            after.push(match is_one {
                true => format!("{source} = {name};"),
                false => format!("{source}.copy_from_slice(&{name});"),
            });
        }
        for (i, (slot, _)) in all.iter().enumerate() {
            let Slot::Input(n) = slot else { continue };
            let view = &call.operands[*n];
            let buffer = view.held.buffer;
            let text = self.view(view, false)?;
            let overlaps = stored.contains(&buffer) || is_lent(self, buffer);
            arguments[i] = match view.elements != 1 && overlaps {
                true => {
                    let name = self.names.fresh("operand");
                    self.line(&format!("let {name} = {}.to_vec();", text.trim_start_matches('&')));
                    format!("&{name}")
                }
                false => text,
            };
        }
        // If an argument is a copy of a number, the copy is read before the call writes its results.
        for tape in tapes {
            let name = self.source.tapes.all[tape].name.clone();
            arguments.push(if self.own_tapes.contains(&tape) {
                format!("&mut {name}")
            } else {
                name
            });
        }
        self.flush(&|reads| !reads.buffers.is_disjoint(&stored))?;
        let name = self.source.kernel_names[call.callee].clone();
        self.line(&format!("{name}({});", arguments.join(", ")));
        after.iter().for_each(|line| self.line(line));
        Ok(())
    }
}
