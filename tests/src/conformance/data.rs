//! Golden cases as data: tensors in JSON, and their comparison.

use crate::Elements;
use serde_json::Value;
use tapeloom::Tensor;
use tapeloom_ir::{ArrayType, Dtype, Literal, Shape};

/// Parses a tensor from `{"dtype", "shape", "data"}`, in which non-finite numbers are strings; `None` if it is
/// something else.
pub fn tensor(value: &Value) -> Option<Tensor> {
    let dtype = Dtype::from_name(value["dtype"].as_str()?)?;
    let shape: Shape = value["shape"]
        .as_array()?
        .iter()
        .map(|d| d.as_u64().map(|d| d as usize))
        .collect::<Option<_>>()?;
    let mut flat = Vec::new();
    flatten(&value["data"], &mut flat);
    let mut t = Tensor::zeros_of(&ArrayType::new(dtype, shape)).ok()?;
    if flat.len() != t.elements() {
        return None;
    }
    for (i, x) in flat.into_iter().enumerate() {
        t.put(i, literal(dtype, x)?);
    }
    Some(t)
}

/// Parses a list of tensors; `None` if one does not parse.
pub fn tensors(value: &Value) -> Option<Vec<Tensor>> {
    value.as_array()?.iter().map(tensor).collect()
}

fn flatten<'v>(value: &'v Value, into: &mut Vec<&'v Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|v| flatten(v, into)),
        one => into.push(one),
    }
}

fn literal(dtype: Dtype, value: &Value) -> Option<Literal> {
    match value {
        Value::Bool(b) => Some(Literal::of(dtype, f64::from(u8::from(*b)))),
        Value::String(s) => Some(Literal::of(dtype, s.parse().ok()?)),
        Value::Number(n) if dtype.is_integer() || dtype == Dtype::Bool => {
            let exact = n.as_i64().map(i128::from).or(n.as_u64().map(i128::from))?;
            Literal::rounded_integer(dtype, exact)
        }
        Value::Number(n) => Some(Literal::of(dtype, n.as_f64()?)),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The largest difference at which two tensors still agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Agreement {
    /// `|got - expected| <= relative * max |expected| + absolute`, with 1e-10 and 1e-12 for f64, 1e-5 and 1e-6 for f32.
    Close,
    /// Equal bits, up to the sign of zero.
    Exact,
    /// If the expected number is finite, the tolerance of `Close`. If it is infinite or nan, any number is accepted.
    CloseWhereFinite,
}

/// Returns a message that names the first difference between two tensors, if they disagree.
pub fn disagreement(got: &Tensor, expected: &Tensor, how: Agreement) -> Option<String> {
    if got.ty() != expected.ty() {
        return Some(format!("is {}, expected {}", got.ty(), expected.ty()));
    }
    let numbers = |t: &Tensor| (0..t.elements()).map(|i| t.at(i).to_f64()).collect::<Vec<f64>>();
    let (a, b) = (numbers(got), numbers(expected));
    let largest = b.iter().filter(|x| x.is_finite()).fold(0.0, |m: f64, x| m.max(x.abs()));
    let slack = match (how, got.dtype()) {
        (Agreement::Exact, _) => 0.0,
        (_, Dtype::F64) => 1e-10 * largest + 1e-12,
        (_, Dtype::F32) => 1e-5 * largest + 1e-6,
        _ => 0.0,
    };
    a.iter().zip(&b).enumerate().find_map(|(i, (x, y))| {
        let agree = match (x.is_finite(), y.is_finite()) {
            (true, true) => (x - y).abs() <= slack,
            _ if how == Agreement::CloseWhereFinite && !y.is_finite() => true,
            _ => x == y || (x.is_nan() && y.is_nan()),
        };
        (!agree).then(|| format!("element {i} is {x:e}, expected {y:e}"))
    })
}
