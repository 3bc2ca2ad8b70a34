//! From loop trees to statements: the memory of nodes, and the code of regions (calls, branches, loops) and dynamic
//! tapes.

pub(crate) mod buffer_assignment;
mod buffer_liveness;
mod coalesce;
pub(crate) mod dynamic_tape;
mod emit;
mod region;
mod tape_cursors;
