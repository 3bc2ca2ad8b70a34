//! Calls of a plugin: its objects with their owners, and each function behind a safe one.
//!
//! All unsafe code of the client proper stands here. Its invariants:
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
use crate::element::{ArrayType, ElementType};
use crate::error::{Code, Error, ErrorKind};
use crate::options::NamedValue;
use std::ffi::{c_char, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

/// The table of functions of a plugin.
#[derive(Clone, Copy)]
pub(crate) struct Table(&'static Api);

// SAFETY: the table is never written after the plugin returned it, and its functions may be called from every thread (see
// *Threads* above).
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// Calls a function of the table by its field. Unsafe: see [`Table::call`].
macro_rules! call {
    ($table:expr, $function:ident, $args:expr) => {
        $table.call($table.0.$function, stringify!($function), $args)
    };
}

impl Table {
    /// Wraps a table that [`crate::library::load`] returned.
    pub(crate) fn new(api: &'static Api) -> Table {
        Table(api)
    }

    /// Returns major and minor version of the plugin's C API.
    pub(crate) fn version(self) -> (i32, i32) {
        (self.0.pjrt_api_version.major_version, self.0.pjrt_api_version.minor_version)
    }

    /// Returns the first extension of the table.
    pub(crate) fn extensions(self) -> *const api::ExtensionBase {
        self.0.extension_start
    }

    /// Calls a function and turns its error into a Rust error.
    ///
    /// # Safety
    ///
    /// `args` has its size in its first field, and its pointers satisfy the conditions of the function.
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
            // SAFETY: callers own the error, and do not use it again.
            unsafe { destroy(&mut args) };
        }
    }

    /// Initializes the plugin. It must happen once, before every other call.
    pub(crate) fn initialize(self) -> Result<(), Error> {
        // SAFETY: there are no conditions; a plugin is initialized once, since `plugin.rs` loads a path once.
        unsafe { call!(self, plugin_initialize, &mut api::PluginInitializeArgs::new()) }
    }

    /// Returns the attributes of the plugin.
    pub(crate) fn attributes(self) -> Result<Vec<(String, NamedValue)>, Error> {
        let mut args = api::PluginAttributesArgs::new();
        // SAFETY: there are no conditions.
        unsafe { call!(self, plugin_attributes, &mut args)? };
        // SAFETY: attributes live as long as the process.
        unsafe { named_values(args.attributes, args.num_attributes) }
    }
}

/// Copies text of the plugin.
///
/// # Safety
///
/// `start` is null or points to `size` bytes.
pub(crate) unsafe fn text(start: *const c_char, size: usize) -> String {
    // SAFETY: the caller guarantees it.
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
    // SAFETY: the caller guarantees it.
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
        // SAFETY: `next` points to one of the values.
        let value = unsafe { &*next.cast::<api::NamedValue>() };
        // A later version may have larger values, so the distance between two is the size that the value states, rounded
        // up to its alignment.
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

/// Returns an error for a pointer that the plugin left null.
fn not_null<T>(pointer: *mut T, what: &str) -> Result<NonNull<T>, Error> {
    NonNull::new(pointer)
        .ok_or_else(|| Error::interface(format!("the plugin returned no {what} and no error")))
}

// -- Clients ----------------------------------------------------------------------------------------

/// A client of a plugin.
pub(crate) struct RawClient {
    table: Table,
    pointer: NonNull<api::ClientObject>,
}

// SAFETY: see *Threads* above.
unsafe impl Send for RawClient {}
// SAFETY: see *Threads* above.
unsafe impl Sync for RawClient {}

impl Drop for RawClient {
    fn drop(&mut self) {
        let mut args = api::ClientDestroyArgs::new();
        args.client = self.pointer.as_ptr();
        // SAFETY: invariants 1 and 2. `drop` cannot report an error.
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
        // SAFETY: the options live until the call returns, and the plugin copies them. Callbacks are absent.
        unsafe { call!(table, client_create, &mut args)? };
        let pointer = not_null(args.client, "client")?;
        Ok(Arc::new(RawClient { table, pointer }))
    }

    pub(crate) fn platform_name(&self) -> Result<String, Error> {
        let mut args = api::ClientPlatformNameArgs::new();
        args.client = self.pointer.as_ptr();
        // SAFETY: invariants 1 and 5.
        unsafe {
            call!(self.table, client_platform_name, &mut args)?;
            Ok(text(args.platform_name, args.platform_name_size))
        }
    }

    pub(crate) fn platform_version(&self) -> Result<String, Error> {
        let mut args = api::ClientPlatformVersionArgs::new();
        args.client = self.pointer.as_ptr();
        // SAFETY: invariants 1 and 5.
        unsafe {
            call!(self.table, client_platform_version, &mut args)?;
            Ok(text(args.platform_version, args.platform_version_size))
        }
    }

    pub(crate) fn process_index(&self) -> Result<i32, Error> {
        let mut args = api::ClientProcessIndexArgs::new();
        args.client = self.pointer.as_ptr();
        // SAFETY: invariant 1.
        unsafe { call!(self.table, client_process_index, &mut args)? };
        Ok(args.process_index)
    }

    /// Returns all devices that the client knows.
    pub(crate) fn devices(self: &Arc<Self>) -> Result<Vec<RawDevice>, Error> {
        let mut args = api::ClientDevicesArgs::new();
        args.client = self.pointer.as_ptr();
        // SAFETY: invariants 1 and 5.
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
        // SAFETY: invariants 1 and 5.
        let devices = unsafe {
            call!(self.table, client_addressable_devices, &mut args)?;
            list(args.addressable_devices, args.num_addressable_devices)
        };
        devices.iter().map(|device| RawDevice::new(self, *device)).collect()
    }

    /// Compiles a program, given as MLIR text or bytecode, with a serialized `CompileOptionsProto`.
    pub(crate) fn compile(
        self: &Arc<Self>,
        code: &str,
        options: &[u8],
    ) -> Result<RawExecutable, Error> {
        const FORMAT: &str = "mlir";
        let mut program = api::Program::new();
        // The plugin only reads the code; the field is mutable because another function writes into it.
        program.code = code.as_ptr().cast_mut().cast();
        program.code_size = code.len();
        program.format = FORMAT.as_ptr().cast();
        program.format_size = FORMAT.len();
        let mut args = api::ClientCompileArgs::new();
        args.client = self.pointer.as_ptr();
        args.program = &program;
        args.compile_options = options.as_ptr().cast();
        args.compile_options_size = options.len();
        // SAFETY: invariants 1 and 4: program and options live until the call returns.
        unsafe { call!(self.table, client_compile, &mut args)? };
        RawExecutable::new(self, not_null(args.executable, "executable")?)
    }

    /// Copies an array of the host, in row-major order, to a device.
    pub(crate) fn buffer(
        self: &Arc<Self>,
        data: &[u8],
        of: &ArrayType,
        device: &RawDevice,
    ) -> Result<RawBuffer, Error> {
        same_client(self, &device.client)?;
        let needed = of.checked_bytes()?;
        if data.len() != needed {
            return Err(Error::argument(format!(
                "{of} has {needed} bytes, found {} bytes",
                data.len()
            )));
        }
        let dims = of.dims_i64()?;
        let mut args = api::ClientBufferFromHostBufferArgs::new();
        args.client = self.pointer.as_ptr();
        args.data = data.as_ptr().cast();
        args.r#type = of.element().pjrt();
        args.dims = dims.as_ptr();
        args.num_dims = dims.len();
        args.host_buffer_semantics = api::IMMUTABLE_ONLY_DURING_CALL;
        args.device = device.pointer.as_ptr();
        // SAFETY: invariants 1 to 4: `data` has the bytes of the type, and the plugin reads it only during the call.
        unsafe { call!(self.table, client_buffer_from_host_buffer, &mut args)? };
        // The event says that the plugin has read `data`, which it has already; it only has to be destroyed.
        drop(
            NonNull::new(args.done_with_host_buffer)
                .map(|event| RawEvent { client: self.clone(), pointer: event }),
        );
        let pointer = not_null(args.buffer, "buffer")?;
        Ok(RawBuffer { client: self.clone(), pointer })
    }
}

/// Checks that two objects have one client.
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

// SAFETY: see *Threads* above.
unsafe impl Send for RawDevice {}
// SAFETY: see *Threads* above.
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
        // SAFETY: invariants 1 and 2.
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
        // SAFETY: invariants 1, 2 and 5; a description lives as long as its device.
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

/// An event: the end of a copy or of an execution on a device.
pub(crate) struct RawEvent {
    client: Arc<RawClient>,
    pointer: NonNull<api::Event>,
}

// SAFETY: see *Threads* above.
unsafe impl Send for RawEvent {}
// SAFETY: see *Threads* above.
unsafe impl Sync for RawEvent {}

impl Drop for RawEvent {
    fn drop(&mut self) {
        let mut args = api::EventDestroyArgs::new();
        args.event = self.pointer.as_ptr();
        // SAFETY: invariant 1. An event may be destroyed before it is ready. `drop` cannot report an error.
        let _ = unsafe { call!(self.client.table, event_destroy, &mut args) };
    }
}

impl RawEvent {
    /// Waits for the event, and returns the error of its operation.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let mut args = api::EventAwaitArgs::new();
        args.event = self.pointer.as_ptr();
        // SAFETY: invariant 1.
        unsafe { call!(self.client.table, event_await, &mut args) }
    }

    /// Returns whether the event is ready, with or without an error.
    pub(crate) fn is_ready(&self) -> Result<bool, Error> {
        let mut args = api::EventIsReadyArgs::new();
        args.event = self.pointer.as_ptr();
        // SAFETY: invariant 1.
        unsafe { call!(self.client.table, event_is_ready, &mut args)? };
        Ok(args.is_ready)
    }
}

// -- Buffers ----------------------------------------------------------------------------------------

/// An array on a device.
pub(crate) struct RawBuffer {
    client: Arc<RawClient>,
    pointer: NonNull<api::BufferObject>,
}

// SAFETY: see *Threads* above.
unsafe impl Send for RawBuffer {}
// SAFETY: see *Threads* above.
unsafe impl Sync for RawBuffer {}

impl Drop for RawBuffer {
    fn drop(&mut self) {
        let mut args = api::BufferDestroyArgs::new();
        args.buffer = self.pointer.as_ptr();
        // SAFETY: invariant 1; the plugin keeps the memory until executions that read it have ended.
        // `drop` cannot report an error.
        let _ = unsafe { call!(self.client.table, buffer_destroy, &mut args) };
    }
}

impl RawBuffer {
    /// Returns element type and dimensions, as the plugin states them.
    pub(crate) fn array_type(&self) -> Result<ArrayType, Error> {
        let mut element = api::BufferElementTypeArgs::new();
        element.buffer = self.pointer.as_ptr();
        let mut dims = api::BufferDimensionsArgs::new();
        dims.buffer = self.pointer.as_ptr();
        // SAFETY: invariants 1 and 5.
        let dims = unsafe {
            call!(self.client.table, buffer_element_type, &mut element)?;
            call!(self.client.table, buffer_dimensions, &mut dims)?;
            list(dims.dims, dims.num_dims)
        };
        array_type(element.r#type, dims)
    }

    /// Copies the array to `bytes` in row-major order, whatever its order on the device, and waits for the copy.
    ///
    /// The plugin is asked for row-major order. If the array has another order on the device, it is asked for that one,
    /// and the elements are reordered here, because the plugin of version 0.81 ignores the order that it is asked for.
    pub(crate) fn to_host(&self, of: &ArrayType, bytes: &mut [u8]) -> Result<(), Error> {
        let needed = of.checked_bytes()?;
        if bytes.len() != needed {
            return Err(Error::argument(format!(
                "{of} has {needed} bytes, found room for {} bytes",
                bytes.len()
            )));
        }
        if bytes.is_empty() {
            // There is nothing to copy, but the array may be the result of a failed execution.
            return self.ready()?.wait();
        }
        let mut row_major: Vec<i64> = (0..).take(of.dims().len()).collect();
        row_major.reverse();
        match self.minor_to_major() {
            Some(order) if order != row_major => {
                let mut in_order = vec![0; needed];
                self.copy_to_host(None, &mut in_order)?;
                let reordered = reorder(&in_order, of, &order, bytes);
                reordered.ok_or_else(|| {
                    Error::interface(format!("the plugin states the order {order:?} of a {of}"))
                })
            }
            Some(_) | None => self.copy_to_host(Some(&row_major), bytes),
        }
    }

    /// Copies the array to `bytes` in an order of dimensions, the fastest varying first, or in that of the device.
    fn copy_to_host(&self, minor_to_major: Option<&[i64]>, bytes: &mut [u8]) -> Result<(), Error> {
        let mut layout = api::BufferMemoryLayout::new();
        layout.r#type = api::LAYOUT_TILED;
        layout.tiled = api::BufferMemoryLayoutTiled::new();
        let mut args = api::BufferToHostBufferArgs::new();
        args.src = self.pointer.as_ptr();
        if let Some(order) = minor_to_major {
            layout.tiled.minor_to_major = order.as_ptr();
            layout.tiled.minor_to_major_size = order.len();
            args.host_layout = &mut layout;
        }
        args.dst = bytes.as_mut_ptr().cast::<c_void>();
        args.dst_size = bytes.len();
        // SAFETY: invariants 1 and 4: the plugin writes at most `dst_size` bytes and refuses fewer than it needs, and the
        // event of the copy is awaited before `bytes` can be used again. `library::load` checks that events can be.
        unsafe { call!(self.client.table, buffer_to_host_buffer, &mut args)? };
        let event = RawEvent {
            client: self.client.clone(),
            pointer: not_null(args.event, "event of a copy")?,
        };
        event.wait()
    }

    /// Returns the order of dimensions on the device, the fastest varying first; `None` if the plugin does not state it or
    /// if the array lies in tiles.
    pub(crate) fn minor_to_major(&self) -> Option<Vec<i64>> {
        let mut args = api::BufferGetMemoryLayoutArgs::new();
        args.buffer = self.pointer.as_ptr();
        // SAFETY: invariant 1.
        unsafe { call!(self.client.table, buffer_get_memory_layout, &mut args).ok()? };
        let tiled = &args.layout.tiled;
        if args.layout.r#type != api::LAYOUT_TILED || tiled.num_tiles != 0 {
            return None;
        }
        // SAFETY: invariant 5; the list lives as long as the buffer.
        Some(unsafe { list(tiled.minor_to_major, tiled.minor_to_major_size) }.to_vec())
    }

    /// Returns the event at which the array has its values.
    pub(crate) fn ready(&self) -> Result<RawEvent, Error> {
        let mut args = api::BufferReadyEventArgs::new();
        args.buffer = self.pointer.as_ptr();
        // SAFETY: invariant 1.
        unsafe { call!(self.client.table, buffer_ready_event, &mut args)? };
        Ok(RawEvent {
            client: self.client.clone(),
            pointer: not_null(args.event, "event of a buffer")?,
        })
    }

    /// Frees the memory on the device, once executions that read it have ended.
    pub(crate) fn delete(&self) -> Result<(), Error> {
        let mut args = api::BufferDeleteArgs::new();
        args.buffer = self.pointer.as_ptr();
        // SAFETY: invariant 1. The plugin refuses other uses of a deleted buffer by an error.
        unsafe { call!(self.client.table, buffer_delete, &mut args) }
    }

    /// Returns whether the memory was deleted or donated.
    pub(crate) fn is_deleted(&self) -> Result<bool, Error> {
        let mut args = api::BufferIsDeletedArgs::new();
        args.buffer = self.pointer.as_ptr();
        // SAFETY: invariant 1.
        unsafe { call!(self.client.table, buffer_is_deleted, &mut args)? };
        Ok(args.is_deleted)
    }

    /// Returns the device on which the array lies.
    pub(crate) fn device(&self) -> Result<RawDevice, Error> {
        let mut args = api::BufferDeviceArgs::new();
        args.buffer = self.pointer.as_ptr();
        // SAFETY: invariant 1.
        unsafe { call!(self.client.table, buffer_device, &mut args)? };
        RawDevice::new(&self.client, args.device)
    }

    /// Copies the array to another device of the client.
    pub(crate) fn copy_to_device(&self, device: &RawDevice) -> Result<RawBuffer, Error> {
        same_client(&self.client, &device.client)?;
        let mut args = api::BufferCopyToDeviceArgs::new();
        args.buffer = self.pointer.as_ptr();
        args.dst_device = device.pointer.as_ptr();
        // SAFETY: invariants 1 to 3.
        unsafe { call!(self.client.table, buffer_copy_to_device, &mut args)? };
        Ok(RawBuffer {
            client: self.client.clone(),
            pointer: not_null(args.dst_buffer, "copy of a buffer")?,
        })
    }
}

/// Copies an array from an order of dimensions, the fastest varying first, to row-major order. `None` if the order is no
/// permutation of the dimensions.
fn reorder(from: &[u8], of: &ArrayType, minor_to_major: &[i64], to: &mut [u8]) -> Option<()> {
    let (dims, size) = (of.dims(), of.element().bytes());
    let mut strides = vec![None; dims.len()];
    let mut stride = size;
    for dim in minor_to_major {
        let dim = usize::try_from(*dim).ok()?;
        if strides.get_mut(dim)?.replace(stride).is_some() {
            return None;
        }
        stride = stride.checked_mul(*dims.get(dim)?)?;
    }
    let strides: Vec<usize> = strides.into_iter().collect::<Option<_>>()?;
    let mut index = vec![0; dims.len()];
    for element in to.chunks_exact_mut(size) {
        let start: usize = index.iter().zip(&strides).map(|(i, stride)| i * stride).sum();
        element.copy_from_slice(from.get(start..start + size)?);
        // The next index in row-major order.
        for (i, dim) in index.iter_mut().zip(dims).rev() {
            *i += 1;
            if *i < *dim {
                break;
            }
            *i = 0;
        }
    }
    Some(())
}

/// Returns the type of an array from the plugin's number of its element type and its dimensions.
fn array_type(element: i32, dims: &[i64]) -> Result<ArrayType, Error> {
    let unknown = || {
        Error::new(
            ErrorKind::Unsupported,
            format!("the plugin's element type {element} is not known here"),
        )
    };
    let element = ElementType::from_pjrt(element).ok_or_else(unknown)?;
    let dim = |d: &i64| {
        usize::try_from(*d)
            .map_err(|_| Error::interface(format!("the plugin has a dimension of {d}")))
    };
    let dims: Vec<usize> = dims.iter().map(dim).collect::<Result<_, _>>()?;
    Ok(ArrayType::new(element, &dims))
}

// -- Executables ------------------------------------------------------------------------------------

/// A compiled program, loaded on its devices.
pub(crate) struct RawExecutable {
    client: Arc<RawClient>,
    loaded: NonNull<api::LoadedExecutable>,
    executable: NonNull<api::ExecutableObject>,
    /// The number of results on each device.
    outputs: usize,
    /// The number of devices of this client that run the program.
    devices: usize,
}

// SAFETY: see *Threads* above.
unsafe impl Send for RawExecutable {}
// SAFETY: see *Threads* above.
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
    // SAFETY: invariant 1, callers own the object and drop it, so an error cannot be reported.
    let _ = unsafe { call!(client.table, executable_destroy, &mut args) };
}

fn destroy_loaded(client: &RawClient, loaded: NonNull<api::LoadedExecutable>) {
    let mut args = api::LoadedExecutableDestroyArgs::new();
    args.executable = loaded.as_ptr();
    // SAFETY: invariant 1, callers own the object; the plugin keeps the code until executions have ended.
    let _ = unsafe { call!(client.table, loaded_executable_destroy, &mut args) };
}

impl RawExecutable {
    fn new(
        client: &Arc<RawClient>,
        loaded: NonNull<api::LoadedExecutable>,
    ) -> Result<RawExecutable, Error> {
        let mut args = api::LoadedExecutableGetExecutableArgs::new();
        args.loaded_executable = loaded.as_ptr();
        // SAFETY: the caller has just got the object from the plugin.
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
        // SAFETY: invariant 1.
        unsafe { call!(client.table, executable_num_outputs, &mut args)? };
        raw.outputs = args.num_outputs;
        raw.devices = raw.devices()?.len();
        Ok(raw)
    }

    pub(crate) fn name(&self) -> Result<String, Error> {
        let mut args = api::ExecutableNameArgs::new();
        args.executable = self.executable.as_ptr();
        // SAFETY: invariants 1 and 5.
        unsafe {
            call!(self.client.table, executable_name, &mut args)?;
            Ok(text(args.executable_name, args.executable_name_size))
        }
    }

    /// Returns the devices of this client that run the program, in the order of its arguments.
    pub(crate) fn devices(&self) -> Result<Vec<RawDevice>, Error> {
        let mut args = api::LoadedExecutableAddressableDevicesArgs::new();
        args.executable = self.loaded.as_ptr();
        // SAFETY: invariants 1 and 5.
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
        // SAFETY: invariants 1 and 5; the lists live as long as the executable. The numbers of dimensions are a list of
        // `num_outputs`, and all dimensions stand in one list, whose length is their sum.
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

    /// Returns the bytes of an execution on one device: of arguments, of results, of results in memory of arguments, and
    /// besides these.
    pub(crate) fn memory(&self) -> Result<[u64; 4], Error> {
        let mut args = api::ExecutableGetCompiledMemoryStatsArgs::new();
        args.executable = self.executable.as_ptr();
        // SAFETY: invariant 1.
        unsafe { call!(self.client.table, executable_get_compiled_memory_stats, &mut args)? };
        let stated = [
            args.argument_size_in_bytes,
            args.output_size_in_bytes,
            args.alias_size_in_bytes,
            args.temp_size_in_bytes,
        ];
        // A negative number would be a fault of the plugin.
        Ok(stated.map(|bytes| u64::try_from(bytes).unwrap_or(0)))
    }

    /// Returns the optimized program: its format and its bytes.
    pub(crate) fn optimized_program(&self) -> Result<(String, Vec<u8>), Error> {
        let mut program = api::Program::new();
        let mut args = api::ExecutableOptimizedProgramArgs::new();
        args.executable = self.executable.as_ptr();
        args.program = &mut program;
        // SAFETY: invariant 1. Without memory for the code, the call only states its size.
        unsafe { call!(self.client.table, executable_optimized_program, &mut args)? };
        let mut code = vec![0_u8; program.code_size];
        program.code = code.as_mut_ptr().cast();
        args.program = &mut program;
        // SAFETY: invariants 1 and 4: `code` has the size that the first call stated.
        unsafe { call!(self.client.table, executable_optimized_program, &mut args)? };
        // SAFETY: the format is a text of the plugin.
        let format = unsafe { text(program.format, program.format_size) };
        code.truncate(program.code_size);
        Ok((format, code))
    }

    /// Starts an execution. `arguments` has a list of equal length for each device, `kept` the numbers of arguments that
    /// must not be donated, and `launch` tells executions on several devices apart. Returns the results and the event of completion of each device.
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
        // SAFETY: invariants 1 to 4: there is a list of arguments and a list of as many results as the plugin states for
        // each device, and room for its event; all lists live until the call returns. The plugin holds what it needs of
        // the arguments beyond the call.
        unsafe { call!(self.client.table, loaded_executable_execute, &mut args)? };
        // Owners first, so that nothing is leaked if a pointer is null.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the definition: the element at `[i, j, k]` is found at the sum of indices times strides.
    #[test]
    fn arrays_of_any_order_become_row_major() {
        let of = ArrayType::new(ElementType::U16, &[2, 3, 4]);
        let row_major: Vec<u8> = (0..48).collect();
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut strides = [0; 3];
            let mut stride = 2;
            for dim in order {
                strides[dim] = stride;
                stride *= of.dims()[dim];
            }
            let mut on_device = vec![0; 48];
            let all = (0..2).flat_map(|i| (0..3).flat_map(move |j| (0..4).map(move |k| [i, j, k])));
            for (element, [i, j, k]) in row_major.chunks(2).zip(all) {
                let at = i * strides[0] + j * strides[1] + k * strides[2];
                on_device[at..at + 2].copy_from_slice(element);
            }
            let mut found = vec![0; 48];
            reorder(&on_device, &of, &order.map(|dim| dim as i64), &mut found).unwrap();
            assert_eq!(found, row_major, "{order:?}");
        }
        for wrong in [&[0, 1][..], &[0, 1, 1], &[0, 1, 3], &[0, 1, -1]] {
            assert_eq!(reorder(&row_major, &of, wrong, &mut [0; 48]), None, "{wrong:?}");
        }
    }
}
