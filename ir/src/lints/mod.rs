//! Checks that a user asks for: where a number stops being finite, where a key is used twice.

pub(crate) mod finite;
pub(crate) mod key_reuse;
