//! Scalar code: the operations that act on single elements, with their exact meaning.
//!
//! A [`Code`] is what is left of an elementwise primitive once shapes are gone. The interpreter
//! evaluates it here; code generators translate it and are tested against this file bit by bit. A
//! function that a machine has no instruction for is a [`Library`] entry: a pair of C-callable
//! functions, which the interpreter and generated code both call.

use crate::literal::Literal;
use crate::types::Dtype;

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
            (Code::Clamp, [lo, x, hi]) => Code::Min.eval(&[Code::Max.eval(&[*x, *lo]), *hi]),
            (Code::Convert(to), [x]) => convert(*x, to),
            _ => match last.dtype {
                Dtype::Bool => self.eval_bool(x),
                Dtype::I32 => self.eval_int::<i32>(x),
                Dtype::I64 => self.eval_int::<i64>(x),
                Dtype::U32 => self.eval_int::<u32>(x),
                Dtype::U64 => self.eval_int::<u64>(x),
                Dtype::F32 => self.eval_float::<f32>(x),
                Dtype::F64 => self.eval_float::<f64>(x),
            },
        }
    }

    fn eval_bool(self, x: &[Literal]) -> Literal {
        let (a, b) = (x[0].bits != 0, x[x.len() - 1].bits != 0);
        Literal::bool(match self {
            Code::Eq => a == b,
            Code::Ne | Code::Xor => a != b,
            Code::Lt => !a & b,
            Code::Le => !a | b,
            Code::Gt => a & !b,
            Code::Ge => a | !b,
            Code::And | Code::Min | Code::Mul => a & b,
            Code::Or | Code::Max | Code::Add => a | b,
            Code::Not => !a,
            _ => false,
        })
    }

    fn eval_int<T: Int>(self, x: &[Literal]) -> Literal {
        let (a, b) = (T::read(x[0]), T::read(x[x.len() - 1]));
        let value = match self {
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
            Code::And => a.and(b),
            Code::Or => a.or(b),
            Code::Xor => a.xor(b),
            Code::Not => a.not(),
            Code::ShiftLeft => a.shl(b),
            Code::ShiftRightArithmetic => a.sar(b),
            Code::ShiftRightLogical => a.shr(b),
            Code::IntegerPow(n) => integer_pow(a, n, T::ONE, T::wrapping_mul, |x| T::ONE.div(x)),
            Code::Eq => return Literal::bool(a == b),
            Code::Ne => return Literal::bool(a != b),
            Code::Lt => return Literal::bool(a < b),
            Code::Le => return Literal::bool(a <= b),
            Code::Gt => return Literal::bool(a > b),
            Code::Ge => return Literal::bool(a >= b),
            _ => T::ZERO,
        };
        value.write()
    }

    fn eval_float<T: Float>(self, x: &[Literal]) -> Literal {
        let (a, b) = (T::read(x[0]), T::read(x[x.len() - 1]));
        let value = match self {
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
            Code::IntegerPow(n) => integer_pow(a, n, T::ONE, |x, y| x * y, |x| T::ONE / x),
            Code::Library(l) => T::library(l, a, b),
            Code::Eq => return Literal::bool(a == b),
            Code::Ne => return Literal::bool(a != b),
            Code::Lt => return Literal::bool(a < b),
            Code::Le => return Literal::bool(a <= b),
            Code::Gt => return Literal::bool(a > b),
            Code::Ge => return Literal::bool(a >= b),
            Code::IsFinite => return Literal::bool(a.is_finite()),
            _ => T::ZERO,
        };
        value.write()
    }
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
    fn read(x: Literal) -> Self;
    fn write(self) -> Literal;
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
        impl Int for $t {
            const ZERO: $t = 0;
            const ONE: $t = 1;
            fn read(x: Literal) -> $t { x.bits as $t }
            fn write(self) -> Literal { Literal { dtype: Dtype::$dtype, bits: u64::from(self as $unsigned) } }
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
    fn read(x: Literal) -> Self;
    fn write(self) -> Literal;
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
        impl Float for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            fn read(x: Literal) -> $t { $t::from_bits(x.bits as _) }
            fn write(self) -> Literal { Literal { dtype: Dtype::$dtype, bits: u64::from(self.to_bits()) } }
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
                    LibraryFn::Indexed { n, $t, .. } => $t(n, y),
                }
            }
        }
    )*};
}
floats!(f32, F32; f64, F64);
