//! The reads of a value after its definition.

use super::access::Access;
use super::integer_facts::Known;
use tapeloom_ir::analysis::affine::Affine;
use tapeloom_ir::{Atom, Function, ValueId};

/// The only box of a value that is read: its starts and its sizes, one per axis.
#[derive(PartialEq, Eq)]
pub(super) struct OneBox {
    pub(super) starts: Vec<i64>,
    pub(super) sizes: Vec<usize>,
}

/// For each output of an equation: the only box that is read of it, if it has no other use.
pub(super) type Behind<'a> = dyn Fn(usize) -> Option<OneBox> + 'a;

impl OneBox {
    /// Returns the only box that is read of a value of a function; `None` if the value has any other use.
    pub(super) fn of(known: &Known<'_>, f: &Function, v: ValueId) -> Option<OneBox> {
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
