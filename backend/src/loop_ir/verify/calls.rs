//! Verifies contractions and calls: they do not write memory that they read, and the views of a call have the types
//! and sizes that the callee expects.

use super::{Verifier, spread};
use crate::loop_ir::{
    Access, Call, CallExternal, Contract, External, MOST_LANES, Place, Sums, View,
};
use tapeloom_ir::analysis::interval::Interval;

/// A range of bytes, `from..to` of the memory `place`, that a view or buffer occupies.
pub(super) struct Span<T> {
    pub(super) place: Place,
    pub(super) from: i128,
    pub(super) to: i128,
    /// The view or buffer that occupies the bytes, for messages.
    pub(super) what: T,
    /// Whether no other span may overlap this one. Set for bytes that the call or loop writes.
    pub(super) alone: bool,
}

impl Verifier<'_> {
    pub(super) fn contract(&mut self, c: &Contract) {
        if !c.dtype.is_float() {
            self.error(format!("a contraction of {}", c.dtype));
        }
        if let Sums::Lanes(lanes) = c.sums
            && (!lanes.is_power_of_two() || lanes > MOST_LANES)
        {
            self.error(format!("{lanes} lanes are no power of two up to {MOST_LANES}"));
        }
        for (what, m) in [("lhs", &c.lhs), ("rhs", &c.rhs), ("out", &c.out)] {
            let dtype = self.p.buffers.get(m.held.buffer).map(|b| b.ty.dtype);
            self.fits(what, Some(c.dtype), dtype);
        }
        let [lhs, rhs, out] = c.accesses();
        for (read, from) in [(lhs, &c.lhs), (rhs, &c.rhs)] {
            if let Some(common) = self.common(&read, &out) {
                let to = &c.out;
                self.error(format!("the contraction reads {from} while it writes {to}: {common}"));
            }
        }
    }

    /// Checks a call of a kernel: the callee comes before this kernel, the views have the types and sizes of its
    /// inputs and outputs, and the results overlap no other view of the call.
    pub(super) fn call(&mut self, c: &Call) {
        if self.kernel.is_some_and(|k| c.callee >= k) {
            return self
                .error(format!("{} is called, but kernels call only those before them", c.callee));
        }
        let Some(callee) = self.program.callees.get(c.callee) else {
            return self.error(format!("{} does not exist", c.callee));
        };
        let inputs = callee.inputs();
        let outputs: Vec<_> = callee.outputs().into_iter().map(|(_, ty)| Some(ty)).collect();
        for (what, views, types) in
            [("operands", &c.operands, inputs), ("outputs", &c.outputs, outputs)]
        {
            if views.len() != types.len() {
                let (want, got) = (types.len(), views.len());
                self.error(format!("{} has {want} {what}, got {got}", c.callee));
            }
            for (v, ty) in views.iter().zip(types) {
                let (Some(ty), Some(b)) = (ty, self.p.buffers.get(v.held.buffer)) else { continue };
                if b.ty.dtype != ty.dtype || v.elements != ty.shape.elements() {
                    let (n, dtype) = (v.elements, b.ty.dtype);
                    self.error(format!(
                        "{v} is {n} elements of {dtype}, but {} wants {ty}",
                        c.callee
                    ));
                }
            }
        }
        if !c.frame.is_multiple_of(64) {
            self.error(format!("the frame at {} is not aligned", c.frame));
        }
        let end = c.frame.checked_add(callee.workspace);
        if end.is_none_or(|end| end > self.p.workspace) {
            self.error(format!(
                "the frame at {} with {} bytes ends beyond the workspace of {} bytes",
                c.frame, callee.workspace, self.p.workspace
            ));
        }
        // A donated operand, which the callee may overwrite, lies in the memory of its result. So it is not checked for
        // overlap.
        let mut donated = vec![false; c.operands.len()];
        for b in callee.buffers.values() {
            let Place::Donated { input, output } = b.place else { continue };
            let (Some(old), Some(new)) = (c.operands.get(input), c.outputs.get(output)) else {
                continue;
            };
            donated[input] = true;
            if (old.held.buffer, &old.at) != (new.held.buffer, &new.at) {
                self.error(format!("{old} is donated to {new}, but lies elsewhere"));
            }
        }
        let frame = i128::from(c.frame as u64)..end.unwrap_or(usize::MAX) as i128;
        let kept = c.operands.iter().zip(donated).filter(|(_, donated)| !donated);
        let views = kept.map(|(v, _)| (v, false));
        let mut spans = Vec::new();
        for (view, write) in views.chain(c.outputs.iter().map(|v| (v, true))) {
            let Some((place, from, to)) = self.bytes(&view.access(write)) else { continue };
            if matches!(place, Place::Workspace(_)) && from < frame.end && frame.start < to {
                self.error(format!("{view} lies in the frame of the call"));
            }
            spans.push(Span { place, from, to, what: view, alone: write });
        }
        self.check_disjoint(&mut spans, "the call");
    }

    /// Checks that the views of an external call have the types of its signature, and that results of a routine
    /// overlap no other view.
    pub(super) fn external(&mut self, a: &CallExternal) {
        let (signature, results) = (&a.signature, a.signature.results());
        for (what, views, types) in
            [("operands", &a.operands, &signature.operands), ("results", &a.outputs, &results)]
        {
            if views.len() != types.len() {
                let (want, got) = (types.len(), views.len());
                self.error(format!("{} has {want} {what}, got {got}", signature.name()));
            }
            for (v, ty) in views.iter().zip(types) {
                let Some(b) = self.p.buffers.get(v.held.buffer) else { continue };
                if b.ty.dtype != ty.dtype || v.elements != ty.shape.elements() {
                    let dtype = b.ty.dtype;
                    self.error(format!("{v} is {} elements of {dtype}, not {ty}", v.elements));
                }
            }
        }
        // Check overlap only for routines, which read their operands in place; the operands of a Rust function are
        // copied first.
        if let External::Routine(_) = signature.function {
            let views = a.operands.iter().map(|v| (v, false));
            let mut spans = Vec::new();
            for (view, write) in views.chain(a.outputs.iter().map(|v| (v, true))) {
                let Some((place, from, to)) = self.bytes(&view.access(write)) else { continue };
                spans.push(Span { place, from, to, what: view, alone: write });
            }
            self.check_disjoint(&mut spans, "the routine");
        }
    }

    /// Reports each result of a call (a span with `alone`) that overlaps another view of the call.
    fn check_disjoint(&mut self, spans: &mut [Span<&View>], by: &str) {
        for (it, beside) in overlapping(spans) {
            let (low, high, place) = (it.from.max(beside.from), it.to.min(beside.to), it.place);
            let (it, beside) = (it.what, beside.what);
            self.error(format!(
                "{by} writes {it} and {beside}: both have bytes {low}..{high} of {place}"
            ));
        }
    }

    /// Returns the range of bytes that an access may touch: the whole buffer if the address is not constant, and `None`
    /// if the access touches no byte.
    fn bytes(&self, a: &Access<'_>) -> Option<(Place, i128, i128)> {
        let b = self.p.buffers.get(a.held.buffer)?;
        if a.reach.iter().any(|(n, _)| *n == 0) {
            return None;
        }
        let Interval { least, most } =
            match a.address.terms.is_empty() && a.address.dynamic.is_none() {
                true => spread(a).plus(Interval::number(a.address.offset)),
                false => Interval::new(0, b.ty.shape.elements() as i128 - 1),
            };
        let (memory, start) = memory(b.place);
        let size = b.ty.dtype.bytes() as i128;
        Some((memory, start + least * size, start + (most + 1) * size))
    }

    /// Returns a description of the bytes that two accesses may both touch; `None` if there are none.
    fn common(&self, a: &Access<'_>, b: &Access<'_>) -> Option<String> {
        let (ours, theirs) = (self.bytes(a)?, self.bytes(b)?);
        let (low, high) = (ours.1.max(theirs.1), ours.2.min(theirs.2));
        let place = ours.0;
        (place == theirs.0 && low < high)
            .then(|| format!("both have bytes {low}..{high} of {place}"))
    }
}

/// Returns the memory to which a place belongs (the workspace is one memory), and the offset of the place in it, in
/// bytes.
pub(super) fn memory(place: Place) -> (Place, i128) {
    match place {
        Place::Input(_) | Place::Output(_) | Place::Donated { .. } | Place::Unplaced => (place, 0),
        Place::Workspace(offset) => (Place::Workspace(0), offset as i128),
        Place::Private(offset) => (Place::Private(0), offset as i128),
        Place::Record { cursor, offset } => (Place::Record { cursor, offset: 0 }, offset as i128),
    }
}

/// Returns pairs of overlapping spans in one memory: first a span that no other span may overlap (`alone`), then a span
/// that overlaps it. One walk over the sorted spans compares each span with two earlier spans in the same memory. These
/// are the earlier span that ends last, and the span that ends last among the earlier spans with `alone`.
pub(super) fn overlapping<T>(spans: &mut [Span<T>]) -> Vec<(&Span<T>, &Span<T>)> {
    spans.sort_by_key(|s| (s.place, s.from));
    let mut meeting = Vec::new();
    let (mut any, mut alone): (Option<&Span<T>>, Option<&Span<T>>) = (None, None);
    for s in &*spans {
        let other = if s.alone { any } else { alone };
        if let Some(other) = other.filter(|o| o.place == s.place && o.to > s.from) {
            meeting.push(if s.alone { (s, other) } else { (other, s) });
        }
        for last in [Some(&mut any), s.alone.then_some(&mut alone)].into_iter().flatten() {
            if last.is_none_or(|l| l.place != s.place || l.to < s.to) {
                *last = Some(s);
            }
        }
    }
    meeting
}
