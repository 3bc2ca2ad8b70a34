//! The functions that users of numpy or JAX expect: the names that exist and those that are missing, and the values of
//! the existing functions compared with numpy and JAX.

mod calls;
mod mistakes;
mod names;
mod values;
