//! StableHLO: programs as text for other engines, such as XLA.
//!
//! [`text`] writes a function, and all functions that it runs, as a module of StableHLO in the textual form of MLIR. It
//! reads the lowerings of the equations ([`Lowering`](tapeloom_ir::prim::Lowering)) and not loop programs, because an
//! engine such as XLA fuses loops and plans memory itself.
//!
//! ```
//! use tapeloom_backend::stablehlo;
//! use tapeloom_ir::parse_module;
//! let module = parse_module("func @f(%0: f64[3], %1: f64[3]) -> (f64[]) {
//!   %2: f64[] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[0], rhs_contract=[0]} %0, %1
//!   %3: f64[] = tanh %2
//!   return %3
//! }").map_err(|e| e[0].clone())?;
//! let f = module.iter().next().map(|(id, _)| id).ok_or("no function")?;
//! assert_eq!(stablehlo::text(&module, f, &stablehlo::Options::default())?, "\
//! module @f {
//!   func.func public @main(%0: tensor<3xf64>, %1: tensor<3xf64>) -> (tensor<f64>) {
//!     %2 = stablehlo.dot_general %0, %1, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3xf64>, tensor<3xf64>) -> tensor<f64>
//!     %3 = stablehlo.tanh %2 : tensor<f64>
//!     return %3 : tensor<f64>
//!   }
//! }
//! ");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is promised
//!
//! Integers, bools, random bits, and everything that only moves elements have the same bits in every engine. Floats are
//! equal except for rounding: an engine chooses the order of sums, may fuse a product with a sum, and has its own
//! library functions ([`StableHlo`](tapeloom_ir::prim::StableHlo) says which of them are used). Where StableHLO leaves
//! a result open, the text defines it as in the language: conversions saturate, the last of several writes remains, nan
//! sorts last, and so on; the files below say how.
//!
//! Two defaults of XLA on CPUs deviate from StableHLO. `maximum` and `minimum` of a number and nan are the number,
//! unless the option `xla_cpu_enable_fast_min_max` is false (JAX sets it to false). And subnormal numbers count as
//! zero.
//!
//! | file | writes |
//! |---|---|
//! | `functions` | functions, calls, and each equation by its lowering |
//! | `codes`, `library` | elementwise operations; library functions |
//! | `views` | index arithmetic as slices, transpositions, pads, concatenations; otherwise as gathers |
//! | `reduce`, `scan` | reductions, extrema, sorts, contractions; scans |
//! | `convolution` | contractions of windows as convolutions |
//! | `accumulation` | sums into a part of an array as sums with a padded array |
//! | `gather`, `scatter` | reads and writes at computed positions |
//! | `control` | branches and loops |
//! | `routines` | decompositions and Fourier transforms |
//! | `host_calls` | calls of Rust functions |
//! | `sharding` | the mesh, and how arrays are divided among its devices |
//! | `writer`, `types` | lines of text; types and constants |
//! | `options` | options of the text |
//!
//! # What cannot be written
//!
//! - Calls of Rust functions, unless a client in this process runs the text ([`Options::host_calls`]).
//! - Loops that save residuals and whose number of iterations is known only at run time, unless there is a bound
//!   ([`Options::max_steps`]).
//! - Functions and decompositions for which StableHLO has no operation, unless the client provides them
//!   ([`Options::custom_calls`]).
//!
//! Each is an error with the user's line.
//!
//! The specification is at <https://openxla.org/stablehlo/spec>.

mod accumulation;
mod codes;
mod control;
mod convolution;
mod functions;
mod gather;
mod host_calls;
mod library;
mod options;
mod reduce;
mod routines;
mod scan;
mod scatter;
mod sharding;
mod types;
mod views;
mod writer;

pub use options::{Options, Shardings};

use tapeloom_ir::{FuncId, Module, Problem};

/// Returns the text of a module in which `func` is the function `main`, with the same arguments and results in the same
/// order. Functions that `func` calls are private functions of the module.
///
/// # Errors
/// [`Kind::Target`](tapeloom_ir::Kind) for an equation that cannot be written, with the user's line.
pub fn text(module: &Module, func: FuncId, options: &Options) -> Result<String, Problem> {
    Ok(functions::text(module, func, options, &[])?.text)
}

/// Returns a program as text, with the functions that the text calls and that the client has to provide.
#[cfg(feature = "xla")]
pub(crate) use functions::text as text_for_client;
#[cfg(feature = "xla")]
pub(crate) use types::{ClientFunction, HostFunction};
