//! Loading a plugin: the dynamic library at a path, and its table of functions.

#![expect(unsafe_code, reason = "loads a library and calls its function")]

use crate::api::Api;
use crate::error::{Error, ErrorKind};
use std::ffi::c_void;
use std::path::Path;

/// The oldest minor version of the C API that is supported, because tests run with a plugin of it.
pub(crate) const OLDEST_MINOR: i32 = 81;

/// The function of a plugin that returns its table.
type GetPjrtApi = unsafe extern "C-unwind" fn() -> *const Api;

/// The head of the table, which all versions of the API have.
#[repr(C)]
struct Head {
    struct_size: usize,
    extension_start: *mut c_void,
    version: crate::api::ApiVersion,
}

/// Loads the plugin at a path and returns its table. The library is never unloaded, so the table and the functions stay
/// valid until the process ends.
pub(crate) fn load(path: &Path) -> Result<&'static Api, Error> {
    let shown = path.display();
    if !path.is_file() {
        return Err(Error::new(
            ErrorKind::NoPlugin,
            format!("there is no file {shown}, where a PJRT plugin was expected"),
        ));
    }
    let symbol = symbol(path, c"GetPjrtApi")?;
    // SAFETY: the pointer is not null, and a library that exports this name is a PJRT plugin, whose function has this
    // type in every version of the API. Nothing can check that.
    let get_api = unsafe { std::mem::transmute::<*mut c_void, GetPjrtApi>(symbol) };
    // SAFETY: the function has no arguments and no conditions.
    let table = unsafe { get_api() };
    if table.is_null() {
        return Err(Error::interface(format!(
            "{shown}: GetPjrtApi returned null in place of a table of functions"
        )));
    }
    let head = table.cast::<Head>();
    // SAFETY: every table begins with this head, and lies in memory of the library, which is never unloaded.
    let (size, major, minor) = unsafe {
        ((*head).struct_size, (*head).version.major_version, (*head).version.minor_version)
    };
    check_version(path, size, major, minor)?;
    // SAFETY: the table has at least the size of `Api`, whose fields stand at the same offsets in all versions since
    // `OLDEST_MINOR`; the plugin does not change it once it is returned, and never frees it.
    let table = unsafe { &*table };
    // Without these functions, errors could not be read and copies to the host could not be awaited.
    let complete = table.error_destroy.is_some()
        && table.error_message.is_some()
        && table.error_get_code.is_some()
        && table.event_await.is_some()
        && table.event_destroy.is_some();
    if !complete {
        return Err(Error::interface(format!(
            "{shown}: the table of the plugin lacks functions of errors and events"
        )));
    }
    Ok(table)
}

/// Checks that the table of a plugin has the functions that are called here.
fn check_version(path: &Path, size: usize, major: i32, minor: i32) -> Result<(), Error> {
    let needed = size_of::<Api>();
    if major == 0 && minor >= OLDEST_MINOR && size >= needed {
        return Ok(());
    }
    let advice = if major == 0 && minor < OLDEST_MINOR { "; install a newer plugin" } else { "" };
    Err(Error::new(
        ErrorKind::Version,
        format!(
            "{}: the plugin has version {major}.{minor} of the PJRT C API with a table of {size} bytes; expected a \
             version from 0.{OLDEST_MINOR} on, below 1.0, with at least {needed} bytes{advice}",
            path.display()
        ),
    ))
}

/// Loads a library and returns the address of a symbol, which is not null.
#[cfg(unix)]
fn symbol(path: &Path, name: &std::ffi::CStr) -> Result<*mut c_void, Error> {
    use std::ffi::{CStr, CString, c_char, c_int};
    use std::os::unix::ffi::OsStrExt;
    unsafe extern "C" {
        fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
        fn dlerror() -> *const c_char;
    }
    /// The flag that resolves all symbols on loading, so that a missing symbol is an error here and not at its first
    /// call.
    const NOW: c_int = 2;
    /// The flag that keeps symbols private, because two plugins contain different versions of the same C++ functions.
    const LOCAL: c_int = if cfg!(target_vendor = "apple") { 4 } else { 0 };
    let failed = |what: &str| {
        // SAFETY: the function has no arguments and no conditions.
        let reason = unsafe { dlerror() };
        let reason = if reason.is_null() {
            String::new()
        } else {
            // SAFETY: a message of `dlerror` ends in a zero byte and stays until the next call in this thread.
            format!(": {}", unsafe { CStr::from_ptr(reason) }.to_string_lossy())
        };
        Error::new(ErrorKind::NoPlugin, format!("{} {what}{reason}", path.display()))
    };
    let path_text = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::new(ErrorKind::NoPlugin, "a path contains a zero byte"))?;
    // SAFETY: the text ends in a zero byte. Loading runs the library's initialisers, which is the purpose of a plugin.
    let library = unsafe { dlopen(path_text.as_ptr(), NOW | LOCAL) };
    if library.is_null() {
        return Err(failed("cannot be loaded as a library"));
    }
    // SAFETY: `library` is a handle of `dlopen`, which is never closed.
    let symbol = unsafe { dlsym(library, name.as_ptr()) };
    if symbol.is_null() {
        return Err(failed("is a library, but no PJRT plugin: it does not export GetPjrtApi"));
    }
    Ok(symbol)
}

/// Returns an error: plugins exist as libraries for Unix only.
#[cfg(not(unix))]
fn symbol(path: &Path, _: &std::ffi::CStr) -> Result<*mut c_void, Error> {
    let message = format!("{}: PJRT plugins can be loaded on Linux and macOS only", path.display());
    Err(Error::new(ErrorKind::Unsupported, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_are_not_understood_are_refused() {
        let enough = size_of::<Api>();
        let check = |size, major, minor| check_version(Path::new("p.so"), size, major, minor);
        for minor in [81, 106, 115, 400] {
            assert_eq!(check(enough, 0, minor), Ok(()));
        }
        for (size, major, minor) in [(enough, 0, 80), (enough, 1, 90), (enough - 1, 0, 81)] {
            let error = check(size, major, minor).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Version);
            let version = format!("p.so: the plugin has version {major}.{minor} ");
            assert!(error.message().starts_with(&version), "{error}");
            assert!(error.message().contains("expected a version from 0.81 on"), "{error}");
            assert_eq!(error.message().ends_with("install a newer plugin"), minor == 80, "{error}");
        }
    }
}
