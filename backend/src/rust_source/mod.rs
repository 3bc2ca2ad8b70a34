//! Programs as Rust source that uses only the standard library. A person can read and audit the source, and copy it
//! into a crate.
//!
//! The text is written from the loop program, which the pass list [`RUST_SOURCE`] prepares: its loops are not cut for
//! vectors and threads. Results agree with those of machine code except for rounding: functions such as `exp` are those
//! of the standard library, and sums are added in the order of the text.
//!
//! ```
//! use tapeloom_backend::{Options, rust_source};
//! use tapeloom_ir::parse_module;
//! let text = "func @f(%0: f64[40]) -> (f64[]) {
//!   %1: f64[40] = sin %0
//!   %2: f64[] = reduce_sum{axes=[0]} %1
//!   return %2
//! }";
//! let module = parse_module(text).map_err(|e| format!("{e:?}"))?;
//! let (f, _) = module.iter().last().ok_or("no function")?;
//! let interface = rust_source::Interface {
//!     arguments: vec!["argument".to_owned()],
//!     results: vec!["result".to_owned()],
//!     captured: &[],
//!     line: None,
//! };
//! let text = rust_source::text(&module, f, &Options::default(), &interface, "total")?;
//! assert!(text.contains("pub fn total(x: &[f64; 40], y: &mut f64) {"));
//! assert!(text.contains("sum += x[i].sin();"), "{text}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | of the program | in Rust |
//! |---|---|
//! | arguments and results | numbers, references to arrays of fixed length |
//! | buffers | local numbers and arrays, named by the operations that fill them |
//! | captured tensors | constants |
//! | dynamic tapes | a struct of vectors, one for each field of the records |
//! | kernels that are called | private functions |
//! | contractions, sorts | loops, a stable sort |
//!
//! Rust source cannot express calls of Rust functions and of library routines, limits of iterations, and functions that
//! the standard library lacks and whose source in this library branches. Each is an error with the user's line.

mod buffer_names;
mod buffer_versions;
mod declarations;
mod expression;
mod kernel;
mod library_functions;
mod liveness;
mod math_helpers;
mod mutability;
mod names;
mod number_forwarding;
mod printer;
mod recorded_functions;
mod scalar_codes;
mod source_comments;
mod tapes;

use crate::compile::lowered;
use crate::loop_ir::{External, KernelId, Program, Stmt, TapeId, TapeStmt, visit};
use crate::machine::MachineModel;
use crate::passes::{Context, OBJECT, RUST_SOURCE};
use crate::report::memory_plan::Plan;
use crate::target::Options;
use cranelift_entity::PrimaryMap;
use math_helpers::Helpers;
use names::Names;
use std::collections::BTreeSet;
use tapeloom_ir::{ArrayType, FuncId, Kind, Loc, Module, Problem, Tensor, Type};
use tapeloom_routines::Argsort;
use tapes::Tapes;

pub use library_functions::is_printable;

/// The arguments and results of a function by their paths (the names under which a caller knows them), and the values
/// of captured tensors.
#[derive(Clone, Debug)]
pub struct Interface<'a> {
    /// The paths of the arguments.
    pub arguments: Vec<String>,
    /// The paths of the results.
    pub results: Vec<String>,
    /// The values of the function's last parameters, which become constants.
    pub captured: &'a [Tensor],
    /// The user's line that asked for the Rust source. Errors name this line.
    pub line: Loc,
}

/// The program to print, and the parts of the text that all functions share.
struct Source<'a> {
    program: &'a Program,
    plan: &'a Plan,
    name: &'a str,
    arguments: Vec<(String, ArrayType)>,
    results: Vec<(String, ArrayType)>,
    captured: &'a [Tensor],
    lines: Loc,
    /// For each callee: the sort that it performs, if it is a sort. Its printed body calls the sort of the standard
    /// library instead of printing the kernel's statements.
    sorts: PrimaryMap<KernelId, Option<Argsort>>,
    tapes: Tapes,
    kernel_names: PrimaryMap<KernelId, String>,
    /// The names that are already used in the module.
    names: Names,
    helpers: Helpers,
    constants: Vec<String>,
    /// The tapes that some function shortens, by removing records from their end.
    cut: BTreeSet<TapeId>,
}

/// Returns the Rust source of a function. Its entry is a public function with the name `name`.
///
/// # Errors
/// [`Kind::Target`], with the user's line, if the function calls anything that Rust source cannot express; also if
/// `name` is no identifier of Rust. Otherwise the errors of [`compile`](crate::compile()).
pub fn text(
    module: &Module,
    func: FuncId,
    options: &Options,
    interface: &Interface<'_>,
    name: &str,
) -> Result<String, Problem> {
    if !names::is_identifier(name) {
        let message = format!("`{name}` is no name of a function in Rust");
        let help = "use letters, digits and `_`, and a letter first";
        return Err(Problem::new(Kind::Target, message, help));
    }
    let machine = readable(options.machine);
    let options = Options {
        limited: false,
        profiled: false,
        donated: Vec::new(),
        machine,
        ..options.clone()
    };
    let (mut program, plan, _) = lowered(module, func, &options, &RUST_SOURCE)?;
    refuse(&program)?;
    let sorts = program.callees.values().map(|kernel| kernel.argsort).collect();
    OBJECT.run(&mut program, &mut Context::default())?;
    drop_last_cuts(&mut program.entry.body);
    program.kernels_mut().for_each(buffer_versions::split);
    let f = module.function(func);
    let arrays = |types: Vec<Type>| -> Vec<ArrayType> {
        types.iter().filter_map(|ty| ty.as_array().cloned()).collect()
    };
    let (inputs, outputs) = (arrays(f.param_types()), arrays(f.result_types()));
    let counts = [interface.arguments.len() + interface.captured.len(), interface.results.len()];
    if counts != [inputs.len(), outputs.len()] {
        let message = "Rust source with other arguments or results than its function";
        return Err(Problem::internal(message));
    }
    let mut names = Names::new([name]);
    let kernel_names = program.callees.values().map(|kernel| names.fresh(&kernel.name)).collect();
    let tapes = Tapes::of(&program, &mut names);
    tapes.drop_words(&mut program);
    for kernel in program.kernels_mut() {
        liveness::prune(kernel);
        number_forwarding::drop_identities(kernel);
        number_forwarding::forward_numbers(kernel);
        number_forwarding::drop_identities(kernel);
        liveness::prune(kernel);
    }
    let mut source = Source {
        program: &program,
        plan: &plan,
        name,
        arguments: interface.arguments.iter().cloned().zip(inputs).collect(),
        results: interface.results.iter().cloned().zip(outputs).collect(),
        captured: interface.captured,
        lines: interface.line,
        sorts,
        tapes,
        kernel_names,
        names,
        helpers: Helpers::default(),
        constants: Vec::new(),
        cut: BTreeSet::new(),
    };
    let entry = kernel::entry(&mut source)?;
    let mut parts = vec![entry];
    for id in called(source.program) {
        parts.push(kernel::callee(&mut source, id)?);
    }
    for (id, tape) in &source.tapes.all {
        let loop_at = &source.program.tapes[id];
        let at = loop_at.loc.map_or(String::new(), |l| format!(" at {}:{}", l.file(), l.line()));
        let comment = format!("The tape of the loop{at}: one record for each iteration.");
        parts.push(tape.declaration(&comment, source.cut.contains(&id)));
    }
    parts.append(&mut source.constants);
    parts.extend(source.helpers.module());
    Ok(parts.join("\n"))
}

/// Returns a machine model that makes the source readable: small arrays are not unrolled, and loops run in the order of
/// axes.
fn readable(machine: MachineModel) -> MachineModel {
    MachineModel {
        register_elements: 0,
        unrolled_elements: 1,
        unrolled_calls: 1,
        inner_extent: 0,
        promoted_elements_of_one: 1,
        ..machine
    }
}

/// Removes the statements that shorten tapes at the end of the function that owns the tapes, because the tapes are
/// freed there anyway.
fn drop_last_cuts(body: &mut Vec<Stmt>) {
    while let Some(Stmt::Tape(TapeStmt::Cut { .. })) = body.last() {
        body.pop();
    }
    if let Some(Stmt::Nest { body, .. }) = body.last_mut() {
        drop_last_cuts(body);
    }
}

/// Returns the callees that the entry calls, directly or through other kernels, in the order of the program.
fn called(program: &Program) -> BTreeSet<KernelId> {
    let (mut found, mut left) = (BTreeSet::new(), vec![&program.entry]);
    while let Some(kernel) = left.pop() {
        visit(&kernel.body, &mut |stmt| {
            if let Stmt::Call(call) = stmt
                && found.insert(call.callee)
            {
                left.push(&program.callees[call.callee]);
            }
        });
    }
    found
}

/// Returns an error, with the user's line, if a program calls a Rust function of the process that traced the program,
/// or a library function that cannot be printed.
fn refuse(program: &Program) -> Result<(), Problem> {
    let Some(signature) = program.externals().into_iter().next() else { return Ok(()) };
    let (name, location) = (signature.name(), signature.location);
    let problem = match &signature.function {
        External::Host(_) => Problem::new(
            Kind::Target,
            format!(
                "Rust source cannot call the Rust function `{name}`, which is part of this process"
            ),
            "leave the call out of the function, and write it around the printed one",
        ),
        External::Routine(_) => Problem::new(
            Kind::Target,
            format!("Rust source cannot call the library routine `{name}`"),
            "use small matrices, whose factorizations are scalar operations, or `jit(f).call`",
        ),
    };
    Err(problem.at(location))
}
