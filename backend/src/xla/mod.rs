//! Programs on the devices of XLA, the compiler of JAX.
//!
//! A function is written as StableHLO ([`crate::stablehlo`]); a plugin of XLA, which `tapeloom-pjrt` loads when the
//! program runs, compiles the text and runs it. None of the passes on loops applies: XLA fuses, plans memory and
//! generates code itself.
//!
//! Arrays move between host and device only in [`DeviceArray::upload`], [`DeviceArray::download`] and [`Program::call`].

mod array;
mod client_functions;
mod program;

pub use array::DeviceArray;
pub use program::Program;
pub use tapeloom_pjrt::{
    Client, ClientOptions, Error as ClientError, NamedValue, PLUGIN_VARIABLE, Plugin, Transfers,
};

use tapeloom_ir::{Kind, Problem};

/// Returns an error of the client or the plugin as a problem of the program on this target.
pub fn problem(error: &ClientError) -> Problem {
    Problem::new(Kind::Target, error.to_string(), "")
}
