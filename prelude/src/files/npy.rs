//! The format `.npy` of numpy: a header with dtype, order and shape, then the elements.
//!
//! Format: numpy's `numpy.lib.format`, versions 1.0 to 3.0. The header is a Python dictionary, which the crate
//! `py_literal` parses.

use super::elements::{self, Layout, Stored};
use super::{damaged, in_file, replace};
use crate::Error;
use crate::var::caller;
use py_literal::Value;
use std::path::Path;
use tapeloom_ir::{Dtype, Kind, Problem, Tensor};

const MAGIC: &[u8] = b"\x93NUMPY";

/// The length in bytes of the longest header that is parsed; numpy has the same limit.
const LONGEST: usize = 10_000;

/// The deepest nesting of brackets in a header that is parsed. Headers of supported files have a depth of 2.
const DEEPEST: usize = 8;

/// Saves a tensor as a `.npy` file, which `numpy.load` reads.
///
/// # Errors
/// [`Kind::File`] if the file cannot be written.
///
/// ```
/// use tapeloom::{files, prelude::*};
/// let path = std::env::temp_dir().join(format!("save-{}.npy", std::process::id()));
/// files::save_npy(&path, &Tensor::from([[1.0, 2.0], [3.0, 4.0]]))?;
/// assert_eq!(files::load_npy(&path)?.shape(), [2, 2]);
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "save", alias = "tofile", alias = "savetxt")]
#[track_caller]
pub fn save_npy(path: impl AsRef<Path>, tensor: &Tensor) -> Result<(), Error> {
    let at = caller();
    let path = path.as_ref();
    replace::write(path, &to_npy(tensor)).map_err(|problem| Error::at(problem, at))
}

/// Loads the tensor of a `.npy` file that `numpy.save` has written, in C or Fortran order and in any byte order.
///
/// Narrow dtypes are widened; see the [module](super).
///
/// # Errors
/// [`Kind::File`] if the file cannot be read or is damaged, or its dtype is not supported.
#[doc(
    alias = "load",
    alias = "fromfile",
    alias = "loadtxt",
    alias = "genfromtxt",
    alias = "memmap"
)]
#[track_caller]
pub fn load_npy(path: impl AsRef<Path>) -> Result<Tensor, Error> {
    let at = caller();
    let path = path.as_ref();
    let loaded = || {
        let bytes = replace::read(path)?;
        from_npy(&bytes).map_err(|problem| in_file(path, problem))
    };
    loaded().map_err(|problem| Error::at(problem, at))
}

/// Returns the tensor that the bytes of a `.npy` file hold.
///
/// # Errors
/// [`Kind::File`] if the bytes are damaged or the dtype is not supported.
pub fn from_npy(bytes: &[u8]) -> Result<Tensor, Problem> {
    let (header, data) = parts(bytes)?;
    let (layout, shape) = described(header)?;
    elements::tensor(&shape, layout, data)
}

/// Splits a `.npy` file into its header and the bytes of its elements.
fn parts(bytes: &[u8]) -> Result<(&str, &[u8]), Problem> {
    let no = |why: &str| damaged(format!("no file of numpy: {why}"));
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| no("it lacks the magic string"))?;
    let ([major, _], rest) = rest.split_first_chunk().ok_or_else(|| no("it ends early"))?;
    let early = || no("it ends in the header");
    let (length, rest) = match major {
        1 => {
            let (length, rest) = rest.split_first_chunk().ok_or_else(early)?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        2 | 3 => {
            let (length, rest) = rest.split_first_chunk().ok_or_else(early)?;
            (usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX), rest)
        }
        _ => return Err(no(&format!("its version is {major}"))),
    };
    if length > LONGEST {
        return Err(damaged(format!("a header of {length} bytes, and numpy reads {LONGEST}")));
    }
    let (header, data) = rest.split_at_checked(length).ok_or_else(early)?;
    let header = str::from_utf8(header).map_err(|_| damaged("the header is no text"))?;
    Ok((header, data))
}

/// Parses a header. Returns the layout of the elements and the shape.
fn described(header: &str) -> Result<(Layout, Vec<usize>), Problem> {
    // The parser is recursive, so reject deep nesting first: it would overflow the stack.
    let mut depth = 0_usize;
    for sign in header.chars() {
        match sign {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return Err(damaged("the header has too many brackets"));
        }
    }
    let value: Value = header
        .trim_end()
        .parse()
        .map_err(|_| damaged(format!("the header `{}` does not parse", shown(header))))?;
    let no = |what: &str| damaged(format!("the header `{}` has no {what}", shown(header)));
    let entries = value.as_dict().ok_or_else(|| no("entries"))?;
    let entry = |key: &str| {
        let entry = entries.iter().find(|(k, _)| k.as_string().is_some_and(|k| k == key));
        entry.map(|(_, value)| value)
    };
    let fortran = entry("fortran_order").and_then(Value::as_boolean);
    let fortran = fortran.ok_or_else(|| no("`fortran_order`"))?;
    let shape = entry("shape").and_then(Value::as_tuple).ok_or_else(|| no("`shape`"))?;
    let extent = |x: &Value| usize::try_from(x.as_integer()?).ok();
    let shape: Option<Vec<usize>> = shape.iter().map(extent).collect();
    let shape = shape.ok_or_else(|| no("`shape` of integers"))?;
    let dtype = entry("descr").ok_or_else(|| no("`descr`"))?;
    let (stored, big_endian) = dtype.as_string().and_then(|d| stored(d)).ok_or_else(|| {
        let shown = dtype.format_ascii().unwrap_or_default();
        let help = "supported are bool, integers and floats from float16 on; save real and \
                    imaginary parts separately, and convert others by `x.astype(..)` in numpy";
        let message = format!("the array has the dtype {}", self::shown(&shown));
        Problem::new(Kind::File, message, help)
    })?;
    Ok((Layout { stored, big_endian, fortran }, shape))
}

/// Returns the beginning of a text, for quoting it in a message.
fn shown(text: &str) -> String {
    let text = text.trim_end();
    let short: String = text.chars().take(100).filter(|c| !c.is_control()).collect();
    if short.len() < text.len() { format!("{short}...") } else { short }
}

/// Parses numpy's description of a dtype, a byte order, a letter and a number of bytes, such as `<f8` or `|b1`. Returns
/// the dtype and whether the byte order is big-endian.
fn stored(text: &str) -> Option<(Stored, bool)> {
    let (order, kind) = text.split_at_checked(1)?;
    let big_endian = match order {
        "<" | "|" => false,
        ">" => true,
        "=" => cfg!(target_endian = "big"),
        _ => return None,
    };
    let stored = match kind {
        "b1" => Stored::Bool,
        "i1" => Stored::I8,
        "i2" => Stored::I16,
        "i4" => Stored::I32,
        "i8" => Stored::I64,
        "u1" => Stored::U8,
        "u2" => Stored::U16,
        "u4" => Stored::U32,
        "u8" => Stored::U64,
        "f2" => Stored::F16,
        "f4" => Stored::F32,
        "f8" => Stored::F64,
        _ => return None,
    };
    Some((stored, big_endian))
}

/// Returns a tensor as the bytes of a `.npy` file.
pub fn to_npy(tensor: &Tensor) -> Vec<u8> {
    let descr = match tensor.dtype() {
        Dtype::Bool => "|b1",
        Dtype::I32 => "<i4",
        Dtype::I64 => "<i8",
        Dtype::U32 => "<u4",
        Dtype::U64 => "<u8",
        Dtype::F32 => "<f4",
        Dtype::F64 => "<f8",
    };
    // Write a comma after each extent, because a Python tuple of one element needs it.
    let shape: Vec<String> = tensor.shape().iter().map(|n| format!("{n},")).collect();
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}), }}", shape.join(" "));
    // The format requires that the elements begin at a multiple of 64 bytes and that the header ends with a line feed.
    // Version 1.0 has two bytes for the length of the header. Shapes of thousands of axes need version 2.0, which has
    // four.
    let (version, before) = if header.len() < 0xff00 { (1_u8, 10) } else { (2, 12) };
    let length = (before + header.len() + 1).next_multiple_of(64) - before;
    header += &" ".repeat(length - header.len() - 1);
    header += "\n";
    let mut bytes = MAGIC.to_vec();
    bytes.extend([version, 0]);
    bytes.extend(&(length as u32).to_le_bytes()[..before - 8]);
    bytes.extend(header.as_bytes());
    bytes.extend(&*elements::little_endian(tensor));
    bytes
}
