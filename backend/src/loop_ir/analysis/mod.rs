//! What is known of a loop program without running it: which iterations depend on which, what is the same in all of them, which values an index takes, what is written for certain.

pub(crate) mod constants;
pub(crate) mod definite_write;
pub(crate) mod dependence;
pub(crate) mod invariance;
pub(crate) mod value_range;
