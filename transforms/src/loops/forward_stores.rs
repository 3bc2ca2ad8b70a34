//! `forward_stores`: if a read of a box (a range of indices along each axis of an array) directly follows a write of
//! this box, replaces the read by the value that was written; drops a write that the next write of the box overwrites.
//!
//! ```text
//! %3: f64[5,7] = dynamic_update_slice %0, %1, %2, 0          %3: f64[5,7] = dynamic_update_slice %0, %1, %2, 0
//! %4: f64[1,7] = dynamic_slice{sizes=[1,7]} %3, %2, 0   ->   %5: f64[1,7] = add %1, 1.0
//! %5: f64[1,7] = add %4, 1.0                                 %6: f64[5,7] = dynamic_update_slice %0, %5, %2, 0
//! %6: f64[5,7] = dynamic_update_slice %3, %5, %2, 0
//! ```
//!
//! A write is dropped only if no other equation reads its output: otherwise a second array would be needed.

use super::access::Access;
use super::integer_facts::ValueFacts;
use super::region_rewriter::{Rewrite, inside_out};
use crate::passes::pass::{Pass, Run};
use tapeloom_ir::prim::{Exactness, Write};
use tapeloom_ir::{Atom, Equation, Function, Operands};

/// The entry of the pass `forward_stores` in the list `PASSES`.
pub(crate) const PASS: Pass = Pass {
    name: "forward_stores",
    about: "reads of a box of an array that was just written take the written value; overwritten stores are dropped",
    exactness: Exactness::Exact,
    run: Run::Program(|_, module, f| inside_out(module, f, Rewrite::Stores)),
};

/// The writes to boxes of arrays in a function, and the reads and writes that directly follow on the same box.
pub(super) struct BoxWrites {
    /// Per equation that reads or overwrites a box just written: the index of the earlier write (for an overwrite,
    /// only if no other equation reads the earlier write's output).
    before: Vec<Option<usize>>,
    /// Per equation: the box (range of indices per axis) that the equation writes; `None` if it writes none.
    writes: Vec<Option<Write>>,
    /// Per write already copied to the new function: its array operand and its written value in the new function.
    made: Vec<Option<(Atom, Atom)>>,
}

impl BoxWrites {
    pub(super) fn of(known: &ValueFacts<'_>, f: &Function) -> BoxWrites {
        let touches: Vec<Option<Access>> =
            f.equations.iter().map(|e| Access::of(known, f, e)).collect();
        let sets = |i: usize| {
            let write = touches[i].as_ref()?.part.writes.filter(|w| !w.adds)?;
            Some(f.equations[i].operands[write.operand])
        };
        let source = |e: &Equation| {
            let x = e.operands.first()?.value()?;
            f.equations.iter().position(|w| w.outputs[..] == [x])
        };
        let mut before = vec![None; f.equations.len()];
        if !(0..before.len()).any(|i| sets(i).is_some()) {
            return BoxWrites { before, writes: Vec::new(), made: Vec::new() };
        }
        // Find reads of a box of which the last write is known.
        for (i, e) in f.equations.iter().enumerate() {
            if let (Some(touch), Some(w)) = (&touches[i], source(e))
                && let (None, Some(update), Some(wrote)) = (touch.part.writes, sets(w), &touches[w])
                && wrote.is(touch, known, f, e)
                && f.type_of(update) == f.types[e.outputs[0]]
            {
                before[i] = Some(w);
            }
        }
        // Find writes that overwrite a box whose earlier write has no other reader left: the earlier write is dropped.
        for (i, e) in f.equations.iter().enumerate() {
            if let (Some(touch), Some(w), Some(_)) = (&touches[i], source(e), sets(i))
                && let (Some(_), Some(wrote)) = (sets(w), &touches[w])
                && wrote.is(touch, known, f, e)
            {
                let made = Atom::Value(f.equations[w].outputs[0]);
                let reads = |(k, other): (usize, &Equation)| {
                    let at = other.operands.iter().position(|a| *a == made);
                    let gone = k == i || before[k] == Some(w);
                    at.is_none_or(|at| at == 0 && gone && !other.operands[1..].contains(&made))
                };
                let alone = f.equations.iter().enumerate().all(reads) && !f.results.contains(&made);
                before[i] = alone.then_some(w);
            }
        }
        let made =
            if before.iter().any(Option::is_some) { vec![None; before.len()] } else { vec![] };
        let writes = touches.iter().map(|t| t.as_ref()?.part.writes).collect();
        BoxWrites { before, writes, made }
    }

    /// Returns the value to use for the output of equation `i` if the equation reads a box (range of indices per axis)
    /// that was just written. If the equation overwrites such a box, redirects its first operand to the array before
    /// the earlier write and returns `None`.
    pub(super) fn forwarded(&mut self, i: usize, operands: &mut Operands) -> Option<Atom> {
        if self.made.is_empty() {
            return None;
        }
        let found = self.before[i].and_then(|w| self.made[w]);
        match self.writes[i] {
            None => return found.map(|(_, update)| update),
            Some(Write { operand, .. }) => {
                operands[0] = found.map_or(operands[0], |(array, _)| array);
                self.made[i] = Some((operands[0], operands[operand]));
            }
        }
        None
    }
}

impl Access {
    /// Returns whether this access and the access `other` of equation `e` read or write the same box of indices. Both
    /// arrays have the same shape.
    fn is(&self, other: &Access, known: &ValueFacts<'_>, f: &Function, e: &Equation) -> bool {
        let same = self.starts == other.starts && self.part.sizes == other.part.sizes;
        let shape = f.type_of(e.operands[0]);
        let Some(array) = shape.as_array() else { return false };
        // An out-of-range box may be clamped by one access and dropped by the other, so the box must lie inside the
        // array.
        let moved = self.part.clamps && other.part.clamps;
        same && (moved || self.is_inside(known, &array.shape))
    }
}
