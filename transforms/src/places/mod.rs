//! Places: where programs read and write arrays, and what follows from it.
//!
//! Indices of loops are sums of counters and constants, so it is known where a loop reads and writes an
//! array that it carries, and often that is a small part of it. Three passes use that, each exact:
//!
//! | file | |
//! |---|---|
//! | `range` | what an integer can be |
//! | `known` | the ranges of all integers of a function, and indices as sums |
//! | `settle` | the pass `ranges`: comparisons that always come out the same way |
//! | `shared` | constants of a loop that are one value are one |
//! | `area` | boxes in arrays: which ones meet |
//! | `looped` | loops where they stand |
//! | `behind` | what is read of a value behind who makes it |
//! | `lift` | branches take the elements that they read |
//! | `touch` | where equations read and write an array, as sums |
//! | `walk` | innermost bodies first |
//! | `windows` | the pass `windows`: loops carry what they write of an array, and not the array |
//! | `emptied` | loops take as constants what they leave empty, place by place |
//! | `reread` | boxes that were just written are not read, and not written twice |
//! | `rows` | the pass `rows`: loops that make a row from those before it carry rows |
//! | `filled` | loops give what they set whole, place by place, and do not read |
//!
//! The first two run before reverse mode, which then keeps the part and not the whole, and before code is made.
//! The third runs where bytes are counted, for plans within a budget, and before reverse mode for arrays of which the
//! last row is all that is read: other arrays of rows are filled where they lie.

mod area;
mod behind;
mod emptied;
mod filled;
mod known;
mod lift;
mod looped;
mod range;
mod reread;
mod rows;
mod settle;
mod shared;
mod touch;
mod walk;
mod windows;

pub(crate) use range::Range;
pub use rows::{last_rows, rows};
pub use settle::ranges;
pub use windows::windows;

use cranelift_entity::SecondaryMap;
use tapeloom_ir::{FuncId, Function, Module, Problem, Type, ValueId};

/// What the integers of a function can be.
pub(crate) fn integers(module: &Module, f: &Function) -> SecondaryMap<ValueId, Option<Range>> {
    let known = known::Known::of(module, f, &[]);
    let mut ranges = SecondaryMap::with_capacity(f.types.len());
    for (v, ty) in &f.types {
        if let Type::Array(ty) = ty
            && ty.dtype.is_integer()
        {
            ranges[v] = Some(known.range(v.into()));
        }
    }
    ranges
}

/// The same function, whose loops carry little.
pub(crate) fn tidy(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    let f = shared::shared(module, f)?;
    let f = ranges(module, f)?;
    let f = windows::all_windows(module, f)?;
    last_rows(module, f)
}
