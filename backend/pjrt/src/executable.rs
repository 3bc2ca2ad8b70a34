//! Executables: compiled programs on their devices.

use crate::buffer::Buffer;
use crate::calls::{RawBuffer, RawExecutable};
use crate::completion::Completion;
use crate::element::ArrayType;
use crate::error::Error;
use crate::program::{OptimizedProgram, Signature, is_row_major};
use crate::sharding::Sharding;
use crate::shared::{Device, Shared};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A compiled program, loaded on its devices.
pub struct Executable {
    shared: Arc<Shared>,
    raw: RawExecutable,
    name: Arc<str>,
    devices: Vec<Device>,
    results: Vec<Arc<ArrayType>>,
    signature: Option<Signature>,
    /// The number of devices that run the program, in all processes.
    device_count: usize,
}

/// The bytes of memory of an execution on one device, as the plugin states them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecutionMemory {
    /// Bytes of all arguments.
    pub arguments: u64,
    /// Bytes of all results.
    pub results: u64,
    /// The part of `results`, in bytes, that takes over memory of donated arguments.
    pub shared: u64,
    /// Bytes of memory that an execution needs besides arguments and results.
    pub temporary: u64,
}

impl ExecutionMemory {
    /// Returns the bytes of arguments, results and temporary memory together.
    pub fn total(&self) -> u64 {
        (self.arguments + self.results).saturating_sub(self.shared) + self.temporary
    }
}

/// The number of executions on several devices that this process has started.
static LAUNCHES: AtomicU32 = AtomicU32::new(0);

/// Returns the number of the next execution on several devices, which is not 0.
///
/// The devices of an execution synchronize in a collective operation under this number. Without the number, devices of
/// different executions would synchronize, also if the executions belong to two clients, since plugins for CPUs keep
/// one table of rendezvous for the process; the plugin of version 0.81 then crashes. Processes that start the same
/// executions in the same order give them the same numbers.
fn next_launch() -> i32 {
    let number = LAUNCHES.fetch_add(1, Ordering::Relaxed) % i32::MAX.cast_unsigned();
    number.cast_signed() + 1
}

/// An execution that was started: its results on each device, and its completion.
#[derive(Debug)]
pub struct Execution {
    /// The results on each device, in the order of [`Executable::devices`].
    pub results: Vec<Vec<Buffer>>,
    /// The completion of the execution on all devices.
    pub completion: Completion,
}

impl Executable {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        raw: RawExecutable,
        device_count: usize,
    ) -> Result<Executable, Error> {
        let devices =
            raw.devices()?.iter().map(|device| shared.device(device)).collect::<Result<_, _>>()?;
        let results = raw.results()?.into_iter().map(Arc::new).collect();
        // A plugin may lack the optimized program, from which the types of arguments are read. Then only the plugin
        // checks arguments.
        let program =
            raw.optimized_program().map(|(format, bytes)| OptimizedProgram::new(format, bytes));
        let signature = program.ok().and_then(|program| program.signature());
        Ok(Executable {
            shared: shared.clone(),
            name: raw.name()?.into(),
            devices,
            results,
            signature,
            device_count,
            raw,
        })
    }

    /// Returns the name of the module.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the devices of this process that run the program; lists of arguments and results have their order.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Returns the types of the arguments on one device. Sharded arguments have the dimensions of a shard. `None` if the
    /// plugin does not show the optimized program.
    pub fn arguments(&self) -> Option<&[ArrayType]> {
        self.signature.as_ref().map(|signature| &*signature.arguments)
    }

    /// Returns, for each argument, whether an execution takes over its memory. `None` if the plugin does not show the
    /// optimized program.
    pub fn donated(&self) -> Option<&[bool]> {
        self.signature.as_ref().map(|signature| &*signature.donated)
    }

    /// Returns, for each argument, how it is divided among the devices of the program. `None` if the program is not divided,
    /// if the plugin does not show the optimized program, or if a sharding is of a kind that is not known here.
    pub fn argument_shardings(&self) -> Option<&[Sharding]> {
        self.signature.as_ref()?.argument_shardings.as_deref()
    }

    /// Returns, for each result, how it is divided among the devices of the program. `None` in the cases of
    /// [`Executable::argument_shardings`].
    pub fn result_shardings(&self) -> Option<&[Sharding]> {
        let shardings = self.signature.as_ref()?.result_shardings.as_deref()?;
        Some(shardings).filter(|shardings| shardings.len() == self.results.len())
    }

    /// Returns the types of the results on one device.
    pub fn results(&self) -> impl ExactSizeIterator<Item = &ArrayType> {
        self.results.iter().map(|result| &**result)
    }

    /// Returns the memory of an execution on one device.
    ///
    /// Errors: the plugin does not state the memory.
    pub fn memory(&self) -> Result<ExecutionMemory, Error> {
        let [arguments, results, shared, temporary] = self.raw.memory()?;
        Ok(ExecutionMemory { arguments, results, shared, temporary })
    }

    /// Returns the program after the plugin's optimizations.
    ///
    /// Errors: the plugin does not show the optimized program.
    pub fn optimized_program(&self) -> Result<OptimizedProgram, Error> {
        let (format, bytes) = self.raw.optimized_program()?;
        Ok(OptimizedProgram::new(format, bytes))
    }

    /// Starts an execution on one device and returns its results.
    ///
    /// Errors: those of [`Executable::execute`].
    pub fn call(&self, arguments: &[&Buffer]) -> Result<Vec<Buffer>, Error> {
        let execution = self.execute(&[arguments])?;
        Ok(execution.results.into_iter().flatten().collect())
    }

    /// Starts an execution with a list of arguments for each device, and donates the arguments that the program takes over
    /// (`tf.aliasing_output` and `jax.buffer_donor` in its text).
    ///
    /// The call returns before the program has run. If the number of executions in flight has reached the limit in the
    /// client's options, the call first waits for the oldest execution.
    ///
    /// Errors: numbers, types or devices of arguments do not fit; an argument was deleted or donated; those of the
    /// plugin. If the execution itself fails, its completion and its results return the error.
    pub fn execute(&self, arguments: &[&[&Buffer]]) -> Result<Execution, Error> {
        self.execute_keeping(arguments, &[])
    }

    /// Starts an execution that does not donate the arguments with the numbers in `keep`: the plugin copies them where the
    /// program takes them over.
    ///
    /// Errors: those of [`Executable::execute`]; there is no argument with such a number.
    pub fn execute_keeping(
        &self,
        arguments: &[&[&Buffer]],
        keep: &[usize],
    ) -> Result<Execution, Error> {
        self.check(arguments)?;
        let count = arguments.first().map_or(0, |list| list.len());
        if let Some(number) = keep.iter().find(|number| **number >= count) {
            let name = &self.name;
            return Err(Error::argument(format!(
                "`{name}` has {count} arguments, found number {number} in `keep`"
            )));
        }
        let kept: Vec<i64> =
            (0_i64..).zip(0..count).filter(|(_, n)| keep.contains(n)).map(|(k, _)| k).collect();
        let raw: Vec<Vec<&RawBuffer>> =
            arguments.iter().map(|list| list.iter().map(|buffer| &buffer.raw).collect()).collect();
        self.shared.in_flight.make_room();
        let started = {
            let _starting = (self.devices.len() > 1).then(|| self.shared.in_flight.starting());
            let launch = if self.device_count > 1 { next_launch() } else { 0 };
            self.raw.execute(&raw, &kept, launch)
        };
        // A start that failed may have donated arguments as well, so ask the plugin about each argument.
        for list in arguments {
            let donated = |number: usize| self.donated().is_none_or(|donated| donated[number]);
            for (number, buffer) in list.iter().enumerate() {
                if donated(number) && !keep.contains(&number) {
                    buffer.note_donation(&self.name)?;
                }
            }
        }
        let (results, events) = started?;
        let completion = Completion::new(events);
        self.shared.in_flight.push(completion.clone());
        if cfg!(debug_assertions) {
            self.check_results(&results)?;
        }
        let of_device = |(device, list): (&Device, Vec<RawBuffer>)| {
            let types = self.results.iter().cloned();
            let orders = (0..).map(|number| self.is_row_major(number));
            list.into_iter()
                .zip(types.zip(orders))
                .map(|(raw, (of, row_major))| Buffer::new(&self.shared, raw, of, row_major, device))
                .collect()
        };
        let results = self.devices.iter().zip(results).map(of_device).collect();
        Ok(Execution { results, completion })
    }

    /// Returns whether a result is certain to be in row-major order.
    fn is_row_major(&self, result: usize) -> bool {
        let signature = self.signature.as_ref();
        let order = signature.and_then(|signature| signature.result_orders.get(result));
        order.is_some_and(|order| {
            order.len() == self.results[result].dims().len() && is_row_major(order)
        })
    }

    /// Checks that results have the types and devices that the executable states.
    fn check_results(&self, results: &[Vec<RawBuffer>]) -> Result<(), Error> {
        for (device, list) in self.devices.iter().zip(results) {
            for (raw, of) in list.iter().zip(&self.results) {
                let (found, on) = (raw.array_type()?, self.shared.device(&raw.device()?)?);
                if found != **of || on != *device {
                    let message = format!(
                        "a result is {found} on {on}; the executable states {of} on {device}"
                    );
                    return Err(Error::interface(message));
                }
            }
        }
        Ok(())
    }

    /// Checks the number, types and devices of the arguments, and that none was deleted or donated.
    fn check(&self, arguments: &[&[&Buffer]]) -> Result<(), Error> {
        let name = &self.name;
        if arguments.len() != self.devices.len() {
            let (expected, found) = (self.devices.len(), arguments.len());
            let message = format!(
                "`{name}` runs on {expected} devices; expected as many lists of arguments, found {found}"
            );
            return Err(Error::argument(message));
        }
        for (device, list) in self.devices.iter().zip(arguments) {
            let types = self.arguments();
            if let Some(types) = types.filter(|types| types.len() != list.len()) {
                let (expected, found) = (types.len(), list.len());
                let message =
                    format!("`{name}` on {device}: expected {expected} arguments, found {found}");
                return Err(Error::argument(message));
            }
            for (number, buffer) in list.iter().enumerate() {
                let place = || format!("argument {number} of `{name}` on {device}");
                buffer
                    .alive()
                    .map_err(|error| Error::new(error.kind(), format!("{}: {error}", place())))?;
                let (expected, found) = (types.map(|types| &types[number]), buffer.array_type());
                if let Some(expected) = expected.filter(|expected| *expected != found) {
                    return Err(Error::argument(format!(
                        "{}: expected {expected}, found {found}",
                        place()
                    )));
                }
                let order =
                    self.signature.as_ref().map(|signature| &signature.argument_orders[number]);
                let order = order.filter(|order| order.len() == found.dims().len());
                if let Some((expected, found)) =
                    order.and_then(|order| Some((order, buffer.other_order(order)?)))
                {
                    // Return an error: the plugin would read the elements in the wrong order and report nothing.
                    return Err(Error::argument(format!(
                        "{} has its dimensions in the order {found:?} on the device, the fastest varying first; expected \
                         {expected:?}. Copy it to the host and back, or remove `mhlo.layout_mode`",
                        place()
                    )));
                }
                if buffer.device() != device {
                    let found = buffer.device();
                    let message =
                        format!("{} lies on {found}; copy it with `copy_to_device`", place());
                    return Err(Error::argument(message));
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Executable({}, {} devices)", self.name, self.devices.len())
    }
}
