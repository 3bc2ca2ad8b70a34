//! The optimized program of an executable, as far as it is read here.
//!
//! A plugin of XLA returns a serialized `HloModuleProto` (`hlo.proto`), alone or with its configuration. It has the types
//! of the arguments on one device, which no function of the C API states, the arguments that are donated, and the
//! operations that XLA inserted, such as all-reduces.

use crate::element::{ArrayType, ElementType};
use crate::proto::{Fields, Malformed, Value, push_ints};
use crate::sharding::Sharding;
use std::collections::BTreeMap;

/// The optimized program of an executable.
#[derive(Clone, Debug)]
pub struct OptimizedProgram {
    format: String,
    bytes: Vec<u8>,
}

/// The arguments and results of a program on one device.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Signature {
    /// The types of the arguments.
    pub(crate) arguments: Vec<ArrayType>,
    /// For each argument, whether an execution takes over its memory.
    pub(crate) donated: Vec<bool>,
    /// The order of the dimensions of each argument on the device, the fastest varying first.
    pub(crate) argument_orders: Vec<Vec<i64>>,
    /// The order of the dimensions of each result on the device, the fastest varying first.
    pub(crate) result_orders: Vec<Vec<i64>>,
    /// The shardings of the arguments, if the program states them.
    pub(crate) argument_shardings: Option<Vec<Sharding>>,
    /// The shardings of the results, if the program states them.
    pub(crate) result_shardings: Option<Vec<Sharding>>,
}

impl OptimizedProgram {
    pub(crate) fn new(format: String, bytes: Vec<u8>) -> OptimizedProgram {
        OptimizedProgram { format, bytes }
    }

    /// Returns the format's name: `hlo` or `hlo_with_config` of plugins of XLA.
    pub fn format(&self) -> &str {
        &self.format
    }

    /// Returns the bytes of the program, in the format that [`OptimizedProgram::format`] names.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns how often each operation occurs in the text of the program, by its name in HLO, such as `all-reduce` or
    /// `dot`. Bodies of loops and fusions count once. `None` if the format is unknown.
    pub fn operations(&self) -> Option<BTreeMap<String, usize>> {
        operations(self.module()?).ok()
    }

    /// Returns the pairs of an argument and the result that lies in its memory, by their numbers. `None` if the format is
    /// unknown.
    pub fn aliases(&self) -> Option<Vec<(usize, usize)>> {
        aliases(self.module()?).ok()
    }

    /// Returns types, orders of dimensions, donations and shardings of the arguments and results; `None` if the format
    /// is unknown or if an argument is no array.
    pub(crate) fn signature(&self) -> Option<Signature> {
        signature(self.module()?).ok().flatten()
    }

    /// Returns the bytes of the `HloModuleProto`; `None` if the format is unknown.
    fn module(&self) -> Option<&[u8]> {
        match self.format.as_str() {
            "hlo" => Some(&self.bytes),
            "hlo_with_config" => message(&self.bytes, 1).ok().flatten(),
            _ => None,
        }
    }
}

/// Returns whether an order of dimensions, the fastest varying first, is that of row-major arrays.
pub(crate) fn is_row_major(minor_to_major: &[i64]) -> bool {
    minor_to_major.iter().rev().copied().eq(0..minor_to_major.len() as i64)
}

/// Returns the first message in field number `field` of the message `bytes`; `None` if the field is absent.
fn message(bytes: &[u8], field: u64) -> Result<Option<&[u8]>, Malformed> {
    Ok(messages(bytes, field)?.into_iter().next())
}

/// Returns all messages or texts in the repeated field number `field` of the message `bytes`.
fn messages(bytes: &[u8], field: u64) -> Result<Vec<&[u8]>, Malformed> {
    let mut found = Vec::new();
    for entry in Fields::of(bytes) {
        if let (number, Value::Bytes(inner)) = entry?
            && number == field
        {
            found.push(inner);
        }
    }
    Ok(found)
}

/// Returns the number in field number `field` of the message `bytes`; 0 if the field is absent, as the format demands.
fn int(bytes: &[u8], field: u64) -> Result<i64, Malformed> {
    let mut found = 0;
    for entry in Fields::of(bytes) {
        if let (number, Value::Int(value)) = entry?
            && number == field
        {
            found = value.cast_signed();
        }
    }
    Ok(found)
}

/// Returns the numbers in the repeated field number `field` of the message `bytes`.
fn ints(bytes: &[u8], field: u64) -> Result<Vec<i64>, Malformed> {
    let mut found = Vec::new();
    for entry in Fields::of(bytes) {
        let (number, value) = entry?;
        if number == field {
            push_ints(&mut found, value)?;
        }
    }
    Ok(found)
}

/// Counts the instructions of a module by their opcode. The message, with field numbers:
/// `HloModuleProto { computations (3): { instructions (2): { opcode (2) } } }`.
fn operations(module: &[u8]) -> Result<BTreeMap<String, usize>, Malformed> {
    let mut counts = BTreeMap::new();
    for computation in messages(module, 3)? {
        for instruction in messages(computation, 2)? {
            let opcode = message(instruction, 2)?.unwrap_or_default();
            *counts.entry(String::from_utf8_lossy(opcode).into_owned()).or_insert(0) += 1;
        }
    }
    Ok(counts)
}

/// Returns pairs of a parameter and the result that takes over its memory. The message, with field numbers:
/// `HloModuleProto { input_output_alias (8): { entries (1): { output_shape_index (1), parameter_number (2) } } }`.
fn aliases(module: &[u8]) -> Result<Vec<(usize, usize)>, Malformed> {
    let entries = message(module, 8)?.map_or(Ok(Vec::new()), |list| messages(list, 1))?;
    let number = |n: i64| usize::try_from(n).map_err(|_| Malformed);
    let pair = |entry| {
        // A program with a single result has an empty index.
        let result = ints(entry, 1)?.first().copied().unwrap_or(0);
        Ok((number(int(entry, 2)?)?, number(result)?))
    };
    entries.into_iter().map(pair).collect()
}

/// Returns the types, orders, donations and shardings of the arguments and results; `None` if an argument is no array.
/// The message, with field numbers:
/// `HloModuleProto { host_program_shape (4): { parameters (1), result (2): { tuple_shapes (4) } },
/// input_output_alias (8): { entries (1): { parameter_number (2) } }, buffer_donor (18): { entries (1):
/// { parameter_number (1) } }, spmd_output_sharding (12), spmd_parameters_shardings (14) }`
fn signature(module: &[u8]) -> Result<Option<Signature>, Malformed> {
    let Some(shape) = message(module, 4)? else { return Ok(None) };
    let (mut arguments, mut argument_orders) = (Vec::new(), Vec::new());
    for parameter in messages(shape, 1)? {
        argument_orders.push(order(parameter)?);
        let Some(argument) = array_type(parameter)? else { return Ok(None) };
        arguments.push(argument);
    }
    let mut donated = vec![false; arguments.len()];
    for (list, number) in [(8, 2), (18, 1)] {
        let entries = message(module, list)?.map_or(Ok(Vec::new()), |list| messages(list, 1))?;
        for entry in entries {
            let parameter = usize::try_from(int(entry, number)?).map_err(|_| Malformed)?;
            *donated.get_mut(parameter).ok_or(Malformed)? = true;
        }
    }
    let result = message(shape, 2)?.unwrap_or_default();
    let results = if int(result, 2)? == TUPLE { messages(result, 4)? } else { vec![result] };
    let result_orders = results.into_iter().map(order).collect::<Result<_, _>>()?;
    let argument_shardings = messages(module, 14)?
        .into_iter()
        .map(Sharding::read)
        .collect::<Result<Option<Vec<_>>, _>>()?;
    let argument_shardings =
        argument_shardings.filter(|shardings| shardings.len() == arguments.len());
    let result_shardings = message(module, 12)?.map_or(Ok(None), Sharding::read_results)?;
    Ok(Some(Signature {
        arguments,
        donated,
        argument_orders,
        result_orders,
        argument_shardings,
        result_shardings,
    }))
}

/// Returns the order of an array's dimensions on the device, the fastest varying first. The message, with field
/// numbers: `ShapeProto { layout (5): { minor_to_major (1) } }`.
fn order(shape: &[u8]) -> Result<Vec<i64>, Malformed> {
    message(shape, 5)?.map_or(Ok(Vec::new()), |layout| ints(layout, 1))
}

/// The number of the type *tuple* among XLA's element types.
const TUPLE: i64 = 13;

/// Returns the type of an array; `None` for an element type that is not known here. The message, with field numbers:
/// `ShapeProto { element_type (2), dimensions (3) }`.
fn array_type(shape: &[u8]) -> Result<Option<ArrayType>, Malformed> {
    let element = i32::try_from(int(shape, 2)?).map_err(|_| Malformed)?;
    let Some(element) = ElementType::from_xla(element) else { return Ok(None) };
    let dims = ints(shape, 3)?.into_iter().map(|d| usize::try_from(d).map_err(|_| Malformed));
    let dims: Vec<usize> = dims.collect::<Result<_, _>>()?;
    Ok(Some(ArrayType::new(element, &dims)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Message;

    fn shape(element: i64, dims: &[i64]) -> Message {
        Message::default().int(2, element).packed(3, dims)
    }

    fn module() -> Message {
        let by_columns = Message::default().packed(1, &[0, 1]);
        let program = Message::default()
            .message(1, &shape(12, &[8, 4]).message(5, &by_columns))
            .message(1, &shape(1, &[]))
            .message(2, &shape(12, &[]));
        let instruction =
            |opcode: &str| Message::default().bytes(1, b"name").bytes(2, opcode.as_bytes());
        let inner = Message::default().bytes(1, b"inner").message(2, &instruction("add"));
        let entry = Message::default()
            .message(2, &instruction("add"))
            .message(2, &instruction("all-reduce"));
        let alias = Message::default().packed(1, &[0]).int(2, 1);
        let donor = Message::default();
        Message::default()
            .bytes(1, b"module")
            .message(3, &inner)
            .message(3, &entry)
            .message(4, &program)
            .message(8, &Message::default().message(1, &alias))
            .message(12, &Message::default())
            .message(14, &Message::default())
            .message(14, &Message::default())
            .message(18, &Message::default().message(1, &donor))
    }

    #[test]
    fn signatures_and_operations_are_read() {
        let with_config = Message::default().message(1, &module()).bytes(2, b"").finish();
        for program in [
            OptimizedProgram::new("hlo".into(), module().finish()),
            OptimizedProgram::new("hlo_with_config".into(), with_config),
        ] {
            let signature = program.signature().unwrap();
            let arguments: Vec<String> =
                signature.arguments.iter().map(ArrayType::to_string).collect();
            assert_eq!(arguments, ["tensor<8x4xf64>", "tensor<i1>"]);
            assert_eq!(signature.donated, [true, true]);
            assert_eq!(signature.argument_orders, [vec![0, 1], vec![]]);
            assert_eq!(signature.result_orders, [vec![]; 1]);
            assert_eq!(signature.argument_shardings, Some(vec![Sharding::Replicated; 2]));
            assert_eq!(signature.result_shardings, Some(vec![Sharding::Replicated]));
            let operations = program.operations().unwrap();
            assert_eq!((operations["add"], operations["all-reduce"]), (2, 1));
            assert_eq!(program.aliases(), Some(vec![(1, 0)]));
        }
    }

    #[test]
    fn row_major_orders_are_known() {
        for (order, expected) in
            [(&[][..], true), (&[0], true), (&[1, 0], true), (&[0, 1], false), (&[1, 2, 0], false)]
        {
            assert_eq!(is_row_major(order), expected, "{order:?}");
        }
    }

    #[test]
    fn unknown_programs_have_no_signature() {
        let of = |format: &str, bytes: Vec<u8>| OptimizedProgram::new(format.into(), bytes);
        assert_eq!(of("text", module().finish()).signature(), None);
        assert_eq!(of("hlo", Vec::new()).signature(), None);
        let opaque =
            Message::default().message(4, &Message::default().message(1, &shape(13, &[]))).finish();
        assert_eq!(of("hlo", opaque).signature(), None);
        let whole = module().finish();
        for length in 1..whole.len() {
            let cut = of("hlo", whole[..length].to_vec());
            // Reading a truncated program must not panic. If it ends between two fields, the rest of the fields is
            // missing.
            let _ = (cut.signature(), cut.operations(), cut.aliases());
        }
        assert_eq!(of("hlo", whole[..whole.len() - 1].to_vec()).operations(), None);
    }
}
