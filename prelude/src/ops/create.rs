//! Arrays from nothing: constants, ranges, captured data.

use super::emit;
use crate::Var;
use crate::var::{IntoVar, caller};
use tapeloom_ir::prim::{Broadcast, Iota};
use tapeloom_ir::trace;
use tapeloom_ir::{ArrayType, Dtype, Literal, Loc, Scalar, Shape, Tensor};

/// Concrete data inside a trace: a hidden argument of the program, shared by all uses, never a
/// constant that is folded.
///
/// Operators and methods take tensors directly; this is for `data.sin()` and the like.
///
/// ```
/// use tapeloom::prelude::*;
/// let data = Tensor::from([1.0, 2.0]);
/// let y = run(|x: Var| x * constant(&data).square(), 3.0)?;
/// assert_eq!(y.to_vec::<f64>()?, [3.0, 12.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "asarray")]
#[track_caller]
pub fn constant(data: &Tensor) -> Var {
    Var::new(trace::capture(data, caller()))
}

/// An array of zeros.
#[track_caller]
pub fn zeros(shape: impl Into<Shape>, dtype: Dtype) -> Var {
    full_var(&shape.into(), Literal::zero(dtype), caller())
}

/// An array of ones.
#[track_caller]
pub fn ones(shape: impl Into<Shape>, dtype: Dtype) -> Var {
    full_var(&shape.into(), Literal::one(dtype), caller())
}

/// An array whose elements are all `x` (a number or a scalar `Var`); a number is f64 or i64.
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

/// The index along `axis`, over an array of that shape.
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

/// `0, 1, .. n - 1`
#[track_caller]
pub fn arange(n: usize, dtype: Dtype) -> Var {
    emit(Iota { shape: [n].into(), axis: 0, dtype }, &[], caller())
}

/// `n` numbers (f64) from `from` to `to`, both included.
#[track_caller]
pub fn linspace(from: f64, to: f64, n: usize) -> Var {
    let at = caller();
    let index = emit(Iota { shape: [n].into(), axis: 0, dtype: Dtype::F64 }, &[], at);
    let step = if n > 1 { (to - from) / (n - 1) as f64 } else { 0.0 };
    let steps = emit(Scalar::Mul, &[index, Var::literal(Literal::f64(step), at)], at);
    emit(Scalar::Add, &[steps, Var::literal(Literal::f64(from), at)], at)
}

/// The identity matrix.
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

/// An array whose elements are all the literal.
pub(crate) fn full_var(shape: &Shape, x: Literal, at: Loc) -> Var {
    let x = Var::literal(x, at);
    if shape.is_empty() {
        return x;
    }
    emit(Broadcast { shape: shape.clone(), dims: Vec::new() }, &[x], at)
}

/// Zeros of that type.
pub(crate) fn zeros_like_type(ty: &ArrayType, at: Loc) -> Var {
    full_var(&ty.shape, Literal::zero(ty.dtype), at)
}

impl Var {
    /// Zeros of this array's shape and dtype.
    #[track_caller]
    pub fn zeros_like(self) -> Var {
        let at = caller();
        zeros_like_type(&self.ty(at), at)
    }

    /// Ones of this array's shape and dtype.
    #[track_caller]
    pub fn ones_like(self) -> Var {
        let at = caller();
        let ty = self.ty(at);
        full_var(&ty.shape, Literal::one(ty.dtype), at)
    }
}
