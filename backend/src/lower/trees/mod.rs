//! Loop trees: the loops, scalars and accesses of a kernel before buffers are assigned to nodes; their index arithmetic
//! and checks.

pub(crate) mod affine;
pub(crate) mod dead_code;
pub(crate) mod loop_tree;
pub(crate) mod verify_tree;
