//! Words about dtypes for messages.

use tapeloom_ir::Dtype;

/// What a number of that dtype looks like.
pub(crate) fn describe(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "type bool",
        Dtype::I32 | Dtype::I64 => "an integer type",
        Dtype::U32 | Dtype::U64 => "an unsigned integer type",
        Dtype::F32 | Dtype::F64 => "a float type",
    }
}
