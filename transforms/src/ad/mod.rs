//! Derivatives and batches: forward mode, linearization, transposition, reverse mode, vectorization.

pub(crate) mod activity;
pub(crate) mod batch;
pub(crate) mod jvp;
pub(crate) mod linearize;
pub(crate) mod transpose;
pub(crate) mod unzip;
pub(crate) mod vjp;
