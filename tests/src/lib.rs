//! Laws, text tests and doctests.
