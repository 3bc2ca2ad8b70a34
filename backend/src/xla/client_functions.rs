//! The functions in this process that programs of XLA call: special functions, decompositions of matrices, a function
//! that returns the error of a loop that reached its limit, and Rust functions of the user
//! ([`host_calls`](super::host_calls)).
//!
//! Special functions and decompositions are the same code as in all other engines, so their results have the same bits.

use super::{host_calls, problem};
use crate::stablehlo::ClientFunction;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use tapeloom_ir::prim::{Library, Parameter};
use tapeloom_ir::{Code, Dtype, Literal, Problem};
use tapeloom_pjrt::{Attribute, Code as Status, CustomCall, ElementType, Error, ErrorKind, Plugin};
use tapeloom_routines::{Float, Routine};

/// The functions that were registered with plugins, each with the path of its plugin. A plugin keeps them until the
/// process ends.
static PROVIDED: Mutex<BTreeSet<(PathBuf, String)>> = Mutex::new(BTreeSet::new());

/// Registers functions with the plugin, except those that were registered before.
pub(super) fn provide(plugin: &Plugin, functions: &[ClientFunction]) -> Result<(), Problem> {
    let mut provided = PROVIDED.lock().unwrap_or_else(PoisonError::into_inner);
    for function in functions {
        let key = (plugin.path().to_owned(), function.name());
        if provided.contains(&key) {
            continue;
        }
        let registered = match function.clone() {
            ClientFunction::Elementwise(function) => {
                plugin.register_handler(&key.1, move |call| elementwise(function, call))
            }
            ClientFunction::Routine(routine) => {
                let names = routine.attributes().into_iter().map(|(name, _)| name).collect();
                let names: Vec<&'static str> = names;
                plugin.register_handler(&key.1, move |call| run(routine.name(), &names, call))
            }
            ClientFunction::Limit => plugin.register_handler(&key.1, limit),
            ClientFunction::Host | ClientFunction::HostOfSeveralDevices => {
                plugin.register_handler(&key.1, host_calls::handler)
            }
        };
        registered.map_err(|e| problem(&e))?;
        provided.insert(key);
    }
    Ok(())
}

/// The beginning of the error message for a loop that reached its limit.
pub(super) const UNFINISHED: &str = "a loop did not end after ";

/// Returns an error if the argument is true, because a loop then has reached its limit of iterations.
fn limit(call: &mut CustomCall<'_>) -> Result<(), Error> {
    if call.argument(0)?.bytes().iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    let steps = match call.attribute("steps") {
        Some(Attribute::Int(steps)) => steps.to_string(),
        _ => String::new(),
    };
    let line = match call.attribute("line") {
        Some(Attribute::Text(line)) if !line.is_empty() => format!(": the loop at {line}"),
        _ => String::new(),
    };
    let message = format!("{UNFINISHED}{steps} iterations, the limit of `max_steps`{line}");
    Err(Error::new(ErrorKind::Plugin(Status::OutOfRange), message))
}

/// Applies a library function to all elements of the arguments of a call, which are arrays of one type.
fn elementwise(function: Library, call: &mut CustomCall<'_>) -> Result<(), Error> {
    let parameter = match call.attribute("n") {
        Some(Attribute::Int(n)) => Some(Parameter::N(n)),
        _ => None,
    };
    let code = Code::named(function.name, parameter, &|_| Some(function));
    let code =
        code.ok_or_else(|| Error::argument(format!("`{}` has another order", function.name)))?;
    let (dtype, bytes) = match call.argument(0)?.array_type().element() {
        ElementType::F32 => (Dtype::F32, 4),
        ElementType::F64 => (Dtype::F64, 8),
        other => return Err(Error::argument(format!("expected floats, found {other}"))),
    };
    let literal = |bytes: &[u8]| {
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        // The upper bytes of the bits of a 32-bit literal are 0.
        Literal { dtype, bits: u64::from_le_bytes(all) }
    };
    let arguments: Vec<&[u8]> = call.arguments().iter().map(|x| x.bytes()).collect();
    let result = call.result(0)?.bytes();
    if arguments.iter().any(|x| x.len() != result.len()) {
        return Err(Error::argument("expected arrays of one type"));
    }
    let mut operands = vec![Literal::zero(dtype); arguments.len()];
    for (i, y) in result.chunks_exact_mut(bytes).enumerate() {
        for (operand, x) in operands.iter_mut().zip(&arguments) {
            *operand = literal(&x[i * bytes..(i + 1) * bytes]);
        }
        y.copy_from_slice(&code.eval(&operands).bits.to_le_bytes()[..bytes]);
    }
    Ok(())
}

/// Runs a library routine on each member of a batch.
fn run(name: &str, names: &[&str], call: &mut CustomCall<'_>) -> Result<(), Error> {
    let wrong = |what: String| Error::argument(format!("`{name}`: {what}"));
    let text = |attribute: &str| match call.attribute(attribute) {
        Some(Attribute::Int(n)) => Some(n.to_string()),
        Some(Attribute::Bool(flag)) => Some(flag.to_string()),
        Some(Attribute::Text(word)) => Some(word),
        _ => None,
    };
    let attributes: Vec<(&str, String)> =
        names.iter().filter_map(|name| Some((*name, text(name)?))).collect();
    let attributes: Vec<(&str, &str)> = attributes.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let routine = Routine::named(name, &attributes)
        .ok_or_else(|| wrong(format!("unknown attributes {attributes:?}")))?;
    let first = call.argument(0)?.array_type();
    let float = match first.element() {
        ElementType::F32 => Float::F32,
        ElementType::F64 => Float::F64,
        other => return Err(wrong(format!("expected floats, found {other}"))),
    };
    let members = first.dims().first().copied().unwrap_or(0);
    let plan = routine.plan(float).map_err(|e| wrong(e.to_string()))?;
    let mut scratch = vec![0; plan.scratch_bytes()];
    let operands: Vec<&[u8]> = call.arguments().iter().map(|x| x.bytes()).collect();
    let mut results: Vec<&mut [u8]> = call.results().iter_mut().map(|y| y.bytes()).collect();
    plan.run(members, &operands, &mut results, &mut scratch).map_err(|e| wrong(e.to_string()))
}
