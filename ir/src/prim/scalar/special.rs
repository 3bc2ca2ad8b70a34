//! Rows: special.
