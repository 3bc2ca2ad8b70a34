//! The text of an object's Python module, which calls a shared library by `ctypes` and takes and returns numpy arrays.

use super::{Field, Object, c_header::link_options};
use std::fmt::Write;
use tapeloom_ir::Dtype;

const MODULE: &str = r#""""@NAME@: made by tapeloom @VERSION@ for @TRIPLE@, @ISA@. It needs numpy, and a shared library beside this file:

    cc -shared -o lib@NAME@.so @NAME@.o@LINK@
"""

import ctypes
import pathlib

import numpy as np

_ARGUMENTS = [
@ARGUMENTS@]
_RESULTS = [
@RESULTS@]
_WORKSPACE = @WORKSPACE@
_ALIGNMENT = @ALIGNMENT@
_USES_TAPE = @USES_TAPE@
_FULL = 2


class _Arena(ctypes.Structure):
    _fields_ = [("memory", ctypes.c_void_p)] + [(name, ctypes.c_size_t) for name in ("bytes", "used", "needed")]


_entry = ctypes.CDLL(str(pathlib.Path(__file__).resolve().with_name("lib@NAME@.so"))).@NAME@
_entry.restype = ctypes.c_int
_entry.argtypes = @COUNT_TYPE@[ctypes.c_void_p] * (len(_ARGUMENTS) + len(_RESULTS) + 2)


def _array(x, path, dtype, shape, written):
    """Returns `x` as a contiguous array; no copy is made of an array that is one already."""
    if not isinstance(x, np.ndarray) and not written:
        x = np.asarray(x, dtype)
    if not isinstance(x, np.ndarray) or x.dtype != dtype or x.shape != shape:
        of = f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else type(x).__name__
        raise TypeError(f"`{path}` must be an array {np.dtype(dtype)}{list(shape)}, got {of}")
    if x.flags.c_contiguous and x.flags.aligned and (x.flags.writeable or not written):
        return x
    if written:
        raise TypeError(f"`{path}` must be contiguous, aligned and writable")
    return np.ascontiguousarray(x).copy()


def _aligned(bytes):
    """Returns memory of this size, and the first address in it that is aligned."""
    memory = np.empty(bytes + _ALIGNMENT, np.uint8)
    return memory, -(-memory.ctypes.data // _ALIGNMENT) * _ALIGNMENT


@ROWS@def @NAME@(@PARAMETERS@out=None):
    """Returns the results, as arrays; one result is not in a tuple. `out` has arrays for them, which are written.

@DOCUMENTATION@    """
    given = (@PARAMETERS@)
@SIZES@    arguments = [_array(x, *field, False) for x, field in zip(given, @ARGUMENT_FIELDS@)]
    if out is None:
        results = [np.empty(shape, dtype) for _, dtype, shape in @RESULT_FIELDS@]
    else:
        out = out if isinstance(out, (tuple, list)) else (out,)
        if len(out) != len(_RESULTS):
            raise TypeError(f"`out` must have {len(_RESULTS)} arrays, got {len(out)}")
        results = [_array(x, *field, True) for x, field in zip(out, @RESULT_FIELDS@)]
    workspace, at = _aligned(_WORKSPACE)
    tape, bytes = None, 1 << 16
    while True:
        if _USES_TAPE:
            memory = np.empty(bytes // 8, np.uint64)
            tape = _Arena(memory.ctypes.data, memory.nbytes, 0, 0)
        pointers = [x.ctypes.data for x in arguments + results]
        status = _entry(@COUNT_VALUE@*pointers, at, ctypes.addressof(tape) if tape else None)
        if status != _FULL:
            break
        bytes = 2 * tape.needed
    if status != 0:
        raise RuntimeError(f"@NAME@: status {status}")
    results = tuple(x if x.shape or out is not None else x[()] for x in results)
    return results[0] if len(results) == 1 else results
"#;

/// The functions in the modules of objects whose number of rows is an argument. In the lists of shapes, `None` stands
/// for this number.
const ROWS: &str = r#"def _rows(given):
    """Returns the number of rows: the leading extent of the first array that has rows."""
    shapes = [np.shape(x) for x, (_, _, shape) in zip(given, _ARGUMENTS) if None in shape]
    return shapes[0][0] if shapes[0] else 0


def _of_rows(fields, n):
    """Returns the fields for `n` rows."""
    return [(path, dtype, tuple(n if k is None else k for k in shape)) for path, dtype, shape in fields]


"#;

/// The statements at the start of a call that determine the number of rows.
const SIZES: &str = "    n = _rows(given)
    argument_fields, result_fields = _of_rows(_ARGUMENTS, n), _of_rows(_RESULTS, n)
";

/// Returns the text of the Python module.
pub(super) fn text(object: &Object) -> String {
    let rows = |fields: &[Field]| {
        let mut text = String::new();
        for Field { path, ty, per_row, name: _ } in fields {
            let rows = per_row.then(|| "None, ".to_owned());
            let shape = rows.into_iter().chain(ty.shape.iter().map(|n| format!("{n}, ")));
            let shape: String = shape.collect();
            // Writing to a string does not fail.
            let _ = writeln!(text, "    ({path:?}, {}, ({shape})),", numpy_type(ty.dtype));
        }
        text
    };
    let mut documentation = String::new();
    for (field, of) in object.fields() {
        let _ =
            writeln!(documentation, "    {}: {of} `{}`, {}", field.name, field.path, field.array());
    }
    if let Some(line) = object.order_of_sums() {
        let _ = write!(documentation, "\n    {line}\n");
    }
    let parameters: String =
        object.arguments.iter().map(|field| format!("{}, ", field.name)).collect();
    let of_rows = |text: &'static str| if object.block_rows.is_some() { text } else { "" };
    let [argument_fields, result_fields] = match object.block_rows {
        None => ["_ARGUMENTS", "_RESULTS"],
        Some(_) => ["argument_fields", "result_fields"],
    };
    let word = |holds: bool| if holds { "True" } else { "False" };
    let replaced = [
        ("@NAME@", object.name().to_owned()),
        ("@VERSION@", env!("CARGO_PKG_VERSION").to_owned()),
        ("@TRIPLE@", object.options.triple.to_string()),
        ("@ISA@", object.options.isa.to_string()),
        ("@LINK@", link_options(object)),
        ("@ARGUMENTS@", rows(&object.arguments)),
        ("@RESULTS@", rows(&object.results)),
        ("@WORKSPACE@", object.workspace_bytes.to_string()),
        ("@ALIGNMENT@", Object::ALIGNMENT.to_string()),
        ("@USES_TAPE@", word(object.uses_arena).to_owned()),
        ("@PARAMETERS@", parameters),
        ("@DOCUMENTATION@", documentation),
        ("@ROWS@", of_rows(ROWS).to_owned()),
        ("@SIZES@", of_rows(SIZES).to_owned()),
        ("@COUNT_TYPE@", of_rows("[ctypes.c_size_t] + ").to_owned()),
        ("@COUNT_VALUE@", of_rows("n, ").to_owned()),
        ("@ARGUMENT_FIELDS@", argument_fields.to_owned()),
        ("@RESULT_FIELDS@", result_fields.to_owned()),
    ];
    replaced.iter().fold(MODULE.to_owned(), |text, (name, value)| text.replace(name, value))
}

/// Returns the numpy name of a dtype.
fn numpy_type(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "np.bool_",
        Dtype::I32 => "np.int32",
        Dtype::I64 => "np.int64",
        Dtype::U32 => "np.uint32",
        Dtype::U64 => "np.uint64",
        Dtype::F32 => "np.float32",
        Dtype::F64 => "np.float64",
    }
}
