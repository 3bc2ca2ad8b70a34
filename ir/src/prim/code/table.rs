//! The columns of the table of codes, and what follows from them.

use super::{Code, Library, LibraryFn};
use crate::lang::literal::Literal;
use crate::lang::types::Dtype;

/// What is true of a code wherever it is used.
#[derive(Clone, Copy, Debug)]
pub struct CodeRow {
    /// Name in the text forms, without attributes.
    pub name: &'static str,
    /// Its parameter, if it has one.
    pub parameter: Option<Parameter>,
    /// Its operands.
    pub takes: Takes,
    /// The dtypes on which it has a meaning (those of the last operand).
    pub domain: Domain,
    /// The dtype of the result.
    pub gives: Gives,
    /// Whether its two operands may be exchanged.
    pub commutes: bool,
    /// Whether and how it folds many elements into one.
    pub fold: Fold,
    /// What it costs on one element beside an addition, roughly: ratios measured on one machine with
    /// vector code. Their order matters, not their digits.
    pub flops: u32,
    /// How the result follows a small change of the operands.
    pub continuity: Continuity,
    /// The function that computes it on floats, if there is no instruction.
    pub library: Option<Library>,
}

impl CodeRow {
    /// The columns in the order of the table.
    #[allow(clippy::too_many_arguments, reason = "the columns of a table")]
    pub(super) const fn new(
        name: &'static str,
        parameter: Option<Parameter>,
        takes: Takes,
        domain: Domain,
        gives: Gives,
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

/// What a code has beside its operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Parameter {
    /// A dtype to convert to: `{to=f32}`.
    To(Dtype),
    /// A number: `{n=3}`.
    N(i64),
}

/// The operands of a code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takes {
    /// That many of one dtype.
    Equal(usize),
    /// A bool, and two of one dtype.
    Choice,
}

impl Takes {
    /// How many.
    pub const fn arity(self) -> usize {
        match self {
            Takes::Equal(n) => n,
            Takes::Choice => 3,
        }
    }

    /// The dtype of operand `i`, given that of the last.
    pub fn dtype(self, i: usize, last: Dtype) -> Dtype {
        match self {
            Takes::Choice if i == 0 => Dtype::Bool,
            Takes::Choice | Takes::Equal(_) => last,
        }
    }
}

/// The dtypes on which a code has a meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// All.
    Any,
    /// All but bool.
    Number,
    /// Floats.
    Float,
    /// Bool and integers.
    Bits,
    /// Integers.
    Integer,
    /// u64.
    Wide,
}

impl Domain {
    /// Whether that dtype is one of them.
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

/// The dtype of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gives {
    /// That of the last operand.
    Same,
    /// Bool.
    Truth,
    /// This one.
    Dtype(Dtype),
}

/// Whether a code folds many elements into one, from which value on, and whether the order shows on
/// floats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fold {
    /// It does not.
    No,
    /// Any order and grouping gives the same bits.
    Exact(Neutral),
    /// Another order rounds floats otherwise.
    Rounded(Neutral),
}

/// The value that changes nothing when it is folded in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Neutral {
    /// Zero, on floats -0: -0 + x = x for every x, and 0 + -0 is not.
    Zero,
    /// One.
    One,
    /// Nothing is below it.
    Least,
    /// Nothing is above it.
    Greatest,
    /// All bits set: true, or -1.
    Ones,
}

/// How a result follows an operand that is off by a rounding error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Continuity {
    /// It is off by about as much, except at poles.
    Continuous,
    /// It may land elsewhere.
    Jumps,
}

impl Continuity {
    /// Floats round; whatever has steps jumps.
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
            // To integers, infinities saturate.
            Neutral::Least => Literal::of(dtype, f64::NEG_INFINITY),
            Neutral::Greatest => Literal::of(dtype, f64::INFINITY),
            Neutral::Ones => Code::Not.eval(&[Literal::zero(dtype)]),
        }
    }
}

impl Code {
    /// The dtype of the result where the last operand has that dtype.
    pub fn result(self, last: Dtype) -> Dtype {
        match self.row().gives {
            Gives::Same => last,
            Gives::Truth => Dtype::Bool,
            Gives::Dtype(to) => to,
        }
    }

    /// The dtype of the result, or `None` where the code does not take such operands.
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

    /// Whether two values of one dtype are compared.
    pub fn compares(self) -> bool {
        let row = self.row();
        row.gives == Gives::Truth && row.takes == Takes::Equal(2)
    }

    /// The function that computes the code on that dtype, if there is no instruction.
    pub fn called(self, dtype: Dtype) -> Option<Library> {
        self.row().library.filter(|_| dtype.is_float())
    }

    /// That function, if there is one of eight arguments at once ([`crate::math::vector_math`]).
    pub fn of_eight(self, dtype: Dtype) -> Option<Library> {
        self.called(dtype).filter(|library| match library.function {
            LibraryFn::Unary { eight, .. } => eight.is_some(),
            LibraryFn::Binary { .. } | LibraryFn::Ternary { .. } | LibraryFn::Indexed { .. } => {
                false
            }
        })
    }

    /// The value that changes nothing when it is folded in; `None` where the code does not fold.
    pub fn neutral(self, dtype: Dtype) -> Option<Literal> {
        let row = self.row();
        match row.fold {
            Fold::Exact(x) | Fold::Rounded(x) if row.domain.has(dtype) => Some(x.of(dtype)),
            Fold::No | Fold::Exact(_) | Fold::Rounded(_) => None,
        }
    }
}
