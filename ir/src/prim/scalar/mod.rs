//! The scalar table: elementwise functions, one row each.
//!
//! A row has the code (and with it the name), mathematics, types, partial derivatives, linearity, domain and
//! edge conventions, samples and rewrites of a function. Everything else (both AD modes, batching, printing,
//! parsing, interpretation, code generation, documentation, tests) is derived from it. To add a function, write
//! a row in the file of its family (`special.rs` for functions without one) and add it to the list below.
//!
//! ```
//! use tapeloom_ir::Scalar;
//! assert_eq!(Scalar::Sin.row().math, "sin x");
//! ```

mod arithmetic;
pub(crate) mod bessel;
pub(crate) mod betainc;
pub(crate) mod bitcast;
pub(crate) mod convert;
pub(crate) mod expn;
mod exponential;
mod formula;
pub(crate) mod gammainc;
pub(crate) mod half_pow;
pub(crate) mod integer_pow;
mod logic;
pub(crate) mod polygamma;
mod row;
pub(crate) mod scaled_bessel;
pub(crate) mod scaled_erf;
mod scaling;
mod special;
mod special_function;
pub(crate) mod spence;
mod trigonometric;
pub(crate) mod zeta;

pub use row::{Row, Signature};

use super::elementwise::{self};
use super::{
    Arg, ArrayPrimitive, Attributes, Cotangents, Doc, Effects, Expr, Family, Linearity, Lowering,
    Notation, Operand, Rewrite, Sample, Tangent, Written,
};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::ArrayType;
use crate::tensor::Tensor;
use row::{EDGES, POSITIVE, REAL, UNIT, binary, exact, relaxed, ternary, unary};

/// Defines [`Scalar`] from the list of rows. A name in parentheses, with `1` or `2` for the number of operands,
/// also defines a method of `Expr` for formulas in derivative rules.
macro_rules! scalars {
    ($($variant:ident $(($method:ident $arity:tt))? = $file:ident::$row:ident),* $(,)?) => {
        /// A scalar function, applied element by element.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        pub enum Scalar {
            $(#[doc = concat!("The row `", stringify!($row), "` of `", stringify!($file), "`.")] $variant,)*
        }

        impl Scalar {
            /// All scalar functions, in the order of the list.
            pub const ALL: &'static [Scalar] = &[$(Scalar::$variant),*];

            /// Returns the row of the table of scalar functions that defines this function.
            pub fn row(self) -> &'static Row {
                match self {
                    $(Scalar::$variant => { static ROW: Row = $file::$row; &ROW })*
                }
            }

            /// Returns the family of the function: that of the file which contains its row.
            fn family(self) -> Family {
                match self { $(Scalar::$variant => $file::FAMILY),* }
            }
        }

        $(const _: () = $file::$row.assert_complete(concat!(
            stringify!($row),
            " needs a partial derivative for each operand, and a number for each in every sample"
        ));)*

        /// Methods that apply a scalar function to an expression, for formulas in derivative rules.
        impl<'b, 'm> Expr<'b, 'm> {
            $($(method!($variant $method $arity);)?)*
        }
    };
}

/// Defines a method of [`Expr`] that applies a function of one or two operands.
macro_rules! method {
    ($variant:ident $method:ident 1) => {
        #[doc = concat!("Applies `", stringify!($method), "`.")]
        pub fn $method(self) -> Expr<'b, 'm> {
            self.unary(Scalar::$variant)
        }
    };
    ($variant:ident $method:ident 2) => {
        #[doc = concat!("Applies `", stringify!($method), "` to this and `y`.")]
        pub fn $method(self, y: Expr<'b, 'm>) -> Expr<'b, 'm> {
            self.binary(Scalar::$variant, y)
        }
    };
}

scalars! {
    Add = arithmetic::ADD,
    Sub = arithmetic::SUB,
    Mul = arithmetic::MUL,
    Div = arithmetic::DIV,
    Rem = arithmetic::REM,
    Neg = arithmetic::NEG,
    Abs(abs 1) = arithmetic::ABS,
    Sign(sign 1) = arithmetic::SIGN,
    Floor(floor 1) = arithmetic::FLOOR,
    Ceil(ceil 1) = arithmetic::CEIL,
    Round(round 1) = arithmetic::ROUND,
    RoundEven = arithmetic::ROUND_EVEN,
    Max(max 2) = arithmetic::MAX,
    Min(min 2) = arithmetic::MIN,
    Clamp = arithmetic::CLAMP,
    NextAfter = arithmetic::NEXTAFTER,
    Select = arithmetic::SELECT,
    Exp(exp 1) = exponential::EXP,
    Exp2(exp2 1) = exponential::EXP2,
    Expm1(expm1 1) = exponential::EXPM1,
    Log(log 1) = exponential::LOG,
    Log2(log2 1) = exponential::LOG2,
    Log10(log10 1) = exponential::LOG10,
    Log1p(log1p 1) = exponential::LOG1P,
    Softplus(softplus 1) = exponential::SOFTPLUS,
    Logaddexp(logaddexp 2) = exponential::LOGADDEXP,
    Sqrt(sqrt 1) = exponential::SQRT,
    Rsqrt(rsqrt 1) = exponential::RSQRT,
    Cbrt(cbrt 1) = exponential::CBRT,
    Hypot(hypot 2) = exponential::HYPOT,
    Pow(pow 2) = exponential::POW,
    Sin(sin 1) = trigonometric::SIN,
    Cos(cos 1) = trigonometric::COS,
    Tan(tan 1) = trigonometric::TAN,
    Asin(asin 1) = trigonometric::ASIN,
    Acos(acos 1) = trigonometric::ACOS,
    Atan(atan 1) = trigonometric::ATAN,
    Atan2(atan2 2) = trigonometric::ATAN2,
    Sinh(sinh 1) = trigonometric::SINH,
    Cosh(cosh 1) = trigonometric::COSH,
    Tanh(tanh 1) = trigonometric::TANH,
    Sech(sech 1) = trigonometric::SECH,
    SechSquare(sech_square 1) = trigonometric::SECH_SQUARE,
    Asinh(asinh 1) = trigonometric::ASINH,
    Acosh(acosh 1) = trigonometric::ACOSH,
    Atanh(atanh 1) = trigonometric::ATANH,
    Logistic(logistic 1) = special::LOGISTIC,
    LogisticDensity(logistic_density 1) = special::LOGISTIC_DENSITY,
    Erf(erf 1) = special::ERF,
    Erfc(erfc 1) = special::ERFC,
    ErfInv(erf_inv 1) = special::ERF_INV,
    ErfcInv(erfc_inv 1) = special::ERFC_INV,
    Ndtr(ndtr 1) = special::NDTR,
    Lgamma(lgamma 1) = special::LGAMMA,
    Digamma(digamma 1) = special::DIGAMMA,
    Expi(expi 1) = special::EXPI,
    Gammaincc(gammaincc 2) = special::GAMMAINCC,
    GammaDensity(gamma_density 2) = special::GAMMA_DENSITY,
    BetaDensity = special::BETA_DENSITY,
    Hyp1f1 = special::HYP1F1,
    Eq(eq 2) = logic::EQ,
    Ne(ne 2) = logic::NE,
    Lt(lt 2) = logic::LT,
    Le(le 2) = logic::LE,
    Gt(gt 2) = logic::GT,
    Ge(ge 2) = logic::GE,
    And(and 2) = logic::AND,
    Or(or 2) = logic::OR,
    Xor(xor 2) = logic::XOR,
    Not = logic::NOT,
    ShiftLeft = logic::SHIFT_LEFT,
    ShiftRightArithmetic = logic::SHIFT_RIGHT_ARITHMETIC,
    ShiftRightLogical = logic::SHIFT_RIGHT_LOGICAL,
    RandomBits = logic::RANDOM_BITS,
    IsFinite(is_finite 1) = logic::IS_FINITE,
}

impl Notation for Scalar {
    fn name(&self) -> &'static str {
        self.row().name()
    }

    fn attributes(&self) -> Written {
        Vec::new()
    }

    fn parse(name: &str, _: &mut Attributes) -> Option<Result<Scalar>> {
        Scalar::ALL.iter().find(|s| s.row().name() == name).map(|s| Ok(*s))
    }
}

impl ArrayPrimitive for Scalar {
    const EFFECTS: Effects = Effects::Pure;

    fn docs() -> Vec<Doc> {
        let entry = |s: &Scalar| {
            let row = s.row();
            Doc {
                family: s.family(),
                name: row.name().to_owned(),
                math: row.math.to_owned(),
                types: row.signature.words().to_owned(),
                derivative: formula::derivative(row),
                edges: row.edges.to_owned(),
            }
        };
        Scalar::ALL.iter().map(entry).collect()
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        let row = self.row();
        if operands.len() != row.arity() {
            return Err(Problem::new(
                Kind::Arguments,
                format!("`{}` takes {} operands, got {}", row.name(), row.arity(), operands.len()),
                "",
            ));
        }
        let (shape, dtypes) = elementwise::common_shape(row.name(), operands)?;
        let dtype = row.accepts(&dtypes).map_err(|(want, help)| {
            let list: Vec<String> = operands.iter().map(|o| o.ty.to_string()).collect();
            let message = format!("`{}` needs {want}, got {}", row.name(), list.join(" and "));
            Problem::new(Kind::Dtype, message, help)
        })?;
        Ok(ArrayType::new(dtype, shape))
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        elementwise::eval(self.row().code, operands)
    }

    fn jvp(&self, b: &Builder<'_>, x: &[Atom], y: Atom, dx: &[Tangent]) -> Result<Tangent> {
        let row = self.row();
        elementwise::jvp(b, (*self).into(), (row.partials, row.linear), x, y, dx)
    }

    fn is_linear(&self, operands: &[Linearity]) -> bool {
        self.row().linear.admits(operands)
    }

    fn transpose(&self, b: &Builder<'_>, x: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        elementwise::transpose(b, self.name(), self.row().partials, x, ct, into)
    }

    fn batch(&self, b: &Builder<'_>, size: usize, x: &[Atom], batched: &[bool]) -> Result<Atom> {
        elementwise::batch(b, (*self).into(), size, x, batched)
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        Lowering::Elementwise(self.row().code)
    }

    fn rewrites() -> Vec<Rewrite> {
        Scalar::ALL.iter().flat_map(|s| s.row().rewrites).copied().collect()
    }

    fn samples() -> Vec<Sample> {
        Scalar::ALL.iter().flat_map(|s| s.row().samples(*s)).collect()
    }
}
