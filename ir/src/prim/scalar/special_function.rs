//! Functions of floats with integer attributes, closed under differentiation.
//!
//! A row of the table of scalar functions cannot have attributes, and some functions need them: the derivative of
//! `bessel_j{n}` has the neighbouring orders of n, and the derivative of `gammainc{n}` in its parameter is
//! `gammainc{n+1}`. Such a function defines its code and its partial derivatives; this file derives all other rules.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype};
use crate::prim::{
    Arg, ArrayPrimitive, Bessel, Betainc, Code, Continuity, Cotangents, Doc, Effects, Expn, Expr,
    Gammainc, HalfPow, Library, LibraryFn, Linearity, Lowering, Notation, Op, Operand, Polygamma,
    Rewrite, Sample, ScaledBessel, ScaledErf, SignOf, Spence, StableHlo, Tangent, Zeta,
    elementwise,
};
use crate::tensor::Tensor;
use smallvec::SmallVec;

/// The definition of a function of floats with integer attributes. The value of the implementing type holds the
/// attributes.
pub(crate) trait SpecialFunction: Notation + Copy + Into<Op> {
    /// The number of the function's operands.
    const ARITY: usize;

    /// Returns the function's entries on the generated page of primitives.
    fn docs() -> Vec<Doc>;

    /// Returns the operation on single elements, or the error in the attributes.
    fn code(self) -> Result<Code>;

    /// Emits `∂f/∂xᵢ · t` for operand i, as in a row of the scalar table.
    fn partial<'b, 'm>(
        self,
        i: usize,
        t: Expr<'b, 'm>,
        x: &[Expr<'b, 'm>],
        y: Expr<'b, 'm>,
    ) -> Result<Expr<'b, 'm>>;

    /// Returns sample operands, typical and edge cases, on which the tests over all primitives run.
    fn samples() -> Vec<Sample>;
}

/// Implements `crate::prim::ArrayPrimitive` for each special function. (Rust does not admit one `impl` for all
/// special functions besides the one for all movements.)
macro_rules! primitives {
    ($($function:ident),*) => {$(
        impl ArrayPrimitive for $function {
            const EFFECTS: Effects = Effects::Pure;
            fn docs() -> Vec<Doc> {
                <$function as SpecialFunction>::docs()
            }
            fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
                infer(*self, operands)
            }
            fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
                elementwise::eval(self.code()?, operands)
            }
            fn jvp(&self, b: &Builder<'_>, x: &[Atom], y: Atom, dx: &[Tangent]) -> Result<Tangent> {
                jvp(*self, b, x, y, dx)
            }
            fn is_linear(&self, _: &[Linearity]) -> bool {
                false
            }
            fn transpose(&self, _: &Builder<'_>, _: &[Arg], _: Atom, _: &mut Cotangents) -> Result<()> {
                Err(Problem::internal(format!("`{}` is not linear", self.name())))
            }
            fn batch(&self, b: &Builder<'_>, n: usize, x: &[Atom], batched: &[bool]) -> Result<Atom> {
                elementwise::batch(b, (*self).into(), n, x, batched)
            }
            fn lower(&self, _: &[Operand<'_>]) -> Lowering {
                // Type inference has rejected attributes without code, so `Add` is never used.
                Lowering::Elementwise(self.code().unwrap_or(Code::Add))
            }
            fn rewrites() -> Vec<Rewrite> {
                Vec::new()
            }
            fn samples() -> Vec<Sample> {
                <$function as SpecialFunction>::samples()
            }
        }
    )*};
}
primitives!(
    HalfPow,
    Polygamma,
    Bessel,
    Expn,
    Spence,
    ScaledBessel,
    ScaledErf,
    Zeta,
    Gammainc,
    Betainc
);

fn infer<F: SpecialFunction>(function: F, operands: &[Operand<'_>]) -> Result<ArrayType> {
    let name = function.name();
    function.code()?;
    let (shape, dtypes) = elementwise::common_shape(name, operands)?;
    match dtypes.first() {
        Some(d) if d.is_float() && dtypes.len() == F::ARITY && dtypes.iter().all(|e| e == d) => {
            Ok(ArrayType::new(*d, shape))
        }
        _ => {
            let types: Vec<String> = operands.iter().map(|o| o.ty.to_string()).collect();
            let (takes, got) = (takes(F::ARITY), types.join(" and "));
            Err(Problem::new(
                Kind::Dtype,
                format!("`{name}` takes {takes}, got {got}"),
                "`convert` the operands to a dtype that fits",
            ))
        }
    }
}

fn jvp<F: SpecialFunction>(
    function: F,
    b: &Builder<'_>,
    x: &[Atom],
    y: Atom,
    dx: &[Tangent],
) -> Result<Tangent> {
    let exprs: SmallVec<[Expr<'_, '_>; 3]> = x.iter().map(|a| Expr::new(b, *a)).collect();
    let mut total: Option<Expr<'_, '_>> = None;
    for (i, t) in dx.iter().enumerate() {
        let Some(t) = t else { continue };
        let term = function.partial(i, Expr::new(b, *t), &exprs, Expr::new(b, y))?;
        total = Some(total.map_or(term, |sum| sum + term));
    }
    Ok(total.map(|dy| dy.atom))
}

/// Returns the number of operands in words, for the page of primitives.
fn takes(arity: usize) -> String {
    match arity {
        1 => "one float".to_owned(),
        2 => "two floats of one dtype".to_owned(),
        n => format!("{n} floats of one dtype"),
    }
}

/// Returns the code that calls a library function, which is continuous and whose result's sign is unknown.
pub(super) fn called(
    name: &'static str,
    flops: u32,
    stablehlo: StableHlo,
    function: LibraryFn,
) -> Code {
    let (continuity, sign) = (Continuity::Continuous, SignOf::Unknown);
    Code::Library(Library { name, flops, continuity, sign, stablehlo, function })
}

/// Returns the error for a derivative (`what`) whose order would be above `highest`.
pub(super) fn beyond(what: String, highest: u32) -> Problem {
    Problem::new(
        Kind::NotDifferentiable,
        format!(
            "{what} are implemented up to order {highest}, and this program needs the next order"
        ),
        "stop the gradient with `stop_gradient`, or give the function a custom rule",
    )
}

/// Defines the code of a library function of a constant integer `n` and one operand; its f32 version rounds the f64
/// result once. Numbers with a generic source ([`crate::math::Parted`]) are listed after `parted`. For these, both
/// versions and the recording come from the source.
macro_rules! indexed {
    ($name:literal, $flops:literal, $n:expr, $hlo:expr, $f:path $(, parted $($number:literal => $source:ty),+)?) => {{
        extern "C" fn wide(n: i64, x: f64) -> f64 {
            match n {
                $($($number => <$source as crate::math::Parted>::here(x),)+)?
                // A loop program may have any number n, also one that does not fit the type of the parameter of `f`;
                // the result is then NaN.
                _ => n.try_into().map_or(f64::NAN, |n| $f(n, x)),
            }
        }
        extern "C" fn narrow(n: i64, x: f32) -> f32 {
            match n {
                $($($number => <$source as crate::math::Parted>::here_f32(x),)+)?
                _ => n.try_into().map_or(f32::NAN, |n| $f(n, f64::from(x)) as f32),
            }
        }
        fn recording(n: i64, dtype: Dtype) -> Option<&'static crate::math::Recording> {
            match n {
                $($($number => crate::prim::scalar::row::recording!(of::<$source>)(dtype),)+)?
                _ => { let _ = dtype; None }
            }
        }
        let n = i64::from($n);
        let function = crate::prim::LibraryFn::Indexed { n, f64: wide, f32: narrow, recording };
        $crate::prim::scalar::special_function::called($name, $flops, $hlo, function)
    }};
}
pub(super) use indexed;

/// Returns one f64 vector per operand: column i of the points, which have one number per operand.
pub(super) fn columns<const N: usize>(points: &[[f64; N]]) -> Vec<Tensor> {
    let column = |i: usize| Tensor::from(points.iter().map(|p| p[i]).collect::<Vec<f64>>());
    (0..N).map(column).collect()
}

/// Returns samples of `op` at smooth points and at edge points, also as scalars and in f32.
pub(super) fn samples_at<const N: usize>(
    op: impl Into<Op>,
    smooth: &[[f64; N]],
    edge: &[[f64; N]],
) -> Vec<Sample> {
    let op = op.into();
    let scalars = smooth[0].iter().map(|x| Tensor::from(*x)).collect();
    let narrow =
        |i: usize| Tensor::of(Dtype::F32, &smooth.iter().map(|p| p[i]).collect::<Vec<f64>>());
    vec![
        Sample::smooth(op.clone(), columns(smooth)),
        Sample::smooth(op.clone(), scalars),
        Sample::edge(op.clone(), columns(edge)),
        Sample::edge(op, (0..N).map(narrow).collect()),
    ]
}
