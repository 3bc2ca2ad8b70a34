//! Compiled programs of XLA.

use super::array::{DeviceArray, element};
use super::{client_functions, problem};
use crate::stablehlo;
use std::collections::BTreeMap;
use tapeloom_ir::{ArrayType, FuncId, Kind, Module, Problem, Tensor, Type};
use tapeloom_pjrt::{Client, CompileOptions, Executable, OverrideValue};

/// A function that a plugin of XLA has compiled for its first device.
pub struct Program {
    client: Client,
    executable: Executable,
    name: String,
    params: Vec<ArrayType>,
    results: Vec<ArrayType>,
    text: String,
    /// The values of the last parameters, which calls do not pass.
    held: Vec<DeviceArray>,
}

impl Program {
    /// Compiles a function. An execution takes over the memory of the arguments for which `donated` is true; arguments
    /// beyond the end of the list are kept.
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
        let text = stablehlo::text_for_client(module, func, options, donated)?;
        // XLA's plugins for CPUs drop nan in maxima and minima by default.
        let options = match client.platform_name().as_deref() {
            Ok("cpu") => CompileOptions::new()
                .xla_option("xla_cpu_enable_fast_min_max", OverrideValue::Bool(false)),
            Ok(_) | Err(_) => CompileOptions::new(),
        };
        client_functions::provide(client.plugin(), &text.client)?;
        let text = text.text;
        let executable = client.compile(&text, &options).map_err(|e| problem(&e))?;
        let types: Vec<_> = executable.results().cloned().collect();
        let of = |ty: &ArrayType| tapeloom_pjrt::ArrayType::new(element(ty.dtype), &ty.shape);
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
        })
    }

    /// Copies tensors to the device, as the values of the last parameters of all calls.
    ///
    /// # Errors
    /// [`Kind::Arguments`] if they do not fit the parameters; [`Kind::Target`] for errors of the plugin.
    pub fn hold(&mut self, tensors: &[Tensor]) -> Result<(), Problem> {
        let first = self.params.len().saturating_sub(tensors.len());
        let types: Vec<&ArrayType> = tensors.iter().map(Tensor::ty).collect();
        self.fit(&types, first)?;
        let upload = |x| DeviceArray::upload(&self.client, x);
        self.held = tensors.iter().map(upload).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Copies the arguments to the device, runs the program, and copies the results to the host.
    ///
    /// # Errors
    /// [`Kind::Arguments`] if the arguments do not fit the parameters; [`Kind::Target`] for errors of the plugin.
    pub fn call(&self, args: &[&Tensor]) -> Result<Vec<Tensor>, Problem> {
        self.fit(&args.iter().map(|x| x.ty()).collect::<Vec<_>>(), 0)?;
        let args: Vec<DeviceArray> =
            args.iter().map(|x| DeviceArray::upload(&self.client, x)).collect::<Result<_, _>>()?;
        let results = self.execute(&args.iter().collect::<Vec<_>>())?;
        results.iter().map(DeviceArray::download).collect()
    }

    /// Starts an execution with arrays on the device, and returns its results, which stay there. The call may return before
    /// the results are computed; if too many executions are in flight, it first waits for the oldest.
    ///
    /// # Errors
    /// [`Kind::Arguments`] if the arguments do not fit the parameters; [`Kind::Target`] for errors of the plugin.
    pub fn execute(&self, args: &[&DeviceArray]) -> Result<Vec<DeviceArray>, Problem> {
        self.fit(&args.iter().map(|x| x.ty()).collect::<Result<Vec<_>, _>>()?, 0)?;
        let all = args.iter().copied().chain(&self.held);
        let buffers = all.map(DeviceArray::buffer).collect::<Result<Vec<_>, _>>()?;
        let results = self.executable.call(&buffers).map_err(|e| problem(&e))?;
        let typed = results.into_iter().zip(&self.results);
        Ok(typed.map(|(buffer, ty)| DeviceArray::new(ty.clone(), buffer)).collect())
    }

    /// Returns the text that the plugin compiled.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns how often each operation of HLO occurs in the program that the plugin optimized, such as `dot` or `fusion`;
    /// `None` if the plugin does not show it.
    pub fn operations(&self) -> Option<BTreeMap<String, usize>> {
        self.executable.optimized_program().ok()?.operations()
    }

    /// Returns the client on whose device the program runs.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Checks the types of arguments for the parameters from number `first` on that are not held.
    fn fit(&self, args: &[&ArrayType], first: usize) -> Result<(), Problem> {
        let wrong = |message| Err(Problem::new(Kind::Arguments, message, ""));
        let (want, got) = (self.params.len() - first - self.held.len(), args.len());
        if want != got {
            return wrong(format!("`{}` takes {want} arguments, got {got}", self.name));
        }
        for (i, (arg, param)) in (first..).zip(args.iter().zip(&self.params[first..])) {
            if *arg != param {
                return wrong(format!("argument {i} of `{}` is {param}, got {arg}", self.name));
            }
        }
        Ok(())
    }
}
