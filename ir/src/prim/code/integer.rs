//! The interpreter's scalar operations (codes) on integers.

use super::threefry;
use super::{Code, Number, Outcome, power};
use crate::lang::literal::Literal;
use crate::lang::types::Dtype;

/// Evaluates the scalar operation `code` on integers.
fn integer<T: Int>(code: Code, [a, b, c]: [T; 3]) -> Outcome<T> {
    Outcome::Number(match code {
        Code::Add => a.wrapping_add(b),
        Code::Sub => a.wrapping_sub(b),
        Code::Mul => a.wrapping_mul(b),
        Code::Div => a.div(b),
        Code::Rem => a.rem(b),
        Code::Neg => T::ZERO.wrapping_sub(a),
        Code::Abs if a < T::ZERO => T::ZERO.wrapping_sub(a),
        Code::Abs => a,
        Code::Sign => a.signum(),
        Code::Max => a.max(b),
        Code::Min => a.min(b),
        Code::Clamp => b.max(a).min(c),
        Code::And => a.and(b),
        Code::Or => a.or(b),
        Code::Xor => a.xor(b),
        Code::Not => a.not(),
        Code::ShiftLeft => a.shl(b),
        Code::ShiftRightArithmetic => a.sar(b),
        Code::ShiftRightLogical => a.shr(b),
        Code::RandomBits => a.random_bits(b),
        Code::IntegerPow(n) => {
            let power = power(a, n.unsigned_abs(), T::wrapping_mul).unwrap_or(T::ONE);
            if n < 0 { T::ONE.div(power) } else { power }
        }
        Code::Eq => return Outcome::Truth(a == b),
        Code::Ne => return Outcome::Truth(a != b),
        Code::Lt => return Outcome::Truth(a < b),
        Code::Le => return Outcome::Truth(a <= b),
        Code::Gt => return Outcome::Truth(a > b),
        Code::Ge => return Outcome::Truth(a >= b),
        Code::Floor
        | Code::Ceil
        | Code::Sqrt
        | Code::IsFinite
        | Code::Select
        | Code::Convert(_)
        | Code::Bitcast(_)
        | Code::Library(_) => T::ZERO,
    })
}

/// The integer operations of the interpreter. They define the results of the language's operations on integers.
trait Int: Copy + Ord {
    const ZERO: Self;
    const ONE: Self;
    fn wrapping_add(self, y: Self) -> Self;
    fn wrapping_sub(self, y: Self) -> Self;
    fn wrapping_mul(self, y: Self) -> Self;
    fn div(self, y: Self) -> Self;
    fn rem(self, y: Self) -> Self;
    fn signum(self) -> Self;
    fn and(self, y: Self) -> Self;
    fn or(self, y: Self) -> Self;
    fn xor(self, y: Self) -> Self;
    fn not(self) -> Self;
    fn shl(self, y: Self) -> Self;
    fn sar(self, y: Self) -> Self;
    fn shr(self, y: Self) -> Self;
    fn random_bits(self, counter: Self) -> Self;
}

macro_rules! ints {
    ($($t:ident, $signed:ident, $unsigned:ident, $dtype:ident);*) => {$(
        impl Number for $t {
            fn read(x: Literal) -> $t { x.bits as $t }
            fn write(self) -> Literal { Literal { dtype: Dtype::$dtype, bits: u64::from(self as $unsigned) } }
            fn apply(code: Code, x: [$t; 3]) -> Outcome<$t> { integer(code, x) }
        }
        impl Int for $t {
            const ZERO: $t = 0;
            const ONE: $t = 1;
            fn wrapping_add(self, y: $t) -> $t { self.wrapping_add(y) }
            fn wrapping_sub(self, y: $t) -> $t { self.wrapping_sub(y) }
            fn wrapping_mul(self, y: $t) -> $t { self.wrapping_mul(y) }
            fn div(self, y: $t) -> $t { if y == 0 { !0 } else { self.wrapping_div(y) } }
            fn rem(self, y: $t) -> $t { if y == 0 { self } else { self.wrapping_rem(y) } }
            fn signum(self) -> $t { $t::from(self > 0).wrapping_sub($t::from(self < Self::ZERO)) }
            fn and(self, y: $t) -> $t { self & y }
            fn or(self, y: $t) -> $t { self | y }
            fn random_bits(self, counter: $t) -> $t {
                threefry::random_bits(self as u64, counter as u64) as $t
            }
            fn xor(self, y: $t) -> $t { self ^ y }
            fn not(self) -> $t { !self }
            fn shl(self, y: $t) -> $t {
                if (y as $unsigned) < $t::BITS as $unsigned { self << y } else { 0 }
            }
            fn sar(self, y: $t) -> $t {
                let by = (y as $unsigned).min($t::BITS as $unsigned - 1);
                ((self as $signed) >> by) as $t
            }
            fn shr(self, y: $t) -> $t {
                if (y as $unsigned) < $t::BITS as $unsigned { ((self as $unsigned) >> y) as $t } else { 0 }
            }
        }
    )*};
}
ints!(i32, i32, u32, I32; i64, i64, u64, I64; u32, i32, u32, U32; u64, i64, u64, U64);
