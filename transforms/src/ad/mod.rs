//! Derivatives and batches: forward mode, linearization, transposition, vectorization.

pub(crate) mod activity;
pub(crate) mod amortization;
pub(crate) mod batch;
pub(crate) mod chunked_batch;
pub(crate) mod jvp;
pub(crate) mod linearize;
pub(crate) mod reads;
pub(crate) mod transpose;
pub(crate) mod unzip;
