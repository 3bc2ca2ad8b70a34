//! Literals: scalar constants inside a program.
//!
//! A literal is a dtype and the bits of one element, so that literals are `Eq` and `Hash`. Two nans of equal bits are
//! the same literal, and 0.0 differs from -0.0. As an operand of an elementwise primitive a literal has no shape: it
//! takes that of the other operands. Everywhere else it is a scalar. Larger constants do not exist in the language;
//! they are parameters.
//!
//! Text: `2.5` is f64, `3` is i64, other dtypes carry a suffix (`2.5f32`, `3u32`), truth values are
//! `true` and `false`, and floats without decimal digits (nan, infinities) are hexadecimal bits
//! (`0x7ff8000000000000f64`).

use crate::lang::problem::{Kind, Problem};
use crate::lang::types::Dtype;
use std::fmt;
use std::str::FromStr;

/// A scalar constant of a program: a dtype and the bits of one element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Literal {
    /// The dtype of the constant.
    pub dtype: Dtype,
    /// The bits of the element as in memory, zero-extended to 64 bits.
    pub bits: u64,
}

impl Literal {
    /// Returns the f64 constant `x`.
    pub fn f64(x: f64) -> Literal {
        Literal { dtype: Dtype::F64, bits: x.to_bits() }
    }

    /// Returns the i64 constant `x`.
    pub fn i64(x: i64) -> Literal {
        Literal { dtype: Dtype::I64, bits: x as u64 }
    }

    /// Returns the truth value `x`.
    pub fn bool(x: bool) -> Literal {
        Literal { dtype: Dtype::Bool, bits: u64::from(x) }
    }

    /// Returns the number `x` converted to `dtype`: rounded to f32, truncated to an integer, or compared with 0 for
    /// bool.
    pub fn of(dtype: Dtype, x: f64) -> Literal {
        let bits = match dtype {
            Dtype::Bool => u64::from(x != 0.0),
            Dtype::I32 => u64::from(x as i32 as u32),
            Dtype::I64 => x as i64 as u64,
            Dtype::U32 => u64::from(x as u32),
            Dtype::U64 => x as u64,
            Dtype::F32 => u64::from((x as f32).to_bits()),
            Dtype::F64 => x.to_bits(),
        };
        Literal { dtype, bits }
    }

    /// Returns the integer `x` in `dtype` exactly, or `None` if the dtype does not contain that number: 2^24 +
    /// 1 is no f32.
    ///
    /// ```
    /// use tapeloom_ir::{Dtype, Literal};
    /// assert_eq!(Literal::exact_integer(Dtype::F64, 3), Some(Literal::f64(3.0)));
    /// assert_eq!(Literal::exact_integer(Dtype::F32, (1 << 24) + 1), None);
    /// assert_eq!(Literal::exact_integer(Dtype::U32, -1), None);
    /// ```
    pub fn exact_integer(dtype: Dtype, x: i128) -> Option<Literal> {
        let exact = match dtype {
            Dtype::F32 => (x as f32) as i128 == x,
            Dtype::F64 => (x as f64) as i128 == x,
            Dtype::Bool | Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64 => true,
        };
        if exact { Literal::rounded_integer(dtype, x) } else { None }
    }

    /// Returns the integer `x` in `dtype`, rounded if `dtype` is a float dtype. Returns `None` if an integer dtype
    /// does not contain that number.
    pub fn rounded_integer(dtype: Dtype, x: i128) -> Option<Literal> {
        let bits = match dtype {
            Dtype::Bool => u64::from(u8::try_from(x).ok().filter(|b| *b < 2)?),
            Dtype::I32 => u64::from(i32::try_from(x).ok()? as u32),
            Dtype::I64 => i64::try_from(x).ok()? as u64,
            Dtype::U32 => u64::from(u32::try_from(x).ok()?),
            Dtype::U64 => u64::try_from(x).ok()?,
            Dtype::F32 => u64::from((x as f32).to_bits()),
            Dtype::F64 => (x as f64).to_bits(),
        };
        Some(Literal { dtype, bits })
    }

    /// Returns the number 0 in `dtype` (`false` for bool).
    pub fn zero(dtype: Dtype) -> Literal {
        Literal { dtype, bits: 0 }
    }

    /// Returns the number 1 in `dtype` (`true` for bool).
    pub fn one(dtype: Dtype) -> Literal {
        Literal::of(dtype, 1.0)
    }

    /// Returns the value of an integer or a truth value; for a float, its bits as an unsigned number.
    pub(crate) fn to_i128(self) -> i128 {
        match self.dtype {
            Dtype::I32 => i128::from(self.bits as u32 as i32),
            Dtype::I64 => i128::from(self.bits as i64),
            Dtype::Bool | Dtype::U32 | Dtype::U64 | Dtype::F32 | Dtype::F64 => {
                i128::from(self.bits)
            }
        }
    }

    /// Returns the value of an integer or a truth value; `None` for a float.
    pub fn to_integer(self) -> Option<i128> {
        (!self.dtype.is_float()).then(|| self.to_i128())
    }

    /// Returns the value as f64 (rounded for 64-bit integers beyond 2^53).
    pub fn to_f64(self) -> f64 {
        match self.dtype {
            Dtype::Bool => f64::from(self.bits as u8),
            Dtype::I32 => f64::from(self.bits as u32 as i32),
            Dtype::I64 => self.bits as i64 as f64,
            Dtype::U32 => f64::from(self.bits as u32),
            Dtype::U64 => self.bits as f64,
            Dtype::F32 => f64::from(f32::from_bits(self.bits as u32)),
            Dtype::F64 => f64::from_bits(self.bits),
        }
    }

    /// Returns whether the constant is zero; -0.0 counts as zero.
    pub fn is_zero(self) -> bool {
        match self.dtype {
            Dtype::F32 | Dtype::F64 => self.to_f64() == 0.0,
            Dtype::Bool | Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64 => self.bits == 0,
        }
    }

    /// Returns whether the constant is the number 1, or `true`.
    pub fn is_one(self) -> bool {
        self == Literal::one(self.dtype)
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype {
            Dtype::Bool => write!(f, "{}", self.bits != 0),
            Dtype::I64 => write!(f, "{}", self.bits as i64),
            Dtype::I32 => write!(f, "{}i32", self.bits as u32 as i32),
            Dtype::U32 => write!(f, "{}u32", self.bits as u32),
            Dtype::U64 => write!(f, "{}u64", self.bits),
            Dtype::F64 if self.to_f64().is_finite() => write!(f, "{:?}", self.to_f64()),
            Dtype::F32 if self.to_f64().is_finite() => {
                write!(f, "{:?}f32", f32::from_bits(self.bits as u32))
            }
            Dtype::F64 => write!(f, "{:#x}f64", self.bits),
            Dtype::F32 => write!(f, "{:#x}f32", self.bits),
        }
    }
}

impl FromStr for Literal {
    type Err = Problem;

    /// Parses the text that [`Literal`] displays.
    fn from_str(text: &str) -> Result<Literal, Problem> {
        read(text).ok_or_else(|| {
            Problem::new(
                Kind::Parse,
                format!("`{text}` is not a literal"),
                "literals are `2.5`, `3`, `2.5f32`, `3u32`, `true`, `0x7ff8000000000000f64`",
            )
        })
    }
}

fn read(text: &str) -> Option<Literal> {
    if let Some(truth) = text.parse().ok().map(Literal::bool) {
        return Some(truth);
    }
    let suffix = Dtype::ALL.into_iter().find(|d| text.ends_with(d.name()));
    let number = text.strip_suffix(suffix.map_or("", Dtype::name))?;
    if let Some(hexadecimal) = number.strip_prefix("0x") {
        let dtype = suffix.filter(|d| d.is_float())?;
        let bits = u64::from_str_radix(hexadecimal, 16).ok()?;
        let fits = dtype == Dtype::F64 || u32::try_from(bits).is_ok();
        return fits.then_some(Literal { dtype, bits });
    }
    // Reject words such as `inf` and `nan` and a leading plus here: `parse` would accept them, but they are no
    // literals.
    let digits = number.strip_prefix('-').unwrap_or(number);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    match suffix {
        Some(Dtype::Bool) => None,
        Some(Dtype::F64) => number.parse().ok().map(Literal::f64),
        Some(Dtype::F32) => {
            let x: f32 = number.parse().ok()?;
            Some(Literal { dtype: Dtype::F32, bits: u64::from(x.to_bits()) })
        }
        Some(dtype) => Literal::exact_integer(dtype, number.parse().ok()?),
        None if number.contains(['.', 'e', 'E']) => number.parse().ok().map(Literal::f64),
        None => number.parse().ok().map(Literal::i64),
    }
}
