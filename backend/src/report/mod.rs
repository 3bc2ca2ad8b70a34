//! What compilation reports: the memory plan, the table of the tape, the values that are rematerialized, and loops
//! whose tape grows with the number of their iterations.

mod columns;
pub(crate) mod loop_tape_warnings;
pub(crate) mod memory_plan;
pub(crate) mod rematerialized;
pub(crate) mod tape_table;
