//! What the tests share: numbers, comparison, programs to run.
//!
//! - [`Rng`]: reproducible random tensors;
//! - [`Agreement`]: what it means that two engines computed the same;
//! - [`bisect`]: which pass on kernels is wrong;
//! - [`calculus`]: what derivatives and batches are, to test transforms against;
//! - [`cases`]: every primitive's samples as programs, for the laws;
//! - [`Vocabulary`]: random programs, for the same laws;
//! - [`EXAMPLES`]: functions as text, to compose transforms on;
//! - [`program_generator`]: random programs, attributes drawn to fit shapes;
//! - [`Elements`]: elements by position; [`read_tensor`]: tensors as text;
//! - [`Counting`]: an allocator that counts;
//! - [`conformance`]: golden numbers computed by JAX;
//! - [`equations`]: differential equations, to solve and to measure;
//! - [`gradbench`]: the evals of GradBench and its protocol;
//! - [`imperative`]: random programs that write to arrays, and what they mean;
//! - [`layouts`]: the same tape laid out in four ways, to measure;
//! - [`marks`]: what it means that no pass looks through a `barrier`;
//! - [`equivalences`]: two functions that are to be one, under every transform;
//! - [`random_loops`]: random programs with loops, under policies and budgets;
//! - [`recorded`]: what it means that a recording is right;
//! - [`replay`]: fingerprints of all programs, to compare before and after a change;
//! - [`suite`]: nine kernels to measure what gradients keep;
//! - [`Sweep`]: the table of the tests over many cases;
//! - [`size_counters`]: how large programs are when they are compiled;
//! - [`error_asserts`]: what an error must tell;
//! - [`transformer`]: blocks of a transformer, to measure;
//! - [`Listener`]: what programs tell the world outside;
//! - [`wide`]: loops and branches of very many values, to measure the compiler;
//! - [`transform_words`]: transforms one after the other, each tested against the program before it;
//! - [`TextTest`]: a program, what to do with it, and what must come out.

mod agreement;
pub mod bisect;
pub mod book;
pub mod calculus;
pub mod conformance;
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
pub mod program_generator;
mod programs;
mod random;
pub mod random_loops;
pub mod recorded;
pub mod repeated;
pub mod replay;
mod samples;
pub mod size_counters;
pub mod suite;
mod sweeps;
pub mod tapeflow;
mod tensor_text;
mod text_test;
pub mod transform_words;
pub mod transformer;
pub mod vectors;
pub mod wide;

pub use agreement::{Agreement, rounded};
pub use counting::Counting;
pub use effect_log::{Heard, Listener};
pub use elements::{Elements, tensor_of};
pub use examples::{EXAMPLES, Example};
pub use programs::Vocabulary;
pub use random::{EDGES, Rng, edge_tensors};
pub use samples::{Case, cases};
pub use sweeps::Sweep;
pub use tensor_text::{read_tensor, read_tensors, show_tensor, show_tensors};
pub use text_test::TextTest;

use tapeloom_ir::{FuncId, Module, Problem, Tensor, Value, eval_values, print_function, verify};

/// The error of a test: any message.
pub type Failure = Box<dyn std::error::Error>;

/// Verifies a function and runs it by the interpreter.
///
/// # Errors
/// Broken invariants, with the program; what a primitive reports.
pub fn run(module: &Module, f: FuncId, args: &[Tensor]) -> Result<Vec<Tensor>, Failure> {
    Ok(Value::arrays(&run_values(module, f, &values(args))?)?)
}

/// Arrays as values.
pub fn values(x: &[Tensor]) -> Vec<Value> {
    x.iter().cloned().map(Value::from).collect()
}

/// As [`run`], of values that may be tapes.
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
