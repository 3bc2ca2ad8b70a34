//! Signs: known facts about the signs of a value's elements, including the signs of zeros.
//!
//! The sign of a float zero is observable, as `1 / 0` is ∞ and `1 / -0` is -∞. So `x + 0` is `x` for every `x` except
//! -0 (`-0 + 0` is 0), and most rewrites about zeros are right only if a value is *never -0*. Many values are: an
//! exponential, a square, a sum that starts at 0, a sum with one of these. [`Code::sign`] returns this fact for a
//! scalar operation and [`Op::sign`] for a primitive; rewrite rules require it by `?x!-0` in their patterns. A test
//! over all primitives checks both for every primitive.
//!
//! Rounding is to nearest, so a sum is -0 only if both terms are. Products and quotients of small numbers
//! underflow to zeros of either sign. The sign of a NaN is never considered: a NaN may occur in any value.
//!
//! ```
//! use tapeloom_ir::{Dtype, Literal};
//! use tapeloom_ir::prim::{Code, Given, Sign};
//! let unknown = Given::unknown(Dtype::F64);
//! let zero = Given::literal(Literal::zero(Dtype::F64));
//! assert_eq!(Code::Add.sign(&[unknown, zero], false), Sign::NeverMinusZero);
//! assert_eq!(Code::Mul.sign(&[unknown, unknown], true), Sign::Plus, "a square");
//! ```

use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::types::{Dtype, Type};
use crate::prim::code::Code;
use crate::prim::{Combine, Lowering, Op, Operand, Step};

/// A fact about the signs of an array's elements; each variant implies the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Sign {
    /// Nothing is known about the signs.
    #[default]
    Any,
    /// No element is -0.
    NeverMinusZero,
    /// No element is below zero or -0: sign bits are clear, except possibly in NaNs.
    Plus,
}

impl Sign {
    /// Returns the strongest fact that holds for the constant `x`.
    pub fn of(x: Literal) -> Sign {
        let float = x.to_f64();
        if float.is_nan() || !float.is_sign_negative() {
            Sign::Plus
        } else if float == 0.0 {
            Sign::Any
        } else {
            Sign::NeverMinusZero
        }
    }

    /// Splits a variable of a pattern into its name and the required sign: `?x!-0` is never -0, `?x!-` never
    /// below zero or -0, `?x` has no requirement.
    pub fn of_variable(variable: &str) -> (&str, Sign) {
        match variable.split_once('!') {
            Some((name, "-0")) => (name, Sign::NeverMinusZero),
            Some((name, "-")) => (name, Sign::Plus),
            _ => (variable, Sign::Any),
        }
    }

    /// Weakens this known fact about signs: `Plus` becomes `NeverMinusZero`.
    fn at_most_never(self) -> Sign {
        self.min(Sign::NeverMinusZero)
    }
}

/// A rule for the sign of a library function's result, given the signs of its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignOf {
    /// Nothing is known about the sign of the result.
    Unknown,
    /// The result is never -0.
    NeverMinusZero,
    /// The result is never below zero or -0.
    Plus,
    /// The result has the fact of the operand: the function is odd or otherwise preserves signs, and
    /// only -0 gives -0.
    Operand,
    /// The result is -0 only at -0, but it may be negative at a positive operand.
    Zero,
    /// The result is never below zero or -0 if the (first) operand is not; at a small negative operand
    /// it may underflow to -0.
    Positive,
}

/// The facts about one operand from which the sign of a result follows: dtype, signs, common value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Given {
    /// The operand's dtype.
    pub dtype: Dtype,
    /// The known signs of the operand's elements.
    pub sign: Sign,
    /// The value of the operand's elements, if all of them are equal and the value is known.
    pub value: Option<Literal>,
}

impl Given {
    /// Returns the facts for an operand of which only the dtype is known.
    pub fn unknown(dtype: Dtype) -> Given {
        Given { dtype, sign: Sign::of_dtype(dtype), value: None }
    }

    /// Returns the facts for an operand of type `ty`, with these signs, and the value of its elements
    /// if they are equal.
    pub fn of(ty: &Type, sign: Sign, value: Option<Literal>) -> Given {
        let dtype = ty.as_array().map_or(Dtype::F64, |a| a.dtype);
        Given { dtype, sign: sign.max(Sign::of_type(ty)), value }
    }

    /// Returns the facts for the literal operand `x`.
    pub fn literal(x: Literal) -> Given {
        Given { dtype: x.dtype, sign: Sign::of(x), value: Some(x) }
    }

    /// Returns whether all elements of the operand have one known value for which `holds` is true.
    fn is(self, holds: fn(f64) -> bool) -> bool {
        self.value.is_some_and(|x| holds(x.to_f64()))
    }
}

impl Sign {
    /// Returns the fact that holds for every value of a dtype: `Plus` for bool and unsigned,
    /// `NeverMinusZero` for signed integers, none for floats.
    pub fn of_dtype(dtype: Dtype) -> Sign {
        match dtype {
            Dtype::F32 | Dtype::F64 => Sign::Any,
            Dtype::I32 | Dtype::I64 => Sign::NeverMinusZero,
            Dtype::U32 | Dtype::U64 | Dtype::Bool => Sign::Plus,
        }
    }

    /// Returns the fact that holds for every value of type `ty`, from its dtype.
    pub fn of_type(ty: &Type) -> Sign {
        ty.as_array().map_or(Sign::Any, |a| Sign::of_dtype(a.dtype))
    }
}

impl Code {
    /// Returns the sign of the result of this code, for operands `x`. `same` says whether all operands are the same
    /// value.
    pub fn sign(self, x: &[Given], same: bool) -> Sign {
        let at = |i: usize| x.get(i).map_or(Sign::Any, |g| g.sign);
        let Some(last) = x.last() else { return Sign::Any };
        let dtype = self.result(last.dtype);
        if !dtype.is_float() {
            return Sign::of_dtype(dtype);
        }
        match self {
            // If one term is known never to be -0, neither is the sum: it is -0 only if both terms are -0.
            Code::Add if at(0).min(at(1)) == Sign::Plus => Sign::Plus,
            Code::Add => at(0).max(at(1)).at_most_never(),
            Code::Sub if same => Sign::Plus,
            // A difference is -0 only if it is (-0) - 0, so it is never -0 if the subtrahend is known not to be 0.
            Code::Sub if x[1].is(|y| y != 0.0) => Sign::NeverMinusZero,
            Code::Sub => at(0).at_most_never(),
            Code::Mul if same => Sign::Plus,
            Code::Mul if x.iter().any(|c| c.is(|c| c >= 1.0)) => at(0).min(at(1)),
            Code::Div if x[1].is(|c| c > 0.0 && c <= 1.0) => at(0),
            // A result below zero may underflow to -0, so signs are known only if both operands are
            // `Plus`.
            Code::Mul | Code::Div => plus(at(0).min(at(1))),
            Code::Rem | Code::Ceil => plus(at(0)),
            Code::Neg => Sign::Any,
            Code::Abs => Sign::Plus,
            Code::Sign | Code::Floor => at(0),
            // The root of a number below zero is NaN, and the root of -0 is -0.
            Code::Sqrt if at(0) >= Sign::NeverMinusZero => Sign::Plus,
            Code::Sqrt => Sign::Any,
            Code::Max => max(at(0), at(1)),
            Code::Min => at(0).min(at(1)),
            Code::Clamp => max(at(0), at(1)).min(at(2)),
            Code::Select => at(1).min(at(2)),
            Code::Convert(to) => match x[0].dtype {
                Dtype::F64 if to == Dtype::F32 => plus(at(0)),
                _ => at(0),
            },
            Code::IntegerPow(n) if n % 2 == 0 => Sign::Plus,
            Code::IntegerPow(1) => at(0),
            Code::IntegerPow(_) => plus(at(0)),
            Code::Library(l) => match l.sign {
                SignOf::Unknown => Sign::Any,
                SignOf::NeverMinusZero => Sign::NeverMinusZero,
                SignOf::Plus => Sign::Plus,
                SignOf::Operand => at(0),
                SignOf::Zero => at(0).at_most_never(),
                SignOf::Positive => plus(at(0)),
            },
            Code::Eq
            | Code::Ne
            | Code::Lt
            | Code::Le
            | Code::Gt
            | Code::Ge
            | Code::And
            | Code::Or
            | Code::Xor
            | Code::Not
            | Code::ShiftLeft
            | Code::ShiftRightArithmetic
            | Code::ShiftRightLogical
            | Code::RandomBits
            | Code::Bitcast(_)
            | Code::IsFinite => Sign::Any,
        }
    }

    /// Returns the sign of a fold with this code over any number of elements `x`, starting from
    /// `start`.
    fn fold_sign(self, start: Given, x: Given) -> Sign {
        // A fact that one step of the fold preserves holds after all steps.
        let kept = |s: &Sign| {
            let so_far = Given { sign: *s, value: None, ..start };
            start.sign >= *s && self.sign(&[so_far, x], false) >= *s
        };
        [Sign::Plus, Sign::NeverMinusZero].into_iter().find(kept).unwrap_or_default()
    }
}

/// Returns `Sign::Plus` if `x` is `Sign::Plus`, otherwise no fact.
fn plus(x: Sign) -> Sign {
    if x == Sign::Plus { x } else { Sign::Any }
}

/// Returns the sign of `max(x, y)`: it is -0 only if one operand is -0 and the other is not above -0.
fn max(x: Sign, y: Sign) -> Sign {
    if x.max(y) == Sign::Plus { Sign::Plus } else { x.min(y) }
}

impl Op {
    /// Returns the sign of the output (no fact if there are several outputs), given the signs of the operands. `same`
    /// says whether all operands are the same value.
    pub fn sign(
        &self,
        module: &Module,
        operands: &[Operand<'_>],
        given: &[Given],
        output: &Type,
        same: bool,
    ) -> Sign {
        let Type::Array(y) = output else { return Sign::Any };
        if !y.dtype.is_float() {
            return Sign::of_dtype(y.dtype);
        }
        let at = |i: usize| given.get(i).map_or(Sign::Any, |g| g.sign);
        match self.lower(module, operands) {
            Lowering::Elementwise(code) => code.sign(given, same),
            Lowering::Reshape
            | Lowering::Alias { .. }
            | Lowering::DynamicSlice
            // An index out of range reads an element inside the array, or 0, so the operand's fact
            // holds.
            | Lowering::Gather { .. } => at(0),
            Lowering::View { pieces, fill } => {
                let sources = pieces.iter().map(|p| p.operand).chain(fill);
                sources.map(at).min().unwrap_or_default()
            }
            Lowering::Iota { .. } => Sign::Plus,
            Lowering::Reduce { axes, .. } if axes.is_empty() => at(0),
            Lowering::Reduce { code, identity, .. } => {
                // If the operand is not empty, an extremum is one of its elements, so it has the facts of the elements.
                let extreme = matches!(code, Code::Max | Code::Min);
                let empty = operands.iter().any(|o| o.ty.as_array().is_none_or(|a| a.shape.elements() == 0));
                if extreme && !empty {
                    return at(0);
                }
                code.fold_sign(Given::literal(identity), given[0])
            }
            Lowering::ArgReduce { .. } | Lowering::ArgSort { .. } => Sign::Plus,
            Lowering::Cumulate { step: Step::Fold(Code::Max | Code::Min), .. } => at(0),
            Lowering::Cumulate { step: Step::Fold(code), .. } => code.fold_sign(given[0], given[0]),
            Lowering::Cumulate { step: Step::Affine | Step::Segments, .. } => Sign::Any,
            Lowering::Contract { .. } => {
                let product = Given { dtype: y.dtype, sign: Code::Mul.sign(given, false), value: None };
                Code::Add.fold_sign(Given::literal(Literal::zero(y.dtype)), product)
            }
            Lowering::DynamicUpdateSlice => at(0).min(at(1)),
            Lowering::Scatter { combine, .. } => match combine {
                Combine::Set => at(0).min(at(2)),
                Combine::Add | Combine::Mul | Combine::Max | Combine::Min => {
                    let code = combine.code();
                    code.map_or(Sign::Any, |code| code.fold_sign(given[0], given[2]))
                }
            },
            Lowering::Host(_)
            | Lowering::Routine(_)
            | Lowering::Call(_)
            | Lowering::Branch { .. }
            | Lowering::Loop { .. }
            | Lowering::Missing(_) => Sign::Any,
        }
    }
}
