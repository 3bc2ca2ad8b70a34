//! The code of one element of a node: loads, index arithmetic through views, and recomputation.

mod dynamic_index;
mod element;
pub(crate) mod fusion_state;
mod rematerialize;
mod scalar_scope;
mod view;
