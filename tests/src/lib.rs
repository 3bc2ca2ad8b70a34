//! Shared helpers of the tests: random numbers, comparison, programs to run. The modules and types are listed here.
//!
//! - [`Rng`]: reproducible random tensors;
//! - [`Agreement`]: comparison of the results of two engines;
//! - [`bisect`]: finds the first pass of a list that changes results;
//! - [`calculus`]: derivatives and batches by definition, with which transforms are compared;
//! - [`cases`]: every primitive's samples as programs, for the tests over all primitives;
//! - [`Vocabulary`]: random programs, for the same tests;
//! - [`EXAMPLES`]: functions as text, to compose transforms on;
//! - [`program_generator`]: random programs whose attributes are drawn to fit the shapes of the operands;
//! - [`Elements`]: elements by position; [`read_tensor`]: tensors as text;
//! - [`Counting`]: an allocator that counts the bytes that are allocated;
//! - [`conformance`]: golden numbers computed by JAX;
//! - [`equations`]: differential equations, to solve and to measure;
//! - [`gradbench`]: the evals of GradBench and its protocol;
//! - [`imperative`]: random programs that write to arrays, and their reference results;
//! - [`layouts`]: the same tape in four memory layouts, to measure;
//! - [`marks`]: a check that no pass looks through a `barrier`;
//! - [`equivalences`]: pairs of functions that must be equal under every transform;
//! - [`on_xla`]: programs to measure on XLA beside JAX;
//! - [`random_loops`]: random programs with loops, under policies and budgets;
//! - [`recorded`]: comparison of recordings with reverse mode;
//! - [`replay`]: fingerprints of all programs, to compare before and after a change;
//! - [`stablehlo_check`]: a check of StableHLO text;
//! - [`objects`]: C programs that call objects;
//! - [`stress`]: many threads that call the same programs;
//! - [`suite`]: nine kernels, to measure the residuals of their gradients;
//! - [`Sweep`]: the table of the tests over many cases;
//! - [`size_counters`]: sizes of compiled programs;
//! - [`error_asserts`]: checks of error messages;
//! - [`transformer`]: blocks of a transformer, to measure;
//! - [`Listener`]: a log of ordered effects;
//! - [`wide`]: loops and branches with very many values, to measure compile time;
//! - [`transform_words`]: transforms applied one after the other, each tested against the program before it;
//! - [`xla`]: programs in StableHLO on a plugin of XLA;
//! - [`TextTest`]: a test as a text file, with a program, a pipeline, and the expected output.

mod agreement;
pub mod bisect;
pub mod book;
pub mod calculus;
pub mod conformance;
pub mod cost_rows;
mod counting;
mod effect_log;
mod elements;
pub mod equations;
pub mod equivalences;
pub mod error_asserts;
pub mod exactness;
mod examples;
pub mod f32_errors;
pub mod fuzz;
pub mod gradbench;
pub mod growth;
pub mod imperative;
pub mod layouts;
pub mod linear_algebra;
pub mod marks;
pub mod networks;
pub mod objects;
pub mod on_xla;
pub mod program_generator;
mod programs;
mod random;
pub mod random_batches;
pub mod random_chunks;
pub mod random_loops;
pub mod recorded;
pub mod repeated;
pub mod replay;
pub mod rust_source;
mod samples;
pub mod size_counters;
pub mod stablehlo_check;
pub mod stress;
pub mod suite;
mod sweeps;
pub mod tapeflow;
mod tensor_text;
mod text_test;
pub mod threaded;
pub mod transform_words;
pub mod transformer;
pub mod vectors;
pub mod wide;
pub mod xla;

pub use agreement::{Agreement, rounded};
pub use counting::Counting;
pub use effect_log::{Heard, Listener};
pub use elements::{Elements, tensor_of};
pub use examples::{EXAMPLES, Example};
pub use programs::Vocabulary;
pub use random::{EDGES, Rng, edge_tensors};
pub use samples::{Case, cases, library_functions};
pub use sweeps::Sweep;
pub use tensor_text::{read_tensor, read_tensors, show_tensor, show_tensors};
pub use text_test::TextTest;

use tapeloom_ir::{FuncId, Module, Problem, Tensor, Value, eval_values, print_function, verify};

/// The error of a test, with any message.
pub type Failure = Box<dyn std::error::Error>;

/// Verifies a function, interprets it, and returns its results.
///
/// # Errors
/// Broken invariants, with the program; the error of a primitive.
pub fn run(module: &Module, f: FuncId, args: &[Tensor]) -> Result<Vec<Tensor>, Failure> {
    Ok(Value::arrays(&run_values(module, f, &values(args))?)?)
}

/// Converts tensors to interpreter values.
pub fn values(x: &[Tensor]) -> Vec<Value> {
    x.iter().cloned().map(Value::from).collect()
}

/// Evaluates a function by the interpreter, as [`run`] does, for arguments and results that may be dynamic tapes.
///
/// # Errors
/// As [`run`].
pub fn run_values(module: &Module, f: FuncId, args: &[Value]) -> Result<Vec<Value>, Failure> {
    let broken = verify(module, f);
    if !broken.is_empty() {
        let list: String = broken.iter().map(|e| format!("{e}\n")).collect();
        return Err(format!("{list}{}", print_function(module, f)).into());
    }
    let located = |p: Problem| format!("{p} in\n{}", print_function(module, f));
    Ok(eval_values(module, f, args).map_err(located)?)
}
