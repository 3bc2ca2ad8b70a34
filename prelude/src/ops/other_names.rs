//! Method names of other libraries. They cannot be called; the compiler's message says what to write instead.
//!
//! Without these methods, the compiler would suggest similar names, for instance `log2` for `x.log()`, which
//! computes something else. Each method is bounded by a trait that no type implements and whose message is the
//! advice. (A lifetime prevents the compiler from deciding the bound at the definition, as in
//! [`LeftOfVar`](super::LeftOfVar).) The methods are hidden, because the search of the documentation works by
//! aliases.
//!
//! ```compile_fail
//! use tapeloom::prelude::*;
//! let f = jit(|x: Var| x.log()); // the natural logarithm is `ln`: write `x.ln()`
//! ```

use crate::Var;
use std::cmp::Ordering;
use std::ops::Index;

/// Defines methods by `name(arguments): Trait "name in other libraries" "replacement here";`
macro_rules! elsewhere {
    ($($name:ident($($arg:ident),*): $trait:ident $message:literal $label:literal;)*) => {
        $(
            #[doc(hidden)]
            #[diagnostic::on_unimplemented(message = $message, label = $label)]
            pub trait $trait<'a> {}
        )*

        #[doc(hidden)]
        #[allow(clippy::should_implement_trait, clippy::wrong_self_convention, reason = "others' names")]
        impl Var {
            $(
                pub fn $name(self $(, $arg: impl Sized)*) -> Var
                where
                    for<'a> Var: $trait<'a>,
                {
                    $(let _ = $arg;)*
                    self
                }
            )*
        }
    };
}

elsewhere! {
    log(): NaturalLogarithmIsLn "the natural logarithm is `ln`" "write `x.ln()`";
    log1p(): Log1pIsLn1p "ln(1 + x) is `ln_1p`" "write `x.ln_1p()`";
    expm1(): Expm1IsExpM1 "eˣ - 1 is `exp_m1`" "write `x.exp_m1()`";
    arcsin(): ArcsinIsAsin "the inverse sine is `asin`" "write `x.asin()`";
    arccos(): ArccosIsAcos "the inverse cosine is `acos`" "write `x.acos()`";
    arctan(): ArctanIsAtan "the inverse tangent is `atan`" "write `x.atan()`";
    arctan2(y): Arctan2IsAtan2 "the angle is `atan2`" "write `y.atan2(x)`";
    arcsinh(): ArcsinhIsAsinh "the inverse hyperbolic sine is `asinh`" "write `x.asinh()`";
    arccosh(): ArccoshIsAcosh "the inverse hyperbolic cosine is `acosh`" "write `x.acosh()`";
    arctanh(): ArctanhIsAtanh "the inverse hyperbolic tangent is `atanh`" "write `x.atanh()`";
    absolute(): AbsoluteIsAbs "the absolute value is `abs`" "write `x.abs()`";
    reciprocal(): ReciprocalIsRecip "1 / x is `recip`" "write `x.recip()`";
    sign(): SignIsSignum "-1, 0 or 1 is `signum`" "write `x.signum()`";
    power(y): PowerIsPow "a power is `powi` of an integer, `powf` of a number, `pow` of an array" "write `x.powi(2)`, `x.powf(0.5)` or `x.pow(y)`";
    clip(low, high): ClipIsClamp "between two bounds is `clamp`" "write `x.clamp(low, high)`";
    astype(dtype): AstypeIsConvert "another dtype is `convert`" "write `x.convert(Dtype::F32)`";
    to(dtype): ToIsConvert "another dtype is `convert`" "write `x.convert(Dtype::F32)`";
    float(): FloatIsConvert "another dtype is `convert`" "write `x.convert(Dtype::F32)`";
    double(): DoubleIsConvert "another dtype is `convert`" "write `x.convert(Dtype::F64)`";
    transpose(): TransposeIsT "axes in reverse order are `t`, in another one `permute`" "write `x.t()`, `x.matrix_transpose()`, `x.permute([1, 0, 2])` or `x.swap_axes(0, 1)`";
    swapaxes(a, b): SwapaxesIsSwapAxes "two axes exchanged are `swap_axes`" "write `x.swap_axes(a, b)`";
    moveaxis(from, to): MoveaxisIsMoveAxis "an axis moved is `move_axis`" "write `x.move_axis(from, to)`";
    view(shape): ViewIsReshape "another shape is `reshape`" "write `x.reshape([2, 3])`";
    ravel(): RavelIsFlatten "all elements as a vector are `flatten`" "write `x.flatten()`";
    unsqueeze(axis): UnsqueezeIsExpandDims "a new axis is `expand_dims`" "write `x.expand_dims(axis)`";
    ndim(): NdimIsRank "the number of axes is `rank`" "write `x.rank()`";
    dim(): DimIsRank "the number of axes is `rank`, the extents are `shape`" "write `x.rank()` or `x.shape()`";
    numel(): NumelIsSize "the number of elements is `size`" "write `x.size()`";
    mm(y): MmIsMatmul "the product of matrices is `matmul`" "write `x.matmul(y)`";
    bmm(y): BmmIsMatmul "the product of batches of matrices is `matmul`" "write `x.matmul(y)`";
    amax(axes): AmaxIsMaxAxis "the largest along axes is `max_axis`" "write `x.max_axis(axes)`";
    amin(axes): AminIsMinAxis "the smallest along axes is `min_axis`" "write `x.min_axis(axes)`";
    gather(axis, index): GatherIsTake "elements at places are `take`, `take_along_axis` or `at(i).get()`" "write `x.take_along_axis(index, axis)`";
    masked_fill(mask, value): MaskedFillIsSelect "a choice by a condition is `select`" "write `select(mask, value, x)`";
    detach(): DetachIsStopGradient "the same values without a derivative are `stop_gradient`" "write `x.stop_gradient()`";
    backward(): BackwardIsGrad "a derivative is a transform of the closure that computes the value" "write `grad(|x: Var| ..)(x)`, or `record` it and pull back its tape";
    requires_grad_(): DerivativesAreOfArguments "derivatives are with respect to a closure's arguments" "write `grad(|x: Var| ..)(x)`";
    numpy(): DataAreResults "an array has data when the program runs: return it from the closure" "write `run(f, x)?` or `jit(f).call(x)?`, and read the tensor that comes back";
    tolist(): ListsAreResults "an array has data when the program runs: return it from the closure" "write `run(f, x)?.to_vec::<f64>()?`";
}

/// `x[i]` must return a reference in Rust, but a traced array has no elements in memory.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an array that is being traced has no elements to refer to",
    label = "write `x.index(i)`",
    note = "`x.index(2)` and `x.index((i, j))` are elements or subarrays, `x.slice_axis(0, 1..)` a range, `x.take(i, 0)` several, `x.at(i).set(v)` the array with a change"
)]
pub trait IndexIsAMethod<'a> {}

impl<I> Index<I> for Var
where
    for<'a> Var: IndexIsAMethod<'a>,
{
    type Output = Var;
    fn index(&self, _: I) -> &Var {
        self
    }
}

/// `x > y` must return a bool in Rust, but a traced array has no values. The compiler prints the name of the
/// missing trait, so the name is the advice.
#[doc(hidden)]
pub trait ComparisonsAreGtLtEqAndChoicesSelectOrCond<'a> {}

impl<T> PartialEq<T> for Var
where
    for<'a> Var: ComparisonsAreGtLtEqAndChoicesSelectOrCond<'a>,
{
    fn eq(&self, _: &T) -> bool {
        false
    }
}

impl<T> PartialOrd<T> for Var
where
    for<'a> Var: ComparisonsAreGtLtEqAndChoicesSelectOrCond<'a>,
{
    fn partial_cmp(&self, _: &T) -> Option<Ordering> {
        None
    }
}
