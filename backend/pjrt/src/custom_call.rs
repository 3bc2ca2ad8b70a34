//! Custom calls: programs call Rust functions by name.
//!
//! A program calls a *handler* by `stablehlo.custom_call @name` with `api_version = 4`. [`Plugin::register_handler`]
//! gives a Rust function such a name. XLA calls it on a thread of its own, with the arrays in memory of the host.
//!
//! A handler in C is a function without data, so a closure needs a function of its own: there are 128 of them, one for
//! each *slot* ([`TRAMPOLINES`]), and a registration takes the next. Invariants:
//!
//! 1. XLA passes a frame that lives, with all that it points to, until the handler returns. References to it have the
//!    lifetime of a [`CustomCall`], which the closure cannot keep.
//! 2. Results are disjoint from arguments and from one another; calls for which this is not so are refused.
//! 3. Nothing unwinds into XLA: panics become errors.

#![expect(unsafe_code, reason = "is called by XLA, with pointers")]

use crate::api::ExtensionBase;
use crate::calls::{Table, list, text};
use crate::element::{ArrayType, Element, ElementType};
use crate::error::{Code, Error, ErrorKind};
use crate::ffi_api::{
    ATTRIBUTE_ARRAY, ATTRIBUTE_DICTIONARY, ATTRIBUTE_SCALAR, ATTRIBUTE_STRING, BUFFER, ByteSpan,
    CallFrame, EXTENSION_FFI, EXTENSION_METADATA, ErrorCreateArgs, FfiApi, FfiArray, FfiArrays,
    FfiAttributes, FfiBuffer, FfiError, FfiExtension, FfiScalar, FfiVersion, Metadata,
    MetadataExtension, RegisterHandlerArgs, STAGE_EXECUTE,
};
use crate::plugin::Plugin;
use std::collections::BTreeMap;
use std::ffi::{CString, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

// -- The interface of handlers: arguments, results and attributes of a call -------------------------

/// A call of a handler: arguments, results and attributes.
pub struct CustomCall<'a> {
    arguments: Vec<ArrayRef<'a>>,
    results: Vec<ArrayMut<'a>>,
    attributes: Attributes<'a>,
}

/// An array that a handler reads.
#[derive(Clone)]
pub struct ArrayRef<'a> {
    of: ArrayType,
    bytes: &'a [u8],
}

/// An array that a handler writes. Its values before are undefined.
pub struct ArrayMut<'a> {
    of: ArrayType,
    bytes: &'a mut [u8],
}

/// An attribute of a call, from the dictionary `backend_config` in the text.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// A boolean.
    Bool(bool),
    /// A whole number of any width.
    Int(i64),
    /// An unsigned whole number of any width.
    UInt(u64),
    /// A float of 32 or 64 bits.
    Float(f64),
    /// A text.
    Text(String),
    /// A list of numbers.
    List(Vec<Attribute>),
    /// A dictionary.
    Dictionary(BTreeMap<String, Attribute>),
}

/// A Rust type of elements that is a number, so that every pattern of bits is a value of it.
pub trait Number: Element + number::Sealed {}

mod number {
    /// # Safety
    ///
    /// Every pattern of bits is a value of the type.
    pub unsafe trait Sealed {}
}

macro_rules! numbers {
    ($($type:ty)*) => {
        $(
            impl Number for $type {}
            // SAFETY: every pattern of bits is a value of an integer or a float.
            unsafe impl number::Sealed for $type {}
        )*
    };
}

numbers! { i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 }

impl<'a> CustomCall<'a> {
    /// Returns the arguments.
    pub fn arguments(&self) -> &[ArrayRef<'a>] {
        &self.arguments
    }

    /// Returns the results.
    pub fn results(&mut self) -> &mut [ArrayMut<'a>] {
        &mut self.results
    }

    /// Returns the argument with this number, or an error if there are fewer arguments.
    pub fn argument(&self, number: usize) -> Result<&ArrayRef<'a>, Error> {
        let count = self.arguments.len();
        self.arguments.get(number).ok_or_else(|| {
            Error::argument(format!(
                "the custom call has {count} arguments, expected one with number {number}"
            ))
        })
    }

    /// Returns the result with this number, or an error if there are fewer results.
    pub fn result(&mut self, number: usize) -> Result<&mut ArrayMut<'a>, Error> {
        let count = self.results.len();
        self.results.get_mut(number).ok_or_else(|| {
            Error::argument(format!(
                "the custom call has {count} results, expected one with number {number}"
            ))
        })
    }

    /// Returns the attribute with this name. `None` if there is none, or if its type is not one of [`Attribute`].
    pub fn attribute(&self, name: &str) -> Option<Attribute> {
        self.attributes.get(name)
    }
}

/// Returns the error for elements that are not of the type `T`, or whose memory is not aligned for `T`.
fn not_elements<T: Number>(of: &ArrayType) -> Error {
    Error::argument(format!(
        "an array of a custom call is {of}, expected aligned elements of type {}",
        T::TYPE
    ))
}

impl<'a> ArrayRef<'a> {
    /// Returns element type and dimensions.
    pub fn array_type(&self) -> &ArrayType {
        &self.of
    }

    /// Returns the bytes, in row-major order.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the elements, in row-major order. Returns an error if the array has another element type.
    pub fn elements<T: Number>(&self) -> Result<&'a [T], Error> {
        // SAFETY: every pattern of bits is a value of `T`, as `number::Sealed` demands.
        let (before, elements, behind) = unsafe { self.bytes.align_to::<T>() };
        let whole = T::TYPE == self.of.element() && before.is_empty() && behind.is_empty();
        if whole { Ok(elements) } else { Err(not_elements::<T>(&self.of)) }
    }
}

impl ArrayMut<'_> {
    /// Returns element type and dimensions.
    pub fn array_type(&self) -> &ArrayType {
        &self.of
    }

    /// Returns the bytes, in row-major order.
    pub fn bytes(&mut self) -> &mut [u8] {
        self.bytes
    }

    /// Returns the elements, in row-major order. Returns an error if the array has another element type.
    pub fn elements<T: Number>(&mut self) -> Result<&mut [T], Error> {
        // SAFETY: every pattern of bits is a value of `T`, and every value of `T` consists of initialized bytes.
        let (before, elements, behind) = unsafe { self.bytes.align_to_mut::<T>() };
        let whole = T::TYPE == self.of.element() && before.is_empty() && behind.is_empty();
        if whole { Ok(elements) } else { Err(not_elements::<T>(&self.of)) }
    }
}

// -- Registration -----------------------------------------------------------------------------------

/// A registered handler: a Rust function that programs call by its name.
struct Handler {
    name: String,
    /// The path of the plugin that calls the handler.
    plugin: PathBuf,
    function: Box<Function>,
}

type Function = dyn Fn(&mut CustomCall<'_>) -> Result<(), Error> + Send + Sync;

/// The handlers of this process. The index of a handler is its slot, the number of the C function that calls it.
static HANDLERS: RwLock<Vec<Arc<Handler>>> = RwLock::new(Vec::new());

/// The name under which XLA knows the platform of the host.
const HOST: &str = "Host";

impl Plugin {
    /// Returns whether the plugin can call handlers.
    pub fn has_handlers(&self) -> bool {
        extension(self.table).is_some_and(|extension| extension.register_handler.is_some())
    }

    /// Registers a handler, by which programs that are compiled later call a Rust function:
    /// `stablehlo.custom_call @name(..) {api_version = 4 : i32, ..}`.
    ///
    /// The plugin calls the handler on its own threads, at several devices at once, and in no order among calls that do not
    /// depend on one another. The handler must write all results, must not wait for other devices, and must not use the
    /// client. Its errors and panics are errors of the execution. It stays registered until the process ends.
    ///
    /// Errors: the plugin has no foreign functions; the name is taken; there are 128 handlers already.
    ///
    /// ```
    /// use tapeloom_pjrt::{Client, ClientOptions, CompileOptions, Error, Plugin};
    /// # fn main() -> Result<(), Error> {
    /// let Ok(plugin) = Plugin::found() else { return Ok(()) };
    /// plugin.register_handler("example.add_one", |call| {
    ///     let x = call.argument(0)?.elements::<f64>()?;
    ///     let y = call.result(0)?.elements::<f64>()?;
    ///     y.iter_mut().zip(x).for_each(|(y, x)| *y = x + 1.0);
    ///     Ok(())
    /// })?;
    /// let text = "func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {
    ///     %y = stablehlo.custom_call @example.add_one(%x) {api_version = 4 : i32} : (tensor<2xf64>) -> tensor<2xf64>
    ///     return %y : tensor<2xf64>
    /// }";
    /// let client = Client::new(&plugin, &ClientOptions::new())?;
    /// let add_one = client.compile(text, &CompileOptions::new())?;
    /// let x = client.buffer(&[1.0, 2.0], &[2], &client.devices()[0])?;
    /// assert_eq!(add_one.call(&[&x])?[0].to_vec::<f64>()?, [2.0, 3.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn register_handler(
        &self,
        name: &str,
        handler: impl Fn(&mut CustomCall<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let register = extension(self.table).and_then(|extension| extension.register_handler);
        let unsupported =
            || format!("{self:?} has no foreign functions, so it cannot call the handler `{name}`");
        let register = register.ok_or_else(|| Error::new(ErrorKind::Unsupported, unsupported()))?;
        // Hold the lock until the plugin has answered, so that two registrations do not take the same slot. Meanwhile
        // the plugin calls the handler to ask for its version, which does not need the lock.
        let mut handlers = HANDLERS.write().unwrap_or_else(PoisonError::into_inner);
        // The plugin keeps the first handler of a name, and reports no error.
        if handlers.iter().any(|other| other.name == name && other.plugin == self.path()) {
            return Err(Error::argument(format!(
                "{self:?} has a handler `{name}` already; expected a new name"
            )));
        }
        let slot = handlers.len();
        if slot >= SLOTS {
            let message =
                format!("{SLOTS} handlers are registered, expected `{name}` to be one of them");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut args = RegisterHandlerArgs {
            struct_size: std::mem::offset_of!(RegisterHandlerArgs, traits) + size_of::<c_int>(),
            target_name: name.as_ptr().cast(),
            target_name_size: name.len(),
            handler: TRAMPOLINES[slot / 16][slot % 16] as *mut c_void,
            platform_name: HOST.as_ptr().cast(),
            platform_name_size: HOST.len(),
            traits: 0,
        };
        // SAFETY: the names live until the call returns, and the plugin copies them. The C function has the signature
        // that XLA's typed handlers have, and exists as long as the process.
        unsafe { self.table.call(Some(register), "register_handler", &mut args)? };
        let (name, plugin) = (name.to_owned(), self.path().to_owned());
        handlers.push(Arc::new(Handler { name, plugin, function: Box::new(handler) }));
        Ok(())
    }
}

/// Returns the extension of the plugin's table that registers handlers.
fn extension(table: Table) -> Option<&'static FfiExtension> {
    let mut next = table.extensions();
    // SAFETY: extensions are a list whose end is null, in memory of the plugin, which is never unloaded. An extension
    // with this type and at least this size is an `FfiExtension`.
    unsafe {
        while let Some(extension) = next.as_ref() {
            if extension.r#type == EXTENSION_FFI
                && extension.struct_size >= size_of::<FfiExtension>()
            {
                return Some(&*next.cast::<FfiExtension>());
            }
            next = extension.next;
        }
    }
    None
}

type Trampoline = unsafe extern "C" fn(frame: *mut CallFrame) -> *mut FfiError;

/// The number of slots: the most handlers that a process can register.
const SLOTS: usize = 128;

/// The C functions that XLA calls, one for each slot (the index of a handler), in rows of 16.
static TRAMPOLINES: [[Trampoline; 16]; SLOTS / 16] = [
    row::<0>(),
    row::<1>(),
    row::<2>(),
    row::<3>(),
    row::<4>(),
    row::<5>(),
    row::<6>(),
    row::<7>(),
];

const fn row<const ROW: usize>() -> [Trampoline; 16] {
    [
        trampoline::<ROW, 0>,
        trampoline::<ROW, 1>,
        trampoline::<ROW, 2>,
        trampoline::<ROW, 3>,
        trampoline::<ROW, 4>,
        trampoline::<ROW, 5>,
        trampoline::<ROW, 6>,
        trampoline::<ROW, 7>,
        trampoline::<ROW, 8>,
        trampoline::<ROW, 9>,
        trampoline::<ROW, 10>,
        trampoline::<ROW, 11>,
        trampoline::<ROW, 12>,
        trampoline::<ROW, 13>,
        trampoline::<ROW, 14>,
        trampoline::<ROW, 15>,
    ]
}

// -- The functions that XLA calls, which read a call and run its handler ----------------------------

/// Calls the handler whose index in `HANDLERS` is `ROW * 16 + COLUMN`. Returns null, or the error of the handler.
///
/// # Safety
///
/// `frame` is a call frame of XLA that lives, with all that it points to, until this function returns (invariant 1
/// above). Only XLA calls this function.
unsafe extern "C" fn trampoline<const ROW: usize, const COLUMN: usize>(
    frame: *mut CallFrame,
) -> *mut FfiError {
    // SAFETY: by the contract of this function, the frame lives with all that it points to (invariant 1 above).
    unsafe {
        if let Some(metadata) = probe(frame) {
            answer(frame, metadata);
            return std::ptr::null_mut();
        }
        let frame = &*frame;
        // A handler has nothing to do in the other stages, such as `prepare`.
        if frame.stage != STAGE_EXECUTE {
            return std::ptr::null_mut();
        }
        match run(ROW * 16 + COLUMN, frame) {
            Ok(()) => std::ptr::null_mut(),
            Err(error) => ffi_error(frame.api, &error),
        }
    }
}

/// Returns a pointer to the metadata that XLA asks for, if the call is a probe (XLA's question for the handler's
/// version); otherwise `None`.
///
/// # Safety
///
/// `frame` is a call frame of XLA that lives with all that it points to (invariant 1 above).
unsafe fn probe(frame: *const CallFrame) -> Option<*mut Metadata> {
    // SAFETY: every frame begins with its size and its extensions, which are a list whose end is null.
    unsafe {
        let mut next: *const ExtensionBase = (*frame).extension_start;
        while let Some(extension) = next.as_ref() {
            if extension.r#type == EXTENSION_METADATA {
                return Some((*next.cast::<MetadataExtension>()).metadata);
            }
            next = extension.next;
        }
    }
    None
}

/// Answers a probe (XLA's question for the handler's version): the version of the interface for which the handler was
/// made, and no traits.
///
/// The structs here are prefixes of the structs of every minor version, so the answer repeats the version of the XLA
/// that probes. A frame that is smaller than expected gets a version that every XLA refuses.
///
/// # Safety
///
/// `frame` is a call frame of XLA that lives with all that it points to (invariant 1 above), and `metadata` comes from
/// this frame.
unsafe fn answer(frame: *const CallFrame, metadata: *mut Metadata) {
    // SAFETY: the metadata has at least the size that it states, and all versions have the fields of `Metadata`. Older
    // versions of XLA probe without a table, so `api` may be null.
    unsafe {
        let complete =
            (*frame).struct_size >= FRAME_SIZE && (*metadata).struct_size >= METADATA_SIZE;
        let (major, minor) = match (complete, (*frame).api.as_ref()) {
            (true, Some(api))
                if api.struct_size >= size_of::<FfiApi>() && api.error_create.is_some() =>
            {
                (api.api_version.major_version, api.api_version.minor_version)
            }
            (true, None) => (0, 1),
            (false, _) | (true, Some(_)) => (-1, 0),
        };
        (*metadata).api_version = FfiVersion {
            struct_size: size_of::<FfiVersion>(),
            extension_start: std::ptr::null_mut(),
            major_version: if major == 0 { 0 } else { -1 },
            minor_version: minor,
        };
        (*metadata).traits = 0;
    }
}

/// The size in bytes of a call frame (XLA's arguments of a handler) up to the end of its attributes.
const FRAME_SIZE: usize = std::mem::offset_of!(CallFrame, attrs) + size_of::<FfiAttributes>();

/// The size in bytes of metadata (a handler's version and traits, which XLA asks for) up to the end of the traits.
const METADATA_SIZE: usize = std::mem::offset_of!(Metadata, traits) + size_of::<u32>();

/// Runs the handler of a slot (the index of a handler in `HANDLERS`) on the call in `frame`.
///
/// # Safety
///
/// `frame` is a call frame of XLA that lives with all that it points to (invariant 1 above).
unsafe fn run(slot: usize, frame: &CallFrame) -> Result<(), Error> {
    let handler = {
        let handlers = HANDLERS.read().unwrap_or_else(PoisonError::into_inner);
        handlers.get(slot).cloned()
    };
    let handler = handler
        .ok_or_else(|| Error::interface(format!("the plugin called the handler of slot {slot}")))?;
    let named = |error: Error| {
        Error::new(error.kind(), format!("handler `{}`: {}", handler.name, error.message()))
    };
    // SAFETY: by the contract of this function, the frame lives with all that it points to.
    let mut call = unsafe { read_call(frame) }.map_err(named)?;
    // A handler that panics may leave its own shared data half updated, as other threads see it. Programs that catch
    // panics have to expect this, so the handler counts as unwind safe.
    match catch_unwind(AssertUnwindSafe(|| (handler.function)(&mut call))) {
        Ok(result) => result.map_err(named),
        Err(payload) => {
            let text = payload.downcast_ref::<&str>().copied();
            let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            let text = text.unwrap_or("a panic without text");
            Err(named(Error::new(ErrorKind::Plugin(Code::Internal), format!("panicked: {text}"))))
        }
    }
}

/// Returns an error of XLA, made from a Rust error.
///
/// # Safety
///
/// `api` is null or the table of functions in a call frame of XLA.
unsafe fn ffi_error(api: *const FfiApi, error: &Error) -> *mut FfiError {
    let code = match error.kind() {
        ErrorKind::Plugin(code) => code,
        ErrorKind::Argument | ErrorKind::Deleted => Code::InvalidArgument,
        ErrorKind::Unsupported => Code::Unimplemented,
        ErrorKind::NoPlugin | ErrorKind::Version | ErrorKind::Interface => Code::Internal,
    };
    let message = CString::new(error.message().replace('\0', " ")).unwrap_or_default();
    let mut args = ErrorCreateArgs {
        struct_size: std::mem::offset_of!(ErrorCreateArgs, errc) + size_of::<c_int>(),
        extension_start: std::ptr::null_mut(),
        message: message.as_ptr(),
        errc: code.number(),
    };
    // SAFETY: the table is null or XLA's, by the contract of this function. XLA copies the message during the call.
    unsafe {
        match api.as_ref().and_then(|api| api.error_create) {
            Some(create) => create(&mut args),
            // If no error can be made, end the process: the program would continue with undefined results.
            None => std::process::abort(),
        }
    }
}

/// Reads the arguments, results and attributes of a call.
///
/// # Safety
///
/// The frame is XLA's, and all that it points to lives for the lifetime of `frame` (invariant 1 above).
unsafe fn read_call(frame: &CallFrame) -> Result<CustomCall<'_>, Error> {
    let sizes = [frame.args.struct_size, frame.rets.struct_size, frame.attrs.struct_size];
    if sizes != [size_of::<FfiArrays>(), size_of::<FfiArrays>(), size_of::<FfiAttributes>()] {
        // The three lists lie one after the other in the frame. If a list had another size, the fields of the lists
        // behind it would be at other offsets.
        return Err(Error::interface(format!(
            "XLA's lists of arguments, results and attributes have {sizes:?} bytes"
        )));
    }
    // SAFETY: by the contract of this function, the lists of the frame and their arrays live.
    let (arguments, results) = unsafe { (read_arrays(&frame.args)?, read_arrays(&frame.rets)?) };
    for (number, (of, result)) in results.iter().enumerate() {
        let others = arguments.iter().chain(&results[..number]);
        if let Some((other, _)) = others.into_iter().find(|(_, bytes)| overlap(*bytes, *result)) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "result {number}, {of}, shares memory with a {other}; write the call without output_operand_aliases"
                ),
            ));
        }
    }
    // SAFETY: by the contract of this function, the arrays live as long as the frame. Results are disjoint from all
    // other arrays (checked above), so references to them are unique. XLA has allocated their bytes, but may not have
    // written them; they are read as numbers at most.
    unsafe {
        let arguments = arguments.into_iter().map(|(of, bytes)| ArrayRef { of, bytes: &*bytes });
        let results = results.into_iter().map(|(of, bytes)| ArrayMut { of, bytes: &mut *bytes });
        Ok(CustomCall {
            arguments: arguments.collect(),
            results: results.collect(),
            attributes: Attributes { raw: &frame.attrs },
        })
    }
}

/// Returns whether two arrays share bytes.
fn overlap(one: *mut [u8], other: *mut [u8]) -> bool {
    let start = |bytes: *mut [u8]| bytes.cast::<u8>().addr();
    one.len() > 0
        && other.len() > 0
        && start(one) < start(other) + other.len()
        && start(other) < start(one) + one.len()
}

/// Returns the types of arguments or results, and pointers to their bytes.
///
/// # Safety
///
/// `arrays` is a list of a call frame of XLA that lives with all that it points to (invariant 1 above).
unsafe fn read_arrays(arrays: &FfiArrays) -> Result<Vec<(ArrayType, *mut [u8])>, Error> {
    let count = usize::try_from(arrays.size)
        .map_err(|_| Error::interface("XLA passed a negative number of arrays"))?;
    // SAFETY: XLA's list of types and its list of arrays have `size` entries each.
    let (types, arrays) = unsafe { (list(arrays.types, count), list(arrays.arrays, count)) };
    let read = |(kind, array): (&c_int, &*const FfiBuffer)| {
        // SAFETY: the entry is null or points to XLA's description of an array, which lives as long as the call.
        let array = unsafe { array.as_ref() }
            .filter(|array| *kind == BUFFER && array.struct_size >= size_of::<FfiBuffer>());
        let array = array.ok_or_else(|| {
            Error::interface(format!("XLA passed an argument of the unknown type {kind}"))
        })?;
        let unknown = || {
            Error::new(
                ErrorKind::Unsupported,
                format!("XLA's element type {} is not known here", array.dtype),
            )
        };
        let element = ElementType::from_xla(array.dtype).ok_or_else(unknown)?;
        let rank = usize::try_from(array.rank)
            .map_err(|_| Error::interface("XLA passed an array of negative rank"))?;
        let dim = |d: &i64| {
            usize::try_from(*d).map_err(|_| Error::interface("XLA passed a negative dimension"))
        };
        // SAFETY: the dimensions are a list of `rank` numbers.
        let dims: Vec<usize> =
            unsafe { list(array.dims, rank) }.iter().map(dim).collect::<Result<_, _>>()?;
        let of = ArrayType::new(element, &dims);
        let bytes = of.checked_bytes()?;
        let data = match (bytes, array.data.is_null()) {
            // XLA may pass null for an array without bytes, but a slice needs a pointer that is not null.
            (0, _) => std::ptr::NonNull::<u64>::dangling().as_ptr().cast(),
            (_, false) => array.data.cast::<u8>(),
            (_, true) => return Err(Error::interface(format!("XLA passed no memory for a {of}"))),
        };
        Ok((of, std::ptr::slice_from_raw_parts_mut(data, bytes)))
    };
    types.iter().zip(arrays).map(read).collect()
}

/// The attributes of a call. An attribute is read when the handler asks for it.
struct Attributes<'a> {
    /// The attributes in XLA's call frame, which live, with all that they point to, until the handler returns
    /// (invariant 1 above).
    raw: &'a FfiAttributes,
}

impl Attributes<'_> {
    fn get(&self, name: &str) -> Option<Attribute> {
        // SAFETY: the attributes live with all that they point to, as the field `raw` states, and `at` is the number of
        // one of them.
        unsafe {
            let (at, _) = names(self.raw).enumerate().find(|(_, found)| found == name)?;
            attribute(self.raw, at)
        }
    }
}

/// Returns the names of attributes.
///
/// # Safety
///
/// The attributes are XLA's and live with all that they point to (invariant 1 above).
unsafe fn names(raw: &FfiAttributes) -> impl Iterator<Item = String> {
    let count = usize::try_from(raw.size).unwrap_or(0);
    // SAFETY: the list of names has `size` entries, which point to texts.
    unsafe { list(raw.names, count) }
        .iter()
        .map(|name: &*const ByteSpan| unsafe { text((**name).ptr, (**name).len) })
}

/// Returns the attribute with a number; `None` if its type is not known here.
///
/// # Safety
///
/// The attributes are XLA's and live with all that they point to (invariant 1 above). There is an attribute with the
/// number `at`.
unsafe fn attribute(raw: &FfiAttributes, at: usize) -> Option<Attribute> {
    // SAFETY: the list of values and the list of types have an entry for each attribute, and each value has the type
    // that the list of types states. A number has the size of its type.
    unsafe {
        let value = *raw.attrs.add(at);
        match *raw.types.add(at) {
            ATTRIBUTE_SCALAR => {
                let scalar = &*value.cast::<FfiScalar>();
                let element = ElementType::from_xla(scalar.dtype)?;
                number(element, list(scalar.value.cast(), element.bytes()))
            }
            ATTRIBUTE_ARRAY => {
                let array = &*value.cast::<FfiArray>();
                let element = ElementType::from_xla(array.dtype)?;
                let bytes = list(array.data.cast::<u8>(), array.size.checked_mul(element.bytes())?);
                let numbers =
                    bytes.chunks_exact(element.bytes().max(1)).map(|bytes| number(element, bytes));
                numbers.collect::<Option<_>>().map(Attribute::List)
            }
            ATTRIBUTE_STRING => {
                let span = &*value.cast::<ByteSpan>();
                Some(Attribute::Text(text(span.ptr, span.len)))
            }
            ATTRIBUTE_DICTIONARY => {
                let inner = &*value.cast::<FfiAttributes>();
                let entry = |(at, name)| Some((name, attribute(inner, at)?));
                names(inner)
                    .enumerate()
                    .map(entry)
                    .collect::<Option<_>>()
                    .map(Attribute::Dictionary)
            }
            _ => None,
        }
    }
}

/// Reads a number from its bytes; `None` if its type is neither a boolean nor an integer nor a float of 32 or 64 bits.
fn number(element: ElementType, bytes: &[u8]) -> Option<Attribute> {
    macro_rules! read {
        ($type:ty, $variant:ident, $wide:ty) => {
            Attribute::$variant(<$wide>::from(<$type>::from_ne_bytes(bytes.try_into().ok()?)))
        };
    }
    Some(match element {
        ElementType::Pred => Attribute::Bool(bytes.first()? != &0),
        ElementType::S8 => read!(i8, Int, i64),
        ElementType::S16 => read!(i16, Int, i64),
        ElementType::S32 => read!(i32, Int, i64),
        ElementType::S64 => read!(i64, Int, i64),
        ElementType::U8 => read!(u8, UInt, u64),
        ElementType::U16 => read!(u16, UInt, u64),
        ElementType::U32 => read!(u32, UInt, u64),
        ElementType::U64 => read!(u64, UInt, u64),
        ElementType::F32 => read!(f32, Float, f64),
        ElementType::F64 => read!(f64, Float, f64),
        ElementType::F16
        | ElementType::Bf16
        | ElementType::C64
        | ElementType::C128
        | ElementType::F8E5M2
        | ElementType::F8E4M3FN
        | ElementType::Token => return None,
    })
}
