//! Reports of the compiler: the memory plan, the table of the tape, rematerialized values, and loops that save a
//! residual as large as their carry.

pub(crate) mod columns;
pub(crate) mod loop_tape_warnings;
pub(crate) mod memory_plan;
pub(crate) mod rematerialized;
pub(crate) mod tape_table;
