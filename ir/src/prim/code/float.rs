//! The interpreter's scalar operations (codes) on floats.

use super::{Code, Library, LibraryFn, Number, Outcome, power};
use crate::lang::literal::Literal;
use crate::lang::types::Dtype;

/// Evaluates the scalar operation `code` on floats.
fn float<T: Float>(code: Code, [a, b, c]: [T; 3]) -> Outcome<T> {
    Outcome::Number(match code {
        Code::Add => a + b,
        Code::Sub => a - b,
        Code::Mul => a * b,
        Code::Div => a / b,
        Code::Rem => a % b,
        Code::Neg => -a,
        Code::Abs => a.abs(),
        Code::Sign => a.sign(),
        Code::Floor => a.floor(),
        Code::Ceil => a.ceil(),
        Code::Sqrt => a.sqrt(),
        Code::Max => a.maximum(b),
        Code::Min => a.minimum(b),
        Code::Clamp => b.maximum(a).minimum(c),
        Code::IntegerPow(n) => {
            let power = power(a, n.unsigned_abs(), |x, y| x * y).unwrap_or(T::ONE);
            if n < 0 { T::ONE / power } else { power }
        }
        Code::Library(l) => T::library(l, [a, b, c]),
        Code::Eq => return Outcome::Truth(a == b),
        Code::Ne => return Outcome::Truth(a != b),
        Code::Lt => return Outcome::Truth(a < b),
        Code::Le => return Outcome::Truth(a <= b),
        Code::Gt => return Outcome::Truth(a > b),
        Code::Ge => return Outcome::Truth(a >= b),
        Code::IsFinite => return Outcome::Truth(a.is_finite()),
        Code::And
        | Code::Or
        | Code::Xor
        | Code::Not
        | Code::ShiftLeft
        | Code::ShiftRightArithmetic
        | Code::ShiftRightLogical
        | Code::RandomBits
        | Code::Select
        | Code::Convert(_)
        | Code::Bitcast(_) => T::ZERO,
    })
}

/// The float operations of the interpreter. They define the results of the language's operations on floats.
trait Float:
    Copy
    + PartialOrd
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Rem<Output = Self>
    + std::ops::Neg<Output = Self>
{
    const ZERO: Self;
    const ONE: Self;
    fn abs(self) -> Self;
    fn sign(self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn sqrt(self) -> Self;
    fn maximum(self, y: Self) -> Self;
    fn minimum(self, y: Self) -> Self;
    fn is_finite(self) -> bool;
    fn library(l: Library, x: [Self; 3]) -> Self;
}

macro_rules! floats {
    ($($t:ident, $dtype:ident);*) => {$(
        impl Number for $t {
            fn read(x: Literal) -> $t { $t::from_bits(x.bits as _) }
            fn write(self) -> Literal { Literal { dtype: Dtype::$dtype, bits: u64::from(self.to_bits()) } }
            fn apply(code: Code, x: [$t; 3]) -> Outcome<$t> { float(code, x) }
        }
        impl Float for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            fn abs(self) -> $t { self.abs() }
            fn sign(self) -> $t {
                if self > 0.0 { 1.0 } else if self < 0.0 { -1.0 } else { self }
            }
            fn floor(self) -> $t { self.floor() }
            fn ceil(self) -> $t { self.ceil() }
            fn sqrt(self) -> $t { self.sqrt() }
            fn maximum(self, y: $t) -> $t {
                if self.is_nan() { return self; }
                if y.is_nan() { return y; }
                if self == y { return if self.is_sign_negative() { y } else { self }; }
                if self > y { self } else { y }
            }
            fn minimum(self, y: $t) -> $t {
                if self.is_nan() { return self; }
                if y.is_nan() { return y; }
                if self == y { return if self.is_sign_negative() { self } else { y }; }
                if self < y { self } else { y }
            }
            fn is_finite(self) -> bool { self.is_finite() }
            fn library(l: Library, [x, y, z]: [$t; 3]) -> $t {
                match l.function {
                    LibraryFn::Unary { $t, .. } => $t(x),
                    LibraryFn::Binary { $t, .. } => $t(x, y),
                    LibraryFn::Ternary { $t, .. } => $t(x, y, z),
                    LibraryFn::Indexed { n, $t, .. } => $t(n, x),
                }
            }
        }
    )*};
}
floats!(f32, F32; f64, F64);
