//! Programs on the devices of XLA, the compiler of JAX.
//!
//! A function is written as StableHLO ([`crate::stablehlo`]). A plugin of XLA, which `tapeloom-pjrt` loads at run time,
//! compiles the text and runs it. None of the passes on loops applies: XLA fuses, plans memory and generates code
//! itself.
//!
//! Arrays move between host and device only in [`DeviceArray::upload`], [`DeviceArray::download`] and [`Program::call`].

mod array;
mod client_functions;
mod host_calls;
mod program;
mod report;

pub use array::DeviceArray;
pub use program::Program;
pub use report::{Report, explain};
pub use tapeloom_pjrt::{
    Client, ClientOptions, Error as ClientError, ExecutionMemory, NamedValue, PLUGIN_VARIABLE,
    Plugin, Transfers,
};

use crate::stablehlo;
use tapeloom_ir::{Kind, Problem};
use tapeloom_pjrt::{Code, ErrorKind};

/// Returns the options for a text that a client in this process compiles. If the plugin is for CPUs, the text may call
/// functions of this process.
pub fn text_options(client: &Client) -> stablehlo::Options {
    let on_cpu = client.platform_name().is_ok_and(|name| name == "cpu");
    let calls = on_cpu && client.plugin().has_handlers();
    stablehlo::Options { custom_calls: calls, host_calls: calls, ..stablehlo::Options::default() }
}

/// Converts an error of the client or the plugin to a [`Problem`].
///
/// ```
/// use tapeloom_backend::xla::{ClientError, problem};
/// use tapeloom_ir::Kind;
/// let full = tapeloom_pjrt::ErrorKind::Plugin(tapeloom_pjrt::Code::ResourceExhausted);
/// assert_eq!(problem(&ClientError::new(full, "out of memory")).kind, Kind::TooLarge);
/// ```
pub fn problem(error: &ClientError) -> Problem {
    // Plugins add their own words to the error messages of the client's functions, so search for the message in the
    // text.
    if let Some(at) = error.message().find(client_functions::UNFINISHED) {
        let help = "allow more by `max_steps`, or see why the loop does not end";
        return Problem::new(Kind::Limit, error.message()[at..].trim_end(), help);
    }
    let kind = match error.kind() {
        ErrorKind::Argument | ErrorKind::Deleted => Kind::Arguments,
        ErrorKind::Plugin(Code::ResourceExhausted) => Kind::TooLarge,
        // Other errors: a missing plugin or feature, an unsupported version, or a fault of the plugin.
        _ => Kind::Target,
    };
    Problem::new(kind, error.to_string(), "")
}
