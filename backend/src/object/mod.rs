//! Objects: compiled functions that are shipped without this library, to programs in C and in languages that call C.
//!
//! [`compile`] returns an [`Object`]: a relocatable file in the format ELF, with the text of a C header, of a Python module and
//! of a Rust module.
//!
//! ```
//! use tapeloom_backend::object::{self, Interface};
//! use tapeloom_ir::parse_module;
//! let text = "func @f(%0: f64[3]) -> (f64[3]) {
//!   %1: f64[3] = exp %0
//!   return %1
//! }";
//! let module = parse_module(text).map_err(|e| e[0].clone())?;
//! let (f, _) = module.iter().last().ok_or("no function")?;
//! let interface = Interface { arguments: vec!["x".into()], results: vec!["y".into()], captured: &[] };
//! let object = object::compile(&module, f, &Default::default(), &interface, &"exp3".into())?;
//! assert!(object.header().contains("int exp3(const double *TAPELOOM_RESTRICT x, double *TAPELOOM_RESTRICT y,"));
//! assert_eq!(&object.bytes()[1..4], b"ELF");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What an object contains
//!
//! The code is position independent, and calls nothing of this library. Captured tensors are read-only data. Functions such
//! as `sin` and `pow` are parts of the object, where their source is a list of operations; products of matrices and sorts are loops.
//! [`Object::undefined`] lists the functions that a linker must find: those of the C library (`fma` in code for the baseline of
//! x86-64, `fmod`), and those of the library `tapeloom-runtime`: decompositions, Fourier transforms and functions whose source
//! branches (`lgamma`, incomplete gamma functions, ..).
//!
//! Results have the bits of machine code in memory, except those of products for which that calls the matrix library: their
//! terms are added in another order.
//!
//! # What an object cannot contain
//!
//! Calls of Rust functions, and limits on iterations. Each is an error with the user's line.

mod c_header;
mod python;
mod rust_module;

use crate::codegen::object as code;
use crate::compile::lowered;
use crate::passes::{Context, NATIVE, OBJECT};
use crate::target::Options as CodeOptions;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use tapeloom_ir::{ArrayType, FuncId, Kind, Module, Problem, Tensor};

pub use tapeloom_ir::Isa;
pub use target_lexicon::Triple;

/// The number of the calling convention of entries. It changes when objects of two versions could not be called alike.
pub const ABI: u32 = 1;

/// The name of an object's entry, and the machine for which its code is.
///
/// ```
/// use tapeloom_backend::object::{Isa, Options};
/// let options = Options { isa: Isa::Avx2, ..Options::new("f") };
/// assert_eq!(Options::from("f").isa, Isa::Baseline);
/// # assert_eq!(options.name, "f");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Options {
    /// The name of the entry, an identifier of C.
    pub name: String,
    /// The machine: `x86_64` or `aarch64` with the format ELF.
    pub triple: Triple,
    /// The instructions that the machine has. A program with others than those of the baseline must not run on a machine
    /// that lacks them; the entry does not check it.
    pub isa: Isa,
}

impl Options {
    /// Returns the options of an object for machines like this one, with the instructions that all of them have.
    pub fn new(name: impl Into<String>) -> Options {
        Options { name: name.into(), triple: Triple::host(), isa: Isa::Baseline }
    }
}

impl From<&str> for Options {
    fn from(name: &str) -> Options {
        Options::new(name)
    }
}

/// The arguments and results of a function, as its caller names them.
#[derive(Clone, Debug)]
pub struct Interface<'a> {
    /// The paths of the arguments.
    pub arguments: Vec<String>,
    /// The paths of the results.
    pub results: Vec<String>,
    /// The values of the function's last parameters, which become data of the object.
    pub captured: &'a [Tensor],
}

/// An argument or a result of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// The path in the tree of arguments or results, such as `argument.0`.
    pub path: String,
    /// The name of the parameter, an identifier of C.
    pub name: String,
    /// The type: dtype and shape.
    pub ty: ArrayType,
}

/// A compiled function as a relocatable file, with all that its callers must know.
#[derive(Clone)]
pub struct Object {
    options: Options,
    arguments: Vec<Field>,
    results: Vec<Field>,
    bytes: Vec<u8>,
    undefined: Vec<String>,
    workspace_bytes: usize,
    uses_arena: bool,
}

impl Object {
    /// Returns the name of the entry, and of the files.
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// Returns the bytes of the relocatable file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the C header: the entry with its documentation, and constants for its memory.
    pub fn header(&self) -> String {
        c_header::text(self)
    }

    /// Returns a Python module with a function that calls the entry with arrays of numpy, through the shared library
    /// `libNAME.so` beside it, which its first lines say how to make.
    pub fn python(&self) -> String {
        python::text(self)
    }

    /// Returns a Rust module with a safe function that calls the entry, for crates that do not depend on this one.
    pub fn rust(&self) -> String {
        rust_module::text(self)
    }

    /// Returns the names of the functions that the object calls and does not contain, sorted.
    pub fn undefined(&self) -> &[String] {
        &self.undefined
    }

    /// Returns whether the object calls functions of the library `tapeloom-runtime`, which must then be linked behind it.
    pub fn needs_runtime(&self) -> bool {
        self.undefined.iter().any(|symbol| symbol.starts_with("tapeloom_"))
    }

    /// Returns the bytes of the workspace of a call, which the caller provides, aligned to [`Object::ALIGNMENT`].
    pub fn workspace_bytes(&self) -> usize {
        self.workspace_bytes
    }

    /// The alignment of the workspace in bytes.
    pub const ALIGNMENT: usize = 64;

    /// Returns whether calls need an arena, because a loop of unknown length saves residuals.
    pub fn uses_arena(&self) -> bool {
        self.uses_arena
    }

    /// Returns the arguments, in the order of the entry's parameters.
    pub fn arguments(&self) -> &[Field] {
        &self.arguments
    }

    /// Returns the results, in the order of the entry's parameters.
    pub fn results(&self) -> &[Field] {
        &self.results
    }

    /// Writes the object `NAME.o` into a folder, with the header `NAME.h` and the modules `NAME.py` and `NAME.rs`.
    ///
    /// # Errors
    /// [`Kind::File`] if a file cannot be written.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<(), Problem> {
        let name = self.name();
        let files = [
            (format!("{name}.o"), self.bytes.clone()),
            (format!("{name}.h"), self.header().into_bytes()),
            (format!("{name}.py"), self.python().into_bytes()),
            (format!("{name}.rs"), self.rust().into_bytes()),
        ];
        for (file, bytes) in files {
            let path = folder.as_ref().join(file);
            std::fs::write(&path, bytes).map_err(|e| {
                Problem::new(Kind::File, format!("cannot write {}: {e}", path.display()), "")
            })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { name, triple, isa } = &self.options;
        write!(f, "Object({name} for {triple}, {isa}, {} bytes)", self.bytes.len())
    }
}

/// Compiles a function to an object. The options `code` choose the machine model; objects have neither limits nor timers nor
/// threads.
///
/// # Errors
/// [`Kind::Target`] if an object cannot contain what the function calls, with the user's line; if the name is no identifier
/// of C; if there is no code for the triple. Otherwise those of [`compile`](crate::compile()).
pub fn compile(
    module: &Module,
    func: FuncId,
    code: &CodeOptions,
    interface: &Interface<'_>,
    options: &Options,
) -> Result<Object, Problem> {
    check_name(&options.name)?;
    let (mut program, ..) = lowered(module, func, code, &NATIVE)?;
    OBJECT.run(&mut program, &mut Context::default())?;
    // Machine code checks nothing at run time, so it is made of what is proved.
    crate::loop_ir::check(&program)?;
    let f = module.function(func);
    let arrays = |types: Vec<tapeloom_ir::Type>| -> Vec<ArrayType> {
        types.iter().filter_map(|ty| ty.as_array().cloned()).collect()
    };
    let (inputs, outputs) = (arrays(f.param_types()), arrays(f.result_types()));
    let counts = [interface.arguments.len() + interface.captured.len(), interface.results.len()];
    if counts != [inputs.len(), outputs.len()] {
        return Err(Problem::internal(
            "an object with other arguments or results than its function",
        ));
    }
    let target = (&options.triple, options.isa);
    let emit = || code::emit(&program, code.machine, &options.name, interface.captured, target);
    // Cranelift reports its internal errors by panicking.
    let made = catch_unwind(AssertUnwindSafe(emit)).unwrap_or_else(|_| {
        Err(Problem::internal(format!("the code generator panicked on @{}", options.name)))
    })?;
    let mut taken = Vec::new();
    let mut fields = |paths: &[String], types: Vec<ArrayType>| -> Vec<Field> {
        let named = paths.iter().zip(types).map(|(path, ty)| {
            let name = c_header::identifier(path, &taken);
            taken.push(name.clone());
            Field { path: path.clone(), name, ty }
        });
        named.collect()
    };
    Ok(Object {
        options: options.clone(),
        arguments: fields(&interface.arguments, inputs),
        results: fields(&interface.results, outputs),
        bytes: made.bytes,
        undefined: made.undefined,
        workspace_bytes: made.memory.workspace,
        uses_arena: made.memory.arena,
    })
}

/// Returns an error if a name is no identifier of C.
fn check_name(name: &str) -> Result<(), Problem> {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    let valid = name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit());
    if valid {
        return Ok(());
    }
    let message = format!("`{name}` is no name of a function in C");
    Err(Problem::new(Kind::Target, message, "use letters, digits and `_`, and a letter first"))
}
