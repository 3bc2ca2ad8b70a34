//! Passes on loops, by analysis of the accesses of iterations to arrays.
//!
//! Indices in loops are affine forms of counters and constants. So the part of a carried array that a loop
//! reads or writes is known, and often it is a small part. The passes are exact:
//!
//! | file | |
//! |---|---|
//! | `dedup_constants` | merges constants of a loop with the same operand |
//! | `drained_carries` | carried arrays that iterations only read and reset, element by element, become constants |
//! | `fold_ranges` | folds integers that can only have one value |
//! | `forward_stores` | forwards written boxes to reads, and drops overwritten writes |
//! | `hoist_invariants` | computes loop-invariant equations in front of the loop |
//! | `narrow_carries` | narrows a carried array to the part that the loop writes |
//! | `promote_reads` | passes to branches the elements that they read, in place of the array |
//! | `rolling_buffer` | loops that compute each row of an array from earlier rows carry rows in place of the array |
//! | `stack_outputs` | a carried array that iterations only fill becomes a stacked output |
//! | `zero_trip_loops` | replaces loops without an iteration by their initial values |
//!
//! The passes share these files:
//!
//! | file | |
//! |---|---|
//! | `interval` | intervals of integers |
//! | `integer_facts` | the intervals of all integers of a function, and indices as affine forms |
//! | `access` | the boxes of arrays that equations read and write |
//! | `access_box` | boxes in arrays, and whether they overlap |
//! | `uses` | the reads of a value after its definition |
//! | `loop_editor` | a loop being edited |
//! | `region_rewriter` | the walk over regions, innermost bodies first |

mod access;
mod access_box;
pub(crate) mod dedup_constants;
pub(crate) mod drained_carries;
pub(crate) mod flush_subnormals;
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
