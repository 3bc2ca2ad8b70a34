//! Places: where programs read and write arrays, and what follows from it.
//!
//! Indices of loops are sums of counters and constants, so it is known where a loop reads and writes an
//! array that it carries, and often that is a small part of it. Three passes use that, each exact:
//!
//! | file | |
//! |---|---|
//! | `interval` | what an integer can be |
//! | `integer_facts` | the ranges of all integers of a function, and indices as sums |
//! | `fold_ranges` | the pass `ranges`: comparisons that always come out the same way |
//! | `dedup_constants` | constants of a loop that are one value are one |
//! | `access_box` | boxes in arrays: which ones meet |
//! | `loop_editor` | loops where they stand |
//! | `uses` | what is read of a value behind who makes it |
//! | `promote_reads` | branches take the elements that they read |
//! | `access` | where equations read and write an array, as sums |
//! | `region_rewriter` | innermost bodies first |
//! | `narrow_carries` | the pass `narrow_carries`: loops carry what they write of an array, and not the array |
//! | `drained` | loops take as constants what they leave empty, place by place |
//! | `forward_stores` | boxes that were just written are not read, and not written twice |
//! | `rolling_buffer` | the pass `rolling_buffer`: loops that make a row from those before it carry rows |
//! | `stack_outputs` | loops give what they set whole, place by place, and do not read |
//!
//! The first two run before reverse mode, which then keeps the part and not the whole, and before code is made.
//! The third runs where bytes are counted, for plans within a budget, and before reverse mode for arrays of which the
//! last row is all that is read: other arrays of rows are filled where they lie.

mod access;
mod access_box;
mod dedup_constants;
mod drained;
mod fold_ranges;
mod forward_stores;
mod integer_facts;
mod interval;
mod loop_editor;
mod narrow_carries;
mod promote_reads;
mod region_rewriter;
mod rolling_buffer;
mod stack_outputs;
mod uses;

pub use fold_ranges::ranges;
pub(crate) use interval::Range;
pub use narrow_carries::windows;
pub use rolling_buffer::{last_rows, rows};

use cranelift_entity::SecondaryMap;
use tapeloom_ir::{FuncId, Function, Module, Problem, Type, ValueId};

/// What the integers of a function can be.
pub(crate) fn integers(module: &Module, f: &Function) -> SecondaryMap<ValueId, Option<Range>> {
    let known = integer_facts::Known::of(module, f, &[]);
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
    let f = dedup_constants::shared(module, f)?;
    let f = ranges(module, f)?;
    let f = narrow_carries::all_windows(module, f)?;
    last_rows(module, f)
}
