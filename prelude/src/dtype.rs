//! Descriptions of dtypes for messages.

use tapeloom_ir::Dtype;

/// Returns a help text with the two conversions that make the dtypes of two operands equal, and the information that
/// each loses. The conversion that loses less comes first.
pub(crate) fn conversions(x: Dtype, y: Dtype) -> String {
    let mut ways = [("y", y, x), ("x", x, y)];
    ways.sort_by_key(|(_, from, to)| loss(*from, *to).is_some());
    let way = |(name, from, to): &(&str, Dtype, Dtype)| {
        let loss = loss(*from, *to).unwrap_or("loses nothing");
        format!("`{name}.convert(Dtype::{to:?})` {loss}")
    };
    format!("convert one of them: {}", ways.iter().map(way).collect::<Vec<_>>().join(", "))
}

/// Returns a description of the information that a conversion may lose, or `None` if it is exact.
fn loss(from: Dtype, to: Dtype) -> Option<&'static str> {
    let rounded = match to {
        Dtype::F32 => "rounds integers beyond 2^24",
        _ => "rounds integers beyond 2^53",
    };
    match (from, to) {
        (Dtype::Bool, _) | (Dtype::F32, Dtype::F64) => None,
        (Dtype::I32 | Dtype::U32, Dtype::F64 | Dtype::I64) | (Dtype::U32, Dtype::U64) => None,
        (_, Dtype::Bool) => Some("maps all numbers but zero to true"),
        (Dtype::F32 | Dtype::F64, Dtype::F32 | Dtype::F64) => Some("rounds to 24 bits"),
        (Dtype::F32 | Dtype::F64, _) => Some("truncates fractions"),
        (_, Dtype::F32 | Dtype::F64) => Some(rounded),
        (_, _) => Some("wraps numbers that are out of range"),
    }
}

/// Returns a phrase for messages that names the kind of numbers of a dtype.
pub(crate) fn describe(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "type bool",
        Dtype::I32 | Dtype::I64 => "an integer type",
        Dtype::U32 | Dtype::U64 => "an unsigned integer type",
        Dtype::F32 | Dtype::F64 => "a float type",
    }
}

/// Returns the distance from 1 to the next larger number of a float dtype.
pub(crate) fn epsilon(dtype: Dtype) -> f64 {
    if dtype == Dtype::F32 { f32::EPSILON.into() } else { f64::EPSILON }
}

/// Returns the largest finite number of a float dtype.
pub(crate) fn largest(dtype: Dtype) -> f64 {
    if dtype == Dtype::F32 { f64::from(f32::MAX) } else { f64::MAX }
}
