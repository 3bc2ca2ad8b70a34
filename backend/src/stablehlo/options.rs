//! Options of the text.

use std::sync::Arc;
use tapeloom_ir::{Mesh, PartitionSpec};

/// Options of the text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Whether operations have the user's lines, as `loc("src/main.rs":3:7)`.
    pub locations: bool,
    /// Whether functions and decompositions without an operation are calls of functions that the client provides:
    /// `stablehlo.custom_call @tapeloom.lu(..) {api_version = 4}`.
    pub custom_calls: bool,
    /// Whether calls of Rust functions are calls of `tapeloom.host`, which only the client that compiles the program in this
    /// process answers. The last parameter of `main` is then the number of the execution, unless the program calls no Rust
    /// function.
    pub host_calls: bool,
    /// The largest number of iterations of a loop that saves residuals, if only the run knows their number. The residuals
    /// are then arrays for this many iterations. A loop that needs more ends there, and its float results are nan. With
    /// `custom_calls`, the limit holds for all loops whose trip count only the run knows, and a program whose loop needs
    /// more calls `tapeloom.limit`, which ends it with an error.
    pub max_steps: Option<usize>,
    /// How the program is divided among devices; `None` for a program for one device.
    pub shardings: Option<Arc<Shardings>>,
}

/// How a program is divided among devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shardings {
    /// The devices.
    pub mesh: Mesh,
    /// The partition specs of the arguments. Arguments beyond the end of the list are copied to all devices.
    pub arguments: Vec<PartitionSpec>,
    /// The partition specs of the results. All devices have copies of results beyond the end of the list.
    pub results: Vec<PartitionSpec>,
}
