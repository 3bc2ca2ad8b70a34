//! The structs of XLA's foreign functions, laid out as in `xla/ffi/api/c_api.h`, and of the extension of the PJRT C API
//! that registers them (`pjrt_c_api_ffi_extension.h`).
//!
//! XLA owns the memory of these structs; later versions append fields. `layout_tests.rs` compares offsets with the
//! headers.

use crate::api::{Call, ExtensionBase};
use std::ffi::{c_char, c_int, c_void};

/// The type of [`FfiExtension`] among the extensions of the PJRT C API.
pub(crate) const EXTENSION_FFI: c_int = 5;

/// The type of [`MetadataExtension`] among the extensions of a [`CallFrame`].
pub(crate) const EXTENSION_METADATA: c_int = 1;

/// The stage in which a handler computes.
pub(crate) const STAGE_EXECUTE: c_int = 3;

/// The type of an argument or of a result that is a [`FfiBuffer`]. XLA has no other type.
pub(crate) const BUFFER: c_int = 1;

pub(crate) const ATTRIBUTE_ARRAY: c_int = 1;
pub(crate) const ATTRIBUTE_DICTIONARY: c_int = 2;
pub(crate) const ATTRIBUTE_SCALAR: c_int = 3;
pub(crate) const ATTRIBUTE_STRING: c_int = 4;

/// Declares structs and, for the comparison with the headers, their layouts: sizes up to the end of the last field.
macro_rules! structs {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            pub(crate) struct $name {
                $(pub(crate) $field: $type,)*
            }
        )*

        /// The layouts of the structs above.
        #[cfg(test)]
        pub(crate) const LAYOUTS: &[crate::api::Layout] = &[$(crate::api::Layout {
            name: stringify!($name),
            size: {
                const ENDS: &[usize] = &[$(std::mem::offset_of!($name, $field) + size_of::<$type>()),*];
                ENDS[ENDS.len() - 1]
            },
            fields: &[$((stringify!($field), std::mem::offset_of!($name, $field))),*],
        }),*];
    };
}

structs! {
    /// The extension of a plugin's table that registers handlers.
    FfiExtension {
        base: ExtensionBase,
        type_id_register: *const c_void,
        user_data_add: *const c_void,
        register_handler: Call<RegisterHandlerArgs>,
    }

    /// The arguments of the function that registers a handler.
    RegisterHandlerArgs {
        struct_size: usize,
        target_name: *const c_char,
        target_name_size: usize,
        handler: *mut c_void,
        platform_name: *const c_char,
        platform_name_size: usize,
        traits: c_int,
    }

    /// A version of the interface.
    FfiVersion {
        struct_size: usize,
        extension_start: *mut ExtensionBase,
        major_version: c_int,
        minor_version: c_int,
    }

    /// The table of functions that handlers may call, up to the last function that is called here.
    FfiApi {
        struct_size: usize,
        extension_start: *mut ExtensionBase,
        api_version: FfiVersion,
        internal_api: *const c_void,
        error_create: Option<unsafe extern "C-unwind" fn(args: *mut ErrorCreateArgs) -> *mut FfiError>,
    }

    /// The message and the code of an error of a handler.
    ErrorCreateArgs {
        struct_size: usize,
        extension_start: *mut ExtensionBase,
        message: *const c_char,
        errc: c_int,
    }

    /// An array in memory of the host.
    FfiBuffer {
        struct_size: usize,
        extension_start: *mut ExtensionBase,
        dtype: c_int,
        data: *mut c_void,
        rank: i64,
        dims: *const i64,
    }

    /// Text of XLA, without a zero byte at its end.
    ByteSpan {
        ptr: *const c_char,
        len: usize,
    }

    /// An attribute that is a number.
    FfiScalar {
        dtype: c_int,
        value: *const c_void,
    }

    /// An attribute that is a list of numbers.
    FfiArray {
        dtype: c_int,
        size: usize,
        data: *const c_void,
    }

    /// Arguments or results: their types, and pointers to as many [`FfiBuffer`]s.
    FfiArrays {
        struct_size: usize,
        extension_start: *mut ExtensionBase,
        size: i64,
        types: *const c_int,
        arrays: *const *const FfiBuffer,
    }

    /// Attributes: their types, names and values, sorted by name.
    FfiAttributes {
        struct_size: usize,
        extension_start: *mut ExtensionBase,
        size: i64,
        types: *const c_int,
        names: *const *const ByteSpan,
        attrs: *const *const c_void,
    }

    /// A call of a handler.
    CallFrame {
        struct_size: usize,
        extension_start: *mut ExtensionBase,
        api: *const FfiApi,
        ctx: *mut c_void,
        stage: c_int,
        args: FfiArrays,
        rets: FfiArrays,
        attrs: FfiAttributes,
    }

    /// The properties of a handler. A handler writes them if XLA probes it: asks for its version.
    Metadata {
        struct_size: usize,
        api_version: FfiVersion,
        traits: u32,
    }

    /// The extension of a call by which XLA asks for the properties of a handler instead of running it (a probe).
    MetadataExtension {
        base: ExtensionBase,
        metadata: *mut Metadata,
    }
}

/// An error that a handler made. XLA owns it.
#[repr(C)]
pub(crate) struct FfiError {
    _private: [u8; 0],
}
