//! Elements as files store them: their dtypes, byte orders and the order of axes.

use super::damaged;
use tapeloom_ir::{ArrayType, Dtype, Kind, Problem, Tensor};

/// The dtype of elements in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stored {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    Bf16,
    F32,
    F64,
}

/// The layout of elements in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) stored: Stored,
    pub(super) big_endian: bool,
    /// Whether the elements are in Fortran order, in which the first axis is contiguous.
    pub(super) fortran: bool,
}

impl Stored {
    /// Returns the number of bytes of an element in the file.
    pub(super) fn bytes(self) -> usize {
        match self {
            Stored::Bool | Stored::I8 | Stored::U8 => 1,
            Stored::I16 | Stored::U16 | Stored::F16 | Stored::Bf16 => 2,
            Stored::I32 | Stored::U32 | Stored::F32 => 4,
            Stored::I64 | Stored::U64 | Stored::F64 => 8,
        }
    }

    /// Returns the dtype of the loaded tensor, in which every value of this dtype is representable.
    fn dtype(self) -> Dtype {
        match self {
            Stored::Bool => Dtype::Bool,
            Stored::I8 | Stored::I16 | Stored::I32 => Dtype::I32,
            Stored::U8 | Stored::U16 | Stored::U32 => Dtype::U32,
            Stored::I64 => Dtype::I64,
            Stored::U64 => Dtype::U64,
            Stored::F16 | Stored::Bf16 | Stored::F32 => Dtype::F32,
            Stored::F64 => Dtype::F64,
        }
    }

    /// Converts an 8-bit or 16-bit element, given in little-endian order, to the bytes of the tensor's 32-bit element
    /// with the same value.
    fn widened(self, element: [u8; 2]) -> [u8; 4] {
        let [low, _] = element;
        match self {
            Stored::I8 => i32::from(low.cast_signed()).to_ne_bytes(),
            Stored::U8 => u32::from(low).to_ne_bytes(),
            Stored::I16 => i32::from(i16::from_le_bytes(element)).to_ne_bytes(),
            Stored::U16 => u32::from(u16::from_le_bytes(element)).to_ne_bytes(),
            // A bfloat16 is the upper half of an f32.
            Stored::Bf16 => (u32::from(u16::from_le_bytes(element)) << 16).to_ne_bytes(),
            Stored::F16 => half(u16::from_le_bytes(element)).to_ne_bytes(),
            Stored::Bool | Stored::I32 | Stored::U32 | Stored::F32 => [0; 4],
            Stored::I64 | Stored::U64 | Stored::F64 => [0; 4],
        }
    }
}

/// Returns the f32 with the value of a float16 (IEEE 754 binary16), which has 1 sign bit, 5 exponent bits and 10
/// fraction bits.
fn half(bits: u16) -> f32 {
    let bits = u32::from(bits);
    let (sign, exponent, fraction) = (bits >> 15 << 31, bits >> 10 & 0x1f, bits & 0x3ff);
    match exponent {
        // For zero and subnormal numbers, the absolute value is the fraction times 2^-24, which is exact in f32.
        0 => f32::from_bits(sign | (fraction as f32 * 2f32.powi(-24)).to_bits()),
        // Infinity and nan.
        0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        // The exponent of a float16 is biased by 15, that of an f32 by 127, so add 112.
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// Returns the tensor whose elements are stored in `bytes`. The number of bytes is compared with the shape before
/// memory is allocated, because a damaged file may have any shape.
pub(super) fn tensor(shape: &[usize], layout: Layout, bytes: &[u8]) -> Result<Tensor, Problem> {
    let Layout { stored, big_endian, fortran } = layout;
    let size = stored.bytes();
    let ty = ArrayType::new(stored.dtype(), shape);
    let expected = ty.shape.checked_elements().and_then(|n| n.checked_mul(size));
    if expected != Some(bytes.len()) || ty.checked_bytes().is_none() {
        let found = bytes.len();
        return Err(damaged(format!("{found} bytes do not match {stored:?} {}", ty.shape)));
    }
    let native = if cfg!(target_endian = "big") { big_endian } else { !big_endian };
    let narrow = size < ty.dtype.bytes();
    let tensor = if narrow || (!native && size > 1) || (fortran && shape.len() > 1) {
        let mut elements = Vec::new();
        let room = bytes.len() / size * ty.dtype.bytes();
        elements.try_reserve_exact(room).map_err(|_| no_memory(&ty))?;
        let mut add = |element: &[u8]| {
            if narrow {
                let mut low = [0; 2];
                low[..size].copy_from_slice(element);
                if big_endian {
                    low[..size].reverse();
                }
                elements.extend(stored.widened(low));
            } else if native {
                elements.extend(element);
            } else {
                elements.extend(element.iter().rev());
            }
        };
        if fortran {
            in_row_major_order(shape, |i| add(&bytes[i * size..][..size]));
        } else {
            bytes.chunks_exact(size).for_each(add);
        }
        Tensor::from_bytes(&ty, &elements)
    } else {
        Tensor::from_bytes(&ty, bytes)
    };
    tensor.map_err(|p| if p.kind == Kind::TooLarge { no_memory(&ty) } else { damaged(p.message) })
}

/// Visits the elements of a shape in row-major order, and calls `visit` with the position of each element in Fortran
/// order.
fn in_row_major_order(shape: &[usize], mut visit: impl FnMut(usize)) {
    let elements: usize = shape.iter().product();
    let strides: Vec<usize> = (0..shape.len()).map(|k| shape[..k].iter().product()).collect();
    let mut index = vec![0; shape.len()];
    let mut at = 0;
    for _ in 0..elements {
        visit(at);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            at -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
}

fn no_memory(ty: &ArrayType) -> Problem {
    damaged(format!("there is no memory for {ty}"))
}

/// Returns the bytes of the elements in little-endian order, as all formats here write them.
pub(super) fn little_endian(tensor: &Tensor) -> std::borrow::Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        return tensor.bytes().into();
    }
    let reversed = tensor.bytes().chunks_exact(tensor.dtype().bytes()).map(|e| e.iter().rev());
    reversed.flatten().copied().collect::<Vec<u8>>().into()
}
