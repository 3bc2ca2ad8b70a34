//! Scalar code: the operations that act on single elements, one row each.
//!
//! A [`Code`] is the scalar operation of an elementwise primitive, without shapes. Its properties (name,
//! operands, fold, cost) are its [`CodeRow`] in the table below. Its meaning is [`Code::eval`], against which
//! code generators are tested bit by bit. To add a code, write a row. The compiler then reports the matches
//! without an arm: the arithmetic of each kind of dtype, signs, and instructions in the backend.
//!
//! ```
//! use tapeloom_ir::{Code, Dtype};
//! assert_eq!(Code::Lt.row().name, "lt");
//! assert_eq!(Code::Lt.typed(&[Dtype::I32, Dtype::I32]), Some(Dtype::Bool));
//! assert_eq!(Code::Lt.typed(&[Dtype::I32]), None);
//! ```

mod convert;
mod eval;
mod float;
mod integer;
mod library;
mod power;
mod stablehlo;
mod table;
mod text;
mod threefry;

pub(crate) use eval::{Number, Outcome};
pub use library::{Library, LibraryFn};
pub use power::power;
pub use stablehlo::{Formula, StableHlo};
pub use table::{
    CodeRow, Continuity, Domain, Fold, Neutral, OperandDtypes, Parameter, ResultDtype,
};
pub use threefry::{Words, threefry2x32};

use crate::lang::types::Dtype;
use Continuity::{Continuous, Jumps};
use Domain::{Any, Bits, Float, Integer, Number as Numbers, Wide};
use Fold::{Exact, No, Rounded};
use Neutral::{Greatest, Least, One, Ones, Zero};
use OperandDtypes::{Choice, Equal};
use ResultDtype::{Same, Truth};

/// Defines the enum [`Code`] of scalar machine operations from its table: the variants with their meaning, and the
/// properties of each.
macro_rules! codes {
    (
        $($(#[$doc:meta])* $code:ident = $name:literal, $($column:expr),*;)*
        ---
        $($(#[$doc2:meta])* $code2:ident($x:ident: $of:ty) = $($column2:expr),*;)*
    ) => {
        /// A scalar operation: the operation of an elementwise primitive on single elements.
        #[derive(Clone, Copy, Hash, Debug)]
        pub enum Code {
            $($(#[$doc])* $code,)*
            $($(#[$doc2])* $code2($of),)*
        }

        impl Code {
            /// All codes without a parameter.
            pub const PLAIN: &'static [Code] = &[$(Code::$code,)*];

            /// Returns the properties of this operation: its row of the table of codes.
            pub const fn row(self) -> CodeRow {
                match self {
                    $(Code::$code => CodeRow::new($name, None, $($column),*),)*
                    $(Code::$code2($x) => CodeRow::new($($column2),*),)*
                }
            }
        }
    };
}

codes! {
    // Columns: name, operands, dtypes of the operands, dtype of the result, whether the operands commute, fold,
    // cost relative to an addition, continuity on floats, library function for floats.

    /// `x + y`; integers wrap. On bools it is the logical or.
    Add = "add", Equal(2), Any, Same, true, Rounded(Zero), 1, Continuous, None;
    /// `x - y`; integers wrap.
    Sub = "sub", Equal(2), Numbers, Same, false, No, 1, Continuous, None;
    /// `x * y`; integers wrap. On bools it is the logical and.
    Mul = "mul", Equal(2), Any, Same, true, Rounded(One), 1, Continuous, None;
    /// `x / y`; integers truncate towards zero, and division by zero gives -1 (all bits set), as in
    /// XLA; the least integer divided by -1 is itself.
    Div = "div", Equal(2), Numbers, Same, false, No, 4, Continuous, None;
    /// The remainder of `x / y`, with the sign of `x`; for integers, `x` where `y` is zero, as in XLA.
    Rem = "rem", Equal(2), Numbers, Same, false, No, 8, Jumps, Some(library::REM);
    /// `-x`; integers wrap.
    Neg = "neg", Equal(1), Numbers, Same, false, No, 1, Continuous, None;
    /// `|x|`; the least integer stays itself.
    Abs = "abs", Equal(1), Numbers, Same, false, No, 1, Continuous, None;
    /// -1, 0 or 1; NaN and zeros of either sign are returned unchanged.
    Sign = "sign", Equal(1), Numbers, Same, false, No, 2, Jumps, None;
    /// The largest integral value not above `x`.
    Floor = "floor", Equal(1), Float, Same, false, No, 1, Jumps, None;
    /// The smallest integral value not below `x`.
    Ceil = "ceil", Equal(1), Float, Same, false, No, 1, Jumps, None;
    /// The square root of `x`.
    Sqrt = "sqrt", Equal(1), Float, Same, false, No, 5, Continuous, None;
    /// The larger of `x` and `y`, and nan if one of them is nan. `max(-0, 0)` is 0. On bools it is the logical or.
    Max = "max", Equal(2), Any, Same, true, Exact(Least), 1, Continuous, None;
    /// The smaller of `x` and `y`, and nan if one of them is nan. `min(-0, 0)` is -0. On bools it is the logical and.
    Min = "min", Equal(2), Any, Same, true, Exact(Greatest), 1, Continuous, None;
    /// `x == y`
    Eq = "eq", Equal(2), Any, Truth, true, No, 1, Jumps, None;
    /// `x != y`
    Ne = "ne", Equal(2), Any, Truth, true, No, 1, Jumps, None;
    /// `x < y`
    Lt = "lt", Equal(2), Any, Truth, false, No, 1, Jumps, None;
    /// `x <= y`
    Le = "le", Equal(2), Any, Truth, false, No, 1, Jumps, None;
    /// `x > y`
    Gt = "gt", Equal(2), Any, Truth, false, No, 1, Jumps, None;
    /// `x >= y`
    Ge = "ge", Equal(2), Any, Truth, false, No, 1, Jumps, None;
    /// `x and y`, bitwise; logical on bool.
    And = "and", Equal(2), Bits, Same, true, Exact(Ones), 1, Jumps, None;
    /// `x or y`, bitwise; logical on bool.
    Or = "or", Equal(2), Bits, Same, true, Exact(Zero), 1, Jumps, None;
    /// `x xor y`, bitwise; logical on bool.
    Xor = "xor", Equal(2), Bits, Same, true, Exact(Zero), 1, Jumps, None;
    /// `not x`, bitwise; logical on bool.
    Not = "not", Equal(1), Bits, Same, false, No, 1, Jumps, None;
    /// `x << y`. If `y` is not below the number of bits, the result is 0.
    ShiftLeft = "shift_left", Equal(2), Integer, Same, false, No, 1, Jumps, None;
    /// `x >> y`, filled with copies of the top bit, for unsigned dtypes too. If `y` is not below the number of bits,
    /// every bit is a copy of the top bit.
    ShiftRightArithmetic = "shift_right_arithmetic", Equal(2), Integer, Same, false, No, 1, Jumps, None;
    /// `x >> y`, filled with zeros. If `y` is not below the number of bits, the result is 0.
    ShiftRightLogical = "shift_right_logical", Equal(2), Integer, Same, false, No, 1, Jumps, None;
    /// 64 random bits for the key `x` and the counter `y`: the block function Threefry-2x32.
    RandomBits = "random_bits", Equal(2), Wide, Same, false, No, 64, Jumps, None;
    /// `min(max(x, lo), hi)`, for the operands `lo`, `x` and `hi` in this order.
    Clamp = "clamp", Equal(3), Numbers, Same, false, No, 2, Continuous, None;
    /// `c ? x : y` for a bool `c`.
    Select = "select", Choice, Any, Same, false, No, 1, Jumps, None;
    /// Whether `x` is neither infinite nor nan.
    IsFinite = "is_finite", Equal(1), Float, Truth, false, No, 1, Jumps, None;

    ---
    // The following codes have a parameter, which follows the name in the row.

    /// `x` in another dtype: floats to integers saturate with NaN to 0, integers wrap, bool is `x != 0`.
    Convert(to: Dtype) = "convert", Some(Parameter::To(to)), Equal(1), Any, ResultDtype::Dtype(to), false, No, 1, Continuity::of_conversion(to), None;
    /// The bits of `x` as a number of another dtype of the same width.
    Bitcast(to: Dtype) = "bitcast", Some(Parameter::To(to)), Equal(1), Numbers, ResultDtype::Dtype(to), false, No, 1, Jumps, None;
    /// `x` to an integer power by repeated squaring; a negative power is the reciprocal.
    IntegerPow(n: i32) = "integer_pow", Some(Parameter::N(n as i64)), Equal(1), Numbers, Same, false, No, power::flops(n), Continuous, None;
    /// A function from the library, computed by a call.
    Library(l: Library) = l.name, l.function.parameter(), l.function.takes(), Float, Same, false, No, l.flops, l.continuity, Some(l);
}
