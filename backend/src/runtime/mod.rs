//! The run-time support of compiled programs: external calls, tape memory, matrix products, sorts, limits, timers,
//! threads.

pub(crate) mod abi;
pub(crate) mod argsort;
pub(crate) mod external_calls;
pub(crate) mod gemm;
pub(crate) mod loop_limits;
pub(crate) mod small_gemm;
pub(crate) mod tape_memory;
pub(crate) mod threads;
pub(crate) mod timers;
