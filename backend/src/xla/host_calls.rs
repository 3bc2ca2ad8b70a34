//! Answers calls of Rust functions by programs of XLA.
//!
//! A plugin knows one handler for all Rust functions. The program passes it a token, which is the number of the
//! execution, and the number of the call in the text ([`crate::stablehlo`]). So executions on several threads can run
//! at the same time, each with its own functions and its own error.

use crate::stablehlo::HostFunction;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tapeloom_ir::{Problem, Tensor};
use tapeloom_pjrt::{ArrayRef, Attribute, Code as Status, CustomCall, Error, ErrorKind};

/// The executions that are running, by number, and the number that the next execution gets.
static RUNNING: Mutex<Running> = Mutex::new(Running { next: 1, all: BTreeMap::new() });

struct Running {
    next: i64,
    all: BTreeMap<i64, Arc<Calls>>,
}

/// The Rust functions that an execution calls.
struct Calls {
    functions: Arc<[HostFunction]>,
    /// Whether the program runs on several devices. A handler that fails then returns zeros instead of an error. An
    /// error would end its device alone, and the plugin would end the process, because the other devices wait for that
    /// device.
    several_devices: bool,
    /// The error of the first function that failed.
    failed: Mutex<Option<Problem>>,
}

/// A running execution that may call Rust functions. It ends when this value is dropped.
pub(super) struct Execution {
    number: i64,
    calls: Arc<Calls>,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Execution {
    /// Begins an execution of a program that calls these functions.
    pub(super) fn begin(functions: &Arc<[HostFunction]>, several_devices: bool) -> Execution {
        let failed = Mutex::new(None);
        let calls = Arc::new(Calls { functions: functions.clone(), several_devices, failed });
        let mut running = locked(&RUNNING);
        let number = running.next;
        running.next += 1;
        running.all.insert(number, calls.clone());
        Execution { number, calls }
    }

    /// Returns the number of the execution, which is the program's first token.
    pub(super) fn number(&self) -> i64 {
        self.number
    }

    /// Returns the error of the first function that failed; `None` if none failed.
    pub(super) fn failure(&self) -> Option<Problem> {
        locked(&self.calls.failed).clone()
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        locked(&RUNNING).all.remove(&self.number);
    }
}

/// Answers a call of a Rust function by a program. The first argument and the first result of the call are tokens.
pub(super) fn handler(call: &mut CustomCall<'_>) -> Result<(), Error> {
    let token = call.argument(0)?.elements::<i64>()?;
    let number = token.first().map_or(0, |token| token.saturating_abs());
    let calls = locked(&RUNNING).all.get(&number).cloned();
    let calls = calls.ok_or_else(|| Error::argument(format!("no execution {number} runs")))?;
    let place = match call.attribute("call") {
        Some(Attribute::Int(place)) => usize::try_from(place).ok(),
        _ => None,
    };
    let function = place.and_then(|place| calls.functions.get(place));
    let function = function.ok_or_else(|| Error::argument("a call of an unknown function"))?;
    // After a Rust function has failed, call no further one in this execution, as in other engines.
    let before = locked(&calls.failed).clone();
    let answer = match before {
        Some(problem) => Err(problem),
        None => answer(function, &call.arguments()[1..]),
    };
    let problem = match answer {
        Ok(results) => {
            call.result(0)?.elements::<i64>()?.fill(number);
            return write(&results, call);
        }
        Err(problem) => locked(&calls.failed).get_or_insert(problem).clone(),
    };
    if !calls.several_devices {
        let line = problem.location.map_or_else(String::new, |at| format!(" ({at})"));
        let message = format!("{}{line}", problem.message);
        return Err(Error::new(ErrorKind::Plugin(Status::Aborted), message));
    }
    call.results().iter_mut().for_each(|y| y.bytes().fill(0));
    call.result(0)?.elements::<i64>()?.fill(-number);
    Ok(())
}

/// Converts the arguments of a call to tensors, calls the function, and returns its results.
fn answer(function: &HostFunction, arguments: &[ArrayRef<'_>]) -> Result<Vec<Tensor>, Problem> {
    let types = function.operands();
    if types.len() != arguments.len() {
        let message = format!("{} operands of a host call, not {}", arguments.len(), types.len());
        return Err(Problem::internal(message));
    }
    let tensors = types.iter().zip(arguments).map(|(ty, x)| Tensor::from_bytes(ty, x.bytes()));
    function.run(&tensors.collect::<Result<Vec<_>, _>>()?)
}

/// Writes the results of a function to the results of a call, after the token, which is the call's first result.
fn write(results: &[Tensor], call: &mut CustomCall<'_>) -> Result<(), Error> {
    for (i, y) in results.iter().enumerate() {
        let to = call.result(i + 1)?.bytes();
        if to.len() != y.bytes().len() {
            let message = format!("result {i} of a host call has {} bytes", to.len());
            return Err(Error::argument(message));
        }
        to.copy_from_slice(y.bytes());
    }
    Ok(())
}
