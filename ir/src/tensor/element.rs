//! The Rust types of elements.

use crate::lang::literal::Literal;
use crate::lang::types::Dtype;
use bytemuck::Pod;

/// A Rust type that can be the element of a tensor.
pub trait Element: Copy + Send + Sync + 'static {
    /// The dtype of a tensor whose elements have this Rust type.
    const DTYPE: Dtype;
    /// The type in which an element is stored: the Rust type itself, except that `bool` is stored as `u8`.
    type Stored: Pod;
    /// Converts an element to its stored form: `bool` to a byte 0 or 1.
    fn store(self) -> Self::Stored;
    /// Converts a stored form to the element.
    fn load(stored: Self::Stored) -> Self;
}

macro_rules! elements {
    ($($t:ty => $dtype:ident),*) => {$(
        impl Element for $t {
            const DTYPE: Dtype = Dtype::$dtype;
            type Stored = $t;
            fn store(self) -> $t { self }
            fn load(stored: $t) -> $t { stored }
        }
    )*};
}
elements!(i32 => I32, i64 => I64, u32 => U32, u64 => U64, f32 => F32, f64 => F64);

impl Element for bool {
    const DTYPE: Dtype = Dtype::Bool;
    type Stored = u8;
    fn store(self) -> u8 {
        u8::from(self)
    }
    fn load(stored: u8) -> bool {
        stored != 0
    }
}

impl<T: Element> From<T> for Literal {
    fn from(x: T) -> Literal {
        let mut bits = [0; 8];
        let stored = x.store();
        let bytes = bytemuck::bytes_of(&stored);
        bits[..bytes.len()].copy_from_slice(bytes);
        Literal { dtype: T::DTYPE, bits: u64::from_le_bytes(bits) }
    }
}
