//! The type of a row of the scalar table, and helpers to write rows: sample points, rewrites, library functions.

use super::Scalar;
use crate::lang::types::Dtype;
use crate::prim::elementwise::{Linear, Partial};
use crate::prim::{Code, Equality, Exactness, Rewrite, Sample, When};
use crate::tensor::Tensor;

/// The dtypes that a scalar function accepts, and the dtype of its result, as a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signature {
    /// The operands have one float dtype, and the result has the same dtype.
    Float,
    /// The operands have one numeric dtype, and the result has the same dtype.
    Number,
    /// The operands have one signed numeric dtype, and the result has the same dtype.
    Signed,
    /// The two operands have one dtype, and the result is a bool.
    Compare,
    /// The operand is a float, and the result is a bool.
    Test,
    /// The operands have one dtype, bool or an integer dtype, and the result has the same dtype.
    Bits,
    /// The operands have one integer dtype, and the result has the same dtype.
    Integer,
    /// The operands and the result have the dtype u64.
    Wide,
    /// The first operand is a bool, the other two have one dtype, and the result has their dtype (a select).
    Choose,
}

impl Signature {
    /// Returns the signature in words, for the page of primitives.
    pub(super) fn words(self) -> &'static str {
        match self {
            Signature::Float => "floats to the same",
            Signature::Number => "numbers to the same",
            Signature::Signed => "signed numbers to the same",
            Signature::Compare => "anything to bool",
            Signature::Test => "floats to bool",
            Signature::Bits => "bools or integers to the same",
            Signature::Integer => "integers to the same",
            Signature::Wide => "u64 to the same",
            Signature::Choose => "a bool and two of anything to the same",
        }
    }
}

/// The definition of one scalar function.
pub struct Row {
    /// The operation on single elements; it includes the name and the number of operands.
    pub code: Code,
    /// The mathematics of the function, in terms of x (and y, z).
    pub math: &'static str,
    /// The dtypes of operands and result.
    pub signature: Signature,
    /// One partial derivative per operand, in the order of the operands.
    pub partials: &'static [Partial],
    /// The operands in which the function is linear.
    pub linear: Linear,
    /// The function's conventions at domain edges, ties, infinities and NaN.
    pub edges: &'static str,
    /// Sample points (one number per operand) inside the domain, where the function is smooth.
    pub smooth: &'static [&'static [f64]],
    /// Sample points at ties and edges, where only values are compared.
    pub edge: &'static [&'static [f64]],
    /// The rewrite rules whose left side is this function.
    pub rewrites: &'static [Rewrite],
}

impl Row {
    /// Returns the function's name in the text format.
    pub const fn name(&self) -> &'static str {
        self.code.row().name
    }

    /// Returns the function's number of operands.
    pub const fn arity(&self) -> usize {
        self.code.row().takes.arity()
    }

    /// Returns the dtype of the result for operands of these dtypes, or an error with the required dtypes and a
    /// remedy.
    pub(super) fn accepts(&self, dtypes: &[Dtype]) -> Result<Dtype, (String, &'static str)> {
        let equal = |d: &[Dtype]| d.windows(2).all(|w| w[0] == w[1]);
        let last = dtypes[dtypes.len() - 1];
        let (ok, one, many) = match self.signature {
            Signature::Float | Signature::Test => (last.is_float(), "a float", "floats"),
            Signature::Number => (last != Dtype::Bool, "a number", "numbers"),
            Signature::Signed => (last.is_signed(), "a signed number", "signed numbers"),
            Signature::Compare => (true, "an operand", "operands"),
            Signature::Bits => (!last.is_float(), "a bool or an integer", "bools or integers"),
            Signature::Integer => (last.is_integer(), "an integer", "integers"),
            Signature::Wide => (last == Dtype::U64, "a u64", "u64"),
            Signature::Choose => {
                let ok = dtypes[0] == Dtype::Bool && equal(&dtypes[1..]);
                let want = "a bool and two operands of one dtype";
                let help = "compare the condition, and `convert` one of the others";
                return if ok { Ok(last) } else { Err((want.to_owned(), help)) };
            }
        };
        match (ok, equal(dtypes)) {
            (true, true) => Ok(self.code.result(last)),
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

    /// Returns the sample points as tensors: for each dtype all points as one vector per operand, and the first
    /// point as scalars.
    pub(super) fn samples(&self, scalar: Scalar) -> Vec<Sample> {
        let column = |points: &[&[f64]], i: usize, dtype: Dtype| {
            Tensor::of(dtype, &points.iter().map(|p| p[i]).collect::<Vec<f64>>())
        };
        let dtypes: &[Dtype] = match self.signature {
            Signature::Float | Signature::Test => &[Dtype::F64, Dtype::F32],
            Signature::Number | Signature::Signed | Signature::Choose => {
                &[Dtype::F64, Dtype::F32, Dtype::I64, Dtype::I32]
            }
            Signature::Compare => &Dtype::ALL,
            Signature::Bits => &[Dtype::Bool, Dtype::I32, Dtype::I64, Dtype::U32, Dtype::U64],
            Signature::Integer => &[Dtype::I32, Dtype::I64, Dtype::U32, Dtype::U64],
            Signature::Wide => &[Dtype::U64],
        };
        let operand = |points: &[&[f64]], i: usize, dtype: Dtype| {
            let choice = self.signature == Signature::Choose && i == 0;
            column(points, i, if choice { Dtype::Bool } else { dtype })
        };
        let mut samples = Vec::new();
        for dtype in dtypes {
            for (points, smooth) in [(self.smooth, true), (self.edge, false)] {
                if points.is_empty() {
                    continue;
                }
                let vectors = (0..self.arity()).map(|i| operand(points, i, *dtype)).collect();
                let scalars = (0..self.arity())
                    .map(|i| Tensor::from(operand(points, i, *dtype).at(0)))
                    .collect();
                let differentiable =
                    smooth && *dtype == Dtype::F64 && self.code.result(*dtype).is_float();
                for operands in [vectors, scalars] {
                    samples.push(Sample { op: scalar.into(), operands, smooth: differentiable });
                }
            }
        }
        samples
    }

    /// Fails the compilation if the row has not one partial per operand, or a sample point lacks an operand.
    pub(super) const fn assert_complete(&self, message: &str) {
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

/// Sample points for functions that are defined on all real numbers.
pub(super) const REAL: &[&[f64]] = &[&[-3.0], &[-0.5], &[0.1], &[1.25]];
/// Sample points for functions that are defined on positive numbers.
pub(super) const POSITIVE: &[&[f64]] = &[&[0.05], &[0.9], &[2.5]];
/// Sample points for functions that are defined on [-1, 1].
pub(super) const UNIT: &[&[f64]] = &[&[-0.9], &[-0.1], &[0.5]];
/// Edge points for functions of one float: zeros, ones, infinities, NaN, tiny and huge numbers, and arguments
/// around which the exponential overflows and underflows.
pub(super) const EDGES: &[&[f64]] = &[
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

/// Returns a rewrite rule whose sides are equal bit by bit.
pub(super) const fn exact(
    name: &'static str,
    lhs: &'static str,
    rhs: &'static str,
    when: When,
    why: &'static str,
) -> Rewrite {
    Rewrite { name, rule: Equality::Pattern { lhs, rhs }, when, exactness: Exactness::Exact, why }
}

/// Returns a rewrite rule whose sides are equal in real arithmetic only, for relaxed mode.
pub(super) const fn relaxed(
    name: &'static str,
    lhs: &'static str,
    rhs: &'static str,
    when: When,
    why: &'static str,
) -> Rewrite {
    Rewrite {
        name,
        rule: Equality::Pattern { lhs, rhs },
        when,
        exactness: Exactness::Reassociates,
        why,
    }
}

/// Defines a function that returns the recording of a function for a float dtype, made at the first use, from the
/// constructor of [`crate::math::Recording`].
macro_rules! recording {
    ($($of:tt)*) => {{
        fn recording(dtype: crate::Dtype) -> Option<&'static crate::math::Recording> {
            static BOTH: [std::sync::OnceLock<crate::math::Recording>; 2] =
                [const { std::sync::OnceLock::new() }; 2];
            let narrow = dtype == crate::Dtype::F32;
            let place = &BOTH[usize::from(narrow)];
            Some(place.get_or_init(|| crate::math::Recording::$($of)*(narrow)))
        }
        recording as fn(crate::Dtype) -> Option<&'static crate::math::Recording>
    }};
}

/// Defines the code of a library function of one argument from its name, cost, continuity, sign
/// ([`crate::prim::SignOf`]), form in StableHLO ([`crate::prim::StableHlo`]) and f64 version, whose result the f32
/// version rounds once. With `parted`, both versions come from one generic source ([`crate::math::Parted`]); with
/// `branching`, each version has a source of its own, whose general part may branch ([`crate::math::PartedIn`]).
macro_rules! unary {
    ($name:literal, $flops:literal, $jumps:ident, $sign:ident, $hlo:expr, parted $f:path) => {{
        extern "C" fn wide(x: f64) -> f64 {
            <$f as crate::math::Parted>::here(x)
        }
        extern "C" fn narrow(x: f32) -> f32 {
            <$f as crate::math::Parted>::here_f32(x)
        }
        let eight = Some(crate::math::Eight::of::<$f>());
        let recording = crate::prim::scalar::row::recording!(of::<$f>);
        let function = crate::prim::LibraryFn::Unary { f64: wide, f32: narrow, eight, recording };
        let (flops, continuity) = ($flops, crate::prim::Continuity::$jumps);
        let (sign, stablehlo) = (crate::prim::SignOf::$sign, $hlo);
        let name = $name;
        Code::Library(crate::prim::Library { name, flops, continuity, sign, stablehlo, function })
    }};
    ($name:literal, $flops:literal, $jumps:ident, $sign:ident, $hlo:expr, branching $f:path) => {{
        extern "C" fn wide(x: f64) -> f64 {
            <$f as crate::math::PartedIn<f64>>::here(x)
        }
        extern "C" fn narrow(x: f32) -> f32 {
            <$f as crate::math::PartedIn<f32>>::here(x)
        }
        let recording = crate::prim::scalar::row::recording!(of_branching::<$f>);
        unary!($name, $flops, $jumps, $sign, $hlo, wide, narrow, recording)
    }};
    ($name:literal, $flops:literal, $jumps:ident, $sign:ident, $hlo:expr, $f:path) => {{
        extern "C" fn wide(x: f64) -> f64 {
            $f(x)
        }
        extern "C" fn narrow(x: f32) -> f32 {
            $f(f64::from(x)) as f32
        }
        unary!($name, $flops, $jumps, $sign, $hlo, wide, narrow, |_| None)
    }};
    ($name:literal, $flops:literal, $jumps:ident, $sign:ident, $hlo:expr, $wide:ident, $narrow:ident, $recording:expr) => {{
        let function = crate::prim::LibraryFn::Unary {
            f64: $wide,
            f32: $narrow,
            eight: None,
            recording: $recording,
        };
        let (flops, continuity) = ($flops, crate::prim::Continuity::$jumps);
        let (sign, stablehlo) = (crate::prim::SignOf::$sign, $hlo);
        let name = $name;
        Code::Library(crate::prim::Library { name, flops, continuity, sign, stablehlo, function })
    }};
}

/// Defines the code of a library function of two arguments, as [`unary!`] does, or with its own f32 version.
macro_rules! binary {
    ($name:literal, $flops:literal, $jumps:ident, $sign:ident, $hlo:expr, parted $f:path) => {{
        extern "C" fn wide(x: f64, y: f64) -> f64 {
            <$f as crate::math::PartedPair>::here(x, y)
        }
        extern "C" fn narrow(x: f32, y: f32) -> f32 {
            <$f as crate::math::PartedPair>::here_f32(x, y)
        }
        let recording = crate::prim::scalar::row::recording!(of_pair::<$f>);
        let function = crate::prim::LibraryFn::Binary { f64: wide, f32: narrow, recording };
        let (flops, continuity) = ($flops, crate::prim::Continuity::$jumps);
        let (sign, stablehlo) = (crate::prim::SignOf::$sign, $hlo);
        let name = $name;
        Code::Library(crate::prim::Library { name, flops, continuity, sign, stablehlo, function })
    }};
    ($name:literal, $flops:literal, $jumps:ident, $sign:ident, $hlo:expr, $f:path) => {{
        fn narrow(x: f32, y: f32) -> f32 {
            $f(f64::from(x), f64::from(y)) as f32
        }
        binary!($name, $flops, $jumps, $sign, $hlo, $f, narrow)
    }};
    ($name:literal, $flops:literal, $jumps:ident, $sign:ident, $hlo:expr, $f:path, $g:path) => {{
        extern "C" fn wide(x: f64, y: f64) -> f64 {
            $f(x, y)
        }
        extern "C" fn single(x: f32, y: f32) -> f32 {
            $g(x, y)
        }
        let function =
            crate::prim::LibraryFn::Binary { f64: wide, f32: single, recording: |_| None };
        let (flops, continuity) = ($flops, crate::prim::Continuity::$jumps);
        let (sign, stablehlo) = (crate::prim::SignOf::$sign, $hlo);
        let name = $name;
        Code::Library(crate::prim::Library { name, flops, continuity, sign, stablehlo, function })
    }};
}

/// Defines the code of a library function of three arguments, as [`unary!`] does.
macro_rules! ternary {
    ($name:literal, $flops:literal, $jumps:ident, $sign:ident, $hlo:expr, $f:path) => {{
        extern "C" fn wide(x: f64, y: f64, z: f64) -> f64 {
            $f(x, y, z)
        }
        extern "C" fn narrow(x: f32, y: f32, z: f32) -> f32 {
            $f(f64::from(x), f64::from(y), f64::from(z)) as f32
        }
        let function = crate::prim::LibraryFn::Ternary { f64: wide, f32: narrow };
        let (flops, continuity) = ($flops, crate::prim::Continuity::$jumps);
        let (sign, stablehlo) = (crate::prim::SignOf::$sign, $hlo);
        let name = $name;
        Code::Library(crate::prim::Library { name, flops, continuity, sign, stablehlo, function })
    }};
}
pub(super) use {binary, recording, ternary, unary};
