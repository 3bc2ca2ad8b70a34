//! Arrays that are transformed, and the half of a spectrum that says all of a real sequence.
//!
//! The spectrum `y` of `n` real numbers has `y[n - k] = conj(y[k])`, so frequencies `0 ..= n/2` suffice. Each
//! frequency strictly between 0 and `n/2` stands for two; 0 and, where `n` is even, `n/2` stand for one.

use crate::fault::{Fault, planted};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype, Type};
use crate::prim::{Iota, Operand, Scalar};

/// The type of the one operand, an array of floats with an axis to transform.
pub(super) fn sequences<'a>(name: &str, operands: &[Operand<'a>]) -> Result<&'a ArrayType> {
    let [x] = operands else {
        return Err(Problem::new(Kind::Arguments, format!("`{name}` takes one array"), ""));
    };
    let wrong = |kind, help: &str| {
        Err(Problem::new(kind, format!("`{name}` of {}", x.ty), help.to_owned()))
    };
    match x.ty {
        Type::Array(x) if x.dtype.is_float() && !x.shape.is_empty() => Ok(x),
        Type::Array(x) if x.dtype.is_float() => {
            wrong(Kind::Shape, "the last axis is the one that is transformed")
        }
        _ => wrong(Kind::Dtype, "it takes arrays of floats; convert them"),
    }
}

/// As [`sequences`], with real and imaginary parts on the axis before the last.
pub(super) fn pairs<'a>(name: &str, operands: &[Operand<'a>]) -> Result<&'a ArrayType> {
    let x = sequences(name, operands)?;
    match x.shape[..] {
        [.., 2, _] => Ok(x),
        _ => {
            let help = "the axis before the last holds real and imaginary parts, and has extent 2";
            Err(Problem::new(Kind::Shape, format!("`{name}` of {x}"), help))
        }
    }
}

/// Half of a spectrum of `n` numbers with each frequency that stands for two multiplied by `weight`.
pub(super) fn interior_weighted(b: &Builder<'_>, y: Atom, n: usize, weight: f64) -> Atom {
    // 0 < k and 2 k < n, which for integers k is 0 < k < (n + 1) / 2, rounded down.
    let (shape, mut end) = (b.shape_of(y), n.div_ceil(2));
    if planted(Fault::HalfSpectrum) {
        end = n / 2 + 1;
    }
    if end <= 1 {
        return y;
    }
    let axis = shape.len() - 1;
    let k = b.emit1(Iota { shape, axis, dtype: Dtype::I64 }, &[]);
    let number = |k: usize| Atom::from(Literal::i64(i64::try_from(k).unwrap_or(i64::MAX)));
    let after = b.emit1(Scalar::Gt, &[k, number(0)]);
    let before = b.emit1(Scalar::Lt, &[k, number(end)]);
    let inside = b.emit1(Scalar::And, &[after, before]);
    let weight = Literal::of(b.dtype_of(y), weight).into();
    b.emit1(Scalar::Select, &[inside, b.emit1(Scalar::Mul, &[y, weight]), y])
}
