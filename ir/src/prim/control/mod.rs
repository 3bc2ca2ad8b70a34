//! Region primitives: calls, branches, loops, and functions with rules of their own.

pub(crate) mod call;
pub(crate) mod callback;
pub(crate) mod cond;
pub(crate) mod custom;
pub(crate) mod linear_call;
pub(crate) mod loops;
pub(crate) mod multilinear;
