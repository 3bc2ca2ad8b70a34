//! Tensors as text that parses as the same bits: `f64[2,2] {1.0, 2.0, 3.0, 4.0}`.
//!
//! In the braces, a literal without suffix takes the tensor's dtype. A literal alone, like `2.5`, is a scalar.

use tapeloom_ir::{Dtype, Kind, Literal, Problem, Tensor, Type, parse_type};

/// Parses a tensor in this form, or a literal as a scalar.
///
/// # Errors
/// The part that does not parse.
pub fn read_tensor(text: &str) -> Result<Tensor, Problem> {
    let text = text.trim();
    let Some((ty, elements)) = text.split_once('{') else {
        return Ok(text.parse::<Literal>()?.into());
    };
    let wrong = |message: String| Problem::new(Kind::Parse, message, "");
    let ty = match parse_type(ty.trim()).map_err(|e| e.problem)? {
        Type::Array(ty) => ty,
        other @ Type::Tape(_) => {
            return Err(wrong(format!("{other} is not the type of a tensor")));
        }
    };
    let elements = elements.strip_suffix('}').ok_or_else(|| wrong("expected `}`".into()))?;
    let items: Vec<&str> = elements.split(',').map(str::trim).filter(|s| !s.is_empty()).collect();
    let mut t = Tensor::zeros_of(&ty)?;
    if items.len() != t.elements() {
        return Err(wrong(format!("{ty} has {} elements, found {}", t.elements(), items.len())));
    }
    for (i, item) in items.into_iter().enumerate() {
        t.set_literal(i, element(ty.dtype, item)?)?;
    }
    Ok(t)
}

/// Parses a list of tensors separated by `;`.
///
/// # Errors
/// The part that does not parse.
pub fn read_tensors(text: &str) -> Result<Vec<Tensor>, Problem> {
    text.split(';').filter(|t| !t.trim().is_empty()).map(read_tensor).collect()
}

/// Prints a list of tensors, separated by `; `.
pub fn show_tensors(tensors: &[Tensor]) -> String {
    tensors.iter().map(show_tensor).collect::<Vec<_>>().join("; ")
}

/// Prints a tensor; one with more than 32 elements is truncated, and does not parse again.
pub fn show_tensor(t: &Tensor) -> String {
    /// The number of elements that are printed of a larger tensor.
    const SHOWN: usize = 32;
    let shown: Vec<String> = t.literals().take(SHOWN).map(|l| l.to_string()).collect();
    let rest = if t.elements() > SHOWN { ", .." } else { "" };
    format!("{} {{{}{rest}}}", t.ty(), shown.join(", "))
}

fn element(dtype: Dtype, text: &str) -> Result<Literal, Problem> {
    let plain = || format!("{text}{dtype}").parse::<Literal>();
    let read = text.parse::<Literal>().ok().filter(|l| l.dtype == dtype);
    read.map_or_else(plain, Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        for text in ["f64[2] {1.0, -0.0}", "i32[] {3i32}", "f32[0] {}", "bool[1,2] {true, false}"] {
            assert_eq!(show_tensor(&read_tensor(text).unwrap()), text);
        }
        assert_eq!(read_tensor("f32[2] {1, 2.5}").unwrap(), Tensor::from([1.0f32, 2.5]));
        assert_eq!(read_tensor("2").unwrap(), Tensor::scalar(2i64));
        assert_eq!(read_tensors("1.0; f64[1] {2.0}").unwrap().len(), 2);
        assert!(read_tensor("f64[2] {1.0}").is_err());
        assert!(read_tensor("i64[1] {1.5}").is_err());
    }
}
