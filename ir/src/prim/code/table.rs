//! The columns of the table of codes (scalar machine operations), and properties derived from them.

use super::{Code, Library, LibraryFn};
use crate::lang::literal::Literal;
use crate::lang::types::Dtype;

/// The properties of a code: one row of the table of codes.
#[derive(Clone, Copy, Debug)]
pub struct CodeRow {
    /// The name in the text forms, without the parameter.
    pub name: &'static str,
    /// The parameter besides the operands, if the code has one.
    pub parameter: Option<Parameter>,
    /// The number of the code's operands, and the relation of their dtypes.
    pub takes: OperandDtypes,
    /// The dtypes of the last operand for which the code is defined.
    pub domain: Domain,
    /// The rule that gives the dtype of the result from the dtypes of the operands.
    pub gives: ResultDtype,
    /// Whether the two operands may be exchanged.
    pub commutes: bool,
    /// Whether the code can fold many elements into one. If so, this includes the initial value of the fold.
    pub fold: Fold,
    /// The approximate cost for one element, relative to an addition: ratios measured on one machine with
    /// vector code. Only their order of magnitude matters.
    pub flops: u32,
    /// Whether a small change of the operands can change the result by any amount.
    pub continuity: Continuity,
    /// The library function that computes the code on floats, if there is no instruction for it.
    pub library: Option<Library>,
}

impl CodeRow {
    /// Creates a row; the arguments are the columns in the order of the table.
    #[allow(clippy::too_many_arguments, reason = "the columns of a table")]
    pub(super) const fn new(
        name: &'static str,
        parameter: Option<Parameter>,
        takes: OperandDtypes,
        domain: Domain,
        gives: ResultDtype,
        commutes: bool,
        fold: Fold,
        flops: u32,
        continuity: Continuity,
        library: Option<Library>,
    ) -> CodeRow {
        CodeRow {
            name,
            parameter,
            takes,
            domain,
            gives,
            commutes,
            fold,
            flops,
            continuity,
            library,
        }
    }
}

/// A parameter of a code besides its operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Parameter {
    /// The dtype to which the operand is converted: `{to=f32}`.
    To(Dtype),
    /// A number, such as an exponent: `{n=3}`.
    N(i64),
}

/// The number and dtypes of a code's operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperandDtypes {
    /// This number of operands, all of the same dtype.
    Equal(usize),
    /// Three operands: a bool, then two operands of one dtype.
    Choice,
}

impl OperandDtypes {
    /// Returns the number of a code's operands.
    pub const fn arity(self) -> usize {
        match self {
            OperandDtypes::Equal(n) => n,
            OperandDtypes::Choice => 3,
        }
    }

    /// Returns the dtype of operand `i`, given the dtype of the last operand.
    pub fn dtype(self, i: usize, last: Dtype) -> Dtype {
        match self {
            OperandDtypes::Choice if i == 0 => Dtype::Bool,
            OperandDtypes::Choice | OperandDtypes::Equal(_) => last,
        }
    }
}

/// A class of dtypes for which a code is defined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// All dtypes.
    Any,
    /// All dtypes except bool.
    Number,
    /// The float dtypes.
    Float,
    /// Bool and the integer dtypes.
    Bits,
    /// The integer dtypes.
    Integer,
    /// Only u64.
    Wide,
}

impl Domain {
    /// Returns whether `dtype` belongs to this class.
    pub fn has(self, dtype: Dtype) -> bool {
        match self {
            Domain::Any => true,
            Domain::Number => dtype != Dtype::Bool,
            Domain::Float => dtype.is_float(),
            Domain::Bits => !dtype.is_float(),
            Domain::Integer => dtype.is_integer(),
            Domain::Wide => dtype == Dtype::U64,
        }
    }
}

/// The rule for the dtype of a code's result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResultDtype {
    /// The result has the dtype of the last operand.
    Same,
    /// The result is a bool.
    Truth,
    /// The result has this dtype, for operands of every dtype.
    Dtype(Dtype),
}

/// Whether a code can fold many elements into one. If so, the variant says whether the order of the elements affects
/// the result on floats, and contains the neutral value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fold {
    /// The code is no fold: it cannot combine many elements to one.
    No,
    /// The code folds elements; any order and grouping of them gives the same bits.
    Exact(Neutral),
    /// The code folds elements; another order of them rounds floats differently.
    Rounded(Neutral),
}

/// The neutral value of a fold: folding it in changes no other value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Neutral {
    /// The number zero; on floats -0, because -0 + x = x for every x, whereas 0 + -0 is 0.
    Zero,
    /// The number one.
    One,
    /// The least value of the dtype.
    Least,
    /// The greatest value of the dtype.
    Greatest,
    /// All bits set: true, or -1.
    Ones,
}

/// Whether a rounding error in an operand changes the result a little or by any amount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Continuity {
    /// The result changes by about as much as the operand, except at poles.
    Continuous,
    /// The result may change by any amount, for example at a discontinuity.
    Jumps,
}

impl Continuity {
    /// Returns the continuity of a conversion to `to`: conversions to floats only round, conversions to other dtypes
    /// are discontinuous.
    pub(super) const fn of_conversion(to: Dtype) -> Continuity {
        match to {
            Dtype::F32 | Dtype::F64 => Continuity::Continuous,
            Dtype::Bool | Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64 => Continuity::Jumps,
        }
    }
}

impl Neutral {
    fn of(self, dtype: Dtype) -> Literal {
        match self {
            Neutral::Zero if dtype.is_float() => Literal::of(dtype, -0.0),
            Neutral::Zero => Literal::zero(dtype),
            Neutral::One => Literal::one(dtype),
            Neutral::Least if dtype == Dtype::Bool => Literal::bool(false),
            // For an integer dtype, `Literal::of` saturates the infinities to the least and greatest value.
            Neutral::Least => Literal::of(dtype, f64::NEG_INFINITY),
            Neutral::Greatest => Literal::of(dtype, f64::INFINITY),
            Neutral::Ones => Code::Not.eval(&[Literal::zero(dtype)]),
        }
    }
}

impl Code {
    /// Returns the dtype of the result, given the dtype of the last operand.
    pub fn result(self, last: Dtype) -> Dtype {
        match self.row().gives {
            ResultDtype::Same => last,
            ResultDtype::Truth => Dtype::Bool,
            ResultDtype::Dtype(to) => to,
        }
    }

    /// Returns the dtype of the result for operands of these dtypes; `None` if the code does not accept them.
    pub fn typed(self, operands: &[Dtype]) -> Option<Dtype> {
        let (row, last) = (self.row(), *operands.last()?);
        let fits = |(i, dtype): (usize, &Dtype)| *dtype == row.takes.dtype(i, last);
        let all = operands.len() == row.takes.arity() && operands.iter().enumerate().all(fits);
        let keeps_bits = match self {
            Code::Bitcast(to) => to != last && to != Dtype::Bool && to.bytes() == last.bytes(),
            _ => true,
        };
        (all && keeps_bits && row.domain.has(last)).then(|| self.result(last))
    }

    /// Returns whether the code compares two values of one dtype and returns a bool.
    pub fn compares(self) -> bool {
        let row = self.row();
        row.gives == ResultDtype::Truth && row.takes == OperandDtypes::Equal(2)
    }

    /// Returns the library function that computes the code for this dtype; `None` if there is an instruction.
    pub fn called(self, dtype: Dtype) -> Option<Library> {
        self.row().library.filter(|_| dtype.is_float())
    }

    /// Returns the library function that computes the code for this dtype, if the function has a version for
    /// eight arguments at once ([`crate::math::vector_math`]).
    pub fn of_eight(self, dtype: Dtype) -> Option<Library> {
        self.called(dtype).filter(|library| match library.function {
            LibraryFn::Unary { eight, .. } => eight.is_some(),
            LibraryFn::Binary { .. } | LibraryFn::Ternary { .. } | LibraryFn::Indexed { .. } => {
                false
            }
        })
    }

    /// Returns whether the code is a library function that vectorized loops compute for several elements at once, inlined
    /// from its recording.
    pub fn is_inlined_in_vectors(self, dtype: Dtype) -> bool {
        self.called(dtype).is_some_and(|library| library.recording(dtype).is_some())
    }

    /// Returns the neutral value of a fold with this code; `None` if the code does not fold.
    pub fn neutral(self, dtype: Dtype) -> Option<Literal> {
        let row = self.row();
        match row.fold {
            Fold::Exact(x) | Fold::Rounded(x) if row.domain.has(dtype) => Some(x.of(dtype)),
            Fold::No | Fold::Exact(_) | Fold::Rounded(_) => None,
        }
    }
}
