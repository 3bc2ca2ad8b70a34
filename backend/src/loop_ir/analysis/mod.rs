//! Static analyses of loop programs: dependence, invariance, value ranges, constants, definite writes, cost, traffic.

pub(crate) mod block_local;
pub(crate) mod constants;
pub(crate) mod cost;
pub(crate) mod definite_write;
pub(crate) mod dependence;
pub(crate) mod invariance;
pub(crate) mod traffic;
pub(crate) mod value_range;
