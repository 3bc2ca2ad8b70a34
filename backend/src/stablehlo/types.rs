//! The text of types and constants.
//!
//! An array `f64[3,4]` is a `tensor<3x4xf64>`. Unsigned dtypes are `ui32` and `ui64`, bool is `i1`. A float constant is
//! printed as its bits, so that every value is preserved, including the payload of nan.

#[cfg(feature = "xla")]
use tapeloom_ir::Tensor;
use tapeloom_ir::prim::Library;
use tapeloom_ir::{ArrayType, Dtype, HostCall, Kind, Literal, Loc, Problem, Shape, Type};
use tapeloom_routines::Routine;

/// Returns the name of a dtype in StableHLO.
pub(super) fn element(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "i1",
        Dtype::I32 => "i32",
        Dtype::I64 => "i64",
        Dtype::U32 => "ui32",
        Dtype::U64 => "ui64",
        Dtype::F32 => "f32",
        Dtype::F64 => "f64",
    }
}

/// Returns an array's type: `tensor<3x4xf64>`.
pub(super) fn tensor(ty: &ArrayType) -> String {
    tensor_of(&ty.shape, element(ty.dtype))
}

/// Returns the type of an array as text. `element` is the name of the element type, such as `complex<f64>`.
pub(super) fn tensor_of(shape: &[usize], element: &str) -> String {
    let extents: String = shape.iter().map(|n| format!("{n}x")).collect();
    format!("tensor<{extents}{element}>")
}

/// Returns a list of types: `tensor<f64>, tensor<i64>`.
pub(super) fn tensors<'a>(types: impl IntoIterator<Item = &'a ArrayType>) -> String {
    types.into_iter().map(tensor).collect::<Vec<_>>().join(", ")
}

/// Returns a constant as text: the number, or for a float its bits.
pub(super) fn number(x: Literal) -> String {
    match x.dtype {
        Dtype::Bool => (x.bits != 0).to_string(),
        Dtype::I32 => (x.bits as u32 as i32).to_string(),
        Dtype::I64 => (x.bits as i64).to_string(),
        Dtype::U32 => (x.bits as u32).to_string(),
        Dtype::U64 => x.bits.to_string(),
        Dtype::F32 => format!("0x{:08X}", x.bits as u32),
        Dtype::F64 => format!("0x{:016X}", x.bits),
    }
}

/// Returns a list of integers: `[0, 2]`.
pub(super) fn list<T: ToString>(all: impl IntoIterator<Item = T>) -> String {
    format!("[{}]", all.into_iter().map(|n| n.to_string()).collect::<Vec<_>>().join(", "))
}

/// Returns the integers of an attribute of a generic operation: `array<i64: 0, 2>`, or `array<i64>` for none.
pub(super) fn integers<T: ToString>(all: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = all.into_iter().map(|n| n.to_string()).collect();
    if all.is_empty() { "array<i64>".to_owned() } else { format!("array<i64: {}>", all.join(", ")) }
}

/// Returns the memory layouts of arrays in row-major order, as text. A layout lists the axes, the fastest varying
/// first: `[dense<[1, 0]> : tensor<2xindex>]`.
pub(super) fn row_major<'a>(types: impl Iterator<Item = &'a ArrayType>) -> String {
    list(types.map(|ty| {
        let rank = ty.shape.len();
        let axes = if rank == 0 { String::new() } else { list((0..rank).rev()) };
        format!("dense<{axes}> : tensor<{rank}xindex>")
    }))
}

/// Returns the types of the arrays that represent a value of the type `ty`. For an array, this is its own type. For a
/// tape, it is one type for each array of a record (the residuals of one iteration), with room for `most` records along
/// axis 0.
///
/// # Errors
/// [`Kind::Target`] for a tape, if there is no bound `most`.
pub(super) fn arrays(ty: &Type, most: Option<usize>) -> Result<Vec<ArrayType>, Problem> {
    match ty {
        Type::Array(ty) => Ok(vec![ty.clone()]),
        Type::Tape(fields) => {
            let most = most.ok_or_else(|| {
                Problem::new(
                    Kind::Target,
                    "StableHLO has arrays of static shape only, and this loop saves residuals in a \
                     number of iterations that is known at run time only",
                    "bound the iterations by `max_steps`, or use a loop with a static trip count",
                )
            })?;
            let mut all = Vec::new();
            for field in fields {
                for array in tapeloom_ir::deeper(|| arrays(field, Some(most)))? {
                    all.push(ArrayType::new(array.dtype, array.shape.with_leading(most)));
                }
            }
            Ok(all)
        }
    }
}

/// Returns the shape with another extent along `axis`.
pub(super) fn with_extent(shape: &Shape, axis: usize, extent: usize) -> Shape {
    let mut shape = shape.clone();
    shape[axis] = extent;
    shape
}

/// A program as StableHLO text, with the functions that it calls.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    /// The text.
    pub(crate) text: String,
    /// The functions that the text calls and that the client provides. Each is listed once.
    #[cfg_attr(not(feature = "xla"), expect(dead_code, reason = "only a client reads it"))]
    pub(crate) client: Vec<ClientFunction>,
    /// The calls of Rust functions. A call's index in this list is its number in the text.
    #[cfg_attr(not(feature = "xla"), expect(dead_code, reason = "only a client reads it"))]
    pub(crate) host_functions: Vec<HostFunction>,
}

/// A function that a text calls and that the client provides ([`Options::custom_calls`]).
#[derive(Clone, Debug)]
pub(crate) enum ClientFunction {
    /// A function of floats, applied to each element.
    Elementwise(Library),
    /// A library routine. One function serves all extents and flags, which each call passes as attributes.
    Routine(Routine),
    /// A function that returns an error if its argument is true, which says that a loop reached its limit of
    /// iterations.
    Limit,
    /// A function that calls Rust functions of the user.
    Host,
    /// The function that calls Rust functions of the user in programs for several devices. Only the first device calls
    /// it.
    HostOfSeveralDevices,
}

impl ClientFunction {
    /// Returns the name of the function in the text.
    pub(crate) fn name(&self) -> String {
        match self {
            ClientFunction::Elementwise(function) => format!("tapeloom.{}", function.name),
            ClientFunction::Routine(routine) => format!("tapeloom.{}", routine.name()),
            ClientFunction::Limit => "tapeloom.limit".to_owned(),
            ClientFunction::Host => "tapeloom.host".to_owned(),
            // XLA preserves the device of a custom call only if the call has the name of one of JAX's callbacks.
            ClientFunction::HostOfSeveralDevices => "xla_ffi_python_cpu_callback".to_owned(),
        }
    }
}

/// A call of a Rust function.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "xla"), expect(dead_code, reason = "only a client answers it"))]
pub(crate) struct HostFunction {
    pub(super) call: HostCall,
    pub(super) operands: Vec<ArrayType>,
    pub(super) location: Loc,
}

#[cfg(feature = "xla")]
impl HostFunction {
    /// Returns the types of the operands.
    pub(crate) fn operands(&self) -> &[ArrayType] {
        &self.operands
    }

    /// Calls the Rust function with these operands, and returns its results.
    ///
    /// # Errors
    /// Those of [`HostCall::run`], with the user's line.
    pub(crate) fn run(&self, operands: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
        self.call.run(operands).map_err(|p| p.at(self.location))
    }
}
