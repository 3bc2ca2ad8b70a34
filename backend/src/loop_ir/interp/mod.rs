//! The interpreter of the loop IR, which defines the meaning of programs.

pub(crate) mod eval;
pub(crate) mod lane_accumulators;
pub(crate) mod memory;
pub(crate) mod observer;
#[cfg(test)]
pub(crate) mod test_hosts;
pub(crate) mod versions;
