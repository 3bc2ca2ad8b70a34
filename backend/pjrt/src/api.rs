//! The structs of the PJRT C API, laid out as in `pjrt_c_api.h` of version 0.81.
//!
//! Every struct that is passed to the plugin begins with its own size, from which the plugin derives which fields the
//! caller's version has. Later versions append fields to structs and functions to the table, and change no field in
//! front of them, so structs of version 0.81 are understood by later plugins. `layout_tests.rs` compares all sizes and
//! offsets with the header.
//!
//! Names of structs are those of the header without `PJRT_` and underscores; names of fields are those of the header.

#![expect(unsafe_code, reason = "structs of a C interface, which start as zeros")]

use std::ffi::{c_char, c_int, c_void};

/// The size of a struct and the offsets of its fields in bytes, for the comparison with the header.
#[cfg(test)]
pub(crate) struct Layout {
    pub(crate) name: &'static str,
    pub(crate) size: usize,
    pub(crate) fields: &'static [(&'static str, usize)],
}

/// A struct that is passed to the plugin.
///
/// # Safety
///
/// The struct is `repr(C)`, and zeros in all of its bytes are a value of it.
pub(crate) unsafe trait Args: Sized {
    /// The size in bytes up to the end of the last field, as the header counts it: without padding behind that field.
    const SIZE: usize;

    /// Returns the struct with its size and zeros elsewhere.
    fn new() -> Self;
}

/// Declares structs of arguments. Each begins with its size and a pointer to extensions, which stays null.
macro_rules! args {
    ($($name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            #[repr(C)]
            pub(crate) struct $name {
                pub(crate) struct_size: usize,
                pub(crate) extension_start: *mut ExtensionBase,
                $(pub(crate) $field: $type,)*
            }

            // SAFETY: fields are integers, `bool`, raw pointers, optional functions and structs of these; zeros are a
            // value of each.
            unsafe impl Args for $name {
                const SIZE: usize = {
                    const ENDS: &[usize] = &[
                        2 * size_of::<usize>(),
                        $(std::mem::offset_of!($name, $field) + size_of::<$type>(),)*
                    ];
                    ENDS[ENDS.len() - 1]
                };

                fn new() -> Self {
                    // SAFETY: zeros are a value of the struct, as the trait demands.
                    let mut args: Self = unsafe { std::mem::zeroed() };
                    args.struct_size = Self::SIZE;
                    args
                }
            }
        )*

        /// The layouts of the structs above.
        #[cfg(test)]
        pub(crate) const LAYOUTS: &[Layout] = &[$(Layout {
            name: stringify!($name),
            size: <$name as Args>::SIZE,
            fields: &[
                ("struct_size", std::mem::offset_of!($name, struct_size)),
                ("extension_start", std::mem::offset_of!($name, extension_start)),
                $((stringify!($field), std::mem::offset_of!($name, $field)),)*
            ],
        }),*];
    };
}

/// Declares types of which only pointers exist here.
macro_rules! opaque {
    ($($name:ident)*) => {
        $(
            #[repr(C)]
            pub(crate) struct $name {
                _private: [u8; 0],
            }
        )*
    };
}

opaque! {
    PjrtError Event ClientObject Device DeviceDescription Memory BufferObject ExecutableObject LoadedExecutable
    ExecuteContext
}

/// The head of an extension of the table or of a struct. Extensions are a linked list.
#[repr(C)]
pub(crate) struct ExtensionBase {
    pub(crate) struct_size: usize,
    pub(crate) r#type: c_int,
    pub(crate) next: *mut ExtensionBase,
}

/// The value of a [`NamedValue`]; the field `type` selects the member of the union.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union Value {
    pub(crate) string_value: *const c_char,
    pub(crate) int64_value: i64,
    pub(crate) int64_array_value: *const i64,
    pub(crate) float_value: f32,
    pub(crate) bool_value: bool,
}

pub(crate) const NAMED_STRING: c_int = 0;
pub(crate) const NAMED_INT64: c_int = 1;
pub(crate) const NAMED_INT64_LIST: c_int = 2;
pub(crate) const NAMED_FLOAT: c_int = 3;
pub(crate) const NAMED_BOOL: c_int = 4;

/// The runtime does not hold references to host memory after the call that copies it.
pub(crate) const IMMUTABLE_ONLY_DURING_CALL: c_int = 0;

/// The layout of [`MemoryLayout`] is given by an order of dimensions.
pub(crate) const LAYOUT_TILED: c_int = 0;

args! {
    ApiVersion { major_version: c_int, minor_version: c_int }

    ErrorDestroyArgs { error: *mut PjrtError }
    ErrorMessageArgs { error: *const PjrtError, message: *const c_char, message_size: usize }
    ErrorGetCodeArgs { error: *const PjrtError, code: c_int }

    NamedValue {
        name: *const c_char,
        name_size: usize,
        r#type: c_int,
        value: Value,
        value_size: usize,
    }

    PluginInitializeArgs {}
    PluginAttributesArgs { attributes: *const NamedValue, num_attributes: usize }

    EventDestroyArgs { event: *mut Event }
    EventIsReadyArgs { event: *mut Event, is_ready: bool }
    EventAwaitArgs { event: *mut Event }

    ClientCreateArgs {
        create_options: *const NamedValue,
        num_options: usize,
        kv_get_callback: *mut c_void,
        kv_get_user_arg: *mut c_void,
        kv_put_callback: *mut c_void,
        kv_put_user_arg: *mut c_void,
        client: *mut ClientObject,
        kv_try_get_callback: *mut c_void,
        kv_try_get_user_arg: *mut c_void,
    }
    ClientDestroyArgs { client: *mut ClientObject }
    ClientPlatformNameArgs {
        client: *mut ClientObject,
        platform_name: *const c_char,
        platform_name_size: usize,
    }
    ClientProcessIndexArgs { client: *mut ClientObject, process_index: c_int }
    ClientPlatformVersionArgs {
        client: *mut ClientObject,
        platform_version: *const c_char,
        platform_version_size: usize,
    }
    ClientDevicesArgs { client: *mut ClientObject, devices: *const *mut Device, num_devices: usize }
    ClientAddressableDevicesArgs {
        client: *mut ClientObject,
        addressable_devices: *const *mut Device,
        num_addressable_devices: usize,
    }
    Program { code: *mut c_char, code_size: usize, format: *const c_char, format_size: usize }
    ClientCompileArgs {
        client: *mut ClientObject,
        program: *const Program,
        compile_options: *const c_char,
        compile_options_size: usize,
        executable: *mut LoadedExecutable,
    }
    BufferMemoryLayoutTiled {
        minor_to_major: *const i64,
        minor_to_major_size: usize,
        tile_dims: *const i64,
        tile_dim_sizes: *const usize,
        num_tiles: usize,
    }
    BufferMemoryLayout { tiled: BufferMemoryLayoutTiled, r#type: c_int }
    ClientBufferFromHostBufferArgs {
        client: *mut ClientObject,
        data: *const c_void,
        r#type: c_int,
        dims: *const i64,
        num_dims: usize,
        byte_strides: *const i64,
        num_byte_strides: usize,
        host_buffer_semantics: c_int,
        device: *mut Device,
        memory: *mut Memory,
        device_layout: *mut BufferMemoryLayout,
        done_with_host_buffer: *mut Event,
        buffer: *mut BufferObject,
    }

    DeviceDescriptionIdArgs { device_description: *mut DeviceDescription, id: c_int }
    DeviceDescriptionProcessIndexArgs {
        device_description: *mut DeviceDescription,
        process_index: c_int,
    }
    DeviceDescriptionKindArgs {
        device_description: *mut DeviceDescription,
        device_kind: *const c_char,
        device_kind_size: usize,
    }
    DeviceDescriptionDebugStringArgs {
        device_description: *mut DeviceDescription,
        debug_string: *const c_char,
        debug_string_size: usize,
    }
    DeviceGetDescriptionArgs { device: *mut Device, device_description: *mut DeviceDescription }
    DeviceIsAddressableArgs { device: *mut Device, is_addressable: bool }

    ExecutableDestroyArgs { executable: *mut ExecutableObject }
    ExecutableNameArgs {
        executable: *mut ExecutableObject,
        executable_name: *const c_char,
        executable_name_size: usize,
    }
    ExecutableNumOutputsArgs { executable: *mut ExecutableObject, num_outputs: usize }
    ExecutableOptimizedProgramArgs { executable: *mut ExecutableObject, program: *mut Program }
    ExecutableOutputElementTypesArgs {
        executable: *mut ExecutableObject,
        output_types: *mut c_int,
        num_output_types: usize,
    }
    ExecutableOutputDimensionsArgs {
        executable: *mut ExecutableObject,
        num_outputs: usize,
        dims: *const i64,
        dim_sizes: *const usize,
    }
    LoadedExecutableDestroyArgs { executable: *mut LoadedExecutable }
    LoadedExecutableGetExecutableArgs {
        loaded_executable: *mut LoadedExecutable,
        executable: *mut ExecutableObject,
    }
    LoadedExecutableAddressableDevicesArgs {
        executable: *mut LoadedExecutable,
        addressable_devices: *const *mut Device,
        num_addressable_devices: usize,
    }
    ExecuteOptions {
        send_callbacks: *mut *mut c_void,
        recv_callbacks: *mut *mut c_void,
        num_send_ops: usize,
        num_recv_ops: usize,
        launch_id: c_int,
        non_donatable_input_indices: *const i64,
        num_non_donatable_input_indices: usize,
        context: *mut ExecuteContext,
        call_location: *const c_char,
        num_tasks: usize,
        task_ids: *mut c_int,
        incarnation_ids: *mut i64,
    }
    LoadedExecutableExecuteArgs {
        executable: *mut LoadedExecutable,
        options: *mut ExecuteOptions,
        argument_lists: *const *const *mut BufferObject,
        num_devices: usize,
        num_args: usize,
        output_lists: *const *mut *mut BufferObject,
        device_complete_events: *mut *mut Event,
        execute_device: *mut Device,
    }

    BufferDestroyArgs { buffer: *mut BufferObject }
    BufferToHostBufferArgs {
        src: *mut BufferObject,
        host_layout: *mut BufferMemoryLayout,
        dst: *mut c_void,
        dst_size: usize,
        event: *mut Event,
    }
    BufferDeleteArgs { buffer: *mut BufferObject }
    BufferIsDeletedArgs { buffer: *mut BufferObject, is_deleted: bool }
    BufferCopyToDeviceArgs {
        buffer: *mut BufferObject,
        dst_device: *mut Device,
        dst_buffer: *mut BufferObject,
    }
    BufferDeviceArgs { buffer: *mut BufferObject, device: *mut Device }
    BufferReadyEventArgs { buffer: *mut BufferObject, event: *mut Event }
    ExecutableGetCompiledMemoryStatsArgs {
        executable: *mut ExecutableObject,
        generated_code_size_in_bytes: i64,
        argument_size_in_bytes: i64,
        output_size_in_bytes: i64,
        alias_size_in_bytes: i64,
        temp_size_in_bytes: i64,
        host_generated_code_size_in_bytes: i64,
        host_argument_size_in_bytes: i64,
        host_output_size_in_bytes: i64,
        host_alias_size_in_bytes: i64,
        host_temp_size_in_bytes: i64,
        peak_memory_in_bytes: i64,
    }

    BufferGetMemoryLayoutArgs { buffer: *mut BufferObject, layout: BufferMemoryLayout }
    BufferElementTypeArgs { buffer: *mut BufferObject, r#type: c_int }
    BufferDimensionsArgs { buffer: *mut BufferObject, dims: *const i64, num_dims: usize }
}

/// A function of the plugin's table. Plugins are written in C++ and throw exceptions in places, for example if an
/// option has another type than they expect. With this ABI an exception ends the process; with `"C"` its behaviour
/// would be undefined.
pub(crate) type Call<A> = Option<unsafe extern "C-unwind" fn(args: *mut A) -> *mut PjrtError>;

/// A function of the table that cannot fail, so it returns no error.
pub(crate) type CallWithoutError<A> = Option<unsafe extern "C-unwind" fn(args: *mut A)>;

/// Declares the table of functions and their offsets. `_` marks a function that is not called here.
macro_rules! table {
    ($($name:ident: $type:ty,)*) => {
        /// The table of functions of a plugin, up to the last function that is called here.
        #[repr(C)]
        pub(crate) struct Api {
            pub(crate) struct_size: usize,
            pub(crate) extension_start: *mut ExtensionBase,
            pub(crate) pjrt_api_version: ApiVersion,
            $(pub(crate) $name: $type,)*
        }

        /// The functions of the table with their offsets in bytes.
        #[cfg(test)]
        pub(crate) const FUNCTIONS: &[(&str, usize)] =
            &[$((stringify!($name), std::mem::offset_of!(Api, $name))),*];
    };
}

/// A function that is not called here.
pub(crate) type NotCalled = *const c_void;

table! {
    error_destroy: CallWithoutError<ErrorDestroyArgs>,
    error_message: CallWithoutError<ErrorMessageArgs>,
    error_get_code: Call<ErrorGetCodeArgs>,
    plugin_initialize: Call<PluginInitializeArgs>,
    plugin_attributes: Call<PluginAttributesArgs>,
    event_destroy: Call<EventDestroyArgs>,
    event_is_ready: Call<EventIsReadyArgs>,
    event_error: NotCalled,
    event_await: Call<EventAwaitArgs>,
    event_on_ready: NotCalled,
    client_create: Call<ClientCreateArgs>,
    client_destroy: Call<ClientDestroyArgs>,
    client_platform_name: Call<ClientPlatformNameArgs>,
    client_process_index: Call<ClientProcessIndexArgs>,
    client_platform_version: Call<ClientPlatformVersionArgs>,
    client_devices: Call<ClientDevicesArgs>,
    client_addressable_devices: Call<ClientAddressableDevicesArgs>,
    client_lookup_device: NotCalled,
    client_lookup_addressable_device: NotCalled,
    client_addressable_memories: NotCalled,
    client_compile: Call<ClientCompileArgs>,
    client_default_device_assignment: NotCalled,
    client_buffer_from_host_buffer: Call<ClientBufferFromHostBufferArgs>,
    device_description_id: Call<DeviceDescriptionIdArgs>,
    device_description_process_index: Call<DeviceDescriptionProcessIndexArgs>,
    device_description_attributes: NotCalled,
    device_description_kind: Call<DeviceDescriptionKindArgs>,
    device_description_debug_string: Call<DeviceDescriptionDebugStringArgs>,
    device_description_to_string: NotCalled,
    device_get_description: Call<DeviceGetDescriptionArgs>,
    device_is_addressable: Call<DeviceIsAddressableArgs>,
    device_local_hardware_id: NotCalled,
    device_addressable_memories: NotCalled,
    device_default_memory: NotCalled,
    device_memory_stats: NotCalled,
    memory_id: NotCalled,
    memory_kind: NotCalled,
    memory_debug_string: NotCalled,
    memory_to_string: NotCalled,
    memory_addressable_by_devices: NotCalled,
    executable_destroy: Call<ExecutableDestroyArgs>,
    executable_name: Call<ExecutableNameArgs>,
    executable_num_replicas: NotCalled,
    executable_num_partitions: NotCalled,
    executable_num_outputs: Call<ExecutableNumOutputsArgs>,
    executable_size_of_generated_code_in_bytes: NotCalled,
    executable_get_cost_analysis: NotCalled,
    executable_output_memory_kinds: NotCalled,
    executable_optimized_program: Call<ExecutableOptimizedProgramArgs>,
    executable_serialize: NotCalled,
    loaded_executable_destroy: Call<LoadedExecutableDestroyArgs>,
    loaded_executable_get_executable: Call<LoadedExecutableGetExecutableArgs>,
    loaded_executable_addressable_devices: Call<LoadedExecutableAddressableDevicesArgs>,
    loaded_executable_delete: NotCalled,
    loaded_executable_is_deleted: NotCalled,
    loaded_executable_execute: Call<LoadedExecutableExecuteArgs>,
    executable_deserialize_and_load: NotCalled,
    loaded_executable_fingerprint: NotCalled,
    buffer_destroy: Call<BufferDestroyArgs>,
    buffer_element_type: Call<BufferElementTypeArgs>,
    buffer_dimensions: Call<BufferDimensionsArgs>,
    buffer_unpadded_dimensions: NotCalled,
    buffer_dynamic_dimension_indices: NotCalled,
    buffer_get_memory_layout: Call<BufferGetMemoryLayoutArgs>,
    buffer_on_device_size_in_bytes: NotCalled,
    buffer_device: Call<BufferDeviceArgs>,
    buffer_memory: NotCalled,
    buffer_delete: Call<BufferDeleteArgs>,
    buffer_is_deleted: Call<BufferIsDeletedArgs>,
    buffer_copy_to_device: Call<BufferCopyToDeviceArgs>,
    buffer_to_host_buffer: Call<BufferToHostBufferArgs>,
    buffer_is_on_cpu: NotCalled,
    buffer_ready_event: Call<BufferReadyEventArgs>,
    buffer_unsafe_pointer: NotCalled,
    buffer_increase_external_reference_count: NotCalled,
    buffer_decrease_external_reference_count: NotCalled,
    buffer_opaque_device_memory_data_pointer: NotCalled,
    copy_to_device_stream_destroy: NotCalled,
    copy_to_device_stream_add_chunk: NotCalled,
    copy_to_device_stream_total_bytes: NotCalled,
    copy_to_device_stream_granule_size: NotCalled,
    copy_to_device_stream_current_bytes: NotCalled,
    topology_description_create: NotCalled,
    topology_description_destroy: NotCalled,
    topology_description_platform_name: NotCalled,
    topology_description_platform_version: NotCalled,
    topology_description_get_device_descriptions: NotCalled,
    topology_description_serialize: NotCalled,
    topology_description_attributes: NotCalled,
    compile: NotCalled,
    executable_output_element_types: Call<ExecutableOutputElementTypesArgs>,
    executable_output_dimensions: Call<ExecutableOutputDimensionsArgs>,
    buffer_copy_to_memory: NotCalled,
    client_create_view_of_device_buffer: NotCalled,
    executable_fingerprint: NotCalled,
    client_topology_description: NotCalled,
    executable_get_compiled_memory_stats: Call<ExecutableGetCompiledMemoryStatsArgs>,
}
