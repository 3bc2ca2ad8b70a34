//! Prints elements and parts of arrays, with their addresses as index expressions of Rust.

use super::{Printer, Record};
use crate::loop_ir::{Address, Arg, BufferId, Place, View};
use crate::rust_source::declarations::is_number;
use crate::rust_source::expression::{Expression, Level};
use tapeloom_ir::Problem;

impl<'p> Printer<'_, 'p> {
    /// Returns the Rust expression for the element of a buffer at an address.
    pub(super) fn element(
        &mut self,
        buffer: BufferId,
        address: &Address,
        guard: Option<Arg>,
    ) -> Result<Expression, Problem> {
        let mut element = match self.places[buffer].clone() {
            Some(place) if is_number(self.kernel, buffer) => {
                // A number has no index, so the address is not printed. Count the use of its operand as printed,
                // because one use less remains.
                if let Some(dynamic) = address.dynamic {
                    self.arg(dynamic)?;
                }
                let level = if place.starts_with('*') { Level::Unary } else { Level::Postfix };
                Expression::new(place, level)
            }
            Some(place) => {
                let index = self.address(address, None, guard)?;
                let text = format!("{place}[{}]", index.text());
                Expression::atom(text).reading(&[index])
            }
            None => {
                let (record, field) = self.record_field(buffer).ok_or_else(|| {
                    Problem::internal("a record of Rust source to which no cursor points")
                })?;
                let elements = self.kernel.buffers[buffer].ty.shape.elements();
                let start = match elements {
                    1 => record,
                    n => format!("{record} * {n}"),
                };
                let index = self.address(address, Some(start), guard)?;
                Expression::atom(format!("{field}[{}]", index.text())).reading(&[index])
            }
        };
        element.reads.buffers.insert(buffer);
        Ok(element)
    }

    /// If a buffer lies in a tape record, returns the number of the record and the expression of the tape's field, as
    /// text.
    pub(super) fn record_field(&self, buffer: BufferId) -> Option<(String, String)> {
        let Place::Record { cursor, offset } = self.kernel.buffers[buffer].place else {
            return None;
        };
        let Record { index, target: (tape, field) } = self.records[cursor].clone()?;
        let ty = &self.kernel.buffers[buffer].ty;
        let tapes = &self.source.tapes;
        let of = tapes.field(tape, field + offset, ty.dtype, ty.shape.elements())?;
        Some((index, format!("{}.{}", tapes.all[tape].name, of.name)))
    }

    /// Returns an address as an index expression. Negative terms come last in the sum, because an index is unsigned and
    /// no partial sum may be negative.
    pub(super) fn address(
        &mut self,
        address: &Address,
        start: Option<String>,
        guard: Option<Arg>,
    ) -> Result<Expression, Problem> {
        let mut plus: Vec<Expression> =
            start.into_iter().map(|s| Expression::new(s, Level::Product)).collect();
        let mut minus: Vec<Expression> = Vec::new();
        for (index, stride) in &address.terms {
            let name = self.index(*index);
            let factor = Expression::atom(stride.unsigned_abs().to_string());
            let term = match stride.unsigned_abs() {
                1 => name,
                _ => Expression::binary(name, "*", factor, Level::Product),
            };
            if *stride < 0 { minus.push(term) } else { plus.push(term) }
        }
        let offset = Expression::atom(address.offset.unsigned_abs().to_string());
        let sum = |plus: Vec<Expression>, minus: Vec<Expression>| {
            let mut plus = plus.into_iter();
            let first = plus.next().unwrap_or_else(|| Expression::atom("0"));
            let sum = plus.fold(first, |sum, x| Expression::binary(sum, "+", x, Level::Sum));
            minus.into_iter().fold(sum, |sum, x| Expression::binary(sum, "-", x, Level::Sum))
        };
        let Some(dynamic) = address.dynamic else {
            match address.offset {
                1.. => plus.push(offset),
                0 => {}
                _ => minus.push(offset),
            }
            return Ok(sum(plus, minus));
        };
        let only = Address { dynamic: Some(dynamic), ..Address::default() };
        let least = self.ranges.address(&only, guard).map_or(0, |range| range.least);
        let dynamic = self.arg(dynamic)?;
        if least >= 0 || (plus.is_empty() && minus.is_empty() && address.offset == 0) {
            plus.push(Expression::cast(dynamic, "usize"));
            match address.offset {
                1.. => plus.push(offset),
                0 => {}
                _ => minus.push(offset),
            }
            return Ok(sum(plus, minus));
        }
        let mut total = dynamic;
        let integer = |x: Expression| Expression::cast(x, "i64");
        if !plus.is_empty() {
            let rest = integer(sum(plus, Vec::new()));
            total = Expression::binary(total, "+", rest, Level::Sum);
        }
        for x in minus {
            total = Expression::binary(total, "-", integer(x), Level::Sum);
        }
        total = match address.offset {
            1.. => Expression::binary(total, "+", offset, Level::Sum),
            0 => total,
            _ => Expression::binary(total, "-", offset, Level::Sum),
        };
        Ok(Expression::cast(total, "usize"))
    }

    /// Returns a view (a part of an array) as an argument of a call: a number, or a reference to a slice of elements.
    pub(super) fn view(&mut self, view: &'p View, mutable: bool) -> Result<String, Problem> {
        let View { held, at, elements } = view;
        let buffer = held.buffer;
        let size = self.kernel.buffers[buffer].ty.shape.elements();
        let borrow = if mutable { "&mut " } else { "&" };
        if *elements == 1 {
            let element = self.element(buffer, at, None)?;
            let text = element.text();
            return Ok(match (mutable, text.strip_prefix('*')) {
                (true, Some(reference)) => reference.to_owned(),
                (true, None) => format!("&mut {text}"),
                (false, _) => text.to_owned(),
            });
        }
        if self.places[buffer].is_some() && *elements == size {
            if let Some(dynamic) = at.dynamic {
                self.arg(dynamic)?;
            }
            return Ok(self.borrowed(buffer, mutable));
        }
        let (place, start) = match self.places[buffer].clone() {
            Some(place) => (place, None),
            None => {
                let (record, field) = self.record_field(buffer).ok_or_else(|| {
                    Problem::internal("a record of Rust source to which no cursor points")
                })?;
                (field, Some(format!("{record} * {size}")))
            }
        };
        let first = self.address(at, start, None)?;
        Ok(match first.text() {
            "0" => format!("{borrow}{place}[..{elements}]"),
            text => format!("{borrow}{place}[{text}..][..{elements}]"),
        })
    }

    /// Returns the expression of a reference to a whole array, mutable if `mutable`.
    pub(super) fn borrowed(&self, buffer: BufferId, mutable: bool) -> String {
        let place = self.places[buffer].clone().unwrap_or_default();
        let is_array = !is_number(self.kernel, buffer);
        let is_reference = match self.kernel.buffers[buffer].place {
            // A captured tensor is a constant of the module, whose name is in upper case, and is no reference.
            Place::Input(_) => !place.starts_with(|c: char| c.is_ascii_uppercase()),
            Place::Output(_) | Place::Donated { .. } => true,
            Place::Workspace(_) | Place::Private(_) | Place::Unplaced | Place::Record { .. } => {
                false
            }
        };
        match (is_reference, mutable) {
            (true, _) if is_array => place,
            (true, true) => place.trim_start_matches('*').to_owned(),
            (_, true) => format!("&mut {place}"),
            (_, false) => format!("&{place}"),
        }
    }
}
