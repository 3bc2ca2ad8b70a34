//! The scalar table: elementwise functions, one row each.
//!
//! A row is code (and with it the name), mathematics, types, partial derivatives, linearity, domain and edge
//! conventions, samples and rewrites. Everything else (both AD modes, batching, printing, parsing,
//! interpretation, code generation, documentation, tests) is derived from it. To add a function,
//! write a row in the file of its family and name it in the list below.
//!
//! ```
//! use tapeloom_ir::Scalar;
//! assert_eq!(Scalar::Sin.row().math, "sin x");
//! ```

mod arithmetic;
mod exponential;
mod formula;
mod logic;
mod scaling;
mod special;
mod trigonometric;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests;

use super::elementwise::{self, Linear, Partial};
use super::{
    Arg, ArrayPrimitive, Attributes, Code, Cotangents, Doc, Effects, Exactness, Expr, Family,
    Linearity, Lowering, Notation, Operand, Rewrite, Rule, Sample, Tangent, When, Written,
};
use crate::builder::Builder;
use crate::function::Atom;
use crate::problem::{Kind, Problem, Result};
use crate::tensor::Tensor;
use crate::types::{ArrayType, Dtype};

/// Which dtypes a function takes and gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signature {
    /// Floats of one dtype to the same.
    Float,
    /// Numbers of one dtype to the same.
    Number,
    /// Signed numbers of one dtype to the same.
    Signed,
    /// Operands of one dtype to bool.
    Compare,
    /// Floats to bool.
    Test,
    /// Bool or integers of one dtype to the same.
    Bits,
    /// Integers of one dtype to the same.
    Integer,
    /// A bool and two operands of one dtype to that dtype.
    Choose,
}

impl Signature {
    /// In the words of the catalogue.
    fn words(self) -> &'static str {
        match self {
            Signature::Float => "floats to the same",
            Signature::Number => "numbers to the same",
            Signature::Signed => "signed numbers to the same",
            Signature::Compare => "anything to bool",
            Signature::Test => "floats to bool",
            Signature::Bits => "bools or integers to the same",
            Signature::Integer => "integers to the same",
            Signature::Choose => "a bool and two of anything to the same",
        }
    }
}

/// Everything about one scalar function.
pub struct Row {
    /// The meaning on single elements; it also says name and number of operands.
    pub code: Code,
    /// The mathematics, in terms of x (and y, z).
    pub math: &'static str,
    /// Dtypes.
    pub signature: Signature,
    /// One partial derivative per operand.
    pub partials: &'static [Partial],
    /// In which operands the function is linear.
    pub linear: Linear,
    /// Conventions at domain edges, ties, infinities and nan.
    pub edges: &'static str,
    /// Points (one number per operand) inside the domain, where the function is smooth.
    pub smooth: &'static [&'static [f64]],
    /// Points at ties and edges, where only values are compared.
    pub edge: &'static [&'static [f64]],
    /// Equalities with this function on the left.
    pub rewrites: &'static [Rewrite],
}

impl Row {
    /// Name in the text format.
    pub const fn name(&self) -> &'static str {
        self.code.row().name
    }

    /// Number of operands.
    pub const fn arity(&self) -> usize {
        self.code.row().takes.arity()
    }

    /// Does not compile where a derivative is forgotten or a sample lacks an operand.
    const fn assert_complete(&self, message: &str) {
        let arity = self.arity();
        let mut complete = self.partials.len() == arity;
        let mut i = 0;
        while i < self.smooth.len() {
            complete &= self.smooth[i].len() == arity;
            i += 1;
        }
        i = 0;
        while i < self.edge.len() {
            complete &= self.edge[i].len() == arity;
            i += 1;
        }
        assert!(complete, "{}", message);
    }
}

/// Points inside the domain for functions of all reals.
const REAL: &[&[f64]] = &[&[-3.0], &[-0.5], &[0.1], &[1.25]];
/// Points inside the domain for functions of positive numbers.
const POSITIVE: &[&[f64]] = &[&[0.05], &[0.9], &[2.5]];
/// Points inside the domain for functions of [-1, 1].
const UNIT: &[&[f64]] = &[&[-0.9], &[-0.1], &[0.5]];
/// Where functions of one float have their edges: zeros, ones, infinities, nan, the tiny, the huge,
/// and the arguments around which the exponential overflows and underflows.
const EDGES: &[&[f64]] = &[
    &[0.0],
    &[-0.0],
    &[1.0],
    &[-1.0],
    &[f64::INFINITY],
    &[f64::NEG_INFINITY],
    &[f64::NAN],
    &[1e-300],
    &[1e308],
    &[-1e308],
    &[710.0],
    &[-745.2],
];

/// A rewrite that keeps every bit.
const fn exact(
    name: &'static str,
    lhs: &'static str,
    rhs: &'static str,
    when: When,
    why: &'static str,
) -> Rewrite {
    Rewrite { name, rule: Rule::Pattern { lhs, rhs }, when, exactness: Exactness::Exact, why }
}

/// A rewrite that holds in real arithmetic.
const fn relaxed(
    name: &'static str,
    lhs: &'static str,
    rhs: &'static str,
    when: When,
    why: &'static str,
) -> Rewrite {
    Rewrite {
        name,
        rule: Rule::Pattern { lhs, rhs },
        when,
        exactness: Exactness::Reassociates,
        why,
    }
}

/// A library function of one argument, from what it costs, whether it jumps, how signs go through it
/// ([`super::SignOf`]) and its f64 form; the f32 form rounds that once.
macro_rules! unary {
    ($name:literal, $flops:literal, $jumps:ident, $sign:ident, $f:path) => {{
        extern "C" fn wide(x: f64) -> f64 {
            $f(x)
        }
        extern "C" fn narrow(x: f32) -> f32 {
            $f(f64::from(x)) as f32
        }
        let function = crate::prim::LibraryFn::Unary { f64: wide, f32: narrow };
        let (flops, continuity) = ($flops, crate::prim::Continuity::$jumps);
        let sign = crate::prim::SignOf::$sign;
        Code::Library(crate::prim::Library { name: $name, flops, continuity, sign, function })
    }};
}

/// A library function of two arguments: as [`unary!`], or with an f32 form of its own.
macro_rules! binary {
    ($name:literal, $flops:literal, $jumps:ident, $sign:ident, $f:path) => {{
        fn narrow(x: f32, y: f32) -> f32 {
            $f(f64::from(x), f64::from(y)) as f32
        }
        binary!($name, $flops, $jumps, $sign, $f, narrow)
    }};
    ($name:literal, $flops:literal, $jumps:ident, $sign:ident, $f:path, $g:path) => {{
        extern "C" fn wide(x: f64, y: f64) -> f64 {
            $f(x, y)
        }
        extern "C" fn single(x: f32, y: f32) -> f32 {
            $g(x, y)
        }
        let function = crate::prim::LibraryFn::Binary { f64: wide, f32: single };
        let (flops, continuity) = ($flops, crate::prim::Continuity::$jumps);
        let sign = crate::prim::SignOf::$sign;
        Code::Library(crate::prim::Library { name: $name, flops, continuity, sign, function })
    }};
}
use {binary, unary};

/// Makes [`Scalar`] from the list of rows; a name in parentheses, with `1` or `2` for the number of
/// operands, is a method for formulas.
macro_rules! scalars {
    ($($variant:ident $(($method:ident $arity:tt))? = $file:ident::$row:ident),* $(,)?) => {
        /// A scalar function, applied element by element.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        pub enum Scalar {
            $(#[doc = concat!("The row `", stringify!($row), "` of `", stringify!($file), "`.")] $variant,)*
        }

        impl Scalar {
            /// Every scalar function, in the order of the list.
            pub const ALL: &'static [Scalar] = &[$(Scalar::$variant),*];

            /// The row of the table.
            pub fn row(self) -> &'static Row {
                match self {
                    $(Scalar::$variant => { static ROW: Row = $file::$row; &ROW })*
                }
            }

            /// The family, which is that of the file in which the row stands.
            fn family(self) -> Family {
                match self { $(Scalar::$variant => $file::FAMILY),* }
            }
        }

        $(const _: () = $file::$row.assert_complete(concat!(
            stringify!($row),
            " needs a partial derivative for each operand, and a number for each in every sample"
        ));)*

        /// Functions of the table as methods for formulas.
        impl<'b, 'm> Expr<'b, 'm> {
            $($(method!($variant $method $arity);)?)*
        }
    };
}

/// A method of [`Expr`] for a function of one or two operands.
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
    Asinh(asinh 1) = trigonometric::ASINH,
    Acosh(acosh 1) = trigonometric::ACOSH,
    Atanh(atanh 1) = trigonometric::ATANH,
    Logistic(logistic 1) = special::LOGISTIC,
    Erf(erf 1) = special::ERF,
    Erfc(erfc 1) = special::ERFC,
    ErfInv(erf_inv 1) = special::ERF_INV,
    Ndtr(ndtr 1) = special::NDTR,
    Lgamma(lgamma 1) = special::LGAMMA,
    Digamma(digamma 1) = special::DIGAMMA,
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
    IsFinite(is_finite 1) = logic::IS_FINITE,
}

impl Scalar {
    /// The dtype of the result, or what the operands should have been and how to mend it.
    fn accepts(self, dtypes: &[Dtype]) -> Result<Dtype, (String, &'static str)> {
        let row = self.row();
        let equal = |d: &[Dtype]| d.windows(2).all(|w| w[0] == w[1]);
        let last = dtypes[dtypes.len() - 1];
        let (ok, one, many) = match row.signature {
            Signature::Float | Signature::Test => (last.is_float(), "a float", "floats"),
            Signature::Number => (last != Dtype::Bool, "a number", "numbers"),
            Signature::Signed => (last.is_signed(), "a signed number", "signed numbers"),
            Signature::Compare => (true, "an operand", "operands"),
            Signature::Bits => (!last.is_float(), "a bool or an integer", "bools or integers"),
            Signature::Integer => (last.is_integer(), "an integer", "integers"),
            Signature::Choose => {
                let ok = dtypes[0] == Dtype::Bool && equal(&dtypes[1..]);
                let want = "a bool and two operands of one dtype";
                let help = "compare the condition, and `convert` one of the others";
                return if ok { Ok(last) } else { Err((want.to_owned(), help)) };
            }
        };
        match (ok, equal(dtypes)) {
            (true, true) => Ok(row.code.result(last)),
            (false, true) if dtypes.len() == 1 => {
                Err((one.to_owned(), "`convert` it to a dtype that fits"))
            }
            (false, true) => Err((many.to_owned(), "`convert` the operands to a dtype that fits")),
            (_, false) => {
                let want = format!("{many} of one dtype");
                Err((want, "bring the operands to one dtype with `convert`"))
            }
        }
    }
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
        let dtype = self.accepts(&dtypes).map_err(|(want, help)| {
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
        Scalar::ALL.iter().flat_map(|s| row_samples(*s)).collect()
    }
}

/// The row's points as tensors: all of them in one vector per dtype, and the first as scalars.
fn row_samples(scalar: Scalar) -> Vec<Sample> {
    let row = scalar.row();
    let column = |points: &[&[f64]], i: usize, dtype: Dtype| {
        Tensor::of(dtype, &points.iter().map(|p| p[i]).collect::<Vec<f64>>())
    };
    let dtypes: &[Dtype] = match row.signature {
        Signature::Float | Signature::Test => &[Dtype::F64, Dtype::F32],
        Signature::Number | Signature::Signed | Signature::Choose => {
            &[Dtype::F64, Dtype::F32, Dtype::I64, Dtype::I32]
        }
        Signature::Compare => &Dtype::ALL,
        Signature::Bits => &[Dtype::Bool, Dtype::I32, Dtype::I64, Dtype::U32, Dtype::U64],
        Signature::Integer => &[Dtype::I32, Dtype::I64, Dtype::U32, Dtype::U64],
    };
    let operand = |points: &[&[f64]], i: usize, dtype: Dtype| {
        let choice = row.signature == Signature::Choose && i == 0;
        column(points, i, if choice { Dtype::Bool } else { dtype })
    };
    let mut samples = Vec::new();
    for dtype in dtypes {
        for (points, smooth) in [(row.smooth, true), (row.edge, false)] {
            if points.is_empty() {
                continue;
            }
            let vectors = (0..row.arity()).map(|i| operand(points, i, *dtype)).collect();
            let scalars =
                (0..row.arity()).map(|i| Tensor::from(operand(points, i, *dtype).at(0))).collect();
            let differentiable =
                smooth && *dtype == Dtype::F64 && row.code.result(*dtype).is_float();
            for operands in [vectors, scalars] {
                samples.push(Sample { op: scalar.into(), operands, smooth: differentiable });
            }
        }
    }
    samples
}
