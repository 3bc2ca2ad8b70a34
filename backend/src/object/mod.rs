//! Objects: compiled functions in object files, which C and languages that call C can use without this library.
//!
//! [`compile`] returns an [`Object`]: a relocatable file in the ELF format, with the texts of a C header, a Python
//! module and a Rust module.
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
//! [`compile_rows`] makes an object for a function of one row, whose number of rows is an argument of each call. Its
//! inputs are two programs: one for a block of rows, and one for a single row.
//!
//! # What an object contains
//!
//! The code is position independent, and calls nothing of this library. Captured tensors are read-only data. If the
//! source of a function such as `sin` or `pow` is a list of operations, the function is part of the object. Products of
//! matrices and sorts are loops. [`Object::undefined`] lists the functions that a linker must find. They are functions
//! of the C library (`fma` in code for the baseline of x86-64, `fmod`), and of the library `tapeloom-runtime`:
//! decompositions, Fourier transforms, and functions whose source branches (`lgamma`, incomplete gamma functions, ..).
//!
//! Results have the same bits as machine code in memory, except for products for which machine code in memory calls the
//! matrix library: an object adds their terms in another order.
//!
//! # What an object cannot contain
//!
//! Calls of Rust functions, and limits on iterations. Each of them is an error with the user's line.

mod c_header;
mod command;
mod python;
mod rust_module;

use crate::codegen::object::{self as code, Content, Part, RowArray, RowArrays};
use crate::compile::lowered;
use crate::loop_ir::Program;
use crate::machine::MachineModel;
use crate::passes::{Context, NATIVE, OBJECT};
use crate::target::Options as CodeOptions;
use std::fmt;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use tapeloom_ir::{ArrayType, Dtype, FuncId, Kind, Module, Problem, Tensor};

pub use command::Command;
pub use tapeloom_ir::Isa;
pub use target_lexicon::Triple;

/// The version of the calling convention of entries. It is increased if code that was written to call objects of the
/// previous version cannot call new objects.
pub const ABI: u32 = 1;

/// The name of an object's entry (the function to call), and the machine for which the object is compiled.
///
/// ```
/// use tapeloom_backend::object::{Isa, Options};
/// let options = Options { isa: Isa::Avx2, ..Options::new("f") };
/// assert_eq!(Options::from("f").isa, Isa::Baseline);
/// # assert_eq!(options.name, "f");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Options {
    /// The name of the entry, which must be an identifier of C.
    pub name: String,
    /// The machine, which must be `x86_64` or `aarch64` with the ELF format.
    pub triple: Triple,
    /// The instruction set that the object may use. The entry does not check that the machine supports it: on a machine
    /// that lacks an instruction, a call crashes.
    pub isa: Isa,
}

impl Options {
    /// Returns the options of an object for machines like this computer, restricted to the instructions that all such
    /// machines have.
    pub fn new(name: impl Into<String>) -> Options {
        Options { name: name.into(), triple: Triple::host(), isa: Isa::Baseline }
    }
}

impl From<&str> for Options {
    fn from(name: &str) -> Options {
        Options::new(name)
    }
}

/// Options of an object for which the number of rows is an argument of each call.
///
/// ```
/// use std::num::NonZeroUsize;
/// use tapeloom_backend::object::RowOptions;
/// let options = RowOptions { block_rows: NonZeroUsize::new(16), ..RowOptions::from("f") };
/// assert_eq!(options.object.name, "f");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RowOptions {
    /// The name of the entry and the machine.
    pub object: Options,
    /// The number of rows that are computed together, as a block. `None` means 64, or a smaller power of two from 8 on,
    /// so that the memory of a block remains in the cache ([`block_rows`]).
    #[doc(alias = "batch_size")]
    pub block_rows: Option<NonZeroUsize>,
}

impl From<&str> for RowOptions {
    fn from(name: &str) -> RowOptions {
        Options::new(name).into()
    }
}

impl From<Options> for RowOptions {
    fn from(object: Options) -> RowOptions {
        RowOptions { object, block_rows: None }
    }
}

/// The arguments and results of a function by their paths (the names under which a caller knows them), and the values
/// of captured tensors.
#[derive(Clone, Debug)]
pub struct Interface<'a> {
    /// The paths of the arguments.
    pub arguments: Vec<String>,
    /// The paths of the results.
    pub results: Vec<String>,
    /// The values of the function's last parameters, which become data of the object.
    pub captured: &'a [Tensor],
}

/// The arguments and results of a function of one row, by the names that callers of the object use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowInterface {
    /// The arguments: of the row, or shared by all rows.
    pub arguments: Vec<RowField>,
    /// The results: stacked for all rows, or summed over the rows.
    pub results: Vec<RowField>,
}

/// An argument or result of a function of one row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowField {
    /// The path in the tree of arguments or results.
    pub path: String,
    /// Whether the array that the object takes or returns has one part for each row, along its leading axis. Other
    /// arguments are shared by all rows, and other results are sums over the rows.
    pub per_row: bool,
}

/// An argument or a result of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// The path in the tree of arguments or results, such as `argument.0`.
    pub path: String,
    /// The name of the parameter, an identifier of C.
    pub name: String,
    /// The type: dtype and shape, without the axis of rows.
    pub ty: ArrayType,
    /// Whether the array has a leading axis of `n` rows, where `n` is an argument of the entry.
    pub per_row: bool,
}

impl Field {
    /// Returns the dtype and the shape, such as `f64[n,3]`.
    fn array(&self) -> String {
        if !self.per_row {
            return self.ty.to_string();
        }
        let inner: String = self.ty.shape.iter().map(|extent| format!(",{extent}")).collect();
        format!("{}[n{inner}]", self.ty.dtype)
    }

    /// Returns the number of elements, such as `n * 3`.
    fn elements(&self) -> String {
        let rows = if self.per_row { "n * " } else { "" };
        format!("{rows}{}", self.ty.shape.elements())
    }
}

/// A compiled function as a relocatable file, with the facts that its callers need.
#[derive(Clone)]
pub struct Object {
    options: Options,
    arguments: Vec<Field>,
    results: Vec<Field>,
    bytes: Vec<u8>,
    undefined: Vec<String>,
    workspace_bytes: usize,
    uses_arena: bool,
    block_rows: Option<NonZeroUsize>,
}

impl Object {
    /// Returns the name of the entry, which is also the name of the files without their extensions.
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

    /// Returns a Python module with a function that calls the entry on numpy arrays. It loads the shared library
    /// `libNAME.so` from its own folder; the first lines of the module say how to make this library.
    pub fn python(&self) -> String {
        python::text(self)
    }

    /// Returns a Rust module with a safe function that calls the entry, for crates that do not depend on this one.
    pub fn rust(&self) -> String {
        rust_module::text(self)
    }

    /// Returns the names of the functions that the object calls but does not contain, sorted.
    pub fn undefined(&self) -> &[String] {
        &self.undefined
    }

    /// Returns whether the object calls functions of the library `tapeloom-runtime`. This library must then follow the
    /// object in the linker's command.
    pub fn needs_runtime(&self) -> bool {
        self.undefined.iter().any(|symbol| symbol.starts_with("tapeloom_"))
    }

    /// Returns the size in bytes of the workspace of a call, which the caller provides, aligned to
    /// [`Object::ALIGNMENT`].
    pub fn workspace_bytes(&self) -> usize {
        self.workspace_bytes
    }

    /// The alignment of the workspace in bytes.
    pub const ALIGNMENT: usize = 64;

    /// Returns whether the caller must provide an arena (memory for the tape), because a loop whose trip count is known
    /// only at run time saves residuals.
    pub fn uses_arena(&self) -> bool {
        self.uses_arena
    }

    /// If the number of rows is an argument of the entry (then it is the first argument), returns the number of rows
    /// that are computed together, as a block; otherwise `None`.
    ///
    /// A sum over rows starts at 0. First the sums of the whole blocks are added in order, then the values of the
    /// remaining rows in order.
    pub fn block_rows(&self) -> Option<NonZeroUsize> {
        self.block_rows
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

/// A function that is lowered to a loop program, ready to be compiled to an object.
#[derive(Clone)]
pub struct Lowered {
    program: Program,
    arguments: Vec<ArrayType>,
    results: Vec<ArrayType>,
    captured: Vec<Tensor>,
    machine: MachineModel,
}

impl Lowered {
    /// Lowers a function. The values of its last parameters, `captured`, become data of the object. Of the options
    /// `code`, only the machine model is used; objects have no limits, timers and threads.
    ///
    /// # Errors
    /// Those of [`compile`](crate::compile()).
    pub fn of(
        module: &Module,
        func: FuncId,
        code: &CodeOptions,
        captured: &[Tensor],
    ) -> Result<Lowered, Problem> {
        let (mut program, ..) = lowered(module, func, code, &NATIVE)?;
        OBJECT.run(&mut program, &mut Context::default())?;
        // Machine code checks no bounds at run time, so prove here that all accesses and loops are valid.
        crate::loop_ir::check(&program)?;
        let f = module.function(func);
        let arrays = |types: Vec<tapeloom_ir::Type>| -> Vec<ArrayType> {
            types.iter().filter_map(|ty| ty.as_array().cloned()).collect()
        };
        let mut arguments = arrays(f.param_types());
        arguments.truncate(arguments.len().saturating_sub(captured.len()));
        let (results, captured) = (arrays(f.result_types()), captured.to_vec());
        Ok(Lowered { program, arguments, results, captured, machine: code.machine })
    }

    fn part(&self) -> Part<'_> {
        Part { program: &self.program, captured: &self.captured }
    }

    /// Returns the sum of the sizes of workspace, arguments and results, in bytes.
    fn bytes(&self) -> usize {
        let arrays = self.arguments.iter().chain(&self.results).map(ArrayType::bytes);
        arrays.fold(self.program.entry.workspace, usize::saturating_add)
    }
}

impl fmt::Debug for Lowered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lowered({})", self.program.entry.name)
    }
}

/// Compiles a function to an object. Of the options `code`, only the machine model is used; objects have no limits,
/// timers and threads.
///
/// # Errors
/// [`Kind::Target`], with the user's line, if the function calls anything that an object cannot contain; also if the
/// name is no identifier of C, or code cannot be generated for the triple. Otherwise the errors of
/// [`compile`](crate::compile()).
pub fn compile(
    module: &Module,
    func: FuncId,
    code: &CodeOptions,
    interface: &Interface<'_>,
    options: &Options,
) -> Result<Object, Problem> {
    let whole = Lowered::of(module, func, code, interface.captured)?;
    let fields = |paths: &[String], types: &[ArrayType]| -> Option<Fields> {
        let ty = |(path, ty): (&String, &ArrayType)| (path.clone(), ty.clone(), false);
        (paths.len() == types.len()).then(|| paths.iter().zip(types).map(ty).collect())
    };
    let fields = fields(&interface.arguments, &whole.arguments)
        .zip(fields(&interface.results, &whole.results));
    object(Content::Whole(whole.part()), whole.machine, None, fields, options)
}

/// Compiles a function of one row to an object whose number of rows is an argument of the entry. `row` is the function
/// of one row. `block` is the function of `rows` rows: its arguments and results that have rows have a leading axis of
/// that extent, and its other results are sums over these rows. The two functions have the same arguments and results
/// in the same order.
///
/// # Errors
/// Those of [`compile`]; [`Kind::Dtype`] if the values of a bool result are to be summed.
///
/// ```
/// use tapeloom_backend::object::{self, Lowered, RowField, RowInterface};
/// use tapeloom_ir::parse_module;
/// let text = "func @row(%0: f64[3]) -> (f64[3]) {
///   return %0
/// }
/// func @block(%0: f64[8,3]) -> (f64[3]) {
///   %1: f64[3] = reduce_sum{axes=[0]} %0
///   return %1
/// }";
/// let module = parse_module(text).map_err(|e| e[0].clone())?;
/// let lowered: Result<Vec<Lowered>, _> =
///     module.iter().map(|(f, _)| Lowered::of(&module, f, &Default::default(), &[])).collect();
/// let [row, block] = lowered?.try_into().map_err(|_| "two functions")?;
/// let field = |path: &str, per_row| vec![RowField { path: path.into(), per_row }];
/// let interface = RowInterface { arguments: field("x", true), results: field("y", false) };
/// let rows = 8.try_into()?;
/// let object = object::compile_rows(&row, (&block, rows), &interface, &"sum_rows".into())?;
/// assert!(object.header().contains("int sum_rows(size_t n, const double *TAPELOOM_RESTRICT x,"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compile_rows(
    row: &Lowered,
    (block, rows): (&Lowered, NonZeroUsize),
    interface: &RowInterface,
    options: &Options,
) -> Result<Object, Problem> {
    let fields = |of: &[RowField], row: &[ArrayType], block: &[ArrayType]| -> Option<Fields> {
        let of_block = of.iter().zip(row).map(|(field, ty)| match field.per_row {
            true => ArrayType { dtype: ty.dtype, shape: ty.shape.with_leading(rows.get()) },
            false => ty.clone(),
        });
        let same = of.len() == row.len() && of_block.eq(block.iter().cloned());
        let one = |(of, ty): (&RowField, &ArrayType)| (of.path.clone(), ty.clone(), of.per_row);
        same.then(|| of.iter().zip(row).map(one).collect())
    };
    let fields = fields(&interface.arguments, &row.arguments, &block.arguments).zip(fields(
        &interface.results,
        &row.results,
        &block.results,
    ));
    for (RowField { path, per_row }, ty) in interface.results.iter().zip(&row.results) {
        if !per_row && ty.dtype == Dtype::Bool {
            return Err(bool_sum(path, ty));
        }
    }
    let arrays = |of: &[RowField], types: &[ArrayType]| {
        let one =
            |(of, ty): (&RowField, &ArrayType)| RowArray { ty: ty.clone(), per_row: of.per_row };
        of.iter().zip(types).map(one).collect()
    };
    let arrays = RowArrays {
        block_rows: rows.get(),
        arguments: arrays(&interface.arguments, &row.arguments),
        results: arrays(&interface.results, &row.results),
    };
    let content = Content::Rows { block: block.part(), row: row.part(), arrays: &arrays };
    object(content, row.machine, Some(rows), fields, options)
}

/// Returns the error for a result of bools that is to be summed over rows; `path` names the result.
pub fn bool_sum(path: &str, ty: &ArrayType) -> Problem {
    Problem::new(
        Kind::Dtype,
        format!("`{path}` is summed over the rows, and is {ty}"),
        "convert it to numbers, as in `x.convert(Dtype::I64)`, or stack it",
    )
}

/// Returns the number of rows of a block whose memory (workspace, arguments, results) remains in the cache of the
/// machine model: 64, or a smaller power of two from 8 on. `row` is the program of one row, and `block` is the program
/// of [`BLOCK_ROWS`] rows. The number depends neither on the triple nor on the instructions, so sums have the same bits
/// on all machines.
pub fn block_rows(row: &Lowered, block: &Lowered) -> NonZeroUsize {
    let per_row = block.bytes().saturating_sub(row.bytes()) / (BLOCK_ROWS.get() - 1);
    let cache = size_of::<f64>() * row.machine.cached_elements;
    let fit = cache.checked_div(per_row).map_or(BLOCK_ROWS.get(), |rows| rows.clamp(8, 64));
    NonZeroUsize::new(1 << fit.ilog2()).unwrap_or(BLOCK_ROWS)
}

/// The largest number of rows of a block that [`block_rows`] chooses. The rows that remain after the last whole block
/// are computed one by one. With larger blocks, more rows remain; with smaller blocks, there are more calls.
pub const BLOCK_ROWS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// Arguments or results of an entry: the path, the type (of one row or of the whole array), and whether the array has
/// one part for each row.
type Fields = Vec<(String, ArrayType, bool)>;

/// Generates machine code as an object. `fields` are the arguments and results of the entry; `None` if they do not
/// match the arguments and results of the program, which is an internal error.
fn object(
    content: Content<'_>,
    machine: MachineModel,
    block_rows: Option<NonZeroUsize>,
    fields: Option<(Fields, Fields)>,
    options: &Options,
) -> Result<Object, Problem> {
    check_name(&options.name)?;
    let Some((arguments, results)) = fields else {
        return Err(Problem::internal(
            "an object with other arguments or results than its function",
        ));
    };
    let target = (&options.triple, options.isa);
    let emit = || code::emit(content, machine, &options.name, target);
    // Cranelift reports its internal errors by panicking; callers get an error instead.
    let made = catch_unwind(AssertUnwindSafe(emit)).unwrap_or_else(|_| {
        Err(Problem::internal(format!("the code generator panicked on @{}", options.name)))
    })?;
    let mut taken = Vec::new();
    let mut named = |fields: Fields| -> Vec<Field> {
        let named = fields.into_iter().map(|(path, ty, per_row)| {
            let name = c_header::identifier(&path, &taken);
            taken.push(name.clone());
            Field { path, name, ty, per_row }
        });
        named.collect()
    };
    Ok(Object {
        options: options.clone(),
        arguments: named(arguments),
        results: named(results),
        bytes: made.bytes,
        undefined: made.undefined,
        workspace_bytes: made.memory.workspace,
        uses_arena: made.memory.arena,
        block_rows,
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
