//! Conversion of one element to another dtype.

use crate::lang::literal::Literal;
use crate::lang::types::Dtype;

/// Converts a literal to another dtype: floats to integers saturate, integers wrap.
pub(super) fn convert(x: Literal, to: Dtype) -> Literal {
    if x.dtype.is_float() || to == Dtype::F64 || to == Dtype::Bool || to == x.dtype {
        if x.dtype == to {
            return x;
        }
        if to == Dtype::Bool && !x.dtype.is_float() {
            return Literal::bool(x.bits != 0);
        }
        return Literal::of(to, x.to_f64());
    }
    // The literal is an integer or bool: sign-extend it to 64 bits, then truncate or round to `to`.
    let wide = match x.dtype {
        Dtype::I32 => x.bits as u32 as i32 as i64 as u64,
        Dtype::I64 | Dtype::U64 | Dtype::U32 | Dtype::Bool => x.bits,
        Dtype::F32 | Dtype::F64 => x.bits,
    };
    let bits = match to {
        Dtype::I32 | Dtype::U32 => u64::from(wide as u32),
        Dtype::F32 if x.dtype == Dtype::U64 => u64::from((wide as f32).to_bits()),
        Dtype::F32 => u64::from((wide as i64 as f32).to_bits()),
        Dtype::I64 | Dtype::U64 | Dtype::Bool | Dtype::F64 => wide,
    };
    Literal { dtype: to, bits }
}
