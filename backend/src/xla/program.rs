//! Compiled programs of XLA.

use super::array::{DeviceArray, devices_of, element};
use super::host_calls;
use super::{client_functions, problem};
use crate::stablehlo::{self, HostFunction, Shardings};
use std::collections::BTreeMap;
use std::sync::Arc;
use tapeloom_ir::{
    ArrayType, FuncId, Kind, Mesh, Module, PartitionSpec, Parts, Problem, Tensor, Type,
};
use tapeloom_pjrt::{
    Buffer, Client, CompileOptions, Device, ElementType, Executable, Execution, ExecutionMemory,
    OverrideValue,
};

/// A function that a plugin of XLA has compiled, for its first device or for the devices of a mesh.
pub struct Program {
    client: Client,
    executable: Executable,
    name: String,
    params: Vec<Divided>,
    results: Vec<Divided>,
    text: String,
    /// The values of the last parameters, which are held on the devices and not passed by calls.
    held: Vec<DeviceArray>,
    /// The Rust functions that the program calls; a call's number in the text is its index in this list. If there are
    /// any, the text has one more parameter at the end, the number of the execution.
    host_functions: Arc<[HostFunction]>,
}

/// Returns an error if the program is for a CPU and this computer has too little memory for an execution. Without this
/// check, the plugin would end the process.
fn fits_in_memory(client: &Client, executable: &Executable, name: &str) -> Result<(), Problem> {
    let on_host = client.platform_name().is_ok_and(|name| name == "cpu");
    let (true, Ok(memory)) = (on_host, executable.memory()) else { return Ok(()) };
    let bytes = usize::try_from(memory.total()).unwrap_or(usize::MAX);
    match Vec::<u8>::new().try_reserve_exact(bytes) {
        Ok(()) => Ok(()),
        Err(_) => Err(Problem::new(
            Kind::TooLarge,
            format!("an execution of `{name}` on XLA needs {bytes} bytes of memory"),
            "compute with smaller arrays, or with fewer of them at a time",
        )),
    }
}

/// Returns lists of arguments, one list for each device, as slices.
fn slices<'a>(lists: &'a [Vec<&'a Buffer>]) -> Vec<&'a [&'a Buffer]> {
    lists.iter().map(Vec::as_slice).collect()
}

/// The type of an argument or a result, and its division among the devices.
struct Divided {
    ty: ArrayType,
    parts: Arc<Parts>,
}

impl Divided {
    /// Returns the arguments or results, divided by the partition specs `specs`.
    fn all(
        types: Vec<ArrayType>,
        specs: Option<(&Mesh, &[PartitionSpec])>,
    ) -> Result<Vec<Divided>, Problem> {
        let replicated = PartitionSpec::replicated();
        let divided = |(i, ty): (usize, ArrayType)| {
            let parts = match specs {
                Some((mesh, specs)) => {
                    specs.get(i).unwrap_or(&replicated).parts(&ty.shape, mesh)?
                }
                None => Parts::one(&ty.shape),
            };
            Ok(Divided { ty, parts: parts.into() })
        };
        types.into_iter().enumerate().map(divided).collect()
    }
}

impl Program {
    /// Compiles a function. An execution takes over the memory of the arguments for which `donated` is true. It does
    /// not take over the memory of arguments beyond the end of this list.
    ///
    /// # Errors
    /// [`Kind::Target`] for an equation that StableHLO cannot express, with the user's line, and for errors of the plugin.
    pub fn compile(
        module: &Module,
        func: FuncId,
        client: &Client,
        options: &stablehlo::Options,
        donated: &[bool],
    ) -> Result<Program, Problem> {
        let f = module.function(func);
        let arrays = |types: Vec<Type>| -> Result<Vec<ArrayType>, Problem> {
            let array = |ty: &Type| ty.as_array().cloned();
            let tape = || {
                let message =
                    format!("`{}` takes or returns a tape, which no device holds", f.name);
                Problem::new(Kind::Target, message, "")
            };
            types.iter().map(|ty| array(ty).ok_or_else(tape)).collect()
        };
        let (params, results) = (arrays(f.param_types())?, arrays(f.result_types())?);
        let shardings = options.shardings.as_deref();
        let specs =
            |of: fn(&Shardings) -> &[PartitionSpec]| shardings.map(|all| (&all.mesh, of(all)));
        let params = Divided::all(params, specs(|all| &all.arguments))?;
        let results = Divided::all(results, specs(|all| &all.results))?;
        let devices = shardings.map(|all| devices_of(client, &all.mesh)).transpose()?;
        let text = stablehlo::text_for_client(module, func, options, donated)?;
        // By default, XLA's plugins for CPUs ignore nan in maxima and minima, so disable this default.
        let options = match client.platform_name().as_deref() {
            Ok("cpu") => CompileOptions::new()
                .xla_option("xla_cpu_enable_fast_min_max", OverrideValue::Bool(false)),
            Ok(_) | Err(_) => CompileOptions::new(),
        };
        let options = match devices {
            Some(devices) => {
                let partitions = u32::try_from(devices.len()).unwrap_or(u32::MAX);
                options.partitions(partitions).device_ids(devices.iter().map(Device::id))
            }
            None => options,
        };
        client_functions::provide(client.plugin(), &text.client)?;
        let (text, host_functions) = (text.text, text.host_functions.into());
        let executable = client.compile(&text, &options).map_err(|e| problem(&e))?;
        fits_in_memory(client, &executable, &f.name)?;
        let types: Vec<_> = executable.results().cloned().collect();
        let of = |y: &Divided| tapeloom_pjrt::ArrayType::new(element(y.ty.dtype), y.parts.shape());
        if types != results.iter().map(of).collect::<Vec<_>>() {
            let message = format!("the plugin compiled `{}` to results {types:?}", f.name);
            return Err(Problem::internal(&message));
        }
        Ok(Program {
            client: client.clone(),
            executable,
            name: f.name.to_string(),
            params,
            results,
            text,
            held: Vec::new(),
            host_functions,
        })
    }

    /// Copies tensors to the devices. They become the values of the program's last parameters in all calls, which then
    /// do not pass them.
    ///
    /// # Errors
    /// [`Kind::Arguments`] if they do not fit the parameters; [`Kind::Target`] for errors of the plugin.
    pub fn hold(&mut self, tensors: &[Tensor]) -> Result<(), Problem> {
        let first = self.params.len().saturating_sub(tensors.len());
        let types: Vec<&ArrayType> = tensors.iter().map(Tensor::ty).collect();
        self.fit(&types, first)?;
        self.held = self.upload_from(first, tensors.iter())?;
        Ok(())
    }

    /// Copies arguments to the devices, each divided among the devices as the program needs it.
    ///
    /// # Errors
    /// As [`Program::call`].
    pub fn upload(&self, args: &[&Tensor]) -> Result<Vec<DeviceArray>, Problem> {
        self.fit(&args.iter().map(|x| x.ty()).collect::<Vec<_>>(), 0)?;
        self.upload_from(0, args.iter().copied())
    }

    /// Copies tensors to the devices, as arguments for the parameters from number `first` on.
    fn upload_from<'a>(
        &self,
        first: usize,
        tensors: impl Iterator<Item = &'a Tensor>,
    ) -> Result<Vec<DeviceArray>, Problem> {
        let devices = self.executable.devices();
        let upload = |(x, param): (&Tensor, &Divided)| {
            DeviceArray::upload_parts(&self.client, x, &param.parts, devices)
        };
        tensors.zip(&self.params[first..]).map(upload).collect()
    }

    /// Copies the arguments to the devices, runs the program, and copies the results to the host.
    ///
    /// # Errors
    /// As [`Program::execute`].
    pub fn call(&self, args: &[&Tensor]) -> Result<Vec<Tensor>, Problem> {
        let args = self.upload(args)?;
        let results = self.execute(&args.iter().collect::<Vec<_>>())?;
        results.iter().map(DeviceArray::download).collect()
    }

    /// Starts an execution with arrays on the devices, and returns its results, which stay on the devices. This
    /// function may return before the results are computed; if too many executions are in flight, it first waits for
    /// the oldest. If the program calls Rust functions, it waits until the program has ended.
    ///
    /// # Errors
    /// [`Kind::Arguments`] if the arguments do not fit the parameters; [`Kind::Callback`] if a Rust function that the program
    /// calls fails or panics; [`Kind::Target`] for errors of the plugin.
    pub fn execute(&self, args: &[&DeviceArray]) -> Result<Vec<DeviceArray>, Problem> {
        self.fit(&args.iter().map(|x| x.ty()).collect::<Result<Vec<_>, _>>()?, 0)?;
        let devices = self.executable.devices();
        // For each device, the buffers with its parts of the arguments.
        let mut lists: Vec<Vec<&Buffer>> = vec![Vec::new(); devices.len()];
        for (i, (x, param)) in args.iter().copied().chain(&self.held).zip(&self.params).enumerate()
        {
            let buffers = x.buffers(&param.parts, devices);
            let buffers = buffers.ok_or_else(|| self.divided_otherwise(i, x))?;
            lists.iter_mut().zip(buffers).for_each(|(list, part)| list.push(part));
        }
        let execution = match self.host_functions.is_empty() {
            true => self.executable.execute(&slices(&lists)).map_err(|e| problem(&e))?,
            false => self.execute_with_host(lists)?,
        };
        // For each result, the buffers with its parts on the devices.
        let mut parts: Vec<Vec<Buffer>> = self.results.iter().map(|_| Vec::new()).collect();
        for list in execution.results {
            parts.iter_mut().zip(list).for_each(|(parts, part)| parts.push(part));
        }
        let result = |(of, parts): (&Divided, Vec<Buffer>)| {
            DeviceArray::new(of.ty.clone(), of.parts.clone(), parts)
        };
        Ok(self.results.iter().zip(parts).map(result).collect())
    }

    /// Runs a program that calls Rust functions, and waits until it has ended.
    ///
    /// It waits so that this call can return the errors of the Rust functions, with the user's lines, as in other
    /// engines.
    fn execute_with_host(&self, lists: Vec<Vec<&Buffer>>) -> Result<Execution, Problem> {
        let devices = self.executable.devices();
        let host = host_calls::Execution::begin(&self.host_functions, devices.len() > 1);
        let number = |device: &Device| {
            let bytes = host.number().to_le_bytes();
            self.client.buffer_from_bytes(&bytes, ElementType::S64, &[], device)
        };
        let numbers: Result<Vec<Buffer>, _> = devices.iter().map(number).collect();
        let numbers = numbers.map_err(|e| problem(&e))?;
        let mut lists: Vec<Vec<&Buffer>> = lists;
        lists.iter_mut().zip(&numbers).for_each(|(list, number)| list.push(number));
        let started = self.executable.execute(&slices(&lists));
        let ended = started.and_then(|execution| execution.completion.wait().map(|()| execution));
        match host.failure() {
            Some(failure) => Err(failure),
            None => ended.map_err(|e| problem(&e)),
        }
    }

    /// Returns the error for argument number `i`, which is not divided among the devices as the program needs it.
    fn divided_otherwise(&self, i: usize, x: &DeviceArray) -> Problem {
        let param = &self.params[i];
        let part = ArrayType::new(param.ty.dtype, param.parts.shape());
        let n = self.executable.devices().len();
        let message = format!(
            "argument {i} of `{}` is {x:?}; the program needs {} as {part} on {n} device{}",
            self.name,
            param.ty,
            if n == 1 { "" } else { "s" },
        );
        Problem::new(
            Kind::Arguments,
            message,
            "copy the arguments with `upload` of this `jit`, and divide a result that becomes an argument by `result_shardings`",
        )
    }

    /// Returns the types of all parameters, including those whose values are held on the devices.
    pub(super) fn params(&self) -> impl Iterator<Item = &ArrayType> {
        self.params.iter().map(|param| &param.ty)
    }

    /// Returns the StableHLO text that the plugin compiled.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number of occurrences of each operation of HLO in the optimized program, such as `dot` or `fusion`;
    /// `None` if the plugin does not show that program.
    pub fn operations(&self) -> Option<BTreeMap<String, usize>> {
        self.executable.optimized_program().ok()?.operations()
    }

    /// Returns pairs (argument number, result number) in which the result takes over the argument's memory; `None` if
    /// the plugin does not show the optimized program.
    pub(super) fn aliases(&self) -> Option<Vec<(usize, usize)>> {
        self.executable.optimized_program().ok()?.aliases()
    }

    /// Returns the memory that an execution needs; `None` if the plugin does not state it.
    pub(super) fn memory(&self) -> Option<ExecutionMemory> {
        self.executable.memory().ok()
    }

    /// Returns the client on whose devices the program runs.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Checks the types of arguments for the parameters from number `first` on, without the last parameters whose
    /// values are held on the devices.
    fn fit(&self, args: &[&ArrayType], first: usize) -> Result<(), Problem> {
        let wrong = |message| Err(Problem::new(Kind::Arguments, message, ""));
        let (want, got) = (self.params.len() - first - self.held.len(), args.len());
        if want != got {
            return wrong(format!("`{}` takes {want} arguments, got {got}", self.name));
        }
        for (i, (arg, param)) in (first..).zip(args.iter().zip(&self.params[first..])) {
            if **arg != param.ty {
                let param = &param.ty;
                return wrong(format!("argument {i} of `{}` is {param}, got {arg}", self.name));
            }
        }
        Ok(())
    }
}
