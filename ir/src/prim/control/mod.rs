//! Region primitives: calls, branches, loops, and functions with their own derivative rules.

pub(crate) mod call;
pub(crate) mod callback;
pub(crate) mod cond;
pub(crate) mod custom;
pub(crate) mod linear_call;
pub(crate) mod loops;
pub(crate) mod multilinear;
