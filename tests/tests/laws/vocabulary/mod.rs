//! The functions that users of numpy or JAX expect: existing and missing names, and the values of the existing ones
//! compared with numpy and JAX.

mod calls;
mod mistakes;
mod names;
mod values;
