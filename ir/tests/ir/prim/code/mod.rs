//! Tests of the modules of `code`.

mod edges;
mod power;
mod threefry;
