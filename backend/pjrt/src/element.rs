//! Element types, types of arrays, and Rust's types of elements.

use crate::error::Error;
use std::fmt;

/// Declares the element types: the variant, its name in StableHLO, bytes of an element, its number in the PJRT C API and
/// its number in XLA (`xla_data.proto`), which foreign functions and compiled programs use.
macro_rules! element_types {
    ($($(#[$doc:meta])* $name:ident $text:literal $bytes:literal $pjrt:literal $xla:literal,)*) => {
        /// The type of an array's elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ElementType {
            $($(#[$doc])* $name,)*
        }

        impl ElementType {
            /// All element types.
            pub const ALL: &[ElementType] = &[$(ElementType::$name),*];

            /// Returns the name in StableHLO, such as `f64`, `ui8` or `i1`.
            pub fn name(self) -> &'static str {
                match self {
                    $(ElementType::$name => $text,)*
                }
            }

            /// Returns the number of bytes of an element.
            pub fn bytes(self) -> usize {
                match self {
                    $(ElementType::$name => $bytes,)*
                }
            }

            /// Returns the number in the PJRT C API.
            pub(crate) fn pjrt(self) -> i32 {
                match self {
                    $(ElementType::$name => $pjrt,)*
                }
            }

            /// Returns the element type that has this number in the PJRT C API; `None` if there is none.
            pub(crate) fn from_pjrt(number: i32) -> Option<ElementType> {
                match number {
                    $($pjrt => Some(ElementType::$name),)*
                    _ => None,
                }
            }

            /// Returns the element type that has this number in XLA; `None` if there is none.
            pub(crate) fn from_xla(number: i32) -> Option<ElementType> {
                match number {
                    $($xla => Some(ElementType::$name),)*
                    _ => None,
                }
            }
        }
    };
}

element_types! {
    /// Booleans, a byte of 0 or 1 each.
    Pred "i1" 1 1 1,
    /// Signed integers of 8 bits.
    S8 "i8" 1 2 2,
    /// Signed integers of 16 bits.
    S16 "i16" 2 3 3,
    /// Signed integers of 32 bits.
    S32 "i32" 4 4 4,
    /// Signed integers of 64 bits.
    S64 "i64" 8 5 5,
    /// Unsigned integers of 8 bits.
    U8 "ui8" 1 6 6,
    /// Unsigned integers of 16 bits.
    U16 "ui16" 2 7 7,
    /// Unsigned integers of 32 bits.
    U32 "ui32" 4 8 8,
    /// Unsigned integers of 64 bits.
    U64 "ui64" 8 9 9,
    /// Floats of 16 bits.
    F16 "f16" 2 10 10,
    /// Floats of 32 bits.
    F32 "f32" 4 11 11,
    /// Floats of 64 bits.
    F64 "f64" 8 12 12,
    /// The upper halves of floats of 32 bits.
    Bf16 "bf16" 2 13 16,
    /// Complex numbers of two floats of 32 bits.
    C64 "complex<f32>" 8 14 15,
    /// Complex numbers of two floats of 64 bits.
    C128 "complex<f64>" 16 15 18,
    /// Floats of 8 bits, 5 of them for the exponent.
    F8E5M2 "f8E5M2" 1 16 19,
    /// Floats of 8 bits, 4 of them for the exponent, without infinities.
    F8E4M3FN "f8E4M3FN" 1 17 20,
    /// A token: an order of effects, without bytes.
    Token "token" 0 23 17,
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The type of an array: element type and dimensions. It prints as in StableHLO.
///
/// ```
/// use tapeloom_pjrt::{ArrayType, ElementType};
/// let matrix = ArrayType::new(ElementType::F64, &[8, 4]);
/// assert_eq!(matrix.to_string(), "tensor<8x4xf64>");
/// assert_eq!(matrix.bytes(), Some(256));
/// assert_eq!(ArrayType::new(ElementType::Pred, &[]).to_string(), "tensor<i1>");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayType {
    element: ElementType,
    dims: Box<[usize]>,
}

impl ArrayType {
    /// Makes the type of arrays with these elements and dimensions.
    pub fn new(element: ElementType, dims: &[usize]) -> ArrayType {
        ArrayType { element, dims: dims.into() }
    }

    /// Returns the element type.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Returns the dimensions, the slowest varying first.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Returns the number of bytes of an array in dense row-major order; `None` if it exceeds the address space.
    pub fn bytes(&self) -> Option<usize> {
        let elements = self.dims.iter().try_fold(1_usize, |all, d| all.checked_mul(*d));
        // An array without elements has no bytes, however large its other dimensions are.
        let elements = if self.dims.contains(&0) { Some(0) } else { elements };
        elements?.checked_mul(self.element.bytes()).filter(|bytes| isize::try_from(*bytes).is_ok())
    }

    /// Returns the number of bytes, or an error if it exceeds the address space.
    pub(crate) fn checked_bytes(&self) -> Result<usize, Error> {
        let too_large =
            || Error::argument(format!("{self} has more bytes than memory has addresses"));
        self.bytes().ok_or_else(too_large)
    }

    /// Returns the dimensions as the C API takes them.
    pub(crate) fn dims_i64(&self) -> Result<Vec<i64>, Error> {
        let dim = |d: &usize| {
            i64::try_from(*d).map_err(|_| Error::argument(format!("dimension {d} is too large")))
        };
        self.dims.iter().map(dim).collect()
    }
}

impl fmt::Display for ArrayType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for dim in &self.dims {
            write!(f, "{dim}x")?;
        }
        write!(f, "{}>", self.element)
    }
}

/// A Rust type of elements that arrays on devices have, too.
pub trait Element: sealed::Bytes {}

pub(crate) mod sealed {
    use super::ElementType;

    /// The element type of a Rust type, and its conversion from and to bytes in the machine's order.
    pub trait Bytes: Copy + 'static {
        const TYPE: ElementType;
        fn to_bytes(values: &[Self]) -> Vec<u8>;
        fn from_bytes(bytes: &[u8]) -> Vec<Self>;
    }
}

macro_rules! elements {
    ($($rust:ty => $name:ident,)*) => {
        $(
            impl Element for $rust {}

            impl sealed::Bytes for $rust {
                const TYPE: ElementType = ElementType::$name;

                fn to_bytes(values: &[Self]) -> Vec<u8> {
                    let mut bytes = vec![0; size_of_val(values)];
                    let (chunks, _) = bytes.as_chunks_mut();
                    chunks.iter_mut().zip(values).for_each(|(chunk, value)| *chunk = value.to_ne_bytes());
                    bytes
                }

                fn from_bytes(bytes: &[u8]) -> Vec<Self> {
                    let (chunks, _) = bytes.as_chunks();
                    chunks.iter().map(|chunk| Self::from_ne_bytes(*chunk)).collect()
                }
            }
        )*
    };
}

elements! {
    i8 => S8,
    i16 => S16,
    i32 => S32,
    i64 => S64,
    u8 => U8,
    u16 => U16,
    u32 => U32,
    u64 => U64,
    f32 => F32,
    f64 => F64,
}

impl Element for bool {}

impl sealed::Bytes for bool {
    const TYPE: ElementType = ElementType::Pred;

    fn to_bytes(values: &[Self]) -> Vec<u8> {
        values.iter().map(|value| u8::from(*value)).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Vec<Self> {
        bytes.iter().map(|byte| *byte != 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::sealed::Bytes;
    use super::*;

    /// Numbers of element types are distinct, and `from_pjrt` inverts `pjrt`.
    #[test]
    fn numbers_name_one_type_each() {
        for element in ElementType::ALL {
            assert_eq!(ElementType::from_pjrt(element.pjrt()), Some(*element));
            let with = |f: &dyn Fn(i32) -> Option<ElementType>| {
                (0..64).filter(|n| f(*n) == Some(*element)).count()
            };
            assert_eq!(
                (with(&ElementType::from_pjrt), with(&ElementType::from_xla)),
                (1, 1),
                "{element}"
            );
        }
    }

    #[test]
    fn sizes_that_no_memory_has_are_none() {
        let bytes = |dims: &[usize]| ArrayType::new(ElementType::F64, dims).bytes();
        assert_eq!(bytes(&[]), Some(8));
        assert_eq!(bytes(&[usize::MAX, usize::MAX, 0]), Some(0));
        assert_eq!(bytes(&[usize::MAX, 2]), None);
        assert_eq!(bytes(&[usize::MAX / 8]), None);
    }

    #[test]
    fn elements_survive_their_bytes() {
        fn check<T: Bytes + PartialEq + fmt::Debug>(values: &[T]) {
            let bytes = T::to_bytes(values);
            assert_eq!(bytes.len(), values.len() * T::TYPE.bytes());
            assert_eq!(T::from_bytes(&bytes), values);
        }
        check(&[1.5_f64, -0.0, f64::INFINITY]);
        check(&[1.5_f32, f32::MIN_POSITIVE]);
        check(&[true, false]);
        check(&[i8::MIN, 7]);
        check(&[u64::MAX, 1]);
        check::<i16>(&[]);
    }
}
