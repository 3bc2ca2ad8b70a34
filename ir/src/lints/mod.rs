//! Checks that run on request: numbers that are not finite, and keys that are used twice.

pub(crate) mod finite;
pub(crate) mod key_reuse;
