//! The text form of programs: it is printed, parsed, compared in tests and pasted into reports.
//!
//! ```text
//! // Comments run to the end of the line.
//! func @loss.lin(%0: f64[3]; %1: f64[3]) -> (f64[], f64[]) {
//!   %2: f64[3] = mul %1, %0
//!   %3: f64[] = reduce_sum{axes=[0]} %2
//!   return %3, 0.0
//! }
//! ```
//!
//! - A module is a list of functions, callees before callers.
//! - After `;` come the linear parameters.
//! - An equation is outputs with their types, `=`, a primitive with its attributes in braces, and
//!   operands: values or literals. Attributes are integers, lists of integers, truth values,
//!   dtypes, words, functions, types and Rust functions:
//!   `name{at=3, axes=[0,1], flag=true, dtype=f32, mode=clip, body=@g, results=[f64[3]], host=&h}`.
//! - Literals are `2.5`, `3`, `2.5f32`, `3u32`, `true` and bits (see [`crate::Literal`]); types are
//!   `f64[3,4]` and `tape<f64[3], bool[]>` (see [`crate::Type`]).
//!
//! - A line such as `reverse transposed:` sets the phase of the equations below it, up to the next such line: the pass
//!   of differentiation to which they belong ([`crate::Phase`]). It consists of `forward` or `reverse`, the order if
//!   that is 2 or more (`reverse 2`), and `transposed`, `rematerialized`, both or neither. Equations above the first
//!   such line are `forward`.
//!
//! The parser accepts any names for values (`%x`); the printer numbers them, parameters first, then outputs in
//! order. So `parse ∘ print` is the identity, except that functions with equal names get suffixes.
//!
//! ```
//! let text = "func @square(%x: f64[3]) -> (f64[3]) {
//!   %y: f64[3] = mul %x, %x
//!   return %y
//! }
//! ";
//! let module = tapeloom_ir::parse_module(text).map_err(|e| e[0].clone())?;
//! let printed = tapeloom_ir::print_module(&module);
//! assert_eq!(printed, text.replace("%x", "%0").replace("%y", "%1"));
//! # Ok::<(), tapeloom_ir::ParseError>(())
//! ```
//!
//! Model: the text form of LLVM and Cranelift, with the type of every value at its definition.

mod parse;
mod print;

pub use parse::{ParseError, parse_module, parse_type};
pub(crate) use print::print_one;
pub use print::{print_equation, print_function, print_functions, print_module};
