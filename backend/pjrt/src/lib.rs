//! A client of the PJRT C API: compiles programs in StableHLO with a plugin and runs them on the plugin's devices.
//!
//! PJRT is the interface between frameworks and XLA, the compiler of JAX. A *plugin* is a dynamic library that implements
//! it for some kind of device: CPUs, GPUs, TPUs. This crate loads a plugin when the program runs, so nothing of XLA is
//! needed to build, and it has no dependencies. It knows nothing of tapeloom's programs: it takes text.
//!
//! ```
//! use tapeloom_pjrt::{Client, ClientOptions, CompileOptions, Error, Plugin};
//! # fn main() -> Result<(), Error> {
//! let text = "func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
//!     %y = stablehlo.multiply %x, %x : tensor<3xf64>
//!     return %y : tensor<3xf64>
//! }";
//! // Without a plugin the error says how to get one.
//! let Ok(plugin) = Plugin::found() else { return Ok(()) };
//! let client = Client::new(&plugin, &ClientOptions::new())?;
//! let square = client.compile(text, &CompileOptions::new())?;
//! let x = client.buffer(&[1.0, 2.0, 3.0], &[3], &client.devices()[0])?;
//! let results = square.call(&[&x])?;
//! assert_eq!(results[0].to_vec::<f64>()?, [1.0, 4.0, 9.0]);
//! # Ok(())
//! # }
//! ```
//!
//! # Objects
//!
//! * A [`Plugin`] is loaded once for each path and stays until the process ends.
//! * A [`Client`] owns [`Device`]s. A client of a plugin for CPUs divides the host into as many devices as its options say.
//! * [`Client::compile`] returns an [`Executable`] for one device, or for several: XLA inserts the communication between
//!   devices from the shardings in the text.
//! * A [`Buffer`] is an array on a device. Only [`Client::buffer`], [`Buffer::to_vec`] and their variants copy between
//!   host and devices, and [`Client::transfers`] counts their bytes.
//! * [`Executable::execute`] starts an execution and returns its results before they are computed. Copies to the host and
//!   `wait` wait for them. A bounded number of executions is in flight.
//!
//! An argument that the program takes over (`tf.aliasing_output`, `jax.buffer_donor`) is *donated*: its buffer has no memory
//! afterwards, and using it again is an error.
//!
//! Programs call Rust functions that were registered by [`Plugin::register_handler`], on plugins for CPUs.
//!
//! # Versions
//!
//! Plugins from version 0.81 of the C API on are understood; the tests run with 0.81, 0.106 and 0.115.
//!
//! # Unsafe code
//!
//! `api.rs` has the structs of the interface, `library.rs` loads a plugin, `calls` calls it; `ffi_api.rs` has the
//! structs of foreign functions, and `custom_call.rs` calls Rust from a plugin. All other files are safe.

mod api;
mod buffer;
mod calls;
mod client;
mod compile_options;
mod completion;
mod custom_call;
mod element;
mod error;
mod executable;
// The fake plugin is compiled in debug builds only, because some functions that it tests exist only there (they check
// results).
#[cfg(all(test, debug_assertions))]
mod fake_plugin;
mod ffi_api;
#[cfg(all(test, target_pointer_width = "64"))]
mod layout_tests;
mod library;
mod options;
mod plugin;
mod program;
mod proto;
mod sharding;
mod shared;

pub use buffer::Buffer;
pub use client::{Client, Transfers};
pub use compile_options::{CompileOptions, OverrideValue};
pub use completion::Completion;
pub use custom_call::{ArrayMut, ArrayRef, Attribute, CustomCall, Number};
pub use element::{ArrayType, Element, ElementType};
pub use error::{Code, Error, ErrorKind};
pub use executable::{Executable, Execution, ExecutionMemory};
pub use options::{ClientOptions, NamedValue};
pub use plugin::{PLUGIN_VARIABLE, Plugin};
pub use program::OptimizedProgram;
pub use sharding::Sharding;
pub use shared::Device;
