//! Options for writing StableHLO.

use std::sync::Arc;
use tapeloom_ir::{Mesh, PartitionSpec};

/// Options for writing a program as StableHLO.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Whether operations have the user's lines as locations, such as `loc("src/main.rs":3:7)`.
    pub locations: bool,
    /// Whether to write functions and decompositions that are no StableHLO operation as calls of functions that the
    /// client provides: `stablehlo.custom_call @tapeloom.lu(..) {api_version = 4}`.
    pub custom_calls: bool,
    /// Whether to write calls of Rust functions as calls of `tapeloom.host`. Only a client in this process, which has
    /// compiled the program, can answer these calls. If the program calls a Rust function, its `main` gets one more
    /// parameter at the end: the number of the execution.
    pub host_calls: bool,
    /// The largest number of iterations of a loop that saves residuals and whose trip count is known only at run time.
    /// The residuals are then arrays for this number of iterations. A loop that needs more iterations ends there, and
    /// its float results are nan. With `custom_calls`, the limit holds for all loops whose trip count is known only at
    /// run time, and a program in which a loop needs more iterations calls `tapeloom.limit`, which ends it with an
    /// error.
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
