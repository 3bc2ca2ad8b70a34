//! The fusion candidates: the loop axes, the reads and the order of the computed nodes.

pub(crate) mod access_maps;
mod axis_order;
pub(crate) mod fusion_candidates;
pub(crate) mod iteration_domain;
pub(crate) mod view_boxes;
pub(crate) mod war_order;
