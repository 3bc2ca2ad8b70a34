//! New arrays: constants, ranges, captured data.

use super::{emit, select, wrong};
use crate::Var;
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::prim::{Broadcast, Iota};
use tapeloom_ir::trace;
use tapeloom_ir::{ArrayType, Dtype, Kind, Literal, Loc, Problem, Scalar, Shape, Tensor};

/// Returns data as a `Var`. A number becomes a constant of the program, and so does a scalar tensor with no other
/// owner. Any other data becomes a hidden argument of the program.
///
/// Operators and methods accept tensors and numbers directly; `constant` is for `data.sin()` and the like. A hidden
/// argument is neither copied into the program nor folded. A tensor that is used several times, or in several
/// traces, is one argument; a Rust array is one argument per use. A number becomes part of the program, so another
/// number needs another compilation: if it changes between calls, pass it as an argument, or capture it as a
/// `&Tensor`.
///
/// ```
/// use tapeloom::prelude::*;
/// let data = Tensor::from([1.0, 2.0]);
/// let y = run(|x: Var| x * constant(&data).square(), 3.0)?;
/// assert_eq!(y.to_vec::<f64>()?, [3.0, 12.0]);
/// let y = run(|x: Var| scan(|(s, x): (Var, Var)| (s + x, s), constant(1.0), x).0, &data)?;
/// assert_eq!(y.item::<f64>()?, 4.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "as_tensor")]
#[doc(alias = "tensor")]
#[doc(alias = "array")]
#[doc(alias = "asarray")]
#[track_caller]
pub fn constant(data: impl Into<Tensor>) -> Var {
    let (data, at) = (data.into(), caller());
    match data.number() {
        Some(number) => Var::literal(number, at),
        None => Var::new(trace::capture(&data, at)),
    }
}

/// Returns an array of zeros.
#[doc(alias = "empty")]
#[track_caller]
pub fn zeros(shape: impl Into<Shape>, dtype: Dtype) -> Var {
    full_var(&shape.into(), Literal::zero(dtype), caller())
}

/// Returns an array of ones.
#[track_caller]
pub fn ones(shape: impl Into<Shape>, dtype: Dtype) -> Var {
    full_var(&shape.into(), Literal::one(dtype), caller())
}

/// Returns an array whose elements are all `x` (a number or a scalar `Var`). A number becomes f64 or i64.
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|x: Var| full([2], x) + full([2], 1.0), 3.0)?;
/// assert_eq!(y.to_vec::<f64>()?, [4.0, 4.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn full(shape: impl Into<Shape>, x: impl IntoVar) -> Var {
    let at = caller();
    let dtype = x.default_dtype();
    let (x, shape) = (x.into_var(dtype, at), shape.into());
    match x.handle.as_literal() {
        Some(l) => full_var(&shape, l, at),
        None => x.broadcast_to(shape),
    }
}

/// Returns an array of the given shape whose elements are their indices along `axis`.
///
/// ```
/// use tapeloom::prelude::*;
/// let i = run(|()| iota([2, 3], 1, Dtype::I64), ())?;
/// assert_eq!(i.to_vec::<i64>()?, [0, 1, 2, 0, 1, 2]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "broadcasted_iota")]
#[track_caller]
pub fn iota(shape: impl Into<Shape>, axis: usize, dtype: Dtype) -> Var {
    emit(Iota { shape: shape.into(), axis, dtype }, &[], caller())
}

/// Returns `0, 1, .. n - 1`.
#[track_caller]
pub fn arange(n: usize, dtype: Dtype) -> Var {
    emit(Iota { shape: [n].into(), axis: 0, dtype }, &[], caller())
}

/// Returns `n` equally spaced numbers from `from` to `to`, both included, computed in f64.
///
/// ```
/// use tapeloom::prelude::*;
/// let x = run(|()| linspace(0.0, 1.0, 3, Dtype::F32), ())?;
/// assert_eq!(x.to_vec::<f32>()?, [0.0, 0.5, 1.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if `dtype` is not a float.
#[track_caller]
pub fn linspace(from: f64, to: f64, n: usize, dtype: Dtype) -> Var {
    spaced("linspace", n, dtype, caller(), |i| {
        let step = if n > 1 { (to - from) / (n - 1) as f64 } else { 0.0 };
        let inside = i * step + from;
        // A sum of steps would end at `to` only up to rounding, so set the last element to `to`.
        if n < 2 { inside } else { select(i.eq((n - 1) as f64), to, inside) }
    })
}

/// Returns `n` numbers from `base`ᶠʳᵒᵐ to `base`ᵗᵒ, both included, with equal ratios, computed in f64.
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|()| logspace(0.0, 2.0, 3, 10.0, Dtype::F64), ())?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 10.0, 100.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if `dtype` is not a float.
#[track_caller]
pub fn logspace(from: f64, to: f64, n: usize, base: f64, dtype: Dtype) -> Var {
    spaced("logspace", n, dtype, caller(), |_| {
        full([], base).pow(linspace(from, to, n, Dtype::F64))
    })
}

/// Returns `n` numbers from `from` to `to`, both included, with equal ratios, computed in f64. If the signs of `from`
/// and `to` differ, the result is nan.
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|()| geomspace(-1.0, -16.0, 3, Dtype::F64), ())?;
/// assert_eq!(y.to_vec::<f64>()?, [-1.0, -4.0, -16.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if `dtype` is not a float.
#[track_caller]
pub fn geomspace(from: f64, to: f64, n: usize, dtype: Dtype) -> Var {
    spaced("geomspace", n, dtype, caller(), |i| {
        let last = n.saturating_sub(1).max(1) as f64;
        let inside = from * full([], to / from).pow(i / last);
        // Powers are rounded, so set the first and the last element to `from` and `to` exactly.
        select(i.eq(0.0), from, select(i.eq(last), to, inside))
    })
}

/// Returns the frequencies of the n terms of a discrete Fourier transform of samples at distance `spacing`: first 0, 1,
/// .., then the negative frequencies, in units of 1 / (n · spacing). They are computed in f64.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = run(|()| fftfreq(4, 0.5, Dtype::F64), ())?;
/// assert_eq!(f.to_vec::<f64>()?, [0.0, 0.5, -1.0, -0.5]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if `dtype` is not a float.
#[track_caller]
pub fn fftfreq(n: usize, spacing: f64, dtype: Dtype) -> Var {
    spaced("fftfreq", n, dtype, caller(), |i| {
        let index = select(i.lt(n.div_ceil(2) as f64), i, i - n as f64);
        index / (n as f64 * spacing)
    })
}

/// Evaluates `f` for the vector of indices `0, 1, .. n - 1` (f64), and converts the result to a float dtype.
pub(crate) fn spaced(
    name: &'static str,
    n: usize,
    dtype: Dtype,
    at: Loc,
    f: impl FnOnce(Var) -> Var,
) -> Var {
    if !dtype.is_float() {
        let message = format!("`{name}` returns floats, got the dtype {dtype}");
        let help = "use `Dtype::F64` or `Dtype::F32`, and `convert` or `arange` for integers";
        let problem = Problem::new(Kind::Dtype, message, help);
        return wrong(problem, &[], ArrayType::new(dtype, [n]), at);
    }
    on_behalf(name, at, || f(arange(n, Dtype::F64)).convert(dtype))
}

/// Returns the identity matrix.
///
/// ```
/// use tapeloom::prelude::*;
/// let i = run(|()| eye(2, Dtype::F64), ())?;
/// assert_eq!(i.to_vec::<f64>()?, [1.0, 0.0, 0.0, 1.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "identity")]
#[track_caller]
pub fn eye(n: usize, dtype: Dtype) -> Var {
    eye_var(n, dtype, caller())
}

pub(crate) fn eye_var(n: usize, dtype: Dtype, at: Loc) -> Var {
    let index = |axis| emit(Iota { shape: [n, n].into(), axis, dtype: Dtype::I64 }, &[], at);
    let diagonal = emit(Scalar::Eq, &[index(0), index(1)], at);
    if dtype == Dtype::Bool {
        return diagonal;
    }
    let number = |l| Var::literal(l, at);
    emit(Scalar::Select, &[diagonal, number(Literal::one(dtype)), number(Literal::zero(dtype))], at)
}

/// Returns an array whose elements are all the literal.
pub(crate) fn full_var(shape: &Shape, x: Literal, at: Loc) -> Var {
    let x = Var::literal(x, at);
    if shape.is_empty() {
        return x;
    }
    emit(Broadcast { shape: shape.clone(), dims: Vec::new() }, &[x], at)
}

/// Returns zeros of the given type.
pub(crate) fn zeros_like_type(ty: &ArrayType, at: Loc) -> Var {
    full_var(&ty.shape, Literal::zero(ty.dtype), at)
}

/// New arrays with the shape and dtype of this array.
impl Var {
    /// Returns zeros with the shape and dtype of this array.
    #[doc(alias = "new_zeros")]
    #[track_caller]
    pub fn zeros_like(self) -> Var {
        let at = caller();
        zeros_like_type(&self.ty(at), at)
    }

    /// Returns an array with the shape and dtype of this one whose elements are all `x` (a number, or a scalar
    /// `Var` of the same dtype).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.full_like(7.0), [1.0, 2.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [7.0, 7.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn full_like(self, x: impl IntoVar) -> Var {
        let at = caller();
        let ty = self.ty(at);
        let x = x.beside(self, at);
        let same = x.ty(at).dtype == ty.dtype;
        match x.handle.as_literal() {
            Some(l) if same => full_var(&ty.shape, l, at),
            None if same => on_behalf("full_like", at, || x.broadcast_to(ty.shape)),
            _ => {
                let message = format!("`full_like` of {ty} is given {}", x.ty(at));
                let help = format!("convert it, as in `x.convert(Dtype::{:?})`", ty.dtype);
                wrong(Problem::new(Kind::Dtype, message, help), &[self, x], ty, at)
            }
        }
    }

    /// Returns ones with the shape and dtype of this array.
    #[track_caller]
    pub fn ones_like(self) -> Var {
        let at = caller();
        let ty = self.ty(at);
        full_var(&ty.shape, Literal::one(ty.dtype), at)
    }
}
