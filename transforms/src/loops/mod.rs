//! Places: where programs read and write arrays, and what follows from it.
//!
//! Indices of loops are sums of counters and constants, so it is known where a loop reads and writes an
//! array that it carries, and often that is a small part of it. Four passes use that, each exact:
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
//! | `last_rows` | the pass `last_rows`: the same where the last row is all that is read |
//! | `stack_outputs` | loops give what they set whole, place by place, and do not read |
//! | `tidy` | all of them, in their order before reverse mode |
//!
//! The first two run before reverse mode, which then keeps the part and not the whole, and before code is made.
//! The third runs where bytes are counted, for plans within a budget. The fourth runs where the first two do, since
//! other arrays of rows are filled where they lie.

mod access;
mod access_box;
mod dedup_constants;
mod drained;
mod fold_ranges;
mod forward_stores;
mod integer_facts;
mod last_rows;
mod loop_editor;
mod narrow_carries;
mod promote_reads;
mod region_rewriter;
mod rolling_buffer;
mod stack_outputs;
mod tidy;
mod uses;

pub use fold_ranges::ranges;
pub(crate) use integer_facts::integers;
pub use last_rows::last_rows;
pub use narrow_carries::windows;
pub use rolling_buffer::rows;
pub(crate) use tidy::tidy;
