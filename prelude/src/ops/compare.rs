//! Comparisons (with bool results), selection, and logic.

use super::composite::{of_floats, of_integers};
use super::{binary, broadcast_together, emit, full_var, wrong};
use crate::Var;
use crate::var::{IntoVar, caller, on_behalf, pair};
use std::ops;
use tapeloom_ir::trace;
use tapeloom_ir::{Dtype, Kind, Literal, Loc, Problem, Scalar, Shape};

/// If there are at most this many elements or at most this many values, comparing all pairs is faster than sorting the
/// values.
const FEW: usize = 64;

macro_rules! comparisons {
    ($($(#[$doc:meta])+ $name:ident = $op:ident;)*) => {
        /// Elementwise comparisons of arrays of one dtype. The result is bool.
        impl Var {
            $($(#[$doc])+
            #[track_caller]
            pub fn $name(self, y: impl IntoVar) -> Var {
                let at = caller();
                let y = y.beside(self, at);
                trace::within(stringify!($name), || binary(Scalar::$op, self, y, at))
            })*
        }
    };
}
comparisons! {
    /// Returns x = y. A nan is equal to no number, not even to nan.
    #[doc(alias = "equal")]
    eq = Eq;
    /// Returns x ≠ y.
    #[doc(alias = "not_equal")]
    ne = Ne;
    /// Returns x < y.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let small = run(|x: Var| x.lt(2.0), [1.0, 2.0, 3.0])?;
    /// assert_eq!(small.to_vec::<bool>()?, [true, false, false]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "less")]
    lt = Lt;
    /// Returns x ≤ y.
    #[doc(alias = "less_equal")]
    le = Le;
    /// Returns x > y.
    #[doc(alias = "greater")]
    gt = Gt;
    /// Returns x ≥ y.
    #[doc(alias = "greater_equal")]
    ge = Ge;
}

/// Tests of elements, equality of arrays, and selection.
impl Var {
    /// Returns whether x is nan (bool).
    #[doc(alias = "isnan")]
    #[track_caller]
    pub fn is_nan(self) -> Var {
        emit(Scalar::Ne, &[self, self], caller())
    }

    /// Returns whether x is inf or -inf (bool).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.is_infinite(), [1.0, f64::NAN, f64::NEG_INFINITY])?;
    /// assert_eq!(y.to_vec::<bool>()?, [false, false, true]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "isinf")]
    #[track_caller]
    pub fn is_infinite(self) -> Var {
        of_floats("is_infinite", [self], caller(), |[x]| x.abs().eq(f64::INFINITY))
    }

    /// Returns whether |x - y| ≤ `absolute` + `relative`·|y| (bool). An infinity is close only to itself, and nan is
    /// close to no number. numpy's defaults are `relative` = 1e-5 and `absolute` = 1e-8.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.is_close(1.0, 1e-5, 1e-8), [1.0 + 1e-6, 1.1])?;
    /// assert_eq!(y.to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "isclose")]
    #[track_caller]
    pub fn is_close(self, y: impl IntoVar, relative: f64, absolute: f64) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        of_floats("is_close", [self, y], at, |[x, y]| {
            let near = (x - y).abs().le(absolute + relative * y.abs());
            x.eq(y) | (x.is_finite() & y.is_finite() & near)
        })
    }

    /// Returns whether all elements are [close](Var::is_close) (a bool scalar).
    #[doc(alias = "allclose")]
    #[track_caller]
    pub fn all_close(self, y: impl IntoVar, relative: f64, absolute: f64) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        on_behalf("all_close", at, || self.is_close(y, relative, absolute).all())
    }

    /// Returns whether the shapes and all elements are equal (a bool scalar). A nan is equal to no number.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|(x, y): (Var, Var)| x.array_equal(y), ([1.0, 2.0], [1.0]))?;
    /// assert_eq!(y.item::<bool>()?, false);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn array_equal(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        if self.ty(at).shape != y.ty(at).shape && y.handle.as_literal().is_none() {
            return full_var(&Shape::scalar(), Literal::bool(false), at);
        }
        on_behalf("array_equal", at, || self.eq(y).all())
    }

    /// Returns, for each element, whether it is one of `values` (an array of any shape), as bool. For nan the result is
    /// false.
    ///
    /// The values are sorted, and each element is found by bisection. If there are few elements or few values, all
    /// pairs are compared instead, without an array of pairs.
    ///
    /// Errors: `dtype` if the values have another dtype.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|(x, s): (Var, Var)| x.is_in(s), ([1i64, 2, 3], [3i64, 1]))?;
    /// assert_eq!(y.to_vec::<bool>()?, [true, false, true]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "isin")]
    #[track_caller]
    pub fn is_in(self, values: impl IntoVar) -> Var {
        let at = caller();
        let values = values.beside(self, at);
        on_behalf("is_in", at, || {
            let set = values.flatten();
            let n = set.len();
            if n.min(self.size()) <= FEW || self.dtype() != set.dtype() {
                return self.expand_dims(-1).eq(set).any_axis(-1);
            }
            let sorted = set.sort(0);
            // The position of the first value that is at least the element. If all values are smaller, the last
            // position.
            let place = sorted.searchsorted(self).minimum(n as i64 - 1);
            sorted.index(place).eq(self)
        })
    }

    /// Returns the elements of `x` where this array of bools is true, and those of `y` elsewhere; see [`select`].
    #[doc(alias = "masked_fill")]
    #[doc(alias = "where")]
    #[track_caller]
    pub fn select(self, x: impl IntoVar, y: impl IntoVar) -> Var {
        choose(self, x, y, caller())
    }
}

/// Returns `x` where `condition` (bool) is true, `y` elsewhere, all broadcast together (numpy's `where`).
///
/// Both `x` and `y` are computed, and the derivative of the one that is not selected is multiplied by zero. If this
/// derivative can be infinite or nan, the product is nan. Then also replace the argument from which it is computed:
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

/// Returns the first of `choices` whose condition (bool) is true, and `otherwise` where none is, all broadcast together
/// (numpy's `select` and `piecewise`). As in [`select`], all choices are computed.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |x: Var| select_first(&[(x.lt(0.0), -x), (x.lt(1.0), x * x)], x);
/// let y = run(f, [-2.0, 0.5, 3.0])?;
/// assert_eq!(y.to_vec::<f64>()?, [2.0, 0.25, 3.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "piecewise")]
#[track_caller]
pub fn select_first(choices: &[(Var, Var)], otherwise: impl IntoVar) -> Var {
    let at = caller();
    let dtype =
        choices.first().and_then(|(_, x)| x.firm_dtype(at)).unwrap_or(otherwise.default_dtype());
    let mut rest = choices.iter().rev();
    // Convert `otherwise` here, because without choices it is the result.
    let last = otherwise.into_var(dtype, at);
    let Some((condition, x)) = rest.next() else { return last };
    trace::within("select_first", || {
        let first = choose(*condition, *x, last, at);
        rest.fold(first, |y, (condition, x)| choose(*condition, *x, y, at))
    })
}

/// Returns, for each element i of `index`, the corresponding element of `choices[i]`, where i is clamped to the
/// range of choices (numpy's `choose` with `mode="clip"`). All arrays are broadcast together.
///
/// Errors: `shape` if there are no choices; `dtype` if the index is not an integer.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |(i, x, y): (Var, Var, Var)| select_nth(i, &[x, y]);
/// let y = run(f, ([1i64, 0], [1.0, 2.0], [10.0, 20.0]))?;
/// assert_eq!(y.to_vec::<f64>()?, [10.0, 2.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "choose")]
#[track_caller]
pub fn select_nth(index: Var, choices: &[Var]) -> Var {
    let at = caller();
    let Some((last, rest)) = choices.split_last() else {
        let problem = Problem::new(
            Kind::Shape,
            "`select_nth` of no arrays: the result would have no dtype",
            "give at least one array",
        );
        return wrong(problem, &[index], index.ty(at), at);
    };
    let index = of_integers("select_nth", [index], at, |[i]| i);
    let number = |i: usize| (i as i64).beside(index, at);
    trace::within("select_nth", || {
        let one =
            |y, (i, x): (usize, &Var)| choose(binary(Scalar::Le, index, number(i), at), *x, y, at);
        rest.iter().enumerate().rev().fold(*last, one)
    })
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
            crate::dtype::conversions(tx.dtype, ty.dtype),
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
    ($($trait:ident $method:ident $sign:literal $op:ident $($alias:literal)+),*) => {$(
        impl<T: IntoVar> ops::$trait<T> for Var {
            type Output = Var;
            $(#[doc(alias = $alias)])+
            #[track_caller]
            fn $method(self, y: T) -> Var {
                let at = caller();
                let y = y.beside(self, at);
                trace::within($sign, || binary(Scalar::$op, self, y, at))
            }
        }
    )*};
}
logic!(
    BitAnd bitand "&" And "logical_and" "bitwise_and",
    BitOr bitor "|" Or "logical_or" "bitwise_or",
    BitXor bitxor "^" Xor "logical_xor" "bitwise_xor",
    Shl shl "<<" ShiftLeft "left_shift"
);

impl<T: IntoVar> ops::Shr<T> for Var {
    type Output = Var;
    /// Shifts right. For signed integers, the sign bit is replicated, as in Rust's `>>`.
    #[doc(alias = "right_shift")]
    #[track_caller]
    fn shr(self, y: T) -> Var {
        let at = caller();
        let dtype = self.ty(at).dtype;
        let op = if dtype.is_signed() {
            Scalar::ShiftRightArithmetic
        } else {
            Scalar::ShiftRightLogical
        };
        let y = y.into_var(dtype, at);
        trace::within(">>", || binary(op, self, y, at))
    }
}

impl ops::Not for Var {
    type Output = Var;
    #[doc(alias = "logical_not")]
    #[doc(alias = "bitwise_not")]
    #[doc(alias = "invert")]
    #[track_caller]
    fn not(self) -> Var {
        let at = caller();
        trace::within("!", || emit(Scalar::Not, &[self], at))
    }
}
