//! Array primitives that move, fold, contract and sort elements, one file each.

pub(crate) mod argreduce;
pub(crate) mod argsort;
pub(crate) mod broadcast;
pub(crate) mod concatenate;
pub(crate) mod cumulate;
pub(crate) mod diagonal;
pub(crate) mod dot;
pub(crate) mod dot_rewrites;
pub(crate) mod dropped;
pub(crate) mod dynamic_slice;
pub(crate) mod dynamic_update_slice;
pub(crate) mod gather;
pub(crate) mod iota;
pub(crate) mod pad;
pub(crate) mod permute;
pub(crate) mod polyphase;
pub(crate) mod recurrence;
pub(crate) mod reduce;
pub(crate) mod reduce_rewrites;
pub(crate) mod reshape;
pub(crate) mod rev;
pub(crate) mod scatter;
pub(crate) mod scatter_derivatives;
pub(crate) mod slice;
pub(crate) mod stop_gradient;
pub(crate) mod window;
