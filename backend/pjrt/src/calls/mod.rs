//! Calls of a plugin: its objects with their owners, and a safe function for each function of the plugin.
//!
//! All unsafe code of the client proper stands in this folder: `buffers.rs` and `executables.rs` have the calls for arrays
//! and for programs, this file all others. Its invariants:
//!
//! 1. The pointer in an owner ([`RawClient`], [`RawBuffer`], [`RawEvent`], [`RawExecutable`]) came from the plugin of its
//!    table, is alive, and is destroyed once, when the owner is dropped.
//! 2. An owner holds its client, so the client is destroyed last. Devices belong to the client and live as long.
//! 3. Objects of one client are passed to functions of that client only; functions that take two objects check it.
//! 4. Memory of the host that the plugin reads or writes is borrowed until the call returns, or until the event of the
//!    copy is awaited in the same function.
//! 5. Text and lists of the plugin are copied before its next call.
//!
//! *Threads.* The header states no rule about threads, except that the *caller's* callbacks must be safe to call from any.
//! The C++ classes behind the C API (`pjrt_client.h`) describe the behaviour of concurrent donations and of objects that are
//! freed while executions run, and JAX calls clients, executables and buffers from several threads at once, without a lock.
//! So the owners here are `Send` and `Sync`, and the tests call them from several threads.

#![expect(unsafe_code, reason = "calls functions of a C library")]

use crate::api::{self, Api, Args, Call};
use crate::error::{Code, Error, ErrorKind};
use crate::options::NamedValue;
use std::ffi::c_char;
use std::ptr::NonNull;
use std::sync::Arc;

/// The table of functions of a plugin.
#[derive(Clone, Copy)]
pub(crate) struct Table(&'static Api);

// SAFETY: the table is never written after the plugin returned it, and its functions may be called from every thread (see
// *Threads* above).
unsafe impl Send for Table {}
// SAFETY: the table is only read, and its functions may be called from several threads at once (see *Threads* above).
unsafe impl Sync for Table {}

/// Calls a function of the table by its field. Unsafe: see [`Table::call`].
macro_rules! call {
    ($table:expr, $function:ident, $args:expr) => {
        $table.call($table.0.$function, stringify!($function), $args)
    };
}

// These modules stand below the macro `call`, because they use it.
mod buffers;
mod executables;

pub(crate) use buffers::RawBuffer;
pub(crate) use executables::RawExecutable;

impl Table {
    /// Wraps a table that [`crate::library::load`] returned.
    pub(crate) fn new(api: &'static Api) -> Table {
        Table(api)
    }

    /// Returns major and minor version of the plugin's C API.
    pub(crate) fn version(self) -> (i32, i32) {
        (self.0.pjrt_api_version.major_version, self.0.pjrt_api_version.minor_version)
    }

    /// Returns the first extension in the linked list of the table.
    pub(crate) fn extensions(self) -> *const api::ExtensionBase {
        self.0.extension_start
    }

    /// Calls a function and turns its error into a Rust error.
    ///
    /// # Safety
    ///
    /// The first field of `args` is the size of the struct, and its pointers satisfy the conditions of the function.
    pub(crate) unsafe fn call<A>(
        self,
        function: Call<A>,
        name: &'static str,
        args: &mut A,
    ) -> Result<(), Error> {
        let missing =
            || Error::new(ErrorKind::Unsupported, format!("the plugin has no function {name}"));
        let function = function.ok_or_else(missing)?;
        // SAFETY: the caller guarantees the conditions of the function.
        let error = unsafe { function(args) };
        match NonNull::new(error) {
            None => Ok(()),
            Some(error) => Err(self.take_error(error)),
        }
    }

    /// Reads an error that the plugin returned, and destroys it.
    fn take_error(self, error: NonNull<api::PjrtError>) -> Error {
        let mut message = api::ErrorMessageArgs::new();
        message.error = error.as_ptr();
        let mut code = api::ErrorGetCodeArgs::new();
        code.error = error.as_ptr();
        let mut read = String::new();
        // SAFETY: the error is alive; its message is copied before it is destroyed.
        unsafe {
            if let Some(get_message) = self.0.error_message {
                get_message(&mut message);
                read = text(message.message, message.message_size);
            }
            if let Some(get_code) = self.0.error_get_code
                && let Some(without_code) = NonNull::new(get_code(&mut code))
            {
                self.destroy_error(without_code);
            }
        }
        self.destroy_error(error);
        Error::new(ErrorKind::Plugin(Code::from_number(code.code)), read)
    }

    fn destroy_error(self, error: NonNull<api::PjrtError>) {
        let mut args = api::ErrorDestroyArgs::new();
        args.error = error.as_ptr();
        if let Some(destroy) = self.0.error_destroy {
            // SAFETY: callers own the error, which is alive, and do not use it again.
            unsafe { destroy(&mut args) };
        }
    }

    /// Initializes the plugin. It must happen once, before every other call.
    pub(crate) fn initialize(self) -> Result<(), Error> {
        // SAFETY: the function takes no pointers. A plugin is initialized once, since `plugin.rs` loads a path once.
        unsafe { call!(self, plugin_initialize, &mut api::PluginInitializeArgs::new()) }
    }

    /// Returns the attributes of the plugin.
    pub(crate) fn attributes(self) -> Result<Vec<(String, NamedValue)>, Error> {
        let mut args = api::PluginAttributesArgs::new();
        // SAFETY: the function takes no pointers, so it has no conditions.
        unsafe { call!(self, plugin_attributes, &mut args)? };
        // SAFETY: the plugin states the number of attributes, which live as long as the process.
        unsafe { named_values(args.attributes, args.num_attributes) }
    }
}

/// Copies text of the plugin.
///
/// # Safety
///
/// `start` is null or points to `size` bytes.
pub(crate) unsafe fn text(start: *const c_char, size: usize) -> String {
    // SAFETY: by the contract of this function, `start` points to `size` bytes.
    String::from_utf8_lossy(unsafe { list(start.cast::<u8>(), size) }).into_owned()
}

/// Returns a list of the plugin as a slice; an empty list may be null.
///
/// # Safety
///
/// `start` is null, or points to `length` values that stay unchanged for `'a`.
pub(crate) unsafe fn list<'a, T>(start: *const T, length: usize) -> &'a [T] {
    if start.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: by the contract of this function, `start` points to `length` values.
    unsafe { std::slice::from_raw_parts(start, length) }
}

/// Copies named values.
///
/// # Safety
///
/// `values` points to `count` named values, of which those with lists and text point to as many elements as they say.
unsafe fn named_values(
    values: *const api::NamedValue,
    count: usize,
) -> Result<Vec<(String, NamedValue)>, Error> {
    let mut read = Vec::with_capacity(count);
    let mut next = values.cast::<u8>();
    for _ in 0..if values.is_null() { 0 } else { count } {
        // SAFETY: `next` points to one of the `count` values that the caller guarantees.
        let value = unsafe { &*next.cast::<api::NamedValue>() };
        // A later version may have larger values. So the distance between two values is the size that the first states,
        // rounded up to its alignment.
        let step = value
            .struct_size
            .max(size_of::<api::NamedValue>())
            .next_multiple_of(align_of::<api::NamedValue>());
        // SAFETY: the field `type` says which member of the union is set, and the caller guarantees its pointers.
        let read_value = unsafe {
            match value.r#type {
                api::NAMED_STRING => {
                    NamedValue::Text(text(value.value.string_value, value.value_size))
                }
                api::NAMED_INT64 => NamedValue::Int(value.value.int64_value),
                api::NAMED_INT64_LIST => {
                    NamedValue::Ints(list(value.value.int64_array_value, value.value_size).to_vec())
                }
                api::NAMED_FLOAT => NamedValue::Float(value.value.float_value),
                api::NAMED_BOOL => NamedValue::Bool(value.value.bool_value),
                other => {
                    return Err(Error::interface(format!(
                        "a named value of the plugin has the unknown type {other}"
                    )));
                }
            }
        };
        // SAFETY: the caller guarantees that the name has `name_size` bytes.
        read.push((unsafe { text(value.name, value.name_size) }, read_value));
        next = next.wrapping_add(step);
    }
    Ok(read)
}

/// Returns an error if the plugin left the pointer null; `what` names the missing object.
fn not_null<T>(pointer: *mut T, what: &str) -> Result<NonNull<T>, Error> {
    NonNull::new(pointer)
        .ok_or_else(|| Error::interface(format!("the plugin returned no {what} and no error")))
}

// -- Clients ----------------------------------------------------------------------------------------

/// The owner of a client of a plugin: destroys the client when it is dropped.
pub(crate) struct RawClient {
    table: Table,
    pointer: NonNull<api::ClientObject>,
}

// SAFETY: a plugin's clients may be used from every thread (see *Threads* above).
unsafe impl Send for RawClient {}
// SAFETY: a plugin's clients may be used from several threads at once (see *Threads* above).
unsafe impl Sync for RawClient {}

impl Drop for RawClient {
    fn drop(&mut self) {
        let mut args = api::ClientDestroyArgs::new();
        args.client = self.pointer.as_ptr();
        // SAFETY: the client is alive and is destroyed only here (invariant 1 above). All other owners hold the client,
        // so none is left (invariant 2). `drop` cannot report an error.
        let _ = unsafe { call!(self.table, client_destroy, &mut args) };
    }
}

impl RawClient {
    /// Creates a client.
    pub(crate) fn create(
        table: Table,
        options: &[(String, NamedValue)],
    ) -> Result<Arc<RawClient>, Error> {
        let named: Vec<api::NamedValue> = options
            .iter()
            .map(|(name, value)| {
                let mut named = api::NamedValue::new();
                named.name = name.as_ptr().cast();
                named.name_size = name.len();
                (named.r#type, named.value, named.value_size) = match value {
                    NamedValue::Text(text) => (
                        api::NAMED_STRING,
                        api::Value { string_value: text.as_ptr().cast() },
                        text.len(),
                    ),
                    NamedValue::Int(int) => (api::NAMED_INT64, api::Value { int64_value: *int }, 1),
                    NamedValue::Ints(ints) => (
                        api::NAMED_INT64_LIST,
                        api::Value { int64_array_value: ints.as_ptr() },
                        ints.len(),
                    ),
                    NamedValue::Float(float) => {
                        (api::NAMED_FLOAT, api::Value { float_value: *float }, 1)
                    }
                    NamedValue::Bool(bool) => {
                        (api::NAMED_BOOL, api::Value { bool_value: *bool }, 1)
                    }
                };
                named
            })
            .collect();
        let mut args = api::ClientCreateArgs::new();
        args.create_options = named.as_ptr();
        args.num_options = named.len();
        // SAFETY: the options live until the call returns, and the plugin copies them. Callbacks are null.
        unsafe { call!(table, client_create, &mut args)? };
        let pointer = not_null(args.client, "client")?;
        Ok(Arc::new(RawClient { table, pointer }))
    }

    pub(crate) fn platform_name(&self) -> Result<String, Error> {
        let mut args = api::ClientPlatformNameArgs::new();
        args.client = self.pointer.as_ptr();
        // SAFETY: the client is alive and came from this plugin (invariant 1 above). The text is copied before the
        // plugin's next call (invariant 5).
        unsafe {
            call!(self.table, client_platform_name, &mut args)?;
            Ok(text(args.platform_name, args.platform_name_size))
        }
    }

    pub(crate) fn platform_version(&self) -> Result<String, Error> {
        let mut args = api::ClientPlatformVersionArgs::new();
        args.client = self.pointer.as_ptr();
        // SAFETY: the client is alive and came from this plugin (invariant 1 above). The text is copied before the
        // plugin's next call (invariant 5).
        unsafe {
            call!(self.table, client_platform_version, &mut args)?;
            Ok(text(args.platform_version, args.platform_version_size))
        }
    }

    pub(crate) fn process_index(&self) -> Result<i32, Error> {
        let mut args = api::ClientProcessIndexArgs::new();
        args.client = self.pointer.as_ptr();
        // SAFETY: the client is alive and came from this plugin (invariant 1 above).
        unsafe { call!(self.table, client_process_index, &mut args)? };
        Ok(args.process_index)
    }

    /// Returns all devices that the client knows.
    pub(crate) fn devices(self: &Arc<Self>) -> Result<Vec<RawDevice>, Error> {
        let mut args = api::ClientDevicesArgs::new();
        args.client = self.pointer.as_ptr();
        // SAFETY: the client is alive and came from this plugin (invariant 1 above). The list is copied before the
        // plugin's next call (invariant 5).
        let devices = unsafe {
            call!(self.table, client_devices, &mut args)?;
            list(args.devices, args.num_devices)
        };
        devices.iter().map(|device| RawDevice::new(self, *device)).collect()
    }

    /// Returns the devices to which this client can give work.
    pub(crate) fn addressable_devices(self: &Arc<Self>) -> Result<Vec<RawDevice>, Error> {
        let mut args = api::ClientAddressableDevicesArgs::new();
        args.client = self.pointer.as_ptr();
        // SAFETY: the client is alive and came from this plugin (invariant 1 above). The list is copied before the
        // plugin's next call (invariant 5).
        let devices = unsafe {
            call!(self.table, client_addressable_devices, &mut args)?;
            list(args.addressable_devices, args.num_addressable_devices)
        };
        devices.iter().map(|device| RawDevice::new(self, *device)).collect()
    }
}

/// Returns an error if two objects belong to different clients.
fn same_client(one: &Arc<RawClient>, other: &Arc<RawClient>) -> Result<(), Error> {
    if Arc::ptr_eq(one, other) {
        return Ok(());
    }
    Err(Error::argument(
        "buffers, devices and executables of two clients cannot be used together; expected one client",
    ))
}

// -- Devices ----------------------------------------------------------------------------------------

/// A device of a client.
#[derive(Clone)]
pub(crate) struct RawDevice {
    client: Arc<RawClient>,
    pointer: NonNull<api::Device>,
}

// SAFETY: a plugin's devices may be used from every thread (see *Threads* above).
unsafe impl Send for RawDevice {}
// SAFETY: a plugin's devices may be used from several threads at once (see *Threads* above).
unsafe impl Sync for RawDevice {}

impl PartialEq for RawDevice {
    fn eq(&self, other: &RawDevice) -> bool {
        self.pointer == other.pointer
    }
}

/// The plugin's description of a device.
pub(crate) struct RawDescription {
    pub(crate) id: i32,
    pub(crate) process_index: i32,
    pub(crate) kind: String,
    pub(crate) debug_text: String,
    pub(crate) addressable: bool,
}

impl RawDevice {
    fn new(client: &Arc<RawClient>, pointer: *mut api::Device) -> Result<RawDevice, Error> {
        Ok(RawDevice { client: client.clone(), pointer: not_null(pointer, "device")? })
    }

    /// Returns the device's description.
    pub(crate) fn description(&self) -> Result<RawDescription, Error> {
        let table = self.client.table;
        let mut args = api::DeviceGetDescriptionArgs::new();
        args.device = self.pointer.as_ptr();
        // SAFETY: the device lives as long as its client, which `self` holds (invariants 1 and 2 above).
        unsafe { call!(table, device_get_description, &mut args)? };
        let description = not_null(args.device_description, "description of a device")?.as_ptr();
        let mut id = api::DeviceDescriptionIdArgs::new();
        id.device_description = description;
        let mut process = api::DeviceDescriptionProcessIndexArgs::new();
        process.device_description = description;
        let mut kind = api::DeviceDescriptionKindArgs::new();
        kind.device_description = description;
        let mut debug = api::DeviceDescriptionDebugStringArgs::new();
        debug.device_description = description;
        let mut addressable = api::DeviceIsAddressableArgs::new();
        addressable.device = self.pointer.as_ptr();
        // SAFETY: the description lives as long as its device, and thus as its client, which `self` holds (invariants 1
        // and 2 above). The texts are copied before the plugin's next call (invariant 5).
        unsafe {
            call!(table, device_description_id, &mut id)?;
            call!(table, device_description_process_index, &mut process)?;
            call!(table, device_description_kind, &mut kind)?;
            let kind = text(kind.device_kind, kind.device_kind_size);
            call!(table, device_description_debug_string, &mut debug)?;
            let debug_text = text(debug.debug_string, debug.debug_string_size);
            call!(table, device_is_addressable, &mut addressable)?;
            Ok(RawDescription {
                id: id.id,
                process_index: process.process_index,
                kind,
                debug_text,
                addressable: addressable.is_addressable,
            })
        }
    }
}

// -- Events -----------------------------------------------------------------------------------------

/// The owner of an event: the end of a copy or of an execution on a device.
pub(crate) struct RawEvent {
    client: Arc<RawClient>,
    pointer: NonNull<api::Event>,
}

// SAFETY: a plugin's events may be used from every thread (see *Threads* above).
unsafe impl Send for RawEvent {}
// SAFETY: a plugin's events may be used from several threads at once (see *Threads* above).
unsafe impl Sync for RawEvent {}

impl Drop for RawEvent {
    fn drop(&mut self) {
        let mut args = api::EventDestroyArgs::new();
        args.event = self.pointer.as_ptr();
        // SAFETY: the event is alive and is destroyed only here (invariant 1 above). An event may be destroyed before
        // it is ready. `drop` cannot report an error.
        let _ = unsafe { call!(self.client.table, event_destroy, &mut args) };
    }
}

impl RawEvent {
    /// Waits for the event, and returns the error of its operation.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let mut args = api::EventAwaitArgs::new();
        args.event = self.pointer.as_ptr();
        // SAFETY: the event is alive and came from this plugin (invariant 1 above).
        unsafe { call!(self.client.table, event_await, &mut args) }
    }

    /// Returns whether the event is ready, with or without an error.
    pub(crate) fn is_ready(&self) -> Result<bool, Error> {
        let mut args = api::EventIsReadyArgs::new();
        args.event = self.pointer.as_ptr();
        // SAFETY: the event is alive and came from this plugin (invariant 1 above).
        unsafe { call!(self.client.table, event_is_ready, &mut args)? };
        Ok(args.is_ready)
    }
}
