//! The operands of contractions and regions (calls, branches, loops): their axes, their strides in memory, and which of
//! the operands are copied first.

pub(crate) mod blas_select;
pub(crate) mod contraction;
pub(crate) mod region_operands;
pub(crate) mod strided_layout;
