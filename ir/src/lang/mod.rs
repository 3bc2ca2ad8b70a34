//! The language: types, literals, functions in modules, queries about functions, and the reference interpreter.

pub(crate) mod builder;
pub(crate) mod eval;
pub(crate) mod function;
pub(crate) mod host;
pub(crate) mod literal;
pub(crate) mod module;
pub(crate) mod phase;
pub(crate) mod problem;
pub mod query;
pub(crate) mod remap;
pub(crate) mod source_loc;
pub(crate) mod spelling;
pub(crate) mod stack;
pub(crate) mod types;
pub(crate) mod value;
pub(crate) mod verify;
