//! The chapter "Differentiation from scratch" of the book, compiled and run.

include!(concat!(env!("OUT_DIR"), "/from_scratch.rs"));
