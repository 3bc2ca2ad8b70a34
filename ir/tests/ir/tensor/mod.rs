//! Tests of the modules of `tensor`.

mod buffer;
mod data;
#[cfg(target_os = "linux")]
mod huge_pages;
