//! The text of an object's Rust module, which has a safe function around the object's entry.

use super::c_header::{ARGUMENT, link_options};
use super::{Field, Object};
use std::fmt::Write;
use tapeloom_ir::Dtype;

const MODULE: &str = r#"//! @NAME@: made by tapeloom @VERSION@ for @TRIPLE@, @ISA@.
//!
//! Link the object by a line of `build.rs`: `println!("cargo::rustc-link-arg=@NAME@.o");`@LINK@

/// The memory of a call. Calls on several threads need one each.
#[repr(C, align(@ALIGNMENT@))]
pub struct Workspace {
    bytes: [std::mem::MaybeUninit<u8>; @WORKSPACE@],
@TAPE_FIELD@}

impl Workspace {
    /// Returns memory for calls, on the heap.
    pub fn new() -> Box<Workspace> {
        Box::new(Workspace { bytes: [std::mem::MaybeUninit::uninit(); @WORKSPACE@]@TAPE_NEW@ })
    }
}

@FAILED@
impl std::error::Error for Failed {}

#[repr(C)]
struct Arena {
    memory: *mut u64,
    bytes: usize,
    used: usize,
    needed: usize,
}

/// Computes the results from the arguments.
///
@DOCUMENTATION@#[allow(clippy::too_many_arguments)]
pub fn @NAME@(
@COUNT@@PARAMETERS@    workspace: &mut Workspace,
) -> Result<(), Failed> {
    unsafe extern "C" {
        fn @NAME@(@COUNT_TYPE@@POINTERS@workspace: *mut u8, tape: *mut Arena) -> i32;
    }
@LENGTHS@    loop {
        let mut arena = Arena { memory: std::ptr::null_mut(), bytes: 0, used: 0, needed: 0 };
@TAPE_SET@        // SAFETY: arrays have the sizes and dtypes that the object was compiled for, and the borrows are disjoint.
        let status = unsafe {
            @NAME@(@COUNT_VALUE@@ARGUMENTS@workspace.bytes.as_mut_ptr().cast(), &mut arena)
        };
        match status {
            0 => return Ok(()),
@TAPE_GROW@            status => return Err(@STATUS@(status)),
        }
    }
}
"#;

/// The text of the error type in the Rust module of an object for fixed shapes.
const FAILED: &str = r#"/// The status of a call that failed: 5 if the linked library lacks a routine, otherwise an error of the compiler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failed(pub i32);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "@NAME@: status {}", self.0)
    }
}
"#;

/// The text of the error type in the Rust module of an object whose number of rows is an argument.
const FAILED_OF_ROWS: &str = r#"/// The error of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failed {
    /// A slice has another number of elements than `n` rows.
    Length { array: &'static str, expected: usize, found: usize },
    /// The status of the entry: 5 if the linked library lacks a routine, otherwise an error of the compiler.
    Status(i32),
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failed::Length { array, expected, found } => {
                write!(f, "@NAME@: `{array}` must have {expected} elements, and has {found}")
            }
            Failed::Status(status) => write!(f, "@NAME@: status {status}"),
        }
    }
}

fn check_length(array: &'static str, expected: usize, found: usize) -> Result<(), Failed> {
    if expected == found { Ok(()) } else { Err(Failed::Length { array, expected, found }) }
}
"#;

/// Returns the text of the Rust module.
pub(super) fn text(object: &Object) -> String {
    let [mut documentation, mut parameters, mut pointers, mut arguments, mut lengths] =
        [(); 5].map(|()| String::new());
    let of_rows = |text: &'static str| if object.block_rows.is_some() { text } else { "" };
    documentation += of_rows("/// - `n`: the number of rows\n");
    for (field, of) in object.fields() {
        let (name, array) = (&field.name, array(field));
        let element = rust_type(field.ty.dtype);
        let (borrow, pointer, method) = match of {
            ARGUMENT => ("&", "*const", "as_ptr"),
            _ => ("&mut ", "*mut", "as_mut_ptr"),
        };
        // Writing to a string does not fail.
        let _ = writeln!(documentation, "/// - `{name}`: {of} `{}`, {}", field.path, field.array());
        if field.per_row {
            let elements = field.ty.shape.elements();
            let _ = writeln!(
                lengths,
                "    check_length(\"{name}\", n.saturating_mul({elements}), {name}.len())?;"
            );
        }
        let _ = writeln!(parameters, "    {name}: {borrow}{array},");
        let _ = write!(pointers, "{name}: {pointer} {element}, ");
        let _ = write!(arguments, "{name}.{method}(), ");
    }
    if let Some(line) = object.order_of_sums() {
        let _ = write!(documentation, "///\n/// {line}\n");
    }
    if object.block_rows.is_some() {
        documentation +=
            "///\n/// # Errors\n/// [`Failed::Length`] if a slice of rows has another length.\n";
    }
    let (failed, status) = match object.block_rows {
        None => (FAILED, "Failed"),
        Some(_) => (FAILED_OF_ROWS, "Failed::Status"),
    };
    let tape = |text: &'static str| if object.uses_arena { text } else { "" };
    let link = match link_options(object).as_str() {
        "" => String::new(),
        _ if object.needs_runtime() => {
            " It needs the crate `tapeloom-runtime` (`use tapeloom_runtime as _;`).".to_owned()
        }
        options => format!(" It needs `{}`.", options.trim()),
    };
    let replaced = [
        ("@FAILED@", failed.to_owned()),
        ("@STATUS@", status.to_owned()),
        ("@COUNT@", of_rows("    n: usize,\n").to_owned()),
        ("@COUNT_TYPE@", of_rows("n: usize, ").to_owned()),
        ("@COUNT_VALUE@", of_rows("n, ").to_owned()),
        ("@LENGTHS@", lengths),
        ("@NAME@", object.name().to_owned()),
        ("@VERSION@", env!("CARGO_PKG_VERSION").to_owned()),
        ("@TRIPLE@", object.options.triple.to_string()),
        ("@ISA@", object.options.isa.to_string()),
        ("@LINK@", link),
        ("@ALIGNMENT@", Object::ALIGNMENT.to_string()),
        ("@WORKSPACE@", object.workspace_bytes.max(1).to_string()),
        ("@TAPE_FIELD@", tape("    tape: Vec<u64>,\n").to_owned()),
        ("@TAPE_NEW@", tape(", tape: vec![0; 1 << 13]").to_owned()),
        (
            "@TAPE_SET@",
            tape("        (arena.memory, arena.bytes) = (workspace.tape.as_mut_ptr(), 8 * workspace.tape.len());\n").to_owned(),
        ),
        ("@TAPE_GROW@", tape("            2 => workspace.tape = vec![0; arena.needed / 4],\n").to_owned()),
        ("@DOCUMENTATION@", documentation),
        ("@PARAMETERS@", parameters),
        ("@POINTERS@", pointers),
        ("@ARGUMENTS@", arguments),
    ];
    replaced.iter().fold(MODULE.to_owned(), |text, (name, value)| text.replace(name, value))
}

/// Returns the type of an array as nested Rust arrays, such as `[[f64; 3]; 2]`.
fn array(field: &Field) -> String {
    let element = rust_type(field.ty.dtype);
    match field.per_row {
        true => format!("[{element}]"),
        false => format!("[{element}; {}]", field.ty.shape.elements()),
    }
}

fn rust_type(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "bool",
        Dtype::I32 => "i32",
        Dtype::I64 => "i64",
        Dtype::U32 => "u32",
        Dtype::U64 => "u64",
        Dtype::F32 => "f32",
        Dtype::F64 => "f64",
    }
}
