//! The Rust module of an object: a safe function around its entry.

use super::{Object, c_header::link_options};
use std::fmt::Write;
use tapeloom_ir::{ArrayType, Dtype};

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

/// The status of a call that failed, which is an error of the compiler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failed(pub i32);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "@NAME@: status {}", self.0)
    }
}

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
@PARAMETERS@    workspace: &mut Workspace,
) -> Result<(), Failed> {
    unsafe extern "C" {
        fn @NAME@(@POINTERS@workspace: *mut u8, tape: *mut Arena) -> i32;
    }
    loop {
        let mut arena = Arena { memory: std::ptr::null_mut(), bytes: 0, used: 0, needed: 0 };
@TAPE_SET@        // SAFETY: arrays have the sizes and dtypes that the object was compiled for, and the borrows are disjoint.
        let status = unsafe {
            @NAME@(@ARGUMENTS@workspace.bytes.as_mut_ptr().cast(), &mut arena)
        };
        match status {
            0 => return Ok(()),
@TAPE_GROW@            status => return Err(Failed(status)),
        }
    }
}
"#;

/// Returns the text of the module.
pub(super) fn text(object: &Object) -> String {
    let [mut documentation, mut parameters, mut pointers, mut arguments] =
        [(); 4].map(|()| String::new());
    for (field, of) in object.fields() {
        let (name, array) = (&field.name, array(&field.ty));
        let element = rust_type(field.ty.dtype);
        let (borrow, pointer, method) = match of {
            "argument" => ("&", "*const", "as_ptr"),
            _ => ("&mut ", "*mut", "as_mut_ptr"),
        };
        // Writing to a string does not fail.
        let _ = writeln!(documentation, "/// - `{name}`: {of} `{}`, {}", field.path, field.ty);
        let _ = writeln!(parameters, "    {name}: {borrow}{array},");
        let _ = write!(pointers, "{name}: {pointer} {element}, ");
        let _ = write!(arguments, "{name}.{method}(), ");
    }
    let tape = |text: &'static str| if object.uses_arena { text } else { "" };
    let link = match link_options(object).as_str() {
        "" => String::new(),
        _ if object.needs_runtime() => {
            " It needs the crate `tapeloom-runtime` (`use tapeloom_runtime as _;`).".to_owned()
        }
        options => format!(" It needs `{}`.", options.trim()),
    };
    let replaced = [
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

/// Returns the type of an array: its elements in rows.
fn array(ty: &ArrayType) -> String {
    format!("[{}; {}]", rust_type(ty.dtype), ty.shape.elements())
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
