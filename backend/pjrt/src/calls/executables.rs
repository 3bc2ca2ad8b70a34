//! Compiled programs: their arguments and results, and their executions.
//!
//! The invariants that SAFETY comments cite stand at the top of `mod.rs`.

#![expect(unsafe_code, reason = "calls functions of a C library")]

use super::buffers::{RawBuffer, array_type};
use super::{RawClient, RawDevice, RawEvent, list, not_null, same_client, text};
use crate::api::{self, Args};
use crate::element::ArrayType;
use crate::error::Error;
use std::ptr::NonNull;
use std::sync::Arc;

impl RawClient {
    /// Compiles a program, given as MLIR text or bytecode, with a serialized `CompileOptionsProto`.
    pub(crate) fn compile(
        self: &Arc<Self>,
        code: &str,
        options: &[u8],
    ) -> Result<RawExecutable, Error> {
        const FORMAT: &str = "mlir";
        let mut program = api::Program::new();
        // The field of the C struct is a mutable pointer because another function writes to it; this function only
        // reads the code.
        program.code = code.as_ptr().cast_mut().cast();
        program.code_size = code.len();
        program.format = FORMAT.as_ptr().cast();
        program.format_size = FORMAT.len();
        let mut args = api::ClientCompileArgs::new();
        args.client = self.pointer.as_ptr();
        args.program = &program;
        args.compile_options = options.as_ptr().cast();
        args.compile_options_size = options.len();
        // SAFETY: the client is alive and came from this plugin (invariant 1 in `mod.rs`). The program and the options
        // live until the call returns (invariant 4).
        unsafe { call!(self.table, client_compile, &mut args)? };
        RawExecutable::new(self, not_null(args.executable, "executable")?)
    }
}

/// The owner of a compiled program, which is loaded on its devices.
pub(crate) struct RawExecutable {
    client: Arc<RawClient>,
    loaded: NonNull<api::LoadedExecutable>,
    executable: NonNull<api::ExecutableObject>,
    /// The number of results of the program on each device.
    outputs: usize,
    /// The number of devices of this client that run the program.
    devices: usize,
}

// SAFETY: a plugin's executables may be used from every thread (see *Threads* in `mod.rs`).
unsafe impl Send for RawExecutable {}
// SAFETY: a plugin's executables may be used from several threads at once (see *Threads* in `mod.rs`).
unsafe impl Sync for RawExecutable {}

impl Drop for RawExecutable {
    fn drop(&mut self) {
        destroy_executable(&self.client, self.executable);
        destroy_loaded(&self.client, self.loaded);
    }
}

fn destroy_executable(client: &RawClient, executable: NonNull<api::ExecutableObject>) {
    let mut args = api::ExecutableDestroyArgs::new();
    args.executable = executable.as_ptr();
    // SAFETY: callers own the object, which is alive, and do not use it again (invariant 1 in `mod.rs`). They drop it,
    // so an error cannot be reported.
    let _ = unsafe { call!(client.table, executable_destroy, &mut args) };
}

fn destroy_loaded(client: &RawClient, loaded: NonNull<api::LoadedExecutable>) {
    let mut args = api::LoadedExecutableDestroyArgs::new();
    args.executable = loaded.as_ptr();
    // SAFETY: callers own the object, which is alive, and do not use it again (invariant 1 in `mod.rs`). The plugin
    // keeps the code until executions have ended.
    let _ = unsafe { call!(client.table, loaded_executable_destroy, &mut args) };
}

impl RawExecutable {
    fn new(
        client: &Arc<RawClient>,
        loaded: NonNull<api::LoadedExecutable>,
    ) -> Result<RawExecutable, Error> {
        let mut args = api::LoadedExecutableGetExecutableArgs::new();
        args.loaded_executable = loaded.as_ptr();
        // SAFETY: the caller has just got `loaded` from this plugin, so it is alive.
        let got = unsafe { call!(client.table, loaded_executable_get_executable, &mut args) };
        let executable = match got.and_then(|()| not_null(args.executable, "executable")) {
            Ok(executable) => executable,
            Err(error) => {
                destroy_loaded(client, loaded);
                return Err(error);
            }
        };
        let mut raw =
            RawExecutable { client: client.clone(), loaded, executable, outputs: 0, devices: 0 };
        let mut args = api::ExecutableNumOutputsArgs::new();
        args.executable = executable.as_ptr();
        // SAFETY: the executable is alive and came from this plugin (invariant 1 in `mod.rs`).
        unsafe { call!(client.table, executable_num_outputs, &mut args)? };
        raw.outputs = args.num_outputs;
        raw.devices = raw.devices()?.len();
        Ok(raw)
    }

    pub(crate) fn name(&self) -> Result<String, Error> {
        let mut args = api::ExecutableNameArgs::new();
        args.executable = self.executable.as_ptr();
        // SAFETY: the executable is alive and came from this plugin (invariant 1 in `mod.rs`). The name is copied
        // before the plugin's next call (invariant 5).
        unsafe {
            call!(self.client.table, executable_name, &mut args)?;
            Ok(text(args.executable_name, args.executable_name_size))
        }
    }

    /// Returns the devices of this client that run the program, in the order of its arguments.
    pub(crate) fn devices(&self) -> Result<Vec<RawDevice>, Error> {
        let mut args = api::LoadedExecutableAddressableDevicesArgs::new();
        args.executable = self.loaded.as_ptr();
        // SAFETY: the executable is alive and came from this plugin (invariant 1 in `mod.rs`). The list of devices is
        // copied before the plugin's next call (invariant 5).
        let devices = unsafe {
            call!(self.client.table, loaded_executable_addressable_devices, &mut args)?;
            list(args.addressable_devices, args.num_addressable_devices)
        };
        devices.iter().map(|device| RawDevice::new(&self.client, *device)).collect()
    }

    /// Returns the types of the results on one device.
    pub(crate) fn results(&self) -> Result<Vec<ArrayType>, Error> {
        let mut elements = api::ExecutableOutputElementTypesArgs::new();
        elements.executable = self.executable.as_ptr();
        let mut dims = api::ExecutableOutputDimensionsArgs::new();
        dims.executable = self.executable.as_ptr();
        // SAFETY: the executable is alive and came from this plugin (invariant 1 in `mod.rs`). The lists live as long
        // as the executable. The numbers of dimensions are a list of `num_outputs`, and all dimensions stand in one
        // list, whose length is their sum.
        let (elements, ranks, dims) = unsafe {
            call!(self.client.table, executable_output_element_types, &mut elements)?;
            let elements = list(elements.output_types.cast_const(), elements.num_output_types);
            call!(self.client.table, executable_output_dimensions, &mut dims)?;
            let ranks = list(dims.dim_sizes, dims.num_outputs);
            (elements, ranks, list(dims.dims, ranks.iter().sum()))
        };
        if elements.len() != self.outputs || ranks.len() != self.outputs {
            let found = (elements.len(), ranks.len());
            let message = format!(
                "the plugin states {} results, with types and dimensions of {found:?}",
                self.outputs
            );
            return Err(Error::interface(message));
        }
        let mut rest = dims;
        let types = elements.iter().zip(ranks).map(|(element, rank)| {
            let (dims, behind) = rest.split_at(*rank);
            rest = behind;
            array_type(*element, dims)
        });
        types.collect()
    }

    /// Returns the sizes in bytes for an execution on one device: of the arguments, of the results, of the results that
    /// take over memory of arguments, and of temporary memory.
    pub(crate) fn memory(&self) -> Result<[u64; 4], Error> {
        let mut args = api::ExecutableGetCompiledMemoryStatsArgs::new();
        args.executable = self.executable.as_ptr();
        // SAFETY: the executable is alive and came from this plugin (invariant 1 in `mod.rs`).
        unsafe { call!(self.client.table, executable_get_compiled_memory_stats, &mut args)? };
        let stated = [
            args.argument_size_in_bytes,
            args.output_size_in_bytes,
            args.alias_size_in_bytes,
            args.temp_size_in_bytes,
        ];
        // A negative number would be a fault of the plugin; it counts as 0.
        Ok(stated.map(|bytes| u64::try_from(bytes).unwrap_or(0)))
    }

    /// Returns the format and the bytes of the optimized program.
    pub(crate) fn optimized_program(&self) -> Result<(String, Vec<u8>), Error> {
        let mut program = api::Program::new();
        let mut args = api::ExecutableOptimizedProgramArgs::new();
        args.executable = self.executable.as_ptr();
        args.program = &mut program;
        // SAFETY: the executable is alive and came from this plugin (invariant 1 in `mod.rs`). Because `code` is null,
        // the call writes no code and only states its size.
        unsafe { call!(self.client.table, executable_optimized_program, &mut args)? };
        let mut code = vec![0_u8; program.code_size];
        program.code = code.as_mut_ptr().cast();
        args.program = &mut program;
        // SAFETY: the executable is alive (invariant 1 in `mod.rs`). `code` is borrowed until the call returns
        // (invariant 4) and has the size that the first call stated.
        unsafe { call!(self.client.table, executable_optimized_program, &mut args)? };
        // SAFETY: the format is a text of the plugin with `format_size` bytes, copied here.
        let format = unsafe { text(program.format, program.format_size) };
        code.truncate(program.code_size);
        Ok((format, code))
    }

    /// Starts an execution. `arguments` has a list of equal length for each device, `kept` the numbers of arguments
    /// that must not be donated, and `launch` is a number that differs for each execution on several devices. Returns
    /// the results and the event of completion of each device.
    pub(crate) fn execute(
        &self,
        arguments: &[Vec<&RawBuffer>],
        kept: &[i64],
        launch: i32,
    ) -> Result<(Vec<Vec<RawBuffer>>, Vec<RawEvent>), Error> {
        let count = arguments.first().map_or(0, Vec::len);
        if arguments.len() != self.devices || arguments.iter().any(|list| list.len() != count) {
            return Err(Error::argument(format!(
                "expected one list of arguments for each of {} devices, of equal lengths; found {} lists",
                self.devices,
                arguments.len()
            )));
        }
        for buffer in arguments.iter().flatten() {
            same_client(&self.client, &buffer.client)?;
        }
        let pointers =
            |list: &Vec<&RawBuffer>| list.iter().map(|buffer| buffer.pointer.as_ptr()).collect();
        let arguments: Vec<Vec<*mut api::BufferObject>> = arguments.iter().map(pointers).collect();
        let lists: Vec<*const *mut api::BufferObject> =
            arguments.iter().map(|list| list.as_ptr()).collect();
        let mut outputs =
            vec![vec![std::ptr::null_mut::<api::BufferObject>(); self.outputs]; self.devices];
        let output_lists: Vec<*mut *mut api::BufferObject> =
            outputs.iter_mut().map(Vec::as_mut_ptr).collect();
        let mut events = vec![std::ptr::null_mut::<api::Event>(); self.devices];
        let mut options = api::ExecuteOptions::new();
        options.non_donatable_input_indices = kept.as_ptr();
        options.num_non_donatable_input_indices = kept.len();
        options.launch_id = launch;
        let mut args = api::LoadedExecutableExecuteArgs::new();
        args.executable = self.loaded.as_ptr();
        args.options = &mut options;
        args.argument_lists = lists.as_ptr();
        args.num_devices = self.devices;
        args.num_args = count;
        args.output_lists = output_lists.as_ptr();
        args.device_complete_events = events.as_mut_ptr();
        // SAFETY: all objects are alive and of one client (invariants 1 to 3 in `mod.rs`). For each device there is a
        // list of arguments, a list with room for as many results as the plugin states, and room for its event. All
        // lists live until the call returns (invariant 4). After the call, the plugin itself holds the arguments until
        // it has read them.
        unsafe { call!(self.client.table, loaded_executable_execute, &mut args)? };
        // Wrap all objects in owners before checking for null, so that none is leaked if a pointer is null.
        let own = |pointer: *mut api::BufferObject| {
            NonNull::new(pointer).map(|pointer| RawBuffer { client: self.client.clone(), pointer })
        };
        let owned: Vec<Vec<Option<RawBuffer>>> =
            outputs.into_iter().map(|list| list.into_iter().map(own).collect()).collect();
        let own = |pointer: *mut api::Event| {
            NonNull::new(pointer).map(|pointer| RawEvent { client: self.client.clone(), pointer })
        };
        let events: Vec<Option<RawEvent>> = events.into_iter().map(own).collect();
        let missing = || {
            Error::interface("the plugin executed a program, and left a result or an event null")
        };
        let results: Option<Vec<Vec<RawBuffer>>> =
            owned.into_iter().map(|list| list.into_iter().collect()).collect();
        let events: Option<Vec<RawEvent>> = events.into_iter().collect();
        Ok((results.ok_or_else(missing)?, events.ok_or_else(missing)?))
    }
}
