//! Loop trees: the loops, scalars and accesses of a kernel before its nodes have buffers; their index arithmetic and
//! checks.

pub(crate) mod affine;
pub(crate) mod dead_code;
pub(crate) mod loop_tree;
pub(crate) mod verify_tree;
