//! The meaning of scalar operations (codes): their evaluation at concrete operands.

use super::Code;
use super::convert::convert;
use crate::lang::literal::Literal;
use crate::lang::types::Dtype;
use crate::tensor::Element;
use bytemuck::Pod;

impl Code {
    /// Returns the result for these operands. If the operation does not exist for the operands' dtype, which type
    /// inference excludes, the result is zero.
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
            (Code::Bitcast(to), [x]) => Literal { dtype: to, bits: x.bits },
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
            Outcome::Number(y) => y.write(),
            Outcome::Truth(y) => Literal::bool(y),
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
            | Code::RandomBits
            | Code::Select
            | Code::Clamp
            | Code::IsFinite
            | Code::Convert(_)
            | Code::Bitcast(_)
            | Code::IntegerPow(_)
            | Code::Library(_) => false,
        }
    }
}

/// The result of a code on numbers of type `T`.
pub(crate) enum Outcome<T> {
    /// A number of the operands' dtype.
    Number(T),
    /// A truth value, of a comparison or test.
    Truth(bool),
}

/// A Rust type with the arithmetic of one dtype.
pub(crate) trait Number: Element<Stored = Self> + Pod {
    /// Converts a literal of this dtype to the Rust type.
    fn read(x: Literal) -> Self;
    /// Converts the number to a literal of this dtype.
    fn write(self) -> Literal;
    /// Applies a code to its operands, which are the first entries of `x`; the other entries are ignored. The code may
    /// not be [`Code::Select`], [`Code::Convert`] or [`Code::Bitcast`], whose operands and result differ in dtype.
    fn apply(code: Code, x: [Self; 3]) -> Outcome<Self>;
}
