//! Scalar code: the operations that act on single elements, with their exact meaning.
//!
//! A [`Code`] is what is left of an elementwise primitive once shapes are gone. The interpreter
//! evaluates it here; code generators translate it and are tested against this file bit by bit. A
//! function that a machine has no instruction for is a [`Library`] entry: a pair of C-callable
//! functions, which the interpreter and generated code both call.

use super::sign::SignOf;
use crate::literal::Literal;
use crate::tensor::Element;
use crate::types::Dtype;
use bytemuck::Pod;

/// An operation on single elements.
#[derive(Clone, Copy, Debug)]
pub enum Code {
    /// `x + y`; integers wrap.
    Add,
    /// `x - y`; integers wrap.
    Sub,
    /// `x * y`; integers wrap.
    Mul,
    /// `x / y`; integers truncate towards zero, and division by zero gives -1 (all bits set), as in
    /// XLA; the least integer divided by -1 is itself.
    Div,
    /// Remainder with the sign of `x`; for integers, `x` where `y` is zero, as in XLA.
    Rem,
    /// `-x`; integers wrap.
    Neg,
    /// `|x|`; the least integer stays itself.
    Abs,
    /// -1, 0 or 1; keeps nan and the sign of zero.
    Sign,
    /// Largest integral value not above `x`.
    Floor,
    /// Smallest integral value not below `x`.
    Ceil,
    /// Square root.
    Sqrt,
    /// Larger of two; nan if either is; `max(-0, 0) = 0`. On bool: or.
    Max,
    /// Smaller of two; nan if either is; `min(-0, 0) = -0`. On bool: and.
    Min,
    /// `x == y`
    Eq,
    /// `x != y`
    Ne,
    /// `x < y`
    Lt,
    /// `x <= y`
    Le,
    /// `x > y`
    Gt,
    /// `x >= y`
    Ge,
    /// Bitwise (logical on bool) and.
    And,
    /// Bitwise (logical on bool) or.
    Or,
    /// Bitwise (logical on bool) exclusive or.
    Xor,
    /// Bitwise (logical on bool) not.
    Not,
    /// `x << y`; 0 where `y` is not below the number of bits.
    ShiftLeft,
    /// `x >> y` copying the sign bit whatever the dtype; shifts too far give all sign bits.
    ShiftRightArithmetic,
    /// `x >> y` filling with zeros; 0 where `y` is not below the number of bits.
    ShiftRightLogical,
    /// `min(max(x, lo), hi)` of `lo, x, hi`.
    Clamp,
    /// `c ? x : y` for a bool `c`.
    Select,
    /// Neither infinite nor nan.
    IsFinite,
    /// To another dtype: floats to integers saturate with nan to 0, integers wrap, bool is `x != 0`.
    Convert(Dtype),
    /// `x` to an integer power by repeated squaring; a negative power is the reciprocal.
    IntegerPow(i32),
    /// A function from the library.
    Library(Library),
}

/// A function that is called: its symbol and its two versions.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// Unique name; generated code links against it (with `_f64` or `_f32` appended).
    pub name: &'static str,
    /// What a call costs beside an addition, roughly: for the cost model.
    pub flops: u32,
    /// The sign of the result.
    pub sign: SignOf,
    /// What is called.
    pub function: LibraryFn,
}

/// The versions of a library function.
#[derive(Clone, Copy, Debug)]
pub enum LibraryFn {
    /// Of one argument.
    Unary {
        /// On f64.
        f64: extern "C" fn(f64) -> f64,
        /// On f32.
        f32: extern "C" fn(f32) -> f32,
    },
    /// Of two arguments.
    Binary {
        /// On f64.
        f64: extern "C" fn(f64, f64) -> f64,
        /// On f32.
        f32: extern "C" fn(f32, f32) -> f32,
    },
    /// Of a constant natural number and one argument.
    Indexed {
        /// The number.
        n: u32,
        /// On f64.
        f64: extern "C" fn(u32, f64) -> f64,
        /// On f32.
        f32: extern "C" fn(u32, f32) -> f32,
    },
}

impl Code {
    /// Whether the two operands may be exchanged.
    pub fn commutes(self) -> bool {
        match self {
            Code::Add
            | Code::Mul
            | Code::Max
            | Code::Min
            | Code::Eq
            | Code::Ne
            | Code::And
            | Code::Or
            | Code::Xor => true,
            Code::Sub
            | Code::Div
            | Code::Rem
            | Code::Neg
            | Code::Abs
            | Code::Sign
            | Code::Floor
            | Code::Ceil
            | Code::Sqrt
            | Code::Lt
            | Code::Le
            | Code::Gt
            | Code::Ge
            | Code::Not
            | Code::ShiftLeft
            | Code::ShiftRightArithmetic
            | Code::ShiftRightLogical
            | Code::Select
            | Code::Clamp
            | Code::IsFinite
            | Code::Convert(_)
            | Code::IntegerPow(_)
            | Code::Library(_) => false,
        }
    }

    /// The dtype of the result for operands of that dtype (of the last operand for a select).
    pub fn result(self, operand: Dtype) -> Dtype {
        match self {
            Code::Eq | Code::Ne | Code::Lt | Code::Le | Code::Gt | Code::Ge | Code::IsFinite => {
                Dtype::Bool
            }
            Code::Convert(to) => to,
            Code::Add
            | Code::Sub
            | Code::Mul
            | Code::Div
            | Code::Rem
            | Code::Neg
            | Code::Abs
            | Code::Sign
            | Code::Floor
            | Code::Ceil
            | Code::Sqrt
            | Code::Max
            | Code::Min
            | Code::And
            | Code::Or
            | Code::Xor
            | Code::Not
            | Code::ShiftLeft
            | Code::ShiftRightArithmetic
            | Code::ShiftRightLogical
            | Code::Clamp
            | Code::Select
            | Code::IntegerPow(_)
            | Code::Library(_) => operand,
        }
    }

    /// The value at concrete operands. Type inference has checked that the operation exists for
    /// their dtype; where it does not, the answer is zero.
    pub fn eval(self, x: &[Literal]) -> Literal {
        let Some(last) = x.last() else { return Literal::bool(false) };
        match (self, x) {
            (Code::Select, [c, t, f]) => {
                if c.bits != 0 {
                    *t
                } else {
                    *f
                }
            }
            (Code::Convert(to), [x]) => convert(*x, to),
            _ => match last.dtype {
                Dtype::Bool => Literal::bool(self.truth(x[0].bits != 0, last.bits != 0)),
                Dtype::I32 => self.of_literals::<i32>(x),
                Dtype::I64 => self.of_literals::<i64>(x),
                Dtype::U32 => self.of_literals::<u32>(x),
                Dtype::U64 => self.of_literals::<u64>(x),
                Dtype::F32 => self.of_literals::<f32>(x),
                Dtype::F64 => self.of_literals::<f64>(x),
            },
        }
    }

    fn of_literals<T: Number>(self, x: &[Literal]) -> Literal {
        let at = |i: usize| T::read(x[i.min(x.len() - 1)]);
        match T::apply(self, [at(0), at(1), at(2)]) {
            Value::Number(y) => y.write(),
            Value::Truth(y) => Literal::bool(y),
        }
    }

    fn truth(self, a: bool, b: bool) -> bool {
        match self {
            Code::Eq => a == b,
            Code::Ne | Code::Xor => a != b,
            Code::Lt => !a & b,
            Code::Le => !a | b,
            Code::Gt => a & !b,
            Code::Ge => a | !b,
            Code::And | Code::Min | Code::Mul => a & b,
            Code::Or | Code::Max | Code::Add => a | b,
            Code::Not => !a,
            Code::Sub
            | Code::Div
            | Code::Rem
            | Code::Neg
            | Code::Abs
            | Code::Sign
            | Code::Floor
            | Code::Ceil
            | Code::Sqrt
            | Code::ShiftLeft
            | Code::ShiftRightArithmetic
            | Code::ShiftRightLogical
            | Code::Select
            | Code::Clamp
            | Code::IsFinite
            | Code::Convert(_)
            | Code::IntegerPow(_)
            | Code::Library(_) => false,
        }
    }
}

/// What an operation on numbers gives.
pub(crate) enum Value<T> {
    /// A number of the same dtype.
    Number(T),
    /// A truth value.
    Truth(bool),
}

/// A Rust type whose arithmetic is that of a dtype.
pub(crate) trait Number: Element<Stored = Self> + Pod {
    /// From a literal of that dtype.
    fn read(x: Literal) -> Self;
    /// To a literal of that dtype.
    fn write(self) -> Literal;
    /// The operation on up to three operands; operands that it does not have are ignored. (Not for
    /// [`Code::Select`] and [`Code::Convert`], whose operands and result differ in dtype.)
    fn apply(code: Code, x: [Self; 3]) -> Value<Self>;
}

/// Arithmetic of integers.
fn integer<T: Int>(code: Code, [a, b, c]: [T; 3]) -> Value<T> {
    Value::Number(match code {
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
        Code::IntegerPow(n) => integer_pow(a, n, T::ONE, T::wrapping_mul, |x| T::ONE.div(x)),
        Code::Eq => return Value::Truth(a == b),
        Code::Ne => return Value::Truth(a != b),
        Code::Lt => return Value::Truth(a < b),
        Code::Le => return Value::Truth(a <= b),
        Code::Gt => return Value::Truth(a > b),
        Code::Ge => return Value::Truth(a >= b),
        Code::Floor
        | Code::Ceil
        | Code::Sqrt
        | Code::IsFinite
        | Code::Select
        | Code::Convert(_)
        | Code::Library(_) => T::ZERO,
    })
}

/// Arithmetic of floats.
fn float<T: Float>(code: Code, [a, b, c]: [T; 3]) -> Value<T> {
    Value::Number(match code {
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
        Code::IntegerPow(n) => integer_pow(a, n, T::ONE, |x, y| x * y, |x| T::ONE / x),
        Code::Library(l) => T::library(l, a, b),
        Code::Eq => return Value::Truth(a == b),
        Code::Ne => return Value::Truth(a != b),
        Code::Lt => return Value::Truth(a < b),
        Code::Le => return Value::Truth(a <= b),
        Code::Gt => return Value::Truth(a > b),
        Code::Ge => return Value::Truth(a >= b),
        Code::IsFinite => return Value::Truth(a.is_finite()),
        Code::And
        | Code::Or
        | Code::Xor
        | Code::Not
        | Code::ShiftLeft
        | Code::ShiftRightArithmetic
        | Code::ShiftRightLogical
        | Code::Select
        | Code::Convert(_) => T::ZERO,
    })
}

/// `x^n` by repeated squaring, low bits of `n` first: the order in which code generators multiply.
fn integer_pow<T: Copy>(
    x: T,
    n: i32,
    one: T,
    mul: impl Fn(T, T) -> T,
    recip: impl Fn(T) -> T,
) -> T {
    let mut left = n.unsigned_abs();
    let mut square = x;
    let mut product: Option<T> = None;
    while left > 0 {
        if left & 1 == 1 {
            product = Some(product.map_or(square, |p| mul(p, square)));
        }
        left >>= 1;
        if left > 0 {
            square = mul(square, square);
        }
    }
    let power = product.unwrap_or(one);
    if n < 0 { recip(power) } else { power }
}

/// Conversion between dtypes.
fn convert(x: Literal, to: Dtype) -> Literal {
    if x.dtype.is_float() || to == Dtype::F64 || to == Dtype::Bool || to == x.dtype {
        if x.dtype == to {
            return x;
        }
        if to == Dtype::Bool && !x.dtype.is_float() {
            return Literal::bool(x.bits != 0);
        }
        return Literal::of(to, x.to_f64());
    }
    // From an integer or bool: sign-extend to 64 bits, then cut or round.
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

/// Integer arithmetic as the language defines it.
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
}

macro_rules! ints {
    ($($t:ident, $signed:ident, $unsigned:ident, $dtype:ident);*) => {$(
        impl Number for $t {
            fn read(x: Literal) -> $t { x.bits as $t }
            fn write(self) -> Literal { Literal { dtype: Dtype::$dtype, bits: u64::from(self as $unsigned) } }
            fn apply(code: Code, x: [$t; 3]) -> Value<$t> { integer(code, x) }
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

/// Float arithmetic as the language defines it.
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
    fn library(l: Library, x: Self, y: Self) -> Self;
}

macro_rules! floats {
    ($($t:ident, $dtype:ident);*) => {$(
        impl Number for $t {
            fn read(x: Literal) -> $t { $t::from_bits(x.bits as _) }
            fn write(self) -> Literal { Literal { dtype: Dtype::$dtype, bits: u64::from(self.to_bits()) } }
            fn apply(code: Code, x: [$t; 3]) -> Value<$t> { float(code, x) }
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
            fn library(l: Library, x: $t, y: $t) -> $t {
                match l.function {
                    LibraryFn::Unary { $t, .. } => $t(x),
                    LibraryFn::Binary { $t, .. } => $t(x, y),
                    LibraryFn::Indexed { n, $t, .. } => $t(n, x),
                }
            }
        }
    )*};
}
floats!(f32, F32; f64, F64);

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(code: Code, dtype: Dtype, x: &[i128]) -> i128 {
        let x: Vec<Literal> =
            x.iter().filter_map(|x| Literal::rounded_integer(dtype, *x)).collect();
        let y = code.eval(&x);
        match y.dtype {
            Dtype::I32 => i128::from(y.bits as u32 as i32),
            Dtype::I64 => i128::from(y.bits as i64),
            _ => i128::from(y.bits),
        }
    }

    fn floats(code: Code, x: &[f64]) -> f64 {
        let x: Vec<Literal> = x.iter().map(|x| Literal::f64(*x)).collect();
        code.eval(&x).to_f64()
    }

    fn same(a: f64, b: f64) -> bool {
        a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
    }

    const MIN: i128 = i32::MIN as i128;
    const MAX: i128 = i32::MAX as i128;

    #[test]
    fn integers_wrap() {
        use Dtype::{I32, I64, U32, U64};
        for (code, dtype, x, want) in [
            (Code::Add, I32, &[MAX, 1][..], MIN),
            (Code::Sub, I32, &[MIN, 1], MAX),
            (Code::Sub, U32, &[0, 1], 0xffff_ffff),
            (Code::Mul, I32, &[1 << 20, 1 << 12], 0),
            (Code::Mul, U64, &[1 << 63, 3], 1 << 63),
            (Code::Neg, I32, &[MIN], MIN),
            (Code::Abs, I32, &[MIN], MIN),
            (Code::Abs, I64, &[-7], 7),
            (Code::Sign, I32, &[-7], -1),
            (Code::Sign, U32, &[7], 1),
            (Code::Max, U32, &[0xffff_ffff, 1], 0xffff_ffff),
            (Code::Clamp, I32, &[-2, -7, 5], -2),
            (Code::Clamp, I32, &[2, 0, 1], 1),
        ] {
            assert_eq!(ints(code, dtype, x), want, "{code:?} of {x:?}");
        }
    }

    #[test]
    fn integer_division_has_no_traps() {
        use Dtype::{I32, U32};
        for (code, dtype, x, want) in [
            (Code::Div, I32, [-7, 2], -3),
            (Code::Rem, I32, [-7, 2], -1),
            (Code::Div, I32, [7, 0], -1),
            (Code::Div, U32, [7, 0], 0xffff_ffff),
            (Code::Rem, I32, [7, 0], 7),
            (Code::Div, I32, [MIN, -1], MIN),
            (Code::Rem, I32, [MIN, -1], 0),
        ] {
            assert_eq!(ints(code, dtype, &x), want, "{code:?} of {x:?}");
        }
    }

    #[test]
    fn shifts_too_far_shift_everything_out() {
        use Dtype::{I32, U32, U64};
        for (code, dtype, x, want) in [
            (Code::ShiftLeft, I32, [1, 31], MIN),
            (Code::ShiftLeft, I32, [1, 32], 0),
            (Code::ShiftLeft, I32, [1, -1], 0),
            (Code::ShiftRightLogical, I32, [-1, 31], 1),
            (Code::ShiftRightLogical, I32, [-1, 32], 0),
            (Code::ShiftRightArithmetic, I32, [-8, 1], -4),
            (Code::ShiftRightArithmetic, I32, [-8, 32], -1),
            (Code::ShiftRightArithmetic, I32, [8, 99], 0),
            (Code::ShiftRightArithmetic, U32, [0x8000_0000, 31], 0xffff_ffff),
            (Code::ShiftLeft, U64, [1, 63], 1 << 63),
        ] {
            assert_eq!(ints(code, dtype, &x), want, "{code:?} of {x:?}");
        }
    }

    #[test]
    fn bits_and_truth() {
        assert_eq!(ints(Code::And, Dtype::I32, &[12, 10]), 8);
        assert_eq!(ints(Code::Or, Dtype::I32, &[12, 10]), 14);
        assert_eq!(ints(Code::Xor, Dtype::I32, &[12, 10]), 6);
        assert_eq!(ints(Code::Not, Dtype::I32, &[0]), -1);
        assert_eq!(ints(Code::Not, Dtype::U32, &[0]), 0xffff_ffff);
        for (a, b) in [(false, false), (false, true), (true, false), (true, true)] {
            let of = |code: Code| code.eval(&[Literal::bool(a), Literal::bool(b)]).bits != 0;
            assert_eq!(of(Code::And), a && b);
            assert_eq!(of(Code::Or), a || b);
            assert_eq!(of(Code::Xor), a != b);
            assert_eq!(of(Code::Lt), !a && b);
            assert_eq!(of(Code::Ge), a || !b);
            assert_eq!(of(Code::Max), a || b);
            assert_eq!(of(Code::Min), a && b);
            assert_eq!(Code::Not.eval(&[Literal::bool(a)]), Literal::bool(!a));
        }
    }

    #[test]
    fn unsigned_numbers_compare_as_such() {
        assert_eq!(ints(Code::Lt, Dtype::U32, &[1, 0xffff_ffff]), 1);
        assert_eq!(ints(Code::Lt, Dtype::I32, &[1, -1]), 0);
    }

    /// The order of [`Code::Max`] and [`Code::Min`] is total, with -0 below 0; nan is passed on.
    #[test]
    fn extremes() {
        let ascending =
            [f64::NEG_INFINITY, f64::MIN, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, f64::INFINITY];
        for (i, &x) in ascending.iter().enumerate() {
            for (j, &y) in ascending.iter().enumerate() {
                let (low, high) = if i < j { (x, y) } else { (y, x) };
                assert!(same(floats(Code::Max, &[x, y]), high), "max({x}, {y})");
                assert!(same(floats(Code::Min, &[x, y]), low), "min({x}, {y})");
            }
            for code in [Code::Max, Code::Min] {
                assert!(floats(code, &[x, f64::NAN]).is_nan());
                assert!(floats(code, &[f64::NAN, x]).is_nan());
            }
        }
    }

    #[test]
    fn remainders_have_the_sign_of_the_dividend() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        for (x, y, want) in [
            (7.0, 3.0, 1.0),
            (-7.0, 3.0, -1.0),
            (7.0, -3.0, 1.0),
            (-6.0, 3.0, -0.0),
            (5.5, 2.25, 1.0),
            (1.0, 0.0, nan),
            (inf, 2.0, nan),
            (-2.0, inf, -2.0),
            (2.0_f64.powi(1000), 3.0, 1.0), // 2¹⁰⁰⁰ mod 3: exact however far apart
        ] {
            assert!(same(floats(Code::Rem, &[x, y]), want), "{x} rem {y}");
        }
    }

    #[test]
    fn signs_keep_zeros_and_nan() {
        for (x, want) in
            [(3.0, 1.0), (-5e-324, -1.0), (0.0, 0.0), (-0.0, -0.0), (f64::NAN, f64::NAN)]
        {
            assert!(same(floats(Code::Sign, &[x]), want), "sign {x}");
        }
    }

    #[test]
    fn integer_powers() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        for (x, n, want) in [
            (nan, 0, 1.0),
            (-0.0, 1, -0.0),
            (-3.0, 7, -2187.0),
            (-3.0, 30, 205_891_132_094_649.0),
            (2.0, -2, 0.25),
            (-0.0, -1, -inf),
            (1e-200, 3, 0.0),
            (1e-200, -2, inf),
            (1e150, 2, 1e150 * 1e150), // not squared once more than needed: no stray 0 · inf
            (-1.0, i32::MIN, 1.0),
            (-1.0, i32::MAX, -1.0),
            (0.5, i32::MIN, inf),
        ] {
            assert!(same(floats(Code::IntegerPow(n), &[x]), want), "{x}^{n}");
        }
        for n in -20..=20 {
            for k in 1..24 {
                let x = 0.13 * f64::from(k) - 1.5;
                let (got, want) = (floats(Code::IntegerPow(n), &[x]), x.powf(f64::from(n)));
                // Each product rounds once.
                let bound = 2.3e-16 * (f64::from(n).abs() + 2.0);
                assert!((got / want - 1.0).abs() <= bound, "{x}^{n}: {got}, expected {want}");
            }
        }
        assert_eq!(ints(Code::IntegerPow(21), Dtype::I32, &[3]), 10_460_353_203_i64 as i32 as i128);
        assert_eq!(ints(Code::IntegerPow(32), Dtype::I32, &[2]), 0);
        assert_eq!(ints(Code::IntegerPow(5), Dtype::I64, &[-7]), -16_807);
    }

    #[test]
    fn conversions() {
        use Dtype::{Bool, F32, F64, I32, I64, U32, U64};
        let int = |dtype: Dtype, x: i128| {
            Literal::rounded_integer(dtype, x).unwrap_or(Literal::zero(dtype))
        };
        let real = Literal::f64;
        for (x, want) in [
            (real(2.9), int(I32, 2)),
            (real(-2.9), int(I32, -2)),
            (real(1e20), int(I32, MAX)),
            (real(-1.0), int(U64, 0)),
            (real(f64::NAN), int(I64, 0)),
            (real(f64::NAN), Literal::bool(true)),
            (real(-0.0), Literal::bool(false)),
            (real(0.1), Literal::of(F32, 0.1)),
            (Literal::of(F32, 0.1), real(f64::from(0.1f32))),
            (int(I64, (1 << 32) + 5), int(I32, 5)),
            (int(I32, -1), int(U64, 0xffff_ffff_ffff_ffff)),
            (int(U32, 0xffff_ffff), int(I32, -1)),
            (int(U32, 0xffff_ffff), int(I64, 0xffff_ffff)),
            (int(I64, -3), Literal::bool(true)),
            (Literal::bool(true), int(I32, 1)),
            (Literal::bool(true), real(1.0)),
            // Rounded once, to nearest even, also where f64 cannot hold the integer.
            (
                int(U64, (1 << 62) + (1 << 38) + 1),
                Literal::of(F32, (1u64 << 62) as f64 + (1u64 << 39) as f64),
            ),
            (int(I64, -((1 << 24) + 1)), Literal::of(F32, -f64::from(1 << 24))),
        ] {
            assert_eq!(Code::Convert(want.dtype).eval(&[x]), want, "{x} to {}", want.dtype);
        }
        assert_eq!(Code::Convert(F64).result(Bool), F64);
    }
}
