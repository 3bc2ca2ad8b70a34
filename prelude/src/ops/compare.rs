//! Comparisons (to bool), choice between values, and logic.

use super::{binary, broadcast_together, emit};
use crate::Var;
use crate::var::{IntoVar, caller, pair};
use std::ops;
use tapeloom_ir::trace;
use tapeloom_ir::{Dtype, Kind, Loc, Problem, Scalar};

macro_rules! comparisons {
    ($($(#[$doc:meta])+ $name:ident = $op:ident;)*) => {
        /// Comparisons, element by element, of arrays of one dtype; the result is bool.
        impl Var {
            $($(#[$doc])+
            #[track_caller]
            pub fn $name(self, y: impl IntoVar) -> Var {
                let at = caller();
                binary(Scalar::$op, self, y.into_var(self.ty(at).dtype, at), at)
            })*
        }
    };
}
comparisons! {
    /// x = y; nan equals nothing.
    #[doc(alias = "equal")]
    eq = Eq;
    /// x ≠ y
    #[doc(alias = "not_equal")]
    ne = Ne;
    /// x < y
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let small = run(|x: Var| x.lt(2.0), [1.0, 2.0, 3.0])?;
    /// assert_eq!(small.to_vec::<bool>()?, [true, false, false]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "less")]
    lt = Lt;
    /// x ≤ y
    #[doc(alias = "less_equal")]
    le = Le;
    /// x > y
    #[doc(alias = "greater")]
    gt = Gt;
    /// x ≥ y
    #[doc(alias = "greater_equal")]
    ge = Ge;
}

impl Var {
    /// Whether x is nan (bool).
    #[doc(alias = "isnan")]
    #[track_caller]
    pub fn is_nan(self) -> Var {
        emit(Scalar::Ne, &[self, self], caller())
    }

    /// `x` where this bool array is true, `y` elsewhere. See [`select`].
    #[doc(alias = "where")]
    #[track_caller]
    pub fn select(self, x: impl IntoVar, y: impl IntoVar) -> Var {
        choose(self, x, y, caller())
    }
}

/// `x` where `condition` (bool) is true, `y` elsewhere, all broadcast together (numpy's `where`).
///
/// Both sides are computed. The derivative of the side not taken is multiplied by zero, so a side
/// that is infinite or nan where it is not taken must be made harmless inside:
/// `select(x.gt(0.0), select(x.gt(0.0), x, 1.0).ln(), 0.0)`.
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|x: Var| select(x.gt(0.0), x, -2.0 * x), [3.0, -3.0])?;
/// assert_eq!(y.to_vec::<f64>()?, [3.0, 6.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "where")]
#[track_caller]
pub fn select(condition: Var, x: impl IntoVar, y: impl IntoVar) -> Var {
    choose(condition, x, y, caller())
}

fn choose(condition: Var, x: impl IntoVar, y: impl IntoVar, at: Loc) -> Var {
    let (x, y) = pair(x, y, at);
    let (tc, tx, ty) = (condition.ty(at), x.ty(at), y.ty(at));
    let operands = [condition, x, y];
    let wrong = if tc.dtype != Dtype::Bool {
        Some(Problem::new(
            Kind::Dtype,
            format!("`select` needs a bool condition, got {tc}"),
            "compare it, as in `x.ne(0.0)`",
        ))
    } else if tx.dtype != ty.dtype {
        Some(Problem::new(
            Kind::Dtype,
            format!("`select` needs both sides of one dtype, got {tx} and {ty}"),
            format!("convert one of them, as in `y.convert(Dtype::{:?})`", tx.dtype),
        ))
    } else {
        match broadcast_together("select", &operands, at) {
            Ok((operands, _)) => return emit(Scalar::Select, &operands, at),
            Err(problem) => Some(problem),
        }
    };
    if let Some(problem) = wrong {
        trace::record(problem, &operands.map(|v| v.handle), at);
    }
    Var::poison(if tx.shape.len() >= ty.shape.len() { tx } else { ty }, at)
}

macro_rules! logic {
    ($($trait:ident $method:ident $op:ident),*) => {$(
        impl<T: IntoVar> ops::$trait<T> for Var {
            type Output = Var;
            #[track_caller]
            fn $method(self, y: T) -> Var {
                let at = caller();
                binary(Scalar::$op, self, y.into_var(self.ty(at).dtype, at), at)
            }
        }
    )*};
}
logic!(BitAnd bitand And, BitOr bitor Or, BitXor bitxor Xor, Shl shl ShiftLeft);

impl<T: IntoVar> ops::Shr<T> for Var {
    type Output = Var;
    /// Keeps the sign of signed integers, as Rust's `>>`.
    #[track_caller]
    fn shr(self, y: T) -> Var {
        let at = caller();
        let dtype = self.ty(at).dtype;
        let op = if dtype.is_signed() {
            Scalar::ShiftRightArithmetic
        } else {
            Scalar::ShiftRightLogical
        };
        binary(op, self, y.into_var(dtype, at), at)
    }
}

impl ops::Not for Var {
    type Output = Var;
    #[track_caller]
    fn not(self) -> Var {
        emit(Scalar::Not, &[self], caller())
    }
}
