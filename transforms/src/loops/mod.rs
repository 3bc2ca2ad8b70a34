//! Passes on loops: where iterations read and write arrays, and what follows from it.
//!
//! Indices of loops are sums of counters and constants, so it is known where a loop reads and writes an
//! array that it carries, and often that is a small part of it. The passes that use it are exact:
//!
//! | file | |
//! |---|---|
//! | `dedup_constants` | constants of a loop that are one value are one |
//! | `drained_carries` | loops take as constants what they leave empty, place by place |
//! | `fold_ranges` | integers that can only be one number are that number |
//! | `forward_stores` | boxes that were just written are not read, and not written twice |
//! | `hoist_invariants` | what no iteration changes is computed in front of the loop |
//! | `narrow_carries` | loops carry what they write of an array, and not the array |
//! | `promote_reads` | branches take the elements that they read |
//! | `rolling_buffer` | loops that make a row from those before it carry rows |
//! | `stack_outputs` | loops give what they set whole, place by place, and do not read |
//! | `zero_trip_loops` | loops without an iteration give what they begin with |
//!
//! and these are what they are made of:
//!
//! | file | |
//! |---|---|
//! | `interval` | what an integer can be |
//! | `integer_facts` | the ranges of all integers of a function, and indices as sums |
//! | `access` | where equations read and write an array, as sums |
//! | `access_box` | boxes in arrays: which ones meet |
//! | `uses` | what is read of a value behind who makes it |
//! | `loop_editor` | loops where they stand |
//! | `region_rewriter` | innermost bodies first |

mod access;
mod access_box;
pub(crate) mod dedup_constants;
pub(crate) mod drained_carries;
pub(crate) mod fold_ranges;
pub(crate) mod forward_stores;
pub(crate) mod hoist_invariants;
mod integer_facts;
mod loop_editor;
pub(crate) mod narrow_carries;
pub(crate) mod promote_reads;
mod region_rewriter;
pub(crate) mod rolling_buffer;
pub(crate) mod stack_outputs;
mod uses;
pub(crate) mod zero_trip_loops;

pub(crate) use integer_facts::integers;
