//! Rows: trigonometric.
