//! Rows: exponential.
