//! Reports about programs of XLA, which `explain` prints.

use super::{ExecutionMemory, Program};
use crate::stablehlo;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use tapeloom_ir::{ArrayType, FuncId, Module, Problem, Stopwatch};
use tapeloom_pjrt::Client;

/// A report about a program that a plugin of XLA compiled. `Display` prints it as sections.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The client as text: the plugin and the number of its devices.
    pub client: String,
    /// The program as StableHLO, which the plugin compiled.
    pub text: String,
    /// The functions of this process that the program calls, by name, each with the number of its calls in the text.
    pub calls: BTreeMap<String, usize>,
    /// For each operation of HLO, the number of times that it occurs in the program that the plugin optimized. `None` if
    /// the plugin does not show that program.
    pub operations: Option<BTreeMap<String, usize>>,
    /// The arguments of a call.
    pub arguments: Vec<Argument>,
    /// The types of the tensors that the closure captured, which were copied to the device when the program was compiled.
    pub captured: Vec<ArrayType>,
    /// The memory that a call needs if it may take over the memory of all arguments; `None` if the plugin does not
    /// state it.
    pub memory: Option<ExecutionMemory>,
    /// The time in which this library wrote the text.
    pub write: Duration,
    /// The time in which the plugin compiled the text.
    pub compile: Duration,
}

/// An argument of a program.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Argument {
    /// The argument's path in the tree of arguments, such as `argument.0`.
    pub path: String,
    /// The argument's shape and dtype.
    pub ty: ArrayType,
    /// The number of the result that may take over the argument's memory, if the caller passes the last handle of the
    /// argument. `None` if no result may take it over, or if the plugin does not show the optimized program.
    pub result: Option<usize>,
}

/// Compiles a function, and returns a report about the compiled program. `paths` names the function's first parameters;
/// the other parameters are captured tensors.
///
/// # Errors
/// As [`Program::compile`].
pub fn explain(
    module: &Module,
    func: FuncId,
    client: &Client,
    options: &stablehlo::Options,
    paths: Vec<String>,
) -> Result<Report, Problem> {
    let start = Stopwatch::start();
    let text = stablehlo::text_for_client(module, func, options, &[])?;
    let write = start.elapsed();
    let program = Program::compile(module, func, client, options, &vec![true; paths.len()])?;
    let compile = start.elapsed().saturating_sub(2 * write);
    let count = |name: &str| text.text.matches(&format!("@{name}(")).count();
    let calls = text.client.iter().map(|of| (of.name(), count(&of.name()))).collect();
    let aliases = program.aliases().unwrap_or_default();
    let of = |i| aliases.iter().find(|(argument, _)| *argument == i).map(|(_, result)| *result);
    let mut types = program.params().cloned();
    let arguments = paths.into_iter().zip(types.by_ref()).enumerate();
    let arguments = arguments.map(|(i, (path, ty))| Argument { path, ty, result: of(i) }).collect();
    Ok(Report {
        client: format!("{client:?}"),
        text: text.text,
        calls,
        operations: program.operations(),
        arguments,
        captured: types.collect(),
        memory: program.memory(),
        write,
        compile,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "== StableHLO\n{}", self.text.trim_end())?;
        writeln!(f, "== functions of this process")?;
        match self.calls.is_empty() {
            true => writeln!(f, "(none)")?,
            false => counts(f, &self.calls)?,
        }
        writeln!(f, "== operations of the optimized program")?;
        match &self.operations {
            Some(operations) => counts(f, operations)?,
            None => writeln!(f, "(the plugin does not show the program)")?,
        }
        writeln!(f, "== arguments on the device")?;
        if self.arguments.is_empty() {
            writeln!(f, "(none)")?;
        }
        for Argument { path, ty, result } in &self.arguments {
            match result {
                Some(result) => writeln!(
                    f,
                    "{path}: {ty}, can be donated: result {result} may lie in its memory"
                )?,
                None => writeln!(f, "{path}: {ty}, cannot be donated")?,
            }
        }
        for ty in &self.captured {
            writeln!(f, "captured: {ty}, copied to the device once")?;
        }
        writeln!(f, "== memory")?;
        match self.memory {
            Some(ExecutionMemory { arguments, results, shared, temporary }) => writeln!(
                f,
                "{arguments} bytes of arguments, {results} of results, of which {shared} lie in \
                 memory of arguments, and {temporary} of temporary values"
            ),
            None => writeln!(f, "(the plugin does not state it)"),
        }
    }
}

/// Prints a table of counts, the largest first.
fn counts(f: &mut fmt::Formatter<'_>, all: &BTreeMap<String, usize>) -> fmt::Result {
    let mut rows: Vec<_> = all.iter().collect();
    rows.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
    rows.into_iter().try_for_each(|(name, count)| writeln!(f, "{count:5} {name}"))
}
