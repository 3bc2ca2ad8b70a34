//! A plugin of a few lines, whose functions fail on request and whose objects are counted.
//!
//! Plugins of XLA rarely fail. This plugin lets each function return an error or a null pointer, or be missing; the
//! tests check that the client then returns an error and leaks nothing.

#![expect(unsafe_code, reason = "imitates a C library")]

use crate::api::{self, Api};
use crate::calls::Table;
use crate::client::Client;
use crate::compile_options::CompileOptions;
use crate::error::{Code, Error, ErrorKind};
use crate::options::ClientOptions;
use crate::plugin::Plugin;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int};

/// The way in which a function fails on request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// The function returns an error.
    Error,
    /// The function returns no error, and leaves the objects that it returns null.
    Null,
}

thread_local! {
    /// The number of objects that were made and not yet destroyed.
    static ALIVE: Cell<isize> = const { Cell::new(0) };
    /// The functions of the plugin that fail, each with the way in which it fails.
    static SPOILED: RefCell<Vec<(&'static str, Fault)>> = const { RefCell::new(Vec::new()) };
    /// The functions of the plugin that were called, in order.
    static CALLED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

fn spoiled(name: &str, fault: Fault) -> bool {
    SPOILED
        .with_borrow(|spoiled| spoiled.iter().any(|(other, with)| *other == name && *with == fault))
}

/// Makes an object of any type.
fn make<T>(name: &str) -> *mut T {
    if spoiled(name, Fault::Null) {
        return std::ptr::null_mut();
    }
    ALIVE.set(ALIVE.get() + 1);
    Box::into_raw(Box::new(0_u64)).cast()
}

/// Frees an object that `make` returned.
unsafe fn free<T>(object: *mut T) {
    ALIVE.set(ALIVE.get() - 1);
    // SAFETY: `make` made the object, and the client destroys each object once; a second time would be a finding.
    drop(unsafe { Box::from_raw(object.cast::<u64>()) });
}

/// A device, its description, or a list of two devices; they belong to the client and are not counted.
struct Lists {
    devices: [*mut api::Device; 2],
    types: [c_int; 2],
    dims: [i64; 3],
    ranks: [usize; 2],
}

// SAFETY: the pointers are compared, never followed.
unsafe impl Sync for Lists {}

static LISTS: Lists = Lists {
    devices: [std::ptr::without_provenance_mut(8), std::ptr::without_provenance_mut(16)],
    types: [12, 4],
    dims: [2, 3, 5],
    ranks: [2, 1],
};

const TEXT: &CStr = c"text";

fn text(start: &mut *const c_char, size: &mut usize) {
    (*start, *size) = (TEXT.as_ptr(), TEXT.count_bytes());
}

/// Declares the functions of the table: each notes its call and either fails or runs its body on its arguments.
macro_rules! functions {
    ($($name:ident($args:ident: $type:ident) $body:block)*) => {
        $(
            unsafe extern "C-unwind" fn $name(args: *mut api::$type) -> *mut api::PjrtError {
                CALLED.with_borrow_mut(|called| called.push(stringify!($name)));
                if spoiled(stringify!($name), Fault::Error) {
                    return make("");
                }
                // SAFETY: the client passes a struct of this type.
                #[allow(unused, reason = "some functions use no argument")]
                let $args = unsafe { &mut *args };
                assert_eq!($args.struct_size, <api::$type as api::Args>::SIZE);
                $body
                std::ptr::null_mut()
            }
        )*

        /// The names of the functions.
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        /// Returns the table of this plugin in which the function `missing` is null.
        fn table(missing: &str) -> Table {
            // SAFETY: zeros are a table without functions.
            let mut table: Api = unsafe { std::mem::zeroed() };
            table.struct_size = size_of::<Api>();
            table.pjrt_api_version.minor_version = 81;
            table.error_message = Some(error_message);
            table.error_destroy = Some(error_destroy);
            $(table.$name = if stringify!($name) == missing { None } else { Some($name) };)*
            Table::new(Box::leak(Box::new(table)))
        }
    };
}

unsafe extern "C-unwind" fn error_message(args: *mut api::ErrorMessageArgs) {
    // SAFETY: the client passes a struct of this type.
    let args = unsafe { &mut *args };
    text(&mut args.message, &mut args.message_size);
}

unsafe extern "C-unwind" fn error_destroy(args: *mut api::ErrorDestroyArgs) {
    // SAFETY: the client passes a struct of this type, with an error that `make` has made.
    unsafe { free((*args).error) };
}

functions! {
    error_get_code(args: ErrorGetCodeArgs) { args.code = Code::NotFound.number(); }
    plugin_initialize(args: PluginInitializeArgs) {}
    event_destroy(args: EventDestroyArgs) { unsafe { free(args.event) } }
    event_await(args: EventAwaitArgs) {}
    event_is_ready(args: EventIsReadyArgs) { args.is_ready = true; }
    client_create(args: ClientCreateArgs) { args.client = make("client_create"); }
    client_destroy(args: ClientDestroyArgs) { unsafe { free(args.client) } }
    client_platform_name(args: ClientPlatformNameArgs) {
        text(&mut args.platform_name, &mut args.platform_name_size);
    }
    client_platform_version(args: ClientPlatformVersionArgs) {
        text(&mut args.platform_version, &mut args.platform_version_size);
    }
    client_process_index(args: ClientProcessIndexArgs) { args.process_index = 3; }
    client_devices(args: ClientDevicesArgs) {
        (args.devices, args.num_devices) = (LISTS.devices.as_ptr(), 2);
    }
    client_addressable_devices(args: ClientAddressableDevicesArgs) {
        (args.addressable_devices, args.num_addressable_devices) = (LISTS.devices.as_ptr(), 2);
    }
    client_compile(args: ClientCompileArgs) { args.executable = make("client_compile"); }
    client_buffer_from_host_buffer(args: ClientBufferFromHostBufferArgs) {
        args.buffer = make("client_buffer_from_host_buffer");
        args.done_with_host_buffer = make("");
    }
    device_get_description(args: DeviceGetDescriptionArgs) {
        let spoiled = spoiled("device_get_description", Fault::Null);
        args.device_description = if spoiled { std::ptr::null_mut() } else { args.device.cast() };
    }
    device_description_id(args: DeviceDescriptionIdArgs) {
        args.id = args.device_description.addr() as c_int;
    }
    device_description_process_index(args: DeviceDescriptionProcessIndexArgs) {}
    device_description_kind(args: DeviceDescriptionKindArgs) {
        text(&mut args.device_kind, &mut args.device_kind_size);
    }
    device_description_debug_string(args: DeviceDescriptionDebugStringArgs) {
        text(&mut args.debug_string, &mut args.debug_string_size);
    }
    device_is_addressable(args: DeviceIsAddressableArgs) { args.is_addressable = true; }
    executable_destroy(args: ExecutableDestroyArgs) { unsafe { free(args.executable) } }
    executable_name(args: ExecutableNameArgs) {
        text(&mut args.executable_name, &mut args.executable_name_size);
    }
    executable_num_outputs(args: ExecutableNumOutputsArgs) { args.num_outputs = 2; }
    executable_optimized_program(args: ExecutableOptimizedProgramArgs) {
        // SAFETY: the client passes a pointer to a program, which lives until the call returns.
        let program = unsafe { &mut *args.program };
        text(&mut program.format, &mut program.format_size);
        program.code_size = 7;
    }
    executable_get_compiled_memory_stats(args: ExecutableGetCompiledMemoryStatsArgs) {
        (args.argument_size_in_bytes, args.temp_size_in_bytes) = (48, -1);
    }
    executable_output_element_types(args: ExecutableOutputElementTypesArgs) {
        (args.output_types, args.num_output_types) = (LISTS.types.as_ptr().cast_mut(), 2);
    }
    executable_output_dimensions(args: ExecutableOutputDimensionsArgs) {
        (args.num_outputs, args.dims, args.dim_sizes) = (2, LISTS.dims.as_ptr(), LISTS.ranks.as_ptr());
    }
    loaded_executable_destroy(args: LoadedExecutableDestroyArgs) { unsafe { free(args.executable) } }
    loaded_executable_get_executable(args: LoadedExecutableGetExecutableArgs) {
        args.executable = make("loaded_executable_get_executable");
    }
    loaded_executable_addressable_devices(args: LoadedExecutableAddressableDevicesArgs) {
        (args.addressable_devices, args.num_addressable_devices) = (LISTS.devices.as_ptr(), 2);
    }
    loaded_executable_execute(args: LoadedExecutableExecuteArgs) {
        assert_eq!((args.num_devices, args.num_args), (2, 1));
        for device in 0..2 {
            // SAFETY: the client passes room for two events and for two lists of two results. Of these six objects,
            // only result 0 of device 1 is null on request.
            unsafe {
                *args.device_complete_events.add(device) = make("");
                let results = *args.output_lists.add(device);
                *results = make(if device == 1 { "loaded_executable_execute" } else { "" });
                *results.add(1) = make("");
                number_results(*results, *results.add(1));
            }
        }
    }
    buffer_destroy(args: BufferDestroyArgs) { unsafe { free(args.buffer) } }
    buffer_element_type(args: BufferElementTypeArgs) {
        args.r#type = LISTS.types[unsafe { number(args.buffer) }];
    }
    buffer_dimensions(args: BufferDimensionsArgs) {
        let (start, rank) = if unsafe { number(args.buffer) } == 0 { (0, 2) } else { (2, 1) };
        (args.dims, args.num_dims) = (LISTS.dims[start..].as_ptr(), rank);
    }
    buffer_device(args: BufferDeviceArgs) {
        // The client asks for the device of two buffers in turn: result 0 of device 0 and result 0 of device 1.
        let device = NEXT_DEVICE.get();
        NEXT_DEVICE.set(device + 1);
        let spoiled = spoiled("buffer_device", Fault::Null);
        args.device = if spoiled { std::ptr::null_mut() } else { LISTS.devices[device / 2 % 2] };
    }
    buffer_delete(args: BufferDeleteArgs) {}
    buffer_is_deleted(args: BufferIsDeletedArgs) {}
    buffer_copy_to_device(args: BufferCopyToDeviceArgs) {
        args.dst_buffer = make("buffer_copy_to_device");
    }
    buffer_to_host_buffer(args: BufferToHostBufferArgs) {
        // SAFETY: the client passes `dst_size` bytes.
        unsafe { args.dst.cast::<u8>().write_bytes(1, args.dst_size) };
        args.event = make("buffer_to_host_buffer");
    }
    buffer_get_memory_layout(args: BufferGetMemoryLayoutArgs) { args.layout.tiled.num_tiles = 1; }
    buffer_ready_event(args: BufferReadyEventArgs) { args.event = make("buffer_ready_event"); }
}

thread_local! {
    static NEXT_DEVICE: Cell<usize> = const { Cell::new(0) };
}

/// Stores in each of two results its number, by which the fake plugin recognizes it.
unsafe fn number_results(first: *mut api::BufferObject, second: *mut api::BufferObject) {
    // SAFETY: `make` returned both pointers, which point to numbers; only `first` may be null.
    unsafe {
        if let Some(first) = first.cast::<u64>().as_mut() {
            *first = 0;
        }
        *second.cast::<u64>() = 1;
    }
}

/// Returns the number of a result.
unsafe fn number(buffer: *mut api::BufferObject) -> usize {
    // SAFETY: `make` made the buffer, which holds a number.
    unsafe { *buffer.cast::<u64>() as usize }
}

/// Uses every function of a client once.
fn use_all(table: Table) -> Result<(), Error> {
    NEXT_DEVICE.set(0);
    table.initialize()?;
    let client = Client::new(&Plugin::of_table(table), &ClientOptions::new())?;
    assert_eq!(client.platform_name()? + &client.platform_version()?, "texttext");
    assert_eq!(client.process_index()?, 3);
    let devices = client.devices();
    assert_eq!((devices[0].id(), devices[1].id()), (8, 16));
    let program = client.compile("text", &CompileOptions::new().partitions(2))?;
    let results: Vec<String> = program.results().map(ToString::to_string).collect();
    assert_eq!((program.name(), &*results.join(" ")), ("text", "tensor<2x3xf64> tensor<5xi32>"));
    assert_eq!(program.optimized_program()?.bytes().len(), 7);
    let memory = program.memory()?;
    assert_eq!((memory.arguments, memory.temporary, memory.total()), (48, 0, 48));
    let x = client.buffer(&[1.0, 2.0], &[2], &devices[0])?;
    let y = x.copy_to_device(&devices[1])?;
    let execution = program.execute(&[&[&x], &[&y]])?;
    assert!(execution.completion.is_ready()? && execution.results[1][0].is_ready()?);
    assert_eq!(execution.results[1][1].to_vec::<i32>()?, [0x0101_0101; 5]);
    execution.results[0][0].wait()?;
    x.delete()?;
    y.is_deleted()?;
    client.wait()
}

#[test]
fn every_function_is_called_and_every_object_is_destroyed() {
    CALLED.with_borrow_mut(Vec::clear);
    assert_eq!(use_all(table("")), Ok(()));
    assert_eq!(ALIVE.get(), 0);
    let called = CALLED.take();
    let not: Vec<_> = NAMES.iter().filter(|name| !called.contains(name)).collect();
    assert_eq!(not, [&"error_get_code"], "functions that the test does not reach");
}

/// Returns whether an error of the function is ignored, because it cannot be reported or does not matter: owners are
/// dropped, a code is only part of an error, and optimized programs and orders of dimensions are hints.
fn error_is_ignored(name: &str) -> bool {
    let hints = ["error_get_code", "buffer_get_memory_layout"];
    name.ends_with("_destroy") || hints.contains(&name)
}

#[test]
fn an_error_of_each_function_is_returned_and_nothing_leaks() {
    for name in NAMES {
        CALLED.take();
        SPOILED.set(vec![(*name, Fault::Error)]);
        let found = use_all(table(""));
        SPOILED.take();
        // If the function that destroys an object fails, the object stays alive, so as many objects as calls are
        // expected to be alive. Errors are always destroyed.
        let calls = CALLED.take().into_iter().filter(|called| called == name).count();
        let expected = if name.ends_with("_destroy") { calls } else { 0 };
        assert_eq!(ALIVE.replace(0), expected.cast_signed(), "{name}");
        if error_is_ignored(name) {
            assert_eq!(found, Ok(()), "{name}");
        } else {
            assert_eq!(found, Err(Error::new(ErrorKind::Plugin(Code::NotFound), "text")), "{name}");
        }
    }
}

/// The function that returns the code of an error fails itself.
#[test]
fn an_error_without_a_code_is_unknown() {
    SPOILED.set(vec![("client_create", Fault::Error), ("error_get_code", Fault::Error)]);
    let found = use_all(table(""));
    SPOILED.take();
    assert_eq!(ALIVE.get(), 0);
    assert_eq!(found, Err(Error::new(ErrorKind::Plugin(Code::Unknown), "text")));
}

#[test]
fn a_missing_function_is_an_error_and_nothing_leaks() {
    for name in NAMES.iter().filter(|name| !error_is_ignored(name)) {
        let found = use_all(table(name));
        assert_eq!(ALIVE.get(), 0, "{name}");
        let error = found.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(error.message(), format!("the plugin has no function {name}"));
    }
}

#[test]
fn a_null_object_is_an_error_and_nothing_leaks() {
    for name in [
        "client_create",
        "client_compile",
        "client_buffer_from_host_buffer",
        "device_get_description",
        "loaded_executable_get_executable",
        "loaded_executable_execute",
        "buffer_device",
        "buffer_copy_to_device",
        "buffer_to_host_buffer",
        "buffer_ready_event",
    ] {
        SPOILED.set(vec![(name, Fault::Null)]);
        let found = use_all(table(""));
        SPOILED.take();
        assert_eq!(ALIVE.get(), 0, "{name}");
        assert_eq!(found.unwrap_err().kind(), ErrorKind::Interface, "{name}");
    }
}
