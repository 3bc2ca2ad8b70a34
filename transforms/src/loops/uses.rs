//! The reads of a value after its definition.

use super::access::Access;
use super::integer_facts::ValueFacts;
use tapeloom_ir::analysis::affine::Affine;
use tapeloom_ir::{Atom, Function, ValueId};

/// The only box (range of indices along each axis) of a value that later equations read: its first index and its size
/// along each axis.
#[derive(PartialEq, Eq)]
pub(super) struct OneBox {
    pub(super) starts: Vec<i64>,
    pub(super) sizes: Vec<usize>,
}

/// Per output of an equation: the one box (range of indices along each axis) of that output that later equations read;
/// `None` if the output has any other use.
pub(super) type SoleReads<'a> = dyn Fn(usize) -> Option<OneBox> + 'a;

impl OneBox {
    /// Returns the one box of value `v` that the equations of `f` read; `None` if they read two boxes, or use `v`
    /// in another way.
    pub(super) fn of(known: &ValueFacts<'_>, f: &Function, v: ValueId) -> Option<OneBox> {
        let is = |a: &Atom| a.value() == Some(v);
        if f.results.iter().any(is) {
            return None;
        }
        let mut found: Option<OneBox> = None;
        for e in f.equations.iter().filter(|e| e.operands.iter().any(is)) {
            let touch = Access::of(known, f, e)?;
            if touch.part.writes.is_some() || e.operands[1..].iter().any(is) {
                return None;
            }
            let starts = touch.starts.iter().map(Affine::value).collect::<Option<Vec<i64>>>()?;
            let read = OneBox { starts, sizes: touch.part.sizes };
            if found.as_ref().is_some_and(|found| *found != read) {
                return None;
            }
            found = Some(read);
        }
        found
    }
}
